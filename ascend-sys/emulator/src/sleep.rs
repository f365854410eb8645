//! Tracks the threads that sleep in calls of the emulator, and the condition that each of them
//! waits for.
//!
//! A wait counts only if another thread or a stream has to end it. A wait with a short limit does
//! not count, because it ends by itself. A thread that waits in slices, and reports this, counts as
//! asleep between the slices as long as it waits for the same condition.
//! [`deadlock`](crate::deadlock) determines whether any thread or stream is left that can end a
//! wait. It can also end a wait itself, with a verdict.

use crate::bell;
use crate::executor::cores::this_thread;
use ascend_sync::{Thread, lock_std as lock};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A wait with a limit shorter than this does not count as sleep.
pub(crate) const SHORT: Duration = Duration::from_secs(30);

/// The condition that a thread waits for.
#[derive(Debug, Clone)]
pub(crate) enum Until {
    /// A point of a stream.
    Mark,
    /// A point of a stream, as a number. The caller has reported that it continues the same wait
    /// after this slice.
    SlicedMark(u64),
    /// Other threads of the program. The program announces the wait, and only the program knows the
    /// reason.
    Said,
    /// Other threads, for whose calls a call of the emulator waits.
    Call(Arc<WaitingCall>),
}

/// The processes whose calls can end the wait of a call.
#[derive(Debug, Clone)]
pub(crate) enum Enders {
    /// The calls of this process, and of other processes with these
    /// [names](crate::processes::peer::Home::name), if there are any.
    Processes(Vec<u64>),
    /// The calls of any process.
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
    /// Whether the wait was printed.
    is_told: AtomicBool,
}

impl WaitingCall {
    pub(crate) fn new(text: String, block: Option<u32>, ends: Enders, thread: Thread) -> Self {
        let (verdict, is_told) = (OnceLock::new(), AtomicBool::new(false));
        Self { text, block, since: Instant::now(), ends, thread, verdict, is_told }
    }

    /// Ends the wait, because nothing else can end it.
    pub(crate) fn give_up(&self, why: Arc<str>) {
        if self.verdict.set(why).is_ok() {
            self.thread.unpark();
        }
    }

    /// Returns true only at the first call. That caller prints the wait.
    pub(crate) fn is_told_first(&self) -> bool {
        !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Returns the reason why nothing can end the wait, if the wait was given up.
    pub(crate) fn verdict(&self) -> Option<Arc<str>> {
        self.verdict.get().cloned()
    }
}

/// The record of a thread that has slept in a call.
struct SleepRecord {
    /// The kernel's number of the thread.
    number: i32,
    asleep: AtomicBool,
    /// The number of times that the sleeping thread has checked and found that its wait is not
    /// over.
    looked: AtomicU64,
    state: Mutex<SleepState>,
}

#[derive(Default)]
struct SleepState {
    until: Option<Until>,
    /// The number of times that the thread fell asleep for another reason than the time before.
    sleeps: u64,
}

static THREADS: Mutex<Vec<Arc<SleepRecord>>> = Mutex::new(Vec::new());
/// The number of threads that sleep in calls that wait for calls of other threads.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// The kernel's numbers of the emulator's threads, which do nothing by themselves. Names would not
/// do, because other threads can have the same names.
static OWN: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Marks the calling thread as one of the emulator's own threads, until this value is dropped.
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

/// Returns whether a thread is one of the emulator's own threads.
pub(crate) fn is_own(number: i32) -> bool {
    lock(&OWN).contains(&number)
}

/// Removes the record of a thread from the list when the thread ends.
struct Registration(Arc<SleepRecord>);

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&THREADS).retain(|record| !Arc::ptr_eq(record, &self.0));
    }
}

thread_local! {
    static REGISTRATION: RefCell<Option<Registration>> = const { RefCell::new(None) };
}

/// Returns the record of the calling thread. Returns `None` if the thread is ending. It may still
/// wait then, in the drop of a thread local.
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

/// Marks the calling thread as waiting, until this value is dropped.
pub(crate) struct Asleep {
    record: Option<Arc<SleepRecord>>,
    is_call: bool,
}

impl Asleep {
    /// Marks the calling thread as waiting, if the wait counts. `patience` is the time that the
    /// thread intends to wait in total, possibly in several calls.
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

    /// Notes that the thread has checked its wait, and that the wait is not over.
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

/// Announces that the calling thread waits for other threads, for `patience` in total, and has just
/// found that its wait is not over. With less than [`SHORT`], announces that the thread goes on.
pub(crate) fn say(patience: Duration) {
    let Some(record) = record() else { return };
    if patience >= SHORT {
        record.fall_asleep(Until::Said);
        record.looked.fetch_add(1, Ordering::Release);
    } else {
        record.asleep.store(false, Ordering::Release);
    }
}

/// Returns whether any thread sleeps in a call that waits for calls of other threads.
pub(crate) fn any_calls() -> bool {
    CALLS.load(Ordering::SeqCst) != 0
}

/// A thread that is asleep.
pub(crate) struct SleepingThread {
    /// The kernel's number of the thread.
    pub(crate) number: i32,
    pub(crate) until: Until,
    pub(crate) sleeps: u64,
    pub(crate) looked: u64,
}

/// Returns all threads that sleep now.
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
