//! Notifies. Each is one latched bit of a device. A stream sets the bit, and another stream waits
//! for the bit and clears it.

use crate::check;
use crate::ipc::exports::{ExportedThing, end, export};
use crate::ipc::key::ExportKey;
use crate::ipc::shared_notify::SharedNotify;
use crate::latched_bit::LatchedBit;
use crate::machine::{self, Device};
use crate::message::{Failure, fail};
use crate::processes::peer::Home;
use crate::slots::{HandleKind, Slots, Slotted, unknown};
use crate::step::{Helpers, Need, Step};
use crate::stream::{Stream, Task};
use crate::task::{Effects, Passed, TaskBody};
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
    ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, ACL_ERROR_RT_STREAM_CONTEXT,
};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

static NOTIFIES: Slots<Notify> = Slots::new();

pub(crate) struct Notify {
    index: u32,
    device: AtomicU32,
    bit: LatchedBit,
    /// The connection of the notify to other processes, if it has one.
    shared: Mutex<Option<NotifyLink>>,
    /// Whether `shared` has a connection. If not, no thread takes its lock.
    is_shared: AtomicBool,
}

/// The connection of a notify to other processes. This process has either exported the notify or
/// imported it.
struct NotifyLink {
    shared: Arc<SharedNotify>,
    /// The key, if this process has exported the notify.
    key: Option<ExportKey>,
}

impl Slotted for Notify {
    const KIND: HandleKind = HandleKind::Notify;

    fn new(index: u32) -> Notify {
        Notify {
            index,
            device: AtomicU32::new(0),
            bit: LatchedBit::default(),
            shared: Mutex::new(None),
            is_shared: AtomicBool::new(false),
        }
    }
}

impl Notify {
    pub(crate) fn create(device: &'static Device) -> Result<u64, Failure> {
        let most = device.product().max_notifies();
        let used =
            NOTIFIES.live().filter(|n| n.device.load(Ordering::Relaxed) == device.id).count();
        let taken = if used < most { Notify::take(device.id, None) } else { None };
        match taken {
            Some(handle) => Ok(handle),
            None => fail!(
                ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
                "device {} has {used} of {most} notifies in use; destroy one with \
                 aclrtDestroyNotify",
                machine::named(device.id)
            ),
        }
    }

    fn take(device: u32, link: Option<NotifyLink>) -> Option<u64> {
        let taken = NOTIFIES.take(|notify, _| {
            notify.device.store(device, Ordering::Relaxed);
            notify.bit.renew();
            notify.is_shared.store(link.is_some(), Ordering::Relaxed);
            *lock(&notify.shared) = link;
        });
        taken.map(|(_, handle)| handle)
    }

    /// Makes a notify that stands for a notify of another process, on a device of the calling
    /// thread.
    pub(crate) fn import(device: &Device, shared: Arc<SharedNotify>) -> Result<u64, Failure> {
        match Notify::take(device.id, Some(NotifyLink { shared, key: None })) {
            Some(handle) => Ok(handle),
            None => fail!(
                ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
                "every notify of the process is in use; destroy one with aclrtDestroyNotify"
            ),
        }
    }

    /// Returns the key by which other processes import the notify. Exports the notify first if it
    /// is not exported. If `permitted` is true, only permitted processes may import it.
    pub(crate) fn export(&self, home: Home, permitted: bool) -> Result<ExportKey, Failure> {
        let mut link = lock(&self.shared);
        if let Some(NotifyLink { shared, key }) = &*link {
            return match key {
                Some(key) => Ok(*key),
                None => Err(not_here("exported", shared)),
            };
        }
        let shared = SharedNotify::new().map_err(|e| {
            let text = format!(
                "cannot make shared memory: {e}; raise the process's limits on files and memory"
            );
            Failure::new(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, text)
        })?;
        let key = export(home, ExportedThing::Notify(Arc::clone(&shared)), permitted);
        *link = Some(NotifyLink { shared, key: Some(key) });
        self.is_shared.store(true, Ordering::Release);
        drop(link);
        // Streams that already wait must now check the records of other processes, too.
        self.bit.wake();
        Ok(key)
    }

    /// Returns the number of the notify's export.
    pub(crate) fn export_number(&self) -> Result<u64, Failure> {
        match &*lock(&self.shared) {
            Some(NotifyLink { key: Some(key), .. }) => Ok(key.number),
            Some(NotifyLink { shared, key: None }) => Err(not_here("permitted", shared)),
            None => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the notify is not exported; export it with aclrtNotifyGetExportKey"
            ),
        }
    }

    /// Returns the part of the notify that other processes share, if there is one.
    fn shared(&self) -> Option<Arc<SharedNotify>> {
        if !self.is_shared.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.shared).as_ref().map(|link| Arc::clone(&link.shared))
    }

    /// Returns the shared part of a notify that another process has created; `None` for any other
    /// notify.
    fn imported(&self) -> Option<Arc<SharedNotify>> {
        self.shared().filter(|shared| shared.creator().is_some())
    }

    pub(crate) fn named(handle: u64) -> Result<&'static Notify, Failure> {
        NOTIFIES.get(handle).ok_or_else(|| unknown(HandleKind::Notify, handle))
    }

    /// Destroys a notify. Streams that still wait for it fail.
    pub(crate) fn destroy(handle: u64) -> Result<(), Failure> {
        let notify = Notify::named(handle)?;
        if !NOTIFIES.retire(handle) {
            return Err(unknown(HandleKind::Notify, handle));
        }
        if let Some(NotifyLink { shared, key: Some(key) }) = lock(&notify.shared).take() {
            shared.close();
            end(key.number);
        }
        notify.bit.wake();
        NOTIFIES.recycle(notify.index);
        Ok(())
    }

    /// Ends the notifies of devices that end.
    pub(crate) fn destroy_all(devices: &std::ops::Range<u32>) {
        for (notify, handle) in NOTIFIES.live_handles() {
            if devices.contains(&notify.device.load(Ordering::Relaxed)) {
                // If two threads destroy it at once, one of them gets an error.
                let _ = Notify::destroy(handle);
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.index
    }

    /// Clears the bit, outside of any stream. Only the process that has created the notify can do
    /// this.
    pub(crate) fn clear(&self, handle: u64) -> Result<(), Failure> {
        let shared = self.shared();
        if let Some(shared) = &shared
            && shared.creator().is_some()
        {
            return Err(not_here("cleared", shared));
        }
        check::notify_cleared(self.device.load(Ordering::Relaxed), handle);
        self.bit.clear();
        if let Some(shared) = shared {
            shared.take();
        }
        Ok(())
    }
}

/// Returns the error for an action that only the process that created a notify can take.
fn not_here(what: &str, shared: &SharedNotify) -> Failure {
    let text = format!(
        "the notify belongs to process {0} and is {what} there; it can only be recorded here, so \
         make this call in process {0}",
        shared.creator().unwrap_or_default()
    );
    Failure::new(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, text)
}

/// Returns the handle of the notify with a number.
pub(crate) fn handle_of(id: u64) -> Result<u64, Failure> {
    let mut live = NOTIFIES.live_handles();
    match live.find(|(notify, _)| u64::from(notify.index) == id) {
        Some((_, handle)) => Ok(handle),
        None => fail!(
            ACL_ERROR_RT_INVALID_HANDLE,
            "there is no notify with the number {id}; pass a number of aclrtGetNotifyId"
        ),
    }
}

/// Makes the task that sets the bit in stream order.
pub(crate) fn record(handle: u64) -> Result<RecordNotify, Failure> {
    Ok(RecordNotify { notify: Notify::named(handle)?, handle })
}

/// Makes the task by which later work of the stream waits for the bit, and which then clears the
/// bit. The stream must belong to the device of the notify.
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
            "the notify belongs to device {device}, but {} does not; use a stream of device \
             {device}",
            stream.describe(),
            device = machine::named(device)
        );
    }
    if let Some(shared) = notify.imported() {
        return Err(not_here("waited for", &shared));
    }
    Ok(WaitNotify { notify, handle, limit, by_other: false })
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
        if let Some(shared) = self.notify.imported() {
            return Step::Done(shared.record());
        }
        self.notify.bit.set();
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
        if self.notify.imported().is_some() {
            return Effects::Tells;
        }
        Effects::Sets(self.handle, format!("notify {}", self.notify.index))
    }

    fn describe(&self) -> String {
        "record of a notify".into()
    }
}

fn gone() -> Step {
    Step::Done(fail!(
        ACL_ERROR_RT_INVALID_HANDLE,
        "the notify was destroyed before the stream came to it; destroy it after the tasks that \
         use it"
    ))
}

#[derive(Clone)]
pub(crate) struct WaitNotify {
    notify: &'static Notify,
    handle: u64,
    limit: Option<Duration>,
    /// Whether another process has recorded the notify.
    by_other: bool,
}

impl TaskBody<Stream> for WaitNotify {
    fn poll(&mut self, _: &'static Stream) -> Step {
        if NOTIFIES.get(self.handle).is_none() {
            return gone();
        }
        let bit = &self.notify.bit;
        if let Some(shared) = self.notify.shared() {
            let (there, here) = (shared.take(), bit.clear());
            self.by_other = !here;
            return if there || here { Step::Done(Ok(())) } else { Step::Park };
        }
        if bit.is_set() && bit.clear() { Step::Done(Ok(())) } else { Step::Park }
    }

    fn arm(&mut self, stream: &'static Stream) -> bool {
        let here = self.notify.bit.arm(stream);
        match self.notify.shared() {
            Some(shared) => {
                shared.add_waiter(stream);
                here || shared.is_set()
            }
            None => here,
        }
    }

    fn passed(&self, how: &Result<(), Failure>) -> Option<Passed<Stream>> {
        let (number, name) = (self.handle, format!("notify {}", self.notify.index));
        how.is_ok().then_some(match self.by_other {
            true => Passed::Told,
            false => Passed::Signal { number, name, call: "aclrtWaitAndResetNotify" },
        })
    }

    fn helpers(&self) -> Helpers {
        if self.notify.shared().is_some() {
            return Helpers::Anybody;
        }
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
