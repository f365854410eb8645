//! Queries of a runtime, and its deadline.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{Backend, Product, Runtime};

impl Runtime {
    /// Returns the number of devices.
    pub fn device_count(&self) -> usize {
        self.shared.device_count()
    }

    /// Returns the backend of the runtime, for printing only.
    pub fn backend(&self) -> Backend {
        self.shared.backend
    }

    /// Returns the product of the devices (`aclrtGetSocName`). Returns `None` if this crate does
    /// not support the product, or if the backend does not report it.
    pub fn product(&self) -> Option<Product> {
        let known = || Product::from_soc_name(&self.shared.table.soc_name()?);
        self.shared.product.or_else(known)
    }

    /// Returns the time limit of waits for operations, 5 minutes by default. It is not the limit of
    /// a wait that takes its own limit, of a [`Pending`](crate::Pending), or of the end of
    /// [`lend`](Self::lend).
    pub fn deadline(&self) -> Duration {
        Duration::from_nanos(self.shared.deadline.load(Relaxed))
    }

    /// Sets the time limit of [waits for operations](Self::deadline), for all clones of the
    /// runtime.
    pub fn set_deadline(&self, limit: Duration) {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.shared.deadline.store(nanos, Relaxed);
    }
}
