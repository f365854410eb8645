//! The calls of a program that a launcher may have started.

use std::error::Error as StdError;
use std::sync::Arc;

use hccl_job::{JobEnv, Launcher};

use super::process::{ProcessRank, connect_limit, device_of};
use super::run::text_of;
use super::{Rank, RankPlace};
use crate::comm::{CommConfig, Communicator};
use crate::device::Device;
use crate::error::rank::RankError;
use crate::error::{Error, Result};
use crate::runtime::Runtime;

const FROM_ENV: &str = "Rank::from_env";

impl Runtime {
    /// Runs `f` for the ranks of the job: under a launcher for the one rank that this process is,
    /// else for each of `ranks` ranks, on threads ([`run_ranks`](Self::run_ranks)). Returns what
    /// the ranks of this process returned, in the order of the ranks.
    ///
    /// So one program runs with and without a launcher. `ranks` counts only where there is none;
    /// [`Rank::world_size`] is right in both cases. The environment says whether there is a
    /// launcher: see [`JobEnv::from_env`]. Blocks until the ranks of this process are done. Under a
    /// launcher the job is over then: a program calls this once.
    ///
    /// # Errors
    ///
    /// When a rank of this process returns an error or panics, [`Error::Rank`] with the rank and
    /// the cause; `hcclrun` is told, so that it can say which rank failed first. Those of
    /// [`Rank::from_env`] under a launcher, and of [`run_ranks`](Self::run_ranks) elsewhere.
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// fn main() -> hccl::Result<()> {
    ///     let runtime = Runtime::emulator(4)?;
    ///     // Four threads here; under `hcclrun -n 8`, one rank in each of eight processes.
    ///     runtime.run_job(4, |rank| -> hccl::Result<()> {
    ///         let stream = rank.device().stream()?;
    ///         let mut comm = rank.communicator()?;
    ///         let mut x = rank.device().upload(&[1], &stream)?;
    ///         comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
    ///         assert_eq!(x.to_vec(&stream).wait()?, [rank.world_size() as i32]);
    ///         Ok(())
    ///     })?;
    ///     Ok(())
    /// }
    /// ```
    pub fn run_job<T, E, F>(&self, ranks: u32, f: F) -> Result<Vec<T>>
    where
        F: Fn(Rank) -> Result<T, E> + Sync,
        T: Send,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        match JobEnv::from_env()? {
            None => self.run_ranks(ranks, f),
            Some(env) => self.run_here(&env, f),
        }
    }

    /// Runs `f` for the rank that this process is.
    fn run_here<T, E>(&self, env: &JobEnv, f: impl Fn(Rank) -> Result<T, E>) -> Result<Vec<T>>
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let (device, own) = process_of(self, env, "run_job")?;
        let rank = Rank { device, place: RankPlace::Process(Arc::clone(&own)) };
        match rank.call(&f) {
            Err(cause) => {
                let text = text_of(&cause);
                own.report(&*cause, &text);
                Err(Error::Rank(RankError::new(own.index, cause, text)))
            }
            Ok(_) if !self.findings().is_empty() => {
                Err(Error::Found { findings: self.findings().into() })
            }
            Ok(value) => Ok(vec![value]),
        }
    }
}

/// The rank that this process is, and its device, when all ranks of the job have come.
fn process_of(
    runtime: &Runtime,
    env: &JobEnv,
    operation: &'static str,
) -> Result<(Device, Arc<ProcessRank>)> {
    let device = device_of(runtime, env)?;
    let rank = ProcessRank::join(env, connect_limit(runtime, operation)?)?;
    let (generation, launcher) = (rank.generation, rank.launcher);
    tracing::debug!(rank = rank.index, generation, %launcher, "the ranks of the job have met");
    Ok((device, Arc::new(rank)))
}

impl Rank {
    /// The rank that this process is, as its launcher says, when all ranks of the job have come.
    /// [`JobEnv::from_env`] lists the launchers and their variables.
    ///
    /// Blocks until all ranks have called it, for at most `HCCL_CONNECT_TIMEOUT` seconds (120
    /// unless told), and no longer than [`Runtime::deadline`]. Its device is that of its number
    /// among the ranks of its machine, or the only one that it sees. The rank is done when the last
    /// clone is dropped, and the process does not come back: it calls this once.
    /// [`communicator`](Self::communicator) makes any number of communicators, and
    /// [`regroup`](Self::regroup) meets again.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when no launcher has started this process, [`Error::Job`] when a variable
    /// is wrong or missing, when the ranks do not meet in time (with the ranks that have not come),
    /// or when one of them is gone; [`Error::TooFewDevices`].
    pub fn from_env(runtime: &Runtime) -> Result<Rank> {
        match JobEnv::from_env()? {
            Some(env) => {
                let (device, rank) = process_of(runtime, &env, "Rank::from_env")?;
                Ok(Rank { device, place: RankPlace::Process(rank) })
            }
            None => {
                let problem = "no launcher has started this process: none of RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID and \
                     RANK_TABLE_FILE is set. Start it with `hcclrun -n 4 program`, torchrun, mpirun or srun; or use \
                     Runtime::run_job, which runs the ranks as threads where there is no launcher";
                Err(Error::Invalid { operation: FROM_ENV, problem: problem.into() })
            }
        }
    }

    /// The launcher that has started this rank as a process; `None` for a thread of
    /// [`Runtime::run_ranks`].
    pub fn launcher(&self) -> Option<Launcher> {
        match &self.place {
            RankPlace::Thread(_) => None,
            RankPlace::Process(rank) => Some(rank.launcher),
        }
    }

    /// The number of the generation that it is in: 1 at first, one more after each
    /// [`regroup`](Self::regroup).
    pub fn generation(&self) -> u32 {
        match &self.place {
            RankPlace::Thread(_) => 1,
            RankPlace::Process(rank) => rank.generation.max(1),
        }
    }

    /// Returns the rank that this process is in the next generation of its job: with all ranks that
    /// are left, and with processes that have come anew.
    ///
    /// Call it when an operation has failed because a rank is gone, or when
    /// [`newcomers`](Self::newcomers) has found some, on all ranks that are left; drop the
    /// communicators of this generation before. Blocks until all have called it, with the limit of
    /// [`from_env`](Self::from_env). Ranks keep their order and newcomers follow, so rank 0 is
    /// never a newcomer while somebody is left.
    ///
    /// If `hcclrun --elastic` has started the job, any rank may be lost. Under other launchers rank
    /// 0 serves the store, so nobody can go on without it, and most launchers end all ranks when
    /// one fails.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a thread of [`Runtime::run_ranks`] and where the ranks meet by a rank
    /// table, else [`Error::Job`].
    pub fn regroup(self) -> Result<Rank> {
        let RankPlace::Process(rank) = &self.place else { return Err(a_thread("regroup")) };
        let rank = rank.regroup(connect_limit(self.runtime(), "regroup")?)?;
        Ok(Rank { device: self.device, place: RankPlace::Process(Arc::new(rank)) })
    }

    /// Returns the number of processes that have come anew and wait for the next
    /// [`regroup`](Self::regroup). Asks the store, and does not wait for other ranks. Two ranks may
    /// get different answers: let one ask, and tell the others.
    ///
    /// # Errors
    ///
    /// As for [`regroup`](Self::regroup).
    pub fn newcomers(&self) -> Result<u32> {
        match &self.place {
            RankPlace::Thread(_) => Err(a_thread("newcomers")),
            RankPlace::Process(rank) => rank.newcomers(),
        }
    }
}

fn a_thread(operation: &'static str) -> Error {
    let problem = "this rank is a thread of `run_ranks`, whose ranks are the same from beginning to end; ranks that a launcher \
         has started can meet again";
    Error::Invalid { operation, problem: problem.into() }
}

impl Communicator {
    /// The communicator of all ranks of the job that a launcher has started, of which this process
    /// is one. Short for [`Rank::from_env`] and [`Rank::communicator`], where one communicator is
    /// all that is needed.
    ///
    /// Blocks until all ranks have called it.
    ///
    /// # Errors
    ///
    /// As for these two.
    pub fn from_env(runtime: &Runtime) -> Result<Communicator> {
        Communicator::from_env_with(runtime, CommConfig::default())
    }

    /// The same, with settings. All ranks must give the same ones.
    ///
    /// # Errors
    ///
    /// As for [`from_env`](Self::from_env).
    pub fn from_env_with(runtime: &Runtime, config: CommConfig) -> Result<Communicator> {
        Rank::from_env(runtime)?.communicator_with(config)
    }
}
