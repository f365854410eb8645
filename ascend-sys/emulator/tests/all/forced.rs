//! Tests of calls that do not wait for queued work: they return even if something holds a stream
//! up.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::ranks::{FP32, SUM, on_block, patient};
use ascend_emulator_testing::{call, fails, hccl, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The time after which a test concludes that a call waits.
const LONG: Duration = Duration::from_secs(120);

const BLOCK: aclrtCallbackBlockType = aclrtCallbackBlockType::ACL_CALLBACK_BLOCK;

/// Makes calls that must return while the gate is closed, and then opens the gate.
fn while_closed(gate: &'static Gate, calls: impl FnOnce()) {
    let (returned, ends) = channel::<()>();
    let opener = std::thread::spawn(move || {
        let in_time = ends.recv_timeout(LONG) == Err(RecvTimeoutError::Disconnected);
        gate.open();
        in_time
    });
    calls();
    drop(returned);
    assert!(opener.join().unwrap(), "a call has waited for the host function");
}

/// Queues a host function that runs until its gate is opened. Returns that gate after the function
/// has started.
fn running(stream: aclrtStream) -> &'static Gate {
    unsafe extern "C" fn began(began: *mut c_void) {
        // SAFETY: the flag outlives this function, because `running` waits below until the flag is
        // set.
        unsafe { &*began.cast::<AtomicBool>() }.store(true, Ordering::Release);
    }
    let gate = Gate::new();
    let has_begun = AtomicBool::new(false);
    ok!(aclrtLaunchHostFunc(stream, Some(began), (&raw const has_begun).cast_mut().cast()));
    gate.close(stream);
    while !has_begun.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    // The function that waits for the gate is the next task. After this pause, a thread has started
    // it.
    std::thread::sleep(Duration::from_millis(20));
    gate
}

fn me() -> u64 {
    // SAFETY: the call only returns the number of the calling thread.
    unsafe { libc::pthread_self() as u64 }
}

unsafe extern "C" fn count(counter: *mut c_void) {
    // SAFETY: the counter is a static.
    unsafe { &*counter.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn an_abort_does_not_wait_for_a_host_function_and_its_late_return_ends_no_other() {
    let _block = Block::one();
    let (a, s) = (malloc(8), stream());
    ok!(aclrtMemset(a, 8, 0, 8));
    let first = running(s);
    ok!(aclrtMemsetAsync(a, 8, 9, 8, s));
    let second = Gate::new();
    while_closed(first, || {
        ok!(aclrtStreamAbort(s));
        fails!(107023, ["aborted"], aclrtSynchronizeStream(s));
        assert_eq!(read(a, 8), [0; 8]);
        second.close(s);
        ok!(aclrtMemsetAsync(a, 8, 5, 8, s));
    });
    // The first function returns now, while the second one still holds the stream up.
    fails!(507046, [], aclrtSynchronizeStreamWithTimeout(s, 100));
    assert_eq!(read(a, 8), [0; 8]);
    second.open();
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 8), [5; 8]);
}

#[test]
fn a_stream_is_destroyed_by_force_while_a_host_function_runs() {
    let _block = Block::one();
    let s = stream();
    let gate = running(s);
    while_closed(gate, || ok!(aclrtDestroyStreamForce(s)));
    fails!(107017, ["destroyed"], aclrtStreamQuery(s, &mut aclrtStreamStatus(0)));
}

#[test]
fn a_device_is_reset_by_force_while_a_host_function_runs() {
    let block = Block::one();
    let gate = running(stream());
    while_closed(gate, || ok!(aclrtResetDeviceForce(block.first)));
    ok!(aclrtSetDevice(block.first));
    let (a, s) = (malloc(8), stream());
    ok!(aclrtMemsetAsync(a, 8, 3, 8, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 8), [3; 8]);
}

#[test]
fn a_block_is_destroyed_while_a_host_function_runs() {
    let block = Block::one();
    let gate = running(stream());
    while_closed(gate, || drop(block));
}

#[test]
fn an_abort_drops_callbacks_that_no_thread_has_run() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let _block = Block::one();
    let s = stream();
    let counter: *mut c_void = (&raw const RUNS).cast_mut().cast();
    ok!(aclrtSubscribeReport(me(), s));
    ok!(aclrtLaunchCallback(Some(count), counter, BLOCK, s));
    ok!(aclrtLaunchCallback(Some(count), counter, BLOCK, s));
    assert!(!idle(s));
    ok!(aclrtStreamAbort(s));
    fails!(107023, ["aborted"], aclrtSynchronizeStream(s));
    fails!(507012, ["no callback came"], aclrtProcessReport(10));
    assert_eq!(RUNS.load(Ordering::Relaxed), 0);
    ok!(aclrtLaunchCallback(Some(count), counter, BLOCK, s));
    ok!(aclrtProcessReport(-1));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(RUNS.load(Ordering::Relaxed), 1);
    ok!(aclrtUnSubscribeReport(me(), s));
}

#[test]
fn streams_and_devices_end_with_callbacks_that_no_thread_has_run() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let block = Block::one();
    let counter: *mut c_void = (&raw const RUNS).cast_mut().cast();
    let subscribed = || {
        let s = stream();
        ok!(aclrtSubscribeReport(me(), s));
        ok!(aclrtLaunchCallback(Some(count), counter, BLOCK, s));
        s
    };
    ok!(aclrtDestroyStreamForce(subscribed()));
    subscribed();
    ok!(aclrtResetDeviceForce(block.first));
    assert_eq!(RUNS.load(Ordering::Relaxed), 0);
}

#[test]
fn a_device_is_reset_by_force_whatever_its_streams_wait_for() {
    on_block(patient(2), |rank| {
        rank.join();
        let buffer = rank.upload(&[0; 64]);
        hccl!(HcclAllReduce(buffer, buffer, 4, FP32, SUM, rank.comm, rank.stream));
        rank.sync();
        if rank.rank == 1 {
            return;
        }
        // One stream waits for a collective that the peer does not call, and two streams wait for a
        // notify and an event that are never recorded. More work is queued after each wait.
        hccl!(HcclAllReduce(buffer, buffer, 4, FP32, SUM, rank.comm, rank.stream));
        let (s, t, mut notify, mut event) = (stream(), stream(), null_mut(), null_mut());
        ok!(aclrtCreateNotify(&mut notify, 0));
        ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
        ok!(aclrtWaitAndResetNotify(notify, s, 0));
        ok!(aclrtStreamWaitEvent(t, event));
        for stream in [rank.stream, s, t] {
            ok!(aclrtMemsetAsync(buffer, 64, 1, 64, stream));
        }
        ok!(aclrtResetDeviceForce(rank.device));
        assert_eq!(call!(aclrtSynchronizeStream(s)), 107002);
    });
}

#[test]
fn a_pointer_that_cannot_be_freed_waits_for_no_stream() {
    let _block = Block::one();
    let (device, host, pageable) = (malloc(64), malloc_host(64), [0u8; 64]);
    let gate = running(stream());
    while_closed(gate, || {
        for wrong in [host, device.wrapping_byte_add(1), (&raw const pageable).cast_mut().cast()] {
            fails!(107000, ["devPtr"], aclrtFreeWithDevSync(wrong));
        }
        for wrong in [device, host.wrapping_byte_add(1), (&raw const pageable).cast_mut().cast()] {
            fails!(107000, ["hostPtr"], aclrtFreeHostWithDevSync(wrong));
        }
        fails!(100000, ["NULL"], aclrtFreeWithDevSync(null_mut()));
    });
    ok!(aclrtFreeWithDevSync(device));
    ok!(aclrtFreeHostWithDevSync(host));
}
