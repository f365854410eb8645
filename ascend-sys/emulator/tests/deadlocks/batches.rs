//! Tests of batches of messages: data, order, rules, and failures.

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::ranks::values::{Random, sample, size};
use ascend_emulator_testing::ranks::{
    Rank, impatient_once_linked, impatient_to_meet, on_block, on_ranks, patient, slow,
};
use ascend_emulator_testing::{alone, call, hccl, refuses};
use ascend_sys::*;
use std::ffi::c_void;
use std::time::Duration;

const BYTES: HcclDataType = HcclDataType(7);
const SEND: HcclSendRecvType = HcclSendRecvType::HCCL_SEND;
const RECV: HcclSendRecvType = HcclSendRecvType::HCCL_RECV;

fn item(kind: HcclSendRecvType, buf: *mut c_void, count: usize, peer: u32) -> HcclSendRecvItem {
    let count = count as u64;
    HcclSendRecvItem { sendRecvType: kind, buf, count, dataType: BYTES, remoteRank: peer }
}

fn batch(rank: &Rank, items: &mut [HcclSendRecvItem]) {
    let count = items.len() as u32;
    hccl!(HcclBatchSendRecv(items.as_mut_ptr(), count, rank.comm, rank.stream));
}

/// Returns the k-th message from `from` to `to`.
fn message(from: u32, to: u32, k: usize, bytes: usize) -> Vec<u8> {
    sample(7, bytes, u64::from(from) << 32 | u64::from(to) << 16 | k as u64)
}

#[test]
fn everybody_to_everybody_in_any_order_of_items() {
    for ranks in [1, 2, 3, 5, 16] {
        on_ranks(ranks, |rank| {
            let me = rank.rank;
            for round in 0..if slow() { 1 } else { 4u64 } {
                // Every pair of ranks, and each rank with itself, exchanges two messages, or more
                // messages than there are places. Both sides can compute the sizes.
                let each = if ranks <= 3 { 11 } else { 2 };
                let bytes = |from: u32, to: u32, k: usize| {
                    let sizes = [1, 100, 65_536, 65_537, if slow() { 131_073 } else { 300_000 }];
                    sizes[(from + 3 * to + k as u32 + round as u32) as usize % sizes.len()]
                };
                let mut items = Vec::new();
                let mut receives = Vec::new();
                for peer in 0..ranks {
                    for k in 0..each {
                        let send = rank.upload(&message(me, peer, k, bytes(me, peer, k)));
                        items.push((k, item(SEND, send, bytes(me, peer, k), peer)));
                        let recv = rank.upload(&vec![0; bytes(peer, me, k)]);
                        items.push((k, item(RECV, recv, bytes(peer, me, k), peer)));
                        receives.push((recv, peer, k));
                    }
                }
                // The messages are in any order, except that those of a pair keep their order.
                let mut random = Random(round * 100 + u64::from(me));
                items.sort_by_cached_key(|(k, _)| (*k, random.next()));
                let mut items: Vec<_> = items.into_iter().map(|(_, item)| item).collect();
                batch(rank, &mut items);
                rank.sync();
                for (recv, peer, k) in receives {
                    let bytes = bytes(peer, me, k);
                    assert!(rank.download(recv, bytes) == message(peer, me, k, bytes));
                }
                items.iter().for_each(|item| rank.free(item.buf));
            }
        });
    }
}

#[test]
fn a_ring_of_many_batches_in_flight() {
    on_ranks(3, |rank| {
        let (next, previous) = ((rank.rank + 1) % 3, (rank.rank + 2) % 3);
        const ROUNDS: usize = 50;
        let mut receives = Vec::new();
        for k in 0..ROUNDS {
            let bytes = 1 + k * 3000;
            let send = rank.upload(&message(rank.rank, next, k, bytes));
            let recv = rank.upload(&vec![0; bytes]);
            batch(rank, &mut [item(SEND, send, bytes, next), item(RECV, recv, bytes, previous)]);
            receives.push((recv, bytes));
        }
        rank.sync();
        for (k, (recv, bytes)) in receives.into_iter().enumerate() {
            assert!(rank.download(recv, bytes) == message(previous, rank.rank, k, bytes));
        }
    });
}

#[test]
fn only_the_ranks_that_items_name_take_part() {
    on_ranks(3, |rank| {
        if rank.rank < 2 {
            let buffer = rank.upload(&message(0, 1, 0, 70_000));
            let kind = if rank.rank == 0 { SEND } else { RECV };
            batch(rank, &mut [item(kind, buffer, 70_000, 1 - rank.rank)]);
            rank.sync();
            assert!(rank.download(buffer, 70_000) == message(0, 1, 0, 70_000));
        }
        // Batches do not count as collectives.
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
    });
}

/// Lets each rank send to the next one in a ring, and to itself.
#[test]
fn every_type_of_the_product_is_moved() {
    for product in [3, 950] {
        let config = AscendExtBlockConfig { deviceCount: 3, product, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            let me = rank.rank;
            let (next, previous) = ((me + 1) % 3, (me + 2) % 3);
            for dtype in (0..=11).chain(14..=17) {
                let (count, bytes) = (1000 + dtype as usize, (1000 + dtype as usize) * size(dtype));
                let outgoing = message(me, next, dtype as usize, bytes);
                let (send, recv, own) = (
                    rank.upload(&outgoing),
                    rank.upload(&vec![0; bytes]),
                    rank.upload(&vec![0; bytes]),
                );
                let mut items = [
                    item(SEND, send, count, next),
                    item(RECV, recv, count, previous),
                    item(SEND, send, count, me),
                    item(RECV, own, count, me),
                ];
                items.iter_mut().for_each(|item| item.dataType = HcclDataType(dtype));
                if product == 3 && dtype >= 14 {
                    let items = items.as_mut_ptr();
                    let name = ["HIF8", "FP8E4M3", "FP8E5M2", "FP8E8M0"][dtype as usize - 14];
                    refuses!(
                        HCCL_E_NOT_SUPPORT,
                        ["item 0", name, "Ascend 950 has it"],
                        HcclBatchSendRecv(items, 4, rank.comm, rank.stream)
                    );
                } else {
                    batch(rank, &mut items);
                    rank.sync();
                    let expected = message(previous, me, dtype as usize, bytes);
                    assert!(rank.download(recv, bytes) == expected, "type {dtype}");
                    assert!(rank.download(own, bytes) == outgoing, "type {dtype}, to itself");
                }
                [send, recv, own].into_iter().for_each(|buffer| rank.free(buffer));
            }
        });
    }
}

#[test]
fn on_950_larger_messages_of_a_pair_go_first() {
    let config = AscendExtBlockConfig { deviceCount: 2, product: 950, ..Block::config() };
    on_block(config, |rank| {
        rank.join();
        let sizes = if rank.rank == 0 { [10, 5000, 300] } else { [300, 10, 5000] };
        let kind = if rank.rank == 0 { SEND } else { RECV };
        let buffers = sizes.map(|bytes| {
            rank.upload(&if kind == SEND { message(0, 1, bytes, bytes) } else { vec![0; bytes] })
        });
        let mut items: Vec<_> =
            sizes.iter().zip(buffers).map(|(b, buf)| item(kind, buf, *b, 1 - rank.rank)).collect();
        batch(rank, &mut items);
        rank.sync();
        for (bytes, buffer) in sizes.into_iter().zip(buffers) {
            assert!(rank.download(buffer, bytes) == message(0, 1, bytes, bytes));
        }
    });
}

#[test]
fn rules_by_product() {
    for product in [2, 3, 950] {
        let config = AscendExtBlockConfig { deviceCount: 1, product, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            let null = std::ptr::null_mut::<c_void>();
            let (comm, stream) = (rank.comm, rank.stream);
            let a = rank.upload(&[1; 64]);
            let b = rank.upload(&[0; 64]);
            let no_items = std::ptr::null_mut::<HcclSendRecvItem>();
            if product == 950 {
                hccl!(HcclBatchSendRecv(no_items, 0, null, null));
            } else {
                refuses!(HCCL_E_PTR, ["comm"], HcclBatchSendRecv(no_items, 0, null, stream));
                refuses!(HCCL_E_PTR, ["stream"], HcclBatchSendRecv(no_items, 0, comm, null));
                refuses!(
                    HCCL_E_PTR,
                    ["sendRecvInfo"],
                    HcclBatchSendRecv(no_items, 0, comm, stream)
                );
            }
            refuses!(HCCL_E_PTR, ["sendRecvInfo"], HcclBatchSendRecv(no_items, 1, comm, stream));
            let refused = |items: &mut [HcclSendRecvItem]| {
                let _ = common::message();
                let count = items.len() as u32;
                let code = call!(HcclBatchSendRecv(items.as_mut_ptr(), count, comm, stream));
                (code, common::message())
            };
            let (code, text) = refused(&mut [item(SEND, null, 4, 0)]);
            assert_eq!(code, HcclResult::HCCL_E_PTR, "{text}");
            assert!(text.contains("item 0"), "{text}");
            // On A2 and A3, a message with count zero and a buffer must be matched as well.
            let (code, text) = refused(&mut [item(SEND, a, 0, 0)]);
            let expected = if product == 950 { 0 } else { 1 };
            assert_eq!(code.0, expected, "{text}");
            // The messages of a rank to itself must match in count and type.
            let wrong: [&mut [HcclSendRecvItem]; 4] = [
                &mut [item(SEND, a, 4, 0)],
                &mut [item(SEND, a, 4, 0), item(RECV, b, 5, 0)],
                &mut [item(SEND, a, 4, 1)],
                &mut [item(HcclSendRecvType(7), a, 4, 0)],
            ];
            for items in wrong {
                let (code, text) = refused(items);
                assert_eq!(code, HcclResult::HCCL_E_PARA, "{text}");
            }
            let mut long = item(SEND, a, 4, 0);
            long.count = 0x8_0000_0000;
            assert_eq!(refused(&mut [long]).0, HcclResult::HCCL_E_PARA);
            long.count = 4;
            long.dataType = HcclDataType(12);
            assert_eq!(refused(&mut [long]).0, HcclResult::HCCL_E_NOT_SUPPORT);
            // The messages reach beyond the end of the allocation.
            let (code, text) = refused(&mut [item(SEND, a, 65, 0), item(RECV, b, 65, 0)]);
            assert_eq!(code, HcclResult::HCCL_E_PARA, "{text}");
            batch(rank, &mut [item(RECV, b, 64, 0), item(SEND, a, 64, 0)]);
            rank.sync();
            assert_eq!(rank.download(b, 64), [1; 64]);
        });
    }
}

#[test]
fn a_null_buffer_with_count_0_is_an_error_on_a2_and_a3_and_no_message_on_950() {
    for product in [2, 3, 950] {
        on_block(AscendExtBlockConfig { product, ..patient(2) }, |rank| {
            rank.join();
            let (null, peer) = (std::ptr::null_mut(), 1 - rank.rank);
            let (own, other) = (rank.upload(&[rank.rank as u8 + 1; 8]), rank.upload(&[0; 8]));
            let list = |count| [item(SEND, own, count, peer), item(RECV, other, count, peer)];
            for (kind, place) in [(SEND, 0), (RECV, 1), (SEND, 2), (RECV, 2)] {
                let mut items = list(4).to_vec();
                items.insert(place, item(kind, null, 0, peer));
                if product == 950 {
                    batch(rank, &mut items);
                    continue;
                }
                let (place, items) = (format!("item {place}"), items.as_mut_ptr());
                refuses!(
                    HCCL_E_PTR,
                    ["EI0003", "buf", place.as_str()],
                    HcclBatchSendRecv(items, 3, rank.comm, rank.stream)
                );
            }
            // The peer receives the messages of this list: the lists that were refused have sent
            // nothing.
            batch(rank, &mut list(8));
            rank.sync();
            assert_eq!(rank.download(other, 8), [peer as u8 + 1; 8]);
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

#[test]
fn messages_that_differ_fail_both_ranks_with_both_sides() {
    on_block(patient(2), |rank| {
        rank.join();
        let buffer = rank.upload(&[0; 64]);
        let (kind, count) = if rank.rank == 0 { (SEND, 10) } else { (RECV, 11) };
        batch(rank, &mut [item(kind, buffer, count, 1 - rank.rank)]);
        let (code, text) = rank.sync_fails();
        assert_eq!(code, ACL_ERROR_RT_AICPU_EXCEPTION, "{text}");
        for piece in
            ["EI0005", "rank 0  sends     count 10  UINT8", "rank 1  receives  count 11  UINT8"]
        {
            assert!(text.contains(piece), "{piece} is not in: {text}");
        }
        let again = barrier(rank);
        assert_eq!(again, HcclResult::HCCL_E_PARA);
    });
}

#[test]
fn a_message_that_had_to_wait_for_a_place_is_compared_too() {
    on_block(patient(2), |rank| {
        rank.join();
        let kind = if rank.rank == 0 { SEND } else { RECV };
        let count = |k: u32| if k == 7 { 10 + rank.rank as usize } else { 64 };
        let buffers: Vec<_> = (0..12).map(|k| rank.upload(&[k; 64])).collect();
        let list = buffers.iter().zip(1..);
        let mut items: Vec<_> =
            list.map(|(buffer, k)| item(kind, *buffer, count(k), 1 - rank.rank)).collect();
        batch(rank, &mut items);
        let (_, text) = rank.sync_fails();
        assert!(text.contains("the counts of message #7 from rank 0 to rank 1 differ"), "{text}");
        // The messages before the wrong one have arrived.
        if rank.rank == 1 {
            assert_eq!(rank.download(buffers[5], 64), [5; 64]);
        }
    });
}

fn barrier(rank: &Rank) -> HcclResult {
    call!(HcclBarrier(rank.comm, rank.stream))
}

#[test]
fn a_peer_without_a_batch_is_named_by_the_first_call() {
    on_block(impatient_to_meet(3), |rank| {
        rank.join();
        if rank.rank == 2 {
            return;
        }
        let buffer = rank.upload(&[0; 64]);
        if rank.rank == 0 {
            let mut items = [item(SEND, buffer, 4, 2)];
            let items = items.as_mut_ptr();
            refuses!(
                HCCL_E_TIMEOUT,
                ["EI0006", "rank 2"],
                HcclBatchSendRecv(items, 1, rank.comm, rank.stream)
            );
        }
    });
}

#[test]
fn a_batch_against_a_collective_is_found_out_at_once() {
    on_block(patient(2), |rank| {
        rank.join();
        let buffer = rank.upload(&[0; 64]);
        let code = if rank.rank == 0 {
            let mut items = [item(SEND, buffer, 4, 1)];
            call!(HcclBatchSendRecv(items.as_mut_ptr(), 1, rank.comm, rank.stream))
        } else {
            barrier(rank)
        };
        let text = common::message();
        assert_eq!(code, HcclResult::HCCL_E_PARA, "{text}");
        for piece in ["EI0005", "HcclBatchSendRecv", "HcclBarrier"] {
            assert!(text.contains(piece), "{piece} is not in: {text}");
        }
    });
}

#[test]
fn an_unmatched_item_times_out_and_says_what_it_waits_for() {
    on_block(impatient_once_linked(2), |rank| {
        rank.join();
        let buffer = rank.upload(&[0; 200_000]);
        let (kind, peer) = if rank.rank == 0 { (SEND, 1) } else { (RECV, 0) };
        batch(rank, &mut [item(kind, buffer, 100, peer)]);
        rank.sync();
        if rank.rank == 1 {
            return;
        }
        batch(rank, &mut [item(SEND, buffer, 200_000, 1), item(RECV, buffer, 5, 1)]);
        let (code, text) = rank.sync_fails();
        assert_eq!(code, ACL_ERROR_RT_TASK_TIMEOUT, "{text}");
        for piece in ["EI0002", "rank 1 to receive 200000 x UINT8", "rank 1 to send 5 x UINT8"] {
            assert!(text.contains(piece), "{piece} is not in: {text}");
        }
        // After the failure the buffer is no longer in use.
        rank.free(buffer);
    });
}

#[test]
fn a_peer_that_leaves_ends_the_wait() {
    on_block(patient(2), |rank| {
        rank.join();
        let buffer = rank.upload(&[0; 200_000]);
        let (kind, peer) = if rank.rank == 0 { (SEND, 1) } else { (RECV, 0) };
        batch(rank, &mut [item(kind, buffer, 200_000, peer)]);
        rank.sync();
        if rank.rank == 1 {
            std::thread::sleep(Duration::from_millis(50));
            hccl!(HcclCommDestroy(rank.comm));
            return;
        }
        batch(rank, &mut [item(SEND, buffer, 200_000, 1)]);
        let (code, text) = rank.sync_fails();
        assert_eq!(code, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "{text}");
        assert!(text.contains("rank 1 is gone (it has destroyed its communicator)"), "{text}");
    });
}

#[test]
fn two_ranks_that_only_receive_are_told_at_once() {
    alone!(beside);
    on_block(patient(2), |rank| {
        rank.join();
        let buffer = rank.upload(&[0; 64]);
        batch(rank, &mut [item(RECV, buffer, 64, 1 - rank.rank)]);
        let (code, text) = rank.sync_fails();
        assert_eq!(code, ACL_ERROR_RT_TASK_TIMEOUT, "{text}");
        for piece in ["deadlock", "rank 0 to send 64 x UINT8", "rank 1 to send 64 x UINT8"] {
            assert!(text.contains(piece), "{piece} is not in: {text}");
        }
    });
}
