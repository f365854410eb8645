//! A lock without waiting.

use crate::modelled::{AtomicBool, Ordering, UnsafeCell};

/// A lock that is only tried: one thread at a time has it, and no thread ever waits for it.
///
/// Taking and giving back are both read-modify-write steps, even if taking fails. So a thread may
/// leave a note and then fail to take the lock: the holder is sure to see the note after it has
/// given the lock back.
pub struct TryLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only by the thread that has the lock, and the lock is passed on by
// release and acquire.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    /// A free lock around `value`.
    pub fn new(value: T) -> TryLock<T> {
        TryLock { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Whether a thread has the lock. This is a hint: it may be out of date when it is read.
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes the lock, or returns `None` at once. Dropping the guard gives the lock back.
    pub fn try_take(&self) -> Option<TryLockGuard<'_, T>> {
        if self.taken.swap(true, Ordering::AcqRel) { None } else { Some(TryLockGuard(self)) }
    }
}

/// Holds a [`TryLock`].
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
