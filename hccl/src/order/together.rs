//! Groups: operations of several streams that are enqueued together, with one call for all.
//!
//! The steps are the same as in [`super::issue`]: check, take the issue locks, take the numbers,
//! stamp, wait for unfinished conflicting work of other streams, enqueue, publish. Each step is
//! done for all streams before the next step begins. On each of its streams a group is one
//! operation, even if it contains several.
//!
//! # Locks
//!
//! All issue locks are held at once, because no other operation may come between the stamps and the
//! enqueueing. They are taken in the order of their addresses, so that two groups do not deadlock.
//! Other code that holds one issue lock waits for a second one only for a limited time
//! ([`super::issue_order`]). To resolve a conflict, the group gives up all numbers and all issue
//! locks. Then it takes them again.

#![forbid(unsafe_code)]

use std::ptr;

use super::issue::{Operation, PreparedWaits, Publish, Touch, check_places};
use super::stamps::Conflicts;
use super::stream_slot::{Issuing, StreamSlot};
use super::unseen::Unseen;
use super::work::Work;
use crate::device::{Device, Stream};
use crate::error::Result;
use ascend_sync::Guard;

/// The part of a group for one stream. Each stream has at most one part.
pub(crate) struct Part<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) operation: Operation<'a>,
    pub(crate) touches: Vec<Touch<'a>>,
}

impl Part<'_> {
    fn slot(&self) -> &'static StreamSlot {
        self.stream.slot()
    }

    fn device(&self) -> &Device {
        self.stream.device()
    }
}

/// A stream whose issue lock is held and whose next number is taken. The number is published before
/// the lock is released.
struct Held<'a> {
    publish: Publish<'a>,
    issuing: Guard<'a, Issuing>,
    /// The index of the part.
    at: usize,
    number: u64,
}

/// The waits that are enqueued before a part, and the streams that need no more waits.
struct Waits<'a> {
    prepared: PreparedWaits<'a>,
    /// The streams of the group for whose earlier work a wait has been prepared.
    within: Vec<*const StreamSlot>,
}

/// Issues a group. See the [module](self).
///
/// `enqueue` is called once, with no particular context current. The tasks that it enqueues may use
/// exactly the memory that the touches name, each on its own stream. If `enqueue` fails, a part of
/// the group may have been enqueued nevertheless. Then each number is complete when its stream has
/// finished the tasks that it holds at that moment.
pub(crate) fn issue_together(
    parts: &[Part<'_>],
    enqueue: impl FnOnce() -> Result<()>,
) -> Result<Vec<Work>> {
    for Part { stream, operation, touches } in parts {
        check_places(stream.queue(), operation.name, touches)?;
        stream.slot().take_failure_up_to(u64::MAX, Unseen::Dropped)?;
    }
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&at| ptr::from_ref(parts[at].slot()));
    let mut waits: Vec<Waits<'_>> = parts
        .iter()
        .map(|part| Waits { prepared: PreparedWaits::new(part.stream.queue()), within: Vec::new() })
        .collect();
    let (mut held, outcome) = loop {
        let (mut held, conflicts) = take_and_stamp(parts, &order);
        if solve(parts, &mut held, conflicts, &mut waits)? {
            continue;
        }
        for held in &mut held {
            let Part { stream, operation, .. } = parts[held.at];
            let _bound = stream.device().bind()?;
            stream.queue().before_enqueue(held.number);
            let (label, sequence) = match operation.communicator {
                Some((label, sequence)) => (Some(label), sequence),
                None => (None, stream.slot().timeline.position(held.number)),
            };
            held.issuing.note(held.number, operation.name, label, sequence);
            waits[held.at].prepared.enqueue()?;
        }
        take_issue_orders(parts, &order);
        break (held, enqueue());
    };
    // The works are in the order of the parts. If `enqueue` failed, they are dropped at once, and
    // the next operation returns any failure on the device.
    held.sort_by_key(|held| held.at);
    let works = held
        .into_iter()
        .map(|Held { publish, issuing, at, .. }| {
            let work = Work::new(parts[at].slot(), publish.with_work(), parts[at].operation.name);
            drop(issuing);
            work
        })
        .collect();
    for part in parts {
        part.device().reap_if_due();
    }
    outcome.map(|()| works)
}

fn take_and_stamp<'a>(
    parts: &'a [Part<'_>],
    order: &[usize],
) -> (Vec<Held<'a>>, Vec<(usize, Conflicts)>) {
    let mut conflicts = Vec::with_capacity(parts.len());
    let mut all = Vec::with_capacity(parts.len());
    for &at in order {
        let Part { touches, .. } = &parts[at];
        let slot = parts[at].slot();
        let issuing = slot.issuing();
        let number = slot.timeline.next();
        let mut found = Conflicts::default();
        for touch in touches {
            touch.stamps.stamp(slot, number, &touch.range, touch.access, &mut found);
        }
        all.push(Held { publish: Publish::new(slot, number), issuing, at, number });
        conflicts.push((at, found));
    }
    (all, conflicts)
}

/// Records events for the conflicts that have no event yet. Returns whether there were any. If
/// so, all issue locks have been released.
fn solve(
    parts: &[Part<'_>],
    held: &mut Vec<Held<'_>>,
    conflicts: Vec<(usize, Conflicts)>,
    waits: &mut [Waits<'_>],
) -> Result<bool> {
    let mut left = Vec::new();
    for (at, found) in conflicts {
        let Waits { prepared, within } = &mut waits[at];
        for (slot, number) in found.into_iter() {
            // Parts of one group do not conflict with each other, because the bytes that they write
            // are borrowed. A merged stamp may look like such a conflict, but it is about earlier
            // work.
            let own = held.iter().find(|held| ptr::eq(parts[held.at].slot(), slot));
            let number = match own {
                Some(own) if number >= own.number => {
                    if within.contains(&ptr::from_ref(slot)) {
                        continue;
                    }
                    within.push(ptr::from_ref(slot));
                    own.number - 1
                }
                _ => number,
            };
            if number > 0 && !prepared.covers(slot, number) {
                let mut conflict = Conflicts::default();
                conflict.add(slot, number);
                left.push((at, conflict));
            }
        }
    }
    if left.is_empty() {
        return Ok(false);
    }
    held.clear();
    for (at, conflict) in left {
        waits[at].prepared.add(conflict, parts[at].operation.name)?;
    }
    Ok(true)
}

/// Takes the issue order of each device once. The lock of an issue order is the issue lock of one
/// stream of the device. The group holds the issue locks of all its streams. So if one of its
/// streams owns the order already, no other thread can take the order.
fn take_issue_orders(parts: &[Part<'_>], order: &[usize]) {
    for (position, &at) in order.iter().enumerate() {
        let device = parts[at].device();
        let is_first =
            order[..position].iter().all(|&other| parts[other].device().index() != device.index());
        if is_first && !parts.iter().any(|part| device.issue_order().is_of(part.slot())) {
            device.issue_order().take(parts[at].slot());
        }
    }
}
