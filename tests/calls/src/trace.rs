//! A record of a child process in memory that its parent sees: the calls that it has begun, which
//! of them returned, and which functions have succeeded. The record survives the child, however it
//! ends.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use crate::functions::FUNCTIONS;

/// The number of calls that are kept: the last ones.
const KEPT: usize = 2048;
/// The number of bytes for the text of a call.
const TEXT: usize = 480;
/// A number larger than the number of functions.
const MOST_FUNCTIONS: usize = 1024;

const RUNS: u32 = 1;
const CAME_BACK: u32 = 2;

#[repr(C)]
struct Call {
    state: AtomicU32,
    thread: AtomicU32,
    function: AtomicU32,
    length: AtomicU32,
    code: AtomicI64,
    text: [std::sync::atomic::AtomicU8; TEXT],
}

#[repr(C)]
struct Shared {
    /// The calls that have begun.
    begun: AtomicU64,
    /// The calls that came back.
    ended: AtomicU64,
    /// For each function the number of calls; `reached` has the number of those that have
    /// succeeded.
    called: [AtomicU32; MOST_FUNCTIONS],
    reached: [AtomicU32; MOST_FUNCTIONS],
    calls: [Call; KEPT],
}

/// Memory that a process and its children share.
#[derive(Clone)]
pub struct Trace(&'static Shared);

/// A call that has begun.
pub struct Begun(u64);

/// A call that has not come back.
pub struct Pending {
    /// The number of the thread.
    pub thread: u32,
    /// The index of the function in [`FUNCTIONS`].
    pub function: usize,
    /// The call as text.
    pub text: String,
}

impl Trace {
    /// Maps memory that the children of this process share. It is never unmapped.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    pub fn shared() -> Trace {
        const { assert!(MOST_FUNCTIONS > FUNCTIONS.len()) };
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: fresh memory at a place of the system's choice.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), size_of::<Shared>(), protection, flags, -1, 0)
        };
        assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        // SAFETY: the memory is never unmapped and page-aligned, and all zeros are valid for
        // atomics.
        Trace(unsafe { &*at.cast::<Shared>() })
    }

    /// Removes the calls of the previous child, but keeps the counts of the functions.
    pub fn clear(&self) {
        for call in &self.0.calls {
            call.state.store(0, Ordering::Relaxed);
        }
        self.0.begun.store(0, Ordering::Relaxed);
        self.0.ended.store(0, Ordering::Relaxed);
    }

    /// Records a call before it is made.
    pub fn begin(&self, thread: u32, function: usize, text: &str) -> Begun {
        let number = self.0.begun.fetch_add(1, Ordering::Relaxed);
        let call = &self.0.calls[number as usize % KEPT];
        call.state.store(0, Ordering::Release);
        let bytes = &text.as_bytes()[..text.len().min(TEXT)];
        for (to, from) in call.text.iter().zip(bytes) {
            to.store(*from, Ordering::Relaxed);
        }
        call.length.store(bytes.len() as u32, Ordering::Relaxed);
        call.thread.store(thread, Ordering::Relaxed);
        call.function.store(function as u32, Ordering::Relaxed);
        self.0.called[function].fetch_add(1, Ordering::Relaxed);
        call.state.store(RUNS, Ordering::Release);
        Begun(number)
    }

    /// Records that the call came back, and whether it has succeeded.
    pub fn end(&self, begun: Begun, function: usize, code: i64, success: bool) {
        let call = &self.0.calls[begun.0 as usize % KEPT];
        call.code.store(code, Ordering::Relaxed);
        call.state.store(CAME_BACK, Ordering::Release);
        if success {
            self.0.reached[function].fetch_add(1, Ordering::Relaxed);
        }
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a number that changes whenever a call begins or comes back.
    pub fn activity(&self) -> u64 {
        self.0.begun.load(Ordering::Relaxed) + self.0.ended.load(Ordering::Relaxed)
    }

    /// Returns the number of calls that have begun.
    pub fn begun(&self) -> u64 {
        self.0.begun.load(Ordering::Relaxed)
    }

    /// Returns how often a function was called, and how often it has succeeded, in all children.
    pub fn of(&self, function: usize) -> (u32, u32) {
        let load = |count: &AtomicU32| count.load(Ordering::Relaxed);
        (load(&self.0.called[function]), load(&self.0.reached[function]))
    }

    /// Returns the calls that have not come back.
    pub fn pending(&self) -> Vec<Pending> {
        let running = |call: &&Call| call.state.load(Ordering::Acquire) == RUNS;
        let pending = self.0.calls.iter().filter(running).map(|call| Pending {
            thread: call.thread.load(Ordering::Relaxed),
            function: call.function.load(Ordering::Relaxed) as usize,
            text: text_of(call),
        });
        pending.collect()
    }

    /// Returns the pending calls, and then the last `most` calls, as text. Each call has a line,
    /// and the oldest call is first.
    pub fn report(&self, most: usize) -> String {
        let begun = self.begun();
        let first = begun.saturating_sub(most.min(KEPT) as u64);
        let mut text = String::new();
        for pending in self.pending() {
            let (thread, call) = (pending.thread, pending.text);
            writeln!(text, "pending in thread {thread}: {call}").expect("it grows");
        }
        for number in first..begun {
            let call = &self.0.calls[number as usize % KEPT];
            let state = match call.state.load(Ordering::Acquire) {
                CAME_BACK => format!("-> {}", call.code.load(Ordering::Relaxed)),
                RUNS => "... has not come back".to_owned(),
                _ => continue,
            };
            let thread = call.thread.load(Ordering::Relaxed);
            writeln!(text, "{number:>5} [{thread}] {} {state}", text_of(call)).expect("it grows");
        }
        text
    }
}

fn text_of(call: &Call) -> String {
    let length = (call.length.load(Ordering::Relaxed) as usize).min(TEXT);
    let bytes: Vec<u8> =
        call.text[..length].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
