//! Symmetric windows and memory ranges of ranks in several processes, which must work as between
//! threads.

use std::ptr::null_mut;

use ascend_emulator_testing::{hccl, issue, refuses};

use crate::channels::joined;
use crate::ranks::run;

const MIXES: [&[u32]; 2] = [&[1, 1], &[2, 1]];

#[test]
fn all_ranks_register_a_window_and_a_range_together() {
    const NAME: &str = "windows::all_ranks_register_a_window_and_a_range_together";
    for each in MIXES {
        run(NAME, each, |place| {
            let rank = joined(&place);
            for _ in 0..20 {
                let mut start = null_mut();
                issue!(HcommMemAlloc(&mut start, 4096));
                let (mut window, mut found, mut offset) = (null_mut(), null_mut(), 0);
                hccl!(HcclCommSymWinRegister(rank.comm, start, 4096, &mut window, 1));
                let inside = start.wrapping_byte_add(96);
                hccl!(HcclCommSymWinGet(rank.comm, inside, 4000, &mut found, &mut offset));
                assert_eq!((found, offset), (window, 96));
                hccl!(HcclCommSetMemoryRange(rank.comm, start, 4096, 0, 0));
                hccl!(HcclCommUnsetMemoryRange(rank.comm, start));
                hccl!(HcclCommSymWinDeregister(window));
                issue!(HcommMemFree(start));
            }
            place.meet();
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

#[test]
fn sizes_that_differ_are_told_to_all_processes() {
    const NAME: &str = "windows::sizes_that_differ_are_told_to_all_processes";
    for each in MIXES {
        run(NAME, each, |place| {
            let rank = joined(&place);
            let (mut start, mut window) = (null_mut(), null_mut());
            issue!(HcommMemAlloc(&mut start, 8192));
            let bytes = if place.rank == place.ranks - 1 { 8192 } else { 4096 };
            refuses!(
                HCCL_E_PARA,
                ["disagree about symmetric window 1", "4096 bytes", "8192 bytes"],
                HcclCommSymWinRegister(rank.comm, start, bytes, &mut window, 1)
            );
            place.meet();
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}
