//! Physical memory that other processes have, or that is one of theirs.
//!
//! Memory that is exported does not move any more: its bytes have a *home*. Where it is mapped
//! elsewhere, the pages of its home are shown there. Imported memory is shown wherever it is mapped.

use super::{ALL, Contents, GRANULARITY, Physical, VirtualMemory, data_of};
use crate::collective::plan::store_for;
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

/// What physical memory has to do with other processes.
#[derive(Default)]
pub(super) struct Sharing {
    exported: Option<ExportedMemory>,
    imported: Option<ImportedPhysical>,
    /// Addresses that nobody else gets while the memory lives: its home lies there.
    addresses: Vec<Arc<HeldAddresses>>,
}

struct ExportedMemory {
    key: ExportKey,
    /// Lives as long as some process has it.
    hold: Weak<()>,
}

/// Reserved addresses, given back when this is dropped.
pub(super) struct HeldAddresses(Range<usize>);

impl Drop for HeldAddresses {
    fn drop(&mut self) {
        reserved::release(self.0.clone());
    }
}

/// Exports physical memory, once: the key by which other processes import it.
pub(crate) fn export(handle: u64, home: Home, permitted: bool) -> Result<ExportKey, Failure> {
    let mut all = lock(&ALL);
    let physical = all.find(handle)?;
    if let Some(imported) = &physical.sharing.imported {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "the memory is one of process {}, which can export it again",
            imported.process()
        );
    }
    if let Some(exported) = &physical.sharing.exported {
        return Ok(exported.key);
    }
    let start = physical.settle()?;
    let device = machine::device_slot(physical.device);
    let card = device.id - device.settings().map_or(0, |settings| settings.first);
    let nominal = window::reserved().map_or(0, |windows| windows.nominal);
    let granted = Granted::Memory { card, start: start - nominal, bytes: physical.bytes };
    let thing = ExportedThing::Physical { device: device.id, granted };
    let key = exports::export(home, thing, permitted);
    physical.sharing.exported = Some(ExportedMemory { key, hold: exports::hold_of(key.number) });
    Ok(key)
}

/// Imports physical memory of another process, for a device of the calling thread; returns its handle.
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

/// The process that has exported memory has ended it: it ends here too.
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
    /// Whether the bytes stay where they are.
    pub(super) fn is_fixed(&self) -> bool {
        self.exported.is_some() || self.imported.is_some()
    }

    pub(super) fn is_imported(&self) -> bool {
        self.imported.is_some()
    }

    /// The process whose memory it is; 0: this one.
    pub(super) fn process(&self) -> u32 {
        self.imported.as_ref().map_or(0, ImportedPhysical::process)
    }

    /// The bytes lie in these addresses, which the program has released.
    pub(super) fn keep_addresses(&mut self, addresses: &Arc<HeldAddresses>) {
        self.addresses.push(Arc::clone(addresses));
    }
}

impl Physical {
    /// Gives the bytes a home, from which they do not move any more: where they are, if they are
    /// somewhere.
    fn settle(&mut self) -> Result<usize, Failure> {
        let place = match (self.mapped_at, &self.contents) {
            (Some(start), _) => start,
            (None, Contents::At(start)) => *start,
            (None, Contents::None | Contents::Kept(_)) => self.find_home()?,
        };
        self.contents = Contents::At(place);
        Ok(place)
    }

    fn find_home(&mut self) -> Result<usize, Failure> {
        let device = machine::device_slot(self.device);
        let addresses = reserved::reserve(device, self.bytes, "an export of physical memory")?;
        let start = addresses.start;
        self.sharing.addresses.push(Arc::new(HeldAddresses(addresses)));
        if let Contents::Kept(bytes) = &self.contents {
            // SAFETY: the addresses are those of a range, whose data is mapped for ever; it has as
            // many bytes as the memory, and the vector is no part of it.
            unsafe {
                copy::copy(data_of(start), bytes.as_ptr(), bytes.len(), store_for(bytes.len()))
            };
        }
        Ok(start)
    }

    /// Shows the bytes, which do not move, at a place where they are not.
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
        window::show(data, self.bytes, windows.shared.file().as_fd(), home - windows.nominal)
    }

    /// Ends what [`show_at`](Self::show_at) has done.
    pub(super) fn hide_from(&self, start: usize) -> Result<(), Failure> {
        let is_elsewhere = match (&self.sharing.imported, &self.contents) {
            (Some(_), _) => true,
            (None, Contents::At(home)) => self.sharing.is_fixed() && *home != start,
            _ => false,
        };
        if !is_elsewhere {
            return Ok(());
        }
        window::hide(data_of(start).addr(), self.bytes).map_err(|e| {
            let text = format!("{} bytes cannot be unmapped from {start:#x}: {e}", self.bytes);
            Failure::new(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, text)
        })
    }

    /// Refuses to move memory that is exported.
    pub(super) fn may_move(&self, start: usize) -> Result<(), Failure> {
        if self.sharing.is_fixed() {
            return fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "physical memory that is exported has its bytes at {start:#x}, from where the emulator does not move them; \
                 map other memory elsewhere, or free that first"
            );
        }
        Ok(())
    }

    /// The memory has ended here. Its pages go when no other process has them any more.
    pub(super) fn end(self) {
        let Physical { bytes, contents, sharing, .. } = self;
        let discard = move || {
            if let Contents::At(start) = contents {
                window::discard(data_of(start).addr(), bytes);
            }
        };
        let Some(ExportedMemory { key, hold }) = sharing.exported else {
            // Of imported memory nothing lies here.
            return if sharing.imported.is_none() {
                discard()
            };
        };
        exports::end(key.number);
        let mut last = Some((discard, sharing.addresses));
        later::until_done(move || {
            let is_over = hold.strong_count() == 0;
            if is_over && let Some((discard, addresses)) = last.take() {
                discard();
                drop(addresses);
            }
            is_over
        });
    }
}

impl VirtualMemory {
    /// The addresses of a range that ends. Physical memory that does not move and lies there holds
    /// them too.
    pub(super) fn hold(&mut self, addresses: Range<usize>) -> Arc<HeldAddresses> {
        let held = Arc::new(HeldAddresses(addresses));
        let fixed = self.lying_in(&held.0).filter(|physical| physical.sharing.is_fixed());
        fixed.for_each(|physical| physical.sharing.keep_addresses(&held));
        held
    }

    /// Ends physical memory, wherever it is mapped and however often it is named.
    pub(super) fn end(&mut self, handle: u64, by: &'static str) {
        if let Some(physical) = self.physical.get_mut(&handle) {
            physical.references = 0;
        }
        match self.physical.get(&handle).and_then(|physical| physical.mapped_at) {
            // What cannot be unmapped stays mapped: nobody gets its addresses.
            Some(start) => _ = self.unmap(start, by),
            None => self.end_if_unused(handle),
        }
    }

    /// Whether memory of other processes, or of this one, may be mapped in the range with these
    /// addresses beside what is there.
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
                "a range has memory of this process, or imported memory, and not both"
            );
        }
        Ok(())
    }
}

const _: () = assert!(GRANULARITY == window::HUGE_PAGE, "pages that are shown are whole");
