//! Operators that race or give a wrong result, each with its repaired twin.

use crate::recorder::*;
use ascend_operator::{Goal, ReduceOp, Task};

/// Returns a recorder for four elements. Channels have four notifies and two more, on which the
/// ranks meet before and after the operator.
fn goal(goal: Goal, ranks: u32) -> Recorder {
    let mut recorder = Recorder::new(goal, ranks, 4, 16);
    recorder.all_channels(6).meeting([4, 5]);
    recorder
}

fn sum_all() -> Recorder {
    goal(Goal::AllReduce(ReduceOp::Sum), 2)
}

fn broadcast() -> Recorder {
    goal(Goal::Broadcast { root: 0 }, 2)
}

#[test]
fn a_read_that_does_not_wait_for_the_write_is_found() {
    let words = [
        "bytes 0..16 of the communication buffer of rank 0 are read and written, and nothing orders the two",
        "let rank 0 record a notify of its channel with rank 1",
        "until then not fully checked: result",
    ];
    twins("race", &words, broadcast, |r, broken| {
        r.here().copy(0, 0, input(0, 0..4), buffer(0, 0..4));
        if !broken {
            r.tell((0, 0), (1, 0), 0);
        }
        r.here().copy(1, 0, buffer(0, 0..4), output(1, 0..4));
        r.copy(0, 0, input(0, 0..4), output(0, 0..4));
    });
}

#[test]
fn a_buffer_that_is_written_anew_while_a_peer_reads_it_is_found() {
    let words = ["bytes 0..16 of the communication buffer of rank 0 are read and written"];
    twins("race", &words, broadcast, |r, broken| {
        r.copy(0, 0, input(0, 0..4), buffer(0, 0..4)).tell((0, 0), (1, 0), 0);
        r.here().copy(1, 0, buffer(0, 0..4), output(1, 0..4));
        if !broken {
            r.tell((1, 0), (0, 0), 1);
        }
        r.here().copy(0, 0, input(0, 0..4), buffer(0, 0..4));
        r.copy(0, 0, input(0, 0..4), output(0, 0..4));
    });
}

#[test]
fn two_ranks_that_write_one_buffer_are_found() {
    let new = || {
        let mut r = goal(Goal::Gather { root: 0 }, 3);
        r.copy(0, 0, input(0, 0..4), output(0, 0..4));
        r
    };
    let words =
        ["bytes 8..16 of the communication buffer of rank 0 are written twice", "rank 2, thread 0"];
    twins("race", &words, new, |r, broken| {
        let second = if broken { 2 } else { 4 };
        r.here().copy(1, 0, input(1, 0..4), buffer(0, 0..4));
        r.here().copy(2, 0, input(2, 0..4), buffer(0, second..second + 4));
        r.tell((1, 0), (0, 0), 0).tell((2, 0), (0, 0), 0);
        r.copy(0, 0, buffer(0, 0..4), output(0, 4..8));
        r.copy(0, 0, buffer(0, second..second + 4), output(0, 8..12));
    });
}

#[test]
fn a_record_before_the_data_orders_nothing() {
    twins("race", &["are read and written"], broadcast, |r, broken| {
        if broken {
            r.record(0, 0, of_channel(1, 0, 0));
        }
        r.here().copy(0, 0, input(0, 0..4), buffer(1, 0..4));
        if !broken {
            r.record(0, 0, of_channel(1, 0, 0));
        }
        r.wait(1, 0, of_channel(1, 0, 0));
        r.here().copy(1, 0, buffer(1, 0..4), output(1, 0..4));
        r.copy(0, 0, input(0, 0..4), output(0, 0..4));
    });
}

#[test]
fn two_threads_of_a_rank_that_nothing_orders_are_found() {
    let words = [
        "bytes 0..16 of the communication buffer of rank 0",
        "let thread 0 record a notify of thread 1",
    ];
    twins(
        "race",
        &words,
        || goal(Goal::Broadcast { root: 0 }, 1),
        |r, broken| {
            if broken {
                r.start(0, 1);
            }
            r.here().copy(0, 0, input(0, 0..4), buffer(0, 0..4));
            if !broken {
                r.start(0, 1);
            }
            r.here().copy(0, 1, buffer(0, 0..4), output(0, 0..4)).end(0, 1);
        },
    );
}

#[test]
fn a_result_that_is_used_before_the_sub_thread_ends_is_found() {
    twins(
        "race",
        &["are read and written"],
        || goal(Goal::Broadcast { root: 0 }, 1),
        |r, broken| {
            r.start(0, 1);
            r.here().copy(0, 1, input(0, 0..4), buffer(0, 0..4));
            if !broken {
                r.end(0, 1);
            }
            r.here().copy(0, 0, buffer(0, 0..4), output(0, 0..4));
            if broken {
                r.end(0, 1);
            }
        },
    );
}

#[test]
fn two_kinds_of_reductions_at_once_are_found() {
    let words = ["are reduced into in two ways"];
    twins(
        "race",
        &words,
        || meeting(2),
        |r, broken| {
            r.copy(0, 0, input(0, 0..4), buffer(0, 0..4)).tell((0, 0), (1, 0), 0);
            let op = if broken { ReduceOp::Max } else { ReduceOp::Sum };
            let to = buffer(0, 0..4);
            r.here().task(0, 0, Task::Reduce { from: input(0, 0..4), to, op: ReduceOp::Sum });
            r.here().task(1, 0, Task::Reduce { from: input(1, 0..4), to, op });
        },
    );
}

#[test]
fn a_reduction_into_what_is_not_there_yet_is_found() {
    let words = ["are written and reduced into"];
    twins("race", &words, sum_all, |r, broken| {
        r.here().copy(0, 0, input(0, 0..4), buffer(0, 0..4));
        if !broken {
            r.tell((0, 0), (1, 0), 0);
        }
        r.here().sum(1, 0, input(1, 0..4), buffer(0, 0..4)).tell((1, 0), (0, 0), 1);
        r.copy(0, 0, buffer(0, 0..4), output(0, 0..4)).tell((0, 0), (1, 0), 2);
        r.copy(1, 0, buffer(0, 0..4), output(1, 0..4)).tell((1, 0), (0, 0), 3);
    });
}

#[test]
fn a_sum_that_is_read_before_the_last_one_has_added_is_found() {
    let words = ["bytes 0..16 of the communication buffer of rank 0 are read and reduced into"];
    twins(
        "race",
        &words,
        || goal(Goal::Reduce { op: ReduceOp::Sum, root: 0 }, 3),
        |r, broken| {
            r.copy(0, 0, input(0, 0..4), buffer(0, 0..4));
            for peer in [1, 2] {
                r.tell((0, 0), (peer, 0), 0);
            }
            r.sum(1, 0, input(1, 0..4), buffer(0, 0..4)).tell((1, 0), (0, 0), 0);
            r.here().sum(2, 0, input(2, 0..4), buffer(0, 0..4));
            if !broken {
                r.tell((2, 0), (0, 0), 0);
            }
            r.here().copy(0, 0, buffer(0, 0..4), output(0, 0..4));
        },
    );
}

#[test]
fn a_part_that_nobody_writes_is_found() {
    let words = [
        "bytes 12..16 of the output of rank 1 must be bytes 12..16 of the input of rank 0, and nobody writes them",
    ];
    twins("result", &words, broadcast, |r, broken| {
        let end = if broken { 3 } else { 4 };
        r.copy(0, 0, input(0, 0..4), buffer(0, 0..4)).tell((0, 0), (1, 0), 0);
        r.copy(1, 0, buffer(0, 0..end), output(1, 0..end));
        r.copy(0, 0, input(0, 0..4), output(0, 0..4));
    });
}

#[test]
fn blocks_of_two_ranks_in_each_other_s_place_are_found() {
    let words = [
        "bytes 0..16 of the output of rank 0 must be bytes 0..16 of the input of rank 0, and are bytes 0..16 of the input of rank 1",
    ];
    twins(
        "result",
        &words,
        || goal(Goal::Gather { root: 0 }, 2),
        |r, broken| {
            let (mine, its) = if broken { (4..8, 0..4) } else { (0..4, 4..8) };
            r.here().copy(1, 0, input(1, 0..4), buffer(1, 0..4)).tell((1, 0), (0, 0), 0);
            // The other block is wrong in another line.
            r.copy(0, 0, input(0, 0..4), output(0, mine));
            r.here().copy(0, 0, buffer(1, 0..4), output(0, its.clone()));
            if broken {
                r.copy(0, 0, buffer(1, 0..4), output(0, 4..8));
            }
        },
    );
}

#[test]
fn a_part_from_the_wrong_offset_is_found() {
    let words =
        ["must be bytes 16..32 of the input of rank 0, and are bytes 0..16 of the input of rank 0"];
    twins(
        "result",
        &words,
        || goal(Goal::Scatter { root: 0 }, 2),
        |r, broken| {
            let part = if broken { 0..4 } else { 4..8 };
            r.here().copy(0, 0, input(0, 0..8), buffer(0, 0..8)).tell((0, 0), (1, 0), 0);
            r.here().copy(1, 0, buffer(0, part), output(1, 0..4));
            r.copy(0, 0, input(0, 0..4), output(0, 0..4));
        },
    );
}

#[test]
fn a_task_whose_bytes_were_written_over_is_not_among_those_by_which_they_came() {
    twins(
        "result",
        &["these tasks moved them there, the last one first"],
        || goal(Goal::Scatter { root: 0 }, 2),
        |r, broken| {
            let part = if broken { 0..4 } else { 4..8 };
            r.here().copy(0, 0, input(0, 0..8), buffer(0, 0..8)).tell((0, 0), (1, 0), 0);
            r.copy(1, 0, buffer(0, 4..8), output(1, 0..4));
            r.here().copy(1, 0, buffer(0, part), output(1, 0..4));
            r.copy(0, 0, input(0, 0..4), output(0, 0..4));
        },
    );
}

/// Copies the input of rank 0 into its buffer, and then calls `reduce`, which records the
/// reductions of rank 1 into that buffer. Rank 0 goes on after these. With `whole`, a finding must
/// point at the copy too.
fn reduce_then_read(r: &mut Recorder, whole: bool, reduce: impl Fn(&mut Recorder)) {
    if whole {
        r.here();
    }
    r.copy(0, 0, input(0, 0..4), buffer(0, 0..4)).tell((0, 0), (1, 0), 0);
    reduce(r);
    r.tell((1, 0), (0, 0), 1);
}

#[test]
fn a_rank_that_is_left_out_of_a_sum_is_found() {
    let words = [
        "must be the sum of bytes 0..16 of the inputs of ranks 0 to 2, and are the sum of bytes 0..16 of the inputs of ranks 0 and 1",
        "reduce the bytes of rank 2 too",
    ];
    twins(
        "result",
        &words,
        || goal(Goal::Reduce { op: ReduceOp::Sum, root: 0 }, 3),
        |r, broken| {
            r.here().copy(0, 0, input(0, 0..4), buffer(0, 0..4));
            for peer in if broken { 1..2 } else { 1..3 } {
                r.tell((0, 0), (peer, 0), 0);
                r.here().sum(peer, 0, input(peer, 0..4), buffer(0, 0..4)).tell(
                    (peer, 0),
                    (0, 0),
                    0,
                );
            }
            r.here().copy(0, 0, buffer(0, 0..4), output(0, 0..4));
        },
    );
}

#[test]
fn a_rank_that_is_added_twice_is_found() {
    let words = [
        "this reduces bytes 0..16 of the input of rank 1 into the sum of bytes 0..16 of the inputs of ranks 0 and 1: the sum has rank 1 twice",
    ];
    twins(
        "result",
        &words,
        || goal(Goal::Reduce { op: ReduceOp::Sum, root: 0 }, 2),
        |r, broken| {
            reduce_then_read(r, false, |r| {
                if broken {
                    r.sum(1, 0, input(1, 0..4), buffer(0, 0..4));
                }
                r.here().sum(1, 0, input(1, 0..4), buffer(0, 0..4));
            });
            r.copy(0, 0, buffer(0, 0..4), output(0, 0..4));
        },
    );
}

#[test]
fn a_maximum_takes_a_rank_twice() {
    let mut r = goal(Goal::Reduce { op: ReduceOp::Max, root: 0 }, 2);
    reduce_then_read(&mut r, false, |r| {
        let task = Task::Reduce { from: input(1, 0..4), to: buffer(0, 0..4), op: ReduceOp::Max };
        r.task(1, 0, task).task(1, 0, task);
    });
    r.copy(0, 0, buffer(0, 0..4), output(0, 0..4)).meet(5);
    expect(&ascend_operator::check::check(&r.operator), "", &[], &[]);
}

#[test]
fn a_maximum_in_the_place_of_a_sum_is_found() {
    let words =
        ["must be the sum of bytes 0..16 of the inputs of ranks 0 and 1, and are the max of"];
    twins(
        "result",
        &words,
        || goal(Goal::Reduce { op: ReduceOp::Sum, root: 0 }, 2),
        |r, broken| {
            let op = if broken { ReduceOp::Max } else { ReduceOp::Sum };
            reduce_then_read(r, true, |r| {
                r.here().task(1, 0, Task::Reduce { from: input(1, 0..4), to: buffer(0, 0..4), op });
            });
            r.here().copy(0, 0, buffer(0, 0..4), output(0, 0..4));
        },
    );
}

#[test]
fn a_sum_of_a_maximum_is_found() {
    let words = ["this takes the sum of a max"];
    twins(
        "result",
        &words,
        || goal(Goal::Reduce { op: ReduceOp::Sum, root: 0 }, 3),
        |r, broken| {
            let op = if broken { ReduceOp::Max } else { ReduceOp::Sum };
            r.copy(1, 0, input(1, 0..4), buffer(1, 0..4)).tell((1, 0), (2, 0), 0);
            r.task(2, 0, Task::Reduce { from: input(2, 0..4), to: buffer(1, 0..4), op });
            r.tell((2, 0), (0, 0), 0).copy(0, 0, input(0, 0..4), output(0, 0..4));
            r.here().sum(0, 0, buffer(1, 0..4), output(0, 0..4));
        },
    );
}

#[test]
fn elements_of_different_places_in_one_sum_are_found() {
    let words =
        ["this reduces bytes 0..8 of the input of rank 1 into bytes 8..16 of the input of rank 0"];
    twins(
        "result",
        &words,
        || goal(Goal::Reduce { op: ReduceOp::Sum, root: 0 }, 2),
        |r, broken| {
            let second = if broken { 0..2 } else { 2..4 };
            reduce_then_read(r, false, |r| {
                r.sum(1, 0, input(1, 0..2), buffer(0, 0..2));
                r.here().sum(1, 0, input(1, second.clone()), buffer(0, 2..4));
            });
            r.copy(0, 0, buffer(0, 0..4), output(0, 0..4));
        },
    );
}

#[test]
fn a_buffer_that_nobody_wrote_is_found() {
    let words = [
        "this reads bytes 8..16 of the communication buffer of rank 0, which nobody has written before",
    ];
    twins("result", &words, broadcast, |r, broken| {
        let end = if broken { 2 } else { 4 };
        r.copy(0, 0, input(0, 0..end), buffer(0, 0..end)).tell((0, 0), (1, 0), 0);
        r.here().copy(1, 0, buffer(0, 0..4), output(1, 0..4));
        r.copy(0, 0, input(0, 0..4), output(0, 0..4));
    });
}

#[test]
fn a_reduction_into_what_nobody_wrote_is_found() {
    let words = [
        "this reduces into bytes 0..16 of the communication buffer of rank 0, which nobody has written before",
    ];
    twins(
        "result",
        &words,
        || goal(Goal::Reduce { op: ReduceOp::Sum, root: 0 }, 2),
        |r, broken| {
            if !broken {
                r.copy(0, 0, input(0, 0..4), buffer(0, 0..4));
            }
            r.tell((0, 0), (1, 0), 0);
            r.here().sum(1, 0, input(1, 0..4), buffer(0, 0..4)).tell((1, 0), (0, 0), 1);
            r.copy(0, 0, buffer(0, 0..4), output(0, 0..4));
        },
    );
}

#[test]
fn an_all_to_all_by_the_wrong_row_is_found() {
    let counts = vec![vec![1, 2], vec![2, 1]];
    let new = || goal(Goal::AllToAllV { counts: counts.clone() }, 2);
    let words = [
        "bytes 4..12 of the output of rank 0 must be bytes 0..8 of the input of rank 1, and are bytes 4..12 of the input of rank 1",
    ];
    twins("result", &words, new, |r, broken| {
        for rank in 0..2 {
            if rank == 1 {
                r.here();
            }
            r.copy(rank, 0, input(rank, 0..3), buffer(rank, 0..3)).tell(
                (rank, 0),
                (1 - rank, 0),
                0,
            );
        }
        let part = if broken { 1..3 } else { 0..2 };
        r.copy(0, 0, input(0, 0..1), output(0, 0..1));
        r.here().copy(0, 0, buffer(1, part), output(0, 1..3));
        r.copy(1, 0, buffer(0, 1..3), output(1, 0..2)).copy(1, 0, input(1, 2..3), output(1, 2..3));
    });
}

#[test]
fn an_input_in_place_that_is_overwritten_too_early_is_found() {
    let new = || {
        let mut r = sum_all();
        r.operator.ranks.iter_mut().for_each(|rank| rank.in_place = Some(0));
        r
    };
    let words = [
        "bytes 0..16 of the output of rank 1 must be the sum of bytes 0..16 of the inputs of ranks 0 and 1, and are bytes 0..16 of the input of rank 0",
    ];
    twins("result", &words, new, |r, broken| {
        for rank in 0..2 {
            if rank == 0 {
                r.here();
            }
            r.copy(rank, 0, input(rank, 0..4), buffer(rank, 0..4)).tell(
                (rank, 0),
                (1 - rank, 0),
                0,
            );
        }
        r.sum(0, 0, buffer(1, 0..4), output(0, 0..4));
        if broken {
            r.here().copy(1, 0, buffer(0, 0..4), output(1, 0..4));
        } else {
            r.sum(1, 0, buffer(0, 0..4), output(1, 0..4));
        }
    });
}
