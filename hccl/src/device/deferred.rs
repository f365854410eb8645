//! Deferred destroy: communicators, graphs and kernels that were dropped are destroyed when nothing
//! uses them any more.
//!
//! The call of CANN that destroys a communicator takes long. It frees the buffers at once, even
//! while operations in flight use them. The call that destroys a graph waits until the graph is
//! complete. So a drop only adds the object of CANN to a list, as a [`Retire`]. The next call that
//! issues or allocates on the device destroys the objects that have become free.

#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::api::Table;
use crate::error::Result;
use crate::order::stamps::Conflicts;
use crate::sync::lock;

/// An object of CANN whose owner was dropped. It is destroyed once it is free.
pub(crate) trait Retire: Send {
    /// Returns the name of the object in messages.
    fn name(&self) -> &'static str;
    /// Returns the position in the order of destruction. If several objects are free at the same
    /// time, those with lower numbers are destroyed first.
    fn order(&self) -> u8;
    /// Returns whether nothing uses the object any more. Never blocks.
    fn is_free(&mut self) -> bool;
    /// Returns whether the object should stay for now, because a helper is about to report to its
    /// peers why it ends. Destroying it earlier would report the end without the reason.
    fn is_held_back(&self) -> bool {
        false
    }
    /// Returns the operations that still use the object, as far as its stamps show.
    fn unfinished(&self) -> Conflicts;
    /// Destroys the object. Some context of its device is current.
    fn destroy(self: Box<Self>, table: &Table) -> Result<()>;
}

/// The objects that a device has to destroy. The runtime keeps them alive. They do not keep the
/// runtime alive.
#[derive(Default)]
pub(crate) struct DeferredList {
    any: AtomicBool,
    /// The number of objects that were destroyed.
    destroyed: AtomicUsize,
    list: Mutex<Vec<Box<dyn Retire>>>,
}

impl DeferredList {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    pub(crate) fn push(&self, retired: Box<dyn Retire>) {
        let mut list = lock(&self.list);
        list.push(retired);
        self.any.store(true, Ordering::Relaxed);
    }

    pub(crate) fn destroyed(&self) -> usize {
        self.destroyed.load(Ordering::Acquire)
    }

    /// Returns the operations that use the first object that is still in use.
    pub(crate) fn unfinished(&self) -> Conflicts {
        let list = lock(&self.list);
        let mut unfinished = list.iter().map(|retired| retired.unfinished());
        unfinished.find(|unfinished| !unfinished.is_empty()).unwrap_or_default()
    }

    /// Destroys the objects that are free. With `all`, this includes those that are held back.
    pub(crate) fn destroy_free(&self, table: &Table, all: bool) {
        self.destroy(table, |retired| (all || !retired.is_held_back()) && retired.is_free());
    }

    /// Destroys all objects. Called when nothing can be in flight any more. Destroying one object
    /// may free others: a graph frees its communicators, and a part of a communicator frees the
    /// communicator.
    pub(crate) fn destroy_all(&self, table: &Table) {
        while self.destroy(table, |retired| retired.is_free()) {}
        self.destroy(table, |_| true);
    }

    /// Destroys the objects for which `may_go` returns true. Returns whether there were any.
    fn destroy(&self, table: &Table, may_go: impl FnMut(&mut Box<dyn Retire>) -> bool) -> bool {
        let mut gone: Vec<Box<dyn Retire>> = {
            let mut list = lock(&self.list);
            let gone = list.extract_if(.., may_go).collect();
            // Release: a thread that reads false here also sees that this thread is reaping
            // (`DeviceState::is_reaping`).
            self.any.store(!list.is_empty(), Ordering::Release);
            gone
        };
        let any = !gone.is_empty();
        gone.sort_by_key(|retired| retired.order());
        // The lock is released by now, because this calls CANN.
        for retired in gone {
            let name = retired.name();
            if let Err(error) = retired.destroy(table) {
                tracing::warn!("a {name} could not be destroyed: {error}");
            }
            self.destroyed.fetch_add(1, Ordering::Release);
        }
        any
    }
}
