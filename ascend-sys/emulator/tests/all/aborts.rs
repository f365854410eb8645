//! Aborting all tasks of a device.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

/// Makes a stream wait for an event that is never recorded.
fn hold(stream: aclrtStream) {
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    ok!(aclrtStreamWaitEvent(stream, event));
}

/// Returns a held stream of the current device, with work queued after the wait.
fn held() -> aclrtStream {
    let stream = stream();
    hold(stream);
    ok!(aclrtMemsetAsync(malloc(8), 8, 1, 8, stream));
    assert!(!idle(stream));
    stream
}

#[test]
fn the_tasks_of_all_streams_of_a_device_end_and_those_of_others_go_on() {
    let block = Block::new(2);
    let (first, second) = (block.first, block.first + 1);
    ok!(aclrtSetDevice(second));
    let other = held();
    ok!(aclrtSetDevice(first));
    let (s, t) = (held(), held());
    let waits_for = s as usize;
    let waiter = thread::spawn(move || {
        ok!(aclrtSetDevice(first));
        let stream = waits_for as aclrtStream;
        fails!(107022, ["tasks of the device were aborted"], aclrtSynchronizeStream(stream));
        ok!(aclrtResetDevice(first));
    });
    thread::sleep(std::time::Duration::from_millis(5));
    ok!(aclrtDeviceTaskAbort(first, 0));
    waiter.join().unwrap();
    fails!(107022, ["tasks of the device were aborted"], aclrtSynchronizeStream(t));
    // The streams accept tasks again.
    let a = malloc(8);
    for (value, stream) in [(3, s), (4, t)] {
        ok!(aclrtMemsetAsync(a, 8, value, 8, stream));
        ok!(aclrtSynchronizeStream(stream));
        assert_eq!(read(a, 8), [value as u8; 8]);
    }
    // The aborting thread need not have set the device.
    ok!(aclrtSetDevice(second));
    assert!(!idle(other));
    thread::spawn(move || ok!(aclrtDeviceTaskAbort(second, 1000))).join().unwrap();
    fails!(107022, [], aclrtSynchronizeStream(other));
}

#[test]
fn an_abort_of_no_device_for_too_long_or_in_a_host_function_is_refused() {
    static FIRST: AtomicI32 = AtomicI32::new(-1);
    static CODE: AtomicI32 = AtomicI32::new(-1);
    unsafe extern "C" fn abort(_: *mut c_void) {
        let device = FIRST.load(Ordering::Acquire);
        CODE.store(call!(aclrtDeviceTaskAbort(device, 0)), Ordering::Release);
    }
    let block = Block::one();
    FIRST.store(block.first, Ordering::Release);
    let s = stream();
    fails!(107001, [], aclrtDeviceTaskAbort(block.first + 1, 0));
    fails!(107001, [], aclrtDeviceTaskAbort(-1, 0));
    let longest = 36 * 60 * 1000;
    fails!(107000, ["2160000 milliseconds"], aclrtDeviceTaskAbort(block.first, longest + 1));
    ok!(aclrtDeviceTaskAbort(block.first, longest));
    ok!(aclrtLaunchHostFunc(s, Some(abort), null_mut()));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(CODE.load(Ordering::Acquire), 207_000);
}

#[test]
fn no_stream_goes_on_behind_tasks_of_another_one_that_were_aborted_with_it() {
    let block = Block::one();
    let (a, b) = (malloc(8), malloc(8));
    [a, b].into_iter().for_each(|memory| ok!(aclrtMemset(memory, 8, 0, 8)));
    let takes = behind_what_never_comes(a);
    ok!(aclrtMemsetAsync(b, 8, 9, 8, takes));
    let waiter = waiting_for(takes, block.first);
    ok!(aclrtDeviceTaskAbort(block.first, 0));
    assert_eq!(waiter.join().unwrap(), 107_022);
    assert_eq!(read(b, 8), [0; 8], "made from data that never came");
}

#[test]
fn no_stream_goes_on_behind_tasks_of_another_one_that_ended_with_the_device() {
    let block = Block::one();
    let (a, host) = (malloc(8), malloc_host(8));
    [a, host].into_iter().for_each(|memory| ok!(aclrtMemset(memory, 8, 3, 8)));
    let takes = behind_what_never_comes(a);
    ok!(aclrtMemsetAsync(host, 8, 9, 8, takes));
    let waiter = waiting_for(takes, block.first);
    ok!(aclrtResetDeviceForce(block.first));
    assert_ne!(waiter.join().unwrap(), 0);
    // SAFETY: this is eight bytes of pinned memory, which outlives the device, and nothing is in
    // flight.
    assert_eq!(unsafe { host.cast::<[u8; 8]>().read() }, [3; 8], "made from data that never came");
}

/// Returns two streams, the one with the lower number first.
fn in_order() -> [aclrtStream; 2] {
    let number = |stream: &aclrtStream| {
        let mut number = 0;
        ok!(aclrtStreamGetId(*stream, &mut number));
        number
    };
    let mut streams = [stream(), stream()];
    streams.sort_by_key(number);
    streams
}

/// Makes a stream wait for the present tasks of another stream.
fn follow(stream: aclrtStream, other: aclrtStream) {
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    ok!(aclrtRecordEvent(event, other));
    ok!(aclrtStreamWaitEvent(stream, event));
}

/// Returns a stream that waits for a stream with a lower number. The latter is held, and would fill
/// eight bytes afterwards.
fn behind_what_never_comes(memory: *mut c_void) -> aclrtStream {
    let [makes, takes] = in_order();
    hold(makes);
    ok!(aclrtMemsetAsync(memory, 8, 7, 8, makes));
    follow(takes, makes);
    takes
}

/// Returns a thread that sleeps until the stream is complete. So the work that the stream waits for
/// must wake the thread.
fn waiting_for(stream: aclrtStream, device: i32) -> thread::JoinHandle<aclError> {
    let stream = stream as usize;
    let waiter = thread::spawn(move || {
        ok!(aclrtSetDevice(device));
        call!(aclrtSynchronizeStream(stream as aclrtStream))
    });
    thread::sleep(std::time::Duration::from_millis(50));
    waiter
}
