//! The entries for the collectives whose blocks differ in size. Counts and displacements are arrays
//! on the host, which are read during the call.
//!
//! A call in which all counts are zero succeeds, and the rank does not meet the others, as for a
//! count of zero. In `HcclAlltoAllV`, however, other ranks may have counts above zero. So a rank
//! whose counts are all zero also arrives at the meeting.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::Handle;
use super::entries::{Hccl, entries};
use std::ffi::c_void;

use ascend_sys::{HcclDataType, HcclReduceOp, aclrtStream};

use super::hccl_entry::not_null;
use super::hccl_ops::some;
use crate::collective::call::CollectiveCall;
use crate::collective::request::{CollectiveRequest, Operation};
use crate::collective::table::{Extent, RECEIVES, SENDS, Table, fingerprint};
use crate::collective::validate;
use crate::fabric::Member;
use crate::fabric::registry::{IssueState, with_issue_state};
use crate::issue::submit::{begin, buffer, issue, issue_void_at};
use crate::message::{Failure, refuse};

entries! {
    Hccl;

    fn HcclAllGatherV(
        send: *mut c_void,
        count: u64,
        recv: *mut c_void,
        counts: *const c_void,
        displacements: *const c_void,
        dtype: HcclDataType,
        comm: Handle<Member>,
        stream: aclrtStream,
    ) {
        comm.required("comm")?;
        not_null(counts, "recvCounts")?;
        with_issue_state(comm.number(), |issue_state| {
            let (rank, ranks) = (issue_state.member.rank, issue_state.member.comm.ranks());
            // SAFETY: not null, so by the C contract it has one number for each rank.
            let print = unsafe { fingerprint(numbers(counts, ranks)) };
            if print == 0 {
                return issue_void_at(issue_state, Operation::AllGatherV, dtype, stream);
            }
            if count > 0 {
                not_null(send, "sendBuf")?;
            }
            not_null(recv, "recvBuf")?;
            not_null(displacements, "recvDispls")?;
            not_null(stream, "stream")?;
            let mut table = issue_state.member.take_table();
            // SAFETY: not null, so by the C contract it has one number for each rank.
            unsafe { table.push(numbers(counts, ranks), numbers(displacements, ranks)) };
            validate::count(count)?;
            check_counts(&table, SENDS)?;
            let dtype = validate::movement(issue_state.member.comm.product, dtype.0)?;
            own_count("sendCount", count, table.counts(SENDS), rank)?;
            validate::apart(send, recv)?;
            let request =
                CollectiveRequest { operation: Operation::AllGatherV, dtype, count: print };
            table.run = count as usize * dtype.size();
            table.extents = [Extent::dense(table.run), table.extent(SENDS, dtype)?];
            submit(issue_state, request, table, send, recv, stream)
        })
    }

    fn HcclReduceScatterV(
        send: *mut c_void,
        counts: *const c_void,
        displacements: *const c_void,
        recv: *mut c_void,
        count: u64,
        dtype: HcclDataType,
        op: HcclReduceOp,
        comm: Handle<Member>,
        stream: aclrtStream,
    ) {
        comm.required("comm")?;
        not_null(counts, "sendCounts")?;
        with_issue_state(comm.number(), |issue_state| {
            let (rank, ranks) = (issue_state.member.rank, issue_state.member.comm.ranks());
            // SAFETY: not null, so by the C contract it has one number for each rank.
            let print = unsafe { fingerprint(numbers(counts, ranks)) };
            if print == 0 {
                let operation = Operation::ReduceScatterV(some(op));
                return issue_void_at(issue_state, operation, dtype, stream);
            }
            not_null(send, "sendBuf")?;
            not_null(displacements, "sendDispls")?;
            if count > 0 {
                not_null(recv, "recvBuf")?;
            }
            not_null(stream, "stream")?;
            let mut table = issue_state.member.take_table();
            // SAFETY: not null, so by the C contract it has one number for each rank.
            unsafe { table.push(numbers(counts, ranks), numbers(displacements, ranks)) };
            validate::count(count)?;
            check_counts(&table, SENDS)?;
            let (dtype, op) =
                validate::reduction_v(issue_state.member.comm.product, dtype.0, op.0)?;
            own_count("recvCount", count, table.counts(SENDS), rank)?;
            validate::apart(send, recv)?;
            let request =
                CollectiveRequest { operation: Operation::ReduceScatterV(op), dtype, count: print };
            table.run = count as usize * dtype.size();
            table.extents = [table.extent(SENDS, dtype)?, Extent::dense(table.run)];
            submit(issue_state, request, table, send, recv, stream)
        })
    }

    fn HcclAlltoAllV(
        send: *const c_void,
        send_counts: *const c_void,
        send_displacements: *const c_void,
        send_type: HcclDataType,
        recv: *const c_void,
        recv_counts: *const c_void,
        recv_displacements: *const c_void,
        recv_type: HcclDataType,
        comm: Handle<Member>,
        stream: aclrtStream,
    ) {
        comm.required("comm")?;
        not_null(send_counts, "sendCounts")?;
        not_null(send_displacements, "sdispls")?;
        not_null(recv_counts, "recvCounts")?;
        not_null(recv_displacements, "rdispls")?;
        not_null(stream, "stream")?;
        with_issue_state(comm.number(), |issue_state| {
            let ranks = issue_state.member.comm.ranks();
            let mut table = issue_state.member.take_table();
            // SAFETY: not null, so by the C contract it has one number for each rank.
            unsafe {
                table.push(numbers(send_counts, ranks), numbers(send_displacements, ranks));
                table.push(numbers(recv_counts, ranks), numbers(recv_displacements, ranks));
            }
            // The counts differ between ranks, so they are not part of the request. Its count is 1,
            // because there may be elements.
            let (send, recv) = ((send, send_type), (recv, recv_type));
            all_to_all(issue_state, Operation::AlltoAllV, 1, table, send, recv, stream)
        })
    }

    fn HcclAlltoAllVC(
        send: *const c_void,
        matrix: *const c_void,
        send_type: HcclDataType,
        recv: *const c_void,
        recv_type: HcclDataType,
        comm: Handle<Member>,
        stream: aclrtStream,
    ) {
        comm.required("comm")?;
        not_null(matrix, "sendCountMatrix")?;
        not_null(stream, "stream")?;
        with_issue_state(comm.number(), |issue_state| {
            let (rank, ranks) = (issue_state.member.rank, issue_state.member.comm.ranks());
            let mut table = issue_state.member.take_table();
            // SAFETY: the pointer is not null, so by the C contract the array has one number for
            // each pair of ranks.
            table.push_matrix(rank, unsafe { numbers(matrix, ranks * ranks) });
            let print = fingerprint(table.common().iter().copied());
            if print == 0 {
                return issue_void_at(issue_state, Operation::AlltoAllVC, send_type, stream);
            }
            let (send, recv) = ((send, send_type), (recv, recv_type));
            all_to_all(issue_state, Operation::AlltoAllVC, print, table, send, recv, stream)
        })
    }
}

/// Returns the numbers of an array of the caller.
///
/// # Safety
///
/// By the C contract, `array` is an array of `length` numbers of 64 bits. It may have any
/// alignment.
unsafe fn numbers(array: *const c_void, length: usize) -> impl Iterator<Item = u64> + Clone {
    // SAFETY: the caller's promise.
    (0..length).map(move |at| unsafe { array.cast::<u64>().add(at).read_unaligned() })
}

/// Checks that all counts of one half of a table, its sends or its receives, are small enough.
fn check_counts(table: &Table, half: usize) -> Result<(), Failure> {
    table.counts(half).iter().try_for_each(|count| validate::count(*count))
}

/// Checks the buffers of an operation with a complete table, and puts the operation into the
/// stream.
fn submit(
    issue_state: &mut IssueState,
    request: CollectiveRequest,
    table: Box<Table>,
    send: *const c_void,
    recv: *const c_void,
    stream: aclrtStream,
) -> Result<(), Failure> {
    let stream = begin(issue_state, stream)?;
    let [sends, receives] = table.extents;
    let send = buffer(&issue_state.member, "sendBuf", send.cast_mut(), sends.end)?;
    let recv = buffer(&issue_state.member, "recvBuf", recv.cast_mut(), receives.end)?;
    issue(
        issue_state,
        stream,
        CollectiveCall { table: Some(table), ..CollectiveCall::new(request, send, recv) },
    )
}

/// Checks that the count that a rank passes for its own block is equal to that in the array of
/// counts.
fn own_count(argument: &str, count: u64, counts: &[u64], rank: usize) -> Result<(), Failure> {
    match counts.get(rank) {
        Some(listed) if *listed != count => refuse!(
            HCCL_E_PARA,
            "{argument} is {count}, but the counts have {listed} for this rank, which is rank \
             {rank}; pass the same count in both places"
        ),
        _ => Ok(()),
    }
}

/// Checks that a buffer is not null, unless all of its counts are zero.
fn buffer_of_counts(table: &Table, half: usize, buffer: *const c_void) -> Result<(), Failure> {
    if table.counts(half).iter().all(|count| *count == 0) {
        return Ok(());
    }
    not_null(buffer, if half == SENDS { "sendBuf" } else { "recvBuf" })
}

/// Checks and submits an all-to-all of either kind, after its arrays were read.
fn all_to_all(
    issue_state: &mut IssueState,
    operation: Operation,
    count: u64,
    mut table: Box<Table>,
    (send, send_type): (*const c_void, HcclDataType),
    (recv, recv_type): (*const c_void, HcclDataType),
    stream: aclrtStream,
) -> Result<(), Failure> {
    buffer_of_counts(&table, SENDS, send)?;
    buffer_of_counts(&table, RECEIVES, recv)?;
    check_counts(&table, SENDS)?;
    check_counts(&table, RECEIVES)?;
    let product = issue_state.member.comm.product;
    validate::movement(product, send_type.0)?;
    let dtype = validate::movement(product, recv_type.0)?;
    validate::same_type(send_type, recv_type)?;
    validate::apart(send, recv)?;
    table.extents = [table.extent(SENDS, dtype)?, table.extent(RECEIVES, dtype)?];
    table.run = table.extents[RECEIVES].bytes;
    // With a matrix no sums are needed: if the ranks pass different matrices, their fingerprints
    // differ.
    if operation == Operation::AlltoAllV {
        table.sum_up(issue_state.member.rank);
    }
    submit(issue_state, CollectiveRequest { operation, dtype, count }, table, send, recv, stream)
}

// The test uses device memory, which Miri cannot map.
#[cfg(all(test, not(loom), not(miri), debug_assertions))]
mod tests {
    use std::ptr::null_mut;
    use std::sync::Barrier;

    use ascend_sys::{
        ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, AscendExtBlockConfig, HcclRootInfo, aclrtMemMallocPolicy,
    };

    use super::*;

    /// Calls a function that must succeed.
    macro_rules! ok {
        ($table:ident.$name:ident($($argument:expr),*)) => {{
            let function = $table.$name.unwrap();
            #[allow(clippy::macro_metavars_in_unsafe, reason = "plain arguments")]
            // SAFETY: the arguments keep to the C contract.
            let code = unsafe { function($($argument),*) };
            assert_eq!(i64::from(code), 0, stringify!($name));
        }};
    }
    macro_rules! hccl {
        ($table:ident.$name:ident($($argument:expr),*)) => {{
            let function = $table.$name.unwrap();
            #[allow(clippy::macro_metavars_in_unsafe, reason = "plain arguments")]
            // SAFETY: the arguments keep to the C contract.
            let code = unsafe { function($($argument),*) };
            assert_eq!(code.0, 0, stringify!($name));
        }};
    }

    /// Uses a table that no call would accept. With overflow checks, the thread that works on its
    /// chunk panics.
    #[test]
    fn a_chunk_that_panics_fails_the_operation_on_every_rank() {
        let table = crate::table();
        let config = AscendExtBlockConfig {
            size: size_of::<AscendExtBlockConfig>() as u32,
            deviceCount: 2,
            product: 3,
            connectTimeoutMs: 0,
            execTimeoutMs: 0,
            check: 0,
            memoryBytes: 1 << 24,
            kernelSeed: 0,
            kernelLate: [0; 32],
        };
        let (mut block, mut first, mut info) = (0, 0, HcclRootInfo::default());
        ok!(table.ascendExtBlockCreate(&config, &mut block, &mut first));
        hccl!(table.HcclGetRootInfo(&mut info));
        let over = Barrier::new(2);
        let rank = |rank: u32| {
            let (mut stream, mut comm) = (null_mut(), null_mut());
            ok!(table.aclrtSetDevice(first + rank as i32));
            ok!(table.aclrtCreateStream(&mut stream));
            hccl!(table.HcclCommInitRootInfo(2, &info, rank, &mut comm));
            let [mut send, mut recv] = [null_mut(); 2];
            let policy = aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST;
            ok!(table.aclrtMalloc(&mut send, 512, policy));
            ok!(table.aclrtMalloc(&mut recv, 512, policy));
            let issued = with_issue_state(comm as u64, |issue_state| {
                let mut table = issue_state.member.take_table();
                table.push([64; 2].into_iter(), [0, 64].into_iter());
                table.push([64; 2].into_iter(), [u64::MAX / 2; 2].into_iter());
                table.extents = [Extent::dense(512); 2];
                table.run = 512;
                table.sum_up(issue_state.member.rank);
                let dtype = ascend_reduce::DataType::Int32;
                let request =
                    CollectiveRequest { operation: Operation::AlltoAllV, dtype, count: 1 };
                submit(issue_state, request, table, send, recv, stream)
            });
            // The rank that arrives last runs into the error inside this call, but the call still
            // succeeds.
            assert_eq!(issued, Ok(()));
            let synchronize = table.aclrtSynchronizeStream.unwrap();
            // SAFETY: a stream of this device.
            let code = unsafe { synchronize(stream) };
            assert_eq!(code, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
            // The stream continues to run tasks.
            let kind = ascend_sys::aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE;
            ok!(table.aclrtMemcpyAsync(recv, 512, send, 512, kind, stream));
            ok!(table.aclrtSynchronizeStream(stream));
            over.wait();
            hccl!(table.HcclCommDestroy(comm));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| rank(0));
            scope.spawn(|| rank(1));
        });
        ok!(table.ascendExtBlockDestroy(block));
    }
}
