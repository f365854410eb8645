//! Captured streams: the recorded tasks, and executions of a graph.

use ascend_emulator_testing::captures::*;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn what_is_issued_in_between_is_recorded_and_runs_at_every_execution() {
    let _block = Block::one();
    let (s, t) = (stream(), stream());
    let (a, b) = (filled(300_000, 1), filled(300_000, 2));
    // Tasks before the capture run at once.
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
    // The graph runs on another stream, and any number of times.
    set(a, 300_000, 4, t);
    ok!(aclmdlRIExecuteAsync(graph, t));
    ok!(aclmdlRIExecuteAsync(graph, t));
    ok!(aclrtSynchronizeStream(t));
    assert_eq!(read(b, 9), [9, 9, 9, 9, 9, 9, 9, 9, 4]);
    ok!(aclmdlRIExecute(graph, -1));
    ok!(aclmdlRIDestroy(graph));
    fails!(107017, ["the graph", "was destroyed"], aclmdlRIExecuteAsync(graph, s));
    // A handle of an unknown graph counts as one that is already destroyed.
    ok!(aclmdlRIDestroy(graph));
    fails!(100000, ["NULL"], aclmdlRIDestroy(null_mut()));
    // The stream runs its tasks again.
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
    // The capture also includes streams that join it indirectly.
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
        // This task comes after all branches of the graph.
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
    // The other order works too: work outside the graph waits for the graph.
    ok!(aclrtSynchronizeEvent(done));
    assert_eq!(read(b, 64), [3; 64]);
    ok!(aclrtSynchronizeStream(s));
    ok!(aclmdlRIDestroy(graph));
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
    // A destroyed notify fails the execution, but not the process.
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
    // Freeing another allocation has no effect.
    ok!(aclrtFree(malloc(64)));
    ok!(aclmdlRIExecute(graph, -1));
    ok!(aclrtFree(a));
    let freed = ["node 0 of the graph", "4096 bytes", "freed by aclrtFree"];
    let [node, size, by] = freed;
    fails!(107000, [node, size, by], aclmdlRIExecuteAsync(graph, s));
    // The same bytes under a new owner do not belong to the graph either.
    let again = filled(4096, 3);
    assert_eq!(again, a);
    fails!(107000, [node, size, by], aclmdlRIExecute(graph, -1));
    assert_eq!(read(b, 8), [1; 8]);
    ok!(aclmdlRIDestroy(graph));
    // The same holds for pinned memory.
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
    fails!(507046, ["not complete after"], aclmdlRIExecute(graph, 1));
    let opener = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        gate.open();
    });
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
    fails!(107033, ["one stream at a time"], aclmdlRICaptureTaskUpdateBegin(s, group));
    set(a, 64, 2, t);
    fails!(107040, ["cannot become"], aclrtMemsetAsync(a, 64, 2, 64, t));
    // With too few tasks, the update fails and the graph is unchanged.
    fails!(107040, ["the update has only 1"], aclmdlRICaptureTaskUpdateEnd(t));
    ok!(aclmdlRIExecute(graph, -1));
    assert_eq!((read(a, 1), read(b, 1)), (vec![9], vec![1]));
    ok!(aclmdlRICaptureTaskUpdateBegin(t, group));
    set(a, 64, 2, t);
    copy(b, a, 32, t);
    fails!(107040, ["the update has more"], aclrtMemsetAsync(a, 64, 2, 64, t));
    // A stream that updates a task group is not captured.
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
        // SAFETY: this is the atomic below.
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
    fails!(107000, ["at least 9 bytes"], aclmdlRIGetName(graph, 8, name.as_mut_ptr().cast()));
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
