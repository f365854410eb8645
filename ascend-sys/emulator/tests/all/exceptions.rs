//! Tests of the callbacks for failed tasks, and of the functions that such a callback can call.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::threads::this_thread;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// The fields of an exception, as the accessor functions return them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    task: u32,
    stream: u32,
    thread: u32,
    device: u32,
    code: u32,
}

impl Told {
    fn of(info: *const aclrtExceptionInfo) -> Told {
        Told {
            task: call!(aclrtGetTaskIdFromExceptionInfo(info)),
            stream: call!(aclrtGetStreamIdFromExceptionInfo(info)),
            thread: call!(aclrtGetThreadIdFromExceptionInfo(info)),
            device: call!(aclrtGetDeviceIdFromExceptionInfo(info)),
            code: call!(aclrtGetErrorCodeFromExceptionInfo(info)),
        }
    }
}

/// Waits until no other test of this file runs, and returns the guard that keeps the others out:
/// the callbacks belong to the process. Tests in other files make tasks fail too, so each test
/// checks only its own device.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn id(stream: aclrtStream) -> u32 {
    let mut id = 0;
    ok!(aclrtStreamGetId(stream, &mut id));
    id as u32
}

/// Returns the number of the task at the head of the stream, taken from an error text.
fn task_at_head(stream: aclrtStream) -> u32 {
    let _ = message();
    assert_eq!(call!(aclrtSynchronizeStreamWithTimeout(stream, 1)), 507_046);
    let text = message();
    let number = text.split("is at task ").nth(1).and_then(|rest| rest.split(':').next());
    number.unwrap_or_else(|| panic!("no task in: {text}")).parse().unwrap()
}

/// Makes a task of the stream fail: the task waits for a notify that is destroyed.
fn fail_on(stream: aclrtStream) {
    let mut notify = null_mut();
    ok!(aclrtCreateNotify(&mut notify, 0));
    ok!(aclrtWaitAndResetNotify(notify, stream, 0));
    ok!(aclrtDestroyNotify(notify));
    fails!(107017, ["was destroyed before"], aclrtSynchronizeStream(stream));
}

fn await_that(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(120), "no callback came");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn each_callback_hears_once_of_a_task_that_fails_and_which_one_it_was() {
    static SEEN: [Mutex<Vec<Told>>; 2] = [const { Mutex::new(Vec::new()) }; 2];
    unsafe extern "C" fn first(info: *mut aclrtExceptionInfo) {
        SEEN[0].lock().unwrap().push(Told::of(info));
    }
    unsafe extern "C" fn second(info: *mut aclrtExceptionInfo) {
        SEEN[1].lock().unwrap().push(Told::of(info));
    }
    let _turn = turn();
    let block = Block::one();
    let seen = |which: usize| {
        let mut all = SEEN[which].lock().unwrap().clone();
        all.retain(|told| told.device == block.first as u32);
        all
    };
    ok!(aclrtSetExceptionInfoCallback(Some(first)));
    ok!(aclrtExceptionInfoCallbackRegister(Some(second)));
    ok!(aclrtExceptionInfoCallbackRegister(Some(second)));
    let (s, t) = (stream(), stream());
    // One task completes, and the next one fails while another thread waits for the stream.
    ok!(aclrtMemsetAsync(malloc(8), 8, 0, 8, s));
    let mut notify = null_mut();
    ok!(aclrtCreateNotify(&mut notify, 0));
    ok!(aclrtWaitAndResetNotify(notify, s, 0));
    let task = task_at_head(s);
    let (waits_for, first_device, stream_id) = (s as usize, block.first, id(s));
    let waiter = thread::spawn(move || {
        ok!(aclrtSetDevice(first_device));
        fails!(107017, [], aclrtSynchronizeStream(waits_for as aclrtStream));
        ok!(aclrtResetDevice(first_device));
    });
    ok!(aclrtDestroyNotify(notify));
    waiter.join().unwrap();
    await_that(|| !seen(0).is_empty() && !seen(1).is_empty());
    let device = block.first as u32;
    let expected = Told { task, stream: stream_id, thread: this_thread(), device, code: 107_017 };
    assert_eq!((seen(0), seen(1)), (vec![expected], vec![expected]));

    // The next task of the stream has the next number. A task that is aborted does not count as
    // failed.
    ok!(aclrtExceptionInfoCallbackUnregister(Some(second)));
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    ok!(aclrtStreamWaitEvent(t, event));
    ok!(aclrtStreamAbort(t));
    fails!(107023, [], aclrtSynchronizeStream(t));
    fail_on(s);
    await_that(|| seen(0).len() > 1);
    assert_eq!(seen(0)[1..], [Told { task: task + 1, ..expected }]);
    assert_eq!(seen(1).len(), 1, "it is not registered any more");
    ok!(aclrtSetExceptionInfoCallback(None));
    fail_on(s);
    // The callbacks run in the order of the failures, so by the time this callback has run, a wrong
    // call for the earlier failure would be visible.
    ok!(aclrtSetExceptionInfoCallback(Some(first)));
    fail_on(s);
    await_that(|| seen(0).len() > 2);
    assert_eq!(seen(0)[2..], [Told { task: task + 3, ..expected }]);
    ok!(aclrtSetExceptionInfoCallback(None));
}

#[test]
fn a_callback_may_wait_for_streams_and_block() {
    static DEVICE: AtomicI32 = AtomicI32::new(-1);
    static STREAM: AtomicU64 = AtomicU64::new(0);
    static STARTED: AtomicBool = AtomicBool::new(false);
    static MAY_END: AtomicBool = AtomicBool::new(false);
    static ENDED: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn wait(info: *mut aclrtExceptionInfo) {
        let device = DEVICE.load(Ordering::Acquire);
        if call!(aclrtGetDeviceIdFromExceptionInfo(info)) != device as u32 {
            return;
        }
        STARTED.store(true, Ordering::Release);
        ok!(aclrtSetDevice(device));
        ok!(aclrtSynchronizeStream(STREAM.load(Ordering::Acquire) as aclrtStream));
        ok!(aclrtResetDevice(device));
        while !MAY_END.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        ENDED.store(true, Ordering::Release);
    }
    let _turn = turn();
    let block = Block::one();
    let (s, t, gate) = (stream(), stream(), Gate::new());
    DEVICE.store(block.first, Ordering::Release);
    STREAM.store(t as u64, Ordering::Release);
    gate.close(t);
    ok!(aclrtExceptionInfoCallbackRegister(Some(wait)));
    fail_on(s);
    // The test first waits until the callback has started, because a callback that is unregistered
    // before its call is not called.
    await_that(|| STARTED.load(Ordering::Acquire));
    // The callback waits for stream `t`. Meanwhile the tasks of stream `s` run, and later also the
    // tasks of `t`.
    let a = malloc(8);
    ok!(aclrtMemsetAsync(a, 8, 3, 8, s));
    ok!(aclrtSynchronizeStream(s));
    gate.open();
    ok!(aclrtSynchronizeStream(t));
    // A callback that blocks does not hold up any task.
    ok!(aclrtExceptionInfoCallbackUnregister(Some(wait)));
    ok!(aclrtMemsetAsync(a, 8, 4, 8, t));
    ok!(aclrtSynchronizeDevice());
    assert_eq!(read(a, 8), [4; 8]);
    assert!(!ENDED.load(Ordering::Acquire));
    MAY_END.store(true, Ordering::Release);
    await_that(|| ENDED.load(Ordering::Acquire));
}

#[test]
fn no_exception_is_told_outside_of_a_callback() {
    static LAST: AtomicU64 = AtomicU64::new(0);
    unsafe extern "C" fn keep(info: *mut aclrtExceptionInfo) {
        LAST.store(info as u64, Ordering::Release);
    }
    let _turn = turn();
    fails!(100000, ["callback is NULL"], aclrtExceptionInfoCallbackRegister(None));
    fails!(100000, ["callback is NULL"], aclrtExceptionInfoCallbackUnregister(None));
    fails!(100000, ["is not registered"], aclrtExceptionInfoCallbackUnregister(Some(keep)));
    let _block = Block::one();
    ok!(aclrtExceptionInfoCallbackRegister(Some(keep)));
    fail_on(stream());
    await_that(|| LAST.load(Ordering::Acquire) != 0);
    ok!(aclrtExceptionInfoCallbackUnregister(Some(keep)));
    let stale = LAST.load(Ordering::Acquire) as *const aclrtExceptionInfo;
    let is_stale = || call!(aclrtGetErrorCodeFromExceptionInfo(stale)) == u32::MAX;
    await_that(is_stale);
    let garbage = std::ptr::without_provenance(12_345);
    for (info, said) in
        [(std::ptr::null(), "info is NULL"), (stale, "inside the callback"), (garbage, "0x3039")]
    {
        let _ = message();
        let all = u32::MAX;
        let none = Told { task: all, stream: all, thread: all, device: all, code: all };
        assert_eq!(Told::of(info), none);
        let text = message();
        assert!(text.contains(said), "{text}");
        assert!(text.contains("aclrtGetThreadIdFromExceptionInfo: "), "{text}");
    }
}

#[test]
fn a_callback_that_was_unregistered_is_not_called_any_more() {
    static DEVICE: AtomicI32 = AtomicI32::new(-1);
    static HEARD: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
    static MAY_GO_ON: AtomicBool = AtomicBool::new(false);
    fn hear(which: usize, info: *const aclrtExceptionInfo) -> bool {
        let device = DEVICE.load(Ordering::Acquire);
        let is_own = call!(aclrtGetDeviceIdFromExceptionInfo(info)) == device as u32;
        if is_own {
            HEARD[which].fetch_add(1, Ordering::AcqRel);
        }
        is_own
    }
    unsafe extern "C" fn holds_up(info: *mut aclrtExceptionInfo) {
        if hear(0, info) {
            await_that(|| MAY_GO_ON.load(Ordering::Acquire));
        }
    }
    unsafe extern "C" fn stays(info: *mut aclrtExceptionInfo) {
        hear(1, info);
    }
    unsafe extern "C" fn goes(info: *mut aclrtExceptionInfo) {
        hear(2, info);
    }
    let heard = |which: usize| HEARD[which].load(Ordering::Acquire);
    let _turn = turn();
    let block = Block::one();
    DEVICE.store(block.first, Ordering::Release);
    let callbacks: [unsafe extern "C" fn(*mut aclrtExceptionInfo); 3] = [holds_up, goes, stays];
    for callback in callbacks {
        ok!(aclrtExceptionInfoCallbackRegister(Some(callback)));
    }
    fail_on(stream());
    await_that(|| heard(0) == 1);
    ok!(aclrtExceptionInfoCallbackUnregister(Some(goes)));
    MAY_GO_ON.store(true, Ordering::Release);
    // The callbacks of a failure are called one after another.
    await_that(|| heard(1) == 1);
    assert_eq!(heard(2), 0);
    ok!(aclrtExceptionInfoCallbackUnregister(Some(holds_up)));
    ok!(aclrtExceptionInfoCallbackUnregister(Some(stays)));
}
