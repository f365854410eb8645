//! The data that a turn of a task moves. This module applies the address rules of the client. It
//! makes a collective of each turn, like the collectives that the host calls.
//!
//! Turn `t` is the same collective on buffers that begin `t` counts later. If the blocks are a
//! stride apart instead of adjacent, the collective is an operation with displacements.

use super::work::{PreparedWork, WorkKind};
use crate::collective::call::CollectiveCall;
use crate::collective::request::{CollectiveRequest, Operation};
use crate::collective::table::{Extent, RECEIVES, SENDS, Table};
use crate::fabric::Member;
use ascend_timeline::Moved;

/// Returns the call of a rank for one turn, or for one step of a fine-grained task.
pub(super) fn call(work: &mut TaskTurn<'_>, number: u32) -> Result<CollectiveCall, String> {
    let TaskTurn { work, member } = work;
    let (rank, ranks) = (member.rank, member.comm.ranks());
    match work.kind {
        WorkKind::AlltoAllV => return all_to_all_v(work, member, number),
        // The ranks first meet in a barrier, then each writes.
        WorkKind::AlltoAllvWrite => {
            return Ok(CollectiveCall::new(
                CollectiveRequest::BARRIER,
                std::ptr::null(),
                std::ptr::null_mut(),
            ));
        }
        _ => {}
    }
    let PreparedWork { count, stride, .. } = **work;
    let size = work.dtype.size() as u64;
    let stride = if stride == 0 { count } else { stride };
    let shift = u64::from(number)
        .checked_mul(count)
        .and_then(|elements| elements.checked_mul(size))
        .ok_or_else(|| beyond(work))?;
    let dense = stride == count;
    if !dense && stride < count {
        return Err(format!(
            "{}: the stride {stride} is smaller than the count {count}, so blocks would overlap; \
             pass a stride of 0 or of at least the count",
            work.describe()
        ));
    }
    let operation = match (work.kind, dense) {
        // Only an operation with separate counts for each pair can leave out a block.
        (WorkKind::AllGather | WorkKind::AlltoAll, _) if work.skips_own => Operation::AlltoAllV,
        (WorkKind::AllReduce(op), _) => Operation::AllReduce(op),
        (WorkKind::AllGather, true) => Operation::AllGather,
        (WorkKind::AllGather, false) => Operation::AllGatherV,
        (WorkKind::ReduceScatter(op), true) => Operation::ReduceScatter(op),
        (WorkKind::ReduceScatter(op), false) => Operation::ReduceScatterV(op),
        (WorkKind::AlltoAll, true) => Operation::AlltoAll,
        (WorkKind::AlltoAll | WorkKind::AlltoAllV | WorkKind::AlltoAllvWrite, _) => {
            Operation::AlltoAllV
        }
    };
    let request = CollectiveRequest { operation, dtype: work.dtype, count };
    if count == 0 {
        return Ok(CollectiveCall::new(request, std::ptr::null(), std::ptr::null_mut()));
    }
    let table = (operation.has_table()).then(|| {
        let mut table = member.take_table();
        let blocks = || (0..ranks as u64).map(|rank| rank.saturating_mul(stride));
        let skipped = work.skips_own.then_some(rank);
        let counts = || (0..ranks).map(|block| if skipped == Some(block) { 0 } else { count });
        if work.kind == WorkKind::AllGather && operation == Operation::AlltoAllV {
            // All ranks receive the same block.
            table.push(counts(), (0..ranks).map(|_| 0));
        } else {
            table.push(counts(), blocks());
        }
        if operation == Operation::AlltoAllV {
            table.push(counts(), blocks());
        }
        table
    });
    let (extents, table) = match table {
        None => {
            // Checks that the sizes fit into memory, before they are multiplied below.
            count
                .checked_mul(size)
                .and_then(|bytes| bytes.checked_mul(ranks as u64))
                .filter(|bytes| *bytes <= isize::MAX as u64)
                .ok_or_else(|| beyond(work))?;
            let (sends, receives) = request.sizes(rank, ranks);
            ([sends as u64, receives as u64], None)
        }
        Some(table) => {
            let table = measure(table, operation, count, work, rank)?;
            (table.extents.map(|extent| extent.end as u64), Some(table))
        }
    };
    work.is_own_memory()?;
    let send = work.send.clone().at(shift, extents[0]).map_err(|text| said(work, number, text))?;
    let recv = match &work.recv {
        Some(recv) => {
            recv.clone().at(shift, extents[1]).map_err(|text| said(work, number, text))?
        }
        None => std::ptr::null_mut(),
    };
    Ok(CollectiveCall { table, ..CollectiveCall::new(request, send, recv) })
}

/// Returns the data that a rank receives from each other rank in a turn or a step.
pub(super) fn received(work: &PreparedWork, member: &Member, number: u32) -> Vec<Moved> {
    let (rank, ranks) = (member.rank, member.comm.ranks());
    let elements = |from: usize| match (work.kind, work.steps) {
        (WorkKind::AlltoAllV, Some(_)) if (from + number as usize) % ranks != rank => 0,
        (WorkKind::AlltoAllV, _) => work.lists[2].get(from).copied().unwrap_or(0),
        // This rank cannot know the number of bytes that other ranks write.
        (WorkKind::AlltoAllvWrite, _) => 0,
        _ => work.count,
    };
    let size = work.dtype.size() as u64;
    let moved = |from| Moved { from, to: rank, bytes: elements(from).saturating_mul(size) };
    (0..ranks).filter(|from| *from != rank).map(moved).filter(|moved| moved.bytes > 0).collect()
}

/// A task, and the rank that has reached it.
pub(super) struct TaskTurn<'a> {
    pub(super) work: &'a PreparedWork,
    pub(super) member: &'a Member,
}

fn said(work: &PreparedWork, number: u32, text: String) -> String {
    format!("{}, turn {}: {text}", work.describe(), number + 1)
}

fn beyond(work: &PreparedWork) -> String {
    format!("{}: counts and strides reach beyond any memory; pass smaller ones", work.describe())
}

/// Computes and stores the extents and the run of a table.
fn measure(
    mut table: Box<Table>,
    operation: Operation,
    count: u64,
    work: &PreparedWork,
    rank: usize,
) -> Result<Box<Table>, String> {
    let extent = |half| table.extent(half, work.dtype).map_err(|_| beyond(work));
    let own = || {
        let bytes = count.checked_mul(work.dtype.size() as u64);
        bytes.filter(|bytes| *bytes <= isize::MAX as u64).ok_or_else(|| beyond(work))
    };
    match operation {
        Operation::AllGatherV => {
            let run = own()? as usize;
            table.extents = [Extent::dense(run), extent(SENDS)?];
            table.run = run;
        }
        Operation::ReduceScatterV(_) => {
            let run = own()? as usize;
            table.extents = [extent(SENDS)?, Extent::dense(run)];
            table.run = run;
        }
        _ => {
            table.extents = [extent(SENDS)?, extent(RECEIVES)?];
            table.run = table.extents[RECEIVES].bytes;
            table.sum_up(rank);
        }
    }
    Ok(table)
}

/// Returns the call for a turn of an AlltoAllV, or for a step of one. In step `s` a rank sends to
/// the rank whose number is higher by `s`, modulo the number of ranks.
fn all_to_all_v(
    work: &PreparedWork,
    member: &Member,
    number: u32,
) -> Result<CollectiveCall, String> {
    let (rank, ranks) = (member.rank, member.comm.ranks());
    let (turn, partners) = match work.steps {
        None => (u64::from(number), None),
        Some(_) => {
            let (turn, step) = (number / work.ranks, number as usize % ranks);
            (u64::from(turn), Some(((rank + step) % ranks, (rank + ranks - step) % ranks)))
        }
    };
    let [send_counts, send_displs, recv_counts, recv_displs] = &work.lists;
    let shifted = |counts: &[u64], displs: &[u64]| -> Vec<u64> {
        let at = |(count, displ): (&u64, &u64)| displ.saturating_add(turn.saturating_mul(*count));
        counts.iter().zip(displs).map(at).collect()
    };
    let only = |counts: &[u64], partner: Option<usize>| -> Vec<u64> {
        let of = |(peer, count): (usize, &u64)| match partner {
            Some(partner) if partner != peer => 0,
            _ => *count,
        };
        counts.iter().enumerate().map(of).collect()
    };
    let mut table = member.take_table();
    table.push(
        only(send_counts, partners.map(|(to, _)| to)).into_iter(),
        shifted(send_counts, send_displs).into_iter(),
    );
    table.push(
        only(recv_counts, partners.map(|(_, from)| from)).into_iter(),
        shifted(recv_counts, recv_displs).into_iter(),
    );
    let table = measure(table, Operation::AlltoAllV, 0, work, rank)?;
    let request =
        CollectiveRequest { operation: Operation::AlltoAllV, dtype: work.dtype, count: 1 };
    work.is_own_memory()?;
    let mut pointers = [std::ptr::null_mut(); 2];
    for (half, spot) in [Some(&work.send), work.recv.as_ref()].into_iter().enumerate() {
        let bytes = table.extents[half].end as u64;
        if let Some(spot) = spot
            && bytes > 0
        {
            pointers[half] = spot.clone().at(0, bytes).map_err(|text| said(work, number, text))?;
        }
    }
    Ok(CollectiveCall {
        table: Some(table),
        ..CollectiveCall::new(request, pointers[0], pointers[1])
    })
}
