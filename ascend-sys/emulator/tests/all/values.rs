//! Tests of words in memory that one stream writes and another stream waits for.

use ascend_emulator_testing::captures::end;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

fn wait(word: *mut c_void, value: u64, flag: u32, stream: aclrtStream) {
    ok!(aclrtValueWait(word, value, flag, stream));
}

/// Returns a word in device memory with this value.
pub fn word(value: u64) -> *mut c_void {
    let word = malloc(8);
    write(word, &value.to_ne_bytes());
    word
}

/// Returns the value of a word in device memory.
pub fn has(word: *mut c_void) -> u64 {
    u64::from_ne_bytes(read(word, 8).try_into().unwrap())
}

#[test]
fn each_condition_holds_a_stream_until_it_is_true() {
    let _block = Block::one();
    let (geq, eq, and, nor) = (
        ACL_STREAM_WAIT_VALUE_GEQ,
        ACL_STREAM_WAIT_VALUE_EQ,
        ACL_STREAM_WAIT_VALUE_AND,
        ACL_STREAM_WAIT_VALUE_NOR,
    );
    const HIGH: u64 = 1 << 63;
    // Each case has the condition, the value, the words that do not end the wait, and the words
    // that end it.
    let cases: [(u32, u64, &[u64], &[u64]); 5] = [
        (geq, 5, &[4, 0, u64::MAX], &[5, 6, HIGH]),
        // A counter may overflow past the largest number.
        (geq, u64::MAX, &[u64::MAX - 1], &[u64::MAX, 0, 5]),
        (eq, HIGH | 1, &[1, HIGH, 0], &[HIGH | 1]),
        (and, HIGH | 6, &[0, 1, 9], &[4, HIGH, u64::MAX]),
        (nor, HIGH, &[u64::MAX >> 1, u64::MAX], &[0, HIGH, u64::MAX - 2]),
    ];
    for (flag, value, held, free) in cases {
        let (s, t, at) = (stream(), stream(), word(held[0]));
        for after in free {
            for before in held {
                ok!(aclrtValueWrite(at, *before, 0, t));
                wait(at, value, flag, s);
                assert!(!idle(s), "flag {flag}: {before:#x} for {value:#x}");
                ok!(aclrtValueWrite(at, *after, 0, t));
                ok!(aclrtSynchronizeStream(s));
                assert_eq!(has(at), *after);
                // The condition is already true, so this wait ends at once.
                wait(at, value, flag, s);
                assert!(idle(s), "flag {flag}: {after:#x} for {value:#x}");
            }
        }
    }
}

#[test]
fn work_behind_a_wait_follows_the_work_before_the_write() {
    let _block = Block::one();
    let (a, b, at, s, t, gate) = (malloc(64), malloc(64), word(0), stream(), stream(), Gate::new());
    gate.close(s);
    ok!(aclrtMemsetAsync(a, 64, 7, 64, s));
    ok!(aclrtValueWrite(at, 1, 0, s));
    wait(at, 1, ACL_STREAM_WAIT_VALUE_EQ, t);
    ok!(aclrtMemcpyAsync(b, 64, a, 64, D2D, t));
    fails!(507046, ["wait for the value 0x1"], aclrtSynchronizeStreamWithTimeout(t, 20));
    gate.open();
    ok!(aclrtSynchronizeStream(t));
    assert_eq!(read(b, 64), [7; 64]);
}

#[test]
fn the_host_and_copies_end_a_wait_too() {
    let _block = Block::one();
    let (at, two, seen, s, t) = (word(0), word(2), word(0), stream(), stream());
    wait(at, 1, ACL_STREAM_WAIT_VALUE_EQ, s);
    ok!(aclrtValueWrite(seen, 1, 0, s));
    wait(at, 2, ACL_STREAM_WAIT_VALUE_EQ, s);
    assert!(!idle(s));
    write(at, &1u64.to_ne_bytes());
    // The stream must continue by itself, although no thread waits for it.
    let began = Instant::now();
    while has(seen) == 0 {
        assert!(began.elapsed() < Duration::from_secs(120), "the host's write was not seen");
        std::thread::yield_now();
    }
    assert!(!idle(s));
    ok!(aclrtMemcpyAsync(at, 8, two, 8, D2D, t));
    ok!(aclrtSynchronizeStream(s));
}

#[test]
fn pinned_memory_of_the_host_ends_a_wait_when_the_host_writes_it() {
    let _block = Block::one();
    let (at, s) = (malloc_host(8), stream());
    ok!(aclrtMemset(at, 8, 0, 8));
    wait(at, 3, ACL_STREAM_WAIT_VALUE_GEQ, s);
    assert!(!idle(s));
    // SAFETY: these are eight aligned bytes of pinned memory, which others access only atomically.
    let host = unsafe { std::sync::atomic::AtomicU64::from_ptr(at.cast()) };
    host.store(4, std::sync::atomic::Ordering::Release);
    ok!(aclrtSynchronizeStream(s));
    ok!(aclrtValueWrite(at, 11, 0, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(host.load(std::sync::atomic::Ordering::Acquire), 11);
}

#[test]
fn a_graph_writes_and_waits_at_each_execution() {
    let _block = Block::one();
    let (at, done, s, t) = (word(0), word(0), stream(), stream());
    let mode = aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    ok!(aclmdlRICaptureBegin(s, mode));
    wait(at, 1, ACL_STREAM_WAIT_VALUE_EQ, s);
    ok!(aclrtValueWrite(done, 1, 0, s));
    let graph = end(s);
    assert_eq!(has(done), 0, "nothing has run");
    for _ in 0..2 {
        ok!(aclrtValueWrite(done, 0, 0, t));
        ok!(aclrtValueWrite(at, 0, 0, t));
        ok!(aclrtSynchronizeStream(t));
        ok!(aclmdlRIExecuteAsync(graph, s));
        assert!(!idle(s));
        assert_eq!(has(done), 0);
        ok!(aclrtValueWrite(at, 1, 0, t));
        ok!(aclrtSynchronizeStream(s));
        assert_eq!(has(done), 1);
    }
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn a_wait_that_nothing_ends_can_be_aborted() {
    let _block = Block::one();
    let (at, s) = (word(0), stream());
    wait(at, 1, ACL_STREAM_WAIT_VALUE_EQ, s);
    ok!(aclrtStreamAbort(s));
    fails!(107023, ["wait for the value 0x1"], aclrtSynchronizeStream(s));
    wait(at, 0, ACL_STREAM_WAIT_VALUE_EQ, s);
    ok!(aclrtSynchronizeStream(s));
}

#[test]
fn words_that_the_device_cannot_reach_and_unknown_conditions_are_refused() {
    let _block = Block::one();
    let (at, s) = (word(0), stream());
    let odd = at.wrapping_byte_add(4);
    let beyond = at.wrapping_byte_add(1 << 20);
    let mut local = 0u64;
    let pageable = (&raw mut local).cast();
    macro_rules! both {
        ($code:literal, [$said:literal], $at:expr, $stream:expr) => {
            fails!($code, [$said], aclrtValueWrite($at, 1, 0, $stream));
            fails!($code, [$said], aclrtValueWait($at, 1, 0, $stream));
        };
    }
    both!(100000, ["devAddr is NULL"], null_mut(), s);
    both!(107008, ["multiple of 8"], odd, s);
    both!(107000, ["devAddr: "], beyond, s);
    both!(107000, ["not memory that the device reaches"], pageable, s);
    fails!(107000, ["flag is 4"], aclrtValueWait(at, 1, 4, s));
    fails!(107000, ["flag is 1"], aclrtValueWrite(at, 1, 1, s));
    let gone = stream();
    ok!(aclrtDestroyStream(gone));
    both!(107017, ["was destroyed"], at, gone);
    ok!(aclrtFree(at));
    both!(107000, ["devAddr: "], at, s);
    ok!(aclrtSynchronizeStream(s));
    let _ = call!(aclrtGetLastError(aclrtLastErrLevel::ACL_RT_THREAD_LEVEL));
}
