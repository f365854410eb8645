//! The threads that sleep in our calls, and what each waits for.
//!
//! Only waits count that nothing but another thread, or a stream, can end: one with a short limit
//! ends by itself. A thread that waits in slices, and says so, sleeps on between them as long as it
//! waits for the same thing. Whether anybody is left to end a wait is found out by
//! [`deadlock`](crate::deadlock), which can end one itself: with a verdict.

use crate::bell;
use crate::executor::cores::this_thread;
use ascend_sync::{Thread, lock_std as lock};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A wait with a limit shorter than this is no sleep.
pub(crate) const SHORT: Duration = Duration::from_secs(30);

/// The condition that a thread waits for.
#[derive(Debug, Clone)]
pub(crate) enum Until {
    /// A point of a stream.
    Mark,
    /// The same, as a number, and the caller has said that it goes on with the same wait after this
    /// slice.
    SlicedMark(u64),
    /// Other threads of the program. Only the program knows the reason, and announces the wait.
    Said,
    /// Other threads: a call of ours that waits for their calls.
    Call(Arc<WaitingCall>),
}

/// The processes whose calls can end the wait of a call.
#[derive(Debug, Clone)]
pub(crate) enum Enders {
    /// Those of this process, and of others by their [names](crate::processes::peer::Home::name),
    /// if there are any.
    Processes(Vec<u64>),
    /// Those of any process.
    Anybody,
}

/// A call that waits for calls of other threads.
#[derive(Debug)]
pub(crate) struct WaitingCall {
    /// The name of the call, and the threads or processes that it waits for.
    pub(crate) text: String,
    /// The block of the device that the thread has set.
    pub(crate) block: Option<u32>,
    pub(crate) since: Instant,
    pub(crate) ends: Enders,
    thread: Thread,
    verdict: OnceLock<Arc<str>>,
    /// It was printed that it waits.
    is_told: AtomicBool,
}

impl WaitingCall {
    pub(crate) fn new(text: String, block: Option<u32>, ends: Enders, thread: Thread) -> Self {
        let (verdict, is_told) = (OnceLock::new(), AtomicBool::new(false));
        Self { text, block, since: Instant::now(), ends, thread, verdict, is_told }
    }

    /// Ends the wait, because nobody can.
    pub(crate) fn give_up(&self, why: Arc<str>) {
        if self.verdict.set(why).is_ok() {
            self.thread.unpark();
        }
    }

    /// Whether this is the first call of this function. The first caller tells the program about
    /// the wait.
    pub(crate) fn is_told_first(&self) -> bool {
        !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Why nobody can end the wait.
    pub(crate) fn verdict(&self) -> Option<Arc<str>> {
        self.verdict.get().cloned()
    }
}

/// A thread that has slept in a call.
struct SleepRecord {
    /// The kernel's number.
    number: i32,
    asleep: AtomicBool,
    /// How often it has found, asleep, that its wait is not over.
    looked: AtomicU64,
    state: Mutex<SleepState>,
}

#[derive(Default)]
struct SleepState {
    until: Option<Until>,
    /// How often it fell asleep for another reason than the time before.
    sleeps: u64,
}

static THREADS: Mutex<Vec<Arc<SleepRecord>>> = Mutex::new(Vec::new());
/// How many threads sleep in calls that wait for calls of others.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Threads of the emulator that do nothing by themselves: by their numbers, since others can have
/// their names.
static OWN: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// The calling thread is one of the emulator's own, until this is dropped.
pub(crate) struct OwnThread(i32);

impl OwnThread {
    pub(crate) fn new() -> Self {
        let number = this_thread();
        lock(&OWN).push(number);
        OwnThread(number)
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        lock(&OWN).retain(|number| *number != self.0);
    }
}

/// Whether a thread is one of the emulator's own.
pub(crate) fn is_own(number: i32) -> bool {
    lock(&OWN).contains(&number)
}

/// Leaves the list when its thread ends.
struct Registration(Arc<SleepRecord>);

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&THREADS).retain(|record| !Arc::ptr_eq(record, &self.0));
    }
}

thread_local! {
    static REGISTRATION: RefCell<Option<Registration>> = const { RefCell::new(None) };
}

/// The record of the calling thread. `None` for one that ends: it may still wait, in the drop of a
/// thread local.
fn record() -> Option<Arc<SleepRecord>> {
    let register = || {
        let record = Arc::new(SleepRecord {
            number: this_thread(),
            asleep: AtomicBool::new(false),
            looked: AtomicU64::new(0),
            state: Mutex::default(),
        });
        lock(&THREADS).push(record.clone());
        Registration(record)
    };
    let get = |registration: &RefCell<Option<Registration>>| {
        registration.borrow_mut().get_or_insert_with(register).0.clone()
    };
    REGISTRATION.try_with(get).ok()
}

/// The calling thread waits until this is dropped.
pub(crate) struct Asleep {
    record: Option<Arc<SleepRecord>>,
    is_call: bool,
}

impl Asleep {
    /// `patience` is how long the thread means to wait in all, maybe in several calls.
    pub(crate) fn new(until: Option<Until>, patience: Option<Duration>) -> Asleep {
        let is_long = patience.is_none_or(|patience| patience >= SHORT);
        let Some(until) = until.filter(|_| is_long) else {
            return Asleep { record: None, is_call: false };
        };
        let is_call = matches!(until, Until::Call(_));
        let record = record();
        if let Some(record) = &record {
            record.fall_asleep(until);
        }
        let is_call = is_call && record.is_some();
        if is_call {
            CALLS.fetch_add(1, Ordering::SeqCst);
            bell::notice();
        }
        Asleep { record, is_call }
    }

    /// The thread has looked, and its wait is not over.
    pub(crate) fn looked(&self) {
        if let Some(record) = &self.record {
            record.looked.fetch_add(1, Ordering::Release);
        }
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        if let Some(record) = &self.record {
            record.asleep.store(false, Ordering::Release);
        }
        if self.is_call {
            CALLS.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl SleepRecord {
    fn fall_asleep(&self, until: Until) {
        let mut state = lock(&self.state);
        let same = match (&state.until, &until) {
            (Some(Until::SlicedMark(old)), Until::SlicedMark(new)) => old == new,
            (Some(Until::Said), Until::Said) => self.asleep.load(Ordering::Relaxed),
            _ => false,
        };
        if !same {
            state.sleeps += 1;
        }
        state.until = Some(until);
        self.asleep.store(true, Ordering::Release);
    }
}

/// The calling thread announces that it waits for other threads, for `patience` in all, and has
/// just found that it has to. With zero it announces that it goes on.
pub(crate) fn say(patience: Duration) {
    let Some(record) = record() else { return };
    if patience >= SHORT {
        record.fall_asleep(Until::Said);
        record.looked.fetch_add(1, Ordering::Release);
    } else {
        record.asleep.store(false, Ordering::Release);
    }
}

/// Whether any thread sleeps in a call that waits for calls of others.
pub(crate) fn any_calls() -> bool {
    CALLS.load(Ordering::SeqCst) != 0
}

/// A thread that is asleep.
pub(crate) struct SleepingThread {
    /// The kernel's number.
    pub(crate) number: i32,
    pub(crate) until: Until,
    pub(crate) sleeps: u64,
    pub(crate) looked: u64,
}

/// All threads that sleep now.
pub(crate) fn sleepers() -> Vec<SleepingThread> {
    let threads = lock(&THREADS);
    let asleep = threads.iter().filter(|record| record.asleep.load(Ordering::Acquire));
    let sleeper = |record: &Arc<SleepRecord>| {
        let state = lock(&record.state);
        Some(SleepingThread {
            number: record.number,
            until: state.until.clone()?,
            sleeps: state.sleeps,
            looked: record.looked.load(Ordering::Acquire),
        })
    };
    asleep.filter_map(sleeper).collect()
}
