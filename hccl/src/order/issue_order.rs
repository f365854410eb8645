//! The issue order: the communication operations of a device are issued one at a time, whatever
//! communicator and thread they come from.
//!
//! CANN requires this order. A mutex would be enough if every call were short. But the first
//! operation of a communicator waits *inside the call* until its peers have made their calls.
//! Suppose that two communicators X and Y span the same two devices, and that each of them has a
//! thread of its own. On device 0 the call of X comes first and waits for X on device 1. On device
//! 1 the call of Y comes first and waits for Y on device 0. The two other calls wait for the mutex
//! of their device. Neither order is wrong, but no call returns until CANN's connection time-out.
//!
//! So an operation does not wait for the order for ever. After [`PATIENCE`] it makes its call while
//! the other call is still running. Only a call that waits for its peers takes that long, and
//! waiting for it any longer would be a deadlock or lost time. CANN's own libraries separate these
//! calls by a lock for each communicator. Two operations on one *stream* still keep their order,
//! since the stream has its own lock. A program that issues them in different orders on different
//! devices is wrong, and it ends with the connection time-out.
//!
//! # How
//!
//! Every operation holds the issue lock of its stream anyway. One stream of the device *owns* the
//! issue order: the stream that last issued for a communicator. Its issue lock is the lock of the
//! order, so an operation on that stream pays one load.
//!
//! Another stream first becomes the owner, for which it takes two locks. It takes `line`, so that
//! only one stream becomes the owner at a time. It also takes the issue lock of the present owner,
//! so that no call is in progress there. The change of the owner is written under that issue lock.
//! So a stream that holds its own issue lock sees the change and does not mistake itself for the
//! owner.
//!
//! A stream that ends gives the order back, because its slot may go to a stream of another device.
//! Operations of this device must not wait for the calls of that stream.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, name};
use ascend_sync::{Biased, Guard, SpinLock, spin_until};

/// The longest time for which an operation waits for a lock that a call of another operation on its
/// device holds. A [helper](super::helper) keeps a job queued behind another one for this time.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// A type that has an issue lock: a stream slot.
pub(crate) trait Issuer {
    type Issuing;
    fn issue_lock(&self) -> &Biased<Self::Issuing>;
}

/// The issue order of one device.
pub(crate) struct IssueOrder<L: 'static> {
    /// The name of the slot that owns the order, or 0. A new owner writes it while it holds its own
    /// issue lock and that of the previous owner.
    owner: AtomicU64,
    /// The slot that owns the order. Its lock admits one change of the owner at a time.
    line: SpinLock<Option<&'static L>>,
}

impl<L: Issuer> IssueOrder<L> {
    pub(crate) fn new() -> Self {
        IssueOrder { owner: AtomicU64::new(0), line: SpinLock::new(None) }
    }

    /// Makes `slot` the owner. The caller holds the issue lock of the slot. Blocks for at most
    /// [`PATIENCE`] for each of the two locks that a new owner takes. If one of them is not free in
    /// that time, returns nevertheless, and the owner stays the same.
    #[inline]
    pub(crate) fn take(&self, slot: &'static L) {
        if !self.is_of(slot) {
            self.take_over(slot);
        }
    }

    /// Returns whether `slot`, whose issue lock the caller holds, is the owner.
    #[inline]
    pub(crate) fn is_of(&self, slot: &'static L) -> bool {
        self.owner.load(Relaxed) == name(slot)
    }

    /// Gives the order back if `slot` owns it. Called when the stream of the slot is gone, before
    /// another stream gets the slot. Never blocks.
    pub(crate) fn give_back(&self, slot: &'static L) {
        // If another thread holds `line`, it is about to become the owner, since nobody holds the
        // issue lock of `slot`. Then there is nothing to do.
        if self.is_of(slot)
            && let Some(mut line) = self.line.try_lock()
            && self.is_of(slot)
        {
            self.owner.store(0, Relaxed);
            *line = None;
        }
    }

    #[cold]
    fn take_over(&self, slot: &'static L) {
        let Some(mut line) = patiently(|| self.line.try_lock()) else { return };
        let held = match *line {
            Some(owner) => match patiently(|| owner.issue_lock().try_lock()) {
                Some(guard) => Some(guard),
                None => return,
            },
            None => None,
        };
        self.owner.store(name(slot), Relaxed);
        *line = Some(slot);
        drop(held);
        drop(line);
    }
}

/// Takes a lock. Returns `None` if it cannot be taken within [`PATIENCE`].
fn patiently<'a, T>(attempt: impl Fn() -> Option<Guard<'a, T>>) -> Option<Guard<'a, T>> {
    attempt().or_else(|| stand_in_line(attempt))
}

#[cold]
fn stand_in_line<'a, T>(attempt: impl Fn() -> Option<Guard<'a, T>>) -> Option<Guard<'a, T>> {
    let since = Instant::now();
    // Spins, because a call that does not wait for peers takes only a few microseconds.
    spin_until(|| match attempt() {
        // Loom has no clock, and under Miri time passes too fast, so the limit is off there.
        None if since.elapsed() <= PATIENCE || cfg!(any(loom, miri)) => None,
        ended => Some(ended),
    })
}

#[cfg(test)]
struct TestIssuer(Biased<()>);

#[cfg(test)]
impl TestIssuer {
    fn leaked() -> &'static Self {
        // Keeps the slots reachable, because Miri reports unreachable memory as leaked.
        static LEAKED: std::sync::Mutex<Vec<&TestIssuer>> = std::sync::Mutex::new(Vec::new());
        let issuer = Box::leak(Box::new(TestIssuer(Biased::new(()))));
        crate::sync::lock(&LEAKED).push(issuer);
        issuer
    }
}

#[cfg(test)]
impl Issuer for TestIssuer {
    type Issuing = ();
    fn issue_lock(&self) -> &Biased<()> {
        &self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn operations_are_issued_one_at_a_time() {
        // Fewer rounds are enough under Miri, which is slow and checks every access.
        let rounds = if cfg!(miri) { 20 } else { 1000 };
        let order = IssueOrder::new();
        let inside = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let issuer = TestIssuer::leaked();
                    for _ in 0..rounds {
                        let _issuing = issuer.0.lock();
                        order.take(issuer);
                        let only_one = inside.try_lock().expect("somebody else is issuing");
                        drop(only_one);
                    }
                });
            }
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "nobody loses patience there")]
    fn a_call_that_does_not_return_holds_up_nobody_for_ever() {
        let order = IssueOrder::new();
        let [stuck, other] = [(); 2].map(|()| TestIssuer::leaked());
        let _stuck = stuck.0.lock();
        order.take(stuck);
        let since = Instant::now();
        let _issuing = other.0.lock();
        order.take(other);
        assert!(since.elapsed() >= PATIENCE);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use ascend_sync::UnsafeCell;
    use loom::sync::Arc;

    #[test]
    fn loom_operations_are_issued_one_at_a_time() {
        loom::model(|| {
            let order = Arc::new(IssueOrder::new());
            // Loom reports an error if two threads are inside at the same time, or if the accesses
            // of two threads are not ordered.
            let inside = Arc::new(UnsafeCell::new(()));
            let [one, two] = [(); 2].map(|()| TestIssuer::leaked());
            let issue = |order: &IssueOrder<TestIssuer>,
                         inside: &UnsafeCell<()>,
                         issuer: &'static TestIssuer| {
                let _issuing = issuer.0.lock();
                order.take(issuer);
                inside.with_mut(|_| ());
            };
            let other = {
                let (order, inside) = (order.clone(), inside.clone());
                loom::thread::spawn(move || {
                    issue(&order, &inside, two);
                    issue(&order, &inside, two);
                })
            };
            issue(&order, &inside, one);
            issue(&order, &inside, one);
            other.join().unwrap();
        });
    }
}
