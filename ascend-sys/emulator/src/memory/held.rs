//! Bytes that an object uses again later. They may be used only as long as they still belong to the
//! allocation in which they were found.
//!
//! An address alone does not show this, because freed memory may be allocated again.

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
        /// The epoch of the pool at the last check. If the pool still has this epoch, no allocation
        /// of the pool has ended since.
        epoch: u64,
    },
    Registered,
}

/// Notes the owner of each of these ranges, as [`HeldMemory::new`] does.
pub(crate) fn hold(
    bytes: impl IntoIterator<Item = (*const u8, usize)>,
) -> Result<Vec<HeldMemory>, String> {
    bytes
        .into_iter()
        .filter_map(|(data, length)| HeldMemory::new(data, length).transpose())
        .collect()
}

impl HeldMemory {
    /// Notes the owner of these bytes of data. Returns `None` if there are no bytes, or if they are
    /// pageable memory, whose owner is unknown.
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

    /// Returns an error if the bytes have another owner now. The error says what happened to them.
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
            HeldOwner::Registered => Err(format!(
                "{address:#x} is host memory that is no longer registered; keep it registered \
                 until its last use"
            )),
        }
    }
}
