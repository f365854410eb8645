//! The computed order of tasks is exact for any program.

use crate::recorder::*;
use ascend_operator::order::{Order, Stuck};
use ascend_operator::{Goal, Operator, Signal, Task, TaskId};
use std::collections::HashMap;

const OTHER: Goal = Goal::Other { input: 8, output: 8 };

fn id(rank: u32, thread: u32, position: u32) -> TaskId {
    TaskId { rank, thread, position }
}

fn all(operators: &[Operator]) -> Vec<TaskId> {
    let mut lengths: HashMap<(u32, u32), u32> = HashMap::new();
    for operator in operators {
        for (rank, tasks) in (0..).zip(&operator.ranks) {
            for (thread, steps) in (0..).zip(&tasks.threads) {
                *lengths.entry((rank, thread)).or_default() += steps.len() as u32;
            }
        }
    }
    let of = |(&(rank, thread), &length)| (0..length).map(move |at| id(rank, thread, at));
    lengths.iter().flat_map(of).collect()
}

/// Returns, for each task, all tasks that come after it by the definition. The relation is closed
/// step by step.
fn closure(order: &Order, tasks: &[TaskId]) -> HashMap<TaskId, Vec<TaskId>> {
    let mut edges: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
    for &task in tasks {
        let next = id(task.rank, task.thread, task.position + 1);
        if tasks.contains(&next) {
            edges.entry(task).or_default().push(next);
        }
        if let Some(record) = order.record_of(task) {
            edges.entry(record).or_default().push(task);
        }
    }
    let mut all = HashMap::new();
    for &task in tasks {
        let (mut found, mut open): (Vec<TaskId>, _) = (Vec::new(), vec![task]);
        while let Some(task) = open.pop() {
            for &next in edges.get(&task).into_iter().flatten() {
                if !found.contains(&next) {
                    found.push(next);
                    open.push(next);
                }
            }
        }
        all.insert(task, found);
    }
    all
}

/// Returns a program whose records and waits come from a random execution. With `one_waiter`, only
/// one thread waits for each notify. Otherwise a wait may take a record that was meant for another
/// wait, so the program may hang.
fn random(random: &mut fastrand::Rng, one_waiter: bool) -> Operator {
    let ranks = random.u32(1..4);
    let mut recorder = Recorder::new(OTHER, ranks, 0, 8);
    let mut set: Vec<Signal> = Vec::new();
    for _ in 0..random.usize(1..40) {
        let (rank, thread) = (random.u32(0..ranks), random.u32(0..3));
        match random.u32(0..5) {
            0 => {
                recorder.copy(rank, thread, input(rank, 0..1), output(rank, 0..1));
            }
            1 | 2 => {
                let index = random.u32(0..2);
                let signal = match random.u32(0..ranks) {
                    peer if peer == rank => of_thread(rank, random.u32(0..3), index),
                    peer => of_channel(peer, rank, index),
                };
                recorder.record(rank, thread, signal);
                set.push(signal);
            }
            _ if !set.is_empty() => {
                let signal = set.swap_remove(random.usize(0..set.len()));
                let (rank, thread) = match signal {
                    Signal::Thread { rank, thread, .. } => (rank, thread),
                    Signal::Channel { rank, index, .. } if one_waiter => (rank, index),
                    Signal::Channel { rank, .. } => (rank, thread),
                };
                recorder.wait(rank, thread, signal);
            }
            _ => {}
        }
    }
    recorder.operator
}

#[test]
fn one_task_comes_before_another_exactly_when_edges_lead_there() {
    let mut ended = 0;
    for seed in 0..2000 {
        let random_numbers = &mut fastrand::Rng::with_seed(seed);
        let operators: Vec<Operator> =
            (0..random_numbers.usize(1..3)).map(|_| random(random_numbers, false)).collect();
        let Ok(order) = Order::of_all(&operators) else { continue };
        ended += 1;
        let tasks = all(&operators);
        let expected = closure(&order, &tasks);
        let mut search = order.search();
        for &a in &tasks {
            for &b in &tasks {
                let before = search.before(a, b);
                assert_eq!(before, expected[&a].contains(&b), "seed {seed}: {a:?} before {b:?}");
            }
        }
        // The sequence and the times agree with the order.
        let place: HashMap<_, _> = order.sequence().iter().zip(0..).collect();
        assert_eq!(place.len(), tasks.len(), "seed {seed}");
        for &a in &tasks {
            for b in &expected[&a] {
                let (a_at, b_at): (&u32, &u32) = (&place[&a], &place[b]);
                assert!(a_at < b_at && order.time_of(a) < order.time_of(*b), "seed {seed}");
            }
        }
    }
    assert!(ended > 1500, "{ended}");
}

#[test]
fn every_wait_has_the_record_of_its_number() {
    for seed in 0..1000 {
        let operator = random(&mut fastrand::Rng::with_seed(seed), true);
        let Ok(order) = Order::of(&operator) else { panic!("seed {seed}: it hangs") };
        let task = |id: &TaskId| {
            operator.ranks[id.rank as usize].threads[id.thread as usize][id.position as usize].task
        };
        let mut records: HashMap<Signal, Vec<TaskId>> = HashMap::new();
        for id in order.sequence() {
            match task(id) {
                Task::Record(signal) => records.entry(signal).or_default().push(*id),
                Task::Wait(signal) => {
                    let record = records.get_mut(&signal).map(|records| records.remove(0));
                    assert_eq!(order.record_of(*id), record, "seed {seed}");
                    assert_eq!(record.and_then(|record| order.wait_of(record)), Some(*id));
                }
                _ => assert_eq!(order.record_of(*id), None),
            }
        }
        let mut left: Vec<TaskId> = records.into_values().flatten().collect();
        left.sort_unstable();
        assert_eq!(order.unconsumed(), left, "seed {seed}");
    }
}

#[test]
fn what_waits_for_ever_holds_up_no_more_than_its_thread() {
    let mut recorder = Recorder::new(OTHER, 2, 0, 8);
    recorder.wait(0, 0, of_channel(0, 1, 0)).record(0, 0, of_channel(1, 0, 0));
    recorder.wait(1, 0, of_channel(1, 0, 0)).record(1, 0, of_channel(0, 1, 0));
    recorder.copy(1, 1, input(1, 0..1), output(1, 0..1));
    let Stuck { ran, waits } = *Order::of(&recorder.operator).unwrap_err();
    assert_eq!(waits, [id(0, 0, 0), id(1, 0, 0)]);
    assert_eq!(ran.sequence(), [id(1, 1, 0)]);
    assert_eq!(ran.time_of(id(1, 1, 0)), Some(0));
    assert_eq!(ran.time_of(id(0, 0, 0)), None);
    assert!(!ran.before(id(1, 1, 0), id(0, 0, 0)) && ran.before(id(0, 0, 0), id(0, 0, 1)));
}

#[test]
fn operators_one_after_the_other_share_threads_and_notifies() {
    let mut first = Recorder::new(OTHER, 1, 0, 8);
    first.record(0, 0, of_thread(0, 1, 0));
    let mut second = Recorder::new(OTHER, 1, 0, 8);
    second.wait(0, 1, of_thread(0, 1, 0)).copy(0, 0, input(0, 0..1), output(0, 0..1));
    let order = Order::of_all(&[first.operator, second.operator]).unwrap();
    assert_eq!(order.record_of(id(0, 1, 0)), Some(id(0, 0, 0)));
    assert!(order.before(id(0, 0, 0), id(0, 0, 1)) && order.before(id(0, 0, 0), id(0, 1, 0)));
    assert!(!order.before(id(0, 0, 1), id(0, 1, 0)) && !order.before(id(0, 1, 0), id(0, 0, 1)));
}

#[test]
fn what_does_not_exist_comes_before_nothing() {
    let mut recorder = Recorder::new(OTHER, 1, 0, 8);
    recorder.copy(0, 0, input(0, 0..1), output(0, 0..1));
    let order = Order::of(&recorder.operator).unwrap();
    for stranger in [id(0, 0, 1), id(0, 1, 0), id(1, 0, 0), id(u32::MAX, u32::MAX, u32::MAX)] {
        assert!(!order.before(stranger, id(0, 0, 0)) && !order.before(id(0, 0, 0), stranger));
        assert_eq!((order.record_of(stranger), order.time_of(stranger)), (None, None));
    }
    assert_eq!(Order::of_all(&[]).unwrap().sequence(), []);
}
