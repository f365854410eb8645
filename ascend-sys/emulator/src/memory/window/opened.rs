//! Device memory at its own addresses, for CPU kernels.
//!
//! A CPU kernel gets addresses of device memory, and reads and writes there, as on the device. So
//! when a process loads its first library of CPU kernels, the emulator maps the data a second time.
//! The second mapping replaces the nominal range, which could not be accessed before. From then on,
//! any code of the process reaches device memory by its addresses, and a mistaken access of the
//! host no longer faults. This lasts until the process ends.

use super::{MemoryWindows, map_over, windows};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::with_exposed_provenance_mut;
use std::sync::{Mutex, PoisonError};

struct NominalRange {
    is_open: bool,
    /// The ranges of device data in which files of other processes are mapped: address and length.
    shown: BTreeMap<usize, usize>,
}

static NOMINAL: Mutex<NominalRange> =
    Mutex::new(NominalRange { is_open: false, shown: BTreeMap::new() });

/// Makes device memory readable and writable at its own addresses.
pub(crate) fn open_to_kernels() -> io::Result<()> {
    let windows = windows().map_err(io::Error::other)?;
    let mut nominal = NOMINAL.lock().unwrap_or_else(PoisonError::into_inner);
    if nominal.is_open {
        return Ok(());
    }
    let file = windows.shared.file().as_fd();
    // SAFETY: the whole nominal range, which nothing could access so far.
    unsafe { map_over(windows.nominal, windows.device_bytes, file, 0) }?;
    nominal.shown.iter().try_for_each(|(data, bytes)| map_again(windows, *data, *bytes))?;
    nominal.is_open = true;
    Ok(())
}

/// Maps the content of a range of device data at its nominal addresses, too.
fn map_again(windows: &MemoryWindows, data: usize, bytes: usize) -> io::Result<()> {
    let old = with_exposed_provenance_mut::<c_void>(data);
    let new = with_exposed_provenance_mut::<c_void>(windows.nominal_of(data));
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: an old length of 0 leaves a shared mapping where it is and makes another mapping of
    // its pages. That mapping takes the place of a part of the nominal range, in which nothing of
    // this memory could be found before.
    let at = unsafe { libc::mremap(old, 0, bytes, flags, new) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Records that a part of a file is now mapped in place of a range of data. If the nominal range is
/// open, maps the part there, too. `is_own` is true if the part is the data of this process again.
pub(super) fn shows(
    data: usize,
    bytes: usize,
    (file, start): (BorrowedFd<'_>, usize),
    is_own: bool,
) -> io::Result<()> {
    let windows = windows().map_err(io::Error::other)?;
    if data.wrapping_sub(windows.data) >= windows.device_bytes {
        // Host memory has one address only.
        return Ok(());
    }
    let mut nominal = NOMINAL.lock().unwrap_or_else(PoisonError::into_inner);
    if is_own {
        nominal.shown.remove(&data);
    } else {
        nominal.shown.insert(data, bytes);
    }
    match nominal.is_open {
        // SAFETY: this is the other mapping of a range of data, whose bytes nobody needs any more.
        true => unsafe { map_over(windows.nominal_of(data), bytes, file, start) },
        false => Ok(()),
    }
}
