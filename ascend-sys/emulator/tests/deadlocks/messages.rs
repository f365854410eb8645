//! Tests of `HcclSend` and `HcclRecv`.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::Block;
use ascend_emulator_testing::ranks::values::{MOVABLE, Random, sample, size};
use ascend_emulator_testing::ranks::{Rank, impatient_to_meet, on_block, on_ranks, patient};
use ascend_emulator_testing::{alone, hccl, ok, refuses};
use ascend_sys::*;
use std::ffi::c_void;
use std::time::Duration;

const BYTES: HcclDataType = HcclDataType(7);

fn send(rank: &Rank, buffer: *mut c_void, bytes: usize, peer: u32) {
    hccl!(HcclSend(buffer, bytes as u64, BYTES, peer, rank.comm, rank.stream));
}

fn recv(rank: &Rank, buffer: *mut c_void, bytes: usize, peer: u32) {
    hccl!(HcclRecv(buffer, bytes as u64, BYTES, peer, rank.comm, rank.stream));
}

#[test]
fn around_a_ring_of_any_number_of_ranks_and_types() {
    for ranks in [2, 3, 4, 5, 8, 17] {
        let config = AscendExtBlockConfig { deviceCount: ranks, product: 950, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            let (next, previous) = ((rank.rank + 1) % ranks, (rank.rank + ranks - 1) % ranks);
            let mut random = Random(u64::from(ranks));
            for dtype in MOVABLE {
                let most = [30, 2000, 100_000][random.below(3) as usize];
                let count = 1 + random.below(most) as usize;
                let bytes = count * size(dtype);
                let of = |rank: u32| sample(dtype, count, u64::from(rank) * 100 + u64::from(dtype));
                let (a, b) = (rank.upload(&of(rank.rank)), rank.upload(&vec![0; bytes]));
                let (n, t) = (count as u64, HcclDataType(dtype));
                // Rank 0 receives first. Each other rank waits for the rank before it, so there is
                // no cycle.
                for first in [rank.rank != 0, rank.rank == 0] {
                    if first {
                        hccl!(HcclSend(a, n, t, next, rank.comm, rank.stream));
                    } else {
                        hccl!(HcclRecv(b, n, t, previous, rank.comm, rank.stream));
                    }
                }
                rank.sync();
                assert!(rank.download(b, bytes) == of(previous), "{ranks} ranks, type {dtype}");
                [a, b].into_iter().for_each(|buffer| rank.free(buffer));
            }
        });
    }
}

#[test]
fn messages_of_a_pair_go_in_order_and_others_do_not_disturb_them() {
    on_ranks(3, |rank| {
        let sizes = [1, 5000, 64, 200_000, 1024, 65_537];
        let message = |k: usize, bytes| sample(7, bytes, k as u64);
        match rank.rank {
            0 => {
                for (k, bytes) in sizes.into_iter().enumerate() {
                    send(rank, rank.upload(&message(k, bytes)), bytes, 2);
                }
            }
            1 => {
                for bytes in sizes {
                    send(rank, rank.upload(&vec![9; bytes]), bytes, 2);
                }
            }
            _ => {
                let buffers =
                    sizes.map(|bytes| (rank.upload(&vec![0; bytes]), rank.upload(&vec![0; bytes])));
                for (bytes, (one, other)) in sizes.into_iter().zip(buffers) {
                    recv(rank, one, bytes, 0);
                    recv(rank, other, bytes, 1);
                }
                rank.sync();
                for (k, (bytes, (one, other))) in sizes.into_iter().zip(buffers).enumerate() {
                    assert!(rank.download(one, bytes) == message(k, bytes), "message {k}");
                    assert!(rank.download(other, bytes).iter().all(|byte| *byte == 9));
                }
            }
        }
        rank.sync();
        // Messages do not count as collectives.
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
    });
}

#[test]
fn a_send_is_complete_only_when_its_receiver_has_the_data() {
    let asked = Barrier::new(2);
    on_ranks(2, |rank| {
        let buffer = rank.upload(&[rank.rank as u8; 8]);
        // The first message waits for the peer inside the call. The test is about the second
        // message.
        for round in 0..2 {
            if rank.rank == 0 {
                send(rank, buffer, 8, 1);
                if round == 1 {
                    std::thread::sleep(Duration::from_millis(30));
                    let mut status = aclrtStreamStatus::ACL_STREAM_STATUS_COMPLETE;
                    ok!(aclrtStreamQuery(rank.stream, &mut status));
                    assert_eq!(status, aclrtStreamStatus::ACL_STREAM_STATUS_NOT_READY);
                    asked.wait();
                }
            } else {
                if round == 1 {
                    asked.wait();
                }
                recv(rank, buffer, 8, 0);
            }
            rank.sync();
        }
    });
}

#[test]
fn one_rank_alone_has_nobody_to_send_to() {
    for product in [2, 3, 950] {
        let config = AscendExtBlockConfig { deviceCount: 1, product, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            let buffer = rank.upload(&[1; 8]);
            send(rank, buffer, 8, 0);
            recv(rank, buffer, 8, 0);
            rank.sync();
        });
    }
}

#[test]
fn sides_that_differ_fail_both_ranks_with_both_sides() {
    on_block(patient(2), |rank| {
        rank.join();
        let buffer = rank.upload(&[0; 64]);
        let (n, comm, stream) = (10 + u64::from(rank.rank), rank.comm, rank.stream);
        if rank.rank == 0 {
            hccl!(HcclSend(buffer, n, HcclDataType(4), 1, comm, stream));
        } else {
            hccl!(HcclRecv(buffer, n, HcclDataType(2), 0, comm, stream));
        }
        let (code, text) = rank.sync_fails();
        assert_eq!(code, ACL_ERROR_RT_AICPU_EXCEPTION, "{text}");
        for piece in [
            "EI0005: the counts and the data types of message #1 from rank 0 to rank 1 differ",
            "rank 0  sends     count 10  FP32",
            "rank 1  receives  count 11  INT32",
            ["HcclSend #1", "HcclRecv #1"][rank.rank as usize],
        ] {
            assert!(text.contains(piece), "{piece} is not in: {text}");
        }
    });
}

#[test]
fn a_message_of_its_own_is_none_of_a_batch() {
    on_block(patient(2), |rank| {
        rank.join();
        let buffer = rank.upload(&[0; 64]);
        if rank.rank == 0 {
            send(rank, buffer, 8, 1);
        } else {
            let mut item = HcclSendRecvItem {
                sendRecvType: HcclSendRecvType::HCCL_RECV,
                buf: buffer,
                count: 8,
                dataType: BYTES,
                remoteRank: 0,
            };
            hccl!(HcclBatchSendRecv(&mut item, 1, rank.comm, rank.stream));
        }
        let (_, text) = rank.sync_fails();
        for piece in [
            "EI0005: the functions of message #1 from rank 0 to rank 1 differ",
            "rank 0  sends     count 8  UINT8  by HcclSend",
            "rank 1  receives  count 8  UINT8  by HcclBatchSendRecv",
        ] {
            assert!(text.contains(piece), "{piece} is not in: {text}");
        }
    });
}

#[test]
fn a_peer_that_does_not_call_is_named() {
    on_block(impatient_to_meet(2), |rank| {
        rank.join();
        let buffer = rank.upload(&[0; 64]);
        if rank.rank == 1 {
            return;
        }
        let (comm, stream) = (rank.comm, rank.stream);
        refuses!(
            HCCL_E_TIMEOUT,
            ["EI0006", "rank 1", "HcclRecv with rank 1"],
            HcclRecv(buffer, 8, BYTES, 1, comm, stream)
        );
    });
}

#[test]
fn two_ranks_that_both_send_first_are_told_at_once() {
    alone!(beside);
    on_block(patient(2), |rank| {
        rank.join();
        let buffer = rank.upload(&[0; 64]);
        send(rank, buffer, 8, 1 - rank.rank);
        recv(rank, buffer, 8, 1 - rank.rank);
        let (code, text) = rank.sync_fails();
        assert_eq!(code, ACL_ERROR_RT_TASK_TIMEOUT, "{text}");
        for piece in ["deadlock", "rank 0 to receive 8 x UINT8", "rank 1 to receive 8 x UINT8"] {
            assert!(text.contains(piece), "{piece} is not in: {text}");
        }
    });
}

#[test]
fn a_peer_that_leaves_ends_the_wait() {
    on_block(patient(2), |rank| {
        rank.join();
        let buffer = rank.upload(&[0; 200_000]);
        for round in 0..2 {
            if rank.rank == 0 {
                send(rank, buffer, 200_000, 1);
            } else if round == 0 {
                recv(rank, buffer, 200_000, 0);
            } else {
                std::thread::sleep(Duration::from_millis(50));
                hccl!(HcclCommDestroy(rank.comm));
                return;
            }
            if round == 0 {
                rank.sync();
            }
        }
        let (code, text) = rank.sync_fails();
        assert_eq!(code, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "{text}");
        for piece in ["rank 1 is gone (it has destroyed its communicator)", "HcclSend #2"] {
            assert!(text.contains(piece), "{piece} is not in: {text}");
        }
        // After the failure the buffer is no longer in use.
        rank.free(buffer);
    });
}
