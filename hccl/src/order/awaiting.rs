//! Warnings about calls that block a thread which polls tasks.
//!
//! In most cases a task that awaits an operation of this crate is polled next by the thread that
//! polled it last. If a call blocks this thread, the call may wait for work of that same task. This
//! is not an error, because another thread may run the task. But a warning is logged, once for each
//! thread and call. A long wait inside the poll of a task gets a warning too, even if the task has
//! awaited nothing of this crate so far.
//!
//! Only the function names on the stack show that a thread polls a task. In a program with much
//! debug information, finding the names can take longer than the wait. So another thread finds them
//! while the wait goes on. Only one stack is examined at a time.

#![forbid(unsafe_code)]

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::sync::lock;

thread_local! {
    /// The number of pending futures that this thread was the last to poll.
    static PENDING: RefCell<Arc<AtomicUsize>> = RefCell::default();
    /// The calls that a warning has named already.
    static TOLD: ToldCalls = ToldCalls::default();
}

/// The calls of a thread that a warning has named already.
type ToldCalls = Arc<Mutex<Vec<&'static str>>>;

/// True while a thread examines the stack of a wait.
static LOOKS: AtomicBool = AtomicBool::new(false);

/// A guard that counts a pending future for the thread that polled it last. The count ends when the
/// guard is dropped.
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
    /// Ends the count, because the future is ready or gone.
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

/// A call that blocks its thread. When it has lasted for [`LONG`], the stack of the thread is
/// examined.
pub(crate) struct Blocking {
    call: &'static str,
    looked: bool,
}

/// Notes that the calling thread is about to block in `call`. Logs a warning if tasks that this
/// thread polled last are still pending.
pub(crate) fn blocks(call: &'static str) -> Blocking {
    let tasks = PENDING.try_with(|pending| pending.borrow().load(Relaxed)).unwrap_or(0);
    // `try_with`, because a thread that ends may still wait in the drop of another thread local.
    if tasks != 0 && TOLD.try_with(|told| is_news(told, call)).unwrap_or(false) {
        tracing::warn!(
            call,
            tasks,
            "{call}: this wait blocks a thread that polls tasks (pending futures: {tasks}); {REMEDY}"
        );
    }
    Blocking { call, looked: false }
}

const REMEDY: &str = "await it instead, or call it on a thread of its own (tokio: spawn_blocking)";

/// The time after which the stack of a wait is examined. That takes longer than most waits last.
const LONG: Duration = Duration::from_secs(1);

impl Blocking {
    /// Examines the stack once when the wait has lasted for [`LONG`]; `elapsed` is the time that it
    /// has lasted so far. If the thread is polling a task, a warning is logged. Does not block.
    #[inline]
    pub(crate) fn has_lasted(&mut self, elapsed: Duration) {
        if elapsed >= LONG && !self.looked {
            self.looked = self.look();
        }
    }

    /// Begins to examine the stack. Returns false if another stack is being examined.
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
                     task of the thread runs meanwhile; {REMEDY}"
                );
            }
            drop(looks);
        };
        // If no thread can be started, there is no warning.
        drop(std::thread::Builder::new().name("hccl-look".into()).spawn(look));
        true
    }
}

/// Returns whether the function names on a stack show that an executor is polling a task. Nothing
/// else shows this, so a program without symbols gets no warning.
fn is_in_poll(stack: &str) -> bool {
    // The innermost call comes first. Each call has one line, or two if its source is known.
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
    // The names of functions that run code which may block. Workers of tokio run inside such a
    // function too, but they poll tasks further inside.
    let may_block = ["BlockingTask", "blocking::unblock", "blocking::Executor", "/blocking-"];
    first(&polls).is_some_and(|poll| first(&may_block).is_none_or(|blocking| poll < blocking))
}

/// Returns whether no warning has named the call so far. Notes that the caller now logs one.
fn is_news(told: &ToldCalls, call: &'static str) -> bool {
    let mut told = lock(told);
    let is_news = !told.contains(&call);
    if is_news {
        told.push(call);
    }
    is_news
}
