//! Tests that the devices of C programs have the faults that an environment variable names.

use ascend_emulator_testing::common::{self, POLICY};
use ascend_emulator_testing::{alone, fails, ok};
use ascend_sys::*;

#[test]
fn the_default_block_fails_as_it_is_told() {
    alone!();
    // SAFETY: this is the only test of this process, and nothing has read the environment yet.
    unsafe { std::env::set_var("ASCEND_EMULATOR_FAULTS", "out-of-memory 0 at 2") };
    ok!(aclrtSetDevice(0));
    let first = common::malloc(64);
    let mut none = std::ptr::null_mut();
    let piece = "this fault was set for device";
    fails!(ACL_ERROR_RT_MEMORY_ALLOCATION, [piece], aclrtMalloc(&mut none, 64, POLICY));
    ok!(ascendExtFaultClear(0, 0));
    let second = common::malloc(64);
    ok!(aclrtFree(first));
    ok!(aclrtFree(second));
}
