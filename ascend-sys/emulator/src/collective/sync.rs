//! The synchronisation primitives of the meeting core: the standard library's, or loom's when the models run
//! (`RUSTFLAGS="--cfg loom" cargo test -p ascend-emulator --release loom`).

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::Mutex,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering},
};

/// `std::cell::UnsafeCell` with the access methods of loom's, which checks that no two accesses collide.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Stores `value` so that no later `SeqCst` load of this thread overtakes the store.
///
/// Two threads that each announce one word and then look at the other's cannot both miss it: that is what every
/// "arm, then look again" against "arrive, then look who sleeps" of this module rests on.
#[inline]
pub(crate) fn announce(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::SeqCst);
    fence_for_loom();
}

/// [`announce`] for a word that others change too.
#[inline]
pub(crate) fn announce_or(word: &AtomicU32, bits: u32) {
    word.fetch_or(bits, Ordering::SeqCst);
    fence_for_loom();
}

/// Loom treats `SeqCst` accesses as acquire and release and honours only the fence.
#[inline]
pub(crate) fn fence_for_loom() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}
