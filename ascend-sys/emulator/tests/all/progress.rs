//! Tests of the optional functions for progress: counters, failures by ticket, failure modes and
//! abort.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Returns the counters (submitted, completed, failed) as another part of the program would read
/// them.
fn progress(stream: aclrtStream) -> (u64, u64, u64) {
    let mut line = std::ptr::null();
    ok!(ascendExtStreamProgress(stream, &mut line));
    // SAFETY: the line stays mapped, and it is written with atomic stores only.
    let word =
        |word: *const u64| unsafe { AtomicU64::from_ptr(word.cast_mut()) }.load(Ordering::Acquire);
    // SAFETY: the pointers are to fields of the mapped line.
    unsafe {
        (
            word(&raw const (*line).submitted),
            word(&raw const (*line).completed),
            word(&raw const (*line).failed),
        )
    }
}

fn failure(stream: aclrtStream, ticket: u64) -> (i32, String) {
    let (mut code, mut text) = (-1, [1 as std::ffi::c_char; 200]);
    ok!(ascendExtStreamFailure(stream, ticket, &mut code, text.as_mut_ptr(), text.len()));
    // SAFETY: the call has written a NUL-terminated text.
    (code, unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned())
}

/// Queues a wait that fails after a second. A correct program can make no other task fail.
fn failing(stream: aclrtStream) {
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    ok!(aclrtStreamWaitEventWithTimeout(stream, event, 1));
}

#[test]
fn a_task_of_any_number_is_asked_for() {
    let _block = Block::one();
    let s = stream();
    for ticket in [0, 1 << 40, u64::MAX - 1, u64::MAX] {
        assert_eq!(failure(s, ticket), (0, String::new()));
    }
}

#[test]
fn counters_and_failures() {
    let _block = Block::one();
    let (a, s) = (malloc(8), stream());
    let (before, ..) = progress(s);
    ok!(aclrtMemsetAsync(a, 8, 0, 8, s));
    assert_eq!(progress(s).0, before + 1);
    assert_eq!(progress(s).1, before + 1);
    failing(s);
    ok!(aclrtMemsetAsync(a, 8, 9, 8, s));
    assert_eq!(progress(s).1, before + 1);
    let failed = progress(s).2;
    fails!(107020, ["nobody has recorded"], aclrtSynchronizeStream(s));
    assert_eq!(progress(s), (before + 3, before + 3, failed + 1));
    assert_eq!(failure(s, before + 1).0, 0);
    let (code, text) = failure(s, before + 2);
    assert_eq!(code, 107020);
    assert!(text.contains("gave up"), "{text}");
    assert_eq!(failure(s, before + 3), (0, String::new()));
    assert_eq!(read(a, 8), [9; 8], "later tasks run all the same");
}

/// Checks that a program that waits only for events still gets the errors of its tasks, as on a
/// device.
#[test]
fn an_event_says_once_how_the_tasks_before_it_ended() {
    let _block = Block::one();
    let s = stream();
    let [well, ill, worse] = [(); 3].map(|()| {
        let mut event = null_mut();
        ok!(aclrtCreateEventExWithFlag(&mut event, ACL_EVENT_SYNC));
        event
    });
    ok!(aclrtMemsetAsync(malloc(8), 8, 0, 8, s));
    ok!(aclrtRecordEvent(well, s));
    failing(s);
    ok!(aclrtRecordEvent(ill, s));
    failing(s);
    ok!(aclrtRecordEvent(worse, s));
    fails!(107020, ["nobody has recorded"], aclrtSynchronizeEventWithTimeout(ill, 60_000));
    ok!(aclrtSynchronizeEvent(ill));
    ok!(aclrtSynchronizeEvent(well));
    fails!(107020, ["nobody has recorded"], aclrtSynchronizeStream(s));
    ok!(aclrtSynchronizeEvent(worse));
    ok!(aclrtSynchronizeStream(s));
}

#[test]
fn stop_on_failure_stops_the_context() {
    let _block = Block::one();
    let (a, s, t) = (malloc(8), stream(), stream());
    ok!(aclrtMemset(a, 8, 0, 8));
    fails!(107000, ["mode is 7"], aclrtSetStreamFailureMode(s, 7));
    ok!(aclrtSetStreamFailureMode(s, 1));
    fails!(107000, ["once"], aclrtSetStreamFailureMode(s, 1));
    failing(s);
    ok!(aclrtMemsetAsync(a, 8, 9, 8, s));
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    ok!(aclrtStreamWaitEvent(t, event));
    ok!(aclrtMemsetAsync(a, 8, 9, 8, t));
    assert_ne!(call!(aclrtSynchronizeStream(s)), 0);
    assert_ne!(call!(aclrtSynchronizeStream(t)), 0);
    assert_eq!(read(a, 8), [0; 8], "nothing ran after the failure");
    fails!(107035, ["takes no more tasks", "stops all streams"], aclrtMemsetAsync(a, 8, 9, 8, t));
}

#[test]
fn a_stream_that_stops_its_context_on_failure_stops_nothing_when_it_is_aborted_or_destroyed() {
    let block = Block::one();
    let (a, t) = (malloc(8), stream());
    type End = fn(aclrtStream, i32);
    let ends: [End; 3] = [
        |s, _| ok!(aclrtStreamAbort(s)),
        |_, device| ok!(aclrtDeviceTaskAbort(device, 0)),
        |s, _| ok!(aclrtDestroyStreamForce(s)),
    ];
    for (value, end) in (1..).zip(ends) {
        let (s, mut event) = (stream(), null_mut());
        ok!(aclrtSetStreamFailureMode(s, 1));
        ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
        ok!(aclrtStreamWaitEvent(s, event));
        assert!(!idle(s));
        end(s, block.first);
        ok!(aclrtMemsetAsync(a, 8, value, 8, t));
        ok!(aclrtSynchronizeStream(t));
        assert_eq!(read(a, 8), [value as u8; 8]);
    }
}

#[test]
fn abort_drops_what_is_queued_and_wakes_who_waits() {
    let block = Block::one();
    let (a, s) = (malloc(8), stream());
    ok!(aclrtMemset(a, 8, 0, 8));
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    ok!(aclrtStreamWaitEvent(s, event));
    ok!(aclrtMemsetAsync(a, 8, 9, 8, s));
    let (first, handle) = (block.first, s as usize);
    let waiter = std::thread::spawn(move || {
        ok!(aclrtSetDevice(first));
        call!(aclrtSynchronizeStream(handle as aclrtStream))
    });
    std::thread::sleep(Duration::from_millis(50));
    ok!(aclrtStreamAbort(s));
    assert_eq!(waiter.join().unwrap(), 107023);
    assert_eq!(read(a, 8), [0; 8]);
    ok!(aclrtMemsetAsync(a, 8, 5, 8, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 8), [5; 8]);
}

#[test]
fn forced_destruction_drops_what_is_queued() {
    let _block = Block::one();
    let (a, s) = (malloc(8), stream());
    ok!(aclrtMemset(a, 8, 0, 8));
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    ok!(aclrtStreamWaitEvent(s, event));
    ok!(aclrtMemsetAsync(a, 8, 9, 8, s));
    ok!(aclrtDestroyStreamForce(s));
    assert_eq!(read(a, 8), [0; 8]);
    fails!(107017, ["destroyed"], aclrtStreamQuery(s, &mut aclrtStreamStatus(0)));
}

#[test]
fn activity_wakes_a_sleeping_thread() {
    let _block = Block::one();
    let (s, gate) = (stream(), Gate::new());
    gate.close(s);
    let mut seen = 0;
    ok!(ascendExtAwaitActivity(&mut seen, 0));
    let opener = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(60));
        gate.open();
    });
    while progress(s).1 != progress(s).0 {
        let before = seen;
        ok!(ascendExtAwaitActivity(&mut seen, 60_000));
        assert_ne!(seen, before, "the limit ended the sleep");
    }
    opener.join().unwrap();
}

#[test]
fn work_that_nobody_waits_for_is_done_too() {
    let _block = Block::one();
    let (a, s) = (malloc(8 << 20), stream());
    for _ in 0..10 {
        ok!(aclrtMemsetAsync(a, 8 << 20, 1, 8 << 20, s));
    }
    let start = Instant::now();
    while progress(s).1 != progress(s).0 {
        std::thread::sleep(Duration::from_millis(1));
        assert!(start.elapsed() < Duration::from_secs(120));
    }
}
