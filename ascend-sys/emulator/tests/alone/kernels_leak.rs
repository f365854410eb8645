//! Tests that a thousand launches leak nothing: no memory of the host or of the devices, no
//! threads, and no file descriptors. When everything is released, the same work can begin again
//! with the same resources as the first time.

use ascend_emulator_testing::alone;
use ascend_emulator_testing::common;
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::ok;
use ascend_program::layout::Number;

/// The resources that the process and the device have now.
#[derive(Debug)]
struct Left {
    allocations: i64,
    free: usize,
    threads: Option<usize>,
    descriptors: Option<usize>,
}

fn left(device: i32) -> Left {
    let (mut free, mut total) = (0, 0);
    ok!(aclrtSetDevice(device));
    ok!(aclrtGetMemInfo(ascend_sys::aclrtMemAttr::ACL_HBM_MEM, &mut free, &mut total));
    // The counts are only available on systems that have this directory.
    let entries = |path: &str| std::fs::read_dir(path).ok().map(Iterator::count);
    Left {
        allocations: counting_allocator::live(),
        free,
        threads: entries("/proc/self/task"),
        descriptors: entries("/proc/self/fd"),
    }
}

fn together(block: common::Block) -> Together {
    let calls =
        [Call::new(REDUCE_SCATTER, 0, 128, 300, 2), Call::new(REDUCE_SCATTER, 256, 44, 300, 1)];
    Together::on(block, 4, &kernel(&calls, Number::F16, 3), &[REDUCE_SCATTER], 2400)
}

#[test]
fn a_thousand_launches_leave_nothing_behind() {
    alone!();
    let together = together(common::Block::new(4));
    let launch = |times| (0..times).for_each(|_| together.run_all(8));
    // These are more launches than the number of argument lists that a function keeps.
    launch(1100);
    let device = together.block.first;
    let before = left(device);
    launch(1000);
    let after = left(device);
    together.end();
    assert_eq!(before.free, after.free);
    assert_eq!((before.threads, before.descriptors), (after.threads, after.descriptors));
    // Queues and pools of the runtime may keep a few more buffers.
    let more = after.allocations - before.allocations;
    assert!(more < 64, "{more} allocations are left");
    streams_binaries_and_contexts_are_given_back();
}

/// Makes, uses and ends streams, binaries, and communicators with their contexts over and over, and
/// checks that nothing leaks.
fn streams_binaries_and_contexts_are_given_back() {
    let life = || {
        let together = together(common::Block::new(4));
        together.run_all(8);
        together.end();
    };
    let other = common::Block::new(1);
    (0..20).for_each(|_| life());
    let before = left(other.first);
    (0..20).for_each(|_| life());
    let after = left(other.first);
    assert_eq!((before.threads, before.descriptors), (after.threads, after.descriptors));
    let more = after.allocations - before.allocations;
    assert!(more < 20 * 16, "{more} allocations are left of 20 lives");
}
