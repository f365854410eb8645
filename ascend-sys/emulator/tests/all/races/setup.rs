//! A checked block with two streams, and the helpers that all races use.

use ascend_emulator_testing::common::{self, Block, POLICY};
use ascend_emulator_testing::{call, ok};
use ascend_sys::*;
use std::ffi::c_void;

/// The size of every buffer in bytes.
pub const SIZE: usize = 4096;

pub fn config(devices: u32) -> AscendExtBlockConfig {
    let check = AscendExtCheck::ASCEND_EXT_CHECK_RACES.0;
    AscendExtBlockConfig { deviceCount: devices, check, ..Block::config() }
}

/// One checked device, which is the current device, and two streams on it.
pub struct Two {
    pub block: Block,
    pub numbers: Numbers,
    pub a: aclrtStream,
    pub b: aclrtStream,
}

impl Two {
    pub fn new() -> Two {
        let block = Block::with(config(1));
        let numbers = Numbers::of(&block, 1);
        ok!(aclrtSetDevice(block.first));
        Two { block, numbers, a: common::stream(), b: common::stream() }
    }

    /// Returns memory that is already written.
    pub fn memory(&self) -> *mut c_void {
        let memory = common::malloc(SIZE);
        ok!(aclrtMemset(memory, SIZE, 0, SIZE));
        memory
    }

    /// Returns pinned host memory.
    pub fn pinned(&self) -> *mut c_void {
        common::malloc_host(SIZE)
    }
}

/// Returns the findings of a block as texts.
pub fn findings(block: &Block) -> Vec<String> {
    let mut count = 0;
    ok!(ascendExtFindings(block.number, &mut count));
    (0..count)
        .map(|index| told(block, index, AscendExtFindingForm::ASCEND_EXT_FINDING_TEXT))
        .collect()
}

pub fn told(block: &Block, index: u32, form: AscendExtFindingForm) -> String {
    let mut length = 0;
    let null = std::ptr::null_mut();
    ok!(ascendExtFinding(block.number, index, form, null, 0, &mut length));
    let mut text = vec![0_u8; length + 1];
    let to = text.as_mut_ptr().cast();
    ok!(ascendExtFinding(block.number, index, form, to, text.len(), &mut length));
    text.truncate(length);
    String::from_utf8(text).unwrap()
}

/// The number of allocations that each device of a block had before the test. Allocation numbers
/// continue when a device is used again. Devices count from 0 in their block, as in texts.
pub struct Numbers(Vec<(i32, u64)>);

impl Numbers {
    pub fn of(block: &Block, devices: i32) -> Numbers {
        let number = |device| {
            ok!(aclrtSetDevice(device));
            let inside = at(malloc(), 8);
            let _ = common::message();
            assert_ne!(call!(aclrtFree(inside)), 0);
            let text = common::message();
            let number = text.split("allocation #").nth(1).and_then(|rest| rest.split(' ').next());
            ok!(aclrtResetDevice(device));
            (device - block.first, number.unwrap().parse().unwrap())
        };
        Numbers((block.first..block.first + devices).map(number).collect())
    }

    /// Returns the text with allocation numbers that begin at 1.
    pub fn count_from_one(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (device, before) in &self.0 {
            for number in 1..20 {
                let (old, end) = (before + number, format!(" of device {device} "));
                text = text.replace(&format!("#{old}{end}"), &format!("#{number}{end}"));
            }
        }
        text
    }
}

/// A piece that matches if the second stream is not ordered after the first one, or only after
/// earlier tasks of it. Both cases occur: the host is one lane for all threads, so waits of other
/// tests order it too, and lanes of streams are used again.
pub const UNORDERED: &str = "knew nothing, or too little";

/// Runs a program without and with its repair. Without the repair there must be one finding, which
/// contains all the pieces in this order. With the repair there must be none.
#[track_caller]
pub fn race(pieces: &[&str], program: impl Fn(&Two, bool)) {
    for repaired in [false, true] {
        let two = Two::new();
        program(&two, repaired);
        ok!(aclrtSynchronizeDevice());
        judge(&two.block, &two.numbers, pieces, repaired);
    }
}

#[track_caller]
pub fn judge(block: &Block, numbers: &Numbers, pieces: &[&str], repaired: bool) {
    let findings: Vec<_> =
        findings(block).iter().map(|text| numbers.count_from_one(text)).collect();
    if repaired {
        assert!(findings.is_empty(), "repaired, and still: {}", findings.join("\n"));
        return;
    }
    assert_eq!(findings.len(), 1, "{pieces:?}: {findings:#?}");
    let mut rest = &*findings[0];
    for piece in pieces {
        let texts = if *piece == UNORDERED {
            &["is not ordered after stream", "up to task"]
        } else {
            &[*piece][..]
        };
        let ends = texts.iter().filter_map(|text| Some(rest.find(text)? + text.len()));
        match ends.min() {
            Some(end) => rest = &rest[end..],
            None => panic!("{piece:?} is not there, or not in order, in\n{}", findings[0]),
        }
    }
    assert!(findings[0].contains("\n  help: "), "{}", findings[0]);
}

pub fn fill(memory: *mut c_void, stream: aclrtStream) {
    ok!(aclrtMemsetAsync(memory, SIZE, 7, SIZE, stream));
}

pub fn copy(to: *mut c_void, from: *mut c_void, stream: aclrtStream) {
    let kind = aclrtMemcpyKind::ACL_MEMCPY_DEFAULT;
    ok!(aclrtMemcpyAsync(to, SIZE, from, SIZE, kind, stream));
}

pub fn at(memory: *mut c_void, bytes: usize) -> *mut c_void {
    memory.wrapping_byte_add(bytes)
}

pub fn event() -> aclrtEvent {
    let mut event = std::ptr::null_mut();
    ok!(aclrtCreateEventExWithFlag(&mut event, ACL_EVENT_SYNC));
    event
}

/// Makes `to` wait for the tasks that are in `from` now.
pub fn order(from: aclrtStream, to: aclrtStream) {
    let event = event();
    ok!(aclrtRecordEvent(event, from));
    ok!(aclrtStreamWaitEvent(to, event));
    ok!(aclrtDestroyEvent(event));
}

pub fn sync(stream: aclrtStream) {
    ok!(aclrtSynchronizeStream(stream));
}

pub fn malloc() -> *mut c_void {
    let mut memory = std::ptr::null_mut();
    ok!(aclrtMalloc(&mut memory, SIZE, POLICY));
    memory
}

pub fn free(memory: *mut c_void) {
    assert_eq!(call!(aclrtFree(memory)), 0);
}
