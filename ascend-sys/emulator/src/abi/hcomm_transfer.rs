//! The entries for primitives that move data, as in CANN's `hcomm_primitives.h`.
//!
//! On hardware a kernel on the device calls these functions. Here the host calls them, with the
//! handles of the same threads.
#![allow(non_snake_case, reason = "CANN's names")]

use super::entries::{Hcomm, entries};
use std::ffi::c_void;

use ascend_sys::{ChannelHandle, HcommDataType, HcommReduceOp, ThreadHandle};

use super::hccl_entry::product_of;
use crate::message::{Failure, refuse};
use crate::operator::crossing::{Crossing, cross};
use crate::operator::issue::{self, MoveReduction, Transfer};
use crate::operator::reduce_kind;
use crate::profile::Product;

entries! {
    Hcomm;

    fn HcommLocalCopyOnThread(
        thread: ThreadHandle,
        dst: *mut c_void,
        src: *const c_void,
        len: u64,
    ) {
        let transfer = Transfer { dst, src, amount: len, kind: None };
        issue::local_transfer(ENTRY, thread, transfer)
    }

    fn HcommLocalReduceOnThread(
        thread: ThreadHandle,
        dst: *mut c_void,
        src: *const c_void,
        count: u64,
        dtype: HcommDataType,
        op: HcommReduceOp,
    ) {
        let transfer = Transfer { dst, src, amount: count, kind: kind(dtype, op)? };
        issue::local_transfer(ENTRY, thread, transfer)
    }

    fn HcommWriteWithNotifyOnThread(
        thread: ThreadHandle,
        channel: ChannelHandle,
        dst: *mut c_void,
        src: *const c_void,
        len: u64,
        notify: u32,
    ) {
        only_950(thread, "write with a notify")?;
        let transfer = Transfer { dst, src, amount: len, kind: None };
        cross(ENTRY, thread, channel, Crossing::WriteWithNotify(transfer, notify))
    }

    fn HcommWriteReduceWithNotifyOnThread(
        thread: ThreadHandle,
        channel: ChannelHandle,
        dst: *mut c_void,
        src: *const c_void,
        count: u64,
        dtype: HcommDataType,
        op: HcommReduceOp,
        notify: u32,
    ) {
        only_950(thread, "reducing write with a notify")?;
        let transfer = Transfer { dst, src, amount: count, kind: kind(dtype, op)? };
        cross(ENTRY, thread, channel, Crossing::WriteWithNotify(transfer, notify))
    }

    each crossing in { HcommWriteOnThread: Crossing::Write, HcommReadOnThread: Crossing::Read }
    fn (
        thread: ThreadHandle,
        channel: ChannelHandle,
        dst: *mut c_void,
        src: *const c_void,
        len: u64,
    ) {
        let transfer = Transfer { dst, src, amount: len, kind: None };
        cross(ENTRY, thread, channel, crossing(transfer))
    }

    each crossing in {
        HcommWriteReduceOnThread: Crossing::Write,
        HcommReadReduceOnThread: Crossing::Read,
    }
    fn (
        thread: ThreadHandle,
        channel: ChannelHandle,
        dst: *mut c_void,
        src: *const c_void,
        count: u64,
        dtype: HcommDataType,
        op: HcommReduceOp,
    ) {
        let transfer = Transfer { dst, src, amount: count, kind: kind(dtype, op)? };
        cross(ENTRY, thread, channel, crossing(transfer))
    }
}

/// Returns the element type and the operator of a reduction.
pub(super) fn kind(dtype: HcommDataType, op: HcommReduceOp) -> Result<MoveReduction, Failure> {
    reduce_kind(dtype.0, op.0).map(Some)
}

/// Returns an error that names `what`, unless the product is Ascend 950.
pub(super) fn only_950(thread: ThreadHandle, what: &str) -> Result<(), Failure> {
    match product_of(thread)? {
        Product::Ascend950 => Ok(()),
        product => refuse!(
            HCCL_E_NOT_SUPPORT,
            "{product} has no {what}, but Ascend 950 does; call this function only on Ascend 950"
        ),
    }
}
