//! The rights of devices to access mapped memory. A program gives them for pieces, and they end
//! with the pieces.

use super::{ALL, VirtualMemory};
use crate::machine;
use crate::message::{Failure, fail};
use ascend_sync::lock_std as lock;
use ascend_sys::{ACL_ERROR_RT_PARAM_INVALID, aclrtMemAccessFlags};
use std::collections::BTreeMap;

/// The right of a device to access a piece.
pub(crate) type AccessRight = aclrtMemAccessFlags;

/// The rights that the program has given, by piece (named by its first address) and device.
pub(super) type Rights = BTreeMap<(usize, u32), AccessRight>;

/// Gives devices rights to adjacent whole pieces. A device that gets a right to memory of another
/// device also gets access to that device.
pub(crate) fn set(start: usize, bytes: usize, given: &[(u32, AccessRight)]) -> Result<(), Failure> {
    let mut all = lock(&ALL);
    let (pieces, owner) = all.whole_pieces(start, bytes)?;
    let block = machine::device_slot(owner).block();
    for (device, _) in given {
        if machine::device_slot(*device).block() != block {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "desc: device {device} and the memory's device {owner} belong to different blocks; \
                 name devices of one block"
            );
        }
    }
    for (device, right) in given {
        all.rights.extend(pieces.iter().map(|piece| ((*piece, *device), *right)));
        if *device != owner && *right != AccessRight::ACL_RT_MEM_ACCESS_FLAGS_NONE {
            machine::device_slot(*device).peers().insert(owner);
        }
    }
    Ok(())
}

/// Returns the right of a device to the piece that contains an address.
pub(crate) fn of(address: usize, device: u32) -> Result<AccessRight, Failure> {
    let all = lock(&ALL);
    let Some((piece, owner)) = all.piece_at(address) else {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "virPtr: no memory is mapped at {address:#x}; map memory there with aclrtMapMem first"
        );
    };
    let unsaid = match owner == device {
        true => AccessRight::ACL_RT_MEM_ACCESS_FLAGS_READWRITE,
        false => AccessRight::ACL_RT_MEM_ACCESS_FLAGS_NONE,
    };
    Ok(all.rights.get(&(piece, device)).copied().unwrap_or(unsaid))
}

impl VirtualMemory {
    /// Returns the piece that contains an address, and its device.
    fn piece_at(&self, address: usize) -> Option<(usize, u32)> {
        let (start, (handle, bytes)) = self.pieces.range(..=address).next_back()?;
        let device = self.physical.get(handle)?.device;
        (address - start < *bytes).then_some((*start, device))
    }

    /// Returns the pieces that these bytes consist of, and their device.
    fn whole_pieces(&self, start: usize, bytes: usize) -> Result<(Vec<usize>, u32), Failure> {
        let wrong = |at: usize| {
            fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "virPtr {start:#x} with {bytes} bytes: from {at:#x} on, this is not made of whole \
                 pieces of one device; pass adjacent whole pieces that aclrtMapMem has mapped"
            )
        };
        let Some(end) = start.checked_add(bytes) else { return wrong(start) };
        let (mut at, mut pieces, mut owner) = (start, Vec::new(), None);
        while at < end {
            let Some((handle, size)) = self.pieces.get(&at) else { return wrong(at) };
            let device = self.physical.get(handle).map(|physical| physical.device);
            if *size > end - at || owner.is_some() && owner != device {
                return wrong(at);
            }
            owner = device;
            pieces.push(at);
            at += size;
        }
        match owner {
            Some(owner) => Ok((pieces, owner)),
            None => wrong(start),
        }
    }

    /// Ends the rights to a piece that is being unmapped.
    pub(super) fn end_rights(&mut self, piece: usize) {
        self.rights.retain(|(of, _), _| *of != piece);
    }
}
