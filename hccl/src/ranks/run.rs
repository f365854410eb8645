//! The state that the ranks of a run share when they are threads: where they meet, which have left,
//! and which failed first.

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

/// Runs code of the program: a closure, a conversion, a `Display`, a drop.
///
/// Code that catches a panic must not use what may be half changed: here, what the closure of a
/// rank has borrowed. The caller gets the panic as an error and has to expect the worst of what it
/// lent.
pub(super) fn caught<R>(code: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(code)).map_err(Panic::new)
}

/// The text of an error of the program, whose `Display` may panic.
pub(super) fn text_of(cause: &Cause) -> Arc<str> {
    caught(|| cause.to_string())
        .unwrap_or_else(|panic| format!("an error whose text cannot be had: {panic}"))
        .into()
}

/// One rank's place in a run.
pub(super) struct RankSlot {
    pub(super) run: Arc<RankRun>,
    pub(super) index: u32,
    /// How many meetings the rank has come to.
    pub(super) made: Mutex<usize>,
}

impl Watch for RankSlot {
    /// The failure of another rank of the run.
    fn failure(&self) -> Option<Error> {
        self.run.has_failed.load(Ordering::Acquire).then(|| self.run.failure(self.index)).flatten()
    }
}

/// The state that the ranks of a run share.
pub(super) struct RankRun {
    pub(super) ranks: u32,
    /// Set after `first`, so that waits need not take the lock.
    has_failed: AtomicBool,
    state: Mutex<RunState>,
}

pub(super) struct RunState {
    pub(super) first: Option<RankError>,
    /// One for each communicator of the run that somebody still has or may come for, by its number.
    meetings: BTreeMap<usize, Meeting>,
    /// How many there were.
    opened: usize,
    /// The ranks that have left, and why.
    left: Vec<Option<&'static str>>,
}

struct Meeting {
    root_info: RootInfo,
    /// The communicators of the ranks that have joined, as long as they live.
    members: Vec<Option<Weak<()>>>,
}

impl Meeting {
    /// All have come, and gone again: nobody is left to be told anything.
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

    /// Returns the place where the ranks meet for the next communicator of `rank`. The rank that
    /// comes first opens it.
    ///
    /// `made` is only changed here, and only by a call that has found its place. So it is never
    /// more than the number of places, also when a call fails.
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
            // Ranks that have left before will not come to the new meeting: the caller learns of
            // them here, and of later ones through `leave`.
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
        // Not over: this rank has not come.
        let Some(meeting) = state.meetings.get_mut(&number) else {
            let problem = "its meeting is over";
            return Err(Error::Invalid { operation: "communicator", problem: problem.into() });
        };
        meeting.members[rank as usize] = Some(member);
        *made = number + 1;
        Ok((meeting.root_info.clone(), number))
    }

    /// The failure of a rank other than `rank`.
    pub(super) fn failure(&self, rank: u32) -> Option<Error> {
        failure_of(&self.lock(), rank)
    }

    /// Records what happened to a rank, and only then tells the others, so that what follows from
    /// it comes second.
    pub(super) fn failed(&self, rank: u32, cause: Cause, device: &Device) {
        let text = text_of(&cause);
        let follows = is_about_another(&*cause);
        let mut spare = Some(RankError::new(rank, cause, text.clone()));
        {
            let mut state = self.lock();
            // A closure drops its communicators before its error is known here: a peer that sees
            // them go may be told first.
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

    /// Tells the others that a rank is gone.
    pub(super) fn leave(&self, rank: u32, device: &Device, reason: &str, failed: bool) {
        let root_infos: Vec<RootInfo> = {
            let mut state = self.lock();
            state.left[rank as usize] =
                Some(if failed { "it has failed" } else { "its closure has returned" });
            // A communicator that the closure has returned, or keeps elsewhere, goes on.
            let gone = |meeting: &&Meeting| {
                failed || meeting.members[rank as usize].as_ref().is_none_or(has_gone)
            };
            state.meetings.values().filter(gone).map(|meeting| meeting.root_info.clone()).collect()
        };
        // One line: it becomes part of the cause in the texts of others.
        let reason = reason.lines().next().unwrap_or_default().replace('\0', " ");
        let reason = CString::new(reason).unwrap_or_default();
        for root_info in root_infos {
            root_info.leave(device.table(), rank, &reason);
        }
        // Its communicators have only been put aside so far.
        device.reap();
    }
}

/// Whether an error says that another rank is gone: then that one failed first.
pub(super) fn is_about_another(cause: &(dyn StdError + Send + Sync + 'static)) -> bool {
    let Some(error) = cause.downcast_ref::<Error>() else { return false };
    // Whatever the reason is: an abort too is told with these codes.
    let remote = ["HCCL_E_REMOTE", "ACL_ERROR_RT_SUSPECT_REMOTE_ERROR"];
    matches!(error.root_cause(), Error::RankGone { .. } | Error::Job(JobError::Gone { .. }))
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
        // One that both still have, and one for which rank 1 has not come.
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
