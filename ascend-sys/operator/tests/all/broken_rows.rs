//! Sequences of operators that are correct alone but wrong one after the other on one communicator.
//! Each sequence has its repaired twin.

use crate::algorithms::*;
use crate::recorder::*;
use ascend_operator::check::{check, check_all};
use ascend_operator::{Goal, ReduceOp};

fn broadcast() -> Recorder {
    let mut recorder = Recorder::new(Goal::Broadcast { root: 0 }, 2, 4, 4);
    recorder.all_channels(4);
    recorder
}

/// Returns a broadcast in which the root lets the other rank read its buffer. The root records
/// `notify` when the buffer is full. With `waits`, it waits on the next notify until the other rank
/// is done.
fn read_by_the_peer(notify: u32, waits: bool) -> Recorder {
    let mut r = broadcast();
    r.here().copy(0, 0, input(0, 0..4), buffer(0, 0..4)).tell((0, 0), (1, 0), notify);
    r.here().copy(1, 0, buffer(0, 0..4), output(1, 0..4));
    r.copy(0, 0, input(0, 0..4), output(0, 0..4));
    if waits {
        r.tell((1, 0), (0, 0), notify + 1);
    }
    r
}

#[test]
fn a_buffer_that_the_next_operator_writes_while_it_is_read_is_found() {
    let row = |waits| [0, 2].map(|notify| read_by_the_peer(notify, waits).operator);
    expect(&check_all(&row(true)), "", &[], &[]);
    let report = check_all(&row(false));
    assert_eq!(rules(&report), ["race", "outlives"], "{report}");
    for words in [
        "error[race]: bytes 0..16 of the communication buffer of rank 0 are read and written",
        "operator 0, rank 1, thread 0, task 1: copy",
        "operator 1, rank 0, thread 0, task 0: copy",
        "let rank 1 record a notify of its channel with rank 0 when it is done",
    ] {
        assert!(report.to_string().contains(words), "{words:?} is not in\n{report}");
    }
}

/// Returns an operator in which rank 1 reads from rank 0. Rank 0 first waits until rank 1 is ready.
/// Only with `waits`, rank 0 also waits until rank 1 is done.
fn asked_for(waits: bool) -> Recorder {
    let mut r = Recorder::new(Goal::Send { from: 0, to: 1 }, 2, 4, 4);
    r.all_channels(5).tell((1, 0), (0, 0), 2);
    r.copy(0, 0, input(0, 0..4), buffer(0, 0..4)).here().record(0, 0, of_channel(1, 0, 3));
    r.wait(1, 0, of_channel(1, 0, 3)).here().copy(1, 0, buffer(0, 0..4), output(1, 0..4));
    if waits {
        r.tell((1, 0), (0, 0), 4);
    }
    r
}

#[test]
fn a_peer_that_still_reads_when_the_owner_ends_is_found() {
    let words = [
        "rank 1 reads bytes 0..16 of the communication buffer of rank 0, and may still do so",
        "let rank 1 record a notify of its channel with rank 0 when it is done, and let rank 0 wait",
    ];
    let [broken, good] = [false, true].map(asked_for);
    expect(&check(&good.operator), "", &[], &[]);
    expect(&check(&broken.operator), "outlives", &words, &broken.marks);
    // After itself the operator does not race, because rank 0 waits for rank 1 first. After another
    // operator it does.
    let twice = check_all(&[broken.operator.clone(), broken.operator.clone()]);
    assert_eq!(rules(&twice), ["outlives"], "{twice}");
    let row = |first: Recorder| check_all(&[first.operator, mesh_all_gather(2, 4)]);
    assert_eq!(rules(&row(broken)), ["race", "outlives"]);
    expect(&row(good), "", &[], &[]);
}

#[test]
fn a_peer_that_writes_before_the_owner_begins_is_found() {
    let new = |asks: bool| {
        let mut r = Recorder::new(Goal::Send { from: 0, to: 1 }, 2, 4, 4);
        r.all_channels(5);
        if asks {
            r.tell((1, 0), (0, 0), 2);
        }
        r.here().copy(0, 0, input(0, 0..4), buffer(1, 0..4)).record(0, 0, of_channel(1, 0, 3));
        r.here().wait(1, 0, of_channel(1, 0, 3)).copy(1, 0, buffer(1, 0..4), output(1, 0..4));
        r.tell((1, 0), (0, 0), 4);
        r
    };
    let words = [
        "rank 0 writes bytes 0..16 of the communication buffer of rank 1, and nothing ensures that the operator has begun on rank 1",
        "let rank 1 record a notify of its channel with rank 0 when its buffer may be used",
    ];
    let [broken, good] = [false, true].map(new);
    expect(&check(&good.operator), "", &[], &[]);
    expect(&check(&broken.operator), "early", &words, &broken.marks);
    // After itself the operator does not race. After an operator whose last task reads the buffer
    // it does.
    let twice = check_all(&[broken.operator.clone(), broken.operator.clone()]);
    assert_eq!(rules(&twice), ["early"], "{twice}");
    let row = |last: Recorder| check_all(&[mesh_all_reduce(2, 4, ReduceOp::Sum), last.operator]);
    assert_eq!(rules(&row(broken)), ["race", "early"]);
    expect(&row(good), "", &[], &[]);
}

#[test]
fn a_buffer_of_a_rank_that_has_no_task_is_nobody_s_to_use() {
    let words = ["rank 0 reads bytes 0..16 of the communication buffer of rank 1"];
    let mut r = Recorder::new(Goal::Other { input: 4, output: 4 }, 2, 0, 4);
    r.all_channels(1).here().sum(0, 0, buffer(1, 0..4), buffer(0, 0..4));
    let report = check(&r.operator);
    assert_eq!(rules(&report), ["result", "outlives"], "{report}");
    assert!(report.to_string().contains(words[0]), "{report}");
}

#[test]
fn a_channel_that_an_earlier_operator_opened_needs_no_other_end() {
    let words = ["rank 0 opens a channel to rank 1, which opens none to it"];
    let one_end = |notifies| {
        let mut r = Recorder::new(Goal::Other { input: 4, output: 4 }, 2, 0, 4);
        r.operator.ranks[0].channels.push((1, notifies));
        r
    };
    let both_ends = || {
        let mut r = Recorder::new(Goal::Other { input: 4, output: 4 }, 2, 0, 4);
        r.all_channels(4);
        r
    };
    twin_rows("remote", &words, |broken| {
        let row = [both_ends(), one_end(4)];
        let (first, second) = if broken { (1, 0) } else { (0, 1) };
        let mut row = row.map(Some);
        [first, second].into_iter().filter_map(|at| row[at].take()).collect()
    });
    // A channel that needs more notifies than it has is opened again.
    twin_rows("remote", &words, |broken| vec![both_ends(), one_end(if broken { 5 } else { 3 })]);
}

#[test]
fn a_notify_that_the_next_operator_records_before_it_is_waited_for_is_found() {
    let words = ["error[set-twice]", "operator 1, rank 0, thread 0, task 0: record"];
    twin_rows("set-twice", &words, |broken| {
        let new = || {
            let mut r = Recorder::new(Goal::Other { input: 4, output: 4 }, 2, 0, 4);
            r.all_channels(4);
            r
        };
        let mut first = new();
        first.here().record(0, 0, of_channel(1, 0, 0));
        first.here().wait(1, 0, of_channel(1, 0, 0));
        if !broken {
            first.tell((1, 0), (0, 0), 1);
        }
        let mut second = new();
        second.here().record(0, 0, of_channel(1, 0, 0));
        second.wait(1, 0, of_channel(1, 0, 0));
        assert!(check(&first.operator).is_good() && check(&second.operator).is_good());
        vec![first, second]
    });
}

#[test]
fn a_record_that_ends_a_wait_of_the_next_operator_is_found() {
    let words = [
        "this record ends a wait of another operator",
        "let rank 1 wait for it in the same operator",
    ];
    twin_rows("unconsumed", &words, |broken| {
        let new = || {
            let mut r = Recorder::new(Goal::Other { input: 4, output: 4 }, 2, 0, 4);
            r.all_channels(4);
            r
        };
        let (mut first, mut second) = (new(), new());
        first.here().record(0, 0, of_channel(1, 0, 0));
        let waits = if broken { &mut second } else { &mut first };
        waits.here().wait(1, 0, of_channel(1, 0, 0));
        vec![first, second]
    });
}

#[test]
fn an_operator_that_reads_what_the_last_one_left_is_found() {
    let words = [
        "must be bytes 0..16 of the input of rank 0 in operator 1, and are bytes 0..16 of the input of rank 0 in operator 0",
    ];
    twin_rows("result", &words, |broken| {
        let mut first = read_by_the_peer(0, true);
        // Keep the mark of the origin of the data, and drop the mark of its reader.
        first.marks.truncate(1);
        let mut second = broadcast();
        if !broken {
            second.copy(0, 0, input(0, 0..4), buffer(0, 0..4));
        }
        second.tell((0, 0), (1, 0), 0);
        second.here().copy(1, 0, buffer(0, 0..4), output(1, 0..4)).tell((1, 0), (0, 0), 1);
        second.copy(0, 0, input(0, 0..4), output(0, 0..4));
        vec![first, second]
    });
}

#[test]
fn reductions_of_elements_of_two_sizes_at_once_are_found() {
    let row = |size| {
        let new = |notify| {
            let mut r = Recorder::new(Goal::Other { input: 4, output: 4 }, 2, 0, 4);
            r.all_channels(4).copy(0, 0, input(0, 0..4), output(0, 0..4));
            r.copy(1, 0, input(1, 0..4), output(1, 0..4)).tell((0, 0), (1, 0), notify);
            r
        };
        let (mut first, mut second) = (new(0), new(1));
        first.copy(0, 0, input(0, 0..4), buffer(0, 0..4)).tell((0, 0), (1, 0), 2);
        first.sum(1, 0, input(1, 0..2), buffer(0, 0..2));
        second.sum(0, 0, input(0, 0..2), buffer(0, 0..2));
        second.operator.element = size;
        second.operator.goal = Goal::Other { input: 16 / size, output: 16 / size };
        check_all(&[first.operator, second.operator])
    };
    // Reductions of one element size do not race, although the first one outlives its operator.
    assert_eq!(rules(&row(4)), ["outlives"]);
    let report = row(8);
    assert_eq!(rules(&report), ["race", "outlives"], "{report}");
    assert!(report.to_string().contains("are reduced into in two ways"), "{report}");
}

#[test]
fn operators_of_different_numbers_of_ranks_are_found() {
    let words = ["the number of ranks is 2 for operator 0 and 3 for operator 1"];
    twin_rows("form", &words, |broken| vec![other(2), other(if broken { 3 } else { 2 })]);
}

#[test]
fn inputs_and_outputs_of_two_operators_are_their_own() {
    // Nothing orders the ranks, and nothing needs to.
    let new = || {
        let mut r = Recorder::new(Goal::Other { input: 4, output: 4 }, 2, 0, 4);
        for rank in 0..2 {
            r.copy(rank, 0, input(rank, 0..4), output(rank, 0..4));
        }
        r.operator
    };
    expect(&check_all(&[new(), new()]), "", &[], &[]);
}
