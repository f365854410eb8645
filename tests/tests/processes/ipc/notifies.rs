use std::ptr::null_mut;

use ascend_emulator_testing::common::{Block, idle, malloc, read, stream, write};
use ascend_emulator_testing::{fails, ok};
use ascend_sys::*;

use super::pair::{Other, other};
use super::{KEY, c, exported, import, own_process, text};

pub fn notify() -> aclrtNotify {
    let mut notify = null_mut();
    ok!(aclrtCreateNotify(&mut notify, 0));
    notify
}

pub fn export(notify: aclrtNotify, flags: u64) -> String {
    let mut key = [1u8; KEY];
    ok!(aclrtNotifyGetExportKey(notify, key.as_mut_ptr().cast(), KEY, flags));
    text(&key)
}

pub fn imported(key: &str) -> aclrtNotify {
    let mut notify = null_mut();
    ok!(aclrtNotifyImportByKey(&mut notify, c(key).as_ptr(), 0));
    notify
}

pub const OPEN: u64 = ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION;

fn record(notify: aclrtNotify) {
    let stream = stream();
    ok!(aclrtRecordNotify(notify, stream));
    ok!(aclrtSynchronizeStream(stream));
    ok!(aclrtDestroyStream(stream));
}

#[test]
fn a_record_of_an_importer_releases_one_wait_and_what_was_written_before_it_is_seen() {
    let Some(mut other) = other(
        "ipc::notifies::a_record_of_an_importer_releases_one_wait_and_what_was_written_before_it_is_seen",
        |talk| {
            let (memory, notify) = (import(&talk.next()), imported(&talk.next()));
            let stream = stream();
            for round in 0..20 {
                assert_eq!(talk.next(), "go");
                ok!(aclrtMemsetAsync(memory, 4096, round, 4096, stream));
                ok!(aclrtRecordNotify(notify, stream));
            }
            ok!(aclrtSynchronizeStream(stream));
            assert_eq!(talk.next(), "twice");
            record(notify);
            record(notify);
            talk.say("recorded");
            assert_eq!(talk.next(), "once more");
            record(notify);
            talk.say("recorded");
            talk.next();
        },
    ) else {
        return;
    };
    let _block = Block::one();
    let (memory, key) = exported(&[255; 4096]);
    let (mine, stream) = (notify(), stream());
    other.say(&key);
    other.say(&export(mine, OPEN));
    let copy = malloc(4096);
    for round in 0..20 {
        // In some rounds the wait comes before the record, in others after it.
        if round % 2 == 0 {
            other.say("go");
        }
        ok!(aclrtWaitAndResetNotify(mine, stream, 0));
        ok!(aclrtMemcpyAsync(
            copy,
            4096,
            memory,
            4096,
            ascend_emulator_testing::common::D2D,
            stream
        ));
        if round % 2 == 1 {
            assert!(!idle(stream));
            other.say("go");
        }
        ok!(aclrtSynchronizeStream(stream));
        assert_eq!(read(copy, 4096), [round; 4096]);
    }
    // Two records without a wait between them, and one of this process, count as one record.
    assert_eq!(other.ask("twice"), "recorded");
    record(mine);
    ok!(aclrtWaitAndResetNotify(mine, stream, 0));
    ok!(aclrtSynchronizeStream(stream));
    ok!(aclrtWaitAndResetNotify(mine, stream, 1));
    let code = ascend_emulator_testing::call!(aclrtSynchronizeStream(stream));
    assert_ne!(code, 0, "a second wait was released");
    // A reset clears a record, whichever process made it.
    assert_eq!(other.ask("once more"), "recorded");
    let mut list = [mine];
    ok!(aclrtNotifyBatchReset(list.as_mut_ptr(), 1));
    ok!(aclrtWaitAndResetNotify(mine, stream, 1));
    assert_ne!(ascend_emulator_testing::call!(aclrtSynchronizeStream(stream)), 0);
    write(copy, &[0]);
    other.say("end");
    other.end();
}

#[test]
fn importers_only_record_and_only_permitted_processes_import() {
    let Some(mut other) =
        other("ipc::notifies::importers_only_record_and_only_permitted_processes_import", |talk| {
            talk.say(own_process());
            let key = talk.next();
            let mut notify = null_mut();
            let text = c(&key);
            fails!(
                ACL_ERROR_RT_IPC_ERROR,
                ["may not import it"],
                aclrtNotifyImportByKey(&mut notify, text.as_ptr(), 0)
            );
            talk.say("refused");
            assert_eq!(talk.next(), "permitted");
            fails!(107000, ["flags"], aclrtNotifyImportByKey(&mut notify, text.as_ptr(), 1));
            let notify = imported(&key);
            let stream = stream();
            let only = "can only be recorded here";
            fails!(207000, [only], aclrtWaitAndResetNotify(notify, stream, 0));
            let mut list = [notify];
            fails!(207000, [only], aclrtNotifyBatchReset(list.as_mut_ptr(), 1));
            let mut room = [0u8; KEY];
            let place = room.as_mut_ptr().cast();
            fails!(207000, [only], aclrtNotifyGetExportKey(notify, place, KEY, 0));
            fails!(207000, [only], aclrtNotifySetImportPid(notify, &mut 1, 1));
            talk.say("refused");
            assert_eq!(talk.next(), "destroyed");
            ok!(aclrtRecordNotify(notify, stream));
            let code = ascend_emulator_testing::call!(aclrtSynchronizeStream(stream));
            let said = ascend_emulator_testing::common::message();
            assert!(code != 0 && said.contains("has destroyed the notify"), "{code} {said}");
            ok!(aclrtDestroyNotify(notify));
            talk.say("failed");
            talk.next();
        })
    else {
        return;
    };
    let _block = Block::one();
    let mine = notify();
    let mut process: i32 = other.hear().parse().unwrap();
    fails!(107000, ["is not exported"], aclrtNotifySetImportPid(mine, &mut process, 1));
    let mut room = [0u8; KEY];
    let place = room.as_mut_ptr().cast();
    fails!(107000, ["65 bytes"], aclrtNotifyGetExportKey(mine, place, 64, 0));
    fails!(107000, ["flags"], aclrtNotifyGetExportKey(mine, place, KEY, 1));
    fails!(100000, ["key is NULL"], aclrtNotifyGetExportKey(mine, null_mut(), KEY, 0));
    let key = export(mine, 0);
    let mut again = null_mut();
    fails!(
        107000,
        ["in the process that has exported it"],
        aclrtNotifyImportByKey(&mut again, c(&key).as_ptr(), 0)
    );
    let mut servers = aclrtServerPid::default();
    fails!(207000, ["one server"], aclrtNotifySetImportPidInterServer(mine, &mut servers, 1));
    assert_eq!(other.ask(&key), "refused");
    ok!(aclrtNotifySetImportPid(mine, &mut process, 1));
    assert_eq!(other.ask("permitted"), "refused");
    ok!(aclrtDestroyNotify(mine));
    assert_eq!(other.ask("destroyed"), "failed");
    other.say("end");
    other.end();
}

#[test]
fn a_record_of_a_notify_whose_creator_was_killed_names_it() {
    let Some(mut other) =
        other("ipc::notifies::a_record_of_a_notify_whose_creator_was_killed_names_it", |talk| {
            talk.say(export(notify(), OPEN));
            talk.next();
        })
    else {
        return;
    };
    let _block = Block::one();
    let notify = imported(&other.hear());
    record(notify);
    let process = other.process();
    Other::kill(other);
    let stream = stream();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        ok!(aclrtRecordNotify(notify, stream));
        if ascend_emulator_testing::call!(aclrtSynchronizeStream(stream)) != 0 {
            break;
        }
        assert!(std::time::Instant::now() < until, "nobody hears of its end");
    }
    let said = ascend_emulator_testing::common::message();
    assert!(said.contains(&format!("process {process} has ended")), "{said}");
}
