//! Tests of channels between endpoints. Such a channel is made without a communicator, and it is
//! connected when both sides have made their ends.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::operator::*;
use ascend_emulator_testing::ranks::{Rank, on_block};
use ascend_emulator_testing::{call, hccl, issue, not_issued, ok};
use ascend_sys::*;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use std::time::Duration;

const AGAIN: i32 = HcclResult::HCCL_E_AGAIN.0 as i32;
const PARA: i32 = HcclResult::HCCL_E_PARA.0 as i32;
const TIMEOUT: i32 = HcclResult::HCCL_E_TIMEOUT.0 as i32;
const REMOTE: i32 = HcclResult::HCCL_E_REMOTE.0 as i32;

/// Returns the endpoint description of a device for a protocol.
fn description(device: i32, protocol: CommProtocol) -> EndpointDesc {
    let mut count = 0;
    issue!(HcommEndpointGetDescNum(device, &mut count));
    let mut all = vec![EndpointDesc::default(); count as usize];
    issue!(HcommEndpointGetDescs(device, &mut count, all.as_mut_ptr()));
    all.into_iter().find(|one| one.protocol == protocol).unwrap()
}

/// The open endpoint of a rank, and the endpoint description of the other rank.
struct Side {
    endpoint: EndpointHandle,
    other: EndpointDesc,
}

impl Side {
    fn new(rank: &Rank, product: u32) -> Side {
        let protocol = protocol_of(product);
        let own = description(rank.device, protocol);
        let first = rank.device - rank.rank as i32;
        let other = description(first + 1 - rank.rank as i32, protocol);
        let mut endpoint = null_mut();
        issue!(HcommEndpointCreate(&own, &mut endpoint));
        Side { endpoint, other }
    }

    fn desc(&self, notifies: u32) -> HcommChannelDesc {
        let mut desc = HcommChannelDesc::unset();
        desc.remoteEndpoint = self.other;
        desc.notifyNum = notifies;
        desc
    }

    fn create(&self, mut desc: HcommChannelDesc) -> ChannelHandle {
        let mut channel = 0;
        issue!(HcommChannelCreate(self.endpoint, CPU, &mut desc, 1, &mut channel));
        assert_ne!(channel, 0);
        channel
    }

    fn connected(&self, desc: HcommChannelDesc) -> ChannelHandle {
        let channel = self.create(desc);
        loop {
            match status(channel) {
                0 => return channel,
                AGAIN => std::thread::sleep(Duration::from_millis(1)),
                other => panic!("status {other}: {}", common::message()),
            }
        }
    }

    fn register(&self, tag: &str, addr: *mut c_void, size: u64) -> HcommMemHandle {
        let memory = CommMem { type_: CommMemType::COMM_MEM_TYPE_DEVICE, addr, size };
        let (tag, mut handle) = (CString::new(tag).unwrap(), null_mut());
        issue!(HcommMemReg(self.endpoint, tag.as_ptr(), &memory, &mut handle));
        handle
    }

    fn export(&self, memory: HcommMemHandle) -> Vec<u8> {
        let (mut bytes, mut length) = (null_mut(), 0);
        issue!(HcommMemExport(self.endpoint, memory, &mut bytes, &mut length));
        // SAFETY: the library has returned the start and the number of the bytes.
        unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize) }.to_vec()
    }

    fn import(&self, export: &[u8]) -> CommMem {
        let mut found = CommMem::default();
        let (from, length) = (export.as_ptr().cast(), export.len() as u32);
        issue!(HcommMemImport(self.endpoint, from, length, &mut found));
        found
    }
}

fn status(channel: ChannelHandle) -> i32 {
    let mut status = -1;
    issue!(HcommChannelGetStatus(&channel, 1, &mut status));
    status
}

/// An exchange of data between the two sides without a channel: each side stores a value for the
/// other side.
struct Carrier<T = ()>(Barrier, [std::sync::Mutex<Option<T>>; 2]);

impl<T> Carrier<T> {
    fn new() -> Self {
        Carrier(Barrier::new(2), Default::default())
    }

    fn swap(&self, rank: u32, mine: T) -> T {
        *self.1[rank as usize].lock().unwrap() = Some(mine);
        self.0.wait();
        let theirs = self.1[1 - rank as usize].lock().unwrap().take().unwrap();
        self.0.wait();
        theirs
    }

    fn meet(&self) {
        self.0.wait();
    }
}

#[test]
fn imported_memory_is_written_and_read_over_a_channel_without_a_communicator() {
    for product in PRODUCTS {
        let carrier = Carrier::new();
        on_product(product, 2, |rank| {
            let side = Side::new(rank, product);
            let window = upload(&[0; 4096]);
            let own = side.export(side.register("window", window, 4096));
            let channel = side.connected(side.desc(2));
            let theirs = side.import(&carrier.swap(rank.rank, own));
            let thread = threads(rank, CPU_TS, 1, 0)[0];
            let input = upload(&[rank.rank as u8 + 1; 64]);
            let output = upload(&[0; 128]);
            issue!(HcommWriteOnThread(thread, channel, at(theirs.addr, 100), input, 64));
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, 1));
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, 1, LONG));
            issue!(HcommLocalCopyOnThread(thread, output, at(window, 100), 64));
            // The thread reads back the data that it wrote.
            issue!(HcommReadOnThread(thread, channel, at(output, 64), at(theirs.addr, 100), 64));
            finish(rank);
            let (mine, other) = (rank.rank as u8 + 1, 2 - rank.rank as u8);
            assert_eq!(common::read(output, 128), [[other; 64], [mine; 64]].concat());
            carrier.meet();
        });
    }
}

#[test]
fn memory_that_a_channel_exchanges_is_reached_without_an_import() {
    let carrier = Carrier::new();
    on_product(3, 2, |rank| {
        let side = Side::new(rank, 3);
        let (shared, kept) = (upload(&[0; 64]), upload(&[0; 64]));
        let mut handles = [side.register("shared", shared, 64)];
        side.register("kept", kept, 64);
        let mut desc = side.desc(1);
        (desc.memHandles, desc.memHandleNum) = (handles.as_mut_ptr(), 1);
        let some = side.connected(desc);
        let all = side.connected(HcommChannelDesc { exchangeAllMems: true, ..side.desc(1) });
        let none = side.connected(side.desc(1));
        let (there, hidden) = carrier.swap(rank.rank, (shared as usize, kept as usize));
        let (there, hidden) = (there as *mut c_void, hidden as *mut c_void);
        let (thread, from) = (threads(rank, CPU_TS, 1, 0)[0], upload(&[9; 64]));
        issue!(HcommWriteOnThread(thread, some, there, from, 64));
        issue!(HcommWriteOnThread(thread, all, hidden, from, 64));
        let said = "has exchanged";
        not_issued!(HCCL_E_PARA, [said], HcommWriteOnThread(thread, some, hidden, from, 64));
        not_issued!(HCCL_E_PARA, [said], HcommWriteOnThread(thread, none, there, from, 64));
        not_issued!(HCCL_E_PARA, [said], HcommWriteOnThread(thread, some, there, from, 65));
        finish(rank);
        carrier.meet();
        assert_eq!(common::read(shared, 64), [9; 64]);
        assert_eq!(common::read(kept, 64), [9; 64]);
        carrier.meet();
    });
}

#[test]
fn memory_that_was_taken_back_is_out_of_reach() {
    let carrier = Carrier::new();
    on_product(2, 2, |rank| {
        let side = Side::new(rank, 2);
        let (first, second) = (upload(&[0; 64]), upload(&[0; 64]));
        let (a, b) = (side.register("first", first, 64), side.register("second", second, 64));
        let exports = (side.export(a), side.export(b));
        let theirs = carrier.swap(rank.rank, exports);
        let before = side.import(&theirs.0);
        let channel = side.connected(side.desc(1));
        let after = side.import(&theirs.1);
        let (thread, from) = (threads(rank, CPU_TS, 1, 0)[0], upload(&[9; 64]));
        let write = |to: &CommMem| call!(HcommWriteOnThread(thread, channel, to.addr, from, 64));
        // One memory was imported before the channel was made, and the other after it.
        assert_eq!((write(&before), write(&after)), (0, 0));
        finish(rank);
        let (export, length) = (theirs.0.as_ptr().cast(), theirs.0.len() as u32);
        issue!(HcommMemUnimport(side.endpoint, export, length));
        assert_eq!((write(&before), write(&after)), (PARA, 0));
        finish(rank);
        carrier.meet();
        issue!(HcommMemUnreg(side.endpoint, b));
        carrier.meet();
        assert_eq!(write(&after), PARA);
        carrier.meet();
    });
}

#[test]
fn an_end_waits_for_its_counterpart_and_the_kth_goes_with_the_kth() {
    let carrier = <Carrier>::new();
    on_product(3, 2, |rank| {
        let side = Side::new(rank, 3);
        let mut ends = [0; 3];
        if rank.rank == 0 {
            ends = std::array::from_fn(|at| side.create(side.desc(at as u32 + 1)));
            assert!(ends.iter().all(|end| status(*end) == AGAIN));
            assert_eq!(common::message(), "");
            let thread = threads(rank, CPU_TS, 1, 0)[0];
            let said = "other end";
            not_issued!(
                HCCL_E_REMOTE,
                [said],
                HcommChannelNotifyRecordOnThread(thread, ends[0], 0)
            );
        }
        carrier.meet();
        if rank.rank == 1 {
            let mut descs: [_; 3] = std::array::from_fn(|at| side.desc(at as u32 + 1));
            let endpoint = side.endpoint;
            issue!(HcommChannelCreate(endpoint, CPU, descs.as_mut_ptr(), 3, ends.as_mut_ptr()));
        }
        carrier.meet();
        assert_eq!(ends.map(status), [0; 3]);
        // Each end has as many notifies as its counterpart.
        let thread = threads(rank, CPU_TS, 1, 0)[0];
        for (last, end) in ends.into_iter().enumerate() {
            let last = last as u32;
            issue!(HcommChannelNotifyRecordOnThread(thread, end, last));
            issue!(HcommChannelNotifyWaitOnThread(thread, end, last, LONG));
            assert_ne!(call!(HcommChannelNotifyRecordOnThread(thread, end, last + 1)), 0);
        }
        finish(rank);
        carrier.meet();
    });
}

#[test]
fn ends_that_differ_are_told_both_sides() {
    const CLIENT: HcommSocketRole = HcommSocketRole::HCOMM_SOCKET_ROLE_CLIENT;
    const SERVER: HcommSocketRole = HcommSocketRole::HCOMM_SOCKET_ROLE_SERVER;
    let carrier = <Carrier>::new();
    on_product(3, 2, |rank| {
        let (side, me) = (Side::new(rank, 3), rank.rank);
        let channel = side.create(side.desc(2 + me));
        let same = side.create(HcommChannelDesc { role: CLIENT, ..side.desc(1) });
        let role = if me == 0 { CLIENT } else { SERVER };
        let right = side.create(HcommChannelDesc { role, ..side.desc(1) });
        carrier.meet();
        let _ = common::message();
        assert_eq!(status(channel), PARA);
        let text = common::message();
        for piece in ["EI0005", "notifyNum", ": 2", ": 3"] {
            assert!(text.contains(piece), "{piece:?} is not in: {text}");
        }
        assert_eq!(status(same), PARA);
        assert!(common::message().contains("one client and one server"));
        assert_eq!(status(right), 0);
        carrier.meet();
    });
}

#[test]
fn an_end_without_counterpart_fails_after_the_connect_timeout() {
    on_block(AscendExtBlockConfig { connectTimeoutMs: 50, ..block(3, 2) }, |rank| {
        if rank.rank == 1 {
            return;
        }
        let side = Side::new(rank, 3);
        let channel = side.create(side.desc(1));
        let mut now = status(channel);
        while now == AGAIN {
            std::thread::sleep(Duration::from_millis(5));
            now = status(channel);
        }
        assert_eq!(now, TIMEOUT);
        assert!(common::message().contains("EI0006"));
    });
}

#[test]
fn a_wait_ends_when_the_peer_destroys_its_end() {
    let carrier = <Carrier>::new();
    on_product(3, 2, |rank| {
        let side = Side::new(rank, 3);
        let channel = side.connected(side.desc(1));
        carrier.meet();
        if rank.rank == 0 {
            let mut thread = 0;
            let (comm, stream) = (rank.comm, rank.stream);
            hccl!(HcclThreadAcquireWithStream(comm, CPU_TS, stream, 0, &mut thread));
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
            carrier.meet();
            let (code, text) = rank.sync_fails();
            assert_ne!(code, 0);
            assert!(text.contains("has destroyed its end"), "{text}");
            assert_eq!(status(channel), REMOTE);
            issue!(HcommChannelDestroy(&channel, 1));
        } else {
            carrier.meet();
            issue!(HcommChannelDestroy(&channel, 1));
            let mut one = 0;
            let said = "is not a channel of HcommChannelCreate";
            not_issued!(HCCL_E_NOT_FOUND, [said], HcommChannelDestroy(&channel, 1));
            not_issued!(HCCL_E_NOT_FOUND, [said], HcommChannelGetStatus(&channel, 1, &mut one));
        }
    });
}

#[test]
fn a_wait_that_nobody_ends_fails_the_connection_on_both_sides() {
    let carrier = <Carrier>::new();
    on_product(3, 2, |rank| {
        let side = Side::new(rank, 3);
        let channel = side.connected(side.desc(1));
        carrier.meet();
        if rank.rank == 0 {
            let mut thread = 0;
            let (comm, stream) = (rank.comm, rank.stream);
            hccl!(HcclThreadAcquireWithStream(comm, CPU_TS, stream, 0, &mut thread));
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, 1));
            let (code, text) = rank.sync_fails();
            assert_ne!(code, 0);
            assert!(text.contains("EI0002") && text.contains("notify 0"), "{text}");
        }
        carrier.meet();
        assert_eq!(status(channel), TIMEOUT);
        carrier.meet();
    });
}

#[test]
fn channels_end_with_their_endpoint() {
    let carrier = <Carrier>::new();
    on_product(950, 2, |rank| {
        let side = Side::new(rank, 950);
        let channel = side.connected(side.desc(1));
        carrier.meet();
        if rank.rank == 0 {
            issue!(HcommEndpointDestroy(side.endpoint));
            let mut one = 0;
            let said = "was destroyed";
            not_issued!(HCCL_E_NOT_FOUND, [said], HcommChannelGetStatus(&channel, 1, &mut one));
        }
        carrier.meet();
        if rank.rank == 1 {
            assert_eq!(status(channel), REMOTE);
        }
    });
}

#[test]
fn wrong_descriptions_are_refused_and_nothing_is_made() {
    let block = Block::with(block(3, 2));
    ok!(aclrtSetDevice(block.first));
    let (own, other) = (description(block.first, HCCS), description(block.first + 1, HCCS));
    let mut endpoint = null_mut();
    issue!(HcommEndpointCreate(&own, &mut endpoint));
    let good = Side { endpoint, other }.desc(1);
    let header = good.header;
    let mut foreign = [0x1000 as HcommMemHandle];
    let name = CString::new("x".repeat(192)).unwrap();
    let handles = foreign.as_mut_ptr();
    let cases = [
        (HcommChannelDesc { header: CommAbiHeader { size: 15, ..header }, ..good }, "size is 15"),
        (HcommChannelDesc { header: CommAbiHeader { magicWord: 1, ..header }, ..good }, "magic"),
        (HcommChannelDesc { notifyNum: 65, ..good }, "notifyNum is 65"),
        (HcommChannelDesc { role: HcommSocketRole(2), ..good }, "role is 2"),
        (HcommChannelDesc { remoteEndpoint: own, ..good }, "another device"),
        (HcommChannelDesc { remoteEndpoint: EndpointDesc::unset(), ..good }, "loc.locType is -1"),
        (
            HcommChannelDesc { remoteEndpoint: description(block.first + 1, ROCE), ..good },
            "has the protocol 1",
        ),
        (HcommChannelDesc { memHandleNum: 1, ..good }, "memHandles is NULL"),
        (HcommChannelDesc { memHandleNum: 1, memHandles: handles, ..good }, "not memory that is"),
        (HcommChannelDesc { channelName: name.as_ptr(), ..good }, "192 bytes"),
    ];
    for (wrong, piece) in cases {
        let (mut descs, mut channels) = ([good, wrong], [7; 2]);
        let to = channels.as_mut_ptr();
        not_issued!(
            HCCL_E_PARA,
            ["channelDescs[1]", piece],
            HcommChannelCreate(endpoint, CPU, descs.as_mut_ptr(), 2, to)
        );
        assert_eq!(channels, [7; 2]);
    }
    let (mut desc, mut channel) = (good, 0);
    let (from, to) = (&raw mut desc, &raw mut channel);
    let mut socket = HcommChannelDesc { socket: 8 as HcommSocket, ..good };
    not_issued!(
        HCCL_E_NOT_SUPPORT,
        ["without a socket"],
        HcommChannelCreate(endpoint, CPU, &mut socket, 1, to)
    );
    not_issued!(HCCL_E_PTR, ["endpointHandle"], HcommChannelCreate(null_mut(), CPU, from, 1, to));
    not_issued!(HCCL_E_PTR, ["channelDescs"], HcommChannelCreate(endpoint, CPU, null_mut(), 1, to));
    not_issued!(HCCL_E_PTR, ["channels"], HcommChannelCreate(endpoint, CPU, from, 1, null_mut()));
    let many = (1 << 20) + 1;
    not_issued!(HCCL_E_PARA, ["channelNum"], HcommChannelCreate(endpoint, CPU, from, 0, to));
    not_issued!(HCCL_E_PARA, ["channelNum"], HcommChannelCreate(endpoint, CPU, from, many, to));
    not_issued!(HCCL_E_PARA, ["CCU"], HcommChannelCreate(endpoint, CCU, from, 1, to));
    let none = CommEngine(-1);
    not_issued!(HCCL_E_PARA, ["engine"], HcommChannelCreate(endpoint, none, from, 1, to));
    let mut status = 0;
    not_issued!(HCCL_E_PTR, ["channelList"], HcommChannelGetStatus(null(), 1, &mut status));
    not_issued!(HCCL_E_PTR, ["statusList"], HcommChannelGetStatus(&channel, 1, null_mut()));
    not_issued!(HCCL_E_PARA, ["listNum"], HcommChannelGetStatus(&channel, 0, &mut status));
    not_issued!(HCCL_E_PTR, ["channels"], HcommChannelDestroy(null(), 1));
    not_issued!(HCCL_E_PARA, ["channelNum"], HcommChannelDestroy(&channel, 0));
    // Older versions of the layout, a newer version, and the name that stands for "no name".
    let size = HCOMM_CHANNEL_DESC_ABI_V1_SIZE as u32;
    let of = |version, size| CommAbiHeader { version, size, ..header };
    let unnamed = usize::MAX as *const std::ffi::c_char;
    for mut right in [
        HcommChannelDesc { header: of(1, size), channelName: name.as_ptr(), ..good },
        HcommChannelDesc { header: of(2, size), channelName: name.as_ptr(), ..good },
        HcommChannelDesc { header: of(3, header.size), channelName: unnamed, ..good },
        HcommChannelDesc { header: of(5, header.size + 64), ..good },
        HcommChannelDesc { channelName: unnamed, ..good },
    ] {
        issue!(HcommChannelCreate(endpoint, CPU, &mut right, 1, to));
        issue!(HcommChannelDestroy(to, 1));
    }
}

#[test]
fn configurations_hold_what_is_set() {
    let block = Block::with(block(3, 2));
    ok!(aclrtSetDevice(block.first));
    let (own, other) = (description(block.first, HCCS), description(block.first + 1, HCCS));
    let (mut endpoint, mut config, mut channel) = (null_mut(), null_mut(), 0);
    issue!(HcommEndpointCreate(&own, &mut endpoint));
    let mut desc = Side { endpoint, other }.desc(1);
    let shared = HcommChannelConfigType::HCOMM_CHANNEL_CONFIG_TYPE_IS_SHARED_QUEUE;
    issue!(HcommChannelConfigCreate(&mut config));
    issue!(HcommChannelConfigSetInt(config, shared, 1));
    let to = &raw mut channel;
    issue!(HcommChannelCreateWithConfig(endpoint, CPU, &mut desc, 1, config, to));
    not_issued!(HCCL_E_PARA, ["IS_SHARED_QUEUE is 2"], HcommChannelConfigSetInt(config, shared, 2));
    let unknown = HcommChannelConfigType(1);
    not_issued!(HCCL_E_PARA, ["is not a key"], HcommChannelConfigSetInt(config, unknown, 1));
    issue!(HcommChannelConfigDestroy(config));
    not_issued!(HCCL_E_PARA, ["is gone"], HcommChannelConfigSetInt(config, shared, 1));
    not_issued!(HCCL_E_PARA, ["is gone"], HcommChannelConfigDestroy(config));
    not_issued!(
        HCCL_E_PARA,
        ["is gone"],
        HcommChannelCreateWithConfig(endpoint, CPU, &mut desc, 1, config, to)
    );
    not_issued!(HCCL_E_PTR, ["config"], HcommChannelConfigCreate(null_mut()));
    not_issued!(HCCL_E_PTR, ["config"], HcommChannelConfigDestroy(null_mut()));
    not_issued!(HCCL_E_PTR, ["config"], HcommChannelConfigSetInt(null_mut(), shared, 1));
    not_issued!(
        HCCL_E_PTR,
        ["config"],
        HcommChannelCreateWithConfig(endpoint, CPU, &mut desc, 1, null_mut(), to)
    );
}
