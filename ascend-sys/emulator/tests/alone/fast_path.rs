//! Tests that the steady state allocates nothing: two ranks take turns with small and large
//! collectives, batches and messages.

use ascend_emulator_testing::alone;
use ascend_emulator_testing::hccl;
use ascend_emulator_testing::ranks::{self, on_ranks};
use ascend_sys::*;

use super::rounds::Rounds;

/// Returns the number of allocations of the round that makes the fewest.
fn least_of_rounds(round: impl Fn(&mut ranks::Rank, *mut std::ffi::c_void) + Sync) -> u64 {
    let rounds = Rounds::new();
    let least = on_ranks(2, |rank| {
        let buffer = rank.upload(&[0; 2 * BYTES]);
        rounds.least_allocations(|| round(rank, buffer))
    });
    least.into_iter().min().unwrap()
}

const BYTES: usize = 400 * 1024;

/// Checks everything in one test, because the counter belongs to the process.
#[test]
fn operations_in_the_steady_state_allocate_nothing() {
    alone!();
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
    let others = least_of_rounds(|rank, a| {
        let (t, o) = (HcclDataType(4), HcclReduceOp(0));
        let b = a.wrapping_byte_add(BYTES);
        for count in [2, 50_000] {
            let (comm, stream) = (rank.comm, rank.stream);
            hccl!(HcclReduce(a, b, count, t, o, 1, comm, stream));
            hccl!(HcclAllGather(a, b, count, t, comm, stream));
            hccl!(HcclReduceScatter(a, b, count, t, o, comm, stream));
            hccl!(HcclScatter(a, b, count, t, 1, comm, stream));
            hccl!(HcclAlltoAll(a, count, t, b, count, t, comm, stream));
            rank.sync();
        }
    });
    assert_eq!(others, 0, "the other collectives");
    let tables = least_of_rounds(|rank, a| {
        let (t, o) = (HcclDataType(4), HcclReduceOp(0));
        let b = a.wrapping_byte_add(BYTES);
        for count in [2u64, 20_000] {
            let (comm, stream) = (rank.comm, rank.stream);
            let (counts, places) = ([count, 2 * count], [0, count]);
            let (c, d) = (counts.as_ptr().cast(), places.as_ptr().cast());
            let own = counts[rank.rank as usize];
            hccl!(HcclAllGatherV(a, own, b, c, d, t, comm, stream));
            hccl!(HcclReduceScatterV(a, c, d, b, own, t, o, comm, stream));
            let matrix = [count; 4];
            let (same, even) = (matrix.as_ptr().cast(), places.as_ptr().cast());
            hccl!(HcclAlltoAllV(a, same, even, t, b, same, even, t, comm, stream));
            hccl!(HcclAlltoAllVC(a, same, t, b, t, comm, stream));
            rank.sync();
        }
    });
    assert_eq!(tables, 0, "collectives with tables");
    let messages = least_of_rounds(|rank, buffer| {
        for count in [8, BYTES as u64] {
            let (t, comm, stream) = (HcclDataType(0), rank.comm, rank.stream);
            if rank.rank == 0 {
                hccl!(HcclSend(buffer, count, t, 1, comm, stream));
            } else {
                hccl!(HcclRecv(buffer, count, t, 0, comm, stream));
            }
            rank.sync();
        }
    });
    assert_eq!(messages, 0, "messages");
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
