//! A second check of a launch that is over, where races are looked for. It uses the values that the
//! cores have read, so nothing depends on data that is not there, and it follows a longer kernel.

use super::core::Core;
use super::running::{Launched, RunningKernel};
use crate::check;
use crate::stream::Stream;
use ascend_program::check::{CoreReads, Setting};
use ascend_sync::lock_std as lock;
use std::sync::{Arc, Mutex};

/// The factor by which the second look follows a launch further than the check before it.
const FURTHER: u64 = 4;
/// A look can take hundreds of megabytes, so there is one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The input of the second look.
pub(super) struct SecondLook {
    /// The setting of the first look.
    setting: Arc<Setting>,
    reads: Vec<CoreReads>,
}

impl SecondLook {
    /// A second look at a launch of which the first look had to leave out something.
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

impl RunningKernel {
    /// Checks the parts that the check before the launch had to leave out; an error there is a
    /// finding.
    pub(super) fn look_again(&mut self, stream: &'static Stream, launched: &Launched) {
        let Some(again) = self.again.take() else { return };
        let setting = Setting {
            reads: again.reads,
            steps: again.setting.steps.saturating_mul(FURTHER),
            ..Setting::clone(&again.setting)
        };
        let program = &launched.recorded.program;
        let _one = lock(&ONE_AT_A_TIME);
        for finding in launched.recorded.look_again(&self.launch, &setting) {
            let issued = launched.issued.clone().unwrap_or_default();
            check::kernel_is_wrong(stream, issued, format!("kernel {}", program.name), finding);
        }
    }
}
