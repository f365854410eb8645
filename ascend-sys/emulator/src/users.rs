//! The threads that use devices: which they are, and which of them sleep in one of our calls.
//!
//! A thread is known from when it first sets a device to its end. Who used an event or a rank of a communicator last is kept as
//! the number of a thread, and whether it could still help somebody is asked here.

use crate::executor::cores::this_thread;
use ascend_sync::lock_std as lock;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A wait with a limit shorter than this is no sleep.
pub(crate) const SHORT: Duration = Duration::from_secs(30);

struct ThreadRecord {
    id: u32,
    /// The kernel's number.
    number: i32,
    device: AtomicU32,
    asleep: AtomicBool,
    /// What it waits for, as a number.
    until: AtomicU64,
    /// How often it fell asleep for another reason than the time before.
    sleeps: AtomicU64,
}

static THREADS: Mutex<Vec<Arc<ThreadRecord>>> = Mutex::new(Vec::new());

/// Leaves the list when its thread ends.
struct Registration(Arc<ThreadRecord>);

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&THREADS).retain(|record| record.id != self.0.id);
    }
}

thread_local! {
    static ID: Cell<u32> = const { Cell::new(0) };
    /// The thread for which this one issues; 0 for itself.
    static ISSUES_FOR: Cell<u32> = const { Cell::new(0) };
    static REGISTRATION: RefCell<Option<Registration>> = const { RefCell::new(None) };
}

/// The calling thread, for "who used this last"; 0 when it never had a device.
#[inline]
pub(crate) fn me() -> u32 {
    match ISSUES_FOR.get() {
        0 => ID.get(),
        other => other,
    }
}

/// From now on the calling thread issues for another one, or with 0 for itself. Returns its own number.
pub(crate) fn issue_for(thread: u32) -> u32 {
    ISSUES_FOR.set(thread);
    ID.get()
}

/// The calling thread has a device set.
pub(crate) fn bind(device: u32) {
    // Not while the thread ends: then it is not looked for any more.
    let _ = REGISTRATION.try_with(|registration| {
        let mut registration = registration.borrow_mut();
        if let Some(registration) = &*registration {
            registration.0.device.store(device, Ordering::Relaxed);
            return;
        }
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let record = Arc::new(ThreadRecord {
            id,
            number: this_thread(),
            device: AtomicU32::new(device),
            asleep: AtomicBool::new(false),
            until: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
        });
        lock(&THREADS).push(record.clone());
        ID.set(id);
        *registration = Some(Registration(record));
    });
}

/// The calling thread waits until this is dropped.
pub(crate) struct Asleep(Option<Arc<ThreadRecord>>);

impl Asleep {
    /// `until` is the point of a stream that the thread waits for, as a number. Who waits for anything else counts as awake: nobody
    /// knows what may end that. `patience` is how long it means to wait in all, maybe in several calls.
    pub(crate) fn new(until: Option<u64>, patience: Option<Duration>) -> Asleep {
        let Some(until) = until.filter(|_| patience.is_none_or(|patience| patience >= SHORT))
        else {
            return Asleep(None);
        };
        let record =
            REGISTRATION.try_with(|registration| Some(registration.borrow().as_ref()?.0.clone()));
        // A thread that ends may still wait, in the drop of a thread local.
        let record = record.ok().flatten();
        if let Some(record) = &record {
            if record.until.swap(until, Ordering::Relaxed) != until {
                record.sleeps.fetch_add(1, Ordering::Relaxed);
            }
            record.asleep.store(true, Ordering::Release);
        }
        Asleep(record)
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        if let Some(record) = &self.0 {
            record.asleep.store(false, Ordering::Release);
        }
    }
}

/// Threads that are all asleep.
#[derive(Default)]
pub(crate) struct SleepingThreads {
    pub(crate) ids: Vec<u32>,
    /// How often each fell asleep.
    pub(crate) sleeps: Vec<u64>,
    /// The kernel's numbers.
    pub(crate) numbers: Vec<i32>,
}

/// The threads that have one of these devices set. `None` when one is awake, or its wait is over, or when there are none.
pub(crate) fn sleepers(
    is_meant: impl Fn(u32) -> bool,
    is_over: impl Fn(u64) -> bool,
) -> Option<SleepingThreads> {
    let mut found = SleepingThreads::default();
    for record in lock(&THREADS).iter() {
        if is_meant(record.device.load(Ordering::Relaxed)) {
            let until = record.until.load(Ordering::Relaxed);
            if !record.asleep.load(Ordering::Acquire) || is_over(until) {
                return None;
            }
            found.ids.push(record.id);
            found.sleeps.push(record.sleeps.load(Ordering::Relaxed));
            found.numbers.push(record.number);
        }
    }
    (!found.ids.is_empty()).then_some(found)
}
