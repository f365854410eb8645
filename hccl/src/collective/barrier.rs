//! The barrier: it moves nothing, and nobody passes before all are there.

use super::op::{CollectiveKind, CollectiveOp, op_name};
use crate::comm::Communicator;
use crate::device::{Stream, StreamState};
use crate::dtype::DType;
use crate::error::Result;
#[cfg(doc)]
use crate::order::work::Work;

impl Communicator {
    /// Waits, on the device, until all ranks have come to this point of their streams.
    ///
    /// The [`Work`] is complete, and what follows on the stream begins, when every rank's stream
    /// has reached its barrier. The host does not block. CANN: `HcclBarrier`. For errors see the
    /// [module](crate::collective).
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
