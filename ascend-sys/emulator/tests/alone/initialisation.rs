//! `aclInit`, its configuration file, and `aclFinalize`: they are for the whole process.

use ascend_emulator_testing::common::{Block, malloc, message, stream};
use ascend_emulator_testing::{alone, fails, ok};
use ascend_sys::*;
use std::ffi::CString;
use std::ptr::{null, null_mut};

#[test]
fn a_process_that_was_never_initialised_is_finalised_once() {
    alone!();
    ok!(aclFinalize());
    fails!(100037, ["finalised already"], aclFinalize());
    let mut left = 9;
    fails!(100037, ["finalised already"], aclFinalizeReference(&mut left));
    ok!(aclInit(null()));
    ok!(aclFinalizeReference(&mut left));
    assert_eq!(left, 0);
    fails!(100037, ["finalised already"], aclFinalize());
}

/// Initialises with a configuration file.
fn init(text: &str) -> (aclError, String) {
    let path = std::env::temp_dir().join(format!("acl-{}.json", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let name = CString::new(path.to_str().unwrap()).unwrap();
    let _ = message();
    let code = ascend_emulator_testing::call!(aclInit(name.as_ptr()));
    std::fs::remove_file(&path).unwrap();
    (code, message())
}

#[test]
fn a_configuration_that_is_wrong_does_not_initialise() {
    alone!();
    for (text, code, said) in [
        ("err_msg_mode", 100006, "is no JSON"),
        ("[1]", 100006, "no JSON object"),
        (r#"{"err_msg_mode": "7"}"#, 100008, "err_msg_mode"),
        (r#"{"defaultDevice": {"default_device": "99"}}"#, 107001, "no device 99"),
    ] {
        let (told, text) = init(text);
        assert_eq!(told, code, "{text}");
        assert!(text.contains(said), "{text}");
    }
    // None of these calls counts.
    ok!(aclInit(null()));
    ok!(aclFinalize());
    fails!(100003, ["regular file"], aclInit(c"/dev/zero".as_ptr()));
}

#[test]
fn texts_of_errors_belong_to_the_process_if_the_configuration_says_so() {
    alone!();
    let _block = Block::one();
    let elsewhere = || {
        std::thread::spawn(|| ascend_emulator_testing::call!(aclrtFree(std::ptr::null_mut())))
            .join()
            .unwrap();
        message()
    };
    assert_eq!(elsewhere(), "");
    assert_eq!(init(r#"{"err_msg_mode": "1"}"#).0, 0);
    assert!(elsewhere().contains("devPtr is NULL"));
    assert_eq!(message(), "");
}

#[test]
fn a_thread_without_a_device_has_the_default_one() {
    alone!();
    let mut device = 9;
    fails!(107002, ["aclrtSetDevice"], aclrtGetDevice(&mut device));
    assert_eq!(init(r#"{"defaultDevice": {"default_device": "3"}}"#).0, 0);
    ok!(aclrtGetDevice(&mut device));
    assert_eq!(device, 3);
    ok!(aclrtSetDevice(1));
    ok!(aclrtGetDevice(&mut device));
    assert_eq!(device, 1);
    let other = std::thread::spawn(|| {
        let mut stream = std::ptr::null_mut();
        ok!(aclrtCreateStream(&mut stream));
        let mut device = 9;
        ok!(aclrtGetDevice(&mut device));
        device
    });
    assert_eq!(other.join().unwrap(), 3);
    // This thread has set nothing, so one reset is enough.
    ok!(aclrtSetDevice(3));
    ok!(aclrtResetDevice(3));
    fails!(107002, ["device 3"], aclrtResetDevice(3));
}

#[test]
fn a_thread_on_the_default_device_goes_on_after_a_reset_by_another_one() {
    alone!();
    assert_eq!(init(r#"{"defaultDevice": {"default_device": "3"}}"#).0, 0);
    let current = || {
        let mut context = null_mut();
        ok!(aclrtGetCurrentContext(&mut context));
        context
    };
    let reset_elsewhere = || {
        let reset = || {
            ok!(aclrtSetDevice(3));
            ok!(aclrtResetDevice(3));
        };
        std::thread::spawn(reset).join().unwrap();
    };
    let (before, old) = (current(), stream());
    reset_elsewhere();
    fails!(107017, ["destroyed"], aclrtSynchronizeStream(old));
    let (a, s) = (malloc(8), stream());
    assert_ne!(current(), before);
    ok!(aclrtMemsetAsync(a, 8, 5, 8, s));
    ok!(aclrtMemsetAsync(a, 8, 6, 4, null_mut()));
    ok!(aclrtSynchronizeDevice());
    // A thread that has set the device itself gets an error.
    ok!(aclrtSetDevice(3));
    std::thread::spawn(|| ok!(aclrtResetDevice(3))).join().unwrap();
    fails!(107002, ["is gone"], aclrtSynchronizeDevice());
}
