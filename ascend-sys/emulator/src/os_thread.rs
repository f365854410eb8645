//! The number that the operating system gives a thread.

use std::cell::Cell;

thread_local! {
    /// The number of the thread; 0 if it was not queried yet.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// Returns the number of the calling thread, as `gettid` returns it.
#[inline]
pub(crate) fn number() -> u32 {
    match NUMBER.get() {
        0 => ask(),
        known => known,
    }
}

#[cold]
fn ask() -> u32 {
    // SAFETY: a call without arguments.
    let number = unsafe { libc::gettid() }.cast_unsigned();
    NUMBER.set(number);
    number
}
