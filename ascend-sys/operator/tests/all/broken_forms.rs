//! Operators with tasks that are wrong by themselves, each with its repaired twin.

use crate::recorder::*;
use ascend_operator::{Goal, Memory, Piece, Task};

#[test]
fn a_copy_beyond_a_memory_is_found() {
    let words = ["this writes bytes 16..36 of the output of rank 0, which has 32"];
    twins(
        "bounds",
        &words,
        || other(1),
        |r, broken| {
            let end = if broken { 9 } else { 8 };
            r.here().copy(0, 0, input(0, 0..end - 4), output(0, 4..end));
        },
    );
}

#[test]
fn a_range_that_ends_nowhere_is_found() {
    twins(
        "bounds",
        &["of the communication buffer of rank 0, which has 32"],
        || other(1),
        |r, broken| {
            let start = if broken { u64::MAX - 3 } else { 0 };
            let to = Piece { rank: 0, memory: Memory::Buffer, start, bytes: 16 };
            r.here().copy(0, 0, input(0, 0..4), to);
        },
    );
}

#[test]
fn a_write_beyond_the_buffer_of_a_peer_is_found() {
    let words = ["this writes bytes 24..40 of the communication buffer of rank 1, which has 32"];
    twins(
        "bounds",
        &words,
        || meeting(2),
        |r, broken| {
            let at = if broken { 6 } else { 4 };
            r.here().copy(0, 0, input(0, 0..4), buffer(1, at..at + 4)).tell((0, 0), (1, 0), 0);
        },
    );
}

#[test]
fn a_copy_onto_what_it_reads_is_found() {
    let words = ["bytes 8..16 of the communication buffer of rank 0 are both read and written"];
    twins(
        "overlap",
        &words,
        || other(1),
        |r, broken| {
            r.copy(0, 0, input(0, 0..4), buffer(0, 0..4));
            let at = if broken { 2 } else { 4 };
            r.here().copy(0, 0, buffer(0, 0..4), buffer(0, at..at + 4));
        },
    );
}

#[test]
fn an_input_that_is_written_is_found() {
    let words = ["this writes bytes 0..16 of the input of rank 0"];
    twins(
        "input",
        &words,
        || other(1),
        |r, broken| {
            let to = if broken { input(0, 0..4) } else { output(0, 0..4) };
            r.copy(0, 0, input(0, 4..8), buffer(0, 0..4));
            r.here().copy(0, 0, buffer(0, 0..4), to);
        },
    );
}

#[test]
fn an_input_that_is_written_as_such_is_found_in_place_too() {
    let new = || {
        let mut r = other(1);
        r.operator.ranks[0].in_place = Some(0);
        r
    };
    let words = ["this writes bytes 0..16 of the input of rank 0", "write the output, which"];
    twins("input", &words, new, |r, broken| {
        let to = if broken { input(0, 0..4) } else { output(0, 0..4) };
        r.copy(0, 0, input(0, 4..8), buffer(0, 0..4));
        r.here().copy(0, 0, buffer(0, 0..4), to);
    });
}

#[test]
fn an_input_that_begins_within_an_element_of_the_output_is_found() {
    let words = ["rank 0 has its input at byte 2 of its output, which has elements of 4 bytes"];
    let new = || Recorder::new(Goal::Other { input: 4, output: 8 }, 1, 0, 4);
    twins("form", &words, new, |r, broken| {
        r.operator.ranks[0].in_place = Some(if broken { 2 } else { 4 });
    });
}

#[test]
fn a_peer_without_a_channel_is_found() {
    let new = || {
        let mut r = Recorder::new(Goal::Other { input: 8, output: 8 }, 3, 0, 8);
        // Through rank 1, rank 2 is notified by rank 0, and rank 0 by rank 2.
        r.channel(0, 1, 6).channel(1, 2, 6).meeting([4, 5]).meet(2);
        r
    };
    let words = ["rank 0 has no channel to rank 2", "open one on both ranks"];
    twins("remote", &words, new, |r, broken| {
        let peer = if broken { 2 } else { 1 };
        r.here().copy(0, 0, input(0, 0..4), buffer(peer, 0..4)).meet(3);
    });
}

#[test]
fn a_channel_with_one_end_is_found() {
    let words = ["rank 0 opens a channel to rank 1, which opens none to it"];
    let new = || Recorder::new(Goal::Other { input: 8, output: 8 }, 2, 0, 8);
    twins("remote", &words, new, |r, broken| {
        r.channel(0, 1, 2);
        if broken {
            r.operator.ranks[1].channels.clear();
        }
    });
}

#[test]
fn ends_with_different_numbers_of_notifies_are_found() {
    let words = ["rank 0 opens its channel with rank 1 with 4 notifies, and rank 1 with 3"];
    twins(
        "remote",
        &words,
        || other(2),
        |r, broken| {
            if broken {
                r.operator.ranks[1].channels[0].1 = 3;
            }
        },
    );
}

#[test]
fn the_output_of_a_peer_is_out_of_reach() {
    let words = ["rank 0 writes the output of rank 1", "let the peer copy"];
    twins(
        "remote",
        &words,
        || meeting(2),
        |r, broken| {
            let to = if broken { output(1, 0..4) } else { buffer(1, 0..4) };
            r.here().copy(0, 0, input(0, 0..4), to);
        },
    );
}

#[test]
fn a_notify_that_the_channel_does_not_have_is_found() {
    let words = ["notify 4 of rank 1 on its channel with rank 0, which has 4"];
    twins(
        "remote",
        &words,
        || other(2),
        |r, broken| {
            let index = if broken { 4 } else { 3 };
            r.here().tell((0, 0), (1, 0), index);
        },
    );
}

#[test]
fn a_record_at_its_own_end_is_found() {
    // This makes two mistakes at once: the peer should record the notify, so now no rank records
    // it.
    let words = ["rank 0 records notify 0 of rank 0 on its channel with rank 1"];
    twins(
        "form",
        &words,
        || other(2),
        |r, broken| {
            let by = if broken { 0 } else { 1 };
            r.here().record(by, 0, of_channel(0, 1, 0)).wait(0, 0, of_channel(0, 1, 0));
        },
    );
}

#[test]
fn a_wait_for_a_notify_of_another_thread_is_found() {
    twins(
        "form",
        &["thread 0 waits for notify 1 of thread 1"],
        || other(1),
        |r, broken| {
            r.start(0, 1);
            let by = if broken { 0 } else { 1 };
            r.record(0, 0, of_thread(0, 1, 1)).here().wait(0, by, of_thread(0, 1, 1));
            r.end(0, 1);
        },
    );
}

#[test]
fn a_task_between_two_other_ranks_is_found() {
    let words = ["rank 0 moves", "one side must be memory of the rank itself"];
    twins(
        "form",
        &words,
        || meeting(3),
        |r, broken| {
            let to = if broken { 2 } else { 0 };
            r.copy(1, 0, input(1, 0..4), buffer(1, 0..4)).tell((1, 0), (0, 0), 0);
            r.here().copy(0, 0, buffer(1, 0..4), buffer(to, 4..8));
        },
    );
}

#[test]
fn a_copy_of_two_lengths_is_found() {
    twins(
        "form",
        &["this reads 16 bytes and writes 20"],
        || other(1),
        |r, broken| {
            let end = if broken { 5 } else { 4 };
            r.here().copy(0, 0, input(0, 0..4), output(0, 0..end));
        },
    );
}

#[test]
fn a_reduction_of_half_an_element_is_found() {
    twins(
        "form",
        &["this reduces 6 bytes of elements of 4"],
        || other(1),
        |r, broken| {
            r.copy(0, 0, input(0, 0..8), output(0, 0..8));
            let bytes = if broken { 6 } else { 8 };
            r.copy(0, 0, input(0, 0..2), buffer(0, 0..2));
            let [from, to] =
                [buffer(0, 0..1), output(0, 0..1)].map(|piece| Piece { bytes, ..piece });
            r.here().sum(0, 0, from, to);
        },
    );
}

#[test]
fn a_reduction_that_begins_within_an_element_is_found() {
    let words = ["this reduces elements of 4 bytes from byte 2 on into those from byte 0 on"];
    twins(
        "form",
        &words,
        || other(1),
        |r, broken| {
            r.copy(0, 0, input(0, 0..8), output(0, 0..8));
            let from = Piece { start: if broken { 2 } else { 4 }, ..input(0, 0..1) };
            r.here().sum(0, 0, from, output(0, 0..1));
        },
    );
}

#[test]
fn a_rank_that_does_not_exist_is_found() {
    twins(
        "form",
        &["this reads memory of rank 7, of 1 ranks"],
        || other(1),
        |r, broken| {
            let of = if broken { 7 } else { 0 };
            r.here().copy(0, 0, input(of, 0..4), output(0, 0..4));
        },
    );
}

#[test]
fn an_output_of_the_wrong_size_is_found() {
    let words = ["the output of rank 1 has 31 bytes, and the goal asks for 8 elements of 4 bytes"];
    twins(
        "form",
        &words,
        || other(2),
        |r, broken| {
            if broken {
                r.operator.ranks[1].output = 31;
            }
        },
    );
}

#[test]
fn a_root_that_is_no_rank_is_found() {
    let new = || Recorder::new(Goal::Send { from: 0, to: 0 }, 1, 0, 8);
    twins("form", &["the goal names rank 1, of 1"], new, |r, broken| {
        r.operator.goal = Goal::Send { from: 0, to: u32::from(broken) };
    });
}

#[test]
fn garbage_is_a_finding_and_never_a_panic() {
    use ascend_operator::check::{check, check_all};
    for seed in 0..3000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let any = |random: &mut fastrand::Rng| {
            let wild = [0, 1, 2, 3, 7, 64, u64::MAX, u64::MAX - 3, u64::from(u32::MAX)];
            wild[random.usize(..wild.len())]
        };
        let number = |n: u64| n as u32;
        let ranks = random.u32(0..4);
        let mut row = Vec::new();
        for _ in 0..random.u32(1..3) {
            let root = number(any(&mut random));
            let goals = [
                Goal::AllGather,
                Goal::Scatter { root },
                Goal::Broadcast { root },
                Goal::Send { from: root, to: 1 },
                Goal::AllToAllV { counts: vec![vec![u64::MAX, 2], vec![u64::MAX]] },
                Goal::AllReduce(ascend_operator::ReduceOp::Max),
            ];
            let goal = goals[random.usize(..goals.len())].clone();
            let mut r = Recorder::new(goal.clone(), ranks.max(1), 3, 8);
            (r.operator.count, r.operator.element) = (any(&mut random), any(&mut random));
            for rank in &mut r.operator.ranks {
                let (peer, notifies) = (number(any(&mut random)), number(any(&mut random)));
                rank.channels.push((peer, notifies));
                rank.in_place = random.bool().then(|| any(&mut random));
                rank.buffer = any(&mut random);
                if random.bool() {
                    rank.threads.clear();
                }
            }
            for _ in 0..random.usize(0..12) {
                let rank = random.u32(0..ranks.max(1));
                let piece = |random: &mut fastrand::Rng| Piece {
                    rank: if random.bool() { rank } else { number(any(random)) },
                    memory: [Memory::Input, Memory::Output, Memory::Buffer][random.usize(..3)],
                    start: any(random),
                    bytes: any(random),
                };
                let (from, to) = (piece(&mut random), piece(&mut random));
                let signals = [
                    of_thread(rank, number(any(&mut random)), 0),
                    of_channel(rank, number(any(&mut random)), number(any(&mut random))),
                    of_channel(number(any(&mut random)), rank, 0),
                ];
                let signal = signals[random.usize(..3)];
                let tasks = [
                    Task::Copy { from, to },
                    Task::Reduce { from, to, op: ascend_operator::ReduceOp::Sum },
                    Task::Record(signal),
                    Task::Wait(signal),
                ];
                r.task(rank, random.u32(0..3), tasks[random.usize(..4)]);
            }
            if ranks == 0 {
                r.operator.ranks.clear();
            }
            row.push(r.operator);
        }
        assert!(!check(&row[0]).to_string().is_empty());
        assert!(!check_all(&row).to_string().is_empty());
    }
}
