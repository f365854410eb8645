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
    /// The watch that may end waits of any thread for operations on the device of a rank. It is
    /// gone when the run is.
    watch: Option<Weak<dyn Watch>>,
}

/// Memory of a device, in bytes.
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

    /// Free and total memory (`aclrtGetMemInfo`). Does not block. Memory that was dropped while in
    /// use counts as used until it is complete.
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        self.reap();
        let _bound = self.bind()?;
        let (free, total) = self.table().memory_info()?;
        Ok(MemoryInfo { free, total })
    }

    /// The number of its cube cores, which multiply matrices (`aclrtGetDeviceInfo` with
    /// `ACL_DEV_ATTR_CUBE_CORE_NUM`): as many blocks of a kernel of cube cores, or of both kinds,
    /// run at the same time. Does not block.
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
    /// CANN's error, and [`Error::MissingSymbol`](crate::Error::MissingSymbol) where it is too
    /// old to tell.
    pub fn cube_cores(&self) -> Result<u32> {
        self.table().device_info(self.id(), aclrtDevAttr::ACL_DEV_ATTR_CUBE_CORE_NUM)
    }

    /// The number of its vector cores (`ACL_DEV_ATTR_VECTOR_CORE_NUM`), as
    /// [`cube_cores`](Self::cube_cores).
    pub fn vector_cores(&self) -> Result<u32> {
        self.table().device_info(self.id(), aclrtDevAttr::ACL_DEV_ATTR_VECTOR_CORE_NUM)
    }

    /// CANN's number for the device (`aclrtSetDevice`).
    pub fn id(&self) -> i32 {
        self.runtime.shared().device_id(self.index)
    }

    #[inline]
    pub(crate) fn table(&self) -> &Table {
        self.runtime.table()
    }

    /// The same device, for all that is made with it: `watch` may end waits for that.
    pub(crate) fn watched(self, watch: Weak<dyn Watch>) -> Self {
        Device { watch: Some(watch), ..self }
    }

    /// The watch that may end waits for operations on it.
    pub(crate) fn watch(&self) -> Option<Arc<dyn Watch>> {
        self.watch.as_ref()?.upgrade()
    }

    #[inline]
    pub(crate) fn state(&self) -> &DeviceState {
        self.runtime.shared().device_state(self.index)
    }

    /// Makes the device current on the calling thread until the guard goes. CANN is asked what is
    /// current, because other code may have changed it; when it is the right context already,
    /// nothing else happens. A thread that had none keeps this one.
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

    /// The order in which the communicators of one device issue: CANN wants one operation after the
    /// other.
    #[inline]
    pub(crate) fn issue_order(&self) -> &IssueOrder<StreamSlot> {
        &self.state().issue_order
    }

    /// Makes communicators of the device, one after the other.
    pub(crate) fn making(&self) -> &Arc<Helper> {
        &self.state().making
    }

    /// Issues operations of communicators whose links are not made yet.
    #[inline]
    pub(crate) fn linking(&self) -> &Arc<Helper> {
        &self.state().linking
    }

    /// Tells peers of communicators that were dropped.
    pub(crate) fn leaving(&self) -> &Arc<Helper> {
        &self.state().leaving
    }

    /// An operation of this stream ends elsewhere; what it holds until then is let go when what was
    /// dropped is looked at.
    pub(crate) fn has_detour(&self, slot: &'static StreamSlot) {
        self.state().has_detour(slot);
    }

    /// For a communicator or graph that nobody has any more. Called by drops, so it is destroyed
    /// later.
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

    /// As [`take_event`](Self::take_event), for a while.
    pub(crate) fn lend_event(&self) -> Result<LentEvent> {
        Ok(LentEvent { event: self.take_event()?, device: self.clone() })
    }

    pub(crate) fn recycle_event(&self, event: Arc<EventHandle>) {
        self.state().recycle_event(event);
    }

    /// For a stream that is complete and that nothing names any more. Called by drops, so the
    /// stream is destroyed later.
    pub(crate) fn retire_stream(&self, stream: StreamHandle) {
        self.state().retire_stream(stream);
    }

    /// Frees what was dropped and is complete by now; when another thread is at it, waits for that.
    /// One load each when there is nothing.
    #[inline]
    pub(crate) fn reap(&self) {
        self.reap_if_any(true);
    }

    /// As [`reap`](Self::reap), for drops: nobody needs the room just now, so what is [held
    /// back](Retire::is_held_back) stays.
    pub(crate) fn reap_in_drop(&self) {
        self.reap_if_any(false);
    }

    #[inline]
    fn reap_if_any(&self, all: bool) {
        if self.state().has_dropped() || self.state().is_reaping() {
            self.reap_now(true, all);
        }
    }

    /// As [`reap_in_drop`](Self::reap_in_drop), for operations: much that is unfinished is not
    /// looked at by each of them, and none waits.
    #[inline]
    pub(crate) fn reap_if_due(&self) {
        let state = self.state();
        if state.is_look_due() {
            self.reap_now(false, false);
        }
    }

    /// As [`reap`](Self::reap); what of it is still in use after that.
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
    /// Device `index`, from 0. The first time it is opened (`aclrtSetDevice`), which takes seconds
    /// on hardware.
    pub fn device(&self, index: usize) -> Result<Device> {
        let count = self.device_count();
        if index >= count {
            return Err(Error::NoSuchDevice { index, count });
        }
        self.shared().open_device(index)?;
        Ok(Device { runtime: self.clone(), index, watch: None })
    }

    /// A device that is open, or else the first: some calls want a context and do not care which.
    pub(crate) fn some_device(&self) -> Result<Device> {
        self.device(self.shared().first_open().unwrap_or(0))
    }
}

/// An event of the device's, which goes back there. A wait looks at it as it was when the wait was
/// enqueued.
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
