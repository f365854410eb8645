//! A call that reaches for memory of the peer: until its task is in the queue, the peer does not
//! take the memory away.
//!
//! A queued task keeps the memory that it names: memory that is freed later waits for the task. But
//! between the lookup of an address and the queue, only the call knows the address. So an end of a
//! channel counts these calls. The peer first takes its end away, then [waits](Reaches::wait) until
//! no call is left that may have found it; only then its memory goes.
//!
//! The count and the peer's end are two places. A call counts itself, then looks for the end. The
//! peer takes the end away, then looks at the count. A fence between the two steps on each side
//! makes sure that at least one of them sees the other.

use super::channel::Channel;
use crate::later;
use crate::message::Failure;
use ascend_sync::{AtomicU32, Ordering, fence, spin_until};
use std::ops::Deref;

/// The number of calls that reach over an end of a channel.
pub(super) struct Reaches(AtomicU32);

impl Reaches {
    pub(super) fn new() -> Reaches {
        Reaches(AtomicU32::new(0))
    }

    /// Counts one more call. The caller looks for the peer's end after this.
    #[inline]
    fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        // Orders the count before the look for the end; pairs with the fence in `are_over`.
        fence(Ordering::SeqCst);
    }

    /// Release: everything that the call has queued comes before this.
    #[inline]
    fn end(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Whether no call is left that has found the peer's end, which is away by now.
    pub(super) fn are_over(&self) -> bool {
        // Orders the look at the count after the end went; pairs with the fence in `begin`.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Acquire) == 0
    }

    /// Waits for the calls that may have found the peer's end, which is away by now. These calls
    /// wait only for room in a queue.
    pub(super) fn wait(&self) {
        spin_until(|| self.are_over().then_some(()));
    }
}

/// An end of a channel that a call reaches over. If the call finds the peer's end after making
/// this, the end's memory stays until the drop.
pub(crate) struct Reach(&'static Channel);

impl Channel {
    /// Begins to reach over the end.
    #[inline]
    pub(crate) fn reach(&'static self) -> Reach {
        self.reaches.begin();
        Reach(self)
    }
}

impl Reach {
    /// Begins anew, for a primitive that was kept and crosses this channel. Returns an error if an
    /// end is gone: memory that the peer has freed may belong to another allocation.
    pub(super) fn again(over: Option<u64>) -> Result<Option<Reach>, Failure> {
        let Some(channel) = over else { return Ok(None) };
        let reach = Channel::named(channel)?.reach();
        reach.check_peer()?;
        Ok(Some(reach))
    }
}

impl Deref for Reach {
    type Target = &'static Channel;

    #[inline]
    fn deref(&self) -> &&'static Channel {
        &self.0
    }
}

impl Drop for Reach {
    #[inline]
    fn drop(&mut self) {
        self.0.reaches.end();
        later::look();
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// A call reaches for the peer's memory while the peer leaves: the call is refused, or the
    /// memory stays until the call is through.
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
                    // SAFETY: no call reaches for it, which loom checks.
                    memory.with_mut(|memory| unsafe { *memory = 0 });
                })
            };
            let (reaches, is_there, memory) = &*all;
            reaches.begin();
            if is_there.load(Ordering::Acquire) {
                // SAFETY: it stays until the end, which loom checks.
                memory.with(|memory| assert_eq!(unsafe { *memory }, 7));
            }
            reaches.end();
            leaver.join().unwrap();
        });
    }
}
