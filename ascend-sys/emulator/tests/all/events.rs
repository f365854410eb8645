//! Tests of events: what a record captures, events used as flags, waits across streams, and times.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{fails, ok};
use ascend_sys::*;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

pub(crate) fn event(flag: u32) -> aclrtEvent {
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, flag));
    event
}

pub(crate) fn event_ex(flag: u32) -> aclrtEvent {
    let mut event = null_mut();
    ok!(aclrtCreateEventExWithFlag(&mut event, flag));
    event
}

fn recorded(event: aclrtEvent) -> bool {
    let mut status = aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY;
    ok!(aclrtQueryEventStatus(event, &mut status));
    status == aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_COMPLETE
}

fn waits_pending(event: aclrtEvent) -> bool {
    let mut status = aclrtEventWaitStatus::ACL_EVENT_WAIT_STATUS_RESERVED;
    ok!(aclrtQueryEventWaitStatus(event, &mut status));
    status == aclrtEventWaitStatus::ACL_EVENT_WAIT_STATUS_NOT_READY
}

#[test]
fn a_wait_orders_two_streams() {
    let _block = Block::one();
    let (a, s, t, e, gate) =
        (malloc(64), stream(), stream(), event_ex(ACL_EVENT_SYNC), Gate::new());
    gate.close(s);
    ok!(aclrtMemsetAsync(a, 64, 1, 64, s));
    ok!(aclrtRecordEvent(e, s));
    ok!(aclrtStreamWaitEvent(t, e));
    ok!(aclrtMemsetAsync(a, 64, 2, 64, t));
    assert!(!recorded(e) && !idle(t) && waits_pending(e));
    gate.open();
    ok!(aclrtSynchronizeStream(t));
    assert!(recorded(e) && !waits_pending(e));
    assert_eq!(read(a, 64), [2; 64]);
}

#[test]
fn the_forms_with_a_flag_do_the_same_by_default_and_refuse_the_other_flag() {
    let _block = Block::one();
    let (s, t, e, gate) = (stream(), stream(), event_ex(ACL_EVENT_SYNC), Gate::new());
    gate.close(s);
    ok!(aclrtRecordEventWithFlag(e, s, ACL_EVENT_RECORD_DEFAULT));
    ok!(aclrtStreamWaitEventWithFlag(t, e, 0, ACL_EVENT_WAIT_DEFAULT));
    assert!(!recorded(e) && !idle(t) && waits_pending(e));
    gate.open();
    ok!(aclrtSynchronizeStream(t));
    assert!(recorded(e) && !waits_pending(e));

    let (record, wait) = (ACL_EVENT_RECORD_EXTERNAL, ACL_EVENT_WAIT_EXTERNAL);
    fails!(207000, ["flag is 1"], aclrtRecordEventWithFlag(e, s, record));
    fails!(207000, ["flag is 1"], aclrtStreamWaitEventWithFlag(t, e, 0, wait));
    assert!(!waits_pending(e));
}

#[test]
fn waits_go_through_a_chain_of_streams_without_a_host_thread() {
    let _block = Block::one();
    let (a, gate) = (malloc(64), Gate::new());
    let streams: Vec<_> = (0..40).map(|_| stream()).collect();
    let events: Vec<_> = streams.iter().map(|_| event_ex(ACL_EVENT_SYNC)).collect();
    gate.close(streams[0]);
    for i in 0..40 {
        if i > 0 {
            ok!(aclrtStreamWaitEvent(streams[i], events[i - 1]));
        }
        ok!(aclrtMemsetAsync(a, 64, i as i32, 64, streams[i]));
        ok!(aclrtRecordEvent(events[i], streams[i]));
    }
    let opener = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(80));
        gate.open();
    });
    ok!(aclrtSynchronizeEvent(events[39]));
    assert_eq!(read(a, 64), [39; 64]);
    opener.join().unwrap();
}

#[test]
fn an_ex_event_is_complete_before_its_first_record_and_takes_the_latest_one() {
    let _block = Block::one();
    let (s, t, e, gate) = (stream(), stream(), event_ex(ACL_EVENT_SYNC), Gate::new());
    assert!(recorded(e));
    ok!(aclrtSynchronizeEvent(e));
    ok!(aclrtStreamWaitEvent(t, e));
    assert!(idle(t));
    ok!(aclrtRecordEvent(e, s));
    ok!(aclrtStreamWaitEvent(t, e));
    gate.close(s);
    ok!(aclrtRecordEvent(e, s));
    // The wait above refers to the first record, which is complete.
    ok!(aclrtSynchronizeStream(t));
    assert!(!recorded(e));
    gate.open();
    ok!(aclrtSynchronizeEvent(e));
    fails!(107000, ["reset"], aclrtResetEvent(e, s));
}

#[test]
fn each_kind_of_event_but_ex_holds_a_stream_until_it_is_recorded() {
    let _block = Block::one();
    let mut plain = std::ptr::null_mut();
    ok!(aclrtCreateEvent(&mut plain));
    for (event, holds) in [
        (plain, true),
        (event(ACL_EVENT_SYNC), true),
        (event(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE), true),
        (event_ex(ACL_EVENT_SYNC), false),
        (event_ex(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE), false),
    ] {
        let (s, t) = (stream(), stream());
        ok!(aclrtStreamWaitEvent(s, event));
        assert_eq!(idle(s), !holds);
        fails!(if holds { 507046 } else { 0 }, [], aclrtSynchronizeStreamWithTimeout(s, 50));
        ok!(aclrtRecordEvent(event, t));
        ok!(aclrtSynchronizeStream(s));
    }
}

#[test]
fn waiting_for_an_event_never_recorded_blocks_until_it_is() {
    let _block = Block::one();
    let (a, s, t, e) = (malloc(8), stream(), stream(), event(ACL_EVENT_SYNC));
    for round in 1..20 {
        ok!(aclrtStreamWaitEvent(s, e));
        ok!(aclrtResetEvent(e, s));
        ok!(aclrtMemsetAsync(a, 8, round, 8, s));
        assert!(!idle(s) && !recorded(e));
        ok!(aclrtRecordEvent(e, t));
        ok!(aclrtSynchronizeStream(s));
        assert_eq!(read(a, 1), [round as u8]);
        assert!(!recorded(e));
    }
}

/// Lets two streams take turns. Each round resets the events that it waited for, or leaves them.
/// All rounds are issued before the first one runs.
#[test]
fn a_round_of_record_wait_and_reset_takes_the_record_of_its_own_round() {
    let _block = Block::one();
    for reuses in ["with a reset", "without one"] {
        for make in [|| event(ACL_EVENT_SYNC), || event(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE)] {
            let (a, s, t, gate) = (malloc(16), stream(), stream(), Gate::new());
            let (there, back) = (make(), make());
            gate.close(s);
            let b = a.wrapping_byte_add(8);
            for round in 1..=30 {
                ok!(aclrtMemsetAsync(a, 8, round, 8, s));
                ok!(aclrtRecordEvent(there, s));
                ok!(aclrtStreamWaitEvent(t, there));
                if reuses == "with a reset" {
                    ok!(aclrtResetEvent(there, t));
                }
                ok!(aclrtMemcpyAsync(b, 8, a, 8, D2D, t));
                ok!(aclrtRecordEvent(back, t));
                ok!(aclrtStreamWaitEvent(s, back));
                if reuses == "with a reset" {
                    ok!(aclrtResetEvent(back, s));
                }
                // The copy reads the bytes that this round wrote.
                ok!(aclrtMemcpyAsync(a, 8, b, 8, D2D, s));
            }
            assert!(!idle(t) && !idle(s));
            gate.open();
            ok!(aclrtSynchronizeStream(s));
            ok!(aclrtSynchronizeStream(t));
            assert_eq!(read(a, 16), [30; 16], "{reuses}");
        }
    }
}

/// Checks that the event is set and cleared in the order in which the streams run, not in the order
/// of the calls.
#[test]
fn a_record_that_is_issued_before_a_reset_has_run_is_cleared_by_it() {
    let _block = Block::one();
    let (a, s, t, gate) = (malloc(8), stream(), stream(), Gate::new());
    let e = event(ACL_EVENT_SYNC);
    ok!(aclrtMemset(a, 8, 0, 8));
    gate.close(t);
    // Both waits and both resets are queued before the first record runs.
    for round in 1..=2 {
        ok!(aclrtStreamWaitEvent(s, e));
        ok!(aclrtResetEvent(e, s));
        ok!(aclrtMemsetAsync(a, 8, round, 8, s));
        if round == 1 {
            ok!(aclrtRecordEvent(e, t));
        }
    }
    gate.open();
    ok!(aclrtSynchronizeStream(t));
    fails!(507046, [], aclrtSynchronizeStreamWithTimeout(s, 50));
    assert_eq!(read(a, 8), [1; 8], "the second wait has taken the first record");
    ok!(aclrtRecordEvent(e, t));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 8), [2; 8]);
}

#[test]
fn a_host_thread_can_wait_for_a_record_that_comes_later() {
    let block = Block::one();
    let (s, e) = (stream() as usize, event(ACL_EVENT_SYNC) as usize);
    let first = block.first;
    fails!(507047, ["nobody has recorded"], aclrtSynchronizeEventWithTimeout(e as aclrtEvent, 5));
    let recorder = std::thread::spawn(move || {
        ok!(aclrtSetDevice(first));
        std::thread::sleep(Duration::from_millis(50));
        ok!(aclrtRecordEvent(e as aclrtEvent, s as aclrtStream));
    });
    ok!(aclrtSynchronizeEvent(e as aclrtEvent));
    recorder.join().unwrap();
}

#[test]
fn time_limits() {
    let _block = Block::one();
    let (s, t, e, gate) = (stream(), stream(), event_ex(ACL_EVENT_SYNC), Gate::new());
    gate.close(s);
    ok!(aclrtRecordEvent(e, s));
    let start = Instant::now();
    fails!(507046, ["host function"], aclrtSynchronizeStreamWithTimeout(s, 20));
    fails!(507047, ["host function"], aclrtSynchronizeEventWithTimeout(e, 20));
    fails!(507046, ["host function"], aclrtSynchronizeDeviceWithTimeout(20));
    assert!(start.elapsed() >= Duration::from_millis(60));
    fails!(107000, ["timeout is -2"], aclrtSynchronizeStreamWithTimeout(s, -2));
    fails!(107000, ["timeout is -2"], aclrtSynchronizeEventWithTimeout(e, -2));
    // A wait that takes too long fails its stream, but the other tasks of the stream still run.
    let a = malloc(8);
    ok!(aclrtStreamWaitEventWithTimeout(t, e, 1));
    ok!(aclrtMemsetAsync(a, 8, 3, 8, t));
    fails!(107020, ["wait for task", "gave up after 1.0 s"], aclrtSynchronizeStream(t));
    ok!(aclrtSynchronizeStream(t));
    assert_eq!(read(a, 8), [3; 8]);
    gate.open();
    ok!(aclrtSynchronizeStreamWithTimeout(s, -1));
}

#[test]
fn elapsed_time() {
    let _block = Block::one();
    let (s, gate) = (stream(), Gate::new());
    let (begin, end, plain) =
        (event(ACL_EVENT_TIME_LINE), event(ACL_EVENT_TIME_LINE), event(ACL_EVENT_SYNC));
    let mut ms = 0f32;
    let began = Instant::now();
    ok!(aclrtRecordEvent(begin, s));
    gate.close(s);
    ok!(aclrtRecordEvent(end, s));
    fails!(507006, ["not complete"], aclrtEventElapsedTime(&mut ms, begin, end));
    std::thread::sleep(Duration::from_millis(20));
    gate.open();
    ok!(aclrtSynchronizeStream(s));
    let longest = began.elapsed().as_secs_f32() * 1000.0;
    ok!(aclrtEventElapsedTime(&mut ms, begin, end));
    assert!((20.0..longest + 1.0).contains(&ms), "{ms}, on the host {longest}");
    ok!(aclrtRecordEvent(plain, s));
    fails!(107006, ["ACL_EVENT_TIME_LINE"], aclrtEventElapsedTime(&mut ms, begin, plain));
    fails!(107000, ["ACL_EVENT_SYNC"], aclrtStreamWaitEvent(s, begin));
}

#[test]
fn destroying_an_event_does_not_disturb_who_waits_for_it() {
    let _block = Block::one();
    let (a, s, t, e, gate) = (malloc(8), stream(), stream(), event_ex(ACL_EVENT_SYNC), Gate::new());
    gate.close(s);
    ok!(aclrtMemsetAsync(a, 8, 1, 8, s));
    ok!(aclrtRecordEvent(e, s));
    ok!(aclrtStreamWaitEvent(t, e));
    ok!(aclrtDestroyEvent(e));
    ok!(aclrtMemsetAsync(a, 8, 2, 8, t));
    fails!(107017, ["the event", "was destroyed"], aclrtRecordEvent(e, s));
    fails!(107017, ["the event", "was destroyed"], aclrtDestroyEvent(e));
    fails!(107017, ["is the handle of a stream, not of an event"], aclrtRecordEvent(s, s));
    assert!(!idle(t));
    gate.open();
    ok!(aclrtSynchronizeDevice());
    assert_eq!(read(a, 8), [2; 8]);
}

#[test]
fn events_stay_on_their_device() {
    let block = Block::new(2);
    ok!(aclrtSetDevice(block.first));
    let e = event_ex(ACL_EVENT_SYNC);
    ok!(aclrtRecordEvent(e, null_mut()));
    ok!(aclrtSetDevice(block.first + 1));
    fails!(107003, ["belongs to device"], aclrtRecordEvent(e, null_mut()));
    fails!(107003, ["belongs to device"], aclrtStreamWaitEvent(null_mut(), e));
    ok!(aclrtSynchronizeEvent(e));
    assert!(recorded(e));
}

#[test]
fn events_have_numbers_and_the_process_tells_how_many_more_there_can_be() {
    let _block = Block::one();
    let id = |event| {
        let mut id = u32::MAX;
        ok!(aclrtGetEventId(event, &mut id));
        id
    };
    let left = || {
        let mut left = 0;
        ok!(aclrtGetEventAvailNum(&mut left));
        left
    };
    let (a, b) = (event(ACL_EVENT_SYNC), event_ex(ACL_EVENT_SYNC));
    assert_ne!(id(a), id(b));
    assert_eq!(id(a), id(a));
    // Other tests that run at the same time have events too, but far fewer.
    let many = 20_000;
    let before = left();
    let all: Vec<_> = (0..many).map(|_| event_ex(ACL_EVENT_SYNC)).collect();
    assert!(before.abs_diff(left() + many) < many / 2, "{before}, then {}", left());
    all.into_iter().for_each(|event| ok!(aclrtDestroyEvent(event)));
    assert!(before.abs_diff(left()) < many / 2, "{before}, then {}", left());
    fails!(100000, ["eventId is NULL"], aclrtGetEventId(a, null_mut()));
    fails!(100000, ["eventCount is NULL"], aclrtGetEventAvailNum(null_mut()));
    ok!(aclrtDestroyEvent(b));
    let mut told = 7;
    fails!(107017, ["event"], aclrtGetEventId(b, &mut told));
    fails!(107017, ["event"], aclrtGetEventId(null_mut(), &mut told));
    std::thread::spawn(|| {
        let mut left = 0;
        fails!(107002, [], aclrtGetEventAvailNum(&mut left));
    })
    .join()
    .unwrap();
    assert_eq!(told, 7);
}
