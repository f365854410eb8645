//! Checked mode with ranks in several processes.

use std::ptr::null_mut;
use std::sync::OnceLock;
use std::time::Duration;

use ascend_emulator_testing::common::malloc;
use ascend_emulator_testing::operator::*;
use ascend_emulator_testing::ranks::Rank;
use ascend_emulator_testing::{hccl, issue, ok};
use ascend_sys::*;
use hccl::prelude::*;

use crate::channels::{Connected, joined_on};
use crate::ranks::{Place, run, starter};
use crate::{kernels, operators, random_programs};

/// Two processes, processes mixed with threads, and three processes.
const MIXES: [&[u32]; 3] = [&[1, 1], &[2, 1], &[1; 3]];
const BYTES: usize = 4096;

/// Returns the runtime of this process with devices in checked mode.
fn watched() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let build = || Runtime::emulator_builder().devices(8).checked(true).build().unwrap();
    RUNTIME.get_or_init(build)
}

/// Returns the same place on a device in checked mode.
fn on_watched(place: Place) -> Place {
    let device = watched().device(place.rank as usize).unwrap();
    place.on(device)
}

fn findings() -> Vec<String> {
    watched().findings().iter().map(ToString::to_string).collect()
}

fn is_clean() {
    assert_eq!(findings(), [""; 0]);
}

#[test]
fn safe_programs_have_no_finding() {
    for each in [&[1, 1, 1][..], &[2, 3]] {
        run("checked::safe_programs_have_no_finding", each, |place| {
            random_programs::rank(&on_watched(place));
            is_clean();
        });
    }
}

#[test]
fn kernels_and_operators_have_no_finding() {
    for each in MIXES {
        run("checked::kernels_and_operators_have_no_finding", each, |place| {
            let place = on_watched(place);
            let mut comm = place.communicator();
            kernels::exchange(&place, &mut comm, 16).unwrap();
            kernels::exchange(&place, &mut comm, 4096).unwrap();
            operators::all_of(&place);
            is_clean();
        });
    }
}

#[test]
fn kernels_with_windows_have_no_finding() {
    for each in MIXES {
        run("checked::kernels_with_windows_have_no_finding", each, |place| {
            let place = on_watched(place);
            kernels::pass_on(&place);
            kernels::look_at_all(&place);
            is_clean();
        });
    }
}

/// Lets the hosts meet in a call, so that each has issued all its work before the other one waits
/// for a stream.
fn hosts_meet(place: &Place) {
    joined_on(place, place.device.id());
}

/// Fills memory on one stream of rank 0 and copies it on another one. In between, each of the two
/// streams meets rank 1 in a communicator of its own. `ordered` means that rank 1 keeps its two
/// meetings in order.
fn fill_and_copy(place: Place, ordered: bool) -> Vec<String> {
    let place = on_watched(place);
    let device = place.device.id();
    let (first, second) = (joined_on(&place, device), joined_on(&place, device));
    let barrier = |rank: &Rank| hccl!(HcclBarrier(rank.comm, rank.stream));
    // The hosts meet in the first calls, but that orders nothing on the device.
    if place.rank == 0 {
        let (from, to) = (malloc(BYTES), malloc(BYTES));
        ok!(aclrtMemsetAsync(from, BYTES, 1, BYTES, first.stream));
        barrier(&first);
        barrier(&second);
        let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE;
        ok!(aclrtMemcpyAsync(to, BYTES, from, BYTES, kind, second.stream));
    } else {
        barrier(&first);
        if ordered {
            let mut event = null_mut();
            ok!(aclrtCreateEvent(&mut event));
            ok!(aclrtRecordEvent(event, first.stream));
            ok!(aclrtStreamWaitEvent(second.stream, event));
        }
        barrier(&second);
    }
    hosts_meet(&place);
    ok!(aclrtSynchronizeStream(first.stream));
    ok!(aclrtSynchronizeStream(second.stream));
    findings()
}

#[test]
fn an_order_that_another_process_keeps_is_one() {
    run("checked::an_order_that_another_process_keeps_is_one", &[1, 1], |place| {
        assert_eq!(fill_and_copy(place, true), [""; 0]);
    });
}

#[test]
fn meetings_that_another_process_does_not_order_order_nothing() {
    const NAME: &str = "checked::meetings_that_another_process_does_not_order_order_nothing";
    run(NAME, &[1, 1], |place| {
        let is_first = place.rank == 0;
        let found = fill_and_copy(place, false);
        assert_eq!(found.len(), usize::from(is_first), "{found:#?}");
        assert!(found.iter().all(|text| text.starts_with("race: ")), "{found:#?}");
    });
}

/// Lets rank 1 write memory of rank 0 over a channel, which rank 0 then copies. If `waits` is true,
/// rank 0 waits for a notify of rank 1 before the copy.
fn write_and_copy(place: &Place, waits: bool) {
    let rank = &joined_on(place, place.device.id());
    let Connected { channel, own, theirs } = Connected::with(rank, BYTES);
    let thread = stream_thread(rank, 1);
    if rank.rank == 1 {
        let from = upload(&[7; BYTES]);
        issue!(HcommWriteOnThread(thread, channel, theirs, from, BYTES as u64));
        if waits {
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, 0));
        }
    } else {
        let to = malloc(BYTES);
        if waits {
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, 60));
        }
        issue!(HcommLocalCopyOnThread(thread, to, own, BYTES as u64));
    }
    hosts_meet(place);
    meet(rank);
}

#[test]
fn a_write_of_another_process_is_ordered_by_its_notify() {
    run("checked::a_write_of_another_process_is_ordered_by_its_notify", &[1, 1], |place| {
        let place = on_watched(place);
        write_and_copy(&place, true);
        is_clean();
    });
}

/// Lets rank 1 wait for its write and then make a file for which rank 0 waits. No call orders the
/// two.
#[test]
fn what_hosts_tell_each_other_unseen_is_an_order() {
    run("checked::what_hosts_tell_each_other_unseen_is_an_order", &[1, 1], |place| {
        let place = on_watched(place);
        let rank = joined_on(&place, place.device.id());
        let Connected { channel, own, theirs } = Connected::with(&rank, BYTES);
        let file = std::env::temp_dir().join(format!("hccl-checked-{}", starter()));
        let thread = stream_thread(&rank, 1);
        if place.rank == 1 {
            let from = upload(&[7; BYTES]);
            issue!(HcommWriteOnThread(thread, channel, theirs, from, BYTES as u64));
            finish(&rank);
            std::fs::write(&file, "written").unwrap();
        } else {
            while !file.exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::fs::remove_file(&file).unwrap();
            let to = malloc(BYTES);
            issue!(HcommLocalCopyOnThread(thread, to, own, BYTES as u64));
        }
        meet(&rank);
        is_clean();
    });
}

#[test]
fn the_owner_finds_a_write_of_another_process_that_nothing_orders() {
    const NAME: &str = "checked::the_owner_finds_a_write_of_another_process_that_nothing_orders";
    run(NAME, &[1, 1], |place| {
        let place = on_watched(place);
        write_and_copy(&place, false);
        if place.rank == 1 {
            return is_clean();
        }
        let found = findings();
        let [text] = &found[..] else { panic!("{found:#?}") };
        for piece in ["race: ", "of process", "write: ", "read: ", "help: let the rank of"] {
            assert!(text.contains(piece), "{piece} is not in: {text}");
        }
    });
}

#[test]
fn a_rank_that_is_not_watched_leads_to_no_finding() {
    run("checked::a_rank_that_is_not_watched_leads_to_no_finding", &[1, 1], |place| {
        let is_watched = place.rank == 0;
        let place = if is_watched { on_watched(place) } else { place };
        write_and_copy(&place, true);
        is_clean();
    });
}
