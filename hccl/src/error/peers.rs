//! The states of the ranks of a communicator, as errors about ranks report them.

use std::fmt::{self, Display, Formatter, Write as _};
use std::time::Duration;

use crate::dtype::{DType, ReduceKind};

/// The reason why an operation of several ranks, or the making of a communicator, cannot complete.
///
/// ```
/// use hccl::error::CommCause;
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(2)?;
/// # let error = runtime.run_ranks(2, |rank| {
/// #     let stream = rank.device().stream()?;
/// #     let mut comm = rank.communicator()?;
/// #     let mut x = rank.device().zeros::<f32>(4 + rank.index() as usize, &stream)?;
/// #     comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()
/// # }).unwrap_err();
/// # let error = error.root_cause();
///
/// // `error` comes from an all-reduce whose ranks gave different counts.
/// let cause = error.peers().and_then(|report| report.cause);
/// assert_eq!(cause, Some(CommCause::Mismatch));
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CommCause {
    /// The ranks made different calls.
    Mismatch,
    /// A rank did not arrive within the time limit of the backend.
    Timeout,
    /// Every rank waits for another rank.
    Deadlock,
    /// A rank has dropped the communicator, has failed, or has given up.
    Gone,
    /// A rank has aborted the communicator.
    Aborted,
}

/// The number of ranks of the largest communicator for which the states of ranks are reported.
/// There is a limit because every rank of the process would hold the list of all ranks.
pub(crate) const MOST_RANKS: u32 = 1024;
/// The number of ranks of the largest communicator in which a long wait queries the states of the
/// other ranks.
pub(crate) const MOST_WATCHED: u32 = 256;

/// The states of the ranks of a communicator when an operation failed, when a wait for an operation
/// reached its limit, or when the communicator could not be made.
///
/// [`OpContext::peers`](super::OpContext::peers) has the report. The emulator makes it for
/// communicators of up to 1,024 ranks; CANN makes none. For messages, the report names the ranks
/// that have not issued their side of the message, and the ranks that are gone.
///
/// ```
/// use hccl::error::{PeerReport, Presence};
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(2)?;
/// # let error = runtime.run_ranks(2, |rank| {
/// #     let stream = rank.device().stream()?;
/// #     let mut comm = rank.communicator()?;
/// #     let mut x = rank.device().zeros::<f32>(4 + rank.index() as usize, &stream)?;
/// #     comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()
/// # }).unwrap_err();
/// # let error = error.root_cause();
///
/// /// Returns the ranks that a restarted job has to do without.
/// fn lost(report: &PeerReport) -> Vec<u32> {
///     report.ranks_that_are(Presence::Gone)
/// }
/// // `error` comes from an all-reduce whose ranks gave different counts: no rank is gone.
/// let report = error.peers().expect("the emulator reports");
/// assert_eq!((report.ranks.len(), lost(report)), (2, vec![]));
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerReport {
    /// Whether the communicator has failed, so that it cannot be used any more.
    pub failed: bool,
    /// The reason why the operation cannot complete; `None` if the missing ranks may still arrive.
    pub cause: Option<CommCause>,
    /// The number of the collective to which the states refer; 0 if there was none.
    pub sequence: u64,
    /// The state of every rank, in the order of the ranks. If a communicator could not be made,
    /// only the ranks that the backend knows are listed.
    pub ranks: Box<[PeerState]>,
}

/// The state of one rank.
///
/// ```
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(2)?;
/// # let error = runtime.run_ranks(2, |rank| {
/// #     let stream = rank.device().stream()?;
/// #     let mut comm = rank.communicator()?;
/// #     let mut x = rank.device().zeros::<f32>(4 + rank.index() as usize, &stream)?;
/// #     comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()
/// # }).unwrap_err();
/// # let error = error.root_cause();
/// // `error` comes from an all-reduce whose ranks gave different counts.
/// for (rank, state) in error.peers().expect("the emulator reports").ranks.iter().enumerate() {
///     println!("rank {rank}: {:?}, collective {}, {}", state.presence, state.sequence, state.note);
/// }
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerState {
    /// The presence of the rank at the operation.
    pub presence: Presence,
    /// The number of the newest collective in which the rank was seen; 0 for none.
    pub sequence: u64,
    /// The call that the rank made in that collective.
    pub call: Option<PeerCall>,
    /// The reason why the rank is gone, the messages for which it waits, or its side of a mismatch.
    /// It may be empty.
    pub note: Box<str>,
    /// The minimum time for which a missing rank has issued no collective. It is known only in
    /// communicators of up to 256 ranks. There a wait that has lasted a tenth of a second queries
    /// the states of the other ranks, and measures from that time on.
    pub quiet: Option<Duration>,
}

/// The presence of a rank at an operation.
///
/// ```
/// use hccl::error::Presence;
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(2)?;
/// # let error = runtime.run_ranks(2, |rank| {
/// #     let stream = rank.device().stream()?;
/// #     let mut comm = rank.communicator()?;
/// #     let mut x = rank.device().zeros::<f32>(4 + rank.index() as usize, &stream)?;
/// #     comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()
/// # }).unwrap_err();
/// # let error = error.root_cause();
///
/// // `error` comes from an all-reduce whose ranks gave different counts: no rank is missing.
/// let report = error.peers().expect("the emulator reports");
/// assert!(report.ranks_that_are(Presence::Missing).is_empty());
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Presence {
    /// The rank has arrived, or has already continued after the operation.
    Arrived,
    /// The rank has not arrived, but may still arrive.
    Missing,
    /// The rank will not arrive.
    Gone,
    /// The rank does not take part in the operation, or no other rank waits for it. This is for
    /// messages, in which only two ranks take part.
    Apart,
}

/// A call of a rank. For a collective it has all values on which the ranks must agree. For any
/// other call, `operation` holds the whole call as text.
///
/// ```
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(2)?;
/// # let error = runtime.run_ranks(2, |rank| {
/// #     let stream = rank.device().stream()?;
/// #     let mut comm = rank.communicator()?;
/// #     let mut x = rank.device().zeros::<f32>(4 + rank.index() as usize, &stream)?;
/// #     comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()
/// # }).unwrap_err();
/// # let error = error.root_cause();
/// // `error` comes from an all-reduce whose ranks gave different counts.
/// let calls: Vec<_> = error.claims().into_iter().map(|claim| claim.call).collect();
/// assert_eq!([calls[0].count, calls[1].count], [Some(4), Some(5)]);
/// assert_eq!(&*calls[0].operation, "all_reduce");
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerCall {
    /// The method of [`Communicator`](crate::Communicator), for example `all_reduce`. For a call
    /// that is not a collective, it is the text of the backend.
    pub operation: Box<str>,
    /// The type of the elements.
    pub dtype: Option<DType>,
    /// The number of elements; `None` if the ranks have tables of counts.
    pub count: Option<u64>,
    /// The reduction.
    pub reduction: Option<ReduceKind>,
    /// The root.
    pub root: Option<u32>,
}

/// One side of a mismatch: a call, and the ranks that made it.
///
/// ```
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(2)?;
/// # let error = runtime.run_ranks(2, |rank| {
/// #     let stream = rank.device().stream()?;
/// #     let mut comm = rank.communicator()?;
/// #     let mut x = rank.device().zeros::<f32>(4 + rank.index() as usize, &stream)?;
/// #     comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()
/// # }).unwrap_err();
/// # let error = error.root_cause();
/// // `error` comes from an all-reduce whose ranks gave different counts.
/// for claim in error.claims() {
///     println!("ranks {:?} called {} of {:?}", claim.ranks, claim.call.operation, claim.call.count);
/// }
/// # assert_eq!(error.claims().len(), 2);
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The ranks that made the call.
    pub ranks: Vec<u32>,
    /// The call.
    pub call: PeerCall,
}

impl PeerReport {
    /// Returns the ranks that have this presence.
    pub fn ranks_that_are(&self, presence: Presence) -> Vec<u32> {
        let all = (0..).zip(&*self.ranks);
        all.filter(|(_, state)| state.presence == presence).map(|(rank, _)| rank).collect()
    }

    /// Returns whether a rank other than `own` has not arrived.
    pub(super) fn lacks_others(&self, own: Option<u32>) -> bool {
        let mut others = (0..).zip(&*self.ranks).filter(|(rank, _)| Some(*rank) != own);
        others.any(|(_, state)| state.presence != Presence::Arrived)
    }

    /// Returns the number of the collective that the report is about. If the failure was
    /// not in a collective, returns the number of the newest collective in which any rank was seen.
    pub(super) fn number(&self) -> u64 {
        let newest = || self.ranks.iter().map(|state| state.sequence).max().unwrap_or_default();
        if self.sequence == 0 { newest() } else { self.sequence }
    }

    /// Returns the different calls of the ranks, each with the ranks that made it. A mismatch has
    /// more than one call. A rank has no call if it has not arrived, or has already continued.
    ///
    /// A mismatch may also be between messages, tables of counts or settings instead of calls of
    /// collectives. Then each call has the text in which the backend describes that side.
    pub fn claims(&self) -> Vec<Claim> {
        let claims = self.claims_of(|state| self.call_at(state).cloned());
        if claims.len() > 1 || self.cause != Some(CommCause::Mismatch) {
            return claims;
        }
        let said = self.claims_of(|state| match &*state.note {
            "" => None,
            _ if state.presence == Presence::Gone => None,
            note => Some(PeerCall::in_words(note)),
        });
        if said.len() > 1 { said } else { claims }
    }

    fn claims_of(&self, call: impl Fn(&PeerState) -> Option<PeerCall>) -> Vec<Claim> {
        let mut claims: Vec<Claim> = Vec::new();
        for (rank, state) in (0..).zip(&*self.ranks) {
            let Some(call) = call(state) else { continue };
            match claims.iter_mut().find(|claim| claim.call == call) {
                Some(claim) => claim.ranks.push(rank),
                None => claims.push(Claim { ranks: vec![rank], call }),
            }
        }
        claims
    }

    /// Returns the call of a rank in the collective that the report is about.
    fn call_at<'a>(&self, state: &'a PeerState) -> Option<&'a PeerCall> {
        state.call.as_ref().filter(|_| state.sequence == self.number())
    }

    /// Returns the report for messages of rank `own` that wait for the ranks in `awaited`.
    pub(crate) fn of_messages(own: u32, world_size: u32, awaited: &[u32]) -> Self {
        let state = |rank| {
            let presence = match rank {
                _ if awaited.contains(&rank) => Presence::Missing,
                _ if rank == own => Presence::Arrived,
                _ => Presence::Apart,
            };
            PeerState { presence, sequence: 0, call: None, note: Box::default(), quiet: None }
        };
        let ranks = (0..world_size).map(state).collect();
        PeerReport { failed: false, cause: None, sequence: 0, ranks }
    }

    /// Returns the number of the newest collective of each rank.
    pub(crate) fn newest(&self) -> Box<[u64]> {
        self.ranks.iter().map(|state| state.sequence).collect()
    }

    /// Sets the quiet time of each missing rank that is still in the same collective as at an
    /// earlier time. That time was `ago` before now, and `before` has the collectives of that time.
    pub(crate) fn compare(&mut self, before: &[u64], ago: Duration) {
        for (state, before) in self.ranks.iter_mut().zip(before) {
            let is_quiet = state.presence == Presence::Missing && state.sequence == *before;
            state.quiet = is_quiet.then_some(ago);
        }
    }

    /// Returns the text of both sides of a mismatch of collectives, or `None` if there are fewer
    /// than two sides. The text is one line if it fits.
    pub(super) fn sides(&self) -> Option<String> {
        let claims = self.claims_of(|state| self.call_at(state).cloned());
        if claims.len() < 2 {
            return None;
        }
        let mut sides: Vec<String> = claims.iter().map(Claim::to_string).collect();
        let is_noted = |state: &PeerState| self.call_at(state).is_none() && !state.note.is_empty();
        let noted = self.ranks.iter().zip(0u32..).filter(|(state, _)| is_noted(state));
        sides.extend(noted.map(|(state, rank)| format!("rank {rank}: {}", state.note)));
        let mut silent = self.ranks_that_are(Presence::Missing);
        silent.retain(|rank| self.ranks[*rank as usize].note.is_empty());
        if !silent.is_empty() {
            sides.push(format!("{}: nothing yet", named(&silent)));
        }
        let line = sides.join("     ");
        Some(if line.len() <= WIDTH { line } else { sides.join("\n  ") })
    }

    /// Returns a line that lists the ranks that have arrived, are missing, or are gone.
    pub(super) fn attendance(&self) -> String {
        let mut line = format!("arrived: {}", list(&self.ranks_that_are(Presence::Arrived)));
        for (presence, word) in [(Presence::Missing, "missing"), (Presence::Gone, "gone")] {
            let ranks = self.ranks_that_are(presence);
            if ranks.is_empty() {
                continue;
            }
            let _ = write!(line, "    {word}: ");
            let said = ranks.iter().take(SAID).map(|rank| self.said(*rank));
            line += &said.collect::<Vec<_>>().join(", ");
            if let more @ 1.. = ranks.len().saturating_sub(SAID) {
                let _ = write!(line, " and {more} more");
            }
        }
        line
    }

    /// Returns a rank with its note and the newest collective in which it was seen.
    fn said(&self, rank: u32) -> String {
        let Some(state) = self.ranks.get(rank as usize) else { return rank.to_string() };
        let seen = match &state.call {
            None if self.sequence == 0 => return rank.to_string(),
            Some(call) => {
                let ago =
                    state.quiet.map(|ago| format!(", {:.1} s ago or more", ago.as_secs_f64()));
                let ago = ago.unwrap_or_default();
                format!("last seen in {} #{}{ago}", call.operation, state.sequence)
            }
            None => "not seen yet".into(),
        };
        match &*state.note {
            "" => format!("{rank} ({seen})"),
            note => format!("{rank} ({note}; {seen})"),
        }
    }
}

/// The largest number of ranks that are listed.
const LISTED: usize = 32;
/// The largest number of ranks that are listed with their calls.
const SAID: usize = 8;
/// The width in characters beyond which a line is broken.
const WIDTH: usize = 100;

/// Returns a list of ranks as text: "0 1 2", or "none".
fn list(ranks: &[u32]) -> String {
    if ranks.is_empty() {
        return "none".into();
    }
    joined(ranks, " ")
}

/// Returns ranks with their noun as text: "rank 2", or "ranks 0,1,3".
fn named(ranks: &[u32]) -> String {
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", joined(ranks, ","))
}

fn joined(ranks: &[u32], separator: &str) -> String {
    let listed: Vec<String> = ranks.iter().take(LISTED).map(u32::to_string).collect();
    let listed = listed.join(separator);
    match ranks.len().saturating_sub(LISTED) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

impl Display for Claim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", named(&self.ranks), self.call)
    }
}

impl PeerCall {
    /// Returns a call that is not a collective, with the text of the backend.
    fn in_words(words: &str) -> Self {
        PeerCall { operation: words.into(), dtype: None, count: None, reduction: None, root: None }
    }
}

/// Writes the call as in a program: `all_reduce(f16, 4096, sum)`.
impl Display for PeerCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // The operation is a function of CANN, or a whole call as text.
        if !self.operation.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
            return f.write_str(&self.operation);
        }
        let mut arguments = Vec::new();
        arguments.extend(self.dtype.map(|dtype| dtype.to_string()));
        arguments.extend(self.count.map(|count| count.to_string()));
        arguments.extend(self.reduction.map(|reduction| reduction.to_string()));
        arguments.extend(self.root.map(|root| format!("root {root}")));
        write!(f, "{}({})", self.operation, arguments.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: &str, count: u64, reduction: Option<ReduceKind>) -> PeerCall {
        let dtype = Some(DType::F16);
        PeerCall { operation: operation.into(), dtype, count: Some(count), reduction, root: None }
    }

    fn state(presence: Presence, sequence: u64, call: PeerCall) -> PeerState {
        PeerState { presence, sequence, call: Some(call), note: Box::default(), quiet: None }
    }

    #[test]
    fn both_sides_of_a_mismatch_stand_in_one_line() {
        let sum = || state(Presence::Arrived, 42, call("all_reduce", 4096, Some(ReduceKind::Sum)));
        let other = state(Presence::Arrived, 42, call("all_gather", 4096, None));
        let ranks = [sum(), sum(), other, sum()].into();
        let cause = Some(CommCause::Mismatch);
        let report = PeerReport { failed: true, cause, sequence: 42, ranks };
        let line = "ranks 0,1,3: all_reduce(f16, 4096, sum)     rank 2: all_gather(f16, 4096)";
        assert_eq!(report.sides().as_deref(), Some(line));
    }

    #[test]
    fn who_is_missing_is_named_with_what_it_did_last() {
        let here = || state(Presence::Arrived, 17, call("all_reduce", 1, None));
        let away = state(Presence::Missing, 16, call("broadcast", 1, None));
        let ranks = [here(), here(), away, here()].into();
        let report = PeerReport { failed: false, cause: None, sequence: 17, ranks };
        assert_eq!(
            report.attendance(),
            "arrived: 0 1 3    missing: 2 (last seen in broadcast #16)"
        );
        let mut report = report;
        report.compare(&[17, 16, 16, 17], Duration::from_millis(5_240));
        assert_eq!(
            report.attendance(),
            "arrived: 0 1 3    missing: 2 (last seen in broadcast #16, 5.2 s ago or more)"
        );
        report.compare(&[17, 17, 15, 17], Duration::from_secs(5));
        assert!(report.ranks.iter().all(|state| state.quiet.is_none()), "it was at #15 then");
        assert_eq!(report.claims().len(), 1);
        assert_eq!(report.ranks_that_are(Presence::Missing), [2]);
    }
}
