//! A [`SpinLock`] that its usual thread takes without an atomic read-modify-write step.
//!
//! The first thread that takes the lock becomes its *owner*. To take the lock, the owner marks that
//! it is inside, in a word that only the owner writes, and then checks that it still is the owner.
//! The first other thread that wants the lock ends the ownership for good, and waits until the
//! owner is no longer inside. From then on all threads use the spin lock.
//!
//! The owner writes its mark and then reads the owner field. The other thread writes the owner
//! field and then reads the mark. So at least one of the two sees the other. Each side needs a
//! barrier between its write and its read. The owner's barrier costs nothing, because the other
//! thread makes all threads of the process execute one (`membarrier`, a system call of one to a few
//! microseconds). Where the system lacks that call, no thread becomes an owner.
//!
//! One thread issues nearly all operations of a stream, so the issue lock of a stream is biased.

use std::ptr;

#[cfg(not(loom))]
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

#[cfg(loom)]
use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

use super::barrier::{are_there, heavy, light};
use super::{Guard, SpinLock, spin_until};

/// A spin lock that its usual thread takes without an atomic read-modify-write step.
pub struct Biased<T> {
    /// The owner; null if there is none. Written with `shared` held.
    owner: AtomicPtr<Owner>,
    /// The former owner, which may still be inside; null if there is none. Written with `shared`
    /// held.
    former: AtomicPtr<Owner>,
    shared: SpinLock<T>,
}

/// The state of one thread: the addresses of the locks that it is inside of as their owner, or 0.
/// Only that thread writes it. An `Owner` is never freed, but a later thread may reuse it.
#[derive(Default)]
struct Owner {
    inside: [AtomicUsize; 2],
}

impl Owner {
    /// Returns a free place for one more lock. Returns `None` if the thread is already inside this
    /// lock, or if all places are taken.
    #[inline]
    fn place_for(&self, lock: usize) -> Option<&AtomicUsize> {
        let [first, second] = &self.inside;
        match (first.load(Relaxed), second.load(Relaxed)) {
            (one, two) if one == lock || two == lock => None,
            (0, _) => Some(first),
            (_, 0) => Some(second),
            _ => None,
        }
    }

    fn is_inside(&self, lock: usize) -> bool {
        self.inside.iter().any(|place| place.load(Acquire) == lock)
    }
}

impl<T> Biased<T> {
    /// Returns a free lock around `value`.
    pub fn new(value: T) -> Self {
        let nobody = || AtomicPtr::new(ptr::null_mut());
        Self { owner: nobody(), former: nobody(), shared: SpinLock::new(value) }
    }

    /// Takes the lock; spins, then yields, then sleeps while another thread holds it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let thread = this_thread();
        match thread.and_then(|thread| self.enter(thread)) {
            Some(guard) => guard,
            None => spin_until(|| self.try_shared(thread)),
        }
    }

    /// Takes the lock, or returns `None` if a thread holds it. The call may fail although the lock
    /// is free: a former owner marks itself as inside for a moment before it sees that it no longer
    /// is the owner.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let thread = this_thread();
        thread.and_then(|thread| self.enter(thread)).or_else(|| self.try_shared(thread))
    }

    /// Ends the ownership, so that the next thread that takes the lock becomes the owner. Waits
    /// while another thread holds the lock.
    pub fn forget_owner(&self) {
        let _guard = spin_until(|| self.try_shared(None));
        self.former.store(ptr::null_mut(), Relaxed);
    }

    fn name(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Takes the lock as its owner. Returns `None` if this thread is not the owner, is inside the
    /// lock already, or has no free place.
    #[inline]
    fn enter(&self, thread: &'static Owner) -> Option<Guard<'_, T>> {
        // A thread that sees here that it is not the owner leaves no mark, so it does not delay
        // other threads.
        if !ptr::eq(self.owner.load(Relaxed), thread) {
            return None;
        }
        let place = thread.place_for(self.name())?;
        // `Release` pairs with the `Acquire` in `is_inside`, as the store on leaving does. A thread
        // that reads the mark also sees that this thread has left every lock it was inside before.
        place.store(self.name(), Release);
        light();
        if ptr::eq(self.owner.load(Relaxed), thread) {
            return Some(Guard::new(&self.shared.value, place));
        }
        place.store(0, Release);
        None
    }

    /// Takes the lock through `shared`, which ends an ownership. The first thread becomes the
    /// owner. Returns `None` if another thread holds `shared` or the former owner is inside.
    #[cold]
    fn try_shared(&self, thread: Option<&'static Owner>) -> Option<Guard<'_, T>> {
        let guard = self.shared.try_lock()?;
        let owner = self.owner.load(Relaxed);
        if !owner.is_null() {
            self.former.store(owner, Relaxed);
            self.owner.store(ptr::null_mut(), Relaxed);
            heavy();
        }
        // SAFETY: the pointer is null or points to an `Owner`, and an `Owner` is never freed.
        if let Some(former) = unsafe { self.former.load(Relaxed).as_ref() } {
            return (!former.is_inside(self.name())).then_some(guard);
        }
        let first = thread.filter(|_| are_there());
        let Some((thread, place)) = first.and_then(|t| Some((t, t.place_for(self.name())?))) else {
            return Some(guard);
        };
        // The thread is marked as inside before any other thread can see the new owner.
        place.store(self.name(), Release);
        self.owner.store(ptr::from_ref(thread).cast_mut(), Relaxed);
        drop(guard);
        Some(Guard::new(&self.shared.value, place))
    }
}

#[cfg(not(loom))]
use threads::this_thread;

#[cfg(not(loom))]
mod threads {
    use std::cell::Cell;
    use std::sync::Mutex;

    use super::Owner;
    use crate::lock_std as lock;

    /// The `Owner`s of threads that have ended, for reuse.
    static FREE: Mutex<Vec<&'static Owner>> = Mutex::new(Vec::new());

    thread_local! {
        static THIS: Cell<Option<&'static Owner>> = const { Cell::new(None) };
        static END: End = const { End };
    }

    struct End;

    impl Drop for End {
        fn drop(&mut self) {
            lock(&FREE).extend(THIS.take());
        }
    }

    /// Returns the `Owner` of the calling thread, or `None` if the thread is ending.
    #[inline]
    pub(super) fn this_thread() -> Option<&'static Owner> {
        THIS.get().or_else(begin)
    }

    #[cold]
    fn begin() -> Option<&'static Owner> {
        END.try_with(|_| ()).ok()?;
        let free = lock(&FREE).pop();
        THIS.set(Some(free.unwrap_or_else(|| Box::leak(Box::default()))));
        THIS.get()
    }
}

/// Returns `None`. A model passes its threads explicitly, because statics survive from one run of a
/// model to the next.
#[cfg(loom)]
fn this_thread() -> Option<&'static Owner> {
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn is_owned<T>(lock: &Biased<T>) -> bool {
        !lock.owner.load(Relaxed).is_null()
    }

    #[test]
    fn the_first_thread_owns_it_until_another_one_comes() {
        let lock = Biased::new(0);
        *lock.lock() += 1;
        assert_eq!(is_owned(&lock), are_there());
        *lock.lock() += 1;
        thread::scope(|scope| scope.spawn(|| *lock.lock() += 1).join()).unwrap();
        assert!(!is_owned(&lock));
        *lock.lock() += 1;
        assert!(!is_owned(&lock));
        assert_eq!(*lock.lock(), 4);
        lock.forget_owner();
        *lock.lock() += 1;
        assert_eq!(is_owned(&lock), are_there());
    }

    #[test]
    fn nobody_gets_what_the_owner_holds() {
        let (lock, other) = (Biased::new(()), Biased::new(()));
        drop(lock.lock());
        let held = lock.lock();
        assert!(lock.try_lock().is_none(), "not even the owner");
        thread::scope(|scope| scope.spawn(|| assert!(lock.try_lock().is_none())).join()).unwrap();
        drop(held);
        drop(lock.try_lock().unwrap());

        // The locks are released in another order than they were taken in, and there is one more
        // lock than an owner has places for.
        let third = Biased::new(());
        let (a, b, c) = (lock.lock(), other.lock(), third.lock());
        drop(a);
        assert!(other.try_lock().is_none());
        drop(b);
        assert!(third.try_lock().is_none());
        drop(c);
        drop((third.lock(), other.lock(), lock.lock()));
    }

    #[test]
    fn one_holder_at_a_time_whoever_is_the_owner() {
        let rounds = if cfg!(miri) { 5 } else { 300 };
        let lock = Biased::new(0_u64);
        let start = Barrier::new(3);
        for round in 1..=rounds {
            lock.forget_owner();
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        start.wait();
                        for _ in 0..10 {
                            let mut value = lock.lock();
                            let seen = *value;
                            std::hint::spin_loop();
                            *value = seen + 1;
                        }
                    });
                }
            });
            assert_eq!(*lock.lock(), 30 * round);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::Cell;
    use loom::sync::Arc;

    use super::*;

    fn thread() -> &'static Owner {
        Box::leak(Box::default())
    }

    impl<T> Biased<T> {
        fn lock_as(&self, thread: &'static Owner) -> Guard<'_, T> {
            spin_until(|| self.enter(thread).or_else(|| self.try_shared(Some(thread))))
        }
    }

    fn add(lock: &Biased<Cell<u32>>, thread: &'static Owner) {
        let value = lock.lock_as(thread);
        value.set(value.get() + 1);
    }

    /// Runs a model in which two threads take the lock at once. One of them has taken it `before`
    /// times already.
    fn two_come(before: u32) {
        loom::model(move || {
            let lock = Arc::new(Biased::new(Cell::new(0)));
            let (one, two) = (thread(), thread());
            (0..before).for_each(|_| add(&lock, one));
            let second = {
                let lock = lock.clone();
                loom::thread::spawn(move || add(&lock, two))
            };
            add(&lock, one);
            second.join().unwrap();
            assert_eq!(lock.lock_as(one).get(), before + 2);
        });
    }

    #[test]
    fn loom_the_owner_and_another_thread_are_not_inside_at_once() {
        two_come(1);
    }

    #[test]
    fn loom_one_of_two_becomes_the_owner() {
        two_come(0);
    }

    /// The lock gets a new owner while its old owner tries to enter.
    #[test]
    fn loom_who_was_the_owner_once_is_not_again() {
        loom::model(|| {
            let lock = Arc::new(Biased::new(Cell::new(0)));
            let (old, new) = (thread(), thread());
            add(&lock, old);
            let second = {
                let lock = lock.clone();
                loom::thread::spawn(move || {
                    lock.forget_owner();
                    add(&lock, new);
                    add(&lock, new);
                })
            };
            let added = lock.enter(old).map(|value| value.set(value.get() + 1));
            second.join().unwrap();
            assert_eq!(lock.lock_as(old).get(), 3 + u32::from(added.is_some()));
        });
    }
}
