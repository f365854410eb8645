//! Warnings about calls that block a thread which polls tasks.
//!
//! In most cases a task that awaits an operation of ours is polled next by the thread that polled
//! it last. If a call blocks this thread meanwhile, it may wait for work of that task. That is no
//! error, since another thread may take the task over; it is told once a thread and call, as a
//! warning. So is a wait that lasts, in a task that has awaited nothing of ours so far.
//!
//! Only the names on the stack show that a thread polls a task. To find the names can take longer
//! than the wait, when a program has much debug information. So another thread finds them, and the
//! wait goes on. One stack is looked at at a time.

#![forbid(unsafe_code)]

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::sync::lock;

thread_local! {
    /// The number of futures that were pending when this thread polled them last.
    static PENDING: RefCell<Arc<AtomicUsize>> = RefCell::default();
    /// The calls that a warning has named already.
    static TOLD: ToldCalls = ToldCalls::default();
}

/// The calls of a thread that a warning has named already.
type ToldCalls = Arc<Mutex<Vec<&'static str>>>;

/// Held while a thread looks at the stack of a wait.
static LOOKS: AtomicBool = AtomicBool::new(false);

/// Counts a future that was pending when this thread polled it, until this is dropped.
pub(crate) struct PolledHere(Option<Arc<AtomicUsize>>);

impl PolledHere {
    pub(crate) fn new() -> Self {
        let here = PENDING.try_with(|pending| pending.borrow().clone()).ok();
        if let Some(here) = &here {
            here.fetch_add(1, Relaxed);
        }
        PolledHere(here)
    }
}

impl PolledHere {
    /// The future is ready, or gone.
    pub(crate) fn end(&mut self) {
        if let Some(there) = self.0.take() {
            there.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for PolledHere {
    fn drop(&mut self) {
        self.end();
    }
}

/// A call that blocks the thread, and looks at the thread again when it has lasted.
pub(crate) struct Blocking {
    call: &'static str,
    looked: bool,
}

/// The calling thread is about to block in `call`. Says so where tasks wait for this thread.
pub(crate) fn blocks(call: &'static str) -> Blocking {
    let tasks = PENDING.try_with(|pending| pending.borrow().load(Relaxed)).unwrap_or(0);
    // A thread that ends may still wait, in the drop of another thread local.
    if tasks != 0 && TOLD.try_with(|told| is_news(told, call)).unwrap_or(false) {
        tracing::warn!(
            call,
            tasks,
            "{call}: this wait blocks a thread that polls tasks, and {tasks} of them await something; {REMEDY}"
        );
    }
    Blocking { call, looked: false }
}

const REMEDY: &str = "await it instead, or call it on a thread of its own (tokio: spawn_blocking)";

/// The time after which a wait looks at its thread, which takes longer than most waits.
const LONG: Duration = Duration::from_secs(1);

impl Blocking {
    /// The wait has lasted for `elapsed`. If a task waits, it says so, once. Does not block.
    #[inline]
    pub(crate) fn has_lasted(&mut self, elapsed: Duration) {
        if elapsed >= LONG && !self.looked {
            self.looked = self.look();
        }
    }

    /// False if another look is under way.
    #[cold]
    fn look(&self) -> bool {
        struct Looks;
        impl Drop for Looks {
            fn drop(&mut self) {
                LOOKS.store(false, Release);
            }
        }
        let call = self.call;
        let Ok(told) = TOLD.try_with(ToldCalls::clone) else { return true };
        if cfg!(miri) || lock(&told).contains(&call) {
            return true;
        }
        if LOOKS.swap(true, Acquire) {
            return false;
        }
        let looks = Looks;
        let stack = Backtrace::force_capture();
        let thread = std::thread::current().name().unwrap_or("without a name").to_owned();
        let look = move || {
            if is_in_poll(&stack.to_string()) && is_news(&told, call) {
                tracing::warn!(
                    call,
                    thread,
                    "{call}: this wait has blocked its thread ({thread}) for {LONG:?} inside the poll of a task, and no other \
                     task of the thread goes on meanwhile; {REMEDY}"
                );
            }
            drop(looks);
        };
        // Without a thread there is no warning.
        drop(std::thread::Builder::new().name("hccl-look".into()).spawn(look));
        true
    }
}

/// Whether the names of the functions on a stack are those of an executor that polls a task.
/// Nothing else tells that a thread belongs to one; a program without symbols gets no warning.
fn is_in_poll(stack: &str) -> bool {
    // The innermost call comes first. Each has a line, and where the source is known a second one.
    let mut calls: Vec<String> = Vec::new();
    for line in stack.lines() {
        match calls.last_mut() {
            Some(call) if line.trim_start().starts_with("at ") => call.push_str(line),
            _ => calls.push(line.to_owned()),
        }
    }
    let first =
        |names: &[&str]| calls.iter().position(|call| names.iter().any(|name| call.contains(name)));
    let polls = [
        "Future>::poll",
        "{async_block",
        "{async_fn",
        "::block_on",
        "tokio::runtime::task::",
        "async_task::raw::",
    ];
    // Names of functions that run code which may block. Workers of tokio are threads of that kind,
    // but poll a task further inside.
    let may_block = ["BlockingTask", "blocking::unblock", "blocking::Executor", "/blocking-"];
    first(&polls).is_some_and(|poll| first(&may_block).is_none_or(|blocking| poll < blocking))
}

/// Whether no warning has named the call so far; the one that follows does.
fn is_news(told: &ToldCalls, call: &'static str) -> bool {
    let mut told = lock(told);
    let is_news = !told.contains(&call);
    if is_news {
        told.push(call);
    }
    is_news
}
