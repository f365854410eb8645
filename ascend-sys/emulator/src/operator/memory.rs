//! Memory for communication: the buffer of a communicator, the memory that a program registers, and
//! the addresses that a primitive may use.

use super::channel::{Channel, Exchanged};
use super::reach::Reach;
use super::resources::{CommBuffer, CommMemory, with_resources};
use crate::fabric::Member;
use crate::machine;
use crate::memory::{self, MemoryPlace, held::HeldMemory, window};
use crate::message::{Failure, refuse};
use crate::submit;
use crate::task::Touch;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

const ENTRY: &str = "HcclGetHcclBuffer";
/// The largest page size in bytes that systems use for shared memory, unless they are configured
/// otherwise.
const PAGE: usize = 64 << 10;

/// Returns the address and the size in bytes of a rank's HCCL buffer. The first call allocates it:
/// one part for input and one for output, each of `hcclBufferSize`.
pub(crate) fn buffer(member: &Member) -> Result<(usize, usize), Failure> {
    with_resources(member, |resources| {
        if let Some(buffer) = &resources.buffer {
            return Ok((buffer.start, buffer.bytes));
        }
        let bytes = 2 * ((member.config.buffer_megabytes as usize) << 20);
        let device = machine::device_slot(member.device);
        match device.allocate(bytes, bytes, ENTRY) {
            Ok(start) => {
                // The allocation was made just now, so its number is found.
                let number = device.memory.number_of(start, bytes).unwrap_or_default();
                let buffer = CommBuffer { device: device.id, start, number, bytes };
                resources.buffer = Some(Arc::new(buffer));
                Ok((start, bytes))
            }
            Err(oom) => refuse!(
                HCCL_E_MEMORY,
                "EI0011: no memory for the HCCL buffer: {bytes} bytes (twice hcclBufferSize) of \
                 device {}, of which {} of {} are free; free memory of the device, or set a \
                 smaller hcclBufferSize",
                machine::named(device.id),
                oom.free,
                oom.total
            ),
        }
    })
}

/// Returns the addresses of a rank's HCCL buffer; an empty range if the buffer is not allocated
/// yet.
pub(super) fn buffer_so_far(member: &Member) -> Range<usize> {
    let range = |buffer: &Arc<CommBuffer>| buffer.start..buffer.start + buffer.bytes;
    let found = with_resources(member, |resources| Ok(resources.buffer.as_ref().map(range)));
    found.ok().flatten().unwrap_or_default()
}

/// Returns the address and the size of a rank's HCCL buffer, after setting all bytes to zero. Pages
/// that were never used are not touched.
pub(crate) fn cleared_buffer(member: &Member) -> Result<(usize, usize), Failure> {
    let (start, bytes) = buffer(member)?;
    match memory::resolve(start, bytes) {
        Ok(found) => {
            let what = || ("clearing of the HCCL buffer".into(), vec![Touch::write(start, bytes)]);
            submit::at_once(member.device, "HcclGetHcclBufferCleared", what);
            clear(found.data, bytes);
            Ok((start, bytes))
        }
        Err(text) => refuse!(HCCL_E_INTERNAL, "EI9999: {text}"),
    }
}

/// Sets `bytes` bytes to zero. Whole pages are returned to the system, which provides zeroed pages
/// at the next access.
pub(super) fn clear(data: *mut u8, bytes: usize) {
    let ahead = data.align_offset(PAGE).min(bytes);
    let pages = (bytes - ahead) / PAGE * PAGE;
    if pages > 0 {
        window::discard(data.addr() + ahead, pages);
    }
    for (start, length) in [(0, ahead), (ahead + pages, bytes - ahead - pages)] {
        // SAFETY: the caller has resolved the range, and the part lies in it.
        unsafe { ascend_reduce::copy::fill(data.wrapping_add(start), 0, length) };
    }
}

/// Resolves bytes that a primitive uses on its own side: memory of the thread's device, or pinned
/// host memory.
#[inline]
pub(super) fn local(
    device: u32,
    argument: &str,
    address: *const c_void,
    bytes: usize,
) -> Result<*mut u8, Failure> {
    match memory::resolve(address.addr(), bytes) {
        Ok(found)
            if found.place == MemoryPlace::Device(device) || found.place == MemoryPlace::Pinned =>
        {
            Ok(found.data)
        }
        found => not_local(device, argument, address, found.map(|found| found.place)),
    }
}

#[cold]
fn not_local(
    device: u32,
    argument: &str,
    address: *const c_void,
    found: Result<MemoryPlace, String>,
) -> Result<*mut u8, Failure> {
    let what = match found {
        Err(text) => text,
        Ok(MemoryPlace::Device(id)) => format!(
            "{address:p} is memory of device {id}, but the thread is on device {device}; reach \
             memory of another rank over a channel (HcommReadOnThread, HcommWriteOnThread)",
            device = machine::named(device),
            id = machine::named(id)
        ),
        Ok(MemoryPlace::Pinned | MemoryPlace::Pageable) => format!(
            "{address:p} is pageable host memory, which no device reaches; use device memory (aclrtMalloc) or pinned memory \
             (aclrtMallocHost)"
        ),
    };
    refuse!(HCCL_E_PARA, "{argument}: {what}")
}

/// Resolves bytes that a primitive uses on the peer's side. They must lie in memory that the peer
/// has exchanged over the channel.
#[inline]
pub(super) fn remote(
    channel: &Reach,
    argument: &str,
    address: *const c_void,
    bytes: usize,
) -> Result<*mut u8, Failure> {
    if !channel.has_exchanged(address.addr(), bytes) {
        return not_exchanged(channel, argument, address, bytes);
    }
    // If the peer's end is gone, its memory may have been freed, and other memory may be at the
    // same address.
    channel.check_peer()?;
    match memory::resolve(address.addr(), bytes) {
        Ok(found) => Ok(found.data),
        Err(text) => refuse!(HCCL_E_PARA, "{argument}: {text}"),
    }
}

#[cold]
fn not_exchanged(
    channel: &Channel,
    argument: &str,
    address: *const c_void,
    bytes: usize,
) -> Result<*mut u8, Failure> {
    let (start, end) = (address.addr(), address.addr().saturating_add(bytes));
    let what = match memory::resolve(start, bytes) {
        Err(text) => format!("; {text}"),
        Ok(found) => match found.place {
            MemoryPlace::Device(id) => {
                format!("; it is memory of device {id}", id = machine::named(id))
            }
            MemoryPlace::Pinned | MemoryPlace::Pageable => "; it is host memory".into(),
        },
    };
    refuse!(
        HCCL_E_PARA,
        "{argument}: {start:#x}..{end:#x} ({bytes} bytes) is not in memory that the peer of {} has exchanged: {}{what}. Take the address from \
         HcclChannelGetHcclBuffer or HcclChannelGetRemoteMems",
        channel.describe(),
        channel.list_memories()
    )
}

/// `HcclCommMemReg`: registers memory that the rank may exchange. Returns the number of the
/// registration.
pub(crate) fn register(
    member: &Member,
    tag: String,
    on_host: bool,
    address: usize,
    bytes: usize,
) -> Result<u64, Failure> {
    let found = match memory::resolve(address, bytes) {
        Ok(found) => found,
        Err(text) => return refuse!(HCCL_E_PARA, "mem->addr: {text}"),
    };
    match (on_host, found.place) {
        (false, MemoryPlace::Device(id)) if id == member.device => {}
        (true, MemoryPlace::Pinned | MemoryPlace::Pageable) => {}
        (_, place) => {
            let is = match place {
                MemoryPlace::Device(id) => {
                    format!("memory of device {id}", id = machine::named(id))
                }
                MemoryPlace::Pinned | MemoryPlace::Pageable => "host memory".into(),
            };
            return refuse!(
                HCCL_E_PARA,
                "mem->addr {address:#x} is {is}, but mem->type says {}; correct one of the two",
                if on_host {
                    "host memory".into()
                } else {
                    format!(
                        "memory of the communicator's device, which is {}",
                        machine::named(member.device)
                    )
                }
            );
        }
    }
    let held = HeldMemory::new(found.data, bytes)
        .map_err(|text| Failure::new(ascend_sys::HcclResult::HCCL_E_PARA, text))?;
    with_resources(member, |resources| {
        if resources.registered.iter().any(|known| known.memory.tag == tag) {
            return refuse!(
                HCCL_E_PARA,
                "rank {} has registered memory with the tag \"{tag}\" already; pass another tag",
                member.rank
            );
        }
        let memory = Exchanged { tag, on_host, start: address, bytes };
        resources.registered.push(CommMemory { memory, held });
        Ok(resources.registered.len() as u64)
    })
}
