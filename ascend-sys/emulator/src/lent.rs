//! A shared pointer that is lent for the duration of a call. It is counted only if it is kept
//! longer.
//!
//! Most tasks are complete when the call that submits them returns. To count the references to
//! shared objects up and down again would take two atomic steps, a tenth of the call's time.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

/// A pointer that is lent; see the [module](self).
pub(crate) struct Lent<T> {
    shared: ManuallyDrop<Arc<T>>,
    /// Whether the pointer is counted.
    kept: bool,
}

impl<T> Lent<T> {
    /// Lends the pointer `owner` without counting it.
    ///
    /// # Safety
    ///
    /// Until [`keep`](Self::keep) is called, `owner` or a clone of it outlives the returned
    /// pointer.
    #[inline]
    pub(crate) unsafe fn new(owner: &Arc<T>) -> Self {
        // SAFETY: a second copy of the pointer, which is not dropped unless it was counted; the
        // object that it points to exists, as the caller promises.
        let shared = ManuallyDrop::new(unsafe { std::ptr::read(owner) });
        Self { shared, kept: false }
    }

    /// Counts the pointer, so that it keeps its object alive from now on.
    #[inline]
    pub(crate) fn keep(&mut self) {
        if !self.kept {
            std::mem::forget(Arc::clone(&self.shared));
            self.kept = true;
        }
    }
}

impl<T> Deref for Lent<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.shared
    }
}

impl<T> Drop for Lent<T> {
    #[inline]
    fn drop(&mut self) {
        if self.kept {
            // SAFETY: counted by `keep`, and dropped here only.
            unsafe { ManuallyDrop::drop(&mut self.shared) }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_counted_once_and_what_is_not_is_not() {
        let owner = Arc::new(7);
        // SAFETY: dropped before the owner.
        drop(unsafe { Lent::new(&owner) });
        assert_eq!(Arc::strong_count(&owner), 1);
        // SAFETY: kept before the owner is dropped.
        let mut lent = unsafe { Lent::new(&owner) };
        lent.keep();
        lent.keep();
        assert_eq!(Arc::strong_count(&owner), 2);
        let watch = Arc::downgrade(&owner);
        drop(owner);
        assert_eq!(*lent, 7);
        drop(lent);
        assert!(watch.upgrade().is_none());
    }
}
