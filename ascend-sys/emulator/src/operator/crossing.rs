//! Operations across a channel: transfers to and from the peer, and records of the peer's notifies.
//! A call issues one operation or a list.
//!
//! All arguments are checked before anything is issued, so a call with an invalid argument issues
//! nothing.

use super::issue::{Transfer, channel_of, issue, signal_of_peer, thread_of};
use super::memory::{local, remote};
use super::primitive::Primitive;
use super::reach::Reach;
use super::thread::Thread;
use crate::message::Failure;

/// An operation across a channel.
#[derive(Clone, Copy)]
pub(crate) enum Crossing {
    /// A transfer from this rank's memory to the memory of the peer.
    Write(Transfer),
    /// A transfer from the peer's memory to the memory of this rank.
    Read(Transfer),
    /// A write, followed by the record of a notify of the peer's end.
    WriteWithNotify(Transfer, u32),
    /// The record of a notify of the peer's end.
    Record(u32),
}

impl Crossing {
    /// Returns the transfer, if there are bytes to move, and the record that follows it, if there
    /// is one.
    #[inline]
    fn primitives(
        self,
        thread: &Thread,
        channel: &Reach,
    ) -> Result<[Option<Primitive>; 2], Failure> {
        let (moves, notify) = match self {
            Crossing::Write(transfer) => (write(thread, channel, transfer)?, None),
            Crossing::Read(transfer) => (read(thread, channel, transfer)?, None),
            Crossing::WriteWithNotify(transfer, notify) => {
                (write(thread, channel, transfer)?, Some(notify))
            }
            Crossing::Record(notify) => (None, Some(notify)),
        };
        let records = match notify {
            Some(notify) => Some(Primitive::Signal(signal_of_peer(channel, notify)?)),
            None => None,
        };
        Ok([moves, records])
    }
}

#[inline]
fn write(
    thread: &Thread,
    channel: &Reach,
    transfer: Transfer,
) -> Result<Option<Primitive>, Failure> {
    let Some(bytes) = transfer.bytes()? else { return Ok(None) };
    let to = remote(channel, "dst", transfer.dst, bytes)?;
    let from = local(thread.device(), "src", transfer.src, bytes)?;
    transfer.primitive(thread, Some(channel), to, from, bytes).map(Some)
}

#[inline]
fn read(
    thread: &Thread,
    channel: &Reach,
    transfer: Transfer,
) -> Result<Option<Primitive>, Failure> {
    let Some(bytes) = transfer.bytes()? else { return Ok(None) };
    let to = local(thread.device(), "dst", transfer.dst, bytes)?;
    let from = remote(channel, "src", transfer.src, bytes)?;
    transfer.primitive(thread, Some(channel), to, from, bytes).map(Some)
}

/// Issues one operation to a thread.
#[inline]
pub(crate) fn cross(
    call: &'static str,
    thread: u64,
    channel: u64,
    crossing: Crossing,
) -> Result<(), Failure> {
    let thread = thread_of(thread)?;
    let channel = channel_of(thread, channel)?.reach();
    let primitives = crossing.primitives(thread, &channel)?;
    let mut primitives = primitives.into_iter().flatten();
    primitives.try_for_each(|primitive| issue(thread, call, primitive, Some(&channel)))
}

/// Issues a list of operations to a thread, in order. An error names the item of the argument
/// `list` that it belongs to.
pub(crate) fn cross_all(
    call: &'static str,
    thread: u64,
    channel: u64,
    list: &str,
    crossings: impl Iterator<Item = Result<Crossing, Failure>>,
) -> Result<(), Failure> {
    let thread = thread_of(thread)?;
    let channel = channel_of(thread, channel)?.reach();
    let mut all = Vec::new();
    for (at, crossing) in crossings.enumerate() {
        let primitives = crossing.and_then(|it| it.primitives(thread, &channel));
        let primitives =
            primitives.map_err(|failure| failure.of_item(format_args!("{list}[{at}]")))?;
        all.extend(primitives.into_iter().flatten());
    }
    all.into_iter().try_for_each(|primitive| issue(thread, call, primitive, Some(&channel)))
}
