//! The primary context of a device: how often it was set, and how the last reset ends it.
//!
//! A reset waits for the work of the context, and ends everything on the device. It holds no lock
//! meanwhile, because both may take long. Other threads may set the device in that time.
//!
//! 1. Every set begins a *round*. A reset that counts down to zero notes the round, waits, and
//!    takes the context only if the round is still the same. So a reset does not end objects of a
//!    later set. If several resets wait, the one of the latest round ends the device, because it
//!    has waited for the work of all.
//! 2. The thread that takes the context marks the device as *ending*, in the same step, until
//!    everything on it has ended. A set waits for that end, so that the objects that its thread
//!    makes do not end too.
//! 3. A thread that ends a device does not wait for an end, because it calls callbacks of the
//!    program, which may set a device. A thread on the default device (of `aclInit`) does not wait
//!    either, because an end may wait for that thread. When its context has ended, the thread gets
//!    another one.

use ascend_sync::lock_std as lock;
use std::cell::Cell;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest time that a set waits until the device has ended. An end takes longer only if a
/// callback of the program blocks it. That callback may itself wait for the thread that sets the
/// device, so the set gives up.
pub(crate) const LONGEST_END: Duration = Duration::from_secs(300);

/// The primary context of a device; see the [module](self).
#[derive(Debug, Default)]
pub(crate) struct PrimaryContext {
    state: Mutex<Primary>,
    has_ended: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct Primary {
    /// The handle of the context; 0 if there is none.
    pub(crate) context: u64,
    /// The number of resets that are due.
    count: u64,
    round: u64,
    /// The number of threads that end the device.
    ends: u32,
}

impl Primary {
    /// Counts a set, which one reset undoes.
    pub(crate) fn count_set(&mut self) {
        self.count += 1;
        self.round += 1;
    }

    fn clear(&mut self) {
        (self.context, self.count) = (0, 0);
        self.round += 1;
    }

    fn begin_end(&mut self) {
        self.clear();
        self.ends += 1;
    }
}

/// The next action of a reset.
pub(crate) enum Reset {
    /// More resets are due.
    Counted,
    /// The reset was the last one. It waits for the work of this context, and then calls
    /// [`end_of`](PrimaryContext::end_of) with this round.
    Last { context: u64, round: u64 },
    /// The reset ends the device at once.
    Ends(DeviceEnd),
}

impl PrimaryContext {
    /// Locks the context as it is, even while the device ends.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Primary> {
        lock(&self.state)
    }

    /// Locks the context when no thread ends the device (rules 2 and 3). Returns `None` after
    /// [`LONGEST_END`].
    pub(crate) fn lock_settled(&self) -> Option<MutexGuard<'_, Primary>> {
        let primary = self.lock();
        if primary.ends == 0 || ENDS_HERE.get() != 0 {
            return Some(primary);
        }
        self.await_end(primary)
    }

    #[cold]
    fn await_end<'a>(
        &'a self,
        mut primary: MutexGuard<'a, Primary>,
    ) -> Option<MutexGuard<'a, Primary>> {
        let began = Instant::now();
        while primary.ends != 0 {
            let left = LONGEST_END.saturating_sub(began.elapsed());
            if left.is_zero() {
                return None;
            }
            let waited = self.has_ended.wait_timeout(primary, left);
            primary = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(primary)
    }

    /// Counts a reset of `device`, or, with `force`, all that are due. Returns `None` if none is
    /// due.
    pub(crate) fn count_reset(&'static self, device: u32, force: bool) -> Option<Reset> {
        let mut primary = self.lock();
        if primary.count == 0 {
            return None;
        }
        if force {
            primary.begin_end();
            return Some(Reset::Ends(DeviceEnd::begun(device..device + 1, vec![self])));
        }
        primary.count -= 1;
        let Primary { context, count, round, .. } = *primary;
        Some(if count == 0 { Reset::Last { context, round } } else { Reset::Counted })
    }

    /// Returns whether the context is still in this round.
    pub(crate) fn is_in(&self, round: u64) -> bool {
        self.lock().round == round
    }

    /// Returns the end of `device`, unless the device was set again, or has ended, since this
    /// round.
    pub(crate) fn end_of(&'static self, device: u32, round: u64) -> Option<DeviceEnd> {
        let mut primary = self.lock();
        if primary.round != round {
            return None;
        }
        primary.begin_end();
        Some(DeviceEnd::begun(device..device + 1, vec![self]))
    }
}

thread_local! {
    /// The number of ends that the calling thread is in.
    static ENDS_HERE: Cell<u32> = const { Cell::new(0) };
}

/// An end of some devices by the calling thread. The end lasts until this value is dropped.
#[derive(Debug)]
pub(crate) struct DeviceEnd {
    devices: Range<u32>,
    /// The contexts of these devices.
    contexts: Vec<&'static PrimaryContext>,
}

impl DeviceEnd {
    /// Begins the end of a block that was withdrawn, with the contexts of its devices.
    pub(crate) fn of(devices: Range<u32>, contexts: Vec<&'static PrimaryContext>) -> DeviceEnd {
        contexts.iter().for_each(|context| context.lock().begin_end());
        DeviceEnd::begun(devices, contexts)
    }

    fn begun(devices: Range<u32>, contexts: Vec<&'static PrimaryContext>) -> DeviceEnd {
        ENDS_HERE.set(ENDS_HERE.get() + 1);
        DeviceEnd { devices, contexts }
    }

    pub(crate) fn devices(&self) -> &Range<u32> {
        &self.devices
    }

    /// Clears contexts that callbacks have made during the end.
    pub(crate) fn forget_contexts(&self) {
        self.contexts.iter().for_each(|context| context.lock().clear());
    }
}

impl Drop for DeviceEnd {
    fn drop(&mut self) {
        ENDS_HERE.set(ENDS_HERE.get() - 1);
        for context in &self.contexts {
            context.lock().ends -= 1;
            context.has_ended.notify_all();
        }
    }
}
