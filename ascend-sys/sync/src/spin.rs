//! A spin lock for short sections.
//!
//! Taking the lock costs one atomic step, and releasing it a plain store. A `Mutex` needs a second
//! atomic step, because threads may sleep in it. No thread blocks in this lock: a thread that finds
//! it taken spins, then yields, then checks again every 50 microseconds. So the lock may
//! occasionally be held for long, for example by an enqueue that waits for peers. A thread that
//! must not wait uses [`try_lock`](SpinLock::try_lock).
//!
//! A panic while the lock is held releases it, so the guarded value must be consistent at every
//! step.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};

/// A lock for short sections. A thread that finds it taken spins, then yields, then sleeps for
/// short times.
pub struct SpinLock<T> {
    /// 1 while a thread holds the lock, otherwise 0.
    taken: AtomicUsize,
    pub(crate) value: UnsafeCell<T>,
}

// SAFETY: only the thread that holds the guard reaches the value, so access is exclusive. The value
// moves between threads, so it must be `Send`.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// A guard of a [`SpinLock`] or a [`Biased`](crate::Biased) lock. Dropping it releases the lock.
pub struct Guard<'a, T> {
    value: &'a UnsafeCell<T>,
    /// A word that is not 0 while the lock is held.
    held: &'a AtomicUsize,
    /// Keeps the guard in its thread: as with a `Mutex`, the thread that took the lock must release
    /// it.
    _here: std::marker::PhantomData<*const ()>,
}

impl<T> SpinLock<T> {
    /// Returns a free lock around `value`.
    pub fn new(value: T) -> Self {
        Self { taken: AtomicUsize::new(0), value: UnsafeCell::new(value) }
    }

    /// Takes the lock if it is free, and returns `None` otherwise. Never waits.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let free = self.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        // `then_some` would make the guard even if the lock is not free, and dropping that guard
        // would release the lock.
        free.is_ok().then(|| Guard::new(&self.value, &self.taken))
    }

    /// Takes the lock; spins, then yields, then sleeps while another thread holds it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.lock_slowly(),
        }
    }

    #[cold]
    fn lock_slowly(&self) -> Guard<'_, T> {
        spin_until(|| {
            let may_be_free = self.taken.load(Ordering::Relaxed) == 0;
            if may_be_free { self.try_lock() } else { None }
        })
    }
}

impl<'a, T> Guard<'a, T> {
    /// Returns a guard. No other thread may reach the value until `held` is 0.
    #[inline]
    pub(crate) fn new(value: &'a UnsafeCell<T>, held: &'a AtomicUsize) -> Self {
        Guard { value, held, _here: std::marker::PhantomData }
    }
}

/// Calls `attempt` until it returns a value, with a [`pause`] after each failure.
pub fn spin_until<G>(mut attempt: impl FnMut() -> Option<G>) -> G {
    let mut looks = 0_u32;
    loop {
        if let Some(guard) = attempt() {
            return guard;
        }
        pause(looks);
        looks = looks.saturating_add(1);
    }
}

/// Spins, yields or sleeps, depending on `looks`, the number of failed attempts so far.
#[cfg(not(loom))]
pub fn pause(looks: u32) {
    match looks {
        0..100 => std::hint::spin_loop(),
        100..200 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
}

/// Lets another thread of the model run.
#[cfg(loom)]
pub fn pause(_: u32) {
    let _ = Duration::ZERO;
    loom::thread::yield_now();
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so this thread alone has the lock.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard is borrowed mutably.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.held.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        // Miri is slow, so it runs fewer rounds. It checks every access.
        let rounds = if cfg!(miri) { 20 } else { 1000 };
        let lock = SpinLock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let mut value = lock.lock();
                        let seen = *value;
                        std::thread::yield_now();
                        *value = seen + 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 4 * rounds);
    }

    #[test]
    fn a_panic_gives_it_back() {
        let lock = SpinLock::new(());
        let held = std::panic::AssertUnwindSafe(|| {
            let _guard = lock.lock();
            assert!(lock.try_lock().is_none());
            panic!("on purpose");
        });
        assert!(std::panic::catch_unwind(held).is_err());
        assert!(lock.try_lock().is_some());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn loom_one_holder_at_a_time() {
        loom::model(|| {
            let lock = Arc::new(SpinLock::new(loom::cell::Cell::new(0)));
            let other = {
                let lock = lock.clone();
                loom::thread::spawn(move || {
                    let value = lock.lock();
                    value.set(value.get() + 1);
                })
            };
            {
                let value = lock.lock();
                value.set(value.get() + 1);
            }
            other.join().unwrap();
            assert_eq!(lock.lock().get(), 2);
        });
    }
}
