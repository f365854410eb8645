//! A library of CPU kernels, and reads of device memory by the host.

use crate::common::message;
use crate::ok;
use ascend_sys::*;
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;

/// Compiles the library of `cpu_kernels.c` into a folder, and returns its path.
pub fn compile(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("cpu_kernels.c");
    let library = folder.join("libcpu_kernels.so");
    // Another process may have the library loaded, so it is compiled under another name and
    // renamed.
    let made = library.with_extension(std::process::id().to_string());
    // This is the compiler driver that Rust links with.
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o"])
        .args([&made, &source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(made, &library).unwrap();
    library
}

pub fn path_of(library: &Path) -> CString {
    CString::new(library.to_str().unwrap()).unwrap()
}

/// Loads a library or a descriptor on the current device.
pub fn load(path: &Path) -> aclrtBinHandle {
    let mut binary = null_mut();
    let _ = message();
    ok!(aclrtBinaryLoadFromFile(path_of(path).as_ptr(), null_mut(), &mut binary));
    binary
}

/// Returns the bytes that code on the host would read at an address, or `None` if the read would
/// fault.
pub fn host_reads(at: *const c_void, bytes: usize) -> Option<Vec<u8>> {
    let mut read = vec![0u8; bytes];
    let local = libc::iovec { iov_base: read.as_mut_ptr().cast(), iov_len: bytes };
    let remote = libc::iovec { iov_base: at.cast_mut(), iov_len: bytes };
    // SAFETY: the kernel checks both ranges, and the local one is live.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    (usize::try_from(count) == Ok(bytes)).then_some(read)
}
