//! The functions for programs that a launcher may have started.

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
    /// Runs `f` for the ranks of the job. Under a launcher it runs `f` once, for the rank of this
    /// process. Without a launcher it runs `f` for each of `ranks` ranks, on threads
    /// ([`run_ranks`](Self::run_ranks)). Returns the results of the ranks of this process, in the
    /// order of the ranks.
    ///
    /// So one program runs with and without a launcher. `ranks` is used only without a launcher,
    /// but [`Rank::world_size`] is right in both cases. Environment variables show whether there is
    /// a launcher: see [`JobEnv::from_env`]. Blocks until the ranks of this process are done. Under
    /// a launcher this process has then left the job, so a program must call this only once.
    ///
    /// # Errors
    ///
    /// [`Error::Rank`], with the rank and the cause, if a rank of this process returns an error or
    /// panics. Under a launcher, the failure is also reported to the store, so that `hcclrun` can
    /// name the rank that failed first.
    ///
    /// Under a launcher, also the errors of [`Rank::from_env`], and [`Error::Found`] if checked
    /// mode has findings. Without a launcher, also the errors of [`run_ranks`](Self::run_ranks).
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

    /// Runs `f` for the rank of this process.
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

/// Returns the rank of this process, and its device. Blocks until all ranks of the job have joined
/// the store, if they meet at one.
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
    /// Joins the job as the rank that the launcher has given to this process. [`JobEnv::from_env`]
    /// lists the launchers and their variables.
    ///
    /// Blocks until all ranks have called it. The connection to the store and the wait for the
    /// ranks each take at most `HCCL_CONNECT_TIMEOUT` seconds (120 by default), and no longer than
    /// [`Runtime::deadline`]. Returns at once if the ranks meet by a rank table. The rank uses the
    /// only device of the runtime, or else the device with the rank's number among the ranks of its
    /// machine. The rank leaves the job when the last clone is dropped. The process cannot join the
    /// job again, so it must call this only once. [`communicator`](Self::communicator) makes any
    /// number of communicators, and [`regroup`](Self::regroup) joins the next generation of the
    /// job.
    ///
    /// # Errors
    ///
    /// * [`Error::Invalid`] if no launcher has started this process, or if `HCCL_CONNECT_TIMEOUT`
    ///   is not a whole number of seconds from 1 to 7200.
    /// * [`Error::Job`] if a variable is wrong or missing, if ranks do not join in time (the error
    ///   names them), or if a rank is gone.
    /// * [`Error::TooFewDevices`] if the runtime has several devices, but none with the rank's
    ///   number among the ranks of its machine.
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

    /// Returns the launcher that has started this rank as a process, or `None` for a thread of
    /// [`Runtime::run_ranks`].
    pub fn launcher(&self) -> Option<Launcher> {
        match &self.place {
            RankPlace::Thread(_) => None,
            RankPlace::Process(rank) => Some(rank.launcher),
        }
    }

    /// Returns the number of the rank's generation. The first generation has the number 1, and each
    /// [`regroup`](Self::regroup) adds 1.
    pub fn generation(&self) -> u32 {
        match &self.place {
            RankPlace::Thread(_) => 1,
            RankPlace::Process(rank) => rank.generation.max(1),
        }
    }

    /// Returns the rank of this process in the next generation of its job. The next generation has
    /// all ranks that are left, and new processes that have joined.
    ///
    /// Call it on all ranks that are left, when an operation has failed because a rank is gone, or
    /// when [`newcomers`](Self::newcomers) has returned more than 0. Drop the communicators of this
    /// generation before. Blocks until all ranks that are left have called it, with the time limit
    /// of [`from_env`](Self::from_env). These ranks keep their order, and newcomers come after
    /// them. So rank 0 is never a newcomer as long as any rank of this generation is left.
    ///
    /// If `hcclrun --elastic` has started the job, any rank may be lost. Under other launchers rank
    /// 0 serves the store, so the job cannot continue without rank 0. Most of these launchers also
    /// end all ranks when one rank fails.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a thread of [`Runtime::run_ranks`], for ranks that meet by a rank
    /// table, and for a wrong `HCCL_CONNECT_TIMEOUT`. [`Error::Job`] if the next generation does
    /// not form.
    pub fn regroup(self) -> Result<Rank> {
        let RankPlace::Process(rank) = &self.place else { return Err(a_thread("regroup")) };
        let rank = rank.regroup(connect_limit(self.runtime(), "regroup")?)?;
        Ok(Rank { device: self.device, place: RankPlace::Process(Arc::new(rank)) })
    }

    /// Returns the number of new processes that wait for the next [`regroup`](Self::regroup).
    /// Queries the store, but does not wait for other ranks. Two ranks may get different answers,
    /// so let one rank call this and send the answer to the other ranks.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a thread of [`Runtime::run_ranks`], and for ranks that meet by a rank
    /// table. [`Error::Job`] if the store does not answer.
    pub fn newcomers(&self) -> Result<u32> {
        match &self.place {
            RankPlace::Thread(_) => Err(a_thread("newcomers")),
            RankPlace::Process(rank) => rank.newcomers(),
        }
    }
}

fn a_thread(operation: &'static str) -> Error {
    let problem = "this rank is a thread of `run_ranks`, whose ranks never change: start the ranks with \
         a launcher, for example `hcclrun --elastic`";
    Error::Invalid { operation, problem: problem.into() }
}

impl Communicator {
    /// Makes the communicator of all ranks of the job that a launcher has started. This is a
    /// shorthand for [`Rank::from_env`] and [`Rank::communicator`], for programs that need only one
    /// communicator.
    ///
    /// Blocks until all ranks have called it.
    ///
    /// # Errors
    ///
    /// The errors of [`Rank::from_env`] and [`Rank::communicator`].
    pub fn from_env(runtime: &Runtime) -> Result<Communicator> {
        Communicator::from_env_with(runtime, CommConfig::default())
    }

    /// Makes the communicator as [`from_env`](Self::from_env) does, with settings. All ranks must
    /// give the same settings. Blocks until all ranks have called it.
    ///
    /// # Errors
    ///
    /// The same as those of [`from_env`](Self::from_env).
    pub fn from_env_with(runtime: &Runtime, config: CommConfig) -> Result<Communicator> {
        Rank::from_env(runtime)?.communicator_with(config)
    }
}
