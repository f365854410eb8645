//! The common parts of the operator tests: threads, channels and memory of a rank.

use crate::common::{self, Block};
use crate::ranks::{Rank, on_block};
use crate::{hccl, ok};
use ascend_sys::*;
use std::ffi::c_void;

pub const CPU_TS: CommEngine = CommEngine::COMM_ENGINE_CPU_TS;
pub const CPU: CommEngine = CommEngine::COMM_ENGINE_CPU;
pub const AICPU: CommEngine = CommEngine::COMM_ENGINE_AICPU;
pub const AICPU_TS: CommEngine = CommEngine::COMM_ENGINE_AICPU_TS;
pub const AIV: CommEngine = CommEngine::COMM_ENGINE_AIV;
pub const CCU: CommEngine = CommEngine::COMM_ENGINE_CCU;
pub const HCCS: CommProtocol = CommProtocol::COMM_PROTOCOL_HCCS;
pub const ROCE: CommProtocol = CommProtocol::COMM_PROTOCOL_ROCE;
pub const UB_CTP: CommProtocol = CommProtocol::COMM_PROTOCOL_UB_CTP;

/// A time limit in seconds that no wait of a test reaches.
pub const LONG: u32 = 1836;

/// The numbers of the products in `AscendExtBlockConfig`.
pub const PRODUCTS: [u32; 3] = [2, 3, 950];

/// Calls a primitive that must succeed.
#[macro_export]
macro_rules! issue {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let code = $crate::call!($name($($argument),*));
        assert_eq!(code, 0, "{}: {}", stringify!($name), $crate::common::message());
    }};
}

/// Calls a primitive that must fail with a code and a text that contains all the given pieces.
#[macro_export]
macro_rules! not_issued {
    ($code:ident, [$($piece:expr),*], $name:ident($($argument:expr),* $(,)?)) => {{
        let _ = $crate::common::message();
        let code = $crate::call!($name($($argument),*));
        let text = $crate::common::message();
        let expected = ascend_sys::HcclResult::$code.0 as i32;
        assert_eq!(code, expected, "{}: {text}", stringify!($name));
        $(assert!(text.contains($piece), "{:?} is not in: {text}", $piece);)*
    }};
}

/// Returns the configuration of a product's devices, with room for the communication buffers of a
/// few communicators.
pub fn block(product: u32, ranks: u32) -> AscendExtBlockConfig {
    AscendExtBlockConfig { product, deviceCount: ranks, memoryBytes: 2 << 30, ..Block::config() }
}

/// Calls `run` on a thread for each rank of one communicator.
pub fn on_product<R: Send>(
    product: u32,
    ranks: u32,
    run: impl Fn(&mut Rank) -> R + Sync,
) -> Vec<R> {
    on_block(block(product, ranks), |rank| {
        rank.join();
        let result = run(rank);
        hccl!(HcclCommDestroy(rank.comm));
        result
    })
}

/// Returns the protocol that every engine of host threads uses on this product.
pub fn protocol_of(product: u32) -> CommProtocol {
    if product == 950 { ROCE } else { HCCS }
}

pub fn threads(rank: &Rank, engine: CommEngine, count: u32, notifies: u32) -> Vec<ThreadHandle> {
    let mut threads = vec![0; count as usize];
    hccl!(HcclThreadAcquire(rank.comm, engine, count, notifies, threads.as_mut_ptr()));
    threads
}

/// Returns the thread on the rank's stream.
pub fn stream_thread(rank: &Rank, notifies: u32) -> ThreadHandle {
    let mut thread = 0;
    hccl!(HcclThreadAcquireWithStream(rank.comm, CPU_TS, rank.stream, notifies, &mut thread));
    thread
}

pub fn desc(remote: u32, protocol: CommProtocol, notifies: u32) -> HcclChannelDesc {
    let mut desc = HcclChannelDesc::unset();
    desc.remoteRank = remote;
    desc.channelProtocol = protocol;
    desc.notifyNum = notifies;
    desc
}

pub fn channels(rank: &Rank, engine: CommEngine, descs: &[HcclChannelDesc]) -> Vec<ChannelHandle> {
    let mut channels = vec![0; descs.len()];
    let count = descs.len() as u32;
    hccl!(HcclChannelAcquire(rank.comm, engine, descs.as_ptr(), count, channels.as_mut_ptr()));
    channels
}

/// Returns the rank's HCCL buffer.
pub fn buffer(rank: &Rank) -> (*mut c_void, u64) {
    let (mut address, mut size) = (std::ptr::null_mut(), 0);
    hccl!(HcclGetHcclBuffer(rank.comm, &mut address, &mut size));
    (address, size)
}

/// Returns the peer's HCCL buffer.
pub fn remote_buffer(rank: &Rank, channel: ChannelHandle) -> (*mut c_void, u64) {
    let (mut address, mut size) = (std::ptr::null_mut(), 0);
    hccl!(HcclChannelGetHcclBuffer(rank.comm, channel, &mut address, &mut size));
    (address, size)
}

pub fn at(address: *mut c_void, offset: usize) -> *mut c_void {
    address.wrapping_byte_add(offset)
}

/// Calls `run` for every product, all at the same time. This is for tests that mostly wait.
pub fn on_each_product(run: impl Fn(u32) + Sync) {
    std::thread::scope(|scope| {
        for product in PRODUCTS {
            let run = &run;
            scope.spawn(move || run(product));
        }
    });
}

/// Waits until all work on the rank's device is complete.
pub fn finish(_: &Rank) {
    ok!(aclrtSynchronizeDevice());
}

/// Waits until all work on all ranks is complete.
pub fn meet(rank: &Rank) {
    finish(rank);
    hccl!(HcclBarrier(rank.comm, rank.stream));
    finish(rank);
}

/// Issues in batch mode, as a kernel on the product's AI CPU or the host would do it.
pub fn in_batch(run: impl FnOnce()) {
    crate::issue!(HcommBatchModeStart(c"test".as_ptr()));
    run();
    crate::issue!(HcommBatchModeEnd(c"test".as_ptr()));
}

/// Returns device memory that holds these bytes.
pub fn upload(bytes: &[u8]) -> *mut c_void {
    let memory = common::malloc(bytes.len());
    common::write(memory, bytes);
    memory
}
