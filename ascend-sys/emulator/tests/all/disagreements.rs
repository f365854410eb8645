//! Tests of failures between the ranks of each collective: calls that do not match, and ranks that
//! do not call.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common;
use ascend_emulator_testing::ranks::{
    FP32, INT32, MAX, Rank, SUM, impatient_once_linked, on_block, patient,
};
use ascend_emulator_testing::{call, hccl, ok, refuses};
use ascend_sys::*;
use std::ffi::c_void;
use std::time::Duration;

/// A collective of three ranks, given by the arguments that must match on all ranks.
#[derive(Clone, Copy, Debug)]
enum Op {
    Reduce(u64, HcclDataType, HcclReduceOp, u32),
    AllGather(u64, HcclDataType),
    ReduceScatter(u64, HcclDataType, HcclReduceOp),
    Scatter(u64, u32),
    AlltoAll(u64, HcclDataType),
    /// The counts of all ranks, and the data type.
    AllGatherV([u64; 3], HcclDataType),
    ReduceScatterV([u64; 3], HcclReduceOp),
    /// The count of each pair of ranks as a matrix, from which each rank takes its own counts.
    AlltoAllV([u64; 9], HcclDataType),
    AlltoAllVC([u64; 9], HcclDataType),
}

const BYTES: usize = 1 << 17;

fn issue(rank: &Rank, op: Op) -> (HcclResult, [*mut c_void; 2]) {
    let me = rank.rank as usize;
    let (a, b) = (rank.upload(&[0; BYTES]), rank.upload(&[0; BYTES]));
    let (comm, stream) = (rank.comm, rank.stream);
    let _ = common::message();
    let places = |counts: &[u64; 3]| [0, counts[0], counts[0] + counts[1]];
    let pointer = |list: &[u64]| -> *const c_void { list.as_ptr().cast() };
    let code = match op {
        Op::Reduce(n, t, o, root) => call!(HcclReduce(a, b, n, t, o, root, comm, stream)),
        Op::AllGather(n, t) => call!(HcclAllGather(a, b, n, t, comm, stream)),
        Op::ReduceScatter(n, t, o) => call!(HcclReduceScatter(a, b, n, t, o, comm, stream)),
        Op::Scatter(n, root) => call!(HcclScatter(a, b, n, FP32, root, comm, stream)),
        Op::AlltoAll(n, t) => call!(HcclAlltoAll(a, n, t, b, n, t, comm, stream)),
        Op::AllGatherV(counts, t) => {
            let (c, d) = (pointer(&counts), places(&counts));
            call!(HcclAllGatherV(a, counts[me], b, c, pointer(&d), t, comm, stream))
        }
        Op::ReduceScatterV(counts, o) => {
            let (c, d) = (pointer(&counts), places(&counts));
            call!(HcclReduceScatterV(a, c, pointer(&d), b, counts[me], FP32, o, comm, stream))
        }
        Op::AlltoAllV(m, t) => {
            let sends: [u64; 3] = std::array::from_fn(|to| m[me * 3 + to]);
            let receives: [u64; 3] = std::array::from_fn(|from| m[from * 3 + me]);
            let (sd, rd) = (places(&sends), places(&receives));
            let (sc, rc) = (pointer(&sends), pointer(&receives));
            call!(HcclAlltoAllV(a, sc, pointer(&sd), t, b, rc, pointer(&rd), t, comm, stream))
        }
        Op::AlltoAllVC(m, t) => call!(HcclAlltoAllVC(a, pointer(&m), t, b, t, comm, stream)),
    };
    (code, [a, b])
}

const MATRIX: [u64; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
/// `MATRIX` with one difference: rank 1 sends 66 elements to rank 2, not 6.
const ANOTHER: [u64; 9] = [1, 2, 3, 4, 5, 66, 7, 8, 9];

/// Returns pairs of calls that do not match, each with the pieces of text that the error must
/// contain.
fn mismatches() -> Vec<(Op, Op, Vec<&'static str>)> {
    use Op::*;
    let reduce = Reduce(4, FP32, SUM, 0);
    vec![
        (reduce, Reduce(5, FP32, SUM, 0), vec!["the counts differ", "count 4", "count 5"]),
        (reduce, Reduce(4, INT32, SUM, 0), vec!["the data types differ", "FP32", "INT32"]),
        (reduce, Reduce(4, FP32, MAX, 0), vec!["the reductions differ", "SUM", "MAX"]),
        (reduce, Reduce(4, FP32, SUM, 2), vec!["the roots differ", "root 0", "root 2"]),
        (
            Reduce(9000, FP32, SUM, 1),
            Reduce(9001, FP32, MAX, 2),
            vec!["the counts and the reductions and the roots differ"],
        ),
        (AllGather(4, FP32), AllGather(9000, FP32), vec!["the counts differ", "count 9000"]),
        (AllGather(4, FP32), AllGather(4, INT32), vec!["the data types differ"]),
        (ReduceScatter(4, FP32, SUM), ReduceScatter(4, FP32, MAX), vec!["the reductions differ"]),
        (ReduceScatter(4, FP32, SUM), ReduceScatter(3, FP32, SUM), vec!["the counts differ"]),
        (Scatter(4, 0), Scatter(4, 1), vec!["the roots differ", "root 0", "root 1"]),
        (Scatter(4000, 0), Scatter(4, 0), vec!["the counts differ"]),
        (AlltoAll(4, FP32), AlltoAll(5, FP32), vec!["the counts differ"]),
        (AlltoAll(4, FP32), AlltoAll(4, INT32), vec!["the data types differ"]),
        (
            AlltoAll(4, FP32),
            AllGather(4, FP32),
            vec!["different operations", "HcclAlltoAll ", "HcclAllGather "],
        ),
        (
            AllGatherV([1, 2, 3], FP32),
            AllGatherV([1, 2, 4], FP32),
            vec!["the counts differ", "count 3 of rank 2  FP32", "count 4 of rank 2  FP32"],
        ),
        (AllGatherV([1, 2, 3], FP32), AllGatherV([1, 2, 3], INT32), vec!["the data types differ"]),
        (
            AllGatherV([1, 2, 3], FP32),
            AllGather(1, FP32),
            vec!["different operations", "HcclAllGatherV  FP32"],
        ),
        (
            AllGatherV([1, 2, 3], FP32),
            AllGatherV([0, 0, 0], FP32),
            vec!["the counts differ", "all counts 0"],
        ),
        (
            ReduceScatterV([1, 2, 3], SUM),
            ReduceScatterV([9, 2, 7], SUM),
            vec![
                "the counts differ",
                "count 1 of rank 0, 3 of rank 2",
                "count 9 of rank 0, 7 of rank 2",
            ],
        ),
        (
            ReduceScatterV([1, 2, 3], SUM),
            ReduceScatterV([1, 2, 3], MAX),
            vec!["the reductions differ"],
        ),
        (
            AlltoAllV(MATRIX, FP32),
            AlltoAllV(ANOTHER, FP32),
            vec!["the counts differ", "rank 1 sends count 66 to rank 2, which expects count 6"],
        ),
        (AlltoAllV(MATRIX, FP32), AlltoAllV(MATRIX, INT32), vec!["the data types differ"]),
        (
            AlltoAllVC(MATRIX, FP32),
            AlltoAllVC(ANOTHER, FP32),
            vec![
                "the counts differ",
                "count 6 from rank 1 to rank 2",
                "count 66 from rank 1 to rank 2",
            ],
        ),
    ]
}

#[test]
fn a_mismatch_fails_every_rank_and_shows_both_sides() {
    for linked in [true, false] {
        for (first, second, pieces) in mismatches() {
            on_block(patient(3), |rank| {
                rank.join();
                // With this setting, calls that move no data count as operations too.
                hccl!(ascendExtCommNumbersZeros(rank.comm));
                if linked {
                    hccl!(HcclBarrier(rank.comm, rank.stream));
                    rank.sync();
                }
                let (code, buffers) = issue(rank, if rank.rank == 1 { second } else { first });
                // Without links the call itself reports the mismatch, unless the mismatch is only
                // in the tables of counts. The last rank to call may see the failure of the other
                // ranks in its call.
                let text = if code.0 == 0 { rank.sync_fails().1 } else { common::message() };
                for piece in pieces.iter().chain(&["EI0005", "rank 1"]) {
                    assert!(
                        text.contains(piece),
                        "{first:?}, {second:?}: {piece} is not in: {text}"
                    );
                }
                refuses!(HCCL_E_PARA, ["EI0005"], HcclBarrier(rank.comm, rank.stream));
                // After the failure the buffers are no longer in use, so they can be freed.
                buffers.into_iter().for_each(|buffer| rank.free(buffer));
            });
        }
    }
}

/// Returns every collective with small and large counts.
fn everything() -> Vec<Op> {
    use Op::*;
    let large = MATRIX.map(|n| n * 500);
    vec![
        Reduce(4, FP32, SUM, 0),
        Reduce(9000, FP32, SUM, 1),
        AllGather(4, FP32),
        AllGather(9000, FP32),
        ReduceScatter(4, FP32, SUM),
        ReduceScatter(9000, FP32, SUM),
        Scatter(4, 1),
        Scatter(9000, 1),
        AlltoAll(4, FP32),
        AlltoAll(9000, FP32),
        AllGatherV([1, 9000, 3], FP32),
        ReduceScatterV([1, 9000, 3], SUM),
        AlltoAllV(large, FP32),
        AlltoAllVC(large, FP32),
    ]
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let all = everything();
    std::thread::scope(|scope| {
        for op in all {
            scope.spawn(move || {
                let (issue_together, over) = (Barrier::new(2), Barrier::new(3));
                on_block(impatient_once_linked(3), |rank| {
                    rank.join();
                    hccl!(HcclBarrier(rank.comm, rank.stream));
                    rank.sync();
                    if rank.rank == 1 {
                        over.wait();
                        return;
                    }
                    issue_together.wait();
                    let (code, buffers) = issue(rank, op);
                    assert_eq!(code.0, 0, "{}", common::message());
                    let (code, text) = rank.sync_fails();
                    assert_eq!(code, ACL_ERROR_RT_TASK_TIMEOUT, "{op:?}: {text}");
                    for piece in ["EI0002", "rank 1 (last: #1 HcclBarrier", "has not issued"] {
                        assert!(text.contains(piece), "{op:?}: {piece} is not in: {text}");
                    }
                    over.wait();
                    buffers.into_iter().for_each(|buffer| rank.free(buffer));
                });
            });
        }
    });
}

#[test]
fn a_rank_that_leaves_or_gives_up_ends_the_operation_of_the_others() {
    for op in everything() {
        for aborts in [false, true] {
            let issued = Barrier::new(3);
            on_block(patient(3), |rank| {
                rank.join();
                hccl!(HcclBarrier(rank.comm, rank.stream));
                rank.sync();
                if rank.rank == 2 {
                    issued.wait();
                    if aborts {
                        // This rank does not call, and leaves only after a while, so that the
                        // operation of rank 1 ends because of rank 0.
                        std::thread::sleep(Duration::from_millis(30));
                    } else {
                        hccl!(HcclCommDestroy(rank.comm));
                    }
                    return;
                }
                let (code, buffers) = issue(rank, op);
                assert_eq!(code.0, 0, "{}", common::message());
                issued.wait();
                let gone = if aborts { "rank 0" } else { "rank 2 is gone" };
                if aborts && rank.rank == 0 {
                    ok!(aclrtDestroyStreamForce(rank.stream));
                } else {
                    let (code, text) = rank.sync_fails();
                    assert_eq!(code, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "{op:?}: {text}");
                    assert!(text.contains(gone), "{op:?}: {text}");
                }
                buffers.into_iter().for_each(|buffer| rank.free(buffer));
            });
        }
    }
}

#[test]
fn an_operation_that_ended_early_leaves_the_memory_alone() {
    let all = everything();
    std::thread::scope(|scope| {
        for op in all {
            scope.spawn(move || ends_early(op));
        }
    });
}

/// Lets two ranks give up and write to the buffers that they offered. The third rank calls only
/// after that.
fn ends_early(op: Op) {
    let (issue_together, given_up, done) = (Barrier::new(2), Barrier::new(3), Barrier::new(3));
    on_block(impatient_once_linked(3), |rank| {
        rank.join();
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        if rank.rank == 2 {
            given_up.wait();
            let (code, _) = issue(rank, op);
            let text = common::message();
            assert_eq!(code, HcclResult::HCCL_E_TIMEOUT, "{op:?}: {text}");
            done.wait();
            return;
        }
        issue_together.wait();
        let (code, buffers) = issue(rank, op);
        assert_eq!(code.0, 0, "{}", common::message());
        let (code, _) = rank.sync_fails();
        assert_eq!(code, ACL_ERROR_RT_TASK_TIMEOUT);
        for buffer in buffers {
            ok!(aclrtMemset(buffer, BYTES, 0x77, BYTES));
        }
        given_up.wait();
        done.wait();
        for buffer in buffers {
            assert!(rank.download(buffer, BYTES).iter().all(|byte| *byte == 0x77), "{op:?}");
        }
    });
}
