//! Tests of graphs that a program inspects, and whose tasks it edits.

use super::kernels_doors::program;
use super::values::{has, word};
use ascend_emulator_testing::captures::{GLOBAL, end, event};
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::kernel::{Given, build, function, launch, load};
use ascend_emulator_testing::{fails, ok};
use ascend_sys::aclmdlRITaskType as Type;
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

const OTHER: Type = Type::ACL_MODEL_RI_TASK_DEFAULT;
const KERNEL: Type = Type::ACL_MODEL_RI_TASK_KERNEL;
const RECORD: Type = Type::ACL_MODEL_RI_TASK_EVENT_RECORD;
const WAIT: Type = Type::ACL_MODEL_RI_TASK_EVENT_WAIT;
const VALUE_WRITE: Type = Type::ACL_MODEL_RI_TASK_VALUE_WRITE;
const VALUE_WAIT: Type = Type::ACL_MODEL_RI_TASK_VALUE_WAIT;

fn streams(graph: aclmdlRI) -> Vec<aclrtStream> {
    let mut count = 0;
    ok!(aclmdlRIGetStreams(graph, null_mut(), &mut count));
    let mut streams = vec![null_mut(); count as usize];
    ok!(aclmdlRIGetStreams(graph, streams.as_mut_ptr(), &mut count));
    assert_eq!(count as usize, streams.len());
    streams
}

fn tasks(stream: aclrtStream) -> Vec<aclmdlRITask> {
    let mut count = 0;
    ok!(aclmdlRIGetTasksByStream(stream, null_mut(), &mut count));
    let mut tasks = vec![null_mut(); count as usize];
    ok!(aclmdlRIGetTasksByStream(stream, tasks.as_mut_ptr(), &mut count));
    tasks
}

fn kind(task: aclmdlRITask) -> Type {
    let mut kind = Type(77);
    ok!(aclmdlRITaskGetType(task, &mut kind));
    kind
}

fn place(task: aclmdlRITask) -> u32 {
    let mut id = 77;
    ok!(aclmdlRITaskGetSeqId(task, &mut id));
    id
}

fn params(task: aclmdlRITask) -> aclmdlRITaskParams {
    let mut params = aclmdlRITaskParams::default();
    ok!(aclmdlRITaskGetParams(task, &mut params));
    assert_eq!(params.type_, kind(task));
    params
}

#[test]
fn streams_and_tasks_are_told_in_the_order_in_which_they_were_captured() {
    let _block = Block::one();
    let (s, t, e, f, at) = (stream(), stream(), event(), event(), word(0));
    let mut group = null_mut();
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    ok!(aclrtMemsetAsync(at, 8, 0, 8, s));
    ok!(aclrtRecordEvent(e, s));
    ok!(aclrtStreamWaitEvent(t, e));
    ok!(aclmdlRICaptureTaskGrpBegin(t));
    ok!(aclrtValueWrite(at, 5, 0, t));
    ok!(aclmdlRICaptureTaskGrpEnd(t, &mut group));
    ok!(aclrtRecordEvent(f, t));
    ok!(aclrtStreamWaitEvent(s, f));
    ok!(aclrtValueWait(at, 4, ACL_STREAM_WAIT_VALUE_GEQ, s));
    let graph = end(s);
    let own = streams(graph);
    assert_eq!(own.len(), 2);
    assert!(own.iter().all(|own| ![s, t].contains(own)));
    let (first, second) = (tasks(own[0]), tasks(own[1]));
    let kinds = |tasks: &[aclmdlRITask]| tasks.iter().map(|task| kind(*task)).collect::<Vec<_>>();
    assert_eq!(kinds(&first), [OTHER, RECORD, WAIT, VALUE_WAIT]);
    assert_eq!(kinds(&second), [WAIT, VALUE_WRITE, RECORD]);
    let places = |tasks: &[aclmdlRITask]| tasks.iter().map(|task| place(*task)).collect::<Vec<_>>();
    assert_eq!((places(&first), places(&second)), (vec![0, 1, 5, 6], vec![2, 3, 4]));
    assert_eq!(tasks(own[0]), first, "a task keeps its handle");

    // SAFETY: each union is read through the member that the type of its task selects.
    unsafe {
        let record = params(first[1]).anon_1.eventRecordTaskParams;
        assert_eq!((record.event, record.eventFlag, record.recordFlag), (e, ACL_EVENT_SYNC, 0));
        let wait = params(first[2]).anon_1.eventWaitTaskParams;
        assert_eq!((wait.event, wait.eventFlag, wait.waitFlag), (f, ACL_EVENT_SYNC, 0));
        let value = params(first[3]).anon_1.valueWaitTaskParams;
        assert_eq!((value.devAddr, value.value, value.flag), (at, 4, ACL_STREAM_WAIT_VALUE_GEQ));
        let value = params(second[1]).anon_1.valueWriteTaskParams;
        assert_eq!((value.devAddr, value.value), (at, 5));
    }
    assert_eq!((params(second[1]).taskGrp, params(first[0]).taskGrp), (group, null_mut()));
    ok!(aclmdlRIExecute(graph, -1));
    assert_eq!(has(at), 5);
    ok!(aclmdlRIDestroy(graph));
    fails!(107017, ["the task of a graph", "was destroyed"], aclmdlRITaskDisable(first[0]));
}

#[test]
fn a_graph_that_was_built_tells_the_tasks_of_the_program() {
    let _block = Block::one();
    let (s, t, a, mut graph) = (stream(), stream(), malloc(8), null_mut());
    ok!(aclmdlRIBuildBegin(&mut graph, 0));
    ok!(aclmdlRIBindStream(graph, s, 0));
    ok!(aclmdlRIBindStream(graph, t, 0));
    ok!(aclrtMemsetAsync(a, 8, 0, 8, s));
    ok!(aclrtMemsetAsync(a, 8, 0, 8, t));
    ok!(aclmdlRIBuildEnd(graph, null_mut()));
    for own in streams(graph) {
        let tasks = tasks(own);
        assert_eq!(tasks.iter().map(|task| kind(*task)).collect::<Vec<_>>(), [OTHER]);
    }
}

#[test]
fn a_kernel_is_one_and_can_be_disabled() {
    let _block = Block::one();
    let (s, y, tiling) = (stream(), malloc(16), build::tiling(&[]));
    let binary = load(&program());
    let kernel = function(binary, "kernel");
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    let given = [Given::Pointer(y), Given::Pointer(null_mut()), Given::Bytes(&tiling)];
    launch(kernel, 3, &given, s);
    let graph = end(s);
    let task = tasks(streams(graph)[0])[0];
    assert_eq!(kind(task), KERNEL);
    fails!(
        207000,
        ["is a kernel"],
        aclmdlRITaskGetParams(task, &mut aclmdlRITaskParams::default())
    );
    ok!(aclmdlRIExecute(graph, -1));
    assert_eq!(read(y.wrapping_byte_add(8), 8), 3u64.to_ne_bytes());
    ok!(aclrtMemset(y, 16, 0, 16));
    ok!(aclmdlRITaskDisable(task));
    ok!(aclmdlRIUpdate(graph));
    ok!(aclmdlRIExecute(graph, -1));
    assert_eq!(read(y, 16), [0; 16]);
    ok!(aclmdlRIDestroy(graph));
    ok!(aclrtBinaryUnLoad(binary));
}

#[test]
fn edits_are_made_together_by_the_update() {
    let _block = Block::one();
    let (s, t, at, other, a) = (stream(), stream(), word(0), word(0), malloc(8));
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    ok!(aclrtValueWait(at, 1, ACL_STREAM_WAIT_VALUE_EQ, s));
    ok!(aclrtValueWrite(at, 2, 0, s));
    ok!(aclrtMemsetAsync(a, 8, 3, 8, s));
    let graph = end(s);
    let own = tasks(streams(graph)[0]);
    let (wait, write_value, fill) = (own[0], own[1], own[2]);
    let run = || {
        ok!(aclrtMemset(a, 8, 0, 8));
        ok!(aclrtMemset(other, 8, 0, 8));
        ok!(aclrtMemset(at, 8, 0, 8));
        ok!(aclmdlRIExecuteAsync(graph, t));
    };
    let tell = |value: u64| {
        ok!(aclrtValueWrite(at, value, 0, s));
        ok!(aclrtSynchronizeStream(s));
    };
    let mut waits = params(wait);
    waits.anon_1.valueWaitTaskParams =
        aclmdlRIValueWaitTaskParams { devAddr: at, value: 6, flag: ACL_STREAM_WAIT_VALUE_GEQ };
    ok!(aclmdlRITaskSetParams(wait, &mut waits));
    let mut writes = params(write_value);
    writes.anon_1.valueWriteTaskParams = aclmdlRIValueWriteTaskParams { devAddr: other, value: 9 };
    ok!(aclmdlRITaskSetParams(write_value, &mut writes));
    ok!(aclmdlRITaskDisable(fill));
    // The edits have not changed the graph yet.
    run();
    assert!(!idle(t));
    tell(1);
    ok!(aclrtSynchronizeStream(t));
    assert_eq!((has(at), has(other), read(a, 8)), (2, 0, vec![3; 8]));
    // SAFETY: the union is read through the member that the type of the task selects.
    assert_eq!(unsafe { params(write_value).anon_1.valueWriteTaskParams.value }, 2);
    ok!(aclmdlRIUpdate(graph));
    run();
    assert!(!idle(t));
    tell(1);
    assert!(!idle(t), "it waits for another value");
    tell(7);
    ok!(aclrtSynchronizeStream(t));
    assert_eq!((has(at), has(other), read(a, 8)), (7, 9, vec![0; 8]));
    assert_eq!(kind(fill), OTHER);
    // SAFETY: the union is read through the member that the type of the task selects.
    let now = unsafe { params(write_value).anon_1.valueWriteTaskParams };
    assert_eq!((now.devAddr, now.value), (other, 9));
    // A second update has no edits to apply.
    ok!(aclmdlRIUpdate(graph));
    // The memory that an edit names must stay allocated, like any other memory of the graph.
    ok!(aclrtFree(other));
    fails!(107000, ["node 1 of the graph", "was freed"], aclmdlRIExecuteAsync(graph, t));
}

#[test]
fn what_cannot_be_told_or_edited_is_refused_and_changes_nothing() {
    let _block = Block::one();
    let (s, e, at) = (stream(), event(), word(0));
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    let mut recording = null_mut();
    ok!(aclmdlRICaptureGetInfo(s, &mut aclmdlRICaptureStatus(0), &mut recording));
    let mut count = 9;
    fails!(107026, ["being captured"], aclmdlRIGetStreams(recording, null_mut(), &mut count));
    fails!(107026, ["being captured"], aclmdlRIUpdate(recording));
    ok!(aclrtRecordEvent(e, s));
    ok!(aclrtStreamWaitEvent(s, e));
    ok!(aclrtValueWrite(at, 2, 0, s));
    ok!(aclrtMemsetAsync(at.wrapping_byte_add(4), 4, 0, 4, s));
    let graph = end(s);
    let own = streams(graph)[0];
    let all = tasks(own);
    let (record, wait, value, fill) = (all[0], all[1], all[2], all[3]);

    fails!(100000, ["numStreams is NULL"], aclmdlRIGetStreams(graph, null_mut(), null_mut()));
    fails!(107017, [], aclmdlRIGetStreams(null_mut(), null_mut(), &mut count));
    count = 0;
    let mut place = null_mut();
    fails!(
        107000,
        ["numStreams is 0, but the list needs room for 1"],
        aclmdlRIGetStreams(graph, &mut place, &mut count)
    );
    fails!(100000, ["numTasks is NULL"], aclmdlRIGetTasksByStream(own, null_mut(), null_mut()));
    fails!(
        107000,
        ["numTasks is 0, but the list needs room for 4"],
        aclmdlRIGetTasksByStream(own, &mut place, &mut count)
    );
    fails!(107000, ["a stream of a graph"], aclmdlRIGetTasksByStream(s, &mut place, &mut count));
    assert_eq!((place, count), (null_mut(), 0));
    // The array has room for more tasks than there are.
    let mut room = [s; 6];
    count = 6;
    ok!(aclmdlRIGetTasksByStream(own, room.as_mut_ptr(), &mut count));
    assert_eq!((count, &room[..4], room[4..].to_vec()), (4, &all[..], vec![s; 2]));

    let mut kind = OTHER;
    fails!(100000, ["type is NULL"], aclmdlRITaskGetType(value, null_mut()));
    fails!(107017, ["not of a task of a graph"], aclmdlRITaskGetType(s, &mut kind));
    fails!(100000, ["id is NULL"], aclmdlRITaskGetSeqId(value, null_mut()));
    fails!(107017, [], aclmdlRITaskGetSeqId(null_mut(), &mut count));
    fails!(100000, ["params is NULL"], aclmdlRITaskGetParams(value, null_mut()));
    fails!(100000, ["params is NULL"], aclmdlRITaskSetParams(value, null_mut()));
    let set = |task: aclmdlRITask, code: i32, said: &str, mut wanted: aclmdlRITaskParams| {
        fails!(code, [said], aclmdlRITaskSetParams(task, &mut wanted));
    };
    set(value, 107000, "type is 6, but the task has type 5", {
        aclmdlRITaskParams { type_: VALUE_WAIT, ..params(value) }
    });
    set(fill, 207000, "type 0", params(fill));
    set(record, 207000, "type 2", params(record));
    let with = |address: *mut c_void| {
        let mut wanted = params(value);
        wanted.anon_1.valueWriteTaskParams =
            aclmdlRIValueWriteTaskParams { devAddr: address, value: 1 };
        wanted
    };
    set(value, 100000, "devAddr is NULL", with(null_mut()));
    set(value, 107008, "multiple of 8", with(at.wrapping_byte_add(4)));
    set(value, 107000, "devAddr: ", with(at.wrapping_byte_add(1 << 20)));
    let mut local = 0u64;
    set(value, 107000, "not memory that the device reaches", with((&raw mut local).cast()));
    fails!(207000, ["orders the streams"], aclmdlRITaskDisable(record));
    fails!(207000, ["orders the streams"], aclmdlRITaskDisable(wait));
    fails!(107017, [], aclmdlRITaskDisable(graph));
    fails!(107017, [], aclmdlRIUpdate(value));
    ok!(aclmdlRIUpdate(graph));
    ok!(aclmdlRIExecute(graph, -1));
    assert_eq!(has(at), 2);
}
