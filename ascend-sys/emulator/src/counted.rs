//! A table behind a lock. While the table is empty, as it usually is, no thread takes the lock.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use ascend_sync::lock_std as lock;

/// A table behind a lock, with the number of its entries; see the [module](self).
pub(crate) struct CountedTable<K, V> {
    entries: Mutex<BTreeMap<K, V>>,
    /// The number of entries when the lock was last released.
    count: AtomicUsize,
}

/// The locked table. When it is dropped, it stores the number of entries.
pub(crate) struct CountedGuard<'a, K, V> {
    entries: MutexGuard<'a, BTreeMap<K, V>>,
    count: &'a AtomicUsize,
}

impl<K, V> CountedTable<K, V> {
    pub(crate) const fn new() -> Self {
        Self { entries: Mutex::new(BTreeMap::new()), count: AtomicUsize::new(0) }
    }

    pub(crate) fn lock(&self) -> CountedGuard<'_, K, V> {
        CountedGuard { entries: lock(&self.entries), count: &self.count }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }
}

impl<K, V> Deref for CountedGuard<'_, K, V> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl<K, V> DerefMut for CountedGuard<'_, K, V> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.entries
    }
}

impl<K, V> Drop for CountedGuard<'_, K, V> {
    fn drop(&mut self) {
        // Still under the lock; pairs with the load in `is_empty`.
        self.count.store(self.entries.len(), Ordering::Release);
    }
}
