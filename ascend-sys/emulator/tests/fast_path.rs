//! The steady state allocates nothing: small and large collectives and batches of two ranks that wait in turn.

mod common;
mod ranks;

use ascend_sys::*;
use ranks::on_ranks;
use std::sync::Barrier;

/// What the quietest of many rounds allocates on all threads together. A thread that loses its core puts the other to sleep,
/// which may allocate; some rounds go undisturbed.
fn least_of_rounds(round: impl Fn(&mut ranks::Rank, *mut std::ffi::c_void) + Sync) -> u64 {
    const ROUNDS: usize = 500;
    let turn = Barrier::new(2);
    let least = on_ranks(2, |rank| {
        let buffer = rank.upload(&[0; 2 * BYTES]);
        let mut least = u64::MAX;
        for _ in 0..ROUNDS {
            turn.wait();
            let before = counting_allocator::in_process();
            round(rank, buffer);
            // Nobody begins the next round before this one is counted.
            turn.wait();
            least = least.min(counting_allocator::in_process() - before);
            turn.wait();
        }
        least
    });
    least.into_iter().min().unwrap()
}

const BYTES: usize = 400 * 1024;

/// One test, because the counter is the process's.
#[test]
fn operations_in_the_steady_state_allocate_nothing() {
    let collectives = least_of_rounds(|rank, buffer| {
        let (fp32, sum) = (HcclDataType(4), HcclReduceOp(0));
        for count in [2, 200, 65_536] {
            let (comm, stream) = (rank.comm, rank.stream);
            hccl!(HcclAllReduce(buffer, buffer, count, fp32, sum, comm, stream));
            hccl!(HcclBroadcast(buffer, count, fp32, 1, comm, stream));
            hccl!(HcclBarrier(comm, stream));
            rank.sync();
        }
    });
    assert_eq!(collectives, 0, "collectives");
    let batches = least_of_rounds(|rank, buffer| {
        let item = |kind, buf, count| HcclSendRecvItem {
            sendRecvType: kind,
            buf,
            count,
            dataType: HcclDataType::HCCL_DATA_TYPE_INT8,
            remoteRank: 1 - rank.rank,
        };
        for bytes in [8, BYTES] {
            let second = buffer.wrapping_byte_add(BYTES);
            let mut items = [
                item(HcclSendRecvType::HCCL_SEND, buffer, bytes as u64),
                item(HcclSendRecvType::HCCL_RECV, second, bytes as u64),
            ];
            hccl!(HcclBatchSendRecv(items.as_mut_ptr(), 2, rank.comm, rank.stream));
            rank.sync();
        }
    });
    assert_eq!(batches, 0, "batches");
}
