//! A forked child gets an error from its first call, and the parent does not notice. Alone in its
//! file: it forks.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::ranks::root_info;
use ascend_emulator_testing::{alone, call, ok};

#[test]
fn devices_do_not_survive_a_fork() {
    alone!();
    let block = Block::one();
    let (a, s, other) = (malloc(8), stream(), root_info());
    ok!(aclrtMemsetAsync(a, 8, 4, 8, s));
    // SAFETY: the child only calls functions of the table, which refuse without taking a lock that
    // another thread may have held, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let codes = [
            call!(aclrtSynchronizeStream(s)),
            call!(aclrtMemsetAsync(a, 8, 9, 8, s)),
            call!(aclrtSetDevice(block.first)),
        ];
        let (mut info, mut comm, mut device) = (other, std::ptr::null_mut(), block.first);
        // Nor does anything that needs no context begin a communicator.
        let of_hccl =
            [call!(HcclGetRootInfo(&mut info)), call!(HcclCommInitAll(1, &mut device, &mut comm))];
        let none_begins =
            of_hccl.iter().all(|code| code.0 != 0) && message().contains("was forked");
        // Nothing that waits for queued work begins to wait, whatever it names.
        let any = std::ptr::without_provenance_mut(1);
        let refused = call!(HcommMemUnreg(any, any)) != 0 && message().contains("was forked");
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if codes == [107002; 3] && refused && none_begins { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 8), [4; 8]);
}
