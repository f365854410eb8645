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

/// The state that all clones of a device share. It lives in the runtime.
pub(crate) struct DeviceState {
    /// The device's default context.
    pub(super) context: ContextHandle,
    /// Allocations that were dropped and may still be in use.
    pub(crate) retired: RetireList,
    /// When operations look at them again.
    pace: Pace,
    /// Whether `streams` has any.
    streams_wait: AtomicBool,
    /// Streams that are complete and that nothing names any more.
    streams: Mutex<Vec<StreamHandle>>,
    /// Events that nobody uses. One that somebody still waits for is shared and stays here until it
    /// is not.
    events: Mutex<Vec<Arc<EventHandle>>>,
    /// Operations of communicators are issued one at a time on a device.
    pub(super) issue_order: IssueOrder<StreamSlot>,
    /// Makes communicators, one at a time on a device. Operations of others go on meanwhile.
    pub(super) making: Arc<Helper>,
    /// Issues operations whose links are not made yet, and those that follow them.
    pub(super) linking: Arc<Helper>,
    /// Tells peers of communicators that were dropped.
    pub(super) leaving: Arc<Helper>,
    /// Streams of which operations may end elsewhere.
    detours: Mutex<Vec<&'static StreamSlot>>,
    /// Communicators, graphs and kernels that were dropped, and may still have operations in
    /// flight.
    pub(super) deferred: DeferredList,
    /// Held by the thread that frees what was dropped.
    reaping: Mutex<()>,
    /// Whether one does. Before it takes anything off a list.
    is_reaping: AtomicBool,
}

thread_local! {
    /// Whether this thread frees what was dropped: what goes with that may drop more.
    static REAPS: Cell<bool> = const { Cell::new(false) };
}

/// The right to free what was dropped.
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
    /// Sets the device and learns its default context. On a thread of its own, which then ends: the
    /// caller's current context stays what it is, and a thread that only starts ranks does not
    /// count as one that works with the device.
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
                problem: format!("device {id} was set and has no context").into(),
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

    /// When the last handle of the runtime goes: nothing is in flight any more.
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

    /// Whether anything was dropped. One load each when there is nothing.
    #[inline]
    pub(super) fn has_dropped(&self) -> bool {
        !self.retired.is_empty() || self.streams_wait.load(Relaxed) || !self.deferred.is_empty()
    }

    /// Whether a thread has taken what was dropped off the lists, and not destroyed it yet. Asked
    /// after [`has_dropped`](Self::has_dropped).
    #[inline]
    pub(super) fn is_reaping(&self) -> bool {
        self.is_reaping.load(Relaxed)
    }

    /// Takes the turn, or waits until the thread has ended that has it.
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

    /// Whether an operation should look at what was dropped: much that is unfinished is not looked
    /// at by each of them.
    #[inline]
    pub(super) fn is_look_due(&self) -> bool {
        self.has_dropped() && self.pace.is_over()
    }

    /// Destroys what was dropped and is complete by now. The context is current.
    pub(super) fn destroy_free(&self, table: &Table, all: bool) {
        self.deferred.destroy_free(table, all);
        self.pace.begin(self.retired.free_complete(table));
        self.destroy_streams(table);
    }

    /// A number that changes when something that was dropped is freed.
    pub(crate) fn freed(&self) -> usize {
        self.retired.freed().wrapping_add(self.deferred.destroyed())
    }

    /// The operations that use something that was dropped. With the turn, or something may be off
    /// the lists.
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

    /// Lets go what complete operations have held that end elsewhere.
    pub(super) fn settle_detours(&self) {
        let slots = std::mem::take(&mut *lock(&self.detours));
        for slot in slots {
            if slot.settle() {
                self.has_detour(slot);
            }
        }
    }

    /// For a stream that is complete and that nothing names any more. Called by drops, so the
    /// stream is destroyed later.
    pub(super) fn retire_stream(&self, stream: StreamHandle) {
        lock(&self.streams).push(stream);
        self.streams_wait.store(true, Release);
    }

    /// An event that nobody uses.
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

/// How many operations let what was dropped be: as many as the last look found unfinished, so that
/// a look, which goes through all of it, costs each operation the same however much there is.
#[derive(Default)]
struct Pace(AtomicUsize);

impl Pace {
    /// Two threads may count as one, which only spreads the looks.
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
        assert!(pace.is_over() && pace.is_over(), "nothing is left: look at once");
    }
}
