//! Issuing primitives, and the checks of their arguments.
//!
//! A call of a primitive returns as soon as the primitive is in the queue of its thread; it does
//! not block. The primitives of a thread run in order, and each transfer is complete before the
//! next primitive runs. So a record that is queued after a write is made after the write. Issuing a
//! primitive allocates nothing.

use super::batch_mode;
use super::channel::Channel;
use super::memory::local;
use super::primitive::Primitive;
use super::reach::Reach;
use super::reduce::{Reduce, SharedLock};
use super::signal::{Await, NotifyRef, Signal};
use super::submit::submit;
use super::task_cache;
use super::thread::Thread;
use crate::collective::validate::name_of;
use crate::fabric::is_any_joint;
use crate::leaf::Copy;
use crate::machine;
use crate::message::{Failure, refuse};
use crate::notify;
use crate::profile::EXEC_TIMEOUT;
use ascend_reduce::{DataType, ReduceOp};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// Puts a primitive into the queue of its thread, or keeps it until the end of the batch mode.
/// `over` is the channel that the primitive crosses.
#[inline]
pub(super) fn issue(
    thread: &'static Thread,
    call: &'static str,
    primitive: Primitive,
    over: Option<&Reach>,
) -> Result<(), Failure> {
    let over = over.map(|channel| channel.handle());
    if task_cache::is_open() {
        task_cache::note(thread.handle(), call, &primitive, over);
    }
    if batch_mode::is_open() {
        batch_mode::keep(thread.handle(), call, primitive, over);
        return Ok(());
    }
    if thread.is_batched() {
        return not_in_batch_mode(thread);
    }
    submit(thread, call, primitive)
}

#[cold]
fn not_in_batch_mode(thread: &Thread) -> Result<(), Failure> {
    refuse!(
        HCCL_E_UNAVAIL,
        "{} accepts primitives only in batch mode: on {} nothing that is issued outside of \
         HcommBatchModeStart and HcommBatchModeEnd would ever run; issue primitives between the \
         two",
        thread.describe(),
        thread.product()
    )
}

/// Returns the thread whose handle is an argument of a primitive.
#[inline]
pub(crate) fn thread_of(handle: u64) -> Result<&'static Thread, Failure> {
    if handle == 0 {
        return refuse!(HCCL_E_PTR, "the thread is 0; pass a handle of HcclThreadAcquire");
    }
    Thread::named(handle)
}

/// Returns the channel with this handle. It must belong to the rank of the thread.
#[inline]
pub(crate) fn channel_of(thread: &Thread, handle: u64) -> Result<&'static Channel, Failure> {
    if handle == 0 {
        return refuse!(HCCL_E_PTR, "the channel is 0; pass a handle of HcclChannelAcquire");
    }
    let channel = Channel::named(handle)?;
    let together = match (thread.side(), channel.side()) {
        (0, _) | (_, 0) => channel.device() == thread.device(),
        (thread, channel) => channel == thread,
    };
    if together {
        return Ok(channel);
    }
    refuse!(
        HCCL_E_PARA,
        "{} does not belong to the rank of {}; use a channel and a thread of one rank",
        channel.describe(),
        thread.describe()
    )
}

fn not_null(address: *const c_void, argument: &str) -> Result<(), Failure> {
    if address.is_null() {
        return refuse!(HCCL_E_PTR, "the argument {argument} is NULL; pass an address");
    }
    Ok(())
}

/// The element type and the operator of a transfer that reduces; `None` for a transfer that copies.
pub(crate) type MoveReduction = Option<(DataType, ReduceOp)>;

/// A transfer. `amount` is a number of bytes, or a number of elements if the transfer reduces.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    pub(crate) dst: *mut c_void,
    pub(crate) src: *const c_void,
    pub(crate) amount: u64,
    pub(crate) kind: MoveReduction,
}

impl Transfer {
    /// Returns the size in bytes; `None` if there is nothing to do.
    #[inline]
    pub(super) fn bytes(&self) -> Result<Option<usize>, Failure> {
        not_null(self.dst, "dst")?;
        not_null(self.src, "src")?;
        if self.amount == 0 {
            return Ok(None);
        }
        let size = self.kind.map_or(1, |(dtype, _)| dtype.size());
        match usize::try_from(self.amount).ok().and_then(|amount| amount.checked_mul(size)) {
            Some(bytes) => Ok(Some(bytes)),
            None => refuse!(
                HCCL_E_PARA,
                "the amount {} is larger than any memory; pass a smaller one",
                self.amount
            ),
        }
    }

    #[inline]
    pub(super) fn primitive(
        &self,
        thread: &Thread,
        over: Option<&Channel>,
        to: *mut u8,
        from: *mut u8,
        bytes: usize,
    ) -> Result<Primitive, Failure> {
        let Some(kind) = self.kind else { return Ok(Primitive::Copy(Copy::new(to, from, bytes))) };
        if !to.addr().is_multiple_of(kind.0.size()) {
            return refuse!(
                HCCL_E_PARA,
                "dst: {:p} is not aligned to the {} bytes of an element of type {}; pass an \
                 aligned address",
                self.dst,
                kind.0.size(),
                name_of(kind.0)
            );
        }
        let shared = thread.shared_lock(over, to);
        Ok(Primitive::Reduce(Reduce::new(to, from, bytes, kind, shared)))
    }
}

/// `HcommLocalCopyOnThread` and `HcommLocalReduceOnThread`: issues a copy or a reduction within the
/// memory that the thread's own device reaches.
#[inline]
pub(crate) fn local_transfer(
    call: &'static str,
    thread: u64,
    transfer: Transfer,
) -> Result<(), Failure> {
    let thread = thread_of(thread)?;
    let Some(bytes) = transfer.bytes()? else { return Ok(()) };
    if transfer.kind.is_none() && transfer.dst.cast_const() == transfer.src {
        return Ok(());
    }
    let to = local(thread.device(), "dst", transfer.dst, bytes)?;
    let from = local(thread.device(), "src", transfer.src, bytes)?;
    issue(thread, call, transfer.primitive(thread, None, to, from, bytes)?, None)
}

impl Thread {
    /// Returns the shared lock for a reduction of the thread into `to`, if it needs one. `over` is
    /// the channel that the reduction crosses, if any.
    #[inline]
    pub(super) fn shared_lock(
        &self,
        over: Option<&Channel>,
        to: *const u8,
    ) -> Option<Arc<SharedLock>> {
        if !is_any_joint() {
            return None;
        }
        let member = self.owner()?.member?;
        // An end between endpoints belongs to no rank of the thread's communicator.
        let over = over.filter(|channel| channel.side() != 0);
        let remote = over.and_then(|channel| channel.about(|about| about.remote));
        SharedLock::of(&member, remote, to)
    }
}

/// `HcommThreadNotifyRecordOnThread`: issues a record of a notify of a thread of the same rank.
#[inline]
pub(crate) fn record_thread(
    call: &'static str,
    thread: u64,
    of: u64,
    index: u32,
) -> Result<(), Failure> {
    let thread = thread_of(thread)?;
    let of = thread_of(of)?;
    if !thread.goes_with(of) {
        return refuse!(
            HCCL_E_PARA,
            "{} cannot record a notify of {}: they belong to different ranks; use a notify of a channel instead",
            thread.describe(),
            of.describe()
        );
    }
    let signal = Signal::of_thread(spot_of_thread(of, index)?);
    issue(thread, call, Primitive::Signal(signal), None)
}

/// `HcommThreadNotifyWaitOnThread`: issues a wait for a notify of the thread itself.
#[inline]
pub(crate) fn wait_thread(
    call: &'static str,
    thread: u64,
    index: u32,
    limit: Limit,
) -> Result<(), Failure> {
    let thread = thread_of(thread)?;
    let spot = spot_of_thread(thread, index)?;
    issue(thread, call, Primitive::Await(Await::new(spot, limit.of(thread))), None)
}

#[inline]
fn spot_of_thread(thread: &'static Thread, index: u32) -> Result<NotifyRef, Failure> {
    match NotifyRef::of_thread(thread, index) {
        Some(spot) => Ok(spot),
        None => refuse!(
            HCCL_E_PTR,
            "there is no notify {index} in {}, which has {}; pass a smaller index, or request \
             more notifies",
            thread.describe(),
            thread.notifies()
        ),
    }
}

/// Makes the record of a notify of the peer's end.
#[inline]
pub(super) fn signal_of_peer(channel: &'static Channel, index: u32) -> Result<Signal, Failure> {
    let spot = match channel.is_abroad() {
        false => NotifyRef::of_channel(channel.peer()?, index),
        true => {
            channel.check_peer()?;
            NotifyRef::of_peer_abroad(channel, index)
        }
    };
    let spot = spot.map_or_else(|| no_notify(channel, index), Ok)?;
    Ok(Signal::of_peer(spot, channel))
}

/// Returns a notify of this rank's end.
#[inline]
pub(super) fn spot_of_own(channel: &'static Channel, index: u32) -> Result<NotifyRef, Failure> {
    NotifyRef::of_channel(channel, index).map_or_else(|| no_notify(channel, index), Ok)
}

#[cold]
fn no_notify(channel: &Channel, index: u32) -> Result<NotifyRef, Failure> {
    refuse!(
        HCCL_E_PARA,
        "there is no notify {index} in {}, which has {} at each end; pass a smaller index, or a \
         larger notifyNum",
        channel.describe(),
        channel.notifies()
    )
}

/// `HcommChannelNotifyWaitOnThread`: issues a wait for a notify of this rank's end of the channel.
#[inline]
pub(crate) fn wait_channel(
    call: &'static str,
    thread: u64,
    channel: u64,
    index: u32,
    limit: Limit,
) -> Result<(), Failure> {
    let thread = thread_of(thread)?;
    let channel = channel_of(thread, channel)?;
    let spot = spot_of_own(channel, index)?;
    issue(thread, call, Primitive::Await(Await::new(spot, limit.of(thread))), None)
}

/// `HcommAclrtNotifyRecordOnThread`: issues a record of a notify of the runtime, given by its
/// number.
pub(crate) fn record_aclrt(call: &'static str, thread: u64, id: u64) -> Result<(), Failure> {
    let thread = thread_of(thread)?;
    let handle = notify::handle_of(id).map_err(not_a_notify)?;
    issue(thread, call, Primitive::Record(handle), None)
}

/// `HcommAclrtNotifyWaitOnThread`: issues a wait for a notify of the runtime, given by its number.
pub(crate) fn wait_aclrt(
    call: &'static str,
    thread: u64,
    id: u64,
    limit: Limit,
) -> Result<(), Failure> {
    let thread = thread_of(thread)?;
    let handle = notify::handle_of(id).map_err(not_a_notify)?;
    issue(thread, call, Primitive::Wait(handle, limit.of(thread)), None)
}

#[cold]
fn not_a_notify(failure: Failure) -> Failure {
    Failure::new(ascend_sys::HcclResult::HCCL_E_PTR, failure.text.to_string())
}

/// The time limit of a wait.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    /// A limit in seconds; 0 means no limit.
    Seconds(u32),
    /// The limit that `HcommSetNotifyWaitTimeOut` has set. If it has set none, a wait of a thread
    /// has the execution time limit of its communicator, or of its device if it belongs to no
    /// communicator, and a wait of the host itself has no limit.
    Default,
}

thread_local! {
    /// The limit of the calling OS thread. On hardware it belongs to the processor that runs the
    /// kernels; here the OS thread takes its place.
    static DEFAULT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// `HcommSetNotifyWaitTimeOut`: sets the default time limit of the waits that the calling OS thread
/// issues.
pub(crate) fn set_default_limit(limit: Duration) {
    DEFAULT.set(Some(limit));
}

impl Limit {
    #[inline]
    pub(crate) fn of(self, thread: &Thread) -> Option<Duration> {
        match self {
            Limit::Default => default_limit(thread),
            seconds => seconds.of_host(),
        }
    }
}

impl Limit {
    /// Returns the limit for a wait that the host makes itself, outside of any thread of the
    /// operator. `None` means no limit.
    pub(super) fn of_host(self) -> Option<Duration> {
        match self {
            Limit::Seconds(0) => None,
            Limit::Seconds(seconds) => Some(Duration::from_secs(seconds.into())),
            Limit::Default => DEFAULT.get().filter(|limit| !limit.is_zero()),
        }
    }
}

#[cold]
fn default_limit(thread: &Thread) -> Option<Duration> {
    let limit = match (DEFAULT.get(), thread.owner().and_then(|owner| owner.member)) {
        (Some(limit), _) => limit,
        (None, Some(member)) => return member.exec_timeout,
        (None, None) => machine::device_slot(thread.device())
            .settings()
            .map_or(EXEC_TIMEOUT, |it| it.exec_timeout),
    };
    (!limit.is_zero()).then_some(limit)
}
