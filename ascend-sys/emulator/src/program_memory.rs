//! Reads the program's own memory at addresses that may be invalid.
//!
//! The kernel copies the bytes. So memory that is not mapped is an error. A load would end the
//! process with a signal.

use std::mem::MaybeUninit;

/// Reads bytes at an address into `to`. Returns the number of bytes that could be read, counted
/// from the first byte. Returns `None` if the kernel refuses to copy for other reasons.
pub(crate) fn read(address: usize, to: &mut [MaybeUninit<u8>]) -> Option<usize> {
    // Miri has no such call.
    if cfg!(miri) {
        return None;
    }
    let into = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let from =
        libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(address), iov_len: to.len() };
    // SAFETY: the kernel writes to `to` alone, and no more than its length; the other address is
    // checked by the kernel.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &into, 1, &from, 1, 0) };
    match usize::try_from(copied) {
        Ok(copied) => Some(copied),
        Err(_) if std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) => Some(0),
        Err(_) => None,
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_no_signal() {
        let (bytes, mut to) = ([1, 2, 3, 4], [const { MaybeUninit::uninit() }; 4]);
        assert_eq!(read((&raw const bytes).expose_provenance(), &mut to), Some(4));
        // SAFETY: all four were read.
        assert_eq!(to.map(|byte| unsafe { byte.assume_init() }), bytes);
        for address in [0, 8, usize::MAX - 3] {
            assert_eq!(read(address, &mut to), Some(0), "{address:#x}");
        }
    }
}
