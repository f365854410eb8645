//! A lock that no thread ever waits for.

use crate::modelled::{AtomicBool, Ordering, UnsafeCell};

/// A lock that a thread can only try to take. One thread at a time holds it, and no thread waits
/// for it.
///
/// Taking and releasing are both read-modify-write steps, even if taking fails. So a thread may
/// write a note and then fail to take the lock: the holder sees the note after it has released the
/// lock.
pub struct TryLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that holds the lock reaches the value. Release and acquire pass the value
// on with the lock.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    /// Returns a free lock around `value`.
    pub fn new(value: T) -> TryLock<T> {
        TryLock { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Returns whether a thread holds the lock. The answer is a hint: it may be out of date when it
    /// is read.
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes the lock, or returns `None` at once. Dropping the guard releases the lock.
    pub fn try_take(&self) -> Option<TryLockGuard<'_, T>> {
        if self.taken.swap(true, Ordering::AcqRel) { None } else { Some(TryLockGuard(self)) }
    }
}

/// A guard of a [`TryLock`]. Dropping it releases the lock.
pub struct TryLockGuard<'a, T>(&'a TryLock<T>);

impl<T> TryLockGuard<'_, T> {
    /// Calls `use_it` with the value.
    pub fn with<R>(&mut self, use_it: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: this guard is the only one, and it is borrowed mutably for the whole call.
        self.0.value.with_mut(|value| use_it(unsafe { &mut *value }))
    }
}

impl<T> Drop for TryLockGuard<'_, T> {
    fn drop(&mut self) {
        self.0.taken.swap(false, Ordering::AcqRel);
    }
}
