//! The locks and atomics of [`ascend_sync`] that `hccl` uses, under the names that `hccl` gives
//! them.

#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use ascend_sync::{AtomicU64, lock_std as lock, try_lock};

/// Runs code from outside this crate, such as a waker or a `tracing` subscriber, and contains its
/// panic. The thread can then go on with its other work. The caller must leave no state half
/// changed during the call.
pub(crate) fn contain(code: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
        // The panic hook has reported the panic. Dropping its payload could panic again.
        std::mem::forget(panic);
    }
}

/// Returns the address of a value that is never freed. It serves as the name of the value.
#[inline]
pub(crate) fn name<T>(shared: &'static T) -> u64 {
    std::ptr::from_ref(shared).addr() as u64
}
