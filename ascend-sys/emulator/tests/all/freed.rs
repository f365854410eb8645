//! Tests of a buffer that is freed before the operation that uses it is queued. The operation must
//! not touch the next allocation at the same address.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common;
use ascend_emulator_testing::ranks::{FP32, Rank, SUM, group_result, on_block, patient};
use ascend_emulator_testing::threads::{await_sleep, this_thread};
use ascend_emulator_testing::{call, hccl, ok};
use ascend_sys::*;
use std::ffi::c_void;

const BYTES: usize = 4096;
const COUNT: u64 = BYTES as u64 / 4;
const OTHER: [u8; BYTES] = [0x5a; BYTES];

/// Frees a buffer, and allocates and fills another one at its address. The current device must be
/// that of the buffer.
fn free_and_take(buffer: *mut c_void) {
    ok!(aclrtFree(buffer));
    let next = common::malloc(BYTES);
    assert_eq!(next, buffer);
    common::write(next, &OTHER);
}

/// Lets rank 0 make a call and wait in it for rank 1. Rank 1 frees the buffer of rank 0 before it
/// makes its own call.
fn freed_in_the_call(call: impl Fn(&Rank, *mut c_void) -> HcclResult + Sync) {
    let (ready, over) = (Barrier::new(2), Barrier::new(2));
    let buffers = std::sync::Mutex::new((0, 0, 0));
    on_block(patient(2), |rank| {
        rank.join();
        let buffer = rank.upload(&[1; BYTES]);
        if rank.rank == 0 {
            *buffers.lock().unwrap() = (rank.device, buffer.expose_provenance(), this_thread());
            ready.wait();
            let _ = common::message();
            let code = call(rank, buffer);
            let text = common::message();
            over.wait();
            assert_eq!(code, HcclResult::HCCL_E_PARA, "{text}");
            assert!(text.contains("which was freed by aclrtFree"), "{text}");
            assert!(rank.download(buffer, BYTES) == OTHER);
        } else {
            ready.wait();
            let (device, buffer, thread) = *buffers.lock().unwrap();
            // The thread of rank 0 waits in the call now.
            await_sleep(thread);
            ok!(aclrtSetDevice(device));
            free_and_take(std::ptr::with_exposed_provenance_mut(buffer));
            ok!(aclrtSetDevice(rank.device));
            // Rank 0 has called, but its operation was not queued.
            let own = rank.upload(&[1; BYTES]);
            let _ = call(rank, own);
            over.wait();
            let _ = rank.sync_fails();
        }
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn while_the_first_collective_meets_the_others() {
    freed_in_the_call(|rank, buffer| {
        call!(HcclAllReduce(buffer, buffer, COUNT, FP32, SUM, rank.comm, rank.stream))
    });
}

#[test]
fn while_the_first_message_meets_its_peer() {
    freed_in_the_call(|rank, buffer| match rank.rank {
        0 => call!(HcclRecv(buffer, COUNT, FP32, 1, rank.comm, rank.stream)),
        _ => call!(HcclSend(buffer, COUNT, FP32, 0, rank.comm, rank.stream)),
    });
}

#[test]
fn between_a_call_and_the_end_of_its_group() {
    on_block(patient(1), |rank| {
        rank.join();
        let (from, to) = (rank.upload(&[1; BYTES]), rank.upload(&[0; BYTES]));
        hccl!(HcclGroupStart());
        hccl!(HcclAllReduce(from, to, COUNT, FP32, SUM, rank.comm, rank.stream));
        free_and_take(to);
        hccl!(HcclGroupEnd());
        let (code, text) = group_result(0);
        assert_eq!(code, HcclResult::HCCL_E_PARA.0, "{text}");
        assert!(text.contains("which was freed by aclrtFree"), "{text}");
        assert!(rank.download(to, BYTES) == OTHER);
        hccl!(HcclCommDestroy(rank.comm));
    });
}
