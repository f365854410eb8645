//! Captured streams: what is recorded, what is refused meanwhile, and what a graph does.
mod common;
use ascend_sys::*;
use common::*;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

const GLOBAL: aclmdlRICaptureMode = aclmdlRICaptureMode(0);
const THREAD_LOCAL: aclmdlRICaptureMode = aclmdlRICaptureMode(1);
const RELAXED: aclmdlRICaptureMode = aclmdlRICaptureMode(2);

const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

fn event() -> aclrtEvent {
    event_with(ACL_EVENT_SYNC)
}

fn event_with(flag: u32) -> aclrtEvent {
    let mut event = null_mut();
    ok!(aclrtCreateEventExWithFlag(&mut event, flag));
    event
}

fn status(stream: aclrtStream) -> (u32, aclmdlRI) {
    let (mut status, mut graph) = (aclmdlRICaptureStatus(7), null_mut());
    ok!(aclmdlRICaptureGetInfo(stream, &mut status, &mut graph));
    (status.0, graph)
}

fn end(stream: aclrtStream) -> aclmdlRI {
    let mut graph = null_mut();
    ok!(aclmdlRICaptureEnd(stream, &mut graph));
    assert!(!graph.is_null());
    graph
}

/// An End that must fail with this code; gives back no graph.
fn end_fails(stream: aclrtStream, code: aclError, piece: &str) {
    let mut graph = std::ptr::dangling_mut();
    fails!(code, [piece], aclmdlRICaptureEnd(stream, &mut graph));
    assert!(graph.is_null());
}

/// A buffer with these bytes.
fn filled(bytes: usize, value: i32) -> *mut c_void {
    let pointer = malloc(bytes);
    ok!(aclrtMemset(pointer, bytes, value, bytes));
    pointer
}

fn set(pointer: *mut c_void, bytes: usize, value: i32, stream: aclrtStream) {
    ok!(aclrtMemsetAsync(pointer, bytes, value, bytes, stream));
}

fn copy(to: *mut c_void, from: *const c_void, bytes: usize, stream: aclrtStream) {
    ok!(aclrtMemcpyAsync(to, bytes, from, bytes, D2D, stream));
}

#[test]
fn what_is_issued_in_between_is_recorded_and_runs_at_every_execution() {
    let _block = Block::one();
    let (s, t) = (stream(), stream());
    let (a, b) = (filled(300_000, 1), filled(300_000, 2));
    // What was issued before runs at once.
    set(a, 300_000, 3, s);
    ok!(aclmdlRICaptureBegin(s, RELAXED));
    copy(b, a, 300_000, s);
    set(a, 8, 9, s);
    assert_eq!(read(b, 8), [2; 8], "recorded, not run");
    assert_eq!(read(a, 8), [3; 8]);
    let graph = end(s);
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(b, 8), [2; 8]);
    ok!(aclmdlRIExecuteAsync(graph, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(b, 300_000), [3; 300_000]);
    assert_eq!(read(a, 9), [9, 9, 9, 9, 9, 9, 9, 9, 3]);
    // On another stream, and any number of times.
    set(a, 300_000, 4, t);
    ok!(aclmdlRIExecuteAsync(graph, t));
    ok!(aclmdlRIExecuteAsync(graph, t));
    ok!(aclrtSynchronizeStream(t));
    assert_eq!(read(b, 9), [9, 9, 9, 9, 9, 9, 9, 9, 4]);
    ok!(aclmdlRIExecute(graph, -1));
    ok!(aclmdlRIDestroy(graph));
    fails!(107017, ["the graph", "was destroyed"], aclmdlRIExecuteAsync(graph, s));
    // A graph that is unknown is gone already.
    ok!(aclmdlRIDestroy(graph));
    fails!(100000, ["NULL"], aclmdlRIDestroy(null_mut()));
    // The stream runs again what it is given.
    set(a, 8, 5, s);
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 8), [5; 8]);
}

#[test]
fn executions_of_one_graph_come_one_after_the_other() {
    let _block = Block::one();
    let (s, t, gate) = (stream(), stream(), Gate::new());
    let (a, b) = (filled(64, 0), filled(64, 0));
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    copy(b, a, 64, s);
    let graph = end(s);
    gate.close(s);
    ok!(aclmdlRIExecuteAsync(graph, s));
    ok!(aclmdlRIExecuteAsync(graph, t));
    assert!(!idle(t), "the first execution holds up the second");
    set(a, 64, 7, t);
    gate.open();
    ok!(aclrtSynchronizeStream(t));
    assert_eq!(read(b, 64), [0; 64]);
    ok!(aclmdlRIExecute(graph, 1000));
    assert_eq!(read(b, 64), [7; 64]);
    ok!(aclmdlRIDestroy(graph));
}

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
    // A captured stream takes no graph.
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    fails!(107027, ["cannot be part of another"], aclmdlRIExecuteAsync(graph, s));
    ok!(aclmdlRIDestroy(end(s)));
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn other_streams_join_by_events_and_come_back() {
    let _block = Block::one();
    let (s, t, u, run) = (stream(), stream(), stream(), stream());
    let (a, b, c, d) = (filled(200_000, 0), malloc(200_000), malloc(200_000), malloc(200_000));
    let (fork, deeper, back, home) = (event(), event(), event(), event());
    ok!(aclmdlRICaptureBegin(s, RELAXED));
    set(a, 200_000, 5, s);
    ok!(aclrtRecordEvent(fork, s));
    ok!(aclrtStreamWaitEvent(t, fork));
    assert_eq!(status(t).0, ACTIVE);
    copy(b, a, 200_000, t);
    // Transitively.
    ok!(aclrtRecordEvent(deeper, t));
    ok!(aclrtStreamWaitEvent(u, deeper));
    assert_eq!(status(u).1, status(s).1);
    copy(c, b, 200_000, u);
    ok!(aclrtRecordEvent(home, u));
    ok!(aclrtStreamWaitEvent(t, home));
    ok!(aclrtRecordEvent(back, t));
    ok!(aclrtStreamWaitEvent(s, back));
    copy(d, c, 200_000, s);
    let mut graph = null_mut();
    fails!(107036, ["has joined the capture of"], aclmdlRICaptureEnd(t, &mut graph));
    assert_eq!(status(s).0, ACTIVE, "which leaves the capture alone");
    let graph = end(s);
    assert_eq!((status(t).0, status(u).0), (NONE, NONE));
    for _ in 0..3 {
        set(d, 200_000, 0, run);
        ok!(aclmdlRIExecuteAsync(graph, run));
        // Behind all branches.
        set(b, 200_000, 0, run);
        ok!(aclrtSynchronizeStream(run));
        assert_eq!(read(d, 200_000), [5; 200_000]);
    }
    ok!(aclrtSynchronizeDevice());
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn a_branch_does_not_run_ahead_of_the_execution() {
    let _block = Block::one();
    let (s, t, gate) = (stream(), stream(), Gate::new());
    let (a, b) = (filled(64, 1), filled(64, 0));
    let (fork, back) = (event(), event());
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    ok!(aclrtRecordEvent(fork, s));
    ok!(aclrtStreamWaitEvent(t, fork));
    copy(b, a, 64, t);
    ok!(aclrtRecordEvent(back, t));
    ok!(aclrtStreamWaitEvent(s, back));
    let graph = end(s);
    gate.close(s);
    set(a, 64, 2, s);
    ok!(aclmdlRIExecuteAsync(graph, s));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(read(b, 64), [0; 64]);
    gate.open();
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(b, 64), [2; 64]);
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn a_branch_that_fails_fails_the_execution() {
    let _block = Block::one();
    let (s, t) = (stream(), stream());
    let (fork, back) = (event(), event());
    let mut notify = null_mut();
    ok!(aclrtCreateNotify(&mut notify, 0));
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    ok!(aclrtRecordEvent(fork, s));
    ok!(aclrtStreamWaitEvent(t, fork));
    ok!(aclrtWaitAndResetNotify(notify, t, 1));
    ok!(aclrtRecordEvent(back, t));
    ok!(aclrtStreamWaitEvent(s, back));
    let graph = end(s);
    ok!(aclmdlRIExecuteAsync(graph, s));
    fails!(107020, ["wait for notify", "gave up"], aclrtSynchronizeStream(s));
    ok!(aclrtSynchronizeDevice());
    ok!(aclrtRecordNotify(notify, t));
    ok!(aclmdlRIExecute(graph, -1));
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
    // Recorded, and nobody waits for it.
    join();
    ok!(aclrtRecordEvent(back, t));
    end_fails(s, 107025, "has not come back");
    // Something after the record.
    join();
    ok!(aclrtRecordEvent(back, t));
    ok!(aclrtStreamWaitEvent(s, back));
    set(a, 8, 1, t);
    end_fails(s, 107025, "has not come back");
    set(a, 8, 2, t);
    ok!(aclrtSynchronizeDevice());
    assert_eq!(read(a, 8), [2; 8]);
    // The default stream cannot join, and the attempt is all that fails.
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    ok!(aclrtRecordEvent(fork, s));
    fails!(107031, ["default stream"], aclrtStreamWaitEvent(null_mut(), fork));
    ok!(aclmdlRIDestroy(end(s)));
}

#[test]
fn events_that_do_not_belong_into_a_capture() {
    let _block = Block::one();
    let (s, t, e) = (stream(), stream(), event());
    // Recorded outside.
    ok!(aclrtRecordEvent(e, t));
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    fails!(107024, ["not recorded in the same capture"], aclrtStreamWaitEvent(s, e));
    assert_eq!(status(s).0, INVALIDATED);
    let a = malloc(8);
    fails!(507903, ["has become invalid"], aclrtMemsetAsync(a, 8, 1, 8, s));
    end_fails(s, 507903, "not recorded in the same capture");
    // Recorded in another capture.
    ok!(aclmdlRICaptureBegin(t, GLOBAL));
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    ok!(aclrtRecordEvent(e, t));
    fails!(107024, ["not recorded in the same capture"], aclrtStreamWaitEvent(s, e));
    end_fails(s, 507903, "has become invalid");
    ok!(aclmdlRIDestroy(end(t)));
    // Another kind of event.
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
fn external_events_cross_the_border_of_a_capture() {
    let _block = Block::one();
    let (s, t, a, b) = (stream(), stream(), filled(64, 0), filled(64, 0));
    let (open, done, gate) =
        (event_with(ACL_EVENT_EXTERNAL), event_with(ACL_EVENT_EXTERNAL), Gate::new());
    ok!(aclmdlRICaptureBegin(s, RELAXED));
    ok!(aclrtStreamWaitEvent(s, open));
    copy(b, a, 64, s);
    ok!(aclrtRecordEvent(done, s));
    let graph = end(s);
    gate.close(t);
    set(a, 64, 3, t);
    ok!(aclrtRecordEvent(open, t));
    ok!(aclmdlRIExecuteAsync(graph, s));
    assert!(!idle(s), "the graph waits for what was recorded outside");
    gate.open();
    // And the other way round.
    ok!(aclrtSynchronizeEvent(done));
    assert_eq!(read(b, 64), [3; 64]);
    ok!(aclrtSynchronizeStream(s));
    ok!(aclmdlRIDestroy(graph));
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
        // Other streams and events go on.
        ok!(aclrtSynchronizeStream(t));
        assert_eq!(status(s).0, ACTIVE, "none of this ends the capture");
        ok!(aclmdlRIDestroy(end(s)));
        // The event is again what it was before.
        ok!(aclrtQueryEventStatus(e, &mut state));
        ok!(aclrtRecordEvent(e, t));
        ok!(aclrtSynchronizeEvent(e));
    }
}

/// Codes of a copy in no stream, and of an asynchronous one of pageable memory, in this thread.
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
    // RELAXED lifts the ban for this thread, which learns what its mode was.
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
    // A context of its own is not concerned.
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
        assert!(text.contains("begun by another thread"), "{text}");
        end_fails(s, 107029, "not being captured");
    }
    ok!(aclmdlRICaptureBegin(s, RELAXED));
    let (code, graph, text) = end_elsewhere();
    assert_eq!(code, 0, "{text}");
    ok!(aclmdlRIDestroy(graph as aclmdlRI));
}

#[test]
fn host_functions_and_notifies_are_recorded_too() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn count(_: *mut c_void) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }
    let _block = Block::one();
    let (s, t) = (stream(), stream());
    let mut notify = null_mut();
    ok!(aclrtCreateNotify(&mut notify, 0));
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    ok!(aclrtWaitAndResetNotify(notify, s, 0));
    ok!(aclrtLaunchHostFunc(s, Some(count), null_mut()));
    let graph = end(s);
    for round in 1..=3 {
        ok!(aclmdlRIExecuteAsync(graph, s));
        assert!(!idle(s));
        assert_eq!(CALLS.load(Ordering::SeqCst), round - 1);
        ok!(aclrtRecordNotify(notify, t));
        ok!(aclrtSynchronizeStream(s));
        assert_eq!(CALLS.load(Ordering::SeqCst), round);
    }
    // A notify that is gone fails the execution, not the process.
    ok!(aclrtDestroyNotify(notify));
    ok!(aclmdlRIExecuteAsync(graph, s));
    fails!(107017, ["notify was destroyed"], aclrtSynchronizeStream(s));
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn memory_that_was_freed_is_named_and_not_touched() {
    let _block = Block::one();
    let s = stream();
    let (a, b, host) = (filled(4096, 1), filled(4096, 2), malloc_host(4096));
    ok!(aclmdlRICaptureBegin(s, RELAXED));
    copy(b, a, 4096, s);
    ok!(aclrtMemcpyAsync(host, 4096, b, 4096, D2H, s));
    let graph = end(s);
    ok!(aclmdlRIExecute(graph, -1));
    // Another allocation that goes is no matter.
    ok!(aclrtFree(malloc(64)));
    ok!(aclmdlRIExecute(graph, -1));
    ok!(aclrtFree(a));
    let freed = ["node 0 of the graph", "4096 bytes", "freed by aclrtFree"];
    let [node, size, by] = freed;
    fails!(107000, [node, size, by], aclmdlRIExecuteAsync(graph, s));
    // The same bytes under a new owner are not the graph's either.
    let again = filled(4096, 3);
    assert_eq!(again, a);
    fails!(107000, [node, size, by], aclmdlRIExecute(graph, -1));
    assert_eq!(read(b, 8), [1; 8]);
    ok!(aclmdlRIDestroy(graph));
    // Nor is pinned memory.
    ok!(aclmdlRICaptureBegin(s, RELAXED));
    ok!(aclrtMemcpyAsync(host, 4096, b, 4096, D2H, s));
    let graph = end(s);
    ok!(aclrtFreeHost(host));
    fails!(107000, ["node 0", "freed by aclrtFreeHost"], aclmdlRIExecuteAsync(graph, s));
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn a_graph_that_runs_is_waited_for_by_its_destroy() {
    let _block = Block::one();
    let (s, gate) = (stream(), Gate::new());
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    gate.close(s);
    let graph = end(s);
    ok!(aclmdlRIExecuteAsync(graph, s));
    let opener = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        gate.open();
    });
    fails!(507046, ["not complete after"], aclmdlRIExecute(graph, 1));
    ok!(aclmdlRIDestroy(graph));
    ok!(aclrtSynchronizeStream(s));
    opener.join().unwrap();
}

#[test]
fn task_groups_are_exchanged_as_a_whole() {
    let _block = Block::one();
    let (s, t) = (stream(), stream());
    let (a, b) = (filled(64, 0), filled(64, 0));
    let mut group = null_mut();
    fails!(107029, ["not being captured"], aclmdlRICaptureTaskGrpBegin(s));
    fails!(107029, ["not being captured"], aclmdlRICaptureTaskGrpEnd(s, &mut group));
    ok!(aclmdlRICaptureBegin(s, RELAXED));
    fails!(107033, ["no task group"], aclmdlRICaptureTaskGrpEnd(s, &mut group));
    ok!(aclmdlRICaptureTaskGrpBegin(s));
    fails!(107033, ["open already"], aclmdlRICaptureTaskGrpBegin(s));
    end_fails(s, 107033, "is open");

    ok!(aclmdlRICaptureBegin(s, RELAXED));
    ok!(aclmdlRICaptureTaskGrpBegin(s));
    set(a, 64, 1, s);
    copy(b, a, 64, s);
    ok!(aclmdlRICaptureTaskGrpEnd(s, &mut group));
    set(a, 8, 9, s);
    fails!(107027, ["captured already"], aclmdlRICaptureTaskUpdateBegin(s, group));
    fails!(107026, ["is being captured"], aclmdlRICaptureTaskUpdateBegin(t, group));
    let graph = end(s);
    ok!(aclmdlRIExecute(graph, -1));
    assert_eq!(read(b, 64), [1; 64]);

    ok!(aclmdlRICaptureTaskUpdateBegin(t, group));
    fails!(107033, ["one at a time"], aclmdlRICaptureTaskUpdateBegin(s, group));
    set(a, 64, 2, t);
    fails!(107040, ["cannot become"], aclrtMemsetAsync(a, 64, 2, 64, t));
    // Too few: the graph is as it was.
    fails!(107040, ["the update only 1"], aclmdlRICaptureTaskUpdateEnd(t));
    ok!(aclmdlRIExecute(graph, -1));
    assert_eq!((read(a, 1), read(b, 1)), (vec![9], vec![1]));
    ok!(aclmdlRICaptureTaskUpdateBegin(t, group));
    set(a, 64, 2, t);
    copy(b, a, 32, t);
    fails!(107040, ["one more"], aclrtMemsetAsync(a, 64, 2, 64, t));
    // A stream that updates is not captured.
    ok!(aclrtSynchronizeStream(t));
    ok!(aclmdlRICaptureTaskUpdateEnd(t));
    fails!(107033, ["updates no task group"], aclmdlRICaptureTaskUpdateEnd(t));
    ok!(aclmdlRIExecute(graph, -1));
    assert_eq!((read(b, 64)[31], read(b, 64)[32]), (2, 1));
    ok!(aclmdlRIDestroy(graph));
    fails!(107017, ["task group"], aclmdlRICaptureTaskUpdateBegin(t, group));
}

#[test]
fn names_prints_and_callbacks() {
    unsafe extern "C" fn note(flag: *mut c_void) {
        // SAFETY: the atomic below.
        unsafe { &*flag.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
    }
    let _block = Block::one();
    let (s, a, gone) = (stream(), malloc(8), AtomicU32::new(0));
    ok!(aclmdlRICaptureBegin(s, RELAXED));
    set(a, 8, 1, s);
    let graph = end(s);
    ok!(aclmdlRISetName(graph, c"a \"step\"".as_ptr()));
    let mut name = [1u8; 16];
    ok!(aclmdlRIGetName(graph, 16, name.as_mut_ptr().cast()));
    assert_eq!(&name[..9], b"a \"step\"\0");
    fails!(107000, ["needs 9 bytes"], aclmdlRIGetName(graph, 8, name.as_mut_ptr().cast()));
    let mut id = u32::MAX;
    ok!(aclmdlRIGetId(graph, &mut id));
    assert_ne!(id, u32::MAX);
    let path = std::env::temp_dir().join(format!("capture-{}.json", std::process::id()));
    let file = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    ok!(aclmdlRIDebugJsonPrint(graph, file.as_ptr(), 0));
    let json = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(json.contains(r#""name": "a \"step\"""#) && json.contains("fill of 8 bytes"), "{json}");
    let flag: *mut c_void = std::ptr::from_ref(&gone).cast_mut().cast();
    ok!(aclmdlRIDestroyRegisterCallback(graph, Some(note), flag));
    ok!(aclmdlRIDestroyUnregisterCallback(graph, Some(note)));
    fails!(107000, ["not registered"], aclmdlRIDestroyUnregisterCallback(graph, Some(note)));
    ok!(aclmdlRIDestroyRegisterCallback(graph, Some(note), flag));
    ok!(aclmdlRIDestroy(graph));
    assert_eq!(gone.load(Ordering::SeqCst), 1);
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
