//! The findings of a checked runtime.

#![forbid(unsafe_code)]

use super::Runtime;
use crate::error::finding::Finding;

impl Runtime {
    /// Returns the findings of checked mode on the devices of this runtime so far, oldest first.
    /// Nothing on a backend that has no such mode, and on devices that are not checked
    /// (`Runtime::emulator_builder().checked(true)`, or `ASCEND_EMULATOR_CHECK=race` for the
    /// emulator's default devices).
    ///
    /// Safe programs never have a finding. One that calls CANN besides, with pointers and streams
    /// of its own, may. Never blocks. The optional entries `ascendExtFindings` and
    /// `ascendExtFinding` are behind it.
    ///
    /// ```
    /// use hccl::Runtime;
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator_builder().devices(1).checked(true).build()?;
    /// let device = runtime.device(0)?;
    /// let (one, two) = (device.stream()?, device.stream()?);
    /// let mut x = device.zeros::<f32>(1024, &one)?;
    /// let y = device.upload(&[1.0_f32; 1024], &two)?;
    /// x.copy_from(&y, &one)?; // waits for `two` on the device
    /// one.synchronize()?;
    /// assert!(runtime.findings().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn findings(&self) -> Vec<Finding> {
        if !self.shared.checked {
            return Vec::new();
        }
        let (table, block) = (&self.shared.table, self.block());
        (0..table.count_findings(block)).map_while(|index| table.finding(block, index)).collect()
    }

    /// Tells the check for races that the host itself touches pinned memory now.
    #[inline]
    pub(crate) fn host_touches(&self, start: *const std::ffi::c_void, bytes: usize, write: bool) {
        if self.shared.checked {
            self.shared.table.host_touches(start, bytes, write);
        }
    }
}
