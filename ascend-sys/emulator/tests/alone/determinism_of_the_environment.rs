//! Tests that a variable of CANN has priority over the call that sets the same option, but only on
//! the block of C programs: the environment describes its devices.

use ascend_emulator_testing::common::Block;
use ascend_emulator_testing::{alone, hccl, ok};
use ascend_sys::*;

fn set_and_get() -> i32 {
    const WHAT: HcclConfig = HcclConfig::HCCL_DETERMINISTIC;
    let mut now = HcclConfigValue { value: 99 };
    hccl!(HcclSetConfig(WHAT, HcclConfigValue { value: 1 }));
    hccl!(HcclGetConfig(WHAT, &mut now));
    // SAFETY: the union has only one member.
    unsafe { now.value }
}

#[test]
fn the_environment_counts_for_more_on_the_default_block_alone() {
    alone!();
    // SAFETY: this is the only test of this process, and nothing has read the environment yet.
    unsafe { std::env::set_var("HCCL_DETERMINISTIC", "false") };
    ok!(aclrtSetDevice(0));
    assert_eq!(set_and_get(), 0);
    let _block = Block::one();
    assert_eq!(set_and_get(), 1);
}
