//! The atomics of the parts that are modelled with loom (loom's under `--cfg loom`), and locks that survive a panic.

#![forbid(unsafe_code)]

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU64;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::AtomicU64;

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Names something that is never freed.
#[inline]
pub(crate) fn name<T>(shared: &'static T) -> u64 {
    std::ptr::from_ref(shared).addr() as u64
}

/// Locks, also after a panic elsewhere: what the locks here guard is kept consistent at every step.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks when nobody holds it.
#[inline]
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
