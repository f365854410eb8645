//! Warnings about calls that block a thread which polls tasks.
//!
//! In most cases a task that awaits an operation of ours is polled next by the thread that polled
//! it last. If a call blocks this thread meanwhile, it may wait for work of that task. That is no
//! error, since another thread may take the task over; it is told once a thread and call, as a
//! warning. So is a wait that lasts, in a task that has awaited nothing of ours so far.

#![forbid(unsafe_code)]

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

thread_local! {
    /// The number of futures that were pending when this thread polled them last.
    static PENDING: RefCell<Arc<AtomicUsize>> = RefCell::default();
    /// The calls that a warning has named already.
    static TOLD: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

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
    if tasks != 0 && is_news(call) {
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
    /// The wait has lasted for `elapsed`. If a task waits, it says so, once.
    #[inline]
    pub(crate) fn has_lasted(&mut self, elapsed: Duration) {
        if elapsed >= LONG && !self.looked {
            self.looked = true;
            self.look();
        }
    }

    #[cold]
    fn look(&self) {
        let call = self.call;
        if !cfg!(miri) && is_in_poll(&Backtrace::force_capture().to_string()) && is_news(call) {
            tracing::warn!(
                call,
                "{call}: this wait has blocked its thread for {LONG:?} inside the poll of a task, and no other task of the thread \
                 goes on meanwhile; {REMEDY}"
            );
        }
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

fn is_news(call: &'static str) -> bool {
    let add = |told: &RefCell<Vec<&'static str>>| {
        let mut told = told.borrow_mut();
        let is_news = !told.contains(&call);
        if is_news {
            told.push(call);
        }
        is_news
    };
    // A thread that ends may still wait, in the drop of another thread local.
    TOLD.try_with(add).unwrap_or(false)
}
