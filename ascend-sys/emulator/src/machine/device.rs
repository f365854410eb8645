//! A device: its memory, and the other data that belongs to it. Devices are taken and released in
//! blocks.

use super::primary::PrimaryContext;
use crate::check;
use crate::core_limits::{CoreLimits, SizeLimits};
use crate::faults::asked::Faults;
use crate::memory::pool::{HeldRange, MemoryPool, OutOfMemory};
use crate::profile::Product;
use crate::progress::QueuePoint;
use ascend_program::check::Late;
use ascend_sync::lock_std as lock;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::AtomicI32;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The settings that the devices of a block have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// The number of the block; 0 is the default block.
    pub(crate) block: u32,
    /// The ids of the block: `first .. first + count`.
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) product: Product,
    pub(crate) connect_timeout: Duration,
    pub(crate) exec_timeout: Duration,
    /// The buffer size, in MB, of communicators that do not set a size.
    pub(crate) buffer_megabytes: u32,
    /// The `hcclOpExpansionMode` of communicators that do not set it.
    pub(crate) expansion: u32,
    /// Whether the devices are [watched](crate::check) for races.
    pub(crate) checked: bool,
    /// The seed of the order of units, cores and servers of kernels; 0 means the order of the
    /// program.
    pub(crate) kernel_seed: u64,
    /// The unit or server that is as late as possible in kernels.
    pub(crate) kernel_late: Option<Late>,
}

/// A virtual NPU. The record is never freed. The device is in use while the record has settings.
pub(crate) struct Device {
    pub(crate) id: u32,
    pub(crate) memory: MemoryPool,
    pub(crate) primary: PrimaryContext,
    pub(super) settings: Mutex<Option<Settings>>,
    /// The devices whose memory this device may reach.
    pub(super) peers: Mutex<BTreeSet<u32>>,
    pub(crate) faults: Faults,
    /// The value that `HcclSetConfig` has set.
    pub(crate) deterministic: AtomicI32,
    pub(crate) core_limits: CoreLimits,
    pub(crate) size_limits: SizeLimits,
}

impl Device {
    pub(crate) fn settings(&self) -> Option<Settings> {
        *lock(&self.settings)
    }

    pub(crate) fn product(&self) -> Product {
        self.settings().map_or(Product::A3, |settings| settings.product)
    }

    /// Returns the number of the device's block; `None` if the device is not in use.
    pub(crate) fn block(&self) -> Option<u32> {
        self.settings().map(|settings| settings.block)
    }

    pub(crate) fn peers(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        lock(&self.peers)
    }

    /// Ends the settings that a program has made for the device. They last until the last reset of
    /// the device.
    pub(crate) fn end_settings(&self) {
        self.peers().clear();
        self.core_limits.clear();
        self.size_limits.clear();
    }

    /// Allocates `size` bytes, of which `charged` count against the limit, for the function `by`.
    pub(crate) fn allocate(
        &self,
        size: usize,
        charged: usize,
        by: &'static str,
    ) -> Result<usize, OutOfMemory> {
        let address = self.memory.allocate(size, charged, by)?;
        check::allocated(self.id, &self.memory, address, false);
        Ok(address)
    }

    /// Ends one allocation. `unfinished` gets the devices that reach the bytes, and returns queue
    /// points. The bytes are reused when all these points are complete.
    pub(crate) fn free(
        &self,
        address: usize,
        by: &'static str,
        unfinished: impl FnOnce(Range<u32>) -> Vec<QueuePoint>,
    ) -> Result<(), String> {
        self.free_held(address, by, unfinished, &[])
    }

    /// Does the same as [`free`](Self::free), when other processes may still reach the bytes
    /// `held`.
    pub(crate) fn free_held(
        &self,
        address: usize,
        by: &'static str,
        unfinished: impl FnOnce(Range<u32>) -> Vec<QueuePoint>,
        held: &[HeldRange],
    ) -> Result<(), String> {
        check::freed(Some(self.id), address, by);
        self.memory.free_held(address, by, || unfinished(self.reach()), held)
    }

    /// Ends every allocation.
    pub(crate) fn free_all(
        &self,
        by: &'static str,
        unfinished: impl Fn(Range<u32>) -> Vec<QueuePoint>,
        held: &[HeldRange],
    ) {
        check::forget(self.id, || self.memory.addresses());
        self.memory.free_all(by, || unfinished(self.reach()), held);
    }

    /// Ends the allocation with this number, unless it has ended before.
    pub(crate) fn free_numbered(
        &self,
        (address, number): (usize, u64),
        by: &'static str,
        unfinished: impl FnOnce(Range<u32>) -> Vec<QueuePoint>,
    ) {
        if self.memory.number_of(address, 1) == Ok(number) {
            check::freed(Some(self.id), address, by);
        }
        self.memory.free_numbered((address, number), by, || unfinished(self.reach()));
    }

    /// Returns the ids of the devices that reach the memory: those of the device's block.
    pub(crate) fn reach(&self) -> Range<u32> {
        self.settings().map_or(0..u32::MAX, |block| block.first..block.first + block.count)
    }
}
