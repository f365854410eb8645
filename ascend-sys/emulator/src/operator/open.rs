//! Open endpoints, and the memory that a program registers on them and exports to other endpoints.
//!
//! An export is a key of 64 bytes, like the keys of [`ipc`]. A program passes it to the peer by its
//! own means. An [import](super::registered_import) makes the memory reachable from the endpoint
//! that imports it. An import does not keep the memory: memory that is unregistered is no longer
//! reachable, even if it is imported.

use super::channel::Exchanged;
use super::endpoint::Endpoint;
use super::endpoint_home::EndpointHome;
use super::handles::Handles;
use super::registered_import::MemoryImport;
use super::{endpoint_channel, endpoint_link};
use crate::fabric::place::DevicePlace as Stand;
use crate::fabric::topology::layers_of;
use crate::fabric::{Seat, processes};
use crate::ipc::exports::{self, ExportedThing};
use crate::ipc::key::ExportKey;
use crate::ipc::news::{Granted, RegisteredRange};
use crate::machine::{self, foreign::is_outside};
use crate::memory::held::HeldMemory;
use crate::memory::{self, MemoryPlace, host_pool, window};
use crate::message::{Failure, refuse};
use crate::processes::peer::Home;
use crate::slots::HandleKind;
use ascend_sys::EndpointDesc;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

static OPEN: Handles<Open> = Handles::new(HandleKind::Endpoint);

/// An endpoint that a program has opened.
pub(crate) struct Open {
    pub(crate) endpoint: Endpoint,
    registered: BTreeMap<u64, RegisteredMemory>,
    /// The memory that is imported on this endpoint, by the process and the number of its export.
    pub(super) imports: BTreeMap<(Home, u64), MemoryImport>,
}

struct RegisteredMemory {
    tag: String,
    memory: ReachableMemory,
    held: Option<HeldMemory>,
    /// The key of the export and its text, if the memory was exported.
    exported: Option<(ExportKey, Box<str>)>,
}

/// A range of memory that other endpoints may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReachableMemory {
    pub(crate) on_host: bool,
    pub(crate) start: usize,
    pub(crate) bytes: u64,
}

/// Opens an endpoint and returns its handle.
pub(crate) fn open(endpoint: Endpoint) -> u64 {
    OPEN.add(Open { endpoint, registered: BTreeMap::new(), imports: BTreeMap::new() })
}

/// Closes an endpoint. Its channels end, and the memory registered on it is no longer reachable.
pub(crate) fn close(handle: u64) -> Result<(), Failure> {
    OPEN.take(handle).map(|open| end(handle, open))
}

/// Closes the endpoints of devices that are removed.
pub(crate) fn end_on(devices: &Range<u32>) {
    let gone = OPEN.take_all(|open| devices.contains(&open.endpoint.place.device));
    gone.into_iter().for_each(|(handle, open)| end(handle, open));
}

fn end(handle: u64, open: Open) {
    let channels = endpoint_channel::on(handle);
    endpoint_channel::end_on(handle);
    for registered in open.registered.values() {
        registered.end(open.endpoint);
    }
    open.imports.into_values().for_each(|import| import.end(&channels));
}

/// Removes the imports of this key from all endpoints. Returns them with the handles of the
/// endpoints.
pub(super) fn take_imports(key: (Home, u64)) -> Vec<(u64, MemoryImport)> {
    let mut taken = Vec::new();
    OPEN.for_all(|handle, open| taken.extend(open.imports.remove(&key).map(|it| (handle, it))));
    taken
}

/// Calls `look` with an open endpoint.
pub(crate) fn with<R>(
    handle: u64,
    look: impl FnOnce(&mut Open) -> Result<R, Failure>,
) -> Result<R, Failure> {
    OPEN.with(handle, look)
}

impl ReachableMemory {
    /// Checks that the device or the host has this memory. Returns a hold that can later check
    /// whether the memory was freed; `None` for pageable memory, and for no bytes.
    pub(crate) fn hold(self, device: u32, argument: &str) -> Result<Option<HeldMemory>, Failure> {
        let length = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let start = self.start;
        if start.checked_add(length).is_none() {
            return refuse!(
                HCCL_E_PARA,
                "{argument}: {start:#x} with {} bytes reaches beyond the end of all addresses; \
                 pass a smaller size",
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
                "{argument}: {start:#x} is {is}, but its type says {said}; correct the address or \
                 the type"
            );
        }
        match HeldMemory::new(found.data, length) {
            Ok(held) => Ok(held),
            Err(text) => refuse!(HCCL_E_PARA, "{argument}: {text}"),
        }
    }
}

const NUMBERS: u64 = HandleKind::RegisteredMemory.bits();

/// Registers memory on an endpoint under a tag. Returns the number of the registration.
pub(crate) fn register(handle: u64, tag: String, memory: ReachableMemory) -> Result<u64, Failure> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    OPEN.with(handle, |open| {
        if open.registered.values().any(|other| other.tag == tag) {
            return refuse!(
                HCCL_E_PARA,
                "the endpoint has memory with the tag \"{tag}\" already; pass another tag, or \
                 unregister that memory first (HcommMemUnreg)"
            );
        }
        let held = memory.hold(open.endpoint.place.device, "mem->addr")?;
        let number = NUMBERS | NEXT.fetch_add(1, Ordering::Relaxed);
        open.registered.insert(number, RegisteredMemory { tag, memory, held, exported: None });
        Ok(number)
    })
}

fn not_registered<T>(number: u64) -> Result<T, Failure> {
    refuse!(
        HCCL_E_NOT_FOUND,
        "{number:#x} is not memory that is registered on this endpoint; pass a handle of \
         HcommMemReg"
    )
}

pub(crate) fn unregister(handle: u64, number: u64) -> Result<(), Failure> {
    let (owner, gone) = OPEN.with(handle, |open| match open.registered.remove(&number) {
        Some(gone) => Ok((open.endpoint, gone)),
        None => not_registered(number),
    })?;
    gone.end(owner);
    Ok(())
}

/// Returns the memory that an endpoint lets the other side of a channel reach: the registered
/// memory with these numbers, or all registered memory if `numbers` is `None`.
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
                "memHandles has {number:#x}, which is not memory that is registered on this \
                 endpoint; pass handles of HcommMemReg"
            ),
        };
        numbers.unwrap_or(&all).iter().map(of).collect()
    })
}

/// Exports registered memory. Returns the address of the key text, which stays valid until the
/// memory is unregistered.
pub(crate) fn export(handle: u64, number: u64) -> Result<*const u8, Failure> {
    let home = own_home()?;
    OPEN.with(handle, |open| {
        let endpoint = open.endpoint;
        let Some(registered) = open.registered.get_mut(&number) else {
            return not_registered(number);
        };
        registered.check(number)?;
        let text = match &registered.exported {
            Some((_, text)) => text,
            None => {
                let key = exports::export(home, registered.thing(endpoint)?, false);
                &registered.exported.insert((key, key.text().into())).1
            }
        };
        Ok(text.as_ptr())
    })
}

/// Returns the address of this process.
fn own_home() -> Result<Home, Failure> {
    processes::home().map_err(|text| {
        Failure::new(
            ascend_sys::HcclResult::HCCL_E_TCP_CONNECT,
            format!("EI0015: {text}; check ulimit -n and -u"),
        )
    })
}

/// Returns whether the memory that was exported under this number is still registered.
pub(super) fn is_exported(number: u64) -> bool {
    let is_it =
        |it: &RegisteredMemory| matches!(&it.exported, Some((key, _)) if key.number == number);
    OPEN.find(|_, open| open.registered.values().any(is_it).then_some(())).is_some()
}

/// Returns the memory that this process has exported under a key, and its endpoint.
pub(super) fn exported(key: &ExportKey) -> Result<(Exchanged, Endpoint), Failure> {
    let is_it = |it: &RegisteredMemory| it.exported.as_ref().is_some_and(|(its, _)| its == key);
    let found = OPEN.find(|handle, open| {
        let (number, _) = open.registered.iter().find(|(_, registered)| is_it(registered))?;
        Some((handle, *number))
    });
    let gone = || {
        let text =
            "the memory of this description is no longer registered; register and export it again"
                .to_owned();
        Failure::new(ascend_sys::HcclResult::HCCL_E_NOT_FOUND, text)
    };
    let (handle, number) = found.ok_or_else(gone)?;
    OPEN.with(handle, |open| {
        let registered = open.registered.get_mut(&number).ok_or_else(gone)?;
        registered.check(number)?;
        Ok((registered.exchanged(), open.endpoint))
    })
}

impl RegisteredMemory {
    /// Ends the registration.
    fn end(&self, owner: Endpoint) {
        endpoint_channel::dismiss(owner, &self.exchanged());
        if let Some((key, _)) = &self.exported {
            exports::withdraw(key.number);
        }
    }

    /// Returns the memory in the form in which other processes can import it.
    fn thing(&self, endpoint: Endpoint) -> Result<ExportedThing, Failure> {
        let ReachableMemory { on_host, start, bytes } = self.memory;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if is_outside(start) {
            let why = "it is memory of another process, or mapped by aclrtMapMem; only memory of aclrtMalloc can be exported";
            return Ok(ExportedThing::OfThisProcess(why.into()));
        }
        let device = machine::device_slot(endpoint.place.device);
        let Some(settings) = device.settings() else {
            return refuse!(HCCL_E_RUNTIME, "EI9999: the device of the endpoint is gone");
        };
        let pool = if on_host { host_pool() } else { &device.memory };
        let (Ok(allocation), Some(windows)) = (pool.number_of(start, bytes), window::reserved())
        else {
            let why = "it is host memory that its program has allocated itself, which no other process can map; use memory of \
                       aclrtMallocHost";
            return Ok(ExportedThing::OfThisProcess(why.into()));
        };
        let first = if on_host { windows.data } else { windows.nominal };
        let granted = Granted::Registered(RegisteredRange {
            on_host,
            card: endpoint.place.index,
            start: start - first,
            bytes,
            protocol: endpoint.protocol.0,
            device_start: processes::seat_of_device(endpoint.place.device, &settings).start,
        });
        Ok(ExportedThing::Registered { pool, allocation, granted })
    }

    /// Returns this memory in the form that the two ends of a channel exchange.
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
                    "registered memory must not be freed before it is unregistered ({number:#x}): \
                     {text}; call HcommMemUnreg before freeing it"
                )
            }
        }
    }
}

/// Returns all endpoints that a device can open: one for each protocol.
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
        let endpoint = Endpoint::own(place, *protocol);
        if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
    }
    Ok(endpoints)
}

/// Returns descriptions of endpoints of this process that are also valid in other processes.
pub(crate) fn describe_for_all(endpoints: Vec<Endpoint>) -> Result<Vec<EndpointDesc>, Failure> {
    endpoint_link::listen();
    let home = own_home()?;
    let describe = |endpoint: Endpoint| {
        let device = endpoint.place.device;
        let Some(settings) = machine::device_slot(device).settings() else {
            return refuse!(HCCL_E_RUNTIME, "EI9999: device {device} is gone");
        };
        let Seat { start, bytes, .. } = processes::seat_of_device(device, &settings);
        let there = EndpointHome { home, start, bytes };
        Ok(endpoint.describe_for_all(settings.product, there))
    };
    endpoints.into_iter().map(describe).collect()
}
