//! The entries for memory: allocation, release, registration, and the attributes of pointers.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::Out;
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::machine::foreign::is_outside;
use crate::memory::{self, Bytes, MemoryPlace};
use crate::message::{Failure, fail};
use crate::profile::Product;
use crate::stream::unfinished_on;
use crate::{context, executor, host_memory, ipc, machine, operator, stream_pool};
use ascend_sys::{
    ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_ADDR_UNALIGNED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
    ACL_ERROR_RT_MEMORY_ALLOCATION, ACL_ERROR_RT_PARAM_INVALID, ACL_HOST_REG_IOMEMORY,
    ACL_HOST_REG_MAPPED, ACL_HOST_REG_PINNED, ACL_HOST_REG_READONLY, aclrtHostRegisterType,
    aclrtMallocConfig, aclrtMemAttr, aclrtMemLocation, aclrtMemLocationType, aclrtMemMallocPolicy,
    aclrtPtrAttributes,
};
use std::ffi::c_void;

entries! {
    Acl;

    fn aclrtMallocWithCfg(
        dev_ptr: Out<*mut c_void>,
        size: usize,
        _policy: aclrtMemMallocPolicy,
        _cfg: *mut aclrtMallocConfig,
    ) {
        allocate(dev_ptr, size, ENTRY, Product::charged_size)
    }

    fn aclrtMallocForTaskScheduler(
        dev_ptr: Out<*mut c_void>,
        size: usize,
        _policy: aclrtMemMallocPolicy,
        _cfg: *mut aclrtMallocConfig,
    ) {
        allocate(dev_ptr, size, ENTRY, Product::charged_size)
    }

    fn aclrtMallocHost(host_ptr: Out<*mut c_void>, size: usize) {
        allocate_host(host_ptr, size, ENTRY)
    }

    fn aclrtMallocHostWithCfg(ptr: Out<*mut c_void>, size: u64, _cfg: *mut aclrtMallocConfig) {
        allocate_host(ptr, size as usize, ENTRY)
    }

    fn aclrtHostRegister(
        ptr: *mut c_void,
        size: u64,
        _type: aclrtHostRegisterType,
        dev_ptr: Out<*mut c_void>,
    ) {
        let dev_ptr = dev_ptr.required("devPtr")?;
        register(ptr, size)?;
        dev_ptr.write(ptr);
        Ok(())
    }

    fn aclrtHostRegisterV2(ptr: *mut c_void, size: u64, flag: u32) {
        let known = [ACL_HOST_REG_MAPPED, ACL_HOST_REG_READONLY, ACL_HOST_REG_PINNED];
        let flags = u64::from(flag);
        if flags & ACL_HOST_REG_IOMEMORY != 0 {
            return fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "flag is {flag:#x}, which requests I/O memory; the emulator registers only memory \
                 of the program, so pass a flag without {ACL_HOST_REG_IOMEMORY:#x}"
            );
        }
        if flags == 0 || known.iter().fold(flags, |rest, known| rest & !known) != 0 {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "flag is {flag:#x}; it must be made of {ACL_HOST_REG_MAPPED:#x} (MAPPED), {ACL_HOST_REG_READONLY:#x} \
                 (READONLY) and {ACL_HOST_REG_PINNED:#x} (PINNED)"
            );
        }
        register(ptr, size)
    }

    fn aclrtHostGetDevicePointer(p_host: *mut c_void, p_device: Out<*mut c_void>, flag: u32) {
        let p_device = p_device.required("pDevice")?;
        if p_host.is_null() {
            return Err(Failure::null("pHost"));
        }
        if flag != 0 {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "flag is {flag:#x}; it must be 0");
        }
        if !memory::is_registered(p_host.addr(), 1) {
            return fail!(
                ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
                "{p_host:?} is not in registered memory; call aclrtHostRegisterV2 first"
            );
        }
        // The device uses the same address.
        p_device.write(p_host);
        Ok(())
    }

    fn aclrtHostUnregister(ptr: *mut c_void) {
        if let Some(memory) = memory::registered_at(ptr.addr()) {
            may_block()?;
            if host_memory::unregister(&memory, ENTRY) {
                return Ok(());
            }
        }
        fail!(
            ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
            "{ptr:?} is not the start of registered memory; pass the address that was registered"
        )
    }

    fn aclrtGetMemInfo(attr: aclrtMemAttr, free: Out<usize>, total: Out<usize>) {
        let (free, total) = (free.required("free")?, total.required("total")?);
        let (_, device) = context::current_device()?;
        let hbm = matches!(
            attr,
            aclrtMemAttr::ACL_HBM_MEM
                | aclrtMemAttr::ACL_HBM_MEM_HUGE
                | aclrtMemAttr::ACL_HBM_MEM_NORMAL
                | aclrtMemAttr::ACL_MEM_NORMAL
                | aclrtMemAttr::ACL_MEM_HUGE
        );
        // For a kind of memory that the product does not have, both sizes are 0.
        let (f, t) = if hbm { device.memory.usage() } else { (0, 0) };
        free.write(f as usize);
        total.write(t as usize);
        Ok(())
    }

    fn aclrtPointerGetAttributes(ptr: *const c_void, attributes: Out<aclrtPtrAttributes>) {
        let attributes = attributes.required("attributes")?;
        if ptr.is_null() {
            return fail!(ACL_ERROR_INVALID_PARAM, "ptr is NULL; pass the address of memory");
        }
        let (id, kind) = match resolve(ptr, 1, "ptr")?.place {
            MemoryPlace::Device(id) => {
                (machine::number_of(id), aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE)
            }
            MemoryPlace::Pinned => (0, aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_HOST),
            MemoryPlace::Pageable => (0, aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_UNREGISTERED),
        };
        attributes.write(aclrtPtrAttributes {
            location: aclrtMemLocation { id, type_: kind },
            pageSize: 4096,
            rsv: [0; 4],
        });
        Ok(())
    }

    fn aclrtMemGetAddressRange(ptr: *mut c_void, base: Out<*mut c_void>, size: Out<usize>) {
        let found = match memory::place_of(ptr.addr()) {
            Ok(MemoryPlace::Device(id)) => machine::device_slot(id).memory.bounds_of(ptr.addr()),
            Ok(_) => Err(format!("{ptr:?} is not device memory; pass an address of aclrtMalloc")),
            Err(text) => Err(text),
        };
        let (start, end) = found.map_err(|text| bad_pointer("ptr", &text))?;
        base.write_if_asked(std::ptr::with_exposed_provenance_mut(start));
        size.write_if_asked(end - start);
        Ok(())
    }

    // Emulated devices have no caches, so these functions have nothing to do.
    each _action in { aclrtMemFlush: (), aclrtMemInvalidate: () }
    fn (dev_ptr: *mut c_void, size: usize) {
        if dev_ptr.is_null() || size == 0 {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "devPtr is NULL or size is 0; pass device memory and its size"
            );
        }
        context::current_device()?;
        match resolve(dev_ptr, size, "devPtr")?.place {
            MemoryPlace::Device(_) => Ok(()),
            _ => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "devPtr: {dev_ptr:?} is not device memory; pass an address of aclrtMalloc"
            ),
        }
    }

    each charged in {
        aclrtMalloc: Product::charged_size,
        aclrtMallocCached: Product::charged_size,
        aclrtMallocAlign32: |_, size: usize| size.checked_next_multiple_of(32),
    }
    fn (dev_ptr: Out<*mut c_void>, size: usize, _policy: aclrtMemMallocPolicy) {
        allocate(dev_ptr, size, ENTRY, charged)
    }

    each free in { aclrtFree: free_device, aclrtFreeHost: free_host }
    fn (ptr: *mut c_void) {
        free(ptr, ENTRY)
    }

    each of_host in { aclrtFreeWithDevSync: false, aclrtFreeHostWithDevSync: true }
    fn (ptr: *mut c_void) {
        may_block()?;
        // A pointer that cannot be freed causes no wait.
        if is_allocated(ptr.addr(), of_host) {
            wait_for_device()?;
        }
        if of_host { free_host(ptr, ENTRY) } else { free_device(ptr, ENTRY) }
    }
}

fn allocate(
    to: Out<*mut c_void>,
    size: usize,
    entry: &'static str,
    charged: impl FnOnce(Product, usize) -> Option<usize>,
) -> Result<(), Failure> {
    let to = to.required("devPtr")?;
    if size == 0 {
        return fail!(ACL_ERROR_INVALID_PARAM, "size is 0; pass at least 1");
    }
    let (_, device) = context::current_device()?;
    if device.faults.allocation_fails() {
        return fail!(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "out of memory: this fault was set for device {}; end it with ascendExtFaultClear",
            machine::named(device.id)
        );
    }
    let charged = charged(device.product(), size).unwrap_or(usize::MAX);
    match device.allocate(size, charged, entry) {
        Ok(address) => {
            to.write(std::ptr::with_exposed_provenance_mut(address));
            Ok(())
        }
        Err(oom) => fail!(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "out of memory: {size} bytes of device {}, of which {} of {} are free; free memory \
             first, or request less",
            machine::named(device.id),
            oom.free,
            oom.total
        ),
    }
}

/// Frees device memory. `aclrtFree(NULL)` is an error, as in CANN.
fn free_device(pointer: *mut c_void, by: &'static str) -> Result<(), Failure> {
    let address = pointer.addr();
    if address == 0 {
        return fail!(ACL_ERROR_INVALID_PARAM, "devPtr is NULL; pass an address of aclrtMalloc");
    }
    let freed = match memory::place_of(address) {
        Ok(MemoryPlace::Device(_)) if stream_pool::is_pooled(address) => {
            Err(format!("{address:#x} is memory of a pool; aclrtMemPoolFreeAsync frees it"))
        }
        Ok(MemoryPlace::Device(id)) => free_of(machine::device_slot(id), address, by),
        Ok(MemoryPlace::Pinned) => {
            Err(format!("{address:#x} is host memory; aclrtFreeHost frees it"))
        }
        Ok(MemoryPlace::Pageable) => {
            Err(format!("{address:#x} is not device memory; pass an address of aclrtMalloc"))
        }
        Err(text) => Err(text),
    };
    freed.map_err(|text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, format!("devPtr: {text}")))
}

/// Frees memory of a device. Returns an error if another process uses it.
pub(super) fn free_of(
    device: &machine::Device,
    address: usize,
    by: &'static str,
) -> Result<(), String> {
    if is_outside(address) {
        return device.memory.free(address, by, Vec::new);
    }
    end_exports(device, address)?;
    device.free_held(address, by, unfinished_on, &ipc::exports::held_registered())
}

/// Ends the exports of an allocation of a device that is about to be freed. Returns an error if
/// another process uses a part of it.
pub(super) fn end_exports(device: &machine::Device, address: usize) -> Result<(), String> {
    let pool = &device.memory;
    let allocation =
        || pool.name_of(address).and_then(|(_, size)| pool.number_of(address, size).ok());
    ipc::exports::end_of_allocation(device.id, allocation)
        .and_then(|()| {
            let bytes = pool.name_of(address).map_or(0, |(_, size)| size);
            operator::abroad::check_free(address..address + bytes)
        })
        .map_err(|who| format!("{address:#x} cannot be freed: {who}"))
}

/// Returns whether an allocation of a device, or of pinned host memory if `of_host`, begins at an
/// address.
fn is_allocated(address: usize, of_host: bool) -> bool {
    let pool = match memory::place_of(address) {
        Ok(MemoryPlace::Device(id)) if !of_host => &machine::device_slot(id).memory,
        Ok(MemoryPlace::Pinned) if of_host => memory::host_pool(),
        _ => return false,
    };
    pool.entry_of(address).is_some()
}

/// Blocks until the streams of the current device are idle. Their failures are kept for the next
/// call that synchronises.
fn wait_for_device() -> Result<(), Failure> {
    let (_, device) = context::current_device()?;
    for stream in crate::stream::STREAMS.live().filter(|stream| stream.device_id() == device.id) {
        executor::wait_idle(stream);
    }
    Ok(())
}

/// Registers host memory of the program, so that the devices can reach it.
fn register(ptr: *mut c_void, size: u64) -> Result<(), Failure> {
    context::current_device()?;
    if ptr.is_null() || size == 0 {
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "ptr is NULL or size is 0; pass host memory and its size"
        );
    }
    if usize::try_from(size).is_ok_and(|size| ptr.addr().checked_add(size).is_none()) {
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "size is {size}, which reaches from {ptr:?} beyond the last address; pass the size of \
             the memory"
        );
    }
    if !ptr.addr().is_multiple_of(4096) {
        return fail!(
            ACL_ERROR_RT_ADDR_UNALIGNED,
            "ptr is {ptr:?}; it must be aligned to 4096 bytes"
        );
    }
    if host_memory::register(ptr.addr(), size as usize) {
        return Ok(());
    }
    fail!(
        ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        "{ptr:?} is device memory, or pinned or registered already; register other host memory, \
         and only once"
    )
}

fn allocate_host(to: Out<*mut c_void>, size: usize, entry: &'static str) -> Result<(), Failure> {
    let to = to.required("hostPtr")?;
    if size == 0 {
        return fail!(ACL_ERROR_INVALID_PARAM, "size is 0; pass at least 1");
    }
    let (_, device) = context::current_device()?;
    match host_memory::allocate(device.id, size, entry) {
        Ok(address) => {
            to.write(std::ptr::with_exposed_provenance_mut(address));
            Ok(())
        }
        Err(_) => fail!(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "out of pinned host memory: {size} bytes were requested; free some with aclrtFreeHost, \
             or request less"
        ),
    }
}

fn free_host(pointer: *mut c_void, by: &'static str) -> Result<(), Failure> {
    let address = pointer.addr();
    if address == 0 {
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "hostPtr is NULL; pass an address of aclrtMallocHost"
        );
    }
    let freed = match memory::place_of(address) {
        Ok(MemoryPlace::Pinned) => free_pinned(address, by),
        Ok(MemoryPlace::Device(id)) => Err(format!(
            "{address:#x} is memory of device {id}; aclrtFree frees it",
            id = machine::named(id)
        )),
        Ok(MemoryPlace::Pageable) => {
            Err(format!("{address:#x} is pageable host memory; pass an address of aclrtMallocHost"))
        }
        Err(text) => Err(text),
    };
    freed.map_err(|text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, format!("hostPtr: {text}")))
}

/// Frees pinned host memory. Returns an error if another process uses it.
fn free_pinned(address: usize, by: &'static str) -> Result<(), String> {
    let bytes = memory::host_pool().name_of(address).map_or(0, |(_, size)| size);
    operator::abroad::check_free(address..address + bytes)
        .map_err(|who| format!("{address:#x} cannot be freed: {who}"))?;
    host_memory::free(address, by, &ipc::exports::held_registered())
}

#[inline]
pub(super) fn resolve(
    pointer: *const c_void,
    bytes: usize,
    argument: &str,
) -> Result<Bytes, Failure> {
    memory::resolve(pointer.addr(), bytes).map_err(|text| bad_pointer(argument, &text))
}

#[cold]
fn bad_pointer(argument: &str, text: &str) -> Failure {
    Failure::new(ACL_ERROR_RT_PARAM_INVALID, format!("{argument}: {text}"))
}
