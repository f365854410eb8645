//! Deadlocks are reported, with everybody who is in them, by waits that have no limit; what may still go on is left alone.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::ranks::{FP32, Rank, SUM, on_block};
use ascend_emulator_testing::{fails, hccl, ok};
use ascend_sys::*;
use std::ptr::null_mut;
use std::time::Duration;

fn event() -> aclrtEvent {
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    event
}

#[test]
fn two_streams_that_wait_for_each_other() {
    let _block = Block::one();
    let (s, t, e, f) = (stream(), stream(), event(), event());
    ok!(aclrtStreamWaitEvent(s, f));
    ok!(aclrtRecordEvent(e, s));
    ok!(aclrtStreamWaitEvent(t, e));
    ok!(aclrtRecordEvent(f, t));
    fails!(107020, ["deadlock", "wait for task"], aclrtSynchronizeStream(s));
}

#[test]
fn all_streams_of_a_cycle_fail_whichever_comes_first() {
    for turned in [false, true] {
        let _block = Block::one();
        let mut streams = [stream(), stream()];
        if turned {
            streams.reverse();
        }
        let ([s, t], e, f) = (streams, event(), event());
        ok!(aclrtStreamWaitEvent(s, f));
        ok!(aclrtRecordEvent(e, s));
        ok!(aclrtStreamWaitEvent(t, e));
        ok!(aclrtRecordEvent(f, t));
        fails!(107020, ["deadlock", "wait for task"], aclrtSynchronizeStream(s));
        fails!(107020, ["deadlock", "wait for task"], aclrtSynchronizeStream(t));
    }
}

#[test]
fn an_event_that_only_the_sleeping_thread_could_record() {
    let _block = Block::one();
    let (s, e) = (stream(), event());
    ok!(aclrtStreamWaitEvent(s, e));
    fails!(107020, ["deadlock", "nobody has recorded"], aclrtSynchronizeStream(s));
}

#[test]
fn a_thread_that_may_still_record_is_waited_for() {
    let block = Block::one();
    let (s, t, e, first) = (stream() as usize, stream() as usize, event() as usize, block.first);
    ok!(aclrtStreamWaitEvent(s as aclrtStream, e as aclrtEvent));
    let recorder = std::thread::spawn(move || {
        ok!(aclrtSetDevice(first));
        std::thread::sleep(Duration::from_millis(300));
        ok!(aclrtRecordEvent(e as aclrtEvent, t as aclrtStream));
    });
    ok!(aclrtSynchronizeStream(s as aclrtStream));
    recorder.join().unwrap();
}

#[test]
fn ranks_that_use_two_communicators_in_different_order() {
    let config = AscendExtBlockConfig { deviceCount: 2, ..Block::config() };
    let mut second = HcclRootInfo::default();
    hccl!(HcclGetRootInfo(&mut second));
    let texts = on_block(config, |rank: &mut Rank| {
        rank.join();
        let one = rank.comm;
        let mut two = null_mut();
        hccl!(HcclCommInitRootInfo(2, &second, rank.rank, &mut two));
        let (send, recv) = (rank.upload(&[0; 64]), rank.upload(&[0; 64]));
        let reduce = |comm| hccl!(HcclAllReduce(send, recv, 16, FP32, SUM, comm, rank.stream));
        reduce(one);
        reduce(two);
        rank.sync();
        let (first, then) = if rank.rank == 0 { (one, two) } else { (two, one) };
        reduce(first);
        reduce(then);
        let (code, text) = rank.sync_fails();
        assert_ne!(code, 0);
        text
    });
    assert!(texts.iter().any(|text| text.contains("deadlock")), "{texts:?}");
}
