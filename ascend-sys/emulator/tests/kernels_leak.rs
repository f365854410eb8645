//! A thousand launches leave nothing behind: no memory of the host, none of the devices.
mod common;
mod kernel;
mod ranks;

use ascend_program::layout::Number;
use kernel::*;

fn left() -> (i64, usize) {
    let (mut free, mut total) = (0, 0);
    ok!(aclrtGetMemInfo(ascend_sys::aclrtMemAttr::ACL_HBM_MEM, &mut free, &mut total));
    (counting_allocator::live(), free)
}

#[test]
fn a_thousand_launches_leave_nothing_behind() {
    let calls =
        [Call::new(REDUCE_SCATTER, 0, 128, 300, 2), Call::new(REDUCE_SCATTER, 256, 44, 300, 1)];
    let together = Together::new(4, &kernel(&calls, Number::F16, 3), &[REDUCE_SCATTER], 2400);
    let launch = |times| (0..times).for_each(|_| together.run_all(8));
    // More than a function keeps of argument lists.
    launch(1100);
    let before = left();
    launch(1000);
    let after = left();
    together.end();
    assert_eq!(before.1, after.1);
    // Queues and pools of the runtime may have kept a few more buffers for the next time.
    assert!(after.0 - before.0 < 64, "{} allocations are left", after.0 - before.0);
}
