//! Checks notifies: every record ends a wait, the next record comes after that wait, and a notify
//! has one waiter at a time.

use super::finding::Notes;
use super::ground::{Ground, PATIENCE};
use crate::order::Search;
use crate::task::{Signal, Task};
use std::collections::HashMap;

/// The consequence of a record whose notify is already set.
const ONE_BIT: &str =
    "a notify is one bit: two records in a row count once, and a wait hangs later";

pub(super) fn look(ground: &Ground<'_>, notes: &mut Notes, skipped: &mut Vec<&'static str>) {
    unconsumed(ground, notes);
    let mut search = ground.order.search();
    // The last record of each notify that has ended a wait.
    let mut last: HashMap<Signal, u32> = HashMap::new();
    for record in ground.sequence() {
        if let Task::Record(signal) = ground.task(record)
            && let Some(wait) = ground.order.partner(record)
            && let Some(earlier) = last.insert(*signal, record)
            && let Some(over) = ground.order.partner(earlier)
        {
            pair(ground, &mut search, (earlier, over), (record, wait), notes);
            if search.steps() > PATIENCE && notes.has(&["set-twice", "two-waits"]) {
                skipped.extend(["further set-twice", "further two-waits"]);
                return;
            }
        }
    }
    // A record that no wait takes may end one of these waits instead, if it comes first.
    for record in ground.order.unconsumed().iter().filter_map(|left| ground.order.number(*left)) {
        if let Task::Record(signal) = ground.task(record)
            && let Some(earlier) = last.get(signal).copied()
            && let Some(over) = ground.order.partner(earlier)
        {
            again(ground, &mut search, (earlier, over), record, notes);
        }
    }
}

fn unconsumed(ground: &Ground<'_>, notes: &mut Notes) {
    let left = ground.order.unconsumed();
    for record in left.iter().filter_map(|record| ground.order.number(*record)) {
        notes.add("unconsumed", "", vec![ground.place(record)], || {
            let message = "nobody waits for this record, so its notify stays set, and the first wait for it in the next operator ends at once";
            (message.into(), who_waits(ground, record))
        });
    }
    if ground.operators.len() > 1 {
        for record in ground.sequence() {
            if let Some(wait) = ground.order.partner(record)
                && matches!(ground.task(record), Task::Record(_))
                && ground.operator(record) != ground.operator(wait)
            {
                let places = vec![ground.place(record), ground.place(wait)];
                notes.add("unconsumed", "other", places, || {
                    let message = "this record ends a wait of another operator";
                    (message.into(), who_waits(ground, record))
                });
            }
        }
    }
}

/// Returns the help for a record that no wait takes.
fn who_waits(ground: &Ground<'_>, record: u32) -> String {
    match ground.task(record) {
        Task::Record(Signal::Thread { thread, .. }) => {
            format!("let thread {thread} wait for it in the same operator, or leave the record out")
        }
        Task::Record(Signal::Channel { rank, .. }) => {
            format!("let rank {rank} wait for it in the same operator, or leave the record out")
        }
        _ => String::new(),
    }
}

/// Checks two successive records of a notify, with the waits that they end.
fn pair(
    ground: &Ground<'_>,
    search: &mut Search<'_>,
    (earlier, over): (u32, u32),
    (record, wait): (u32, u32),
    notes: &mut Notes,
) {
    let lanes = ground.order.lanes();
    // The condition is about the beginning of the second wait, not about its end.
    let one_waiter = if lanes.number(over) == lanes.number(wait) {
        over < wait
    } else {
        wait > lanes.lane(wait).start && search.reaches(over, wait - 1)
    };
    if !one_waiter {
        let places = [over, wait].map(|wait| ground.place(wait)).to_vec();
        notes.add("two-waits", "", places, || {
            let message = "two threads may wait for one notify at the same time, and it is not certain whose wait a record ends";
            let help = "give each of them a notify of its own, or let the second wait begin when the first one is over";
            (message.into(), help.into())
        });
    } else {
        again(ground, search, (earlier, over), record, notes);
    }
}

/// Checks a record against the earlier record of the same notify. `over` is the wait that the
/// earlier record ends.
fn again(
    ground: &Ground<'_>,
    search: &mut Search<'_>,
    (earlier, over): (u32, u32),
    record: u32,
    notes: &mut Notes,
) {
    if !search.reaches(over, record) {
        let places = [earlier, over, record].map(|task| ground.place(task)).to_vec();
        notes.add("set-twice", "", places, || {
            let message = format!(
                "a notify is recorded again, and nothing ensures that the wait for its last record is over; {ONE_BIT}"
            );
            let help = "let the waiting thread record a notify in the other direction before the next record, or alternate between two notifies";
            (message, help.into())
        });
    }
}
