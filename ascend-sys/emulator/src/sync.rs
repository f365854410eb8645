//! The few synchronisation types of the stream protocol, from std, or from loom when the protocol is model-checked
//! (`RUSTFLAGS="--cfg loom" cargo test -p ascend-emulator --release loom`).

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::{Thread, current as current_thread},
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::{Thread, current as current_thread},
};

use std::sync::PoisonError;

/// Locks, also when a thread panicked while it held the lock: the data behind our locks is valid at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until unparked, at most this long. Models know no time.
pub(crate) fn park_timeout(_limit: std::time::Duration) {
    #[cfg(loom)]
    loom::thread::park();
    #[cfg(not(loom))]
    std::thread::park_timeout(_limit);
}

/// As [`lock`], for the parts that are never model-checked.
pub(crate) fn lock_std<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(loom)]
type Cell<T> = loom::cell::UnsafeCell<T>;
#[cfg(not(loom))]
type Cell<T> = std::cell::UnsafeCell<T>;

fn with_mut<T, R>(cell: &Cell<T>, use_it: impl FnOnce(*mut T) -> R) -> R {
    #[cfg(loom)]
    return cell.with_mut(use_it);
    #[cfg(not(loom))]
    use_it(cell.get())
}

/// A lock that is only tried: one thread at a time has it, and nobody ever waits for it.
///
/// Taking and giving back are both read-modify-write steps, also when taking fails: that is what lets somebody who
/// left a note, and then failed to take the lock, rely on its holder seeing the note after giving the lock back.
pub(crate) struct TryLock<T> {
    taken: AtomicBool,
    value: Cell<T>,
}

// SAFETY: the value is reached only by the thread that has the lock, and the lock is passed on by release and acquire.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    pub(crate) fn new(value: T) -> TryLock<T> {
        TryLock { taken: AtomicBool::new(false), value: Cell::new(value) }
    }

    /// Whether somebody has the lock: a hint, that may be out of date when it is read.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes the lock, or says no at once. Dropping the guard gives it back.
    pub(crate) fn try_take(&self) -> Option<TryLockGuard<'_, T>> {
        if self.taken.swap(true, Ordering::AcqRel) { None } else { Some(TryLockGuard(self)) }
    }
}

pub(crate) struct TryLockGuard<'a, T>(&'a TryLock<T>);

impl<T> TryLockGuard<'_, T> {
    pub(crate) fn with<R>(&mut self, use_it: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: this guard is the only one, and it is borrowed mutably for the whole call.
        with_mut(&self.0.value, |value| use_it(unsafe { &mut *value }))
    }
}

impl<T> Drop for TryLockGuard<'_, T> {
    fn drop(&mut self) {
        self.0.taken.swap(false, Ordering::AcqRel);
    }
}

#[cfg(not(loom))]
pub(crate) use short::{Guard, SpinLock};
#[cfg(loom)]
pub(crate) use {loom::sync::MutexGuard as Guard, loom_short::SpinLock};

#[cfg(not(loom))]
mod short {
    use std::cell::UnsafeCell;
    use std::ops::{Deref, DerefMut};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    /// From this many tries on it naps between them: about 200 yields.
    const PATIENT: u32 = 64 * 200;

    /// A lock that is held for a few dozen instructions, as a rule: given back by a plain store, which halves its price. Nobody sleeps
    /// in it: who finds it held spins, then yields, then looks again every 50 microseconds.
    pub(crate) struct SpinLock<T> {
        held: AtomicBool,
        value: UnsafeCell<T>,
    }

    // SAFETY: the value is reached only through the guard, of which there is one at a time.
    unsafe impl<T: Send> Sync for SpinLock<T> {}

    impl<T> SpinLock<T> {
        pub(crate) const fn new(value: T) -> SpinLock<T> {
            SpinLock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
        }

        #[inline]
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            if self.held.swap(true, Ordering::Acquire) {
                self.lock_slowly();
            }
            Guard(self)
        }

        /// Takes it if nobody holds it.
        pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
            if self.held.swap(true, Ordering::Acquire) { None } else { Some(Guard(self)) }
        }

        #[cold]
        fn lock_slowly(&self) {
            let mut tries = 0u32;
            while self.held.load(Ordering::Relaxed) || self.held.swap(true, Ordering::Acquire) {
                tries = tries.saturating_add(1);
                // Its holder may have lost its core in the middle, or be in a call that waits for others.
                if !tries.is_multiple_of(64) && tries < PATIENT {
                    std::hint::spin_loop()
                } else if tries < PATIENT {
                    std::thread::yield_now()
                } else {
                    std::thread::sleep(Duration::from_micros(50))
                }
            }
        }
    }

    pub(crate) struct Guard<'a, T>(&'a SpinLock<T>);

    impl<T> Deref for Guard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            // SAFETY: the guard holds the lock.
            unsafe { &*self.0.value.get() }
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: the guard holds the lock and is borrowed mutably.
            unsafe { &mut *self.0.value.get() }
        }
    }

    impl<T> Drop for Guard<'_, T> {
        fn drop(&mut self) {
            self.0.held.store(false, Ordering::Release);
        }
    }
}

#[cfg(loom)]
mod loom_short {
    /// The model's stand-in: loom's own lock, since it cannot explore an endless spin.
    pub(crate) struct SpinLock<T>(loom::sync::Mutex<T>);

    impl<T> SpinLock<T> {
        pub(crate) fn new(value: T) -> SpinLock<T> {
            SpinLock(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            super::lock(&self.0)
        }

        pub(crate) fn try_lock(&self) -> Option<loom::sync::MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}
