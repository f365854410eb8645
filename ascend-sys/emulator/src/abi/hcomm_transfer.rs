//! Primitives that move data. CANN's `hcomm_primitives.h`.
//!
//! On hardware they are called by a kernel on the device; here the host calls them, with the handles of the same threads.
#![allow(non_snake_case, reason = "CANN's names")]

use std::ffi::c_void;

use ascend_sys::{ChannelHandle, Functions, HcommDataType, HcommReduceOp, ThreadHandle};

use super::hccl_entry::{abi_entry, product_of};
use crate::message::{Failure, refuse};
use crate::operator::crossing::{Crossing, cross};
use crate::operator::issue::{self, MoveReduction, Transfer};
use crate::operator::reduce_kind;
use crate::profile::Product;

pub(super) fn fill(table: &mut Functions) {
    table.HcommLocalCopyOnThread = Some(HcommLocalCopyOnThread);
    table.HcommLocalReduceOnThread = Some(HcommLocalReduceOnThread);
    table.HcommWriteOnThread = Some(HcommWriteOnThread);
    table.HcommWriteReduceOnThread = Some(HcommWriteReduceOnThread);
    table.HcommWriteWithNotifyOnThread = Some(HcommWriteWithNotifyOnThread);
    table.HcommWriteReduceWithNotifyOnThread = Some(HcommWriteReduceWithNotifyOnThread);
    table.HcommReadOnThread = Some(HcommReadOnThread);
    table.HcommReadReduceOnThread = Some(HcommReadReduceOnThread);
}

/// The code of a primitive: the number of an `HcclResult`.
#[inline]
pub(super) fn primitive(name: &'static str, inside: impl FnOnce() -> Result<(), Failure>) -> i32 {
    abi_entry(name, inside).0 as i32
}

/// How a primitive combines elements.
pub(super) fn kind(dtype: HcommDataType, op: HcommReduceOp) -> Result<MoveReduction, Failure> {
    reduce_kind(dtype.0, op.0).map(Some)
}

/// What only Ascend 950 has.
pub(super) fn only_950(thread: ThreadHandle, what: &str) -> Result<(), Failure> {
    match product_of(thread)? {
        Product::Ascend950 => Ok(()),
        product => refuse!(HCCL_E_NOT_SUPPORT, "{product} has no {what}; Ascend 950 has"),
    }
}

unsafe extern "C" fn HcommLocalCopyOnThread(
    thread: ThreadHandle,
    dst: *mut c_void,
    src: *const c_void,
    len: u64,
) -> i32 {
    primitive("HcommLocalCopyOnThread", || {
        let transfer = Transfer { dst, src, amount: len, kind: None };
        issue::local_transfer("HcommLocalCopyOnThread", thread, transfer)
    })
}

unsafe extern "C" fn HcommLocalReduceOnThread(
    thread: ThreadHandle,
    dst: *mut c_void,
    src: *const c_void,
    count: u64,
    dtype: HcommDataType,
    op: HcommReduceOp,
) -> i32 {
    primitive("HcommLocalReduceOnThread", || {
        let transfer = Transfer { dst, src, amount: count, kind: kind(dtype, op)? };
        issue::local_transfer("HcommLocalReduceOnThread", thread, transfer)
    })
}

unsafe extern "C" fn HcommWriteOnThread(
    thread: ThreadHandle,
    channel: ChannelHandle,
    dst: *mut c_void,
    src: *const c_void,
    len: u64,
) -> i32 {
    primitive("HcommWriteOnThread", || {
        let transfer = Transfer { dst, src, amount: len, kind: None };
        cross("HcommWriteOnThread", thread, channel, Crossing::Write(transfer))
    })
}

unsafe extern "C" fn HcommWriteReduceOnThread(
    thread: ThreadHandle,
    channel: ChannelHandle,
    dst: *mut c_void,
    src: *const c_void,
    count: u64,
    dtype: HcommDataType,
    op: HcommReduceOp,
) -> i32 {
    primitive("HcommWriteReduceOnThread", || {
        let transfer = Transfer { dst, src, amount: count, kind: kind(dtype, op)? };
        cross("HcommWriteReduceOnThread", thread, channel, Crossing::Write(transfer))
    })
}

unsafe extern "C" fn HcommWriteWithNotifyOnThread(
    thread: ThreadHandle,
    channel: ChannelHandle,
    dst: *mut c_void,
    src: *const c_void,
    len: u64,
    notify: u32,
) -> i32 {
    const NAME: &str = "HcommWriteWithNotifyOnThread";
    primitive(NAME, || {
        only_950(thread, "write with a notify")?;
        let transfer = Transfer { dst, src, amount: len, kind: None };
        cross(NAME, thread, channel, Crossing::WriteWithNotify(transfer, notify))
    })
}

unsafe extern "C" fn HcommWriteReduceWithNotifyOnThread(
    thread: ThreadHandle,
    channel: ChannelHandle,
    dst: *mut c_void,
    src: *const c_void,
    count: u64,
    dtype: HcommDataType,
    op: HcommReduceOp,
    notify: u32,
) -> i32 {
    const NAME: &str = "HcommWriteReduceWithNotifyOnThread";
    primitive(NAME, || {
        only_950(thread, "reducing write with a notify")?;
        let transfer = Transfer { dst, src, amount: count, kind: kind(dtype, op)? };
        cross(NAME, thread, channel, Crossing::WriteWithNotify(transfer, notify))
    })
}

unsafe extern "C" fn HcommReadOnThread(
    thread: ThreadHandle,
    channel: ChannelHandle,
    dst: *mut c_void,
    src: *const c_void,
    len: u64,
) -> i32 {
    primitive("HcommReadOnThread", || {
        let transfer = Transfer { dst, src, amount: len, kind: None };
        cross("HcommReadOnThread", thread, channel, Crossing::Read(transfer))
    })
}

unsafe extern "C" fn HcommReadReduceOnThread(
    thread: ThreadHandle,
    channel: ChannelHandle,
    dst: *mut c_void,
    src: *const c_void,
    count: u64,
    dtype: HcommDataType,
    op: HcommReduceOp,
) -> i32 {
    primitive("HcommReadReduceOnThread", || {
        let transfer = Transfer { dst, src, amount: count, kind: kind(dtype, op)? };
        cross("HcommReadReduceOnThread", thread, channel, Crossing::Read(transfer))
    })
}
