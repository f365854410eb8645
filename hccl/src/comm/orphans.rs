//! Communicators that were dropped: they are destroyed when their operations are complete.
//!
//! CANN frees a communicator's buffers at once, also under operations in flight, and takes its time about it. So a drop only puts the
//! communicator here, and whoever issues or allocates next on the device destroys what has become complete.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::handle::Handle;
use crate::api::Table;
use crate::memory::stamps::Stamps;

/// A communicator that nobody has any more.
pub(crate) struct Orphan {
    pub(super) handle: Arc<Handle>,
    pub(super) stamps: Stamps,
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
        self.destroy(table, |orphan| !orphan.handle.has_parts() && orphan.stamps.are_complete());
    }

    /// Destroys all, when nothing can be in flight any more: parts before the whole.
    pub(crate) fn destroy_all(&self, table: &Table) {
        self.destroy(table, |orphan| !orphan.handle.has_parts());
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
        for orphan in gone {
            if let Err(error) = orphan.handle.destroy(table) {
                tracing::warn!("a communicator could not be destroyed: {error}");
            }
        }
    }
}
