//! Physical memory that is shared with other processes: exported or imported.
//!
//! Exported memory does not move any more: its bytes have a *home*. If it is mapped elsewhere, the
//! pages of its home are mapped there. The pages of imported memory are mapped at the addresses at
//! which the program maps it.

use super::{ALL, Contents, GRANULARITY, Physical, VirtualMemory, data_of};
use crate::collective::caches::store_for;
use crate::ipc::exports::{self, ExportedThing};
use crate::ipc::key::ExportKey;
use crate::ipc::news::Granted;
use crate::ipc::physical::ImportedPhysical;
use crate::later;
use crate::machine::foreign::card_of;
use crate::machine::{self, Device, reserved};
use crate::memory::window;
use crate::message::{Failure, fail};
use crate::processes::peer::{Home, Peer};
use crate::processes::rendezvous::KeptRendezvous;
use crate::slots::HandleKind;
use ascend_reduce::copy;
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_INVALID_DEVICEID, ACL_ERROR_RT_PARAM_INVALID,
    ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, aclrtMemAttr, aclrtMemLocation, aclrtMemLocationType,
    aclrtPhysicalMemProp,
};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

/// The sharing of physical memory with other processes.
#[derive(Default)]
pub(super) struct Sharing {
    exported: Option<ExportedMemory>,
    imported: Option<ImportedPhysical>,
    /// A reference that lives as long as other processes may have the memory. It is set for memory
    /// that has neither a mapping nor a handle in this process any more.
    lingers: Option<Weak<()>>,
    /// The addresses that contain the home of the bytes. No other memory gets them as long as this
    /// memory exists.
    addresses: Option<Arc<HeldAddresses>>,
}

struct ExportedMemory {
    key: ExportKey,
    /// A reference that lives as long as some process has the memory.
    hold: Weak<()>,
    /// Lets other processes find this process by the number of the export.
    announced: Option<KeptRendezvous>,
}

/// Reserved addresses, which are released when this is dropped.
#[derive(Debug)]
pub(super) struct HeldAddresses(Range<usize>);

impl HeldAddresses {
    pub(super) fn new(addresses: Range<usize>) -> HeldAddresses {
        HeldAddresses(addresses)
    }

    pub(super) fn bytes(&self) -> Range<usize> {
        self.0.clone()
    }

    pub(super) fn start(&self) -> usize {
        self.0.start
    }
}

impl Drop for HeldAddresses {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            reserved::release(self.0.clone());
        }
    }
}

/// Drops addresses that were not reserved, without a release.
#[cfg(test)]
pub(super) fn forget(addresses: Arc<HeldAddresses>) {
    if let Some(mut addresses) = Arc::into_inner(addresses) {
        addresses.0 = 0..0;
    }
}

/// Exports physical memory, unless it is exported already. Returns the key by which other processes
/// import the memory.
pub(crate) fn export(handle: u64, home: Home, permitted: bool) -> Result<ExportKey, Failure> {
    let mut all = lock(&ALL);
    let physical = all.find(handle)?;
    if let Some(imported) = &physical.sharing.imported {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "the memory belongs to process {}; export it in that process",
            imported.process()
        );
    }
    if let Some(exported) = &physical.sharing.exported {
        return Ok(exported.key);
    }
    let place = physical.place();
    let addresses = match place.and_then(|start| all.range_of(start)) {
        Some(addresses) => addresses,
        None => reserve_home(all.find(handle)?)?,
    };
    let physical = all.find(handle)?;
    let start = physical.settle(addresses);
    let device = machine::device_slot(physical.device);
    let card = device.id - device.settings().map_or(0, |settings| settings.first);
    let nominal = window::reserved().map_or(0, |windows| windows.nominal);
    let granted = Granted::Memory { card, start: start - nominal, bytes: physical.bytes };
    let thing = ExportedThing::Physical { device: device.id, granted };
    let key = exports::export(home, thing, permitted);
    let hold = exports::hold_of(key.number);
    physical.sharing.exported = Some(ExportedMemory { key, hold, announced: None });
    Ok(key)
}

/// Calls `announce` and keeps its result as long as the exported memory exists. Does nothing if a
/// result is kept already, or if the memory is not exported.
pub(crate) fn keep_announced(
    handle: u64,
    announce: impl FnOnce() -> Result<KeptRendezvous, Failure>,
) -> Result<(), Failure> {
    let mut all = lock(&ALL);
    match &mut all.find(handle)?.sharing.exported {
        Some(ExportedMemory { announced: announced @ None, .. }) => {
            *announced = Some(announce()?);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Imports physical memory of another process, for a device of the calling thread. Returns its
/// handle.
pub(crate) fn import(
    peer: &Arc<Peer>,
    key: &ExportKey,
    user: &'static Device,
) -> Result<u64, Failure> {
    let imported = ImportedPhysical::want(peer, key)?;
    let device = card_of(user, imported.card)
        .map_err(|text| Failure::new(ACL_ERROR_RT_INVALID_DEVICEID, text))?;
    let kind = aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE;
    let location = aclrtMemLocation { id: machine::number_of(device.id), type_: kind };
    let memory = Physical {
        device: device.id,
        bytes: imported.bytes,
        properties: aclrtPhysicalMemProp {
            memAttr: aclrtMemAttr::ACL_HBM_MEM_HUGE,
            location,
            ..aclrtPhysicalMemProp::default()
        },
        references: 1,
        mapped_at: None,
        contents: Contents::None,
        sharing: Sharing { imported: Some(imported), ..Sharing::default() },
    };
    let mut all = lock(&ALL);
    all.last += 1;
    let handle = HandleKind::PhysicalMemory.bits() | all.last;
    all.physical.insert(handle, memory);
    Ok(handle)
}

/// Ends imported memory in this process, because the process that exported it has ended it.
pub(crate) fn withdrawn(from: &Home, number: u64) {
    let mut all = lock(&ALL);
    let is_it = |physical: &Physical| {
        physical.sharing.imported.as_ref().is_some_and(|imported| imported.is(from, number))
    };
    let gone: Vec<u64> =
        all.physical.iter().filter(|(_, physical)| is_it(physical)).map(|it| *it.0).collect();
    gone.into_iter().for_each(|handle| {
        all.end(handle, "the process that exported it, whose device was reset");
    });
}

impl Sharing {
    /// Returns whether the bytes must stay in place.
    pub(super) fn is_fixed(&self) -> bool {
        self.exported.is_some() || self.imported.is_some() || self.lingers.is_some()
    }

    pub(super) fn is_imported(&self) -> bool {
        self.imported.is_some()
    }

    /// Returns the process that has the memory; 0 means this process.
    pub(super) fn process(&self) -> u32 {
        self.imported.as_ref().map_or(0, ImportedPhysical::process)
    }

    /// Returns whether the memory has ended in this process, while other processes may have it.
    pub(super) fn has_ended(&self) -> bool {
        self.lingers.is_some()
    }
}

/// Notes that physical memory has neither a mapping nor a handle any more. Returns true if the
/// memory stays for other processes that have it.
pub(super) fn linger(handle: u64, physical: &mut Physical) -> bool {
    let sharing = &mut physical.sharing;
    if let Some(ExportedMemory { key, hold, .. }) = sharing.exported.take() {
        exports::end(key.number);
        if hold.strong_count() > 0 {
            sharing.lingers = Some(hold.clone());
            later::until_done(move || is_let_go(handle, &hold));
        }
    }
    sharing.has_ended()
}

/// Ends physical memory unless another process still has it. Returns false if this function must be
/// called again.
fn is_let_go(handle: u64, hold: &Weak<()>) -> bool {
    if hold.strong_count() > 0 {
        return false;
    }
    // The thread that holds the lock may itself have called this. Then this is called again later.
    let Ok(mut all) = ALL.try_lock() else { return false };
    let ended = all.physical.remove(&handle);
    drop(all);
    ended.iter().for_each(Physical::discard);
    true
}

/// Reserves addresses for the bytes of memory that has no place.
fn reserve_home(physical: &Physical) -> Result<Arc<HeldAddresses>, Failure> {
    let device = machine::device_slot(physical.device);
    let by = "an export of physical memory";
    reserved::reserve(device, physical.bytes, by).map(HeldAddresses::new).map(Arc::new)
}

impl Physical {
    /// Returns the place of the bytes, if they have one.
    fn place(&self) -> Option<usize> {
        match (self.mapped_at, &self.contents) {
            (Some(start), _) => Some(start),
            (None, Contents::At(start)) => Some(*start),
            (None, Contents::None | Contents::Kept(_)) => None,
        }
    }

    /// Gives the bytes a home in these addresses, from which they do not move any more. If the
    /// bytes have a place, that is their home. Returns the address of the home.
    fn settle(&mut self, addresses: Arc<HeldAddresses>) -> usize {
        let start = self.place().unwrap_or(addresses.start());
        if let Contents::Kept(bytes) = &self.contents {
            // SAFETY: the addresses are those of a range, whose data is mapped for ever; it has as
            // many bytes as the memory, and the vector is no part of it.
            unsafe {
                copy::copy(data_of(start), bytes.as_ptr(), bytes.len(), store_for(bytes.len()))
            };
        }
        self.contents = Contents::At(start);
        self.sharing.addresses = Some(addresses);
        start
    }

    /// Maps the pages of fixed bytes at `start`, unless `start` is their home.
    pub(super) fn show_at(&self, start: usize) -> Result<(), Failure> {
        let data = data_of(start).addr();
        let shown = match (&self.sharing.imported, &self.contents) {
            (Some(imported), _) => imported.show(data),
            (None, Contents::At(home)) if *home != start => self.show_home(*home, data),
            _ => Ok(()),
        };
        shown.map_err(|e| {
            let text = format!("{} bytes cannot be mapped at {start:#x}: {e}", self.bytes);
            Failure::new(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, text)
        })
    }

    fn show_home(&self, home: usize, data: usize) -> io::Result<()> {
        let windows = window::windows().map_err(io::Error::other)?;
        window::shown::show(data, self.bytes, windows.shared.file().as_fd(), home - windows.nominal)
    }

    /// Undoes [`show_at`](Self::show_at).
    pub(super) fn hide_from(&self, start: usize) -> Result<(), Failure> {
        let is_elsewhere = match (&self.sharing.imported, &self.contents) {
            (Some(_), _) => true,
            (None, Contents::At(home)) => self.sharing.is_fixed() && *home != start,
            _ => false,
        };
        if !is_elsewhere {
            return Ok(());
        }
        window::shown::hide(data_of(start).addr(), self.bytes).map_err(|e| {
            let text = format!("{} bytes cannot be unmapped from {start:#x}: {e}", self.bytes);
            Failure::new(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, text)
        })
    }

    /// Returns an error if the memory is shared, because then its bytes do not move.
    pub(super) fn may_move(&self, start: usize) -> Result<(), Failure> {
        if self.sharing.is_fixed() {
            return fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "shared physical memory has its bytes at {start:#x}, and the emulator does not \
                 move them; map other memory elsewhere, or free that memory first"
            );
        }
        Ok(())
    }

    /// Returns the pages of the bytes to the system.
    pub(super) fn discard(&self) {
        // Imported memory has no bytes in this process.
        if let Contents::At(start) = self.contents {
            window::discard(data_of(start).addr(), self.bytes);
        }
    }
}

impl VirtualMemory {
    /// Returns the addresses of the range that contains an address.
    fn range_of(&self, address: usize) -> Option<Arc<HeldAddresses>> {
        let (_, range) = self.ranges.range(..=address).next_back()?;
        range.addresses.0.contains(&address).then(|| Arc::clone(&range.addresses))
    }

    /// Ends physical memory, even if it is mapped or has handles.
    pub(super) fn end(&mut self, handle: u64, by: &'static str) {
        if let Some(physical) = self.physical.get_mut(&handle) {
            physical.references = 0;
        }
        match self.physical.get(&handle).and_then(|physical| physical.mapped_at) {
            // Memory that cannot be unmapped stays mapped, and no other memory gets its addresses.
            Some(start) => _ = self.unmap(start, by),
            None => self.end_if_unused(handle),
        }
    }

    /// Returns an error if new memory cannot be mapped in the range with these addresses, because
    /// of the memory that is mapped there. `is_imported` is true if the new memory is imported.
    pub(super) fn may_lie_in(
        &self,
        addresses: Range<usize>,
        is_imported: bool,
    ) -> Result<(), Failure> {
        let beside = self.pieces.range(addresses).next();
        let beside = beside.and_then(|(_, (handle, _))| self.physical.get(handle));
        if beside.is_some_and(|beside| beside.sharing.is_imported() != is_imported) {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "a range can have memory of this process or imported memory, but not both; reserve \
                 another range"
            );
        }
        Ok(())
    }
}

const _: () = assert!(GRANULARITY == window::HUGE_PAGE, "mapped pages must be whole");
