//! Tests that the time limit of kernels applies to the whole process.

use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::kernel::{self};
use ascend_emulator_testing::ranks::on_ranks;
use ascend_emulator_testing::{alone, fails, ok};
use ascend_program::layout::Number;
use std::time::{Duration, Instant};

const INT32: u32 = 2;

#[test]
fn a_launch_without_a_limit_of_its_own_gives_up_at_that_of_the_process() {
    alone!(beside);
    on_ranks(1, |rank| {
        let program = kernel::kernel(&[Call::new(ALL_REDUCE, 0, 64, 0, 1)], Number::I32, INT32);
        let ready = Ready::new(rank, &program, &[ALL_REDUCE]);
        ok!(aclrtSetOpExecuteTimeOutWithMs(40));
        let began = Instant::now();
        // The kernel that the server waits for is never launched.
        ready.serve();
        fails!(107020, ["gave up after 0.0 s"], aclrtSynchronizeStream(ready.stream));
        assert!(began.elapsed() >= Duration::from_millis(40));
        ok!(aclrtSetOpExecuteTimeOut(0));
        ready.end();
    });
}
