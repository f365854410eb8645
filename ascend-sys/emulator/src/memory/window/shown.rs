//! Parts of memory files, for example of other processes, in place of data of this process.

use super::{map_over, opened, windows};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Maps a part of a memory file in place of a range of data. The file may be of another process.
/// The range consists of whole pages that are not in use. The caller has checked that the file is
/// large enough, and that it keeps that size.
pub(crate) fn show(
    data: usize,
    bytes: usize,
    file: BorrowedFd<'_>,
    start: usize,
) -> io::Result<()> {
    replace(data, bytes, (file, start), false)
}

/// Undoes [`show`]: maps the data of this process in the range again. That data is zeros.
pub(crate) fn hide(data: usize, bytes: usize) -> io::Result<()> {
    let windows = windows().map_err(io::Error::other)?;
    let offset = data.wrapping_sub(windows.data);
    replace(data, bytes, (windows.shared.file().as_fd(), offset), true)
}

fn replace(
    data: usize,
    bytes: usize,
    (file, start): (BorrowedFd<'_>, usize),
    is_own: bool,
) -> io::Result<()> {
    let windows = windows().map_err(io::Error::other)?;
    let offset = data.wrapping_sub(windows.data);
    if offset > windows.bytes() || bytes > windows.bytes() - offset {
        return Err(io::Error::other("beyond the ranges of memory"));
    }
    // SAFETY: the range is in our own mapping, and nobody uses it: only late copies refer to it in
    // this process.
    unsafe { map_over(data, bytes, file, start) }?;
    opened::shows(data, bytes, (file, start), is_own)
}
