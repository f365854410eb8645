//! The address ranges of the machine.
//!
//! Device memory has two addresses. Programs hold the *nominal* address, in a range that cannot be
//! read or written. The data is mapped at the other address, at a constant distance. So a host
//! access to device memory faults, as on hardware; one comparison classifies a pointer; and one
//! addition finds the data.
//!
//! The data is one sparse memory file, mapped once and never unmapped. A program that frees memory
//! under a running copy gets unspecified bytes, but no fault. Pinned host memory is a range of its
//! own in the same file, after device memory. Its two addresses are the same. The range after it is
//! for pinned host memory of other processes.
//!
//! A process that runs [CPU kernels](crate::kernel) opens device memory to them: the same file is
//! mapped a second time, at the nominal addresses.

pub(crate) mod opened;
pub(crate) mod shown;

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use crate::processes::region::{SharedMemory, memory_file};

/// The unit in which device memory is given to devices, in bytes. It is small, so that many small
/// devices fit even if a process has little room.
pub(crate) const GRANULE: usize = 256 << 20;
/// The size of a huge page, in bytes. The nominal range begins at a huge page, and memory that a
/// program maps itself consists of huge pages.
pub(crate) const HUGE_PAGE: usize = 2 << 20;
/// The size of the device range in bytes, unless the process has less room.
pub(crate) const DEVICE_BYTES: usize = 32 << 40;
const HOST_BYTES: usize = 1 << 40;
/// The beginning of the nominal range in every process, unless something else is mapped there
/// already. With [`DEVICE_BYTES`], the range is away from the places of programs, libraries and
/// stacks, on machines with 47 and more bits of address.
pub(crate) const NOMINAL: usize = 32 << 40;

/// The address ranges of the process.
pub(crate) struct MemoryWindows {
    pub(crate) nominal: usize,
    pub(crate) data: usize,
    pub(crate) device_bytes: usize,
    pub(crate) host: usize,
    pub(crate) host_bytes: usize,
    /// The size of the range after host memory, which is for host memory of other processes.
    pub(crate) foreign_host_bytes: usize,
    /// The data, which other processes can map: first that of devices, then that of the host.
    pub(crate) shared: SharedMemory,
}

static WINDOWS: OnceLock<Result<MemoryWindows, String>> = OnceLock::new();

/// Returns the ranges, which the first call reserves. The error says what the system refused.
pub(crate) fn windows() -> Result<&'static MemoryWindows, &'static str> {
    WINDOWS
        .get_or_init(|| {
            reserve().map_err(|e| {
                format!(
                    "cannot reserve address space: {e}; raise the limit of the process (ulimit -v)"
                )
            })
        })
        .as_ref()
        .map_err(|e| e.as_str())
}

/// Returns the ranges, if they have been reserved. If not, no pointer points into them.
#[inline]
pub(crate) fn reserved() -> Option<&'static MemoryWindows> {
    WINDOWS.get()?.as_ref().ok()
}

fn reserve() -> io::Result<MemoryWindows> {
    let mut device_bytes = DEVICE_BYTES;
    // An address space limit (`ulimit -v`, a small machine) leaves less room. Less than one granule
    // is of no use.
    let (nominal, shared) = loop {
        match reserve_device(device_bytes) {
            Ok(found) => break found,
            Err(_) if device_bytes > GRANULE => device_bytes /= 2,
            Err(e) => return Err(e),
        }
    };
    let [host_bytes, foreign_host_bytes] = host_ranges(device_bytes);
    let data = shared.address();
    let host = data + device_bytes;
    Ok(MemoryWindows { nominal, data, device_bytes, host, host_bytes, foreign_host_bytes, shared })
}

/// Returns the sizes of the two ranges of host memory beside `device_bytes` bytes of device memory:
/// the range of this process, and that of other processes.
fn host_ranges(device_bytes: usize) -> [usize; 2] {
    let own = HOST_BYTES.min(device_bytes);
    [own, own / 2]
}

/// Reserves the nominal range, and the data.
fn reserve_device(bytes: usize) -> io::Result<(usize, SharedMemory)> {
    let all = bytes + host_ranges(bytes).iter().sum::<usize>();
    let data = SharedMemory::map(memory_file(all)?, 0, all)?;
    Ok((reserve_nominal(bytes)?, data))
}

/// Reserves a range that cannot be read or written and that begins at a huge page. It is at
/// [`NOMINAL`] if the system allows it. The system aligns to a page only, so this reserves one huge
/// page more and leaves the rest unused.
fn reserve_nominal(bytes: usize) -> io::Result<usize> {
    let all = bytes + HUGE_PAGE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // The address is a hint: the system takes another place if something is mapped there.
    let hint = std::ptr::without_provenance_mut(NOMINAL);
    // SAFETY: a new mapping, at an address of the system's choice, touches no existing memory.
    let nominal = unsafe { libc::mmap(hint, all, libc::PROT_NONE, flags, -1, 0) };
    if nominal == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: advice on the mapping made above: a core file should not contain terabytes of
    // unused addresses.
    unsafe { libc::madvise(nominal, all, libc::MADV_DONTDUMP) };
    Ok((nominal as usize).next_multiple_of(HUGE_PAGE))
}

impl MemoryWindows {
    /// Returns the address of the data of a nominal address of device memory.
    pub(crate) fn data_of(&self, nominal: usize) -> usize {
        nominal.wrapping_sub(self.nominal).wrapping_add(self.data)
    }

    /// Returns the address that programs use for a byte of device data.
    pub(crate) fn nominal_of(&self, data: usize) -> usize {
        data.wrapping_sub(self.data).wrapping_add(self.nominal)
    }

    /// Returns whether an address is in pinned host memory, of this process or another one.
    #[inline]
    pub(crate) fn is_host(&self, address: usize) -> bool {
        address.wrapping_sub(self.host) < self.host_bytes + self.foreign_host_bytes
    }

    fn bytes(&self) -> usize {
        self.device_bytes + self.host_bytes + self.foreign_host_bytes
    }
}

/// Returns the address of the data that belongs to an address of a pool.
#[cfg(sanitizer = "address")]
pub(super) fn data_at(address: usize) -> *const c_void {
    let windows = reserved();
    let windowed = windows.filter(|it| address.wrapping_sub(it.nominal) < it.device_bytes);
    let data = windowed.map_or(address, |windows| windows.data_of(address));
    std::ptr::with_exposed_provenance(data)
}

/// Returns the pages of a range of device data, or of pinned host memory, to the system. Later
/// reads return zeros.
pub(crate) fn discard(data: usize, bytes: usize) {
    // The data is a shared file, so the pages must be removed from the file itself.
    // SAFETY: the range is in one of our mappings, which stay mapped; the caller gives up the
    // contents.
    unsafe { libc::madvise(data as *mut c_void, bytes, libc::MADV_REMOVE) };
}

/// Maps a part of a file in place of a range of addresses. The mapping is replaced in one step, so
/// a reader finds either the old one or the new one.
///
/// # Safety
///
/// The range is in mappings of this module, and its bytes are not needed any more.
unsafe fn map_over(
    address: usize,
    bytes: usize,
    file: BorrowedFd<'_>,
    start: usize,
) -> io::Result<()> {
    let start = libc::off_t::try_from(start).map_err(io::Error::other)?;
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE,
    );
    let address = std::ptr::with_exposed_provenance_mut::<c_void>(address);
    // SAFETY: the caller's promise.
    let at = unsafe { libc::mmap(address, bytes, protection, flags, file.as_raw_fd(), start) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: advice on the mapping made above: a core file should not contain it.
    unsafe { libc::madvise(at, bytes, libc::MADV_DONTDUMP) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "it reserves address space")]
    fn the_nominal_range_begins_with_a_huge_page_wherever_the_system_puts_it() {
        // The first range may get the requested place. For the other ranges, with these lengths, no
        // system chooses an aligned address by itself.
        let lengths = (1..8).map(|pages| pages * 4096);
        let starts: Vec<usize> = lengths.clone().map(|it| reserve_nominal(it).unwrap()).collect();
        for (start, bytes) in starts.into_iter().zip(lengths) {
            assert!(start.is_multiple_of(HUGE_PAGE), "{start:#x} for {bytes} bytes");
            let start = std::ptr::with_exposed_provenance_mut(start);
            // SAFETY: reserved above, after the part that is left out to align it.
            unsafe { libc::munmap(start, bytes) };
        }
    }
}
