//! Recorded runs whose record fails.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::*;
use crate::record::RunRecord;

/// The bytes of a buffer, for which no other allocation here is made.
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
        // SAFETY: the caller's promise.
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

    // The input cannot be recorded: nothing is issued.
    let refused = comm.all_gather(&x, &mut y, &stream).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert!(refused.to_string().starts_with("out of memory"), "{refused}");
    // The output cannot be recorded.
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
