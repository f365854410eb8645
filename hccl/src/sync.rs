//! The locks and atomics that `hccl` uses of [`ascend_sync`], under the names it has for them.

#![forbid(unsafe_code)]

pub(crate) use ascend_sync::{AtomicU64, lock_std as lock, try_lock};

/// Names something that is never freed.
#[inline]
pub(crate) fn name<T>(shared: &'static T) -> u64 {
    std::ptr::from_ref(shared).addr() as u64
}
