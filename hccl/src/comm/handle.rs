//! The `HcclComm` behind a communicator, and when it may be destroyed.
//!
//! CANN reads through the handle before it looks it up, so a call with a destroyed handle is
//! undefined behaviour and not an error. It also frees the buffers of a communicator at once, under
//! the operations in flight that use them. So the handle is destroyed in one place only: when its
//! communicator has been dropped and its operations are complete ([`crate::device::deferred`]). An
//! abort destroys nothing. It refuses later operations and tells the peers.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ascend_sys::HcclComm;

use super::links::Links;
use crate::api::{Table, call};
use crate::device::Device;
use crate::device::deferred::Retire;
use crate::error::Result;
use crate::order::label::Label;
use crate::order::patience::alarm;
use crate::order::stamps::{Conflicts, Stamps, are_complete};

/// The delay after which peers are told that a rank of a run has dropped a communicator: the rank
/// may be about to return an error, which says more.
const GRACE: Duration = Duration::from_millis(100);

/// See the [module](self).
pub(crate) struct CommHandle {
    raw: HcclComm,
    label: Arc<Label>,
    destroyed: AtomicBool,
    origin: Origin,
    /// The number of communicators of some of its ranks, which must be destroyed before it.
    parts: AtomicUsize,
    /// The number of operations on a detour, and of parts that are being made.
    detours: AtomicUsize,
    /// Whether it was dropped, but its peers are not told yet.
    leaves_soon: AtomicBool,
    pub(crate) links: Links,
}

/// Keeps a communicator that still has operations to issue, or of which a part is made. If it is
/// dropped meanwhile, it is neither destroyed nor gone for its peers.
pub(crate) struct KeptComm {
    pub(super) handle: Arc<CommHandle>,
    device: Device,
}

impl KeptComm {
    pub(super) fn new(handle: &Arc<CommHandle>, device: &Device) -> Self {
        handle.label.join();
        handle.hold();
        KeptComm { handle: handle.clone(), device: device.clone() }
    }
}

impl Drop for KeptComm {
    fn drop(&mut self) {
        self.handle.label.leave_after_it(self.device.table());
        // Not before the call: nobody destroys it while the call runs.
        self.handle.release();
    }
}

/// The way in which a communicator came about.
pub(crate) enum Origin {
    /// Made here, for itself.
    Own,
    /// It has some of the ranks of this one.
    Part(Arc<CommHandle>),
    /// Somebody else made it, and destroys it.
    Foreign,
}

// SAFETY: the handle is a name for CANN, which takes it from any thread; it ends when no call is
// under way or can begin.
unsafe impl Send for CommHandle {}
// SAFETY: as above.
unsafe impl Sync for CommHandle {}

impl CommHandle {
    /// # Safety
    ///
    /// `raw` is a communicator that nobody else destroys. If it is foreign, nobody destroys it
    /// before the last operation on it is complete and its `Communicator` is dropped. Every table
    /// given to the methods is the one that made it.
    pub(crate) unsafe fn new(raw: HcclComm, label: Arc<Label>, origin: Origin) -> Self {
        if let Origin::Part(whole) = &origin {
            whole.parts.fetch_add(1, Ordering::Relaxed);
        }
        if matches!(origin, Origin::Foreign) {
            // The count of its owner.
            label.join();
        }
        let parts = AtomicUsize::new(0);
        let (detours, links) = (AtomicUsize::new(0), Links::new(label.rank, label.world_size));
        let [destroyed, leaves_soon] = [(); 2].map(|()| AtomicBool::new(false));
        CommHandle { raw, label, destroyed, origin, parts, detours, leaves_soon, links }
    }

    /// Whether it has some of the ranks of another one.
    pub(super) fn is_part(&self) -> bool {
        matches!(self.origin, Origin::Part(_))
    }

    /// Whether there are communicators of some of its ranks.
    fn has_parts(&self) -> bool {
        self.parts.load(Ordering::Acquire) != 0
    }

    /// Returns the handle for a call, or `None` after an abort. It is live as long as its
    /// communicator, which the caller holds.
    #[inline]
    pub(crate) fn calling(&self) -> Option<HcclComm> {
        (!self.is_aborted()).then_some(self.raw)
    }

    #[inline]
    fn is_aborted(&self) -> bool {
        self.label.aborted.load(Ordering::Acquire)
    }

    fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    /// Returns a number that is different for every communicator that there is.
    pub(crate) fn key(self: &Arc<Self>) -> u64 {
        Arc::as_ptr(self).addr() as u64
    }

    pub(crate) fn label(&self) -> &Arc<Label> {
        &self.label
    }

    /// Holds the communicator: until its [release](Self::release) it is not destroyed.
    pub(super) fn hold(&self) {
        self.detours.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn release(&self) {
        self.detours.fetch_sub(1, Ordering::Release);
    }

    /// Returns the handle itself, live as long as its communicator.
    pub(crate) fn raw(&self) -> HcclComm {
        self.raw
    }

    /// Ends the communicator for all of its ranks. Its drop destroys it.
    pub(crate) fn abort(&self, table: &Table) {
        if self.is_destroyed() || !self.label.abort() {
            return;
        }
        alarm();
        table.abort(self.raw);
    }

    /// Notes that its communicator issues nothing more, which peers are told after [`GRACE`].
    pub(super) fn leave_soon(self: &Arc<Self>, device: &Device, reason: &'static CStr) {
        let (handle, runtime) = (self.clone(), device.runtime().downgrade());
        self.leaves_soon.store(true, Ordering::Release);
        let tell = move || {
            if let Some(runtime) = runtime.upgrade() {
                handle.label.leave(runtime.table(), reason);
            }
            handle.leaves_soon.store(false, Ordering::Release);
        };
        let due = Instant::now() + GRACE;
        match device.leaving().reserve("drop") {
            Ok(job) => job.push([self.key()], move |_open| {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                tell();
            }),
            Err(_) => tell(),
        }
    }

    /// Destroys the handle unless that has happened. A context of its device is current. CANN:
    /// `HcclCommDestroy`.
    ///
    /// For a deferred destroy: the communicator has been dropped, so that no call is under way or
    /// can begin.
    fn destroy(&self, table: &Table) -> Result<()> {
        if self.destroyed.swap(true, Ordering::AcqRel) || matches!(self.origin, Origin::Foreign) {
            return Ok(());
        }
        // SAFETY: a live handle: the flag says that nobody else destroys it, and no call is under
        // way, nor can one begin.
        let outcome = unsafe { call!(table, HcclCommDestroy, self.raw) };
        if let Origin::Part(whole) = &self.origin {
            whole.parts.fetch_sub(1, Ordering::Release);
        }
        outcome
    }
}

/// A communicator that was dropped. It is free when its operations are complete, its parts are
/// destroyed, and no graph is left that captured it.
pub(super) struct RetiredCommunicator {
    pub(super) handle: Arc<CommHandle>,
    pub(super) stamps: Arc<Stamps>,
}

impl Retire for RetiredCommunicator {
    fn name(&self) -> &'static str {
        "communicator"
    }

    /// CANN wants the graphs of a communicator to be destroyed first.
    fn order(&self) -> u8 {
        1
    }

    fn is_free(&mut self) -> bool {
        let in_use = self.handle.has_parts() || self.handle.detours.load(Ordering::Acquire) != 0;
        !in_use && are_complete(&mut self.stamps)
    }

    /// Destroying it would be all that the peers learn.
    fn is_held_back(&self) -> bool {
        self.handle.leaves_soon.load(Ordering::Acquire)
    }

    fn unfinished(&self) -> Conflicts {
        self.stamps.all_unfinished()
    }

    fn destroy(self: Box<Self>, table: &Table) -> Result<()> {
        self.handle.destroy(table)
    }
}

/// A handle to end a communicator from another thread.
///
/// For a watchdog, or a thread that learns that a peer is gone: the thread that uses the
/// communicator may itself be waiting. May be cloned and sent anywhere, and outlives the
/// communicator harmlessly.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let mut x = rank.device().upload(&[1.0_f32], &stream)?;
///     let handle = comm.abort_handle();
///     if rank.index() == 1 {
///         return handle.abort(); // and issues nothing any more
///     }
///     // Rank 1 never comes. The wait ends as soon as it has aborted.
///     let outcome = comm.all_reduce_in_place(&mut x, Sum, &stream).and_then(|work| work.wait());
///     assert!(outcome.is_err());
///     Ok(())
/// })?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone)]
pub struct AbortHandle {
    pub(super) handle: Arc<CommHandle>,
    pub(super) device: Device,
}

impl AbortHandle {
    /// Ends the communicator. Later operations are refused, for which
    /// [`Error::Aborted`](crate::Error::Aborted) is the cause. Every wait for an operation in
    /// flight ends, blocking or awaited, within a tenth of a second, also for replays of graphs
    /// that captured it beside others. Where the backend can tell the peers, operations in flight
    /// fail on all ranks, and their errors name the rank that has aborted and the communicator.
    /// Elsewhere the waits of this rank end with [`Error::Aborted`](crate::Error::Aborted), and the
    /// operations go on.
    ///
    /// The emulator tells the peers of every communicator, however it was made. With a communicator
    /// its parts end (from [`split`](crate::Communicator::split) or
    /// [`subset`](crate::Communicator::subset)). With a part only that part ends: the whole goes
    /// on. CANN cannot tell anybody: there the operations themselves end with the backend's own
    /// time-outs, and keep their buffers until then; the peers' waits end with their deadlines.
    ///
    /// Does not wait, and destroys nothing: operations in flight use the communicator's memory. The
    /// communicator is destroyed (`HcclCommDestroy`) after it has been dropped and these operations
    /// are complete. Aborting twice, or after the drop, does nothing.
    ///
    /// # Errors
    ///
    /// The error of `aclrtSetCurrentContext`; the communicator is not aborted then.
    pub fn abort(&self) -> Result<()> {
        let _bound = self.device.bind()?;
        self.handle.abort(self.device.table());
        Ok(())
    }

    /// Whether the communicator has been aborted, or dropped and destroyed.
    pub fn is_aborted(&self) -> bool {
        self.handle.is_aborted() || self.handle.is_destroyed()
    }
}

impl std::fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AbortHandle").field("aborted", &self.is_aborted()).finish_non_exhaustive()
    }
}
