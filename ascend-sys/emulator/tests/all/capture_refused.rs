//! Captured streams: the calls that are rejected, and their effect on the capture.

use ascend_emulator_testing::captures::*;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

#[test]
fn begin_refuses_what_cannot_be_captured() {
    let _block = Block::one();
    let s = stream();
    fails!(100000, ["NULL"], aclmdlRICaptureBegin(null_mut(), GLOBAL));
    fails!(107000, ["mode is 3"], aclmdlRICaptureBegin(s, aclmdlRICaptureMode(3)));
    let mut default = null_mut();
    ok!(aclrtCtxGetCurrentDefaultStream(&mut default));
    fails!(107031, ["default stream"], aclmdlRICaptureBegin(default, GLOBAL));
    for flag in [ACL_STREAM_PERSISTENT, ACL_STREAM_CPU_SCHEDULE, ACL_STREAM_DEVICE_USE_ONLY] {
        let mut unfit = null_mut();
        ok!(aclrtCreateStreamWithConfig(&mut unfit, 0, flag));
        fails!(507000, ["flags"], aclmdlRICaptureBegin(unfit, GLOBAL));
    }
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    fails!(107027, ["captured already"], aclmdlRICaptureBegin(s, GLOBAL));
    let graph = end(s);
    ok!(aclmdlRIExecute(graph, -1));
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn the_state_of_a_capture() {
    let _block = Block::one();
    let (s, t) = (stream(), stream());
    assert_eq!(status(s), (NONE, null_mut()));
    end_fails(s, 107029, "not being captured");
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    let (state, graph) = status(s);
    assert_eq!((state, graph.is_null()), (ACTIVE, false));
    assert_eq!(status(t), (NONE, null_mut()));
    fails!(107026, ["is being captured"], aclmdlRIDestroy(graph));
    fails!(107026, ["is being captured"], aclmdlRIExecuteAsync(graph, t));
    assert_eq!(end(s), graph);
    assert_eq!(status(s), (NONE, null_mut()));
    // A captured stream accepts no graph.
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    fails!(107027, ["cannot be part of another"], aclmdlRIExecuteAsync(graph, s));
    ok!(aclmdlRIDestroy(end(s)));
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn a_stream_that_does_not_come_back_ends_the_capture() {
    let _block = Block::one();
    let (s, t, fork, back, a) = (stream(), stream(), event(), event(), malloc(8));
    let join = || {
        ok!(aclmdlRICaptureBegin(s, GLOBAL));
        ok!(aclrtRecordEvent(fork, s));
        ok!(aclrtStreamWaitEvent(t, fork));
    };
    join();
    end_fails(s, 107025, "has not come back");
    assert_eq!((status(s).0, status(t).0), (NONE, NONE), "the recording is discarded");
    // The event is recorded, but no stream waits for it.
    join();
    ok!(aclrtRecordEvent(back, t));
    end_fails(s, 107025, "has not come back");
    // A task comes after the record.
    join();
    ok!(aclrtRecordEvent(back, t));
    ok!(aclrtStreamWaitEvent(s, back));
    set(a, 8, 1, t);
    end_fails(s, 107025, "has not come back");
    set(a, 8, 2, t);
    ok!(aclrtSynchronizeDevice());
    assert_eq!(read(a, 8), [2; 8]);
    // The default stream cannot join, and only the attempt fails.
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    ok!(aclrtRecordEvent(fork, s));
    fails!(107031, ["default stream"], aclrtStreamWaitEvent(null_mut(), fork));
    ok!(aclmdlRIDestroy(end(s)));
}

#[test]
fn events_that_do_not_belong_into_a_capture() {
    let _block = Block::one();
    let (s, t, e) = (stream(), stream(), event());
    // The event was recorded outside the capture.
    ok!(aclrtRecordEvent(e, t));
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    fails!(107024, ["not recorded in the same capture"], aclrtStreamWaitEvent(s, e));
    assert_eq!(status(s).0, INVALIDATED);
    let a = malloc(8);
    fails!(507903, ["has become invalid"], aclrtMemsetAsync(a, 8, 1, 8, s));
    end_fails(s, 507903, "not recorded in the same capture");
    // The event was recorded in another capture.
    ok!(aclmdlRICaptureBegin(t, GLOBAL));
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    ok!(aclrtRecordEvent(e, t));
    fails!(107024, ["not recorded in the same capture"], aclrtStreamWaitEvent(s, e));
    end_fails(s, 507903, "has become invalid");
    ok!(aclmdlRIDestroy(end(t)));
    // The event is of another kind.
    let mut plain = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut plain, ACL_EVENT_SYNC));
    for other in [plain, event_with(ACL_EVENT_TIME_LINE)] {
        ok!(aclmdlRICaptureBegin(s, GLOBAL));
        ok!(aclrtRecordEvent(other, s));
        fails!(207000, ["aclrtCreateEventExWithFlag"], aclrtStreamWaitEvent(s, other));
        end_fails(s, 507903, "has become invalid");
    }
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    fails!(207000, ["reset of an event"], aclrtResetEvent(plain, s));
    end_fails(s, 507903, "has become invalid");
}

#[test]
fn waiting_asking_and_destroying_is_refused_and_harms_nothing() {
    let _block = Block::one();
    let (s, t, e) = (stream(), stream(), event());
    let timed = event_with(ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC);
    for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
        ok!(aclmdlRICaptureBegin(s, mode));
        let mut said = aclrtStreamStatus::ACL_STREAM_STATUS_RESERVED;
        fails!(107027, ["is being captured"], aclrtSynchronizeStream(s));
        fails!(107027, ["is being captured"], aclrtSynchronizeStreamWithTimeout(s, 10));
        fails!(107027, ["is being captured"], aclrtStreamQuery(s, &mut said));
        fails!(107027, ["is being captured"], aclrtDestroyStream(s));
        fails!(107027, ["is being captured"], aclrtDestroyStreamForce(s));
        fails!(107027, ["is being captured"], aclrtSynchronizeDevice());
        fails!(107027, ["is being captured"], aclrtSynchronizeDeviceWithTimeout(10));
        ok!(aclrtRecordEvent(e, s));
        ok!(aclrtRecordEvent(timed, s));
        let mut state = aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY;
        let mut old = aclrtEventStatus::ACL_EVENT_STATUS_NOT_READY;
        let mut waits = aclrtEventWaitStatus::ACL_EVENT_WAIT_STATUS_RESERVED;
        let (mut ms, mut stamp) = (0.0, 0);
        fails!(107028, ["being captured"], aclrtSynchronizeEvent(e));
        fails!(107028, ["being captured"], aclrtSynchronizeEventWithTimeout(e, 10));
        fails!(107028, ["being captured"], aclrtQueryEventStatus(e, &mut state));
        fails!(107028, ["being captured"], aclrtQueryEvent(e, &mut old));
        fails!(107028, ["being captured"], aclrtQueryEventWaitStatus(e, &mut waits));
        fails!(107028, ["being captured"], aclrtEventElapsedTime(&mut ms, timed, timed));
        fails!(107028, ["being captured"], aclrtEventGetTimestamp(timed, &mut stamp));
        // Other streams and events continue.
        ok!(aclrtSynchronizeStream(t));
        assert_eq!(status(s).0, ACTIVE, "none of this ends the capture");
        ok!(aclmdlRIDestroy(end(s)));
        // The event has its earlier state again.
        ok!(aclrtQueryEventStatus(e, &mut state));
        ok!(aclrtRecordEvent(e, t));
        ok!(aclrtSynchronizeEvent(e));
    }
}

/// Returns the codes of calls by this thread: two copies and a fill that no stream orders, and two
/// asynchronous copies of pageable memory.
fn unsafe_calls(device: *mut c_void, other: aclrtStream) -> [aclError; 5] {
    let mut host = [0u8; 8];
    let host: *mut c_void = host.as_mut_ptr().cast();
    [
        call!(aclrtMemcpy(device, 8, host, 8, H2D)),
        call!(aclrtMemcpy2d(device, 8, host, 8, 8, 1, H2D)),
        call!(aclrtMemset(device, 8, 1, 8)),
        call!(aclrtMemcpyAsync(device, 8, host, 8, H2D, other)),
        call!(aclrtMemcpyAsync(host, 8, device, 8, D2H, other)),
    ]
}

const FINE: [aclError; 5] = [0; 5];
const FORBIDDEN: [aclError; 5] = [107030, 107030, 107030, 107041, 107041];

#[test]
fn what_takes_effect_at_once_is_forbidden_by_mode() {
    let block = Block::one();
    let first = block.first;
    let (s, t, a) = (stream(), stream(), malloc(8));
    let (other, there) = (t as usize, a as usize);
    let elsewhere = || {
        let run = move || {
            ok!(aclrtSetDevice(first));
            unsafe_calls(there as *mut c_void, other as aclrtStream)
        };
        std::thread::spawn(run).join().unwrap()
    };
    assert_eq!((unsafe_calls(a, t), elsewhere()), (FINE, FINE));
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    assert_eq!((unsafe_calls(a, t), elsewhere()), (FORBIDDEN, FORBIDDEN));
    let mut host = [0u8; 8];
    fails!(107000, ["pageable"], aclrtMemcpyAsync(a, 8, host.as_mut_ptr().cast(), 8, H2D, s));
    // RELAXED lifts the ban for this thread, and the call returns its earlier mode.
    let mut mode = RELAXED;
    ok!(aclmdlRICaptureThreadExchangeMode(&mut mode));
    assert_eq!(mode, GLOBAL);
    assert_eq!((unsafe_calls(a, t), elsewhere()), (FINE, FORBIDDEN));
    ok!(aclmdlRICaptureThreadExchangeMode(&mut mode));
    assert_eq!(mode, RELAXED);
    ok!(aclmdlRIDestroy(end(s)));

    ok!(aclmdlRICaptureBegin(s, THREAD_LOCAL));
    assert_eq!((unsafe_calls(a, t), elsewhere()), (FORBIDDEN, FINE));
    ok!(aclmdlRIDestroy(end(s)));

    // A stricter mode of the thread changes nothing while the capture itself is RELAXED.
    ok!(aclmdlRICaptureBegin(s, RELAXED));
    assert_eq!((unsafe_calls(a, t), elsewhere()), (FINE, FINE));
    ok!(aclmdlRIDestroy(end(s)));
    fails!(100000, ["NULL"], aclmdlRICaptureThreadExchangeMode(null_mut()));
    mode = aclmdlRICaptureMode(9);
    fails!(107000, ["mode is 9"], aclmdlRICaptureThreadExchangeMode(&mut mode));
    // Another context is not affected.
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    let (mut own, mut before) = (null_mut(), null_mut());
    ok!(aclrtGetCurrentContext(&mut before));
    ok!(aclrtCreateContext(&mut own, first));
    ok!(aclrtMemset(a, 8, 1, 8));
    ok!(aclrtSetCurrentContext(before));
    fails!(107030, ["Global"], aclrtMemset(a, 8, 1, 8));
    ok!(aclmdlRIDestroy(end(s)));
}

#[test]
fn only_the_thread_that_began_ends_unless_relaxed() {
    let block = Block::one();
    let first = block.first;
    let s = stream();
    let end_elsewhere = || {
        let s = s as usize;
        let run = move || {
            ok!(aclrtSetDevice(first));
            let mut graph = null_mut();
            let code = call!(aclmdlRICaptureEnd(s as aclrtStream, &mut graph));
            (code, graph as usize, message())
        };
        std::thread::spawn(run).join().unwrap()
    };
    for mode in [GLOBAL, THREAD_LOCAL] {
        ok!(aclmdlRICaptureBegin(s, mode));
        let (code, graph, text) = end_elsewhere();
        assert_eq!((code, graph), (107038, 0), "{text}");
        assert!(text.contains("another thread began the capture"), "{text}");
        end_fails(s, 107029, "not being captured");
    }
    ok!(aclmdlRICaptureBegin(s, RELAXED));
    let (code, graph, text) = end_elsewhere();
    assert_eq!(code, 0, "{text}");
    ok!(aclmdlRIDestroy(graph as aclmdlRI));
}

#[test]
fn a_device_that_goes_takes_its_captures_and_graphs_along() {
    let block = Block::one();
    let (s, t) = (stream(), stream());
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    ok!(aclmdlRICaptureBegin(t, GLOBAL));
    let graph = end(t);
    drop(block);
    let other = Block::one();
    let a = malloc(8);
    ok!(aclrtMemset(a, 8, 1, 8));
    let u = stream();
    assert_eq!(status(u).0, NONE);
    fails!(107017, ["graph"], aclmdlRIExecuteAsync(graph, u));
    drop(other);
}

#[test]
fn graphs_are_not_captured_in_part_conditional_or_aborted() {
    let _block = Block::one();
    let s = stream();
    ok!(aclmdlRICaptureBegin(s, RELAXED));
    let graph = end(s);
    let (refusal, mut condition) = ("graphs are captured", null_mut());
    fails!(207000, [refusal], aclmdlRICaptureToModelRIBegin(s, graph, RELAXED));
    let flag = aclmdlRICondHandleFlag::ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT;
    fails!(207000, [refusal], aclmdlRICondHandleCreate(graph, 0, flag, &mut condition));
    fails!(207000, [refusal], aclmdlRIAbort(graph));
    // None of these calls has done anything.
    assert_eq!((status(s).0, condition), (NONE, null_mut()));
    ok!(aclmdlRIExecute(graph, -1));
    ok!(aclmdlRIDestroy(graph));
}
