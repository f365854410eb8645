//! Checks that the main thread starts every sub-thread, and that every sub-thread notifies the main
//! thread when it ends.
//!
//! Only the main thread is ordered with the other work of the user's stream. A sub-thread that the
//! main thread does not start runs before earlier work of the stream. A sub-thread that the main
//! thread does not wait for runs on after the operator has ended.

use super::finding::Notes;
use super::ground::Ground;
use crate::task::{Signal, Task};

/// Checks the start and the end of every sub-thread. `paired` tells whether the pairs of records
/// and waits are known.
pub(super) fn look(ground: &Ground<'_>, paired: bool, notes: &mut Notes) {
    for lane in ground.order.lanes().all().iter().filter(|lane| lane.thread != 0) {
        let mut first = lane.start;
        while first < lane.end {
            let operator = ground.operator(first);
            let behind = (first..lane.end).find(|task| ground.operator(*task) != operator);
            let last = behind.unwrap_or(lane.end) - 1;
            begins(ground, first, paired, notes);
            ends(ground, last, notes);
            first = last + 1;
        }
    }
}

fn begins(ground: &Ground<'_>, first: u32, paired: bool, notes: &mut Notes) {
    let lanes = ground.order.lanes();
    let (rank, thread) = (lanes.lane(first).rank, lanes.lane(first).thread);
    let started = match *ground.task(first) {
        Task::Wait(Signal::Thread { rank: of, thread: on, .. }) => (of, on) == (rank, thread),
        _ => false,
    };
    if !started {
        notes.add("frame", "begin", vec![ground.place(first)], || {
            let message = format!(
                "thread {thread} of rank {rank} begins by itself: its first task is not a wait for the main thread"
            );
            let help = format!(
                "let the main thread record a notify of thread {thread}, and let that thread wait for it first"
            );
            (message, help)
        });
        return;
    }
    if let Some(record) = ground.order.partner(first).filter(|_| paired)
        && (lanes.lane(record).rank, lanes.lane(record).thread) != (rank, 0)
    {
        let places = vec![ground.place(first), ground.place(record)];
        notes.add("frame", "starter", places, || {
            let starter = lanes.lane(record).thread;
            let message = format!(
                "thread {thread} of rank {rank} is started by thread {starter}, not by the main thread"
            );
            (message, "let thread 0 start it".into())
        });
    }
}

fn ends(ground: &Ground<'_>, last: u32, notes: &mut Notes) {
    let lane = ground.order.lanes().lane(last);
    let (rank, thread) = (lane.rank, lane.thread);
    let told = match *ground.task(last) {
        Task::Record(Signal::Thread { rank: of, thread: on, .. }) => (of, on) == (rank, 0),
        _ => false,
    };
    if !told {
        notes.add("frame", "end", vec![ground.place(last)], || {
            let message = format!(
                "thread {thread} of rank {rank} runs on after the operator: its last task is not a record for the main thread"
            );
            let help = "let its last task record a notify of thread 0, and let thread 0 wait for it";
            (message, help.into())
        });
    }
}
