//! Memory that a program allocates without an address, and maps at addresses itself.
//!
//! *Physical memory* has a handle, and counts against the memory of its device. A *range* is
//! reserved addresses. A *piece* is physical memory that is mapped in a range. The data of a piece
//! is at the data of its addresses, so adjacent pieces are used as one.
//!
//! 1. Physical memory is mapped at one place at most.
//! 2. When it is unmapped, its bytes stay where they are. They move when it is mapped elsewhere,
//!    and before other memory is mapped at that place or the addresses are released.
//! 3. Physical memory ends when it is not mapped and has no references.
//! 4. Memory that other processes have imported, or that belongs to them, does not move: see
//!    [`shared`].

pub(crate) mod rights;
pub(crate) mod shared;

use crate::check;
use crate::collective::caches::store_for;
use crate::machine::{self, Device, reserved};
use crate::memory::window;
use crate::message::{Failure, fail};
use crate::slots::{HandleKind, unknown};
use ascend_reduce::copy;
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_RT_ADDR_UNALIGNED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_MEMORY_ALLOCATION,
    ACL_ERROR_RT_PARAM_INVALID, aclrtPhysicalMemProp,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The unit of physical memory, in bytes. Its sizes and places are multiples of this unit.
pub(crate) const GRANULARITY: usize = window::HUGE_PAGE;

struct Physical {
    device: u32,
    bytes: usize,
    properties: aclrtPhysicalMemProp,
    /// The number of references that the program has got and not freed.
    references: u32,
    mapped_at: Option<usize>,
    contents: Contents,
    sharing: shared::Sharing,
}

/// The place of the bytes of physical memory that is not mapped.
enum Contents {
    /// There are no bytes, because the memory was never mapped.
    None,
    /// The bytes are where the memory was mapped.
    At(usize),
    Kept(Vec<u8>),
}

struct ReservedRange {
    addresses: Arc<shared::HeldAddresses>,
    /// The size that the program has requested, in bytes.
    bytes: usize,
    device: u32,
}

struct VirtualMemory {
    last: u64,
    physical: BTreeMap<u64, Physical>,
    /// The ranges, by their first address.
    ranges: BTreeMap<usize, ReservedRange>,
    /// The physical memory that is mapped at an address, and its size in bytes.
    pieces: BTreeMap<usize, (u64, usize)>,
    rights: rights::Rights,
}

static ALL: Mutex<VirtualMemory> = Mutex::new(VirtualMemory {
    last: 0,
    physical: BTreeMap::new(),
    ranges: BTreeMap::new(),
    pieces: BTreeMap::new(),
    rights: BTreeMap::new(),
});

/// Reserves addresses for memory of the device. If memory of another device is mapped there first,
/// the addresses are for memory of that device.
pub(crate) fn reserve(device: &Device, bytes: usize, by: &'static str) -> Result<usize, Failure> {
    let addresses = reserved::reserve(device, bytes, by)?;
    let start = addresses.start;
    let addresses = Arc::new(shared::HeldAddresses::new(addresses));
    let range = ReservedRange { addresses, bytes, device: device.id };
    lock(&ALL).ranges.insert(start, range);
    Ok(start)
}

/// Ends a range. Returns an error if memory is mapped in it.
pub(crate) fn release(start: usize) -> Result<(), Failure> {
    let mut all = lock(&ALL);
    let Some(range) = all.ranges.get(&start) else {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "virPtr: no reserved range begins at {start:#x}; pass an address of \
             aclrtReserveMemAddress"
        );
    };
    let addresses = range.addresses.bytes();
    if let Some((piece, _)) = all.pieces.range(addresses.clone()).next() {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "virPtr: memory is mapped at {piece:#x}; call aclrtUnmapMem first"
        );
    }
    let movable = |physical: &&mut Physical| !physical.sharing.is_fixed();
    all.lying_in(&addresses).filter(movable).try_for_each(Physical::keep)?;
    let ended = all.ranges.remove(&start);
    drop(all);
    // Dropping the range releases the addresses, unless memory that does not move is there.
    drop(ended);
    Ok(())
}

/// Allocates physical memory of a device, and returns its handle.
pub(crate) fn allocate(
    device: &Device,
    bytes: usize,
    properties: aclrtPhysicalMemProp,
) -> Result<u64, Failure> {
    if device.faults.allocation_fails() {
        return fail!(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "out of memory: this fault was set for device {}; end it with ascendExtFaultClear",
            machine::named(device.id)
        );
    }
    if let Err(oom) = device.memory.charge(bytes) {
        return fail!(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "out of memory: {bytes} bytes of device {}, of which {} of {} are free; free memory, \
             or ask for less",
            machine::named(device.id),
            oom.free,
            oom.total
        );
    }
    let mut all = lock(&ALL);
    all.last += 1;
    let handle = HandleKind::PhysicalMemory.bits() | all.last;
    let (device, contents, sharing) = (device.id, Contents::None, shared::Sharing::default());
    let new =
        Physical { device, bytes, properties, references: 1, mapped_at: None, contents, sharing };
    all.physical.insert(handle, new);
    Ok(handle)
}

/// Ends a reference. Mapped memory ends when it is unmapped.
pub(crate) fn free(handle: u64) -> Result<(), Failure> {
    let mut all = lock(&ALL);
    let physical = all.find(handle)?;
    physical.references -= 1;
    all.end_if_unused(handle);
    Ok(())
}

/// Maps all of the physical memory at a reserved address.
pub(crate) fn map(
    start: usize,
    bytes: usize,
    handle: u64,
    by: &'static str,
) -> Result<(), Failure> {
    let mut all = lock(&ALL);
    let physical = all.find(handle)?;
    let (size, id, mapped_at) = (physical.bytes, physical.device, physical.mapped_at);
    if bytes != size {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "size is {bytes}, but the physical memory has {size} bytes; pass its whole size"
        );
    }
    if let Some(at) = mapped_at {
        return fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "the physical memory is mapped at {at:#x}; the emulator maps it at one place only, so \
             call aclrtUnmapMem first"
        );
    }
    if !start.is_multiple_of(GRANULARITY) {
        return fail!(
            ACL_ERROR_RT_ADDR_UNALIGNED,
            "virPtr is {start:#x}; memory is mapped at multiples of {GRANULARITY} bytes, so pass \
             a multiple"
        );
    }
    let place = start..start.saturating_add(bytes);
    let has_contents = all.bring_to(handle, &place, id)?;
    let device = machine::device_slot(id);
    all.pieces.insert(start, (handle, bytes));
    let (mut process, mut is_fixed) = (0, false);
    if let Some(physical) = all.physical.get_mut(&handle) {
        physical.mapped_at = Some(start);
        (process, is_fixed) = (physical.sharing.process(), physical.sharing.is_fixed());
    }
    device.memory.map(start, bytes, by, process);
    // Bytes that it had before count as written.
    check::allocated(id, &device.memory, start, has_contents);
    if is_fixed {
        check::written_by_others(start);
    }
    Ok(())
}

/// Unmaps the piece that begins at an address.
pub(crate) fn unmap(start: usize, by: &'static str) -> Result<(), Failure> {
    if lock(&ALL).unmap(start, by)? {
        return Ok(());
    }
    fail!(
        ACL_ERROR_RT_PARAM_INVALID,
        "virPtr: no memory is mapped that begins at {start:#x}; pass an address of aclrtMapMem"
    )
}

/// Adds a reference to the physical memory that is mapped at an address, and returns its handle.
pub(crate) fn retain(address: usize) -> Result<u64, Failure> {
    let mut all = lock(&ALL);
    let piece = all.pieces.range(..=address).next_back();
    let found = piece.filter(|(start, (_, bytes))| address - **start < *bytes);
    let Some(handle) = found.map(|(_, (handle, _))| *handle) else {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "virPtr: no memory is mapped at {address:#x}; map memory there with aclrtMapMem first"
        );
    };
    // Mapped memory exists even if the program has freed the last reference.
    let Some(physical) = all.physical.get_mut(&handle) else {
        return Err(unknown(HandleKind::PhysicalMemory, handle));
    };
    physical.refer()?;
    Ok(handle)
}

/// Adds a reference to physical memory. Returns its size in bytes and its device.
pub(crate) fn hold(handle: u64) -> Result<(usize, u32), Failure> {
    let mut all = lock(&ALL);
    let physical = all.find(handle)?;
    physical.refer()?;
    Ok((physical.bytes, physical.device))
}

/// Returns the properties that physical memory was allocated with.
pub(crate) fn properties(handle: u64) -> Result<aclrtPhysicalMemProp, Failure> {
    lock(&ALL).find(handle).map(|physical| physical.properties)
}

/// Ends the ranges and the physical memory on devices that end.
pub(crate) fn end_on(devices: &Range<u32>, by: &'static str) {
    let mut all = lock(&ALL);
    let is_on = |id: u32| devices.contains(&id);
    let on = all.physical.iter().filter(|(_, it)| is_on(it.device));
    let handles: Vec<u64> = on.map(|(handle, _)| *handle).collect();
    handles.into_iter().for_each(|handle| all.end(handle, by));
    // Nothing is mapped in them now: memory that is mapped in a range is memory of its device.
    let on = all.ranges.iter().filter(|(_, range)| is_on(range.device));
    let starts: Vec<usize> = on.map(|(start, _)| *start).collect();
    let ended: Vec<_> = starts.iter().filter_map(|start| all.ranges.remove(start)).collect();
    ended.iter().for_each(|range| all.give_up_place(&range.addresses.bytes()));
    drop(all);
    drop(ended);
}

impl VirtualMemory {
    /// Returns the physical memory of a handle, if the program may still use it.
    fn find(&mut self, handle: u64) -> Result<&mut Physical, Failure> {
        match self.physical.get_mut(&handle) {
            Some(physical) if physical.references > 0 => Ok(physical),
            _ => Err(unknown(HandleKind::PhysicalMemory, handle)),
        }
    }

    /// Brings the contents of physical memory of a device to a place. The range of the place then
    /// belongs to that device. Returns whether there are contents.
    fn bring_to(
        &mut self,
        handle: u64,
        place: &Range<usize>,
        device: u32,
    ) -> Result<bool, Failure> {
        let is_imported = self.find(handle)?.sharing.is_imported();
        let range = self.range_for(place, device, is_imported)?;
        let has_contents = self.bring(handle, place)?;
        if let Some(range) = self.ranges.get_mut(&range)
            && range.device != device
        {
            range.device = device;
            machine::assign(&range.addresses.bytes(), machine::device_slot(device));
        }
        Ok(has_contents)
    }

    /// Returns the start of the range that contains a place. Returns an error if memory is mapped
    /// at the place, or if memory of the device cannot be mapped there.
    fn range_for(
        &self,
        place: &Range<usize>,
        device: u32,
        is_imported: bool,
    ) -> Result<usize, Failure> {
        let Range { start, end } = *place;
        let range = self.ranges.range(..=start).next_back().map(|(_, range)| range);
        let Some(range) = range.filter(|it| end - it.addresses.start() <= it.bytes) else {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "virPtr: {start:#x} with {} bytes is in no reserved range; reserve the addresses \
                 with aclrtReserveMemAddress first",
                end - start
            );
        };
        if let Some((piece, _)) =
            self.pieces.range(..end).next_back().filter(|(at, (_, bytes))| *at + bytes > start)
        {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "virPtr: memory is mapped at {piece:#x} already, which overlaps {start:#x} with \
                 {} bytes; call aclrtUnmapMem first",
                end - start
            );
        }
        if range.device != device && self.pieces.range(range.addresses.bytes()).next().is_some() {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the physical memory is of device {}, and memory of device {} is mapped in \
                 the range; use another range, since a range has memory of one device",
                machine::named(device),
                machine::named(range.device)
            );
        }
        self.may_lie_in(range.addresses.bytes(), is_imported)?;
        Ok(range.addresses.start())
    }

    /// Brings the contents of physical memory to a place. Returns whether there are contents.
    fn bring(&mut self, handle: u64, place: &Range<usize>) -> Result<bool, Failure> {
        let physical = self.find(handle)?;
        if physical.sharing.is_fixed() {
            if !matches!(physical.contents, Contents::At(home) if home == place.start) {
                self.clear_place(place)?;
            }
            self.find(handle)?.show_at(place.start)?;
            return Ok(true);
        }
        match physical.contents {
            Contents::None => {
                self.clear_place(place)?;
                return Ok(false);
            }
            Contents::At(start) if start == place.start => return Ok(true),
            Contents::At(_) => physical.keep()?,
            Contents::Kept(_) => {}
        }
        self.clear_place(place)?;
        let physical = self.find(handle)?;
        if let Contents::Kept(bytes) = std::mem::replace(&mut physical.contents, Contents::None) {
            // SAFETY: the place lies in a range, whose data is mapped for ever; it has as many
            // bytes as the memory, and the vector is no part of it.
            unsafe {
                copy::copy(
                    data_of(place.start),
                    bytes.as_ptr(),
                    bytes.len(),
                    store_for(bytes.len()),
                )
            };
        }
        Ok(true)
    }

    /// Moves the bytes of physical memory out of a place, if the memory is not mapped but still has
    /// its bytes there.
    fn clear_place(&mut self, place: &Range<usize>) -> Result<(), Failure> {
        self.lying_in(place).try_for_each(Physical::keep)
    }

    /// Does the same as [`clear_place`](Self::clear_place), for a place that ends in any case. If
    /// there is no memory for the bytes, they are lost.
    fn give_up_place(&mut self, place: &Range<usize>) {
        for physical in self.lying_in(place) {
            if !physical.sharing.is_fixed() && physical.keep().is_err() {
                physical.contents = Contents::None;
            }
        }
    }

    /// Returns the physical memory that is not mapped, but has bytes in a place.
    fn lying_in(&mut self, place: &Range<usize>) -> impl Iterator<Item = &mut Physical> {
        self.physical.values_mut().filter(move |physical| {
            matches!(physical.contents, Contents::At(start)
                if start < place.end && place.start < start + physical.bytes)
        })
    }

    /// Unmaps the piece that begins at `start`. Returns false if no piece begins there.
    fn unmap(&mut self, start: usize, by: &'static str) -> Result<bool, Failure> {
        let Some((handle, _)) = self.pieces.get(&start).copied() else { return Ok(false) };
        self.end_rights(start);
        if let Some(physical) = self.physical.get_mut(&handle) {
            let device = machine::device_slot(physical.device);
            check::freed(Some(device.id), start, by);
            device.memory.unmap(start, by);
            // If this fails, no other memory is mapped here, and the next call tries it again.
            physical.hide_from(start)?;
            physical.mapped_at = None;
            if !physical.sharing.is_fixed() {
                physical.contents = Contents::At(start);
            }
        }
        self.pieces.remove(&start);
        self.end_if_unused(handle);
        Ok(true)
    }

    /// Ends physical memory that is no longer used (rule 3).
    fn end_if_unused(&mut self, handle: u64) {
        let is_unused = |it: &&mut Physical| it.references == 0 && it.mapped_at.is_none();
        let Some(physical) = self.physical.get_mut(&handle).filter(is_unused) else { return };
        if !physical.sharing.is_imported() && !physical.sharing.has_ended() {
            machine::device_slot(physical.device).memory.uncharge(physical.bytes);
        }
        if !shared::linger(handle, physical)
            && let Some(ended) = self.physical.remove(&handle)
        {
            ended.discard();
        }
    }
}

impl Physical {
    /// Adds a reference.
    fn refer(&mut self) -> Result<(), Failure> {
        match self.references.checked_add(1) {
            Some(more) => {
                self.references = more;
                Ok(())
            }
            None => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the memory has too many references; end some with aclrtFreePhysical"
            ),
        }
    }

    /// Moves the bytes out of the place where the memory was mapped. Leaves no bytes there, because
    /// they would count twice.
    fn keep(&mut self) -> Result<(), Failure> {
        let Contents::At(start) = self.contents else { return Ok(()) };
        self.may_move(start)?;
        let mut kept = Vec::new();
        if kept.try_reserve_exact(self.bytes).is_err() {
            return fail!(
                ACL_ERROR_RT_MEMORY_ALLOCATION,
                "no memory for the {} bytes of physical memory that was mapped at {start:#x}; free \
                 memory of the host",
                self.bytes
            );
        }
        // SAFETY: the bytes were a piece, whose data is mapped for ever. `self.bytes` bytes are
        // reserved, and all of them are written before the length says so.
        unsafe {
            copy::copy(kept.as_mut_ptr(), data_of(start), self.bytes, store_for(self.bytes));
            kept.set_len(self.bytes);
        }
        self.contents = Contents::Kept(kept);
        window::discard(data_of(start).addr(), self.bytes);
        Ok(())
    }
}

/// Returns the address of the data of a reserved address.
fn data_of(address: usize) -> *mut u8 {
    let data = window::reserved().map_or(0, |windows| windows.data_of(address));
    std::ptr::with_exposed_provenance_mut(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number of bytes that no memory has.
    const TOO_MANY: usize = 1 << 63;

    fn physical(bytes: usize, contents: Contents) -> Physical {
        let properties = aclrtPhysicalMemProp::default();
        let sharing = shared::Sharing::default();
        Physical { device: 0, bytes, properties, references: 1, mapped_at: None, contents, sharing }
    }

    fn holding(physical: impl IntoIterator<Item = Physical>) -> VirtualMemory {
        VirtualMemory {
            last: 0,
            physical: (1..).zip(physical).collect(),
            ranges: BTreeMap::new(),
            pieces: BTreeMap::new(),
            rights: BTreeMap::new(),
        }
    }

    #[test]
    fn memory_that_cannot_be_kept_has_no_bytes_at_a_place_that_is_given_up() {
        let there = physical(TOO_MANY, Contents::At(4 * GRANULARITY));
        let elsewhere = physical(GRANULARITY, Contents::At(9 * GRANULARITY));
        let mut all = holding([there, elsewhere]);
        let place = 4 * GRANULARITY..5 * GRANULARITY;
        assert!(all.clear_place(&place).is_err());
        assert!(matches!(all.physical[&1].contents, Contents::At(_)));
        all.give_up_place(&place);
        assert!(matches!(all.physical[&1].contents, Contents::None));
        assert!(matches!(all.physical[&2].contents, Contents::At(_)), "it lies elsewhere");
    }

    #[test]
    fn a_map_that_fails_leaves_the_range_to_its_device() {
        let start = 4 * GRANULARITY;
        let mut other = physical(GRANULARITY, Contents::None);
        other.device = 1;
        let mut all = holding([physical(TOO_MANY, Contents::At(start)), other]);
        let addresses = start..start + GRANULARITY;
        all.ranges.insert(
            start,
            ReservedRange {
                addresses: Arc::new(shared::HeldAddresses::new(addresses.clone())),
                bytes: GRANULARITY,
                device: 0,
            },
        );
        let refused = all.bring_to(2, &addresses, 1);
        assert!(refused.is_err_and(|why| why.text.contains("no memory for the")));
        assert_eq!(all.ranges[&start].device, 0);
        // The addresses are invented, so they must not be released.
        all.ranges.into_values().for_each(|range| shared::forget(range.addresses));
    }
}
