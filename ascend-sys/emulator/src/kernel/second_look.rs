//! The input of the second check of a launch, which [`again`](super::again) makes: the values that
//! the cores have read.

use super::core::Core;
use ascend_program::check::{CoreReads, Setting};
use std::sync::Arc;

/// The input of the second check.
pub(super) struct SecondLook {
    /// The setting of the first check.
    pub(super) setting: Arc<Setting>,
    pub(super) reads: Vec<CoreReads>,
}

impl SecondLook {
    /// Makes the input of a second check. The first check had to leave out a part of the launch.
    pub(super) fn new(setting: Arc<Setting>) -> SecondLook {
        SecondLook { setting, reads: Vec::new() }
    }

    /// Collects the reads of the cores that have ended.
    pub(super) fn collect(&mut self, cores: &mut [Core]) {
        self.reads.extend(cores.iter_mut().filter_map(|core| {
            let bits = core.reads.take()?;
            Some(CoreReads { kind: core.kind(), index: core.index(), bits })
        }));
    }
}
