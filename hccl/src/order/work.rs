//! The handle of an operation that has been issued. Wait for it where the host needs the outcome.
//! No wait is needed between operations, because operations that use the same buffers are ordered
//! on the device.
//!
//! The operation is on its stream already when its [`Work`] is returned. You can `.await` the
//! `Work`, block in [`Work::wait`], poll it with [`Work::is_done`], make another stream wait for it
//! ([`Stream::wait_for`](crate::Stream::wait_for)), or drop it.
//!
//! After a drop the operation goes on, and its buffers stay reserved until it is complete. If it
//! fails, the next operation or synchronise of its stream returns the error. So does the next wait
//! for a later operation on the same stream. The same is true of a wait on a stream that has
//! waited for the failed operation, for example because both used the same memory.

#![forbid(unsafe_code)]

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ascend_program::check::Finding;

use super::issue::Issued;
use super::patience::alarms;
use super::reactor::{Awaited, Reactor};
use super::registry::look_and_register;
use super::stream_slot::StreamSlot;
use super::unseen::Unseen;
use crate::error::Result;

const UNSEEN: u8 = 0;
const SEEN: u8 = 1;
/// The outcome has been seen and was success. It stays success, even if the stream forgets the
/// details of its failures later.
const WELL: u8 = 2;

/// The handle of an operation that has been issued, and a future of its outcome.
///
/// A `Work` borrows nothing and can be sent to other threads. Making a `Work` allocates nothing.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| {
///     let stream = rank.device().stream()?;
///     let mut x = rank.device().upload(&[1.0_f32], &stream)?;
///     let work = rank.communicator()?.all_reduce_in_place(&mut x, Sum, &stream)?;
///     // ... the host goes on; the operation has begun ...
///     work.wait() // or `work.await`
/// })?;
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct Work {
    slot: &'static StreamSlot,
    issued: Issued,
    operation: &'static str,
    /// The state of the wait while this `Work` is awaited. It is boxed so that a `Work` fits into
    /// one cache line. The reactor reuses the boxes.
    awaited: Option<Box<Awaited>>,
    /// Whether the program has seen the outcome: [`UNSEEN`], [`SEEN`] or [`WELL`].
    seen: AtomicU8,
}

impl Work {
    /// Blocks the calling thread until the operation is complete, up to the runtime's deadline, and
    /// returns the outcome (`aclrtSynchronizeStreamWithTimeout` or
    /// `aclrtSynchronizeEventWithTimeout`). After a timeout the operation goes on, and you may wait
    /// for it again. An abort of the communicator, or the failure of another rank of
    /// [`run_ranks`](crate::Runtime::run_ranks), ends the wait early with an error.
    pub fn wait(&self) -> Result<()> {
        self.wait_for(None)
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `limit`.
    pub fn wait_timeout(&self, limit: Duration) -> Result<()> {
        self.wait_for(Some(limit))
    }

    /// Returns whether the operation is complete: nothing touches its memory any more. Does not
    /// block.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.slot.is_work_complete(self.issued.number, self.issued.tickets.1)
    }

    /// Returns the notes of the kernel checker on this launch: warnings, and the parts of the
    /// kernel that it could not check. The list is empty for an operation that is not a launch. It
    /// is also empty after 64 later launches with notes on the same stream.
    ///
    /// ```
    /// use hccl::kernel::*;
    /// use hccl::prelude::*;
    ///
    /// /// Copies the first `x[0]` elements of `x` to `y`.
    /// #[kernel(mix = "aiv_only")]
    /// fn some(k: Kernel, x: Input<u32>, y: Output<u32>) {
    ///     let a = k.scratch::<u32>(64).get();
    ///     k.copy_in(&a, x, x.get(0));
    ///     k.wait_for(Pipe::Out, Pipe::In);
    ///     k.copy_out(y, &a, x.get(0));
    /// }
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(1)?;
    /// let device = runtime.device(0)?;
    /// let stream = device.stream()?;
    /// let x = device.upload(&[8_u32; 64], &stream)?;
    /// let mut y = device.zeros::<u32>(64, &stream)?;
    /// let mut kernel = some::record()?.load(&device)?;
    /// let work = kernel.launch(1).input(&x).output(&mut y).submit(&stream)?;
    /// assert!(work.notes().iter().all(|note| note.rule == "data"));
    /// work.wait()?;
    ///
    /// let refused = kernel.launch(1).input(&x).output(&mut y).strict().submit(&stream);
    /// assert!(refused.unwrap_err().to_string().contains("depends on data"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn notes(&self) -> Vec<Finding> {
        self.slot.notes(self.issued.number).map_or_else(Vec::new, |notes| notes.to_vec())
    }

    #[inline]
    pub(crate) fn new(slot: &'static StreamSlot, issued: Issued, operation: &'static str) -> Self {
        Self { slot, issued, operation, awaited: None, seen: AtomicU8::new(UNSEEN) }
    }

    pub(crate) fn slot(&self) -> &'static StreamSlot {
        self.slot
    }

    pub(crate) fn number(&self) -> u64 {
        self.issued.number
    }

    /// Stores the notes of the kernel checker on this launch.
    pub(crate) fn note(&self, found: Arc<[Finding]>) {
        if !found.is_empty() {
            self.slot.note(self.issued.number, found);
        }
    }

    /// Returns a failure of an earlier operation, if the program has not seen the failure yet.
    /// Called before the host reads the data that this operation has written. The operation itself
    /// is complete and has succeeded.
    pub(crate) fn host_reads(&self) -> Result<()> {
        self.slot.take_unseen(self.issued.number, Unseen::Any)
    }

    fn wait_for(&self, limit: Option<Duration>) -> Result<()> {
        let Issued { number, tickets } = self.issued;
        if !self.is_done()
            && let Some(queue) = self.slot.queue(number)
        {
            let limit = limit.unwrap_or_else(|| queue.device().runtime().deadline());
            queue.wait_work(number, tickets.1, limit, self.operation)?;
        }
        self.outcome()
    }

    #[inline]
    fn outcome(&self) -> Result<()> {
        if self.seen.load(Relaxed) == WELL {
            return Ok(());
        }
        let Issued { number, tickets } = self.issued;
        let outcome = self.slot.outcome(number, tickets);
        let outcome = outcome.and_then(|()| self.slot.take_unseen(number, Unseen::Dropped));
        self.seen.store(if outcome.is_ok() { WELL } else { SEEN }, Relaxed);
        outcome
    }

    /// Registers `waker` with the reactor, which calls it when the operation is complete, or when
    /// the task should poll again to check its time limit.
    fn register(&mut self, waker: &Waker) -> Result<()> {
        let Issued { number, tickets } = self.issued;
        // If the stream is gone, the operation is complete.
        let Some(queue) = self.slot.queue(number) else { return Ok(()) };
        let runtime = queue.device().runtime();
        let reactor = runtime.reactor();
        let awaited = self.awaited.get_or_insert_with(|| reactor.awaited(runtime.deadline()));
        let left = awaited.patience.check(&queue, number, self.operation)?;
        reactor.register(awaited, queue.clone(), (number, tickets.1), left, waker)
    }

    #[inline]
    fn unregister(&mut self) {
        if let Some(awaited) = self.awaited.take() {
            Reactor::unregister(awaited);
        }
    }
}

impl Future for Work {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (slot, Issued { number, tickets }) = (self.slot, self.issued);
        let is_done = || slot.is_work_complete(number, tickets.1);
        let outcome = match look_and_register(is_done, alarms, || self.register(cx.waker())) {
            Ok(false) => return Poll::Pending,
            Ok(true) => self.outcome(),
            Err(error) => Err(error),
        };
        self.unregister();
        Poll::Ready(outcome)
    }
}

impl Drop for Work {
    #[inline]
    fn drop(&mut self) {
        if *self.seen.get_mut() != UNSEEN {
            self.slot.unwatch(self.issued.number);
        } else {
            self.slot.detach(self.issued.number, self.issued.tickets.1);
        }
        // Last, because it drops a waker, and that drop may panic.
        self.unregister();
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_done() { "complete" } else { "in flight" };
        write!(f, "Work({}, {state})", self.operation)
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
const _: () = assert!(size_of::<Work>() == 64);
