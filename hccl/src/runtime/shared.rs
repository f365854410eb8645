//! The state that all handles of a runtime share. It has the backend's functions, the open devices,
//! the time limits, the pool of pinned memory and the reactor. The state is freed when the last
//! handle is dropped.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::api::Table;
use crate::device::shared::DeviceState;
use crate::error::Result;
use crate::error::product::Product;
use crate::memory::pool::Pool;
use crate::order::reactor::Reactor;
use crate::record::records::Records;
use crate::sync::lock;

/// The default time limit of waits for operations.
pub(super) const DEADLINE: Duration = Duration::from_secs(300);
/// CANN's default execution timeout, in seconds.
const EXEC_SECONDS: u32 = 1836;

/// The kind of backend that a runtime has, for printing only.
///
/// ```
/// use hccl::{Backend, Runtime};
///
/// let runtime = Runtime::emulator(1)?;
/// assert_eq!(runtime.backend(), Backend::Emulator);
/// println!("runs on {:?}", runtime.backend());
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// Virtual devices in this process.
    Emulator,
    /// CANN, or another table of functions that the program gave.
    Cann,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Emulator => "emulator",
            Backend::Cann => "CANN",
        })
    }
}

/// The state that all handles of a runtime share.
pub(crate) struct Shared {
    pub(super) table: Table,
    pub(super) backend: Backend,
    pub(super) product: Option<Product>,
    /// The emulator's block of devices, destroyed with the runtime. `None` for other backends.
    pub(super) block: Option<u32>,
    /// Whether the devices may be in checked mode.
    pub(super) checked: bool,
    /// CANN's number of device 0.
    first: i32,
    /// The states of the devices. Each device is opened when it is first used.
    devices: Box<[OnceLock<DeviceState>]>,
    opening: Mutex<()>,
    pub(super) deadline: AtomicU64,
    /// The number of seconds that an operation may wait for its peers on the device, unless its
    /// communicator has another limit.
    pub(super) exec_seconds: AtomicU32,
    pub(super) pool: Pool,
    pub(super) reactor: Arc<Reactor>,
    /// The record to which new communicators are added, if the run is recorded.
    pub(crate) records: Mutex<Option<Arc<Records>>>,
}

impl Shared {
    pub(super) fn new(
        table: Table,
        backend: Backend,
        product: Option<Product>,
        block: Option<(u32, bool)>,
        first: i32,
        count: usize,
    ) -> Self {
        Self {
            table,
            backend,
            product,
            block: block.map(|(block, _)| block),
            // Without a block of its own, a runtime may use the emulator's default block. That
            // block may be in checked mode, which the runtime cannot see.
            checked: block.is_none_or(|(_, checked)| checked),
            first,
            devices: (0..count).map(|_| OnceLock::new()).collect(),
            opening: Mutex::new(()),
            deadline: AtomicU64::new(DEADLINE.as_nanos() as u64),
            exec_seconds: AtomicU32::new(EXEC_SECONDS),
            pool: Pool::default(),
            reactor: Reactor::new(),
            records: Mutex::default(),
        }
    }

    pub(super) fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// Opens the device unless it is open. The index must be below the number of devices.
    pub(crate) fn open_device(&self, index: usize) -> Result<()> {
        let device = &self.devices[index];
        if device.get().is_none() {
            let _opening = lock(&self.opening);
            if device.get().is_none() {
                let state = DeviceState::open(&self.table, self.device_id(index))?;
                device.get_or_init(|| state);
            }
        }
        Ok(())
    }

    /// Returns the index of the first device that is open.
    pub(crate) fn first_open(&self) -> Option<usize> {
        self.devices.iter().position(|device| device.get().is_some())
    }

    /// Returns CANN's number of a device.
    pub(crate) fn device_id(&self, index: usize) -> i32 {
        self.first + index as i32
    }

    /// Returns the state of an open device. The index must be that of a `Device`, because the
    /// device is open as long as a `Device` exists.
    #[inline]
    pub(crate) fn device_state(&self, index: usize) -> &DeviceState {
        match self.devices[index].get() {
            Some(state) => state,
            None => unreachable!("a Device is made after its state"),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Nothing is in flight: an unfinished operation keeps its stream alive, and the stream
        // keeps the runtime alive. Devices stay set and `aclFinalize` is not called, because other
        // code of the process may use CANN.
        let before = self.table.current_context().ok().flatten();
        let table = &self.table;
        let mut own = false;
        for state in self.devices.iter_mut().filter_map(OnceLock::get_mut) {
            own |= before.is_some_and(|context| state.is_context(context));
            state.close(table);
        }
        self.pool.close(table);
        if let Some(before) = before
            && !(own && self.block.is_some())
        {
            let _ = table.set_context(before);
        }
        if let Some(block) = self.block
            && let Err(error) = table.destroy_block(block)
        {
            tracing::warn!("the emulated devices could not be destroyed: {error}");
        }
    }
}
