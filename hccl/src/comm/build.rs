//! Making communicators from a root info, or for several devices of this process.

use std::ffi::CString;
use std::sync::Arc;

use ascend_sys::{HcclComm, HcclCommConfig};
use typed_builder::TypedBuilder;

use super::handle::Origin;
use super::{CommConfig, Communicator, RootInfo, making};
use crate::api::{Table, call};
use crate::device::Device;
use crate::error::peers::PeerReport;
use crate::error::{Error, OpContext, Result};
use crate::pending::Pending;
use crate::runtime::Runtime;

const BUILD: &str = "Communicator::builder";
const INIT_ALL: &str = "Communicator::init_all";

/// The arguments that [`Communicator::builder`] collects.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let root = RootInfo::new(&runtime.device(0)?)?;
/// // A program never names `Plan`: `build` makes the plan and carries it out.
/// let comm = Communicator::builder().runtime(&runtime).rank(0).world_size(1).root_info(&root);
/// assert_eq!(comm.build().wait()?.world_size(), 1);
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(TypedBuilder)]
#[builder(
    doc,
    builder_type(
        name = CommunicatorBuilder,
        vis = "pub",
        doc = "A builder of a communicator. Each method sets one part, and `build` begins to make the communicator. Returned by [`Communicator::builder`].\n\n\
            ```\n\
            use hccl::prelude::*;\n\
            \n\
            # let runtime = Runtime::emulator(1)?;\n\
            let device = runtime.device(0)?;\n\
            let root = RootInfo::new(&device)?;\n\
            let builder = Communicator::builder().device(&device).rank(0).world_size(1).root_info(&root);\n\
            let comm = builder.build().wait()?;\n\
            # Ok::<(), hccl::Error>(())\n\
            ```"
    ),
    build_method(into = Pending<Communicator>)
)]
pub struct Plan<'a> {
    /// The device of this rank.
    #[builder(default, setter(strip_option))]
    device: Option<&'a Device>,
    /// The runtime, as a shorthand for its device that has the number of the rank.
    #[builder(default, setter(strip_option))]
    runtime: Option<&'a Runtime>,
    /// The number of this rank, below the number of ranks.
    rank: u32,
    /// The number of ranks.
    world_size: u32,
    /// The root info by which the ranks meet, the same for all ranks.
    root_info: &'a RootInfo,
    /// The settings; the same for all ranks.
    #[builder(default)]
    config: CommConfig,
}

impl Communicator {
    /// Returns a builder of a communicator. Call `.device(&device)` or `.runtime(&runtime)`, then
    /// `.rank(r)`, `.world_size(n)`, `.root_info(&root)`, optionally `.config(config)`, and at last
    /// `.build()`. Await the result with `.await?`, or block with `.wait()?`.
    ///
    /// | setting | type | |
    /// | --- | --- | --- |
    /// | `device` | `&Device` | the device of this rank; either this or `runtime` |
    /// | `runtime` | `&Runtime` | shorthand for the device of this runtime that has the number of the rank |
    /// | `rank` | `u32` | required: the number of this rank, from 0, below `world_size` |
    /// | `world_size` | `u32` | required: the number of ranks, at least 1 |
    /// | `root_info` | `&RootInfo` | required: where the ranks meet; the same for all of them |
    /// | `config` | [`CommConfig`] | settings, the same for all ranks; CANN's defaults unless given |
    ///
    /// `build` returns a future at once: see [`Pending`]. The communicator is ready when all ranks
    /// have called `build`. Several ranks of one process may call `build` on one thread. CANN:
    /// `HcclCommInitRootInfoConfig`.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a mistake that is found before CANN makes the communicator. Its cause
    /// is one of these:
    ///
    /// * [`Error::NoSuchRank`] if the rank is not below the number of ranks.
    /// * [`Error::Invalid`] unless exactly one of `device` and `runtime` is given, or if the
    ///   runtime has no device with the number of the rank.
    /// * [`Error::Config`] for a setting that CANN would reject or ignore.
    /// * The error of [`Runtime::device`] if `runtime` cannot open the device.
    ///
    /// Otherwise the error of CANN, for example [`Error::Call`] with `HCCL_E_TIMEOUT` if ranks are
    /// missing. Its text names them.
    pub fn builder<'a>() -> CommunicatorBuilder<'a> {
        Plan::builder()
    }
}

impl Communicator {
    /// Begins to make a communicator of all ranks of a run. `before` is the number of communicators
    /// that the run has begun before.
    pub(crate) fn join_run(
        device: &Device,
        (rank, world_size): (u32, u32),
        root_info: &RootInfo,
        config: CommConfig,
        before: usize,
    ) -> Pending<Communicator> {
        let plan =
            Plan { device: Some(device), runtime: None, rank, world_size, root_info, config };
        let titled = |join: Join| match before {
            0 => join,
            _ if join.title != WORLD => join,
            _ => Join { title: format!("{WORLD} {}", before + 1), ..join },
        };
        plan.check().map(titled).into()
    }
}

impl From<Result<Join>> for Pending<Communicator> {
    fn from(join: Result<Join>) -> Self {
        match join {
            Ok(join) => Pending::begin(BUILD, &join.device.clone(), move || join.make()),
            Err(error) => Pending::ready(Err(error)),
        }
    }
}

impl From<Plan<'_>> for Pending<Communicator> {
    fn from(plan: Plan<'_>) -> Self {
        plan.check().into()
    }
}

/// Returns the states of the ranks of a communicator that could not be made, or `None` if the
/// backend does not report them.
#[cold]
fn attempt(table: &Table) -> Option<Arc<PeerReport>> {
    let report = table.peers_of_attempt()?;
    Some(Arc::new(PeerReport { failed: true, ..report }))
}

/// The checked arguments with which a rank joins a communicator.
pub(super) struct Join {
    operation: &'static str,
    device: Device,
    rank: u32,
    meets: Meets,
    title: String,
    config: HcclCommConfig,
    exec_seconds: Option<u32>,
}

/// The place where ranks meet.
pub(super) enum Meets {
    /// A root info, and the number of ranks.
    RootInfo(RootInfo, u32),
    /// The path of a rank table.
    RankTable(CString),
}

impl Meets {
    /// Returns the number of ranks, if it is known before the ranks meet.
    fn world_size(&self) -> Option<u32> {
        match self {
            Meets::RootInfo(_, world_size) => Some(*world_size),
            Meets::RankTable(_) => None,
        }
    }
}

/// The title of the communicator of all ranks, unless it has a name.
pub(super) const WORLD: &str = "world";

/// Returns the error for a mistake that is found before CANN is called.
pub(super) fn refused(
    operation: &'static str,
    title: &str,
    (rank, world_size): (u32, Option<u32>),
    cause: Error,
) -> Error {
    let context =
        OpContext { communicator: Some(title.into()), world_size, ..making(operation, Some(rank)) };
    Error::Refused { context: Box::new(context), cause: Box::new(cause) }
}

impl Plan<'_> {
    /// Checks the plan. An error names the communicator and the rank.
    fn check(self) -> Result<Join> {
        let (rank, world_size) = (self.rank, self.world_size);
        let title = self.config.name().unwrap_or(WORLD).to_owned();
        self.checked().map_err(|cause| refused(BUILD, &title, (rank, Some(world_size)), cause))
    }

    fn checked(self) -> Result<Join> {
        let Plan { device, runtime, rank, world_size, root_info, config } = self;
        if rank >= world_size {
            return Err(Error::NoSuchRank { what: "the rank", rank, world_size });
        }
        let device = match (device, runtime) {
            (Some(device), None) => device.clone(),
            (None, Some(runtime)) if (rank as usize) < runtime.device_count() => {
                runtime.device(rank as usize)?
            }
            (None, Some(runtime)) => {
                let count = runtime.device_count();
                let problem = format!(
                    "rank {rank} has no device with the same number: this runtime has {count}, numbered \
                     from 0; give `.device(&local)`, the device of this process, instead of \
                     `.runtime(..)`"
                );
                return Err(Error::Invalid { operation: BUILD, problem: problem.into() });
            }
            _ => {
                let problem = "the builder needs either a device or a runtime: give \
                               `.device(&device)` or `.runtime(&runtime)`, but not both"
                    .into();
                return Err(Error::Invalid { operation: BUILD, problem });
            }
        };
        Join::new(BUILD, device, rank, Meets::RootInfo(root_info.clone(), world_size), config)
    }
}

impl Join {
    pub(super) fn new(
        operation: &'static str,
        device: Device,
        rank: u32,
        meets: Meets,
        config: CommConfig,
    ) -> Result<Self> {
        let exec_seconds = config.exec_seconds();
        let title = config.name().unwrap_or(WORLD).to_owned();
        let config = config.to_raw(device.runtime().product())?;
        Ok(Join { operation, device, rank, meets, title, config, exec_seconds })
    }

    /// Makes the communicator. Blocks until all ranks have called this.
    pub(super) fn make(self) -> Result<Communicator> {
        let Join { operation, device, rank, meets, title, mut config, exec_seconds } = self;
        let table = device.table();
        // Destroys what can be destroyed, because a dropped communicator may still have the name,
        // or may be the one that the device has joined by a rank table.
        device.reap();
        let _bound = device.bind()?;
        let mut raw: HcclComm = std::ptr::null_mut();
        // SAFETY: the structures, the path with its NUL and the out parameters are live for the
        // calls, which keep none of them.
        let made = unsafe {
            match &meets {
                Meets::RootInfo(info, ranks) => {
                    let (ranks, info) = (*ranks, info.raw());
                    call!(table, HcclCommInitRootInfoConfig, ranks, info, rank, &config, &mut raw)
                        .map(|()| ranks)
                }
                Meets::RankTable(path) => {
                    let (path, mut ranks) = (path.as_ptr(), 0);
                    call!(table, HcclCommInitClusterInfoConfig, path, rank, &mut config, &mut raw)
                        .and_then(|()| call!(table, HcclGetRankSize, raw, &mut ranks))
                        .map(|()| ranks)
                }
            }
        };
        let world_size = made.map_err(|error| {
            error.in_operation(|| OpContext {
                communicator: Some(title.as_str().into()),
                world_size: meets.world_size(),
                peers: attempt(table),
                ..making(operation, Some(rank))
            })
        })?;
        // SAFETY: CANN has just made it for this device, and no other code has the handle.
        let mut communicator = unsafe {
            let place = (rank, world_size);
            Communicator::from_parts(operation, raw, &device, place, Some(title), Origin::Own)
        }?;
        if let Some(seconds) = exec_seconds {
            communicator.member.exec_seconds = seconds;
        }
        Ok(communicator)
    }
}

impl Communicator {
    /// Makes one communicator for each of several devices of this process. These devices are all
    /// the ranks: rank `i` is `devices[i]`.
    ///
    /// Returns a future of the communicators at once: see [`Pending`]. CANN: `HcclCommInitAll`.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] if `devices` is empty, [`Error::WrongRuntime`] if the devices belong to
    /// different runtimes, [`Error::Invalid`] if a device is named twice, and the error of CANN.
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(2)?;
    /// let devices = [runtime.device(0)?, runtime.device(1)?];
    /// let communicators = Communicator::init_all(&devices).wait()?;
    /// assert_eq!(communicators[1].rank(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn init_all(devices: &[Device]) -> Pending<Vec<Self>> {
        match check_devices(devices) {
            Ok(first) => {
                let (own, devices) = (first.clone(), devices.to_vec());
                Pending::begin(INIT_ALL, first, move || make_all(&own, &devices))
            }
            Err(error) => Pending::ready(Err(error)),
        }
    }
}

/// Checks that all devices belong to one runtime and that no device is named twice. Returns the
/// first device.
fn check_devices(devices: &[Device]) -> Result<&Device> {
    let Some(first) = devices.first() else {
        return Err(Error::Empty { operation: INIT_ALL, what: "the list of devices" });
    };
    for (at, device) in devices.iter().enumerate() {
        if !device.runtime().is(first.runtime()) {
            return Err(Error::WrongRuntime { operation: INIT_ALL, what: "a device" });
        }
        if devices[..at].contains(device) {
            let problem = format!("device {} is named twice: name it once", device.index());
            return Err(Error::Invalid { operation: INIT_ALL, problem: problem.into() });
        }
    }
    Ok(first)
}

fn make_all(first: &Device, devices: &[Device]) -> Result<Vec<Communicator>> {
    let mut ids: Vec<i32> = devices.iter().map(Device::id).collect();
    let count = devices.len() as u32;
    let mut raw: Vec<HcclComm> = vec![std::ptr::null_mut(); devices.len()];
    let _bound = first.bind()?;
    let table = first.table();
    // SAFETY: both arrays have `count` elements and are live for the call.
    unsafe { call!(table, HcclCommInitAll, count, ids.as_mut_ptr(), raw.as_mut_ptr()) }
        .map_err(|error| error.in_operation(|| making(INIT_ALL, None)))?;
    // Every handle gets an owner before the first error is returned, so that all are destroyed.
    let made: Vec<Result<Communicator>> = (raw.into_iter().zip(devices).enumerate())
        .map(|(rank, (raw, device))| {
            let (place, title) = ((rank as u32, count), Some(WORLD.into()));
            // SAFETY: CANN has just made it for this device, and no other code has the handle.
            unsafe { Communicator::from_parts(INIT_ALL, raw, device, place, title, Origin::Own) }
        })
        .collect();
    made.into_iter().collect()
}
