//! Tests of calls in which a rank has nothing to move, and which the other ranks do not make. Such
//! a call takes no number and does not wait for other ranks.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common;
use ascend_emulator_testing::ranks::{
    FP32, Rank, SUM, impatient_once_linked, on_block, on_ranks, patient,
};
use ascend_emulator_testing::{call, hccl, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

/// The functions that succeed when a call has nothing to move.
const CALLS: [&str; 13] = [
    "HcclAllReduce",
    "HcclBroadcast",
    "HcclReduce",
    "HcclAllGather",
    "HcclReduceScatter",
    "HcclScatter",
    "HcclAlltoAll",
    "HcclAllGatherV",
    "HcclReduceScatterV",
    "HcclAlltoAllVC",
    "HcclSend",
    "HcclRecv",
    "HcclBatchSendRecv",
];

/// Calls the function of this name with nothing to move between two ranks.
fn call_with_nothing(name: &str, rank: &Rank) {
    let (null, t, o, comm, stream) = (null_mut(), FP32, SUM, rank.comm, rank.stream);
    let counts = [0u64; 4];
    let counts = counts.as_ptr().cast::<c_void>();
    let mut items = [HcclSendRecvItem::default()];
    match name {
        "HcclAllReduce" => hccl!(HcclAllReduce(null, null, 0, t, o, comm, stream)),
        "HcclBroadcast" => hccl!(HcclBroadcast(null, 0, t, 0, comm, stream)),
        "HcclReduce" => hccl!(HcclReduce(null, null, 0, t, o, 0, comm, stream)),
        "HcclAllGather" => hccl!(HcclAllGather(null, null, 0, t, comm, stream)),
        "HcclReduceScatter" => hccl!(HcclReduceScatter(null, null, 0, t, o, comm, stream)),
        "HcclScatter" => hccl!(HcclScatter(null, null, 0, t, 0, comm, stream)),
        "HcclAlltoAll" => hccl!(HcclAlltoAll(null, 0, t, null, 0, t, comm, stream)),
        "HcclAllGatherV" => {
            hccl!(HcclAllGatherV(null, 0, null, counts.cast_mut(), null, t, comm, stream))
        }
        "HcclReduceScatterV" => {
            hccl!(HcclReduceScatterV(null, counts, null, null, 0, t, o, comm, stream))
        }
        "HcclAlltoAllVC" => hccl!(HcclAlltoAllVC(null, counts, t, null, t, comm, stream)),
        "HcclSend" => hccl!(HcclSend(null, 0, t, 1 - rank.rank, comm, stream)),
        "HcclRecv" => hccl!(HcclRecv(null, 0, t, 1 - rank.rank, comm, stream)),
        "HcclBatchSendRecv" => hccl!(HcclBatchSendRecv(items.as_mut_ptr(), 0, comm, stream)),
        other => panic!("{other} is none of them"),
    }
}

fn all_reduce(rank: &Rank, buffer: *mut c_void) -> HcclResult {
    let _ = common::message();
    call!(HcclAllReduce(buffer, buffer, 1, FP32, SUM, rank.comm, rank.stream))
}

/// Checks an all-reduce in which each rank contributes its number plus one.
fn sums_up(rank: &Rank, text: &str) {
    let buffer = rank.upload(&(rank.rank as f32 + 1.0).to_ne_bytes());
    assert_eq!(all_reduce(rank, buffer).0, 0, "{text}: {}", common::message());
    rank.sync();
    assert_eq!(rank.download(buffer, 4), 3f32.to_ne_bytes(), "{text}");
    rank.free(buffer);
}

/// Checks that the operation or its call fails on this rank, with these pieces in the error text.
fn fails_with(rank: &Rank, code: HcclResult, pieces: &[&str]) {
    let text = if code.0 == 0 { rank.sync_fails().1 } else { common::message() };
    for piece in pieces {
        assert!(text.contains(piece), "{piece} is not in: {text}");
    }
}

#[test]
fn the_operation_of_the_others_pairs_with_the_next_one() {
    for linked in [false, true] {
        for name in CALLS {
            on_ranks(2, |rank| {
                if linked {
                    hccl!(HcclBarrier(rank.comm, rank.stream));
                }
                if rank.rank == 0 {
                    call_with_nothing(name, rank);
                }
                sums_up(rank, name);
                if rank.rank == 1 {
                    call_with_nothing(name, rank);
                }
                sums_up(rank, name);
            });
        }
    }
}

#[test]
fn a_group_and_a_graph_do_not_take_a_lone_zero() {
    on_ranks(2, |rank| {
        let buffer = rank.upload(&1f32.to_ne_bytes());
        hccl!(HcclGroupStart());
        if rank.rank == 1 {
            call_with_nothing("HcclAllReduce", rank);
        }
        assert_eq!(all_reduce(rank, buffer).0, 0);
        hccl!(HcclGroupEnd());
        rank.sync();
        ok!(aclmdlRICaptureBegin(rank.stream, aclmdlRICaptureMode(2)));
        if rank.rank == 0 {
            call_with_nothing("HcclBroadcast", rank);
        }
        assert_eq!(all_reduce(rank, buffer).0, 0);
        let mut graph = null_mut();
        ok!(aclmdlRICaptureEnd(rank.stream, &mut graph));
        for _ in 0..2 {
            ok!(aclmdlRIExecuteAsync(graph, rank.stream));
        }
        rank.sync();
        assert_eq!(rank.download(buffer, 4), 8f32.to_ne_bytes());
        ok!(aclmdlRIDestroy(graph));
    });
}

#[test]
fn a_rank_that_does_not_come_is_named_with_its_lone_zeros() {
    let threads = Barrier::new(2);
    on_block(impatient_once_linked(2), |rank| {
        rank.join();
        sums_up(rank, "before");
        if rank.rank == 0 {
            (0..5).for_each(|_| call_with_nothing("HcclAllReduce", rank));
            call_with_nothing("HcclBroadcast", rank);
            threads.wait();
        } else {
            threads.wait();
            let buffer = rank.upload(&[0; 4]);
            let code = all_reduce(rank, buffer);
            let zeros = "rank 0 called with nothing to move, which takes no number: 6 calls, the \
                         last HcclAllReduce(count 0, FP32, SUM) after #1, HcclAllReduce(count 0, \
                         FP32, SUM) after #1, HcclBroadcast(count 0, FP32, root 0) after #1";
            fails_with(rank, code, &["EI0002", "rank 0 did not come", zeros]);
        }
        threads.wait();
    });
}

#[test]
fn a_rank_that_leaves_is_named_with_its_lone_zeros() {
    on_block(patient(2), |rank| {
        rank.join();
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        if rank.rank == 0 {
            call_with_nothing("HcclAllGatherV", rank);
            hccl!(HcclCommDestroy(rank.comm));
        } else {
            let buffer = rank.upload(&[0; 4]);
            let code = all_reduce(rank, buffer);
            let zero = "rank 0 called with nothing to move, which takes no number: \
                        HcclAllGatherV(all counts 0, FP32) after #1";
            fails_with(rank, code, &["EI0012", zero]);
        }
    });
}

/// Lets rank 0 broadcast nothing, so that it issues its next operation when rank 1 issues the
/// broadcast.
#[test]
fn a_mismatch_behind_a_lone_zero_shows_it_on_both_sides() {
    for linked in [false, true] {
        on_block(patient(2), |rank| {
            rank.join();
            if linked {
                sums_up(rank, "before");
            }
            let buffer = rank.upload(&[0; 4]);
            let code = if rank.rank == 0 {
                call_with_nothing("HcclBroadcast", rank);
                all_reduce(rank, buffer)
            } else {
                call!(HcclBroadcast(buffer, 1, FP32, 0, rank.comm, rank.stream))
            };
            let zero = "rank 0 called with nothing to move, which takes no number: \
                        HcclBroadcast(count 0, FP32, root 0) after #";
            let differ = "the ranks called different operations";
            fails_with(rank, code, &["EI0005", differ, zero]);
        });
    }
}

/// Makes calls with nothing to move take a number.
fn number_zeros(rank: &Rank) {
    hccl!(ascendExtCommNumbersZeros(rank.comm));
}

#[test]
fn a_numbered_lone_zero_is_a_mismatch_that_shows_both_sides() {
    for linked in [false, true] {
        on_block(patient(2), |rank| {
            rank.join();
            number_zeros(rank);
            if linked {
                hccl!(HcclBarrier(rank.comm, rank.stream));
            }
            let count = if rank.rank == 0 { 0 } else { 10 };
            let buffer = rank.upload(&[0; 40]);
            let _ = common::message();
            let code =
                call!(HcclAllReduce(buffer, buffer, count, FP32, SUM, rank.comm, rank.stream));
            fails_with(rank, code, &["EI0005", "the counts differ", "count 0", "count 10"]);
        });
    }
}

#[test]
fn numbered_zeros_on_all_ranks_succeed_and_keep_the_order() {
    on_ranks(2, |rank| {
        number_zeros(rank);
        for name in CALLS {
            call_with_nothing(name, rank);
            sums_up(rank, name);
        }
        // Different operations must not match, even though both have nothing to move.
        let name = if rank.rank == 0 { "HcclAllGatherV" } else { "HcclAlltoAllVC" };
        let (comm, stream, counts) = (rank.comm, rank.stream, [0u64; 4]);
        let counts = counts.as_ptr().cast::<c_void>();
        let code = match rank.rank {
            0 => {
                let list = counts.cast_mut();
                call!(HcclAllGatherV(
                    null_mut(),
                    0,
                    null_mut(),
                    list,
                    null_mut(),
                    FP32,
                    comm,
                    stream
                ))
            }
            _ => call!(HcclAlltoAllVC(null_mut(), counts, FP32, null_mut(), FP32, comm, stream)),
        };
        fails_with(rank, code, &["EI0005", "HcclAllGatherV  all counts 0", "HcclAlltoAllVC", name]);
    });
}
