//! Puts checked calls into streams. This module has the collectives, and the steps that all
//! operations share. These are the checks of streams and buffers, the first contact with other
//! ranks, and the order of a rank's operations.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use ascend_sys::{ACL_ERROR_RT_MODEL_EXECUTE, HcclDataType, aclrtStream};

use super::collective::PendingCollective;
use super::group;
use crate::after::After;
use crate::callback::may_block;
use crate::capture;
use crate::check;
use crate::collective::call::CollectiveCall;
use crate::collective::claim::MeetingPlace;
use crate::collective::comm_error::Origin;
use crate::collective::request::{CollectiveRequest, Operation};
use crate::collective::validate::freed_before;
use crate::fabric::Member;
use crate::fabric::registry::{self, IssueState, with_issue_state};
use crate::faults;
use crate::machine::{self, foreign::is_outside};
use crate::memory::held::{HeldMemory, hold};
use crate::memory::{self, MemoryPlace as Where};
use crate::message::{Failure, refuse};
use crate::profile::Product;
use crate::stream::{Mark, Stream};
use ascend_reduce::DataType;

/// The value of `hcclOpExpansionMode` for vector cores only, without a fallback.
const AIV_ONLY: u32 = 4;

/// Issues a collective whose arguments show that no rank gives anything. The call succeeds whatever
/// the other arguments are. It takes no number, and the rank does not meet the others, but the call
/// is noted. A rank that [numbers](Member::numbers_zeros) these calls issues them like any other
/// collective.
#[cold]
pub(crate) fn issue_void(
    operation: Operation,
    dtype: HcclDataType,
    comm: u64,
    stream: aclrtStream,
) -> Result<(), Failure> {
    // This must not take the lock of the issue state, because a first contact may hold it for a
    // long time.
    let Ok(member) = registry::member(comm) else { return Ok(()) };
    if !member.numbers_zeros.load(Ordering::Relaxed) {
        member.comm.note_lone_zero(member.rank, void(operation, dtype));
        return Ok(());
    }
    with_issue_state(comm, |issue_state| issue_void_at(issue_state, operation, dtype, stream))
}

/// Returns the request of a call without elements. An invalid data type becomes INT8.
fn void(operation: Operation, dtype: HcclDataType) -> CollectiveRequest {
    let dtype = DataType::from_hccl(dtype.0).unwrap_or(DataType::Int8);
    CollectiveRequest { operation, dtype, count: 0 }
}

/// Issues a collective in which no rank gives anything, as [`issue_void`] does, for a caller that
/// holds the issue state.
#[cold]
pub(crate) fn issue_void_at(
    issue_state: &mut IssueState,
    operation: Operation,
    dtype: HcclDataType,
    stream: aclrtStream,
) -> Result<(), Failure> {
    let request = void(operation, dtype);
    let Member { comm, rank, numbers_zeros, .. } = &*issue_state.member;
    if !numbers_zeros.load(Ordering::Relaxed) {
        comm.note_lone_zero(*rank, request);
        return Ok(());
    }
    let stream = begin(issue_state, stream)?;
    let null = std::ptr::null_mut();
    issue(issue_state, stream, CollectiveCall::new(request, null, null))
}

/// Checks that the rank can issue operations.
#[inline]
fn may_issue(issue_state: &IssueState) -> Result<(), Failure> {
    let Member { comm, suspended, .. } = &*issue_state.member;
    if suspended.load(Ordering::Relaxed) {
        return refuse!(
            HCCL_E_SUSPENDING,
            "the communicator \"{}\" is suspended; call HcclCommResume first",
            comm.title()
        );
    }
    comm.check(Origin::Call)
}

/// Checks that the rank can issue operations on a stream. Returns the stream.
#[inline]
pub(crate) fn begin(
    issue_state: &IssueState,
    stream: aclrtStream,
) -> Result<&'static Stream, Failure> {
    may_issue(issue_state)?;
    group::begin_call();
    let stream = Stream::of_current_context(stream as u64)?;
    let device = issue_state.member.device;
    if stream.device_id() != device {
        return refuse!(
            HCCL_E_PARA,
            "{} is not on the device of the communicator, which is {device}; pass a stream of \
             that device",
            stream.describe(),
            device = machine::named(device)
        );
    }
    Ok(stream)
}

/// Returns the address of the data of a buffer; null if the buffer has no bytes. Checks that the
/// buffer is memory of the rank's device.
#[inline]
pub(crate) fn buffer(
    member: &Member,
    argument: &str,
    address: *mut c_void,
    bytes: usize,
) -> Result<*mut u8, Failure> {
    if bytes == 0 {
        return Ok(std::ptr::null_mut());
    }
    match memory::resolve(address as usize, bytes) {
        Ok(found) if found.place == Where::Device(member.device) => {
            if member.comm.is_joint() && is_outside(address as usize) {
                return outside_buffer(argument, address);
            }
            group::note_buffer(found.data, bytes)?;
            Ok(found.data)
        }
        found => bad_buffer(member, argument, address, found.map(|found| found.place)),
    }
}

/// Returns the error for a buffer in memory that was mapped from outside. Other processes look a
/// buffer up in the memory of its rank's process.
#[cold]
fn outside_buffer(argument: &str, address: *mut c_void) -> Result<*mut u8, Failure> {
    refuse!(
        HCCL_E_NOT_SUPPORT,
        "{argument}: {address:p} is memory that another process has exported or that aclrtMapMem \
         has mapped; a communicator with ranks in other processes cannot use it: pass memory of \
         aclrtMalloc"
    )
}

#[cold]
fn bad_buffer(
    member: &Member,
    argument: &str,
    address: *mut c_void,
    found: Result<Where, String>,
) -> Result<*mut u8, Failure> {
    let what = match found {
        Err(text) => text,
        Ok(Where::Device(id)) => format!(
            "{address:p} is memory of device {id}, but the communicator is on device {}; pass \
             memory of that device",
            machine::named(member.device),
            id = machine::named(id)
        ),
        Ok(Where::Pinned | Where::Pageable) => {
            format!("{address:p} is host memory; HCCL needs device memory (aclrtMalloc)")
        }
    };
    refuse!(HCCL_E_PARA, "{argument}: {what}")
}

/// Checks the buffers of a request and puts the request into the stream.
#[inline]
pub(crate) fn submit(
    issue_state: &mut IssueState,
    request: CollectiveRequest,
    send: *mut c_void,
    recv: *mut c_void,
    stream: aclrtStream,
) -> Result<(), Failure> {
    let stream = begin(issue_state, stream)?;
    let member = &issue_state.member;
    let (sends, receives) = request.sizes(member.rank, member.comm.ranks());
    let send = buffer(member, "sendBuf", send, sends)?;
    let recv = buffer(member, "recvBuf", recv, receives)?;
    issue(issue_state, stream, CollectiveCall::new(request, send, recv))
}

/// Puts a collective into the stream, or into the open group. Without a group, the first collective
/// of a rank waits until the other ranks make contact.
///
/// Inlined, so that the call is built directly in its task instead of being moved there.
#[inline(always)]
pub(crate) fn issue(
    issue_state: &mut IssueState,
    stream: &'static Stream,
    call: CollectiveCall,
) -> Result<(), Failure> {
    if issue_state.member.config.expansion == AIV_ONLY && !call.request.is_void() {
        has_algorithm(&issue_state.member)?;
    }
    if group::is_open() {
        return group::collective(issue_state, stream, call.request, move |issue_state, stream| {
            issue_now(issue_state, stream, call)
        });
    }
    issue_now(issue_state, stream, call)
}

/// Checks that there is an algorithm that uses only vector cores. Ascend 950 has none for a single
/// rank.
#[cold]
fn has_algorithm(member: &Member) -> Result<(), Failure> {
    if member.comm.product == Product::Ascend950 && member.comm.ranks() == 1 {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "the communicator \"{}\" runs on vector cores only (hcclOpExpansionMode {AIV_ONLY}), \
             but Ascend 950 has no algorithm of that kind for a single rank; set 3 (AIV), which \
             falls back to another kind",
            member.comm.title()
        );
    }
    Ok(())
}

/// Puts a collective into the stream. The first collective of a rank waits here until the other
/// ranks make contact.
#[inline(always)]
fn issue_now(
    issue_state: &mut IssueState,
    stream: &'static Stream,
    mut call: CollectiveCall,
) -> Result<(), Failure> {
    if stream.is_diverted() {
        return record(issue_state, stream, call);
    }
    let CollectiveRequest { operation, count, .. } = call.request;
    let counts = count > 0 && !operation.has_table();
    let operation = faults::FaultTarget { meets: !issue_state.linked, counts };
    if faults::before(&issue_state.member, stream, operation)? {
        call.request.count -= 1;
    }
    let (before, rank) = (issue_state.newest, issue_state.member.rank);
    let number = before.number + 1;
    let place = MeetingPlace { number };
    link(issue_state, &call)?;
    // The collective is announced to checked mode first, because the order that `keep_order` makes
    // is not one of the program.
    let announced = check::collective(stream, &issue_state.member, number, &call)?;
    keep_order(issue_state, stream)?;
    issue_state.newest = place;
    issue_state.member.comm.note_issued(rank, number);
    // SAFETY: the issue state, and with it the member, is locked until this call is over. By then
    // the task is done, or it is in the queue and keeps the member.
    let task = unsafe { PendingCollective::new(&issue_state.member, place, call) };
    match capture::submit(stream, task) {
        Ok(ticket) => {
            issue_state.mark = Some(Mark::new(stream, ticket));
            announced.enqueued(stream)
        }
        Err(failure) => {
            issue_state.newest = before;
            issue_state.member.comm.note_issued(rank, before.number);
            Err(failure)
        }
    }
}

/// Makes the first contact with the other ranks, if it was not made yet. Blocks until they make it,
/// too.
#[inline]
fn link(issue_state: &mut IssueState, call: &CollectiveCall) -> Result<(), Failure> {
    if issue_state.linked { Ok(()) } else { meet(issue_state, call) }
}

#[cold]
fn meet(issue_state: &mut IssueState, call: &CollectiveCall) -> Result<(), Failure> {
    may_block()?;
    let Member { comm, rank, .. } = &*issue_state.member;
    let touched = call.touched(*rank, comm.ranks());
    waiting_with(touched, || {
        let Member { comm, rank, .. } = &*issue_state.member;
        comm.meet(*rank, issue_state.newest.number + 1, call.request)?;
        issue_state.linked = true;
        Ok(())
    })
}

/// Calls `wait`, which waits for other ranks. Queued work keeps its buffers, but nothing is queued
/// yet. So this checks afterwards that the program has not freed a buffer during the wait.
pub(crate) fn waiting_with(
    touched: impl IntoIterator<Item = (*const u8, usize)>,
    wait: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let gone = |text| freed_before("the operation is complete", text);
    let mut held = hold(touched).map_err(gone)?;
    wait()?;
    held.iter_mut().try_for_each(HeldMemory::check).map_err(gone)
}

/// Records a collective on a captured stream. Every execution of the graph issues it again with a
/// new number.
#[cold]
fn record(
    issue_state: &mut IssueState,
    stream: &'static Stream,
    call: CollectiveCall,
) -> Result<(), Failure> {
    link(issue_state, &call)?;
    let Member { comm, rank, .. } = &*issue_state.member;
    let touched = call.touched(*rank, comm.ranks());
    let capture = issue_state.capture(stream.diverted.load(Ordering::Acquire));
    let name = call.request.to_string();
    let issue = move |issue_state: &mut IssueState, stream| {
        let call = call.again(capture, || issue_state.member.take_table());
        issue_now(issue_state, stream, call)
    };
    record_call(issue_state, stream, name, &touched, issue)
}

/// Records an operation of a rank on a captured stream, as [`capture::record_call`] does.
#[cold]
pub(crate) fn record_call(
    issue_state: &IssueState,
    stream: &'static Stream,
    name: String,
    touched: &[(*const u8, usize)],
    issue: impl Fn(&mut IssueState, &'static Stream) -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let handle = issue_state.handle;
    let issue = move |stream| {
        with_issue_state(handle, |issue_state| {
            may_issue(issue_state)?;
            issue(issue_state, stream)
        })
        .map_err(|failure| Failure::new(ACL_ERROR_RT_MODEL_EXECUTE, failure.in_hccl().1))
    };
    capture::record_call(stream, name, touched, Box::new(issue))
}

/// Orders an operation after the previous one of the rank, also if that is in another stream.
#[inline]
pub(crate) fn keep_order(issue_state: &IssueState, stream: &'static Stream) -> Result<(), Failure> {
    match issue_state.mark {
        Some(mark)
            if !mark.is_complete()
                && !mark.stream().is_some_and(|other| std::ptr::eq(other, stream)) =>
        {
            capture::submit(stream, After(mark)).map(drop)
        }
        _ => Ok(()),
    }
}
