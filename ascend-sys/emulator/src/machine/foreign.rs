//! Makes memory of other processes memory of this process. It becomes memory of the device that is
//! the same card, at addresses of this process, or pinned host memory.
//!
//! The addresses are taken from the ranges of that device or of pinned host memory. So any code
//! that classifies a pointer finds its device and its data, as for any other pointer.

use std::os::fd::BorrowedFd;

use super::{Device, assign, blocks, device_slot};
use crate::check;
use crate::later;
use crate::memory::pool::outside::is_any_mapped;
use crate::memory::pool::{MemoryPool, PAGE};
use crate::memory::window::{self, GRANULE};
use crate::memory::{MemoryPlace, foreign_host_addresses, host_pool, place_of};
use crate::message::{Failure, fail};
use crate::progress::are_complete;
use crate::stream::unfinished_on;
use ascend_sys::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the device of this process that is the same card as the device `card` of another
/// process. `user` is a device that the calling thread uses.
pub(crate) fn card_of(user: &Device, card: u32) -> Result<&'static Device, String> {
    match user.settings() {
        Some(block) if card < block.count => Ok(device_slot(block.first + card)),
        Some(block) => Err(format!(
            "it is on card {card}, but the number of cards of this program is {}; give this \
             program more devices",
            block.count
        )),
        None => Err("the calling thread's device is gone; set one with aclrtSetDevice".into()),
    }
}

/// The number of [`ForeignMemory`] values. If it is 0, callers need not search for foreign memory.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The kind of memory that memory of another process becomes in this process.
#[derive(Clone, Copy)]
pub(crate) enum ForeignPlace {
    /// Memory of this device of this process.
    Device(&'static Device),
    /// Pinned host memory.
    Host,
}

/// A part of a memory file of another process, as memory of this process.
pub(crate) struct ForeignMemory {
    place: ForeignPlace,
    addresses: Range<usize>,
    /// The call that ended the memory, for later messages about its addresses.
    ended_by: &'static str,
}

impl ForeignPlace {
    /// Returns the pool that contains the memory.
    fn pool(self) -> &'static MemoryPool {
        match self {
            Self::Device(device) => &device.memory,
            Self::Host => host_pool(),
        }
    }

    /// Takes addresses. Returns `None` if none are left.
    fn take_addresses(self, bytes: usize, by: &'static str) -> Result<Option<usize>, Failure> {
        Ok(match self {
            Self::Device(_) => blocks()?.ranges.take_addresses(bytes, by),
            Self::Host => foreign_host_addresses().allocate(bytes, 0, by).ok(),
        })
    }

    /// Releases addresses.
    fn free_addresses(self, start: usize, by: &'static str) {
        match self {
            Self::Device(_) => {
                if let Ok(blocks) = blocks() {
                    blocks.ranges.free_addresses(start, by);
                }
            }
            Self::Host => _ = foreign_host_addresses().free(start, by, Vec::new),
        }
    }

    /// Returns the alignment of the memory's addresses, in bytes.
    fn unit(self) -> usize {
        match self {
            Self::Device(_) => GRANULE,
            Self::Host => PAGE,
        }
    }

    /// Returns the address at which the data of a nominal address is mapped.
    fn data_of(self, address: usize) -> usize {
        match self {
            Self::Device(_) => window::reserved().map_or(0, |windows| windows.data_of(address)),
            Self::Host => address,
        }
    }
}

impl ForeignMemory {
    /// Makes `bytes` bytes of the file an allocation. They begin at the offset `start`, which is
    /// the start of a page. `entry` is the call that makes the allocation. The allocation ends when
    /// the returned value is dropped.
    pub(crate) fn new(
        place: ForeignPlace,
        (file, start): (BorrowedFd<'_>, usize),
        bytes: usize,
        process: u32,
        entry: &'static str,
    ) -> Result<Self, Failure> {
        // This call may free addresses.
        later::look();
        let span = bytes.checked_next_multiple_of(place.unit()).unwrap_or(usize::MAX);
        let taken = place.take_addresses(span, entry)?.map(|at| at..at + span);
        let Some(addresses) = taken else {
            return fail!(
                ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                "no address space is left for {bytes} bytes of another process; end imports that \
                 are no longer needed"
            );
        };
        if let Err(e) = window::shown::show(place.data_of(addresses.start), bytes, file, start) {
            place.free_addresses(addresses.start, entry);
            return fail!(
                ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                "{bytes} bytes of another process cannot be mapped: {e}. Check the limits on \
                 address space and open files (ulimit -v, ulimit -n)"
            );
        }
        if let ForeignPlace::Device(device) = place {
            assign(&addresses, device);
        }
        place.pool().adopt(addresses.start, bytes, process, entry);
        LIVE.fetch_add(1, Ordering::Relaxed);
        Ok(Self { place, addresses, ended_by: "the end of what reached it" })
    }

    pub(crate) fn addresses(&self) -> &Range<usize> {
        &self.addresses
    }

    /// Ends the memory. `by` is the call that ends it, for messages.
    pub(crate) fn end(mut self, by: &'static str) {
        self.ended_by = by;
    }
}

impl Drop for ForeignMemory {
    /// Makes the memory unreachable for new work. Work that is queued now may still reach it, so
    /// its addresses are released only after that work.
    fn drop(&mut self) {
        let (place, addresses) = (self.place, self.addresses.clone());
        place.pool().release(addresses.start, self.ended_by);
        check::reaches_no_more(addresses.start);
        LIVE.fetch_sub(1, Ordering::Relaxed);
        let mut until = unfinished_on(0..u32::MAX);
        later::until_done(move || {
            let is_done = are_complete(&mut until);
            // Addresses that still show memory of another process are not used again. The addresses
            // stay assigned to their device, so that an error can say what was there.
            if is_done
                && window::shown::hide(place.data_of(addresses.start), addresses.len()).is_ok()
            {
                place.free_addresses(addresses.start, "its end");
            }
            is_done
        });
    }
}

/// Returns whether an address is outside of the memory that other processes can map. It is then in
/// memory of another process, or in memory that a program has mapped.
#[inline]
pub(crate) fn is_outside(address: usize) -> bool {
    let is_mapped = || match place_of(address) {
        Ok(MemoryPlace::Device(id)) => device_slot(id).memory.is_outside(address),
        Ok(MemoryPlace::Pinned | MemoryPlace::Pageable) | Err(_) => false,
    };
    is_foreign(address) || is_any_mapped() && is_mapped()
}

/// Returns whether an address is in memory of another process.
#[inline]
pub(crate) fn is_foreign(address: usize) -> bool {
    (LIVE.load(Ordering::Relaxed) != 0 || is_any_mapped())
        && match place_of(address) {
            Ok(MemoryPlace::Device(id)) => device_slot(id).memory.is_adopted(address),
            Ok(MemoryPlace::Pinned) => host_pool().is_adopted(address),
            Ok(MemoryPlace::Pageable) | Err(_) => false,
        }
}
