//! Tests that a checked block checks custom operators like any other work.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common;
use ascend_emulator_testing::operator::{self, *};
use ascend_emulator_testing::ranks::{self, Rank};
use ascend_emulator_testing::{hccl, issue, ok};
use ascend_sys::*;

/// Runs the ranks of a checked block: each issues its work, and waits for it only when all ranks
/// have issued. An earlier wait would order the work of that rank before everything that is issued
/// later. Returns the findings.
fn watched(count: u32, issue: impl Fn(&mut Rank) + Sync) -> Vec<String> {
    let check = AscendExtCheck::ASCEND_EXT_CHECK_RACES.0;
    let block = common::Block::with(AscendExtBlockConfig { check, ..operator::block(3, count) });
    let info = ranks::root_info();
    let all = Barrier::new(count as usize);
    std::thread::scope(|scope| {
        for rank in 0..count {
            let (block, info, issue, all) = (&block, &info, &issue, &all);
            scope.spawn(move || {
                let mut rank = Rank::without_comm(block, info, rank, count);
                rank.join();
                issue(&mut rank);
                all.wait();
                rank.sync();
                hccl!(HcclCommDestroy(rank.comm));
            });
        }
    });
    let mut found = 0;
    ok!(ascendExtFindings(block.number, &mut found));
    let tell = |index| {
        let form = AscendExtFindingForm::ASCEND_EXT_FINDING_TEXT;
        let mut length = 0;
        ok!(ascendExtFinding(block.number, index, form, std::ptr::null_mut(), 0, &mut length));
        let mut text = vec![0_u8; length + 1];
        let to = text.as_mut_ptr().cast();
        ok!(ascendExtFinding(block.number, index, form, to, text.len(), &mut length));
        text.truncate(length);
        String::from_utf8(text).unwrap()
    };
    (0..found).map(tell).collect()
}

/// Issues two rounds of an exchange in which each rank reads from its peer. `reads_early` leaves
/// out the first handshake of each round, and `overwrites` the second one.
fn exchange(rank: &Rank, reads_early: bool, overwrites: bool) {
    let thread = stream_thread(rank, 0);
    let channel = channels(rank, CPU, &[desc(1 - rank.rank, HCCS, 4)])[0];
    let (own, theirs) = (buffer(rank).0, remote_buffer(rank, channel).0);
    let (input, output) = (upload(&[7; 4096]), common::malloc(4096));
    // Each round has its own notifies, so that no record is lost if a handshake is missing.
    for (ready, left) in [(0, 1), (2, 3)] {
        issue!(HcommLocalCopyOnThread(thread, own, input, 4096));
        if !reads_early {
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, ready));
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, ready, LONG));
        }
        issue!(HcommReadOnThread(thread, channel, output, theirs, 4096));
        if !overwrites {
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, left));
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, left, LONG));
        }
    }
}

#[test]
fn an_exchange_with_both_handshakes_has_no_finding() {
    let found = watched(2, |rank| exchange(rank, false, false));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_missing_handshake_is_a_race() {
    for (early, overwrites) in [(true, false), (false, true)] {
        let found = watched(2, |rank| exchange(rank, early, overwrites));
        let race = found.iter().find(|text| text.starts_with("race:"));
        let race = race.unwrap_or_else(|| panic!("{early}, {overwrites}: {found:#?}"));
        for piece in
            ["HcommReadOnThread", "HcommLocalCopyOnThread", "by HcclGetHcclBuffer", "thread"]
        {
            assert!(race.contains(piece), "{piece:?} is not in: {race}");
        }
    }
}

#[test]
fn a_second_record_before_the_wait_is_found() {
    let found = watched(1, |rank| {
        let thread = stream_thread(rank, 1);
        issue!(HcommThreadNotifyRecordOnThread(thread, thread, 0));
        issue!(HcommThreadNotifyRecordOnThread(thread, thread, 0));
        issue!(HcommThreadNotifyWaitOnThread(thread, 0, LONG));
    });
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("recorded while it is set") && found[0].contains("notify 0"));
    assert!(!found[0].contains("task 0 "), "{}", found[0]);
}

#[test]
fn two_ranks_that_reduce_into_one_block_do_not_race_and_one_that_writes_there_does() {
    for writes in [false, true] {
        let found = watched(3, |rank| {
            let thread = stream_thread(rank, 0);
            let (int32, sum) =
                (HcommDataType::HCOMM_DATA_TYPE_INT32, HcommReduceOp::HCOMM_REDUCE_SUM);
            if rank.rank == 0 {
                let pair = channels(rank, CPU, &[desc(1, HCCS, 2), desc(2, HCCS, 2)]);
                let zeros = upload(&[0; 4096]);
                issue!(HcommLocalCopyOnThread(thread, buffer(rank).0, zeros, 4096));
                for channel in &pair {
                    issue!(HcommChannelNotifyRecordOnThread(thread, *channel, 0));
                }
                for channel in &pair {
                    issue!(HcommChannelNotifyWaitOnThread(thread, *channel, 1, LONG));
                }
                let output = common::malloc(4096);
                issue!(HcommLocalCopyOnThread(thread, output, buffer(rank).0, 4096));
            } else {
                let channel = channels(rank, CPU, &[desc(0, HCCS, 2)])[0];
                let to = remote_buffer(rank, channel).0;
                let input = upload(&[1; 4096]);
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
                if writes && rank.rank == 2 {
                    issue!(HcommWriteOnThread(thread, channel, to, input, 4096));
                } else {
                    issue!(HcommWriteReduceOnThread(thread, channel, to, input, 1024, int32, sum));
                }
                issue!(HcommChannelNotifyRecordOnThread(thread, channel, 1));
            }
        });
        assert_eq!(found.iter().any(|text| text.starts_with("race:")), writes, "{found:#?}");
        assert!(writes || found.is_empty(), "{found:#?}");
    }
}

#[test]
fn a_buffer_is_read_that_nobody_has_written() {
    let found = watched(1, |rank| {
        let thread = stream_thread(rank, 0);
        let output = common::malloc(64);
        issue!(HcommLocalCopyOnThread(thread, output, buffer(rank).0, 64));
    });
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("unwritten:"), "{found:#?}");
}
