//! Memory for results that are discarded. CANN requires a receive buffer even on a rank that
//! receives nothing.

#![forbid(unsafe_code)]

use crate::device::Device;
use crate::error::Result;
use crate::memory::allocation::{Owned, Region};

/// A block that is written and never read. It grows when an operation needs more, so that the
/// steady state allocates nothing.
#[derive(Default)]
pub(crate) struct ScratchBlock(Option<Owned>);

impl ScratchBlock {
    /// Grows the block to at least this many bytes, unless it is large enough already.
    #[inline]
    pub(crate) fn hold(&mut self, device: &Device, bytes: usize) -> Result<()> {
        match &self.0 {
            Some(block) if block.bytes() >= bytes => Ok(()),
            _ => self.grow(device, bytes),
        }
    }

    #[cold]
    fn grow(&mut self, device: &Device, bytes: usize) -> Result<()> {
        // The old block is dropped first. It is freed when the operations that write it are
        // complete.
        self.0 = None;
        self.0 = Some(Owned::device(device, bytes.max(1))?);
        Ok(())
    }

    /// Returns the whole block. Returns `None` if no operation has needed a block yet, or if the
    /// last allocation failed.
    #[inline]
    pub(crate) fn region(&self) -> Option<Region<'_>> {
        self.0.as_ref().map(|block| block.region(block.all()))
    }
}
