//! Recorded runs in which an operation cannot be recorded or is refused.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::*;
use crate::dtype::Sum;
use crate::operator::Operator;
use crate::record::RunRecord;

/// The number of bytes of a buffer. All other allocations in this test have other sizes.
const BYTES: usize = 1 << 20;

#[test]
fn an_operation_goes_on_when_there_is_no_memory_to_record_its_result() {
    /// The number of blocks of the size of the buffers that can still be allocated.
    static LEFT: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn malloc_host(
        pointer: *mut *mut std::ffi::c_void,
        bytes: usize,
    ) -> ascend_sys::aclError {
        let take = |left: usize| left.checked_sub(1);
        if bytes == BYTES && LEFT.fetch_update(SeqCst, SeqCst, take).is_err() {
            return 207_001;
        }
        // SAFETY: the caller's arguments are passed on.
        unsafe { ascend_emulator::table().aclrtMallocHost.unwrap()(pointer, bytes) }
    }
    let table =
        ascend_sys::Functions { aclrtMallocHost: Some(malloc_host), ..ascend_emulator::table() };
    let runtime = own(1, table);
    let directory = std::env::temp_dir().join(format!("hccl-recorded-{}", std::process::id()));
    let recording = runtime.record_run(RunRecord::new(&directory)).unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let mut comm = Communicator::init_all(std::slice::from_ref(&device)).wait().unwrap().remove(0);
    let x = device.zeros::<u8>(BYTES, &stream).unwrap();
    let mut y = device.zeros::<u8>(BYTES, &stream).unwrap();

    // The input cannot be recorded, so nothing is issued.
    let refused = comm.all_gather(&x, &mut y, &stream).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert!(refused.to_string().starts_with("out of memory"), "{refused}");
    // The output cannot be recorded, but the operation runs.
    LEFT.store(1, SeqCst);
    comm.all_gather(&x, &mut y, &stream).unwrap().wait().unwrap();
    comm.barrier(&stream).unwrap().wait().unwrap();

    let problem = recording.finish().unwrap_err().to_string();
    assert!(problem.contains("all_gather 1: "), "{problem}");
    let file = std::fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(text.lines().count() == 2 && text.contains(" barrier 2\t"), "{text}");
}

/// Begins to record a runtime in a new directory. Returns the recording, the directory, and a
/// communicator of the first device alone.
fn recorded(
    name: &str,
    runtime: &Runtime,
) -> (crate::record::RunRecording, std::path::PathBuf, Communicator) {
    let directory = std::env::temp_dir().join(format!("hccl-{name}-{}", std::process::id()));
    let recording = runtime.record_run(RunRecord::new(&directory)).unwrap();
    let device = runtime.device(0).unwrap();
    let root = RootInfo::new(&device).unwrap();
    // A small communication buffer, because these devices have little memory.
    let config = CommConfig::builder().buffer_mib(1).build();
    let making = Communicator::builder().device(&device).rank(0).world_size(1).root_info(&root);
    let comm = making.config(config).build().wait().unwrap();
    (recording, directory, comm)
}

#[test]
fn an_operation_of_a_group_that_cannot_be_recorded_is_named_in_the_error() {
    let runtime = runtime_with(2);
    let (recording, directory, mut comm) = recorded("named", &runtime);
    let (device, elsewhere) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
    let (stream, wrong) = (device.stream().unwrap(), elsewhere.stream().unwrap());
    let mut x = device.zeros::<f32>(4, &stream).unwrap();
    let mut y = device.zeros::<f32>(4, &stream).unwrap();
    comm.barrier(&stream).unwrap().wait().unwrap();
    // The copies for the record are the first to find that the stream is on another device.
    let refused = crate::group(|group| {
        let recorder = group.on(&mut comm, &wrong);
        recorder.all_reduce_in_place(&mut x, Sum).broadcast(&mut y, 0);
        Ok(())
    });
    let error = refused.expect_err("the stream is on another device");
    let context = error.context().expect("it names the operation");
    assert_eq!((context.operation, context.sequence), ("all_reduce", 2), "{error}");
    // Nothing was issued, and no number was taken.
    comm.all_reduce_in_place(&mut x, Sum, &stream).unwrap().wait().unwrap();
    recording.finish().unwrap();
    let file = std::fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(text.lines().count() == 3 && text.contains(" all_reduce 2\t"), "{text}");
}

#[test]
fn an_operator_that_cannot_be_recorded_leaves_its_tape_to_the_next_one() {
    let runtime = runtime_with(2);
    let (recording, directory, mut comm) = recorded("tape", &runtime);
    let (device, elsewhere) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
    let (stream, wrong) = (device.stream().unwrap(), elsewhere.stream().unwrap());
    let x = device.upload(&[1.5f32; 4], &stream).unwrap();
    let mut y = device.zeros::<f32>(4, &stream).unwrap();
    let gather = Operator::all_gather("gather", crate::operator::algorithms::mesh::all_gather);
    let refused = comm.run(&gather).input(&x).output(&mut y).submit(&wrong);
    let error = refused.expect_err("the stream is on another device");
    assert_eq!(error.context().map(|context| context.operation), Some("gather"), "{error}");
    assert!(error.to_string().contains("but the call uses device"), "{error}");
    // The tape keeps its threads, so that recording again allocates nothing for them.
    assert!(!comm.member.operators.tape.tasks.threads.is_empty());
    comm.run(&gather).input(&x).output(&mut y).submit(&stream).unwrap().wait().unwrap();
    assert_eq!(y.to_vec(&stream).wait().unwrap(), [1.5; 4]);
    recording.finish().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_recording_that_is_dropped_goes_on() {
    let runtime = runtime_with(1);
    let (recording, directory, first) = recorded("dropped", &runtime);
    drop((recording, first));
    // No communicator keeps the record now.
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let root = RootInfo::new(&device).unwrap();
    let making = Communicator::builder().device(&device).rank(0).world_size(1).root_info(&root);
    let config = CommConfig::builder().buffer_mib(1).build();
    let mut second = making.config(config).build().wait().unwrap();
    second.barrier(&stream).unwrap().wait().unwrap();
    drop(second);
    let again = runtime.record_run(RunRecord::new(directory.join("again"))).unwrap_err();
    assert!(again.to_string().contains("finish that record first"), "{again}");
    // One file for each communicator.
    let files = std::fs::read_dir(&directory).unwrap().filter(|entry| {
        entry.as_ref().is_ok_and(|entry| entry.path().extension().is_some_and(|it| it == "run"))
    });
    assert_eq!(files.count(), 2);
    std::fs::remove_dir_all(&directory).unwrap();
}
