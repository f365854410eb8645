//! The pinned blocks of a runtime. Copies of pageable memory go through them, and host buffers are
//! made of them.
//!
//! The size of a block is a power of two, at least 4 KiB. A block that is dropped while an
//! operation uses it waits in a list, as device memory does. A complete block is kept for the next
//! user, up to [`KEPT`] bytes in all.

#![forbid(unsafe_code)]

use std::sync::Mutex;

use super::block::{Block, RetireList};
use crate::api::Table;
use crate::sync::lock;

const SMALLEST: usize = 4096;
/// The largest number of bytes of unused blocks that are kept.
const KEPT: usize = 256 << 20;

/// The pinned blocks of a runtime; see the [module](self).
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
    /// Returns the size in bytes of a block that holds at least `bytes` bytes.
    pub(super) fn size(bytes: usize) -> usize {
        bytes.max(SMALLEST).checked_next_power_of_two().unwrap_or(bytes)
    }

    /// Takes a free block of this [size](Self::size), if there is one. Its contents are
    /// unspecified.
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

    /// Moves complete blocks to the free ones, and frees those beyond [`KEPT`] bytes. Some context
    /// must be current.
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

    /// Returns free blocks to the backend until at most `keep` bytes are left. Some context must be
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

    /// Returns all complete blocks to the backend. Called when the last handle of the runtime is
    /// dropped.
    pub(crate) fn close(&mut self, table: &Table) {
        self.sweep_into(&mut lock(&self.free));
        self.trim(table, 0);
    }
}
