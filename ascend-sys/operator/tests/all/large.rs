//! Operators on hundreds of ranks: measures the time and the memory that the checker takes.
//!
//!     cargo test --release -p ascend-operator --test all large:: -- --include-ignored --nocapture

use crate::algorithms::*;
use ascend_operator::check::{Setting, check_with};
use ascend_operator::{Operator, ReduceOp, Signal, Task};
use std::time::Instant;

/// Returns the most memory that this process has used so far, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

fn look(what: &str, operators: &[Operator]) {
    let tasks: usize = operators.iter().map(Operator::tasks).sum();
    let (recorded, began) = (peak(), Instant::now());
    // A mesh of 256 ranks needs more threads than a communicator has by default.
    let report = check_with(operators, &Setting { threads: 256, ..Setting::default() });
    let took = began.elapsed().as_secs_f64();
    println!("{what}: {tasks} tasks, {took:.2} s, at most {} MiB ({recorded} before)", peak());
    let good = report.is_good() && report.skipped.is_empty();
    assert_eq!(good, !what.starts_with("broken"), "{report}");
}

/// Removes the records and the waits of channel notifies for whose index `out` returns true.
fn without(mut operator: Operator, out: impl Fn(u32) -> bool) -> Operator {
    for steps in operator.ranks.iter_mut().flat_map(|rank| &mut rank.threads) {
        steps.retain(|step| match step.task {
            Task::Record(Signal::Channel { index, .. })
            | Task::Wait(Signal::Channel { index, .. }) => !out(index),
            _ => true,
        });
    }
    operator
}

#[test]
#[ignore = "it takes half a minute in a release build, and many in others"]
fn a_million_tasks_of_256_ranks_are_checked_within_four_gibibytes() {
    let sum = ReduceOp::Sum;
    let mesh = mesh_all_gather(256, 1024);
    look("mesh", &[mesh]);
    look("mesh twice", &[mesh_all_gather(256, 1024), mesh_all_gather(256, 1024)]);
    look("ring twice", &[ring_all_reduce(256, 1024, sum), ring_all_reduce(256, 1024, sum)]);
    look("ring with sub-threads twice", &[ring_all_gather(256, 1024), ring_all_gather(256, 1024)]);
    look("one-shot", &[mesh_all_reduce(256, 1024, sum), mesh_all_gather(256, 1024)]);
    let row = [
        mesh_all_gather(256, 1024),
        ring_all_reduce(256, 1024, sum),
        pairwise_all_to_all(256, 64),
        mesh_reduce_scatter(256, 64, sum),
    ];
    look("row", &row);
    // In the first operator no thread waits before it reads; in the second, none before it writes
    // again.
    look("broken: it races", &[without(mesh_all_gather(256, 1024), |index| index == 0)]);
    let again = || without(mesh_all_gather(256, 1024), |index| index == 1);
    look("broken: notifies again", &[again(), again()]);
    let again = || without(ring_all_reduce(256, 1024, sum), |index| index == 1);
    look("broken: a ring of notifies again", &[again(), again()]);
    assert!(peak() < 4096);
}
