//! An asymmetric barrier between two threads, one of which hardly ever comes: all of the cost is on
//! its side.

/// Keeps the order of the accesses before and behind it, as seen by a thread that calls [`heavy`].
#[cfg(not(loom))]
#[inline]
pub(super) fn light() {
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

/// Whether the system offers [`heavy`].
#[cfg(not(loom))]
pub(super) fn are_there() -> bool {
    static REGISTERED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    // Miri does not know the call.
    *REGISTERED
        .get_or_init(|| !cfg!(miri) && membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
}

/// Every thread of the process executes a barrier.
#[cfg(not(loom))]
pub(super) fn heavy() {
    if !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        // A sandbox that was set up after the registration forbids the call. A processor writes
        // back stores that it still holds within a millisecond.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[cfg(not(loom))]
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: takes numbers and touches no memory of ours.
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
