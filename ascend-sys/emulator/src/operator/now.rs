//! Operations that the host itself does over a channel, without a thread. Each is complete when its
//! call returns.

use super::channel::Channel;
use super::issue::{Limit, Transfer, signal_of_peer, spot_of_own};
use super::memory::{local, remote};
use super::signal::Await;
use crate::leaf::Copy;
use crate::message::Failure;
use crate::step::Step;
use crate::submit;

/// Copies from this rank's memory to the memory of the peer. The copy is complete when this
/// returns.
pub(crate) fn write(
    call: &'static str,
    channel: &'static Channel,
    transfer: Transfer,
) -> Result<(), Failure> {
    let Some(bytes) = transfer.bytes()? else { return Ok(()) };
    let channel = channel.reach();
    let to = remote(&channel, "dst", transfer.dst, bytes)?;
    let from = local(channel.device(), "src", transfer.src, bytes)?;
    copy(call, &channel, Copy::new(to, from, bytes));
    Ok(())
}

/// Copies from the peer's memory to the memory of this rank. The copy is complete when this
/// returns.
pub(crate) fn read(
    call: &'static str,
    channel: &'static Channel,
    transfer: Transfer,
) -> Result<(), Failure> {
    let Some(bytes) = transfer.bytes()? else { return Ok(()) };
    let channel = channel.reach();
    let to = local(channel.device(), "dst", transfer.dst, bytes)?;
    let from = remote(&channel, "src", transfer.src, bytes)?;
    copy(call, &channel, Copy::new(to, from, bytes));
    Ok(())
}

fn copy(call: &'static str, channel: &Channel, mut copy: Copy) {
    submit::at_once(channel.device(), call, || copy.touches());
    while matches!(copy.poll(), Step::Again) {}
}

/// Checks that the peer's end has a notify with this index.
pub(crate) fn check_notify(channel: &'static Channel, index: u32) -> Result<(), Failure> {
    signal_of_peer(channel, index).map(drop)
}

/// Sets a notify of the peer's end.
pub(crate) fn record(
    call: &'static str,
    channel: &'static Channel,
    index: u32,
) -> Result<(), Failure> {
    signal_of_peer(channel, index)?.record_now(call)
}

/// Blocks until a notify of this rank's end is recorded, or until the time limit. Returns
/// `HCCL_E_TIMEOUT` at the time limit.
pub(crate) fn wait(
    call: &'static str,
    channel: &'static Channel,
    index: u32,
    limit: Limit,
) -> Result<(), Failure> {
    Await::new(spot_of_own(channel, index)?, limit.of_host()).wait_now(call)
}
