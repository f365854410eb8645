//! A device is reset while ranks of other processes move data of its rank.

use std::ffi::c_void;
use std::time::Duration;

use ascend_emulator_testing::common;
use ascend_emulator_testing::operator::{at, meet};
use ascend_emulator_testing::{call, ok};
use ascend_sys::*;

use crate::channels::joined_on;
use crate::ranks::{Place, run};

const LARGE: usize = 256 << 20;
const LAST: usize = 8192;

/// Resets the device of rank 0 in the middle of a collective, and allocates four times the memory
/// of the collective. The other ranks must not change the new memory.
fn reset_in(place: &Place, collective: impl Fn(*mut c_void, HcclComm, aclrtStream) -> HcclResult) {
    let device = place.device.id();
    let rank = joined_on(place, device);
    let memory = common::malloc(LARGE);
    ok!(aclrtMemset(memory, LARGE, 7, LARGE));
    let issue = || collective(memory, rank.comm, rank.stream);
    meet(&rank);
    let mut issued = issue();
    if rank.rank == 0 {
        // By then the other ranks take part.
        std::thread::sleep(Duration::from_millis(30));
        ok!(aclrtResetDeviceForce(device));
        ok!(aclrtSetDevice(device));
        let last = |memory: &*mut c_void| at(*memory, LARGE - LAST);
        let fresh: Vec<*mut c_void> = (0..4).map(|_| common::malloc(LARGE)).collect();
        fresh.iter().for_each(|memory| common::write(last(memory), &[9; LAST]));
        let again = joined_on(place, device);
        meet(&again);
        for memory in fresh {
            assert!(common::read(last(&memory), LAST) == [9; LAST]);
        }
        meet(&again);
    } else {
        // The loop ends when this rank gets an error because of the reset.
        while issued == HcclResult::HCCL_SUCCESS && call!(aclrtSynchronizeStream(rank.stream)) == 0
        {
            issued = issue();
        }
        let again = joined_on(place, device);
        meet(&again);
        meet(&again);
    }
}

#[test]
fn a_collective_that_a_reset_interrupts_writes_to_no_later_allocation() {
    const NAME: &str = "resets::a_collective_that_a_reset_interrupts_writes_to_no_later_allocation";
    run(NAME, &[1, 1], |place| {
        reset_in(&place, |memory, comm, stream| {
            let (count, kind) = (LARGE as u64 / 4, HcclDataType::HCCL_DATA_TYPE_FP32);
            let sum = HcclReduceOp::HCCL_REDUCE_SUM;
            call!(HcclAllReduce(memory, memory, count, kind, sum, comm, stream))
        });
    });
}

#[test]
fn a_broadcast_that_a_reset_interrupts_writes_to_no_later_allocation() {
    const NAME: &str = "resets::a_broadcast_that_a_reset_interrupts_writes_to_no_later_allocation";
    run(NAME, &[1, 1], |place| {
        reset_in(&place, |memory, comm, stream| {
            call!(HcclBroadcast(
                memory,
                LARGE as u64,
                HcclDataType::HCCL_DATA_TYPE_INT8,
                1,
                comm,
                stream
            ))
        });
    });
}
