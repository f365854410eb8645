//! Tests of a custom operator from its first call to its last, as in CANN's guide: the first call
//! makes threads, channels and contexts, and the later calls find them. The host only starts the
//! main thread and waits for it.

use ascend_emulator_testing::common;
use ascend_emulator_testing::operator::*;
use ascend_emulator_testing::ranks::{self, Rank};
use ascend_emulator_testing::{call, hccl, issue, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

const RANKS: usize = 3;
/// The number of bytes of each rank's input.
const BYTES: usize = 5000;
const TAG: *const std::ffi::c_char = c"all_gather".as_ptr();

// The notifies of each channel: ACK says that the buffer may be written, and DATA that it was
// written.
const ACK: u32 = 0;
const DATA: u32 = 1;

/// The resources of the device side. They are made once and stored in a context in device memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Resources {
    rank: u64,
    /// The threads: one for each peer. The first one is the main thread.
    threads: [u64; RANKS - 1],
    channels: [u64; RANKS - 1],
    buffer: u64,
    peers: [u64; RANKS - 1],
}

/// The resources of the host side, which are stored in a context in host memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
struct HostSide {
    main: u64,
}

/// The notify with which the host starts the main thread. Its number follows those of the notifies
/// that the other threads record.
const START: u32 = RANKS as u32 - 2;

fn peers(rank: u64) -> impl Iterator<Item = u32> {
    (0..RANKS as u32).filter(move |peer| u64::from(*peer) != rank)
}

/// Returns the description of a channel for the product. On a 950 the endpoints come from a link of
/// the rank graph.
fn describe(rank: &Rank, product: u32, peer: u32) -> HcclChannelDesc {
    let mut desc = desc(peer, if product == 950 { UB_CTP } else { HCCS }, 3);
    if product == 950 {
        let (mut links, mut count) = (null_mut::<CommLink>(), 0);
        hccl!(HcclRankGraphGetLinks(rank.comm, 0, rank.rank, peer, &mut links, &mut count));
        // SAFETY: the library has returned the start and the number of the links.
        let links = unsafe { std::slice::from_raw_parts(links, count as usize) };
        let link = links.iter().find(|link| link.srcEndpointDesc.protocol == UB_CTP).unwrap();
        (desc.localEndpoint, desc.remoteEndpoint) = (link.srcEndpointDesc, link.dstEndpointDesc);
    }
    desc
}

/// Makes the resources in the first call of the operator, which waits for the peers.
fn make(rank: &Rank, product: u32) {
    let main_notifies = RANKS as u32 - 2;
    let own = threads(rank, AICPU_TS, RANKS as u32 - 1, main_notifies + 1);
    let mut main = 0;
    hccl!(HcclThreadExportToCommEngine(rank.comm, 1, &own[0], CPU_TS, &mut main));
    let me = u64::from(rank.rank);
    let descs: Vec<_> = peers(me).map(|peer| describe(rank, product, peer)).collect();
    let made = channels(rank, AICPU_TS, &descs);
    let resources = Resources {
        rank: me,
        threads: own.try_into().unwrap(),
        buffer: buffer(rank).0 as u64,
        peers: std::array::from_fn(|at| remote_buffer(rank, made[at]).0 as u64),
        channels: made.try_into().unwrap(),
    };
    keep(rank, AICPU_TS, &resources);
    keep(rank, CPU_TS, &HostSide { main });
}

fn keep<T>(rank: &Rank, engine: CommEngine, value: &T) {
    let (mut context, size) = (null_mut(), size_of::<T>() as u64);
    hccl!(HcclEngineCtxCreate(rank.comm, TAG, engine, size, &mut context));
    let from = std::ptr::from_ref(value).cast();
    hccl!(HcclEngineCtxCopy(rank.comm, engine, TAG, from, size, 0));
}

/// Returns the context of an engine, or none if the operator was not called before.
fn kept(rank: &Rank, engine: CommEngine) -> Option<*mut c_void> {
    let (mut context, mut size) = (null_mut(), 0);
    let code = call!(HcclEngineCtxGet(rank.comm, TAG, engine, &mut context, &mut size));
    match code {
        HcclResult::HCCL_SUCCESS => Some(context),
        HcclResult::HCCL_E_NOT_FOUND => None,
        other => panic!("{}: {}", other.0, common::message()),
    }
}

/// Calls the operator once, and returns the resources that it uses.
fn all_gather(rank: &Rank, product: u32, input: *mut c_void, output: *mut c_void) -> Resources {
    // Each call may use another stream.
    let host = stream_thread(rank, 1);
    let mut host_there = 0;
    hccl!(HcclThreadExportToCommEngine(rank.comm, 1, &host, AICPU_TS, &mut host_there));
    if kept(rank, AICPU_TS).is_none() {
        make(rank, product);
    }
    let context = kept(rank, AICPU_TS).unwrap();
    // SAFETY: the host context contains one `HostSide`.
    let HostSide { main } = unsafe { kept(rank, CPU_TS).unwrap().cast::<HostSide>().read() };
    issue!(HcommThreadNotifyRecordOnThread(host, main, START));
    let resources = kernel(context, host_there, input, output);
    issue!(HcommThreadNotifyWaitOnThread(host, 0, LONG));
    resources
}

/// Runs the device side of the operator: it issues tasks and waits for none of them.
fn kernel(
    context: *mut c_void,
    host: ThreadHandle,
    input: *mut c_void,
    output: *mut c_void,
) -> Resources {
    let bytes = common::read(context, size_of::<Resources>());
    // SAFETY: the fields are plain numbers, and the bytes of the context are those of one
    // `Resources`.
    let resources = unsafe { bytes.as_ptr().cast::<Resources>().read_unaligned() };
    let Resources { rank, threads, channels, buffer, peers: remote } = resources;
    let slot = |buffer: u64, rank: u64| at(buffer as *mut c_void, rank as usize * BYTES);
    let (main, size) = (threads[0], BYTES as u64);
    in_batch(|| {
        issue!(HcommThreadNotifyWaitOnThread(main, START, LONG));
        issue!(HcommLocalCopyOnThread(main, slot(buffer, rank), input, size));
        for sub in &threads[1..] {
            issue!(HcommThreadNotifyRecordOnThread(main, *sub, 0));
            issue!(HcommThreadNotifyWaitOnThread(*sub, 0, LONG));
        }
        for (index, thread) in threads.into_iter().enumerate() {
            let (channel, theirs) = (channels[index], slot(remote[index], rank));
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, ACK));
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, ACK, LONG));
            issue!(HcommWriteOnThread(thread, channel, theirs, slot(buffer, rank), size));
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, DATA));
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, DATA, LONG));
        }
        for (sub, notify) in threads[1..].iter().zip(0..) {
            issue!(HcommThreadNotifyRecordOnThread(*sub, main, notify));
            issue!(HcommThreadNotifyWaitOnThread(main, notify, LONG));
        }
        issue!(HcommLocalCopyOnThread(main, output, slot(buffer, 0), size * RANKS as u64));
        issue!(HcommThreadNotifyRecordOnThread(main, host, 0));
    });
    resources
}

fn input(rank: u32, call: u8) -> Vec<u8> {
    (0..BYTES).map(|at| (at % 251) as u8 ^ (rank as u8 * 16 + call)).collect()
}

#[test]
fn the_first_call_makes_what_the_later_ones_find() {
    for product in PRODUCTS {
        on_product(product, RANKS as u32, |rank| {
            let output = common::malloc(BYTES * RANKS);
            let mut first = None;
            // If each call made its own threads, this number of calls would exceed the number of
            // threads that a communicator may have.
            for call in 0..120 {
                let own = upload(&input(rank.rank, call));
                let resources = all_gather(rank, product, own, output);
                // The operator is queued in the stream like any other work, so waiting for the
                // stream waits for the operator.
                rank.sync();
                let expected: Vec<_> = (0..RANKS as u32).flat_map(|of| input(of, call)).collect();
                assert!(common::read(output, BYTES * RANKS) == expected, "call {call}");
                assert_eq!(*first.get_or_insert(resources), resources);
                ok!(aclrtFree(own));
            }
        });
    }
}

#[test]
fn the_operator_is_free_of_races() {
    for product in PRODUCTS {
        let check = AscendExtCheck::ASCEND_EXT_CHECK_RACES.0;
        let config = AscendExtBlockConfig { check, ..block(product, RANKS as u32) };
        ranks::on_block(config, |rank| {
            rank.join();
            let output = common::malloc(BYTES * RANKS);
            for call in 0..3 {
                let own = upload(&input(rank.rank, call));
                all_gather(rank, product, own, output);
                rank.sync();
                ok!(aclrtFree(own));
            }
            hccl!(HcclCommDestroy(rank.comm));
            let mut count = 0;
            ok!(ascendExtFindings(block_of(rank), &mut count));
            assert_eq!(count, 0, "{product}");
        });
    }
}

/// Returns the number of a rank's block, which is the superpod index of its endpoint.
fn block_of(rank: &Rank) -> u32 {
    let mut count = 0;
    issue!(HcommEndpointGetDescNum(rank.device, &mut count));
    let mut all = vec![EndpointDesc::default(); count as usize];
    issue!(HcommEndpointGetDescs(rank.device, &mut count, all.as_mut_ptr()));
    // SAFETY: the library has set this member of the union.
    unsafe { all[0].loc.anon_1.device }.superPodIdx
}
