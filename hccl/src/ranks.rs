//! Ranks as threads: the way to write a distributed program that runs in one process, on one server or on the emulator.
//!
//! [`Runtime::run_ranks`] starts a thread for each rank, gives it a device, and takes care of what goes wrong: when a
//! rank returns an error or panics, the others are told at once, so that none of them waits for it, and the caller learns
//! what happened *first*, not what followed from it. Use it for programs, examples and tests on the devices of one server. When
//! ranks are processes, pass the bytes of a [`RootInfo`] to them and use [`Communicator::builder`].

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::ffi::CString;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ScopedJoinHandle;

use crate::comm::{CommConfig, Communicator, RootInfo};
use crate::device::Device;
pub use crate::error::rank::RankError;
use crate::error::rank::{Cause, Panic};
use crate::error::{Error, Result};
use crate::order::patience::{Watch, alarm, watch_waits};
use crate::runtime::Runtime;
use crate::sync::lock;

impl Runtime {
    /// Runs `f` once for each of `ranks` ranks, each on a thread and a device of its own, and returns what they returned, in
    /// the order of the ranks.
    ///
    /// Rank `i` works on device `i`; its thread is called `rank i`. The closure may borrow from the caller. Blocks until all ranks are done.
    ///
    /// # Errors
    ///
    /// When a rank returns an error or panics, [`Error::Rank`] with the rank and the cause. The other ranks are told at once: what waits
    /// for the failed rank fails with the kind [`RankGone`](crate::ErrorKind::RankGone) and that reason, also while a communicator is built, and so does every wait of
    /// the other ranks that has not ended by then. Only the first cause is returned. On a backend that
    /// cannot be told (CANN), calls of its own that wait for the rank end with its connection time-out.
    ///
    /// [`Error::Found`] when no rank failed and checked mode has found something ([`Runtime::findings`]).
    ///
    /// [`Error::TooFewDevices`] when there are fewer devices than ranks, [`Error::Invalid`] for no ranks at all.
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// fn main() -> hccl::Result<()> {
    ///     let runtime = Runtime::emulator(4)?;
    ///     let sums = runtime.run_ranks(4, |rank| {
    ///         let stream = rank.device().stream()?;
    ///         let mut comm = rank.communicator()?;
    ///         let mut x = rank.device().upload(&[rank.index() as i32], &stream)?;
    ///         comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
    ///         x.to_vec(&stream).wait()
    ///     })?;
    ///     assert_eq!(sums, [[6], [6], [6], [6]]);
    ///     Ok(())
    /// }
    /// ```
    pub fn run_ranks<T, E, F>(&self, ranks: u32, f: F) -> Result<Vec<T>>
    where
        F: Fn(Rank) -> Result<T, E> + Sync,
        T: Send,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        if ranks == 0 {
            let problem = "there are 0 ranks, and at least one is needed".into();
            return Err(Error::Invalid { operation: "run_ranks", problem });
        }
        let devices = self.device_count();
        if devices < ranks as usize {
            return Err(Error::TooFewDevices { ranks, devices });
        }
        let devices: Vec<Device> =
            (0..ranks).map(|rank| self.device(rank as usize)).collect::<Result<_>>()?;
        let run = Arc::new(RankRun::new(ranks));
        let f = &f;
        let outcomes: Vec<Option<T>> = std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(devices.len());
            for (index, device) in (0..).zip(devices) {
                let rank_slot = Arc::new(RankSlot { run: run.clone(), index, made: Mutex::new(0) });
                let watch = Arc::downgrade(&rank_slot);
                let rank = Rank { device: device.clone().watched(watch), rank_slot };
                let builder = std::thread::Builder::new().name(format!("rank {index}"));
                match builder.spawn_scoped(scope, move || rank.run(f)) {
                    Ok(thread) => threads.push((thread, index, device)),
                    Err(error) => run.failed(index, Arc::new(error), &device),
                }
            }
            let outcome = |(thread, index, device): (ScopedJoinHandle<'_, _>, u32, Device)| {
                // A rank catches what its closure panics with; whatever else ends its thread is a failure too.
                thread.join().unwrap_or_else(|payload| {
                    run.failed(index, Arc::new(Panic::new(payload)), &device);
                    None
                })
            };
            threads.into_iter().map(outcome).collect()
        });
        let first = run.lock().first.take();
        match first {
            Some(error) => Err(Error::Rank(error)),
            None if !self.findings().is_empty() => {
                Err(Error::Found { findings: self.findings().into() })
            }
            // Without a failure every rank has returned something.
            None => Ok(outcomes.into_iter().flatten().collect()),
        }
    }
}

/// One rank of [`Runtime::run_ranks`].
#[derive(Clone)]
pub struct Rank {
    device: Device,
    rank_slot: Arc<RankSlot>,
}

impl Rank {
    /// The number of this rank, from 0.
    pub fn index(&self) -> u32 {
        self.rank_slot.index
    }

    /// How many ranks there are.
    pub fn world_size(&self) -> u32 {
        self.rank_slot.run.ranks
    }

    /// The device of this rank: the one with the rank's number.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The runtime of the run.
    pub fn runtime(&self) -> &Runtime {
        self.device.runtime()
    }

    /// A communicator of all ranks of the run.
    ///
    /// Blocks until all ranks have called it. The first call of each rank makes one communicator, the second call another, and
    /// so on. CANN: `HcclGetRootInfo` on one rank, `HcclCommInitRootInfoConfig` on all.
    ///
    /// # Errors
    ///
    /// [`Error::RankGone`] when another rank has failed, else those of [`Communicator::builder`].
    pub fn communicator(&self) -> Result<Communicator> {
        self.communicator_with(CommConfig::default())
    }

    /// A communicator of all ranks of the run, with settings. All ranks must give the same ones.
    ///
    /// Blocks and fails like [`communicator`](Self::communicator).
    pub fn communicator_with(&self, config: CommConfig) -> Result<Communicator> {
        let RankSlot { run, index, made } = &*self.rank_slot;
        let alive = Arc::new(());
        let making = {
            // Threads of the rank go to their meetings in the order in which they have been given them.
            let mut made = lock(made);
            let (root_info, before) =
                run.meeting(&mut made, *index, &self.device, Arc::downgrade(&alive))?;
            let place = (*index, run.ranks);
            Communicator::join_run(&self.device, place, &root_info, config, before)
        };
        let mut comm = making
            .wait()
            // What the backend says about it would be what followed from the failure.
            .map_err(|error| run.failure(*index).unwrap_or(error))?;
        comm.set_alive(alive);
        Ok(comm)
    }

    fn run<T, E>(self, f: &impl Fn(Rank) -> Result<T, E>) -> Option<T>
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        watch_waits(self.rank_slot.clone());
        let Rank { device, rank_slot } = self.clone();
        let outcome = caught(|| f(self).map_err(|error| Cause::from(error.into())));
        let cause: Cause = match outcome {
            Ok(Ok(value)) => {
                // What it has begun is issued before anybody is told that nothing more comes. After a failure it may never be.
                drop(device.linking().drain(device.runtime().deadline()));
                rank_slot.run.leave(rank_slot.index, &device, "its closure has returned", false);
                return Some(value);
            }
            Ok(Err(cause)) => cause,
            Err(panic) => Arc::new(panic),
        };
        rank_slot.run.failed(rank_slot.index, cause, &device);
        None
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank({} of {})", self.index(), self.world_size())
    }
}

/// Runs code of the program: a closure, a conversion, a `Display`, a drop.
///
/// Whoever catches a panic must not use what may be half changed: here, what the closure of a rank has borrowed. The caller
/// gets the panic as an error and has to expect the worst of what it lent.
fn caught<R>(code: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(code)).map_err(Panic::new)
}

/// One rank's place in a run.
struct RankSlot {
    run: Arc<RankRun>,
    index: u32,
    /// How many meetings the rank has come to.
    made: Mutex<usize>,
}

impl Watch for RankSlot {
    /// The failure of another rank of the run.
    fn failure(&self) -> Option<Error> {
        self.run.has_failed.load(Ordering::Acquire).then(|| self.run.failure(self.index)).flatten()
    }
}

/// What the ranks of a run share.
struct RankRun {
    ranks: u32,
    /// Set after `first`, so that waits need not take the lock.
    has_failed: AtomicBool,
    state: Mutex<RunState>,
}

struct RunState {
    first: Option<RankError>,
    /// One for each communicator of the run that somebody still has or may come for, by its number.
    meetings: BTreeMap<usize, Meeting>,
    /// How many there were.
    opened: usize,
    /// Who has left, and why.
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
    fn new(ranks: u32) -> Self {
        let left = vec![None; ranks as usize];
        let state = RunState { first: None, meetings: BTreeMap::new(), opened: 0, left };
        RankRun { ranks, has_failed: AtomicBool::new(false), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, RunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the ranks meet for the next communicator of `rank`. Whoever comes first opens the place.
    ///
    /// `made` is only changed here, and only by a call that has found its place. So it is never more than the number of places,
    /// also when a call fails.
    fn meeting(
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
            // Nobody will come whom the meeting does not know to have left: those are told here, later ones by `leave`.
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
    fn failure(&self, rank: u32) -> Option<Error> {
        failure_of(&self.lock(), rank)
    }

    /// Records what happened to a rank, and only then tells the others, so that what follows from it comes second.
    fn failed(&self, rank: u32, cause: Cause, device: &Device) {
        let text: Arc<str> = caught(|| cause.to_string())
            .unwrap_or_else(|panic| format!("an error whose text cannot be had: {panic}"))
            .into();
        let follows = is_about_another(&*cause);
        let mut spare = Some(RankError::new(rank, cause, text.clone()));
        {
            let mut state = self.lock();
            // A closure drops its communicators before its error is known here: a peer that sees them go may be told first.
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
    fn leave(&self, rank: u32, device: &Device, reason: &str, failed: bool) {
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
fn is_about_another(cause: &(dyn StdError + Send + Sync + 'static)) -> bool {
    let Some(error) = cause.downcast_ref::<Error>() else { return false };
    // Whatever the reason: an abort too is told with these codes.
    let remote = ["HCCL_E_REMOTE", "ACL_ERROR_RT_SUSPECT_REMOTE_ERROR"];
    matches!(error.root_cause(), Error::RankGone { .. })
        || error.code().and_then(|code| code.name()).is_some_and(|name| remote.contains(&name))
}

fn failure_of(state: &RunState, rank: u32) -> Option<Error> {
    let first = state.first.as_ref().filter(|first| first.rank() != rank)?;
    Some(Error::RankGone { rank: first.rank(), reason: first.text().into() })
}

#[cfg(all(test, not(loom), not(miri), feature = "emulator"))]
mod tests {
    use super::*;

    #[test]
    fn a_run_keeps_what_somebody_has_or_may_come_for() {
        let runtime = Runtime::emulator(2).unwrap();
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
