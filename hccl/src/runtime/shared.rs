//! The state that all handles of a runtime share: the backend's functions, the devices that are
//! open, the time limits, the pool of pinned memory and the reactor. It ends when the last handle
//! goes.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use crate::api::Table;
use crate::device::shared::DeviceState;
use crate::error::Result;
use crate::error::product::Product;
use crate::memory::pool::Pool;
use crate::order::reactor::Reactor;
use crate::record::records::Records;
use crate::sync::lock;

/// Everything that waits gives up after this long unless told otherwise.
pub(super) const DEADLINE: Duration = Duration::from_secs(300);
/// CANN's own execution timeout.
const EXEC_SECONDS: u32 = 1836;

/// How a runtime was made; for printing only.
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
    /// CANN, or whatever table of functions it was given.
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
    /// The emulator's block, given back at the end.
    pub(super) block: Option<u32>,
    /// Whether the block is watched for races.
    pub(super) checked: bool,
    /// CANN's number of device 0.
    first: i32,
    /// Opened when they are first asked for.
    devices: Box<[OnceLock<DeviceState>]>,
    opening: Mutex<()>,
    pub(super) deadline: AtomicU64,
    /// For how many seconds an operation may wait for its peers on the device, if its communicator
    /// says nothing else.
    pub(super) exec_seconds: AtomicU32,
    pub(super) pool: Pool,
    pub(super) reactor: Arc<Reactor>,
    /// Where communicators are recorded that are made now.
    pub(crate) records: Mutex<Weak<Records>>,
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
            // The default block of the emulator may be, and says so itself.
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

    /// Opens the device unless it is open. The index is below the number of devices.
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

    /// The first device that is open.
    pub(crate) fn first_open(&self) -> Option<usize> {
        self.devices.iter().position(|device| device.get().is_some())
    }

    /// CANN's number of a device.
    pub(crate) fn device_id(&self, index: usize) -> i32 {
        self.first + index as i32
    }

    /// Only for the index of a `Device`, which was opened.
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
        // Nothing is in flight: an unfinished operation keeps its stream alive, and the stream the
        // runtime. Devices stay set and `aclFinalize` is not called, because other code of the
        // process may use CANN.
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
            tracing::warn!("the emulated devices could not be given back: {error}");
        }
    }
}
