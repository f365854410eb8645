//! The checker: finds mistakes of an operator before it runs.
//!
//! [`check`] checks the recorded tasks of all ranks. [`check_all`] checks operators that run one
//! after the other on one communicator: they share threads, notifies and the communication buffer.
//! The checker moves no data. Every finding is certain, for any speed of the threads and any input.
//! Within the rules, the checker misses nothing. These are the rules, by the name that a
//! [`Finding`] carries:
//!
//! | rule | requirement |
//! |---|---|
//! | `form` | ranks can carry out all tasks: the ranks and threads exist, and the sizes fit |
//! | `bounds`, `overlap`, `input` | every piece within its memory; no task reads what it writes; inputs are not written |
//! | `remote` | a rank reaches a peer through a channel that both have opened; it reaches only the peer's communication buffer and the notifies of the channel |
//! | `frame` | the main thread starts every sub-thread, and every sub-thread notifies the main thread when it ends |
//! | `product`, `quota`, `plan` | the product has the features that are used; a communicator has enough resources, and so has the plan |
//! | `deadlock` | every wait ends |
//! | `unconsumed` | every record ends a wait, of the same operator |
//! | `set-twice`, `two-waits` | a notify is recorded again when its last wait is over, and has one waiter at a time |
//! | `race` | two tasks that touch the same bytes are ordered, if one of them writes, unless both reduce alike |
//! | `result` | bytes are written before they are read; each output finally holds the data that the [goal](crate::Goal) requires, judged by the origin of every byte |
//! | `not-reproducible` | a note: sums or products of floating-point numbers are reduced into one place in a fixed order |
//! | `early`, `outlives` | peers use a communication buffer only between the first and the last task of its owner's main thread |
//!
//! The tasks of a thread complete one after the other, and a wait ends after its record. On HCCS
//! and in the emulator, a write to a peer is complete when its thread continues. On RoCE and UB,
//! only a record on the *same channel* is certain to come after the write. There, the thread of the
//! write must next record a notify on the channel of the write, and only the peer may notify other
//! threads of the data. The checker does not check that.
//!
//! A rule that depends on another rule is skipped while that rule is broken: for example, an
//! operator that hangs has no result.

mod expected;
mod finding;
mod form;
mod frame;
mod frontier;
mod ground;
mod hang;
mod notify;
mod origin;
mod quota;
mod race;
mod result;
mod rounding;
mod setting;

pub use finding::{Finding, Place, Report, Severity};
pub use setting::Setting;

use crate::order::Order;
pub use crate::plan::Product;
use crate::task::Operator;
use finding::Notes;
use ground::Ground;

/// Checks one operator with the default settings.
pub fn check(operator: &Operator) -> Report {
    check_with(std::slice::from_ref(operator), &Setting::default())
}

/// Checks operators that run one after the other on one communicator, with the default settings.
pub fn check_all(operators: &[Operator]) -> Report {
    check_with(operators, &Setting::default())
}

/// Checks operators as [`check`] does, but for a certain product, against a plan, or with other
/// limits.
pub fn check_with(operators: &[Operator], setting: &Setting) -> Report {
    let mut notes = Notes::default();
    let mut skipped = Vec::new();
    form::look(operators, &mut notes);
    quota::look(operators, setting, &mut notes);
    match Order::of_all(operators) {
        Ok(order) => {
            let ground = Ground::new(operators, &order);
            frame::look(&ground, true, &mut notes);
            notify::look(&ground, &mut notes, &mut skipped);
            if notes.has(&["set-twice", "two-waits"]) {
                // If one of these rules is broken, the order of tasks is not certain.
                skipped.extend(["race", "result", "early", "outlives"]);
            } else {
                race::look(&ground, &mut notes, &mut skipped);
                // The result of a race is not certain, and an access out of bounds has no result at
                // all.
                if notes.has(&["form", "bounds", "overlap", "remote", "race"]) {
                    skipped.push("result");
                } else {
                    result::look(&ground, &mut notes);
                    rounding::look(&ground, &mut notes, &mut skipped);
                }
                frontier::look(&ground, &mut notes, &mut skipped);
            }
        }
        Err(stuck) => {
            let ground = Ground::new(operators, &stuck.ran);
            frame::look(&ground, false, &mut notes);
            hang::look(&ground, &stuck.waits, &mut notes);
            skipped.extend([
                "unconsumed",
                "set-twice",
                "two-waits",
                "race",
                "result",
                "early",
                "outlives",
            ]);
        }
    }
    if skipped.contains(&"result") && operators.iter().any(rounding::may_round) {
        skipped.push("not-reproducible");
    }
    let ranks = operators.iter().map(|operator| operator.ranks.len() as u64);
    let threads = |operator: &Operator| operator.ranks.iter().map(|rank| rank.threads.len()).sum();
    let threads = operators.iter().map(threads).max().unwrap_or(0usize);
    Report {
        findings: notes.into_findings(),
        skipped,
        operators: operators.len() as u64,
        ranks: ranks.max().unwrap_or(0),
        threads: threads as u64,
        tasks: operators.iter().map(|operator| operator.tasks() as u64).sum(),
    }
}
