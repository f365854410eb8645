//! Addresses and memory apart: reserving, allocating, mapping.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_ipc::{exporter, one_flag, own_home, permit};
use super::arguments::{Handle, In, MOST_ITEMS, Out, Slice};
use super::entries::{Acl, entries};
use crate::ipc::key::{ExportKey, ExportKind, KEY};
use crate::message::{Failure, fail};
use crate::virtual_memory::{self, GRANULARITY, rights, shared};
use crate::{context, machine};
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_PARAM_INVALID,
    ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, aclrtDrvMemHandle, aclrtMemAccessDesc,
    aclrtMemAccessFlags, aclrtMemAllocationType, aclrtMemAttr, aclrtMemFabricHandle,
    aclrtMemGranularityOptions, aclrtMemHandleType, aclrtMemLocation, aclrtMemLocationType,
    aclrtMemSharedHandleType, aclrtPhysicalMemProp,
};
use std::ffi::c_void;

enum PhysicalMemory {}

entries! {
    Acl;

    fn aclrtReleaseMemAddress(vir_ptr: *mut c_void) {
        given(vir_ptr)?;
        virtual_memory::release(vir_ptr.addr())
    }

    fn aclrtMallocPhysical(
        handle: Out<aclrtDrvMemHandle>,
        size: usize,
        prop: In<aclrtPhysicalMemProp>,
        flags: u64,
    ) {
        let handle = handle.required("handle")?;
        let properties = *prop.required("prop")?;
        if size == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "size is 0");
        }
        is_zero("flags", flags)?;
        let device = device_of(&properties)?;
        if !size.is_multiple_of(GRANULARITY) {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "size is {size}; it must be a multiple of {GRANULARITY} (aclrtMemGetAllocationGranularity)"
            );
        }
        let made = virtual_memory::allocate(device, size, properties)?;
        handle.write(std::ptr::without_provenance_mut(made as usize));
        Ok(())
    }

    fn aclrtFreePhysical(handle: Handle<PhysicalMemory>) {
        virtual_memory::free(handle.required("handle")?.number())
    }

    fn aclrtMapMem(
        vir_ptr: *mut c_void,
        size: usize,
        offset: usize,
        handle: Handle<PhysicalMemory>,
        flags: u64,
    ) {
        given(vir_ptr)?;
        let handle = handle.required("handle")?.number();
        if size == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "size is 0");
        }
        is_zero("offset", offset as u64)?;
        is_zero("flags", flags)?;
        virtual_memory::map(vir_ptr.addr(), size, handle, ENTRY)
    }

    fn aclrtUnmapMem(vir_ptr: *mut c_void) {
        given(vir_ptr)?;
        virtual_memory::unmap(vir_ptr.addr(), ENTRY)
    }

    fn aclrtMemGetAllocationGranularity(
        prop: In<aclrtPhysicalMemProp, *mut aclrtPhysicalMemProp>,
        option: aclrtMemGranularityOptions,
        granularity: Out<usize>,
    ) {
        let granularity = granularity.required("granularity")?;
        device_of(prop.required("prop")?)?;
        match option {
            aclrtMemGranularityOptions::ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM
            | aclrtMemGranularityOptions::ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED => {
                granularity.write(GRANULARITY);
                Ok(())
            }
            _ => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "option is {}; 0 (MINIMUM) and 1 (RECOMMENDED) exist",
                option.0
            ),
        }
    }

    fn aclrtMemGetAllocationPropertiesFromHandle(
        handle: Handle<PhysicalMemory>,
        prop: Out<aclrtPhysicalMemProp>,
    ) {
        let prop = prop.required("prop")?;
        prop.write(virtual_memory::properties(handle.required("handle")?.number())?);
        Ok(())
    }

    fn aclrtMemRetainAllocationHandle(vir_ptr: *mut c_void, handle: Out<aclrtDrvMemHandle>) {
        let handle = handle.required("handle")?;
        given(vir_ptr)?;
        let found = virtual_memory::retain(vir_ptr.addr())?;
        handle.write(std::ptr::without_provenance_mut(found as usize));
        Ok(())
    }

    fn aclrtMemSetAccess(
        vir_ptr: *mut c_void,
        size: usize,
        desc: Slice<aclrtMemAccessDesc, *mut aclrtMemAccessDesc>[count],
        count: usize,
    ) {
        given(vir_ptr)?;
        let desc = desc.required("desc")?;
        if size == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "size is 0");
        }
        let desc = desc.counted(MOST_ITEMS, "count", ACL_ERROR_RT_PARAM_INVALID)?;
        let mut rights = Vec::new();
        for aclrtMemAccessDesc { flags, location, .. } in desc.iter() {
            let is_known = matches!(
                *flags,
                aclrtMemAccessFlags::ACL_RT_MEM_ACCESS_FLAGS_NONE
                    | aclrtMemAccessFlags::ACL_RT_MEM_ACCESS_FLAGS_READ
                    | aclrtMemAccessFlags::ACL_RT_MEM_ACCESS_FLAGS_READWRITE
            );
            if !is_known {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "desc has flags {}; 0 (NONE), 1 (READ) and 3 (READWRITE) exist",
                    flags.0
                );
            }
            rights.push((reaching(location)?.id, *flags));
        }
        rights::set(vir_ptr.addr(), size, &rights)
    }

    fn aclrtMemGetAccess(
        vir_ptr: *mut c_void,
        location: In<aclrtMemLocation, *mut aclrtMemLocation>,
        flag: Out<u64>,
    ) {
        given(vir_ptr)?;
        let (location, flag) = (location.required("location")?, flag.required("flag")?);
        let device = reaching(location)?;
        flag.write(rights::of(vir_ptr.addr(), device.id)?.0.into());
        Ok(())
    }

    fn aclrtMemExportToShareableHandleV2(
        handle: Handle<PhysicalMemory>,
        flags: u64,
        share_type: aclrtMemSharedHandleType,
        shareable_handle: Out<aclrtMemFabricHandle, *mut c_void>,
    ) {
        let handle = handle.required("handle")?.number();
        let to = shareable_handle.required("shareableHandle")?;
        let is_open = one_flag(flags, ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION)?;
        is_fabric(share_type)?;
        context::current_device()?;
        let key = shared::export(handle, own_home()?, !is_open)?;
        let mut fabric = aclrtMemFabricHandle { data: [0; FABRIC] };
        fabric.data[..KEY].copy_from_slice(key.text().as_bytes());
        to.write(fabric);
        Ok(())
    }

    fn aclrtMemImportFromShareableHandleV2(
        shareable_handle: In<aclrtMemFabricHandle, *mut c_void>,
        share_type: aclrtMemSharedHandleType,
        flags: u64,
        handle: Out<aclrtDrvMemHandle>,
    ) {
        let fabric = shareable_handle.required("shareableHandle")?;
        let handle = handle.required("handle")?;
        is_fabric(share_type)?;
        is_zero("flags", flags)?;
        let key = key_of(fabric)?;
        let (_, device) = context::current_device()?;
        let made = shared::import(&exporter(&key)?, &key, device)?;
        handle.write(std::ptr::without_provenance_mut(made as usize));
        Ok(())
    }

    fn aclrtMemSetPidToShareableHandleV2(
        shareable_handle: In<aclrtMemFabricHandle, *mut c_void>,
        share_type: aclrtMemSharedHandleType,
        pid: Slice<i32, *mut i32>[num],
        num: usize,
    ) {
        let fabric = shareable_handle.required("shareableHandle")?;
        is_fabric(share_type)?;
        let key = key_of(fabric)?;
        context::current_device()?;
        if key.home != own_home()? {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "process {} has exported it, and it alone says who may import it",
                key.home.process
            );
        }
        permit(key.number, pid, num)
    }

    each _kind in {
        aclrtReserveMemAddress: (),
        // The emulator's memory is all of one kind.
        aclrtReserveMemAddressNoUCMemory: (),
    }
    fn (
        vir_ptr: Out<*mut c_void>,
        size: usize,
        alignment: usize,
        expect_ptr: *mut c_void,
        _flags: u64,
    ) {
        let vir_ptr = vir_ptr.required("virPtr")?;
        if size == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "size is 0");
        }
        is_zero("alignment", alignment as u64)?;
        if !expect_ptr.is_null() {
            return fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "expectPtr is {expect_ptr:?}; it must be NULL, since the emulator chooses the addresses"
            );
        }
        let (_, device) = context::current_device()?;
        let start = virtual_memory::reserve(device, size, ENTRY)?;
        vir_ptr.write(std::ptr::with_exposed_provenance_mut(start));
        Ok(())
    }
}

/// Bytes of a handle for processes of all servers.
const FABRIC: usize = size_of::<aclrtMemFabricHandle>();

/// The one kind of shareable handles that says how its process is reached.
fn is_fabric(kind: aclrtMemSharedHandleType) -> Result<(), Failure> {
    match kind {
        aclrtMemSharedHandleType::ACL_MEM_SHARE_HANDLE_TYPE_FABRIC => Ok(()),
        aclrtMemSharedHandleType::ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT => fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "shareType is 1 (DEFAULT), whose 8 bytes do not say how the process is reached; the emulator shares by handles              of {FABRIC} bytes, type 2 (FABRIC)"
        ),
        other => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "shareType is {}; 1 (DEFAULT) and 2 (FABRIC) exist",
            other.0
        ),
    }
}

/// The key that a shareable handle has.
fn key_of(fabric: &aclrtMemFabricHandle) -> Result<ExportKey, Failure> {
    let (key, rest) = fabric.data.split_at(KEY);
    if rest.iter().any(|byte| *byte != 0) {
        return fail!(ACL_ERROR_RT_PARAM_INVALID, "this is no shareable handle of the emulator");
    }
    ExportKey::of(key, ExportKind::Physical)
}

fn given(vir_ptr: *mut c_void) -> Result<(), Failure> {
    if vir_ptr.is_null() { Err(Failure::null("virPtr")) } else { Ok(()) }
}

fn is_zero(argument: &str, value: u64) -> Result<(), Failure> {
    if value != 0 {
        return fail!(ACL_ERROR_RT_PARAM_INVALID, "{argument} is {value:#x}; it must be 0");
    }
    Ok(())
}

/// The device that is to reach memory.
fn reaching(location: &aclrtMemLocation) -> Result<&'static machine::Device, Failure> {
    if location.type_ != aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE {
        return fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "a location has type {}; devices (1) reach mapped memory, and the host does not",
            location.type_.0
        );
    }
    machine::find_device(i32::try_from(location.id).unwrap_or(-1))
}

/// The device whose memory such properties ask for: pinned, in pages of 2 MiB.
fn device_of(properties: &aclrtPhysicalMemProp) -> Result<&'static machine::Device, Failure> {
    let aclrtPhysicalMemProp { handleType, allocationType, memAttr, location, .. } = *properties;
    let is_known = matches!(
        handleType,
        aclrtMemHandleType::ACL_MEM_HANDLE_TYPE_NONE
            | aclrtMemHandleType::ACL_MEM_HANDLE_TYPE_POSIX
    );
    if !is_known || allocationType != aclrtMemAllocationType::ACL_MEM_ALLOCATION_TYPE_PINNED {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "prop has handleType {} and allocationType {}; 0 (NONE) or 2 (POSIX), and 0 (PINNED) exist",
            handleType.0,
            allocationType.0
        );
    }
    let is_huge = matches!(
        memAttr,
        aclrtMemAttr::ACL_HBM_MEM_HUGE
            | aclrtMemAttr::ACL_HBM_MEM_P2P_HUGE
            | aclrtMemAttr::ACL_MEM_HUGE
            | aclrtMemAttr::ACL_MEM_P2P_HUGE
    );
    if !is_huge || location.type_ != aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE {
        return fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "prop has memAttr {} and a location of type {}; the emulator allocates huge pages of device memory (memAttr 4, \
             8, 13 or 16, type 1)",
            memAttr.0,
            location.type_.0
        );
    }
    machine::find_device(i32::try_from(location.id).unwrap_or(-1))
}
