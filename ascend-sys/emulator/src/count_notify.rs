//! Counting notifies. Each has a number and belongs to a device. Streams change the number, and a
//! stream can wait until a comparison of the number with a value is true.
//!
//! The state word has the number in its low half, and [`AWAITED`] above it. A waiter registers its
//! stream, then sets AWAITED and reads the number in one step. A change writes the number and
//! clears AWAITED in one step, then wakes the streams if AWAITED was set. So at least one of the
//! two sees the other.
//!
//! Checked mode orders a wait after all changes before it, as with a [word](crate::value), because
//! it cannot determine which of the changes ended the wait.

use crate::machine::{self, Device};
use crate::message::{Failure, fail};
use crate::sleeping_streams::SleepingStreams;
use crate::slots::{HandleKind, Slots, Slotted, unknown};
use crate::step::{Helpers, Need, Step};
use crate::stream::{Stream, Task};
use crate::task::{Effects, Passed, TaskBody};
use ascend_sys::{
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
    ACL_ERROR_RT_STREAM_CONTEXT,
};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

static COUNT_NOTIFIES: Slots<CountNotify> = Slots::new();

/// The bit of the state word that is set while streams must be woken when the number changes.
const AWAITED: u64 = 1 << 32;

pub(crate) struct CountNotify {
    index: u32,
    device: AtomicU32,
    state: AtomicU64,
    sleepers: SleepingStreams,
}

impl Slotted for CountNotify {
    const KIND: HandleKind = HandleKind::CountNotify;

    fn new(index: u32) -> CountNotify {
        CountNotify {
            index,
            device: AtomicU32::new(0),
            state: AtomicU64::new(0),
            sleepers: SleepingStreams::default(),
        }
    }
}

impl CountNotify {
    /// Makes a counting notify, whose number is 0.
    pub(crate) fn create(device: &Device) -> Result<u64, Failure> {
        if !device.product().has_count_notifies() {
            return fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "device {} has no counting notifies; only Ascend 950 has them, so use \
                 aclrtCreateNotify here",
                machine::named(device.id)
            );
        }
        let taken = COUNT_NOTIFIES.take(|notify, _| {
            notify.device.store(device.id, Ordering::Relaxed);
            notify.state.store(0, Ordering::Relaxed);
        });
        match taken {
            Some((_, handle)) => Ok(handle),
            None => fail!(
                ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
                "every counting notify of the process is in use; destroy one with \
                 aclrtCntNotifyDestroy"
            ),
        }
    }

    pub(crate) fn named(handle: u64) -> Result<&'static CountNotify, Failure> {
        COUNT_NOTIFIES.get(handle).ok_or_else(|| unknown(HandleKind::CountNotify, handle))
    }

    /// Destroys a counting notify. Streams that still wait for it fail.
    pub(crate) fn destroy(handle: u64) -> Result<(), Failure> {
        let notify = CountNotify::named(handle)?;
        if !COUNT_NOTIFIES.retire(handle) {
            return Err(unknown(HandleKind::CountNotify, handle));
        }
        notify.sleepers.wake();
        COUNT_NOTIFIES.recycle(notify.index);
        Ok(())
    }

    /// Destroys the counting notifies of devices that end.
    pub(crate) fn destroy_all(devices: &Range<u32>) {
        for (notify, handle) in COUNT_NOTIFIES.live_handles() {
            if devices.contains(&notify.device.load(Ordering::Relaxed)) {
                // If two threads destroy it at once, one of them gets an error.
                let _ = CountNotify::destroy(handle);
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.index
    }

    /// Replaces the number by the result of `to` for it. Returns false, and leaves the number, if
    /// `to` returns `None`.
    fn change(&self, to: impl Fn(u32) -> Option<u32>) -> bool {
        // Release: a wait that reads the number sees the effects of the earlier tasks. Acquire: the
        // change that a wait makes comes after those tasks.
        let next = |state: u64| to(state as u32).map(u64::from);
        match self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) {
            Ok(before) => {
                if before & AWAITED != 0 {
                    self.sleepers.wake();
                }
                true
            }
            Err(_) => false,
        }
    }
}

/// The change that a task makes to the number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CountChange {
    Set(u32),
    /// Adds the value; the sum wraps around to 0.
    Add(u32),
    Or(u32),
    And(u32),
}

impl CountChange {
    fn of(self, count: u32) -> u32 {
        match self {
            CountChange::Set(value) => value,
            CountChange::Add(value) => count.wrapping_add(value),
            CountChange::Or(value) => count | value,
            CountChange::And(value) => count & value,
        }
    }
}

/// The comparison of the number with a value that a stream waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountCondition {
    Less,
    Equal,
    Bigger,
    BiggerOrEqual,
    /// The number has all bits of the value.
    HasBits,
}

impl CountCondition {
    fn holds(self, count: u32, value: u32) -> bool {
        match self {
            CountCondition::Less => count < value,
            CountCondition::Equal => count == value,
            CountCondition::Bigger => count > value,
            CountCondition::BiggerOrEqual => count >= value,
            CountCondition::HasBits => count & value == value,
        }
    }
}

/// Makes the task that changes the number in stream order.
pub(crate) fn change(handle: u64, change: CountChange) -> Result<ChangeCount, Failure> {
    Ok(ChangeCount { notify: CountNotify::named(handle)?, handle, change })
}

/// The comparison for which a stream waits, with its value.
#[derive(Clone, Copy)]
pub(crate) struct AwaitedCount {
    pub(crate) condition: CountCondition,
    pub(crate) value: u32,
    /// Whether the wait sets the number to 0 when it ends.
    pub(crate) clears: bool,
}

/// Makes the task by which later work of the stream waits for a number. As with a notify, the
/// stream must belong to the device of the counting notify.
pub(crate) fn wait(
    handle: u64,
    stream: &Stream,
    awaited: AwaitedCount,
    limit: Option<Duration>,
) -> Result<WaitForCount, Failure> {
    let notify = CountNotify::named(handle)?;
    let device = notify.device.load(Ordering::Relaxed);
    if device != stream.device_id() {
        return fail!(
            ACL_ERROR_RT_STREAM_CONTEXT,
            "the counting notify belongs to device {device}, but {} does not; use a stream of \
             device {device}",
            stream.describe(),
            device = machine::named(device)
        );
    }
    Ok(WaitForCount { notify, handle, awaited, limit })
}

fn gone() -> Step {
    Step::Done(fail!(
        ACL_ERROR_RT_INVALID_HANDLE,
        "the counting notify was destroyed before the stream came to it; destroy it after the \
         tasks that use it"
    ))
}

#[derive(Clone)]
pub(crate) struct ChangeCount {
    notify: &'static CountNotify,
    handle: u64,
    change: CountChange,
}

impl TaskBody<Stream> for ChangeCount {
    fn poll(&mut self, _: &'static Stream) -> Step {
        if COUNT_NOTIFIES.get(self.handle).is_none() {
            return gone();
        }
        self.notify.change(|count| Some(self.change.of(count)));
        Step::Done(Ok(()))
    }

    fn provides(&self, need: &Need) -> bool {
        matches!(need, Need::Signal(number) if *number == self.handle)
    }

    fn again(&self) -> Option<Task> {
        Some(Task::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "change of a counting notify"
    }

    fn effects(&self) -> Effects {
        Effects::Tells
    }

    fn describe(&self) -> String {
        format!("change of counting notify {} ({:?})", self.notify.index, self.change)
    }
}

#[derive(Clone)]
pub(crate) struct WaitForCount {
    notify: &'static CountNotify,
    handle: u64,
    awaited: AwaitedCount,
    limit: Option<Duration>,
}

impl WaitForCount {
    fn holds(&self, count: u32) -> bool {
        self.awaited.condition.holds(count, self.awaited.value)
    }
}

impl TaskBody<Stream> for WaitForCount {
    fn poll(&mut self, _: &'static Stream) -> Step {
        if COUNT_NOTIFIES.get(self.handle).is_none() {
            return gone();
        }
        let is_over = match self.awaited.clears {
            true => self.notify.change(|count| self.holds(count).then_some(0)),
            false => self.holds(self.notify.state.load(Ordering::Acquire) as u32),
        };
        if is_over { Step::Done(Ok(())) } else { Step::Park }
    }

    fn arm(&mut self, stream: &'static Stream) -> bool {
        self.notify.sleepers.add(stream);
        self.holds(self.notify.state.fetch_or(AWAITED, Ordering::AcqRel) as u32)
    }

    fn passed(&self, how: &Result<(), Failure>) -> Option<Passed<Stream>> {
        how.is_ok().then_some(Passed::Told)
    }

    fn helpers(&self) -> Helpers {
        Helpers::Queued(vec![Need::Signal(self.handle)])
    }

    /// Returns whether this wait can meet a need. It can if it sets the number to 0, because
    /// another wait may be for that 0.
    fn provides(&self, need: &Need) -> bool {
        self.awaited.clears && matches!(need, Need::Signal(number) if *number == self.handle)
    }

    fn limit(&self) -> Option<Duration> {
        self.limit
    }

    fn again(&self) -> Option<Task> {
        Some(Task::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "wait for a counting notify"
    }

    fn describe(&self) -> String {
        let (AwaitedCount { condition, value, .. }, notify) = (self.awaited, self.notify);
        let count = notify.state.load(Ordering::Relaxed) as u32;
        format!("wait for counting notify {} ({condition:?} {value}; it is {count})", notify.index)
    }
}
