//! Endpoints, their memory, and channels between them, in two processes without a communicator.

use std::ffi::{CString, c_void};
use std::fmt::Write as _;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use ascend_emulator_testing::common::{self, Block, malloc_host};
use ascend_emulator_testing::operator::{CPU, CPU_TS, HCCS, LONG, ROCE, at, block, upload};
use ascend_emulator_testing::{call, issue, not_issued, ok};
use ascend_sys::*;

use super::pair::{Other, Talk, other};

mod channels;
mod memory;

pub const AGAIN: i32 = HcclResult::HCCL_E_AGAIN.0 as i32;
pub const PARA: i32 = HcclResult::HCCL_E_PARA.0 as i32;
pub const TIMEOUT: i32 = HcclResult::HCCL_E_TIMEOUT.0 as i32;
pub const REMOTE: i32 = HcclResult::HCCL_E_REMOTE.0 as i32;
pub const NOT_FOUND: i32 = HcclResult::HCCL_E_NOT_FOUND.0 as i32;

/// A way to exchange texts between the two processes.
pub trait Carry {
    fn swap(&mut self, mine: &str) -> String;

    fn meet(&mut self) {
        assert_eq!(self.swap("met"), "met");
    }
}

impl Carry for Other {
    fn swap(&mut self, mine: &str) -> String {
        self.ask(mine)
    }
}

impl Carry for Talk {
    fn swap(&mut self, mine: &str) -> String {
        let theirs = self.next();
        self.say(mine);
        theirs
    }
}

/// Returns the endpoint of a device for a protocol.
pub fn description(device: i32, protocol: CommProtocol) -> EndpointDesc {
    let mut count = 0;
    issue!(HcommEndpointGetDescNum(device, &mut count));
    let mut all = vec![EndpointDesc::default(); count as usize];
    issue!(HcommEndpointGetDescs(device, &mut count, all.as_mut_ptr()));
    all.into_iter().find(|one| one.protocol == protocol).unwrap()
}

pub const DESCRIPTION: usize = size_of::<EndpointDesc>();

pub fn hex(description: &EndpointDesc) -> String {
    // SAFETY: the structure is plain data without padding, and is read as its bytes.
    let bytes = unsafe { &*std::ptr::from_ref(description).cast::<[u8; DESCRIPTION]>() };
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

pub fn of_hex(text: &str) -> EndpointDesc {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    let bytes: [u8; DESCRIPTION] = std::array::from_fn(byte);
    // SAFETY: the structure has only numbers, for which any bits are valid.
    unsafe { bytes.as_ptr().cast::<EndpointDesc>().read_unaligned() }
}

/// One of the two processes: its number, its open endpoint, the description of the other process's
/// endpoint, and the way to exchange texts.
pub struct Side<'a> {
    pub me: u8,
    pub endpoint: EndpointHandle,
    pub other: EndpointDesc,
    pub carry: &'a mut dyn Carry,
}

/// Runs `side` in both processes, which have the numbers 0 and 1 and devices with these numbers.
pub fn both(name: &str, side: impl Fn(&mut Side<'_>)) {
    let run = |me: u8, carry: &mut dyn Carry| {
        let block = Block::with(block(3, 2));
        ok!(aclrtSetDevice(block.first + i32::from(me)));
        let own = description(block.first + i32::from(me), HCCS);
        let mut endpoint = null_mut();
        issue!(HcommEndpointCreate(&own, &mut endpoint));
        let other = of_hex(&carry.swap(&hex(&own)));
        side(&mut Side { me, endpoint, other, carry });
    };
    if let Some(mut other) = other(name, |talk| run(1, talk)) {
        run(0, &mut other);
        other.end();
    }
}

impl Side<'_> {
    pub fn desc(&self, notifies: u32) -> HcommChannelDesc {
        let mut desc = HcommChannelDesc::unset();
        desc.remoteEndpoint = self.other;
        desc.notifyNum = notifies;
        desc
    }

    pub fn create(&self, mut desc: HcommChannelDesc) -> ChannelHandle {
        let mut channel = 0;
        issue!(HcommChannelCreate(self.endpoint, CPU, &mut desc, 1, &mut channel));
        channel
    }

    pub fn connected(&self, notifies: u32) -> ChannelHandle {
        let channel = self.create(self.desc(notifies));
        assert_eq!(until_other_than(AGAIN, channel), 0, "{}", common::message());
        channel
    }

    pub fn register(&self, tag: &str, memory: &CommMem) -> HcommMemHandle {
        let (tag, mut handle) = (CString::new(tag).unwrap(), null_mut());
        issue!(HcommMemReg(self.endpoint, tag.as_ptr(), memory, &mut handle));
        handle
    }

    /// Returns the description of an export, which the test carries to the other process.
    pub fn export(&self, memory: HcommMemHandle) -> String {
        let (mut bytes, mut length) = (null_mut(), 0);
        issue!(HcommMemExport(self.endpoint, memory, &mut bytes, &mut length));
        // SAFETY: the library has returned this number of bytes at this address.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize) };
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    pub fn import(&self, export: &str) -> CommMem {
        let mut found = CommMem::default();
        let (from, length) = (export.as_ptr().cast(), export.len() as u32);
        issue!(HcommMemImport(self.endpoint, from, length, &mut found));
        found
    }

    /// Returns the code and the text of an import that fails.
    pub fn import_fails(&self, export: &str) -> (i32, String) {
        let _ = common::message();
        let mut found = CommMem::default();
        let (from, length) = (export.as_ptr().cast(), export.len() as u32);
        (call!(HcommMemImport(self.endpoint, from, length, &mut found)), common::message())
    }
}

pub fn on_device(addr: *mut c_void, size: u64) -> CommMem {
    CommMem { type_: CommMemType::COMM_MEM_TYPE_DEVICE, addr, size }
}

pub fn on_host(addr: *mut c_void, size: u64) -> CommMem {
    CommMem { type_: CommMemType::COMM_MEM_TYPE_HOST, addr, size }
}

/// Makes a thread of the host outside of communicators.
pub fn thread() -> ThreadHandle {
    let mut thread = 0;
    let notifies = 0;
    issue!(HcommThreadAlloc(CPU_TS, 1, &notifies, &mut thread));
    thread
}

pub fn status(channel: ChannelHandle) -> i32 {
    let mut status = -1;
    let _ = common::message();
    issue!(HcommChannelGetStatus(&channel, 1, &mut status));
    status
}

/// Returns the first status of a channel that is not `code`.
pub fn until_other_than(code: i32, channel: ChannelHandle) -> i32 {
    let since = Instant::now();
    loop {
        let now = status(channel);
        if now != code {
            return now;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "the status {code} stays");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn finish() {
    ok!(aclrtSynchronizeDevice());
}
