//! A backend and its devices: where every program starts. Use [`Runtime::auto`] in programs and
//! [`Runtime::emulator`] in tests. [`Runtime::cann`] and [`Runtime::load_from`] are for programs
//! that must not run on the emulator.
//!
//! [`Runtime::auto`] takes the installed CANN and, where none is installed, the emulator; so the
//! same program runs on a server and on a laptop. [`Runtime::emulator`] gives fresh virtual devices
//! that nobody else uses. Everything made from a runtime keeps it alive.

#![forbid(unsafe_code)]

// In the order in which rustdoc lists the methods that they have.
mod choose;

mod queries;

mod findings;

#[cfg(feature = "emulator")]
mod faults;

mod shared;

pub use crate::error::finding::Finding;
pub use crate::error::product::Product;
#[cfg(feature = "emulator")]
pub use choose::{EmulatorOptions, EmulatorOptionsBuilder};
#[cfg(feature = "emulator")]
pub use faults::Fault;
pub use shared::Backend;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::api::Table;
use crate::memory::pool::Pool;
use crate::order::reactor::Reactor;
use shared::Shared;

/// A backend and its devices. Cheap to clone; all clones are the same runtime.
///
/// ```
/// use hccl::prelude::*;
///
/// let runtime = Runtime::emulator(2)?; // or Runtime::auto(), which takes CANN when there is one
/// let first = runtime.device(0)?;
/// let ranks = runtime.run_ranks(2, |rank| Ok::<_, hccl::Error>(rank.index()))?;
/// assert_eq!((first.index(), ranks), (0, vec![0, 1]));
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

impl Runtime {
    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// For how many seconds an operation may wait for its peers on the device, if its communicator
    /// says nothing else; 0: for ever.
    pub(crate) fn exec_seconds(&self) -> u32 {
        self.shared.exec_seconds.load(Relaxed)
    }

    fn set_exec_seconds(&self, seconds: u32) {
        self.shared.exec_seconds.store(seconds, Relaxed);
    }

    /// Returns a handle for a user that must not keep the runtime.
    pub(crate) fn downgrade(&self) -> WeakRuntime {
        WeakRuntime(Arc::downgrade(&self.shared))
    }

    #[inline]
    pub(crate) fn is(&self, other: &Runtime) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    #[inline]
    pub(crate) fn table(&self) -> &Table {
        &self.shared.table
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    pub(crate) fn reactor(&self) -> &Arc<Reactor> {
        &self.shared.reactor
    }

    /// The number of its block of devices.
    pub(crate) fn block(&self) -> u32 {
        self.shared.block.unwrap_or(0)
    }
}

pub(crate) struct WeakRuntime(std::sync::Weak<Shared>);

impl WeakRuntime {
    pub(crate) fn upgrade(&self) -> Option<Runtime> {
        self.0.upgrade().map(|shared| Runtime { shared })
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
