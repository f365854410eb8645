//! Wakes sleeping threads: those that wait for any completion or change, and the housekeeper.
//!
//! A sleeper registers with a [`Bell`], sets the bell, and checks once more whether the event has
//! already happened. The thread that makes the event happen reads the bell afterwards. A fence on
//! each side ensures that at least one of the two sees the other. While no thread sleeps, ringing
//! is one load.

use ascend_sync::{Thread, lock_std as lock};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, OnceLock};

/// The threads that sleep until an event; see the [module](self).
pub(crate) struct Bell {
    /// Whether a thread may be asleep. The first ring clears this, and wakes all sleepers.
    is_set: AtomicBool,
    sleepers: Mutex<Vec<Thread>>,
}

/// The bell that rings when a task of any stream completes.
pub(crate) static COMPLETIONS: Bell = Bell::new();
/// The bell that [`announce`] rings.
pub(crate) static CHANGES: Bell = Bell::new();

impl Bell {
    const fn new() -> Bell {
        Bell { is_set: AtomicBool::new(false), sleepers: Mutex::new(Vec::new()) }
    }

    /// Registers a thread that is about to sleep. After this call the thread checks its condition
    /// once more.
    pub(crate) fn set(&self, me: &Thread) {
        lock(&self.sleepers).push(me.clone());
        self.is_set.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Removes a thread that does not sleep any more.
    pub(crate) fn forget(&self, me: &Thread) {
        lock(&self.sleepers).retain(|sleeper| sleeper.id() != me.id());
    }

    /// Wakes all sleepers. The change that they wait for must be visible to all threads before the
    /// call.
    #[inline]
    fn ring(&self) {
        if self.is_set.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.is_set.swap(false, Ordering::SeqCst) {
            lock(&self.sleepers).iter().for_each(Thread::unpark);
        }
    }
}

/// Wakes the threads that wait for the completion of any task. Called after a completion.
#[inline]
pub(crate) fn completed() {
    // The number of the completed task must be visible before the bell is read. On x86 the code
    // between the two ensures that.
    if cfg!(not(target_arch = "x86_64")) {
        fence(Ordering::SeqCst);
    }
    COMPLETIONS.ring();
}

/// Wakes the threads in [`wait_until`](crate::executor::goals::wait_until), because their
/// conditions may have become true. Call it after the change.
pub(crate) fn announce() {
    fence(Ordering::SeqCst);
    CHANGES.ring();
}

/// Whether the housekeeper is parked until there is unfinished work.
static HOUSEKEEPER_SLEEPS: AtomicBool = AtomicBool::new(true);
static HOUSEKEEPER: OnceLock<std::thread::Thread> = OnceLock::new();

/// Wakes the housekeeper if it sleeps. Call it after leaving unfinished work. Returns false if
/// there is no housekeeper yet.
#[inline]
pub(crate) fn notice() -> bool {
    // Pairs with the fence in `await_notice`. The housekeeper sets the flag, then checks for work;
    // here the work comes first, then the check of the flag. So at least one of the two sees the
    // other.
    fence(Ordering::SeqCst);
    if !HOUSEKEEPER_SLEEPS.load(Ordering::Relaxed) {
        return true;
    }
    let Some(housekeeper) = HOUSEKEEPER.get() else { return false };
    housekeeper.unpark();
    true
}

/// Starts the housekeeper, unless it is already running.
#[cold]
pub(crate) fn employ(start: impl FnOnce() -> std::thread::Thread) {
    HOUSEKEEPER.get_or_init(start);
}

/// Parks the housekeeper until there is unfinished work. Returns at once if `is_none` returns
/// false, because then there is unfinished work already.
pub(crate) fn await_notice(is_none: impl FnOnce() -> bool) {
    HOUSEKEEPER_SLEEPS.store(true, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if is_none() {
        std::thread::park();
    }
    HOUSEKEEPER_SLEEPS.store(false, Ordering::SeqCst);
}

/// Notes that the housekeeper has started.
pub(crate) fn is_up() {
    HOUSEKEEPER_SLEEPS.store(false, Ordering::Relaxed);
}
