//! The few synchronisation types of the stream protocol, from std, or from loom when the protocol
//! is model-checked (`RUSTFLAGS="--cfg loom" cargo test -p ascend-emulator --release loom`).

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

/// `std::cell::UnsafeCell` with the access methods of loom's, which checks that no two accesses
/// collide.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell around `value`.
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

/// Locks, also when a thread panicked while it held the lock: the data behind our locks is valid at
/// every step.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until unparked, at most this long. Models know no time.
pub fn park_timeout(_limit: std::time::Duration) {
    #[cfg(loom)]
    loom::thread::park();
    #[cfg(not(loom))]
    std::thread::park_timeout(_limit);
}

/// The same as [`lock`], for the parts that are never model-checked.
pub fn lock_std<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same as [`lock_std`], if the mutex is free.
#[inline]
pub fn try_lock<T>(mutex: &std::sync::Mutex<T>) -> Option<std::sync::MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
