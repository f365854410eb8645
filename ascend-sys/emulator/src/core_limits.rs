//! The limits that a program sets for the kernels of a device or a stream: numbers of cores, sizes
//! of stacks and print buffers.
//!
//! Programs query the limits, and lay out their kernels for them. The emulator does not enforce
//! them at a launch.

use ascend_sync::lock_std as lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// A kind of core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoreKind {
    Cube,
    Vector,
}

/// The limit of each kind of core, if there is one.
#[derive(Debug, Default)]
pub(crate) struct CoreLimits {
    /// The largest number of cube cores; 0 means no limit.
    cube: AtomicU32,
    /// The largest number of vector cores; 0 means no limit.
    vector: AtomicU32,
}

impl CoreLimits {
    fn of(&self, kind: CoreKind) -> &AtomicU32 {
        match kind {
            CoreKind::Cube => &self.cube,
            CoreKind::Vector => &self.vector,
        }
    }

    pub(crate) fn get(&self, kind: CoreKind) -> Option<u32> {
        Some(self.of(kind).load(Ordering::Relaxed)).filter(|limit| *limit != 0)
    }

    /// Sets a limit; 0 removes it.
    pub(crate) fn set(&self, kind: CoreKind, limit: u32) {
        self.of(kind).store(limit, Ordering::Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.set(CoreKind::Cube, 0);
        self.set(CoreKind::Vector, 0);
    }
}

/// The limits of sizes, by their numbers (`aclrtDeviceSetLimit`). A limit is `None` until the
/// program sets it.
#[derive(Debug, Default)]
pub(crate) struct SizeLimits(Mutex<[Option<usize>; SizeLimits::COUNT]>);

impl SizeLimits {
    pub(crate) const COUNT: usize = 5;

    /// Returns the limit with a number. Returns `None` if it was not set, or if there is no limit
    /// with this number.
    pub(crate) fn get(&self, limit: usize) -> Option<usize> {
        lock(&self.0).get(limit).copied().flatten()
    }

    /// Sets a limit. Does nothing if there is no limit with this number.
    pub(crate) fn set(&self, limit: usize, size: usize) {
        if let Some(kept) = lock(&self.0).get_mut(limit) {
            *kept = Some(size);
        }
    }

    pub(crate) fn clear(&self) {
        *lock(&self.0) = [None; SizeLimits::COUNT];
    }
}
