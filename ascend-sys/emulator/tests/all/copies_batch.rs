//! Batches of copies: every form, pageable and pinned memory, captures, and every wrong argument by
//! name.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

const EACH: usize = 256;

/// The arguments of a batch.
struct Batch {
    dsts: Vec<*mut c_void>,
    most: Vec<usize>,
    srcs: Vec<*mut c_void>,
    sizes: Vec<usize>,
    attrs: Vec<aclrtMemcpyBatchAttr>,
    indexes: Vec<usize>,
    failed: usize,
}

impl Batch {
    fn new(to: &[*mut c_void], from: &[*mut c_void], attribute: aclrtMemcpyBatchAttr) -> Batch {
        Batch {
            dsts: to.to_vec(),
            most: vec![EACH; to.len()],
            srcs: from.to_vec(),
            sizes: vec![EACH; from.len()],
            attrs: vec![attribute],
            indexes: vec![0],
            failed: 77,
        }
    }

    fn now(&mut self) -> i32 {
        call!(aclrtMemcpyBatch(
            self.dsts.as_mut_ptr(),
            self.most.as_mut_ptr(),
            self.srcs.as_mut_ptr(),
            self.sizes.as_mut_ptr(),
            self.dsts.len(),
            self.attrs.as_mut_ptr(),
            self.indexes.as_mut_ptr(),
            self.attrs.len(),
            &mut self.failed
        ))
    }

    fn in_stream(&mut self, stream: aclrtStream) -> i32 {
        call!(aclrtMemcpyBatchAsync(
            self.dsts.as_mut_ptr(),
            self.most.as_mut_ptr(),
            self.srcs.as_mut_ptr(),
            self.sizes.as_mut_ptr(),
            self.dsts.len(),
            self.attrs.as_mut_ptr(),
            self.indexes.as_mut_ptr(),
            self.attrs.len(),
            &mut self.failed,
            stream
        ))
    }

    /// Checks that the batch fails in both forms, at one copy or as a whole, and copies nothing.
    fn refused(&mut self, code: i32, failed: usize, pieces: &[&str]) {
        let stream = stream();
        for form in 0..2 {
            self.failed = 77;
            let _ = message();
            let got = if form == 0 { self.now() } else { self.in_stream(stream) };
            let text = message();
            assert_eq!((got, self.failed), (code, failed), "form {form}: {text}");
            for piece in pieces {
                assert!(text.contains(piece), "form {form}: {piece:?} is not in: {text}");
            }
        }
        ok!(aclrtDestroyStream(stream));
    }
}

fn location(type_: aclrtMemLocationType, id: i32) -> aclrtMemLocation {
    aclrtMemLocation { id: id as u32, type_ }
}

fn to_device(id: i32) -> aclrtMemcpyBatchAttr {
    aclrtMemcpyBatchAttr {
        dstLoc: location(aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE, id),
        srcLoc: location(aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_HOST, 0),
        rsv: [0; 16],
    }
}

fn to_host(id: i32) -> aclrtMemcpyBatchAttr {
    let aclrtMemcpyBatchAttr { dstLoc, srcLoc, rsv } = to_device(id);
    aclrtMemcpyBatchAttr { dstLoc: srcLoc, srcLoc: dstLoc, rsv }
}

fn offsets(base: *mut c_void) -> Vec<*mut c_void> {
    (0..3).map(|i| base.wrapping_byte_add(i * EACH)).collect()
}

#[test]
fn a_batch_copies_each_of_its_parts() {
    let block = Block::one();
    let device = offsets(malloc(3 * EACH));
    let mut host: Vec<Vec<u8>> = (1..4).map(|byte| vec![byte; EACH]).collect();
    let from: Vec<*mut c_void> = host.iter_mut().map(|part| part.as_mut_ptr().cast()).collect();
    let mut batch = Batch::new(&device, &from, to_device(block.first));
    assert_eq!((batch.now(), batch.failed), (0, usize::MAX), "{}", message());
    for (at, part) in device.iter().zip(&host) {
        assert_eq!(&read(*at, EACH), part);
    }
    // The batch copies back, into buffers in the other order.
    let mut back = vec![vec![0u8; EACH]; 3];
    let to: Vec<*mut c_void> = back.iter_mut().rev().map(|part| part.as_mut_ptr().cast()).collect();
    let mut batch = Batch::new(&to, &device, to_host(block.first));
    ok!(aclrtMemcpyBatchV2(
        batch.dsts.as_mut_ptr(),
        batch.most.as_mut_ptr(),
        batch.srcs.as_mut_ptr(),
        batch.sizes.as_mut_ptr(),
        3,
        batch.attrs.as_mut_ptr(),
        batch.indexes.as_mut_ptr(),
        1
    ));
    host.reverse();
    assert_eq!(back, host);
}

#[test]
fn a_batch_in_a_stream_waits_only_for_pageable_memory() {
    let block = Block::one();
    let (device, s, gate) = (offsets(malloc(3 * EACH)), stream(), Gate::new());
    let pinned = offsets(malloc_host(3 * EACH));
    gate.close(s);
    let mut batch = Batch::new(&device, &pinned, to_device(block.first));
    ok!(aclrtMemcpyBatchAsyncV2(
        batch.dsts.as_mut_ptr(),
        batch.most.as_mut_ptr(),
        batch.srcs.as_mut_ptr(),
        batch.sizes.as_mut_ptr(),
        3,
        batch.attrs.as_mut_ptr(),
        batch.indexes.as_mut_ptr(),
        1,
        s
    ));
    assert!(!idle(s), "it waited for the stream");
    // SAFETY: this is pinned memory of three parts, and no copy has begun.
    unsafe { pinned[0].cast::<u8>().write_bytes(9, 3 * EACH) };
    let opener = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        gate.open();
    });
    // A second batch has the same parts, except that one of them is pageable.
    let mut pageable = vec![5u8; EACH];
    let from = [pinned[0], pageable.as_mut_ptr().cast(), pinned[2]];
    let mut mixed = Batch::new(&device, &from, to_device(block.first));
    assert_eq!((mixed.in_stream(s), mixed.failed), (0, usize::MAX), "{}", message());
    pageable.fill(1);
    ok!(aclrtSynchronizeStream(s));
    opener.join().unwrap();
    assert_eq!(read(device[0], EACH), [9; EACH]);
    assert_eq!(read(device[1], EACH), [5; EACH]);
    assert_eq!(read(device[2], EACH), [9; EACH]);
}

#[test]
fn a_captured_batch_copies_at_each_execution() {
    let block = Block::one();
    let (device, pinned, s) = (offsets(malloc(3 * EACH)), offsets(malloc_host(3 * EACH)), stream());
    let mut graph = null_mut();
    let global = aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    ok!(aclmdlRICaptureBegin(s, global));
    let mut batch = Batch::new(&device, &pinned, to_device(block.first));
    assert_eq!(batch.in_stream(s), 0, "{}", message());
    assert_eq!((batch.now(), batch.failed), (107030, usize::MAX));
    let mut pageable = [0u8; EACH];
    let mut wrong =
        Batch::new(&device[..1], &[pageable.as_mut_ptr().cast()], to_device(block.first));
    assert_eq!((wrong.in_stream(s), wrong.failed), (107000, usize::MAX));
    ok!(aclmdlRICaptureEnd(s, &mut graph));
    for byte in [1u8, 2] {
        // SAFETY: this is pinned memory of three parts, and nothing uses it now.
        unsafe { pinned[0].cast::<u8>().write_bytes(byte, 3 * EACH) };
        ok!(aclmdlRIExecuteAsync(graph, s));
        ok!(aclrtSynchronizeStream(s));
        assert_eq!(read(device[0], 3 * EACH), [byte; 3 * EACH]);
    }
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn wrong_batches_are_named_and_copy_nothing() {
    let block = Block::new(2);
    ok!(aclrtSetDevice(block.first));
    let (device, pinned) = (offsets(malloc(3 * EACH)), offsets(malloc_host(3 * EACH)));
    ok!(aclrtMemset(device[0], 3 * EACH, 7, 3 * EACH));
    let good = || Batch::new(&device, &pinned, to_device(block.first));
    let none = usize::MAX;

    let mut batch = good();
    batch.sizes[1] = EACH + 1;
    batch.refused(107000, 1, &["copy 1 of 3: count is 257", "destMax is only 256"]);
    let mut batch = good();
    batch.srcs[2] = null_mut();
    batch.refused(107000, 2, &["copy 2 of 3: src is NULL"]);
    let mut batch = good();
    batch.dsts[2] = device[0].wrapping_byte_add(3 * EACH + 64);
    batch.refused(107000, 2, &["copy 2 of 3: dst: ", "beyond the end of allocation"]);
    let mut batch = good();
    batch.srcs[1] = device[2];
    batch.refused(107000, 1, &["pass one address of the host and one of a device"]);
    let mut batch = good();
    batch.srcs[1] = device[1];
    batch.refused(107000, 1, &["pass one address of the host and one of a device"]);
    let mut batch = good();
    (batch.dsts[1], batch.srcs[1]) = (pinned[1], device[1]);
    batch.refused(107000, 1, &["from a device to the host", "the first copy goes from the host"]);
    let mut batch = good();
    batch.attrs[0] = to_host(block.first);
    batch.refused(107000, none, &["attrs[0] names a destination of type 0", "goes from the host"]);
    let mut batch = good();
    batch.attrs[0] = to_device(block.first + 1);
    batch.refused(107000, none, &["no copy of the batch uses its memory"]);
    let mut batch = good();
    batch.attrs[0] = to_device(-1);
    batch.refused(107001, none, &["there is no device"]);
    let mut batch = good();
    batch.attrs.clear();
    batch.refused(107000, none, &["numAttrs is 0; pass 1 to 3"]);
    let mut batch = good();
    batch.dsts.clear();
    batch.refused(107000, none, &["numBatches is 0"]);
    assert_eq!(read(device[0], 3 * EACH), [7; 3 * EACH], "a refused batch has copied");

    // NULL arguments, and lengths that no list can have.
    let mut batch = good();
    let (dsts, most) = (batch.dsts.as_mut_ptr(), batch.most.as_mut_ptr());
    let (srcs, sizes) = (batch.srcs.as_mut_ptr(), batch.sizes.as_mut_ptr());
    let (attrs, indexes) = (batch.attrs.as_mut_ptr(), batch.indexes.as_mut_ptr());
    let (s, no) = (stream(), null_mut::<c_void>());
    fails!(
        100000,
        ["dsts"],
        aclrtMemcpyBatchV2(no.cast(), most, srcs, sizes, 3, attrs, indexes, 1)
    );
    fails!(
        100000,
        ["destMaxs"],
        aclrtMemcpyBatchV2(dsts, no.cast(), srcs, sizes, 3, attrs, indexes, 1)
    );
    fails!(
        100000,
        ["srcs"],
        aclrtMemcpyBatchV2(dsts, most, no.cast(), sizes, 3, attrs, indexes, 1)
    );
    fails!(
        100000,
        ["sizes"],
        aclrtMemcpyBatchV2(dsts, most, srcs, no.cast(), 3, attrs, indexes, 1)
    );
    fails!(
        100000,
        ["attrs"],
        aclrtMemcpyBatchV2(dsts, most, srcs, sizes, 3, no.cast(), indexes, 1)
    );
    fails!(
        100000,
        ["attrsIndexes"],
        aclrtMemcpyBatchV2(dsts, most, srcs, sizes, 3, attrs, no.cast(), 1)
    );
    for count in [usize::MAX, 1 << 40] {
        fails!(
            107000,
            ["numBatches is"],
            aclrtMemcpyBatchAsyncV2(dsts, most, srcs, sizes, count, attrs, indexes, 1, s)
        );
        fails!(
            107000,
            ["numAttrs is"],
            aclrtMemcpyBatchAsyncV2(dsts, most, srcs, sizes, 3, attrs, indexes, count, s)
        );
    }
    fails!(
        107000,
        ["copy 0 of 3"],
        aclrtMemcpyBatch(dsts, [0; 3].as_mut_ptr(), srcs, sizes, 3, attrs, indexes, 1, no.cast())
    );
}
