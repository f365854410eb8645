//! Global memory that a kernel may access: only the allocations to which its arguments point.
//!
//! Every access is checked when it is made. It must lie in the allocation to which the argument
//! pointed when the kernel began, or in the part of it that the caller gave. So an overrun is
//! reported even if it would hit memory of another allocation. An access to a buffer that was freed
//! while the kernel runs is reported too.

use super::abroad::AbroadWindow;
use crate::machine;
use crate::memory::pool::MemoryPool;
use crate::memory::{self, MemoryPlace};
use ascend_reduce::Store;
use ascend_reduce::copy;

/// The memory that a kernel may access through one argument.
#[derive(Clone)]
pub(super) struct Region {
    /// The name of the argument or window in the kernel.
    pub(super) name: String,
    /// The address of offset 0, as programs use it.
    start: usize,
    /// The end of the allocation, or of the part that the kernel may touch.
    end: usize,
    owner: RegionOwner,
    /// The distance from the address that programs use to the address of the data.
    distance: usize,
}

/// The owner of the memory of a region.
#[derive(Clone)]
enum RegionOwner {
    /// A device of this process.
    Device {
        device: u32,
        pool: &'static MemoryPool,
        number: u64,
        /// The epoch of the pool at the last check. If it is unchanged, nothing was freed since.
        epoch: u64,
    },
    /// A rank in another process.
    Abroad(AbroadWindow),
}

/// A place in a region, in bytes.
#[derive(Clone)]
pub(super) struct RegionAddress {
    pub(super) region: Region,
    pub(super) offset: u64,
}

impl Region {
    /// Makes the region from `address` to the end of the allocation of `device` that contains it.
    pub(super) fn new(name: &str, address: u64, device: u32) -> Result<Region, String> {
        if address == 0 {
            return Err(format!("{name} is NULL; pass device memory (aclrtMalloc)"));
        }
        let start = usize::try_from(address).unwrap_or(usize::MAX);
        match memory::place_of(start).map_err(|text| format!("{name}: {text}"))? {
            MemoryPlace::Device(id) if id == device => {}
            MemoryPlace::Device(id) => {
                return Err(format!(
                    "{name} ({start:#x}) is memory of device {id}, but the kernel runs on \
                     {device}; pass memory of device {device}",
                    device = machine::named(device),
                    id = machine::named(id)
                ));
            }
            MemoryPlace::Pinned | MemoryPlace::Pageable => {
                return Err(format!(
                    "{name} ({start:#x}) is not memory of device {device}; pass memory of that \
                     device (aclrtMalloc)",
                    device = machine::named(device)
                ));
            }
        }
        let pool = &machine::device_slot(device).memory;
        let epoch = pool.epoch();
        let named = |text| format!("{name}: {text}");
        let (_, end) = pool.find(start, 1).map_err(named)?;
        let number = pool.number_of(start, 1).map_err(named)?;
        let data = memory::resolve(start, 1).map_err(named)?.data;
        let distance = data.addr().wrapping_sub(start);
        let owner = RegionOwner::Device { device, pool, number, epoch };
        Ok(Region { name: name.into(), start, end, owner, distance })
    }

    /// Makes the region of a window of a rank in another process.
    pub(super) fn abroad(name: &str, window: AbroadWindow) -> Region {
        let (start, end) = (window.data, window.data + window.bytes);
        Region { name: name.into(), start, end, owner: RegionOwner::Abroad(window), distance: 0 }
    }

    /// Returns the rank that owns the memory, if it is in another process.
    pub(super) fn rank_abroad(&self) -> Option<usize> {
        match &self.owner {
            RegionOwner::Device { .. } => None,
            RegionOwner::Abroad(window) => Some(window.rank),
        }
    }

    /// Returns the region shortened to at most `bytes` bytes.
    pub(super) fn first(self, bytes: u64) -> Region {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let end = self.start.saturating_add(bytes).min(self.end);
        Region { end, ..self }
    }

    /// Returns the address of the data of `bytes` bytes at an offset. Checks the access.
    pub(super) fn at(&mut self, offset: u64, bytes: u64) -> Result<*mut u8, String> {
        let room = (self.end - self.start) as u64;
        if offset.checked_add(bytes).is_none_or(|end| end > room) {
            let (name, past) = (&self.name, offset.saturating_add(bytes) - room);
            return Err(format!(
                "bytes {offset} to {} of {name} are touched, {past} beyond its end: it has \
                 {room} bytes; touch fewer, or pass a larger buffer",
                offset.saturating_add(bytes)
            ));
        }
        let still = match &mut self.owner {
            RegionOwner::Device { pool, number, epoch: known, .. } => {
                let epoch = pool.epoch();
                let is_new = std::mem::replace(known, epoch) != epoch;
                match is_new {
                    true => pool.is_still(*number, self.start, self.end - self.start),
                    false => Ok(()),
                }
            }
            RegionOwner::Abroad(window) => window.check(),
        };
        still.map_err(|text| format!("{}: {text}", self.name))?;
        // The offset lies within the allocation, so the sum does not overflow.
        let address = self.start + offset as usize;
        Ok(std::ptr::with_exposed_provenance_mut(address.wrapping_add(self.distance)))
    }

    /// Copies bytes from the region to `to`.
    pub(super) fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<(), String> {
        let from = self.at(offset, to.len() as u64)?;
        // SAFETY: the bytes lie in a live allocation of a device, and `to` is a local buffer of the
        // emulator.
        unsafe { copy::copy(to.as_mut_ptr(), from, to.len(), Store::Plain) };
        Ok(())
    }

    /// Copies the bytes of `from` to the region.
    pub(super) fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), String> {
        let to = self.at(offset, from.len() as u64)?;
        // SAFETY: as above.
        unsafe { copy::copy(to, from.as_ptr(), from.len(), Store::Plain) };
        Ok(())
    }

    /// Returns the device that owns the memory, if it is in this process.
    pub(super) fn device(&self) -> Option<u32> {
        match self.owner {
            RegionOwner::Device { device, .. } => Some(device),
            RegionOwner::Abroad(_) => None,
        }
    }

    /// Returns the start address, as programs use it, and the number of bytes.
    pub(super) fn extent(&self) -> (usize, usize) {
        (self.start, self.end - self.start)
    }
}

impl RegionAddress {
    /// Returns the address of the data of `bytes` bytes that begin `offset` bytes after this
    /// address.
    pub(super) fn at(&mut self, offset: u64, bytes: u64) -> Result<*mut u8, String> {
        self.region.at(self.offset.saturating_add(offset), bytes)
    }
}
