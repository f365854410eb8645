//! Issuing an operation: the only code that enqueues a single operation on a stream.
//!
//! An operation is issued in these steps:
//!
//! 1. The caller checks the arguments and takes the stream's issue lock.
//! 2. The operation gets its number and *stamps* everything that it touches.
//! 3. The stream waits for unfinished conflicting operations of other streams.
//! 4. The operation is enqueued, and its number is published. The number is published even if the
//!    enqueue call fails or panics: it then completes when the stream has finished the work that it
//!    holds at that moment.
//!
//! # Locks
//!
//! To wait for another stream, an operation needs an event after the work of that stream. To record
//! the event, it needs the issue lock of *that* stream. So an operation never resolves a conflict
//! while it holds its own stream's issue lock. It gives up its number, records the events, and
//! starts over with these. For a stream of another device the host waits instead.
//!
//! A true conflict is found in the first attempt, because the borrow checker keeps two conflicting
//! operations from being issued at the same time. A conflict that appears in a later attempt comes
//! from merged stamps, or from objects that a graph shares. It is resolved in the same way.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;

use super::label::{Label, Takes};
use super::queue::StreamQueue;
use super::stamps::{AccessKind, Conflicts, Stamps};
use super::stream_slot::StreamSlot;
use super::unseen::Unseen;
use crate::api::handles::EventHandle;
use crate::device::Device;
use crate::error::{Error, OpContext, Result};
use crate::runtime::Runtime;

/// The description of an operation: its name in messages, and its place in a communicator.
#[derive(Clone, Copy)]
pub struct Operation<'a> {
    pub(crate) name: &'static str,
    /// The communicator, and the number of the operation in it.
    pub(crate) communicator: Option<(&'a Arc<Label>, u64)>,
    /// The kind of number that the operation takes in the communicator when it runs.
    pub(crate) takes: Takes<'a>,
}

impl Operation<'_> {
    /// Describes an operation without a communicator.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, communicator: None, takes: Takes::Nothing }
    }

    /// Returns the context for an error of the operation's call. `position` is used as the number
    /// of an operation without a communicator.
    #[cold]
    pub(crate) fn context(&self, position: u64) -> OpContext {
        match self.communicator {
            Some((label, sequence)) => label.failed(self.name, sequence),
            None => OpContext::new(self.name, position),
        }
    }
}

/// The place of an object that an operation touches.
#[derive(Clone, Copy)]
pub enum MemoryPlace<'a> {
    Device(&'a Device),
    /// Pinned memory, which every device of the runtime can access.
    Host(&'a Runtime),
    /// A place that is not checked: memory that a graph uses. The device of the graph is checked
    /// instead.
    Nowhere,
}

/// One object that an operation touches.
#[derive(Clone)]
pub struct Touch<'a> {
    pub(crate) stamps: &'a Arc<Stamps>,
    /// The range in bytes.
    pub(crate) range: Range<usize>,
    pub(crate) access: AccessKind,
    pub(crate) place: MemoryPlace<'a>,
    /// The name of the argument in messages.
    pub(crate) what: &'static str,
}

/// The events of other streams that an operation waits for.
pub(crate) struct PreparedWaits<'a> {
    own: &'a StreamQueue,
    points: SmallVec<[Point; 4]>,
}

/// A stream, the number of one of its operations, and an event recorded after that operation, or
/// `None` if the operation is complete.
type Point = (&'static StreamSlot, u64, Option<Arc<EventHandle>>);

/// An operation that has been issued: the data that a [`Work`] needs besides the slot.
#[derive(Clone, Copy)]
pub struct Issued {
    pub(crate) number: u64,
    /// The tickets of the stream before and after the operation was enqueued.
    pub(crate) tickets: (u64, u64),
}

/// The out-parameter through which a function that is not inlined returns an issued operation. The
/// fields are atomics, so that the compiler moves them one word at a time. It would write a
/// `Result` one word at a time and read it two words at a time, which stalls store forwarding: see
/// `returning-an-operation` in the book's chapter Measurements.
#[derive(Default)]
pub(crate) struct Slip {
    number: AtomicU64,
    before: AtomicU64,
    after: AtomicU64,
}

impl Slip {
    #[inline(always)]
    pub(crate) fn put(&self, Issued { number, tickets: (before, after) }: Issued) {
        self.number.store(number, Relaxed);
        self.before.store(before, Relaxed);
        self.after.store(after, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn issued(&self) -> Issued {
        let tickets = (self.before.load(Relaxed), self.after.load(Relaxed));
        Issued { number: self.number.load(Relaxed), tickets }
    }
}

/// Issues one operation on a stream that is not being captured. See the [module](self).
///
/// `enqueue` gets the raw stream, and the stream's context is current on this thread. The tasks
/// that `enqueue` enqueues may use exactly the memory that `touches` names.
#[inline(always)]
pub(crate) fn issue_number(
    place: (&'static StreamSlot, &StreamQueue),
    operation: Operation<'_>,
    touches: &[Touch<'_>],
    enqueue: impl FnOnce(ascend_sys::aclrtStream) -> Result<()>,
) -> Result<Issued> {
    issue_behind(place, operation, touches, |_| Ok(()), enqueue)
}

/// Issues one operation as [`issue_number`] does. Calls `before` with the number of the operation
/// before it enqueues the waits for other streams.
#[inline(always)]
pub(crate) fn issue_behind(
    (slot, queue): (&'static StreamSlot, &StreamQueue),
    operation: Operation<'_>,
    touches: &[Touch<'_>],
    before: impl FnOnce(u64) -> Result<()>,
    enqueue: impl FnOnce(ascend_sys::aclrtStream) -> Result<()>,
) -> Result<Issued> {
    check_places(queue, operation.name, touches)?;
    slot.take_failure_up_to(u64::MAX, Unseen::Dropped)?;
    let bound = queue.device().bind()?;
    queue.reuse_marks();
    let mut prepared = PreparedWaits::new(queue);
    let issued = loop {
        let mut issuing = slot.issuing();
        let number = slot.timeline.next();
        let mut conflicts = Conflicts::default();
        for touch in touches {
            touch.stamps.stamp(slot, number, &touch.range, touch.access, &mut conflicts);
        }
        // From here on the number is taken, even if a later step fails.
        let publish = Publish::new(slot, number);
        if !conflicts.is_empty() {
            let conflicts = conflicts.without(|other, number| prepared.covers(other, number));
            if !conflicts.is_empty() {
                drop(publish);
                drop(issuing);
                prepared.add(conflicts, operation.name)?;
                continue;
            }
        }
        queue.before_enqueue(number);
        let position = slot.timeline.position(number);
        let sequence = operation.communicator.map_or(position, |(_, sequence)| sequence);
        issuing.note(number, operation.name, operation.communicator.map(|(l, _)| l), sequence);
        let enqueued = before(number)
            .and_then(|()| prepared.enqueue())
            .and_then(|()| enqueue(queue.handle().raw()));
        if let Err(error) = enqueued {
            // A refused operation does not belong to the communicator any more: an abort of the
            // communicator must not end a wait for this number.
            issuing.note(number, operation.name, None, position);
            slot.refuse(number);
            return Err(error.in_operation(|| operation.context(position)));
        }
        break publish.with_work();
    };
    drop(bound);
    drop(prepared);
    queue.device().reap_if_due();
    Ok(issued)
}

#[inline]
pub(crate) fn check_places(
    queue: &StreamQueue,
    operation: &'static str,
    touches: &[Touch<'_>],
) -> Result<()> {
    for touch in touches {
        let (runtime, device) = match touch.place {
            MemoryPlace::Device(device) => (device.runtime(), Some(device)),
            MemoryPlace::Host(runtime) => (runtime, None),
            MemoryPlace::Nowhere => continue,
        };
        let what = touch.what;
        if !runtime.is(queue.device().runtime()) {
            return Err(Error::WrongRuntime { operation, what });
        }
        if let Some(device) = device
            && device.index() != queue.device().index()
        {
            let (expected, found) = (queue.device().index(), device.index());
            return Err(Error::WrongDevice { operation, what, expected, found });
        }
    }
    Ok(())
}

/// The guard of a number that is taken. Its drop publishes the number, also in a panic and after an
/// error.
pub(crate) struct Publish<'a> {
    slot: &'a StreamSlot,
    number: u64,
    before: u64,
}

impl<'a> Publish<'a> {
    /// Returns the guard of the next number of `slot`. The caller holds the issue lock of the slot.
    #[inline]
    pub(crate) fn new(slot: &'a StreamSlot, number: u64) -> Self {
        Publish { slot, number, before: slot.ticket() }
    }

    /// Publishes the number of an operation that gets a `Work`, and returns the operation.
    #[inline]
    pub(crate) fn with_work(self) -> Issued {
        let (slot, number, before) = (self.slot, self.number, self.before);
        slot.watch(number);
        let after = slot.ticket();
        slot.timeline.publish(number, after);
        std::mem::forget(self);
        Issued { number, tickets: (before, after) }
    }
}

impl Drop for Publish<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slot.timeline.publish(self.number, self.slot.ticket());
    }
}

impl<'a> PreparedWaits<'a> {
    #[inline]
    pub(crate) fn new(own: &'a StreamQueue) -> Self {
        Self { own, points: SmallVec::new() }
    }

    pub(crate) fn covers(&self, slot: &StreamSlot, number: u64) -> bool {
        self.points.iter().any(|(other, covered, _)| ptr::eq(*other, slot) && *covered >= number)
    }

    /// Records events for the conflicts. Blocks until conflicting operations of other devices are
    /// complete, because a stream cannot wait for their events. The caller does not hold the issue
    /// lock of its own stream. Returns an error if a conflicting operation is complete and the
    /// program has not seen its failure, or the failure of an operation before it.
    #[cold]
    pub(crate) fn add(&mut self, conflicts: Conflicts, operation: &'static str) -> Result<()> {
        let own = self.own.device();
        for (slot, number) in conflicts.into_iter() {
            self.own.slot.feed(slot, number);
            let unfinished = slot.queue(number).filter(|queue| !queue.is_complete(number));
            let point = match unfinished {
                None => {
                    slot.take_unseen(number, Unseen::Dropped)?;
                    (slot, number, None)
                }
                Some(queue) if queue.device().index() == own.index() => {
                    match queue.event_behind(number)? {
                        Some((event, covered)) => (slot, covered, Some(event)),
                        None => (slot, number, None),
                    }
                }
                // A stream cannot wait for an event of another device, so the host waits. Only a
                // conflict over pinned memory gets here.
                Some(queue) => {
                    queue.wait(number, own.runtime().deadline(), operation)?;
                    slot.take_unseen(number, Unseen::Dropped)?;
                    (slot, number, None)
                }
            };
            self.points.push(point);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn enqueue(&self) -> Result<()> {
        for (_, _, event) in &self.points {
            if let Some(event) = event {
                self.own.table().wait_event(self.own.handle(), event)?;
            }
        }
        Ok(())
    }
}
