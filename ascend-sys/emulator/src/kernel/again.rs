//! A second check of a launch after its end, in checked mode. It uses the values that the cores
//! have read, so it also checks the parts that depend on data. It also follows a longer kernel than
//! the first check.

use super::running::{Launched, RunningKernel};
use crate::check;
use crate::stream::Stream;
use ascend_program::check::Setting;
use ascend_sync::lock_std as lock;
use std::sync::Mutex;

/// The factor by which the second check follows more steps of a launch than the first one.
const FURTHER: u64 = 4;
/// Allows one second check at a time, because a check can need hundreds of megabytes.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl RunningKernel {
    /// Checks the parts that the first check had to leave out. An error there is reported as a
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
