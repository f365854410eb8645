//! Memory: allocation, copies, fills.
#![allow(non_snake_case, reason = "CANN's names")]

use super::{door, out};
use crate::callback::may_block;
use crate::memory::{self, Bytes, Place};
use crate::message::{Failure, fail};
use crate::profile::Product;
use crate::stream::{Stream, unfinished};
use crate::task::{Copy, Fill, Step, Task};
use crate::{context, executor, machine};
use ascend_sys::{
    ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_ADDR_UNALIGNED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
    ACL_ERROR_RT_MEMORY_ALLOCATION, ACL_ERROR_RT_PARAM_INVALID, Functions, aclError,
    aclrtHostRegisterType, aclrtMallocConfig, aclrtMemAttr, aclrtMemLocation, aclrtMemLocationType,
    aclrtMemMallocPolicy, aclrtMemcpyKind, aclrtPtrAttributes, aclrtStream,
};
use std::ffi::c_void;

pub(super) fn fill(table: &mut Functions) {
    table.aclrtMalloc = Some(aclrtMalloc);
    table.aclrtMallocCached = Some(aclrtMallocCached);
    table.aclrtMallocAlign32 = Some(aclrtMallocAlign32);
    table.aclrtMallocWithCfg = Some(aclrtMallocWithCfg);
    table.aclrtFree = Some(aclrtFree);
    table.aclrtFreeWithDevSync = Some(aclrtFreeWithDevSync);
    table.aclrtMallocHost = Some(aclrtMallocHost);
    table.aclrtMallocHostWithCfg = Some(aclrtMallocHostWithCfg);
    table.aclrtFreeHost = Some(aclrtFreeHost);
    table.aclrtFreeHostWithDevSync = Some(aclrtFreeHostWithDevSync);
    table.aclrtHostRegister = Some(aclrtHostRegister);
    table.aclrtHostUnregister = Some(aclrtHostUnregister);
    table.aclrtMemcpy = Some(aclrtMemcpy);
    table.aclrtMemcpyAsync = Some(aclrtMemcpyAsync);
    table.aclrtMemcpy2d = Some(aclrtMemcpy2d);
    table.aclrtMemcpy2dAsync = Some(aclrtMemcpy2dAsync);
    table.aclrtMemset = Some(aclrtMemset);
    table.aclrtMemsetAsync = Some(aclrtMemsetAsync);
    table.aclrtGetMemInfo = Some(aclrtGetMemInfo);
    table.aclrtPointerGetAttributes = Some(aclrtPointerGetAttributes);
    table.aclrtMemGetAddressRange = Some(aclrtMemGetAddressRange);
}

fn allocate(
    to: *mut *mut c_void,
    size: usize,
    entry: &'static str,
    charged: impl FnOnce(Product, usize) -> Option<usize>,
) -> Result<(), Failure> {
    // SAFETY: null, or valid for a write by the C contract.
    let to = unsafe { out(to, "devPtr") }?;
    if size == 0 {
        return fail!(ACL_ERROR_INVALID_PARAM, "size is 0");
    }
    let (_, device) = context::current_device()?;
    let charged = charged(device.product(), size).unwrap_or(usize::MAX);
    match device.memory.allocate(size, charged, entry) {
        Ok(address) => {
            to.write(std::ptr::with_exposed_provenance_mut(address));
            Ok(())
        }
        Err(oom) => fail!(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "out of memory: {size} bytes of device {}, of which {} of {} are free",
            device.id,
            oom.free,
            oom.total
        ),
    }
}

unsafe extern "C" fn aclrtMalloc(
    dev_ptr: *mut *mut c_void,
    size: usize,
    _policy: aclrtMemMallocPolicy,
) -> aclError {
    door("aclrtMalloc", || allocate(dev_ptr, size, "aclrtMalloc", Product::charged_size))
}

unsafe extern "C" fn aclrtMallocCached(
    dev_ptr: *mut *mut c_void,
    size: usize,
    _policy: aclrtMemMallocPolicy,
) -> aclError {
    door("aclrtMallocCached", || {
        allocate(dev_ptr, size, "aclrtMallocCached", Product::charged_size)
    })
}

unsafe extern "C" fn aclrtMallocAlign32(
    dev_ptr: *mut *mut c_void,
    size: usize,
    _policy: aclrtMemMallocPolicy,
) -> aclError {
    door("aclrtMallocAlign32", || {
        allocate(dev_ptr, size, "aclrtMallocAlign32", |_, size| size.checked_next_multiple_of(32))
    })
}

unsafe extern "C" fn aclrtMallocWithCfg(
    dev_ptr: *mut *mut c_void,
    size: usize,
    _policy: aclrtMemMallocPolicy,
    _cfg: *mut aclrtMallocConfig,
) -> aclError {
    door("aclrtMallocWithCfg", || {
        allocate(dev_ptr, size, "aclrtMallocWithCfg", Product::charged_size)
    })
}

/// A free of device memory. `aclrtFree(NULL)` is an error in CANN too.
fn free_device(pointer: *mut c_void, by: &'static str) -> Result<(), Failure> {
    let address = pointer.addr();
    if address == 0 {
        return fail!(ACL_ERROR_INVALID_PARAM, "devPtr is NULL");
    }
    let freed = match memory::place_of(address) {
        Ok(Place::Device(id)) => machine::device_slot(id).free(address, by),
        Ok(Place::Pinned) => Err(format!("{address:#x} is host memory; aclrtFreeHost frees it")),
        Ok(Place::Pageable) => Err(format!("{address:#x} is no device memory")),
        Err(text) => Err(text),
    };
    freed.map_err(|text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, format!("devPtr: {text}")))
}

unsafe extern "C" fn aclrtFree(dev_ptr: *mut c_void) -> aclError {
    door("aclrtFree", || free_device(dev_ptr, "aclrtFree"))
}

unsafe extern "C" fn aclrtFreeWithDevSync(dev_ptr: *mut c_void) -> aclError {
    door("aclrtFreeWithDevSync", || {
        may_block()?;
        wait_for_device()?;
        free_device(dev_ptr, "aclrtFreeWithDevSync")
    })
}

/// Waits for the streams of the current device; their failures stay for the next synchronise.
fn wait_for_device() -> Result<(), Failure> {
    let (_, device) = context::current_device()?;
    for stream in crate::stream::STREAMS.live().filter(|stream| stream.device_id() == device.id) {
        executor::wait_idle(stream);
    }
    Ok(())
}

fn allocate_host(to: *mut *mut c_void, size: usize, entry: &'static str) -> Result<(), Failure> {
    // SAFETY: null, or valid for a write by the C contract.
    let to = unsafe { out(to, "hostPtr") }?;
    if size == 0 {
        return fail!(ACL_ERROR_INVALID_PARAM, "size is 0");
    }
    context::current_device()?;
    match memory::host_pool().allocate(size, size, entry) {
        Ok(address) => {
            to.write(std::ptr::with_exposed_provenance_mut(address));
            Ok(())
        }
        Err(_) => fail!(ACL_ERROR_RT_MEMORY_ALLOCATION, "out of pinned host memory: {size} bytes"),
    }
}

unsafe extern "C" fn aclrtMallocHost(host_ptr: *mut *mut c_void, size: usize) -> aclError {
    door("aclrtMallocHost", || allocate_host(host_ptr, size, "aclrtMallocHost"))
}

unsafe extern "C" fn aclrtMallocHostWithCfg(
    ptr: *mut *mut c_void,
    size: u64,
    _cfg: *mut aclrtMallocConfig,
) -> aclError {
    door("aclrtMallocHostWithCfg", || allocate_host(ptr, size as usize, "aclrtMallocHostWithCfg"))
}

fn free_host(pointer: *mut c_void, by: &'static str) -> Result<(), Failure> {
    let address = pointer.addr();
    if address == 0 {
        return fail!(ACL_ERROR_INVALID_PARAM, "hostPtr is NULL");
    }
    let freed = match memory::place_of(address) {
        Ok(Place::Pinned) => memory::host_pool().free(address, by, unfinished),
        Ok(Place::Device(id)) => {
            Err(format!("{address:#x} is memory of device {id}; aclrtFree frees it"))
        }
        Ok(Place::Pageable) => Err(format!("{address:#x} is not memory of aclrtMallocHost")),
        Err(text) => Err(text),
    };
    freed.map_err(|text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, format!("hostPtr: {text}")))
}

unsafe extern "C" fn aclrtFreeHost(host_ptr: *mut c_void) -> aclError {
    door("aclrtFreeHost", || free_host(host_ptr, "aclrtFreeHost"))
}

unsafe extern "C" fn aclrtFreeHostWithDevSync(host_ptr: *mut c_void) -> aclError {
    door("aclrtFreeHostWithDevSync", || {
        may_block()?;
        wait_for_device()?;
        free_host(host_ptr, "aclrtFreeHostWithDevSync")
    })
}

unsafe extern "C" fn aclrtHostRegister(
    ptr: *mut c_void,
    size: u64,
    _type: aclrtHostRegisterType,
    dev_ptr: *mut *mut c_void,
) -> aclError {
    door("aclrtHostRegister", || {
        // SAFETY: null, or valid for a write by the C contract.
        let dev_ptr = unsafe { out(dev_ptr, "devPtr") }?;
        context::current_device()?;
        if ptr.is_null() || size == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "ptr is NULL or size is 0");
        }
        if !ptr.addr().is_multiple_of(4096) {
            return fail!(
                ACL_ERROR_RT_ADDR_UNALIGNED,
                "ptr is {ptr:?}; it must be aligned to 4096 bytes"
            );
        }
        if memory::place_of(ptr.addr()) == Ok(Place::Pageable)
            && memory::register_host(ptr.addr(), size as usize)
        {
            dev_ptr.write(ptr);
            return Ok(());
        }
        fail!(
            ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
            "{ptr:?} is device memory, or pinned or registered already"
        )
    })
}

unsafe extern "C" fn aclrtHostUnregister(ptr: *mut c_void) -> aclError {
    door("aclrtHostUnregister", || {
        may_block()?;
        // Registered memory is the caller's: nothing queued may touch it afterwards.
        for mark in unfinished() {
            if let Some(stream) = mark.stream() {
                executor::wait(stream, mark.ticket(), None);
            }
        }
        if memory::unregister_host(ptr.addr()) {
            return Ok(());
        }
        fail!(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "{ptr:?} is not the start of registered memory")
    })
}

#[inline]
fn resolve(pointer: *const c_void, bytes: usize, argument: &str) -> Result<Bytes, Failure> {
    memory::resolve(pointer.addr(), bytes).map_err(|text| bad_pointer(argument, &text))
}

#[cold]
fn bad_pointer(argument: &str, text: &str) -> Failure {
    Failure::new(ACL_ERROR_RT_PARAM_INVALID, format!("{argument}: {text}"))
}

#[inline]
fn check_sizes(
    dst: *const c_void,
    most: usize,
    src: *const c_void,
    count: usize,
) -> Result<(), Failure> {
    if dst.is_null() || src.is_null() || count == 0 || count > most {
        return bad_sizes(dst, most, src, count);
    }
    Ok(())
}

#[cold]
fn bad_sizes(
    dst: *const c_void,
    most: usize,
    src: *const c_void,
    count: usize,
) -> Result<(), Failure> {
    let what = match () {
        () if dst.is_null() => "dst is NULL".to_string(),
        () if src.is_null() => "src is NULL".to_string(),
        () if count == 0 => "count is 0".to_string(),
        () => format!("count is {count}, but destMax is only {most}"),
    };
    fail!(ACL_ERROR_RT_PARAM_INVALID, "{what}")
}

fn check_kind(kind: aclrtMemcpyKind) -> Result<(), Failure> {
    if kind.0 > aclrtMemcpyKind::ACL_MEMCPY_INTER_DEVICE_TO_DEVICE.0 {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "kind is {}, which no aclrtMemcpyKind has",
            kind.0
        );
    }
    Ok(())
}

/// Whether one device may reach the memory of the other in a copy.
#[inline]
fn check_devices(dst: Bytes, src: Bytes) -> Result<(), Failure> {
    match (dst.place, src.place) {
        (Place::Device(to), Place::Device(from)) if to != from => check_peers(to, from),
        _ => Ok(()),
    }
}

#[cold]
fn check_peers(to: u32, from: u32) -> Result<(), Failure> {
    let (a, b) = (machine::device_slot(to), machine::device_slot(from));
    if a.block() != b.block() {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "devices {from} and {to} belong to different blocks"
        );
    }
    if a.product() != Product::A3 && !a.peers().contains(&from) && !b.peers().contains(&to) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "no access between devices {from} and {to}; call aclrtDeviceEnablePeerAccess first"
        );
    }
    Ok(())
}

/// Runs a task on the calling thread, in no stream.
fn run_now(mut poll: impl FnMut() -> Step) -> Result<(), Failure> {
    loop {
        if let Step::Done(result) = poll() {
            return result;
        }
    }
}

unsafe extern "C" fn aclrtMemcpy(
    dst: *mut c_void,
    dest_max: usize,
    src: *const c_void,
    count: usize,
    kind: aclrtMemcpyKind,
) -> aclError {
    door("aclrtMemcpy", || {
        may_block()?;
        check_sizes(dst, dest_max, src, count)?;
        check_kind(kind)?;
        context::current()?;
        if dst.cast_const() == src {
            return Ok(());
        }
        let (to, from) = (resolve(dst, count, "dst")?, resolve(src, count, "src")?);
        check_devices(to, from)?;
        let mut copy = Copy::new(to.data, from.data, count);
        run_now(|| copy.poll())
    })
}

unsafe extern "C" fn aclrtMemcpyAsync(
    dst: *mut c_void,
    dest_max: usize,
    src: *const c_void,
    count: usize,
    kind: aclrtMemcpyKind,
    stream: aclrtStream,
) -> aclError {
    door("aclrtMemcpyAsync", || {
        check_sizes(dst, dest_max, src, count)?;
        check_kind(kind)?;
        if kind == aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_HOST {
            return fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "there is no asynchronous copy from host to host"
            );
        }
        let stream = Stream::of_current_context(stream as u64)?;
        if dst.cast_const() == src {
            return Ok(());
        }
        let (to, from) = (resolve(dst, count, "dst")?, resolve(src, count, "src")?);
        check_devices(to, from)?;
        submit_copy(stream, to, from, Copy::new(to.data, from.data, count))
    })
}

/// A copy with pageable host memory is done before the call returns: nobody knows how long that memory lives.
#[inline]
fn submit_copy(stream: &'static Stream, to: Bytes, from: Bytes, copy: Copy) -> Result<(), Failure> {
    let pageable = to.place == Place::Pageable || from.place == Place::Pageable;
    if pageable {
        may_block()?;
    }
    let ticket = stream.submit(Task::Copy(copy))?;
    if pageable {
        executor::wait(stream, ticket, None);
    }
    Ok(())
}

/// The size limits of pitched copies.
const MOST_WIDTH: usize = 5_000_000;
const MOST_HEIGHT: usize = 5 << 20;

fn pitched(
    (dst, dpitch): (*mut c_void, usize),
    (src, spitch): (*const c_void, usize),
    width: usize,
    height: usize,
) -> Result<(Bytes, Bytes, Copy), Failure> {
    if dst.is_null() || src.is_null() || width == 0 || height == 0 {
        return fail!(ACL_ERROR_RT_PARAM_INVALID, "dst or src is NULL, or width or height is 0");
    }
    if width > dpitch || width > spitch || width > MOST_WIDTH || height > MOST_HEIGHT {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "width {width} with pitches {dpitch} and {spitch}, height {height}: the width must fit both pitches and \
             {MOST_WIDTH}, the height {MOST_HEIGHT}"
        );
    }
    let extent =
        |pitch: usize| pitch.checked_mul(height - 1).and_then(|most| most.checked_add(width));
    let (Some(to), Some(from)) = (extent(dpitch), extent(spitch)) else {
        return fail!(ACL_ERROR_RT_PARAM_INVALID, "pitch times height overflows");
    };
    let (to, from) = (resolve(dst, to, "dst")?, resolve(src, from, "src")?);
    check_devices(to, from)?;
    Ok((to, from, Copy::new(to.data, from.data, width).rows(height, dpitch, spitch)))
}

unsafe extern "C" fn aclrtMemcpy2d(
    dst: *mut c_void,
    dpitch: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: aclrtMemcpyKind,
) -> aclError {
    door("aclrtMemcpy2d", || {
        may_block()?;
        check_kind(kind)?;
        context::current()?;
        let (_, _, mut copy) = pitched((dst, dpitch), (src, spitch), width, height)?;
        run_now(|| copy.poll())
    })
}

unsafe extern "C" fn aclrtMemcpy2dAsync(
    dst: *mut c_void,
    dpitch: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: aclrtMemcpyKind,
    stream: aclrtStream,
) -> aclError {
    door("aclrtMemcpy2dAsync", || {
        check_kind(kind)?;
        let stream = Stream::of_current_context(stream as u64)?;
        let (to, from, copy) = pitched((dst, dpitch), (src, spitch), width, height)?;
        submit_copy(stream, to, from, copy)
    })
}

unsafe extern "C" fn aclrtMemset(
    dev_ptr: *mut c_void,
    max_count: usize,
    value: i32,
    count: usize,
) -> aclError {
    door("aclrtMemset", || {
        may_block()?;
        check_sizes(dev_ptr, max_count, dev_ptr, count)?;
        context::current()?;
        let mut fill = Fill::new(resolve(dev_ptr, count, "devPtr")?.data, value as u8, count);
        run_now(|| fill.poll())
    })
}

unsafe extern "C" fn aclrtMemsetAsync(
    dev_ptr: *mut c_void,
    max_count: usize,
    value: i32,
    count: usize,
    stream: aclrtStream,
) -> aclError {
    door("aclrtMemsetAsync", || {
        check_sizes(dev_ptr, max_count, dev_ptr, count)?;
        let stream = Stream::of_current_context(stream as u64)?;
        let to = resolve(dev_ptr, count, "devPtr")?;
        if to.place == Place::Pageable {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "devPtr is pageable host memory");
        }
        stream.submit(Task::Fill(Fill::new(to.data, value as u8, count))).map(drop)
    })
}

unsafe extern "C" fn aclrtGetMemInfo(
    attr: aclrtMemAttr,
    free: *mut usize,
    total: *mut usize,
) -> aclError {
    door("aclrtGetMemInfo", || {
        // SAFETY: null, or valid for writes by the C contract.
        let (free, total) = unsafe { (out(free, "free")?, out(total, "total")?) };
        let (_, device) = context::current_device()?;
        let hbm = matches!(
            attr,
            aclrtMemAttr::ACL_HBM_MEM
                | aclrtMemAttr::ACL_HBM_MEM_HUGE
                | aclrtMemAttr::ACL_HBM_MEM_NORMAL
                | aclrtMemAttr::ACL_MEM_NORMAL
                | aclrtMemAttr::ACL_MEM_HUGE
        );
        // A kind of memory that the product has not is answered with zeros.
        let (f, t) = if hbm { device.memory.usage() } else { (0, 0) };
        free.write(f as usize);
        total.write(t as usize);
        Ok(())
    })
}

unsafe extern "C" fn aclrtPointerGetAttributes(
    ptr: *const c_void,
    attributes: *mut aclrtPtrAttributes,
) -> aclError {
    door("aclrtPointerGetAttributes", || {
        // SAFETY: null, or valid for a write by the C contract.
        let attributes = unsafe { out(attributes, "attributes") }?;
        if ptr.is_null() {
            return fail!(ACL_ERROR_INVALID_PARAM, "ptr is NULL");
        }
        let (id, kind) = match resolve(ptr, 1, "ptr")?.place {
            Place::Device(id) => (id, aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE),
            Place::Pinned => (0, aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_HOST),
            Place::Pageable => (0, aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_UNREGISTERED),
        };
        attributes.write(aclrtPtrAttributes {
            location: aclrtMemLocation { id, type_: kind },
            pageSize: 4096,
            rsv: [0; 4],
        });
        Ok(())
    })
}

unsafe extern "C" fn aclrtMemGetAddressRange(
    ptr: *mut c_void,
    base: *mut *mut c_void,
    size: *mut usize,
) -> aclError {
    door("aclrtMemGetAddressRange", || {
        let found = match memory::place_of(ptr.addr()) {
            Ok(Place::Device(id)) => machine::device_slot(id).memory.find(ptr.addr(), 1),
            Ok(_) => Err(format!("{ptr:?} is no device memory")),
            Err(text) => Err(text),
        };
        let (start, end) = found.map_err(|text| bad_pointer("ptr", &text))?;
        // SAFETY: null, or valid for writes by the C contract; either may be left out.
        unsafe {
            if let Some(base) = base.as_mut() {
                *base = std::ptr::with_exposed_provenance_mut(start);
            }
            if let Some(size) = size.as_mut() {
                *size = end - start;
            }
        }
        Ok(())
    })
}
