//! Faults that a program requests for a device, to test how it handles them.
//!
//! A fault waits for an operation of HCCL, or for an allocation, with a given number on its device.
//! An operation checks for faults just before it is issued. As long as no fault is requested, the
//! check is one load.

pub(crate) mod asked;
pub(crate) mod hold;

use crate::fabric::{Member, registry};
use crate::machine::{self, Device};
use crate::message::{Failure, fail, refuse};
use crate::stream::{STREAMS, Stream};
use ascend_sys::ACL_ERROR_RT_PARAM_INVALID;

use asked::{FaultKind, are_any};
use hold::{Hold, hold};

/// Returns a device of a block, by its place in the block.
fn find(block: u32, index: u32) -> Result<&'static Device, Failure> {
    let settings = machine::block(block)?;
    if index >= settings.count {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "there is no device {index} in block {block}; pass a number below {}, the number of \
             its devices",
            settings.count
        );
    }
    Ok(machine::device_slot(settings.first + index))
}

/// Requests a fault of a device of a block.
pub(crate) fn set(block: u32, device: u32, kind: FaultKind, number: u64) -> Result<(), Failure> {
    find(block, device)?.faults.add(kind, number);
    Ok(())
}

/// Ends the faults of a device of a block; stopped streams go on.
pub(crate) fn clear(block: u32, device: u32) -> Result<(), Failure> {
    forget(find(block, device)?);
    Ok(())
}

/// Ends the faults of a device; its stopped streams go on.
pub(crate) fn forget(device: &Device) {
    if device.faults.clear() {
        for stream in STREAMS.all().filter(|stream| stream.device_id() == device.id) {
            stream.wake();
        }
    }
}

/// The properties of an operation that faults depend on.
#[derive(Clone, Copy)]
pub(crate) struct FaultTarget {
    /// Whether the operation meets peers for the first time.
    pub(crate) meets: bool,
    /// Whether the operation has a count that is not zero.
    pub(crate) counts: bool,
}

impl FaultTarget {
    fn can_have(self, kind: FaultKind) -> bool {
        match kind {
            FaultKind::LinkTimeout => self.meets,
            FaultKind::WrongCount => self.counts,
            _ => true,
        }
    }
}

/// Applies the faults of an operation that is about to be issued. Returns true if the operation
/// must have one element less. Returns an error if the operation must fail.
#[inline]
pub(crate) fn before(
    member: &Member,
    stream: &'static Stream,
    operation: FaultTarget,
) -> Result<bool, Failure> {
    if !are_any() {
        return Ok(false);
    }
    before_with_faults(member, stream, operation)
}

#[cold]
fn before_with_faults(
    member: &Member,
    stream: &'static Stream,
    operation: FaultTarget,
) -> Result<bool, Failure> {
    let device = machine::device_slot(member.device);
    let mut wrong = false;
    for kind in device.faults.due(|kind| operation.can_have(kind)) {
        match kind {
            FaultKind::Delay(length) => hold(stream, Hold::For(length, None)),
            FaultKind::Stop => {
                device.faults.stop();
                for stream in STREAMS.live().filter(|stream| stream.device_id() == device.id) {
                    hold(stream, Hold::WhileStopped);
                }
            }
            FaultKind::Leave => {
                registry::leave_with_call(device.id);
                return refuse!(
                    HCCL_E_UNAVAIL,
                    "rank {} has left: this fault was set for its device; make new \
                     communicators to go on",
                    member.rank
                );
            }
            FaultKind::WrongCount => wrong = true,
            FaultKind::LinkTimeout => member.comm.never_meet(member.rank)?,
            FaultKind::OutOfMemory => {}
        }
    }
    Ok(wrong)
}

/// Applies the faults of a rank that is about to meet the others for the first time. `operations`
/// is the number of operations that its group issues on the device before this contact.
#[inline]
pub(crate) fn before_contact(member: &Member, operations: usize) -> Result<(), Failure> {
    if !are_any() {
        return Ok(());
    }
    let fails = machine::device_slot(member.device).faults.link_fails(operations);
    if fails { member.comm.never_meet(member.rank) } else { Ok(()) }
}
