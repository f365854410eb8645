//! Tests that primitives move and order data on every product.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common;
use ascend_emulator_testing::operator::{self, *};
use ascend_emulator_testing::ranks::{
    self,
    values::{reduce, sample, size},
};
use ascend_emulator_testing::{hccl, issue, not_issued, ok};
use ascend_sys::*;
use std::ffi::c_void;

const BYTES: usize = 300_000;

/// Makes a thread and a channel to the other one of two ranks. Returns both, the rank's own buffer,
/// and the buffer of the peer.
fn two(rank: &ranks::Rank, product: u32) -> (u64, u64, *mut c_void, *mut c_void) {
    let thread = threads(rank, CPU_TS, 1, 2)[0];
    let channel = channels(rank, CPU, &[desc(1 - rank.rank, protocol_of(product), 3)])[0];
    (thread, channel, buffer(rank).0, remote_buffer(rank, channel).0)
}

#[test]
fn a_read_after_the_handshake_has_the_data() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let (thread, channel, own, theirs) = two(rank, product);
            let input = upload(&sample(7, BYTES, rank.rank.into()));
            let output = common::malloc(BYTES);
            for _ in 0..5 {
                issue!(HcommLocalCopyOnThread(thread, own, input, BYTES as u64));
                issue!(HcommChannelNotifyRecordOnThread(thread, channel, 0));
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
                issue!(HcommReadOnThread(thread, channel, output, theirs, BYTES as u64));
                issue!(HcommChannelNotifyRecordOnThread(thread, channel, 1));
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 1, LONG));
            }
            finish(rank);
            assert!(common::read(output, BYTES) == sample(7, BYTES, (1 - rank.rank).into()));
        });
    }
}

#[test]
fn a_write_is_seen_behind_its_record() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let (thread, channel, own, theirs) = two(rank, product);
            let input = upload(&sample(7, BYTES, rank.rank.into()));
            let output = common::malloc(BYTES);
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, 0));
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
            issue!(HcommWriteOnThread(thread, channel, at(theirs, 64), input, BYTES as u64));
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, 1));
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, 1, LONG));
            issue!(HcommLocalCopyOnThread(thread, output, at(own, 64), BYTES as u64));
            finish(rank);
            assert!(common::read(output, BYTES) == sample(7, BYTES, (1 - rank.rank).into()));
            // Both ranks stay until the other rank has written.
            finish(rank);
        });
    }
}

#[test]
fn everything_that_is_reduced_in_transfer_is_reduced() {
    on_product(3, 2, |rank| {
        let (thread, channel, own, theirs) = two(rank, 3);
        for dtype in [0, 1, 2, 3, 4, 11] {
            for op in [0, 2, 3] {
                let count = 5000;
                let bytes = count * size(dtype);
                let data = |who: u32| {
                    sample(dtype, count, u64::from(dtype * 10 + op) << 8 | u64::from(who))
                };
                let (kind, how) = (HcommDataType(dtype), HcommReduceOp(op));
                let (me, you) = (rank.rank, 1 - rank.rank);
                let input = upload(&data(me));
                // The three reductions are a read-reduce into a copy of the own data, a
                // write-reduce into the peer's buffer, and a local reduce.
                let read = upload(&data(me));
                let local = upload(&data(me));
                let second = upload(&data(7));
                let count = count as u64;
                issue!(HcommLocalCopyOnThread(thread, own, input, bytes as u64));
                issue!(HcommLocalCopyOnThread(thread, at(own, 1 << 20), input, bytes as u64));
                issue!(HcommChannelNotifyRecordOnThread(thread, channel, 0));
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
                issue!(HcommReadReduceOnThread(thread, channel, read, theirs, count, kind, how));
                let to = at(theirs, 1 << 20);
                issue!(HcommWriteReduceOnThread(thread, channel, to, input, count, kind, how));
                issue!(HcommLocalReduceOnThread(thread, local, second, count, kind, how));
                issue!(HcommChannelNotifyRecordOnThread(thread, channel, 1));
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 1, LONG));
                finish(rank);
                let expected = reduce(dtype, op, &[data(me), data(you)]);
                assert!(common::read(read, bytes) == expected, "read-reduce of {dtype}, {op}");
                let written = common::read(at(own, 1 << 20), bytes);
                assert!(written == expected, "write-reduce of {dtype}, {op}");
                let expected = reduce(dtype, op, &[data(me), data(7)]);
                assert!(common::read(local, bytes) == expected, "local reduce of {dtype}, {op}");
                // After this handshake, the peer has read the bytes of the own buffer.
                issue!(HcommChannelNotifyRecordOnThread(thread, channel, 2));
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 2, LONG));
                finish(rank);
            }
        }
    });
}

#[test]
fn two_reductions_into_one_block_at_the_same_time_are_both_counted() {
    const COUNT: usize = 400_000;
    const ROUNDS: u32 = 20;
    on_product(3, 3, |rank| {
        let thread = threads(rank, CPU_TS, 1, 0)[0];
        let int32 = HcommDataType::HCOMM_DATA_TYPE_INT32;
        let sum = HcommReduceOp::HCOMM_REDUCE_SUM;
        if rank.rank == 0 {
            let pair = channels(rank, CPU, &[desc(1, HCCS, 2), desc(2, HCCS, 2)]);
            let own = buffer(rank).0;
            ok!(aclrtMemset(own, COUNT * 4, 0, COUNT * 4));
            for channel in &pair {
                issue!(HcommChannelNotifyRecordOnThread(thread, *channel, 0));
            }
            for channel in &pair {
                issue!(HcommChannelNotifyWaitOnThread(thread, *channel, 1, LONG));
            }
            finish(rank);
            let sums = common::read(own, COUNT * 4);
            let expected = (ROUNDS * (1 + 2)).to_ne_bytes();
            assert!(sums.chunks(4).all(|sum| sum == expected));
        } else {
            let channel = channels(rank, CPU, &[desc(0, HCCS, 2)])[0];
            let to = remote_buffer(rank, channel).0;
            let input: Vec<u8> = rank.rank.to_ne_bytes().repeat(COUNT);
            let input = upload(&input);
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
            for _ in 0..ROUNDS {
                let count = COUNT as u64;
                issue!(HcommWriteReduceOnThread(thread, channel, to, input, count, int32, sum));
            }
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, 1));
            finish(rank);
        }
    });
}

#[test]
fn nothing_runs_before_the_end_of_a_batch_mode() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let thread = threads(rank, AICPU, 1, 1)[0];
            let (input, output) = (upload(&[5; 1000]), upload(&[0; 1000]));
            issue!(HcommBatchModeStart(std::ptr::null()));
            issue!(HcommLocalCopyOnThread(thread, output, input, 1000));
            finish(rank);
            assert_eq!(common::read(output, 1000), [0; 1000]);
            issue!(HcommBatchModeEnd(std::ptr::null()));
            finish(rank);
            assert_eq!(common::read(output, 1000), [5; 1000]);
        });
    }
}

#[test]
fn outside_of_a_batch_mode_an_aicpu_thread_of_a2_and_a3_takes_nothing() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let thread = threads(rank, AICPU_TS, 1, 1)[0];
            let memory = upload(&[5; 64]);
            if product == 950 {
                issue!(HcommLocalCopyOnThread(thread, at(memory, 32), memory, 32));
            } else {
                not_issued!(
                    HCCL_E_UNAVAIL,
                    ["only in batch mode", "HcommBatchModeEnd"],
                    HcommLocalCopyOnThread(thread, at(memory, 32), memory, 32)
                );
            }
            finish(rank);
        });
    }
}

#[test]
fn sub_threads_are_started_and_ended_by_the_main_thread_and_that_by_the_stream() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let host = stream_thread(rank, 1);
            let all = threads(rank, AICPU, 4, 4);
            let (main, subs) = (all[0], &all[1..]);
            let input = upload(&sample(7, 3 * BYTES, 9));
            let output = common::malloc(3 * BYTES);
            for _ in 0..if ranks::slow() { 2 } else { 10 } {
                issue!(HcommThreadNotifyRecordOnThread(host, main, 3));
                issue!(HcommThreadNotifyWaitOnThread(host, 0, LONG));
                in_batch(|| {
                    issue!(HcommThreadNotifyWaitOnThread(main, 3, LONG));
                    for (at_, sub) in subs.iter().enumerate() {
                        issue!(HcommThreadNotifyRecordOnThread(main, *sub, 0));
                        issue!(HcommThreadNotifyWaitOnThread(*sub, 0, LONG));
                        let (to, from) = (at(output, at_ * BYTES), at(input, at_ * BYTES));
                        issue!(HcommLocalCopyOnThread(*sub, to, from, BYTES as u64));
                        issue!(HcommThreadNotifyRecordOnThread(*sub, main, at_ as u32));
                    }
                    for at_ in 0..subs.len() as u32 {
                        issue!(HcommThreadNotifyWaitOnThread(main, at_, LONG));
                    }
                    issue!(HcommThreadNotifyRecordOnThread(main, host, 0));
                });
                rank.sync();
                assert!(common::read(output, 3 * BYTES) == sample(7, 3 * BYTES, 9));
                ok!(aclrtMemset(output, 3 * BYTES, 0, 3 * BYTES));
            }
        });
    }
}

#[test]
fn a_write_with_a_notify_is_for_950_and_sets_it_behind_the_data() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let (thread, channel, own, theirs) = two(rank, product);
            let data: Vec<u8> = 5i32.to_ne_bytes().repeat(BYTES / 4);
            let input = upload(&data);
            let (int32, sum) =
                (HcommDataType::HCOMM_DATA_TYPE_INT32, HcommReduceOp::HCOMM_REDUCE_SUM);
            let (bytes, count) = (BYTES as u64, BYTES as u64 / 4);
            if product != 950 {
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    ["Ascend 950 does"],
                    HcommWriteWithNotifyOnThread(thread, channel, theirs, input, bytes, 0)
                );
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    ["Ascend 950 does"],
                    HcommWriteReduceWithNotifyOnThread(
                        thread, channel, theirs, input, count, int32, sum, 0
                    )
                );
            } else {
                let output = common::malloc(BYTES);
                issue!(HcommWriteWithNotifyOnThread(thread, channel, theirs, input, bytes, 0));
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
                issue!(HcommChannelNotifyRecordOnThread(thread, channel, 2));
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 2, LONG));
                issue!(HcommWriteReduceWithNotifyOnThread(
                    thread, channel, theirs, input, count, int32, sum, 1
                ));
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 1, LONG));
                issue!(HcommLocalCopyOnThread(thread, output, own, bytes));
                not_issued!(
                    HCCL_E_PARA,
                    ["notify 3"],
                    HcommWriteWithNotifyOnThread(thread, channel, theirs, input, bytes, 3)
                );
                finish(rank);
                assert!(common::read(output, BYTES) == 10i32.to_ne_bytes().repeat(BYTES / 4));
            }
            meet(rank);
        });
    }
}

#[test]
fn a_channel_over_roce_is_drained_on_a2_and_a3() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let thread = threads(rank, CPU_TS, 1, 0)[0];
            let channel = channels(rank, CPU, &[desc(1 - rank.rank, ROCE, 3)])[0];
            let theirs = remote_buffer(rank, channel).0;
            let (input, output) = (upload(&vec![9; BYTES]), common::malloc(BYTES));
            issue!(HcommWriteOnThread(thread, channel, theirs, input, BYTES as u64));
            issue!(HcommReadOnThread(thread, channel, output, theirs, BYTES as u64));
            if product == 950 {
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    ["Atlas A2 or A3"],
                    HcommChannelDrainOnThread(thread, channel)
                );
            } else {
                issue!(HcommChannelDrainOnThread(thread, channel));
                assert!(common::read(output, BYTES) == vec![9; BYTES]);
            }
            meet(rank);
        });
    }
}

#[test]
fn notifies_of_the_runtime_are_recorded_and_waited_for_by_number() {
    on_product(3, 1, |rank| {
        let thread = threads(rank, CPU_TS, 1, 0)[0];
        let (mut notify, mut id) = (std::ptr::null_mut(), 0);
        ok!(aclrtCreateNotify(&mut notify, 0));
        ok!(aclrtGetNotifyId(notify, &mut id));
        let (input, output) = (upload(&[4; 64]), upload(&[0; 64]));
        issue!(HcommAclrtNotifyWaitOnThread(thread, id.into(), LONG));
        issue!(HcommLocalCopyOnThread(thread, output, input, 64));
        let host = stream_thread(rank, 0);
        issue!(HcommAclrtNotifyRecordOnThread(host, id.into()));
        finish(rank);
        assert_eq!(common::read(output, 64), [4; 64]);
        not_issued!(HCCL_E_PTR, ["no notify"], HcommAclrtNotifyRecordOnThread(host, 1 << 40));
        not_issued!(HCCL_E_PTR, ["no notify"], HcommAclrtNotifyWaitOnThread(host, 1 << 40, 1));
        ok!(aclrtDestroyNotify(notify));
    });
}

#[test]
fn acquiring_a_communicator_looks_for_its_name_and_locks_nothing() {
    ranks::on_block(operator::block(3, 1), |rank| {
        rank.join();
        let name = std::ffi::CString::new(ranks::name_of(rank.comm)).unwrap();
        not_issued!(HCCL_E_PTR, ["commId"], HcommAcquireComm(std::ptr::null()));
        not_issued!(HCCL_E_PTR, ["nobody"], HcommAcquireComm(c"nobody".as_ptr()));
        not_issued!(HCCL_E_PTR, ["nobody"], HcommReleaseComm(c"nobody".as_ptr()));
        issue!(HcommReleaseComm(name.as_ptr()));
        issue!(HcommAcquireComm(name.as_ptr()));
        issue!(HcommAcquireComm(name.as_ptr()));
        let (name, device) = (&name, rank.device);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                ok!(aclrtSetDevice(device));
                issue!(HcommAcquireComm(name.as_ptr()));
            });
        });
        issue!(HcommReleaseComm(name.as_ptr()));
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn batch_modes_do_not_nest_and_end_with_their_tag() {
    on_product(3, 1, |rank| {
        let thread = threads(rank, AICPU, 1, 1)[0];
        not_issued!(HCCL_E_PARA, ["not in batch mode"], HcommBatchModeEnd(c"a".as_ptr()));
        issue!(HcommBatchModeStart(c"a".as_ptr()));
        not_issued!(HCCL_E_PARA, ["do not nest"], HcommBatchModeStart(c"b".as_ptr()));
        let (memory, output) = (upload(&[6; 64]), upload(&[0; 64]));
        issue!(HcommLocalCopyOnThread(thread, output, memory, 64));
        not_issued!(HCCL_E_PARA, ["\"a\"", "\"b\""], HcommBatchModeEnd(c"b".as_ptr()));
        // If memory is freed before the batch mode ends, the end reports it.
        let freed = common::malloc(64);
        issue!(HcommLocalCopyOnThread(thread, freed, memory, 64));
        ok!(aclrtFree(freed));
        not_issued!(HCCL_E_PARA, ["freed by aclrtFree"], HcommBatchModeEnd(c"a".as_ptr()));
        finish(rank);
        assert_eq!(common::read(output, 64), [6; 64]);
    });
}

#[test]
fn a_thread_and_a_channel_of_different_ranks_do_not_go_together() {
    // The two ranks are in one process on two devices, so each rank can name the handles of the
    // other one.
    let shared = std::sync::Mutex::new([0; 2]);
    let barrier = Barrier::new(2);
    on_product(3, 2, |rank| {
        let (thread, channel, own, theirs) = two(rank, 3);
        shared.lock().unwrap()[rank.rank as usize] = channel;
        barrier.wait();
        let other = shared.lock().unwrap()[1 - rank.rank as usize];
        not_issued!(
            HCCL_E_PARA,
            ["does not belong to the rank"],
            HcommReadOnThread(thread, other, own, theirs, 8)
        );
        barrier.wait();
        shared.lock().unwrap()[rank.rank as usize] = thread;
        barrier.wait();
        let other = shared.lock().unwrap()[1 - rank.rank as usize];
        not_issued!(
            HCCL_E_PARA,
            ["different ranks"],
            HcommThreadNotifyRecordOnThread(thread, other, 0)
        );
        meet(rank);
    });
}

#[test]
fn recorded_tasks_of_950_are_executed_with_other_addresses() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let tag = c"step".as_ptr();
            let mut hit = true;
            if product != 950 {
                not_issued!(
                    HCCL_E_NOT_SUPPORT,
                    ["950"],
                    HcommAicpuTsTaskCacheLookup(tag, &mut hit)
                );
                not_issued!(HCCL_E_NOT_SUPPORT, ["950"], HcommAicpuTsTaskCacheEnd(tag));
                not_issued!(HCCL_E_NOT_SUPPORT, ["950"], HcommAicpuTsTaskCacheClear(tag));
                return;
            }
            let thread = threads(rank, AICPU, 1, 1)[0];
            let (int32, sum) =
                (HcommDataType::HCOMM_DATA_TYPE_INT32, HcommReduceOp::HCOMM_REDUCE_SUM);
            let pair = |value: i32| (upload(&value.to_ne_bytes().repeat(64)), upload(&[0; 256]));
            let (input, output) = pair(3);
            let (mut addresses, mut sizes) = ([input, output], [256, 256]);
            let (a, n) = (addresses.as_mut_ptr(), sizes.as_mut_ptr());
            issue!(HcommAicpuTsTaskCacheLookup(tag, &mut hit));
            assert!(!hit);
            not_issued!(HCCL_E_NOT_FOUND, ["step"], HcommAicpuTsTaskCacheExecute(tag, a, n, 2));
            not_issued!(HCCL_E_PTR, ["tag"], HcommAicpuTsTaskCacheStart(std::ptr::null(), a, n, 2));
            not_issued!(HCCL_E_PARA, ["nothing"], HcommAicpuTsTaskCacheEnd(tag));
            issue!(HcommAicpuTsTaskCacheStart(tag, a, n, 2));
            not_issued!(HCCL_E_PARA, ["already"], HcommAicpuTsTaskCacheStart(tag, a, n, 2));
            issue!(HcommLocalCopyOnThread(thread, output, input, 256));
            issue!(HcommThreadNotifyRecordOnThread(thread, thread, 0));
            issue!(HcommThreadNotifyWaitOnThread(thread, 0, LONG));
            issue!(HcommLocalReduceOnThread(thread, at(output, 4), input, 32, int32, sum));
            not_issued!(
                HCCL_E_PARA,
                ["\"step\"", "other"],
                HcommAicpuTsTaskCacheEnd(c"other".as_ptr())
            );
            issue!(HcommAicpuTsTaskCacheEnd(tag));
            let expected = |value: i32| {
                let words = (0..64).map(|i| if (1..33).contains(&i) { 2 * value } else { value });
                words.flat_map(i32::to_ne_bytes).collect::<Vec<u8>>()
            };
            finish(rank);
            assert_eq!(common::read(output, 256), expected(3));
            issue!(HcommAicpuTsTaskCacheLookup(tag, &mut hit));
            assert!(hit);
            let (input, output) = pair(5);
            addresses = [input, output];
            let a = addresses.as_mut_ptr();
            issue!(HcommAicpuTsTaskCacheExecute(tag, a, n, 2));
            finish(rank);
            assert_eq!(common::read(output, 256), expected(5));
            not_issued!(HCCL_E_PARA, ["was 2"], HcommAicpuTsTaskCacheExecute(tag, a, n, 1));
            sizes = [256, 255];
            let n = sizes.as_mut_ptr();
            not_issued!(HCCL_E_PARA, ["addrs[1]"], HcommAicpuTsTaskCacheExecute(tag, a, n, 2));
            issue!(HcommAicpuTsTaskCacheClear(tag));
            not_issued!(HCCL_E_NOT_FOUND, ["step"], HcommAicpuTsTaskCacheClear(tag));
        });
    }
}
