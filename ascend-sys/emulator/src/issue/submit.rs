//! A checked call on its way into a stream: the steps that all operations share (streams, buffers,
//! the first contact with other ranks, the order of a rank's operations), and collectives.

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
use crate::collective::comm_error::Origin;
use crate::collective::meeting::MeetingPlace;
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

/// The value of `hcclOpExpansionMode` for vector cores without a fallback.
const AIV_ONLY: u32 = 4;

/// Issues a collective in which, by its arguments, no rank gives anything. It succeeds whatever the
/// other arguments are, takes no number and meets nobody; the rank keeps a note of it. But a rank
/// that [numbers](Member::numbers_zeros) these calls issues it like any other.
#[cold]
pub(crate) fn issue_void(
    operation: Operation,
    dtype: HcclDataType,
    comm: u64,
    stream: aclrtStream,
) -> Result<(), Failure> {
    // This must not take the lock of the issue state, which may be held for as long as a first
    // contact takes.
    let Ok(member) = registry::member(comm) else { return Ok(()) };
    if !member.numbers_zeros.load(Ordering::Relaxed) {
        member.comm.note_lone_zero(member.rank, void(operation, dtype));
        return Ok(());
    }
    with_issue_state(comm, |issue_state| issue_void_at(issue_state, operation, dtype, stream))
}

/// Returns the request of a call with nothing to move; its data type may be invalid.
fn void(operation: Operation, dtype: HcclDataType) -> CollectiveRequest {
    let dtype = DataType::from_hccl(dtype.0).unwrap_or(DataType::Int8);
    CollectiveRequest { operation, dtype, count: 0 }
}

/// The same for a caller that holds the issue state.
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

/// Whether the rank can issue.
#[inline]
fn may_issue(issue_state: &IssueState) -> Result<(), Failure> {
    let Member { comm, suspended, .. } = &*issue_state.member;
    if suspended.load(Ordering::Relaxed) {
        return refuse!(
            HCCL_E_SUSPENDING,
            "the communicator \"{}\" is suspended; HcclCommResume ends that",
            comm.title()
        );
    }
    comm.check(Origin::Call)
}

/// Checks that the rank can issue; returns the stream.
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
            "{} is not on the device of the communicator, which is {device}",
            stream.describe(),
            device = machine::named(device)
        );
    }
    Ok(stream)
}

/// Where the data of a buffer is; null if it has no bytes.
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

/// Other processes look a buffer up in the memory of its rank's own process.
#[cold]
fn outside_buffer(argument: &str, address: *mut c_void) -> Result<*mut u8, Failure> {
    refuse!(
        HCCL_E_NOT_SUPPORT,
        "{argument}: {address:p} is memory that another process has exported or that aclrtMapMem has mapped, and ranks of the communicator are in other processes"
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
            "{address:p} is memory of device {id}, but the communicator is on device {}",
            machine::named(member.device),
            id = machine::named(id)
        ),
        Ok(Where::Pinned | Where::Pageable) => {
            format!("{address:p} is host memory; HCCL takes device memory (aclrtMalloc)")
        }
    };
    refuse!(HCCL_E_PARA, "{argument}: {what}")
}

/// Looks at the buffers of a request and puts it into the stream.
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

/// Puts a collective into the stream, or into the open group.
///
/// Inlined, so that the call is built in the place of its task, and not moved there.
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

/// Whether there is an algorithm that runs on vector cores alone: for a single rank Ascend 950 has
/// none.
#[cold]
fn has_algorithm(member: &Member) -> Result<(), Failure> {
    if member.comm.product == Product::Ascend950 && member.comm.ranks() == 1 {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "the communicator \"{}\" runs on vector cores only (hcclOpExpansionMode {AIV_ONLY}), and Ascend 950 has no algorithm \
             of that kind for a single rank; 3 (AIV) falls back to another",
            member.comm.title()
        );
    }
    Ok(())
}

/// Puts a collective into the stream. The first one meets the other ranks here.
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
    // It is announced first: the order kept here is not an order of the program.
    let announced = check::collective(stream, &issue_state.member, number, &call)?;
    keep_order(issue_state, stream)?;
    issue_state.newest = place;
    issue_state.member.comm.note_issued(rank, number);
    // SAFETY: the issue state, and with it the member, is locked until this call is over; by then
    // the task is done or in the queue, which keeps it.
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

/// The first contact with the other ranks.
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

/// Waits for other ranks in a call. Queued work keeps its buffers, but nothing is queued yet: so
/// this checks afterwards that the program has freed none meanwhile.
pub(crate) fn waiting_with(
    touched: impl IntoIterator<Item = (*const u8, usize)>,
    wait: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let gone = |text| freed_before("the operation is complete", text);
    let mut held = hold(touched).map_err(gone)?;
    wait()?;
    held.iter_mut().try_for_each(HeldMemory::check).map_err(gone)
}

/// Records a collective on a captured stream: every execution of the graph issues it anew, with a
/// number of its own.
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

/// As [`capture::record_call`], for an operation of a rank.
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

/// Orders the operations of a rank one after the other, also in different streams.
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
