//! Copies and fills: order, pageable and pinned memory, and every wrong pointer by name.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ptr::null_mut;

#[test]
fn copies_run_in_order_and_synchronise_waits_for_them() {
    let _block = Block::one();
    let (a, b, s) = (malloc(1 << 20), malloc(1 << 20), stream());
    for round in 0..50u8 {
        ok!(aclrtMemsetAsync(a, 1 << 20, round.into(), 1 << 20, s));
        ok!(aclrtMemcpyAsync(b, 1 << 20, a, 1 << 20, D2D, s));
        ok!(aclrtMemsetAsync(a, 1 << 20, 255, 1 << 20, s));
        ok!(aclrtSynchronizeStream(s));
        assert!(read(b, 1 << 20).iter().all(|&byte| byte == round));
        assert!(read(a, 1 << 20).iter().all(|&byte| byte == 255));
    }
}

#[test]
fn a_copy_of_pageable_memory_is_done_when_the_call_returns() {
    let _block = Block::one();
    let (device, s, gate) = (malloc(4096), stream(), Gate::new());
    let mut host = vec![7u8; 4096];
    gate.close(s);
    let opener = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(30));
        gate.open();
    });
    ok!(aclrtMemcpyAsync(device, 4096, host.as_ptr().cast(), 4096, H2D, s));
    host.fill(1);
    assert!(idle(s));
    assert_eq!(read(device, 4096), vec![7; 4096]);
    opener.join().unwrap();
}

#[test]
fn a_copy_of_pinned_memory_is_asynchronous() {
    let _block = Block::one();
    let (device, host, s, gate) = (malloc(4096), malloc_host(4096), stream(), Gate::new());
    gate.close(s);
    ok!(aclrtMemcpyAsync(device, 4096, host, 4096, H2D, s));
    assert!(!idle(s));
    // SAFETY: this is pinned memory of 4096 bytes, and the copy has not begun.
    unsafe { host.cast::<u8>().write_bytes(9, 4096) };
    gate.open();
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(device, 4096), vec![9; 4096]);
}

#[test]
fn wrong_arguments_are_named() {
    let _block = Block::one();
    let (a, s) = (malloc(4096), stream());
    let behind = a.wrapping_byte_add(4096 + 256);
    fails!(107000, ["dst is NULL"], aclrtMemcpyAsync(null_mut(), 8, a, 8, D2D, s));
    fails!(107000, ["src is NULL"], aclrtMemcpyAsync(a, 8, null_mut(), 8, D2D, s));
    fails!(107000, ["count is 0"], aclrtMemcpyAsync(a, 8, behind, 0, D2D, s));
    fails!(107000, ["count is 9", "destMax is only 8"], aclrtMemcpyAsync(a, 8, behind, 9, D2D, s));
    fails!(107000, ["devPtr is NULL"], aclrtMemsetAsync(null_mut(), 8, 0, 8, s));
    fails!(107000, ["count is 9", "maxCount is only 8"], aclrtMemset(a, 8, 0, 9));
    fails!(107000, ["kind is 8"], aclrtMemcpyAsync(a, 8, behind, 8, aclrtMemcpyKind(8), s));
    fails!(
        207000,
        ["host"],
        aclrtMemcpyAsync(a, 8, behind, 8, aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_HOST, s)
    );
    fails!(
        107000,
        ["src: ", "256 bytes beyond the end of allocation #", "(4096 bytes"],
        aclrtMemcpyAsync(a, 8, behind, 8, D2D, s)
    );
    let late = a.wrapping_byte_add(4000);
    fails!(
        107000,
        ["devPtr: ", "reaches 4 bytes beyond the end of allocation #"],
        aclrtMemsetAsync(late, 100, 0, 100, s)
    );
    ok!(aclrtFree(a));
    fails!(107000, ["devPtr: ", "which was freed by aclrtFree"], aclrtMemset(a, 8, 0, 8));
    assert!(message().is_empty());
    assert_eq!(call!(aclrtPeekAtLastError(aclrtLastErrLevel::ACL_RT_THREAD_LEVEL)), 107000);
    assert_eq!(call!(aclrtGetLastError(aclrtLastErrLevel::ACL_RT_THREAD_LEVEL)), 107000);
    assert_eq!(call!(aclrtGetLastError(aclrtLastErrLevel::ACL_RT_THREAD_LEVEL)), 0);
}

#[test]
fn a_copy_onto_itself_succeeds_and_does_nothing() {
    let _block = Block::one();
    let (a, s, gate) = (malloc(64), stream(), Gate::new());
    write(a, &[3; 64]);
    ok!(aclrtMemcpy(a, 64, a, 64, D2D));
    fails!(107000, [], aclrtMemcpy(a, 63, a, 64, D2D));
    fails!(107000, [], aclrtMemcpy(a, 64, a, 0, D2D));
    gate.close(s);
    let (opened, open) = std::sync::mpsc::channel::<()>();
    let opener = std::thread::spawn(move || {
        // The time runs out only if the copy waits for the stream.
        let _ = open.recv_timeout(std::time::Duration::from_secs(120));
        gate.open();
    });
    ok!(aclrtMemcpyAsync(a, 64, a, 64, D2D, s));
    let mut pageable = [4u8; 64];
    let host: *mut std::ffi::c_void = pageable.as_mut_ptr().cast();
    ok!(aclrtMemcpyAsync(host, 64, host, 64, H2D, s));
    assert!(!idle(s), "it waited for the stream");
    opened.send(()).unwrap();
    opener.join().unwrap();
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 64), [3; 64]);
    assert_eq!(pageable, [4; 64]);
}

#[test]
fn pitched_copies() {
    let _block = Block::one();
    let (a, b, s) = (malloc(100), malloc(100), stream());
    write(a, &(0..100).collect::<Vec<u8>>());
    ok!(aclrtMemset(b, 100, 0xff, 100));
    ok!(aclrtMemcpy2dAsync(b, 20, a, 10, 5, 5, D2D, s));
    ok!(aclrtSynchronizeStream(s));
    for (i, byte) in read(b, 100).into_iter().enumerate() {
        let (row, column) = (i / 20, i % 20);
        assert_eq!(byte, if column < 5 { (row * 10 + column) as u8 } else { 0xff }, "at {i}");
    }
    fails!(107000, ["width is 11"], aclrtMemcpy2d(b, 20, a, 10, 11, 5, D2D));
    fails!(107000, ["beyond the end"], aclrtMemcpy2d(b, 20, a, 10, 6, 6, D2D));
    let host = aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_HOST;
    fails!(207000, ["host"], aclrtMemcpy2dAsync(b, 20, a, 10, 5, 5, host, s));
}

#[test]
fn an_unaligned_copy_of_any_size_is_exact() {
    let _block = Block::one();
    let (a, b) = (malloc(300_000), malloc(300_000));
    let pattern: Vec<u8> =
        (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    write(a, &pattern);
    for (bytes, shift) in
        [(1, 0), (7, 3), (63, 1), (4097, 5), (65_536, 0), (65_537, 9), (200_000, 77)]
    {
        ok!(aclrtMemset(b, 300_000, 0, 300_000));
        ok!(aclrtMemcpy(b.wrapping_byte_add(shift), bytes, a.wrapping_byte_add(3), bytes, D2D));
        assert_eq!(read(b.wrapping_byte_add(shift), bytes), pattern[3..3 + bytes]);
        assert_eq!(read(b.wrapping_byte_add(shift + bytes), 1), [0]);
    }
}

#[test]
fn peer_access_is_asked_for_where_the_product_wants_it() {
    let block = Block::with(AscendExtBlockConfig { deviceCount: 2, product: 2, ..Block::config() });
    ok!(aclrtSetDevice(block.first));
    let a = malloc(64);
    ok!(aclrtSetDevice(block.first + 1));
    let b = malloc(64);
    fails!(107000, ["aclrtDeviceEnablePeerAccess"], aclrtMemcpy(b, 64, a, 64, D2D));
    fails!(200006, ["flags"], aclrtDeviceEnablePeerAccess(block.first, 1));
    fails!(107001, ["same"], aclrtDeviceEnablePeerAccess(block.first + 1, 0));
    ok!(aclrtDeviceEnablePeerAccess(block.first, 0));
    ok!(aclrtMemcpy(b, 64, a, 64, D2D));
    ok!(aclrtDeviceDisablePeerAccess(block.first));
    fails!(107000, ["no access between"], aclrtMemcpy(b, 64, a, 64, D2D));
}

#[test]
fn words_are_filled_whole_and_no_byte_more() {
    let _block = Block::one();
    const WORDS: usize = 100_000;
    let (a, s, gate) = (malloc(4 * WORDS + 8), stream(), Gate::new());
    let words = |bytes: Vec<u8>| {
        bytes.as_chunks::<4>().0.iter().map(|it| u32::from_ne_bytes(*it)).collect::<Vec<u32>>()
    };
    ok!(aclrtMemset(a, 4 * WORDS + 8, 0xee, 4 * WORDS + 8));
    ok!(aclrtMemsetD32(a.wrapping_byte_add(4), 4 * WORDS, 0x0102_0304, WORDS));
    let found = words(read(a, 4 * WORDS + 8));
    assert!(found[1..=WORDS].iter().all(|word| *word == 0x0102_0304));
    assert_eq!((found[0], found[WORDS + 1]), (0xeeee_eeee, 0xeeee_eeee));
    // The rest of the room stays unchanged, in a stream too, and the fill comes after the queued
    // tasks.
    gate.close(s);
    ok!(aclrtMemsetAsync(a, 16, 0, 16, s));
    ok!(aclrtMemsetD32Async(a, 16, 0xffee_ddcc, 3, s));
    assert!(!idle(s));
    gate.open();
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(words(read(a, 20)), [0xffee_ddcc, 0xffee_ddcc, 0xffee_ddcc, 0, 0x0102_0304]);

    fails!(107000, ["ptr is NULL"], aclrtMemsetD32(null_mut(), 8, 1, 1));
    fails!(107000, ["N is 3 words of 4 bytes, but memSize is 11"], aclrtMemsetD32(a, 11, 1, 3));
    fails!(107000, ["N is 0"], aclrtMemsetD32Async(a, 11, 1, 0, s));
    for n in [usize::MAX, usize::MAX / 4 + 2] {
        fails!(107000, ["but memSize is 8"], aclrtMemsetD32(a, 8, 1, n));
    }
    let last = a.wrapping_byte_add(4 * WORDS + 4);
    fails!(107000, ["ptr: ", "reaches 4 bytes beyond"], aclrtMemsetD32Async(last, 8, 1, 2, s));
    let mut host = [0u32; 2];
    let pageable = host.as_mut_ptr().cast();
    fails!(107000, ["ptr is pageable"], aclrtMemsetD32Async(pageable, 8, 1, 2, s));
    ok!(aclrtMemsetD32(pageable, 8, 5, 2));
    assert_eq!(host, [5, 5]);
}

#[test]
fn a_copy_with_condition_waits_for_pageable_memory_only() {
    let _block = Block::one();
    let (device, pinned, s, gate) = (malloc(64), malloc_host(64), stream(), Gate::new());
    gate.close(s);
    // SAFETY: this is pinned memory of 64 bytes, and nothing uses it yet.
    unsafe { pinned.cast::<u8>().write_bytes(9, 64) };
    ok!(aclrtMemcpyAsyncWithCondition(device, 64, pinned, 64, H2D, s));
    assert!(!idle(s), "it waited for the stream");
    gate.open();
    let mut host = [0u8; 64];
    ok!(aclrtMemcpyAsyncWithCondition(host.as_mut_ptr().cast(), 64, device, 64, D2H, s));
    assert_eq!(host, [9; 64]);
    fails!(107000, ["count is 65"], aclrtMemcpyAsyncWithCondition(device, 64, pinned, 65, H2D, s));
}
