//! Streams: the queues of a device.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::Device;
use super::state::Open;
use super::state::issue;
use crate::api::Table;
use crate::api::handles::StreamHandle;
use crate::error::{Error, OpContext, Result, panic_text};
use crate::order::issue::Operation;
use crate::order::queue::StreamQueue;
use crate::order::stream_slot::StreamSlot;
use crate::order::unseen::Unseen;
use crate::order::work::Work;

/// A queue of one device: operations run in the order in which they were issued. Streams of one
/// device run at the same time.
///
/// `&Stream` may be shared between threads; each operation is issued as a whole. Dropping a stream
/// never blocks and cancels nothing: its operations run to their end.
///
/// The [`Work`] of a failed operation returns the error. If the `Work` was dropped, the next
/// operation, wait or synchronise returns the error, on this stream or on a stream that waited for
/// the failed operation.
///
/// A `Stream<Capturing>` records operations instead of running them: see [`Graph`](super::Graph).
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// let (load, compute) = (device.stream()?, device.stream()?);
/// let x = device.upload(&[1.0_f32; 256], &load)?;
/// let mut y = device.zeros::<f32>(256, &compute)?;
/// y.copy_from(&x, &compute)?; // waits on the device for what `load` does to `x`
/// compute.synchronize()?;
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct Stream<S = Open> {
    /// The state of the stream. It is dropped first, so that a capture ends before its stream.
    state: S,
    slot: &'static StreamSlot,
    queue: Arc<StreamQueue>,
}

impl<S> Stream<S> {
    pub(super) fn in_state(queue: Arc<StreamQueue>, state: S) -> Self {
        Self { state, slot: queue.slot, queue }
    }

    #[inline]
    pub(super) fn state(&self) -> &S {
        &self.state
    }

    #[inline]
    pub(super) fn state_mut(&mut self) -> &mut S {
        &mut self.state
    }

    #[inline]
    pub(crate) fn slot(&self) -> &'static StreamSlot {
        self.slot
    }

    #[inline]
    pub(crate) fn queue(&self) -> &Arc<StreamQueue> {
        &self.queue
    }

    #[inline]
    pub(crate) fn table(&self) -> &Table {
        self.queue.table()
    }

    /// Returns the device of the stream.
    #[inline]
    pub fn device(&self) -> &Device {
        self.queue.device()
    }
}

impl Device {
    /// Makes a new stream (`aclrtCreateStream`). Does not block.
    pub fn stream(&self) -> Result<Stream> {
        self.reap();
        let bound = self.bind()?;
        let stream = Stream::new(self.clone(), self.table().create_stream()?, true);
        drop(bound);
        Ok(stream)
    }
}

impl Stream {
    /// Blocks until everything that was issued so far is complete, up to the runtime's deadline
    /// (`aclrtSynchronizeStreamWithTimeout`). Returns a failure that no call
    /// has returned so far.
    pub fn synchronize(&self) -> Result<()> {
        self.synchronize_timeout(self.device().runtime().deadline())
    }

    /// Waits as [`synchronize`](Self::synchronize) does, but for at most `limit`.
    pub fn synchronize_timeout(&self, limit: Duration) -> Result<()> {
        let submitted = self.slot.timeline.submitted();
        self.queue.wait(submitted, limit, "synchronize")?;
        self.device().reap();
        self.queue.take_failure()?;
        self.slot.take_unseen(submitted, Unseen::Dropped)
    }

    /// Makes later operations of this stream wait for `work`, which may be on another stream of the
    /// same device. Does not block the calling thread.
    pub fn wait_for(&self, work: &Work) -> Result<()> {
        self.wait_for_number(work.slot(), work.number(), "wait_for")
    }

    /// Enqueues a closure (`aclrtLaunchHostFunc`). A thread of the backend runs it when everything
    /// issued so far is complete. Operations that are issued later wait for it.
    ///
    /// Inside the closure, calls that would block return an error. If the closure panics, the
    /// operation fails with that panic as its error.
    pub fn host_fn(&self, function: impl FnOnce() + Send + 'static) -> Result<Work> {
        let mut call = None;
        let work = issue(self, Operation::new("host_fn"), &[], |raw| {
            // This is the number of the operation itself, because the issue lock is held.
            let number = self.slot.timeline.next();
            let boxed = Box::into_raw(Box::new(HostCall { slot: self.slot, number, function }));
            // SAFETY: the backend calls `run` once with the box that was made for it, on one of its
            // threads, which the bound `Send` allows.
            let result = unsafe { self.table().host_function(raw, run(&boxed), boxed.cast()) };
            if result.is_err() {
                call = Some(boxed);
            }
            result
        });
        if let Some(boxed) = call {
            // SAFETY: the backend refused the call, so the box is still ours.
            drop(unsafe { Box::from_raw(boxed) });
        }
        work
    }

    /// Returns the `aclrtStream`, for foreign code. Getting the handle is safe, but using it is
    /// not: this crate does not wait for operations that other code enqueues.
    pub fn as_raw(&self) -> ascend_sys::aclrtStream {
        self.queue.handle().raw()
    }

    /// Wraps a stream that other code made (`aclrtCreateStream`). This crate never destroys it.
    ///
    /// # Safety
    /// `stream` belongs to the default context of `device`, and it is not being captured. It stays
    /// alive until every operation issued on it is complete and the returned stream is dropped. It
    /// also stays alive as long as a thread or task waits for one of its `Work`s or events.
    pub unsafe fn from_raw(device: &Device, stream: *mut c_void) -> Result<Stream> {
        // SAFETY: the caller keeps the same contract.
        let handle = unsafe { StreamHandle::from_raw(stream) };
        let _bound = device.bind()?;
        Ok(Self::new(device.clone(), handle, false))
    }

    /// Wraps the handle of a stream. The device's context must be current.
    pub(super) fn new(device: Device, handle: StreamHandle, owned: bool) -> Self {
        Self::in_state(StreamQueue::open(device, handle, owned), Open)
    }

    /// Makes later operations wait for operation `number` of another stream of the same device.
    pub(super) fn wait_for_number(
        &self,
        other: &'static StreamSlot,
        number: u64,
        operation: &'static str,
    ) -> Result<()> {
        let own = self.queue();
        let Some(other) = other.queue(number) else { return Ok(()) };
        let (device, found) = (own.device(), other.device());
        if !found.runtime().is(device.runtime()) {
            return Err(Error::WrongRuntime { operation, what: "the awaited operation" });
        }
        if found.index() != device.index() {
            let (expected, found) = (device.index(), found.index());
            return Err(Error::WrongDevice {
                operation,
                what: "the awaited operation",
                expected,
                found,
            });
        }
        if Arc::ptr_eq(own, &other) {
            return Ok(());
        }
        // Noted even if the operation is complete, because a call after this wait must return its
        // failure.
        own.slot.feed(other.slot, number);
        if other.is_complete(number) {
            return Ok(());
        }
        let Some((event, _)) = other.event_behind(number)? else { return Ok(()) };
        let enqueue = |_| own.table().wait_event(own.handle(), &event);
        issue(self, Operation::new(operation), &[], enqueue).map(drop)
    }
}

struct HostCall<F> {
    slot: &'static StreamSlot,
    number: u64,
    function: F,
}

/// Returns the C function that runs a `HostCall`. The argument only determines the type.
fn run<F: FnOnce() + Send + 'static>(_: &*mut HostCall<F>) -> unsafe extern "C" fn(*mut c_void) {
    unsafe extern "C" fn trampoline<F: FnOnce()>(argument: *mut c_void) {
        // SAFETY: `argument` is the box that `host_fn` made, passed here once.
        let HostCall { slot, number, function } =
            *unsafe { Box::from_raw(argument.cast::<HostCall<F>>()) };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(function)) {
            let context = Box::new(OpContext::new("host_fn", slot.timeline.position(number)));
            let message = panic_text(payload).into();
            let error = Error::HostFunctionPanicked { context, message };
            slot.faults.add(number..=number, None, error);
        }
    }
    trampoline::<F>
}

impl<S> Drop for Stream<S> {
    fn drop(&mut self) {
        let submitted = self.slot.timeline.submitted();
        if self.queue.is_complete(submitted) {
            self.queue.close();
            self.device().reap_in_drop();
            return;
        }
        // The reactor ends the stream when it is complete, and then destroys the objects that were
        // dropped while the stream used them.
        self.device().runtime().reactor().end_stream_after(self.queue.clone(), submitted);
    }
}

impl<S> fmt::Debug for Stream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timeline = &self.slot.timeline;
        let submitted = timeline.position(timeline.submitted());
        write!(f, "Stream(device {}, {submitted} operations)", self.device().index())
    }
}
