//! A rank that is brought to another process is refused there, and the process of the others is told.

use std::process::Command;
use std::ptr::null_mut;
use std::time::Duration;

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::ranks::root_info;
use ascend_emulator_testing::{alone, call, hccl, ok};
use ascend_sys::*;

const INFO: &str = "ASCEND_EMULATOR_TEST_ROOT_INFO";

/// Joins with the root info of another process.
fn stray(hex: &str) {
    let mut info = HcclRootInfo::default();
    for (at, byte) in info.internal.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..][..2], 16).unwrap() as _;
    }
    let block = Block::new(2);
    ok!(aclrtSetDevice(block.first));
    let mut comm = null_mut();
    let code = call!(HcclCommInitRootInfo(2, &info, 1, &mut comm));
    assert_eq!(code, HcclResult::HCCL_E_PARA);
    println!("{}", message());
}

#[test]
fn ranks_in_two_processes_are_told_in_both_at_once() {
    if let Ok(hex) = std::env::var(INFO) {
        return stray(&hex);
    }
    alone!();
    let block = Block::new(2);
    ok!(aclrtSetDevice(block.first));
    let info = root_info();
    let hex: String = info.internal.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
    // A thread that could still bring the rank: what ends the wait is no proof that nobody can.
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let other = std::thread::spawn(|| {
        let name = "strays::ranks_in_two_processes_are_told_in_both_at_once";
        let mut other = Command::new(std::env::current_exe().unwrap());
        other.args([name, "--exact", "--nocapture"]).env(INFO, hex);
        other.output().unwrap()
    });
    // Another one waits, and hears of it whether the rank of this process has come or not.
    let mut unrelated = HcclRootInfo::default();
    hccl!(HcclGetRootInfo(&mut unrelated));
    let first = block.first;
    let waits = std::thread::spawn(move || {
        ok!(aclrtSetDevice(first + 1));
        let mut comm = null_mut();
        hccl!(HcclCommInitRootInfo(2, &unrelated, 1, &mut comm));
    });
    let other = other.join().unwrap();
    // Several looks of the one that waits.
    std::thread::sleep(Duration::from_millis(200));
    let mut comm = null_mut();
    // Without a word from there it would wait for its 120 seconds.
    let code = call!(HcclCommInitRootInfo(2, &info, 0, &mut comm));
    let here = message();
    let there = String::from_utf8_lossy(&other.stdout);
    assert!(other.status.success(), "{there}\n{}", String::from_utf8_lossy(&other.stderr));
    assert_eq!(code, HcclResult::HCCL_E_TIMEOUT, "{here}");
    let own = format!("its root info was made in process {}", std::process::id());
    for piece in ["rank 1 is in process", &own, "It was told", "live in one process"] {
        assert!(there.contains(piece), "{piece}: {there}");
    }
    let own = format!("the root info was made in process {}", std::process::id());
    for piece in ["rank 1 is in process", &own, "live in one process", "threads or tasks"] {
        assert!(here.contains(piece), "{piece}: {here}");
    }
    assert!(!here.contains("deadlock"), "{here}");
    let mut comm = null_mut();
    hccl!(HcclCommInitRootInfo(2, &unrelated, 0, &mut comm));
    waits.join().unwrap();
}
