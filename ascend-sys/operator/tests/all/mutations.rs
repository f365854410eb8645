//! Tests of the checker on correct algorithms with one random change. An operator that the checker
//! accepts must give the right result at any speed of the ranks. Two tasks that the checker reports
//! as a race must touch the same bytes, one of them must write, and nothing must order them.

use crate::algorithms::*;
use crate::recorder::ELEMENT;
use ascend_operator::check::{Report, check, check_all};
use ascend_operator::{Goal, Memory, Operator, Order, Piece, ReduceOp, Signal, Step, Task, TaskId};
use fastrand::Rng;
use std::collections::{HashMap, HashSet};

fn some(random: &mut Rng) -> Operator {
    let (ranks, n) = (random.u32(2..5), random.u64(1..3));
    let root = random.u32(0..ranks);
    match random.u32(0..9) {
        0 => mesh_all_gather(ranks, n),
        1 => ring_all_gather(ranks, n),
        2 => mesh_all_reduce(ranks, n, ReduceOp::Sum),
        3 => ring_all_reduce(ranks, n, ReduceOp::Sum),
        4 => mesh_reduce_scatter(ranks, n, ReduceOp::Sum),
        5 => pairwise_all_to_all(ranks, n),
        6 => pairwise_all_to_all_v(ranks),
        7 => tree_broadcast(ranks, n, root),
        _ => star(Goal::Gather { root }, ranks, n),
    }
}

/// Makes one random change, anywhere in the operator.
fn change(operator: &mut Operator, random: &mut Rng) {
    let ranks = operator.ranks.len() as u32;
    let rank = random.usize(..operator.ranks.len());
    let threads = &mut operator.ranks[rank].threads;
    let thread = random.usize(..threads.len());
    let steps = &mut threads[thread];
    if steps.is_empty() {
        return;
    }
    let at = random.usize(..steps.len());
    match random.u32(0..5) {
        0 => {
            steps.remove(at);
        }
        1 => steps.insert(at, steps[at]),
        2 if at > 0 => steps.swap(at - 1, at),
        3 => {
            let step = steps.remove(at);
            steps.insert(random.usize(..=steps.len()), step);
        }
        _ => other(&mut steps[at], ranks, random),
    }
}

/// Changes the notify or the bytes of a step.
fn other(step: &mut Step, ranks: u32, random: &mut Rng) {
    match &mut step.task {
        Task::Record(Signal::Channel { index, rank: peer, .. })
        | Task::Wait(Signal::Channel { index, peer, .. }) => {
            if random.bool() {
                *index ^= 1;
            } else {
                *peer = random.u32(0..ranks);
            }
        }
        Task::Record(Signal::Thread { index, .. }) | Task::Wait(Signal::Thread { index, .. }) => {
            *index ^= 1;
        }
        Task::Copy { from, to } | Task::Reduce { from, to, .. } => {
            let piece = if random.bool() { from } else { to };
            if random.bool() {
                piece.start = piece.start.saturating_add(ELEMENT);
            } else {
                piece.start = piece.start.saturating_sub(ELEMENT);
            }
        }
    }
}

/// A machine that runs operators under one schedule. It has the memories of the operators and the
/// notifies that are set.
struct Machine<'a> {
    operators: &'a [Operator],
    memories: HashMap<(usize, u32, Memory), Vec<u64>>,
    set: HashSet<Signal>,
}

impl Machine<'_> {
    fn new<'a>(operators: &'a [Operator], inputs: &mut Rng, garbage: &mut Rng) -> Machine<'a> {
        let mut memories = HashMap::new();
        for (at, operator) in operators.iter().enumerate() {
            for (rank, tasks) in (0..).zip(&operator.ranks) {
                let mut new = |at, memory, random: &mut Rng| {
                    let size = operators.iter().map(|o| o.ranks[rank as usize].buffer).max();
                    let size = if memory == Memory::Buffer { size } else { None };
                    let elements = size.unwrap_or(tasks.size(memory)) / ELEMENT;
                    let values = (0..elements).map(|_| random.u64(..)).collect();
                    memories.insert((at, rank, memory), values);
                };
                new(at, Memory::Input, inputs);
                new(at, Memory::Output, garbage);
                new(0, Memory::Buffer, garbage);
            }
        }
        Machine { operators, memories, set: HashSet::new() }
    }

    fn at(&mut self, operator: usize, piece: &Piece) -> &mut [u64] {
        let operator = if piece.memory == Memory::Buffer { 0 } else { operator };
        let memory = self.memories.get_mut(&(operator, piece.rank, piece.memory)).unwrap();
        let range = piece.start / ELEMENT..(piece.start + piece.bytes) / ELEMENT;
        &mut memory[range.start as usize..range.end as usize]
    }

    /// Runs all threads, each at its own speed. Returns an error if the operators hang, if a record
    /// is lost, or if a notify is still set at the end.
    fn run(&mut self, random: &mut Rng) -> Result<(), String> {
        let mut lanes: HashMap<(u32, usize), Vec<(usize, Task)>> = HashMap::new();
        for (at, operator) in self.operators.iter().enumerate() {
            for (rank, tasks) in (0..).zip(&operator.ranks) {
                for (thread, steps) in tasks.threads.iter().enumerate() {
                    let lane = lanes.entry((rank, thread)).or_default();
                    lane.extend(steps.iter().map(|step| (at, step.task)));
                }
            }
        }
        let mut lanes: Vec<_> = lanes.into_iter().collect();
        lanes.sort_unstable_by_key(|(name, _)| *name);
        let mut next = vec![0; lanes.len()];
        loop {
            let ready: Vec<usize> = (0..lanes.len())
                .filter(|lane| match lanes[*lane].1.get(next[*lane]) {
                    Some((_, Task::Wait(signal))) => self.set.contains(signal),
                    task => task.is_some(),
                })
                .collect();
            if ready.is_empty() {
                break;
            }
            // One thread runs for a while, so that the other threads fall far behind.
            let lane = ready[random.usize(..ready.len())];
            for _ in 0..random.usize(1..6) {
                let Some((operator, task)) = lanes[lane].1.get(next[lane]) else { break };
                match task {
                    Task::Wait(signal) if !self.set.remove(signal) => break,
                    Task::Record(signal) if !self.set.insert(*signal) => {
                        return Err(format!("{signal} is set twice"));
                    }
                    Task::Copy { from, to } => {
                        let values = self.at(*operator, from).to_vec();
                        self.at(*operator, to).copy_from_slice(&values);
                    }
                    Task::Reduce { from, to, .. } => {
                        let values = self.at(*operator, from).to_vec();
                        let sums = self.at(*operator, to).iter_mut().zip(values);
                        sums.for_each(|(sum, value)| *sum = sum.wrapping_add(value));
                    }
                    _ => {}
                }
                next[lane] += 1;
            }
        }
        if (0..lanes.len()).any(|lane| next[lane] < lanes[lane].1.len()) {
            return Err("it hangs".into());
        }
        if let Some(signal) = self.set.iter().next() {
            return Err(format!("{signal} is left"));
        }
        Ok(())
    }

    /// Returns the expected output of a rank.
    fn expected(&self, at: usize, rank: u32) -> Vec<u64> {
        let operator = &self.operators[at];
        let input = |of: u32| &self.memories[&(at, of, Memory::Input)][..];
        let ranks = 0..operator.ranks.len() as u32;
        let n = operator.count as usize;
        let part = |from: u32, of: u32| &input(from)[of as usize * n..][..n];
        let sum = |parts: Vec<&[u64]>| -> Vec<u64> {
            (0..n)
                .map(|i| parts.iter().fold(0, |sum: u64, part| sum.wrapping_add(part[i])))
                .collect()
        };
        match &operator.goal {
            Goal::AllGather => ranks.flat_map(input).copied().collect(),
            Goal::AllReduce(_) => sum(ranks.map(input).collect()),
            Goal::ReduceScatter(_) => sum(ranks.map(|from| part(from, rank)).collect()),
            Goal::AllToAll => ranks.flat_map(|from| part(from, rank)).copied().collect(),
            Goal::AllToAllV { counts } => {
                let of = |from: u32| {
                    let row = &counts[from as usize];
                    let start: u64 = row[..rank as usize].iter().sum();
                    &input(from)[start as usize..][..row[rank as usize] as usize]
                };
                ranks.flat_map(of).copied().collect()
            }
            Goal::Broadcast { root } => input(*root).to_vec(),
            Goal::Gather { root } if rank == *root => ranks.flat_map(input).copied().collect(),
            _ => Vec::new(),
        }
    }

    fn is_right(&self) -> Result<(), String> {
        for at in 0..self.operators.len() {
            for rank in 0..self.operators[at].ranks.len() as u32 {
                if self.memories[&(at, rank, Memory::Output)] != self.expected(at, rank) {
                    return Err(format!("rank {rank} of operator {at} has the wrong result"));
                }
            }
        }
        Ok(())
    }
}

/// Runs operators under `schedules` random schedules.
fn try_out(operators: &[Operator], seed: u64, schedules: u64) -> Result<(), String> {
    for schedule in 0..schedules {
        let random = &mut Rng::with_seed(seed * 1000 + schedule);
        let mut machine = Machine::new(operators, &mut Rng::with_seed(seed), random);
        machine.run(random)?;
        machine.is_right()?;
    }
    Ok(())
}

#[test]
fn the_machine_finds_right_what_is_right() {
    for seed in 0..200 {
        let random = &mut Rng::with_seed(seed);
        let operators = [some(random)];
        assert_eq!(try_out(&operators, seed, 5), Ok(()), "seed {seed}");
    }
}

#[test]
fn what_passes_is_right_at_any_speed_and_what_is_found_goes_wrong() {
    let (mut passed, mut stuck, mut wrong, mut lost) = (0, 0, 0, 0);
    for seed in 0..3000 {
        let random = &mut Rng::with_seed(seed);
        let mut operator = some(random);
        change(&mut operator, random);
        let (operators, report) = ([operator.clone()], check(&operator));
        let has =
            |rules: &[&str]| report.findings.iter().any(|finding| rules.contains(&finding.rule));
        // The machine cannot use ranks and memory that do not exist.
        if has(&["form", "bounds"]) {
            continue;
        }
        let goes = |schedules| try_out(&operators, seed, schedules);
        if report.is_good() {
            passed += 1;
            assert_eq!(goes(40), Ok(()), "seed {seed}");
        } else if has(&["deadlock", "unconsumed"]) {
            // The operator must fail at any speed.
            stuck += 1;
            assert!(goes(1).is_err(), "seed {seed}\n{report}");
        } else if has(&["result"]) && report.to_string().contains("must be") {
            wrong += 1;
            assert!(goes(1).is_err(), "seed {seed}\n{report}");
        } else if has(&["set-twice", "two-waits"]) {
            // The operator fails at some speed, which may be rare.
            lost += u32::from(goes(40).is_err());
        }
    }
    let counts = [passed, stuck, wrong, lost];
    assert!(counts.iter().all(|count| *count > 30), "{counts:?}");
}

#[test]
fn rows_that_pass_are_right_at_any_speed() {
    let mut passed = 0;
    for seed in 0..800 {
        let random = &mut Rng::with_seed(seed);
        let mut first = some(random);
        change(&mut first, random);
        let ranks = first.ranks.len() as u32;
        let operators = [first, mesh_all_gather(ranks, 2), pairwise_all_to_all(ranks, 1)];
        if check_all(&operators).is_good() {
            passed += 1;
            assert_eq!(try_out(&operators, seed, 20), Ok(()), "seed {seed}");
        }
    }
    assert!(passed > 20, "{passed} passed");
}

/// Returns the operator with other notifies: the indices of all notifies, of threads and of
/// channels, are larger by `higher`.
fn with_other_notifies(mut operator: Operator, higher: u32) -> Operator {
    for rank in &mut operator.ranks {
        rank.channels.iter_mut().for_each(|(_, notifies)| *notifies = 40);
        for step in rank.threads.iter_mut().flatten() {
            if let Task::Record(signal) | Task::Wait(signal) = &mut step.task {
                let (Signal::Thread { index, .. } | Signal::Channel { index, .. }) = signal;
                *index += higher;
            }
        }
    }
    operator
}

#[test]
fn operators_that_pass_alone_pass_in_any_row_with_notifies_of_their_own() {
    let mut passed: Vec<Operator> = Vec::new();
    let (mut rows, mut held_back) = (0, 0);
    for seed in 0..4000 {
        let random = &mut Rng::with_seed(seed);
        let mut operator = some(random);
        change(&mut operator, random);
        let report = check(&operator);
        held_back += u32::from(
            !report.is_good()
                && report.findings.iter().all(|found| ["early", "outlives"].contains(&found.rule)),
        );
        if !report.is_good() {
            continue;
        }
        let ranks = operator.ranks.len();
        if let Some(other) = passed.iter().rev().find(|other| other.ranks.len() == ranks) {
            let row = [other.clone(), operator.clone(), other.clone()];
            let row = (0..).zip(row).map(|(at, one)| with_other_notifies(one, at * 8));
            let report = check_all(&row.collect::<Vec<_>>());
            assert!(report.is_good() && report.skipped.is_empty(), "seed {seed}\n{report}");
            rows += 1;
        }
        passed.push(operator);
    }
    assert!(rows > 300 && held_back > 30, "{rows} rows, {held_back} held back");
}

/// Returns whether two tasks race by the definition: they touch the same bytes, one of them writes,
/// not both reduce, and nothing orders them.
fn races(operator: &Operator) -> bool {
    let order = Order::of(operator).unwrap();
    let task = |id: &TaskId| {
        operator.ranks[id.rank as usize].threads[id.thread as usize][id.position as usize].task
    };
    let meet = |a: &Piece, b: &Piece| {
        (a.rank, a.memory) == (b.rank, b.memory)
            && a.start.max(b.start) < a.range().end.min(b.range().end)
    };
    let conflict = |a: &Task, b: &Task| {
        let (Some((a_from, a_to)), Some((b_from, b_to))) = (a.pieces(), b.pieces()) else {
            return false;
        };
        let both_reduce = matches!((a, b), (Task::Reduce { .. }, Task::Reduce { .. }));
        meet(a_from, b_to) || meet(a_to, b_from) || (meet(a_to, b_to) && !both_reduce)
    };
    let all = order.sequence();
    let moving: Vec<&TaskId> = all.iter().filter(|id| task(id).pieces().is_some()).collect();
    moving.iter().enumerate().any(|(at, a)| {
        moving[..at].iter().any(|b| {
            conflict(&task(a), &task(b)) && !order.before(**a, **b) && !order.before(**b, **a)
        })
    })
}

#[test]
fn a_race_is_found_exactly_where_nothing_orders_two_tasks() {
    let looked_at = |report: &Report| {
        let broken = ["form", "bounds", "overlap", "remote", "deadlock", "set-twice", "two-waits"];
        !report.findings.iter().any(|finding| broken.contains(&finding.rule))
    };
    let (mut clean, mut racing) = (0, 0);
    for seed in 0..1500 {
        let random = &mut Rng::with_seed(seed);
        let mut operator = some(random);
        change(&mut operator, random);
        let report = check(&operator);
        if looked_at(&report) {
            let found = report.findings.iter().any(|finding| finding.rule == "race");
            assert_eq!(found, races(&operator), "seed {seed}\n{report}");
            *(if found { &mut racing } else { &mut clean }) += 1;
        }
    }
    assert!(clean > 150 && racing > 150, "{clean} clean, {racing} racing");
}
