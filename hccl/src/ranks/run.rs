//! The state that the ranks of a run share if they are threads: their meetings, the ranks that have
//! left, and the rank that failed first.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hccl_job::JobError;

use crate::comm::RootInfo;
use crate::device::Device;
use crate::error::rank::{Cause, Panic, RankError};
use crate::error::{Error, Result};
use crate::order::patience::{Watch, alarm};

/// Runs code of the program (a closure, a conversion, a `Display`, a drop), and returns its panic
/// as an error.
///
/// A panic may leave data in an inconsistent state: here, the data that the closure of a rank has
/// borrowed. Nothing in this module uses this data. The caller of the run gets the panic as an
/// error, and must assume that the data is inconsistent.
pub(super) fn caught<R>(code: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(code)).map_err(Panic::new)
}

/// Returns the text of an error of the program. If the `Display` of the error panics, the text says
/// so.
pub(super) fn text_of(cause: &Cause) -> Arc<str> {
    caught(|| cause.to_string())
        .unwrap_or_else(|panic| format!("an error whose text is not available: {panic}"))
        .into()
}

/// One rank's place in a run.
pub(super) struct RankSlot {
    pub(super) run: Arc<RankRun>,
    pub(super) index: u32,
    /// The number of meetings that the rank has joined.
    pub(super) made: Mutex<usize>,
}

impl Watch for RankSlot {
    /// Returns the first failure of the run, if another rank has failed first.
    fn failure(&self) -> Option<Error> {
        self.run.has_failed.load(Ordering::Acquire).then(|| self.run.failure(self.index)).flatten()
    }
}

/// The state that the ranks of a run share.
pub(super) struct RankRun {
    pub(super) ranks: u32,
    /// Whether a rank has failed. Waits read it without the lock. It is set after `first`, so a
    /// wait that reads true also finds the failure.
    has_failed: AtomicBool,
    state: Mutex<RunState>,
}

pub(super) struct RunState {
    pub(super) first: Option<RankError>,
    /// The meetings by number, one for each communicator of the run. Meetings that are over are
    /// removed when the next meeting is opened.
    meetings: BTreeMap<usize, Meeting>,
    /// The number of meetings so far.
    opened: usize,
    /// For each rank, the reason why it has left, or `None` if it has not left.
    left: Vec<Option<&'static str>>,
}

struct Meeting {
    root_info: RootInfo,
    /// For each rank that has joined, a guard that its communicator keeps alive.
    members: Vec<Option<Weak<()>>>,
}

impl Meeting {
    /// Returns whether all ranks have joined and have dropped their communicators, so that no rank
    /// is left to notify.
    fn is_over(&self) -> bool {
        self.members.iter().all(|member| member.as_ref().is_some_and(has_gone))
    }
}

fn has_gone(member: &Weak<()>) -> bool {
    member.strong_count() == 0
}

impl RankRun {
    pub(super) fn new(ranks: u32) -> Self {
        let left = vec![None; ranks as usize];
        let state = RunState { first: None, meetings: BTreeMap::new(), opened: 0, left };
        RankRun { ranks, has_failed: AtomicBool::new(false), state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the meeting for the next communicator of `rank`. Returns the root info and the number
    /// of the meeting. The first rank that joins opens the meeting. Returns an error if another
    /// rank has failed, or has left before it could join a meeting that this rank opens.
    ///
    /// Only this function changes `made`, and only if it succeeds. So `made` is never more than the
    /// number of meetings, even if a call fails.
    pub(super) fn meeting(
        &self,
        made: &mut usize,
        rank: u32,
        device: &Device,
        member: Weak<()>,
    ) -> Result<(RootInfo, usize)> {
        let mut state = self.lock();
        if let Some(error) = failure_of(&state, rank) {
            return Err(error);
        }
        let number = *made;
        if number >= state.opened {
            // A rank that has left does not join the new meeting, so the caller gets an error here.
            // If a rank leaves later, `leave` notifies the caller.
            if let Some((rank, Some(reason))) =
                (0..).zip(state.left.iter().copied()).find(|(_, left)| left.is_some())
            {
                return Err(Error::RankGone { rank, reason: reason.into() });
            }
            let root_info = RootInfo::of_this_process(device)?;
            let mut members = vec![None; self.ranks as usize];
            members[rank as usize] = Some(member);
            state.meetings.retain(|_, meeting| !meeting.is_over());
            state.meetings.insert(number, Meeting { root_info: root_info.clone(), members });
            state.opened = number + 1;
            *made = number + 1;
            return Ok((root_info, number));
        }
        // The meeting cannot be over, because this rank has not joined it.
        let Some(meeting) = state.meetings.get_mut(&number) else {
            let problem = "the ranks of this communicator have already left: make it earlier";
            return Err(Error::Invalid { operation: "communicator", problem: problem.into() });
        };
        meeting.members[rank as usize] = Some(member);
        *made = number + 1;
        Ok((meeting.root_info.clone(), number))
    }

    /// Returns the first failure of the run, unless `rank` itself has failed first.
    pub(super) fn failure(&self, rank: u32) -> Option<Error> {
        failure_of(&self.lock(), rank)
    }

    /// Records the failure of a rank, and then notifies the other ranks. This order ensures that
    /// errors which follow from the failure are recorded later.
    pub(super) fn failed(&self, rank: u32, cause: Cause, device: &Device) {
        let text = text_of(&cause);
        let follows = is_about_another(&*cause);
        let mut spare = Some(RankError::new(rank, cause, text.clone()));
        {
            let mut state = self.lock();
            // A closure drops its communicators before its error arrives here. So a peer whose
            // operation fails because of the drop may record its error first. The cause then
            // replaces that error.
            let gives_way = |first: &RankError| !follows && is_about_another(first.cause());
            if state.first.as_ref().is_none_or(gives_way) {
                std::mem::swap(&mut state.first, &mut spare);
            }
        }
        self.has_failed.store(true, Ordering::Release);
        alarm();
        self.leave(rank, device, &text, true);
        if let Err(panic) = caught(|| drop(spare)) {
            tracing::warn!(rank, "dropping the error of a rank {panic}");
        }
    }

    /// Notifies the other ranks that a rank is gone.
    pub(super) fn leave(&self, rank: u32, device: &Device, reason: &str, failed: bool) {
        let root_infos: Vec<RootInfo> = {
            let mut state = self.lock();
            state.left[rank as usize] =
                Some(if failed { "it has failed" } else { "its closure has returned" });
            // A communicator that the closure has returned or stored elsewhere is still in use.
            let gone = |meeting: &&Meeting| {
                failed || meeting.members[rank as usize].as_ref().is_none_or(has_gone)
            };
            state.meetings.values().filter(gone).map(|meeting| meeting.root_info.clone()).collect()
        };
        // One line, because it becomes a part of the error texts of other ranks.
        let reason = reason.lines().next().unwrap_or_default().replace('\0', " ");
        let reason = CString::new(reason).unwrap_or_default();
        for root_info in root_infos {
            root_info.leave(device.table(), rank, &reason);
        }
        // The rank has dropped its communicators, but they are not destroyed yet.
        device.reap();
    }
}

/// Returns whether an error says that another rank is gone. If so, that rank has failed first.
pub(super) fn is_about_another(cause: &(dyn StdError + Send + Sync + 'static)) -> bool {
    let Some(error) = cause.downcast_ref::<Error>() else { return false };
    // An abort is also reported with these codes.
    let remote = ["HCCL_E_REMOTE", "ACL_ERROR_RT_SUSPECT_REMOTE_ERROR"];
    matches!(error.innermost(), Error::RankGone { .. } | Error::Job(JobError::Gone { .. }))
        || error.code().and_then(|code| code.name()).is_some_and(|name| remote.contains(&name))
}

fn failure_of(state: &RunState, rank: u32) -> Option<Error> {
    let first = state.first.as_ref().filter(|first| first.rank() != rank)?;
    Some(Error::RankGone { rank: first.rank(), reason: first.text().into() })
}

#[cfg(all(test, not(loom), not(miri), feature = "emulator"))]
mod tests {
    use super::*;
    use crate::sync::lock;
    use crate::tests::runtime_with;

    #[test]
    fn an_error_about_another_rank_is_one_inside_a_refused_call_too() {
        let gone = Error::RankGone { rank: 3, reason: "it has panicked".into() };
        let context = crate::error::OpContext::new("all_reduce", 7);
        let refused = Error::Refused { context: Box::new(context), cause: Box::new(gone) };
        assert_eq!(refused.gone_ranks(), [3]);
        assert!(is_about_another(&refused));
        let own = Error::NoSuchRank { what: "root", rank: 9, world_size: 4 };
        assert!(!is_about_another(&own));
    }

    #[test]
    fn a_run_keeps_what_somebody_has_or_may_come_for() {
        let runtime = runtime_with(2);
        let device = runtime.device(0).unwrap();
        let run = RankRun::new(2);
        let made = [Mutex::new(0), Mutex::new(0)];
        let come = |rank: u32| {
            let alive = Arc::new(());
            let member = Arc::downgrade(&alive);
            let (root_info, number) =
                run.meeting(&mut lock(&made[rank as usize]), rank, &device, member).unwrap();
            (root_info.to_bytes()[..].to_vec(), number, alive)
        };
        // Meeting 0 stays because both ranks keep its communicator, and meeting 101 because rank 1
        // has not joined it.
        let kept = [come(0), come(1)];
        for _ in 0..100 {
            let [(ours, a, _), (theirs, b, _)] = [come(0), come(1)];
            assert_eq!((ours, a), (theirs, b));
        }
        let ahead = come(0);
        let numbers = || run.lock().meetings.keys().copied().collect::<Vec<_>>();
        assert_eq!(numbers(), [0, 101]);
        assert_eq!(come(1).1, ahead.1);
        drop((kept, ahead));
        come(0);
        assert_eq!(numbers(), [102]);
    }
}
