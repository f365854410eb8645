//! Data movement: what ranks hold goes to others as it is.

use ascend_sys::HcclDataType;

use super::check_count;
use crate::api::call;
use crate::comm::{Communicator, Member};
use crate::device::Stream;
use crate::device::issue::{Issued, Touch};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::memory::Destination;
use crate::memory::allocation::Region;
use crate::trace::span;
use crate::work::Work;

const BROADCAST: &str = "broadcast";

impl Communicator {
    /// Copies the root's elements to all ranks.
    ///
    /// `buffer` has the same length on all ranks; the root's is read, the others' are overwritten. CANN: `HcclBroadcast`.
    ///
    /// Does not block, except for links. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(3)?;
    /// let copies = runtime.run_ranks(3, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let mut x = rank.device().upload(&[comm.rank() * 10], &stream)?;
    ///     comm.broadcast(&mut x, 2, &stream)?.wait()?;
    ///     x.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(copies, [[20], [20], [20]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn broadcast<T: Element>(
        &mut self,
        buffer: impl Destination<T, Output = Work, Error = Error>,
        root: u32,
        stream: &Stream,
    ) -> Result<Work> {
        let region = buffer.region();
        // The root only reads its buffer; two operations that read it need not wait for one another.
        let touch = if root == self.member.label.rank {
            region.read("the buffer")
        } else {
            region.write("the buffer")
        };
        let touches = [self.member.touch(), touch];
        let outcome = self.member.broadcast(T::DTYPE, root, &region, &touches, stream);
        self.member.counted(outcome, BROADCAST, stream)
    }
}

/// The calls.
impl Member {
    fn broadcast(
        &self,
        dtype: DType,
        root: u32,
        buffer: &Region<'_>,
        touches: &[Touch<'_>],
        stream: &Stream,
    ) -> Result<Issued> {
        let sequence = self.collectives + 1;
        let count = buffer.bytes() / dtype.size();
        let _span = span!("hccl.broadcast", BROADCAST, self, sequence, count, count * dtype.size());
        if root >= self.world_size {
            let world_size = self.world_size;
            let error = Error::NoSuchRank { what: "the root", rank: root, world_size };
            return Err(self.refuse(BROADCAST, error));
        }
        if let Err(error) = check_count(count) {
            return Err(self.refuse(BROADCAST, error));
        }
        let (buffer, count) = (buffer.pointer(), count as u64);
        let dtype = HcclDataType(dtype.code());
        self.issue(BROADCAST, sequence, stream, touches, |table, comm, stream| {
            // SAFETY: as for an all-reduce.
            unsafe { call!(table, HcclBroadcast, buffer, count, dtype, root, comm, stream) }
        })
    }
}
