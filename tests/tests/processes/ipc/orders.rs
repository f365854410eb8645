//! Checked mode with processes that share events and notifies.

use ascend_emulator_testing::common::{Block, D2D, malloc, stream};
use ascend_emulator_testing::ok;
use ascend_sys::*;

use super::pair::other;
use super::{OPEN, events, export, import, notifies};

#[test]
fn what_an_importer_orders_and_writes_is_no_finding() {
    const NAME: &str = "ipc::orders::what_an_importer_orders_and_writes_is_no_finding";
    let Some(mut other) = other(NAME, |talk| {
        let stream = stream();
        let (event, notify) = (events::open(&talk.next()), notifies::imported(&talk.next()));
        let shared = import(&talk.next());
        for _ in 0..2 {
            assert_eq!(talk.next(), "recorded");
            ok!(aclrtStreamWaitEvent(stream, event));
            ok!(aclrtMemsetAsync(shared, 4096, 1, 4096, stream));
            ok!(aclrtRecordNotify(notify, stream));
            talk.say("passed on");
        }
        ok!(aclrtSynchronizeStream(stream));
    }) else {
        return;
    };
    let config =
        AscendExtBlockConfig { check: AscendExtCheck::ASCEND_EXT_CHECK_RACES.0, ..Block::config() };
    let block = Block::one_with(config);
    let (event, notify) = (events::event_with(ACL_EVENT_IPC), notifies::notify());
    other.say(&events::export(event));
    other.say(&notifies::export(notify, notifies::OPEN));
    let (from, to, shared) = (malloc(4096), malloc(4096), malloc(4096));
    other.say(&export(shared, 4096, OPEN));
    let (fills, copies) = (stream(), stream());
    for round in 0..2 {
        ok!(aclrtMemsetAsync(from, 4096, 1, 4096, fills));
        ok!(aclrtRecordEvent(event, fills));
        assert_eq!(other.ask("recorded"), "passed on");
        ok!(aclrtWaitAndResetNotify(notify, copies, 0));
        ok!(aclrtMemcpyAsync(to, 4096, from, 4096, D2D, copies));
        // No thread of this process has written this memory.
        ok!(aclrtMemcpyAsync(to, 4096, shared, 4096, D2D, copies));
        let mut found = 0;
        ok!(ascendExtFindings(block.number, &mut found));
        assert_eq!(found, 0, "round {round}");
        ok!(aclrtSynchronizeStream(copies));
    }
    other.end();
}
