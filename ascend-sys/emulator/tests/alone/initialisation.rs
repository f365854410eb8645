//! Tests of `aclInit` with its configuration file, and of `aclFinalize`. Both affect the whole
//! process.

use ascend_emulator_testing::common::{Block, malloc, message, stream};
use ascend_emulator_testing::{alone, call, fails, ok};
use ascend_sys::*;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut, without_provenance_mut};
use std::sync::Mutex;

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

/// Initialises the process with a configuration file, and returns the code and the error text.
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
        ("err_msg_mode", 100006, "is not valid JSON"),
        ("[1]", 100006, "but not an object"),
        (r#"{"err_msg_mode": "7"}"#, 100008, "err_msg_mode"),
        (r#"{"defaultDevice": {"default_device": "99"}}"#, 107001, "no device 99"),
    ] {
        let (told, text) = init(text);
        assert_eq!(told, code, "{text}");
        assert!(text.contains(said), "{text}");
    }
    // None of the failed calls counts as an initialisation.
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
    // This thread has not set the device before, so one reset is enough.
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
    // If the thread has set the device itself, a reset by another thread gives it an error.
    ok!(aclrtSetDevice(3));
    std::thread::spawn(|| ok!(aclrtResetDevice(3))).join().unwrap();
    fails!(107002, ["is gone"], aclrtSynchronizeDevice());
}

/// The calls of callbacks since the last call of `seen`.
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn seen() -> Vec<String> {
    std::mem::take(&mut SEEN.lock().unwrap())
}

/// Notes the call, and returns its user data as the code.
unsafe extern "C" fn on_init(text: *const c_char, length: usize, data: *mut c_void) -> c_int {
    // SAFETY: the text ends with a NUL.
    let text = unsafe { CStr::from_ptr(text) }.to_str().unwrap();
    assert_eq!(text.len(), length);
    SEEN.lock().unwrap().push(format!("init {} {text}", data.addr()));
    data.addr() as c_int
}

/// Notes the call, and returns its user data as the code.
unsafe extern "C" fn on_finalize(data: *mut c_void) -> c_int {
    SEEN.lock().unwrap().push(format!("finalise {}", data.addr()));
    data.addr() as c_int
}

/// Initialises and finalises the process from inside the callback.
unsafe extern "C" fn calls(_: *mut c_void) -> c_int {
    SEEN.lock().unwrap().push("calls".into());
    ok!(aclInit(null()));
    ok!(aclFinalize());
    0
}

/// Unregisters another callback from inside the callback.
unsafe extern "C" fn takes_away(_: *const c_char, _: usize, _: *mut c_void) -> c_int {
    SEEN.lock().unwrap().push("takes away".into());
    ok!(aclInitCallbackUnRegister(OTHER, Some(on_init)));
    0
}

const MODEL: aclRegisterCallbackType = aclRegisterCallbackType::ACL_REG_TYPE_ACL_MODEL;
const OTHER: aclRegisterCallbackType = aclRegisterCallbackType::ACL_REG_TYPE_OTHER;

/// Returns user data that makes a callback return this number.
fn data(answer: usize) -> *mut c_void {
    without_provenance_mut(answer)
}

#[test]
fn callbacks_hear_of_the_first_initialisation_and_of_the_end() {
    alone!();
    ok!(aclInitCallbackRegister(MODEL, Some(on_init), data(5)));
    ok!(aclInitCallbackRegister(OTHER, Some(on_init), data(0)));
    // If the same callback is registered again, its new user data replaces the old.
    ok!(aclInitCallbackRegister(MODEL, Some(on_init), data(0)));
    ok!(aclFinalizeCallbackRegister(MODEL, Some(on_finalize), data(0)));
    let configuration = r#"{"err_msg_mode": "0"}"#;
    assert_eq!(init(configuration).0, 0);
    assert_eq!(seen(), [format!("init 0 {configuration}"), format!("init 0 {configuration}")]);
    fails!(100002, [], aclInit(null()));
    ok!(aclFinalizeReference(null_mut()));
    assert!(seen().is_empty(), "the process stays initialised");
    ok!(aclFinalize());
    assert_eq!(seen(), ["finalise 0"]);
    fails!(100037, [], aclFinalize());
    ok!(aclInitCallbackUnRegister(OTHER, Some(on_init)));
    fails!(100000, ["not registered"], aclInitCallbackUnRegister(OTHER, Some(on_init)));
    ok!(aclFinalizeCallbackUnRegister(MODEL, Some(on_finalize)));
    ok!(aclInit(null()));
    ok!(aclFinalize());
    assert_eq!(seen(), ["init 0 "], "without a configuration the text is empty");
    // If the configuration is wrong, no callback is called.
    assert_eq!(init("[]").0, 100006);
    assert!(seen().is_empty());
}

#[test]
fn a_callback_that_fails_fails_the_call_with_its_code() {
    alone!();
    ok!(aclInitCallbackRegister(MODEL, Some(on_init), data(77)));
    ok!(aclInitCallbackRegister(OTHER, Some(on_init), data(0)));
    fails!(77, ["type 0", "returned 77"], aclInit(null()));
    assert_eq!(seen(), ["init 77 "], "the others are not called");
    ok!(aclInitCallbackUnRegister(MODEL, Some(on_init)));
    // The call that failed did not initialise the process.
    ok!(aclInit(null()));
    ok!(aclFinalizeCallbackRegister(MODEL, Some(on_finalize), data(78)));
    ok!(aclFinalizeCallbackRegister(OTHER, Some(on_finalize), data(79)));
    let _ = seen();
    fails!(78, ["returned 78"], aclFinalize());
    assert_eq!(seen(), ["finalise 78", "finalise 79"], "the others are called");
    fails!(100037, [], aclFinalize());
    // If the next initialisation fails, the process stays finalised.
    ok!(aclInitCallbackRegister(MODEL, Some(on_init), data(77)));
    fails!(77, ["returned 77"], aclInit(null()));
    let _ = seen();
    fails!(100037, [], aclFinalize());
    assert!(seen().is_empty());
}

#[test]
fn a_callback_that_initialises_and_finalises_is_told_of_neither() {
    alone!();
    ok!(aclFinalizeCallbackRegister(MODEL, Some(calls), null_mut()));
    ok!(aclInitCallbackRegister(MODEL, Some(on_init), null_mut()));
    ok!(aclInit(null()));
    let _ = seen();
    ok!(aclFinalize());
    assert_eq!(seen(), ["calls"]);
}

#[test]
fn a_callback_that_an_earlier_one_has_taken_away_is_not_called() {
    alone!();
    ok!(aclInitCallbackRegister(MODEL, Some(takes_away), null_mut()));
    ok!(aclInitCallbackRegister(OTHER, Some(on_init), data(0)));
    ok!(aclInit(null()));
    assert_eq!(seen(), ["takes away"]);
    ok!(aclFinalize());
}

#[test]
fn callbacks_that_are_none_or_of_no_type_are_refused() {
    alone!();
    fails!(100000, ["cbFunc is NULL"], aclInitCallbackRegister(MODEL, None, null_mut()));
    fails!(100000, ["cbFunc is NULL"], aclFinalizeCallbackUnRegister(MODEL, None));
    for wrong in [8, 65_534, 65_536, u32::MAX] {
        let wrong = aclRegisterCallbackType(wrong);
        fails!(100000, ["0 to 7"], aclInitCallbackRegister(wrong, Some(on_init), null_mut()));
        fails!(100000, ["0 to 7"], aclFinalizeCallbackRegister(wrong, Some(calls), null_mut()));
    }
    fails!(100000, ["not registered"], aclFinalizeCallbackUnRegister(MODEL, Some(calls)));
    ok!(aclInit(null()));
    ok!(aclFinalize());
    assert_eq!(call!(aclFinalize()), 100037);
    assert!(seen().is_empty());
}
