//! The barrier: it moves nothing, and nobody passes before all are there.

use crate::api::call;
use crate::comm::Communicator;
use crate::device::Stream;
use crate::error::Result;
use crate::trace::span;
use crate::work::Work;

const BARRIER: &str = "barrier";

impl Communicator {
    /// Waits, on the device, until all ranks have come to this point of their streams.
    ///
    /// The [`Work`] is complete, and what follows on the stream begins, when every rank's stream has reached its barrier. The host does not
    /// block, except for links. CANN: `HcclBarrier`. For errors see the [module](crate::collective).
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
    pub fn barrier(&mut self, stream: &Stream) -> Result<Work> {
        let member = &self.member;
        let sequence = member.collectives + 1;
        let _span = span!("hccl.barrier", BARRIER, member, sequence, 0, 0);
        let touches = [member.touch()];
        let outcome = member.issue(BARRIER, sequence, stream, &touches, |table, comm, stream| {
            // SAFETY: live handles; the operation touches nothing but what the communicator owns.
            unsafe { call!(table, HcclBarrier, comm, stream) }
        });
        self.member.counted(outcome, BARRIER, stream)
    }
}
