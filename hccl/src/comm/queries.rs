//! Queries of a communicator.

#[cfg(doc)]
use super::CommConfig;
use super::Communicator;
use crate::device::Device;
use crate::error::batch::Direction;

impl<S> Communicator<S> {
    /// Returns the number of this rank.
    pub fn rank(&self) -> u32 {
        self.member.label.rank
    }

    /// Returns the number of ranks.
    pub fn world_size(&self) -> u32 {
        self.member.world_size
    }

    /// Returns the name by which CANN knows it, which is the same on all ranks: that of a group in
    /// tiling data. Unless [`CommConfig::name`](CommConfig) gave one, CANN has made it. CANN:
    /// `HcclGetCommName`.
    pub fn name(&self) -> &str {
        &self.member.name
    }

    /// Returns the title, which errors, traces and timelines use: the name that [`CommConfig`]
    /// gave, or how it came to be. The communicator of all ranks is `world`, the next one of the
    /// same [`run_ranks`](crate::Runtime::run_ranks) `world 2`, their parts are
    /// `world/split 1 color 0` or `world/subset 7`. The same on all ranks; two communicators can
    /// have the same.
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// Runtime::emulator(2)?.run_ranks(2, |rank| -> hccl::Result<()> {
    ///     let mut world = rank.communicator()?;
    ///     let part = world.split(Some(0), 0).wait()?.expect("every rank has a color");
    ///     assert_eq!((world.title(), part.title()), ("world", "world/split 1 color 0"));
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn title(&self) -> &str {
        &self.member.label.communicator
    }

    /// Returns the device of this rank.
    pub fn device(&self) -> &Device {
        &self.member.device
    }

    /// Returns the number of messages to or from `peer` that have been issued, in this direction.
    /// The k-th message from one rank to another on the one side belongs to the k-th on the other,
    /// so the two numbers tell which rank has fallen behind. 0 for a rank that does not exist.
    pub fn messages(&self, direction: Direction, peer: u32) -> u64 {
        self.member.messages(direction, peer)
    }

    /// Leaves the operations of this communicator out of the [record](crate::record) of the run, or
    /// records them again. Does nothing where no run is recorded.
    ///
    /// Use it for data that differs between two runs of one program, such as times, which
    /// `hccl-compare-runs` would call the first difference. All ranks leave out the same
    /// operations. Communicators that `split` makes are recorded by themselves. An operation of a
    /// [graph](crate::Graph) is recorded if it is not left out when it is captured, nor when it is
    /// replayed. Does not block.
    ///
    /// ```
    /// # use hccl::prelude::*;
    /// # fn f(comm: &mut Communicator, times: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<()> {
    /// comm.set_recorded(false);
    /// comm.all_reduce_in_place(times, Max, stream)?;
    /// comm.set_recorded(true);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_recorded(&mut self, is_recorded: bool) {
        if let Some(record) = &self.member.record {
            record.pause(!is_recorded);
        }
    }
}
