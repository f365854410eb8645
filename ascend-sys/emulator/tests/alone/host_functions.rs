//! Tests that host functions run in order, hold up their stream, and may not make calls that block.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{alone, call, fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::sync::Mutex;

#[test]
fn they_run_in_order_with_the_other_tasks() {
    alone!();
    let _block = Block::one();
    struct State {
        device: usize,
        host: usize,
        seen: Mutex<Vec<u8>>,
    }
    unsafe extern "C" fn look(state: *mut c_void) {
        // SAFETY: the state outlives the work of the stream.
        let state = unsafe { &*state.cast::<State>() };
        // SAFETY: this is one byte of pinned memory, which the copy before wrote.
        state.seen.lock().unwrap().push(unsafe { *(state.host as *const u8) });
        assert_ne!(state.device, 0);
    }
    let s = stream();
    let state =
        State { device: malloc(1) as usize, host: malloc_host(1) as usize, seen: Mutex::default() };
    for round in 0..100 {
        ok!(aclrtMemsetAsync(state.device as *mut c_void, 1, round, 1, s));
        ok!(aclrtMemcpyAsync(
            state.host as *mut c_void,
            1,
            state.device as *const c_void,
            1,
            D2H,
            s
        ));
        ok!(aclrtLaunchHostFunc(s, Some(look), (&raw const state).cast_mut().cast()));
    }
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(*state.seen.lock().unwrap(), (0..100).collect::<Vec<u8>>());
    fails!(100000, ["fn is NULL"], aclrtLaunchHostFunc(s, None, std::ptr::null_mut()));
}

#[test]
fn calls_that_would_block_are_refused_inside() {
    alone!();
    let block = Block::one();
    struct State {
        stream: aclrtStream,
        device: i32,
        codes: Mutex<Vec<i32>>,
    }
    unsafe extern "C" fn block_it(state: *mut c_void) {
        // SAFETY: the state outlives the work of the stream.
        let state = unsafe { &*state.cast::<State>() };
        ok!(aclrtSetDevice(state.device));
        let codes = [
            call!(aclrtSynchronizeStream(state.stream)),
            call!(aclrtSynchronizeDevice()),
            call!(aclrtDestroyStream(state.stream)),
            call!(aclrtResetDevice(state.device)),
        ];
        assert!(message().contains("not allowed inside a host function"));
        state.codes.lock().unwrap().extend(codes);
    }
    let s = stream();
    let state = State { stream: s, device: block.first, codes: Mutex::default() };
    ok!(aclrtLaunchHostFunc(s, Some(block_it), (&raw const state).cast_mut().cast()));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(*state.codes.lock().unwrap(), [207000; 4]);
}

#[test]
fn many_may_block_each_other_without_a_deadlock() {
    alone!();
    let _block = Block::one();
    let barrier = Barrier::new(32);
    unsafe extern "C" fn meet(barrier: *mut c_void) {
        // SAFETY: the barrier outlives the work of the streams.
        unsafe { &*barrier.cast::<Barrier>() }.wait();
    }
    let streams: Vec<_> = (0..32).map(|_| stream()).collect();
    for &s in &streams {
        ok!(aclrtLaunchHostFunc(s, Some(meet), (&raw const barrier).cast_mut().cast()));
    }
    ok!(aclrtSynchronizeDevice());
}
