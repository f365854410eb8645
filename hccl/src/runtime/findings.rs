//! The findings of a checked runtime.

#![forbid(unsafe_code)]

use super::Runtime;
use crate::error::finding::Finding;

impl Runtime {
    /// Returns the findings of checked mode on the devices of this runtime so far, oldest first.
    /// The list is empty if the backend has no checked mode, or if the devices are not checked.
    /// `Runtime::emulator_builder().checked(true)` makes devices that are checked, and so does
    /// `ASCEND_EMULATOR_CHECK=race` for the emulator's default devices.
    ///
    /// A program without `unsafe` code never has a finding. A program that also calls CANN itself,
    /// with its own pointers and streams, may have findings. Does not block. Optional entries:
    /// `ascendExtFindings` and `ascendExtFinding`.
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

    /// Informs the check for races that the host now accesses pinned memory itself.
    #[inline]
    pub(crate) fn host_touches(&self, start: *const std::ffi::c_void, bytes: usize, write: bool) {
        if self.shared.checked {
            self.shared.table.host_touches(start, bytes, write);
        }
    }
}
