//! The synchronisation primitives of the meeting core: the standard library's, or loom's when the
//! models run (`RUSTFLAGS="--cfg loom" cargo test -p ascend-emulator --release loom`).

pub(crate) use ascend_sync::{AtomicPtr, AtomicU32, AtomicU64, Mutex, Ordering, UnsafeCell};

/// Stores `value` so that no later `SeqCst` load of this thread overtakes the store.
///
/// Two threads that each announce one word and then look at the other's cannot both miss it. This
/// module relies on it wherever one side does "arm, then look again" and the other "arrive, then
/// look for sleepers".
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
    ascend_sync::fence(Ordering::SeqCst);
}
