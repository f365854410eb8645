//! The issue order: the communication operations of a device are issued one at a time, whatever
//! communicator and thread they come from.
//!
//! CANN demands this order, and a mutex would do if every call were short. But the first operation
//! of a communicator waits *inside the call* until its peers have made theirs. Suppose two
//! communicators X and Y over the same two devices, each used by a thread of its own. On one device
//! X comes first and waits for the peer's X. On the other device that X stands in line behind Y,
//! which waits for the peer's Y, which stands in line behind the first X. No order of the lines is
//! wrong, and nobody moves until CANN's connection time-out.
//!
//! An operation does not hold the order against others for ever: one that has stood in line for
//! [`PATIENCE`] goes ahead beside the call that is under way. Only a call that waits for its peers
//! takes that long, and standing behind it any longer can only be a deadlock or lost time. CANN's
//! own libraries keep such calls apart by locks per communicator. Two operations on one *stream*
//! still keep their order, since the stream has its own lock; there, different orders on different
//! devices are a mistake in the program that ends with the connection time-out.
//!
//! # How
//!
//! Every operation holds the issue lock of its stream anyway. One stream of the device *owns* the
//! issue order: the one that issued for a communicator last. Its issue lock is the lock of the
//! order, so an operation on that stream pays one load. Another stream first becomes the owner. To
//! do so, it holds the line, so that one stream does it at a time, and the issue lock of the owner,
//! so that nothing is under way there. A holder of that lock sees what was written under it, so no
//! stream takes itself for the owner when it no longer is. A stream that goes gives the order back:
//! its slot may go to a stream of another device, behind whose calls nothing here must stand in
//! line.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, name};
use ascend_sync::{Biased, Guard, SpinLock, spin_until};

/// The time for which an operation stands in line behind another one of its device.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// An owner of an issue lock: a slot.
pub(crate) trait Issuer {
    type Issuing;
    fn issue_lock(&self) -> &Biased<Self::Issuing>;
}

/// The issue order of one device.
pub(crate) struct IssueOrder<L: 'static> {
    /// The name of the slot that owns the order. Written with its issue lock held, and with the
    /// next owner's.
    owner: AtomicU64,
    /// The same slot.
    line: SpinLock<Option<&'static L>>,
}

impl<L: Issuer> IssueOrder<L> {
    pub(crate) fn new() -> Self {
        IssueOrder { owner: AtomicU64::new(0), line: SpinLock::new(None) }
    }

    /// Makes `slot`, whose issue lock the caller holds, the owner: until it gives the order back,
    /// unless another loses patience.
    #[inline]
    pub(crate) fn take(&self, slot: &'static L) {
        if !self.is_of(slot) {
            self.take_over(slot);
        }
    }

    /// Whether `slot`, whose issue lock the caller holds, is the owner.
    #[inline]
    pub(crate) fn is_of(&self, slot: &'static L) -> bool {
        self.owner.load(Relaxed) == name(slot)
    }

    /// The stream of `slot` is gone, and the slot about to be another's. Never blocks.
    pub(crate) fn give_back(&self, slot: &'static L) {
        // A holder of the line while this slot is the owner is about to take over, since nobody
        // holds the slot's lock.
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

/// Takes a lock, or gives up after [`PATIENCE`].
fn patiently<'a, T>(attempt: impl Fn() -> Option<Guard<'a, T>>) -> Option<Guard<'a, T>> {
    attempt().or_else(|| stand_in_line(attempt))
}

#[cold]
fn stand_in_line<'a, T>(attempt: impl Fn() -> Option<Guard<'a, T>>) -> Option<Guard<'a, T>> {
    let since = Instant::now();
    // A call that does not wait for peers takes a microsecond or a few.
    spin_until(|| match attempt() {
        // A model has no time, and under Miri it passes too fast.
        None if since.elapsed() <= PATIENCE || cfg!(any(loom, miri)) => None,
        ended => Some(ended),
    })
}

#[cfg(test)]
struct TestIssuer(Biased<()>);

#[cfg(test)]
impl TestIssuer {
    fn leaked() -> &'static Self {
        // Keeps the slots reachable: Miri reports memory that nothing leads to.
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
        // Miri is slow, and checks every access.
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
            // Loom reports two threads that are inside, and a thread that need not see what the
            // other has done there.
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
