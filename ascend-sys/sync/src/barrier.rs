//! An asymmetric barrier between two threads. One thread calls [`light`] often and pays nothing;
//! the other calls [`heavy`] rarely and pays the whole cost.

/// Orders the accesses before the call and those after it, as seen by a thread that calls
/// [`heavy`].
#[cfg(not(loom))]
#[inline]
pub(super) fn light() {
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

/// Returns whether the system offers [`heavy`].
#[cfg(not(loom))]
pub(super) fn are_there() -> bool {
    static REGISTERED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    // Miri does not support the system call.
    *REGISTERED
        .get_or_init(|| !cfg!(miri) && membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
}

/// Makes every thread of the process execute a barrier.
#[cfg(not(loom))]
pub(super) fn heavy() {
    if !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        // A sandbox that was set up after the registration forbids the call. Every processor writes
        // buffered stores back within a millisecond, so a sleep of that length has the same effect.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[cfg(not(loom))]
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes numbers and touches no memory of the program.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(loom)]
pub(super) fn light() {
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

#[cfg(loom)]
pub(super) fn are_there() -> bool {
    true
}

#[cfg(loom)]
pub(super) fn heavy() {
    light();
}
