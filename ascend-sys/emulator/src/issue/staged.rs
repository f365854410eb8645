//! The copy of a send buffer that partly overlaps the receive buffer. HCCL allows this overlap for
//! some operations.

use crate::fabric::Member;
use crate::machine;
use crate::memory;

/// The memory of the copy: on the heap, or in device memory, which other processes can access.
pub(super) enum Staged {
    Heap(Box<[u8]>),
    Device { device: u32, address: usize, bytes: usize },
}

impl Staged {
    /// Allocates memory for `bytes` bytes. The error is a text with the reason.
    #[cold]
    pub(super) fn new(member: &Member, bytes: usize) -> Result<Self, String> {
        if !member.comm.is_joint() {
            return Ok(Self::Heap(vec![0; bytes].into_boxed_slice()));
        }
        let device = member.device;
        match machine::device_slot(device).allocate(bytes, 0, "a copy of a send buffer") {
            Ok(address) => Ok(Self::Device { device, address, bytes }),
            Err(_) => Err(format!(
                "rank {} gave up: its buffers overlap, and its device has no addresses for a copy \
                 of {bytes} bytes; use buffers that do not overlap",
                member.rank
            )),
        }
    }

    /// Returns the address and the size in bytes of the copy.
    pub(super) fn place(&mut self) -> (*mut u8, usize) {
        match self {
            Self::Heap(copy) => (copy.as_mut_ptr(), copy.len()),
            Self::Device { address, bytes, .. } => {
                let data = memory::resolve(*address, *bytes);
                (data.map_or(std::ptr::null_mut(), |found| found.data), *bytes)
            }
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Self::Device { device, address, .. } = self {
            // The operation is complete, so no rank reads the copy any more.
            let _ =
                machine::device_slot(*device)
                    .free(*address, "the end of its operation", |_| Vec::new());
        }
    }
}
