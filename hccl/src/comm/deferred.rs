//! Deferred destroy: communicators, graphs and kernels that were dropped are destroyed when their operations are complete.
//!
//! CANN frees a communicator's buffers at once, also under operations in flight, and takes its time about it; destroying a graph waits for it. So a drop only puts the
//! communicator or graph here, and whoever issues or allocates next on the device destroys what has become complete.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::handle::CommHandle;
use crate::api::Table;
use crate::device::graph::GraphParts;
use crate::kernel::driver::KernelDriver;
use crate::order::stamps::{Stamps, are_complete};

/// A communicator, graph or kernel that nobody has any more. A communicator of which a graph is left waits for that too.
pub(crate) struct Deferred {
    pub(crate) body: Body,
    pub(crate) stamps: Arc<Stamps>,
}

/// What is to be destroyed.
pub(crate) enum Body {
    Communicator(Arc<CommHandle>),
    Graph(GraphParts),
    Kernel(KernelDriver),
}

impl Deferred {
    fn has_parts(&self) -> bool {
        matches!(&self.body, Body::Communicator(handle) if handle.has_parts())
    }
}

impl Body {
    fn destroy(self, table: &Table) {
        let (what, result) = match self {
            Body::Communicator(handle) => ("communicator", handle.destroy(table)),
            Body::Graph(parts) => ("graph", parts.destroy(table)),
            Body::Kernel(driver) => ("kernel", driver.unload(table)),
        };
        if let Err(error) = result {
            tracing::warn!("a {what} could not be destroyed: {error}");
        }
    }
}

/// What waits to be destroyed on one device. The entries do not keep their runtime alive, which keeps them.
#[derive(Default)]
pub(crate) struct DeferredList {
    any: AtomicBool,
    list: Mutex<Vec<Deferred>>,
}

impl DeferredList {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Relaxed)
    }

    pub(crate) fn push(&self, deferred: Deferred) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(deferred);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Destroys those whose operations are complete, and of which there are no parts any more.
    pub(crate) fn destroy_complete(&self, table: &Table) {
        self.destroy(table, |deferred| !deferred.has_parts() && are_complete(&mut deferred.stamps));
    }

    /// Destroys all, when nothing can be in flight any more: parts before the whole.
    pub(crate) fn destroy_all(&self, table: &Table) {
        self.destroy(table, |deferred| !deferred.has_parts());
        self.destroy(table, |_| true);
    }

    fn destroy(&self, table: &Table, may_go: impl FnMut(&mut Deferred) -> bool) {
        let gone: Vec<Deferred> = {
            let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
            let gone = list.extract_if(.., may_go).collect();
            self.any.store(!list.is_empty(), Ordering::Relaxed);
            gone
        };
        // Without the lock: this calls CANN.
        let is_graph = |deferred: &Deferred| matches!(deferred.body, Body::Graph(_));
        let (graphs, others): (Vec<Deferred>, Vec<Deferred>) = gone.into_iter().partition(is_graph);
        // CANN wants the graphs of a communicator to go first.
        graphs.into_iter().chain(others).for_each(|deferred| deferred.body.destroy(table));
    }
}
