//! The locks and atomics that `hccl` uses of [`ascend_sync`], under the names it has for them.

#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use ascend_sync::{AtomicU64, lock_std as lock, try_lock};

/// Runs code of others, a waker or a subscriber, whose panic must not keep this thread from what it
/// has to do for everybody else. Whoever calls this leaves nothing half changed meanwhile.
pub(crate) fn contain(code: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
        // The panic hook has told of it. To drop it could panic again.
        std::mem::forget(panic);
    }
}

/// Names something that is never freed.
#[inline]
pub(crate) fn name<T>(shared: &'static T) -> u64 {
    std::ptr::from_ref(shared).addr() as u64
}
