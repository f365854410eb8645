//! The detour of an operation whose links are not made yet: a helper thread makes the call.
//!
//! A call of CANN that needs a link waits inside for the other ranks, and its caller must not. So the
//! caller's stream gets two tasks that do not block, the record of an *event* and the wait for a
//! *notify*, and a [helper](crate::order::helper) makes the call on a stream of its own, the *by-way*:
//!
//! ```text
//! caller's stream   .. before | event                 notify | behind ..
//!                               |                       ^
//!                               v                       |
//! by-way                      event | the operation | notify
//! ```
//!
//! So the operation has its place in the order of the caller's stream, and for everybody else it is
//! that number of that stream: stamps and the [`Work`](crate::Work) name this one, which is complete when
//! the notify has come. How it ended is known on the by-way, and is looked up there
//! ([`Elsewhere`]). What the operation touches is kept until then, whatever happens to the caller's stream.
//!
//! As long as a helper of the device has such calls to make, operations of communicators follow through
//! it, also those whose links are made, so that they are issued in the program's order. Copies and
//! kernels do not.

#![forbid(unsafe_code)]

use std::sync::{Arc, OnceLock};

use ascend_sys::{HcclComm, aclrtStream};

use super::Member;
use super::handle::CommHandle;
use super::links::Needs;
use crate::api::Table;
use crate::api::handles::{EventHandle, NotifyHandle};
use crate::device::deferred::Retire;
use crate::device::{Stream, StreamState};
use crate::error::{Error, Result};
use crate::order::helper::OpenJob;
use crate::order::issue::{Issued, Operation, Touch, issue_number};
use crate::order::label::Takes;
use crate::order::queue::StreamQueue;
use crate::order::stamps::Stamps;
use crate::order::stream_slot::{Elsewhere, StreamSlot};

/// The call of CANN that enqueues the operation.
type Call = Box<dyn FnOnce(&Table, HcclComm, aclrtStream) -> Result<()> + Send>;

/// An operation on its detour, before the call.
struct Detour {
    /// The stream and the number that it has for everybody else.
    queue: Arc<StreamQueue>,
    number: u64,
    by_way: Stream,
    event: Arc<EventHandle>,
    notify: NotifyHandle,
    call: Call,
    needs: Needs,
    name: &'static str,
    sequence: u64,
    /// The thread that has issued it, as the backend knows it.
    thread: u32,
    held: DetourHold,
    end: Arc<End>,
}

/// What must not end before the operation has.
struct DetourHold {
    handle: Arc<CommHandle>,
    /// The memory that it touches.
    _memory: Vec<Arc<Stamps>>,
}

impl Drop for DetourHold {
    fn drop(&mut self) {
        self.handle.end_detour();
    }
}

impl Member {
    /// Whether an operation can be issued by the calling thread: the call will not wait for other ranks, and none
    /// that came before it is still to be issued, which is nothing to a capture.
    #[inline]
    pub(crate) fn is_linked<S: StreamState>(&self, takes: Takes<'_>) -> bool {
        self.handle.links.are_made(takes) && (!S::RUNS || self.device.linking().is_idle())
    }

    /// Issues an operation by way of a helper thread. `touches` names all that `call` uses.
    #[cold]
    pub(crate) fn issue_by_helper<S: StreamState>(
        &self,
        stream: &Stream<S>,
        operation: Operation<'_>,
        touches: &[Touch<'_>],
        call: impl FnOnce(&Table, HcclComm, aclrtStream) -> Result<()> + Send + 'static,
    ) -> Result<Issued> {
        let Some(stream) = S::open(stream) else { return Err(not_while_capturing()) };
        let (device, table) = (&self.device, self.device.table());
        let sequence = operation.communicator.map_or(0, |(_, sequence)| sequence);
        let (name, needs) = (operation.name, Needs::from(operation.takes));
        // All that can fail comes before anything moves.
        let helper = device.linking().reserve()?;
        let by_way = device.stream()?;
        let event = device.take_event()?;
        let notify = {
            let _bound = device.bind()?;
            table.create_notify()?
        };
        let enter = |_| {
            if self.handle.calling().is_none() {
                return Err(Error::Aborted { context: None });
            }
            table.record_event(&event, stream.queue().handle())?;
            table.wait_notify(stream.queue().handle(), &notify)
        };
        let issued = match issue_number((stream.slot(), stream.queue()), operation, touches, enter)
        {
            Ok(issued) => issued,
            Err(error) => {
                device.recycle_event(event);
                device.retire(RetiredNotify { notify, uses: Vec::new() });
                return Err(error);
            }
        };
        // The communicator counts its detours itself.
        let memory = touches.iter().filter(|touch| !Arc::ptr_eq(touch.stamps, &self.stamps));
        let memory = memory.map(|touch| touch.stamps.clone()).collect();
        self.handle.begin_detour();
        let held = DetourHold { handle: self.handle.clone(), _memory: memory };
        let (queue, number, call) = (stream.queue().clone(), issued.number, Box::new(call));
        let detour = Detour {
            queue,
            number,
            by_way,
            event,
            notify,
            call,
            needs,
            name,
            sequence,
            thread: table.thread_number(),
            held,
            end: Arc::default(),
        };
        stream.slot().ends_elsewhere(number, detour.end.clone());
        device.has_detour(stream.slot());
        helper.push(self.handle.key(), move |open| detour.make_call(open));
        Ok(issued)
    }
}

impl Detour {
    /// On the helper thread. Blocks until the links are made.
    fn make_call(self, open: OpenJob) {
        let Detour { by_way, call, held, .. } = self;
        let (queue, number, event) = (&self.queue, self.number, &self.event);
        let (name, sequence) = (self.name, self.sequence);
        let (slot, way, device) = (by_way.slot(), by_way.queue().clone(), by_way.device().clone());
        let (table, handle) = (device.table(), held.handle.clone());
        let communicator = Some((handle.label(), sequence));
        let operation = Operation { name, communicator, takes: Takes::Nothing };
        let fail = |error| {
            let error = handle.label().explain(name, sequence, error);
            queue.slot.faults.add(number..=number, None, error);
        };
        let mut uses = vec![(queue.slot, number)];
        // Until it has its tasks: a stream that is dropped without any is gone at once.
        let mut by_way = Some(by_way);
        table.issue_for(self.thread);
        let issued = issue_number((slot, &way), operation, &[], |raw| {
            let before = slot.ticket();
            let called = table.wait_event(way.handle(), event).and_then(|()| {
                device.issue_order().take(slot);
                let comm = handle.calling().ok_or(Error::Aborted { context: None })?;
                call(table, comm, raw)
            });
            // The number of this very operation: the issue lock is held.
            let (own, tickets) = (slot.timeline.next(), (before, slot.ticket()));
            // Before the notify, so that whoever finds the operation complete finds how it ended, and the next one can be
            // issued by its caller.
            match called {
                Ok(()) => {
                    handle.links.made(&self.needs);
                    let way = |stream| ByWay { number: own, tickets, stream, _held: held };
                    drop(by_way.take().map(way).map(|way| self.end.0.set(way)));
                }
                Err(error) => fail(error),
            }
            drop(open);
            uses.push((slot, own));
            table.record_notify(&self.notify, way.handle())
        });
        table.issue_for(0);
        if let Err(error) = issued {
            tracing::error!("{name} #{sequence} does not come to its end: {error}");
            if uses.len() == 1 {
                fail(error);
            }
        }
        device.recycle_event(self.event);
        device.retire(RetiredNotify { notify: self.notify, uses });
        handle.leave(table, c"it has dropped its communicator");
    }
}

/// The operation on its by-way, after the call.
struct ByWay {
    number: u64,
    tickets: (u64, u64),
    stream: Stream,
    _held: DetourHold,
}

/// How the operation ends: on the by-way, once it is there.
#[derive(Default)]
struct End(OnceLock<ByWay>);

impl Elsewhere for End {
    fn failure(&self) -> Option<Error> {
        let ByWay { number, tickets, stream, .. } = self.0.get()?;
        // The notify may have come before its record has returned on the helper thread. Then that is about to publish
        // the number, with the lock held.
        drop(stream.slot().issuing());
        // The stream that waited may have given up.
        if stream.slot().is_complete(*number) {
            stream.slot().outcome(*number, *tickets).err()
        } else {
            None
        }
    }

    fn waits_for(&self) -> Option<Box<str>> {
        match self.0.get() {
            Some(ByWay { number, stream, .. }) => stream.queue().what_it_waits_for(*number).ok()?,
            None => Some(
                "its links to other ranks are not made yet: they have not issued their side of it"
                    .into(),
            ),
        }
    }
}

#[cold]
fn not_while_capturing() -> Error {
    let problem = "its links are not made yet, and a stream that captures cannot wait for other ranks: \
                   await `connect`, or `connect_to` for messages, before the capture";
    Error::Invalid { operation: "capture", problem: problem.into() }
}

/// A notify that nobody needs any more, once these operations are complete.
struct RetiredNotify {
    notify: NotifyHandle,
    uses: Vec<(&'static StreamSlot, u64)>,
}

impl Retire for RetiredNotify {
    fn name(&self) -> &'static str {
        "notify"
    }

    fn order(&self) -> u8 {
        2
    }

    fn is_free(&mut self) -> bool {
        self.uses.iter().all(|(slot, number)| slot.is_known_complete(*number))
    }

    fn destroy(self: Box<Self>, table: &Table) -> Result<()> {
        table.destroy_notify(self.notify)
    }
}
