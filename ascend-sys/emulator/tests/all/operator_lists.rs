//! Tests of lists of transfers, of transfers that do not block, and of transfers that the host
//! carries out itself.

use ascend_emulator_testing::common;
use ascend_emulator_testing::operator::*;
use ascend_emulator_testing::{call, issue, not_issued};
use ascend_sys::*;
use std::ffi::c_void;
use std::time::Duration;

fn item(kind: HcommTransferType, raws: [u64; 5]) -> HcommBatchTransferDesc {
    let mut item = HcommBatchTransferDesc { transType: kind, ..Default::default() };
    let mut bytes = [0; 56];
    for (place, word) in bytes.chunks_mut(8).zip(raws) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    item.transferInfo.raws = bytes;
    item
}

#[test]
fn of_a_list_with_a_mistake_nothing_is_done() {
    use HcommTransferType as T;
    on_product(950, 2, |rank| {
        let thread = threads(rank, CPU_TS, 1, 0)[0];
        let channel = channels(rank, CPU, &[desc(1 - rank.rank, ROCE, 3)])[0];
        let theirs = remote_buffer(rank, channel).0 as u64;
        let (input, output) = (upload(&[7; 64]) as u64, upload(&[0; 64]));
        let good = item(T::HCOMM_TRANSFER_TYPE_WRITE, [64, theirs, input, 0, 0]);
        let record = item(T::HCOMM_TRANSFER_TYPE_NOTIFY_RECORD, [1, 0, 0, 0, 0]);
        // The first item is rejected because its source is not own memory, the second because the
        // notify does not exist, and the third because the kind does not exist.
        for bad in [
            item(T::HCOMM_TRANSFER_TYPE_WRITE, [64, theirs, theirs, 0, 0]),
            item(T::HCOMM_TRANSFER_TYPE_NOTIFY_RECORD, [3, 0, 0, 0, 0]),
            item(HcommTransferType(9), [0; 5]),
        ] {
            let list = [good, record, bad];
            not_issued!(
                HCCL_E_PARA,
                ["transferDescs[2]: "],
                HcommBatchTransferOnThread(thread, channel, list.as_ptr(), 3)
            );
        }
        meet(rank);
        issue!(HcommLocalCopyOnThread(thread, output, buffer(rank).0, 64));
        meet(rank);
        assert_eq!(common::read(output, 64), [0; 64], "the first item was done");
        issue!(HcommChannelNotifyWaitOnThread(thread, channel, 1, 1));
        assert_ne!(call!(aclrtSynchronizeDevice()), 0, "the second item was done");
    });
}

#[test]
fn a_list_of_transfers_does_each_in_turn() {
    use HcommTransferType as T;
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let thread = threads(rank, CPU_TS, 1, 0)[0];
            let channel = channels(rank, CPU, &[desc(1 - rank.rank, ROCE, 3)])[0];
            let (own, theirs) = (buffer(rank).0 as u64, remote_buffer(rank, channel).0 as u64);
            let input = upload(&2i32.to_ne_bytes().repeat(64)) as u64;
            let output = upload(&[0; 256]) as u64;
            // Two 32-bit numbers in one word: the reduction sum is 0, and the data type int32 is 2.
            let reduced = 2 << 32;
            let plain = [
                item(T::HCOMM_TRANSFER_TYPE_WRITE, [256, theirs, input, 0, 0]),
                item(T::HCOMM_TRANSFER_TYPE_READ, [256, output, theirs, 0, 0]),
            ];
            let more = [
                item(T::HCOMM_TRANSFER_TYPE_WRITE_REDUCE, [64, theirs, input, reduced, 0]),
                item(T::HCOMM_TRANSFER_TYPE_WRITE_WITH_NOTIFY, [256, theirs + 256, input, 0, 0]),
                item(
                    T::HCOMM_TRANSFER_TYPE_WRITE_REDUCE_WITH_NOTIFY,
                    [64, theirs + 256, input, reduced, 1],
                ),
                item(T::HCOMM_TRANSFER_TYPE_READ_REDUCE, [64, output, theirs, reduced, 0]),
                item(T::HCOMM_TRANSFER_TYPE_NOTIFY_RECORD, [2, 0, 0, 0, 0]),
            ];
            not_issued!(
                HCCL_E_PARA,
                ["transferDescNum is 0"],
                HcommBatchTransferOnThread(thread, channel, plain.as_ptr(), 0)
            );
            not_issued!(
                HCCL_E_PTR,
                ["transferDescs"],
                HcommBatchTransferOnThread(thread, channel, std::ptr::null(), 1)
            );
            issue!(HcommBatchTransferOnThread(thread, channel, plain.as_ptr(), 2));
            finish(rank);
            let word = |address: u64| common::read(address as *const c_void, 256);
            assert_eq!(word(output), 2i32.to_ne_bytes().repeat(64));
            if product == 950 {
                let bad = item(HcommTransferType(9), [0; 5]);
                not_issued!(
                    HCCL_E_PARA,
                    ["transferDescs[0]", "transType is 9"],
                    HcommBatchTransferOnThread(thread, channel, &bad, 1)
                );
                issue!(HcommBatchTransferOnThread(thread, channel, more.as_ptr(), 5));
                for notify in 0..3 {
                    issue!(HcommChannelNotifyWaitOnThread(thread, channel, notify, LONG));
                }
                finish(rank);
                // The lists of the peer wrote over these bytes or reduced into them.
                assert_eq!(word(own + 256), 4i32.to_ne_bytes().repeat(64));
                assert_eq!(word(own), 4i32.to_ne_bytes().repeat(64));
                assert_eq!(word(output), 6i32.to_ne_bytes().repeat(64));
            } else {
                for one in &more {
                    not_issued!(
                        HCCL_E_NOT_SUPPORT,
                        ["plain writes and reads over ROCE"],
                        HcommBatchTransferOnThread(thread, channel, one, 1)
                    );
                }
                let hccs = channels(rank, CPU, &[desc(1 - rank.rank, HCCS, 3)])[0];
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    ["over ROCE"],
                    HcommBatchTransferOnThread(thread, hccs, plain.as_ptr(), 1)
                );
            }
            meet(rank);
        });
    }
}

#[test]
fn what_does_not_block_is_for_the_host_of_950() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let thread = threads(rank, CPU_TS, 1, 0)[0];
            let channel = channels(rank, CPU, &[desc(1 - rank.rank, ROCE, 3)])[0];
            let (own, theirs) = (buffer(rank).0, remote_buffer(rank, channel).0);
            let input = upload(&vec![rank.rank as u8 + 1; 100_000]);
            let output = common::malloc(100_000);
            let n = 100_000;
            if product == 950 {
                issue!(HcommWriteNbiOnThread(thread, channel, theirs, input, n));
                issue!(HcommWriteWithNotifyNbiOnThread(
                    thread,
                    channel,
                    at(theirs, 1 << 20),
                    input,
                    n,
                    0
                ));
                issue!(HcommChannelFenceOnThread(thread, channel));
                issue!(HcommFenceOnThread(thread));
                issue!(HcommReadNbiOnThread(thread, channel, output, theirs, n));
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
                finish(rank);
                let [mine, yours] =
                    [rank.rank as u8 + 1, 2 - rank.rank as u8].map(|b| vec![b; 100_000]);
                assert!(
                    common::read(own, 100_000) == yours && common::read(output, 100_000) == mine
                );
                // Without a thread, the transfer is complete when the call returns.
                issue!(HcommWriteNbi(channel, at(theirs, 2 << 20), input, n));
                issue!(HcommChannelFence(channel));
                issue!(HcommReadNbi(channel, output, at(theirs, 2 << 20), n));
                assert!(common::read(output, 100_000) == mine);
                issue!(HcommWriteWithNotifyNbi(channel, at(theirs, 3 << 20), input, n, 1));
                issue!(HcommChannelNotifyWait(channel, 1, LONG));
                assert!(common::read(at(own, 3 << 20), 100_000) == yours);
                issue!(HcommChannelNotifyRecord(channel, 0));
                issue!(HcommChannelNotifyWait(channel, 0, LONG));
                not_issued!(HCCL_E_PARA, ["notify 3"], HcommChannelNotifyRecord(channel, 3));
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    ["no default limit"],
                    HcommChannelNotifyWaitOnThreadWithDefaultTimeout(thread, channel, 0)
                );
                // A thread of the device supports none of these calls.
                let device = threads(rank, AICPU, 1, 0)[0];
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    ["engine CPU"],
                    HcommReadNbiOnThread(device, channel, output, theirs, n)
                );
                not_issued!(HCCL_E_NOT_SUPPORT, ["fences"], HcommFenceOnThread(device));
            } else {
                let pieces = ["Ascend 950"];
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    [pieces[0]],
                    HcommWriteNbiOnThread(thread, channel, theirs, input, n)
                );
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    [pieces[0]],
                    HcommWriteWithNotifyNbiOnThread(thread, channel, theirs, input, n, 0)
                );
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    [pieces[0]],
                    HcommReadNbiOnThread(thread, channel, output, theirs, n)
                );
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    [pieces[0]],
                    HcommWriteNbi(channel, theirs, input, n)
                );
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    [pieces[0]],
                    HcommWriteWithNotifyNbi(channel, theirs, input, n, 0)
                );
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    [pieces[0]],
                    HcommReadNbi(channel, output, theirs, n)
                );
                not_issued!(HCCL_E_NOT_SUPPORT, [pieces[0]], HcommChannelNotifyRecord(channel, 0));
                not_issued!(HCCL_E_NOT_SUPPORT, [pieces[0]], HcommChannelNotifyWait(channel, 0, 1));
                not_issued!(HCCL_E_NOT_SUPPORT, [pieces[0]], HcommChannelFence(channel));
                not_issued!(HCCL_E_NOT_SUPPORT, [pieces[0]], HcommFenceOnThread(thread));
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    [pieces[0]],
                    HcommChannelFenceOnThread(thread, channel)
                );
            }
            meet(rank);
        });
    }
}

#[test]
fn a_host_takes_every_record_that_it_waits_for() {
    on_product(950, 2, |rank| {
        let channel = channels(rank, CPU, &[desc(1 - rank.rank, ROCE, 1)])[0];
        for turn in 0..400 {
            let mine = turn % 2 == rank.rank;
            if mine {
                // The delay varies, so the waiting rank spins, yields or sleeps.
                std::thread::sleep(Duration::from_micros(u64::from(turn % 7) * 50));
                issue!(HcommChannelNotifyRecord(channel, 0));
            } else {
                issue!(HcommChannelNotifyWait(channel, 0, LONG));
            }
        }
        meet(rank);
    });
}
