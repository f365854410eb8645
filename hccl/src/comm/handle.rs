//! The `HcclComm` of a communicator, and the rules for its destruction.
//!
//! CANN dereferences a handle before it checks it, so a call with a destroyed handle is undefined
//! behaviour instead of an error. `HcclCommDestroy` also frees the buffers of a communicator at
//! once, even if operations in flight use them. So only a deferred destroy
//! ([`crate::device::deferred`]) destroys the handle, after its communicator has been dropped and
//! its operations are complete. An abort destroys nothing: it makes later operations fail and
//! notifies the peers.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ascend_sys::HcclComm;

use super::links::Links;
use crate::api::{Table, call};
use crate::device::Device;
use crate::device::deferred::Retire;
use crate::error::Result;
use crate::order::label::Label;
use crate::order::patience::{Patience, alarm};
use crate::order::stamps::{Conflicts, Stamps, are_complete};
use crate::order::stream_slot::StreamSlot;
use crate::runtime::WeakRuntime;
use crate::sync::lock;

/// The delay before peers are notified that a rank of a run has dropped a communicator. If the rank
/// returns an error within this time, the peers get that error as the reason, which says more.
pub(super) const GRACE: Duration = Duration::from_millis(100);

/// The longest wait for an operator or a launch of a dropped communicator before the thread checks
/// again whether the runtime still exists.
const SLICE: Duration = Duration::from_millis(20);

/// The `HcclComm` of a communicator, with the state that decides when it may be destroyed. See the
/// [module](self).
pub(crate) struct CommHandle {
    raw: HcclComm,
    label: Arc<Label>,
    destroyed: AtomicBool,
    origin: Origin,
    /// The number of parts of this communicator (from `split` or `subset`) that exist. They must be
    /// destroyed before this communicator.
    parts: AtomicUsize,
    /// The number of calls of [`hold`](Self::hold) that are not released: by operations on a
    /// detour, and by parts that are being made.
    detours: AtomicUsize,
    /// The number of calls of [`leave`](Self::leave) that still have to remove a user or to notify
    /// the peers that this rank is gone.
    leaving: AtomicUsize,
    /// The newest custom operator or kernel launch on each stream. When the peers are notified that
    /// this rank is gone, the notifies, channels and contexts of these operations end. So the peers
    /// are notified only when these operations are complete.
    own_work: Mutex<Conflicts>,
    pub(crate) links: Links,
}

/// A guard that keeps a communicator while it still has operations to issue, or while a part of it
/// is being made. If the communicator is dropped meanwhile, it is not destroyed and its peers are
/// not notified.
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
        self.handle.leave(&self.device, self.handle.label.reason_to_leave(), Duration::ZERO);
        // Released last, so that the communicator is not destroyed while the call above runs.
        self.handle.release();
    }
}

/// The way in which a communicator was made.
pub(crate) enum Origin {
    /// `hccl` made it, and it is not a part of another communicator.
    Own,
    /// `hccl` made it as a part of this communicator.
    Part(Arc<CommHandle>),
    /// Code outside `hccl` made it, and destroys it.
    Foreign,
}

// SAFETY: CANN accepts the handle from any thread. The handle is destroyed only when no call with
// it is running or can begin.
unsafe impl Send for CommHandle {}
// SAFETY: as above.
unsafe impl Sync for CommHandle {}

impl CommHandle {
    /// Takes ownership of `raw`, unless it is foreign.
    ///
    /// # Safety
    ///
    /// `raw` is a communicator that no other code destroys. If it is foreign, its owner destroys it
    /// only after the last operation on it is complete and its `Communicator` is dropped. Every
    /// `Table` that is passed to the methods is the table that made `raw`.
    pub(crate) unsafe fn new(raw: HcclComm, label: Arc<Label>, origin: Origin) -> Self {
        if let Origin::Part(whole) = &origin {
            whole.parts.fetch_add(1, Ordering::Relaxed);
        }
        if matches!(origin, Origin::Foreign) {
            // The owner counts as one more user, which never leaves. So dropping the `Communicator`
            // does not notify the peers.
            label.join();
        }
        let parts = AtomicUsize::new(0);
        let (detours, links) = (AtomicUsize::new(0), Links::new(label.rank, label.world_size));
        let (destroyed, leaving) = (AtomicBool::new(false), AtomicUsize::new(0));
        let own_work = Mutex::default();
        CommHandle { raw, label, destroyed, origin, parts, detours, leaving, own_work, links }
    }

    /// Returns whether this is a part of another communicator.
    pub(super) fn is_part(&self) -> bool {
        matches!(self.origin, Origin::Part(_))
    }

    /// Returns whether parts of this communicator exist.
    fn has_parts(&self) -> bool {
        self.parts.load(Ordering::Acquire) != 0
    }

    /// Returns the handle for a call, or `None` after an abort. The handle is live as long as its
    /// communicator, which the caller must hold.
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

    /// Returns a number that is unique among the communicators that exist.
    pub(crate) fn key(self: &Arc<Self>) -> u64 {
        Arc::as_ptr(self).addr() as u64
    }

    pub(crate) fn label(&self) -> &Arc<Label> {
        &self.label
    }

    /// Keeps the communicator from being destroyed until [`release`](Self::release) is called once
    /// for this call.
    pub(super) fn hold(&self) {
        self.detours.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn release(&self) {
        self.detours.fetch_sub(1, Ordering::Release);
    }

    /// Returns the handle, even after an abort. It is live as long as its communicator.
    pub(crate) fn raw(&self) -> HcclComm {
        self.raw
    }

    /// Aborts the communicator, for all of its ranks if the backend can notify them. Does not
    /// destroy it. Does nothing if it is already aborted or destroyed.
    pub(crate) fn abort(&self, table: &Table) {
        if self.is_destroyed() || !self.label.abort() {
            return;
        }
        alarm();
        table.abort(self.raw);
    }

    /// Notes a custom operator or a kernel launch that uses this communicator.
    pub(crate) fn note_own_work(&self, slot: &'static StreamSlot, number: u64) {
        lock(&self.own_work).add(slot, number);
    }

    fn unfinished_own_work(&self) -> Conflicts {
        let mut own_work = lock(&self.own_work);
        let noted = std::mem::take(&mut *own_work);
        *own_work = noted.without(|slot, number| slot.is_complete(number));
        own_work.clone()
    }

    /// Waits until the operators and launches of the communicator are complete. Returns early when
    /// the runtime is dropped, because the runtime waits for its operations itself and destroys the
    /// communicator.
    fn wait_for_own_work(&self, runtime: &WeakRuntime) {
        // The backend is told of an endless wait, so that it can prove a deadlock.
        let mut patience = Patience::new(Duration::MAX);
        while runtime.is_alive() {
            let unfinished = self.unfinished_own_work();
            if unfinished.is_empty() {
                return;
            }
            let waiter = "leaving a communicator";
            if unfinished.wait_a_little(&mut patience, SLICE, waiter).is_err() {
                // For example, the communicator was aborted. Its operations still use it.
                std::thread::sleep(SLICE);
            }
        }
    }

    /// Removes a user of the communicator when the time `after` has passed. When the last user is
    /// removed, notifies the peers that this communicator issues nothing more, but not before its
    /// operators and launches are complete. If no helper thread can be started, does both at once
    /// instead. Does not block.
    pub(super) fn leave(self: &Arc<Self>, device: &Device, reason: &'static CStr, after: Duration) {
        if after.is_zero() {
            if !self.label.remove_user() {
                return;
            }
            if self.unfinished_own_work().is_empty() {
                return self.label.report_leave(device.table(), reason);
            }
        }
        let (handle, runtime) = (self.clone(), device.runtime().downgrade());
        self.leaving.fetch_add(1, Ordering::AcqRel);
        let due = Instant::now() + after;
        let leave = move |waits: bool| {
            if waits {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            if after.is_zero() || handle.label.remove_user() {
                if waits {
                    handle.wait_for_own_work(&runtime);
                }
                if let Some(runtime) = runtime.upgrade() {
                    handle.label.report_leave(runtime.table(), reason);
                }
            }
            handle.leaving.fetch_sub(1, Ordering::AcqRel);
        };
        match device.leaving().reserve("drop") {
            Ok(job) => job.push([self.key()], move |_open| leave(true)),
            Err(_) => leave(false),
        }
    }

    /// Destroys the handle, unless it is foreign or destroyed already. A context of its device must
    /// be current. CANN: `HcclCommDestroy`.
    ///
    /// Only a deferred destroy may call this. By then the communicator has been dropped, so no call
    /// with the handle is running or can begin.
    fn destroy(&self, table: &Table) -> Result<()> {
        if self.destroyed.swap(true, Ordering::AcqRel) || matches!(self.origin, Origin::Foreign) {
            return Ok(());
        }
        // SAFETY: the handle is live, because the flag shows that no other call destroys it. The
        // communicator has been dropped, so no call with the handle is running or can begin.
        let outcome = unsafe { call!(table, HcclCommDestroy, self.raw) };
        if let Origin::Part(whole) = &self.origin {
            whole.parts.fetch_sub(1, Ordering::Release);
        }
        outcome
    }
}

/// A dropped communicator. It can be destroyed when its operations are complete, its parts are
/// destroyed, and every graph that captured it is gone.
pub(super) struct RetiredCommunicator {
    pub(super) handle: Arc<CommHandle>,
    pub(super) stamps: Arc<Stamps>,
}

impl Retire for RetiredCommunicator {
    fn name(&self) -> &'static str {
        "communicator"
    }

    /// Returns a higher number than graphs do. CANN requires that the graphs of a communicator are
    /// destroyed before it.
    fn order(&self) -> u8 {
        1
    }

    fn is_free(&mut self) -> bool {
        let in_use = self.handle.has_parts() || self.handle.detours.load(Ordering::Acquire) != 0;
        !in_use && are_complete(&mut self.stamps)
    }

    /// Returns true until the peers are notified. If the communicator were destroyed before, the
    /// peers would not get the reason.
    fn is_held_back(&self) -> bool {
        self.handle.leaving.load(Ordering::Acquire) != 0
    }

    fn unfinished(&self) -> Conflicts {
        self.stamps.all_unfinished()
    }

    fn destroy(self: Box<Self>, table: &Table) -> Result<()> {
        self.handle.destroy(table)
    }
}

/// A handle with which another thread can abort a communicator.
///
/// Use it in a watchdog, or in a thread that detects that a peer is gone, because the thread that
/// uses the communicator may itself be waiting. The handle can be cloned, sent to other threads,
/// and kept after the communicator is dropped.
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
///     // Rank 1 never issues the all-reduce. The wait ends as soon as rank 1 has aborted.
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
    /// Aborts the communicator. Later operations fail with
    /// [`Error::Aborted`](crate::Error::Aborted) as the cause. Every wait for an operation in
    /// flight ends within a tenth of a second, whether it blocks or is awaited. The same is true of
    /// replays of graphs that captured several communicators, including this one. If the backend
    /// can notify the peers, operations in flight fail on all ranks, and their errors name the
    /// communicator and the rank that has aborted it. Otherwise the waits of this rank end with
    /// [`Error::Aborted`](crate::Error::Aborted), and the operations go on.
    ///
    /// The emulator notifies the peers of every communicator, however the communicator was made. It
    /// also aborts the parts of an aborted communicator (from [`split`](crate::Communicator::split)
    /// or [`subset`](crate::Communicator::subset)). The abort of a part does not abort the whole.
    /// CANN cannot notify the peers. With CANN, operations in flight end with CANN's own time-outs
    /// and keep their buffers until then. The waits of the peers end with their deadlines.
    ///
    /// Does not block. Destroys nothing, because operations in flight use the communicator's
    /// memory. The communicator is destroyed (`HcclCommDestroy`) after it has been dropped and
    /// these operations are complete. Does nothing if the communicator is already aborted or
    /// destroyed.
    ///
    /// # Errors
    ///
    /// The error of `aclrtSetCurrentContext`. In this case the communicator is not aborted.
    pub fn abort(&self) -> Result<()> {
        let _bound = self.device.bind()?;
        self.handle.abort(self.device.table());
        Ok(())
    }

    /// Returns whether the communicator has been aborted, or dropped and destroyed.
    pub fn is_aborted(&self) -> bool {
        self.handle.is_aborted() || self.handle.is_destroyed()
    }
}

impl std::fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AbortHandle").field("aborted", &self.is_aborted()).finish_non_exhaustive()
    }
}
