//! Tests that a deadlock of waits without a limit is reported with every participant, and that
//! waits that may still end are not reported.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::ranks::{FP32, Rank, SUM, on_block, root_info, slow};
use ascend_emulator_testing::{alone, call, fails, hccl, ok};
use ascend_sys::*;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn event() -> aclrtEvent {
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    event
}

fn have_wait_for_each_other([s, t]: [aclrtStream; 2]) {
    let (e, f) = (event(), event());
    ok!(aclrtStreamWaitEvent(s, f));
    ok!(aclrtRecordEvent(e, s));
    ok!(aclrtStreamWaitEvent(t, e));
    ok!(aclrtRecordEvent(f, t));
}

#[test]
fn two_streams_whose_cycle_only_the_sleeping_thread_could_end() {
    alone!(beside);
    let _block = Block::one();
    let [s, t] = [stream(), stream()];
    have_wait_for_each_other([s, t]);
    fails!(107020, ["deadlock", "wait for task"], aclrtSynchronizeStream(s));
}

#[test]
fn all_streams_of_a_cycle_that_only_the_sleeping_thread_could_end_fail_whichever_comes_first() {
    alone!(beside);
    for turned in [false, true] {
        let _block = Block::one();
        let mut streams = [stream(), stream()];
        if turned {
            streams.reverse();
        }
        let [s, t] = streams;
        have_wait_for_each_other(streams);
        fails!(107020, ["deadlock", "wait for task"], aclrtSynchronizeStream(s));
        fails!(107020, ["deadlock", "wait for task"], aclrtSynchronizeStream(t));
    }
}

#[test]
fn an_event_that_only_the_sleeping_thread_could_record() {
    alone!(beside);
    let _block = Block::one();
    let (s, e) = (stream(), event());
    ok!(aclrtStreamWaitEvent(s, e));
    fails!(107020, ["deadlock", "nobody has recorded"], aclrtSynchronizeStream(s));
}

#[test]
fn an_event_that_only_the_sleeping_thread_could_record_while_it_waits_for_it() {
    alone!(beside);
    let _block = Block::one();
    let e = event();
    fails!(507047, ["deadlock", "an event that nobody has recorded"], aclrtSynchronizeEvent(e));
    // A wait with a short limit is no deadlock.
    fails!(
        507047,
        ["not complete after 20ms", "nobody has recorded"],
        aclrtSynchronizeEventWithTimeout(e, 20)
    );
    ok!(aclrtRecordEvent(e, stream()));
    ok!(aclrtSynchronizeEvent(e));
}

#[test]
fn a_stopped_stream_that_only_the_sleeping_thread_could_abort() {
    alone!(beside);
    let _block = Block::one();
    let (s, place) = (stream(), malloc(8));
    ok!(aclrtStreamStop(s));
    ok!(aclrtMemsetAsync(place, 8, 1, 8, s));
    ok!(aclrtMemsetAsync(place, 8, 2, 8, s));
    fails!(107020, ["deadlock", "is stopped (aclrtStreamStop)"], aclrtSynchronizeStream(s));
    ok!(aclrtStreamAbort(s));
}

#[test]
fn a_number_that_only_the_sleeping_thread_could_record() {
    alone!(beside);
    let _block = Block::one_with(AscendExtBlockConfig { product: 950, ..Block::config() });
    let (s, mut notify) = (stream(), null_mut());
    ok!(aclrtCntNotifyCreate(&mut notify, 0));
    let mut awaited = aclrtCntNotifyWaitInfo { value: 3, ..aclrtCntNotifyWaitInfo::default() };
    awaited.mode = aclrtCntNotifyWaitMode::ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE;
    ok!(aclrtCntNotifyWaitWithTimeout(notify, s, &mut awaited));
    fails!(
        107020,
        ["deadlock", "wait for counting notify", "Equal 3; it is 0"],
        aclrtSynchronizeStream(s)
    );
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

/// The time after which a thread sets its device. It is longer than `STILL`, for which a deadlock
/// must last before the emulator reports it.
const LATE: Duration = Duration::from_millis(2500);

#[test]
fn a_thread_without_a_device_may_always_be_the_one_that_records() {
    alone!(beside);
    let block = Block::one();
    let (s, e) = (stream(), event() as usize);
    ok!(aclrtStreamWaitEvent(s, e as aclrtEvent));
    let recorder = std::thread::spawn(move || {
        std::thread::sleep(LATE);
        ok!(aclrtSetDevice(block.first));
        ok!(aclrtRecordEvent(e as aclrtEvent, stream()));
        block
    });
    ok!(aclrtSynchronizeStream(s));
    recorder.join().unwrap();
}

#[test]
fn what_may_be_a_deadlock_is_printed_and_goes_on() {
    fn here() {}
    if let Some(output) = alone::run_alone(std::any::type_name_of_val(&here), true) {
        let said = String::from_utf8_lossy(&output.stderr);
        let call = "a rank in HcclCommInitRootInfo: waiting for rank 1 of 2";
        for piece in ["nothing has moved for 10 s", "nobody has recorded", "stream", call] {
            assert!(said.contains(piece), "{piece}: {said}");
        }
        return;
    }
    // The test uses the devices of C programs.
    ok!(aclrtSetDevice(0));
    let (s, e) = (stream(), event() as usize);
    let root = root_info();
    let join = move |rank| {
        ok!(aclrtSetDevice(rank as i32));
        let mut comm = null_mut();
        hccl!(HcclCommInitRootInfo(2, &root, rank, &mut comm));
    };
    let joins = std::thread::spawn(move || join(0));
    // The last progress is in the call of the other thread, a second before the stream begins to
    // wait.
    std::thread::sleep(Duration::from_secs(1));
    ok!(aclrtStreamWaitEvent(s, e as aclrtEvent));
    // A query of a stream does not count as progress.
    let (waits, is_over) = (s as usize, std::sync::Arc::new(AtomicBool::new(false)));
    let asked = is_over.clone();
    let asks = std::thread::spawn(move || {
        ok!(aclrtSetDevice(0));
        while !asked.load(Ordering::Relaxed) {
            let mut status = aclrtStreamStatus::ACL_STREAM_STATUS_COMPLETE;
            ok!(aclrtStreamQuery(waits as aclrtStream, &mut status));
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    let recorder = std::thread::spawn(move || {
        // This is longer than the ten seconds after which the message is printed, and longer still
        // under tools that make the program slow.
        std::thread::sleep(Duration::from_secs(if slow() { 40 } else { 30 }));
        ok!(aclrtSetDevice(0));
        ok!(aclrtRecordEvent(e as aclrtEvent, stream()));
        join(1);
    });
    ok!(aclrtSynchronizeStream(s));
    is_over.store(true, Ordering::Relaxed);
    [recorder, joins, asks].into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_wait_for_a_value_is_printed_and_so_is_a_call_that_comes_to_wait_later() {
    fn here() {}
    if let Some(output) = alone::run_alone(std::any::type_name_of_val(&here), true) {
        let said = String::from_utf8_lossy(&output.stderr);
        let call = "a rank in HcclCommInitRootInfo: waiting for rank 1 of 2";
        for piece in ["wait for the value 0x1 ", "nobody has recorded", call] {
            assert_eq!(said.matches(piece).count(), 1, "{piece}: {said}");
        }
        assert_eq!(said.matches("nothing has moved for 10 s").count(), 2, "{said}");
        return;
    }
    ok!(aclrtSetDevice(0));
    let (s, t, e, word) = (stream(), stream(), event() as usize, malloc(8));
    write(word, &0u64.to_ne_bytes());
    ok!(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, s));
    ok!(aclrtStreamWaitEvent(t, e as aclrtEvent));
    let (root, word) = (root_info(), word as usize);
    let join = move |rank| {
        ok!(aclrtSetDevice(rank as i32));
        let mut comm = null_mut();
        hccl!(HcclCommInitRootInfo(2, &root, rank, &mut comm));
    };
    let later = Duration::from_secs(3);
    let joins = std::thread::spawn(move || {
        std::thread::sleep(later);
        join(0);
    });
    let ends = std::thread::spawn(move || {
        std::thread::sleep(later + Duration::from_secs(if slow() { 45 } else { 15 }));
        join(1);
        ok!(aclrtSetDevice(0));
        let ends = stream();
        ok!(aclrtRecordEvent(e as aclrtEvent, ends));
        ok!(aclrtValueWrite(word as *mut std::ffi::c_void, 1, 0, ends));
    });
    ok!(aclrtSynchronizeStream(s));
    ok!(aclrtSynchronizeStream(t));
    [joins, ends].into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_thread_that_waits_with_a_time_limit_may_bring_a_rank() {
    alone!(beside);
    let block = Block::new(2);
    let mut root = HcclRootInfo::default();
    ok!(aclrtSetDevice(block.first));
    hccl!(HcclGetRootInfo(&mut root));
    let join = |rank: u32| {
        ok!(aclrtSetDevice(block.first + rank as i32));
        let mut comm = null_mut();
        hccl!(HcclCommInitRootInfo(2, &root, rank, &mut comm));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (_never, told) = std::sync::mpsc::channel::<()>();
            let _ = told.recv_timeout(LATE);
            join(1);
        });
        join(0);
    });
}

#[test]
fn a_rank_that_nobody_is_left_to_bring_is_told_at_once() {
    alone!(beside);
    let block = Block::new(2);
    let (mut root, mut comm) = (HcclRootInfo::default(), null_mut());
    ok!(aclrtSetDevice(block.first));
    hccl!(HcclGetRootInfo(&mut root));
    // After this call, no other process can add the missing rank.
    hccl!(ascendExtRootInfoStays(&root));
    let code = call!(HcclCommInitRootInfo(2, &root, 0, &mut comm));
    assert_eq!(code, HcclResult::HCCL_E_TIMEOUT);
    let text = message();
    assert!(text.contains("rank 1 of 2 did not call") && text.contains("deadlock"), "{text}");
}

#[test]
fn a_first_contact_that_waits_for_a_rank_in_a_collective_is_told_at_once() {
    alone!(beside);
    let config = AscendExtBlockConfig { deviceCount: 2, ..Block::config() };
    on_block(config, |rank: &mut Rank| {
        rank.join();
        let (send, recv) = (rank.upload(&[0; 64]), rank.upload(&[0; 64]));
        let reduce = || call!(HcclAllReduce(send, recv, 16, FP32, SUM, rank.comm, rank.stream));
        assert_eq!(reduce(), HcclResult::HCCL_SUCCESS);
        rank.sync();
        if rank.rank == 0 {
            // Rank 1 does not send.
            let code = call!(HcclRecv(recv, 16, FP32, 1, rank.comm, rank.stream));
            let text = message();
            assert_eq!(code, HcclResult::HCCL_E_TIMEOUT, "{text}");
            for piece in ["deadlock", "HcclRecv with rank 1", "waiting for rank 0", "HcclAllReduce"]
            {
                assert!(text.contains(piece), "{piece}: {text}");
            }
        } else {
            assert_eq!(reduce(), HcclResult::HCCL_SUCCESS);
            let (code, text) = rank.sync_fails();
            assert_ne!(code, 0);
            assert!(text.contains("deadlock"), "{text}");
        }
    });
}

/// Issues operations of two communicators on two ranks, in a different order on each. `ends` waits
/// for the end, and returns the code and the error text. Returns the error texts of both ranks.
fn in_different_order(ends: impl Fn(&Rank) -> (aclError, String) + Sync) -> Vec<String> {
    let config = AscendExtBlockConfig { deviceCount: 2, ..Block::config() };
    let mut second = HcclRootInfo::default();
    hccl!(HcclGetRootInfo(&mut second));
    on_block(config, |rank: &mut Rank| {
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
        let (code, text) = ends(rank);
        assert_ne!(code, 0);
        text
    })
}

#[test]
fn a_cycle_is_told_whatever_the_threads_do() {
    // The threads only query their streams, so no thread ever sleeps.
    let texts = in_different_order(|rank| {
        let mut status = aclrtStreamStatus::ACL_STREAM_STATUS_NOT_READY;
        loop {
            match call!(aclrtStreamQuery(rank.stream, &mut status)) {
                0 => std::thread::yield_now(),
                code => return (code, message()),
            }
        }
    });
    assert!(texts.iter().any(|text| text.contains("deadlock")), "{texts:?}");
}

#[test]
fn ranks_that_use_two_communicators_in_different_order() {
    let texts = in_different_order(|rank| rank.sync_fails());
    assert!(texts.iter().any(|text| text.contains("deadlock")), "{texts:?}");
}

#[test]
fn a_deadlock_behind_a_lone_zero_shows_it() {
    alone!(beside);
    let config = AscendExtBlockConfig { deviceCount: 2, ..Block::config() };
    on_block(config, |rank: &mut Rank| {
        rank.join();
        let x = rank.upload(&[0; 64]);
        let reduce = |count| call!(HcclAllReduce(x, x, count, FP32, SUM, rank.comm, rank.stream));
        assert_eq!(reduce(16), HcclResult::HCCL_SUCCESS);
        rank.sync();
        if rank.rank == 0 {
            assert_eq!(reduce(0), HcclResult::HCCL_SUCCESS);
            // Rank 1 waits in the all-reduce that rank 0 called with nothing to move.
            let code = call!(HcclRecv(x, 16, FP32, 1, rank.comm, rank.stream));
            assert_eq!(code, HcclResult::HCCL_E_TIMEOUT, "{}", message());
            return;
        }
        assert_eq!(reduce(16), HcclResult::HCCL_SUCCESS);
        let (_, text) = rank.sync_fails();
        for piece in ["deadlock", "rank 0 called with nothing to move", "SUM) after #1"] {
            assert!(text.contains(piece), "{piece}: {text}");
        }
    });
}
