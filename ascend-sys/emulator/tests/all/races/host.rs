//! Tests of work of the host at the same time as tasks: frees, copies, accesses to host memory, and
//! functions in streams.

use super::setup::*;
use ascend_emulator_testing::common::{D2H, Gate};
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ffi::c_void;

#[test]
fn memory_is_freed_under_an_operation() {
    let pieces = [
        "free in flight: allocation #1",
        "1 write: fill",
        "2 write: free, the host; aclrtFree on thread",
        "the host is",
        "help: wait for the operation before the free",
    ];
    race(&pieces, |two, repaired| {
        let x = two.memory();
        fill(x, two.a);
        if repaired {
            sync(two.a);
        }
        free(x);
    });
}

#[test]
fn memory_is_freed_before_the_operation_begins() {
    let pieces =
        ["use after free: bytes 0..4096 of allocation #1", "1 write: free", "2 write: fill"];
    race(&pieces, |two, repaired| {
        let (x, gate) = (two.memory(), Gate::new());
        gate.close(two.a);
        fill(x, two.a);
        if repaired {
            gate.open();
            sync(two.a);
        }
        free(x);
        gate.open();
        sync(two.a);
    });
}

#[test]
fn the_wrong_stream_is_synchronised_before_a_free() {
    race(&["free in flight: allocation #1", "1 read: copy", "free"], |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        copy(y, x, two.a);
        sync(if repaired { two.a } else { two.b });
        free(x);
    });
}

#[test]
fn a_free_that_synchronises_needs_no_other() {
    race(&["free in flight: allocation #1"], |two, repaired| {
        let x = two.memory();
        fill(x, two.a);
        if repaired {
            ok!(aclrtFreeWithDevSync(x));
        } else {
            free(x);
        }
    });
}

#[test]
fn pinned_memory_is_freed_under_a_copy() {
    let pieces =
        ["free in flight: allocation #", "of pinned host memory", "1 read: copy", "aclrtFreeHost"];
    race(&pieces, |two, repaired| {
        let (x, host) = (two.memory(), two.pinned());
        copy(x, host, two.a);
        if repaired {
            sync(two.a);
        }
        ok!(aclrtFreeHost(host));
    });
}

#[test]
fn the_host_reads_what_is_being_written() {
    let pieces = [
        "race: bytes 0..4096 of allocation #1",
        "1 write: fill",
        "2 read: copy of 4096 bytes, the host, bytes 0..4096; aclrtMemcpy on thread",
        "the host is",
        "help: wait for 1 before 2 is called: aclrtSynchronizeStream",
    ];
    race(&pieces, |two, repaired| {
        let (x, mut bytes) = (two.memory(), [0_u8; SIZE]);
        fill(x, two.a);
        if repaired {
            sync(two.a);
        }
        ok!(aclrtMemcpy(bytes.as_mut_ptr().cast(), SIZE, x, SIZE, D2H));
    });
}

#[test]
fn the_host_sets_what_is_being_read() {
    let pieces =
        ["race: bytes 0..4096 of allocation #1", "1 read: copy", "2 write: fill", "the host"];
    race(&pieces, |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        copy(y, x, two.a);
        if repaired {
            ok!(aclrtSynchronizeDevice());
        }
        ok!(aclrtMemset(x, SIZE, 0, SIZE));
    });
}

#[test]
fn the_wrong_event_is_synchronised() {
    race(&["race: bytes 0..4096 of allocation #1", "up to task"], |two, repaired| {
        let x = two.memory();
        let (early, late) = (event(), event());
        fill(two.memory(), two.a);
        ok!(aclrtRecordEvent(early, two.a));
        fill(x, two.a);
        ok!(aclrtRecordEvent(late, two.a));
        ok!(aclrtSynchronizeEvent(if repaired { late } else { early }));
        ok!(aclrtMemset(x, SIZE, 0, SIZE));
    });
}

#[test]
fn a_query_that_says_complete_is_as_good_as_a_wait() {
    race(&["race: bytes 0..4096 of allocation #1"], |two, repaired| {
        let (x, event) = (two.memory(), event());
        fill(x, two.a);
        ok!(aclrtRecordEvent(event, two.a));
        let mut status = aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY;
        while repaired && status == aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY {
            ok!(aclrtQueryEventStatus(event, &mut status));
        }
        ok!(aclrtMemset(x, SIZE, 0, SIZE));
    });
}

#[test]
fn two_streams_write_to_one_pinned_block() {
    let pieces =
        ["race: bytes 0..4096 of allocation #", "of pinned host memory", "are written twice"];
    race(&pieces, |two, repaired| {
        let (x, y, host) = (two.memory(), two.memory(), two.pinned());
        copy(host, x, two.a);
        if repaired {
            order(two.a, two.b);
        }
        copy(host, y, two.b);
    });
}

#[test]
fn the_host_writes_pinned_memory_that_is_being_copied() {
    let pieces = ["of pinned host memory", "1 read: copy", "2 write: access to 16 bytes, the host"];
    race(&pieces, |two, repaired| {
        let (x, host) = (two.memory(), two.pinned());
        copy(x, host, two.a);
        if repaired {
            sync(two.a);
        }
        ok!(ascendExtHostAccess(host, 16, 1));
    });
}

#[test]
fn registered_memory_is_watched_too() {
    let pieces =
        ["race: bytes 0..4096 of registered host memory at", "1 write: copy", "2 write: copy"];
    race(&pieces, |two, repaired| {
        let layout = std::alloc::Layout::from_size_align(SIZE, 4096).unwrap();
        // SAFETY: the size is not zero, and the memory is freed below with the same layout.
        let memory: *mut c_void = unsafe { std::alloc::alloc_zeroed(layout) }.cast();
        let kind = aclrtHostRegisterType::ACL_HOST_REGISTER_MAPPED;
        let mut mapped = std::ptr::null_mut();
        ok!(aclrtHostRegister(memory, SIZE as u64, kind, &mut mapped));
        let (x, y) = (two.memory(), two.memory());
        copy(memory, x, two.a);
        if repaired {
            order(two.a, two.b);
        }
        copy(memory, y, two.b);
        ok!(aclrtHostUnregister(memory));
        // SAFETY: the memory was allocated above, and unregistering it has waited for the copies.
        unsafe { std::alloc::dealloc(memory.cast(), layout) };
    });
}

/// Reads pinned memory as a host function.
unsafe extern "C" fn reads(host: *mut c_void) {
    assert_eq!(call!(ascendExtHostAccess(host, SIZE, 0)), 0);
}

#[test]
fn a_host_function_reads_what_another_stream_writes() {
    let pieces =
        ["of pinned host memory", "1 write: copy", "2 read: access to 4096 bytes, the host"];
    race(&pieces, |two, repaired| {
        let (x, host) = (two.memory(), two.pinned());
        copy(host, x, two.a);
        let stream = if repaired { two.a } else { two.b };
        ok!(aclrtLaunchHostFunc(stream, Some(reads), host));
        sync(stream);
    });
}

#[test]
fn pageable_memory_is_waited_for_by_the_call() {
    race(&["race: bytes 0..4096 of allocation #1", "1 write: fill"], |two, repaired| {
        let (x, y, mut bytes) = (two.memory(), two.memory(), [0_u8; SIZE]);
        fill(x, two.a);
        let stream = if repaired { two.a } else { two.b };
        copy(bytes.as_mut_ptr().cast(), y, stream);
        ok!(aclrtMemset(x, SIZE, 0, SIZE));
    });
}

#[test]
fn what_another_thread_waited_for_is_known() {
    race(&["race: bytes 0..4096 of allocation #1"], |two, repaired| {
        let x = two.memory();
        fill(x, two.a);
        let (stream, device) = (two.a as usize, two.block.first);
        let wait = move || {
            ok!(aclrtSetDevice(device));
            if repaired {
                sync(stream as aclrtStream);
            }
            ok!(aclrtResetDevice(device));
        };
        std::thread::spawn(wait).join().unwrap();
        fill(x, two.b);
    });
}

#[test]
fn like_findings_are_told_once() {
    let two = Two::new();
    let x = two.memory();
    for _ in 0..10 {
        fill(x, two.a);
        fill(x, two.b);
    }
    ok!(aclrtSynchronizeDevice());
    // One finding has the access of stream `a` first, and the other one that of stream `b`.
    assert_eq!(findings(&two.block).len(), 2, "{:#?}", findings(&two.block));
}

#[test]
fn a_finding_is_asked_for_by_number_and_form() {
    let two = Two::new();
    let x = two.memory();
    fill(x, two.a);
    fill(x, two.b);
    let picture = told(&two.block, 0, AscendExtFindingForm::ASCEND_EXT_FINDING_SVG);
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
    assert!(picture.contains("are written twice"), "{picture}");
    let (text, mut length) = (AscendExtFindingForm::ASCEND_EXT_FINDING_TEXT, 0);
    let null = std::ptr::null_mut();
    let code = ascend_sys::ACL_ERROR_INVALID_PARAM;
    let number = two.block.number;
    fails!(code, ["no finding 1"], ascendExtFinding(number, 1, text, null, 0, &mut length));
    let odd = AscendExtFindingForm(7);
    fails!(code, ["form is 7"], ascendExtFinding(number, 0, odd, null, 0, &mut length));
    let mut count = 9;
    ok!(ascendExtFindings(u32::MAX, &mut count));
    assert_eq!(count, 0);
    // A text that is cut to the size of the buffer ends with a NUL, too.
    let mut bytes = [1_u8; 8];
    ok!(ascendExtFinding(number, 0, text, bytes.as_mut_ptr().cast(), 8, &mut length));
    assert_eq!(&bytes, b"race: b\0");
}

#[test]
fn a_checked_block_gives_no_progress_line() {
    let two = Two::new();
    let mut line = std::ptr::null();
    ok!(ascendExtStreamProgress(two.a, &mut line));
    assert!(line.is_null());
    let check = AscendExtBlockConfig { check: 2, ..config(1) };
    let (mut block, mut first) = (0, 0);
    let code = ascend_sys::ACL_ERROR_INVALID_PARAM;
    fails!(code, ["config->check is 2"], ascendExtBlockCreate(&check, &mut block, &mut first));
}
