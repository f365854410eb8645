//! Reads the place of this process in its job from the environment variables of a launcher.

use std::fmt;
use std::path::PathBuf;

use crate::address::Address;
use crate::error::JobError;

/// The names of all variables that [`JobEnv::from_env`] reads.
pub mod variables {
    /// The number of this rank (`torchrun`, `hcclrun`).
    pub const RANK: &str = "RANK";
    /// The number of ranks.
    pub const WORLD_SIZE: &str = "WORLD_SIZE";
    /// The number of this rank on its machine.
    pub const LOCAL_RANK: &str = "LOCAL_RANK";
    /// The number of ranks on this machine.
    pub const LOCAL_WORLD_SIZE: &str = "LOCAL_WORLD_SIZE";
    /// The host of rank 0, or of the store.
    pub const MASTER_ADDR: &str = "MASTER_ADDR";
    /// The port of the store at the host `MASTER_ADDR`.
    pub const MASTER_PORT: &str = "MASTER_PORT";
    /// The secret of a job: a text that all ranks of the job share and that the store requires of
    /// each.
    pub const SECRET: &str = "HCCL_JOB_SECRET";
    /// A variable that is set when the launcher serves the store itself.
    pub const SERVED: &str = "HCCL_JOB_SERVED";
    /// The name of the job. It replaces the name that the launcher gives, if there is one.
    pub const JOB_ID: &str = "HCCL_JOB_ID";
    /// The name that torchrun gives to a run. The agent of torchrun can have a store of its own at
    /// `MASTER_PORT`.
    pub const TORCHELASTIC_RUN_ID: &str = "TORCHELASTIC_RUN_ID";
    /// A variable of torchrun: "False" when its agent leaves `MASTER_PORT` to rank 0.
    pub const TORCHELASTIC_USE_AGENT_STORE: &str = "TORCHELASTIC_USE_AGENT_STORE";
    /// The path of a rank table.
    pub const RANK_TABLE_FILE: &str = "RANK_TABLE_FILE";
    /// The number of this rank in the rank table.
    pub const RANK_ID: &str = "RANK_ID";
    /// The number of ranks in the rank table.
    pub const RANK_SIZE: &str = "RANK_SIZE";
}

use variables::*;

/// The port of the store when `MASTER_ADDR` is set and `MASTER_PORT` is not, as in torch.
const DEFAULT_PORT: u16 = 29500;

/// The number of ports after `MASTER_PORT` that rank 0 tries if the agent of torchrun has
/// `MASTER_PORT` itself. Rank 0 takes the first free one.
const PORTS_BEHIND: u16 = 16;

/// The launcher that started this process.
///
/// ```
/// use hccl_job::{JobEnv, Launcher};
///
/// match JobEnv::from_env()?.map(|env| env.launcher) {
///     None => println!("started by hand: all ranks are in this process"),
///     Some(launcher @ Launcher::Hcclrun) => println!("{launcher:?} serves the store"),
///     Some(launcher) => println!("{launcher:?}: rank 0 serves the store"),
/// }
/// # Ok::<(), hccl_job::JobError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// `hcclrun`, or another program that serves the store.
    Hcclrun,
    /// `torchrun`.
    Torchrun,
    /// A user or a program that has set `RANK` and `WORLD_SIZE`.
    Variables,
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// `mpiexec` of MPICH, of Intel MPI, or of another MPI with the Hydra process manager.
    Mpich,
    /// `srun`.
    Slurm,
    /// A user or a program that has set `RANK_TABLE_FILE` and `RANK_ID`.
    RankTable,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::Hcclrun => "hcclrun",
            Launcher::Torchrun => "torchrun",
            Launcher::Variables => "RANK and WORLD_SIZE",
            Launcher::OpenMpi => "Open MPI",
            Launcher::Mpich => "MPICH",
            Launcher::Slurm => "Slurm",
            Launcher::RankTable => "RANK_TABLE_FILE",
        })
    }
}

/// The place where the ranks of a job meet.
///
/// ```
/// use hccl_job::{JobEnv, Meeting};
///
/// let find = |name: &str| match name {
///     "RANK_TABLE_FILE" => Some("/etc/ranks.json".into()),
///     "RANK_ID" => Some("1".into()),
///     "RANK_SIZE" => Some("2".into()),
///     _ => None,
/// };
/// let env = JobEnv::from_variables(find)?.expect("RANK_ID is set");
/// assert!(matches!(&env.meeting, Meeting::RankTable(path) if path.ends_with("ranks.json")));
/// # Ok::<(), hccl_job::JobError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meeting {
    /// The ranks meet at a store.
    Store(StorePlace),
    /// The ranks meet by the rank table in this file, which every rank reads.
    RankTable(PathBuf),
}

/// The address of the store of a job.
#[derive(Clone, PartialEq, Eq)]
pub struct StorePlace {
    /// The addresses at which the store may be: it is at one of them. There is more than one if
    /// another process may have taken a port.
    pub(crate) addresses: Vec<Address>,
    /// Whether the launcher serves the store. If not, rank 0 serves it.
    pub(crate) is_served: bool,
    /// The text that a rank must send to the store.
    pub(crate) secret: String,
}

impl fmt::Debug for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The secret must not get into logs.
            Meeting::Store(place) => write!(f, "Store({place})"),
            Meeting::RankTable(path) => write!(f, "RankTable({})", path.display()),
        }
    }
}

impl fmt::Debug for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StorePlace({self})")
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.addresses[..] {
            [Address::Tcp(host, first), .., Address::Tcp(_, last)] => {
                write!(f, "{host}, ports {first} to {last}")
            }
            [first, ..] => first.fmt(f),
            [] => f.write_str("no address"),
        }
    }
}

/// The place of this process in its job, as the environment describes it.
///
/// ```
/// use hccl_job::JobEnv;
///
/// match JobEnv::from_env()? {
///     Some(env) => println!("rank {} of {}", env.rank, env.world_size),
///     None => println!("no launcher has started this process"),
/// }
/// # Ok::<(), hccl_job::JobError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobEnv {
    /// The number of this rank, below `world_size`.
    pub rank: u32,
    /// The number of ranks.
    pub world_size: u32,
    /// The number of this rank among those of its machine.
    pub local_rank: u32,
    /// The number of ranks on this machine. If the environment does not give it, this is the number
    /// of all ranks.
    pub local_world_size: u32,
    /// The launcher that started this process.
    pub launcher: Launcher,
    /// The place where the ranks meet.
    pub meeting: Meeting,
}

/// A place in a job, without the meeting.
struct Numbers {
    rank: u32,
    world_size: u32,
    local_rank: u32,
    local_world_size: u32,
}

impl JobEnv {
    /// Returns the place of this process in its job, as the environment describes it. Returns
    /// `None` if no launcher has started the process.
    ///
    /// The variables are read in this order, and the first variables that are set decide:
    ///
    /// | variables | set by | the ranks meet |
    /// | --- | --- | --- |
    /// | `RANK_TABLE_FILE`, `RANK_ID`, `RANK_SIZE` | you, as CANN's own examples do; without `RANK_ID` the rank is that of one of the launchers below | by the rank table |
    /// | `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `LOCAL_WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT` | `hcclrun`, `torchrun`, you | at a store at that address and port; beside `torchrun`'s own store, at one of the next 16 ports; without `MASTER_ADDR` at a store named after `HCCL_JOB_ID`, `MASTER_PORT` or the parent process, on one machine |
    /// | `OMPI_COMM_WORLD_RANK`, `_SIZE`, `_LOCAL_RANK`, `_LOCAL_SIZE` | `mpirun` of Open MPI | at a store named after the job, on one machine; at `MASTER_ADDR` if that is set |
    /// | `PMI_RANK`, `PMI_SIZE`, `MPI_LOCALRANKID`, `MPI_LOCALNRANKS` | `mpiexec` of MPICH and Intel MPI | the same |
    /// | `SLURM_PROCID`, `SLURM_NTASKS`, `SLURM_LOCALID`, `SLURM_STEP_ID` | `srun` | the same |
    ///
    /// # Errors
    ///
    /// [`JobError::Variable`] for an impossible value. [`JobError::Unset`] when one variable is set
    /// but a variable that belongs to it is missing.
    pub fn from_env() -> Result<Option<JobEnv>, JobError> {
        JobEnv::from_variables(|name| {
            std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
        })
    }

    /// Returns the place in a job that the values of `variable` describe. Does not read the
    /// environment of this process.
    ///
    /// # Errors
    ///
    /// As for [`from_env`](Self::from_env).
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<JobEnv>, JobError> {
        let variables = Variables { variable: &variable };
        let launched = variables.launched()?;
        match variables.text(RANK_TABLE_FILE) {
            Some(path) => variables.of_rank_table(path.into(), launched).map(Some),
            None => Ok(launched),
        }
    }
}

struct Variables<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Variables<'_> {
    /// Returns the value of a variable that is set and not empty.
    fn text(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    fn number(&self, name: &'static str) -> Result<Option<u32>, JobError> {
        let Some(value) = self.text(name) else { return Ok(None) };
        match value.trim().parse::<u32>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(wrong(name, value, "it must be a number from 0 to 4294967295: fix it")),
        }
    }

    /// Returns a number that must be set because the variable `set` is set.
    fn needed(&self, name: &'static str, set: &str) -> Result<u32, JobError> {
        let why = || format!("{set} is set, and both belong together: unset {set}, or set both");
        self.number(name)?.ok_or_else(|| JobError::Unset { name, why: why() })
    }

    fn port(&self) -> Result<u16, JobError> {
        let Some(value) = self.text(MASTER_PORT) else { return Ok(DEFAULT_PORT) };
        match value.trim().parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(wrong(MASTER_PORT, value, "it must be a port from 1 to 65535: fix it")),
        }
    }

    fn secret(&self, job: &str) -> String {
        self.text(SECRET).unwrap_or_else(|| job.to_owned())
    }

    /// Reads the numbers of a launcher from the variables with these names. Returns `None` if the
    /// launcher has not set them.
    fn numbers(
        &self,
        [rank, world_size, local_rank, local_world_size]: [&'static str; 4],
    ) -> Result<Option<Numbers>, JobError> {
        let Some(own) = self.number(rank)? else {
            return match self.text(world_size).filter(|_| world_size == WORLD_SIZE) {
                Some(_) => self.needed(rank, world_size).map(|_| None),
                None => Ok(None),
            };
        };
        let ranks = self.needed(world_size, rank)?;
        if ranks == 0 {
            return Err(wrong(
                world_size,
                "0".into(),
                "a job has at least one rank: set it to the number of ranks",
            ));
        }
        let below = |name, number: u32, limit: u32, of: &str| match number < limit {
            true => Ok(number),
            false => {
                let rule =
                    format!("{of} is {limit}, so it must be below {limit}: correct one of the two");
                Err(wrong(name, number.to_string(), rule))
            }
        };
        let own = below(rank, own, ranks, world_size)?;
        let locals = self.number(local_world_size)?;
        // If the launcher gives no local numbers, all ranks are on one machine.
        let local = match (self.number(local_rank)?, locals) {
            (Some(local), Some(locals)) => below(local_rank, local, locals, local_world_size)?,
            (Some(local), None) => below(local_rank, local, ranks, world_size)?,
            (None, Some(locals)) if own >= locals => {
                let why = format!(
                    "{local_world_size} is {locals}, so the number of rank {own} on its machine \
                     is not {own}: set it"
                );
                return Err(JobError::Unset { name: local_rank, why });
            }
            (None, _) => own,
        };
        let locals = locals.unwrap_or(ranks);
        if locals > ranks {
            let rule = format!(
                "{world_size} is {ranks}, so it can be at most {ranks}: correct one of the two"
            );
            return Err(wrong(local_world_size, locals.to_string(), rule));
        }
        Ok(Some(Numbers {
            rank: own,
            world_size: ranks,
            local_rank: local,
            local_world_size: locals,
        }))
    }

    fn launched(&self) -> Result<Option<JobEnv>, JobError> {
        if let Some(numbers) = self.numbers([RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE])? {
            return self.of_torch(numbers).map(Some);
        }
        let open_mpi = [
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
        ];
        if let Some(numbers) = self.numbers(open_mpi)? {
            let job = self.text("PMIX_NAMESPACE").or_else(|| self.text("OMPI_MCA_ess_base_jobid"));
            return self.of_job(numbers, Launcher::OpenMpi, job).map(Some);
        }
        let hydra = ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"];
        if let Some(numbers) = self.numbers(hydra)? {
            return self.of_job(numbers, Launcher::Mpich, None).map(Some);
        }
        // Inside an allocation, but outside of a step, the variables describe the batch script.
        let Some(step) = self.text("SLURM_STEP_ID") else { return Ok(None) };
        let locals = "SLURM_TASKS_ON_THIS_NODE";
        match self.numbers(["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", locals])? {
            None => Ok(None),
            Some(numbers) => {
                let job = self.text("SLURM_JOB_ID").map(|job| format!("{job}.{step}"));
                let numbers = self.on_slurm_nodes(numbers)?;
                self.of_job(numbers, Launcher::Slurm, job).map(Some)
            }
        }
    }

    /// Corrects the number of local ranks if a step of Slurm has several nodes. Slurm gives the
    /// number of tasks of each node in a list such as `2(x3),1`.
    fn on_slurm_nodes(&self, numbers: Numbers) -> Result<Numbers, JobError> {
        const TASKS: &str = "SLURM_STEP_TASKS_PER_NODE";
        let nodes = self.number("SLURM_STEP_NUM_NODES")?.unwrap_or(1);
        if nodes <= 1 {
            return Ok(numbers);
        }
        let Some(list) = self.text(TASKS) else {
            let why = format!(
                "the step has {nodes} nodes, so it must list the tasks of each node: start the \
                 ranks with srun, which sets it"
            );
            return Err(JobError::Unset { name: TASKS, why });
        };
        let node = self.number("SLURM_NODEID")?.unwrap_or(0);
        match tasks_of_node(&list, node) {
            Some(tasks) => Ok(Numbers { local_world_size: tasks, ..numbers }),
            None => {
                let rule =
                    format!("it must say how many tasks node {node} has, as in 2(x3),1: fix it");
                Err(wrong(TASKS, list, rule))
            }
        }
    }

    fn of_torch(&self, numbers: Numbers) -> Result<JobEnv, JobError> {
        let host = self.text(MASTER_ADDR);
        let run = self.text(TORCHELASTIC_RUN_ID);
        let is_served = self.text(SERVED).is_some();
        let is_torchrun = run.is_some() && !is_served;
        let launcher = match (is_served, is_torchrun) {
            (true, _) => Launcher::Hcclrun,
            (_, true) => Launcher::Torchrun,
            _ => Launcher::Variables,
        };
        let Some(host) = host else {
            if numbers.local_world_size < numbers.world_size || is_served || is_torchrun {
                return Err(JobError::Unset { name: MASTER_ADDR, why: across_machines(&numbers) });
            }
            let port = self.text(MASTER_PORT).map(|_| self.port()).transpose()?;
            let port = port.map(|port| port.to_string());
            let job = run.or_else(|| self.text(JOB_ID)).or(port);
            return self.of_job(numbers, launcher, job);
        };
        let port = self.port()?;
        let has_agent = is_torchrun
            && self.text(TORCHELASTIC_USE_AGENT_STORE).is_none_or(|text| text != "False");
        let ports = match has_agent {
            false => vec![port],
            // `MASTER_PORT` itself is the port of the agent.
            true => (1..=PORTS_BEHIND).filter_map(|behind| port.checked_add(behind)).collect(),
        };
        let addresses: Vec<Address> =
            ports.into_iter().map(|port| Address::Tcp(host.clone(), port)).collect();
        let secret = self.secret(run.as_deref().unwrap_or_default());
        Ok(numbers.at(launcher, Meeting::Store(StorePlace { addresses, is_served, secret })))
    }

    /// Returns the place of this process in a job whose launcher gives no address.
    fn of_job(
        &self,
        numbers: Numbers,
        launcher: Launcher,
        job: Option<String>,
    ) -> Result<JobEnv, JobError> {
        let job = self.text(JOB_ID).or(job);
        if let Some(host) = self.text(MASTER_ADDR) {
            let secret = self.secret(job.as_deref().unwrap_or_default());
            let addresses = vec![Address::Tcp(host, self.port()?)];
            let place = StorePlace { addresses, is_served: false, secret };
            return Ok(numbers.at(launcher, Meeting::Store(place)));
        }
        if numbers.local_world_size < numbers.world_size {
            return Err(JobError::Unset { name: MASTER_ADDR, why: across_machines(&numbers) });
        }
        // The ranks of a job have the same parent, unless another program runs between the launcher
        // and a rank.
        let job = job.unwrap_or_else(|| format!("parent {}", std::os::unix::process::parent_id()));
        // SAFETY: the call has no arguments and cannot fail.
        let user = unsafe { libc::geteuid() };
        let name = format!("hccl-job/{user}/{launcher}/{job}");
        // The kernel takes names of up to 107 bytes.
        let name = match name.len() {
            ..=100 => name,
            _ => format!("hccl-job/{user}/{launcher}/{:016x}", digest(&job)),
        };
        let place = StorePlace {
            addresses: vec![Address::Local(name)],
            is_served: false,
            secret: self.secret(&job),
        };
        Ok(numbers.at(launcher, Meeting::Store(place)))
    }

    fn of_rank_table(&self, path: PathBuf, launched: Option<JobEnv>) -> Result<JobEnv, JobError> {
        let meeting = Meeting::RankTable(path);
        let ours = self.numbers([RANK_ID, RANK_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE])?;
        match (ours, launched) {
            (Some(numbers), _) => Ok(numbers.at(Launcher::RankTable, meeting)),
            (None, Some(launched)) => Ok(JobEnv { meeting, ..launched }),
            (None, None) => {
                let why = "RANK_TABLE_FILE is set, so it must say which rank this process is: set \
                           RANK_ID and RANK_SIZE, or unset RANK_TABLE_FILE";
                Err(JobError::Unset { name: RANK_ID, why: why.into() })
            }
        }
    }
}

impl Numbers {
    fn at(self, launcher: Launcher, meeting: Meeting) -> JobEnv {
        JobEnv {
            rank: self.rank,
            world_size: self.world_size,
            local_rank: self.local_rank,
            local_world_size: self.local_world_size,
            launcher,
            meeting,
        }
    }
}

fn wrong(name: &'static str, value: String, rule: impl Into<String>) -> JobError {
    JobError::Variable { name, value, rule: rule.into() }
}

fn across_machines(numbers: &Numbers) -> String {
    let Numbers { world_size, local_world_size, .. } = numbers;
    format!(
        "only {local_world_size} of the {world_size} ranks are on this machine: set it to an \
         address of the machine of rank 0 that the others can reach (and {MASTER_PORT}, unless \
         {DEFAULT_PORT} is free there)"
    )
}

/// Returns the number of tasks of a node from a list such as `2(x3),1`. Returns `None` if the list
/// is wrong or does not have the node.
fn tasks_of_node(list: &str, node: u32) -> Option<u32> {
    let mut left = node;
    for part in list.split(',') {
        let (tasks, nodes) = match part.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse::<u32>().ok()?),
            None => (part, 1),
        };
        let tasks = tasks.trim().parse::<u32>().ok()?;
        match left.checked_sub(nodes) {
            None => return Some(tasks),
            Some(more) => left = more,
        }
    }
    None
}

/// Returns a hash of a text that is the same in every process (FNV-1a).
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
