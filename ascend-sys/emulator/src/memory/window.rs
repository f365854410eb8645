//! The address ranges of the machine.
//!
//! Device memory has two addresses: the *nominal* one, which programs hold, in a range that nobody can read or write, and
//! the one where its data is mapped, at a constant distance. So a host access to device memory faults, as on hardware,
//! one comparison classifies a pointer and one addition finds the data. The data is one sparse memory file, mapped once
//! and never unmapped: a program that frees memory under a running copy gets unspecified bytes and nothing worse.
//! Pinned host memory has a range of its own, where both addresses are the same.

use std::ffi::c_void;
use std::io;
use std::sync::OnceLock;

use crate::processes::region::{SharedMemory, memory_file};

/// Device memory is given to devices in multiples of this. Small, so that many small devices fit where a process has
/// little room.
pub(crate) const GRANULE: usize = 256 << 20;
/// The size of the device range, unless the process has less room.
pub(crate) const DEVICE_BYTES: usize = 32 << 40;
const HOST_BYTES: usize = 1 << 40;

/// The ranges, in addresses.
pub(crate) struct MemoryWindows {
    pub(crate) nominal: usize,
    pub(crate) data: usize,
    pub(crate) device_bytes: usize,
    pub(crate) host: usize,
    pub(crate) host_bytes: usize,
    /// The data, which other processes can map.
    pub(crate) shared: SharedMemory,
}

static WINDOWS: OnceLock<Result<MemoryWindows, String>> = OnceLock::new();

/// The ranges, reserved at the first call; the error says what the system refused.
pub(crate) fn windows() -> Result<&'static MemoryWindows, &'static str> {
    WINDOWS
        .get_or_init(|| reserve().map_err(|e| format!("cannot reserve address space: {e}")))
        .as_ref()
        .map_err(|e| e.as_str())
}

/// The ranges, if they have been reserved: without them no pointer can be ours.
#[inline]
pub(crate) fn reserved() -> Option<&'static MemoryWindows> {
    WINDOWS.get()?.as_ref().ok()
}

fn reserve() -> io::Result<MemoryWindows> {
    let mut device_bytes = DEVICE_BYTES;
    // An address space limit (ulimit -v, a small machine) leaves less room; below one granule there is no use.
    let (nominal, shared) = loop {
        match reserve_device(device_bytes) {
            Ok(found) => break found,
            Err(_) if device_bytes > GRANULE => device_bytes /= 2,
            Err(e) => return Err(e),
        }
    };
    let host_bytes = HOST_BYTES.min(device_bytes);
    let host = map(host_bytes, libc::PROT_READ | libc::PROT_WRITE)?;
    let data = shared.address();
    Ok(MemoryWindows { nominal, data, device_bytes, host, host_bytes, shared })
}

/// The nominal range, and the data.
fn reserve_device(bytes: usize) -> io::Result<(usize, SharedMemory)> {
    let data = SharedMemory::map(memory_file(bytes)?, 0, bytes)?;
    Ok((map(bytes, libc::PROT_NONE)?, data))
}

/// Memory of this process.
fn map(bytes: usize, protection: i32) -> io::Result<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: advice on the mapping made above: a core file should not contain terabytes of nothing.
    unsafe { libc::madvise(address, bytes, libc::MADV_DONTDUMP) };
    Ok(address as usize)
}

/// Gives the pages of a range of device data back to the system. Reading it afterwards gives zeros.
pub(crate) fn discard(data: usize, bytes: usize) {
    // SAFETY: the range lies in our shared mapping, which stays mapped; the contents are given up by the caller.
    unsafe { libc::madvise(data as *mut c_void, bytes, libc::MADV_REMOVE) };
}
