//! Operations: checking, the first contact with the other ranks, and into the stream. CANN's `hccl.h`.
//!
//! A count of zero is a success before anything else is looked at, but the operation takes its number, so that ranks that pass
//! another count learn about it.
#![allow(non_snake_case, reason = "CANN's names")]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ascend_sys::{Functions, HcclComm, HcclDataType, HcclReduceOp, HcclResult, aclrtStream};

use super::hccl::{door, not_null, runtime};
use crate::callback::may_block;
use crate::collective::meeting::{Origin, Place};
use crate::collective::pending::Pending;
use crate::collective::request::{Operation, Request};
use crate::collective::validate::{self, Refusal, refuse};
use crate::fabric::registry::{Desk, with_desk};
use crate::fabric::{Member, group};
use crate::memory::{self, Place as Where};
use crate::reduce::{DataType, ReduceOp};
use crate::stream::{Mark, Stream};
use crate::task::Task;

pub(super) fn fill(table: &mut Functions) {
    table.HcclAllReduce = Some(HcclAllReduce);
    table.HcclBroadcast = Some(HcclBroadcast);
    table.HcclBarrier = Some(HcclBarrier);
}

unsafe extern "C" fn HcclAllReduce(
    send: *mut c_void,
    recv: *mut c_void,
    count: u64,
    dtype: HcclDataType,
    op: HcclReduceOp,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult {
    door("HcclAllReduce", || {
        if count == 0 {
            let op = ReduceOp::from_hccl(op.0).unwrap_or(ReduceOp::Sum);
            issue_void(Operation::AllReduce(op), dtype, comm, stream);
            return Ok(());
        }
        not_null(comm, "comm")?;
        not_null(send, "sendBuf")?;
        not_null(recv, "recvBuf")?;
        not_null(stream, "stream")?;
        with_desk(comm as u64, |desk| {
            validate::count(count)?;
            let (dtype, op) = validate::reduction(desk.member.comm.product, dtype.0, op.0)?;
            let request = Request { operation: Operation::AllReduce(op), dtype, count };
            let stream = begin(desk, stream)?;
            let bytes = request.bytes();
            let send = buffer(&desk.member, "sendBuf", send, bytes)?;
            let recv = buffer(&desk.member, "recvBuf", recv, bytes)?;
            issue(desk, stream, request, send, recv)
        })
    })
}

unsafe extern "C" fn HcclBroadcast(
    buf: *mut c_void,
    count: u64,
    dtype: HcclDataType,
    root: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult {
    door("HcclBroadcast", || {
        if count == 0 {
            issue_void(Operation::Broadcast(root), dtype, comm, stream);
            return Ok(());
        }
        not_null(comm, "comm")?;
        not_null(buf, "buf")?;
        not_null(stream, "stream")?;
        with_desk(comm as u64, |desk| {
            let Member { comm, .. } = &*desk.member;
            validate::count(count)?;
            let dtype = validate::movement(comm.product, dtype.0)?;
            validate::rank("root", root, comm.ranks())?;
            let request = Request { operation: Operation::Broadcast(root), dtype, count };
            let stream = begin(desk, stream)?;
            let buf = buffer(&desk.member, "buf", buf, request.bytes())?;
            issue(desk, stream, request, buf, buf)
        })
    })
}

unsafe extern "C" fn HcclBarrier(comm: HcclComm, stream: aclrtStream) -> HcclResult {
    door("HcclBarrier", || {
        not_null(comm, "comm")?;
        not_null(stream, "stream")?;
        with_desk(comm as u64, |desk| {
            let stream = begin(desk, stream)?;
            issue(desk, stream, Request::BARRIER, std::ptr::null_mut(), std::ptr::null_mut())
        })
    })
}

/// A collective with a count of zero. It succeeds whatever the other arguments are; where they are good, it takes its number.
#[cold]
fn issue_void(operation: Operation, dtype: HcclDataType, comm: HcclComm, stream: aclrtStream) {
    if comm.is_null() || stream.is_null() {
        return;
    }
    let dtype = DataType::from_hccl(dtype.0).unwrap_or(DataType::Int8);
    let request = Request { operation, dtype, count: 0 };
    let null = std::ptr::null_mut();
    // Success in any case: what went wrong shows in the next operation.
    let _ = with_desk(comm as u64, |desk| {
        let stream = begin(desk, stream)?;
        issue(desk, stream, request, null, null)
    });
}

/// Whether the rank can issue, and the stream as ours.
#[inline]
pub(super) fn begin(desk: &Desk, stream: aclrtStream) -> Result<&'static Stream, Refusal> {
    let Member { comm, device, suspended, .. } = &*desk.member;
    if suspended.load(Ordering::Relaxed) {
        return refuse!(
            HCCL_E_SUSPENDING,
            "the communicator \"{}\" is suspended; HcclCommResume ends that",
            comm.name
        );
    }
    comm.check(Origin::Call)?;
    if group::is_open() {
        group::begin_call();
    }
    let stream = Stream::of_current_context(stream as u64).map_err(runtime)?;
    if stream.device_id() != *device {
        return refuse!(
            HCCL_E_PARA,
            "{} is not on the device of the communicator, which is {device}",
            stream.describe()
        );
    }
    Ok(stream)
}

/// Where the data of a buffer is.
#[inline]
pub(super) fn buffer(
    member: &Member,
    argument: &str,
    address: *mut c_void,
    bytes: usize,
) -> Result<*mut u8, Refusal> {
    match memory::resolve(address as usize, bytes) {
        Ok(found) if found.place == Where::Device(member.device) => {
            if group::is_open() {
                group::note_buffer(address as usize, bytes);
            }
            Ok(found.data)
        }
        found => bad_buffer(member, argument, address, found.map(|found| found.place)),
    }
}

#[cold]
fn bad_buffer(
    member: &Member,
    argument: &str,
    address: *mut c_void,
    found: Result<Where, String>,
) -> Result<*mut u8, Refusal> {
    let what = match found {
        Err(text) => text,
        Ok(Where::Device(id)) => format!(
            "{address:p} is memory of device {id}, but the communicator is on device {}",
            member.device
        ),
        Ok(Where::Pinned | Where::Pageable) => {
            format!("{address:p} is host memory; HCCL takes device memory (aclrtMalloc)")
        }
    };
    refuse!(HCCL_E_PARA, "{argument}: {what}")
}

/// Puts a collective into the stream, or into the open group.
#[inline]
fn issue(
    desk: &mut Desk,
    stream: &'static Stream,
    request: Request,
    send: *mut u8,
    recv: *mut u8,
) -> Result<(), Refusal> {
    if group::is_open() {
        return group::collective(desk, stream, request, move |desk, stream| {
            issue_now(desk, stream, request, send, recv)
        });
    }
    issue_now(desk, stream, request, send, recv)
}

/// Puts a collective into the stream. The first one meets the other ranks here.
#[inline]
fn issue_now(
    desk: &mut Desk,
    stream: &'static Stream,
    request: Request,
    send: *mut u8,
    recv: *mut u8,
) -> Result<(), Refusal> {
    let member = Arc::clone(&desk.member);
    let (before, rank) = (desk.newest, member.rank);
    let number = before.number + 1;
    let place = Place { number, turn: before.turn + u64::from(!request.is_void()) };
    if !desk.linked {
        may_block().map_err(runtime)?;
        desk.linked = member.comm.meet(rank, number, request)?;
    }
    keep_order(desk, stream)?;
    desk.newest = place;
    member.comm.note_issued(rank, number);
    let task = Task::Collective(Pending::new(member, place, request, send, recv));
    match stream.submit(task) {
        Ok(ticket) => {
            desk.mark = Some(Mark::new(stream, ticket));
            Ok(())
        }
        Err(failure) => {
            desk.newest = before;
            desk.member.comm.note_issued(rank, before.number);
            Err(runtime(failure))
        }
    }
}

/// Operations of a rank run one after the other, also when they are put into different streams.
#[inline]
pub(super) fn keep_order(desk: &Desk, stream: &'static Stream) -> Result<(), Refusal> {
    match desk.mark {
        Some(mark)
            if !mark.is_complete()
                && !mark.stream().is_some_and(|other| std::ptr::eq(other, stream)) =>
        {
            stream.submit(Task::After(mark)).map_err(runtime).map(drop)
        }
        _ => Ok(()),
    }
}
