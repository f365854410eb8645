//! Ranks for tests: each with one thread and one device, and a communicator of all.

pub mod values;

use crate::common::{self, Block, D2H, H2D};
use crate::{call, ok};
use ascend_sys::*;
use std::ffi::{CStr, c_char, c_void};

pub const SUCCESS: HcclResult = HcclResult::HCCL_SUCCESS;
pub const FP32: HcclDataType = HcclDataType::HCCL_DATA_TYPE_FP32;
pub const INT32: HcclDataType = HcclDataType::HCCL_DATA_TYPE_INT32;
pub const SUM: HcclReduceOp = HcclReduceOp::HCCL_REDUCE_SUM;
pub const MAX: HcclReduceOp = HcclReduceOp::HCCL_REDUCE_MAX;

/// Calls a function of HCCL that must succeed.
#[macro_export]
macro_rules! hccl {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let code = $crate::call!($name($($argument),*));
        assert_eq!(code.0, 0, "{}: {}", stringify!($name), $crate::common::message());
    }};
}

/// Calls a function of HCCL that must fail with a code and a text that contains all the given
/// pieces.
#[macro_export]
macro_rules! refuses {
    ($code:ident, [$($piece:expr),*], $name:ident($($argument:expr),* $(,)?)) => {{
        let _ = $crate::common::message();
        let code = $crate::call!($name($($argument),*));
        let text = $crate::common::message();
        assert_eq!(code, ascend_sys::HcclResult::$code, "{}: {text}", stringify!($name));
        $(assert!(text.contains($piece), "{:?} is not in: {text}", $piece);)*
    }};
}

/// Returns whether to test everything instead of a quick sample.
pub fn full() -> bool {
    std::env::var_os("HCCL_TEST_FULL").is_some_and(|value| value == "1")
}

/// Returns whether the program runs under a tool that makes it slow (`HCCL_TEST_SLOW=1`). Then
/// random tests take fewer rounds and large ones fewer bytes: only the values differ from round to
/// round.
pub fn slow() -> bool {
    std::env::var_os("HCCL_TEST_SLOW").is_some_and(|value| value == "1")
}

/// Returns a configuration of devices that wait as long as CANN's do. They are for errors that must
/// be reported without a time limit, however slow the machine is.
pub fn patient(ranks: u32) -> AscendExtBlockConfig {
    AscendExtBlockConfig { deviceCount: ranks, ..Block::config() }
}

/// Returns a configuration of devices with a short wait, for errors that a time limit reports.
pub fn impatient(ranks: u32) -> AscendExtBlockConfig {
    AscendExtBlockConfig { connectTimeoutMs: 1000, execTimeoutMs: 1000, ..patient(ranks) }
}

/// Returns the time limit, in milliseconds, of tests in which one rank does not come. All other
/// ranks have come long before it ends, also on a busy machine.
pub fn limit() -> u32 {
    if slow() { 20_000 } else { 5000 }
}

/// Returns a configuration of devices that soon report a rank which does not join or does not come
/// to a first operation. Later they wait as long as CANN's do.
pub fn impatient_to_meet(ranks: u32) -> AscendExtBlockConfig {
    AscendExtBlockConfig { connectTimeoutMs: limit(), ..patient(ranks) }
}

/// Returns a configuration of devices that wait for a first meeting as long as CANN's do, but then
/// soon report a rank that does not come to an operation.
pub fn impatient_once_linked(ranks: u32) -> AscendExtBlockConfig {
    AscendExtBlockConfig { execTimeoutMs: limit(), ..patient(ranks) }
}

pub fn root_info() -> HcclRootInfo {
    let mut info = HcclRootInfo::default();
    hccl!(HcclGetRootInfo(&mut info));
    info
}

/// Returns a configuration with a name, as `HcclCommConfigInit` makes it.
pub fn config(name: &str) -> HcclCommConfig {
    // SAFETY: all zeros are valid for plain integers and arrays.
    let mut config: HcclCommConfig = unsafe { std::mem::zeroed() };
    let bytes: &mut [u8; size_of::<HcclCommConfig>()] =
        // SAFETY: the struct is plain data, seen as bytes.
        unsafe { &mut *(&raw mut config).cast() };
    bytes[..8].copy_from_slice(&(size_of::<HcclCommConfig>() as u64).to_ne_bytes());
    bytes[8..12].copy_from_slice(&0xf0f0_f0f0u32.to_ne_bytes());
    bytes[12..16].copy_from_slice(&11u32.to_ne_bytes());
    bytes[24..32].fill(0xff);
    bytes[32..32 + name.len()].copy_from_slice(name.as_bytes());
    bytes[292..300].fill(0xff);
    bytes[316..320].fill(0xff);
    bytes[2228..2232].fill(0xff);
    config
}

/// Returns the code and the text of a call of the last group.
pub fn group_result(index: u32) -> (u32, String) {
    let mut code = HcclResult(99);
    let mut text = [0 as c_char; 2000];
    hccl!(ascendExtGroupResult(index, &mut code, text.as_mut_ptr(), text.len()));
    let bytes = text.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8);
    (code.0, String::from_utf8(bytes.collect()).unwrap())
}

pub fn name_of(comm: HcclComm) -> String {
    let mut name = [0 as c_char; 128];
    hccl!(HcclGetCommName(comm, name.as_mut_ptr()));
    // SAFETY: the function has written a NUL-terminated name.
    unsafe { CStr::from_ptr(name.as_ptr()) }.to_str().unwrap().to_owned()
}

/// One rank. Its device is set in its thread.
pub struct Rank {
    pub rank: u32,
    pub ranks: u32,
    pub device: i32,
    pub info: HcclRootInfo,
    pub comm: HcclComm,
    pub stream: aclrtStream,
}

impl Rank {
    /// Sets the device and makes a stream. The communicator is made later.
    pub fn without_comm(block: &Block, info: &HcclRootInfo, rank: u32, ranks: u32) -> Rank {
        let device = block.first + rank as i32;
        ok!(aclrtSetDevice(device));
        let comm = std::ptr::null_mut();
        Rank { rank, ranks, device, info: *info, comm, stream: common::stream() }
    }

    pub fn join(&mut self) {
        hccl!(HcclCommInitRootInfo(self.ranks, &self.info, self.rank, &mut self.comm));
    }

    /// Returns device memory that holds these bytes.
    pub fn upload(&self, bytes: &[u8]) -> *mut c_void {
        let buffer = common::malloc(bytes.len().max(1));
        if !bytes.is_empty() {
            let length = bytes.len();
            ok!(aclrtMemcpy(buffer, length, bytes.as_ptr().cast(), length, H2D));
        }
        buffer
    }

    pub fn download(&self, buffer: *mut c_void, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        if length > 0 {
            ok!(aclrtMemcpy(bytes.as_mut_ptr().cast(), length, buffer, length, D2H));
        }
        bytes
    }

    pub fn free(&self, buffer: *mut c_void) {
        ok!(aclrtFree(buffer));
    }

    pub fn sync(&self) {
        ok!(aclrtSynchronizeStream(self.stream));
    }

    /// Synchronises a stream that must have failed, and returns the code and the text.
    pub fn sync_fails(&self) -> (aclError, String) {
        let _ = common::message();
        let code = call!(aclrtSynchronizeStream(self.stream));
        (code, common::message())
    }
}

/// Calls `run` on a thread for each of `ranks` ranks of one communicator on a block of its own.
/// Returns the results.
pub fn on_ranks<R: Send>(ranks: u32, run: impl Fn(&mut Rank) -> R + Sync) -> Vec<R> {
    on_block(patient(ranks), |rank| {
        rank.join();
        let result = run(rank);
        hccl!(HcclCommDestroy(rank.comm));
        result
    })
}

/// Calls `run` on a thread for each device of a block with this configuration, and returns the
/// results. The ranks have no communicator.
pub fn on_block<R: Send>(
    config: AscendExtBlockConfig,
    run: impl Fn(&mut Rank) -> R + Sync,
) -> Vec<R> {
    let ranks = config.deviceCount;
    let block = Block::with(config);
    let info = root_info();
    std::thread::scope(|scope| {
        let spawn = |rank| {
            let (block, info, run) = (&block, &info, &run);
            scope.spawn(move || run(&mut Rank::without_comm(block, info, rank, ranks)))
        };
        let threads: Vec<_> = (0..ranks).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
