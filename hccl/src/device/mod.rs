//! Devices, streams and events.
//!
//! Start from a [`Device`] when there is memory to allocate or a stream to make; a program that only calls collectives gets
//! both from its rank. A [`Stream`] is a queue of the device: what enters it runs in that order, and different streams run at
//! the same time. An [`Event`] is a point in a stream that the host or another stream can wait for.

pub(crate) mod deferred;
mod event;
pub mod graph;
pub(crate) mod state;
mod stream;

pub use event::{Event, TimedEvent};
pub use graph::{Captured, Capturing, Graph};
pub use state::{Open, StreamState};
pub use stream::Stream;

use deferred::{DeferredList, Retire};

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::api::Table;
use crate::api::handles::{ContextHandle, EventHandle, StreamHandle};
use crate::error::{Error, Result};
use crate::lock::{Guard, SpinLock};
use crate::memory::allocation::RetireList;
use crate::order::issue_order::{IssueOrder, patiently};
use crate::order::stream_slot::StreamSlot;
use crate::runtime::Runtime;
use crate::sync::lock;

/// One device of a [`Runtime`]. Cheap to clone; all clones are the same device.
#[derive(Clone)]
pub struct Device {
    runtime: Runtime,
    index: usize,
}

/// What all clones of a device share. It lives in the runtime.
pub(crate) struct DeviceState {
    /// The device's default context.
    context: ContextHandle,
    /// Allocations that were dropped and may still be in use.
    pub(crate) retired: RetireList,
    /// When operations look at them again.
    pace: Pace,
    /// Whether `streams` has any.
    streams_wait: AtomicBool,
    /// Streams that are complete and that nothing names any more.
    streams: Mutex<Vec<StreamHandle>>,
    /// Events that nobody uses. One that somebody still waits for is shared and stays here until it is not.
    events: Mutex<Vec<Arc<EventHandle>>>,
    /// Operations of communicators are issued one at a time on a device.
    issue_order: IssueOrder<StreamSlot>,
    /// Communicators are made one at a time on a device. Operations of others go on meanwhile.
    making: SpinLock<()>,
    /// Communicators and graphs that were dropped, and may still have operations in flight.
    deferred: DeferredList,
}

impl DeviceState {
    /// Sets the device and learns its default context. On a thread of its own, which then ends: the caller's current
    /// context stays what it is, and a thread that only starts ranks does not count as one that works with the device.
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
            making: SpinLock::new(()),
            deferred: DeferredList::default(),
        })
    }

    /// When the last handle of the runtime goes: nothing is in flight any more.
    pub(crate) fn close(&mut self, table: &Table) {
        if table.set_context(self.context).is_err() {
            return;
        }
        self.deferred.destroy_all(table);
        for allocation in self.retired.drain() {
            allocation.free(table);
        }
        self.destroy_streams(table);
        for event in lock(&self.events).drain(..) {
            if let Some(event) = Arc::into_inner(event) {
                let _ = table.destroy_event(event);
            }
        }
    }

    #[inline]
    fn has_dropped(&self) -> bool {
        !self.retired.is_empty() || self.streams_wait.load(Relaxed) || !self.deferred.is_empty()
    }

    pub(crate) fn is_context(&self, context: ContextHandle) -> bool {
        self.context == context
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

/// How many operations let what was dropped be: as many as the last look found unfinished, so that a look, which goes through
/// all of it, costs each operation the same however much there is.
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

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that can still be allocated.
    pub free: usize,
    /// Bytes in all.
    pub total: usize,
}

/// While this lives, the device's context is current on this thread.
pub(crate) struct Bound<'a> {
    restore: Option<(&'a Table, ContextHandle)>,
    /// A context is current on one thread.
    _here: PhantomData<*const ()>,
}

impl Drop for Bound<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some((table, context)) = self.restore.take() {
            restore(table, context);
        }
    }
}

#[cold]
fn restore(table: &Table, context: ContextHandle) {
    if let Err(error) = table.set_context(context) {
        // It was that of a device which is gone. The thread keeps the new one.
        tracing::debug!("the thread's earlier context could not be made current again: {error}");
    }
}

impl Device {
    pub(crate) fn new(runtime: Runtime, index: usize) -> Self {
        Self { runtime, index }
    }

    /// The device's index in its runtime, from 0.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The runtime it belongs to.
    #[inline]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    #[inline]
    pub(crate) fn table(&self) -> &Table {
        self.runtime.table()
    }

    /// CANN's number for the device (`aclrtSetDevice`).
    pub fn id(&self) -> i32 {
        self.runtime.device_id(self.index)
    }

    #[inline]
    pub(crate) fn state(&self) -> &DeviceState {
        self.runtime.device_state(self.index)
    }

    /// Makes the device current on the calling thread until the guard goes. CANN is asked what is current, because other code
    /// may have changed it; when it is the right context already, nothing else happens. A thread that had none keeps this one.
    #[inline]
    pub(crate) fn bind(&self) -> Result<Bound<'_>> {
        if self.table().is_current(self.state().context) {
            return Ok(Bound { restore: None, _here: PhantomData });
        }
        self.switch()
    }

    #[cold]
    fn switch(&self) -> Result<Bound<'_>> {
        let table = self.table();
        let current = table.current_context()?;
        table.set_context(self.state().context)?;
        Ok(Bound { restore: current.map(|context| (table, context)), _here: PhantomData })
    }

    /// The order in which the communicators of one device issue: CANN wants one operation after the other.
    #[inline]
    pub(crate) fn issue_order(&self) -> &IssueOrder<StreamSlot> {
        &self.state().issue_order
    }

    /// Communicators of one device are made one after the other, under this lock; it is waited for [patiently], for the same
    /// reason as with the issue order.
    pub(crate) fn making(&self) -> Option<Guard<'_, ()>> {
        patiently(|| self.state().making.try_lock())
    }

    /// For a communicator or graph that nobody has any more. Called by drops, so it is destroyed later.
    pub(crate) fn retire(&self, retired: impl Retire + 'static) {
        self.state().deferred.push(Box::new(retired));
    }

    /// A new stream (`aclrtCreateStream`). Does not block.
    pub fn stream(&self) -> Result<Stream> {
        self.reap();
        let bound = self.bind()?;
        let stream = Stream::new(self.clone(), self.table().create_stream()?, true);
        drop(bound);
        Ok(stream)
    }

    /// Free and total memory (`aclrtGetMemInfo`). Does not block. What was dropped while in use counts as used until it is
    /// complete.
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        self.reap();
        let _bound = self.bind()?;
        let (free, total) = self.table().memory_info()?;
        Ok(MemoryInfo { free, total })
    }

    pub(crate) fn take_event(&self) -> Result<Arc<EventHandle>> {
        {
            let mut events = lock(&self.state().events);
            if let Some(at) = events.iter_mut().rposition(|event| Arc::get_mut(event).is_some()) {
                return Ok(events.swap_remove(at));
            }
        }
        let _bound = self.bind()?;
        Ok(Arc::new(self.table().create_event(false)?))
    }

    pub(crate) fn recycle_event(&self, event: Arc<EventHandle>) {
        lock(&self.state().events).push(event);
    }

    /// For a stream that is complete and that nothing names any more. Called by drops, so the stream is destroyed later.
    pub(crate) fn bury_stream(&self, stream: StreamHandle) {
        let state = self.state();
        lock(&state.streams).push(stream);
        state.streams_wait.store(true, Release);
    }

    /// Frees what was dropped and is complete by now. One load each when there is nothing.
    #[inline]
    pub(crate) fn reap(&self) {
        if self.state().has_dropped() {
            self.reap_now();
        }
    }

    /// As [`reap`](Self::reap), for operations: much that is unfinished is not looked at by each of them.
    #[inline]
    pub(crate) fn reap_if_due(&self) {
        let state = self.state();
        if state.has_dropped() && state.pace.is_over() {
            self.reap_now();
        }
    }

    #[cold]
    fn reap_now(&self) {
        let state = self.state();
        let Ok(_bound) = self.bind() else { return };
        state.deferred.destroy_free(self.table());
        state.pace.begin(state.retired.free_complete(self.table()));
        state.destroy_streams(self.table());
    }

    /// Waits until everything that was dropped is complete, and frees it.
    pub(crate) fn reap_all(&self, limit: Duration) -> Result<()> {
        let start = std::time::Instant::now();
        let mut result = Ok(());
        for allocation in self.state().retired.drain() {
            let left = limit.saturating_sub(start.elapsed());
            if let Err(error) = allocation.wait(&allocation.all(), true, left, "freeing memory") {
                result = Err(error);
            }
            // The list frees it if it is complete.
            self.state().retired.push(allocation);
        }
        self.reap_now();
        result
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.runtime.is(&other.runtime) && self.index == other.index
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("index", &self.index).field("id", &self.id()).finish()
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
