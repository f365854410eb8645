//! A rank that a launcher has started as a process of its own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hccl_job::{Generation, JobEnv, JobError, Launcher, Meeting, Store};

use super::run::is_about_another;
use crate::comm::{CommConfig, Communicator, RootInfo};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::runtime::Runtime;
use crate::sync::lock;

/// The environment variable that sets how long ranks may take to connect, in seconds.
const CONNECT_VARIABLE: &str = "HCCL_CONNECT_TIMEOUT";
/// CANN's default limit for ranks that connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(120);

/// A rank that is a process, in one generation of its job.
pub(super) struct ProcessRank {
    pub(super) index: u32,
    pub(super) world_size: u32,
    pub(super) launcher: Launcher,
    /// The number of the generation, or 0 for a job that meets by a rank table, which has only one
    /// generation.
    pub(super) generation: u32,
    meets: JobMeeting,
    /// The number of communicators that the rank has begun to make.
    made: Mutex<usize>,
}

/// The place where the ranks of a job meet for a communicator.
enum JobMeeting {
    /// The store, and the number that the launcher gave to the process that is rank 0 of this
    /// generation.
    Store(Arc<Mutex<Store>>, u32),
    RankTable(PathBuf),
}

impl ProcessRank {
    /// Joins the job. Blocks until all ranks have joined the store. `limit` is the time limit of
    /// the connection to the store, and then of the wait for the ranks. Returns at once if the
    /// ranks meet by a rank table.
    pub(super) fn join(env: &JobEnv, limit: Duration) -> Result<ProcessRank> {
        if let Meeting::RankTable(path) = &env.meeting {
            return Ok(ProcessRank {
                index: env.rank,
                world_size: env.world_size,
                launcher: env.launcher,
                generation: 0,
                meets: JobMeeting::RankTable(path.clone()),
                made: Mutex::new(0),
            });
        }
        let mut store = Store::join(env, limit)?;
        let generation = store.next_generation(limit)?;
        let store = Arc::new(Mutex::new(store));
        Ok(ProcessRank::of_generation(env.rank, env.launcher, generation, store))
    }

    fn of_generation(
        rank: u32,
        launcher: Launcher,
        Generation { number, members, .. }: Generation,
        store: Arc<Mutex<Store>>,
    ) -> ProcessRank {
        // The store has checked that this rank is a member.
        let index = members.iter().position(|member| *member == rank).unwrap_or_default();
        let first = members.first().copied().unwrap_or_default();
        ProcessRank {
            index: index as u32,
            world_size: members.len() as u32,
            launcher,
            generation: number,
            meets: JobMeeting::Store(store, first),
            made: Mutex::new(0),
        }
    }

    fn store(&self, operation: &'static str) -> Result<&Arc<Mutex<Store>>> {
        match &self.meets {
            JobMeeting::Store(store, _) => Ok(store),
            JobMeeting::RankTable(path) => {
                let problem = format!(
                    "the ranks of this job meet by the rank table {}, so there is no store at \
                     which they could meet again: unset RANK_TABLE_FILE, and start the ranks with \
                     `hcclrun --elastic`",
                    path.display()
                );
                Err(Error::Invalid { operation, problem: problem.into() })
            }
        }
    }

    /// Returns the rank of this process in the next generation. Blocks until all ranks that are
    /// left have called this method.
    pub(super) fn regroup(&self, limit: Duration) -> Result<ProcessRank> {
        let store = self.store("regroup")?;
        let (rank, generation) = {
            let mut store = lock(store);
            (store.rank(), store.next_generation(limit)?)
        };
        Ok(ProcessRank::of_generation(rank, self.launcher, generation, Arc::clone(store)))
    }

    pub(super) fn newcomers(&self) -> Result<u32> {
        Ok(lock(self.store("newcomers")?).newcomers()?)
    }

    /// Makes the next communicator of all ranks of this generation. Blocks until all of these ranks
    /// have called this method.
    pub(super) fn communicator(
        &self,
        device: &Device,
        config: CommConfig,
        limit: Duration,
    ) -> Result<Communicator> {
        let making = {
            // The lock is held until the call is queued, so that threads of one rank join their
            // meetings in the order of the numbers.
            let mut made = lock(&self.made);
            let before = *made;
            *made += 1;
            match &self.meets {
                JobMeeting::RankTable(path) => {
                    Communicator::from_rank_table(device, path, self.index, config)
                }
                JobMeeting::Store(store, first) => {
                    let root_info =
                        self.root_info(&mut lock(store), *first, device, before, limit)?;
                    let place = (self.index, self.world_size);
                    Communicator::join_run(device, place, &root_info, config, before)
                }
            }
        };
        let comm = making.wait()?;
        match &self.meets {
            JobMeeting::RankTable(path) if comm.world_size() != self.world_size => {
                let problem = format!(
                    "the rank table {} has {} ranks, but the environment says {}; correct \
                     RANK_SIZE, or the number of ranks that the launcher has set",
                    path.display(),
                    comm.world_size(),
                    self.world_size
                );
                Err(Error::Invalid { operation: "Rank::communicator", problem: problem.into() })
            }
            _ => Ok(comm),
        }
    }

    fn root_info(
        &self,
        store: &mut Store,
        first: u32,
        device: &Device,
        before: usize,
        limit: Duration,
    ) -> Result<RootInfo> {
        let key = format!("generation {} communicator {before}", self.generation);
        if self.index > 0 {
            return RootInfo::from_bytes(&store.get_from(first, &key, limit)?);
        }
        let root_info = RootInfo::new(device)?;
        if self.world_size > 1 {
            store.set_for(&key, root_info.to_bytes(), self.world_size - 1)?;
        }
        Ok(root_info)
    }

    /// Reports to the store that this rank has failed. Does nothing if the ranks meet by a rank
    /// table.
    pub(super) fn report(
        &self,
        cause: &(dyn std::error::Error + Send + Sync + 'static),
        text: &str,
    ) {
        let JobMeeting::Store(store, _) = &self.meets else { return };
        if let Err(error) = lock(store).report_failure(text, is_about_another(cause)) {
            tracing::debug!("the failure of this rank could not be reported: {error}");
        }
    }
}

/// Returns the device of a rank: the only device that this process sees, or else the device with
/// the rank's number on this machine.
pub(super) fn device_of(runtime: &Runtime, env: &JobEnv) -> Result<Device> {
    let devices = runtime.device_count();
    if devices == 1 {
        // A launcher that gives each process its own device hides the other devices from the
        // process.
        return runtime.device(0);
    }
    if env.local_rank as usize >= devices {
        return Err(Error::TooFewDevices { ranks: env.local_world_size, devices });
    }
    runtime.device(env.local_rank as usize)
}

/// Returns the time that ranks wait for one another at the store. This is the limit that HCCL has
/// for connecting, but at most the runtime's deadline.
pub(super) fn connect_limit(runtime: &Runtime, operation: &'static str) -> Result<Duration> {
    let limit = match std::env::var_os(CONNECT_VARIABLE) {
        None => CONNECT_TIMEOUT,
        Some(said) => match said.to_str().and_then(|said| said.trim().parse().ok()) {
            Some(seconds @ 1..=7200) => Duration::from_secs(seconds),
            _ => {
                let problem = format!(
                    "{CONNECT_VARIABLE}={}: set it to a whole number of seconds from 1 to 7200",
                    said.display()
                );
                return Err(Error::Invalid { operation, problem: problem.into() });
            }
        },
    };
    Ok(limit.min(runtime.deadline()))
}

impl From<JobError> for Error {
    fn from(error: JobError) -> Self {
        Error::Job(error)
    }
}
