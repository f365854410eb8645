//! Ranks, as threads of one process or as processes that a launcher has started. Use this module
//! unless the program starts its processes itself. A program that does so passes the bytes of a
//! [`RootInfo`](crate::RootInfo) to each process, and uses [`Communicator::builder`].
//!
//! * [`Runtime::run_job`] is for programs. Under a launcher it runs a closure once, for the rank of
//!   this process. Without a launcher it runs the closure for each of a given number of ranks, on
//!   threads. So the same program runs on a laptop and on a cluster.
//! * [`Runtime::run_ranks`] is for tests, and for programs that stay in one process. It starts a
//!   thread for each rank and gives the thread a device. When a rank returns an error or panics,
//!   the other ranks are notified at once, so that they do not wait for this rank. The caller gets
//!   the error that happened *first*, instead of an error that followed from it.
//! * [`Rank::from_env`] and [`Communicator::from_env`] are for programs that a launcher always
//!   starts.
//!
//! # Launchers
//!
//! A process may be started by `hcclrun`, `torchrun`, `mpirun` of Open MPI, `mpiexec` of MPICH and
//! Intel MPI, or `srun`. [`JobEnv`](crate::job::JobEnv) lists the variables of each launcher. The
//! ranks meet at a store: a small server that passes the root info of each communicator from one
//! process to the other processes. `hcclrun` runs the store itself. Under other launchers, rank 0
//! runs it.

mod job;
mod process;
mod run;

use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::ScopedJoinHandle;

use crate::comm::{CommConfig, Communicator};
use crate::device::Device;
pub use crate::error::rank::RankError;
use crate::error::rank::{Cause, Panic};
use crate::error::{Error, Result};
use crate::order::patience::watch_waits;
use crate::runtime::Runtime;
use crate::sync::lock;
use process::ProcessRank;
use run::{RankRun, RankSlot, caught};

impl Runtime {
    /// Runs `f` once for each of `ranks` ranks, each on its own thread and its own device. Returns
    /// the results in the order of the ranks.
    ///
    /// Rank `i` uses device `i`, and its thread is called `rank i`. The closure may borrow from the
    /// caller. Blocks until all ranks are done.
    ///
    /// # Errors
    ///
    /// [`Error::Rank`], with the rank and the cause, if a rank returns an error or panics. Only the
    /// first cause is returned. The other ranks are notified at once. A call or an operation that
    /// waits for the failed rank then fails with the kind [`RankGone`](crate::ErrorKind::RankGone)
    /// and the cause as its reason. This also holds while a communicator is being built. Every
    /// other wait of these ranks that has not ended by then fails in the same way. CANN cannot be
    /// notified, so calls of CANN that wait for the failed rank end with CANN's connection
    /// time-out.
    ///
    /// [`Error::Found`] if no rank has failed but checked mode has findings
    /// ([`Runtime::findings`]).
    ///
    /// [`Error::TooFewDevices`] if there are fewer devices than ranks, and [`Error::Invalid`] if
    /// `ranks` is 0.
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
            let problem = "there are 0 ranks, but at least one is needed: pass 1 or more".into();
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
                let watched = device.clone().watched(watch);
                let builder = std::thread::Builder::new().name(format!("rank {index}"));
                match builder.spawn_scoped(scope, move || rank_slot.work(watched, f)) {
                    Ok(thread) => threads.push((thread, index, device)),
                    Err(error) => run.failed(index, Arc::new(error), &device),
                }
            }
            let outcome = |(thread, index, device): (ScopedJoinHandle<'_, _>, u32, Device)| {
                // A rank catches the panics of its closure. Any other panic of its thread is a
                // failure too.
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
            // Without a failure every rank has returned a value.
            None => Ok(outcomes.into_iter().flatten().collect()),
        }
    }
}

/// One rank of a run: a thread of [`Runtime::run_ranks`], or a process that a launcher has started.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank: Rank| {
///     println!("rank {} of {} on {:?}", rank.index(), rank.world_size(), rank.device());
///     let comm = rank.communicator()?;
///     assert_eq!(comm.rank(), rank.index());
///     Ok::<_, hccl::Error>(())
/// })?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone)]
pub struct Rank {
    device: Device,
    place: RankPlace,
}

#[derive(Clone)]
enum RankPlace {
    Thread(Arc<RankSlot>),
    Process(Arc<ProcessRank>),
}

impl Rank {
    /// Returns the number of this rank, from 0.
    pub fn index(&self) -> u32 {
        match &self.place {
            RankPlace::Thread(slot) => slot.index,
            RankPlace::Process(rank) => rank.index,
        }
    }

    /// Returns the number of ranks.
    pub fn world_size(&self) -> u32 {
        match &self.place {
            RankPlace::Thread(slot) => slot.run.ranks,
            RankPlace::Process(rank) => rank.world_size,
        }
    }

    /// Returns the device of this rank. A thread uses the device with the rank's number. A process
    /// uses the only device that it sees, or else the device with its number among the ranks of its
    /// machine.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Makes a communicator of all ranks of the run.
    ///
    /// Blocks until all ranks have called it. The first calls of all ranks make one communicator,
    /// their second calls make the next communicator, and so on. CANN: `HcclGetRootInfo` on one
    /// rank, `HcclCommInitRootInfoConfig` on all.
    ///
    /// # Errors
    ///
    /// [`Error::RankGone`] if another rank has failed, or if its closure has returned before it
    /// called this. Otherwise the errors of [`Communicator::builder`]. In a process that a launcher
    /// has started, also [`Error::Job`] if the root info of rank 0 does not come in time, or if
    /// rank 0 is gone. There, [`Error::Invalid`] is also the error for a wrong
    /// `HCCL_CONNECT_TIMEOUT`, and for a rank table with another number of ranks.
    pub fn communicator(&self) -> Result<Communicator> {
        self.communicator_with(CommConfig::default())
    }

    /// Makes a communicator of all ranks of the run, with settings. All ranks must give the same
    /// settings.
    ///
    /// Blocks and fails like [`communicator`](Self::communicator).
    pub fn communicator_with(&self, config: CommConfig) -> Result<Communicator> {
        let slot = match &self.place {
            RankPlace::Thread(slot) => slot,
            RankPlace::Process(rank) => {
                let limit = process::connect_limit(self.runtime(), "Rank::communicator")?;
                return rank.communicator(&self.device, config, limit);
            }
        };
        let RankSlot { run, index, made } = &**slot;
        let alive = Arc::new(());
        let making = {
            // The lock is held until the call is queued, so that threads of one rank join their
            // meetings in the order of the numbers.
            let mut made = lock(made);
            let (root_info, before) =
                run.meeting(&mut made, *index, &self.device, Arc::downgrade(&alive))?;
            let place = (*index, run.ranks);
            Communicator::join_run(&self.device, place, &root_info, config, before)
        };
        let mut comm = making
            .wait()
            // If another rank has failed, the error of the backend is only a consequence of that
            // failure.
            .map_err(|error| run.failure(*index).unwrap_or(error))?;
        comm.set_alive(alive);
        Ok(comm)
    }

    /// Returns the runtime of the run.
    pub fn runtime(&self) -> &Runtime {
        self.device.runtime()
    }

    /// Calls the closure of the program. If the closure succeeds, waits until every operation that
    /// it has begun is issued: the caller then notifies the other ranks that this rank issues
    /// nothing more. Does not wait after a failure, because some operations may never be issued
    /// then.
    fn call<T, E>(self, f: &impl Fn(Rank) -> Result<T, E>) -> Result<T, Cause>
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let device = self.device.clone();
        match caught(|| f(self).map_err(|error| Cause::from(error.into()))) {
            Ok(Ok(value)) => {
                drop(device.linking().drain(device.runtime().deadline()));
                Ok(value)
            }
            Ok(Err(cause)) => Err(cause),
            Err(panic) => Err(Arc::new(panic)),
        }
    }
}

impl RankSlot {
    /// Runs the closure on a rank's thread, and notifies the other ranks of its end. Returns `None`
    /// if the rank has failed.
    fn work<T, E>(self: Arc<Self>, device: Device, f: &impl Fn(Rank) -> Result<T, E>) -> Option<T>
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        watch_waits(self.clone());
        let rank = Rank { device: device.clone(), place: RankPlace::Thread(self.clone()) };
        match rank.call(f) {
            Ok(value) => {
                self.run.leave(self.index, &device, "its closure has returned", false);
                Some(value)
            }
            Err(cause) => {
                self.run.failed(self.index, cause, &device);
                None
            }
        }
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank({} of {})", self.index(), self.world_size())
    }
}
