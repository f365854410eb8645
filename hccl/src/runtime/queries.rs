//! Queries of a runtime, and its deadline.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{Backend, Product, Runtime};

impl Runtime {
    /// How many devices it has.
    pub fn device_count(&self) -> usize {
        self.shared.device_count()
    }

    /// How the runtime was made; for printing only.
    pub fn backend(&self) -> Backend {
        self.shared.backend
    }

    /// Returns the product of the devices, when it is one that this crate knows
    /// (`aclrtGetSocName`).
    pub fn product(&self) -> Option<Product> {
        let known = || Product::from_soc_name(&self.shared.table.soc_name()?);
        self.shared.product.or_else(known)
    }

    /// How long everything that waits waits before it gives up: 5 minutes unless told.
    pub fn deadline(&self) -> Duration {
        Duration::from_nanos(self.shared.deadline.load(Relaxed))
    }

    /// Changes [`deadline`](Self::deadline) for all clones.
    pub fn set_deadline(&self, limit: Duration) {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.shared.deadline.store(nanos, Relaxed);
    }
}
