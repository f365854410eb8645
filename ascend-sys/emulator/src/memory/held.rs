//! Bytes that something will use again later: only as long as the allocation is the one that they
//! were found in.
//!
//! An address alone says too little, since freed memory may be allocated anew.

use super::pool::MemoryPool;
use super::{MemoryPlace, host_pool, is_registered, nominal, place_of};
use crate::machine;

/// Bytes of one allocation, or of registered host memory.
pub(crate) struct HeldMemory {
    address: usize,
    length: usize,
    owner: HeldOwner,
}

enum HeldOwner {
    Pool {
        pool: &'static MemoryPool,
        number: u64,
        /// Nothing was freed since the last look, if the pool's epoch still is this one.
        epoch: u64,
    },
    Registered,
}

/// Notes the owners of all of these bytes, as [`HeldMemory::new`] does.
pub(crate) fn hold(
    bytes: impl IntoIterator<Item = (*const u8, usize)>,
) -> Result<Vec<HeldMemory>, String> {
    bytes
        .into_iter()
        .filter_map(|(data, length)| HeldMemory::new(data, length).transpose())
        .collect()
}

impl HeldMemory {
    /// Notes the owner of these bytes of data. `None` if there are no bytes, and for pageable
    /// memory, whose owner is unknown.
    pub(crate) fn new(data: *const u8, length: usize) -> Result<Option<HeldMemory>, String> {
        if length == 0 {
            return Ok(None);
        }
        let address = nominal(data);
        let pool = match place_of(address)? {
            MemoryPlace::Device(id) => &machine::device_in_use(id)?.memory,
            MemoryPlace::Pinned if is_registered(address, length) => {
                return Ok(Some(HeldMemory { address, length, owner: HeldOwner::Registered }));
            }
            MemoryPlace::Pinned => host_pool(),
            MemoryPlace::Pageable => return Ok(None),
        };
        let epoch = pool.epoch();
        let number = pool.number_of(address, length)?;
        Ok(Some(HeldMemory { address, length, owner: HeldOwner::Pool { pool, number, epoch } }))
    }

    /// Whether the bytes still belong to the same owner; the error says what became of them.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let HeldMemory { address, length, .. } = *self;
        match &mut self.owner {
            HeldOwner::Pool { pool, number, epoch } => {
                let now = pool.epoch();
                if now != *epoch {
                    pool.is_still(*number, address, length)?;
                    *epoch = now;
                }
                Ok(())
            }
            HeldOwner::Registered if is_registered(address, length) => Ok(()),
            HeldOwner::Registered => {
                Err(format!("{address:#x} is host memory that is no longer registered"))
            }
        }
    }
}
