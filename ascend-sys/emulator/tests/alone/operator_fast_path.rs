//! Primitives in the steady state allocate nothing.

use ascend_emulator_testing::alone;
use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::issue;
use ascend_emulator_testing::operator::*;
use ascend_sys::*;

const BYTES: usize = 400 * 1024;

/// One test, because the counter belongs to the process.
#[test]
fn primitives_in_the_steady_state_allocate_nothing() {
    alone!();
    const ROUNDS: usize = 500;
    let turn = Barrier::new(2);
    let least = on_product(3, 2, |rank| {
        let host = stream_thread(rank, 1);
        let device = threads(rank, AICPU, 2, 2);
        let (main, sub) = (device[0], device[1]);
        let channel = channels(rank, AICPU, &[desc(1 - rank.rank, HCCS, 3)])[0];
        let (own, theirs) = (buffer(rank).0, remote_buffer(rank, channel).0);
        let memory = upload(&[0; 2 * BYTES]);
        let (int32, sum) = (HcommDataType::HCOMM_DATA_TYPE_INT32, HcommReduceOp::HCOMM_REDUCE_SUM);
        let mut least = u64::MAX;
        for _ in 0..ROUNDS {
            turn.wait();
            let before = counting_allocator::in_process();
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
            // The next round does not begin before this one is counted.
            turn.wait();
            least = least.min(counting_allocator::in_process() - before);
            turn.wait();
        }
        least
    });
    assert_eq!(least.into_iter().min(), Some(0));
}
