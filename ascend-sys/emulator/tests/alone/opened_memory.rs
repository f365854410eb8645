//! Tests that the host cannot access device memory at device addresses until the process loads CPU
//! kernels.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::cpu_kernels::{compile, host_reads, load, path_of};
use ascend_emulator_testing::{alone, call, ok};
use std::path::Path;
use std::ptr::null_mut;

#[test]
fn device_memory_is_out_of_reach_until_cpu_kernels_are_loaded() {
    alone!();
    let _block = Block::one();
    let before = malloc(4096);
    write(before, &[7; 8]);
    assert_eq!(host_reads(before, 8), None);
    // A load that fails does not make the memory accessible.
    let source = path_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    assert_ne!(call!(aclrtBinaryLoadFromFile(source.as_ptr(), null_mut(), &mut null_mut())), 0);
    assert_eq!(host_reads(before, 8), None);
    load(&compile(Path::new(env!("CARGO_TARGET_TMPDIR"))));
    assert_eq!(host_reads(before, 8), Some(vec![7; 8]));
    let after = malloc(4096);
    write(after, &[8; 8]);
    assert_eq!(host_reads(after, 8), Some(vec![8; 8]));
    // From now on, a host access to a device address never faults.
    ok!(aclrtFree(before));
    assert!(host_reads(before, 8).is_some());
}
