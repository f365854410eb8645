//! Communicators, graphs and kernels that were dropped: they are destroyed when their operations are complete.
//!
//! CANN frees a communicator's buffers at once, also under operations in flight, and takes its time about it; destroying a graph waits for it. So a drop only puts the
//! communicator or graph here, and whoever issues or allocates next on the device destroys what has become complete.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::handle::Handle;
use crate::api::Table;
use crate::device::graph::GraphParts;
use crate::kernel::driver::Driver;
use crate::memory::stamps::{Stamps, are_complete};

/// A communicator, graph or kernel that nobody has any more. A communicator of which a graph is left waits for that too.
pub(crate) struct Orphan {
    pub(crate) body: Body,
    pub(crate) stamps: Arc<Stamps>,
}

/// What is to be destroyed.
pub(crate) enum Body {
    Communicator(Arc<Handle>),
    Graph(GraphParts),
    Kernel(Driver),
}

impl Orphan {
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

/// The orphans of one device. They do not keep their runtime alive, which keeps them.
#[derive(Default)]
pub(crate) struct Orphans {
    any: AtomicBool,
    list: Mutex<Vec<Orphan>>,
}

impl Orphans {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Relaxed)
    }

    pub(crate) fn push(&self, orphan: Orphan) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(orphan);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Destroys those whose operations are complete, and of which there are no parts any more.
    pub(crate) fn destroy_complete(&self, table: &Table) {
        self.destroy(table, |orphan| !orphan.has_parts() && are_complete(&mut orphan.stamps));
    }

    /// Destroys all, when nothing can be in flight any more: parts before the whole.
    pub(crate) fn destroy_all(&self, table: &Table) {
        self.destroy(table, |orphan| !orphan.has_parts());
        self.destroy(table, |_| true);
    }

    fn destroy(&self, table: &Table, may_go: impl FnMut(&mut Orphan) -> bool) {
        let gone: Vec<Orphan> = {
            let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
            let gone = list.extract_if(.., may_go).collect();
            self.any.store(!list.is_empty(), Ordering::Relaxed);
            gone
        };
        // Without the lock: this calls CANN.
        let is_graph = |orphan: &Orphan| matches!(orphan.body, Body::Graph(_));
        let (graphs, others): (Vec<Orphan>, Vec<Orphan>) = gone.into_iter().partition(is_graph);
        // CANN wants the graphs of a communicator to go first.
        graphs.into_iter().chain(others).for_each(|orphan| orphan.body.destroy(table));
    }
}
