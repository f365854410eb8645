//! Tests that wrong requests take no memory.

use ascend_emulator_testing::operator::{AICPU_TS, CPU, on_product};
use ascend_emulator_testing::ranks::{Rank, impatient, on_block};
use ascend_emulator_testing::{alone, hccl, refuses};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

#[test]
fn a_communicator_of_more_ranks_than_there_can_be_waits_and_fails_in_little_memory() {
    alone!();
    on_block(impatient(1), |rank| {
        let (began, before) = (Instant::now(), resident());
        let comm = &mut rank.comm;
        refuses!(
            HCCL_E_TIMEOUT,
            ["ranks 1, 2, 3", " more of 4294967295 did not call"],
            HcclCommInitRootInfo(u32::MAX, &rank.info, 0, comm)
        );
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        assert!(resident() < before + (256 << 20), "{} to {}", before, resident());
    });
}

/// Returns the number of bytes of the process that are resident in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn contexts_of_engines_take_no_memory_that_nobody_has_used() {
    alone!();
    on_product(3, 1, |rank: &mut Rank| {
        let (comm, mut context, before) = (rank.comm, null_mut(), resident());
        let (tag, most) = (c"huge".as_ptr(), u64::MAX);
        for engine in [CPU, AICPU_TS] {
            for size in [most, 1 << 63, 1 << 45] {
                refuses!(
                    HCCL_E_MEMORY,
                    [],
                    HcclEngineCtxCreate(comm, tag, engine, size, &mut context)
                );
            }
        }
        // The context has nearly all of the host's pinned memory. Its bytes are zeros that were
        // never written.
        hccl!(HcclEngineCtxCreate(comm, tag, CPU, 1 << 39, &mut context));
        // SAFETY: the address is inside the context.
        let last = unsafe { context.cast::<u8>().add((1 << 39) - 1) };
        // SAFETY: as above.
        assert_eq!(unsafe { last.read() }, 0);
        // SAFETY: as above.
        unsafe { last.write(9) };
        assert!(resident() < before + (256 << 20), "{} to {}", before, resident());
        hccl!(HcclEngineCtxDestroy(comm, tag, CPU));
        hccl!(HcclEngineCtxCreate(comm, tag, CPU, 1 << 39, &mut context));
        // SAFETY: the address is inside the context.
        assert_eq!(unsafe { context.cast::<u8>().add((1 << 39) - 1).read() }, 0);
        hccl!(HcclEngineCtxDestroy(comm, tag, CPU));
    });
}
