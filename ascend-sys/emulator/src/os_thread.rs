//! The number that the operating system gives a thread.

use std::cell::Cell;

thread_local! {
    /// 0: not asked for yet.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// The number of the calling thread, as `gettid` returns it.
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
