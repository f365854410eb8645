//! Tests of channels whose other end is gone: the peer must get an error at once, with the right
//! code.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common;
use ascend_emulator_testing::operator::*;
use ascend_emulator_testing::ranks::{Rank, limit, on_block};
use ascend_emulator_testing::{call, hccl, issue, not_issued, ok, refuses};
use ascend_sys::*;

#[test]
fn an_end_whose_other_one_failed_with_a_third_rank_is_told_so_and_made_anew() {
    on_each_product(|product| {
        // Rank 2 never calls, so the call of rank 0 makes no channel, and the channel of rank 1 has
        // no other end.
        let config = AscendExtBlockConfig { connectTimeoutMs: limit(), ..block(product, 3) };
        let barrier = Barrier::new(3);
        on_block(config, |rank| {
            rank.join();
            let over = protocol_of(product);
            let mut failed = 0;
            match rank.rank {
                0 => {
                    let both = [desc(1, over, 2), desc(2, over, 2)];
                    let mut to = [0; 2];
                    refuses!(
                        HCCL_E_TIMEOUT,
                        ["EI0006", "rank 2 made no channel"],
                        HcclChannelAcquire(rank.comm, CPU, both.as_ptr(), 2, to.as_mut_ptr())
                    );
                }
                1 => failed = channels(rank, CPU, &[desc(0, over, 2)])[0],
                _ => {}
            }
            barrier.wait();
            if rank.rank == 1 {
                let thread = stream_thread(rank, 1);
                not_issued!(
                    HCCL_E_REMOTE,
                    ["EI0012", "the other end"],
                    HcommChannelNotifyRecordOnThread(thread, failed, 0)
                );
            }
            barrier.wait();
            if rank.rank < 2 {
                let thread = stream_thread(rank, 1);
                let channel = channel_at_last(rank, desc(1 - rank.rank, over, 2));
                assert_ne!(channel, failed);
                issue!(HcommChannelNotifyRecordOnThread(thread, channel, 0));
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
                rank.sync();
            }
            barrier.wait();
            hccl!(HcclCommDestroy(rank.comm));
        });
    });
}

/// Makes the channel, and tries again after a timeout: on a busy machine one rank may call too late
/// for the other rank, even several times.
fn channel_at_last(rank: &Rank, it: HcclChannelDesc) -> ChannelHandle {
    let mut channel = 0;
    loop {
        let _ = common::message();
        let code = call!(HcclChannelAcquire(rank.comm, CPU, &it, 1, &mut channel));
        if code == HcclResult::HCCL_SUCCESS {
            return channel;
        }
        assert_eq!(code, HcclResult::HCCL_E_TIMEOUT, "{}", common::message());
    }
}

#[test]
fn a_wait_at_an_end_whose_other_one_failed_with_a_third_rank_does_not_last() {
    let config = AscendExtBlockConfig { connectTimeoutMs: limit(), ..block(3, 3) };
    let barrier = Barrier::new(3);
    on_block(config, |rank| {
        rank.join();
        match rank.rank {
            0 => {
                let both = [desc(1, HCCS, 2), desc(2, HCCS, 2)];
                let mut to = [0; 2];
                let (count, to) = (both.len() as u32, to.as_mut_ptr());
                let code = call!(HcclChannelAcquire(rank.comm, CPU, both.as_ptr(), count, to));
                assert_eq!(code, HcclResult::HCCL_E_TIMEOUT);
            }
            1 => {
                let thread = stream_thread(rank, 1);
                let channel = channels(rank, CPU, &[desc(0, HCCS, 2)])[0];
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
                let (_, text) = rank.sync_fails();
                assert!(text.contains("EI0012") && text.contains("rank 0"), "{text}");
                // The communicator has failed, so it makes no new threads.
                let (engine, stream, mut other) = (CPU_TS, common::stream(), 0);
                let of = &raw mut other;
                let code = call!(HcclThreadAcquireWithStream(rank.comm, engine, stream, 1, of));
                assert_ne!(code, HcclResult::HCCL_SUCCESS);
                ok!(aclrtDestroyStream(stream));
            }
            _ => {}
        }
        barrier.wait();
        hccl!(HcclCommDestroy(rank.comm));
    });
}

/// Makes a thread, and the channel to the other one of the two ranks.
fn joined(rank: &mut Rank, product: u32) -> (ThreadHandle, ChannelHandle) {
    rank.join();
    let thread = stream_thread(rank, 1);
    (thread, channels(rank, CPU, &[desc(1 - rank.rank, protocol_of(product), 2)])[0])
}

#[test]
fn memory_of_a_peer_that_has_ended_its_communicator_is_out_of_reach() {
    for product in PRODUCTS {
        let barrier = Barrier::new(2);
        on_block(block(product, 2), |rank| {
            let (thread, channel) = joined(rank, product);
            let ((own, _), (theirs, size)) = (buffer(rank), remote_buffer(rank, channel));
            barrier.wait();
            if rank.rank == 1 {
                hccl!(HcclCommDestroy(rank.comm));
                // This new allocation belongs to rank 1 only, but it may be where the buffer was.
                let other = common::malloc(size as usize);
                barrier.wait();
                barrier.wait();
                ok!(aclrtFree(other));
                return;
            }
            barrier.wait();
            let gone = ["EI0012", "the other end"];
            not_issued!(
                HCCL_E_REMOTE,
                [gone[0], gone[1]],
                HcommWriteOnThread(thread, channel, theirs, own, 64)
            );
            not_issued!(
                HCCL_E_REMOTE,
                [gone[0], gone[1]],
                HcommReadOnThread(thread, channel, own, theirs, 64)
            );
            barrier.wait();
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

#[test]
fn what_was_kept_for_a_peer_that_has_gone_does_not_reach_what_lies_in_its_place() {
    for product in PRODUCTS {
        let barrier = Barrier::new(2);
        on_block(block(product, 2), |rank| {
            let (thread, channel) = joined(rank, product);
            let ((own, _), (theirs, size)) = (buffer(rank), remote_buffer(rank, channel));
            if rank.rank == 1 {
                let (place, _) = buffer(rank);
                barrier.wait();
                hccl!(HcclCommDestroy(rank.comm));
                let other = common::malloc(size as usize);
                assert_eq!(other, place, "it lies elsewhere: the test shows nothing");
                ok!(aclrtMemset(other, 64, 7, 64));
                barrier.wait();
                barrier.wait();
                assert_eq!(common::read(other, 64), [7; 64]);
                ok!(aclrtFree(other));
                return;
            }
            issue!(HcommBatchModeStart(std::ptr::null()));
            issue!(HcommWriteOnThread(thread, channel, theirs, own, 64));
            barrier.wait();
            barrier.wait();
            not_issued!(
                HCCL_E_REMOTE,
                ["EI0012", "the other end"],
                HcommBatchModeEnd(std::ptr::null())
            );
            barrier.wait();
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}
