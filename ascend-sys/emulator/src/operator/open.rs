//! Open endpoints: the memory that a program registers on them, and how another endpoint comes to know it.
//!
//! What is exported are 64 bytes, which a program carries to the peer by its own means. An import names the memory to the
//! endpoint that imports it. It holds nothing: memory that is unregistered is out of reach, whoever has imported it.

use super::channel::Exchanged;
use super::endpoint::Endpoint;
use super::endpoint_channel;
use super::handles::Handles;
use crate::fabric::place::DevicePlace as Stand;
use crate::fabric::topology::layers_of;
use crate::machine;
use crate::memory::held::HeldMemory;
use crate::memory::{self, MemoryPlace};
use crate::message::{Failure, refuse};
use crate::slots::HandleKind;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

static OPEN: Handles<Open> = Handles::new(HandleKind::Endpoint);

/// An endpoint that a program has opened.
pub(crate) struct Open {
    pub(crate) endpoint: Endpoint,
    registered: BTreeMap<u64, RegisteredMemory>,
    /// By the numbers of what was registered elsewhere, how often it was imported.
    imports: BTreeMap<u64, u32>,
}

struct RegisteredMemory {
    tag: String,
    memory: ReachableMemory,
    held: Option<HeldMemory>,
    /// What says so to others.
    exported: Box<[u8; EXPORT]>,
}

/// A range of memory that others may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReachableMemory {
    pub(crate) on_host: bool,
    pub(crate) start: usize,
    pub(crate) bytes: u64,
}

/// Bytes of an export: a mark, the process, the number of the registration, and a check of the three; the rest are zeros.
pub(crate) const EXPORT: usize = 64;
const MARK: u64 = u64::from_le_bytes(*b"ascnMEM1");

/// Opens an endpoint of the calling thread's device.
pub(crate) fn open(endpoint: Endpoint) -> u64 {
    OPEN.add(Open { endpoint, registered: BTreeMap::new(), imports: BTreeMap::new() })
}

/// Closes an endpoint: its channels end, and what was registered on it is out of reach.
pub(crate) fn close(handle: u64) -> Result<(), Failure> {
    OPEN.take(handle).map(|open| end(handle, open))
}

/// The endpoints of devices that go.
pub(crate) fn end_on(devices: &Range<u32>) {
    let gone = OPEN.take_all(|open| devices.contains(&open.endpoint.place.device));
    gone.into_iter().for_each(|(handle, open)| end(handle, open));
}

fn end(handle: u64, open: Open) {
    endpoint_channel::end_on(handle);
    for registered in open.registered.values() {
        endpoint_channel::dismiss(open.endpoint, &registered.exchanged());
    }
}

/// Looks at an endpoint.
pub(crate) fn with<R>(
    handle: u64,
    look: impl FnOnce(&mut Open) -> Result<R, Failure>,
) -> Result<R, Failure> {
    OPEN.with(handle, look)
}

impl ReachableMemory {
    /// Checks that a device has this memory, or the host; notes who owns it.
    pub(crate) fn hold(self, device: u32, argument: &str) -> Result<Option<HeldMemory>, Failure> {
        let length = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let start = self.start;
        if start.checked_add(length).is_none() {
            return refuse!(
                HCCL_E_PARA,
                "{argument}: {start:#x} with {} bytes reaches beyond the end of all addresses",
                self.bytes
            );
        }
        let found = match memory::resolve(start, length) {
            Ok(found) => found,
            Err(text) => return refuse!(HCCL_E_PARA, "{argument}: {text}"),
        };
        let is = match found.place {
            MemoryPlace::Device(id) if !self.on_host && id == device => None,
            MemoryPlace::Pinned | MemoryPlace::Pageable if self.on_host => None,
            MemoryPlace::Device(id) => {
                Some(format!("memory of device {id}", id = machine::named(id)))
            }
            MemoryPlace::Pinned | MemoryPlace::Pageable => Some("host memory".into()),
        };
        if let Some(is) = is {
            let said = if self.on_host {
                "host (1)".into()
            } else {
                format!("device {device} (0)", device = machine::named(device))
            };
            return refuse!(
                HCCL_E_PARA,
                "{argument}: {start:#x} is {is}, but its type says {said}"
            );
        }
        match HeldMemory::new(found.data, length) {
            Ok(held) => Ok(held),
            Err(text) => refuse!(HCCL_E_PARA, "{argument}: {text}"),
        }
    }
}

const NUMBERS: u64 = HandleKind::RegisteredMemory.bits();

/// Makes memory known on an endpoint, under a tag.
pub(crate) fn register(handle: u64, tag: String, memory: ReachableMemory) -> Result<u64, Failure> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    OPEN.with(handle, |open| {
        if open.registered.values().any(|other| other.tag == tag) {
            return refuse!(
                HCCL_E_PARA,
                "the endpoint has memory with the tag \"{tag}\" already; HcommMemUnreg ends it"
            );
        }
        let held = memory.hold(open.endpoint.place.device, "mem->addr")?;
        let number = NUMBERS | NEXT.fetch_add(1, Ordering::Relaxed);
        let exported = Box::new(write_export(number));
        open.registered.insert(number, RegisteredMemory { tag, memory, held, exported });
        Ok(number)
    })
}

fn not_registered<T>(number: u64) -> Result<T, Failure> {
    refuse!(HCCL_E_NOT_FOUND, "{number:#x} is no memory that is registered on this endpoint")
}

pub(crate) fn unregister(handle: u64, number: u64) -> Result<(), Failure> {
    let (owner, gone) = OPEN.with(handle, |open| match open.registered.remove(&number) {
        Some(gone) => Ok((open.endpoint, gone)),
        None => not_registered(number),
    })?;
    endpoint_channel::dismiss(owner, &gone.exchanged());
    Ok(())
}

/// What an endpoint lets the other side of a channel reach: some of its registered memory, or all.
pub(super) fn exchanged(handle: u64, numbers: Option<&[u64]>) -> Result<Vec<Exchanged>, Failure> {
    OPEN.with(handle, |open| {
        let all: Vec<u64> = open.registered.keys().copied().collect();
        let of = |number: &u64| match open.registered.get_mut(number) {
            Some(registered) => {
                registered.check(*number)?;
                Ok(registered.exchanged())
            }
            None => refuse!(
                HCCL_E_PARA,
                "memHandles has {number:#x}, which is no memory that is registered on this endpoint"
            ),
        };
        numbers.unwrap_or(&all).iter().map(of).collect()
    })
}

/// What an endpoint has imported of another one.
pub(super) fn imported_from(handle: u64, owner: Endpoint) -> Vec<Exchanged> {
    let numbers = OPEN.with(handle, |open| Ok(open.imports.keys().copied().collect::<Vec<_>>()));
    let known = |number: u64| {
        OPEN.find(|_, open| {
            let registered = open.registered.get(&number)?;
            (open.endpoint == owner).then(|| registered.exchanged())
        })
    };
    numbers.unwrap_or_default().into_iter().filter_map(known).collect()
}

/// The export of registered memory, which stays where it is until the memory is unregistered.
pub(crate) fn export(handle: u64, number: u64) -> Result<*const u8, Failure> {
    OPEN.with(handle, |open| match open.registered.get_mut(&number) {
        Some(registered) => {
            registered.check(number)?;
            Ok(registered.exported.as_ptr())
        }
        None => not_registered(number),
    })
}

impl RegisteredMemory {
    /// As channels know it.
    fn exchanged(&self) -> Exchanged {
        let ReachableMemory { on_host, start, bytes } = self.memory;
        Exchanged { tag: self.tag.clone(), on_host, start, bytes: bytes as usize }
    }

    fn check(&mut self, number: u64) -> Result<(), Failure> {
        match self.held.as_mut().map_or(Ok(()), HeldMemory::check) {
            Ok(()) => Ok(()),
            Err(text) => {
                refuse!(
                    HCCL_E_PARA,
                    "registered memory must stay until it is unregistered ({number:#x}): {text}"
                )
            }
        }
    }
}

/// What stands behind a number that was exported: the memory, and whose it is.
fn registered(number: u64) -> Result<(Exchanged, Endpoint), Failure> {
    let found = OPEN.find(|handle, open| open.registered.contains_key(&number).then_some(handle));
    let Some(handle) = found else {
        return refuse!(
            HCCL_E_NOT_FOUND,
            "the memory of this description ({number:#x}) is no longer registered"
        );
    };
    OPEN.with(handle, |open| match open.registered.get_mut(&number) {
        Some(registered) => {
            registered.check(number)?;
            Ok((registered.exchanged(), open.endpoint))
        }
        None => not_registered(number),
    })
}

/// Names memory of another endpoint to this one.
pub(crate) fn import(handle: u64, export: &[u8; EXPORT]) -> Result<ReachableMemory, Failure> {
    let own = OPEN.with(handle, |open| Ok(open.endpoint))?;
    let number = read_export(export)?;
    let (memory, theirs) = registered(number)?;
    if theirs.place.block != own.place.block {
        return refuse!(
            HCCL_E_PARA,
            "devices {} and {} belong to different blocks, which reach no memory of each other",
            own.place.device,
            theirs.place.device
        );
    }
    if theirs.protocol != own.protocol {
        return refuse!(
            HCCL_E_PARA,
            "the memory was registered on an endpoint of the protocol {}, and this one is of {}",
            theirs.protocol.0,
            own.protocol.0
        );
    }
    let times = OPEN.with(handle, |open| {
        let times = open.imports.entry(number).or_default();
        *times += 1;
        Ok(*times)
    })?;
    if times == 1 {
        endpoint_channel::admit(handle, theirs, &memory, true);
    }
    let Exchanged { on_host, start, bytes, .. } = memory;
    Ok(ReachableMemory { on_host, start, bytes: bytes as u64 })
}

/// Takes back one import.
pub(crate) fn unimport(handle: u64, export: &[u8; EXPORT]) -> Result<(), Failure> {
    let number = read_export(export)?;
    let left = OPEN.with(handle, |open| {
        let Some(times) = open.imports.get_mut(&number) else {
            return refuse!(
                HCCL_E_NOT_FOUND,
                "the memory of this description ({number:#x}) was not imported on this endpoint"
            );
        };
        *times -= 1;
        let left = *times;
        if left == 0 {
            open.imports.remove(&number);
        }
        Ok(left)
    })?;
    // What is no longer registered is out of reach already.
    if let (0, Ok((memory, theirs))) = (left, registered(number)) {
        endpoint_channel::admit(handle, theirs, &memory, false);
    }
    Ok(())
}

fn check_sum(process: u64, number: u64) -> u64 {
    (MARK ^ process).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
        ^ number.wrapping_mul(MARK | 1)
}

fn write_export(number: u64) -> [u8; EXPORT] {
    let process = u64::from(std::process::id());
    let mut bytes = [0; EXPORT];
    let words = [MARK, process, number, check_sum(process, number)];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn read_export(bytes: &[u8; EXPORT]) -> Result<u64, Failure> {
    let mut words = bytes
        .chunks_exact(8)
        .map(|word| word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
    let [mark, process, number, sum] = std::array::from_fn(|_| words.next().unwrap_or_default());
    if mark != MARK || sum != check_sum(process, number) {
        return refuse!(
            HCCL_E_PARA,
            "memDesc is no description of HcommMemExport, or was damaged on its way ({EXPORT} bytes belong to it)"
        );
    }
    if process != u64::from(std::process::id()) {
        return refuse!(
            HCCL_E_PARA,
            "memDesc was made in process {process}; emulated endpoints reach memory of their own process only"
        );
    }
    Ok(number)
}

/// All endpoints that a device could open: one of each protocol.
pub(crate) fn of_device(id: i32) -> Result<Vec<Endpoint>, Failure> {
    let found = machine::device(id).and_then(|device| {
        device.settings().map(|it| (device.id, it)).ok_or_else(|| format!("device {id} is gone"))
    });
    let (device, settings) = match found {
        Ok(found) => found,
        Err(text) => return refuse!(HCCL_E_PARA, "deviceLogicId: {text}"),
    };
    let place = Stand::new(device, &settings);
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for protocol in layers_of(settings.product).iter().flat_map(|layer| layer.protocols) {
        let endpoint = Endpoint { place, protocol: *protocol };
        if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
    }
    Ok(endpoints)
}
