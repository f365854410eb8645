//! The detour of an operation whose links are not made yet: a helper thread makes the call.
//!
//! A call of CANN that needs a link blocks until the other ranks have made their side of the link.
//! But the caller of an operation must not block. So the caller only enqueues two tasks on its
//! stream: the record of an *event* and the wait for a *notify*. This does not block. A
//! [helper](crate::order::helper) makes the call on another stream, the *by-way*:
//!
//! ```text
//! caller's stream   .. before | event                 notify | after ..
//!                               |                       ^
//!                               v                       |
//! by-way                      event | the operation | notify
//! ```
//!
//! So the operation keeps its place in the order of the caller's stream. Stamps and the
//! [`Work`](crate::Work) refer to it by its number on the caller's stream, and this number is
//! complete when the notify was recorded. The outcome of the operation is recorded on the by-way,
//! and readers look it up there ([`Elsewhere`]). The memory that the operation touches is kept
//! until the operation is complete on the by-way, whatever happens to the caller's stream.
//!
//! While a helper of the device has calls of this kind to make, it also issues the later operations
//! of communicators, even if their links are made. The same is true of replays and kernels that use
//! communicators. So all of them are issued in the program's order. The inner streams of a
//! communicator run their tasks in the order of issue. A task that was issued too early would wait
//! there for its turn, and would block the tasks that should run before it. Copies and other
//! kernels do not go through the helper.

#![forbid(unsafe_code)]

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use ascend_sys::HcclComm;
use smallvec::SmallVec;

use super::Member;
use super::handle::{CommHandle, KeptComm};
use super::links::Needs;
use crate::api::Table;
use crate::api::handles::{NotifyHandle, StreamHandle};
use crate::device::LentEvent;
use crate::device::deferred::Retire;
use crate::device::{Stream, StreamState};
use crate::error::{Error, Result};
use crate::order::helper::OpenJob;
use crate::order::issue::{Issued, Operation, Touch, check_places, issue_behind, issue_number};
use crate::order::label::{Label, Takes};
use crate::order::queue::StreamQueue;
use crate::order::stamps::{Conflicts, Stamps};
use crate::order::stream_slot::{Elsewhere, StreamSlot};
use crate::sync::lock;

/// The time in which a by-way must complete after its notify was recorded. It normally takes
/// microseconds. An operation whose outcome is not known by then counts as failed.
const BEHIND_THE_NOTIFY: Duration = Duration::from_secs(60);

/// The closure that makes CANN's calls to enqueue the operation.
type Call = Box<dyn FnOnce(&Table, &StreamHandle) -> Result<(), CallFailure> + Send>;

/// The error of the calls that enqueue an operation, and the state in which they left it.
pub(crate) struct CallFailure {
    pub(crate) error: Error,
    /// Whether tasks were enqueued despite the error, so that the by-way waits for them.
    pub(crate) is_out: bool,
    /// Whether the state of the communicators is unknown, so that they must be aborted.
    pub(crate) aborts: bool,
}

/// Converts the error of a call that enqueues all or nothing.
impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        CallFailure { error, is_out: false, aborts: false }
    }
}

/// The objects, besides its own communicator, that an operation shares with other operations.
#[derive(Default)]
pub(crate) struct Alike<'a> {
    /// The other communicators that the operation uses.
    pub(crate) others: &'a [&'a Member],
    /// The address of an object. All operations of this object keep their order.
    pub(crate) key: Option<u64>,
}

/// The communicators of an operation.
pub(crate) struct Users {
    /// The [keys](label_key) of the communicators, and [`Alike::key`] if it is given. Operations
    /// that have a key in common keep their order.
    pub(crate) keys: SmallVec<[u64; 2]>,
    /// The handles of the communicators. Empty if something else keeps the handles until the
    /// operation is complete.
    pub(crate) handles: Handles,
    /// The links that are made once the call has returned.
    pub(crate) needs: Needs,
}

/// The handles of the communicators of one operation.
pub(crate) type Handles = SmallVec<[Arc<CommHandle>; 1]>;

/// Returns a number that is unique among the communicators that exist.
pub(crate) fn label_key(label: &Arc<Label>) -> u64 {
    Arc::as_ptr(label).addr() as u64
}

/// An operation on a detour, before its call is made.
struct Detour {
    /// The caller's stream. Stamps and the `Work` refer to the operation by this stream and
    /// `number`.
    queue: Arc<StreamQueue>,
    number: u64,
    by_way: Stream,
    event: LentEvent,
    notify: NotifyHandle,
    call: Call,
    needs: Needs,
    name: &'static str,
    communicator: (Arc<Label>, u64),
    kept: SmallVec<[KeptComm; 1]>,
    held: DetourHold,
    end: Arc<End>,
}

/// A guard that keeps what the operation uses until the operation is complete.
struct DetourHold {
    handles: Handles,
    /// The stamps of everything else that the operation touches.
    _touched: Vec<Arc<Stamps>>,
}

impl DetourHold {
    fn new(handles: Handles, touched: Vec<Arc<Stamps>>) -> Self {
        handles.iter().for_each(|handle| handle.hold());
        DetourHold { handles, _touched: touched }
    }
}

impl Drop for DetourHold {
    fn drop(&mut self) {
        self.handles.iter().for_each(|handle| handle.release());
    }
}

impl Member {
    /// Returns whether the calling thread can issue an operation itself. This needs two conditions:
    /// the links are made, so that the call does not wait for other ranks, and no earlier operation
    /// waits for a helper to issue it. A capture ignores the second condition.
    #[inline]
    pub(crate) fn is_linked<S: StreamState>(&self, takes: Takes<'_>) -> bool {
        self.handle.links.are_made(takes) && (!S::RUNS || self.device.linking().is_idle())
    }

    /// Issues an operation through a helper thread. `touches` names everything that `call` uses.
    /// `needs` names the links that are made once `call` has returned. `call` must enqueue all or
    /// nothing.
    #[cold]
    pub(crate) fn issue_by_helper<S: StreamState>(
        &self,
        stream: &Stream<S>,
        operation: Operation<'_>,
        needs: Needs,
        touches: &[Touch<'_>],
        call: impl FnOnce(&Table, HcclComm, &StreamHandle) -> Result<()> + Send + 'static,
    ) -> Result<Issued> {
        let alike = (Alike::default(), touches);
        self.issue_alike(stream, operation, needs, alike, |table, comm, stream| {
            call(table, comm, stream).map_err(CallFailure::from)
        })
    }

    /// Issues an operation as [`issue_by_helper`](Self::issue_by_helper) does, if it shares more
    /// than its communicator with other operations, or if a failed `call` may have enqueued a part
    /// of it.
    #[cold]
    pub(crate) fn issue_alike<S: StreamState>(
        &self,
        stream: &Stream<S>,
        operation: Operation<'_>,
        needs: Needs,
        (Alike { others, key }, touches): (Alike<'_>, &[Touch<'_>]),
        call: impl FnOnce(&Table, HcclComm, &StreamHandle) -> Result<(), CallFailure> + Send + 'static,
    ) -> Result<Issued> {
        let members = || [self].into_iter().chain(others.iter().copied());
        let handles: Handles = members().map(|member| member.handle.clone()).collect();
        let keys = members().map(|member| label_key(&member.label)).chain(key).collect();
        // The hold on its handle keeps a communicator, so its stamps need not be kept.
        let is_member = |stamps| members().any(|member| Arc::ptr_eq(stamps, &member.stamps));
        let touched = touches.iter().filter(|touch| !is_member(touch.stamps));
        let touched = touched.map(|touch| touch.stamps.clone()).collect();
        let handle = self.handle.clone();
        let call = move |table: &Table, stream: &StreamHandle| {
            let comm = handle.calling().ok_or(Error::Aborted { context: None })?;
            call(table, comm, stream)
        };
        let users = Users { keys, handles, needs };
        issue_by_helper(stream, operation, users, (touches, touched), call)
    }
}

/// Issues an operation of communicators through a helper thread. `touches` names everything that
/// `call` uses, and `touched` is the part of it that must be kept until the operation is complete.
/// Everything touched must be on the stream's device. Returns an error if the stream captures.
#[cold]
pub(crate) fn issue_by_helper<S: StreamState>(
    stream: &Stream<S>,
    operation: Operation<'_>,
    Users { keys, handles, needs }: Users,
    (touches, touched): (&[Touch<'_>], Vec<Arc<Stamps>>),
    call: impl FnOnce(&Table, &StreamHandle) -> Result<(), CallFailure> + Send + 'static,
) -> Result<Issued> {
    let Some(stream) = S::open(stream) else { return Err(not_while_capturing()) };
    let Some((label, sequence)) = operation.communicator else {
        return Err(without_communicator(operation.name));
    };
    check_places(stream.queue(), operation.name, touches)?;
    let device = stream.device();
    let table = device.table();
    let name = operation.name;
    // All calls that can fail come before anything is enqueued.
    let helper = device.linking().reserve(operation.name)?;
    let by_way = device.stream()?;
    let event = device.lend_event()?;
    let notify = {
        let _bound = device.bind()?;
        table.create_notify()?
    };
    let links = handles.iter().flat_map(|handle| handle.links.lacking(&needs)).collect();
    let (begun, way) = (AtomicBool::new(false), OnceLock::new());
    let end = Arc::new(End { begun, way, links });
    // The mark follows the operation before this one. So a thread or a stream that waits for
    // earlier operations does not also wait for other ranks.
    let mark = |number| {
        if label.aborted.load(Acquire) {
            return Err(Error::Aborted { context: None });
        }
        stream.queue().marks.record_behind(stream.queue(), number - 1)
    };
    let enter = |_| {
        // The next number is that of this operation, because the issue lock is held.
        let number = stream.slot().timeline.next();
        table.record_event(&event, stream.queue().handle())?;
        table.wait_notify(stream.queue().handle(), &notify)?;
        stream.slot().ends_elsewhere(number, end.clone());
        Ok(())
    };
    let place = (stream.slot(), &**stream.queue());
    let issued = match issue_behind(place, operation, touches, mark, enter) {
        Ok(issued) => issued,
        Err(error) => {
            device.retire(RetiredNotify { notify, uses: Vec::new() });
            return Err(error);
        }
    };
    let kept = handles.iter().map(|handle| KeptComm::new(handle, device)).collect();
    let held = DetourHold::new(handles, touched);
    let (queue, number, call) = (stream.queue().clone(), issued.number, Box::new(call));
    let communicator = (label.clone(), sequence);
    let detour = Detour {
        queue,
        number,
        by_way,
        event,
        notify,
        call,
        needs,
        name,
        communicator,
        kept,
        held,
        end,
    };
    device.has_detour(stream.slot());
    helper.push(keys, move |open| detour.make_call(open));
    Ok(issued)
}

impl Detour {
    /// Makes the call, on the helper thread. Blocks until the links are made.
    fn make_call(self, open: OpenJob) {
        let Detour { by_way, call, kept, held, end, .. } = self;
        let (queue, number, event) = (&self.queue, self.number, &self.event);
        let (name, (label, sequence)) = (self.name, self.communicator);
        let (slot, way, device) = (by_way.slot(), by_way.queue().clone(), by_way.device().clone());
        let (table, handles) = (device.table(), held.handles.clone());
        let communicator = Some((&label, sequence));
        let operation = Operation { name, communicator, takes: Takes::Nothing };
        let fail = |error| {
            let error = label.explain(name, sequence, error);
            queue.slot.faults.add(number..=number, None, error);
        };
        let mut uses = vec![(queue.slot, number)];
        // Kept until its tasks are enqueued, because a stream that is dropped without tasks is
        // destroyed at once.
        let mut by_way = Some(by_way);
        // Keeps the communicators for the abort, if the failure requires one.
        let mut to_abort = None;
        end.begun.store(true, Release);
        let issued = issue_number((slot, &way), operation, &[], |_| {
            let before = slot.ticket();
            let waits = table.wait_event(way.handle(), event).map_err(CallFailure::from);
            let called = waits.and_then(|()| {
                device.issue_order().take(slot);
                if label.aborted.load(Acquire) {
                    return Err(Error::Aborted { context: None }.into());
                }
                call(table, way.handle())
            });
            // The next number is that of this operation, because the issue lock is held.
            let (own, tickets) = (slot.timeline.next(), (before, slot.ticket()));
            // All of this comes before the notify. So a thread that finds the operation complete
            // also finds its outcome, and can issue the next operation itself.
            let is_out = match called {
                Ok(()) => {
                    handles.iter().for_each(|handle| handle.links.made(&self.needs));
                    true
                }
                Err(failure) => {
                    fail(failure.error);
                    to_abort = failure.aborts.then(|| DetourHold::new(handles.clone(), Vec::new()));
                    failure.is_out
                }
            };
            if is_out && let Some(stream) = by_way.take() {
                let held = Mutex::new(Some(held));
                drop(end.way.set(ByWay { number: own, tickets, stream, held }));
            } else {
                // Nothing was issued, so nothing needs to be kept. When a program finds the
                // operation complete, it may make another communicator of this name.
                drop(held);
            }
            drop((kept, open, end));
            uses.push((slot, own));
            table.record_notify(&self.notify, way.handle())
        });
        if let Err(error) = issued {
            tracing::error!("{name} #{sequence} cannot complete: {error}");
            if uses.len() == 1 {
                fail(error);
            }
        }
        device.retire(RetiredNotify { notify: self.notify, uses });
        if let Some(DetourHold { handles, .. }) = &to_abort
            && let Ok(_bound) = device.bind()
        {
            handles.iter().for_each(|handle| handle.abort(table));
        }
    }
}

/// The operation on its by-way, after the call.
struct ByWay {
    number: u64,
    tickets: (u64, u64),
    stream: Stream,
    /// The guard of what the operation uses. It is dropped when the outcome is read. The [`End`]
    /// may live longer, because waiters use it to describe what they wait for.
    held: Mutex<Option<DetourHold>>,
}

impl Drop for ByWay {
    fn drop(&mut self) {
        if let Some(held) = lock(&self.held).take() {
            let (slot, number) = (self.stream.slot(), self.number);
            self.stream.device().retire(RetiredHold { slot, number, _held: held });
        }
    }
}

/// The state of the operation after the caller has enqueued its event and its notify.
struct End {
    /// Whether its call has begun.
    begun: AtomicBool,
    /// The by-way, once the operation is on it.
    way: OnceLock<ByWay>,
    /// The ranks to which links for messages were missing when the operation was enqueued.
    links: Vec<u32>,
}

impl Elsewhere for End {
    fn failure(&self, gave_up: bool) -> Option<Error> {
        let ByWay { number, tickets, stream, held } = self.way.get()?;
        let slot = stream.slot();
        // The notify may arrive before the helper thread has returned from recording it. The helper
        // then still holds the issue lock, and publishes the number before it releases the lock.
        drop(slot.issuing());
        // The notify was recorded, so the backend soon counts that task, or completes the event
        // after it, and then the outcome is known. But if the caller's stream gave up, it has not
        // seen the notify.
        let began = Instant::now();
        while !slot.is_complete(*number) {
            if gave_up {
                return None;
            }
            if began.elapsed() > BEHIND_THE_NOTIFY {
                return Some(Error::Forgotten { last: None });
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        drop(lock(held).take());
        slot.outcome(*number, *tickets).err()
    }

    fn waits_for(&self) -> Option<Box<str>> {
        match self.way.get() {
            Some(ByWay { number, stream, .. }) => stream.queue().what_it_waits_for(*number).ok()?,
            None if !self.begun.load(Acquire) => Some(
                "it is queued after operations of this device that wait for links to other ranks"
                    .into(),
            ),
            None => Some(
                "its links to other ranks are not made yet: some ranks have not issued this operation"
                    .into(),
            ),
        }
    }

    fn awaited_ranks(&self) -> Vec<u32> {
        let way = self.way.get();
        way.map_or(self.links.clone(), |way| way.stream.queue().awaited_ranks(way.number))
    }
}

#[cold]
fn without_communicator(operation: &'static str) -> Error {
    let problem = "the operation belongs to no communicator, so it cannot wait for links to other \
                   ranks: await `connect` before the operation";
    Error::Invalid { operation, problem: problem.into() }
}

#[cold]
fn not_while_capturing() -> Error {
    let problem = "the links of the operation are not made yet, and a stream that captures cannot \
                   wait for other ranks: await `connect`, or `connect_to` for messages, before the capture";
    Error::Invalid { operation: "capture", problem: problem.into() }
}

/// The guard of an operation whose by-way still runs after the caller's stream has given up.
struct RetiredHold {
    slot: &'static StreamSlot,
    number: u64,
    _held: DetourHold,
}

impl Retire for RetiredHold {
    fn name(&self) -> &'static str {
        "operation"
    }

    /// Returns the lowest number, because the end of this object lets communicators be destroyed.
    fn order(&self) -> u8 {
        0
    }

    fn is_free(&mut self) -> bool {
        self.slot.is_complete(self.number)
    }

    fn unfinished(&self) -> Conflicts {
        let mut unfinished = Conflicts::default();
        if !self.slot.is_complete(self.number) {
            unfinished.add(self.slot, self.number);
        }
        unfinished
    }

    fn destroy(self: Box<Self>, _table: &Table) -> Result<()> {
        Ok(())
    }
}

/// A notify that can be destroyed once the operations in `uses` are complete.
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

    /// Returns no operations, because a notify is too small for an allocation to wait for it.
    fn unfinished(&self) -> Conflicts {
        Conflicts::default()
    }

    fn destroy(self: Box<Self>, table: &Table) -> Result<()> {
        table.destroy_notify(self.notify)
    }
}
