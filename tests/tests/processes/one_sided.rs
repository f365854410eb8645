//! One-sided writes of kernels on ranks in several processes, which must work as between threads.

use std::sync::OnceLock;

use ascend_emulator_testing::common::{Block, read};
use ascend_emulator_testing::kernel::one_sided::*;
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::operator::meet;
use ascend_emulator_testing::ranks::{Rank, patient};
use ascend_emulator_testing::{call, hccl};
use ascend_sys::*;

use crate::channels::joined_on;
use crate::ranks::{Place, run};

/// The numbers of ranks in each process: one process for each rank, processes mixed with threads,
/// or threads only.
const MIXES: [&[u32]; 5] = [&[1, 1], &[1, 1, 1], &[2, 1], &[1, 3], &[3]];

/// Makes a rank on a device of a product. The threads of a process share a block.
fn joined(place: &Place, product: u32) -> Rank {
    static BLOCK: OnceLock<Block> = OnceLock::new();
    let block = BLOCK.get_or_init(|| {
        Block::with(AscendExtBlockConfig { product, memoryBytes: 2 << 30, ..patient(place.ranks) })
    });
    joined_on(place, block.first + place.rank as i32)
}

#[test]
fn blocks_come_into_the_windows_of_ranks_in_all_processes() {
    for each in MIXES {
        run("one_sided::blocks_come_into_the_windows_of_ranks_in_all_processes", each, |place| {
            let rank = joined(&place, ASCEND950);
            for seed in 0..3 {
                blocks_come_into_windows(&rank, seed);
                meet(&rank);
            }
        });
    }
}

#[test]
fn every_core_writes_into_queues_of_its_own_to_a_rank_of_another_process() {
    for each in MIXES {
        run(
            "one_sided::every_core_writes_into_queues_of_its_own_to_a_rank_of_another_process",
            each,
            |place| cores_write_into_queues(&joined(&place, A3)),
        );
    }
}

#[test]
fn batches_of_an_a2_go_from_window_to_window_of_another_process() {
    for each in [&[1, 1][..], &[2]] {
        run(
            "one_sided::batches_of_an_a2_go_from_window_to_window_of_another_process",
            each,
            |place| batches_go_from_window_to_window(&joined(&place, A2)),
        );
    }
}

/// Checks that the server of the sender detects the mistake. The other process gets the error
/// before anything in its window has changed.
#[test]
fn a_block_beyond_a_window_of_another_process_ends_the_kernels_of_all_ranks() {
    const NAME: &str =
        "one_sided::a_block_beyond_a_window_of_another_process_ends_the_kernels_of_all_ranks";
    for each in [&[1, 1][..], &[2]] {
        run(NAME, each, |place| {
            let rank = joined(&place, ASCEND950);
            // In the block of rank 1, the last of eight bytes is after the end of the window.
            let beyond = (200 << 20) - 7;
            let at = if rank.rank == 1 { beyond } else { 64 };
            let ready = Ready::of(&rank, &write_blocks(), numbers(&rank, at, 0));
            let tensors = [words(&[7; 4]), words(&[0, 0]), words(&[8, 8])];
            let tensors: Vec<_> = tensors.iter().map(|bytes| rank.upload(bytes)).collect();
            ready.serve();
            ready.run(&rank, 1, &tensors);
            let (code, text) = rank.sync_fails();
            assert_ne!(code, 0);
            let piece = match rank.rank {
                1 => "8 bytes for rank 0 at the offset 209715193 exceed its window of 209715200",
                _ => "the communication server of rank 1 has failed",
            };
            assert!(text.contains(piece), "{text}");
            let window = window(&rank, ready.context, ASCEND950, rank.rank);
            assert_eq!(read(window.wrapping_byte_add(beyond as usize), 7), [0; 7]);
            assert_ne!(call!(aclrtSynchronizeStream(ready.stream)), 0);
        });
    }
}

/// Lets a batch write beyond the end of another process's window. The bytes after the window are no
/// memory of this process.
#[test]
fn a_batch_beyond_a_window_of_another_process_is_refused() {
    const NAME: &str = "one_sided::a_batch_beyond_a_window_of_another_process_is_refused";
    run(NAME, &[1, 1], |place| {
        let rank = joined(&place, A3);
        let mut bytes = tiling(&[BATCH_WRITE], &ascend_emulator_testing::ranks::name_of(rank.comm));
        (bytes[42], bytes[44]) = (3, 4);
        let ready = Ready::of(&rank, &batches(true), bytes);
        let next = window(&rank, ready.context, A3, 1 - rank.rank);
        let x = rank.upload(&[7; 2048]);
        let beyond = next as u64 + (200 << 20) - 8;
        let list = rank.upload(&items(&rank, x as u64, beyond));
        ready.serve();
        ready.run(&rank, 4, &[x, list]);
        let (code, text) = rank.sync_fails();
        assert_ne!(code, 0);
        assert!(text.contains("its destination") || text.contains("has failed"), "{text}");
        let own = window(&rank, ready.context, A3, rank.rank);
        assert_eq!(read(own.wrapping_byte_add((200 << 20) - 8), 8), [0; 8]);
        hccl!(HcclCommDestroy(rank.comm));
    });
}
