//! Primitives move data and order it, on every product.

mod common;
mod operator;
mod ranks;

use ascend_sys::*;
use operator::*;
use ranks::values::{reduce, sample, size};
use std::ffi::c_void;

const BYTES: usize = 300_000;

/// The threads and channels of the test on two ranks: (thread, channel, own buffer, the peer's buffer).
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
            // Nobody leaves before the other has written.
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
                // Read-reduce into a copy of the own data, write-reduce into the peer's buffer, local reduce.
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
                // The peer has read what lies in the own buffer.
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
                    ["only in a batch mode", "HcommBatchModeEnd"],
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
            for _ in 0..10 {
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
