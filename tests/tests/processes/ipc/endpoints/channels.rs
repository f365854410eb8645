//! Ends of channels, which meet between two processes.

use super::*;

#[test]
fn the_kth_end_of_one_process_goes_with_the_kth_of_the_other() {
    const NAME: &str =
        "ipc::endpoints::channels::the_kth_end_of_one_process_goes_with_the_kth_of_the_other";
    both(NAME, |side| {
        let thread = thread();
        // `first` is the process that makes its ends first.
        for first in [0, 1] {
            let create = |side: &Side<'_>| [1, 2, 3].map(|count| side.create(side.desc(count)));
            let mut ends = [0; 3];
            if side.me == first {
                ends = create(side);
                assert!(ends.iter().all(|end| status(*end) == AGAIN));
                assert_eq!(common::message(), "");
                let said = "other end";
                let end = ends[0];
                not_issued!(
                    HCCL_E_REMOTE,
                    [said],
                    HcommChannelNotifyRecordOnThread(thread, end, 0)
                );
            }
            side.carry.meet();
            if side.me != first {
                ends = create(side);
            }
            assert_eq!(
                ends.map(|end| until_other_than(AGAIN, end)),
                [0; 3],
                "{}",
                common::message()
            );
            for (last, end) in (0..).zip(ends) {
                issue!(HcommChannelNotifyRecordOnThread(thread, end, last));
                issue!(HcommChannelNotifyWaitOnThread(thread, end, last, LONG));
                assert_ne!(call!(HcommChannelNotifyRecordOnThread(thread, end, last + 1)), 0);
            }
            finish();
            side.carry.meet();
        }
    });
}

/// Checks that a wait that is queued before the other process has made its end is not a deadlock.
#[test]
fn a_wait_may_be_queued_before_the_other_end_is_there() {
    const NAME: &str =
        "ipc::endpoints::channels::a_wait_may_be_queued_before_the_other_end_is_there";
    both(NAME, |side| {
        for early in [0, 1] {
            let thread = thread();
            if side.me == early {
                let channel = side.create(side.desc(1));
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
                side.carry.meet();
                finish();
                assert_eq!(status(channel), 0);
            } else {
                side.carry.meet();
                // This is long enough for the report of a deadlock.
                std::thread::sleep(Duration::from_millis(600));
                let channel = side.connected(1);
                issue!(HcommChannelNotifyRecordOnThread(thread, channel, 0));
                finish();
            }
            side.carry.meet();
        }
    });
}

#[test]
fn ends_that_differ_are_told_both_sides_in_both_processes() {
    const CLIENT: HcommSocketRole = HcommSocketRole::HCOMM_SOCKET_ROLE_CLIENT;
    const SERVER: HcommSocketRole = HcommSocketRole::HCOMM_SOCKET_ROLE_SERVER;
    const NAME: &str =
        "ipc::endpoints::channels::ends_that_differ_are_told_both_sides_in_both_processes";
    both(NAME, |side| {
        let me = u32::from(side.me);
        let channel = side.create(side.desc(2 + me));
        let same = side.create(HcommChannelDesc { role: CLIENT, ..side.desc(1) });
        let role = if me == 0 { CLIENT } else { SERVER };
        let right = side.create(HcommChannelDesc { role, ..side.desc(1) });
        assert_eq!(until_other_than(AGAIN, channel), PARA);
        let text = common::message();
        for piece in ["EI0005", "notifyNum", ": 2", ": 3", "of process"] {
            assert!(text.contains(piece), "{piece:?} is not in: {text}");
        }
        assert_eq!(until_other_than(AGAIN, same), PARA);
        assert!(common::message().contains("one client and one server"));
        assert_eq!(until_other_than(AGAIN, right), 0, "{}", common::message());
        side.carry.meet();
    });
}

#[test]
fn a_wait_ends_when_the_other_process_destroys_its_end() {
    const NAME: &str =
        "ipc::endpoints::channels::a_wait_ends_when_the_other_process_destroys_its_end";
    both(NAME, |side| {
        for destroys in [0, 1] {
            let channel = side.connected(1);
            if side.me == destroys {
                side.carry.meet();
                issue!(HcommChannelDestroy(&channel, 1));
                let mut one = 0;
                let said = "is not a channel of HcommChannelCreate";
                not_issued!(HCCL_E_NOT_FOUND, [said], HcommChannelGetStatus(&channel, 1, &mut one));
            } else {
                let thread = thread();
                issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
                side.carry.meet();
                let _ = common::message();
                assert_ne!(call!(aclrtSynchronizeDevice()), 0);
                let text = common::message();
                assert!(text.contains("has destroyed its end"), "{text}");
                assert_eq!(until_other_than(0, channel), REMOTE);
                issue!(HcommChannelDestroy(&channel, 1));
            }
            side.carry.meet();
        }
    });
}

#[test]
fn a_wait_that_nobody_ends_fails_the_connection_in_both_processes() {
    const NAME: &str =
        "ipc::endpoints::channels::a_wait_that_nobody_ends_fails_the_connection_in_both_processes";
    both(NAME, |side| {
        for waits in [0, 1] {
            let channel = side.connected(1);
            if side.me == waits {
                issue!(HcommChannelNotifyWaitOnThread(thread(), channel, 0, 1));
                let _ = common::message();
                assert_ne!(call!(aclrtSynchronizeDevice()), 0);
                let text = common::message();
                assert!(text.contains("EI0002") && text.contains("notify 0"), "{text}");
            }
            assert_eq!(until_other_than(0, channel), TIMEOUT);
            side.carry.meet();
        }
    });
}

#[test]
fn wrong_descriptions_of_other_processes_are_refused() {
    const NAME: &str =
        "ipc::endpoints::channels::wrong_descriptions_of_other_processes_are_refused";
    both(NAME, |side| {
        let mut handle = null_mut();
        let said = "of process";
        not_issued!(HCCL_E_PARA, [said], HcommEndpointCreate(&side.other, &mut handle));
        let mut damaged = of_hex(&hex(&side.other));
        // SAFETY: the union has bytes, for which any bits are valid.
        unsafe { damaged.anon_1.raws[13] ^= 1 };
        let mut same_card = side.other;
        same_card.loc.anon_1.device.superDevId = side.me.into();
        let mut other_protocol = side.other;
        other_protocol.protocol = ROCE;
        for (wrong, piece) in [
            (damaged, "damaged on its way"),
            (same_card, "another device"),
            (other_protocol, "has the protocol 1"),
        ] {
            let mut desc = HcommChannelDesc { remoteEndpoint: wrong, ..side.desc(1) };
            let mut channel = 0;
            not_issued!(
                HCCL_E_PARA,
                [piece],
                HcommChannelCreate(side.endpoint, CPU, &mut desc, 1, &mut channel)
            );
        }
        side.carry.meet();
    });
}

/// Kills a process to which one end is connected and for which another end waits. Its memory was
/// imported before it died, and another import comes too late.
#[test]
fn a_process_that_is_killed_is_named() {
    const NAME: &str = "ipc::endpoints::channels::a_process_that_is_killed_is_named";
    let sleeps = |talk: &mut Talk| {
        let block = Block::with(block(3, 2));
        ok!(aclrtSetDevice(block.first + 1));
        let own = description(block.first + 1, HCCS);
        let mut endpoint = null_mut();
        issue!(HcommEndpointCreate(&own, &mut endpoint));
        let other = of_hex(&talk.swap(&hex(&own)));
        let side = Side { me: 1, endpoint, other, carry: talk };
        let memory = upload(&[3; 4096]);
        let export = side.export(side.register("window", &on_device(memory, 4096)));
        let channel = side.connected(1);
        side.carry.swap(&export);
        side.carry.meet();
        let _ = channel;
        std::thread::sleep(Duration::from_secs(60));
    };
    let Some(mut killed) = other(NAME, sleeps) else { return };
    let process = killed.process();
    let block = Block::with(block(3, 2));
    ok!(aclrtSetDevice(block.first));
    let own = description(block.first, HCCS);
    let mut endpoint = null_mut();
    issue!(HcommEndpointCreate(&own, &mut endpoint));
    let other = of_hex(&killed.swap(&hex(&own)));
    let side = Side { me: 0, endpoint, other, carry: &mut Nobody };
    let channel = side.connected(1);
    let export = killed.swap("export");
    let there = side.import(&export);
    let waits = side.create(side.desc(1));
    issue!(HcommChannelNotifyWaitOnThread(thread(), channel, 0, LONG));
    // A wait at an end without a counterpart waits for the process, too.
    issue!(HcommChannelNotifyWaitOnThread(thread(), waits, 0, LONG));
    killed.meet();
    killed.kill();
    let _ = common::message();
    assert_ne!(call!(aclrtSynchronizeDevice()), 0);
    let text = common::message();
    let said = format!("process {process} has ended");
    assert!(text.contains(&said), "{text}");
    assert_eq!(until_other_than(0, channel), REMOTE);
    assert_eq!(until_other_than(AGAIN, waits), REMOTE);
    assert!(common::message().contains(&said));
    // The memory of the killed process stays mapped while it is imported here, but no process can
    // import it any more.
    let output = common::malloc(4096);
    ok!(aclrtMemcpy(output, 4096, there.addr, 4096, common::D2D));
    assert_eq!(common::read(output, 4096), [3; 4096]);
    let (from, length) = (export.as_ptr().cast(), export.len() as u32);
    issue!(HcommMemUnimport(endpoint, from, length));
    let (code, text) = side.import_fails(&export);
    assert_eq!(code, REMOTE, "{text}");
    assert!(text.contains(&said), "{text}");
    let mut late = 0;
    let mut desc = side.desc(1);
    not_issued!(
        HCCL_E_REMOTE,
        [&*said],
        HcommChannelCreate(endpoint, CPU, &mut desc, 1, &mut late)
    );
}

/// Waits at an end whose counterpart is never made, although the other process has its endpoint.
#[test]
fn an_end_that_finds_no_counterpart_in_the_other_process_fails_after_the_connect_timeout() {
    const NAME: &str = "ipc::endpoints::channels::an_end_that_finds_no_counterpart_in_the_other_process_fails_after_the_connect_timeout";
    both(NAME, |side| {
        for waits in [0, 1] {
            if side.me == waits {
                let own = Block::with(AscendExtBlockConfig { connectTimeoutMs: 50, ..block(3, 2) });
                let device = own.first + i32::from(side.me);
                ok!(aclrtSetDevice(device));
                let mut endpoint = null_mut();
                issue!(HcommEndpointCreate(&description(device, HCCS), &mut endpoint));
                let (mut desc, mut channel) = (side.desc(1), 0);
                issue!(HcommChannelCreate(endpoint, CPU, &mut desc, 1, &mut channel));
                assert_eq!(until_other_than(AGAIN, channel), TIMEOUT);
                assert!(common::message().contains("EI0006"));
            }
            side.carry.meet();
        }
    });
}

/// A carrier for a test that exchanges nothing more.
struct Nobody;

impl Carry for Nobody {
    fn swap(&mut self, _: &str) -> String {
        panic!("nobody is there")
    }
}
