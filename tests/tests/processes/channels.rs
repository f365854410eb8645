//! Channels between processes, by CANN's C functions.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::operator::*;
use ascend_emulator_testing::ranks::{Rank, patient};
use ascend_emulator_testing::{call, hccl, issue, ok};
use ascend_sys::*;

use crate::ranks::{Place, run};

/// Two processes, and two threads of one process, which must behave the same.
const MIXES: [&[u32]; 2] = [&[1, 1], &[2]];
const BYTES: usize = 8192;

/// Makes a rank for the C functions, in a communicator of all ranks.
pub fn joined(place: &Place) -> Rank {
    joined_on(place, place.device.id())
}

pub fn joined_on(place: &Place, device: i32) -> Rank {
    ok!(aclrtSetDevice(device));
    let mut info = HcclRootInfo::default();
    for (to, byte) in info.internal.iter_mut().zip(place.root().to_bytes()) {
        *to = *byte as c_char;
    }
    let stream = common::stream();
    let (rank, ranks) = (place.rank, place.ranks);
    let mut rank = Rank { rank, ranks, device, info, comm: null_mut(), stream };
    rank.join();
    rank
}

/// A channel to the other rank, over which each rank reaches a registered buffer of the other one.
pub struct Connected {
    pub channel: ChannelHandle,
    pub own: *mut c_void,
    pub theirs: *mut c_void,
}

impl Connected {
    pub fn with(rank: &Rank, bytes: usize) -> Connected {
        let own = upload(&vec![rank.rank as u8 + 1; bytes]);
        let kind = CommMemType::COMM_MEM_TYPE_DEVICE;
        let memory = CommMem { type_: kind, addr: own, size: bytes as u64 };
        let mut handle = null_mut();
        hccl!(HcclCommMemReg(rank.comm, c"weights".as_ptr(), &memory, &mut handle));
        let mut desc = desc(1 - rank.rank, HCCS, 2);
        (desc.memHandles, desc.memHandleNum) = (&raw mut handle, 1);
        let channel = channels(rank, AIV, &[desc])[0];
        let (mut count, mut memories, mut tags) = (0, null_mut(), null_mut());
        hccl!(HcclChannelGetRemoteMems(rank.comm, channel, &mut count, &mut memories, &mut tags));
        assert_eq!(count, 2);
        // SAFETY: both are arrays of two entries that live as long as the channel.
        let (theirs, tag) = unsafe { ((*memories.add(1)).addr, CStr::from_ptr(*tags.add(1))) };
        assert_eq!(tag, c"weights");
        Connected { channel, own, theirs }
    }
}

/// Returns the code and the text of an attempt to free memory.
fn freed(memory: *mut c_void) -> (aclError, String) {
    freed_by(|| call!(aclrtFree(memory)))
}

/// Returns the code and the error text of any call that frees.
pub fn freed_by(free: impl FnOnce() -> aclError) -> (aclError, String) {
    let _ = common::message();
    (free(), common::message())
}

#[test]
fn ends_with_different_notifies_fail_on_both_sides_and_the_next_try_succeeds() {
    for each in MIXES {
        const NAME: &str =
            "channels::ends_with_different_notifies_fail_on_both_sides_and_the_next_try_succeeds";
        run(NAME, each, |place| {
            let rank = joined(&place);
            let peer = 1 - rank.rank;
            let wrong = desc(peer, HCCS, 2 + rank.rank);
            let mut channel = 0;
            let _ = common::message();
            let code = call!(HcclChannelAcquire(rank.comm, CPU, &wrong, 1, &mut channel));
            let text = common::message();
            assert_eq!(code, HcclResult::HCCL_E_PARA, "{text}");
            for piece in ["EI0005", "notifyNum 2", "notifyNum 3"] {
                assert!(text.contains(piece), "{piece} is not in: {text}");
            }
            channels(&rank, CPU, &[desc(peer, HCCS, 2)]);
            meet(&rank);
        });
    }
}

#[test]
fn memory_that_a_peer_reaches_is_freed_after_the_communicator() {
    const NAME: &str = "channels::memory_that_a_peer_reaches_is_freed_after_the_communicator";
    run(NAME, &[1, 1], |place| {
        let rank = joined(&place);
        let Connected { channel, own, theirs } = Connected::with(&rank, BYTES);
        let (code, text) = freed(own);
        assert_ne!(code, 0);
        let piece = format!("rank {}, in another process, reaches it", 1 - rank.rank);
        assert!(text.contains(&piece), "{text}");
        // The refused call has not changed anything.
        let output = common::malloc(BYTES);
        let thread = threads(&rank, CPU_TS, 1, 0)[0];
        issue!(HcommReadOnThread(thread, channel, output, theirs, BYTES as u64));
        meet(&rank);
        assert_eq!(common::read(output, BYTES), vec![2 - rank.rank as u8; BYTES]);
        hccl!(HcclCommDestroy(rank.comm));
        // The peer has to end its side of the channel, too.
        let since = Instant::now();
        loop {
            match freed(own) {
                (0, _) => break,
                (_, text) => assert!(since.elapsed() < Duration::from_secs(60), "{text}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
}

const LARGE: usize = 256 << 20;

/// Lets the peer write to all of the memory again and again until it gets an error because `end`
/// has ended the device. The write that runs at that moment must not change memory that is
/// allocated later.
fn write_while_the_device_ends(place: &Place, device: i32, end: impl FnOnce() -> i32) {
    let rank = joined_on(place, device);
    let Connected { channel, theirs, .. } = Connected::with(&rank, LARGE);
    let source = upload(&vec![7; LARGE]);
    let thread = threads(&rank, CPU_TS, 1, 0)[0];
    meet(&rank);
    if rank.rank == 0 {
        // By then the peer is in a write.
        std::thread::sleep(Duration::from_millis(30));
        let device = end();
        ok!(aclrtSetDevice(device));
        // The new memory is as large as before. Its last bytes are written before a write of the
        // peer can get there.
        let fresh: Vec<*mut c_void> = (0..4).map(|_| common::malloc(LARGE)).collect();
        let last = |memory: &*mut c_void| at(*memory, LARGE - BYTES);
        fresh.iter().for_each(|memory| common::write(last(memory), &[9; BYTES]));
        // The peer joins after the end of its writes.
        let again = joined_on(place, device);
        meet(&again);
        for memory in fresh {
            assert!(common::read(last(&memory), BYTES) == [9; BYTES]);
            ok!(aclrtFree(memory));
        }
        meet(&again);
    } else {
        let since = Instant::now();
        let mut writes = 0;
        loop {
            let bytes = LARGE as u64;
            let issued = call!(HcommWriteOnThread(thread, channel, theirs, source, bytes));
            let done = call!(aclrtSynchronizeDevice());
            let text = common::message();
            assert!(writes > 0 || issued == 0, "{issued}: {text}");
            if issued != 0 || done != 0 {
                break;
            }
            writes += 1;
            assert!(since.elapsed() < Duration::from_secs(60), "{writes} writes");
        }
        let again = joined_on(place, device);
        meet(&again);
        meet(&again);
    }
}

#[test]
fn memory_of_a_reset_device_is_reused_when_no_peer_reaches_it_any_more() {
    const NAME: &str =
        "channels::memory_of_a_reset_device_is_reused_when_no_peer_reaches_it_any_more";
    run(NAME, &[1, 1], |place| {
        let device = place.device.id();
        write_while_the_device_ends(&place, device, || {
            ok!(aclrtResetDeviceForce(device));
            device
        });
    });
}

#[test]
fn memory_of_a_destroyed_block_is_reused_when_no_peer_reaches_it_any_more() {
    const NAME: &str =
        "channels::memory_of_a_destroyed_block_is_reused_when_no_peer_reaches_it_any_more";
    run(NAME, &[1, 1], |place| {
        let block = || Block::with(AscendExtBlockConfig { memoryBytes: 3 << 30, ..patient(2) });
        let (first, mut second) = (block(), None);
        let device = first.first + place.rank as i32;
        write_while_the_device_ends(&place, device, || {
            drop(first);
            second.insert(block()).first
        });
    });
}

/// Checks the HCCL buffer, which lives longer than the reset, because the peer reaches it. When the
/// buffer ends later, it must free nothing else.
#[test]
fn the_late_end_of_a_buffer_frees_no_memory_that_came_after_a_reset() {
    const NAME: &str = "channels::the_late_end_of_a_buffer_frees_no_memory_that_came_after_a_reset";
    run(NAME, &[1, 1], |place| {
        let rank = joined(&place);
        let _ = Connected::with(&rank, BYTES);
        meet(&rank);
        if rank.rank == 0 {
            ok!(aclrtResetDeviceForce(rank.device));
            ok!(aclrtSetDevice(rank.device));
            let large = (64 << 30, 1 << 20);
            let room = |bytes: usize| {
                let mut memory = null_mut();
                let policy = aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST;
                (call!(aclrtMalloc(&mut memory, bytes, policy)) == 0).then_some(memory)
            };
            // These allocations take all memory, in pieces.
            let (mut bytes, least): (usize, usize) = large;
            let mut fresh = Vec::new();
            while bytes >= least {
                match room(bytes) {
                    Some(memory) => fresh.push(memory),
                    None => bytes /= 2,
                }
            }
            let again = joined(&place);
            // When both have met, the peer has ended the old communicator.
            meet(&again);
            meet(&again);
            std::thread::sleep(Duration::from_millis(50));
            for memory in fresh {
                ok!(aclrtFree(memory));
            }
            meet(&again);
        } else {
            let again = joined(&place);
            meet(&again);
            let _ = call!(HcclCommDestroy(rank.comm));
            meet(&again);
            meet(&again);
        }
    });
}
