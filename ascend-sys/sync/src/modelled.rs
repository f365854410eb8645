//! The synchronisation types of the stream protocol. They come from std, or from loom when the
//! protocol is model-checked
//! (`RUSTFLAGS="--cfg loom" cargo test -p ascend-emulator --release loom`).

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::{Thread, current as current_thread},
};
#[cfg(not(loom))]
pub use std::{
    sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::{Thread, current as current_thread},
};

use std::sync::{PoisonError, TryLockError};

/// `std::cell::UnsafeCell` with the access methods of loom's `UnsafeCell`. In a model, loom checks
/// that no two accesses collide.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// Returns a cell around `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `read` with the address of the value.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with the address of the value.
    #[inline]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Locks the mutex, blocking until it is free. A poisoned mutex is locked too: the data that our
/// locks guard is valid at every step, so a panic leaves nothing inconsistent.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until unparked, or until `limit` has passed, and may return earlier. A model has no time,
/// so there the limit is ignored.
pub fn park_timeout(_limit: std::time::Duration) {
    #[cfg(loom)]
    loom::thread::park();
    #[cfg(not(loom))]
    std::thread::park_timeout(_limit);
}

/// Locks as [`lock`] does, for the parts that are never model-checked.
pub fn lock_std<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks as [`lock_std`] does if the mutex is free, and returns `None` otherwise. Never blocks.
#[inline]
pub fn try_lock<T>(mutex: &std::sync::Mutex<T>) -> Option<std::sync::MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
