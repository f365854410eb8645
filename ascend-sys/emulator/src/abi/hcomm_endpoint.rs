//! Endpoints outside of communicators, and the memory that is registered on them. CANN's `hcomm_res.h`.
//!
//! Published documents say what these functions are for and hardly how they refuse; the codes are those that the functions of
//! communicators have for the same mistakes.
#![allow(non_snake_case, reason = "CANN's names")]

use super::hccl_entry::{abi_entry, not_null, text_of};
use crate::message::{Failure, refuse};
use crate::operator::endpoint::Endpoint;
use crate::operator::open::{self, EXPORT, ReachableMemory};
use crate::stream::unfinished_on;
use crate::{check, context, machine};
use ascend_sys::{
    CommMem, CommMemType, EndpointDesc, EndpointHandle, Functions, HcommEndpointFeatureType,
    HcommMemHandle, HcommResult,
};
use std::ffi::{c_char, c_void};

pub(super) fn fill(table: &mut Functions) {
    table.HcommEndpointCreate = Some(HcommEndpointCreate);
    table.HcommEndpointDestroy = Some(HcommEndpointDestroy);
    table.HcommEndpointGetDescNum = Some(HcommEndpointGetDescNum);
    table.HcommEndpointGetDescs = Some(HcommEndpointGetDescs);
    table.HcommEndpointGetListenPort = Some(HcommEndpointGetListenPort);
    table.HcommEndpointCheckFeature = Some(HcommEndpointCheckFeature);
    table.HcommMemReg = Some(HcommMemReg);
    table.HcommMemUnreg = Some(HcommMemUnreg);
    table.HcommMemExport = Some(HcommMemExport);
    table.HcommMemImport = Some(HcommMemImport);
    table.HcommMemUnimport = Some(HcommMemUnimport);
    table.HcommMemAlloc = Some(HcommMemAlloc);
    table.HcommMemFree = Some(HcommMemFree);
}

/// As [`abi_entry`], for functions whose codes are plain numbers.
pub(super) fn hcomm(
    name: &'static str,
    inside: impl FnOnce() -> Result<(), Failure>,
) -> HcommResult {
    abi_entry(name, inside).0 as HcommResult
}

/// The endpoint that a description is of.
///
/// # Safety
///
/// `description` is null or valid for a read.
unsafe fn described(description: *const EndpointDesc, name: &str) -> Result<Endpoint, Failure> {
    not_null(description, name)?;
    // SAFETY: the caller's promise.
    match Endpoint::read(unsafe { &*description }) {
        Ok(endpoint) => Ok(endpoint),
        Err(text) => refuse!(HCCL_E_PARA, "{name}: {text}"),
    }
}

unsafe extern "C" fn HcommEndpointCreate(
    description: *const EndpointDesc,
    handle: *mut EndpointHandle,
) -> HcommResult {
    hcomm("HcommEndpointCreate", || {
        // SAFETY: null or valid for a read by the C contract.
        let endpoint = unsafe { described(description, "endpoint") }?;
        not_null(handle, "endpointHandle")?;
        let (current, _) = context::current_device()?;
        if endpoint.place.device != current.device {
            return refuse!(
                HCCL_E_PARA,
                "the endpoint is on device {}, but the calling thread has device {} set",
                endpoint.place.device,
                current.device
            );
        }
        let opened = open::open(endpoint);
        // SAFETY: not null, and valid for a write by the C contract.
        unsafe { handle.write_unaligned(opened as EndpointHandle) };
        Ok(())
    })
}

unsafe extern "C" fn HcommEndpointDestroy(handle: EndpointHandle) -> HcommResult {
    hcomm("HcommEndpointDestroy", || {
        not_null(handle, "endpointHandle")?;
        open::close(handle as u64)
    })
}

unsafe extern "C" fn HcommEndpointGetDescNum(device: i32, count: *mut u32) -> HcommResult {
    hcomm("HcommEndpointGetDescNum", || {
        not_null(count, "descNum")?;
        let endpoints = open::of_device(device)?;
        // SAFETY: not null, and valid for a write by the C contract.
        unsafe { count.write(endpoints.len() as u32) };
        Ok(())
    })
}

unsafe extern "C" fn HcommEndpointGetDescs(
    device: i32,
    count: *mut u32,
    descriptions: *mut EndpointDesc,
) -> HcommResult {
    hcomm("HcommEndpointGetDescs", || {
        not_null(count, "descNum")?;
        not_null(descriptions, "endpointDescs")?;
        let endpoints = open::of_device(device)?;
        // SAFETY: not null, and valid for a read by the C contract.
        let room = unsafe { count.read() };
        if room as usize != endpoints.len() {
            return refuse!(
                HCCL_E_PARA,
                "descNum is {room}; HcommEndpointGetDescNum says {}",
                endpoints.len()
            );
        }
        let product = machine::device_slot(device.unsigned_abs()).product();
        for (at, endpoint) in endpoints.into_iter().enumerate() {
            // SAFETY: there is room for as many as `descNum` says, by the C contract.
            unsafe { descriptions.add(at).write(endpoint.describe(product)) };
        }
        Ok(())
    })
}

unsafe extern "C" fn HcommEndpointGetListenPort(
    handle: EndpointHandle,
    port: *mut u32,
) -> HcommResult {
    /// Nobody listens: what matters is that endpoints of a server differ.
    const FIRST: u32 = 16_666;
    hcomm("HcommEndpointGetListenPort", || {
        not_null(handle, "endpointHandle")?;
        not_null(port, "port")?;
        let place = open::with(handle as u64, |open| Ok(open.endpoint.place))?;
        // SAFETY: not null, and valid for a write by the C contract.
        unsafe { port.write(FIRST + place.index) };
        Ok(())
    })
}

unsafe extern "C" fn HcommEndpointCheckFeature(
    feature: HcommEndpointFeatureType,
    description: *const EndpointDesc,
    value: *mut bool,
) -> HcommResult {
    hcomm("HcommEndpointCheckFeature", || {
        // SAFETY: null or valid for a read by the C contract.
        unsafe { described(description, "endpointDesc") }?;
        not_null(value, "value")?;
        if feature != HcommEndpointFeatureType::HCOMM_ENDPOINT_FEATURE_NDA {
            return refuse!(HCCL_E_PARA, "{} is not the number of a feature (NDA 0)", feature.0);
        }
        // SAFETY: not null, and valid for a write by the C contract.
        unsafe { value.write(false) };
        Ok(())
    })
}

unsafe extern "C" fn HcommMemReg(
    handle: EndpointHandle,
    tag: *const c_char,
    mem: *const CommMem,
    registered: *mut HcommMemHandle,
) -> HcommResult {
    hcomm("HcommMemReg", || {
        not_null(handle, "endpointHandle")?;
        // SAFETY: null or NUL-terminated by the C contract.
        let tag = unsafe { text_of(tag, "memTag") }?;
        not_null(mem, "mem")?;
        not_null(registered, "memHandle")?;
        if tag.is_empty() || tag.len() > LONGEST_TAG {
            return refuse!(
                HCCL_E_PARA,
                "memTag has {} characters; 1 to {LONGEST_TAG} are possible",
                tag.len()
            );
        }
        // SAFETY: not null, so valid for a read by the C contract.
        let memory = unsafe { memory_of(&*mem, "mem") }?;
        let number = open::register(handle as u64, tag, memory)?;
        // SAFETY: not null, and valid for a write by the C contract.
        unsafe { registered.write_unaligned(number as HcommMemHandle) };
        Ok(())
    })
}

const LONGEST_TAG: usize = 255;

/// What a `CommMem` says.
pub(super) fn memory_of(mem: &CommMem, argument: &str) -> Result<ReachableMemory, Failure> {
    let on_host = match mem.type_ {
        CommMemType::COMM_MEM_TYPE_DEVICE => false,
        CommMemType::COMM_MEM_TYPE_HOST => true,
        CommMemType(other) => {
            return refuse!(HCCL_E_PARA, "{argument}->type is {other}; device is 0, host is 1");
        }
    };
    not_null(mem.addr, &format!("{argument}->addr"))?;
    if mem.size == 0 {
        return refuse!(HCCL_E_PARA, "{argument}->size is 0");
    }
    Ok(ReachableMemory { on_host, start: mem.addr.addr(), bytes: mem.size })
}

unsafe extern "C" fn HcommMemUnreg(
    handle: EndpointHandle,
    registered: HcommMemHandle,
) -> HcommResult {
    hcomm("HcommMemUnreg", || {
        not_null(handle, "endpointHandle")?;
        not_null(registered, "memHandle")?;
        open::unregister(handle as u64, registered as u64)
    })
}

unsafe extern "C" fn HcommMemExport(
    handle: EndpointHandle,
    registered: HcommMemHandle,
    description: *mut *mut c_void,
    length: *mut u32,
) -> HcommResult {
    hcomm("HcommMemExport", || {
        not_null(handle, "endpointHandle")?;
        not_null(registered, "memHandle")?;
        not_null(description, "memDesc")?;
        not_null(length, "memDescLen")?;
        let bytes = open::export(handle as u64, registered as u64)?;
        // SAFETY: not null, and valid for writes by the C contract.
        unsafe {
            description.write_unaligned(bytes.cast_mut().cast());
            length.write(EXPORT as u32);
        }
        Ok(())
    })
}

/// The bytes of an export.
///
/// # Safety
///
/// `description` is null, or valid for `length` bytes.
unsafe fn exported(description: *const c_void, length: u32) -> Result<[u8; EXPORT], Failure> {
    not_null(description, "memDesc")?;
    if length as usize != EXPORT {
        return refuse!(HCCL_E_PARA, "descLen is {length}; a description has {EXPORT} bytes");
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { description.cast::<[u8; EXPORT]>().read_unaligned() })
}

unsafe extern "C" fn HcommMemImport(
    handle: EndpointHandle,
    description: *const c_void,
    length: u32,
    mem: *mut CommMem,
) -> HcommResult {
    hcomm("HcommMemImport", || {
        not_null(handle, "endpointHandle")?;
        not_null(mem, "outMem")?;
        // SAFETY: null, or as long as it says, by the C contract.
        let export = unsafe { exported(description, length) }?;
        let ReachableMemory { on_host, start, bytes } = open::import(handle as u64, &export)?;
        let type_ = match on_host {
            true => CommMemType::COMM_MEM_TYPE_HOST,
            false => CommMemType::COMM_MEM_TYPE_DEVICE,
        };
        let addr = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: not null, and valid for a write by the C contract.
        unsafe { mem.write_unaligned(CommMem { type_, addr, size: bytes }) };
        Ok(())
    })
}

unsafe extern "C" fn HcommMemUnimport(
    handle: EndpointHandle,
    description: *const c_void,
    length: u32,
) -> HcommResult {
    hcomm("HcommMemUnimport", || {
        not_null(handle, "endpointHandle")?;
        // SAFETY: null, or as long as it says, by the C contract.
        let export = unsafe { exported(description, length) }?;
        open::unimport(handle as u64, &export)
    })
}

/// What communication memory comes in.
const GRANULARITY: usize = 2 << 20;
const ALLOC: &str = "HcommMemAlloc";

unsafe extern "C" fn HcommMemAlloc(to: *mut *mut c_void, size: usize) -> HcommResult {
    hcomm(ALLOC, || {
        if to.is_null() || size == 0 {
            return refuse!(HCCL_E_PARA, "ptr is NULL or size is 0");
        }
        let (_, device) = context::current_device()?;
        let rounded = size.checked_next_multiple_of(GRANULARITY).unwrap_or(usize::MAX);
        match device.memory.allocate(rounded, rounded, ALLOC) {
            Ok(address) => {
                check::allocated(device.id, &device.memory, address, false);
                // SAFETY: not null, and valid for a write by the C contract.
                unsafe { to.write_unaligned(std::ptr::with_exposed_provenance_mut(address)) };
                Ok(())
            }
            Err(oom) => refuse!(
                HCCL_E_RUNTIME,
                "out of memory: {rounded} bytes (in steps of 2 MiB) of device {}, of which {} of {} are free",
                device.id,
                oom.free,
                oom.total
            ),
        }
    })
}

unsafe extern "C" fn HcommMemFree(address: *mut c_void) -> HcommResult {
    const CALL: &str = "HcommMemFree";
    hcomm(CALL, || {
        use crate::memory::{MemoryPlace, place_of};
        let start = address.addr();
        if start == 0 {
            return Ok(());
        }
        if let Ok(MemoryPlace::Device(id)) = place_of(start) {
            let device = machine::device_slot(id);
            if device.memory.entry_of(start) == Some(ALLOC)
                && device.free(start, CALL, unfinished_on).is_ok()
            {
                return Ok(());
            }
        }
        refuse!(HCCL_E_PARA, "{start:#x} is not memory of {ALLOC}, or was freed already")
    })
}
