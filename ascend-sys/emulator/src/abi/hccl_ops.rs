//! The entries for the collectives whose blocks all have the same size, as in CANN's `hccl.h`.
//!
//! A call with a count of zero succeeds before any other argument is checked. The operation does
//! not get a number, and the rank does not meet the other ranks. The exception is a rank that
//! numbers these calls (`ascendExtCommNumbersZeros`): it issues them like any other collective.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::Handle;
use super::entries::{Hccl, entries};
use std::ffi::c_void;

use ascend_sys::{HcclDataType, HcclReduceOp, aclrtStream};

use super::hccl_entry::not_null;
use crate::collective::call::CollectiveCall;
use crate::collective::request::{CollectiveRequest, Operation};
use crate::collective::validate;
use crate::fabric::Member;
use crate::fabric::registry::with_issue_state;
use crate::issue::submit::{begin, buffer, issue, issue_void, submit};
use crate::message::{Failure, refuse};
use crate::profile::Product;
use ascend_reduce::ReduceOp;

entries! {
    Hccl;

    fn HcclBroadcast(
        buf: *mut c_void,
        count: u64,
        dtype: HcclDataType,
        root: u32,
        comm: Handle<Member>,
        stream: aclrtStream,
    ) {
        if count == 0 {
            return issue_void(Operation::Broadcast(root), dtype, comm.number(), stream);
        }
        comm.required("comm")?;
        not_null(buf, "buf")?;
        not_null(stream, "stream")?;
        with_issue_state(comm.number(), |issue_state| {
            validate::count(count)?;
            let dtype = validate::movement(issue_state.member.comm.product, dtype.0)?;
            validate::rank("root", root, issue_state.member.comm.ranks())?;
            let request = CollectiveRequest { operation: Operation::Broadcast(root), dtype, count };
            let stream = begin(issue_state, stream)?;
            let buf = buffer(&issue_state.member, "buf", buf, request.bytes())?;
            issue(issue_state, stream, CollectiveCall::new(request, buf, buf))
        })
    }

    fn HcclReduce(
        send: *mut c_void,
        recv: *mut c_void,
        count: u64,
        dtype: HcclDataType,
        op: HcclReduceOp,
        root: u32,
        comm: Handle<Member>,
        stream: aclrtStream,
    ) {
        if count == 0 {
            return issue_void(Operation::Reduce(some(op), root), dtype, comm.number(), stream);
        }
        comm.required("comm")?;
        not_null(send, "sendBuf")?;
        with_issue_state(comm.number(), |issue_state| {
            // Only the receive buffer of the root is checked.
            if issue_state.member.rank == root as usize {
                not_null(recv, "recvBuf")?;
            }
            not_null(stream, "stream")?;
            validate::count(count)?;
            let (dtype, op) = validate::reduction(issue_state.member.comm.product, dtype.0, op.0)?;
            validate::rank("root", root, issue_state.member.comm.ranks())?;
            let request =
                CollectiveRequest { operation: Operation::Reduce(op, root), dtype, count };
            submit(issue_state, request, send, recv, stream)
        })
    }

    fn HcclAllGather(
        send: *mut c_void,
        recv: *mut c_void,
        count: u64,
        dtype: HcclDataType,
        comm: Handle<Member>,
        stream: aclrtStream,
    ) {
        if count == 0 {
            return issue_void(Operation::AllGather, dtype, comm.number(), stream);
        }
        all_given(&comm, send, recv, stream)?;
        with_issue_state(comm.number(), |issue_state| {
            validate::count(count)?;
            let dtype = validate::movement(issue_state.member.comm.product, dtype.0)?;
            let request = CollectiveRequest { operation: Operation::AllGather, dtype, count };
            submit(issue_state, request, send, recv, stream)
        })
    }

    fn HcclScatter(
        send: *mut c_void,
        recv: *mut c_void,
        count: u64,
        dtype: HcclDataType,
        root: u32,
        comm: Handle<Member>,
        stream: aclrtStream,
    ) {
        if count == 0 {
            return issue_void(Operation::Scatter(root), dtype, comm.number(), stream);
        }
        comm.required("comm")?;
        not_null(recv, "recvBuf")?;
        with_issue_state(comm.number(), |issue_state| {
            if issue_state.member.rank == root as usize {
                not_null(send, "sendBuf")?;
            }
            // On Ascend 950, NULL is the default stream.
            if issue_state.member.comm.product != Product::Ascend950 {
                not_null(stream, "stream")?;
            }
            validate::count(count)?;
            let dtype = validate::movement(issue_state.member.comm.product, dtype.0)?;
            validate::rank("root", root, issue_state.member.comm.ranks())?;
            let request = CollectiveRequest { operation: Operation::Scatter(root), dtype, count };
            submit(issue_state, request, send, recv, stream)
        })
    }

    fn HcclAlltoAll(
        send: *const c_void,
        send_count: u64,
        send_type: HcclDataType,
        recv: *const c_void,
        recv_count: u64,
        recv_type: HcclDataType,
        comm: Handle<Member>,
        stream: aclrtStream,
    ) {
        if send_count == 0 && recv_count == 0 {
            return issue_void(Operation::AlltoAll, send_type, comm.number(), stream);
        }
        all_given(&comm, send, recv, stream)?;
        with_issue_state(comm.number(), |issue_state| {
            validate::count(send_count)?;
            validate::count(recv_count)?;
            let dtype = validate::movement(issue_state.member.comm.product, send_type.0)?;
            validate::movement(issue_state.member.comm.product, recv_type.0)?;
            if send_count != recv_count {
                return refuse!(
                    HCCL_E_PARA,
                    "sendCount is {send_count}, recvCount {recv_count}; they must be equal"
                );
            }
            validate::same_type(send_type, recv_type)?;
            validate::apart(send, recv)?;
            let request =
                CollectiveRequest { operation: Operation::AlltoAll, dtype, count: send_count };
            submit(issue_state, request, send.cast_mut(), recv.cast_mut(), stream)
        })
    }

    fn HcclBarrier(comm: Handle<Member>, stream: aclrtStream) {
        comm.required("comm")?;
        not_null(stream, "stream")?;
        with_issue_state(comm.number(), |issue_state| {
            let stream = begin(issue_state, stream)?;
            let null = std::ptr::null_mut();
            issue(issue_state, stream, CollectiveCall::new(CollectiveRequest::BARRIER, null, null))
        })
    }

    each operation in {
        HcclAllReduce: Operation::AllReduce,
        HcclReduceScatter: Operation::ReduceScatter,
    }
    fn (
        send: *mut c_void,
        recv: *mut c_void,
        count: u64,
        dtype: HcclDataType,
        op: HcclReduceOp,
        comm: Handle<Member>,
        stream: aclrtStream,
    ) {
        if count == 0 {
            return issue_void(operation(some(op)), dtype, comm.number(), stream);
        }
        all_given(&comm, send, recv, stream)?;
        with_issue_state(comm.number(), |issue_state| {
            validate::count(count)?;
            let (dtype, op) = validate::reduction(issue_state.member.comm.product, dtype.0, op.0)?;
            let request = CollectiveRequest { operation: operation(op), dtype, count };
            submit(issue_state, request, send, recv, stream)
        })
    }
}

/// Returns the operator for a call without elements, which does not use the operator. An invalid
/// number becomes SUM.
pub(super) fn some(op: HcclReduceOp) -> ReduceOp {
    ReduceOp::from_hccl(op.0).unwrap_or(ReduceOp::Sum)
}

/// Returns an error if the communicator, a buffer or the stream is null. This check is for
/// operations in which every rank passes both buffers.
#[inline]
fn all_given(
    comm: &Handle<Member>,
    send: *const c_void,
    recv: *const c_void,
    stream: aclrtStream,
) -> Result<(), Failure> {
    comm.required("comm")?;
    not_null(send, "sendBuf")?;
    not_null(recv, "recvBuf")?;
    not_null(stream, "stream")
}
