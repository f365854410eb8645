//! The reading of files whose paths a program passes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Reads a file. Returns `None` if the file has more than `most` bytes. Returns an error for a pipe
/// or a device, because reading it may never end.
pub(super) fn read(path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= most).then_some(bytes))
}
