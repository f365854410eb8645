//! Memory ranges: reserved addresses with physical memory that all ranks of a communicator declare,
//! so that collectives need no copy. Only the A3 has them.
//!
//! Collectives of the emulator make no copy in any case, so a range has no effect on them. All
//! ranks declare a range together; every other step concerns only the calling rank.

use crate::fabric::{CommPart, Member};
use crate::message::{Failure, refuse};
use crate::profile::Product;
use crate::virtual_memory;
use ascend_sync::lock_std as lock;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The ranges of the ranks of a communicator, by rank. Those of ranks in other processes stay
/// empty.
struct MemoryRanges(Mutex<Vec<RangesOfRank>>);

#[derive(Default)]
struct RangesOfRank {
    /// The number of ranges that the rank has declared.
    declared: u64,
    /// The ranges, by their start addresses.
    ranges: BTreeMap<usize, MemoryRange>,
}

struct MemoryRange {
    end: usize,
    /// The active blocks, by their start addresses.
    blocks: BTreeMap<usize, ActiveBlock>,
}

/// Physical memory that is active in a range.
struct ActiveBlock {
    end: usize,
    handle: u64,
}

impl CommPart for MemoryRanges {
    fn left(&self, rank: usize, _: &str) {
        let Some(left) = lock(&self.0).get_mut(rank).map(std::mem::take) else { return };
        for block in left.ranges.into_values().flat_map(|range| range.blocks.into_values()) {
            block.end();
        }
    }
}

impl ActiveBlock {
    fn end(self) {
        // An error means that the memory was freed with its device.
        let _ = virtual_memory::free(self.handle);
    }
}

/// Calls `use_it` with the ranges of a rank. Returns an error unless the product is an A3 and the
/// communicator is within one server.
fn with_ranges<R>(
    member: &Member,
    use_it: impl FnOnce(&mut RangesOfRank) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let comm = &member.comm;
    if comm.product != Product::A3 {
        return refuse!(HCCL_E_NOT_SUPPORT, "{} has no memory ranges; use an A3", comm.product);
    }
    if comm.layers().len() > 1 {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "the communicator has ranks in more than one server, but memory ranges reach only \
             one; use a communicator within one server"
        );
    }
    let new = || MemoryRanges(Mutex::new((0..comm.ranks()).map(|_| Default::default()).collect()));
    match lock(&comm.part(new).0).get_mut(member.rank) {
        Some(ranges) => use_it(ranges),
        None => refuse!(HCCL_E_INTERNAL, "EI9999: there is no rank {}", member.rank),
    }
}

/// Returns the end address of a range or block. Returns an error if the range has no bytes, or
/// reaches beyond the end of all addresses.
fn addresses(start: usize, bytes: usize) -> Result<usize, Failure> {
    match start.checked_add(bytes) {
        Some(end) if bytes > 0 => Ok(end),
        _ => refuse!(
            HCCL_E_PARA,
            "{start:#x} with {bytes} bytes is not a range of addresses; pass at least 1 byte, \
             and no more than there are up to the last address"
        ),
    }
}

/// Returns the start of an entry of a list that overlaps these addresses, if there is one.
fn overlaps<T>(
    list: &BTreeMap<usize, T>,
    end_of: impl Fn(&T) -> usize,
    (start, end): (usize, usize),
) -> Option<usize> {
    let (at, last) = list.range(..end).next_back()?;
    (end_of(last) > start).then_some(*at)
}

/// Declares a range, and blocks until all ranks have declared their range.
pub(crate) fn declare(
    member: &Member,
    start: usize,
    bytes: usize,
    by: &'static str,
) -> Result<(), Failure> {
    let end = addresses(start, bytes)?;
    let number = with_ranges(member, |known| {
        if let Some(at) = overlaps(&known.ranges, |range| range.end, (start, end)) {
            return refuse!(
                HCCL_E_PARA,
                "{start:#x} with {bytes} bytes overlaps the range at {at:#x}; end that one first \
                 (HcclCommUnsetMemoryRange)"
            );
        }
        known.declared += 1;
        Ok(known.declared)
    })?;
    let purpose = format!("memory range {number}");
    member.comm.meet_once(member.rank, &purpose, String::new(), by)?;
    with_ranges(member, |known| {
        known.ranges.insert(start, MemoryRange { end, blocks: BTreeMap::new() });
        Ok(())
    })
}

/// Ends a range. No memory may be active in it.
pub(crate) fn forget(member: &Member, start: usize) -> Result<(), Failure> {
    with_ranges(member, |known| {
        let Some(range) = known.ranges.get(&start) else {
            return refuse!(HCCL_E_PARA, "no range begins at {start:#x}; pass the start of one");
        };
        if let Some(block) = range.blocks.keys().next() {
            return refuse!(
                HCCL_E_PARA,
                "memory is active in the range at {block:#x}; call HcclCommDeactivateCommMemory first"
            );
        }
        known.ranges.remove(&start);
        Ok(())
    })
}

impl RangesOfRank {
    /// Checks that the rank has declared a range before, as CANN requires.
    fn check_begun(&self, by: &str) -> Result<(), Failure> {
        if self.declared > 0 {
            return Ok(());
        }
        refuse!(HCCL_E_INTERNAL, "{by} needs a memory range; call HcclCommSetMemoryRange first")
    }
}

/// Makes physical memory active in a range. The memory stays until it is deactivated, even if the
/// program frees it.
pub(crate) fn activate(
    member: &Member,
    start: usize,
    bytes: usize,
    handle: u64,
    by: &'static str,
) -> Result<(), Failure> {
    with_ranges(member, |known| {
        known.check_begun(by)?;
        let end = addresses(start, bytes)?;
        let range = known.ranges.range_mut(..=start).next_back().map(|(_, range)| range);
        let Some(range) = range.filter(|range| end <= range.end) else {
            return refuse!(
                HCCL_E_PARA,
                "{start:#x} with {bytes} bytes lies in no memory range; pass addresses of one \
                 (HcclCommSetMemoryRange)"
            );
        };
        if let Some(at) = overlaps(&range.blocks, |block| block.end, (start, end)) {
            return refuse!(
                HCCL_E_PARA,
                "{start:#x} with {bytes} bytes overlaps the memory that is active at {at:#x}; \
                 deactivate that first (HcclCommDeactivateCommMemory)"
            );
        }
        let (size, device) = match virtual_memory::hold(handle) {
            Ok(found) => found,
            Err(failure) => return refuse!(HCCL_E_RUNTIME, "handle: {}", failure.text),
        };
        let block = ActiveBlock { end, handle };
        if device != member.device || bytes > size {
            block.end();
            return refuse!(
                HCCL_E_PARA,
                "{bytes} bytes of device {} are needed, but the physical memory has {size} bytes \
                 of device {}; pass memory of the size and the device",
                crate::machine::named(member.device),
                crate::machine::named(device)
            );
        }
        range.blocks.insert(start, block);
        Ok(())
    })
}

/// Deactivates the physical memory that is active from an address on.
pub(crate) fn deactivate(member: &Member, start: usize, by: &'static str) -> Result<(), Failure> {
    let block = with_ranges(member, |known| {
        known.check_begun(by)?;
        let mut ranges = known.ranges.values_mut();
        match ranges.find_map(|range| range.blocks.remove(&start)) {
            Some(block) => Ok(block),
            None => refuse!(HCCL_E_PARA, "no active memory begins at {start:#x}; pass its start"),
        }
    })?;
    block.end();
    Ok(())
}
