//! Tests of notifies: one stream sets the bit of a notify, and the wait of another stream clears
//! it.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{fails, ok};
use ascend_sys::*;
use std::ptr::null_mut;

fn notify() -> aclrtNotify {
    let mut notify = null_mut();
    ok!(aclrtCreateNotify(&mut notify, 0));
    notify
}

#[test]
fn a_wait_clears_the_bit() {
    let _block = Block::one();
    let (a, s, t, n) = (malloc(8), stream(), stream(), notify());
    for round in 1..50u8 {
        ok!(aclrtWaitAndResetNotify(n, t, 0));
        ok!(aclrtMemsetAsync(a, 8, round.into(), 8, t));
        assert!(!idle(t));
        ok!(aclrtRecordNotify(n, s));
        ok!(aclrtSynchronizeStream(t));
        assert_eq!(read(a, 1), [round]);
    }
}

#[test]
fn ping_pong_of_two_threads() {
    let block = Block::one();
    let (ping, pong, first) = (notify() as usize, notify() as usize, block.first);
    let side = move |wait: usize, record: usize, begins: bool| {
        ok!(aclrtSetDevice(first));
        let s = stream();
        for _ in 0..500 {
            if begins {
                ok!(aclrtRecordNotify(record as aclrtNotify, s));
            }
            ok!(aclrtWaitAndResetNotify(wait as aclrtNotify, s, 0));
            if !begins {
                ok!(aclrtRecordNotify(record as aclrtNotify, s));
            }
            ok!(aclrtSynchronizeStream(s));
        }
    };
    let other = std::thread::spawn(move || side(ping, pong, false));
    side(pong, ping, true);
    other.join().unwrap();
}

#[test]
fn time_limit_reset_and_destruction() {
    let _block = Block::one();
    let (s, n, m) = (stream(), notify(), notify());
    ok!(aclrtRecordNotify(n, s));
    ok!(aclrtSynchronizeStream(s));
    ok!(aclrtNotifyBatchReset([n].as_mut_ptr(), 1));
    ok!(aclrtWaitAndResetNotify(n, s, 1));
    fails!(107020, ["wait for notify", "gave up"], aclrtSynchronizeStream(s));
    ok!(aclrtWaitAndResetNotify(m, s, 0));
    ok!(aclrtDestroyNotify(m));
    fails!(107017, ["was destroyed before"], aclrtSynchronizeStream(s));
    fails!(107017, ["the notify", "was destroyed"], aclrtRecordNotify(m, s));
    fails!(107000, ["flag is 2"], aclrtCreateNotify(&mut null_mut(), 2));
}

#[test]
fn notifies_are_limited_per_device() {
    let _block = Block::one();
    for _ in 0..8192 {
        notify();
    }
    fails!(207009, ["8192 of 8192"], aclrtCreateNotify(&mut null_mut(), 0));
}
