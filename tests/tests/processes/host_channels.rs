//! Host memory over channels of operators between processes, which must work as between threads.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::operator::*;
use ascend_emulator_testing::ranks::{Rank, patient};
use ascend_emulator_testing::{call, hccl, issue, ok, refuses};
use ascend_sys::*;

use crate::channels::{freed_by, joined};
use crate::ranks::run;

/// Two processes, and two threads of one process, which must behave the same.
const MIXES: [&[u32]; 2] = [&[1, 1], &[2]];
/// A length of more than a page, and not a whole number of pages.
const BYTES: usize = 3 * 4096 + 100;

/// Pinned memory of the emulator.
struct Pinned {
    memory: *mut c_void,
    bytes: usize,
}

impl Pinned {
    fn new(bytes: usize) -> Pinned {
        Pinned { memory: common::malloc_host(bytes), bytes }
    }

    fn fill(&self, value: u8) {
        // SAFETY: this is memory of this process with `self.bytes` bytes.
        unsafe { self.memory.cast::<u8>().write_bytes(value, self.bytes) };
    }

    fn bytes(&self) -> Vec<u8> {
        bytes_at(self.memory, self.bytes)
    }
}

/// Returns the bytes of host memory as the program reads them.
fn bytes_at(memory: *const c_void, bytes: usize) -> Vec<u8> {
    let mut all = vec![0; bytes];
    // SAFETY: the callers give host memory with `bytes` bytes, which no thread writes meanwhile.
    unsafe { std::ptr::copy_nonoverlapping(memory.cast(), all.as_mut_ptr(), bytes) };
    all
}

fn register(rank: &Rank, tag: &CStr, memory: *mut c_void, bytes: usize) -> HcclMemHandle {
    let kind = CommMemType::COMM_MEM_TYPE_HOST;
    let memory = CommMem { type_: kind, addr: memory, size: bytes as u64 };
    let mut handle = null_mut();
    hccl!(HcclCommMemReg(rank.comm, tag.as_ptr(), &memory, &mut handle));
    handle
}

/// Returns a channel to the other rank over which each rank reaches host memory of the other one,
/// and the address of that memory in this process.
fn connected(rank: &Rank, own: &Pinned) -> (ChannelHandle, *mut c_void) {
    let mut handle = register(rank, c"host", own.memory, own.bytes);
    let mut desc = desc(1 - rank.rank, HCCS, 2);
    (desc.memHandles, desc.memHandleNum) = (&raw mut handle, 1);
    let channel = channels(rank, AIV, &[desc])[0];
    let (mut count, mut memories, mut tags) = (0, null_mut(), null_mut());
    hccl!(HcclChannelGetRemoteMems(rank.comm, channel, &mut count, &mut memories, &mut tags));
    assert_eq!(count, 2);
    // SAFETY: this is an array of two entries that lives as long as the channel.
    let theirs = unsafe { *memories.add(1) };
    assert_eq!(theirs.type_, CommMemType::COMM_MEM_TYPE_HOST);
    assert_eq!(theirs.size, own.bytes as u64);
    (channel, theirs.addr)
}

#[test]
fn host_memory_of_the_peer_is_read_written_and_reduced_over_a_channel() {
    for each in MIXES {
        const NAME: &str =
            "host_channels::host_memory_of_the_peer_is_read_written_and_reduced_over_a_channel";
        run(NAME, each, |place| {
            let rank = joined(&place);
            let (me, other) = (rank.rank as u8 + 1, 2 - rank.rank as u8);
            // The memory is a part of an allocation, and begins in the middle of a page.
            let whole = Pinned::new(2 * BYTES);
            let own = Pinned { memory: at(whole.memory, 320), bytes: BYTES };
            whole.fill(99);
            own.fill(me);
            let (channel, theirs) = connected(&rank, &own);
            let thread = threads(&rank, CPU_TS, 1, 0)[0];
            meet(&rank);

            // The data is read to the device, and to host memory. The program itself can also read
            // it, like its own memory.
            let output = common::malloc(BYTES);
            let copy = Pinned::new(BYTES);
            for to in [output, copy.memory] {
                issue!(HcommReadOnThread(thread, channel, to, theirs, BYTES as u64));
            }
            meet(&rank);
            assert!(common::read(output, BYTES) == vec![other; BYTES]);
            assert!(copy.bytes() == vec![other; BYTES]);
            assert!(bytes_at(theirs, BYTES) == vec![other; BYTES]);
            meet(&rank);

            // The data is written from the device to a part of the memory that ends with its last
            // byte.
            let source = upload(&vec![me + 10; 5000]);
            let part = at(theirs, BYTES - 5000);
            issue!(HcommWriteOnThread(thread, channel, part, source, 5000));
            meet(&rank);
            let found = own.bytes();
            assert!(found[..BYTES - 5000].iter().all(|byte| *byte == me));
            assert!(found[BYTES - 5000..].iter().all(|byte| *byte == other + 10));

            // Both ranks add to the memory of rank 0.
            let (int32, sum) =
                (HcommDataType::HCOMM_DATA_TYPE_INT32, HcommReduceOp::HCOMM_REDUCE_SUM);
            let numbers = |value: i32| [value; 1000].iter().flat_map(|n| n.to_ne_bytes()).collect();
            own.fill(0);
            meet(&rank);
            let ones: Vec<u8> = numbers(1);
            let source = upload(&ones);
            for _ in 0..50 {
                match rank.rank {
                    0 => issue!(HcommLocalReduceOnThread(
                        thread, own.memory, source, 1000, int32, sum
                    )),
                    _ => issue!(HcommWriteReduceOnThread(
                        thread, channel, theirs, source, 1000, int32, sum
                    )),
                }
            }
            meet(&rank);
            if rank.rank == 0 {
                assert!(own.bytes()[..4000] == numbers(100));
            }
            let all = whole.bytes();
            assert!(all[..320].iter().chain(&all[320 + BYTES..]).all(|byte| *byte == 99));
            // Nothing beyond the end of the memory can be reached.
            let end = at(theirs, BYTES - 4);
            let code = call!(HcommReadOnThread(thread, channel, output, end, 5));
            assert_eq!(code, HcclResult::HCCL_E_PARA.0 as i32, "{}", common::message());
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

#[test]
fn host_memory_that_a_peer_reaches_is_freed_after_the_communicator() {
    const NAME: &str =
        "host_channels::host_memory_that_a_peer_reaches_is_freed_after_the_communicator";
    run(NAME, &[1, 1], |place| {
        let rank = joined(&place);
        let own = Pinned::new(BYTES);
        own.fill(rank.rank as u8 + 1);
        let (_, theirs) = connected(&rank, &own);
        meet(&rank);
        let free = || freed_by(|| call!(aclrtFreeHost(own.memory)));
        let (code, text) = free();
        assert_ne!(code, 0);
        let piece = format!("rank {}, in another process, reaches it", 1 - rank.rank);
        assert!(text.contains(&piece), "{text}");
        assert!(own.bytes() == vec![rank.rank as u8 + 1; BYTES]);
        // This process cannot free the other's memory.
        let (code, text) = freed_by(|| call!(aclrtFreeHost(theirs)));
        assert_ne!(code, 0, "{text}");
        meet(&rank);
        hccl!(HcclCommDestroy(rank.comm));
        // The peer has to end its side, too.
        let since = Instant::now();
        while let (code, text) = free()
            && code != 0
        {
            assert!(since.elapsed() < Duration::from_secs(60), "{text}");
            std::thread::sleep(Duration::from_millis(2));
        }
        // This side has released the memory of the peer, too. Its address is not mapped then.
        let output = common::malloc(BYTES);
        let since = Instant::now();
        while call!(aclrtMemcpy(output, BYTES, theirs, BYTES, common::H2D)) == 0 {
            assert!(since.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(2));
        }
        let text = common::message();
        assert!(text.contains("HcclChannelAcquire"), "{text}");
    });
}

/// Checks that no process can map memory that another one has allocated without the emulator,
/// registered or not.
#[test]
fn host_memory_of_the_program_is_refused_between_processes() {
    const NAME: &str = "host_channels::host_memory_of_the_program_is_refused_between_processes";
    run(NAME, &[1, 1], |place| {
        let rank = joined(&place);
        let mut own = vec![1u8; BYTES + 4096];
        for (tag, is_registered) in [(c"pageable", false), (c"registered", true)] {
            // Registered memory begins at a page.
            let first = own.as_ptr().align_offset(4096);
            let memory = own[first..].as_mut_ptr().cast();
            if is_registered {
                let kind = aclrtHostRegisterType::ACL_HOST_REGISTER_MAPPED;
                let mut device = null_mut();
                ok!(aclrtHostRegister(memory, BYTES as u64, kind, &mut device));
            }
            let mut handle = register(&rank, tag, memory, BYTES);
            let mut desc = desc(1 - rank.rank, HCCS, 2);
            (desc.memHandles, desc.memHandleNum) = (&raw mut handle, 1);
            let mut channel = 0;
            refuses!(
                HCCL_E_NOT_SUPPORT,
                [tag.to_str().unwrap(), "has allocated itself", "cannot map it", "aclrtMallocHost"],
                HcclChannelAcquire(rank.comm, AIV, &desc, 1, &mut channel)
            );
            if is_registered {
                ok!(aclrtHostUnregister(memory));
            }
        }
        // Nothing is left of the refused calls.
        channels(&rank, AIV, &[desc(1 - rank.rank, HCCS, 2)]);
        meet(&rank);
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn host_memory_of_the_program_is_exchanged_between_threads() {
    const NAME: &str = "host_channels::host_memory_of_the_program_is_exchanged_between_threads";
    run(NAME, &[2], |place| {
        let rank = joined(&place);
        let mut own = vec![rank.rank as u8 + 1; BYTES];
        let pageable = Pinned { memory: own.as_mut_ptr().cast(), bytes: BYTES };
        let (_, theirs) = connected(&rank, &pageable);
        assert!(bytes_at(theirs, BYTES) == vec![2 - rank.rank as u8; BYTES]);
        meet(&rank);
        hccl!(HcclCommDestroy(rank.comm));
    });
}

/// Checks that a reset of one of several ranks of a card frees no host memory of a process.
#[test]
fn host_memory_outlives_the_reset_of_a_device() {
    const NAME: &str = "host_channels::host_memory_outlives_the_reset_of_a_device";
    run(NAME, &[1, 1], |place| {
        let block = Block::with(patient(2));
        let rank = crate::channels::joined_on(&place, block.first + place.rank as i32);
        let own = Pinned::new(BYTES);
        own.fill(7);
        let (_, theirs) = connected(&rank, &own);
        meet(&rank);
        if rank.rank == 0 {
            ok!(aclrtResetDeviceForce(rank.device));
            assert!(own.bytes() == [7; BYTES]);
            // The other process gets a message about the reset, and releases the memory.
            let since = Instant::now();
            while let (code, text) = freed_by(|| call!(aclrtFreeHost(own.memory)))
                && code != 0
            {
                assert!(since.elapsed() < Duration::from_secs(60), "{text}");
                std::thread::sleep(Duration::from_millis(2));
            }
        } else {
            let _ = theirs;
            let since = Instant::now();
            while call!(aclrtMemcpy(
                own.memory,
                1,
                theirs,
                1,
                aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_HOST
            )) == 0
            {
                assert!(since.elapsed() < Duration::from_secs(60));
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    });
}
