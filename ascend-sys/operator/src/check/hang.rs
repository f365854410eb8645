//! Finds waits that never end. Either no task records the notify, or the thread that would record
//! it waits too, and the waits form a cycle.

use super::finding::Notes;
use super::ground::Ground;
use crate::order::TaskId;
use crate::task::{LEFT, READY, Signal, Task};
use std::collections::HashMap;

/// A record that would end a wait, but that another wait of its thread holds up.
#[derive(Clone, Copy)]
struct Behind {
    record: u32,
    /// The index, among the stuck waits, of the wait that holds up the record.
    wait: usize,
}

pub(super) fn look(ground: &Ground<'_>, waits: &[TaskId], notes: &mut Notes) {
    let order = ground.order;
    let stuck: Vec<u32> = waits.iter().filter_map(|wait| order.number(*wait)).collect();
    // The first record of each notify that is held up.
    let mut held_up: HashMap<Signal, Behind> = HashMap::new();
    for (wait, &first) in stuck.iter().enumerate() {
        for record in first..order.lanes().lane(first).end {
            if let Task::Record(signal) = ground.task(record) {
                held_up.entry(*signal).or_insert(Behind { record, wait });
            }
        }
    }
    let next: Vec<Option<Behind>> = stuck
        .iter()
        .map(|wait| match ground.task(*wait) {
            Task::Wait(signal) => held_up.get(signal).copied(),
            _ => None,
        })
        .collect();
    // A record that no wait takes may be meant for one of the stuck waits.
    let mut left: HashMap<_, u32> = HashMap::new();
    for record in order.unconsumed().iter().filter_map(|record| order.number(*record)) {
        if let Task::Record(signal) = ground.task(record) {
            left.entry(ends(signal)).or_insert(record);
        }
    }
    for (wait, next) in stuck.iter().zip(&next) {
        if let (None, Task::Wait(signal)) = (next, ground.task(*wait)) {
            never(ground, *wait, *signal, left.get(&ends(signal)).copied(), notes);
        }
    }
    // Every other wait leads to one of those waits or into a cycle. Each chain of waits is followed
    // up to a wait that has been visited before.
    let mut seen = vec![usize::MAX; stuck.len()];
    for start in 0..stuck.len() {
        let mut at = start;
        while seen[at] == usize::MAX {
            seen[at] = start;
            match next[at] {
                Some(behind) => at = behind.wait,
                None => break,
            }
        }
        if seen[at] == start && next[at].is_some() {
            circle(ground, &stuck, &next, at, notes);
        }
    }
}

/// Reports a wait whose record never comes. `meant` is a record that may be meant for the wait.
fn never(ground: &Ground<'_>, wait: u32, signal: Signal, meant: Option<u32>, notes: &mut Notes) {
    let operator = &ground.operators[ground.operator(wait) as usize];
    if let Signal::Channel { rank, peer, index } = signal
        && operator.handshake
        && matches!(index, READY | LEFT)
    {
        return handshake(ground, wait, (rank, peer, index), notes);
    }
    let places = std::iter::once(wait).chain(meant).map(|task| ground.place(task)).collect();
    notes.add("deadlock", "never", places, || {
        let record = Task::Record(signal);
        let message = match ground.steps.iter().filter(|step| step.task == record).count() {
            0 => format!("this wait never ends: nobody records {signal}"),
            1 => format!("this wait never ends: {signal} is recorded only once, for another wait"),
            recorded => format!(
                "this wait never ends: {signal} is recorded only {recorded} times, for other waits"
            ),
        };
        let who = match signal {
            Signal::Thread { rank, .. } => format!("another thread of rank {rank}"),
            Signal::Channel { peer, .. } => format!("rank {peer}"),
        };
        let help = match meant.map(|record| ground.task(record)) {
            Some(Task::Record(other)) => {
                format!("{other} is recorded, but nobody waits for it: if the wait is for that one, use its index")
            }
            _ => format!("let {who} record it, or leave the wait out"),
        };
        (message, help)
    });
}

/// Reports a handshake that does not match: a buffer is exposed more or less often than it is
/// entered, or reclaimed more often than it is left.
fn handshake(
    ground: &Ground<'_>,
    wait: u32,
    (rank, peer, index): (u32, u32, u32),
    notes: &mut Notes,
) {
    let (owner, visitor) = if index == READY { (peer, rank) } else { (rank, peer) };
    let ready = Signal::Channel { rank: visitor, peer: owner, index: READY };
    let left = Signal::Channel { rank: owner, peer: visitor, index: LEFT };
    let count = |task| ground.steps.iter().filter(|step| step.task == task).count();
    let (exposed, entered) = (count(Task::Record(ready)), count(Task::Wait(ready)));
    // The last task of the other end that exposes or enters the buffer, if there is one.
    let other = if index == READY { Task::Record(ready) } else { Task::Wait(ready) };
    let other = (0..).zip(&ground.steps).filter(|(_, step)| step.task == other).last();
    let places = [Some(wait), other.map(|(task, _)| task)];
    let places = places.into_iter().flatten().map(|task| ground.place(task)).collect();
    notes.add("deadlock", "handshake", places, || {
        let (ours, theirs) = if exposed != entered {
            (
                times(owner, "exposes", &format!("its buffer to rank {visitor}"), exposed),
                times(visitor, "enters", "it", entered),
            )
        } else {
            (
                times(owner, "reclaims", &format!("its buffer from rank {visitor}"), count(Task::Wait(left))),
                times(visitor, "leaves", "it", count(Task::Record(left))),
            )
        };
        let message = format!("this wait never ends: {ours}, and {theirs}");
        let help = format!(
            "let rank {owner} expose and reclaim its buffer as often as rank {visitor} enters and leaves it: each `lend` has its `visit`"
        );
        (message, help)
    });
}

/// Returns how often a rank does something, such as "rank 0 exposes it twice".
fn times(rank: u32, verb: &str, what: &str, count: usize) -> String {
    match count {
        0 => format!("rank {rank} never {verb} {what}"),
        1 => format!("rank {rank} {verb} {what} once"),
        2 => format!("rank {rank} {verb} {what} twice"),
        _ => format!("rank {rank} {verb} {what} {count} times"),
    }
}

/// Returns a notify without its index: the waiting rank, then the waiting thread or the recording
/// rank, and whether the notify belongs to a thread.
fn ends(signal: &Signal) -> (u32, u32, bool) {
    match signal {
        Signal::Thread { rank, thread, .. } => (*rank, *thread, true),
        Signal::Channel { rank, peer, .. } => (*rank, *peer, false),
    }
}

/// Reports the threads that wait for each other in a cycle. `start` is a wait of the cycle.
fn circle(
    ground: &Ground<'_>,
    stuck: &[u32],
    next: &[Option<Behind>],
    start: usize,
    notes: &mut Notes,
) {
    let mut links = Vec::new();
    let mut at = start;
    while let Some(behind) = next[at] {
        links.push((at, behind.record));
        at = behind.wait;
        if at == start {
            break;
        }
    }
    // The report begins with the first wait of the cycle, so that equal cycles give equal findings.
    let first = (0..links.len()).min_by_key(|place| links[*place].0);
    links.rotate_left(first.unwrap_or(0));
    let tasks = links.iter().flat_map(|(wait, record)| [stuck[*wait], *record]);
    let (places, threads) = (tasks.map(|task| ground.place(task)).collect(), links.len());
    notes.add("deadlock", "circle", places, || {
        let message = match threads {
            1 => "a thread waits for a notify that it records itself only later".to_owned(),
            _ => format!(
                "{threads} threads wait for each other: the record that ends each wait comes after the next wait"
            ),
        };
        (message, "let one of them record before it waits".into())
    });
}
