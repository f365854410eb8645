//! Tests of callbacks that a thread of the program runs.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

unsafe extern "C" fn count(counter: *mut c_void) {
    // SAFETY: the counter outlives the work of the stream.
    unsafe { &*counter.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
}

const BLOCK: aclrtCallbackBlockType = aclrtCallbackBlockType::ACL_CALLBACK_BLOCK;
const NO_BLOCK: aclrtCallbackBlockType = aclrtCallbackBlockType::ACL_CALLBACK_NO_BLOCK;

fn me() -> u64 {
    // SAFETY: the call only returns the number of the calling thread.
    unsafe { libc::pthread_self() as u64 }
}

#[test]
fn the_subscribed_thread_runs_them() {
    let _block = Block::one();
    let (s, counter) = (stream(), AtomicU32::new(0));
    let argument: *mut c_void = (&raw const counter).cast_mut().cast();
    fails!(
        107015,
        ["no thread is subscribed"],
        aclrtLaunchCallback(Some(count), argument, NO_BLOCK, s)
    );
    fails!(100035, ["subscribed to no stream"], aclrtProcessReport(10));
    ok!(aclrtSubscribeReport(me(), s));
    fails!(107011, ["has a thread already"], aclrtSubscribeReport(me(), s));
    fails!(507012, ["no callback came"], aclrtProcessReport(10));
    fails!(107000, ["timeout is -2"], aclrtProcessReport(-2));
    ok!(aclrtLaunchCallback(Some(count), argument, NO_BLOCK, s));
    assert!(idle(s), "a callback that does not block holds nothing up");
    ok!(aclrtLaunchCallback(Some(count), argument, BLOCK, s));
    assert!(!idle(s));
    ok!(aclrtProcessReport(-1));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(counter.load(Ordering::Relaxed), 2);
    ok!(aclrtUnSubscribeReport(me(), s));
    fails!(100034, ["not subscribed"], aclrtUnSubscribeReport(me(), s));
}

#[test]
fn a_thread_of_its_own_serves_the_stream() {
    let _block = Block::one();
    let (s, counter) = (stream(), AtomicU32::new(0));
    let (sender, receiver) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        sender.send(me()).unwrap();
        let mut served = 0;
        loop {
            match call!(aclrtProcessReport(1000)) {
                0 => served += 1,
                // The thread is not subscribed yet, or not any more.
                100035 if served == 0 => std::thread::yield_now(),
                _ => return,
            }
        }
    });
    let id = receiver.recv().unwrap();
    ok!(aclrtSubscribeReport(id, s));
    for _ in 0..20 {
        ok!(aclrtLaunchCallback(Some(count), (&raw const counter).cast_mut().cast(), BLOCK, s));
    }
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(counter.load(Ordering::Relaxed), 20);
    ok!(aclrtUnSubscribeReport(id, s));
    server.join().unwrap();
}

#[test]
fn what_is_left_when_the_subscription_ends_runs_elsewhere() {
    let _block = Block::one();
    let (s, counter) = (stream(), AtomicU32::new(0));
    ok!(aclrtSubscribeReport(me(), s));
    ok!(aclrtLaunchCallback(Some(count), (&raw const counter).cast_mut().cast(), BLOCK, s));
    ok!(aclrtUnSubscribeReport(me(), s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(counter.load(Ordering::Relaxed), 1);
}
