//! The barrier: an operation without data that is complete when all ranks have reached it.

use super::op::{CollectiveKind, CollectiveOp, op_name};
use crate::comm::Communicator;
use crate::device::{Stream, StreamState};
use crate::dtype::DType;
use crate::error::Result;
#[cfg(doc)]
use crate::order::work::Work;

impl Communicator {
    /// Makes the stream wait until the streams of all ranks have reached this barrier.
    ///
    /// The [`Work`] is complete when every rank's stream has reached its barrier. Operations that
    /// are issued later on the stream begin only then. The call does not block the host. CANN:
    /// `HcclBarrier`. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(2)?;
    /// runtime.run_ranks(2, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     rank.communicator()?.barrier(&stream)?.wait()
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn barrier<S: StreamState>(&mut self, stream: &Stream<S>) -> Result<S::Work> {
        let operation =
            CollectiveOp::new(op_name!("barrier"), CollectiveKind::Barrier, DType::U8, 0);
        self.member.issue(operation, stream)
    }
}
