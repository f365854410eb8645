//! Communicators: making, asking, ending. CANN's `hccl_comm.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ascend_sys::{
    Functions, HcclComm, HcclCommConfig, HcclCommStatus, HcclConfigType, HcclResult, HcclRootInfo,
};

use crate::callback::may_block;
use crate::collective::meeting::Cause;
use crate::collective::validate::{Refusal, refuse};
use crate::context;
use crate::fabric::config::Config;
use crate::fabric::root::{self, Applicant, ROOT_INFO};
use crate::fabric::{Comm, Member, registry};
use crate::machine::{self, Settings};
use crate::message::{Failure, add_text};
use crate::profile::Product;

/// Puts these functions into a table.
pub(crate) fn fill(table: &mut Functions) {
    table.HcclGetRootInfo = Some(HcclGetRootInfo);
    table.HcclCommInitRootInfo = Some(HcclCommInitRootInfo);
    table.HcclCommInitRootInfoConfig = Some(HcclCommInitRootInfoConfig);
    table.HcclCommInitAll = Some(HcclCommInitAll);
    table.HcclCommDestroy = Some(HcclCommDestroy);
    table.HcclGetRankSize = Some(HcclGetRankSize);
    table.HcclGetRankId = Some(HcclGetRankId);
    table.HcclGetCommName = Some(HcclGetCommName);
    table.HcclCommGetHandleWithName = Some(HcclCommGetHandleWithName);
    table.HcclGetErrorString = Some(HcclGetErrorString);
    table.HcclGetCommConfigCapability = Some(HcclGetCommConfigCapability);
    table.HcclConfigGetInfo = Some(HcclConfigGetInfo);
    table.HcclGetCommAsyncError = Some(HcclGetCommAsyncError);
    table.HcclCommGetStatus = Some(HcclCommGetStatus);
    table.HcclCommSuspend = Some(HcclCommSuspend);
    table.HcclCommResume = Some(HcclCommResume);
    table.ascendExtRankLeave = Some(ascendExtRankLeave);
}

/// Runs the inside of a C function: a refusal becomes its code, with the text noted for `aclGetRecentErrMsg`.
#[inline]
pub(super) fn door(name: &'static str, inside: impl FnOnce() -> Result<(), Refusal>) -> HcclResult {
    match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(Ok(())) => HcclResult::HCCL_SUCCESS,
        Ok(Err(refusal)) => tell(name, refusal),
        Err(_) => {
            let text = "EI9999: the emulator panicked; this is a defect of the emulator".into();
            tell(name, Refusal::new(HcclResult::HCCL_E_INTERNAL, text))
        }
    }
}

#[cold]
fn tell(name: &str, Refusal { code, text }: Refusal) -> HcclResult {
    // What has no number of its own is about an argument.
    let number = if text.starts_with("EI") { "" } else { "EI0003: " };
    add_text(format!("{number}{text} [{name} returned {}]", code.0));
    code
}

/// Refuses a null pointer.
pub(super) fn not_null<T>(pointer: *const T, argument: &str) -> Result<(), Refusal> {
    if pointer.is_null() {
        return refuse!(HCCL_E_PTR, "the argument {argument} is NULL");
    }
    Ok(())
}

/// A failure of the runtime, as HCCL reports it.
#[cold]
pub(super) fn runtime(failure: Failure) -> Refusal {
    let text = format!("EI9999: the runtime returned {}: {}", failure.code, failure.text);
    Refusal::new(HcclResult::HCCL_E_RUNTIME, text)
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

unsafe extern "C" fn HcclGetRootInfo(root_info: *mut HcclRootInfo) -> HcclResult {
    door("HcclGetRootInfo", || {
        not_null(root_info, "rootInfo")?;
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { root_info.cast::<[u8; ROOT_INFO]>().write_unaligned(root::create()) };
        Ok(())
    })
}

unsafe extern "C" fn HcclCommInitRootInfo(
    ranks: u32,
    info: *const HcclRootInfo,
    rank: u32,
    comm: *mut HcclComm,
) -> HcclResult {
    door("HcclCommInitRootInfo", || {
        check_join(ranks, info, rank, comm)?;
        // SAFETY: checked above; valid by the C contract.
        unsafe { join(ranks, info, rank, Config::default(), comm) }
    })
}

unsafe extern "C" fn HcclCommInitRootInfoConfig(
    ranks: u32,
    info: *const HcclRootInfo,
    rank: u32,
    config: *const HcclCommConfig,
    comm: *mut HcclComm,
) -> HcclResult {
    door("HcclCommInitRootInfoConfig", || {
        check_join(ranks, info, rank, comm)?;
        let product = context::current_device().map_err(runtime)?.1.product();
        // SAFETY: null, or as large as it says, by the C contract.
        let config = unsafe { Config::read(config.cast(), product) }?;
        // SAFETY: checked above; valid by the C contract.
        unsafe { join(ranks, info, rank, config, comm) }
    })
}

fn check_join(
    ranks: u32,
    info: *const HcclRootInfo,
    rank: u32,
    comm: *mut HcclComm,
) -> Result<(), Refusal> {
    if ranks == 0 {
        return refuse!(HCCL_E_PARA, "nRanks is 0");
    }
    if rank >= ranks {
        return refuse!(HCCL_E_PARA, "the rank {rank} is not below nRanks, which is {ranks}");
    }
    not_null(comm, "comm")?;
    not_null(info, "rootInfo")
}

/// # Safety
///
/// `info` is valid for reads, `comm` for a write.
unsafe fn join(
    ranks: u32,
    info: *const HcclRootInfo,
    rank: u32,
    config: Config,
    comm: *mut HcclComm,
) -> Result<(), Refusal> {
    may_block().map_err(runtime)?;
    let (current, device) = context::current_device().map_err(runtime)?;
    let Some(settings) = device.settings() else {
        return refuse!(HCCL_E_RUNTIME, "EI9999: device {} is gone", current.device);
    };
    // SAFETY: the caller's promise.
    let info = unsafe { root_info(info) };
    let applicant = Applicant { rank, ranks, device: current.device, settings, config };
    let shared = root::join(&info, &applicant)?;
    let handle = registry::register(new_member(shared, rank as usize, &applicant))?;
    // SAFETY: the caller's promise.
    unsafe { comm.write_unaligned(handle as HcclComm) };
    Ok(())
}

fn new_member(comm: Arc<Comm>, rank: usize, applicant: &Applicant) -> Member {
    let Applicant { device, settings, config, .. } = applicant;
    Member {
        comm,
        rank,
        device: *device,
        config: config.clone(),
        exec_timeout: exec_timeout(config, settings),
        suspended: AtomicBool::new(false),
    }
}

/// How long a task may wait; `None` is for ever.
fn exec_timeout(config: &Config, settings: &Settings) -> Option<Duration> {
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

unsafe extern "C" fn HcclCommInitAll(
    count: u32,
    devices: *mut i32,
    comms: *mut HcclComm,
) -> HcclResult {
    door("HcclCommInitAll", || {
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
    })
}

fn init_all(devices: &[i32], comms: &mut [HcclComm]) -> Result<(), Refusal> {
    let internal = |text| Refusal::new(HcclResult::HCCL_E_INTERNAL, format!("EI0015: {text}"));
    let mut applicants = Vec::with_capacity(devices.len());
    for (rank, id) in devices.iter().enumerate() {
        let device = machine::device(*id).map_err(internal)?;
        let settings = device.settings().ok_or_else(|| internal(format!("device {id} is gone")))?;
        let (rank, ranks) = (rank as u32, devices.len() as u32);
        let config = Config::default();
        applicants.push(Applicant { rank, ranks, device: device.id, settings, config });
    }
    let comm = Arc::new(root::form_at_once(&applicants)?);
    for (applicant, place) in applicants.iter().zip(comms) {
        let member = new_member(Arc::clone(&comm), applicant.rank as usize, applicant);
        *place = registry::register(member)? as HcclComm;
    }
    Ok(())
}

unsafe extern "C" fn HcclCommDestroy(comm: HcclComm) -> HcclResult {
    door("HcclCommDestroy", || {
        if comm.is_null() {
            // Success, as in CANN, which logs a warning.
            return Ok(());
        }
        registry::destroy(comm as u64)
    })
}

/// The rank behind a handle.
fn member(comm: HcclComm) -> Result<Arc<Member>, Refusal> {
    not_null(comm, "comm")?;
    registry::member(comm as u64)
}

unsafe extern "C" fn HcclGetRankSize(comm: HcclComm, rank_size: *mut u32) -> HcclResult {
    door("HcclGetRankSize", || {
        not_null(comm, "comm")?;
        not_null(rank_size, "rankSize")?;
        let ranks = member(comm)?.comm.ranks() as u32;
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { rank_size.write(ranks) };
        Ok(())
    })
}

unsafe extern "C" fn HcclGetRankId(comm: HcclComm, rank: *mut u32) -> HcclResult {
    door("HcclGetRankId", || {
        not_null(comm, "comm")?;
        not_null(rank, "rank")?;
        let own = member(comm)?.rank as u32;
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { rank.write(own) };
        Ok(())
    })
}

/// Bytes of a name with its NUL.
const NAME: usize = 128;

unsafe extern "C" fn HcclGetCommName(comm: HcclComm, name: *mut c_char) -> HcclResult {
    door("HcclGetCommName", || {
        not_null(comm, "comm")?;
        not_null(name, "commName")?;
        let member = member(comm)?;
        let mut bytes = [0u8; NAME];
        let own = member.comm.name.as_bytes();
        let length = own.len().min(NAME - 1);
        bytes[..length].copy_from_slice(&own[..length]);
        // SAFETY: not null, so valid for 128 bytes by the C contract.
        unsafe { name.cast::<[u8; NAME]>().write_unaligned(bytes) };
        Ok(())
    })
}

/// A C string that an argument names.
///
/// # Safety
///
/// `text` is null or NUL-terminated.
unsafe fn text_of(text: *const c_char, argument: &str) -> Result<String, Refusal> {
    not_null(text, argument)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// The communicator of the calling thread's device that has this name.
fn named(name: &str) -> Result<(u64, Product), Refusal> {
    let (current, device) = context::current_device().map_err(runtime)?;
    match registry::find_by_name(name, current.device) {
        Some(handle) => Ok((handle, device.product())),
        None => {
            refuse!(HCCL_E_PARA, "device {} has no communicator named \"{name}\"", current.device)
        }
    }
}

unsafe extern "C" fn HcclCommGetHandleWithName(
    name: *const c_char,
    comm: *mut HcclComm,
) -> HcclResult {
    door("HcclCommGetHandleWithName", || {
        // SAFETY: null or NUL-terminated by the C contract.
        let name = unsafe { text_of(name, "commName") }?;
        not_null(comm, "comm")?;
        let (handle, product) = named(&name)?;
        if product == Product::Ascend950 {
            return refuse!(HCCL_E_NOT_SUPPORT, "{product} does not look communicators up by name");
        }
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { comm.write_unaligned(handle as HcclComm) };
        Ok(())
    })
}

unsafe extern "C" fn HcclGetErrorString(code: HcclResult) -> *const c_char {
    let text: &CStr = match code.0 {
        0 => c"no error",
        1 => c"parameter error",
        2 => c"empty pointer",
        3 => c"memory error",
        4 => c"internal error",
        5 => c"not support feature",
        6 => c"not found specific resource",
        7 => c"resource unavailable",
        8 => c"call system interface error",
        9 => c"timeout",
        10 => c"open file fail",
        11 => c"tcp connect fail",
        12 => c"roce connect fail",
        13 => c"tcp transfer fail",
        14 => c"roce transfer fail",
        15 => c"call runtime api fail",
        16 => c"call driver api fail",
        17 => c"call profiling api fail",
        18 => c"call cce api fail",
        19 => c"call network api fail",
        20 => c"try again",
        21 => c"error cqe",
        22 => c"error communicator suspending",
        23 => c"retry constraint",
        24 => c"out of memory",
        25..=1041 => c"unknown err",
        _ => c"unknown error",
    };
    text.as_ptr()
}

/// The product of the calling thread's device, or of the default block.
pub(super) fn product_of_thread() -> Product {
    match context::current_device() {
        Ok((_, device)) => device.product(),
        Err(_) => machine::default_block().map_or(Product::A3, |block| block.product),
    }
}

unsafe extern "C" fn HcclGetCommConfigCapability() -> u32 {
    match product_of_thread() {
        Product::A2 | Product::A3 => 12,
        Product::Ascend950 => 10,
    }
}

unsafe extern "C" fn HcclConfigGetInfo(
    comm: HcclComm,
    kind: HcclConfigType,
    length: u32,
    info: *mut c_void,
) -> HcclResult {
    door("HcclConfigGetInfo", || {
        const ALGORITHM: usize = 1600;
        not_null(comm, "comm")?;
        not_null(info, "info")?;
        let member = member(comm)?;
        match kind {
            HcclConfigType::HCCL_CONFIG_TYPE_OP_EXPANSION_MODE if length == 4 => {
                // SAFETY: as large as the caller says.
                unsafe { info.cast::<u32>().write_unaligned(expansion_mode(&member)) };
                Ok(())
            }
            HcclConfigType::HCCL_CONFIG_TYPE_HCCL_ALGO if length as usize >= ALGORITHM => {
                let mut text = [0u8; ALGORITHM];
                let own = member.config.algorithm.as_bytes();
                let own = &own[..own.len().min(ALGORITHM - 1)];
                text[..own.len()].copy_from_slice(own);
                // SAFETY: at least that large, as the caller says.
                unsafe { info.cast::<[u8; ALGORITHM]>().write_unaligned(text) };
                Ok(())
            }
            _ => refuse!(HCCL_E_PARA, "cfgType {} does not go with infoLen {length}", kind.0),
        }
    })
}

/// `HcclOpExpansionMode` of a communicator, from the number in its configuration. Unset is answered with CCU_SCHED, as CANN does.
fn expansion_mode(member: &Member) -> u32 {
    const AI_CPU: u32 = 0;
    const AIV: u32 = 1;
    const HOST_TS: u32 = 3;
    const CCU_MS: u32 = 4;
    const CCU_SCHED: u32 = 5;
    const AIV_ONLY: u32 = 6;
    match member.config.expansion {
        1 => HOST_TS,
        2 | 7 => AI_CPU,
        3 => AIV,
        4 => AIV_ONLY,
        5 => CCU_MS,
        _ => CCU_SCHED,
    }
}

unsafe extern "C" fn HcclGetCommAsyncError(comm: HcclComm, error: *mut HcclResult) -> HcclResult {
    door("HcclGetCommAsyncError", || {
        not_null(comm, "comm")?;
        not_null(error, "asyncError")?;
        let member = member(comm)?;
        if member.comm.product == Product::Ascend950 {
            return refuse!(HCCL_E_NOT_SUPPORT, "Ascend 950 has no HcclGetCommAsyncError");
        }
        let code = match member.comm.meeting.breakage().map(|breakage| breakage.cause) {
            None => HcclResult::HCCL_SUCCESS,
            Some(Cause::Mismatch) => HcclResult::HCCL_E_PARA,
            Some(Cause::Timeout | Cause::Gone) => HcclResult::HCCL_E_REMOTE,
        };
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { error.write(code) };
        Ok(())
    })
}

unsafe extern "C" fn HcclCommGetStatus(
    name: *const c_char,
    status: *mut HcclCommStatus,
) -> HcclResult {
    door("HcclCommGetStatus", || {
        // SAFETY: null or NUL-terminated by the C contract.
        let name = unsafe { text_of(name, "commId") }?;
        not_null(status, "status")?;
        let (handle, product) = named(&name)?;
        if product != Product::Ascend950 {
            return refuse!(HCCL_E_NOT_SUPPORT, "only Ascend 950 has HcclCommGetStatus");
        }
        let member = registry::member(handle)?;
        let state = if member.comm.meeting.breakage().is_some() {
            HcclCommStatus::HCCL_COMM_STATUS_INVALID
        } else if member.suspended.load(Ordering::Acquire) {
            HcclCommStatus::HCCL_COMM_STATUS_SUSPENDING
        } else {
            HcclCommStatus::HCCL_COMM_STATUS_READY
        };
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { status.write(state) };
        Ok(())
    })
}

unsafe extern "C" fn HcclCommSuspend(comm: HcclComm) -> HcclResult {
    door("HcclCommSuspend", || {
        let member = member(comm)?;
        let product = member.comm.product;
        if product == Product::Ascend950 {
            return refuse!(HCCL_E_NOT_SUPPORT, "{product} has no HcclCommSuspend");
        }
        member.suspended.store(true, Ordering::Release);
        // 1 is the host, 2 the AI CPU; unset is the AI CPU on A3 only. There the device confirms with this code.
        match member.config.expansion {
            2 => {}
            0 if product == Product::A3 => {}
            _ => return Ok(()),
        }
        refuse!(HCCL_E_SUSPENDING, "the communicator is suspended; this code means success")
    })
}

unsafe extern "C" fn HcclCommResume(comm: HcclComm) -> HcclResult {
    door("HcclCommResume", || {
        member(comm)?.suspended.store(false, Ordering::Release);
        Ok(())
    })
}

unsafe extern "C" fn ascendExtRankLeave(
    info: *const HcclRootInfo,
    rank: u32,
    reason: *const c_char,
) -> HcclResult {
    door("ascendExtRankLeave", || {
        not_null(info, "rootInfo")?;
        // SAFETY: NUL-terminated by the C contract.
        let reason = unsafe { text_of(reason, "reason") }?;
        // SAFETY: not null, so valid for reads by the C contract.
        root::leave(&unsafe { root_info(info) }, rank, &reason)
    })
}
