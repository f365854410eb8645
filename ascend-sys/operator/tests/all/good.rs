//! Correct algorithms: the checker finds nothing, on any number of ranks.

use crate::algorithms::*;
use ascend_operator::check::{Report, check, check_all};
use ascend_operator::{Goal, Operator, ReduceOp};

#[track_caller]
fn good(report: &Report) {
    assert!(report.is_good() && report.skipped.is_empty(), "{report}");
}

/// Returns an algorithm for each goal, and several for some goals.
fn all(ranks: u32) -> Vec<Operator> {
    let (root, op) = (ranks / 2, ReduceOp::Sum);
    let mut all = vec![
        mesh_all_gather(ranks, 4),
        ring_all_gather(ranks, 4),
        mesh_all_reduce(ranks, 4, op),
        mesh_all_reduce(ranks, 4, ReduceOp::Max),
        ring_all_reduce(ranks, 4, ReduceOp::Prod),
        mesh_reduce_scatter(ranks, 4, op),
        pairwise_all_to_all(ranks, 4),
        pairwise_all_to_all_v(ranks),
        tree_broadcast(ranks, 4, root),
        star(Goal::Scatter { root }, ranks, 4),
        star(Goal::Gather { root }, ranks, 4),
        star(Goal::Reduce { root, op: ReduceOp::Min }, ranks, 4),
    ];
    if ranks > 1 {
        all.push(send(root, 0, ranks, 4));
        all.push(send(0, ranks - 1, ranks, 4));
    }
    all
}

#[test]
fn nothing_is_found_in_what_is_right() {
    for ranks in 1..=17 {
        for operator in all(ranks) {
            let report = check(&operator);
            assert!(report.is_good() && report.skipped.is_empty(), "{:?}\n{report}", operator.goal);
        }
    }
}

#[test]
fn nothing_is_found_in_place() {
    for ranks in 1..=9 {
        good(&check(&in_place(mesh_all_gather(ranks, 4), |rank| rank * 4)));
        good(&check(&in_place(ring_all_gather(ranks, 4), |rank| rank * 4)));
        good(&check(&in_place(mesh_all_reduce(ranks, 4, ReduceOp::Sum), |_| 0)));
        good(&check(&in_place(ring_all_reduce(ranks, 4, ReduceOp::Sum), |_| 0)));
    }
}

#[test]
fn the_report_counts_what_was_looked_at() {
    let report = check(&mesh_all_gather(4, 4));
    // There are two copies, five tasks for each of three peers, and four for each of two
    // sub-threads.
    assert_eq!(report.to_string(), "4 ranks, 12 threads, 100 tasks: no finding");
    let one = check(&mesh_all_gather(1, 4));
    assert_eq!(one.to_string(), "1 rank, 1 thread, 2 tasks: no finding");
    let both = check_all(&[send(0, 1, 2, 4), send(1, 0, 2, 4)]);
    assert_eq!(both.to_string(), "2 operators, 2 ranks, 2 threads, 12 tasks: no finding");
    assert_eq!(check_all(&[]).to_string(), "0 operators, 0 ranks, 0 threads, 0 tasks: no finding");
}

#[test]
fn operators_that_leave_their_buffers_to_the_next_follow_each_other() {
    for ranks in 2..=6 {
        // Each of these operators ends on a rank when the peers have finished with that rank's
        // buffer.
        let all = [
            mesh_all_gather(ranks, 4),
            pairwise_all_to_all(ranks, 4),
            mesh_all_gather(ranks, 4),
            ring_all_reduce(ranks, 4, ReduceOp::Sum),
            pairwise_all_to_all_v(ranks),
            mesh_reduce_scatter(ranks, 4, ReduceOp::Sum),
            mesh_all_gather(ranks, 4),
        ];
        let report = check_all(&all);
        assert!(report.is_good(), "{ranks} ranks: {report}");
    }
}
