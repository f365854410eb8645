//! Communicators: making and ending. CANN's `hccl_comm.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Hccl, Out, entries};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ascend_sys::{HcclComm, HcclCommConfig, HcclCommStatePhase, HcclResult, HcclRootInfo};

use super::hccl_entry::{member, not_null};
use crate::callback::may_block;
use crate::context;
use crate::fabric::config::CommConfig;
use crate::fabric::root::{self, Applicant, ROOT_INFO};
use crate::fabric::subs::SubCommRequest;
use crate::fabric::{Comm, Member, hooks, registry};
use crate::issue::group;
use crate::machine::{self, Settings};
use crate::message::{Failure, refuse};
use crate::profile::Product;

entries! {
    Hccl;

    fn HcclGetRootInfo(root_info: *mut HcclRootInfo) {
        not_null(root_info, "rootInfo")?;
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { root_info.cast::<[u8; ROOT_INFO]>().write_unaligned(root::create()) };
        Ok(())
    }

    fn HcclCommInitRootInfo(ranks: u32, info: *const HcclRootInfo, rank: u32, comm: *mut HcclComm) {
        check_join(ranks, info, rank, comm)?;
        // SAFETY: checked above; valid by the C contract.
        unsafe { join(ENTRY, ranks, info, rank, CommConfig::default(), comm) }
    }

    fn HcclCommInitRootInfoConfig(
        ranks: u32,
        info: *const HcclRootInfo,
        rank: u32,
        config: *const HcclCommConfig,
        comm: *mut HcclComm,
    ) {
        check_join(ranks, info, rank, comm)?;
        let product = context::current_device()?.1.product();
        // SAFETY: null, or as large as it says, by the C contract.
        let config = unsafe { CommConfig::read(config.cast(), product) }?;
        // SAFETY: checked above; valid by the C contract.
        unsafe { join(ENTRY, ranks, info, rank, config, comm) }
    }

    fn HcclCommInitAll(count: u32, devices: *mut i32, comms: *mut HcclComm) {
        if count == 0 {
            return refuse!(HCCL_E_PARA, "ndev is 0");
        }
        not_null(devices, "devices")?;
        not_null(comms, "comms")?;
        // SAFETY: not null, so arrays of `count` by the C contract.
        let (devices, comms) = unsafe {
            (
                std::slice::from_raw_parts(devices, count as usize),
                std::slice::from_raw_parts_mut(comms, count as usize),
            )
        };
        for (index, device) in devices.iter().enumerate() {
            if devices[..index].contains(device) {
                return refuse!(HCCL_E_PARA, "device {device} is in the list twice");
            }
        }
        comms.fill(std::ptr::null_mut());
        let result = init_all(devices, comms);
        if result.is_err() {
            for comm in comms.iter_mut().filter(|comm| !comm.is_null()) {
                // It was made a moment ago: nobody else knows it.
                let _ = registry::destroy(*comm as u64);
                *comm = std::ptr::null_mut();
            }
        }
        result
    }

    fn HcclCreateSubCommConfig(
        comm: *mut HcclComm,
        count: u32,
        ranks: *mut u32,
        id: u64,
        own: u32,
        config: *mut HcclCommConfig,
        sub_comm: Out<HcclComm>,
    ) {
        match (ranks.is_null(), id == NOT_A_MEMBER) {
            (true, true) => return Ok(()),
            (false, false) => {}
            (null, _) => {
                return refuse!(
                    HCCL_E_PARA,
                    "a rank that is in the sub-communicator passes rankIds and an id, one that is not passes NULL and 0xffffffff; \
                     here rankIds is {} and subCommId is {id:#x}",
                    if null { "NULL" } else { "not NULL" }
                );
            }
        }
        not_null(comm, "comm")?;
        not_null(config, "config")?;
        let sub_comm = sub_comm.required("subComm")?;
        if count == 0 {
            return refuse!(HCCL_E_PARA, "rankNum is 0");
        }
        if own >= count {
            return refuse!(
                HCCL_E_PARA,
                "subCommRankId {own} is not below rankNum, which is {count}"
            );
        }
        // SAFETY: not null, so valid for a read, and an array of `count`, by the C contract.
        let (comm, ranks) =
            unsafe { (comm.read_unaligned(), std::slice::from_raw_parts(ranks, count as usize)) };
        let parent = member(comm)?;
        // SAFETY: not null, so as large as it says, by the C contract.
        let config = unsafe { CommConfig::read(config.cast(), parent.comm.product) }?;
        let sub = new_sub(&parent, ranks, id, own as usize, config)?;
        let handle = registry::register(sub)?;
        sub_comm.write(handle as HcclComm);
        Ok(())
    }

    fn HcclCommDestroy(comm: HcclComm) {
        if comm.is_null() {
            // Success, as in CANN, which logs a warning.
            return Ok(());
        }
        if group::is_open() {
            return group::destroy(ENTRY, comm as u64);
        }
        let handle = comm as u64;
        let on_950 = registry::member(handle).is_ok_and(|it| it.comm.product == Product::Ascend950);
        if !on_950 {
            return registry::destroy(handle);
        }
        hooks::call(handle, HcclCommStatePhase::HCCL_COMM_STATE_PHASE_DESTROY_PRE)?;
        registry::destroy(handle)?;
        hooks::call(handle, HcclCommStatePhase::HCCL_COMM_STATE_PHASE_DESTROY_POST)
    }

    fn ascendExtRankLeave(info: *const HcclRootInfo, rank: u32, reason: CText) {
        not_null(info, "rootInfo")?;
        let reason = reason.required("reason")?;
        // SAFETY: not null, so valid for reads by the C contract.
        root::leave(&unsafe { root_info(info) }, rank, &reason)
    }
}

/// The bytes of a root info.
///
/// # Safety
///
/// `info` is valid for reads; it has no alignment.
unsafe fn root_info(info: *const HcclRootInfo) -> [u8; ROOT_INFO] {
    // SAFETY: the caller's promise; any bytes are an array of bytes.
    unsafe { info.cast::<[u8; ROOT_INFO]>().read_unaligned() }
}

fn check_join(
    ranks: u32,
    info: *const HcclRootInfo,
    rank: u32,
    comm: *mut HcclComm,
) -> Result<(), Failure> {
    if ranks == 0 {
        return refuse!(HCCL_E_PARA, "nRanks is 0");
    }
    if rank >= ranks {
        return refuse!(HCCL_E_PARA, "the rank {rank} is not below nRanks, which is {ranks}");
    }
    not_null(comm, "comm")?;
    not_null(info, "rootInfo")
}

/// Makes a communicator, or has the open group do so.
///
/// # Safety
///
/// `info` is valid for reads; `comm` for a write, which comes at the end of the group where one is open.
unsafe fn join(
    function: &'static str,
    ranks: u32,
    info: *const HcclRootInfo,
    rank: u32,
    config: CommConfig,
    comm: *mut HcclComm,
) -> Result<(), Failure> {
    may_block()?;
    let (current, device) = context::current_device()?;
    let Some(settings) = device.settings() else {
        return refuse!(HCCL_E_RUNTIME, "EI9999: device {} is gone", current.device);
    };
    // SAFETY: the caller's promise.
    let info = unsafe { root_info(info) };
    let config = config.sized(settings.buffer_megabytes);
    let applicant = Applicant { rank, ranks, device: current.device, settings, config };
    let own = applicant.clone();
    let finish = move |shared| {
        let handle = registry::register(new_member(shared, own.rank as usize, &own))?;
        // SAFETY: the caller's promise.
        unsafe { comm.write_unaligned(handle as HcclComm) };
        Ok(())
    };
    if group::is_open() {
        group::join(function, info, applicant, Box::new(finish))?;
        // What becomes of it shows in this word when the group has ended.
        // SAFETY: the caller's promise.
        unsafe { comm.write_unaligned(std::ptr::null_mut()) };
        return Ok(());
    }
    finish(root::join(&info, &applicant)?)
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
    }
}

/// How long a task may wait; `None` is for ever.
fn exec_timeout(config: &CommConfig, settings: &Settings) -> Option<Duration> {
    let seconds = match (config.exec_timeout, settings.product) {
        (None, _) => return Some(settings.exec_timeout).filter(|limit| !limit.is_zero()),
        (Some(0), Product::A2 | Product::A3) => return None,
        (Some(seconds), Product::A2 | Product::A3) => seconds,
        // In steps of 68 seconds; out of range is ignored.
        (Some(seconds @ 1..=17_340), Product::Ascend950) => (seconds - seconds % 68).max(68),
        (Some(_), Product::Ascend950) => return Some(settings.exec_timeout),
    };
    Some(Duration::from_secs(seconds.into()))
}

fn init_all(devices: &[i32], comms: &mut [HcclComm]) -> Result<(), Failure> {
    let internal = |text| Failure::new(HcclResult::HCCL_E_INTERNAL, format!("EI0015: {text}"));
    let mut applicants = Vec::with_capacity(devices.len());
    for (rank, id) in devices.iter().enumerate() {
        let device = machine::device(*id).map_err(internal)?;
        let settings = device.settings().ok_or_else(|| internal(format!("device {id} is gone")))?;
        let (rank, ranks) = (rank as u32, devices.len() as u32);
        let config = CommConfig::default().sized(settings.buffer_megabytes);
        applicants.push(Applicant { rank, ranks, device: device.id, settings, config });
    }
    let comm = Arc::new(root::form_at_once(&applicants)?);
    for (applicant, place) in applicants.iter().zip(comms) {
        let member = new_member(Arc::clone(&comm), applicant.rank as usize, applicant);
        *place = registry::register(member)? as HcclComm;
    }
    Ok(())
}

/// What a rank passes that is not in the sub-communicator, with NULL for the ranks.
const NOT_A_MEMBER: u64 = 0xffff_ffff;

/// One rank's side of a sub-communicator.
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
            comm.name
        );
    }
    let mut seen = vec![false; comm.ranks()];
    for named in ranks {
        match seen.get_mut(*named as usize) {
            None => {
                let ranks = comm.ranks();
                return refuse!(
                    HCCL_E_PARA,
                    "rankIds names rank {named}, but the communicator \"{}\" has {ranks} ranks",
                    comm.name
                );
            }
            Some(seen) if *seen => {
                return refuse!(HCCL_E_PARA, "rankIds names rank {named} twice");
            }
            Some(seen) => *seen = true,
        }
    }
    if ranks[own] as usize != *rank {
        return refuse!(
            HCCL_E_PARA,
            "rankIds[{own}] is {}, but subCommRankId {own} says that it is this rank, which is {rank}",
            ranks[own]
        );
    }
    let Some(settings) = machine::device_slot(*device).settings() else {
        return refuse!(HCCL_E_RUNTIME, "EI9999: device {device} is gone");
    };
    let config = config.sized(settings.buffer_megabytes);
    let name = match config.name.as_str() {
        "" => format!("{}_sub_{id}", comm.name),
        name => name.to_owned(),
    };
    if registry::find_by_name(&name, *device).is_some() {
        return refuse!(HCCL_E_PARA, "device {device} has a communicator named \"{name}\" already");
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
    })
}
