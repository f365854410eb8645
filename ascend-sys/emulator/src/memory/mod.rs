//! The lookup of pointers: the memory that they point to, and the address of its data.
//!
//! Every operation calls [`resolve`]. So `resolve` keeps the last few allocations that a thread
//! used. They stay valid until an allocation of their pool ends.

pub(crate) mod held;
pub(crate) mod pool;
mod shadow;
pub(crate) mod window;

use crate::machine;
use pool::MemoryPool;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The kind of memory that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryPlace {
    /// Memory of the device with this id.
    Device(u32),
    /// Host memory of `aclrtMallocHost`, or registered host memory. The device reaches it at any
    /// time.
    Pinned,
    /// Any other host memory, whose lifetime is unknown.
    Pageable,
}

/// Checked bytes: the address of their data, and the kind of their memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) data: *mut u8,
    pub(crate) place: MemoryPlace,
}

#[derive(Clone, Copy)]
struct KnownAllocation {
    start: usize,
    length: usize,
    epoch: u64,
    pool: Option<&'static MemoryPool>,
    /// The distance from the nominal address to the data.
    distance: usize,
    place: MemoryPlace,
}

const NOTHING: KnownAllocation = KnownAllocation {
    start: 0,
    length: 0,
    epoch: 0,
    pool: None,
    distance: 0,
    place: MemoryPlace::Pageable,
};
const KNOWN: usize = 4;

struct Recent {
    known: [Cell<KnownAllocation>; KNOWN],
    oldest: Cell<usize>,
}

thread_local! {
    static RECENT: Recent = const { Recent { known: [const { Cell::new(NOTHING) }; KNOWN], oldest: Cell::new(0) } };
}

/// Finds and checks `length` bytes at `address`. The error says what is wrong with the address.
/// Pageable memory cannot be checked and is used as it is.
#[inline]
pub(crate) fn resolve(address: usize, length: usize) -> Result<Bytes, String> {
    RECENT.with(|recent| {
        for known in &recent.known {
            let known = known.get();
            let offset = address.wrapping_sub(known.start);
            if offset < known.length
                && length <= known.length - offset
                && known.pool.is_some_and(|pool| pool.epoch() == known.epoch)
            {
                return Ok(Bytes {
                    data: address.wrapping_add(known.distance) as *mut u8,
                    place: known.place,
                });
            }
        }
        search(recent, address, length)
    })
}

#[cold]
fn search(recent: &Recent, address: usize, length: usize) -> Result<Bytes, String> {
    let (pool, place, distance) = match place_of(address)? {
        MemoryPlace::Device(id) => {
            let device = machine::device_in_use(id)?;
            (&device.memory, MemoryPlace::Device(id), data_distance())
        }
        MemoryPlace::Pinned if is_registered(address, length) => {
            return Ok(Bytes { data: address as *mut u8, place: MemoryPlace::Pinned });
        }
        MemoryPlace::Pinned => (host_pool(), MemoryPlace::Pinned, 0),
        MemoryPlace::Pageable if address.checked_add(length).is_none() => {
            return Err(format!(
                "{address:#x} with {length} bytes reaches beyond all addresses; pass the size of \
                 the memory"
            ));
        }
        MemoryPlace::Pageable => {
            return Ok(Bytes { data: address as *mut u8, place: MemoryPlace::Pageable });
        }
    };
    let epoch = pool.epoch();
    let (start, end) = pool.find(address, length)?;
    let slot = recent.oldest.get();
    recent.oldest.set((slot + 1) % KNOWN);
    recent.known[slot].set(KnownAllocation {
        start,
        length: end - start,
        epoch,
        pool: Some(pool),
        distance,
        place,
    });
    Ok(Bytes { data: address.wrapping_add(distance) as *mut u8, place })
}

/// Returns the kind of memory that an address belongs to, without a look at the allocations. The
/// error is for an address in the range of device memory that belongs to no device, and names the
/// address.
pub(crate) fn place_of(address: usize) -> Result<MemoryPlace, String> {
    if let Some(windows) = window::reserved() {
        let offset = address.wrapping_sub(windows.nominal);
        if offset < windows.device_bytes {
            return match machine::device_of_granule(offset / window::GRANULE) {
                Ok(id) => Ok(MemoryPlace::Device(id)),
                Err(what) => Err(format!("{address:#x} is {what}")),
            };
        }
        if windows.is_host(address) {
            return Ok(MemoryPlace::Pinned);
        }
    }
    Ok(if is_registered(address, 1) { MemoryPlace::Pinned } else { MemoryPlace::Pageable })
}

fn data_distance() -> usize {
    window::reserved().map_or(0, |windows| windows.data.wrapping_sub(windows.nominal))
}

/// Returns the address that programs use for a byte of data.
pub(crate) fn nominal(data: *const u8) -> usize {
    let address = data.addr();
    match window::reserved() {
        Some(windows) if address.wrapping_sub(windows.data) < windows.device_bytes => {
            windows.nominal_of(address)
        }
        _ => address,
    }
}

/// Returns the pool of the process's pinned host memory.
pub(crate) fn host_pool() -> &'static MemoryPool {
    static HOST: OnceLock<MemoryPool> = OnceLock::new();
    HOST.get_or_init(|| {
        let pool = MemoryPool::new();
        if let Ok(windows) = window::windows() {
            pool.open(
                "pinned host memory".into(),
                windows.host,
                windows.host_bytes,
                windows.host_bytes as u64,
            );
        }
        pool
    })
}

/// Returns the pool of addresses for pinned host memory of other processes. [`host_pool`] adopts
/// that memory.
pub(crate) fn foreign_host_addresses() -> &'static MemoryPool {
    static ADDRESSES: OnceLock<MemoryPool> = OnceLock::new();
    ADDRESSES.get_or_init(|| {
        let pool = MemoryPool::new();
        if let Ok(windows) = window::windows() {
            let (start, bytes) = (windows.host + windows.host_bytes, windows.foreign_host_bytes);
            pool.open("host memory of other processes".into(), start, bytes, bytes as u64);
        }
        pool
    })
}

static REGISTERED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
/// The number of registered ranges. It is usually 0, and then no thread takes the lock.
static REGISTERED_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Returns whether all of these bytes are host memory that the program has registered.
pub(crate) fn is_registered(address: usize, length: usize) -> bool {
    if REGISTERED_COUNT.load(Ordering::Acquire) == 0 {
        return false;
    }
    let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    registered.range(..=address).next_back().is_some_and(|(start, bytes)| {
        let offset = address - start;
        offset < *bytes && length <= bytes - offset
    })
}

/// Returns the registered memory that begins at an address.
pub(crate) fn registered_at(start: usize) -> Option<Range<usize>> {
    let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    registered.get(&start).map(|bytes| start..start + bytes)
}

/// Registers host memory of the caller as pinned. Returns false if a part of it is registered
/// already, or if the range exceeds the address space.
pub(crate) fn register_host(start: usize, bytes: usize) -> bool {
    let Some(end) = start.checked_add(bytes) else { return false };
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if registered.range(..end).next_back().is_some_and(|(before, size)| before + size > start) {
        return false;
    }
    registered.insert(start, bytes);
    REGISTERED_COUNT.store(registered.len(), Ordering::Release);
    true
}

/// Unregisters memory of [`register_host`]. Returns false if no registered memory begins at
/// `start`.
pub(crate) fn unregister_host(start: usize) -> bool {
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = registered.remove(&start).is_some();
    REGISTERED_COUNT.store(registered.len(), Ordering::Release);
    known
}
