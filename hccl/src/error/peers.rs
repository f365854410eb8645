//! The states of the other ranks: the data behind errors that are about ranks.

use std::fmt::{self, Display, Formatter, Write as _};
use std::time::Duration;

use crate::dtype::{DType, ReduceKind};

/// Why the ranks of an operation, or of a communicator that was to be made, did not come together.
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
    /// A rank did not come within the time limit of the backend.
    Timeout,
    /// Every rank waits for another one.
    Deadlock,
    /// A rank has dropped the communicator, has failed, or has given up.
    Gone,
    /// A rank has aborted the communicator.
    Aborted,
}

/// The largest communicator of which ranks are reported: every rank of the process would hold the
/// list of all.
pub(crate) const MOST_RANKS: u32 = 1024;
/// The largest communicator in which a wait that goes on looks where the other ranks are.
pub(crate) const MOST_WATCHED: u32 = 256;

/// The states of the ranks of a communicator when an operation failed, or when a wait for it was
/// too long.
///
/// From [`OpContext::peers`](super::OpContext::peers). The emulator reports it for communicators of
/// up to 1,024 ranks; CANN reports nothing of the kind. For messages it names the ranks whose side
/// of the message is not there, and those that are gone.
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
/// /// The ranks that a restarted job has to do without.
/// fn lost(report: &PeerReport) -> Vec<u32> {
///     report.ranks_that_are(Presence::Gone)
/// }
/// // `error` comes from an all-reduce whose ranks gave different counts: all of them are there.
/// let report = error.peers().expect("the emulator reports");
/// assert_eq!((report.ranks.len(), lost(report)), (2, vec![]));
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerReport {
    /// Whether the communicator has failed, and can be used no more.
    pub failed: bool,
    /// Why the ranks will not come; `None` when they may.
    pub cause: Option<CommCause>,
    /// The number of the collective from which it is seen; 0 when there was none.
    pub sequence: u64,
    /// Every rank, in order.
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
    /// Whether it has come.
    pub presence: Presence,
    /// The number of the newest collective in which it was seen; 0 for none.
    pub sequence: u64,
    /// The call that it has made there.
    pub call: Option<PeerCall>,
    /// The reason why it is gone, the messages that it waits for, or its side of a disagreement.
    pub note: Box<str>,
    /// For a missing rank: the least time for which it has issued no collective. A wait looks where
    /// the others are when it has lasted a tenth of a second, in communicators of up to 256 ranks.
    pub quiet: Option<Duration>,
}

/// Whether a rank has come to an operation.
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
/// // `error` comes from an all-reduce whose ranks gave different counts: nobody is missing.
/// let report = error.peers().expect("the emulator reports");
/// assert!(report.ranks_that_are(Presence::Missing).is_empty());
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Presence {
    /// It has come, or has gone on from it.
    Arrived,
    /// It has not come, but may.
    Missing,
    /// It will not come.
    Gone,
    /// It has no part in it, or none that anybody waits for: messages have two sides.
    Apart,
}

/// A call of a rank: a collective with all that the ranks must agree on. For another call,
/// `operation` holds all of it.
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
    /// that is no collective, the words of the backend.
    pub operation: Box<str>,
    /// The type of the elements.
    pub dtype: Option<DType>,
    /// The number of elements; `None` where the ranks have tables of counts.
    pub count: Option<u64>,
    /// The reduction.
    pub reduction: Option<ReduceKind>,
    /// The root.
    pub root: Option<u32>,
}

/// One side of a mismatch: the call of these ranks.
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
    /// Returns the ranks in this state.
    pub fn ranks_that_are(&self, presence: Presence) -> Vec<u32> {
        let all = (0..).zip(&*self.ranks);
        all.filter(|(_, state)| state.presence == presence).map(|(rank, _)| rank).collect()
    }

    /// Whether a rank other than this one has not come.
    pub(super) fn lacks_others(&self, own: Option<u32>) -> bool {
        let mut others = (0..).zip(&*self.ranks).filter(|(rank, _)| Some(*rank) != own);
        others.any(|(_, state)| state.presence != Presence::Arrived)
    }

    /// Returns the number of the collective that the report is about: if the failure was in none,
    /// the newest in which any rank was seen.
    pub(super) fn number(&self) -> u64 {
        let newest = || self.ranks.iter().map(|state| state.sequence).max().unwrap_or_default();
        if self.sequence == 0 { newest() } else { self.sequence }
    }

    /// Returns the different calls of the ranks, each with the ranks that made it; a mismatch has
    /// more than one. Ranks that have not come, or have gone on, have none.
    ///
    /// For a mismatch that is not between calls of collectives, such as between messages, tables of
    /// counts or settings, it returns what each side said, in the words of the backend.
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

    /// The report for messages of a rank that wait for the `awaited` ranks.
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

    /// Returns the newest collective of each rank.
    pub(crate) fn newest(&self) -> Box<[u64]> {
        self.ranks.iter().map(|state| state.sequence).collect()
    }

    /// Compares with the newest collectives of an earlier time, `ago` before now.
    pub(crate) fn compare(&mut self, before: &[u64], ago: Duration) {
        for (state, before) in self.ranks.iter_mut().zip(before) {
            let is_quiet = state.presence == Presence::Missing && state.sequence == *before;
            state.quiet = is_quiet.then_some(ago);
        }
    }

    /// Both sides of a mismatch of collectives, if there are two: in one line when they fit.
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

    /// Returns in one line which ranks have come and which have not.
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

/// The most ranks that are listed, and the most that are listed with their calls.
const LISTED: usize = 32;
const SAID: usize = 8;
/// The width in characters beyond which a line is broken.
const WIDTH: usize = 100;

/// "0 1 2", or "none".
fn list(ranks: &[u32]) -> String {
    if ranks.is_empty() {
        return "none".into();
    }
    joined(ranks, " ")
}

/// "rank 2", or "ranks 0,1,3".
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
    /// A call that is no collective, from the backend's words.
    fn in_words(words: &str) -> Self {
        PeerCall { operation: words.into(), dtype: None, count: None, reduction: None, root: None }
    }
}

/// The call as a program writes it: `all_reduce(f16, 4096, sum)`.
impl Display for PeerCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // It is a function of CANN, or more than one word.
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
