//! Tests of stopped streams: the tasks in their queues stay there, and none of them begins.

use crate::events::{event, event_ex};
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Returns eight zero bytes in device memory.
fn zeros() -> *mut c_void {
    let at = malloc(8);
    ok!(aclrtMemset(at, 8, 0, 8));
    at
}

/// Queues a task that writes eight bytes of ones.
fn ones(at: *mut c_void, stream: aclrtStream) {
    ok!(aclrtMemsetAsync(at, 8, 1, 8, stream));
}

#[test]
fn a_stopped_stream_takes_tasks_and_begins_none_until_an_abort_drops_them() {
    let _block = Block::one();
    let (s, t, a, b) = (stream(), stream(), zeros(), zeros());
    ok!(aclrtStreamStop(s));
    // The stream has no tasks, so this does not wait.
    ok!(aclrtSynchronizeStream(s));
    ones(a, s);
    assert!(!idle(s));
    fails!(507046, ["is stopped"], aclrtSynchronizeStreamWithTimeout(s, 20));
    ok!(aclrtStreamStop(s));
    // Other streams still run.
    ones(b, t);
    ok!(aclrtSynchronizeStream(t));
    assert_eq!((read(a, 8), read(b, 8)), (vec![0; 8], vec![1; 8]));
    ok!(aclrtStreamAbort(s));
    fails!(107023, ["aborted"], aclrtSynchronizeStream(s));
    assert_eq!(read(a, 8), [0; 8]);
    ones(a, s);
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 8), [1; 8]);
}

#[test]
fn a_task_that_has_begun_ends_and_the_next_one_does_not_begin() {
    static STATE: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn waits(_: *mut c_void) {
        STATE.store(1, Ordering::Release);
        while STATE.load(Ordering::Acquire) != 2 {
            thread::yield_now();
        }
        STATE.store(3, Ordering::Release);
    }
    let block = Block::one();
    let (s, a) = (stream(), zeros());
    ok!(aclrtLaunchHostFunc(s, Some(waits), null_mut()));
    ones(a, s);
    while STATE.load(Ordering::Acquire) != 1 {
        thread::yield_now();
    }
    ok!(aclrtStreamStop(s));
    fails!(
        507046,
        ["its work goes on: stream", "at task", ". It is stopped (aclrtStreamStop) for"],
        aclrtSynchronizeStreamWithTimeout(s, 20)
    );
    STATE.store(2, Ordering::Release);
    while STATE.load(Ordering::Acquire) != 3 {
        thread::yield_now();
    }
    fails!(507046, [], aclrtSynchronizeStreamWithTimeout(s, 20));
    assert_eq!(read(a, 8), [0; 8]);
    // An abort of the device drops the task as well.
    ok!(aclrtDeviceTaskAbort(block.first, 0));
    fails!(107022, [], aclrtSynchronizeStream(s));
    ones(a, s);
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 8), [1; 8]);
}

#[test]
fn a_stream_that_waits_for_a_stopped_one_does_not_go_on() {
    let _block = Block::one();
    let (s, between, last) = (stream(), stream(), stream());
    let events = [s, between].map(|stream| (stream, event_ex(ACL_EVENT_SYNC)));
    ok!(aclrtStreamStop(s));
    for ((stream, event), waiting) in events.into_iter().zip([between, last]) {
        ok!(aclrtRecordEvent(event, stream));
        ok!(aclrtStreamWaitEvent(waiting, event));
    }
    for waiting in [between, last] {
        fails!(
            507046,
            [
                "not idle after 20ms, and stream",
                " of stream",
                "is stopped (aclrtStreamStop) for",
                "aclrtStreamAbort"
            ],
            aclrtSynchronizeStreamWithTimeout(waiting, 20)
        );
    }
    ok!(aclrtStreamAbort(s));
    for waiting in [between, last] {
        ok!(aclrtSynchronizeStream(waiting));
    }
}

#[test]
fn a_record_that_an_abort_has_dropped_sets_no_flag() {
    let _block = Block::one();
    let (s, t, event) = (stream(), stream(), event(ACL_EVENT_SYNC));
    ok!(aclrtStreamStop(s));
    ok!(aclrtRecordEvent(event, s));
    ok!(aclrtStreamWaitEvent(t, event));
    ok!(aclrtStreamAbort(s));
    fails!(507046, ["an event whose record was dropped"], aclrtSynchronizeStreamWithTimeout(t, 20));
    ok!(aclrtRecordEvent(event, s));
    ok!(aclrtSynchronizeStream(t));
}

#[test]
fn a_wait_that_ends_early_says_who_stopped_the_stream_and_what_to_do() {
    let block = Block::one();
    let (s, mut event) = (stream(), null_mut());
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    ok!(aclrtStreamStop(s));
    // SAFETY: the call has no arguments and no effects.
    let by = format!(", by thread {},", unsafe { libc::gettid() });
    // A second stop from another thread changes nothing, because the stream is already stopped.
    let (first, address) = (block.first, s as usize);
    let again = move || {
        ok!(aclrtSetDevice(first));
        ok!(aclrtStreamStop(address as aclrtStream));
    };
    thread::spawn(again).join().unwrap();
    ok!(aclrtRecordEvent(event, s));
    let _ = message();
    let waits = [
        (call!(aclrtSynchronizeStreamWithTimeout(s, 20)), message()),
        (call!(aclrtSynchronizeEventWithTimeout(event, 20)), message()),
        (call!(ascendExtAwaitTask(s, u64::MAX, 20, 20)), message()),
    ];
    for (code, text) in waits {
        assert_ne!(code, 0);
        for piece in [
            ", and stream",
            "is stopped (aclrtStreamStop) for ",
            by.as_str(),
            "begins no task until aclrtStreamAbort drops those it has",
        ] {
            assert!(text.contains(piece), "{piece:?} is not in: {text}");
        }
        assert!(!text.contains("goes on"), "{text}");
    }
    ok!(aclrtStreamAbort(s));
}

#[test]
fn what_ends_a_stopped_stream_does_not_wait_for_what_it_holds_back() {
    let block = Block::one();
    let a = zeros();
    for destroy in [false, true] {
        let s = stream();
        ok!(aclrtStreamStop(s));
        ones(a, s);
        match destroy {
            true => ok!(aclrtDestroyStream(s)),
            false => ok!(aclrtDestroyStreamForce(s)),
        }
        fails!(107017, [], aclrtStreamStop(s));
    }
    assert_eq!(read(a, 8), [0; 8]);
    // If a thread already waits to destroy the stream, the stop ends that wait.
    let s = stream();
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    ok!(aclrtStreamWaitEvent(s, event));
    ones(a, s);
    let (first, waits_for) = (block.first, s as usize);
    let waiter = thread::spawn(move || {
        ok!(aclrtSetDevice(first));
        ok!(aclrtDestroyStream(waits_for as aclrtStream));
    });
    ok!(aclrtStreamStop(s));
    waiter.join().unwrap();
    assert_eq!(read(a, 8), [0; 8]);
    // The default stream is destroyed with its device. When the device is set again, its new
    // default stream is not stopped.
    ok!(aclrtStreamStop(null_mut()));
    ones(a, null_mut());
    ok!(aclrtResetDevice(first));
    ok!(aclrtResetDevice(first));
    ok!(aclrtSetDevice(first));
    let a = zeros();
    ones(a, null_mut());
    ok!(aclrtSynchronizeStream(null_mut()));
    assert_eq!(read(a, 8), [1; 8]);
}

#[repr(align(4096))]
struct Page([u8; 4096]);

#[test]
fn memory_is_unregistered_at_once_unless_a_held_task_uses_it() {
    let block = Block::one();
    let (s, a) = (stream(), zeros());
    let mut page = Box::new(Page([1; 4096]));
    let (at, mut mapped) = (page.0.as_mut_ptr().cast::<c_void>(), null_mut());
    ok!(aclrtHostRegister(at, 4096, aclrtHostRegisterType(0), &mut mapped));
    ok!(aclrtStreamStop(s));
    ones(a, s);
    ok!(aclrtHostUnregister(at));
    // This time a task that the stop holds back uses the memory.
    ok!(aclrtHostRegister(at, 4096, aclrtHostRegisterType(0), &mut mapped));
    ok!(aclrtMemcpyAsync(a, 8, at, 8, H2D, s));
    let (first, address, calls) = (block.first, at as usize, AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            ok!(aclrtSetDevice(first));
            calls.store(1, Ordering::Release);
            ok!(aclrtHostUnregister(address as *mut c_void));
            calls.store(2, Ordering::Release);
        });
        while calls.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        // This is long enough for a call that does not wait to return.
        thread::sleep(Duration::from_millis(30));
        assert_eq!(calls.load(Ordering::Acquire), 1);
        ok!(aclrtStreamAbort(s));
    });
    assert_eq!(read(a, 8), [0; 8]);
}

#[test]
fn an_event_in_a_stopped_stream_holds_another_one() {
    let _block = Block::one();
    let (s, t, a) = (stream(), stream(), zeros());
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    ok!(aclrtStreamStop(s));
    ok!(aclrtRecordEvent(event, s));
    ok!(aclrtStreamWaitEvent(t, event));
    ones(a, t);
    fails!(507046, [], aclrtSynchronizeStreamWithTimeout(t, 20));
    fails!(507046, [], aclrtSynchronizeDeviceWithTimeout(20));
    ok!(aclrtStreamAbort(t));
    ok!(aclrtStreamAbort(s));
    fails!(107023, ["aborted"], aclrtSynchronizeStream(t));
    assert_eq!(read(a, 8), [0; 8]);
    ones(a, t);
    ok!(aclrtSynchronizeStream(t));
    assert_eq!(read(a, 8), [1; 8]);
}
