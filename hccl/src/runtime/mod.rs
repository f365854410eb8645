//! A backend and its devices.
//!
//! A [`Runtime`] is where a program starts. [`Runtime::auto`] takes the installed CANN and, where none is installed, the
//! emulator; so the same program runs on a server and on a laptop. [`Runtime::emulator`] gives fresh virtual devices that
//! nobody else uses, which is what tests want. Everything made from a runtime keeps it alive.

#![forbid(unsafe_code)]

mod choose;
#[cfg(feature = "emulator")]
mod faults;
mod findings;

pub use crate::error::finding::Finding;
pub use crate::error::product::Product;
#[cfg(feature = "emulator")]
pub use choose::EmulatorOptions;
#[cfg(feature = "emulator")]
pub use faults::Fault;

use std::fmt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::api::Table;
use crate::device::{Device, DeviceState};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::memory::HostBuffer;
use crate::memory::pool::Pool;
use crate::order::reactor::Reactor;
use crate::sync::lock;

/// Everything that waits gives up after this long unless told otherwise.
const DEADLINE: Duration = Duration::from_secs(300);
/// CANN's own execution timeout.
const EXEC_SECONDS: u32 = 1836;

/// How a runtime was made; for printing only.
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

/// A backend and its devices. Cheap to clone; all clones are the same runtime.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    table: Table,
    backend: Backend,
    product: Option<Product>,
    /// The emulator's block, given back at the end.
    block: Option<u32>,
    /// Whether the block is watched for races.
    checked: bool,
    /// CANN's number of device 0.
    first: i32,
    /// Opened when they are first asked for.
    devices: Box<[OnceLock<DeviceState>]>,
    opening: Mutex<()>,
    deadline: AtomicU64,
    /// For how many seconds an operation may wait for its peers on the device, if its communicator says nothing else.
    exec_seconds: AtomicU32,
    pool: Pool,
    reactor: Arc<Reactor>,
}

impl Runtime {
    /// CANN when its libraries load and a device answers, the emulator with 8 devices when there are no libraries.
    ///
    /// # Errors
    /// [`Error::NoBackend`] when CANN is installed and cannot be used, for example because no device answers; it names the ways
    /// out. Blocks while libraries are read.
    pub fn auto() -> Result<Runtime> {
        choose::auto()
    }

    /// `devices` fresh emulated devices (1 to 4,096) that nothing else uses. They go when the last handle goes.
    ///
    /// ```
    /// let runtime = hccl::Runtime::emulator(2)?;
    /// assert_eq!(runtime.device_count(), 2);
    /// # Ok::<(), hccl::Error>(())
    /// ```
    #[cfg(feature = "emulator")]
    pub fn emulator(devices: usize) -> Result<Runtime> {
        EmulatorOptions::builder().devices(devices).build()
    }

    /// Emulated devices with options: `build` makes the runtime.
    ///
    /// ```
    /// use hccl::{Product, Runtime};
    /// let runtime = Runtime::emulator_builder().devices(2).product(Product::A2).build()?;
    /// assert_eq!(runtime.product(), Some(Product::A2));
    /// # Ok::<(), hccl::Error>(())
    /// ```
    #[cfg(feature = "emulator")]
    pub fn emulator_builder() -> choose::EmulatorOptionsBuilder {
        EmulatorOptions::builder()
    }

    /// The installed CANN (see [`ascend_sys::Api::load`] for where it is looked for). Blocks while libraries are read.
    ///
    /// The libraries are trusted as the program itself is: loading them runs their start-up code, and their functions are taken
    /// to keep to CANN's documentation. Where they are looked for is said by environment variables, so who sets those decides what
    /// runs in this process. The same holds for [`auto`](Self::auto).
    ///
    /// # Errors
    /// [`Error::NoBackend`] lists what was tried, or says that no device answers.
    pub fn cann() -> Result<Runtime> {
        choose::cann(ascend_sys::Api::load())
    }

    /// The CANN in one directory. Blocks while libraries are read.
    ///
    /// The libraries there are trusted as in [`cann`](Self::cann): name only a directory whose files you would run.
    ///
    /// # Errors
    /// As for [`cann`](Self::cann).
    pub fn load_from(directory: impl AsRef<Path>) -> Result<Runtime> {
        choose::cann(ascend_sys::Api::load_from(directory))
    }

    /// Any table of functions that has CANN's ABI. All of its devices are used. Blocks while they are counted.
    ///
    /// Safe, because an [`Api`](ascend_sys::Api) is a promise already: that its functions do what CANN documents. Whoever made it
    /// from a table of their own gave that promise in an `unsafe` block; all that is safe here rests on it.
    ///
    /// # Errors
    /// What `aclInit` and `aclrtGetDeviceCount` say.
    pub fn from_api(api: ascend_sys::Api) -> Result<Runtime> {
        let table = Table::of_api(&api);
        table.init()?;
        let count = table.device_count()?;
        Ok(Self::new(table, Backend::Cann, None, None, 0, count as usize))
    }

    fn new(
        table: Table,
        backend: Backend,
        product: Option<Product>,
        block: Option<(u32, bool)>,
        first: i32,
        count: usize,
    ) -> Runtime {
        let inner = Inner {
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
        };
        Runtime { inner: Arc::new(inner) }
    }

    /// How many devices it has.
    pub fn device_count(&self) -> usize {
        self.inner.devices.len()
    }

    /// Device `index`, from 0. The first time it is opened (`aclrtSetDevice`), which takes seconds on hardware.
    pub fn device(&self, index: usize) -> Result<Device> {
        let count = self.device_count();
        let slot = self.inner.devices.get(index).ok_or(Error::NoSuchDevice { index, count })?;
        if slot.get().is_none() {
            let _opening = lock(&self.inner.opening);
            if slot.get().is_none() {
                let state = DeviceState::open(&self.inner.table, self.device_id(index))?;
                slot.get_or_init(|| state);
            }
        }
        Ok(Device::new(self.clone(), index))
    }

    /// How the runtime was made; for printing only.
    pub fn backend(&self) -> Backend {
        self.inner.backend
    }

    /// What the devices are, when it is one of the products that this crate knows (`aclrtGetSocName`).
    pub fn product(&self) -> Option<Product> {
        let known = || Product::from_soc_name(&self.inner.table.soc_name()?);
        self.inner.product.or_else(known)
    }

    /// Pinned host memory for `len` elements, filled with zeros (`aclrtMallocHost`).
    pub fn host_buffer<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        HostBuffer::new(self, len)
    }

    /// How long everything that waits waits before it gives up: 5 minutes unless told.
    pub fn deadline(&self) -> Duration {
        Duration::from_nanos(self.inner.deadline.load(Relaxed))
    }

    /// Changes [`deadline`](Self::deadline) for all clones.
    pub fn set_deadline(&self, limit: Duration) {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.inner.deadline.store(nanos, Relaxed);
    }

    /// For how many seconds an operation may wait for its peers on the device, if its communicator says nothing else; 0: for ever.
    pub(crate) fn exec_seconds(&self) -> u32 {
        self.inner.exec_seconds.load(Relaxed)
    }

    fn set_exec_seconds(&self, seconds: u32) {
        self.inner.exec_seconds.store(seconds, Relaxed);
    }

    /// To see whether it is gone.
    #[cfg(all(test, not(loom), not(miri)))]
    pub(crate) fn downgrade(&self) -> WeakRuntime {
        WeakRuntime(Arc::downgrade(&self.inner))
    }

    #[inline]
    pub(crate) fn is(&self, other: &Runtime) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    #[inline]
    pub(crate) fn table(&self) -> &Table {
        &self.inner.table
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    pub(crate) fn reactor(&self) -> &Arc<Reactor> {
        &self.inner.reactor
    }

    /// The number of its block of devices.
    pub(crate) fn block(&self) -> u32 {
        self.inner.block.unwrap_or(0)
    }

    pub(crate) fn device_id(&self, index: usize) -> i32 {
        self.inner.first + index as i32
    }

    /// Only for the index of a `Device`, which was opened.
    #[inline]
    pub(crate) fn device_state(&self, index: usize) -> &DeviceState {
        match self.inner.devices[index].get() {
            Some(state) => state,
            None => unreachable!("a Device is made after its state"),
        }
    }

    /// A device that is open, or else the first: some calls want a context and do not care which.
    pub(crate) fn some_device(&self) -> Result<Device> {
        let open = self.inner.devices.iter().position(|device| device.get().is_some());
        self.device(open.unwrap_or(0))
    }
}

#[cfg(all(test, not(loom), not(miri)))]
pub(crate) struct WeakRuntime(std::sync::Weak<Inner>);

#[cfg(all(test, not(loom), not(miri)))]
impl WeakRuntime {
    pub(crate) fn upgrade(&self) -> Option<Runtime> {
        self.0.upgrade().map(|inner| Runtime { inner })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nothing is in flight: an unfinished operation keeps its stream alive, and the stream the runtime. Devices stay set
        // and `aclFinalize` is not called, because other code of the process may use CANN.
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

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("backend", &self.backend())
            .field("devices", &self.device_count())
            .finish()
    }
}
