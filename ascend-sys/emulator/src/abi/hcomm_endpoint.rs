//! The entries for endpoints outside of communicators, and for the memory that is registered on
//! them, as in CANN's `hcomm_res.h`.
//!
//! CANN documents the purpose of these functions, but hardly their errors. The codes are those that
//! the functions of communicators return for the same mistakes.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_memory::free_of;
use super::arguments::{ByteSlice, CText, In, InOut, Out};
use super::entries::{Hcomm, entries};
use super::hccl_entry::not_null;
use crate::ipc::key::{ExportKey, ExportKind, KEY};
use crate::message::{Failure, refuse};
use crate::operator::endpoint::Endpoint;
use crate::operator::open::{self, ReachableMemory};
use crate::operator::registered_import as imports;
use crate::{context, machine};
use ascend_sys::{
    CommMem, CommMemType, EndpointDesc, EndpointHandle, HcclResult, HcommEndpointFeatureType,
    HcommMemHandle,
};
use std::ffi::c_void;

entries! {
    Hcomm;

    fn HcommEndpointCreate(description: In<EndpointDesc>, handle: Out<EndpointHandle>) {
        let endpoint = described(&description, "endpoint")?;
        let handle = handle.required("endpointHandle")?;
        let (current, _) = context::current_device()?;
        if endpoint.abroad.is_some() || endpoint.place.device != current.device {
            return refuse!(
                HCCL_E_PARA,
                "the endpoint is on device {}, but the calling thread has device {} set; call \
                 aclrtSetDevice with the device of the endpoint",
                endpoint.device_name(),
                machine::named(current.device)
            );
        }
        let opened = open::open(endpoint);
        handle.write(opened as EndpointHandle);
        Ok(())
    }

    fn HcommEndpointDestroy(handle: EndpointHandle) {
        not_null(handle, "endpointHandle")?;
        open::close(handle as u64)
    }

    fn HcommEndpointGetDescNum(device: i32, count: Out<u32>) {
        let count = count.required("descNum")?;
        let endpoints = open::of_device(device)?;
        count.write(endpoints.len() as u32);
        Ok(())
    }

    fn HcommEndpointGetDescs(device: i32, count: InOut<u32>, descriptions: *mut EndpointDesc) {
        let (room, _) = count.required("descNum")?;
        not_null(descriptions, "endpointDescs")?;
        let endpoints = open::of_device(device)?;
        if room as usize != endpoints.len() {
            return refuse!(
                HCCL_E_PARA,
                "descNum is {room}; it must be the number that HcommEndpointGetDescNum returns, {}",
                endpoints.len()
            );
        }
        let described = open::describe_for_all(endpoints)?;
        for (at, description) in described.into_iter().enumerate() {
            // SAFETY: by the C contract there is room for `descNum` descriptions.
            unsafe { descriptions.add(at).write(description) };
        }
        Ok(())
    }

    fn HcommEndpointGetListenPort(handle: EndpointHandle, port: Out<u32>) {
        /// The port of the first endpoint. No process listens on the ports; they only differ
        /// between the endpoints of a server.
        const FIRST: u32 = 16_666;
        not_null(handle, "endpointHandle")?;
        let port = port.required("port")?;
        let place = open::with(handle as u64, |open| Ok(open.endpoint.place))?;
        port.write(FIRST + place.index);
        Ok(())
    }

    fn HcommEndpointCheckFeature(
        feature: HcommEndpointFeatureType,
        description: In<EndpointDesc>,
        value: Out<bool>,
    ) {
        described(&description, "endpointDesc")?;
        let value = value.required("value")?;
        if feature != HcommEndpointFeatureType::HCOMM_ENDPOINT_FEATURE_NDA {
            return refuse!(
                HCCL_E_PARA,
                "{} is not the number of a feature; pass 0 (NDA)",
                feature.0
            );
        }
        value.write(false);
        Ok(())
    }

    fn HcommMemReg(
        handle: EndpointHandle,
        tag: CText,
        mem: In<CommMem>,
        registered: Out<HcommMemHandle>,
    ) {
        not_null(handle, "endpointHandle")?;
        let tag = tag.required("memTag")?;
        let mem = mem.required("mem")?;
        let registered = registered.required("memHandle")?;
        if tag.is_empty() || tag.len() > LONGEST_TAG {
            return refuse!(
                HCCL_E_PARA,
                "memTag has {} bytes; pass 1 to {LONGEST_TAG}",
                tag.len()
            );
        }
        let memory = memory_of(mem, "mem")?;
        let number = open::register(handle as u64, tag, memory)?;
        registered.write(number as HcommMemHandle);
        Ok(())
    }

    fn HcommMemUnreg(handle: EndpointHandle, registered: HcommMemHandle) {
        not_null(handle, "endpointHandle")?;
        not_null(registered, "memHandle")?;
        open::unregister(handle as u64, registered as u64)
    }

    fn HcommMemExport(
        handle: EndpointHandle,
        registered: HcommMemHandle,
        description: Out<*mut c_void>,
        length: Out<u32>,
    ) {
        not_null(handle, "endpointHandle")?;
        not_null(registered, "memHandle")?;
        let description = description.required("memDesc")?;
        let length = length.required("memDescLen")?;
        let bytes = open::export(handle as u64, registered as u64)?;
        description.write(bytes.cast_mut().cast());
        length.write(KEY as u32);
        Ok(())
    }

    fn HcommMemImport(
        handle: EndpointHandle,
        description: ByteSlice[length],
        length: u32,
        mem: Out<CommMem>,
    ) {
        not_null(handle, "endpointHandle")?;
        let mem = mem.required("outMem")?;
        let key = exported(description)?;
        let ReachableMemory { on_host, start, bytes } = imports::import(handle as u64, &key)?;
        let type_ = match on_host {
            true => CommMemType::COMM_MEM_TYPE_HOST,
            false => CommMemType::COMM_MEM_TYPE_DEVICE,
        };
        let addr = std::ptr::with_exposed_provenance_mut(start);
        mem.write(CommMem { type_, addr, size: bytes });
        Ok(())
    }

    fn HcommMemUnimport(handle: EndpointHandle, description: ByteSlice[length], length: u32) {
        not_null(handle, "endpointHandle")?;
        let key = exported(description)?;
        imports::unimport(handle as u64, &key)
    }

    fn HcommMemAlloc(to: Out<*mut c_void>, size: usize) {
        let to = match to.required("ptr") {
            Ok(to) if size > 0 => to,
            _ => return refuse!(
                HCCL_E_PARA,
                "ptr is NULL or size is 0; pass a place for the address, and a size of at least 1"
            ),
        };
        let (_, device) = context::current_device()?;
        let rounded = size.checked_next_multiple_of(GRANULARITY).unwrap_or(usize::MAX);
        match device.allocate(rounded, rounded, ALLOC) {
            Ok(address) => {
                to.write(std::ptr::with_exposed_provenance_mut(address));
                Ok(())
            }
            Err(oom) => refuse!(
                HCCL_E_RUNTIME,
                "out of memory: {rounded} bytes (in steps of 2 MiB) of device {}, of which {} of \
                 {} are free; free memory first, or request less",
                machine::named(device.id),
                oom.free,
                oom.total
            ),
        }
    }

    fn HcommMemFree(address: *mut c_void) {
        use crate::memory::{MemoryPlace, place_of};
        let start = address.addr();
        if start == 0 {
            return Ok(());
        }
        if let Ok(MemoryPlace::Device(id)) = place_of(start) {
            let device = machine::device_slot(id);
            if device.memory.entry_of(start) == Some(ALLOC) {
                let refused = |text| Failure::new(HcclResult::HCCL_E_PARA, text);
                return free_of(device, start, ENTRY).map_err(refused);
            }
        }
        refuse!(
            HCCL_E_PARA,
            "{start:#x} is not memory of {ALLOC}, or was freed already; free each allocation once"
        )
    }
}

/// Returns the endpoint of a description.
fn described(description: &In<EndpointDesc>, name: &str) -> Result<Endpoint, Failure> {
    match Endpoint::read(description.required(name)?) {
        Ok(endpoint) => Ok(endpoint),
        Err(text) => refuse!(HCCL_E_PARA, "{name}: {text}"),
    }
}

const LONGEST_TAG: usize = 255;

/// Checks a `CommMem` and returns the memory that it names.
pub(super) fn memory_of(mem: &CommMem, argument: &str) -> Result<ReachableMemory, Failure> {
    let on_host = match mem.type_ {
        CommMemType::COMM_MEM_TYPE_DEVICE => false,
        CommMemType::COMM_MEM_TYPE_HOST => true,
        CommMemType(other) => {
            return refuse!(HCCL_E_PARA, "{argument}->type is {other}; set 0 (device) or 1 (host)");
        }
    };
    not_null(mem.addr, &format!("{argument}->addr"))?;
    if mem.size == 0 {
        return refuse!(HCCL_E_PARA, "{argument}->size is 0; set at least 1");
    }
    Ok(ReachableMemory { on_host, start: mem.addr.addr(), bytes: mem.size })
}

/// Returns the key in the description of an export.
fn exported(description: ByteSlice) -> Result<ExportKey, Failure> {
    let bytes = description.required("memDesc")?;
    let Some(text) = bytes.first_chunk::<KEY>().filter(|_| bytes.count() == KEY) else {
        let length = bytes.count();
        return refuse!(
            HCCL_E_PARA,
            "descLen is {length}; pass {KEY}, the length of every description"
        );
    };
    ExportKey::of(text, ExportKind::Registered).map_err(|failure| {
        let text = format!("memDesc is not a description of HcommMemExport: {}", failure.text);
        Failure::new(HcclResult::HCCL_E_PARA, text)
    })
}

/// The granularity of communication memory in bytes.
const GRANULARITY: usize = 2 << 20;
const ALLOC: &str = "HcommMemAlloc";
