//! Copies whose addresses are in memory: as words, or in a description.

use ascend_emulator_testing::captures::{GLOBAL, end};
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Returns a word on the device that holds this address.
fn word(address: *mut c_void) -> *mut c_void {
    let word = malloc(8);
    set(word, address);
    word
}

fn set(word: *mut c_void, address: *mut c_void) {
    write(word, &address.addr().to_ne_bytes());
}

/// Returns 64 bytes of memory, all with this value.
fn filled(value: u8) -> *mut c_void {
    let memory = malloc(64);
    write(memory, &[value; 64]);
    memory
}

fn descriptor() -> *mut c_void {
    let mut bytes = 0;
    ok!(aclrtGetMemcpyDescSize(D2D, &mut bytes));
    assert!(bytes > 0);
    malloc(bytes)
}

#[test]
fn the_words_are_read_when_the_copy_begins() {
    let _block = Block::one();
    let (s, a, b, c, gate) = (stream(), filled(1), filled(2), filled(0), Gate::new());
    let (to, from) = (word(c), word(a));
    gate.close(s);
    ok!(aclrtMemcpyAsyncWithOffset(to.cast(), 64, 8, from.cast(), 16, 4, D2D, s));
    set(from, b);
    gate.open();
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(c, 32), [[0; 8], [2; 8], [2; 8], [0; 8]].concat());
    // Nothing moves if both ends are the same.
    set(to, b);
    ok!(aclrtMemcpyAsyncWithOffset(to.cast(), 64, 8, from.cast(), 16, 8, D2D, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(b, 64), [2; 64]);
}

#[test]
fn addresses_in_memory_of_the_host_are_read_by_the_call() {
    let _block = Block::one();
    let (s, a, c, gate) = (stream(), filled(1), filled(0), Gate::new());
    let (mut to, mut from, device_word) = (c, a.cast_const(), word(c));
    gate.close(s);
    ok!(aclrtMemcpyAsyncWithOffset(&mut to, 64, 0, &mut from, 4, 0, D2D, s));
    ok!(aclrtMemcpyAsyncWithOffset(device_word.cast(), 64, 8, &mut from, 4, 0, D2D, s));
    (to, from) = (null_mut(), null_mut());
    gate.open();
    ok!(aclrtSynchronizeStream(s));
    assert!(to.is_null() && from.is_null());
    assert_eq!(read(c, 16), [1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]);
}

#[test]
fn a_description_is_read_when_the_copy_begins_as_often_as_it_is_used() {
    let _block = Block::one();
    let (s, a, b, c, d) = (stream(), filled(1), filled(2), filled(0), descriptor());
    ok!(aclrtSetMemcpyDesc(d, D2D, a, c, 16, null_mut()));
    for _ in 0..2 {
        ok!(aclrtMemset(c, 64, 0, 64));
        ok!(aclrtMemcpyAsyncWithDesc(d, D2D, s));
        ok!(aclrtSynchronizeStream(s));
        assert_eq!(read(c, 32), [[1; 16], [0; 16]].concat());
    }
    let gate = Gate::new();
    gate.close(s);
    ok!(aclrtMemcpyAsyncWithDesc(d, D2D, s));
    ok!(aclrtSetMemcpyDesc(d, D2D, b, c, 64, null_mut()));
    gate.open();
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(c, 64), [2; 64]);
}

#[test]
fn a_graph_reads_words_and_descriptions_at_each_execution() {
    let _block = Block::one();
    let (s, a, b, c, d) = (stream(), filled(1), filled(2), filled(0), descriptor());
    let (to, from) = (word(c), word(a));
    ok!(aclrtSetMemcpyDesc(d, D2D, a, c.wrapping_byte_add(32), 32, null_mut()));
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    ok!(aclrtMemcpyAsyncWithOffset(to.cast(), 32, 0, from.cast(), 32, 0, D2D, s));
    ok!(aclrtMemcpyAsyncWithDesc(d, D2D, s));
    let graph = end(s);
    assert_eq!(read(c, 64), [0; 64]);
    ok!(aclmdlRIExecuteAsync(graph, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(c, 64), [1; 64]);
    set(from, b);
    ok!(aclmdlRIExecuteAsync(graph, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(c, 64), [[2; 32], [1; 32]].concat());
    ok!(aclrtFree(from));
    fails!(107000, ["of the graph", "was freed"], aclmdlRIExecuteAsync(graph, s));
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn what_is_wrong_with_an_address_in_memory_fails_the_task() {
    let _block = Block::one();
    let (s, a, c, d) = (stream(), filled(1), filled(0), descriptor());
    let (to, from, host) = (word(c), word(a), malloc_host(64));
    let copy = |offset: usize, what: &[&str]| {
        ok!(aclrtMemcpyAsyncWithOffset(to.cast(), 64, 0, from.cast(), 64, offset, D2D, s));
        fails!(107000, [what[0], what[1]], aclrtSynchronizeStream(s));
    };
    copy(8, &["copy with addresses in memory", "beyond the end"]);
    copy(usize::MAX, &["copy with addresses", "a valid address"]);
    set(from, null_mut());
    copy(64, &["holds 0x0", "a valid address"]);
    set(from, host);
    copy(0, &["copy with addresses", "not device memory"]);
    set(from, malloc(64));
    ok!(aclrtFree(c));
    copy(0, &["dst: ", "was freed by aclrtFree"]);
    // One description was never written, and another one describes freed memory.
    ok!(aclrtMemset(d, 32, 0, 32));
    ok!(aclrtMemcpyAsyncWithDesc(d, D2D, s));
    fails!(107000, ["no description of a copy"], aclrtSynchronizeStream(s));
    let gone = filled(3);
    ok!(aclrtSetMemcpyDesc(d, D2D, gone, a, 64, null_mut()));
    ok!(aclrtFree(gone));
    ok!(aclrtMemcpyAsyncWithDesc(d, D2D, s));
    fails!(107000, ["src: ", "was freed by aclrtFree"], aclrtSynchronizeStream(s));
    assert_eq!(read(a, 64), [1; 64]);
}

#[test]
fn checked_mode_knows_what_such_a_copy_touches() {
    let check = AscendExtCheck::ASCEND_EXT_CHECK_RACES.0;
    for waits in [true, false] {
        let block = Block::one_with(AscendExtBlockConfig { check, ..Block::config() });
        let (s, t, a, c, mut event) = (stream(), stream(), filled(1), filled(0), null_mut());
        let (to, from) = (word(c), word(a));
        ok!(aclrtCreateEventExWithFlag(&mut event, ACL_EVENT_SYNC));
        ok!(aclrtMemcpyAsyncWithOffset(to.cast(), 64, 0, from.cast(), 64, 0, D2D, s));
        ok!(aclrtRecordEvent(event, s));
        if waits {
            ok!(aclrtStreamWaitEvent(t, event));
        }
        ok!(aclrtMemsetAsync(c, 64, 0, 64, t));
        ok!(aclrtSynchronizeStream(s));
        ok!(aclrtSynchronizeStream(t));
        let mut count = 0;
        ok!(ascendExtFindings(block.number, &mut count));
        assert_eq!(count, u32::from(!waits));
    }
}

#[test]
fn arguments_that_are_wrong_are_refused() {
    let block = Block::with(AscendExtBlockConfig { deviceCount: 2, product: 2, ..Block::config() });
    ok!(aclrtSetDevice(block.first + 1));
    let there = malloc(64);
    ok!(aclrtSetDevice(block.first));
    let (s, a, c, d) = (stream(), filled(1), filled(0), descriptor());
    let (to, from, h2d) = (word(c).cast(), word(a).cast(), H2D);
    macro_rules! copy {
        ($code:literal, [$said:literal], $($argument:expr),*) => {
            fails!($code, [$said], aclrtMemcpyAsyncWithOffset($($argument),*));
        };
    }
    copy!(107000, ["dst is NULL"], null_mut(), 64, 0, from, 64, 0, D2D, s);
    copy!(107000, ["src is NULL"], to, 64, 0, null_mut(), 64, 0, D2D, s);
    copy!(107000, ["count is 0"], to, 64, 0, from, 0, 0, D2D, s);
    copy!(107000, ["destMax is only 8"], to, 8, 0, from, 64, 0, D2D, s);
    copy!(207000, ["kind is 1"], to, 64, 0, from, 64, 0, h2d, s);
    let odd = a.wrapping_byte_add(4).cast();
    copy!(107008, ["multiple of 8"], to, 64, 0, odd, 64, 0, D2D, s);
    copy!(107000, ["no access between devices"], to, 64, 0, there.cast(), 64, 0, D2D, s);
    let mut none = null_mut::<c_void>().cast_const();
    copy!(107000, ["*src is 0x0"], to, 64, 0, &mut none, 64, 0, D2D, s);
    copy!(107017, ["handle"], to, 64, 0, from, 64, 0, D2D, a);

    let mut bytes = 0;
    fails!(100000, ["descSize is NULL"], aclrtGetMemcpyDescSize(D2D, null_mut()));
    fails!(207000, ["kind is 1"], aclrtGetMemcpyDescSize(H2D, &mut bytes));
    fails!(100000, ["desc is NULL"], aclrtSetMemcpyDesc(null_mut(), D2D, a, c, 64, null_mut()));
    fails!(107000, ["count is 0"], aclrtSetMemcpyDesc(d, D2D, a, c, 0, null_mut()));
    fails!(107000, ["srcAddr is NULL"], aclrtSetMemcpyDesc(d, D2D, null_mut(), c, 1, null_mut()));
    fails!(207000, ["kind is 1"], aclrtSetMemcpyDesc(d, H2D, a, c, 64, null_mut()));
    fails!(107000, ["config is"], aclrtSetMemcpyDesc(d, D2D, a, c, 64, a));
    fails!(107000, ["dstAddr: "], aclrtSetMemcpyDesc(d, D2D, a, c, 65, null_mut()));
    let host = malloc_host(64);
    fails!(107000, ["not device memory"], aclrtSetMemcpyDesc(d, D2D, host, c, 64, null_mut()));
    fails!(107000, ["not device memory"], aclrtSetMemcpyDesc(host, D2D, a, c, 64, null_mut()));
    fails!(107000, ["desc: "], aclrtSetMemcpyDesc(word(a), D2D, a, c, 64, null_mut()));
    let odd = d.wrapping_byte_add(4);
    fails!(107008, ["multiple of 8"], aclrtSetMemcpyDesc(odd, D2D, a, c, 64, null_mut()));
    fails!(100000, ["desc is NULL"], aclrtMemcpyAsyncWithDesc(null_mut(), D2D, s));
    fails!(207000, ["kind is 1"], aclrtMemcpyAsyncWithDesc(d, H2D, s));
    fails!(107000, ["no access between"], aclrtMemcpyAsyncWithDesc(there, D2D, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(c, 64), [0; 64]);
}
