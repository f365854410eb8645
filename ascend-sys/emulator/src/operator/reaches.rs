//! Protects calls that use memory of the peer. The peer must not free the memory before the task of
//! the call is in its queue.
//!
//! A queued task keeps its memory: memory that is freed later is reused only after the task. But
//! between the lookup of an address and the enqueueing of the task, only the call has the address.
//! So an end of a channel counts these calls. The peer first removes its end, then
//! [waits](Reaches::wait) until no call is left that may have found the end. The memory is freed
//! only after that.
//!
//! The count and the peer's end are in different words. A call counts itself, then looks up the
//! end. The peer removes the end, then checks the count. A fence between the two steps on each side
//! ensures that at least one of the two sees the other.

use ascend_sync::{AtomicU32, Ordering, fence, spin_until};

/// The number of calls that are using memory of the peer over an end of a channel.
pub(super) struct Reaches(AtomicU32);

impl Reaches {
    pub(super) fn new() -> Reaches {
        Reaches(AtomicU32::new(0))
    }

    /// Counts one more call. The caller looks up the peer's end after this.
    #[inline]
    pub(super) fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        // Orders the count before the lookup of the end; pairs with the fence in `are_over`.
        fence(Ordering::SeqCst);
    }

    /// Counts one call less. The ordering is release, so that everything that the call has queued
    /// comes before this.
    #[inline]
    pub(super) fn end(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Returns whether no call is left that may have found the peer's end. The peer has removed its
    /// end before this.
    pub(super) fn are_over(&self) -> bool {
        // Orders the removal of the end before the check of the count; pairs with the fence in
        // `begin`.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Acquire) == 0
    }

    /// Spins until no call is left that may have found the peer's end. The peer has removed its end
    /// before this. These calls copy memory or queue tasks, and do not wait for other ranks.
    pub(super) fn wait(&self) {
        spin_until(|| self.are_over().then_some(()));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// A call uses the peer's memory while the peer leaves. Either the call fails, or the memory
    /// stays until the call has ended.
    #[test]
    fn loom_memory_stays_while_a_call_reaches_for_it() {
        loom::model(|| {
            let all = Arc::new((Reaches::new(), AtomicBool::new(true), UnsafeCell::new(7)));
            let leaver = {
                let all = Arc::clone(&all);
                thread::spawn(move || {
                    let (reaches, is_there, memory) = &*all;
                    is_there.store(false, Ordering::Release);
                    while !reaches.are_over() {
                        thread::yield_now();
                    }
                    // SAFETY: no call uses the memory, which loom checks.
                    memory.with_mut(|memory| unsafe { *memory = 0 });
                })
            };
            let (reaches, is_there, memory) = &*all;
            reaches.begin();
            if is_there.load(Ordering::Acquire) {
                // SAFETY: the memory stays until `end`, which loom checks.
                memory.with(|memory| assert_eq!(unsafe { *memory }, 7));
            }
            reaches.end();
            leaver.join().unwrap();
        });
    }
}
