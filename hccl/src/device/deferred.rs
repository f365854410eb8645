//! Deferred destroy: communicators, graphs and kernels that were dropped are destroyed when nothing
//! uses them any more.
//!
//! CANN frees a communicator's buffers at once, also under operations in flight, and takes its time
//! about it; destroying a graph waits for it. So a drop only puts what CANN made here, as something
//! to [`Retire`]; the next call that issues or allocates on the device destroys what has become
//! free.

#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::api::Table;
use crate::error::Result;
use crate::order::stamps::Conflicts;
use crate::sync::lock;

/// Something that CANN made, whose owner is gone, and that is destroyed once it is free.
pub(crate) trait Retire: Send {
    /// Its name in messages.
    fn name(&self) -> &'static str;
    /// Of those that are free at a time, the ones with a lower number are destroyed first.
    fn order(&self) -> u8;
    /// Whether nothing uses it any more. Never blocks.
    fn is_free(&mut self) -> bool;
    /// Whether others would be told of its end, and somebody may be about to tell them why.
    fn is_held_back(&self) -> bool {
        false
    }
    /// The operations that still use it, as far as stamps tell.
    fn unfinished(&self) -> Conflicts;
    /// Destroys it. Some context of its device is current.
    fn destroy(self: Box<Self>, table: &Table) -> Result<()>;
}

/// The objects that a device has to destroy. The runtime keeps them alive, not the other way round.
#[derive(Default)]
pub(crate) struct DeferredList {
    any: AtomicBool,
    /// How many were destroyed.
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

    /// The operations that use one that is in use.
    pub(crate) fn unfinished(&self) -> Conflicts {
        let list = lock(&self.list);
        let mut unfinished = list.iter().map(|retired| retired.unfinished());
        unfinished.find(|unfinished| !unfinished.is_empty()).unwrap_or_default()
    }

    /// Destroys what is free, and with `all` also what is held back.
    pub(crate) fn destroy_free(&self, table: &Table, all: bool) {
        self.destroy(table, |retired| (all || !retired.is_held_back()) && retired.is_free());
    }

    /// Destroys all, when nothing can be in flight any more. The end of one may free others: a
    /// graph its communicators, a part of a communicator the whole.
    pub(crate) fn destroy_all(&self, table: &Table) {
        while self.destroy(table, |retired| retired.is_free()) {}
        self.destroy(table, |_| true);
    }

    /// Whether there was any that may go.
    fn destroy(&self, table: &Table, may_go: impl FnMut(&mut Box<dyn Retire>) -> bool) -> bool {
        let mut gone: Vec<Box<dyn Retire>> = {
            let mut list = lock(&self.list);
            let gone = list.extract_if(.., may_go).collect();
            // Whoever finds nothing here finds the thread that has taken it.
            self.any.store(!list.is_empty(), Ordering::Release);
            gone
        };
        let any = !gone.is_empty();
        gone.sort_by_key(|retired| retired.order());
        // Without the lock: this calls CANN.
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
