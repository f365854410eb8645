//! The limits that a program sets for the kernels of a device or a stream: numbers of cores, sizes
//! of stacks and print buffers.
//!
//! Programs ask for the number and lay their kernels out for it. A launch is not held to it.

use ascend_sync::lock_std as lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// A kind of core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoreKind {
    Cube,
    Vector,
}

/// A limit of each kind of core, where there is one.
#[derive(Debug, Default)]
pub(crate) struct CoreLimits {
    /// 0: none.
    cube: AtomicU32,
    /// 0: none.
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

    /// A limit of 0 is none.
    pub(crate) fn set(&self, kind: CoreKind, limit: u32) {
        self.of(kind).store(limit, Ordering::Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.set(CoreKind::Cube, 0);
        self.set(CoreKind::Vector, 0);
    }
}

/// The limits of sizes by their numbers (`aclrtDeviceSetLimit`): `None` until the program sets one.
#[derive(Debug, Default)]
pub(crate) struct SizeLimits(Mutex<[Option<usize>; SizeLimits::COUNT]>);

impl SizeLimits {
    pub(crate) const COUNT: usize = 5;

    /// Returns `None` for a limit that was not set, and for a number that is no limit.
    pub(crate) fn get(&self, limit: usize) -> Option<usize> {
        lock(&self.0).get(limit).copied().flatten()
    }

    /// Does nothing for a number that is no limit.
    pub(crate) fn set(&self, limit: usize, size: usize) {
        if let Some(kept) = lock(&self.0).get_mut(limit) {
            *kept = Some(size);
        }
    }

    pub(crate) fn clear(&self) {
        *lock(&self.0) = [None; SizeLimits::COUNT];
    }
}
