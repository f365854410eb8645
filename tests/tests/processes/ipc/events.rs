use std::ptr::null_mut;
use std::time::{Duration, Instant};

use ascend_emulator_testing::captures::{GLOBAL, end};
use ascend_emulator_testing::common::{Block, D2D, Gate, idle, malloc, message, read, stream};
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;

use super::pair::{again, other};
use super::{exported, import};

pub fn event_with(flags: u32) -> aclrtEvent {
    let mut event = null_mut();
    ok!(aclrtCreateEventExWithFlag(&mut event, flags));
    event
}

pub fn export(event: aclrtEvent) -> String {
    let mut handle = aclrtIpcEventHandle::default();
    ok!(aclrtIpcGetEventHandle(event, &mut handle));
    handle.reserved.iter().map(|byte| *byte as u8 as char).collect()
}

fn handle_of(text: &str) -> aclrtIpcEventHandle {
    let mut handle = aclrtIpcEventHandle::default();
    for (place, byte) in handle.reserved.iter_mut().zip(text.bytes()) {
        *place = byte as _;
    }
    handle
}

pub fn open(text: &str) -> aclrtEvent {
    let mut event = null_mut();
    ok!(aclrtIpcOpenEventHandle(handle_of(text), &mut event));
    event
}

fn hold(stream: aclrtStream) -> &'static Gate {
    let gate = Gate::new();
    gate.close(stream);
    gate
}

#[test]
fn a_stream_of_an_importer_waits_for_the_latest_record_and_sees_what_was_written_before() {
    let Some(mut other) = other(
        "ipc::events::a_stream_of_an_importer_waits_for_the_latest_record_and_sees_what_was_written_before",
        |talk| {
            let (memory, event) = (import(&talk.next()), open(&talk.next()));
            let (stream, copy) = (stream(), malloc(4096));
            // Before the first record the event is complete.
            ok!(aclrtStreamWaitEvent(stream, event));
            ok!(aclrtSynchronizeStream(stream));
            talk.say("passed");
            for round in 0..20 {
                assert_eq!(talk.next(), "recorded");
                ok!(aclrtStreamWaitEvent(stream, event));
                ok!(aclrtMemcpyAsync(copy, 4096, memory, 4096, D2D, stream));
                assert!(!idle(stream), "round {round} did not wait");
                fails!(507047, ["not complete"], aclrtSynchronizeEventWithTimeout(event, 10));
                talk.say("waits");
                ok!(aclrtSynchronizeEvent(event));
                ok!(aclrtSynchronizeStream(stream));
                assert_eq!(read(copy, 4096), [round; 4096]);
                // A record of this process goes back to the other one.
                ok!(aclrtRecordEvent(event, stream));
                talk.say("back");
            }
            talk.next();
        },
    ) else {
        return;
    };
    let _block = Block::one();
    let (memory, key) = exported(&[255; 4096]);
    let event = event_with(ACL_EVENT_IPC);
    other.say(&key);
    assert_eq!(other.ask(&export(event)), "passed");
    let (stream, waits) = (stream(), stream());
    for round in 0..20 {
        let gate = hold(stream);
        ok!(aclrtMemsetAsync(memory, 4096, round, 4096, stream));
        ok!(aclrtRecordEvent(event, stream));
        assert_eq!(other.ask("recorded"), "waits");
        gate.open();
        assert_eq!(other.hear(), "back");
        ok!(aclrtStreamWaitEvent(waits, event));
        ok!(aclrtSynchronizeStream(waits));
    }
    other.say("end");
    other.end();
}

#[test]
fn importers_of_one_event_wake_one_another() {
    const NAME: &str = "ipc::events::importers_of_one_event_wake_one_another";
    let Some(mut first) = other(NAME, |talk| {
        let event = open(&talk.next());
        let stream = stream();
        match &*talk.next() {
            "record" => {
                let gate = hold(stream);
                ok!(aclrtRecordEvent(event, stream));
                talk.say("recorded");
                talk.next();
                gate.open();
                ok!(aclrtSynchronizeStream(stream));
            }
            _ => {
                ok!(aclrtStreamWaitEvent(stream, event));
                assert!(!idle(stream));
                talk.say("waits");
                ok!(aclrtSynchronizeStream(stream));
            }
        }
        talk.say("done");
        talk.next();
    }) else {
        return;
    };
    let _block = Block::one();
    let mut second = again(NAME);
    let key = export(event_with(ACL_EVENT_IPC));
    first.say(&key);
    second.say(&key);
    assert_eq!(first.ask("record"), "recorded");
    assert_eq!(second.ask("wait"), "waits");
    assert_eq!(first.ask("open"), "done");
    assert_eq!(second.hear(), "done");
    for mut one in [first, second] {
        one.say("end");
        one.end();
    }
}

#[test]
fn a_wait_for_a_record_of_a_process_that_was_killed_names_it() {
    const NAME: &str = "ipc::events::a_wait_for_a_record_of_a_process_that_was_killed_names_it";
    let Some(mut importer) = other(NAME, |talk| {
        let words = talk.next();
        let event = if words == "create" { event_with(ACL_EVENT_IPC) } else { open(&words) };
        let stream = stream();
        let _gate = hold(stream);
        ok!(aclrtRecordEvent(event, stream));
        talk.say(if words == "create" { export(event) } else { "recorded".into() });
        talk.next();
    }) else {
        return;
    };
    let _block = Block::one();
    let event = event_with(ACL_EVENT_IPC);
    let mut creator = again(NAME);
    assert_eq!(importer.ask(&export(event)), "recorded");
    let theirs = open(&creator.ask("create"));
    for (process, event) in [(importer, event), (creator, theirs)] {
        let stream = stream();
        ok!(aclrtStreamWaitEvent(stream, event));
        assert!(!idle(stream));
        let number = process.process();
        process.kill();
        let began = Instant::now();
        assert_ne!(call!(aclrtSynchronizeStream(stream)), 0);
        let said = message();
        assert!(said.contains(&format!("process {number} has ended")), "{said}");
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    fails!(ACL_ERROR_RT_IPC_ERROR, ["created the event"], aclrtRecordEvent(theirs, stream()));
    // The event of this process can be recorded again.
    let stream = stream();
    ok!(aclrtRecordEvent(event, stream));
    ok!(aclrtSynchronizeEvent(event));
}

#[test]
fn what_an_event_of_several_processes_cannot_do_is_said() {
    let Some(mut other) =
        other("ipc::events::what_an_event_of_several_processes_cannot_do_is_said", |talk| {
            let text = talk.next();
            let mut event = null_mut();
            let mut broken = handle_of(&text);
            broken.reserved[30] ^= 1;
            fails!(107000, ["damaged"], aclrtIpcOpenEventHandle(broken, &mut event));
            let empty = aclrtIpcEventHandle::default();
            fails!(107000, ["not a key of an event"], aclrtIpcOpenEventHandle(empty, &mut event));
            let event = open(&text);
            let mut handle = aclrtIpcEventHandle::default();
            fails!(207000, ["only that process"], aclrtIpcGetEventHandle(event, &mut handle));
            talk.say("open");
            assert_eq!(talk.next(), "destroyed");
            fails!(
                ACL_ERROR_RT_IPC_ERROR,
                ["has destroyed the event"],
                aclrtRecordEvent(event, stream())
            );
            let mut late = null_mut();
            fails!(
                ACL_ERROR_RT_IPC_ERROR,
                ["an event is not exported by this key any more"],
                aclrtIpcOpenEventHandle(handle_of(&text), &mut late)
            );
            talk.say("refused");
            talk.next();
        })
    else {
        return;
    };
    let _block = Block::one();
    let mut event = null_mut();
    fails!(107000, ["flag is 0x40"], aclrtCreateEventWithFlag(&mut event, ACL_EVENT_IPC));
    let mut handle = aclrtIpcEventHandle::default();
    let plain = event_with(ACL_EVENT_SYNC);
    fails!(107000, ["without ACL_EVENT_IPC"], aclrtIpcGetEventHandle(plain, &mut handle));
    let event = event_with(ACL_EVENT_IPC | ACL_EVENT_TIME_LINE);
    let stream = stream();
    ok!(aclrtRecordEvent(event, stream));
    ok!(aclrtSynchronizeEvent(event));
    let mut status = aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY;
    fails!(207000, ["queried"], aclrtQueryEventStatus(event, &mut status));
    fails!(207000, ["reset"], aclrtResetEvent(event, stream));
    fails!(207000, ["timed"], aclrtEventElapsedTime(&mut 0.0, event, event));
    ok!(aclmdlRICaptureBegin(stream, GLOBAL));
    fails!(207000, ["capture"], aclrtRecordEvent(event, stream));
    fails!(207000, ["capture"], aclrtStreamWaitEvent(stream, event));
    ok!(aclmdlRIDestroy(end(stream)));
    let text = export(event);
    assert_eq!(text, export(event), "one event has one handle");
    let mut again = null_mut();
    fails!(
        107000,
        ["in the process that has exported it"],
        aclrtIpcOpenEventHandle(handle_of(&text), &mut again)
    );
    // As many records as the event has places can be in flight.
    let gate = hold(stream);
    for _ in 0..64 {
        ok!(aclrtRecordEvent(event, stream));
    }
    fails!(207007, ["64 records"], aclrtRecordEvent(event, stream));
    gate.open();
    ok!(aclrtSynchronizeStream(stream));
    ok!(aclrtRecordEvent(event, stream));
    assert_eq!(other.ask(&text), "open");
    ok!(aclrtDestroyEvent(event));
    assert_eq!(other.ask("destroyed"), "refused");
    other.say("end");
    other.end();
}
