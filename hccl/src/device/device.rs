//! One device, and its context on the calling thread.

#![forbid(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use ascend_sys::aclrtDevAttr;

use super::deferred::Retire;
use super::shared::{DeviceState, ReapTurn};
use crate::api::Table;
use crate::api::handles::{ContextHandle, EventHandle, StreamHandle};
use crate::error::{Error, Result};
use crate::order::helper::Helper;
use crate::order::issue_order::IssueOrder;
use crate::order::patience::Watch;
use crate::order::stamps::Conflicts;
use crate::order::stream_slot::StreamSlot;
use crate::runtime::Runtime;

/// One device of a [`Runtime`]. Cheap to clone; all clones are the same device.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// let device = runtime.device(0)?;
/// let stream = device.stream()?;
/// let x = device.upload(&[1, 2, 3], &stream)?;
/// assert_eq!(x.to_vec(&stream).wait()?, [1, 2, 3]);
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    runtime: Runtime,
    index: usize,
    /// The watch that may end waits of any thread for operations on this device, if it is the
    /// device of a rank. The watch is gone when the run has ended.
    watch: Option<Weak<dyn Watch>>,
}

/// The free and total memory of a device, in bytes.
///
/// ```
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(1)?;
/// let memory = runtime.device(0)?.memory_info()?;
/// println!("{} of {} bytes are free", memory.free, memory.total);
/// assert!(memory.free <= memory.total);
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// The number of bytes that can still be allocated.
    pub free: usize,
    /// The total number of bytes.
    pub total: usize,
}

/// A guard. While it lives, the device's context is current on this thread.
pub(crate) struct Bound<'a> {
    restore: Option<(&'a Table, ContextHandle)>,
    /// A marker that keeps the guard on its thread, because a context is current for one thread
    /// only.
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
        // The device of the earlier context is gone. The thread keeps the new context.
        tracing::debug!("the thread's earlier context could not be made current again: {error}");
    }
}

impl Device {
    /// Returns the index of the device in its runtime, counted from 0.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the runtime of the device.
    #[inline]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the free and total memory in bytes (`aclrtGetMemInfo`). Does not block. Memory that
    /// was dropped while in use counts as used until its operations are complete.
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        self.reap();
        let _bound = self.bind()?;
        let (free, total) = self.table().memory_info()?;
        Ok(MemoryInfo { free, total })
    }

    /// Returns the number of cube cores, which multiply matrices (`aclrtGetDeviceInfo` with
    /// `ACL_DEV_ATTR_CUBE_CORE_NUM`). For a kernel that uses cube cores, or both kinds of
    /// cores, this is also the number of blocks that run at the same time. Does not block.
    ///
    /// ```
    /// # fn main() -> hccl::Result<()> {
    /// use hccl::prelude::*;
    ///
    /// let runtime = Runtime::emulator_builder().devices(1).product(Product::A3).build()?;
    /// let device = runtime.device(0)?;
    /// assert_eq!((device.cube_cores()?, device.vector_cores()?), (24, 48));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// CANN's error, or [`Error::MissingSymbol`](crate::Error::MissingSymbol) if CANN is too old to
    /// have this call.
    pub fn cube_cores(&self) -> Result<u32> {
        self.table().device_info(self.id(), aclrtDevAttr::ACL_DEV_ATTR_CUBE_CORE_NUM)
    }

    /// Returns the number of vector cores (`aclrtGetDeviceInfo` with
    /// `ACL_DEV_ATTR_VECTOR_CORE_NUM`). Its errors are those of [`cube_cores`](Self::cube_cores).
    /// Does not block.
    pub fn vector_cores(&self) -> Result<u32> {
        self.table().device_info(self.id(), aclrtDevAttr::ACL_DEV_ATTR_VECTOR_CORE_NUM)
    }

    /// Returns the number by which CANN names the device (`aclrtSetDevice`).
    pub fn id(&self) -> i32 {
        self.runtime.shared().device_id(self.index)
    }

    #[inline]
    pub(crate) fn table(&self) -> &Table {
        self.runtime.table()
    }

    /// Returns the device with a watch. The watch may end waits for everything that is made with
    /// the returned handle.
    pub(crate) fn watched(self, watch: Weak<dyn Watch>) -> Self {
        Device { watch: Some(watch), ..self }
    }

    /// Returns the watch that may end waits for operations on the device, if there is one.
    pub(crate) fn watch(&self) -> Option<Arc<dyn Watch>> {
        self.watch.as_ref()?.upgrade()
    }

    #[inline]
    pub(crate) fn state(&self) -> &DeviceState {
        self.runtime.shared().device_state(self.index)
    }

    /// Makes the device's context current on the calling thread until the guard is dropped. Queries
    /// CANN for the current context first, because other code may have changed it. If the
    /// device's context is current already, does nothing else. A thread that had no context keeps
    /// the device's context.
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

    /// Returns the issue order, which makes the communicators of a device issue one operation after
    /// another, as CANN requires.
    #[inline]
    pub(crate) fn issue_order(&self) -> &IssueOrder<StreamSlot> {
        &self.state().issue_order
    }

    /// Returns the helper that makes communicators of the device, one after another.
    pub(crate) fn making(&self) -> &Arc<Helper> {
        &self.state().making
    }

    /// Returns the helper that issues operations of communicators whose links are not made yet.
    #[inline]
    pub(crate) fn linking(&self) -> &Arc<Helper> {
        &self.state().linking
    }

    /// Returns the helper that notifies the peers of communicators that were dropped.
    pub(crate) fn leaving(&self) -> &Arc<Helper> {
        &self.state().leaving
    }

    /// Notes that the outcome of an operation of this stream is kept elsewhere. When the operation
    /// is complete, the next check of dropped objects releases its resources.
    pub(crate) fn has_detour(&self, slot: &'static StreamSlot) {
        self.state().has_detour(slot);
    }

    /// Adds an object that is destroyed later, when it is free: for example a communicator or a
    /// graph.
    pub(crate) fn retire(&self, retired: impl Retire + 'static) {
        self.state().deferred.push(Box::new(retired));
    }

    pub(crate) fn take_event(&self) -> Result<Arc<EventHandle>> {
        if let Some(event) = self.state().take_event() {
            return Ok(event);
        }
        let _bound = self.bind()?;
        Ok(Arc::new(self.table().create_event(false)?))
    }

    /// Takes an event as [`take_event`](Self::take_event) does, and recycles it when the returned
    /// guard is dropped.
    pub(crate) fn lend_event(&self) -> Result<LentEvent> {
        Ok(LentEvent { event: self.take_event()?, device: self.clone() })
    }

    pub(crate) fn recycle_event(&self, event: Arc<EventHandle>) {
        self.state().recycle_event(event);
    }

    /// Adds a stream to the streams to destroy. The stream is complete, and nothing refers to it
    /// any more. Called by drops, so the stream is destroyed later.
    pub(crate) fn retire_stream(&self, stream: StreamHandle) {
        self.state().retire_stream(stream);
    }

    /// Frees the dropped objects that are complete by now. If another thread is doing this, waits
    /// for that thread first. Costs one load for each list if there are no dropped objects.
    #[inline]
    pub(crate) fn reap(&self) {
        self.reap_if_any(true);
    }

    /// Frees dropped objects as [`reap`](Self::reap) does, but keeps those that are [held
    /// back](Retire::is_held_back). Used by drops, which need no free memory.
    pub(crate) fn reap_in_drop(&self) {
        self.reap_if_any(false);
    }

    #[inline]
    fn reap_if_any(&self, all: bool) {
        if self.state().has_dropped() || self.state().is_reaping() {
            self.reap_now(true, all);
        }
    }

    /// Frees dropped objects as [`reap_in_drop`](Self::reap_in_drop) does, but never waits for
    /// another thread. Used by operations. If many objects are unfinished, not every call checks
    /// them.
    #[inline]
    pub(crate) fn reap_if_due(&self) {
        let state = self.state();
        if state.is_look_due() {
            self.reap_now(false, false);
        }
    }

    /// Frees dropped objects as [`reap`](Self::reap) does. Returns the operations that use an
    /// object that is left.
    #[cold]
    pub(crate) fn reap_and_look(&self) -> Conflicts {
        let turn = self.reap_now(true, true);
        turn.map(|_turn| self.state().unfinished_dropped()).unwrap_or_default()
    }

    #[cold]
    fn reap_now(&self, waits: bool, all: bool) -> Option<ReapTurn<'_>> {
        let state = self.state();
        let turn = state.reap_turn(waits)?;
        let _bound = self.bind().ok()?;
        state.settle_detours();
        state.destroy_free(self.table(), all);
        Some(turn)
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

impl Runtime {
    /// Returns device `index`, counted from 0. The first call for a device opens it
    /// (`aclrtSetDevice`), which takes seconds on hardware.
    pub fn device(&self, index: usize) -> Result<Device> {
        let count = self.device_count();
        if index >= count {
            return Err(Error::NoSuchDevice { index, count });
        }
        self.shared().open_device(index)?;
        Ok(Device { runtime: self.clone(), index, watch: None })
    }

    /// Returns a device that is open. If no device is open, opens the first device. Used by calls
    /// that need a context, but not the context of a certain device.
    pub(crate) fn some_device(&self) -> Result<Device> {
        self.device(self.shared().first_open().unwrap_or(0))
    }
}

/// An event of the device, which is recycled when this guard is dropped. A wait uses the event as
/// it was recorded when the wait was enqueued, so a later use does not change that wait.
pub(crate) struct LentEvent {
    event: Arc<EventHandle>,
    device: Device,
}

impl Deref for LentEvent {
    type Target = EventHandle;

    fn deref(&self) -> &EventHandle {
        &self.event
    }
}

impl Drop for LentEvent {
    fn drop(&mut self) {
        self.device.recycle_event(self.event.clone());
    }
}
