//! Tests of failures between ranks, and of the error that each rank gets.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common;
use ascend_emulator_testing::ranks::{
    FP32, INT32, MAX, Rank, SUM, impatient_once_linked, impatient_to_meet, limit, on_block, patient,
};
use ascend_emulator_testing::{call, hccl, ok, refuses};
use ascend_sys::*;
use std::time::{Duration, Instant};

/// A collective, given by its arguments.
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

/// Pairs of calls that do not match, each with two pieces of text that the error must contain.
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
        on_block(patient(3), |rank| {
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
        on_block(patient(3), |rank| {
            rank.join();
            hccl!(HcclBarrier(rank.comm, rank.stream));
            rank.sync();
            let op = if rank.rank == 1 { second } else { first };
            let code = issue(rank, op);
            // The last rank to call may see the failure of the other ranks in its call.
            let (code, text) = if code.0 == 0 {
                rank.sync_fails()
            } else {
                (ACL_ERROR_RT_AICPU_EXCEPTION, common::message())
            };
            assert_eq!(code, ACL_ERROR_RT_AICPU_EXCEPTION, "{text}");
            for piece in ["EI0005", one, other, "#2", &format!("rank {}", rank.rank)] {
                assert!(text.contains(piece), "{piece} is not in: {text}");
            }
            // The communicator is broken, so the next call reports the mismatch at once.
            refuses!(HCCL_E_PARA, ["EI0005", one, other], HcclBarrier(rank.comm, rank.stream));
        });
    }
}

#[test]
fn a_rank_missing_at_init_is_listed() {
    on_block(impatient_to_meet(4), |rank| {
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
    on_block(impatient_to_meet(3), |rank| {
        rank.join();
        if rank.rank == 1 {
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
    std::thread::scope(|scope| {
        for count in [4, 16_000] {
            scope.spawn(move || misses_one(count));
        }
    });
}

/// Lets ranks 0 and 2 give up because rank 1 does not issue the second operation.
fn misses_one(count: u64) {
    let (issue_together, over) = (Barrier::new(2), Barrier::new(3));
    let waited = on_block(impatient_once_linked(3), |rank| {
        rank.join();
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        if rank.rank == 1 {
            over.wait();
            return Duration::ZERO;
        }
        issue_together.wait();
        let began = Instant::now();
        assert_eq!(issue(rank, Op::AllReduce(count, FP32, SUM)).0, 0);
        let (code, text) = rank.sync_fails();
        let waited = began.elapsed();
        assert_eq!(code, ACL_ERROR_RT_TASK_TIMEOUT, "{text}");
        for piece in ["EI0002", "rank 1 (last: #1 HcclBarrier", "has not issued"] {
            assert!(text.contains(piece), "{piece} is not in: {text}");
        }
        over.wait();
        waited
    });
    // One of the two ranks may call later than the other, and it gets the error when the first one
    // gives up. So only the longer wait is checked.
    let longest = waited.iter().max().unwrap();
    assert!(*longest >= Duration::from_millis(u64::from(limit()) - 100), "{waited:?}");
}

/// Lets rank 1 leave by `end` while the other ranks wait. They must all get the error at once.
fn one_goes(end: impl Fn(&Rank) + Sync, pieces: &[&str]) {
    for count in [4, 16_000] {
        let issued = Barrier::new(3);
        on_block(patient(3), |rank| {
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
    on_block(patient(3), |rank| {
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
    on_block(patient(3), |rank| {
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
    let destroyed = Barrier::new(2);
    on_block(patient(2), |rank| {
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
    let issued = Barrier::new(2);
    on_block(patient(3), |rank| {
        rank.join();
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        if rank.rank == 2 {
            // Rank 2 does not issue the operation.
            std::thread::sleep(Duration::from_millis(200));
            return;
        }
        assert_eq!(issue(rank, Op::AllReduce(9000, FP32, SUM)).0, 0);
        issued.wait();
        if rank.rank == 0 {
            ok!(aclrtDestroyStreamForce(rank.stream));
        } else {
            let (code, text) = rank.sync_fails();
            assert_eq!(code, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "{text}");
            assert!(text.contains("rank 0"), "{text}");
        }
    });
}

/// Checks that a receive fails if the sender's stream is aborted before the stream comes to the
/// message. The tasks before the message have not run either, so its data was not made.
#[test]
fn a_message_that_an_aborted_stream_had_not_come_to_is_not_sent() {
    let called = Barrier::new(2);
    on_block(patient(2), |rank| {
        rank.join();
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        let buffer = rank.upload(&[1; 4096]);
        let (comm, stream) = (rank.comm, rank.stream);
        if rank.rank == 0 {
            let mut never = std::ptr::null_mut();
            ok!(aclrtCreateNotify(&mut never, 0));
            ok!(aclrtWaitAndResetNotify(never, stream, 0));
            hccl!(HcclSend(buffer, 1024, FP32, 1, comm, stream));
            called.wait();
            ok!(aclrtDestroyStreamForce(stream));
        } else {
            let received = rank.upload(&[7; 4096]);
            hccl!(HcclRecv(received, 1024, FP32, 0, comm, stream));
            called.wait();
            let (code, text) = rank.sync_fails();
            assert_eq!(code, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "{text}");
            assert!(text.contains("rank 0 gave up before its messages began"), "{text}");
            assert!(rank.download(received, 4096) == [7; 4096]);
        }
    });
}
