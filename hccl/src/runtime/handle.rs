//! The handle of a runtime.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::shared::Shared;
use crate::api::Table;
use crate::memory::pool::Pool;
use crate::order::reactor::Reactor;

/// A backend and its devices. Cloning is cheap, and all clones are the same runtime.
///
/// ```
/// use hccl::prelude::*;
///
/// let runtime = Runtime::emulator(2)?; // or Runtime::auto(), which uses CANN if it is installed
/// let first = runtime.device(0)?;
/// let ranks = runtime.run_ranks(2, |rank| Ok::<_, hccl::Error>(rank.index()))?;
/// assert_eq!((first.index(), ranks), (0, vec![0, 1]));
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone)]
pub struct Runtime {
    pub(super) shared: Arc<Shared>,
}

impl Runtime {
    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the number of seconds that an operation may wait for its peers on the device, unless
    /// its communicator has another limit. 0 means no limit.
    pub(crate) fn exec_seconds(&self) -> u32 {
        self.shared.exec_seconds.load(Relaxed)
    }

    pub(super) fn set_exec_seconds(&self, seconds: u32) {
        self.shared.exec_seconds.store(seconds, Relaxed);
    }

    /// Returns a handle that does not keep the runtime alive.
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

    /// Returns the number of the runtime's block of devices, or 0 if it has no block of its own.
    pub(crate) fn block(&self) -> u32 {
        self.shared.block.unwrap_or(0)
    }
}

pub(crate) struct WeakRuntime(std::sync::Weak<Shared>);

impl WeakRuntime {
    /// Returns whether the runtime is not dropped.
    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

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
