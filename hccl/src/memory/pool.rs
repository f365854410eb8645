//! Pinned blocks of a runtime: what pageable memory is copied through, and where host buffers live.
//!
//! Blocks have sizes of powers of two from 4 KiB. A block that is dropped while an operation uses
//! it waits in a list like device memory does; a complete one is kept for the next user, up to
//! [`KEPT`] bytes.

#![forbid(unsafe_code)]

use std::sync::Mutex;

use super::block::{Block, RetireList};
use crate::api::Table;
use crate::sync::lock;

const SMALLEST: usize = 4096;
/// Bytes of unused blocks that are kept.
const KEPT: usize = 256 << 20;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Pool {
    retired: RetireList,
    free: Mutex<Free>,
}

#[derive(Default)]
#[allow(clippy::vec_box, reason = "a block keeps its header when it comes and goes")]
struct Free {
    blocks: Vec<Box<Block>>,
    bytes: usize,
}

impl Pool {
    /// How many bytes a block has that is to hold so many.
    pub(super) fn size(bytes: usize) -> usize {
        bytes.max(SMALLEST).checked_next_power_of_two().unwrap_or(bytes)
    }

    /// A free block of this [size](Self::size), if there is one. Contents are unspecified.
    pub(super) fn take(&self, bytes: usize) -> Option<Box<Block>> {
        let mut free = lock(&self.free);
        self.sweep_into(&mut free);
        let at = free.blocks.iter().rposition(|block| block.bytes() == bytes)?;
        free.bytes -= bytes;
        Some(free.blocks.swap_remove(at))
    }

    pub(super) fn retire(&self, block: Box<Block>) {
        self.retired.push(block);
    }

    /// Moves complete blocks to the free ones, and gives back what is too much. Some context must
    /// be current.
    pub(crate) fn sweep(&self, table: &Table) {
        if !self.retired.is_empty() {
            self.sweep_into(&mut lock(&self.free));
            self.trim(table, KEPT);
        }
    }

    fn sweep_into(&self, free: &mut Free) {
        for mut block in self.retired.drain() {
            if block.is_complete() {
                free.bytes += block.bytes();
                free.blocks.push(block);
            } else {
                self.retired.push(block);
            }
        }
    }

    /// Gives back free blocks until no more bytes than `keep` are left. Some context must be
    /// current.
    pub(super) fn trim(&self, table: &Table, keep: usize) {
        let mut free = lock(&self.free);
        while free.bytes > keep
            && let Some(block) = free.blocks.pop()
        {
            free.bytes -= block.bytes();
            block.free(table);
        }
    }

    /// When the last handle of the runtime goes.
    pub(crate) fn close(&mut self, table: &Table) {
        self.sweep_into(&mut lock(&self.free));
        self.trim(table, 0);
    }
}
