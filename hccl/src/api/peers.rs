//! Queries of the backend for the states of the ranks of a communicator, which errors report.

use std::ffi::{CStr, c_char};

use ascend_sys::{AscendExtCommCause, AscendExtPresence, AscendExtRank, HcclComm, HcclResult};

use super::{Table, words};
use crate::dtype::{DType, ReduceKind};
use crate::error::peers::{CommCause, MOST_RANKS, PeerCall, PeerReport, PeerState, Presence};

/// The length of the array for the backend's text about a rank, in bytes.
const ROOM: usize = 512;

/// The source of the states of the ranks of one communicator. The handle may be stale; then the
/// source returns no states.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PeerSource {
    comm: usize,
    failure:
        Option<unsafe extern "C" fn(HcclComm, *mut AscendExtCommCause, *mut u64) -> HcclResult>,
    /// The function that reads the message of the last error, and thereby clears it.
    message: Option<unsafe extern "C" fn() -> *const c_char>,
    rank: Option<
        unsafe extern "C" fn(
            HcclComm,
            u64,
            u32,
            *mut AscendExtRank,
            *mut c_char,
            usize,
        ) -> HcclResult,
    >,
}

impl Table {
    /// Returns the source of the states of the ranks of a communicator.
    pub(crate) fn peers_of(&self, comm: HcclComm) -> PeerSource {
        let functions = self.functions();
        PeerSource {
            comm: comm.addr(),
            failure: functions.ascendExtCommFailure,
            message: functions.aclGetRecentErrMsg,
            rank: functions.ascendExtCommRank,
        }
    }
}

impl Table {
    /// Returns the states of the ranks with which the calling thread has just failed to make a
    /// communicator or a channel. Returns `None` if the backend does not report them.
    pub(crate) fn peers_of_attempt(&self) -> Option<PeerReport> {
        let source = self.peers_of(std::ptr::null_mut());
        let (cause, sequence) = source.cause()?;
        // Only the known ranks are listed, because the ranks may disagree about their number.
        let ranks: Box<[PeerState]> =
            (0..MOST_RANKS).map_while(|rank| source.rank(0, rank)).collect();
        let report = PeerReport { failed: false, cause: Some(cause), sequence, ranks };
        (!report.ranks.is_empty()).then_some(report)
    }
}

impl PeerSource {
    /// Notifies the other ranks that this rank issues no more operations, if the backend has an
    /// entry for it.
    pub(crate) fn leave(&self, table: &Table, reason: &CStr) {
        table.leave(self.raw(), reason);
    }

    /// Returns the states that the ranks had when the communicator failed. Returns `None` if it has
    /// not failed or has more than [`MOST_RANKS`] ranks, or if the backend cannot report the
    /// states.
    pub(crate) fn failure(&self, world_size: u32) -> Option<PeerReport> {
        if world_size > MOST_RANKS {
            return None;
        }
        let (cause, sequence) = self.cause()?;
        let ranks = self.ranks(0, world_size)?;
        Some(PeerReport { failed: true, cause: Some(cause), sequence, ranks })
    }

    /// Returns the cause of the communicator's failure, and the number of the collective that
    /// failed. Returns `None` if the communicator has not failed, or if the backend cannot report
    /// the cause.
    fn cause(&self) -> Option<(CommCause, u64)> {
        let function = self.failure?;
        let mut cause = AscendExtCommCause::ASCEND_EXT_COMM_WELL;
        let mut sequence = 0;
        // SAFETY: a stale handle is an error; the out parameters are live locals.
        let code = unsafe { function(self.raw(), &mut cause, &mut sequence) };
        let cause = match cause {
            _ if code != HcclResult::HCCL_SUCCESS => return self.nothing(),
            AscendExtCommCause::ASCEND_EXT_COMM_MISMATCH => CommCause::Mismatch,
            AscendExtCommCause::ASCEND_EXT_COMM_TIMEOUT => CommCause::Timeout,
            AscendExtCommCause::ASCEND_EXT_COMM_DEADLOCK => CommCause::Deadlock,
            AscendExtCommCause::ASCEND_EXT_COMM_GONE => CommCause::Gone,
            AscendExtCommCause::ASCEND_EXT_COMM_ABORTED => CommCause::Aborted,
            _ => return None,
        };
        Some((cause, sequence))
    }

    /// Returns the present states of the ranks, relative to the collective with number `sequence`.
    /// If this rank (`own`) is still in an earlier collective, they are relative to that
    /// collective. Returns `None` if `sequence` is 0, if there are more than [`MOST_RANKS`] ranks,
    /// or if the backend cannot report the states.
    pub(crate) fn now(&self, sequence: u64, own: u32, world_size: u32) -> Option<PeerReport> {
        if sequence == 0 || world_size > MOST_RANKS {
            return None;
        }
        let sequence = match self.rank(sequence, own)?.sequence {
            0 => sequence,
            seen => seen.min(sequence),
        };
        let ranks = self.ranks(sequence, world_size)?;
        Some(PeerReport { failed: false, cause: None, sequence, ranks })
    }

    fn ranks(&self, number: u64, world_size: u32) -> Option<Box<[PeerState]>> {
        (0..world_size).map(|rank| self.rank(number, rank)).collect()
    }

    fn rank(&self, number: u64, rank: u32) -> Option<PeerState> {
        let function = self.rank?;
        let mut state = AscendExtRank::default();
        let mut text = [0 as c_char; ROOM];
        // SAFETY: a stale handle is an error; the out parameters are live locals, and the length is
        // that of the array.
        let code = unsafe {
            function(self.raw(), number, rank, &mut state, text.as_mut_ptr(), text.len())
        };
        if code != HcclResult::HCCL_SUCCESS || state.size as usize != size_of::<AscendExtRank>() {
            return self.nothing();
        }
        let presence = match state.presence {
            AscendExtPresence::ASCEND_EXT_PRESENCE_ARRIVED => Presence::Arrived,
            AscendExtPresence::ASCEND_EXT_PRESENCE_GONE => Presence::Gone,
            AscendExtPresence::ASCEND_EXT_PRESENCE_APART => Presence::Apart,
            _ => Presence::Missing,
        };
        Some(PeerState {
            presence,
            sequence: state.number,
            call: call_of(&state),
            note: words(&text),
            quiet: None,
        })
    }

    /// Returns `None`, and clears the backend's message about the failed query. That message must
    /// not appear in the text of a later error.
    fn nothing<T>(&self) -> Option<T> {
        if let Some(message) = self.message {
            // SAFETY: the function takes no arguments, and the text is not read.
            let _ = unsafe { message() };
        }
        None
    }

    fn raw(&self) -> HcclComm {
        std::ptr::without_provenance_mut(self.comm)
    }
}

/// The names of the collectives: the method of this crate, and the function of CANN.
const COLLECTIVES: [(&str, &str); 12] = [
    ("all_reduce", "HcclAllReduce"),
    ("broadcast", "HcclBroadcast"),
    ("reduce", "HcclReduce"),
    ("all_gather", "HcclAllGather"),
    ("all_gather_v", "HcclAllGatherV"),
    ("reduce_scatter", "HcclReduceScatter"),
    ("reduce_scatter_v", "HcclReduceScatterV"),
    ("scatter", "HcclScatter"),
    ("all_to_all", "HcclAlltoAll"),
    ("all_to_all_v", "HcclAlltoAllV"),
    ("all_to_all_vc", "HcclAlltoAllVC"),
    ("barrier", "HcclBarrier"),
];

/// Returns whether an operation is a collective, for which the backend reports the states of the
/// ranks.
pub(crate) fn is_collective(operation: &str) -> bool {
    COLLECTIVES.iter().any(|(name, _)| *name == operation)
}

fn call_of(state: &AscendExtRank) -> Option<PeerCall> {
    let function = words(&state.function);
    if function.is_empty() {
        return None;
    }
    let known = COLLECTIVES.iter().find(|(_, name)| *name == &*function);
    let operation = known.map_or(function, |(operation, _)| (*operation).into());
    let dtype =
        DType::ALL.iter().find(|dtype| i64::from(dtype.code()) == i64::from(state.dataType));
    let reduction = ReduceKind::ALL.iter().find(|op| i64::from(op.code()) == i64::from(state.op));
    Some(PeerCall {
        operation,
        dtype: dtype.copied(),
        count: (state.count != u64::MAX).then_some(state.count),
        reduction: reduction.copied(),
        root: state.root.try_into().ok(),
    })
}
