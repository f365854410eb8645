//! Counting notifies: a number that streams change and wait for.

use ascend_emulator_testing::captures::end;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{fails, ok};
use ascend_sys::aclrtCntNotifyRecordMode as Record;
use ascend_sys::aclrtCntNotifyWaitMode as Wait;
use ascend_sys::*;
use std::ptr::null_mut;

const SET: Record = Record::ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE;
const ADD: Record = Record::ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE;
const OR: Record = Record::ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE;
const AND: Record = Record::ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE;
const LESS: Wait = Wait::ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE;
const EQUAL: Wait = Wait::ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE;
const BIGGER: Wait = Wait::ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE;
const AT_LEAST: Wait = Wait::ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE;
const MASK: Wait = Wait::ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE;

/// Returns the configuration of the product that has counting notifies.
fn config() -> AscendExtBlockConfig {
    AscendExtBlockConfig { product: 950, ..Block::config() }
}

fn notify() -> aclrtCntNotify {
    let mut notify = null_mut();
    ok!(aclrtCntNotifyCreate(&mut notify, 0));
    notify
}

fn record(notify: aclrtCntNotify, stream: aclrtStream, mode: Record, value: u32) {
    ok!(aclrtCntNotifyRecord(notify, stream, &mut aclrtCntNotifyRecordInfo { mode, value }));
}

fn info(mode: Wait, value: u32) -> aclrtCntNotifyWaitInfo {
    aclrtCntNotifyWaitInfo { mode, value, timeout: 0, isClear: 0, rsv: [0; 3] }
}

fn wait(notify: aclrtCntNotify, stream: aclrtStream, mode: Wait, value: u32) {
    ok!(aclrtCntNotifyWaitWithTimeout(notify, stream, &mut info(mode, value)));
}

/// Adds a wait that then sets the number to 0.
fn take(notify: aclrtCntNotify, stream: aclrtStream, mode: Wait, value: u32) {
    let mut info = aclrtCntNotifyWaitInfo { isClear: 1, ..info(mode, value) };
    ok!(aclrtCntNotifyWaitWithTimeout(notify, stream, &mut info));
}

/// Checks that the number has this value.
fn is(notify: aclrtCntNotify, stream: aclrtStream, value: u32) {
    wait(notify, stream, EQUAL, value);
    assert!(idle(stream), "the number is not {value:#x}");
}

#[test]
fn each_mode_of_a_record_changes_the_number() {
    let _block = Block::one_with(config());
    let (s, n) = (stream(), notify());
    is(n, s, 0);
    record(n, s, SET, 0b1100);
    is(n, s, 0b1100);
    record(n, s, ADD, 3);
    is(n, s, 0b1111);
    record(n, s, AND, 0b0110);
    is(n, s, 0b0110);
    record(n, s, OR, 0x8000_0001);
    is(n, s, 0x8000_0007);
    // The sum goes past the largest number and wraps.
    record(n, s, SET, u32::MAX);
    record(n, s, ADD, 2);
    is(n, s, 1);
    ok!(aclrtCntNotifyReset(n, s));
    is(n, s, 0);
}

#[test]
fn each_condition_holds_a_stream_until_it_is_true() {
    let _block = Block::one_with(config());
    // Each case has a condition, a value, numbers that hold the stream, and numbers that release
    // it.
    let cases: [(Wait, u32, &[u32], &[u32]); 5] = [
        (LESS, 5, &[5, u32::MAX], &[4, 0]),
        (EQUAL, 5, &[4, 6, 0, u32::MAX], &[5]),
        (BIGGER, 5, &[5, 0], &[6, u32::MAX]),
        (AT_LEAST, 5, &[4, 0], &[5, u32::MAX]),
        (MASK, 5, &[1, 4, 0, 10], &[5, 7, u32::MAX]),
    ];
    let (s, t, n) = (stream(), stream(), notify());
    for (mode, value, held, free) in cases {
        for after in free {
            for before in held {
                record(n, t, SET, *before);
                wait(n, s, mode, value);
                assert!(!idle(s), "{mode:?}: {before:#x} for {value:#x}");
                record(n, t, SET, *after);
                ok!(aclrtSynchronizeStream(s));
                is(n, s, *after);
                // The condition is already true.
                wait(n, s, mode, value);
                assert!(idle(s), "{mode:?}: {after:#x} for {value:#x}");
            }
        }
    }
}

#[test]
fn a_barrier_of_streams_counts_them() {
    let _block = Block::one_with(config());
    let (memory, n, last) = (malloc(16), notify(), stream());
    let streams: Vec<_> = (0..16).map(|_| stream()).collect();
    for round in 1..20u8 {
        take(n, last, EQUAL, 16);
        for (at, s) in streams.iter().enumerate() {
            assert!(!idle(last), "after {at} records");
            let part = memory.wrapping_byte_add(at);
            ok!(aclrtMemsetAsync(part, 1, round.into(), 1, *s));
            record(n, *s, ADD, 1);
        }
        ok!(aclrtSynchronizeStream(last));
        assert_eq!(read(memory, 16), [round; 16]);
    }
}

#[test]
fn threads_take_what_others_add_and_nothing_is_lost() {
    const ROUNDS: u32 = 300;
    let block = Block::one_with(config());
    let (full, empty, first) = (notify() as usize, notify() as usize, block.first);
    let taker = std::thread::spawn(move || {
        ok!(aclrtSetDevice(first));
        let s = stream();
        for _ in 0..ROUNDS {
            take(full as aclrtCntNotify, s, EQUAL, 2);
            record(empty as aclrtCntNotify, s, SET, 1);
            ok!(aclrtSynchronizeStream(s));
        }
    });
    let s = stream();
    for _ in 0..ROUNDS {
        record(full as aclrtCntNotify, s, ADD, 1);
        record(full as aclrtCntNotify, s, ADD, 1);
        take(empty as aclrtCntNotify, s, BIGGER, 0);
        ok!(aclrtSynchronizeStream(s));
    }
    taker.join().unwrap();
    is(full as aclrtCntNotify, s, 0);
    is(empty as aclrtCntNotify, s, 0);
}

#[test]
fn the_zero_that_a_wait_leaves_ends_another_one() {
    let _block = Block::one_with(config());
    let (s, t, u, n) = (stream(), stream(), stream(), notify());
    record(n, u, SET, 1);
    wait(n, s, LESS, 1);
    assert!(!idle(s));
    take(n, t, EQUAL, 2);
    record(n, u, ADD, 1);
    ok!(aclrtSynchronizeStream(t));
    ok!(aclrtSynchronizeStream(s));
}

#[test]
fn a_graph_changes_and_waits_at_each_execution() {
    let _block = Block::one_with(config());
    let (a, s, t, n) = (malloc(8), stream(), stream(), notify());
    ok!(aclmdlRICaptureBegin(s, aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    take(n, s, EQUAL, 3);
    ok!(aclrtMemsetAsync(a, 8, 9, 8, s));
    record(n, s, SET, 7);
    let graph = end(s);
    is(n, t, 0);
    for _ in 0..2 {
        ok!(aclrtMemset(a, 8, 0, 8));
        ok!(aclrtCntNotifyReset(n, t));
        ok!(aclmdlRIExecuteAsync(graph, s));
        assert!(!idle(s));
        record(n, t, ADD, 3);
        ok!(aclrtSynchronizeStream(s));
        assert_eq!(read(a, 8), [9; 8]);
        is(n, t, 7);
    }
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn a_wait_comes_after_what_was_before_the_records_and_after_nothing_else() {
    for too_early in [false, true] {
        let check = AscendExtCheck::ASCEND_EXT_CHECK_RACES.0;
        let block = Block::one_with(AscendExtBlockConfig { check, ..config() });
        let (a, s, t, n) = (malloc(8), stream(), stream(), notify());
        if too_early {
            record(n, s, ADD, 1);
        }
        ok!(aclrtMemsetAsync(a, 8, 1, 8, s));
        if !too_early {
            record(n, s, ADD, 1);
        }
        wait(n, t, EQUAL, 1);
        ok!(aclrtMemsetAsync(a, 8, 2, 8, t));
        ok!(aclrtSynchronizeStream(s));
        ok!(aclrtSynchronizeStream(t));
        let mut count = 0;
        ok!(ascendExtFindings(block.number, &mut count));
        assert_eq!(count, u32::from(too_early));
    }
}

#[test]
fn a_wait_ends_with_its_time_limit_an_abort_or_the_notify() {
    let _block = Block::one_with(config());
    let (s, n, m) = (stream(), notify(), notify());
    let mut limited = aclrtCntNotifyWaitInfo { timeout: 1, ..info(BIGGER, 3) };
    ok!(aclrtCntNotifyWaitWithTimeout(n, s, &mut limited));
    fails!(
        107020,
        ["wait for counting notify", "Bigger 3; it is 0", "gave up"],
        aclrtSynchronizeStream(s)
    );
    wait(n, s, BIGGER, 3);
    ok!(aclrtStreamAbort(s));
    fails!(107023, ["wait for counting notify"], aclrtSynchronizeStream(s));
    wait(m, s, EQUAL, 1);
    ok!(aclrtCntNotifyDestroy(m));
    fails!(107017, ["was destroyed before"], aclrtSynchronizeStream(s));
    fails!(107017, ["the counting notify", "was destroyed"], aclrtCntNotifyDestroy(m));
}

#[test]
fn arguments_that_are_wrong_are_refused_and_nothing_is_enqueued() {
    let block = Block::with(AscendExtBlockConfig { deviceCount: 2, ..config() });
    ok!(aclrtSetDevice(block.first + 1));
    let elsewhere = stream();
    ok!(aclrtSetDevice(block.first));
    let (s, n, gone) = (stream(), notify(), notify());
    ok!(aclrtCntNotifyDestroy(gone));
    let mut one = aclrtCntNotifyRecordInfo { mode: ADD, value: 1 };
    let mut odd = aclrtCntNotifyRecordInfo { mode: Record(3), value: 1 };
    fails!(100000, ["cntNotify is NULL"], aclrtCntNotifyCreate(null_mut(), 0));
    fails!(107000, ["flag is 2"], aclrtCntNotifyCreate(&mut null_mut(), 2));
    fails!(100000, ["info is NULL"], aclrtCntNotifyRecord(n, s, null_mut()));
    fails!(107000, ["mode is 3"], aclrtCntNotifyRecord(n, s, &mut odd));
    fails!(107017, ["was destroyed"], aclrtCntNotifyRecord(gone, s, &mut one));
    fails!(100000, ["info is NULL"], aclrtCntNotifyWaitWithTimeout(n, s, null_mut()));
    fails!(107000, ["mode is 5"], aclrtCntNotifyWaitWithTimeout(n, s, &mut info(Wait(5), 0)));
    fails!(107017, [], aclrtCntNotifyWaitWithTimeout(null_mut(), s, &mut info(EQUAL, 0)));
    fails!(107017, ["was destroyed"], aclrtCntNotifyReset(gone, s));
    fails!(107017, [], aclrtCntNotifyReset(s, s));
    let mut id = 0;
    fails!(100000, ["notifyId is NULL"], aclrtCntNotifyGetId(n, null_mut()));
    fails!(107017, ["was destroyed"], aclrtCntNotifyGetId(gone, &mut id));
    is(n, s, 0);
    // Streams of other devices can record a counting notify, but cannot wait for it.
    ok!(aclrtSetDevice(block.first + 1));
    record(n, elsewhere, SET, 4);
    fails!(
        107003,
        ["the counting notify belongs to device 0"],
        aclrtCntNotifyWaitWithTimeout(n, elsewhere, &mut info(EQUAL, 4))
    );
    ok!(aclrtSynchronizeStream(elsewhere));
    ok!(aclrtSetDevice(block.first));
    is(n, s, 4);
}

#[test]
fn notifies_that_exist_have_different_ids_and_end_with_their_device() {
    let block = Block::one_with(config());
    let (n, m) = (notify(), notify());
    let (mut first, mut second) = (0, 0);
    ok!(aclrtCntNotifyGetId(n, &mut first));
    ok!(aclrtCntNotifyGetId(m, &mut second));
    assert_ne!(first, second);
    ok!(aclrtResetDevice(block.first));
    fails!(107017, ["was destroyed"], aclrtCntNotifyGetId(n, &mut first));
}

#[test]
fn only_the_950_has_them() {
    for product in [2, 3] {
        let _block = Block::one_with(AscendExtBlockConfig { product, ..Block::config() });
        fails!(207000, ["no counting notifies"], aclrtCntNotifyCreate(&mut null_mut(), 0));
    }
}
