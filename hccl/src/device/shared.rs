//! The state that all handles of a device share: its context, its events, its issue order, and
//! dropped objects that may still be in use.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use super::deferred::DeferredList;
use crate::api::Table;
use crate::api::handles::{ContextHandle, EventHandle, StreamHandle};
use crate::error::{Error, Result};
use crate::memory::block::RetireList;
use crate::order::helper::Helper;
use crate::order::issue_order::IssueOrder;
use crate::order::stamps::Conflicts;
use crate::order::stream_slot::StreamSlot;
use crate::sync::lock;

/// The state that all clones of a device share. The runtime owns it.
pub(crate) struct DeviceState {
    /// The device's default context.
    pub(super) context: ContextHandle,
    /// Allocations that were dropped and may still be in use.
    pub(crate) retired: RetireList,
    /// The pace at which operations check the dropped objects again.
    pace: Pace,
    /// Whether `streams` has any stream.
    streams_wait: AtomicBool,
    /// The streams to destroy. They are complete, and nothing refers to them any more.
    streams: Mutex<Vec<StreamHandle>>,
    /// The events that can be used again. An event that is still shared with a waiter stays here
    /// until it is not shared any more.
    events: Mutex<Vec<Arc<EventHandle>>>,
    /// The issue order: operations of communicators are issued one at a time on a device.
    pub(super) issue_order: IssueOrder<StreamSlot>,
    /// The helper that makes communicators, one at a time. Operations of other communicators go on
    /// meanwhile.
    pub(super) making: Arc<Helper>,
    /// The helper that issues operations whose links are not made yet, and the operations that
    /// follow them.
    pub(super) linking: Arc<Helper>,
    /// The helper that notifies the peers of communicators that were dropped.
    pub(super) leaving: Arc<Helper>,
    /// The slots of streams with operations whose outcome may be kept elsewhere.
    detours: Mutex<Vec<&'static StreamSlot>>,
    /// Communicators, graphs and kernels that were dropped, and may still have operations in
    /// flight.
    pub(super) deferred: DeferredList,
    /// The lock that a thread holds while it frees dropped objects.
    reaping: Mutex<()>,
    /// Whether a thread holds `reaping`. That thread sets it before it takes anything off a list.
    is_reaping: AtomicBool,
}

thread_local! {
    /// Whether this thread is freeing dropped objects. Freeing an object may drop more objects.
    /// Their drops must not take the turn again.
    static REAPS: Cell<bool> = const { Cell::new(false) };
}

/// The right to free dropped objects.
pub(super) struct ReapTurn<'a> {
    state: &'a DeviceState,
    _turn: MutexGuard<'a, ()>,
}

impl Drop for ReapTurn<'_> {
    fn drop(&mut self) {
        self.state.is_reaping.store(false, Release);
        REAPS.set(false);
    }
}

impl DeviceState {
    /// Sets the device and reads its default context. Does this on a thread of its own, which then
    /// ends. So the caller's current context does not change, and a thread that only starts ranks
    /// does not count as a thread that works with the device.
    pub(crate) fn open(table: &Table, id: i32) -> Result<Self> {
        let set = || {
            table.set_device(id)?;
            table.current_context()
        };
        let thread = std::thread::scope(|scope| scope.spawn(set).join());
        let context = thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let Some(context) = context else {
            return Err(Error::Invalid {
                operation: "device",
                problem: format!(
                    "CANN set device {id} but made no context current: try another release of the \
                     backend"
                )
                .into(),
            });
        };
        Ok(Self {
            context,
            retired: RetireList::default(),
            pace: Pace::default(),
            streams_wait: AtomicBool::new(false),
            streams: Mutex::default(),
            events: Mutex::default(),
            issue_order: IssueOrder::new(),
            making: Helper::new(format!("hccl-making {id}"), table.thread_waits()),
            linking: Helper::new(format!("hccl-linking {id}"), table.thread_waits()),
            leaving: Helper::new(format!("hccl-leaving {id}"), table.thread_waits()),
            detours: Mutex::default(),
            deferred: DeferredList::default(),
            reaping: Mutex::default(),
            is_reaping: AtomicBool::new(false),
        })
    }

    /// Destroys everything. Called when the last handle of the runtime is dropped, so nothing is in
    /// flight any more. Does nothing if the context cannot be made current.
    pub(crate) fn close(&mut self, table: &Table) {
        if table.set_context(self.context).is_err() {
            return;
        }
        self.deferred.destroy_all(table);
        for block in self.retired.drain() {
            block.free(table);
        }
        self.destroy_streams(table);
        for event in lock(&self.events).drain(..) {
            if let Some(event) = Arc::into_inner(event) {
                let _ = table.destroy_event(event);
            }
        }
    }

    /// Returns whether there are dropped objects. If there are none, this costs one load for each
    /// list.
    #[inline]
    pub(super) fn has_dropped(&self) -> bool {
        !self.retired.is_empty() || self.streams_wait.load(Relaxed) || !self.deferred.is_empty()
    }

    /// Returns whether a thread has taken dropped objects off the lists and may not have destroyed
    /// them yet. The caller checks [`has_dropped`](Self::has_dropped) first.
    #[inline]
    pub(super) fn is_reaping(&self) -> bool {
        self.is_reaping.load(Relaxed)
    }

    /// Takes the turn to free dropped objects. If another thread has the turn and `waits` is true,
    /// blocks until that thread has ended its turn. If `waits` is false, returns `None` instead.
    /// Also returns `None` if this thread has the turn already.
    pub(super) fn reap_turn(&self, waits: bool) -> Option<ReapTurn<'_>> {
        if REAPS.get() {
            return None;
        }
        let turn = match self.reaping.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::WouldBlock) if !waits => return None,
            Err(_) => lock(&self.reaping),
        };
        REAPS.set(true);
        self.is_reaping.store(true, Relaxed);
        Some(ReapTurn { state: self, _turn: turn })
    }

    pub(crate) fn is_context(&self, context: ContextHandle) -> bool {
        self.context == context
    }

    /// Returns whether an operation should check the dropped objects now. If many of them are
    /// unfinished, not every operation checks them.
    #[inline]
    pub(super) fn is_look_due(&self) -> bool {
        self.has_dropped() && self.pace.is_over()
    }

    /// Destroys the dropped objects that are complete by now. With `all`, this includes those that
    /// are held back. The context is current.
    pub(super) fn destroy_free(&self, table: &Table, all: bool) {
        self.deferred.destroy_free(table, all);
        self.pace.begin(self.retired.free_complete(table));
        self.destroy_streams(table);
    }

    /// Returns a number that changes whenever dropped memory is freed or an object of `deferred` is
    /// destroyed.
    pub(crate) fn freed(&self) -> usize {
        self.retired.freed().wrapping_add(self.deferred.destroyed())
    }

    /// Returns the operations that use a dropped object. The caller has the turn, because otherwise
    /// another thread may have taken objects off the lists.
    pub(super) fn unfinished_dropped(&self) -> Conflicts {
        let unfinished = self.retired.unfinished();
        if unfinished.is_empty() { self.deferred.unfinished() } else { unfinished }
    }

    pub(super) fn has_detour(&self, slot: &'static StreamSlot) {
        let mut detours = lock(&self.detours);
        if !detours.iter().any(|other| std::ptr::eq(*other, slot)) {
            detours.push(slot);
        }
    }

    /// Releases the resources of complete operations whose outcome is kept elsewhere.
    pub(super) fn settle_detours(&self) {
        let slots = std::mem::take(&mut *lock(&self.detours));
        for slot in slots {
            if slot.settle() {
                self.has_detour(slot);
            }
        }
    }

    /// Adds a stream to the streams to destroy. The stream is complete, and nothing refers to it
    /// any more. Called by drops, so the stream is destroyed later.
    pub(super) fn retire_stream(&self, stream: StreamHandle) {
        lock(&self.streams).push(stream);
        self.streams_wait.store(true, Release);
    }

    /// Takes an event that is not in use, if there is one.
    pub(super) fn take_event(&self) -> Option<Arc<EventHandle>> {
        let mut events = lock(&self.events);
        let at = events.iter_mut().rposition(|event| Arc::get_mut(event).is_some())?;
        Some(events.swap_remove(at))
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn spare_events(&self) -> usize {
        lock(&self.events).len()
    }

    pub(super) fn recycle_event(&self, event: Arc<EventHandle>) {
        lock(&self.events).push(event);
    }

    fn destroy_streams(&self, table: &Table) {
        if self.streams_wait.swap(false, AcqRel) {
            let streams = std::mem::take(&mut *lock(&self.streams));
            for stream in streams {
                if let Err(error) = table.destroy_stream(stream) {
                    tracing::warn!("a stream could not be destroyed: {error}");
                }
            }
        }
    }
}

/// The number of operations that still skip the check of dropped objects. A check goes through all
/// objects. If it finds `n` unfinished ones, the next `n` operations skip it. So the average cost
/// for each operation does not depend on the number of objects.
#[derive(Default)]
struct Pace(AtomicUsize);

impl Pace {
    /// Counts an operation, and returns whether it should check. Two threads may count as one,
    /// which only delays the next check.
    #[inline]
    fn is_over(&self) -> bool {
        let left = self.0.load(Relaxed);
        if left != 0 {
            self.0.store(left - 1, Relaxed);
        }
        left == 0
    }

    fn begin(&self, unfinished: usize) {
        self.0.store(unfinished, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_look_costs_each_operation_the_same() {
        let pace = Pace::default();
        let unfinished = 500;
        let mut looked_at = 0;
        for _ in 0..10_000 {
            if pace.is_over() {
                looked_at += unfinished;
                pace.begin(unfinished);
            }
        }
        assert!((1..=10_000).contains(&looked_at), "{looked_at}");
        pace.begin(0);
        assert!(pace.is_over() && pace.is_over(), "nothing is left, so each operation checks");
    }
}
