//! Tests of the notifies of threads and channels: a record before the wait is kept, a notify is one
//! bit, and a wait that never ends is reported.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common;
use ascend_emulator_testing::operator::*;
use ascend_emulator_testing::ranks::{Rank, on_block};
use ascend_emulator_testing::{alone, hccl, issue, not_issued, ok, refuses};
use ascend_sys::*;
use std::time::Duration;

const TIMEOUT: aclError = ACL_ERROR_RT_TASK_TIMEOUT;

fn fails_with(rank: &Rank, code: aclError, pieces: &[&str]) {
    let (found, text) = rank.sync_fails();
    assert_eq!(found, code, "{text}");
    for piece in pieces {
        assert!(text.contains(piece), "{piece:?} is not in: {text}");
    }
}

#[test]
fn a_record_before_the_wait_is_kept() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let thread = stream_thread(rank, 3);
            let channel = channels(rank, CPU, &[desc(1 - rank.rank, protocol_of(product), 2)])[0];
            issue!(HcommThreadNotifyRecordOnThread(thread, thread, 2));
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, 1));
            rank.sync();
            std::thread::sleep(Duration::from_millis(20));
            issue!(HcommThreadNotifyWaitOnThread(thread, 2, LONG));
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, 1, LONG));
            rank.sync();
            // Each end has its own notifies: a record of this rank sets a notify of the other rank.
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, 0));
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
            rank.sync();
        });
    }
}

#[test]
fn two_records_without_a_wait_are_one() {
    on_each_product(|product| {
        on_block(block(product, 1), |rank| {
            rank.join();
            let thread = stream_thread(rank, 1);
            issue!(HcommThreadNotifyRecordOnThread(thread, thread, 0));
            issue!(HcommThreadNotifyRecordOnThread(thread, thread, 0));
            issue!(HcommThreadNotifyWaitOnThread(thread, 0, LONG));
            rank.sync();
            issue!(HcommThreadNotifyWaitOnThread(thread, 0, 1));
            fails_with(rank, TIMEOUT, &["EI0002", "for 1.0 s", "notify 0", "none of its threads"]);
            hccl!(HcclCommDestroy(rank.comm));
        });
    });
}

#[test]
fn a_wait_that_is_too_long_says_who_should_have_recorded_and_ends_the_communicator() {
    let other_waits = Barrier::new(2);
    on_block(block(3, 2), |rank| {
        rank.join();
        let thread = stream_thread(rank, 1);
        let channel = channels(rank, CPU, &[desc(1 - rank.rank, HCCS, 2)])[0];
        if rank.rank == 0 {
            other_waits.wait();
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, 1, 1));
            let said =
                ["EI0002", "rank 1 did not record it", "notify 1", "to rank 1 (HCCS)", "for 1.0 s"];
            fails_with(rank, TIMEOUT, &said);
        } else {
            // This wait has no limit of its own. It fails together with the communicator.
            issue!(HcommThreadNotifyWaitOnThread(thread, 0, 0));
            other_waits.wait();
            fails_with(rank, TIMEOUT, &["rank 1 did not record it", "make a new one on all ranks"]);
        }
        let mut more = 0;
        refuses!(
            HCCL_E_TIMEOUT,
            ["failed before, in an operator"],
            HcclThreadAcquire(rank.comm, CPU_TS, 1, 0, &mut more)
        );
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn the_default_limit_is_that_of_the_communicator_or_what_the_thread_has_set() {
    // The default limit of a wait is half a second here.
    let config = AscendExtBlockConfig { execTimeoutMs: 500, ..block(3, 1) };
    on_block(config, |rank| {
        rank.join();
        let thread = stream_thread(rank, 1);
        issue!(HcommThreadNotifyWaitOnThreadWithDefaultTimeout(thread, 0));
        fails_with(rank, TIMEOUT, &["EI0002", "for 0.5 s"]);
        hccl!(HcclCommDestroy(rank.comm));
        for wrong in [f32::NAN, -1.0] {
            not_issued!(HCCL_E_PARA, ["timeOut"], HcommSetNotifyWaitTimeOut(wrong));
            not_issued!(HCCL_E_PARA, ["timeOut"], HcommThreadResAcquireTimeOut(wrong));
        }
        issue!(HcommThreadResAcquireTimeOut(3.0));
        issue!(HcommSetNotifyWaitTimeOut(0.25));
        let mut info = HcclRootInfo::default();
        hccl!(HcclGetRootInfo(&mut info));
        rank.info = info;
        rank.join();
        let thread = stream_thread(rank, 1);
        issue!(HcommThreadNotifyWaitOnThreadWithDefaultTimeout(thread, 0));
        // The text shows the limit with one decimal.
        fails_with(rank, TIMEOUT, &["EI0002", "for 0.2 s"]);
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn a_sub_thread_that_fails_is_seen_in_the_stream_of_the_program() {
    on_each_product(|product| {
        on_block(block(product, 1), |rank| {
            rank.join();
            let host = stream_thread(rank, 1);
            let all = threads(rank, AICPU, 2, 2);
            let (main, sub) = (all[0], all[1]);
            issue!(HcommThreadNotifyRecordOnThread(host, main, 1));
            issue!(HcommThreadNotifyWaitOnThread(host, 0, LONG));
            in_batch(|| {
                issue!(HcommThreadNotifyWaitOnThread(main, 1, LONG));
                issue!(HcommThreadNotifyRecordOnThread(main, sub, 0));
                issue!(HcommThreadNotifyWaitOnThread(main, 0, LONG));
                issue!(HcommThreadNotifyRecordOnThread(main, host, 0));
                issue!(HcommThreadNotifyWaitOnThread(sub, 0, LONG));
                // This notify is never recorded. The record after this wait must not let the main
                // thread continue.
                issue!(HcommThreadNotifyWaitOnThread(sub, 1, 1));
                issue!(HcommThreadNotifyRecordOnThread(sub, main, 0));
            });
            fails_with(rank, TIMEOUT, &["EI0002", "notify 1 of thread 1 (AICPU)"]);
            hccl!(HcclCommDestroy(rank.comm));
        });
    });
}

#[test]
fn ranks_that_wait_for_each_other_are_told_at_once() {
    alone!(beside);
    on_each_product(|product| {
        on_block(block(product, 2), |rank| {
            rank.join();
            let thread = stream_thread(rank, 1);
            let channel = channels(rank, CPU, &[desc(1 - rank.rank, protocol_of(product), 2)])[0];
            // Both ranks wait before they record.
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, 0));
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, 0));
            let began = std::time::Instant::now();
            fails_with(
                rank,
                TIMEOUT,
                &[
                    "deadlock",
                    "of rank 0",
                    "of rank 1",
                    "which rank 0 records",
                    "which rank 1 records",
                ],
            );
            // A deadlock that is not proven is reported after five seconds.
            assert!(began.elapsed() < Duration::from_secs(60));
            hccl!(HcclCommDestroy(rank.comm));
        });
    });
}

#[test]
fn who_waits_for_a_rank_that_is_gone_is_told_so() {
    for product in PRODUCTS {
        on_block(block(product, 2), |rank| {
            rank.join();
            let thread = stream_thread(rank, 1);
            let channel = channels(rank, CPU, &[desc(1 - rank.rank, protocol_of(product), 2)])[0];
            if rank.rank == 0 {
                // Records that the other rank made before it left are not lost.
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, 0));
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 1, 0));
                let gone = ACL_ERROR_RT_SUSPECT_REMOTE_ERROR;
                fails_with(rank, gone, &["EI0012", "rank 1 is gone", "notify 1 of the channel"]);
                not_issued!(
                    HCCL_E_REMOTE,
                    ["other end", "is gone"],
                    HcommChannelNotifyRecordOnThread(thread, channel, 0)
                );
            } else {
                issue!(HcommChannelNotifyRecordOnThread(thread, channel, 0));
                rank.sync();
            }
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

#[test]
fn a_stream_that_is_aborted_ends_its_waits() {
    on_block(block(3, 1), |rank| {
        rank.join();
        let thread = stream_thread(rank, 1);
        issue!(HcommThreadNotifyWaitOnThread(thread, 0, 0));
        ok!(aclrtStreamAbort(rank.stream));
        fails_with(rank, ACL_ERROR_RT_STREAM_ABORT, &["aborted", "waiting for notify 0"]);
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn a_reset_device_ends_threads_that_wait() {
    on_block(block(3, 1), |rank| {
        rank.join();
        let thread = threads(rank, CPU_TS, 1, 1)[0];
        issue!(HcommThreadNotifyWaitOnThread(thread, 0, 0));
        ok!(aclrtResetDeviceForce(rank.device));
        not_issued!(HCCL_E_PARA, ["thread"], HcommThreadNotifyWaitOnThread(thread, 0, 0));
    });
}

#[test]
fn captured_primitives_run_at_every_execution() {
    on_product(3, 1, |rank| {
        let thread = stream_thread(rank, 1);
        let (a, b) = (upload(&1i32.to_ne_bytes()), upload(&0i32.to_ne_bytes()));
        let (int32, sum) = (HcommDataType::HCOMM_DATA_TYPE_INT32, HcommReduceOp::HCOMM_REDUCE_SUM);
        let mode = aclmdlRICaptureMode(0);
        ok!(aclmdlRICaptureBegin(rank.stream, mode));
        issue!(HcommThreadNotifyRecordOnThread(thread, thread, 0));
        issue!(HcommLocalReduceOnThread(thread, b, a, 1, int32, sum));
        issue!(HcommThreadNotifyWaitOnThread(thread, 0, LONG));
        let mut graph = std::ptr::null_mut();
        ok!(aclmdlRICaptureEnd(rank.stream, &mut graph));
        for _ in 0..3 {
            ok!(aclmdlRIExecuteAsync(graph, rank.stream));
        }
        rank.sync();
        assert_eq!(common::read(b, 4), 3i32.to_ne_bytes());
        ok!(aclmdlRIDestroy(graph));
    });
}
