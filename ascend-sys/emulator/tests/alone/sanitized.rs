//! Tests that a sanitizer reports a race in device data, and an access to freed memory. The data
//! must be moved by plain loops (`--cfg plain_memory`). Each test starts itself as a process of its
//! own, once with the mistake and once without.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::ok;
use std::process::Command;

const CASE: &str = "ASCEND_EMULATOR_TEST_CASE";

/// Returns whether this process should make the mistake. Returns `None` in the first process, which
/// has then run both cases as child processes and checked their reports.
fn case(test: &str, kind: &str) -> Option<bool> {
    if let Ok(case) = std::env::var(CASE) {
        return Some(case == "wrong");
    }
    for wrong in [true, false] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([&*format!("sanitized::{test}"), "--exact", "--nocapture"]);
        let output = child.env(CASE, if wrong { "wrong" } else { "right" }).output().unwrap();
        let report = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), !wrong, "wrong: {wrong}\n{report}");
        assert_eq!(report.contains(kind), wrong, "{report}");
        assert_eq!(report.contains("Sanitizer"), wrong, "{report}");
    }
    None
}

#[cfg(sanitizer = "thread")]
#[test]
fn a_race_in_device_data_is_reported() {
    use std::sync::{Barrier, Mutex};
    const BYTES: usize = 1 << 20;
    let Some(wrong) = case("a_race_in_device_data_is_reported", "ThreadSanitizer: data race")
    else {
        return;
    };
    let block = Block::one();
    let memory = malloc(BYTES) as usize;
    let (both, turn) = (Barrier::new(2), Mutex::new(()));
    std::thread::scope(|scope| {
        for value in 0..2 {
            let (both, turn) = (&both, &turn);
            scope.spawn(move || {
                ok!(aclrtSetDevice(block.first));
                let stream = stream();
                both.wait();
                for _ in 0..20 {
                    let _turn = (!wrong).then(|| turn.lock());
                    ok!(aclrtMemsetAsync(memory as *mut _, BYTES, value, BYTES, stream));
                    ok!(aclrtSynchronizeStream(stream));
                }
            });
        }
    });
}

#[cfg(sanitizer = "address")]
#[test]
fn a_use_of_freed_memory_is_reported() {
    let Some(wrong) =
        case("a_use_of_freed_memory_is_reported", "AddressSanitizer: use-after-poison")
    else {
        return;
    };
    let _block = Block::one();
    let memory = malloc_host(4096).cast::<u8>();
    if wrong {
        ok!(aclrtFreeHost(memory.cast()));
    }
    // SAFETY: the memory stays mapped. If it was freed, the sanitizer must report this access.
    std::hint::black_box(unsafe { memory.add(100).read_volatile() });
}
