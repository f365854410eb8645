//! The synchronisation primitives of the meeting: those of the standard library, or those of loom
//! when the models run (`RUSTFLAGS="--cfg loom" cargo test -p ascend-emulator --release loom`).

pub(crate) use ascend_sync::{AtomicPtr, AtomicU32, AtomicU64, Mutex, Ordering, UnsafeCell};

/// Stores `value` so that no later `SeqCst` load of this thread overtakes the store.
///
/// If two threads each announce one word and then load the word of the other, at least one of them
/// sees the other's value. The `collective` modules rely on this wherever one side arms itself and
/// then checks again, and the other side arrives and then checks for sleepers.
#[inline]
pub(crate) fn announce(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::SeqCst);
    fence_for_loom();
}

/// Sets `bits` in a word with the same guarantee as [`announce`]. Other threads may change the word
/// at the same time.
#[inline]
pub(crate) fn announce_or(word: &AtomicU32, bits: u32) {
    word.fetch_or(bits, Ordering::SeqCst);
    fence_for_loom();
}

/// Issues a fence in loom's models only. Loom treats `SeqCst` accesses as acquire and release, and
/// gives sequential consistency only to fences.
#[inline]
pub(crate) fn fence_for_loom() {
    #[cfg(loom)]
    ascend_sync::fence(Ordering::SeqCst);
}
