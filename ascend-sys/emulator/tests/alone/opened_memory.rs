//! Device memory at its own addresses: for nobody, until the process loads CPU kernels.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{alone, ok};
use ascend_sys::*;
use std::ffi::{CString, c_void};
use std::path::Path;
use std::process::Command;
use std::ptr::null_mut;

/// Reads memory of the process, as a host access would; `None` where that would fault.
fn host_reads(at: *const c_void) -> Option<u64> {
    let mut word = 0u64;
    let local = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: at.cast_mut(), iov_len: 8 };
    // SAFETY: the kernel checks both ranges, and the local one is a live word.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    (read == 8).then_some(word)
}

#[test]
fn device_memory_is_out_of_reach_until_cpu_kernels_are_loaded() {
    alone!();
    let _block = Block::one();
    let before = malloc(4096);
    write(before, &7u64.to_ne_bytes());
    assert_eq!(host_reads(before), None);
    // A load that fails opens nothing.
    let mut binary = null_mut();
    let load = |path: &Path, binary: &mut aclrtBinHandle| {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        ascend_emulator_testing::call!(aclrtBinaryLoadFromFile(path.as_ptr(), null_mut(), binary))
    };
    assert_ne!(load(Path::new(file!()), &mut binary), 0);
    assert_eq!(host_reads(before), None);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/cpu_kernels.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libopened_memory.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]);
    assert!(compiler.status().unwrap().success());
    assert_eq!(load(&library, &mut binary), 0, "{}", message());
    assert_eq!(host_reads(before), Some(7));
    let after = malloc(4096);
    write(after, &8u64.to_ne_bytes());
    assert_eq!(host_reads(after), Some(8));
    // What is freed is wiped only with its block: no address of a device ever faults again.
    ok!(aclrtFree(before));
    assert!(host_reads(before).is_some());
}
