//! Tests that primitives allocate nothing in the steady state.

use ascend_emulator_testing::alone;
use ascend_emulator_testing::issue;
use ascend_emulator_testing::operator::*;
use ascend_sys::*;

use super::rounds::Rounds;

const BYTES: usize = 400 * 1024;

/// Checks everything in one test, because the counter belongs to the process.
#[test]
fn primitives_in_the_steady_state_allocate_nothing() {
    alone!();
    let rounds = Rounds::new();
    let least = on_product(3, 2, |rank| {
        let host = stream_thread(rank, 1);
        let device = threads(rank, AICPU, 2, 2);
        let (main, sub) = (device[0], device[1]);
        let channel = channels(rank, AICPU, &[desc(1 - rank.rank, HCCS, 3)])[0];
        let (own, theirs) = (buffer(rank).0, remote_buffer(rank, channel).0);
        let memory = upload(&[0; 2 * BYTES]);
        let (int32, sum) = (HcommDataType::HCOMM_DATA_TYPE_INT32, HcommReduceOp::HCOMM_REDUCE_SUM);
        rounds.least_allocations(|| {
            for bytes in [64, BYTES as u64] {
                issue!(HcommThreadNotifyRecordOnThread(host, main, 1));
                issue!(HcommThreadNotifyWaitOnThread(host, 0, LONG));
                issue!(HcommBatchModeStart(std::ptr::null()));
                issue!(HcommThreadNotifyWaitOnThread(main, 1, LONG));
                issue!(HcommThreadNotifyRecordOnThread(main, sub, 0));
                issue!(HcommThreadNotifyWaitOnThread(sub, 0, LONG));
                issue!(HcommLocalCopyOnThread(sub, own, memory, bytes));
                issue!(HcommChannelNotifyRecordOnThread(sub, channel, 0));
                issue!(HcommChannelNotifyWaitOnThread(sub, channel, 0, LONG));
                issue!(HcommReadOnThread(sub, channel, at(memory, BYTES), theirs, bytes));
                issue!(HcommChannelNotifyRecordOnThread(sub, channel, 1));
                issue!(HcommChannelNotifyWaitOnThread(sub, channel, 1, LONG));
                let count = bytes / 4;
                issue!(HcommWriteReduceOnThread(sub, channel, theirs, memory, count, int32, sum));
                issue!(HcommChannelNotifyRecordOnThread(sub, channel, 2));
                issue!(HcommChannelNotifyWaitOnThread(sub, channel, 2, LONG));
                issue!(HcommThreadNotifyRecordOnThread(sub, main, 0));
                issue!(HcommThreadNotifyWaitOnThread(main, 0, LONG));
                issue!(HcommThreadNotifyRecordOnThread(main, host, 0));
                issue!(HcommBatchModeEnd(std::ptr::null()));
                rank.sync();
            }
        })
    });
    assert_eq!(least.into_iter().min(), Some(0));
}
