//! Tests of built graphs: streams are bound to a graph, and the tasks queued on them become its
//! nodes.

use ascend_emulator_testing::captures::{ACTIVE, NONE, event, status};
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{fails, ok};
use ascend_sys::*;
use std::ptr::null_mut;

fn begin() -> aclmdlRI {
    let mut graph = null_mut();
    ok!(aclmdlRIBuildBegin(&mut graph, 0));
    graph
}

fn bound(graph: aclmdlRI) -> aclrtStream {
    let stream = stream();
    ok!(aclmdlRIBindStream(graph, stream, 0));
    stream
}

#[test]
fn what_bound_streams_are_given_runs_at_each_execution() {
    let _block = Block::one();
    let (a, b, e, x) = (malloc(64), malloc(64), event(), stream());
    let graph = begin();
    let (s, t) = (bound(graph), bound(graph));
    ok!(aclrtMemset(a, 64, 0, 64));
    ok!(aclrtMemset(b, 64, 0, 64));
    // Events order the branches.
    ok!(aclrtMemsetAsync(a, 64, 7, 64, t));
    ok!(aclrtRecordEvent(e, t));
    ok!(aclrtStreamWaitEvent(s, e));
    ok!(aclrtMemcpyAsync(b, 64, a, 64, D2D, s));
    ok!(aclmdlRIEndTask(graph, s));
    ok!(aclmdlRIBuildEnd(graph, null_mut()));
    assert_eq!(read(b, 64), [0; 64], "nothing has run");
    for _ in 0..3 {
        ok!(aclrtMemset(a, 64, 0, 64));
        ok!(aclrtMemset(b, 64, 0, 64));
        ok!(aclmdlRIExecuteAsync(graph, x));
        ok!(aclrtSynchronizeStream(x));
        assert_eq!(read(b, 64), [7; 64]);
    }
    // After the build, tasks that are queued on the streams run again.
    ok!(aclrtMemsetAsync(a, 64, 1, 64, t));
    ok!(aclrtSynchronizeStream(t));
    assert_eq!(read(a, 64), [1; 64]);
    ok!(aclmdlRIUnbindStream(graph, s));
    ok!(aclmdlRIExecute(graph, -1));
    assert_eq!(read(a, 64), [7; 64]);
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn no_branch_begins_before_the_work_that_comes_before_the_execution() {
    let _block = Block::one();
    let (a, x, gate) = (malloc(3), stream(), Gate::new());
    ok!(aclrtMemset(a, 3, 0, 3));
    let graph = begin();
    for at in 0..3 {
        let s = bound(graph);
        ok!(aclrtMemsetAsync(a.wrapping_byte_add(at), 1, 5, 1, s));
    }
    ok!(aclmdlRIBuildEnd(graph, null_mut()));
    gate.close(x);
    ok!(aclmdlRIExecuteAsync(graph, x));
    fails!(507046, [], aclrtSynchronizeStreamWithTimeout(x, 20));
    assert_eq!(read(a, 3), [0; 3]);
    gate.open();
    ok!(aclrtSynchronizeStream(x));
    assert_eq!(read(a, 3), [5; 3], "and all are done when it is");
}

#[test]
fn what_a_stream_was_given_stays_when_it_is_unbound() {
    let _block = Block::one();
    let (a, other) = (malloc(8), malloc(8));
    ok!(aclrtMemset(a, 8, 0, 8));
    let graph = begin();
    let s = bound(graph);
    ok!(aclrtMemsetAsync(a, 4, 1, 4, s));
    ok!(aclmdlRIUnbindStream(graph, s));
    ok!(aclrtMemsetAsync(other, 8, 9, 8, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!((read(other, 8), read(a, 8)), (vec![9; 8], vec![0; 8]));
    fails!(107000, ["is not bound"], aclmdlRIUnbindStream(graph, s));
    fails!(107000, ["is not bound"], aclmdlRIEndTask(graph, s));
    // When the stream is bound again, its tasks are added after the earlier ones.
    ok!(aclmdlRIBindStream(graph, s, 0));
    ok!(aclrtMemsetAsync(a, 2, 2, 2, s));
    ok!(aclmdlRIEndTask(graph, s));
    fails!(107000, ["has ended"], aclrtMemsetAsync(a, 8, 3, 8, s));
    fails!(107000, ["has already ended"], aclmdlRIEndTask(graph, s));
    ok!(aclmdlRIBuildEnd(graph, null_mut()));
    ok!(aclmdlRIExecute(graph, -1));
    assert_eq!(read(a, 8), [2, 2, 1, 1, 0, 0, 0, 0]);
    ok!(aclmdlRIUnbindStream(graph, s));
    fails!(107000, ["is not bound"], aclmdlRIUnbindStream(graph, s));
}

#[test]
fn tasks_of_a_group_can_be_exchanged() {
    let _block = Block::one();
    let (a, x, mut group) = (malloc(8), stream(), null_mut());
    let graph = begin();
    let s = bound(graph);
    ok!(aclmdlRICaptureTaskGrpBegin(s));
    ok!(aclrtMemsetAsync(a, 8, 1, 8, s));
    fails!(107033, ["task group", "is open"], aclmdlRIBuildEnd(graph, null_mut()));
    fails!(107033, ["task group", "is open"], aclmdlRIUnbindStream(graph, s));
    ok!(aclmdlRICaptureTaskGrpEnd(s, &mut group));
    ok!(aclmdlRIBuildEnd(graph, null_mut()));
    ok!(aclmdlRICaptureTaskUpdateBegin(x, group));
    ok!(aclrtMemsetAsync(a, 8, 2, 8, x));
    ok!(aclmdlRICaptureTaskUpdateEnd(x));
    ok!(aclmdlRIExecute(graph, -1));
    assert_eq!(read(a, 8), [2; 8]);
}

#[test]
fn a_bound_stream_is_no_captured_one_and_neither_waited_for_nor_destroyed() {
    let _block = Block::one();
    let graph = begin();
    let (s, other, e, mut made) = (bound(graph), stream(), event(), null_mut());
    assert_eq!(status(s), (NONE, null_mut()));
    fails!(107029, ["is not being captured"], aclmdlRICaptureEnd(s, &mut made));
    fails!(107027, ["captured already"], aclmdlRICaptureBegin(s, aclmdlRICaptureMode(0)));
    fails!(107027, ["bound to a graph"], aclrtSynchronizeStream(s));
    fails!(107027, ["bound to a graph"], aclrtDestroyStream(s));
    fails!(107027, ["a graph is being built"], aclrtSynchronizeDevice());
    // A wait for an event does not make another stream part of the graph.
    ok!(aclrtRecordEvent(e, s));
    fails!(107024, ["aclmdlRIBindStream"], aclrtStreamWaitEvent(other, e));
    fails!(107028, [], aclrtSynchronizeEvent(e));
    // Copies that act at once are allowed, as in a capture in RELAXED mode.
    ok!(aclrtMemset(malloc(8), 8, 0, 8));
    ok!(aclmdlRIBuildEnd(graph, null_mut()));
    ok!(aclrtSynchronizeDevice());
    ok!(aclrtDestroyStream(s));
    ok!(aclmdlRIExecute(graph, -1));
    // One graph is built while a stream is captured for another graph.
    let (graph, captured) = (begin(), stream());
    ok!(aclmdlRICaptureBegin(captured, aclmdlRICaptureMode(2)));
    let s = bound(graph);
    assert_eq!((status(captured).0, status(s).0), (ACTIVE, NONE));
    fails!(107027, ["captured already"], aclmdlRIBindStream(graph, captured, 0));
    ok!(aclmdlRICaptureEnd(captured, &mut made));
    ok!(aclmdlRIBuildEnd(graph, null_mut()));
}

#[test]
fn states_and_arguments_that_are_wrong_are_refused() {
    let block = Block::with(AscendExtBlockConfig { deviceCount: 2, ..Block::config() });
    ok!(aclrtSetDevice(block.first + 1));
    let (elsewhere, far) = (stream(), begin());
    ok!(aclmdlRIBindStream(far, elsewhere, 0));
    ok!(aclrtSetDevice(block.first));
    let (s, graph) = (stream(), begin());
    fails!(100000, ["modelRI is NULL"], aclmdlRIBuildBegin(null_mut(), 0));
    fails!(107000, ["flag is 0x1"], aclmdlRIBuildBegin(&mut null_mut(), 1));
    fails!(107031, ["default stream"], aclmdlRIBindStream(graph, null_mut(), 0));
    fails!(107003, ["another context"], aclmdlRIBindStream(graph, elsewhere, 0));
    fails!(107003, ["is built on device 1"], aclmdlRIBindStream(far, s, 0));
    fails!(107017, ["handle"], aclmdlRIBindStream(s, s, 0));
    fails!(107000, ["no stream was bound"], aclmdlRIBuildEnd(graph, null_mut()));
    fails!(107000, ["is not bound"], aclmdlRIUnbindStream(graph, s));
    fails!(107000, ["is not bound"], aclmdlRIEndTask(graph, s));
    fails!(107026, ["being built", "aclmdlRIBuildEnd"], aclmdlRIExecuteAsync(graph, s));
    fails!(107026, ["being built"], aclmdlRIDestroy(graph));
    ok!(aclmdlRIBindStream(graph, s, 0));
    fails!(107027, ["captured already"], aclmdlRIBindStream(graph, s, 0));
    fails!(107000, ["reserve is"], aclmdlRIBuildEnd(graph, s));
    ok!(aclmdlRIBuildEnd(graph, null_mut()));
    fails!(107000, ["not being built"], aclmdlRIBuildEnd(graph, null_mut()));
    fails!(107000, ["not being built"], aclmdlRIBindStream(graph, stream(), 0));
    ok!(aclmdlRIDestroy(graph));
    fails!(107017, ["was destroyed"], aclmdlRIBuildEnd(graph, null_mut()));
    fails!(107017, ["was destroyed"], aclmdlRIUnbindStream(graph, s));
    // The device is reset in the middle of a build.
    let graph = begin();
    bound(graph);
    ok!(aclrtResetDeviceForce(block.first));
    ok!(aclrtSetDevice(block.first));
    fails!(107017, ["was destroyed"], aclmdlRIBuildEnd(graph, null_mut()));
}
