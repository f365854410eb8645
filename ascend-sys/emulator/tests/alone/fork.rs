//! Tests that a forked child gets an error from its first call, and that the parent is not
//! affected. Each test runs in a process of its own, because it forks.

use std::sync::atomic::{AtomicBool, Ordering};

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::ranks::root_info;
use ascend_emulator_testing::{alone, call, ok};

/// Forks, runs `run` in the child, and waits for the child. Returns the status with which the child
/// ends: 0 if `run` returned true.
fn status_of_child(run: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child only calls functions of the table, sets an alarm, and ends by `_exit`. The
    // functions refuse the call without taking a lock that another thread may have held.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: without a handler the alarm ends the child, and `_exit` ends it at once.
        unsafe {
            libc::alarm(20);
            libc::_exit(if run() { 0 } else { 1 })
        };
    }
    let mut status = -1;
    // SAFETY: this waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

#[test]
fn devices_do_not_survive_a_fork() {
    alone!();
    let block = Block::one();
    let (a, s, other) = (malloc(8), stream(), root_info());
    ok!(aclrtMemsetAsync(a, 8, 4, 8, s));
    let status = status_of_child(|| {
        let codes = [
            call!(aclrtSynchronizeStream(s)),
            call!(aclrtMemsetAsync(a, 8, 9, 8, s)),
            call!(aclrtSetDevice(block.first)),
        ];
        let (mut info, mut comm, mut device) = (other, std::ptr::null_mut(), block.first);
        // The calls that make communicators without a context are refused as well.
        let of_hccl =
            [call!(HcclGetRootInfo(&mut info)), call!(HcclCommInitAll(1, &mut device, &mut comm))];
        let none_begins =
            of_hccl.iter().all(|code| code.0 != 0) && message().contains("was forked");
        // A call that would wait for queued work is refused before it waits, even if its arguments
        // are invalid.
        let any = std::ptr::without_provenance_mut(1);
        let refused = call!(HcommMemUnreg(any, any)) != 0 && message().contains("was forked");
        codes == [107002; 3] && refused && none_begins
    });
    assert_eq!(status, 0);
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 8), [4; 8]);
}

/// Checks that no call in a forked child waits for a lock, even a call that needs no context. A
/// lock that another thread of the parent held during the fork stays locked in the child.
#[test]
fn no_call_of_a_forked_child_waits_for_a_lock_that_the_parent_held() {
    alone!();
    let _block = Block::one();
    let notify = {
        let mut notify = std::ptr::null_mut();
        ok!(aclrtCreateNotify(&mut notify, 0));
        let mut key = [0; 128];
        ok!(aclrtNotifyGetExportKey(notify, key.as_mut_ptr(), key.len(), 0));
        notify as usize
    };
    let permit = || {
        let (mut process, notify) = (1, std::ptr::with_exposed_provenance_mut(notify));
        call!(aclrtNotifySetImportPid(notify, &mut process, 1))
    };
    let at_work = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while at_work.load(Ordering::Relaxed) {
                assert_eq!(permit(), 0);
            }
        });
        let mut children = (0..100).map(|_| {
            status_of_child(|| {
                let refused = permit() == 107002 && message().contains("was forked");
                // The version and the name of the product are still returned.
                let (mut major, mut minor, mut patch) = (0, 0, 0);
                let told = call!(aclrtGetVersion(&mut major, &mut minor, &mut patch)) == 0
                    && !call!(aclrtGetSocName()).is_null();
                refused && told
            })
        });
        let badly = children.find(|status| *status != 0);
        at_work.store(false, Ordering::Relaxed);
        assert_eq!(badly, None, "the status of the first child that has ended badly");
    });
}
