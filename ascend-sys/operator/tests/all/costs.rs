//! The costs of operators equal the formulas, and the critical path is a path in the order of
//! tasks.

use crate::pictures::algorithms;
use ascend_operator::{Cost, Model, Operator, Order, Task, TaskId};
use std::collections::HashMap;

/// A model in which rounding does not matter, because all times are whole numbers.
const MODEL: Model = Model { alpha: 1000.0, beta: 3.0, gamma: 2.0, notify: 7.0, copy: 1.0 };
const PLAIN: Model = Model::new(1000.0, 3.0, 2.0);

fn task(operator: &Operator, id: TaskId) -> &Task {
    &operator.ranks[id.rank as usize].threads[id.thread as usize][id.position as usize].task
}

fn before(id: TaskId) -> Option<TaskId> {
    Some(TaskId { position: id.position.checked_sub(1)?, ..id })
}

fn all() -> Vec<Operator> {
    let small = (2..10).flat_map(|p| {
        [algorithms::ring(p, 100), algorithms::mesh(p, 100), algorithms::pairwise(p, 100)]
    });
    small.chain([2, 4, 8, 16].map(|p| algorithms::hierarchical(p, 64))).collect()
}

#[test]
fn the_critical_path_is_a_path_of_the_order_and_its_times_add_up() {
    for operator in all() {
        let order = Order::of(&operator).unwrap();
        for model in [MODEL, PLAIN] {
            let cost = Cost::of(&operator, &model);
            let sum: f64 =
                cost.critical_path.iter().map(|id| model.time(task(&operator, *id))).sum();
            assert_eq!(sum, cost.time, "{}", operator.name);
            assert_eq!(cost.critical_path[0].position, 0);
            for two in cost.critical_path.windows(2) {
                let follows =
                    before(two[1]) == Some(two[0]) || order.record_of(two[1]) == Some(two[0]);
                assert!(follows && order.before(two[0], two[1]), "{}: {two:?}", operator.name);
            }
        }
    }
}

/// Returns the length of the longest chain. Computes, for each task in the order of the tasks, the
/// longest chain that ends with the task.
fn longest(operator: &Operator, length: &dyn Fn(&Task) -> f64) -> f64 {
    let order = Order::of(operator).unwrap();
    let mut until: HashMap<TaskId, f64> = HashMap::new();
    for id in order.sequence() {
        let of = |other: Option<TaskId>| other.map_or(0.0, |other| until[&other]);
        let end = of(before(*id)).max(of(order.record_of(*id))) + length(task(operator, *id));
        until.insert(*id, end);
    }
    until.values().copied().fold(0.0, f64::max)
}

#[test]
fn no_chain_takes_longer_and_none_has_more_transfers() {
    let crosses = |task: &Task| task.pieces().is_some_and(|(from, to)| from.rank != to.rank);
    for operator in all() {
        for model in [MODEL, PLAIN] {
            let cost = Cost::of(&operator, &model);
            assert_eq!(
                cost.time,
                longest(&operator, &|task| model.time(task)),
                "{}",
                operator.name
            );
            let steps = longest(&operator, &|task| f64::from(u8::from(crosses(task))));
            assert_eq!(cost.steps as f64, steps, "{}", operator.name);
        }
    }
}

#[test]
fn a_ring_takes_a_step_a_peer() {
    for p in 2..18_u32 {
        let (cost, peers) = (Cost::of(&algorithms::ring(p, 100), &PLAIN), u64::from(p - 1));
        assert_eq!(cost.steps, peers);
        assert_eq!(cost.time, peers as f64 * (1000.0 + 400.0 * 3.0));
        assert_eq!(cost.bytes_sent, vec![peers * 400; p as usize]);
        assert_eq!(cost.bytes_received, cost.bytes_sent);
    }
}

#[test]
fn a_mesh_takes_one_step() {
    for p in 2..18_u32 {
        let cost = Cost::of(&algorithms::mesh(p, 100), &PLAIN);
        assert_eq!((cost.steps, cost.time), (1, 1000.0 + 400.0 * 3.0));
        assert_eq!(cost.bytes_sent, vec![u64::from(p - 1) * 400; p as usize]);
    }
}

#[test]
fn pairwise_exchange_takes_a_step_a_peer() {
    for p in 2..18_u32 {
        let (cost, peers) = (Cost::of(&algorithms::pairwise(p, 100), &PLAIN), u64::from(p - 1));
        assert_eq!((cost.steps, cost.time), (peers, peers as f64 * (1000.0 + 400.0 * 3.0)));
        assert_eq!(cost.bytes_sent, vec![peers * 400; p as usize]);
    }
}

#[test]
fn reductions_cost_more_than_copies() {
    // Data moves within servers of two ranks, then between servers, and then within servers again,
    // in halves of 32 elements.
    for (p, rounds) in [(2, 0), (4, 1), (8, 2), (16, 3)] {
        let cost = Cost::of(&algorithms::hierarchical(p, 64), &PLAIN);
        assert_eq!(cost.steps, rounds + 2);
        let (moves, reduces) = ((rounds + 2) as f64, (rounds + 1) as f64);
        assert_eq!(cost.time, moves * (1000.0 + 128.0 * 3.0) + reduces * 128.0 * 2.0);
    }
}

#[test]
fn of_what_hangs_only_what_ran_is_counted() {
    let operator = algorithms::hangs();
    let cost = Cost::of(&operator, &MODEL);
    assert_eq!(cost.stuck, Order::of(&operator).unwrap_err().waits);
    assert_eq!((cost.time, cost.steps), (16.0, 0));
    assert_eq!(cost.bytes_sent, [0; 3]);
}
