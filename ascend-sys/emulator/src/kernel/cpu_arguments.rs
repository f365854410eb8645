//! The arguments of a CPU kernel: one block of bytes that is copied at the launch. Each run of the
//! kernel receives the address of its own copy.

use crate::memory;
use crate::message::{Failure, fail};
use ascend_reduce::Store;
use ascend_sys::ACL_ERROR_RT_PARAM_INVALID;
use std::sync::Arc;

/// The largest number of bytes that a launch copies from the host.
pub(crate) const MOST_BYTES: usize = 16 << 20;
/// The alignment of an argument in a list, and the size of an address in the block.
const WORD: usize = 8;

/// The arguments of a launch.
#[derive(Clone)]
pub(crate) enum CpuArguments {
    Block(Arc<CpuBlock>),
    /// Arguments in device memory, which are read when the kernel begins.
    InMemory {
        address: usize,
        bytes: usize,
    },
}

/// A block of bytes in which some words are addresses of bytes of the block itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuBlock {
    bytes: Vec<u8>,
    /// The offset of each word that is an address, and the offset of the byte to which it points.
    places: Vec<(usize, usize)>,
}

/// A part of the copy that a kernel receives. It is aligned for every type of number.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(super) struct ArgumentLine([u8; 64]);

impl CpuBlock {
    /// Makes a block from bytes of the host. Each placeholder gives two offsets in the block: that
    /// of an address, and that of the byte to which the address points.
    pub(crate) fn of_host(bytes: &[u8], places: &[(u32, u32)]) -> Result<CpuBlock, Failure> {
        let mut block = CpuBlock { bytes: bytes.to_vec(), places: Vec::new() };
        for (address, data) in places {
            let (address, data) = (*address as usize, *data as usize);
            if data >= bytes.len() || address.checked_add(WORD).is_none_or(|end| end > bytes.len())
            {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "a placeholder at byte {address} for the data at byte {data}: the arguments \
                     have {} bytes; give offsets within them",
                    bytes.len()
                );
            }
            block.places.push((address, data));
        }
        Ok(block)
    }

    /// Adds a value, or the word of an address. Returns its offset.
    pub(super) fn push(&mut self, value: &[u8]) -> usize {
        let at = self.bytes.len().next_multiple_of(WORD);
        self.bytes.resize(at, 0);
        self.bytes.extend_from_slice(value);
        at
    }

    /// Adds bytes after all arguments. The word at the offset `place` becomes their address.
    pub(super) fn push_behind(&mut self, place: usize, bytes: &[u8]) {
        let at = self.push(bytes);
        self.places.push((place, at));
    }

    /// Returns the block, or an error if it is too large.
    pub(super) fn checked(self) -> Result<CpuBlock, Failure> {
        if self.bytes.len() > MOST_BYTES {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the arguments have {} bytes; pass at most {MOST_BYTES}, and larger data in \
                 device memory",
                self.bytes.len()
            );
        }
        Ok(self)
    }

    fn copy(&self) -> Vec<ArgumentLine> {
        let mut lines = lines(self.bytes.len());
        let start = lines.as_mut_ptr().expose_provenance();
        write(&mut lines, 0, &self.bytes);
        for (place, data) in &self.places {
            write(&mut lines, *place, &((start + data) as u64).to_ne_bytes());
        }
        lines
    }
}

impl CpuArguments {
    /// Returns the copy for one run of the kernel. Returns an error if the memory with the
    /// arguments is no longer valid.
    pub(super) fn copy(&self) -> Result<Vec<ArgumentLine>, String> {
        match self {
            CpuArguments::Block(block) => Ok(block.copy()),
            CpuArguments::InMemory { address, bytes } => {
                let found = memory::resolve(*address, *bytes)?;
                let mut lines = lines(*bytes);
                let to = lines.as_mut_ptr().cast();
                // SAFETY: the bytes lie in a live allocation, and `lines` has as many.
                unsafe { ascend_reduce::copy::copy(to, found.data, *bytes, Store::Plain) };
                Ok(lines)
            }
        }
    }

    /// Returns the address and the number of bytes of arguments that are read only when the kernel
    /// begins; otherwise a null pointer and 0.
    pub(super) fn lie_in(&self) -> (*const u8, usize) {
        match self {
            CpuArguments::Block(_) => (std::ptr::null(), 0),
            CpuArguments::InMemory { address, bytes } => match memory::resolve(*address, *bytes) {
                Ok(found) => (found.data.cast_const(), *bytes),
                // The memory was freed, so the kernel will fail.
                Err(_) => (std::ptr::null(), 0),
            },
        }
    }
}

/// Makes enough zeroed lines for `bytes` bytes, and at least one line.
fn lines(bytes: usize) -> Vec<ArgumentLine> {
    vec![ArgumentLine([0; 64]); bytes.div_ceil(size_of::<ArgumentLine>()).max(1)]
}

/// Writes bytes at an offset. The lines must have room for them.
fn write(lines: &mut [ArgumentLine], mut at: usize, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let line = &mut lines[at / size_of::<ArgumentLine>()].0[at % size_of::<ArgumentLine>()..];
        let (now, later) = bytes.split_at(bytes.len().min(line.len()));
        line[..now.len()].copy_from_slice(now);
        at += now.len();
        bytes = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(lines: &[ArgumentLine]) -> Vec<u8> {
        lines.iter().flat_map(|line| line.0).collect()
    }

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn each_copy_of_a_block_has_the_addresses_of_its_own_bytes() {
        let mut block = CpuBlock::default();
        assert_eq!(block.push(&[1, 2, 3]), 0);
        let place = block.push(&[0; 8]);
        assert_eq!(place, 8);
        block.push_behind(place, &[9; 105]);
        for lines in [block.copy(), block.copy()] {
            let start = lines.as_ptr().addr() as u64;
            assert!(start.is_multiple_of(64));
            let bytes = bytes_of(&lines);
            assert_eq!(bytes[..3], [1, 2, 3]);
            assert_eq!(word(&bytes, 8), start + 16);
            assert_eq!(bytes[16..121], [9; 105]);
        }
    }

    #[test]
    fn the_last_bytes_of_a_block_that_fills_no_word_are_there() {
        let block = CpuBlock::of_host(&[7; 13], &[(0, 12)]).unwrap();
        let lines = block.copy();
        let start = lines.as_ptr().addr() as u64;
        let bytes = bytes_of(&lines);
        assert_eq!((word(&bytes, 0), &bytes[8..14]), (start + 12, &[7, 7, 7, 7, 7, 0][..]));
    }

    #[test]
    fn a_placeholder_outside_of_its_block_is_refused() {
        for place in [(6, 0), (0, 13), (u32::MAX, 0), (0, u32::MAX)] {
            let refused = CpuBlock::of_host(&[7; 13], &[place]).unwrap_err();
            assert!(refused.text.contains("the arguments have 13 bytes"), "{}", refused.text);
        }
    }
}
