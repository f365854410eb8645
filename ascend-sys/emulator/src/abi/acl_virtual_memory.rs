//! The entries for virtual memory: reserving addresses, allocating physical memory, and mapping it.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, In, MOST_ITEMS, Out, Slice};
use super::entries::{Acl, entries};
use crate::message::{Failure, fail};
use crate::virtual_memory::{self, GRANULARITY, rights};
use crate::{context, machine};
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_PARAM_INVALID,
    aclrtDrvMemHandle, aclrtMemAccessDesc, aclrtMemAccessFlags, aclrtMemAllocationType,
    aclrtMemAttr, aclrtMemGranularityOptions, aclrtMemHandleType, aclrtMemLocation,
    aclrtMemLocationType, aclrtPhysicalMemProp,
};
use std::ffi::c_void;

pub(super) enum PhysicalMemory {}

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
            return fail!(ACL_ERROR_INVALID_PARAM, "size is 0; pass at least 1");
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
            return fail!(ACL_ERROR_INVALID_PARAM, "size is 0; pass at least 1");
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
                "option is {}; pass 0 (MINIMUM) or 1 (RECOMMENDED)",
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
            return fail!(ACL_ERROR_INVALID_PARAM, "size is 0; pass at least 1");
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
                    "desc has flags {}; set 0 (NONE), 1 (READ) or 3 (READWRITE)",
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

    each _kind in {
        aclrtReserveMemAddress: (),
        // The emulator has only one kind of memory.
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
            return fail!(ACL_ERROR_INVALID_PARAM, "size is 0; pass at least 1");
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

fn given(vir_ptr: *mut c_void) -> Result<(), Failure> {
    if vir_ptr.is_null() { Err(Failure::null("virPtr")) } else { Ok(()) }
}

pub(super) fn is_zero(argument: &str, value: u64) -> Result<(), Failure> {
    if value != 0 {
        return fail!(ACL_ERROR_RT_PARAM_INVALID, "{argument} is {value:#x}; it must be 0");
    }
    Ok(())
}

/// Returns the device that a location names. Returns an error for a location on the host.
fn reaching(location: &aclrtMemLocation) -> Result<&'static machine::Device, Failure> {
    if location.type_ != aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE {
        return fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "a location has type {}; set 1 (DEVICE), because the host cannot reach mapped memory",
            location.type_.0
        );
    }
    machine::find_device(i32::try_from(location.id).unwrap_or(-1))
}

/// Returns the device whose memory the properties request. The memory must be pinned, in huge pages
/// of 2 MiB.
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
            "prop has handleType {} and allocationType {}; set handleType 0 (NONE) or 2 (POSIX), \
             and allocationType 0 (PINNED)",
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
            "prop has memAttr {} and a location of type {}; set memAttr 4, 8, 13 or 16, and type \
             1, because the emulator allocates only huge pages of device memory",
            memAttr.0,
            location.type_.0
        );
    }
    machine::find_device(i32::try_from(location.id).unwrap_or(-1))
}
