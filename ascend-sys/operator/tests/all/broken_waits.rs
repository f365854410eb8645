//! Operators that hang or may hang, each with its repaired twin.

use crate::recorder::*;

#[test]
fn two_ranks_that_wait_before_they_record_are_found() {
    let words = ["2 threads wait for each other", "let one of them record before it waits"];
    twins(
        "deadlock",
        &words,
        || other(2),
        |r, broken| {
            let (mine, its) = (of_channel(0, 1, 0), of_channel(1, 0, 0));
            if broken {
                r.here().wait(0, 0, mine);
                r.here().record(0, 0, its);
                r.here().wait(1, 0, its);
                r.here().record(1, 0, mine);
            } else {
                r.record(0, 0, its).wait(0, 0, mine);
                r.record(1, 0, mine).wait(1, 0, its);
            }
        },
    );
}

#[test]
fn a_ring_in_which_everybody_waits_first_is_found_with_all_its_tasks() {
    let (ranks, words) = (5, ["5 threads wait for each other", "rank 4, thread 0, task 0: wait"]);
    twins(
        "deadlock",
        &words,
        || other(ranks),
        |r, broken| {
            for rank in 0..ranks {
                let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
                if broken {
                    r.here().wait(rank, 0, of_channel(rank, last, 0));
                    r.here().record(rank, 0, of_channel(next, rank, 0));
                } else {
                    r.record(rank, 0, of_channel(next, rank, 0));
                    r.wait(rank, 0, of_channel(rank, last, 0));
                }
            }
        },
    );
}

#[test]
fn circles_that_are_alike_are_told_once() {
    let words = ["2 threads wait for each other", "and 2 more of the same lines"];
    twins(
        "deadlock",
        &words,
        || other(6),
        |r, broken| {
            for rank in 0..6 {
                let (mine, its) = (of_channel(rank, rank ^ 1, 0), of_channel(rank ^ 1, rank, 0));
                if !broken {
                    r.record(rank, 0, its);
                }
                r.here().wait(rank, 0, mine);
                if broken {
                    r.here().record(rank, 0, its);
                }
            }
            r.marks.truncate(4);
        },
    );
}

#[test]
fn a_wait_that_nobody_records_is_found_and_says_who_should() {
    let words =
        ["nobody records notify 0 of rank 0 on its channel with rank 1", "let rank 1 record it"];
    twins(
        "deadlock",
        &words,
        || other(2),
        |r, broken| {
            if !broken {
                r.record(1, 0, of_channel(0, 1, 0));
            }
            r.here().wait(0, 0, of_channel(0, 1, 0));
        },
    );
}

#[test]
fn a_record_of_another_index_is_found_beside_the_wait() {
    let words = [
        "nobody records notify 1 of rank 0",
        "notify 0 of rank 0 on its channel with rank 1 is recorded, but nobody waits for it",
        "use its index",
    ];
    twins(
        "deadlock",
        &words,
        || other(2),
        |r, broken| {
            r.here().record(1, 0, of_channel(0, 1, 0));
            r.here().wait(0, 0, of_channel(0, 1, u32::from(broken)));
        },
    );
}

#[test]
fn a_thread_that_waits_for_its_own_record_is_found() {
    let words = ["a thread waits for a notify that it records itself only later"];
    twins(
        "deadlock",
        &words,
        || other(1),
        |r, broken| {
            let notify = of_thread(0, 0, 0);
            if broken {
                r.here().wait(0, 0, notify);
                r.here().record(0, 0, notify);
            } else {
                r.record(0, 0, notify).wait(0, 0, notify);
            }
        },
    );
}

#[test]
fn a_wait_that_comes_once_more_than_its_record_is_found() {
    let words = ["is recorded only once, for another wait", "let rank 1 record it"];
    twins(
        "deadlock",
        &words,
        || other(2),
        |r, broken| {
            r.tell((1, 0), (0, 0), 0).tell((0, 0), (1, 0), 0);
            if broken {
                r.here().wait(0, 0, of_channel(0, 1, 0));
            }
        },
    );
}

#[test]
fn a_main_thread_that_waits_before_it_starts_its_sub_thread_is_found() {
    let words = ["2 threads wait for each other"];
    twins(
        "deadlock",
        &words,
        || other(1),
        |r, broken| {
            let (start, end) = (of_thread(0, 1, 0), of_thread(0, 0, 0));
            if broken {
                r.here().wait(0, 0, end);
                r.here().record(0, 0, start);
            } else {
                r.record(0, 0, start).wait(0, 0, end);
            }
            r.here().wait(0, 1, start);
            r.here().record(0, 1, end);
        },
    );
}

#[test]
fn a_circle_through_threads_of_two_ranks_is_found() {
    // Each main thread ends its sub-thread before it records the notify that the peer waits for.
    let words = ["4 threads wait for each other"];
    twins(
        "deadlock",
        &words,
        || other(2),
        |r, broken| {
            for (rank, peer) in [(0, 1), (1, 0)] {
                r.start(rank, 1);
                if !broken {
                    r.record(rank, 0, of_channel(peer, rank, 0));
                }
                r.here().wait(rank, 1, of_channel(rank, peer, 0));
                r.here().record(rank, 1, of_thread(rank, 0, 0));
                r.here().wait(rank, 0, of_thread(rank, 0, 0));
                if broken {
                    r.here().record(rank, 0, of_channel(peer, rank, 0));
                }
            }
        },
    );
}

#[test]
fn a_record_for_which_nobody_waits_is_found() {
    let words = ["nobody waits for this record", "let rank 0 wait for it in the same operator"];
    twins(
        "unconsumed",
        &words,
        || other(2),
        |r, broken| {
            r.here().record(1, 0, of_channel(0, 1, 0));
            if !broken {
                r.wait(0, 0, of_channel(0, 1, 0));
            }
        },
    );
}

#[test]
fn an_end_for_which_the_main_thread_does_not_wait_is_found() {
    let words = ["nobody waits for this record", "let thread 0 wait for it"];
    twins(
        "unconsumed",
        &words,
        || other(1),
        |r, broken| {
            r.start(0, 1);
            r.here().record(0, 1, of_thread(0, 0, 0));
            if !broken {
                r.wait(0, 0, of_thread(0, 0, 0));
            }
        },
    );
}

#[test]
fn a_second_record_before_the_wait_is_found() {
    let words =
        ["nothing ensures that the wait for its last record is over", "in the other direction"];
    twins(
        "set-twice",
        &words,
        || other(2),
        |r, broken| {
            r.here().record(0, 0, of_channel(1, 0, 0));
            r.here().wait(1, 0, of_channel(1, 0, 0));
            if !broken {
                r.tell((1, 0), (0, 0), 1);
            }
            r.here().record(0, 0, of_channel(1, 0, 0));
            r.wait(1, 0, of_channel(1, 0, 0));
        },
    );
}

#[test]
fn an_answer_that_comes_before_the_wait_orders_nothing() {
    twins(
        "set-twice",
        &["recorded again"],
        || other(2),
        |r, broken| {
            r.here().record(0, 0, of_channel(1, 0, 0));
            if broken {
                r.record(1, 0, of_channel(0, 1, 1));
            }
            r.here().wait(1, 0, of_channel(1, 0, 0));
            if !broken {
                r.record(1, 0, of_channel(0, 1, 1));
            }
            r.wait(0, 0, of_channel(0, 1, 1));
            r.here().record(0, 0, of_channel(1, 0, 0));
            r.wait(1, 0, of_channel(1, 0, 0));
        },
    );
}

#[test]
fn two_recorders_of_one_notify_are_found() {
    twins(
        "set-twice",
        &["recorded again"],
        || other(1),
        |r, broken| {
            r.start(0, 1).start(0, 2);
            let second = u32::from(!broken);
            r.here().record(0, 1, of_thread(0, 0, 0));
            r.here().record(0, 2, of_thread(0, 0, second));
            r.here().wait(0, 0, of_thread(0, 0, 0));
            r.wait(0, 0, of_thread(0, 0, second));
        },
    );
}

#[test]
fn a_record_that_is_left_over_and_may_come_first_leaves_no_order() {
    // If the record of thread 2 comes first, the main thread does not wait for the writes of thread
    // 1.
    let report = |both: bool| {
        let mut r = other(1);
        r.start(0, 1).start(0, 2);
        for _ in 0..3 {
            r.copy(0, 1, input(0, 0..4), buffer(0, 0..4));
        }
        r.record(0, 1, of_thread(0, 0, 5));
        for _ in 0..9 {
            r.copy(0, 2, input(0, 4..8), buffer(0, 4..8));
        }
        if both {
            r.record(0, 2, of_thread(0, 0, 5));
        }
        r.wait(0, 0, of_thread(0, 0, 5)).copy(0, 0, buffer(0, 0..4), output(0, 0..4));
        r.end(0, 1).end(0, 2);
        ascend_operator::check::check(&r.operator)
    };
    expect(&report(false), "", &[], &[]);
    let both = report(true);
    assert_eq!(rules(&both), ["unconsumed", "set-twice"], "{both}");
    assert_eq!(both.skipped, ["race", "result", "early", "outlives"], "{both}");
}

#[test]
fn a_record_that_is_left_over_behind_the_wait_leaves_the_order() {
    let mut r = other(1);
    r.record(0, 0, of_thread(0, 0, 0)).wait(0, 0, of_thread(0, 0, 0));
    r.record(0, 0, of_thread(0, 0, 0));
    let report = ascend_operator::check::check(&r.operator);
    assert_eq!(rules(&report), ["unconsumed"], "{report}");
    assert!(report.skipped.is_empty(), "{report}");
}

#[test]
fn a_sub_thread_that_is_used_twice_without_its_end_is_found() {
    // The main thread starts the sub-thread again before the sub-thread has notified it.
    twins(
        "set-twice",
        &["recorded again"],
        || other(1),
        |r, broken| {
            let (start, middle) = (of_thread(0, 1, 0), of_thread(0, 0, 1));
            r.here().record(0, 0, start);
            r.here().wait(0, 1, start);
            if !broken {
                r.record(0, 1, middle).wait(0, 0, middle);
            }
            r.here().record(0, 0, start);
            r.wait(0, 1, start).end(0, 1);
        },
    );
}

#[test]
fn two_threads_that_wait_for_one_notify_are_found() {
    let words = ["two threads may wait for one notify at the same time", "a notify of its own"];
    twins(
        "two-waits",
        &words,
        || other(2),
        |r, broken| {
            let second = of_channel(0, 1, u32::from(!broken));
            for thread in [1, 2] {
                r.start(0, thread);
            }
            r.record(1, 0, of_channel(0, 1, 0));
            r.here().wait(0, 1, of_channel(0, 1, 0));
            // The second record is certain to come after the first wait has ended. But both waits
            // may have begun before.
            r.tell((0, 1), (1, 0), 2);
            r.record(1, 0, second);
            r.here().wait(0, 2, second);
            for thread in [1, 2] {
                r.end(0, thread);
            }
        },
    );
}

#[test]
fn a_sub_thread_that_begins_by_itself_is_found() {
    let words =
        ["thread 1 of rank 0 begins by itself", "let the main thread record a notify of thread 1"];
    twins(
        "frame",
        &words,
        || other(1),
        |r, broken| {
            if !broken {
                r.start(0, 1);
            }
            r.here().copy(0, 1, input(0, 0..4), output(0, 0..4)).end(0, 1);
        },
    );
}

#[test]
fn a_sub_thread_that_runs_on_behind_the_end_is_found() {
    let words = [
        "thread 1 of rank 0 runs on after the operator",
        "let its last task record a notify of thread 0",
    ];
    twins(
        "frame",
        &words,
        || other(1),
        |r, broken| {
            r.start(0, 1);
            if broken {
                r.end(0, 1);
            }
            r.here().copy(0, 1, input(0, 0..4), output(0, 0..4));
            if !broken {
                r.end(0, 1);
            }
        },
    );
}

#[test]
fn a_sub_thread_that_another_sub_thread_starts_is_found() {
    let words = ["thread 2 of rank 0 is started by thread 1, not by the main thread"];
    twins(
        "frame",
        &words,
        || other(1),
        |r, broken| {
            r.start(0, 1);
            r.here().record(0, u32::from(broken), of_thread(0, 2, 0));
            r.here().wait(0, 2, of_thread(0, 2, 0));
            r.end(0, 2).end(0, 1);
        },
    );
}
