//! The page about the rules shows the texts of the checker.

use crate::recorder::*;
use ascend_operator::check::{Product, Setting, check_with};
use ascend_operator::plan::Engine;
use ascend_operator::{Goal, Operator, Plan, ReduceOp, Task};

const PAGE: &str = include_str!("../../../../docs/src/reference/operator-checks.md");

/// Returns the text without the source places, which differ in the reader's program.
fn without_places(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("  --> "));
    lines.map(|line| format!("{line}\n")).collect()
}

#[track_caller]
fn shown(setting: &Setting, operators: &[Operator]) {
    let report = check_with(operators, setting);
    let finding = report.findings.first().unwrap();
    let text = without_places(&finding.to_string());
    assert!(without_places(PAGE).contains(&text), "the page does not show\n{finding}");
}

fn shows(recorder: &Recorder) {
    shown(&Setting::default(), std::slice::from_ref(&recorder.operator));
}

/// Returns a recorder with four elements for each rank, and a channel of two notifies between every
/// two ranks.
fn goal(goal: Goal, ranks: u32) -> Recorder {
    let mut r = Recorder::new(goal, ranks, 4, 4 * u64::from(ranks));
    r.all_channels(2);
    r
}

#[test]
fn the_page_shows_tasks_that_are_wrong_by_themselves() {
    let mut r = goal(Goal::Send { from: 0, to: 1 }, 2);
    r.copy(0, 0, input(0, 0..4), buffer(0, 6..10));
    shows(&r);
    let mut r = goal(Goal::AllGather, 2);
    r.copy(0, 0, input(0, 0..4), output(1, 0..4));
    shows(&r);
    let mut r = goal(Goal::AllGather, 2);
    r.copy(0, 0, buffer(0, 0..4), buffer(0, 2..6));
    shows(&r);
    let mut r = goal(Goal::AllReduce(ReduceOp::Sum), 2);
    r.sum(0, 0, buffer(1, 0..4), input(0, 0..4));
    shows(&r);
    let mut r = goal(Goal::AllGather, 2);
    r.copy(0, 0, input(0, 0..4), output(0, 0..3));
    shows(&r);
    let mut r = goal(Goal::AllGather, 2);
    r.copy(0, 1, input(0, 0..4), output(0, 0..4));
    shows(&r);
}

#[test]
fn the_page_shows_what_is_too_much() {
    let mut r = goal(Goal::AllReduce(ReduceOp::Prod), 1);
    r.copy(0, 0, input(0, 0..4), output(0, 0..4));
    let (from, to) = (input(0, 0..4), output(0, 0..4));
    r.task(0, 0, Task::Reduce { from, to, op: ReduceOp::Prod });
    let setting = Setting { product: Some(Product::A3), ..Setting::default() };
    shown(&setting, std::slice::from_ref(&r.operator));

    let mut r = goal(Goal::AllGather, 2);
    r.operator.ranks.iter_mut().for_each(|rank| rank.threads.resize(256, Vec::new()));
    shows(&r);

    let with = |notifies| {
        let mut r = goal(Goal::AllGather, 2);
        r.operator.ranks.iter_mut().for_each(|rank| rank.channels[0].1 = notifies);
        r.operator
    };
    shown(&Setting::default(), &[with(2), with(9)]);

    let r = goal(Goal::AllGather, 3);
    let less = goal(Goal::AllGather, 2);
    let setting = Setting {
        plans: vec![Plan::of(&less.operator.ranks[0], Engine::default())],
        ..Setting::default()
    };
    shown(&setting, std::slice::from_ref(&r.operator));
}

#[test]
fn the_page_shows_what_is_wrong_with_notifies() {
    let mut r = goal(Goal::AllGather, 2);
    for (rank, peer) in [(0, 1), (1, 0)] {
        r.wait(rank, 0, of_channel(rank, peer, 0));
        r.copy(rank, 0, input(rank, 0..4), buffer(peer, 0..4));
        r.record(rank, 0, of_channel(peer, rank, 0));
    }
    shows(&r);
    let mut r = goal(Goal::AllGather, 2);
    r.wait(0, 0, of_channel(0, 1, 1)).record(1, 0, of_channel(0, 1, 0));
    shows(&r);
    let mut r = goal(Goal::AllGather, 2);
    r.operator.handshake = true;
    r.record(0, 0, of_channel(1, 0, 0)).wait(0, 0, of_channel(0, 1, 1));
    r.wait(1, 0, of_channel(1, 0, 0)).record(1, 0, of_channel(0, 1, 1));
    r.wait(1, 0, of_channel(1, 0, 0)).record(1, 0, of_channel(0, 1, 1));
    shows(&r);
    let mut r = goal(Goal::Send { from: 0, to: 1 }, 2);
    r.copy(0, 0, input(0, 0..4), buffer(1, 0..4)).record(0, 0, of_channel(1, 0, 1));
    r.copy(1, 0, buffer(1, 0..4), output(1, 0..4));
    shows(&r);
    let mut r = goal(Goal::Send { from: 0, to: 1 }, 2);
    for half in [0..2, 2..4] {
        r.copy(0, 0, input(0, half.clone()), buffer(1, half.clone())).tell((0, 0), (1, 0), 0);
        r.copy(1, 0, buffer(1, half.clone()), output(1, half));
    }
    shows(&r);
    let mut r = goal(Goal::Send { from: 0, to: 1 }, 2);
    r.start(1, 1).tell((0, 0), (1, 0), 0).tell((1, 0), (0, 0), 1);
    r.tell((0, 0), (1, 1), 0).end(1, 1);
    shows(&r);
}

#[test]
fn the_page_shows_races_and_results() {
    let mut r = goal(Goal::Send { from: 0, to: 1 }, 2);
    r.copy(0, 0, input(0, 0..4), buffer(1, 0..4)).copy(1, 0, buffer(1, 0..4), output(1, 0..4));
    shows(&r);
    let mut r = goal(Goal::Reduce { op: ReduceOp::Sum, root: 0 }, 3);
    r.copy(0, 0, input(0, 0..4), buffer(0, 0..4)).tell((0, 0), (2, 0), 0);
    r.sum(2, 0, input(2, 0..4), buffer(0, 0..4)).tell((2, 0), (0, 0), 0);
    r.copy(0, 0, buffer(0, 0..4), output(0, 0..4));
    shows(&r);
    let mut r = goal(Goal::Send { from: 0, to: 1 }, 2);
    r.copy(1, 0, buffer(0, 0..4), output(1, 0..4));
    shows(&r);
    let mut r = goal(Goal::Reduce { op: ReduceOp::Sum, root: 0 }, 3);
    r.operator.floats = true;
    r.copy(0, 0, input(0, 0..4), buffer(0, 0..4));
    for peer in 1..3 {
        r.tell((0, 0), (peer, 0), 0);
        r.sum(peer, 0, input(peer, 0..4), buffer(0, 0..4)).record(peer, 0, of_channel(0, peer, 0));
    }
    r.wait(0, 0, of_channel(0, 1, 0)).wait(0, 0, of_channel(0, 2, 0));
    r.copy(0, 0, buffer(0, 0..4), output(0, 0..4));
    shows(&r);
}

#[test]
fn the_page_shows_buffers_that_are_used_too_early_and_too_long() {
    let mut r = goal(Goal::Send { from: 0, to: 1 }, 2);
    r.copy(0, 0, input(0, 0..4), buffer(1, 0..4)).tell((0, 0), (1, 0), 0);
    r.copy(1, 0, buffer(1, 0..4), output(1, 0..4));
    shows(&r);
    let send = |first: u32| {
        let mut r = Recorder::new(Goal::Send { from: 0, to: 1 }, 2, 4, 4);
        r.all_channels(2);
        r.copy(0, 0, input(0, 0..4), buffer(0, 0..4)).tell((0, 0), (1, 0), first);
        r.copy(1, 0, buffer(0, 0..4), output(1, 0..4));
        r.operator
    };
    shown(&Setting::default(), &[send(0)]);
    shown(&Setting::default(), &[send(0), send(1)]);
}
