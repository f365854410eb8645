//! Collectives through the table, each rank on a thread of its own, against a naive reference.

mod common;
mod ranks;

use ascend_sys::*;
use ranks::{Rank, on_ranks};

const FP32: HcclDataType = HcclDataType::HCCL_DATA_TYPE_FP32;
const SUM: HcclReduceOp = HcclReduceOp::HCCL_REDUCE_SUM;

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_ne_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn sums_of_any_length_on_any_number_of_ranks() {
    for ranks in [1, 2, 3, 4, 5, 8, 16] {
        on_ranks(ranks, |rank: &mut Rank| {
            for count in [1usize, 2, 255, 256, 257, 1024, 5000, 100_003, 300_000] {
                let value = |rank: u32, k: usize| (k % 1000) as f32 + rank as f32;
                let send: Vec<u8> =
                    (0..count).flat_map(|k| value(rank.rank, k).to_ne_bytes()).collect();
                let send = rank.upload(&send);
                let recv = rank.upload(&vec![0; count * 4]);
                hccl!(HcclAllReduce(send, recv, count as u64, FP32, SUM, rank.comm, rank.stream));
                rank.sync();
                let sums = floats(&rank.download(recv, count * 4));
                for (k, sum) in sums.iter().enumerate() {
                    let expected: f32 = (0..ranks).map(|rank| value(rank, k)).sum();
                    assert_eq!(*sum, expected, "{ranks} ranks, element {k} of {count}");
                }
                rank.free(send);
                rank.free(recv);
            }
        });
    }
}
