//! Checks that other ranks use a communication buffer only while its owner runs the operator.
//!
//! Each rank begins and ends an operator at its own time. When the first rank ends, it may begin
//! the next operator or a collective, or free its buffer. So peers must use a buffer only between
//! the first and the last task of its owner's main thread. Under this rule, operators that are
//! correct alone do not race in any sequence.

use super::finding::Notes;
use super::ground::{Ground, PATIENCE};
use crate::order::Search;
use crate::task::{Memory, Piece, Task};
use std::collections::BTreeMap;

/// The first and the last access of a thread to the buffer of one peer in one operator. The
/// accesses between the two are ordered with them.
struct Span {
    first: u32,
    last: u32,
}

pub(super) fn look(ground: &Ground<'_>, notes: &mut Notes, skipped: &mut Vec<&'static str>) {
    let mut search = ground.order.search();
    for lane in ground.order.lanes().all() {
        // The spans, by the operator and the owner of the buffer.
        let mut spans: BTreeMap<(u32, u32), Span> = BTreeMap::new();
        for task in lane.start..lane.end {
            if let Some(piece) = of_peer(ground, task, lane.rank) {
                let span = spans.entry((ground.operator(task), piece.rank));
                span.or_insert(Span { first: task, last: task }).last = task;
            }
        }
        for ((operator, owner), span) in spans {
            begins(ground, &mut search, (operator, owner), span.first, notes);
            ends(ground, &mut search, (operator, owner), span.last, notes);
            if search.steps() > PATIENCE && notes.has(&["early", "outlives"]) {
                skipped.extend(["further early", "further outlives"]);
                return;
            }
        }
    }
}

/// Returns the piece of a peer's communication buffer that a task touches.
fn of_peer<'a>(ground: &Ground<'a>, task: u32, rank: u32) -> Option<&'a Piece> {
    ground.moved(task)?;
    let (from, to) = ground.task(task).pieces()?;
    let is_there = |piece: &&Piece| piece.memory == Memory::Buffer && piece.rank != rank;
    [from, to].into_iter().find(is_there)
}

fn begins(
    ground: &Ground<'_>,
    search: &mut Search<'_>,
    (operator, owner): (u32, u32),
    access: u32,
    notes: &mut Notes,
) {
    let main = ground.order.lanes().tasks_of(operator, owner, 0);
    // If the main thread has no task, it does not wait for sub-threads either. Another rule reports
    // that.
    if main.is_empty() || search.reaches(main.start, access) {
        return;
    }
    let places = [access, main.start].map(|task| ground.place(task)).to_vec();
    notes.add("early", "", places, || {
        let (rank, what) = words(ground, access);
        let message = format!(
            "{what}, and nothing ensures that the operator has begun on rank {owner}, whose earlier work may still need them"
        );
        let help = format!(
            "let rank {owner} record a notify of its channel with rank {rank} when its buffer may be used, and let rank {rank} wait for it first (`expose` and `enter`)"
        );
        (message, help)
    });
}

fn ends(
    ground: &Ground<'_>,
    search: &mut Search<'_>,
    (operator, owner): (u32, u32),
    access: u32,
    notes: &mut Notes,
) {
    let main = ground.order.lanes().tasks_of(operator, owner, 0);
    let last = main.clone().next_back();
    if last.is_some_and(|last| search.reaches(access, last)) {
        return;
    }
    let places = [access].into_iter().chain(last).map(|task| ground.place(task)).collect();
    notes.add("outlives", "", places, || {
        let (rank, what) = words(ground, access);
        let message = format!(
            "{what}, and may still do so after the operator has ended on rank {owner}, when the next operator uses them or they are freed"
        );
        let help = format!(
            "let rank {rank} record a notify of its channel with rank {owner} when it is done, and let rank {owner} wait for it before it ends (`leave` and `reclaim`)"
        );
        (message, help)
    });
}

/// Returns the rank that makes an access, and a text that describes the access.
fn words(ground: &Ground<'_>, access: u32) -> (u32, String) {
    let rank = ground.order.lanes().lane(access).rank;
    let what = match ground.task(access) {
        Task::Copy { from, .. } | Task::Reduce { from, .. } if from.rank != rank => {
            format!("rank {rank} reads {from}")
        }
        Task::Copy { to, .. } => format!("rank {rank} writes {to}"),
        Task::Reduce { to, .. } => format!("rank {rank} reduces into {to}"),
        Task::Record(_) | Task::Wait(_) => format!("rank {rank} touches them"),
    };
    (rank, what)
}
