//! Operators that are right alone and wrong one after the other on one communicator, each row beside its repaired twin.

mod recorder;

use ascend_operator::Goal;
use ascend_operator::check::check;
use recorder::*;

fn broadcast() -> Recorder {
    let mut recorder = Recorder::new(Goal::Broadcast { root: 0 }, 2, 4, 4);
    recorder.all_channels(4);
    recorder
}

/// The root lets the other rank read its buffer, and waits for it to be done, or not.
fn read_by_the_peer(waits: bool) -> Recorder {
    let mut r = broadcast();
    r.here().copy(0, 0, input(0, 0..4), buffer(0, 0..4)).tell((0, 0), (1, 0), 0);
    r.here().copy(1, 0, buffer(0, 0..4), output(1, 0..4));
    r.copy(0, 0, input(0, 0..4), output(0, 0..4));
    if waits {
        r.tell((1, 0), (0, 0), 1);
    }
    r
}

#[test]
fn a_buffer_that_the_next_operator_writes_while_it_is_read_is_found() {
    // The notify is recorded again as well, so each operator takes another one.
    let words = [
        "error[race]: bytes 0..16 of the communication buffer of rank 0 are read and written",
        "operator 0, rank 1, thread 0, task 1: copy",
        "operator 1, rank 0, thread 0, task 0: copy",
    ];
    twin_rows("race", &words, |broken| {
        let mut first = read_by_the_peer(!broken);
        assert!(check(&first.operator).is_good());
        let mut second = broadcast();
        second.here().copy(0, 0, input(0, 0..4), buffer(0, 0..4)).tell((0, 0), (1, 0), 2);
        second.copy(1, 0, buffer(0, 0..4), output(1, 0..4));
        second.copy(0, 0, input(0, 0..4), output(0, 0..4));
        first.marks.remove(0);
        vec![first, second]
    });
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
        let mut first = read_by_the_peer(true);
        first.marks.clear();
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
    let words = ["are reduced into in two ways"];
    twin_rows("race", &words, |broken| {
        let new = |notify| {
            let mut r = Recorder::new(Goal::Other { input: 4, output: 4 }, 2, 0, 4);
            r.all_channels(4).copy(0, 0, input(0, 0..4), output(0, 0..4));
            r.copy(1, 0, input(1, 0..4), output(1, 0..4)).tell((0, 0), (1, 0), notify);
            r
        };
        let (mut first, mut second) = (new(0), new(1));
        first.copy(0, 0, input(0, 0..4), buffer(0, 0..4)).tell((0, 0), (1, 0), 2);
        first.here().sum(1, 0, input(1, 0..2), buffer(0, 0..2));
        second.here().sum(0, 0, input(0, 0..2), buffer(0, 0..2));
        if broken {
            second.operator.element = 8;
            second.operator.goal = Goal::Other { input: 2, output: 2 };
        }
        vec![first, second]
    });
}

#[test]
fn operators_of_different_numbers_of_ranks_are_found() {
    let words = ["operator 0 has 2 ranks, and operator 1 has 3"];
    twin_rows("form", &words, |broken| vec![other(2), other(if broken { 3 } else { 2 })]);
}

#[test]
fn inputs_and_outputs_of_two_operators_are_their_own() {
    // Nothing orders the ranks, and nothing has to.
    let new = || {
        let mut r = Recorder::new(Goal::Other { input: 4, output: 4 }, 2, 0, 4);
        for rank in 0..2 {
            r.copy(rank, 0, input(rank, 0..4), output(rank, 0..4));
        }
        r.operator
    };
    expect(&ascend_operator::check::check_all(&[new(), new()]), "", &[], &[]);
}
