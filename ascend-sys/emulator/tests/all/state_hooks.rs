//! Tests of callbacks for the states of devices and streams, and of other information about a
//! device.
//!
//! The callbacks belong to the process, so each callback here handles only its own device or
//! stream.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;

/// The reports that a callback gets about one device or stream.
struct Told {
    of: u64,
    /// The states or stages that were reported. The second number is the timeout of an abort, the
    /// stream in the test of new streams, or 0.
    states: Mutex<Vec<(u32, u32)>>,
    /// The return value of a callback for aborts.
    answer: i32,
}

impl Told {
    /// Returns a value that is never freed, and that is stored where a leak checker finds it.
    fn new(of: u64, answer: i32) -> &'static Told {
        static ALL: Mutex<Vec<&Told>> = Mutex::new(Vec::new());
        let told = Box::leak(Box::new(Told { of, states: Mutex::new(Vec::new()), answer }));
        ALL.lock().unwrap().push(told);
        told
    }

    fn argument(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// # Safety
    ///
    /// `told` must be the result of [`Told::argument`].
    unsafe fn note(told: *mut c_void, of: u64, state: u32, timeout: u32) -> i32 {
        // SAFETY: values of this type are never freed.
        let told = unsafe { &*told.cast::<Told>() };
        if told.of != of {
            return 0;
        }
        told.states.lock().unwrap().push((state, timeout));
        told.answer
    }

    fn take(&self) -> Vec<u32> {
        self.states.lock().unwrap().drain(..).map(|(state, _)| state).collect()
    }
}

unsafe extern "C" fn device(number: i32, state: aclrtDeviceState, told: *mut c_void) {
    // SAFETY: this callback is registered with a pointer of `Told::argument`.
    unsafe { Told::note(told, number as u64, state.0, 0) };
}

unsafe extern "C" fn of_stream(stream: aclrtStream, state: aclrtStreamState, told: *mut c_void) {
    // SAFETY: this callback is registered with a pointer of `Told::argument`.
    unsafe { Told::note(told, stream as u64, state.0, 0) };
}

unsafe extern "C" fn abort(
    number: i32,
    stage: aclrtDeviceTaskAbortStage,
    timeout: u32,
    told: *mut c_void,
) -> i32 {
    // SAFETY: this callback is registered with a pointer of `Told::argument`.
    unsafe { Told::note(told, number as u64, stage.0, timeout) }
}

fn name(text: &str) -> CString {
    CString::new(text).unwrap()
}

#[test]
fn sets_and_resets_of_a_device_are_told_before_and_behind() {
    let block = Block::new(1);
    let (told, again, name) =
        (Told::new(block.first as u64, 0), Told::new(block.first as u64, 0), name("sets"));
    ok!(aclrtRegDeviceStateCallback(name.as_ptr(), Some(device), told.argument()));
    ok!(aclrtSetDevice(block.first));
    assert_eq!(told.take(), [0, 1]);
    ok!(aclrtResetDevice(block.first));
    assert_eq!(told.take(), [2, 3]);
    // The device is not set, so this reset fails and only its beginning is reported.
    assert_ne!(call!(aclrtResetDevice(block.first)), 0);
    assert_eq!(told.take(), [2]);
    // A callback of the same name replaces the earlier one.
    ok!(aclrtRegDeviceStateCallback(name.as_ptr(), Some(device), again.argument()));
    ok!(aclrtSetDevice(block.first));
    assert_eq!((told.take(), again.take()), (Vec::new(), vec![0, 1]));
    ok!(aclrtRegDeviceStateCallback(name.as_ptr(), None, null_mut()));
    ok!(aclrtResetDeviceForce(block.first));
    assert!(again.take().is_empty());
    fails!(
        107000,
        ["none is registered", "sets"],
        aclrtRegDeviceStateCallback(name.as_ptr(), None, null_mut())
    );
}

/// Sets and resets the device for which it is called. This inner set and reset must not be
/// reported.
unsafe extern "C" fn sets_again(number: i32, state: aclrtDeviceState, told: *mut c_void) {
    // SAFETY: this callback is registered with a pointer of `Told::argument`.
    let of = unsafe { &*told.cast::<Told>() }.of;
    if of == number as u64 && state == aclrtDeviceState::ACL_RT_DEVICE_STATE_SET_PRE {
        ok!(aclrtSetDevice(number));
        ok!(aclrtResetDevice(number));
    }
    // SAFETY: as above.
    unsafe { Told::note(told, number as u64, state.0, 0) };
}

#[test]
fn a_callback_may_set_a_device_itself() {
    let block = Block::new(1);
    let (told, name) = (Told::new(block.first as u64, 0), name("sets again"));
    ok!(aclrtRegDeviceStateCallback(name.as_ptr(), Some(sets_again), told.argument()));
    ok!(aclrtSetDevice(block.first));
    ok!(aclrtRegDeviceStateCallback(name.as_ptr(), None, null_mut()));
    assert_eq!(told.take(), [0, 1]);
    stream();
}

/// Notes the streams that are created on the device of the calling thread.
unsafe extern "C" fn created(stream: aclrtStream, state: aclrtStreamState, told: *mut c_void) {
    let mut number = -1;
    let _ = call!(aclrtGetDevice(&mut number));
    // SAFETY: this callback is registered with a pointer of `Told::argument`.
    unsafe { Told::note(told, number as u64, state.0, stream as u32) };
}

#[test]
fn streams_that_a_program_creates_and_destroys_are_told() {
    let block = Block::one();
    let (on_device, made) = (Told::new(block.first as u64, 0), name("created"));
    ok!(aclrtRegStreamStateCallback(made.as_ptr(), Some(created), on_device.argument()));
    let (s, t) = (stream(), stream());
    let states: Vec<_> = on_device.states.lock().unwrap().drain(..).collect();
    assert_eq!(states, [(1, s as u32), (1, t as u32)]);
    ok!(aclrtRegStreamStateCallback(made.as_ptr(), None, null_mut()));
    let (told, name) = (Told::new(s as u64, 0), name("destroyed"));
    ok!(aclrtRegStreamStateCallback(name.as_ptr(), Some(of_stream), told.argument()));
    ok!(aclrtDestroyStreamForce(t));
    assert!(told.take().is_empty());
    ok!(aclrtDestroyStream(s));
    assert_eq!(told.take(), [2]);
    assert_ne!(call!(aclrtDestroyStream(s)), 0);
    assert!(told.take().is_empty(), "there is none to destroy");
    ok!(aclrtRegStreamStateCallback(name.as_ptr(), None, null_mut()));
}

#[test]
fn an_abort_of_a_device_is_told_and_can_be_refused() {
    let block = Block::one();
    let (n, s, mut event) = (block.first, stream(), null_mut());
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    let (told, refuses) = (Told::new(n as u64, 0), Told::new(n as u64, 5));
    let (first, second) = (name("abort a"), name("abort b"));
    ok!(aclrtSetDeviceTaskAbortCallback(first.as_ptr(), Some(abort), told.argument()));
    ok!(aclrtSetDeviceTaskAbortCallback(second.as_ptr(), Some(abort), refuses.argument()));
    ok!(aclrtStreamWaitEvent(s, event));
    fails!(
        107022,
        ["the callback \"abort b\" returned 5 in stage 0"],
        aclrtDeviceTaskAbort(n, 200)
    );
    assert!(!idle(s), "nothing was aborted");
    ok!(aclrtSetDeviceTaskAbortCallback(second.as_ptr(), None, null_mut()));
    ok!(aclrtDeviceTaskAbort(n, 200));
    fails!(107022, [], aclrtSynchronizeStream(s));
    ok!(aclrtSetDeviceTaskAbortCallback(first.as_ptr(), None, null_mut()));
    let states: Vec<_> = told.states.lock().unwrap().drain(..).collect();
    assert_eq!(states, [(0, 200), (0, 200), (1, 200)]);
}

#[test]
fn names_of_callbacks_are_needed() {
    let (none, empty) = (std::ptr::null(), name(""));
    fails!(100000, ["regName is NULL"], aclrtRegDeviceStateCallback(none, None, null_mut()));
    fails!(100000, ["regName is NULL"], aclrtRegStreamStateCallback(none, None, null_mut()));
    fails!(100000, ["regName is NULL"], aclrtSetDeviceTaskAbortCallback(none, None, null_mut()));
    let callback = Some(device as unsafe extern "C" fn(_, _, _));
    fails!(
        107000,
        ["regName is empty"],
        aclrtRegDeviceStateCallback(empty.as_ptr(), callback, null_mut())
    );
}

#[test]
fn floats_overflow_to_infinity() {
    let _block = Block::one();
    let (mut mode, infinity) = (aclrtFloatOverflowMode(7), aclrtFloatOverflowMode(1));
    ok!(aclrtSetDeviceSatMode(infinity));
    ok!(aclrtGetDeviceSatMode(&mut mode));
    assert_eq!(mode, infinity);
    fails!(207000, ["SATURATION"], aclrtSetDeviceSatMode(aclrtFloatOverflowMode(0)));
    fails!(107000, ["mode is 2"], aclrtSetDeviceSatMode(aclrtFloatOverflowMode(2)));
    fails!(100000, ["mode is NULL"], aclrtGetDeviceSatMode(null_mut()));
    // The device works in that mode: a sum of float16 numbers becomes infinite.
    let (most, a, b, s) = ([0xff, 0x7b], malloc(2), malloc(2), stream());
    write(a, &most);
    write(b, &most);
    let (sum, half) = (aclrtReduceKind::ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, aclDataType::ACL_FLOAT16);
    ok!(aclrtReduceAsync(a, b, 2, sum, half, s, null_mut()));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 2), [0x00, 0x7c]);
}

#[test]
fn every_device_has_an_identity_of_its_own() {
    let block = Block::new(2);
    let of = |device: i32| {
        let mut uuid = aclrtUuid::default();
        ok!(aclrtDeviceGetUuid(device, &mut uuid));
        uuid.bytes
    };
    assert_eq!(of(block.first), of(block.first));
    assert_ne!(of(block.first), of(block.first + 1));
    fails!(100000, ["uuid is NULL"], aclrtDeviceGetUuid(block.first, null_mut()));
    let mut uuid = aclrtUuid::default();
    fails!(107001, ["there is no device"], aclrtDeviceGetUuid(block.first + 2, &mut uuid));
}

#[test]
fn all_streams_have_one_priority() {
    let _block = Block::one();
    let (mut least, mut greatest) = (7, 7);
    ok!(aclrtDeviceGetStreamPriorityRange(&mut least, &mut greatest));
    assert_eq!((least, greatest), (0, 0));
    fails!(
        100000,
        ["leastPriority is NULL"],
        aclrtDeviceGetStreamPriorityRange(null_mut(), &mut greatest)
    );
    fails!(
        100000,
        ["greatestPriority is NULL"],
        aclrtDeviceGetStreamPriorityRange(&mut least, null_mut())
    );
}

#[test]
fn a_device_has_a_primary_context_from_its_first_set_to_its_last_reset() {
    let block = Block::new(1);
    let state = || {
        let (mut flags, mut active) = (7, 7);
        ok!(aclrtGetPrimaryCtxState(block.first, &mut flags, &mut active));
        assert_eq!(flags, 0);
        active
    };
    assert_eq!(state(), 0);
    ok!(aclrtSetDevice(block.first));
    ok!(aclrtSetDevice(block.first));
    ok!(aclrtResetDevice(block.first));
    assert_eq!(state(), 1);
    ok!(aclrtResetDevice(block.first));
    assert_eq!(state(), 0);
    let mut number = 0;
    fails!(
        100000,
        ["flags is NULL"],
        aclrtGetPrimaryCtxState(block.first, null_mut(), &mut number)
    );
    fails!(100000, ["active is NULL"], aclrtGetPrimaryCtxState(block.first, &mut 0, null_mut()));
    fails!(107001, [], aclrtGetPrimaryCtxState(block.first + 1, &mut 0, &mut number));
}
