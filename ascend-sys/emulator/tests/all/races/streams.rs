//! Tests of streams, events and notifies.

use super::setup::*;
use crate::virtual_memory::{UNIT, physical, reserve};
use ascend_emulator_testing::ok;
use ascend_sys::*;

const WRITTEN: &str = "race: bytes 0..4096 of allocation #1";
const EVENT: &str = "help: record an event after 1";

#[test]
fn an_event_is_missing() {
    let pieces = [
        WRITTEN,
        "are read and written, and nothing orders the two",
        "1 write: fill of 4096 bytes, task",
        "aclrtMemsetAsync on thread \"races::streams::an_event_is_missing\"",
        "2 read: copy of 4096 bytes, task",
        "aclrtMemcpyAsync on thread",
        UNORDERED,
        EVENT,
    ];
    race(&pieces, |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        fill(x, two.a);
        if repaired {
            order(two.a, two.b);
        }
        copy(y, x, two.b);
    });
}

#[test]
fn an_event_that_is_destroyed_at_once_still_orders() {
    race(&[WRITTEN, "1 write: fill", "2 read: copy", EVENT], |two, repaired| {
        let flag = |waits: bool| {
            let mut event = std::ptr::null_mut();
            ok!(aclrtCreateEvent(&mut event));
            ok!(aclrtRecordEvent(event, two.a));
            // The record may be complete when the other stream begins to wait.
            if waits {
                sync(two.a);
            }
            ok!(aclrtStreamWaitEvent(two.b, event));
            ok!(aclrtDestroyEvent(event));
        };
        let (x, y) = (two.memory(), two.memory());
        fill(x, two.a);
        if repaired {
            flag(false);
        }
        copy(y, x, two.b);
        if repaired {
            let other = two.memory();
            fill(other, two.a);
            flag(true);
            copy(y, other, two.b);
        }
    });
}

#[test]
fn an_event_is_recorded_too_early() {
    race(&[WRITTEN, "1 write: fill", "2 read: copy", "up to task", EVENT], |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        let event = event();
        if !repaired {
            ok!(aclrtRecordEvent(event, two.a));
        }
        fill(x, two.a);
        if repaired {
            ok!(aclrtRecordEvent(event, two.a));
        }
        ok!(aclrtStreamWaitEvent(two.b, event));
        copy(y, x, two.b);
    });
}

#[test]
fn a_value_is_written_too_early() {
    race(&[WRITTEN, "1 write: fill", "2 read: copy", EVENT], |two, repaired| {
        let (x, y, word) = (two.memory(), two.memory(), two.memory());
        if !repaired {
            ok!(aclrtValueWrite(word, 1, 0, two.a));
        }
        fill(x, two.a);
        if repaired {
            ok!(aclrtValueWrite(word, 1, 0, two.a));
        }
        ok!(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, two.b));
        copy(y, x, two.b);
    });
}

#[test]
fn a_word_that_a_stream_writes_is_written() {
    let two = Two::new();
    let word = malloc();
    ok!(aclrtValueWrite(word, 5, 0, two.a));
    ok!(aclrtSynchronizeStream(two.a));
    let mut value = 0_u64;
    let to = (&raw mut value).cast();
    ok!(aclrtMemcpy(to, 8, word, 8, aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_HOST));
    assert_eq!((value, findings(&two.block)), (5, Vec::new()));
}

#[test]
fn the_wrong_event_is_waited_for() {
    race(&[WRITTEN, "1 write: fill", "2 read: copy", EVENT], |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        let (early, late) = (event(), event());
        ok!(aclrtRecordEvent(early, two.a));
        fill(x, two.a);
        ok!(aclrtRecordEvent(late, two.a));
        ok!(aclrtStreamWaitEvent(two.b, if repaired { late } else { early }));
        copy(y, x, two.b);
    });
}

#[test]
fn the_wrong_stream_waits() {
    race(&[WRITTEN, "1 write: fill", "2 read: copy", EVENT], |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        let event = event();
        fill(x, two.a);
        ok!(aclrtRecordEvent(event, two.a));
        ok!(aclrtStreamWaitEvent(if repaired { two.b } else { two.a }, event));
        copy(y, x, two.b);
    });
}

#[test]
fn an_event_that_was_never_recorded_orders_nothing() {
    race(&[WRITTEN, "1 write: fill", "2 read: copy", EVENT], |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        let event = event();
        fill(x, two.a);
        if repaired {
            ok!(aclrtRecordEvent(event, two.a));
        }
        ok!(aclrtStreamWaitEvent(two.b, event));
        copy(y, x, two.b);
    });
}

#[test]
fn an_event_is_recorded_again_before_it_is_waited_for() {
    race(&[WRITTEN, "1 write: fill", "2 read: copy", EVENT], |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        let event = event();
        fill(x, two.a);
        ok!(aclrtRecordEvent(event, two.a));
        if !repaired {
            ok!(aclrtRecordEvent(event, two.b));
        }
        ok!(aclrtStreamWaitEvent(two.b, event));
        copy(y, x, two.b);
    });
}

#[test]
fn an_event_of_the_older_kind_is_missing() {
    race(&[WRITTEN, "1 write: fill", "2 read: copy", EVENT], |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        let mut event = std::ptr::null_mut();
        ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
        if repaired {
            // An event of this kind can be waited for before it is recorded.
            ok!(aclrtStreamWaitEvent(two.b, event));
            copy(y, x, two.b);
            ok!(aclrtRecordEvent(event, two.a));
        } else {
            fill(x, two.a);
            ok!(aclrtRecordEvent(event, two.a));
            copy(y, x, two.b);
        }
    });
}

#[test]
fn an_event_orders_what_comes_before_it_and_nothing_else() {
    let pieces =
        ["race: bytes 0..4096 of allocation #2", "1 write", "2 read", "is ordered after", EVENT];
    race(&pieces, |two, repaired| {
        let (x, y, z) = (two.memory(), two.memory(), two.memory());
        fill(x, two.a);
        if repaired {
            fill(y, two.a);
        }
        order(two.a, two.b);
        if !repaired {
            fill(y, two.a);
        }
        copy(z, x, two.b);
        copy(z, y, two.b);
    });
}

#[test]
fn two_streams_write() {
    let pieces = [WRITTEN, "are written twice", "1 write: fill", "2 write: fill", EVENT];
    race(&pieces, |two, repaired| {
        let x = two.memory();
        fill(x, two.a);
        if repaired {
            order(two.a, two.b);
        }
        fill(x, two.b);
    });
}

#[test]
fn what_is_being_read_is_written() {
    let pieces = [WRITTEN, "are read and written", "1 read: copy", "2 write: fill", EVENT];
    race(&pieces, |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        copy(y, x, two.a);
        if repaired {
            order(two.a, two.b);
        }
        fill(x, two.b);
    });
}

#[test]
fn order_is_handed_on_by_a_third_stream() {
    race(&[WRITTEN, "1 write: fill", "2 read: copy", EVENT], |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        let third = ascend_emulator_testing::common::stream();
        fill(x, two.a);
        order(two.a, third);
        if repaired {
            order(third, two.b);
        } else {
            order(two.b, third);
        }
        copy(y, x, two.b);
    });
}

#[test]
fn one_byte_is_enough() {
    let pieces = ["race: bytes 99..100 of allocation #1", "bytes 0..100;", "bytes 99..200;"];
    race(&pieces, |two, repaired| {
        let x = two.memory();
        ok!(aclrtMemsetAsync(x, 100, 1, 100, two.a));
        let start = if repaired { 100 } else { 99 };
        ok!(aclrtMemsetAsync(at(x, start), 200, 2, 200 - start, two.b));
    });
}

/// Copies 8 rows of 16 bytes, which begin at an offset in `to` and are 64 bytes apart.
fn rows(
    to: *mut std::ffi::c_void,
    offset: usize,
    from: *mut std::ffi::c_void,
    stream: aclrtStream,
) {
    let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE;
    ok!(aclrtMemcpy2dAsync(at(to, offset), 64, from, 64, 16, 8, kind, stream));
}

#[test]
fn pitched_copies_meet_in_one_row() {
    let pieces =
        ["race: bytes 448..456 of allocation #1", "copy of 8 rows of 16 bytes", "fill of 8"];
    race(&pieces, |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        rows(x, 0, y, two.a);
        // The bytes between the rows are not part of the copy.
        ok!(aclrtMemsetAsync(at(x, 16), 48, 1, 48, two.b));
        ok!(aclrtMemsetAsync(at(x, if repaired { 464 } else { 448 }), 8, 1, 8, two.b));
    });
}

#[test]
fn columns_of_one_matrix_are_apart() {
    race(&["race: bytes 15..16 of allocation #1"], |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        rows(x, 0, y, two.a);
        rows(x, if repaired { 16 } else { 15 }, y, two.b);
    });
}

#[test]
fn a_copy_onto_itself() {
    let pieces = ["overlap: bytes 8..2048 of allocation #1", "touched twice by one operation"];
    race(&pieces, |two, repaired| {
        let x = two.memory();
        let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE;
        let to = at(x, if repaired { 2048 } else { 8 });
        ok!(aclrtMemcpyAsync(to, 2048, x, 2048, kind, two.a));
    });
}

#[test]
fn memory_is_read_that_nobody_wrote() {
    let pieces =
        ["unwritten: bytes 0..4096 of allocation #1", "1 read: copy", "help: write the bytes"];
    race(&pieces, |two, repaired| {
        let x = if repaired { two.memory() } else { malloc() };
        let y = malloc();
        copy(y, x, two.a);
    });
}

#[test]
fn the_end_of_a_buffer_was_never_written() {
    race(&["unwritten: bytes 4000..4096 of allocation #1"], |two, repaired| {
        let (x, y) = (malloc(), two.memory());
        let bytes = if repaired { SIZE } else { 4000 };
        ok!(aclrtMemsetAsync(x, SIZE, 0, bytes, two.a));
        copy(y, x, two.a);
    });
}

fn notify() -> aclrtNotify {
    let mut notify = std::ptr::null_mut();
    ok!(aclrtCreateNotify(&mut notify, 0));
    notify
}

#[test]
fn a_notify_is_not_waited_for() {
    race(&[WRITTEN, "1 write: fill", "2 read: copy", EVENT], |two, repaired| {
        let (x, y, notify) = (two.memory(), two.memory(), notify());
        fill(x, two.a);
        ok!(aclrtRecordNotify(notify, two.a));
        if repaired {
            ok!(aclrtWaitAndResetNotify(notify, two.b, 0));
        }
        copy(y, x, two.b);
    });
}

#[test]
fn a_notify_is_recorded_too_early() {
    race(&[WRITTEN, "1 write: fill", "2 read: copy", "up to task"], |two, repaired| {
        let (x, y, notify) = (two.memory(), two.memory(), notify());
        if repaired {
            fill(x, two.a);
        }
        ok!(aclrtRecordNotify(notify, two.a));
        if !repaired {
            fill(x, two.a);
        }
        ok!(aclrtWaitAndResetNotify(notify, two.b, 0));
        copy(y, x, two.b);
    });
}

#[test]
fn a_notify_is_set_twice() {
    let pieces = ["notify: notify", "the second record is lost", "1 set: record", "2 set: record"];
    race(&pieces, |two, repaired| {
        let notify = notify();
        ok!(aclrtRecordNotify(notify, two.a));
        if repaired {
            ok!(aclrtWaitAndResetNotify(notify, two.b, 0));
            order(two.b, two.a);
        }
        ok!(aclrtRecordNotify(notify, two.a));
        ok!(aclrtWaitAndResetNotify(notify, two.b, 0));
    });
}

#[test]
fn a_notify_is_set_again_before_its_wait_is_known_to_be_over() {
    let pieces = [
        "notify: notify",
        "but the last wait for it may not be over",
        "1 wait: wait for notify",
        "2 set: record of notify",
        UNORDERED,
    ];
    race(&pieces, |two, repaired| {
        let notify = notify();
        ok!(aclrtRecordNotify(notify, two.a));
        ok!(aclrtWaitAndResetNotify(notify, two.b, 0));
        if repaired {
            order(two.b, two.a);
        }
        ok!(aclrtRecordNotify(notify, two.a));
        ok!(aclrtWaitAndResetNotify(notify, two.b, 0));
    });
}

#[test]
fn a_stream_that_gives_up_has_touched_nothing() {
    let two = Two::new();
    let x = two.memory();
    let gate = ascend_emulator_testing::common::Gate::new();
    gate.close(two.a);
    fill(x, two.a);
    // The gate opens on another thread, because the call waits for the host function.
    std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        gate.open();
    });
    ok!(aclrtStreamAbort(two.a));
    fill(x, two.b);
    ok!(aclrtSynchronizeStream(two.b));
    assert!(findings(&two.block).is_empty());
}

#[test]
fn an_execution_of_a_graph_races_like_what_it_holds() {
    let pieces =
        [WRITTEN, "1 write: fill", "2 read: copy of 4096 bytes, task", "aclrtMemcpyAsync", EVENT];
    race(&pieces, |two, repaired| {
        let (x, y) = (two.memory(), malloc());
        let mut graph = std::ptr::null_mut();
        ok!(aclmdlRICaptureBegin(two.a, aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
        copy(y, x, two.a);
        ok!(aclmdlRICaptureEnd(two.a, &mut graph));
        ok!(aclmdlRIExecuteAsync(graph, two.a));
        // A task after the execution, in the same stream, can read its output.
        copy(two.memory(), y, two.a);
        sync(two.a);
        fill(x, two.b);
        if repaired {
            order(two.b, two.a);
        }
        ok!(aclmdlRIExecuteAsync(graph, two.a));
        sync(two.a);
        ok!(aclmdlRIDestroy(graph));
    });
}

#[test]
fn the_branches_of_a_graph_are_ordered_by_its_events() {
    // Without the repair nothing orders the copy in one branch and the fill in the other.
    let pieces = [WRITTEN, "fill of 4096 bytes", UNORDERED];
    race(&pieces, |two, repaired| {
        let (x, y) = (two.memory(), two.memory());
        let (fork, join) = (event(), event());
        let mut graph = std::ptr::null_mut();
        ok!(aclmdlRICaptureBegin(two.a, aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
        ok!(aclrtRecordEvent(fork, two.a));
        ok!(aclrtStreamWaitEvent(two.b, fork));
        fill(x, two.b);
        if !repaired {
            copy(y, x, two.a);
        }
        ok!(aclrtRecordEvent(join, two.b));
        ok!(aclrtStreamWaitEvent(two.a, join));
        if repaired {
            copy(y, x, two.a);
        }
        ok!(aclmdlRICaptureEnd(two.a, &mut graph));
        for _ in 0..3 {
            ok!(aclmdlRIExecuteAsync(graph, two.a));
        }
        // When the execution is complete, so is the branch.
        fill(x, two.a);
        sync(two.a);
        ok!(aclmdlRIDestroy(graph));
    });
}

#[test]
fn two_pieces_of_mapped_memory_are_watched_as_one_access_reaches_them() {
    let mapped = |two: &Two| {
        let start = reserve(2 * UNIT);
        for place in [start, at(start, UNIT)] {
            ok!(aclrtMapMem(place, UNIT, 0, physical(two.block.first, UNIT), 0));
        }
        start
    };
    let pieces = ["race: bytes 0..2048 of allocation #2", "1 write: fill", "2 write: fill", EVENT];
    race(&pieces, |two, repaired| {
        let start = mapped(two);
        fill(at(start, UNIT - SIZE / 2), two.a);
        if repaired {
            order(two.a, two.b);
        }
        fill(at(start, UNIT), two.b);
    });
}
