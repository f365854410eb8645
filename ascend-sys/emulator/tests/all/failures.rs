//! What goes wrong between ranks, and what each of them is told.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common;
use ascend_emulator_testing::ranks::{FP32, INT32, MAX, Rank, SUM, impatient, on_block};
use ascend_emulator_testing::{call, hccl, ok, refuses};
use ascend_sys::*;
use std::time::{Duration, Instant};

/// A collective, by its arguments.
#[derive(Clone, Copy)]
enum Op {
    AllReduce(u64, HcclDataType, HcclReduceOp),
    Broadcast(u64, u32),
    Barrier,
}

fn issue(rank: &Rank, op: Op) -> HcclResult {
    let buffer = rank.upload(&[0; 65_536]);
    let _ = common::message();
    match op {
        Op::AllReduce(count, dtype, op) => {
            call!(HcclAllReduce(buffer, buffer, count, dtype, op, rank.comm, rank.stream))
        }
        Op::Broadcast(count, root) => {
            call!(HcclBroadcast(buffer, count, FP32, root, rank.comm, rank.stream))
        }
        Op::Barrier => call!(HcclBarrier(rank.comm, rank.stream)),
    }
}

/// Pairs of calls that do not go together, and what the texts must show.
const MISMATCHES: [(Op, Op, &str, &str); 7] = [
    (Op::AllReduce(4, FP32, SUM), Op::AllReduce(5, FP32, SUM), "count 4", "count 5"),
    (Op::AllReduce(4, FP32, SUM), Op::AllReduce(4, INT32, SUM), "FP32", "INT32"),
    (Op::AllReduce(4, FP32, SUM), Op::AllReduce(4, FP32, MAX), "SUM", "MAX"),
    (Op::AllReduce(4, FP32, SUM), Op::Broadcast(4, 0), "HcclAllReduce", "HcclBroadcast"),
    (Op::Broadcast(9000, 0), Op::Broadcast(9000, 1), "root 0", "root 1"),
    (Op::AllReduce(9000, FP32, SUM), Op::Barrier, "HcclAllReduce", "HcclBarrier"),
    (Op::AllReduce(4, FP32, SUM), Op::AllReduce(9000, FP32, SUM), "count 4", "count 9000"),
];

#[test]
fn a_mismatch_of_the_first_operation_comes_from_the_call_on_every_rank() {
    for (first, second, one, other) in MISMATCHES {
        on_block(impatient(3), |rank| {
            rank.join();
            let op = if rank.rank == 1 { second } else { first };
            let code = issue(rank, op);
            let text = common::message();
            assert_eq!(code, HcclResult::HCCL_E_PARA, "{text}");
            for piece in ["EI0005", one, other, "rank 1"] {
                assert!(text.contains(piece), "{piece} is not in: {text}");
            }
            rank.sync();
        });
    }
}

#[test]
fn a_later_mismatch_fails_the_stream_of_every_rank() {
    for (first, second, one, other) in MISMATCHES {
        on_block(impatient(3), |rank| {
            rank.join();
            hccl!(HcclBarrier(rank.comm, rank.stream));
            rank.sync();
            let op = if rank.rank == 1 { second } else { first };
            let code = issue(rank, op);
            // Who comes last may see the failure of the others in the call.
            let (code, text) = if code.0 == 0 {
                rank.sync_fails()
            } else {
                (ACL_ERROR_RT_AICPU_EXCEPTION, common::message())
            };
            assert_eq!(code, ACL_ERROR_RT_AICPU_EXCEPTION, "{text}");
            for piece in ["EI0005", one, other, "#2", &format!("rank {}", rank.rank)] {
                assert!(text.contains(piece), "{piece} is not in: {text}");
            }
            // The communicator is broken, and says so at once.
            refuses!(HCCL_E_PARA, ["EI0005", one, other], HcclBarrier(rank.comm, rank.stream));
        });
    }
}

#[test]
fn a_lone_zero_is_a_mismatch_that_shows_both_sides() {
    for linked in [false, true] {
        on_block(impatient(2), |rank| {
            rank.join();
            if linked {
                hccl!(HcclBarrier(rank.comm, rank.stream));
            }
            let count = if rank.rank == 0 { 0 } else { 10 };
            let code = issue(rank, Op::AllReduce(count, FP32, SUM));
            let text = common::message();
            if rank.rank == 0 {
                assert_eq!(code.0, 0, "{text}");
                return;
            }
            let text = if code.0 == 0 { rank.sync_fails().1 } else { text };
            for piece in ["EI0005", "count 0", "count 10"] {
                assert!(text.contains(piece), "{piece} is not in: {text}");
            }
        });
    }
}

#[test]
fn a_rank_that_runs_ahead_on_zeros_is_named() {
    on_block(impatient(2), |rank| {
        rank.join();
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        if rank.rank == 0 {
            for _ in 0..5 {
                assert_eq!(issue(rank, Op::AllReduce(0, FP32, SUM)).0, 0);
            }
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
        let code = issue(rank, Op::AllReduce(10, FP32, SUM));
        let text = if code.0 == 0 { rank.sync_fails().1 } else { common::message() };
        for piece in ["EI0005", "HcclAllReduce  count 10", "count of 0"] {
            assert!(text.contains(piece), "{piece} is not in: {text}");
        }
    });
}

#[test]
fn a_rank_missing_at_init_is_listed() {
    on_block(impatient(4), |rank| {
        if rank.rank == 2 {
            return;
        }
        let comm = &mut rank.comm;
        refuses!(
            HCCL_E_TIMEOUT,
            ["EI0015", "rank 2 of 4"],
            HcclCommInitRootInfo(4, &rank.info, rank.rank, comm)
        );
    });
}

#[test]
fn a_rank_missing_at_the_first_operation_is_named_by_the_call() {
    on_block(impatient(3), |rank| {
        rank.join();
        if rank.rank == 1 {
            std::thread::sleep(Duration::from_millis(700));
            return;
        }
        let code = issue(rank, Op::AllReduce(4, FP32, SUM));
        let text = common::message();
        assert_eq!(code, HcclResult::HCCL_E_TIMEOUT, "{text}");
        for piece in ["EI0006", "rank 1", "HcclAllReduce(count 4, FP32, SUM)"] {
            assert!(text.contains(piece), "{piece} is not in: {text}");
        }
    });
}

#[test]
fn a_rank_missing_later_is_named_after_the_execution_timeout() {
    for count in [4, 16_000] {
        on_block(impatient(3), |rank| {
            rank.join();
            hccl!(HcclBarrier(rank.comm, rank.stream));
            rank.sync();
            if rank.rank == 1 {
                std::thread::sleep(Duration::from_millis(900));
                return;
            }
            assert_eq!(issue(rank, Op::AllReduce(count, FP32, SUM)).0, 0);
            let began = Instant::now();
            let (code, text) = rank.sync_fails();
            assert_eq!(code, ACL_ERROR_RT_TASK_TIMEOUT, "{text}");
            assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
            for piece in ["EI0002", "rank 1 (last: #1 HcclBarrier", "has not issued"] {
                assert!(text.contains(piece), "{piece} is not in: {text}");
            }
        });
    }
}

/// Rank 1 ends its part in some way while the others wait; all must learn at once.
fn one_goes(end: impl Fn(&Rank) + Sync, pieces: &[&str]) {
    for count in [4, 16_000] {
        let patient =
            AscendExtBlockConfig { connectTimeoutMs: 0, execTimeoutMs: 0, ..impatient(3) };
        let issued = Barrier::new(3);
        on_block(patient, |rank| {
            rank.join();
            hccl!(HcclBarrier(rank.comm, rank.stream));
            rank.sync();
            if rank.rank == 1 {
                issued.wait();
                std::thread::sleep(Duration::from_millis(30));
                return end(rank);
            }
            assert_eq!(issue(rank, Op::AllReduce(count, FP32, SUM)).0, 0);
            issued.wait();
            let (code, text) = rank.sync_fails();
            assert_eq!(code, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "{text}");
            for piece in pieces.iter().chain(&["rank 1 is gone", "#2"]) {
                assert!(text.contains(piece), "{piece} is not in: {text}");
            }
            refuses!(HCCL_E_REMOTE, ["rank 1 is gone"], HcclBarrier(rank.comm, rank.stream));
        });
    }
}

#[test]
fn a_rank_that_destroys_its_communicator_is_noticed_at_once() {
    one_goes(|rank| hccl!(HcclCommDestroy(rank.comm)), &["destroyed its communicator"]);
}

#[test]
fn a_rank_that_leaves_is_noticed_at_once_with_its_reason() {
    let leave = |rank: &Rank| {
        hccl!(ascendExtRankLeave(&rank.info, 1, c"out of memory in step 7".as_ptr()));
    };
    one_goes(leave, &["out of memory in step 7"]);
}

#[test]
fn a_rank_that_leaves_before_init_ends_the_wait_of_the_others() {
    let patient = AscendExtBlockConfig { connectTimeoutMs: 0, ..impatient(3) };
    on_block(patient, |rank| {
        if rank.rank == 1 {
            std::thread::sleep(Duration::from_millis(30));
            hccl!(ascendExtRankLeave(&rank.info, 1, c"no luck".as_ptr()));
            return;
        }
        let comm = &mut rank.comm;
        refuses!(
            HCCL_E_REMOTE,
            ["EI0015", "rank 1 is gone", "no luck"],
            HcclCommInitRootInfo(3, &rank.info, rank.rank, comm)
        );
    });
}

#[test]
fn a_rank_that_leaves_before_the_first_operation_ends_the_wait_of_the_others() {
    let patient = AscendExtBlockConfig { connectTimeoutMs: 0, ..impatient(3) };
    on_block(patient, |rank| {
        rank.join();
        if rank.rank == 1 {
            std::thread::sleep(Duration::from_millis(30));
            hccl!(ascendExtRankLeave(&rank.info, 1, c"no luck".as_ptr()));
            return;
        }
        let code = issue(rank, Op::Barrier);
        let text = common::message();
        assert_eq!(code, HcclResult::HCCL_E_REMOTE, "{text}");
        assert!(text.contains("rank 1 is gone (no luck)"), "{text}");
    });
}

#[test]
fn destroying_a_communicator_ends_what_is_in_flight_on_all_ranks() {
    let patient = AscendExtBlockConfig { connectTimeoutMs: 0, execTimeoutMs: 0, ..impatient(2) };
    let destroyed = Barrier::new(2);
    on_block(patient, |rank| {
        rank.join();
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        if rank.rank == 0 {
            assert_eq!(issue(rank, Op::AllReduce(10_000, FP32, SUM)).0, 0);
            hccl!(HcclCommDestroy(rank.comm));
            destroyed.wait();
            let (code, text) = rank.sync_fails();
            assert_eq!(code, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "{text}");
            assert!(text.contains("rank 0") && text.contains("destroyed"), "{text}");
        } else {
            destroyed.wait();
            let code = issue(rank, Op::AllReduce(10_000, FP32, SUM));
            let text = common::message();
            assert_eq!(code, HcclResult::HCCL_E_REMOTE, "{text}");
            assert!(text.contains("rank 0") && text.contains("destroyed"), "{text}");
        }
    });
}

#[test]
fn an_aborted_stream_ends_the_operation_of_the_others() {
    let patient = AscendExtBlockConfig { connectTimeoutMs: 0, execTimeoutMs: 0, ..impatient(3) };
    on_block(patient, |rank| {
        rank.join();
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        if rank.rank == 2 {
            // Never calls.
            std::thread::sleep(Duration::from_millis(200));
            return;
        }
        assert_eq!(issue(rank, Op::AllReduce(9000, FP32, SUM)).0, 0);
        if rank.rank == 0 {
            std::thread::sleep(Duration::from_millis(50));
            ok!(aclrtDestroyStreamForce(rank.stream));
        } else {
            let (code, text) = rank.sync_fails();
            assert_eq!(code, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "{text}");
            assert!(text.contains("rank 0"), "{text}");
        }
    });
}
