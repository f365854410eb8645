//! Tests of the memory that a stream can reach: the memory of its own device, that of peers with
//! access, and never that of another block.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Makes every call that queues a task on memory that the program names, and returns the names and
/// results of the calls. `near` is memory of the stream's own device.
fn in_stream(
    s: aclrtStream,
    at: *mut c_void,
    near: *mut c_void,
    device: u32,
) -> Vec<(&'static str, i32)> {
    let (sum, float) = (aclrtReduceKind::ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, aclDataType::ACL_FLOAT);
    let (host, no) = (malloc_host(64), null_mut());
    let place = |type_, id| aclrtMemLocation { id, type_ };
    let mut attribute = aclrtMemcpyBatchAttr {
        dstLoc: place(aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE, device),
        srcLoc: place(aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_HOST, 0),
        rsv: [0; 16],
    };
    let (mut to, mut from, mut size, mut index) = (at, host, 64, 0);
    let mut most = size;
    let batch = call!(aclrtMemcpyBatchAsyncV2(
        &mut to,
        &mut most,
        &mut from,
        &mut size,
        1,
        &mut attribute,
        &mut index,
        1,
        s
    ));
    vec![
        ("write of a value", call!(aclrtValueWrite(at, 1, 0, s))),
        ("wait for a value", call!(aclrtValueWait(at, 1, ACL_STREAM_WAIT_VALUE_EQ, s))),
        ("fill", call!(aclrtMemsetAsync(at, 64, 0, 64, s))),
        ("fill with words", call!(aclrtMemsetD32Async(at, 64, 0, 16, s))),
        ("copy to it", call!(aclrtMemcpyAsync(at, 64, host, 64, H2D, s))),
        ("copy from it", call!(aclrtMemcpyAsync(host, 64, at, 64, D2H, s))),
        ("copy within it", call!(aclrtMemcpyAsync(at, 4, at.wrapping_byte_add(8), 4, D2D, s))),
        ("copy of rows", call!(aclrtMemcpy2dAsync(at, 8, host, 8, 8, 8, H2D, s))),
        ("copy between the devices", call!(aclrtMemcpyAsync(near, 64, at, 64, D2D, s))),
        ("reduction", call!(aclrtReduceAsync(at, at.wrapping_byte_add(8), 4, sum, float, s, no))),
        ("reduction from it", call!(aclrtReduceAsync(near, at, 4, sum, float, s, no))),
        ("batch", batch),
    ]
}

fn all_are(code: i32, pieces: &str, calls: Vec<(&'static str, i32)>) {
    let text = message();
    for (call, got) in calls {
        assert_eq!(got, code, "{call}: {text}");
    }
    assert!(text.contains(pieces), "{pieces:?} is not in: {text}");
}

#[test]
fn a_stream_reaches_memory_of_a_peer_with_access_only() {
    for product in [2, 950] {
        let config = AscendExtBlockConfig { deviceCount: 2, product, ..Block::config() };
        let block = Block::with(config);
        ok!(aclrtSetDevice(block.first + 1));
        let at = malloc(64);
        ok!(aclrtSetDevice(block.first));
        let (s, near, device) = (stream(), malloc(64), block.first as u32 + 1);
        let _ = message();
        all_are(107000, "aclrtDeviceEnablePeerAccess", in_stream(s, at, near, device));
        ok!(aclrtDeviceEnablePeerAccess(block.first + 1, 0));
        all_are(0, "", in_stream(s, at, near, device));
        ok!(aclrtSynchronizeStream(s));
    }
}

#[test]
fn a_stream_of_an_a3_reaches_every_device_of_its_block() {
    let block = Block::new(2);
    ok!(aclrtSetDevice(block.first + 1));
    let at = malloc(64);
    ok!(aclrtSetDevice(block.first));
    let (s, near) = (stream(), malloc(64));
    all_are(0, "", in_stream(s, at, near, block.first as u32 + 1));
    ok!(aclrtSynchronizeStream(s));
}

#[test]
fn a_stream_never_reaches_memory_of_another_block() {
    let theirs = Block::one();
    let at = malloc(64);
    let own = Block::one();
    let (s, near) = (stream(), malloc(64));
    let _ = message();
    all_are(107000, "different blocks", in_stream(s, at, near, theirs.first as u32));
    drop(own);
}
