//! The entries that make and end communicators, as in CANN's `hccl_comm.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Handle, In, Named, Out, OutSlice, Place, Slice};
use super::entries::{Hccl, entries};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ascend_sys::{HcclComm, HcclCommConfig, HcclResult, HcclRootInfo};

use super::hccl_entry::not_null;
use crate::callback::may_block;
use crate::check;
use crate::context;
use crate::fabric::config::CommConfig;
use crate::fabric::gathering::{self, Applicant};

use crate::fabric::rank_table::RankTable;
use crate::fabric::root;
use crate::fabric::root_info::ROOT_INFO;
use crate::fabric::{Comm, Member, SubCommRequest, attempt, cluster, hooks, registry};
use crate::fork;
use crate::issue::group::{self, Enter};
use crate::machine::{self, MAX_DEVICES, Settings};
use crate::message::{Failure, refuse};
use crate::profile::Product;

entries! {
    Hccl;

    fn HcclGetRootInfo(root_info: Out<RootInfo, *mut HcclRootInfo>) {
        let root_info = root_info.required("rootInfo")?;
        fork::devices_are_used();
        if let Ok((_, device)) = context::current_device()
            && let Some(settings) = device.settings()
        {
            check_variables(&settings)?;
        }
        root_info.write(root::create()?);
        Ok(())
    }

    fn HcclCommInitRootInfo(
        ranks: u32,
        info: In<RootInfo, *const HcclRootInfo>,
        rank: u32,
        comm: Out<HcclComm>,
    ) {
        attempt::begin();
        let (info, comm) = check_join(ranks, &info, rank, comm)?;
        join(ENTRY, (rank, ranks), CommConfig::default(), comm, by_root_info(*info))
    }

    fn HcclCommInitRootInfoConfig(
        ranks: u32,
        info: In<RootInfo, *const HcclRootInfo>,
        rank: u32,
        config: *const HcclCommConfig,
        comm: Out<HcclComm>,
    ) {
        attempt::begin();
        let (info, comm) = check_join(ranks, &info, rank, comm)?;
        let product = context::current_device()?.1.product();
        // SAFETY: by the C contract the configuration is null, or as large as its size field says.
        let config = unsafe { CommConfig::read(config.cast(), product) }?;
        join(ENTRY, (rank, ranks), config, comm, by_root_info(*info))
    }

    fn HcclCommInitClusterInfo(table: CText, rank: u32, comm: Out<HcclComm>) {
        attempt::begin();
        let comm = comm.required("comm")?;
        join_cluster(ENTRY, &table, rank, CommConfig::default(), comm)
    }

    fn HcclCommInitClusterInfoConfig(
        table: CText,
        rank: u32,
        config: *mut HcclCommConfig,
        comm: Out<HcclComm>,
    ) {
        attempt::begin();
        let comm = comm.required("comm")?;
        not_null(config, "config")?;
        let product = context::current_device()?.1.product();
        // SAFETY: not null, so as large as it says, by the C contract.
        let config = unsafe { CommConfig::read(config.cast(), product) }?;
        join_cluster(ENTRY, &table, rank, config, comm)
    }

    fn HcclCommInitAll(
        count: u32,
        devices: Slice<i32, *mut i32>[count],
        comms: OutSlice<HcclComm>[count],
    ) {
        if count == 0 {
            return refuse!(HCCL_E_PARA, "ndev is 0; pass at least one device");
        }
        let devices = devices.required("devices")?;
        let comms = comms.required("comms")?;
        if count > MAX_DEVICES {
            return refuse!(HCCL_E_PARA, "ndev is {count}; pass at most {MAX_DEVICES} devices");
        }
        for (index, device) in devices.iter().enumerate() {
            if devices[..index].contains(device) {
                return refuse!(
                    HCCL_E_PARA,
                    "device {device} is in the list twice; pass each device once"
                );
            }
        }
        let mut made = vec![std::ptr::null_mut(); devices.len()];
        let result = init_all(&devices, &mut made);
        if result.is_err() {
            for comm in made.iter_mut().filter(|comm| !comm.is_null()) {
                // The communicator was made just now and no handle was returned, so nothing else
                // uses it.
                let _ = registry::destroy(*comm as u64);
                *comm = std::ptr::null_mut();
            }
        }
        comms.write(&made);
        result
    }

    fn HcclCreateSubCommConfig(
        comm: In<HcclComm, *mut HcclComm>,
        count: u32,
        ranks: Slice<u32, *mut u32>[count],
        id: u64,
        own: u32,
        config: *mut HcclCommConfig,
        sub_comm: Out<HcclComm>,
    ) {
        attempt::begin();
        match (ranks.is_null(), id == NOT_A_MEMBER) {
            (true, true) => return Ok(()),
            (false, false) => {}
            (null, _) => {
                return refuse!(
                    HCCL_E_PARA,
                    "rankIds is {} and subCommId is {id:#x}; pass rankIds and an id if this rank \
                     is in the sub-communicator, or else NULL and 0xffffffff",
                    if null { "NULL" } else { "not NULL" }
                );
            }
        }
        let comm = *comm.required("comm")?;
        not_null(config, "config")?;
        let sub_comm = sub_comm.required("subComm")?;
        if count == 0 {
            return refuse!(HCCL_E_PARA, "rankNum is 0; pass at least one rank");
        }
        if own >= count {
            return refuse!(
                HCCL_E_PARA,
                "subCommRankId {own} is not below rankNum, which is {count}; pass the index of \
                 this rank in rankIds"
            );
        }
        let ranks = ranks.required("rankIds")?;
        let parent = Member::find(comm as u64)?;
        if count as usize > parent.comm.ranks() {
            return refuse!(
                HCCL_E_PARA,
                "rankNum is {count}, but the number of ranks of the communicator \"{}\" is {}; \
                 pass at most that number",
                parent.comm.title(),
                parent.comm.ranks()
            );
        }
        // SAFETY: not null, so as large as it says, by the C contract.
        let config = unsafe { CommConfig::read(config.cast(), parent.comm.product) }?;
        let sub = new_sub(&parent, &ranks, id, own as usize, config)?;
        let handle = register(sub)?;
        sub_comm.write(handle as HcclComm);
        Ok(())
    }

    fn HcclCommDestroy(comm: Handle<Member>) {
        if comm.is_null() {
            // This is a success, as in CANN, which logs a warning.
            return Ok(());
        }
        if group::is_open() {
            return group::destroy(ENTRY, comm.number());
        }
        hooks::around_end(comm.number())
    }

    fn ascendExtRootInfoStays(info: In<RootInfo, *const HcclRootInfo>) {
        root::keep_here(info.required("rootInfo")?)
    }

    fn ascendExtRankLeave(info: In<RootInfo, *const HcclRootInfo>, rank: u32, reason: CText) {
        let info = info.required("rootInfo")?;
        let reason = reason.required("reason")?;
        root::leave(info, rank, &reason)
    }
}

/// The bytes of a root info.
type RootInfo = [u8; ROOT_INFO];

fn check_join(
    ranks: u32,
    info: &In<RootInfo, *const HcclRootInfo>,
    rank: u32,
    comm: Out<HcclComm>,
) -> Result<(&RootInfo, Place<HcclComm>), Failure> {
    if ranks == 0 {
        return refuse!(HCCL_E_PARA, "nRanks is 0; pass at least 1");
    }
    if rank >= ranks {
        return refuse!(
            HCCL_E_PARA,
            "the rank {rank} is not below nRanks, which is {ranks}; count ranks from 0"
        );
    }
    let comm = comm.required("comm")?;
    Ok((info.required("rootInfo")?, comm))
}

/// Makes a communicator, and blocks until its ranks have joined. In an open group, does not block:
/// the end of the group makes the communicator and writes `comm`. By the C contract, `comm` stays
/// valid until then.
fn join(
    function: &'static str,
    (rank, ranks): (u32, u32),
    config: CommConfig,
    comm: Place<HcclComm>,
    enter: Enter,
) -> Result<(), Failure> {
    may_block()?;
    let (current, device) = context::current_device()?;
    let Some(settings) = device.settings() else {
        return refuse!(
            HCCL_E_RUNTIME,
            "EI9999: device {} is gone; call aclrtSetDevice with another device",
            machine::named(current.device)
        );
    };
    check_variables(&settings)?;
    let config = config.with_defaults(settings.buffer_megabytes, settings.expansion);
    let applicant =
        Applicant { rank, ranks, device: current.device, settings, config, guest: None };
    let own = applicant.clone();
    let finish = move |shared| {
        let handle = register(new_member(shared, own.rank as usize, &own))?;
        comm.write(handle as HcclComm);
        Ok(())
    };
    if group::is_open() {
        group::join(function, enter, applicant, Box::new(finish))?;
        // The handle is NULL until the group ends. Then `finish` writes it, if the communicator was
        // made.
        comm.write(std::ptr::null_mut());
        return Ok(());
    }
    finish(enter(&applicant)?.wait()?)
}

/// Returns an error if an environment variable of HCCL has a wrong value.
fn check_variables(settings: &Settings) -> Result<(), Failure> {
    machine::check_hccl_variables(settings).map_err(|text| {
        let text = format!("EI0001: the environment variable {text}");
        Failure::new(HcclResult::HCCL_E_PARA, text)
    })
}

fn by_root_info(info: RootInfo) -> Enter {
    Box::new(move |applicant| root::enter(&info, applicant))
}

/// Makes a communicator of the ranks in a rank table file, as [`join`] does.
fn join_cluster(
    function: &'static str,
    table: &CText,
    rank: u32,
    config: CommConfig,
    comm: Place<HcclComm>,
) -> Result<(), Failure> {
    let path = Path::new(OsStr::from_bytes(table.as_it_is("clusterInfo")?.to_bytes()));
    let (current, device) = context::current_device()?;
    let table = RankTable::read(path, device.product())?;
    let first = device.settings().map_or(0, |settings| settings.first);
    table.may_join(rank, current.device.saturating_sub(first))?;
    let ranks = table.ranks();
    let enter: Enter = Box::new(move |applicant| cluster::enter(table, applicant, function));
    join(function, (rank, ranks), config, comm, enter)
}

/// Makes a handle for a rank that has joined a communicator.
fn register(member: Member) -> Result<u64, Failure> {
    check::joins(&member);
    registry::register(member)
}

fn new_member(comm: Arc<Comm>, rank: usize, applicant: &Applicant) -> Member {
    let Applicant { device, settings, config, .. } = applicant;
    Member {
        comm,
        rank,
        device: *device,
        origin: None,
        config: config.clone(),
        exec_timeout: exec_timeout(config, settings),
        suspended: AtomicBool::new(false),
        numbers_zeros: AtomicBool::new(false),
    }
}

/// Returns the time limit of a waiting task; `None` means no limit.
fn exec_timeout(config: &CommConfig, settings: &Settings) -> Option<Duration> {
    let of_environment = || Some(settings.exec_timeout).filter(|limit| !limit.is_zero());
    let seconds = match (config.exec_timeout, settings.product) {
        (None, _) => return of_environment(),
        (Some(0), Product::A2 | Product::A3) => return None,
        (Some(seconds), Product::A2 | Product::A3) => seconds,
        // The limit is rounded down to steps of 68 seconds, but is at least 68. A value out of
        // range is ignored.
        (Some(seconds @ 1..=17_340), Product::Ascend950) => (seconds - seconds % 68).max(68),
        (Some(_), Product::Ascend950) => return of_environment(),
    };
    Some(Duration::from_secs(seconds.into()))
}

fn init_all(devices: &[i32], comms: &mut [HcclComm]) -> Result<(), Failure> {
    fork::devices_are_used();
    let internal = |text| Failure::new(HcclResult::HCCL_E_INTERNAL, format!("EI0015: {text}"));
    let mut applicants = Vec::with_capacity(devices.len());
    for (rank, id) in devices.iter().enumerate() {
        let device = machine::device(*id).map_err(internal)?;
        let settings = device
            .settings()
            .ok_or_else(|| internal(format!("device {id} is gone; pass another device")))?;
        check_variables(&settings)?;
        let (rank, ranks) = (rank as u32, devices.len() as u32);
        let config =
            CommConfig::default().with_defaults(settings.buffer_megabytes, settings.expansion);
        applicants.push(Applicant {
            rank,
            ranks,
            device: device.id,
            settings,
            config,
            guest: None,
        });
    }
    let comm = Arc::new(gathering::form_at_once(&applicants)?);
    for (applicant, place) in applicants.iter().zip(comms) {
        let member = new_member(Arc::clone(&comm), applicant.rank as usize, applicant);
        *place = register(member)? as HcclComm;
    }
    Ok(())
}

/// The id that a rank passes, together with NULL for the ranks, if the rank is not in the
/// sub-communicator.
const NOT_A_MEMBER: u64 = 0xffff_ffff;

/// Makes one rank's side of a sub-communicator.
fn new_sub(
    parent: &Member,
    ranks: &[u32],
    id: u64,
    own: usize,
    config: CommConfig,
) -> Result<Member, Failure> {
    let Member { comm, rank, device, .. } = parent;
    if comm.is_sub {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "\"{}\" is a sub-communicator itself; make this one from the communicator of all ranks",
            comm.title()
        );
    }
    let mut seen = vec![false; comm.ranks()];
    for named in ranks {
        match seen.get_mut(*named as usize) {
            None => {
                let ranks = comm.ranks();
                return refuse!(
                    HCCL_E_PARA,
                    "rankIds names rank {named}, but the number of ranks of the communicator \
                     \"{}\" is {ranks}; pass ranks below that number",
                    comm.title()
                );
            }
            Some(seen) if *seen => {
                return refuse!(
                    HCCL_E_PARA,
                    "rankIds names rank {named} twice; pass each rank once"
                );
            }
            Some(seen) => *seen = true,
        }
    }
    if ranks[own] as usize != *rank {
        return refuse!(
            HCCL_E_PARA,
            "rankIds[{own}] is {}, but it must be this rank, because subCommRankId is {own}; this rank is {rank}",
            ranks[own]
        );
    }
    let Some(settings) = machine::device_slot(*device).settings() else {
        return refuse!(
            HCCL_E_RUNTIME,
            "EI9999: device {device} is gone; call aclrtSetDevice with another device",
            device = machine::named(*device)
        );
    };
    let config = config.with_defaults(settings.buffer_megabytes, settings.expansion);
    let name = match config.name.as_str() {
        "" => format!("{}_sub_{id}", comm.name),
        name => name.to_owned(),
    };
    if registry::find_by_name(&name, *device).is_some() {
        let remedy = match config.name.as_str() {
            "" => "another id, or set a name for it",
            _ => "another name",
        };
        return refuse!(
            HCCL_E_PARA,
            "device {device} already has a communicator named \"{name}\": give the new one {remedy}",
            device = machine::named(*device)
        );
    }
    let ranks = ranks.iter().map(|rank| *rank as usize).collect();
    let wish = SubCommRequest { name, ranks, buffer_megabytes: config.buffer_megabytes };
    Ok(Member {
        comm: comm.make_sub(own, wish)?,
        rank: own,
        device: *device,
        origin: Some((Arc::downgrade(comm), *rank)),
        exec_timeout: exec_timeout(&config, &settings),
        config,
        suspended: AtomicBool::new(false),
        numbers_zeros: AtomicBool::new(false),
    })
}
