//! Notifies: one latched bit of a device. A stream sets it, another waits for it and clears it.

use crate::check;
use crate::machine::{self, Device};
use crate::message::{Failure, fail};
use crate::slots::{HandleKind, Slots, Slotted, unknown};
use crate::step::{Helpers, Need, Step};
use crate::stream::{Stream, Task};
use crate::task::{Effects, Passed, TaskBody};
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_NO_NOTIFY_RESOURCE, ACL_ERROR_RT_STREAM_CONTEXT,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

static NOTIFIES: Slots<Notify> = Slots::new();

/// In the state word: the bit is set.
const SET: u32 = 1;
/// In the state word: a stream is to be woken when the bit is set.
const AWAITED: u32 = 2;

pub(crate) struct Notify {
    index: u32,
    device: AtomicU32,
    state: AtomicU32,
    sleepers: Mutex<Vec<&'static Stream>>,
}

impl Slotted for Notify {
    const KIND: HandleKind = HandleKind::Notify;

    fn new(index: u32) -> Notify {
        Notify {
            index,
            device: AtomicU32::new(0),
            state: AtomicU32::new(0),
            sleepers: Mutex::new(Vec::new()),
        }
    }
}

impl Notify {
    pub(crate) fn create(device: &'static Device) -> Result<u64, Failure> {
        let most = device.product().max_notifies();
        let used =
            NOTIFIES.live().filter(|n| n.device.load(Ordering::Relaxed) == device.id).count();
        let taken = (used < most).then(|| {
            NOTIFIES.take(|notify, _| {
                notify.device.store(device.id, Ordering::Relaxed);
                notify.state.store(0, Ordering::Relaxed);
            })
        });
        match taken.flatten() {
            Some((_, handle)) => Ok(handle),
            None => fail!(
                ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
                "device {} has {used} of {most} notifies in use",
                machine::named(device.id)
            ),
        }
    }

    pub(crate) fn named(handle: u64) -> Result<&'static Notify, Failure> {
        NOTIFIES.get(handle).ok_or_else(|| unknown(HandleKind::Notify, handle))
    }

    /// Streams that still wait for it fail.
    pub(crate) fn destroy(handle: u64) -> Result<(), Failure> {
        let notify = Notify::named(handle)?;
        if !NOTIFIES.retire(handle) {
            return Err(unknown(HandleKind::Notify, handle));
        }
        notify.wake();
        NOTIFIES.recycle(notify.index);
        Ok(())
    }

    /// Ends the notifies of devices that go.
    pub(crate) fn destroy_all(devices: &std::ops::Range<u32>) {
        for (notify, handle) in NOTIFIES.live_handles() {
            if devices.contains(&notify.device.load(Ordering::Relaxed)) {
                // Of two who destroy it at once, one is late.
                let _ = Notify::destroy(handle);
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.index
    }

    /// Clears the bit, in no stream.
    pub(crate) fn clear(&self, handle: u64) {
        check::notify_cleared(self.device.load(Ordering::Relaxed), handle);
        self.state.fetch_and(!SET, Ordering::AcqRel);
    }

    fn wake(&self) {
        let sleepers = std::mem::take(&mut *lock(&self.sleepers));
        sleepers.into_iter().for_each(Stream::wake);
    }
}

/// The handle of the notify with a number.
pub(crate) fn handle_of(id: u64) -> Result<u64, Failure> {
    let mut live = NOTIFIES.live_handles();
    match live.find(|(notify, _)| u64::from(notify.index) == id) {
        Some((_, handle)) => Ok(handle),
        None => fail!(ACL_ERROR_RT_INVALID_HANDLE, "there is no notify with the number {id}"),
    }
}

/// The task that sets the bit in stream order.
pub(crate) fn record(handle: u64) -> Result<RecordNotify, Failure> {
    Ok(RecordNotify { notify: Notify::named(handle)?, handle })
}

/// The task that makes later work of the stream wait for the bit, which is cleared then. A notify is waited for on its own
/// device.
pub(crate) fn wait(
    handle: u64,
    stream: &Stream,
    limit: Option<Duration>,
) -> Result<WaitNotify, Failure> {
    let notify = Notify::named(handle)?;
    let device = notify.device.load(Ordering::Relaxed);
    if device != stream.device_id() {
        return fail!(
            ACL_ERROR_RT_STREAM_CONTEXT,
            "the notify belongs to device {device}, {} does not",
            stream.describe(),
            device = machine::named(device)
        );
    }
    Ok(WaitNotify { notify, handle, limit })
}

#[derive(Clone)]
pub(crate) struct RecordNotify {
    notify: &'static Notify,
    handle: u64,
}

impl TaskBody<Stream> for RecordNotify {
    fn poll(&mut self, _: &'static Stream) -> Step {
        if NOTIFIES.get(self.handle).is_none() {
            return gone();
        }
        // One step sets the bit and asks who sleeps.
        if self.notify.state.swap(SET, Ordering::AcqRel) & AWAITED != 0 {
            self.notify.wake();
        }
        Step::Done(Ok(()))
    }

    fn provides(&self, need: &Need) -> bool {
        matches!(need, Need::Signal(number) if *number == self.handle)
    }

    fn again(&self) -> Option<Task> {
        Some(Task::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "record of a notify"
    }

    fn effects(&self) -> Effects {
        Effects::Sets(self.handle, format!("notify {}", self.notify.index))
    }

    fn describe(&self) -> String {
        "record of a notify".into()
    }
}

fn gone() -> Step {
    Step::Done(fail!(
        ACL_ERROR_RT_INVALID_HANDLE,
        "the notify was destroyed before the stream came to it"
    ))
}

#[derive(Clone)]
pub(crate) struct WaitNotify {
    notify: &'static Notify,
    handle: u64,
    limit: Option<Duration>,
}

impl TaskBody<Stream> for WaitNotify {
    fn poll(&mut self, _: &'static Stream) -> Step {
        if NOTIFIES.get(self.handle).is_none() {
            return gone();
        }
        let state = &self.notify.state;
        if state.load(Ordering::Acquire) & SET != 0
            && state.fetch_and(!SET, Ordering::AcqRel) & SET != 0
        {
            Step::Done(Ok(()))
        } else {
            Step::Park
        }
    }

    fn arm(&mut self, stream: &'static Stream) -> bool {
        {
            let mut sleepers = lock(&self.notify.sleepers);
            if !sleepers.iter().any(|sleeper| std::ptr::eq(*sleeper, stream)) {
                sleepers.push(stream);
            }
        }
        self.notify.state.fetch_or(AWAITED, Ordering::AcqRel) & SET != 0
    }

    fn passed(&self, how: &Result<(), Failure>) -> Option<Passed<Stream>> {
        let (number, name) = (self.handle, format!("notify {}", self.notify.index));
        how.is_ok().then_some(Passed::Signal { number, name, call: "aclrtWaitAndResetNotify" })
    }

    fn helpers(&self) -> Helpers {
        Helpers::Queued(vec![Need::Signal(self.handle)])
    }

    fn describe(&self) -> String {
        format!("wait for notify {}", self.notify.index)
    }

    fn limit(&self) -> Option<Duration> {
        self.limit
    }

    fn again(&self) -> Option<Task> {
        Some(Task::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "wait for a notify"
    }
}
