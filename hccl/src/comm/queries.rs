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

    /// Returns CANN's name of the communicator, which is the same on all ranks. Tiling data refers
    /// to a group by this name. If [`CommConfig::name`](CommConfig) did not give a name, CANN has
    /// made one. CANN: `HcclGetCommName`.
    pub fn name(&self) -> &str {
        &self.member.name
    }

    /// Returns the title by which errors, traces and timelines name the communicator. The title is
    /// the name that [`CommConfig`] gave, or else describes how the communicator was made. A
    /// communicator of [`from_raw`](Self::from_raw) has CANN's name as its title. The communicator
    /// of all ranks has the title `world`. The next communicator of the same
    /// [`run_ranks`](crate::Runtime::run_ranks) has the title `world 2`. Parts have titles like
    /// `world/split 1 color 0` or `world/subset 7`. The title is the same on all ranks. Two
    /// communicators can have the same title.
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

    /// Returns the number of messages that have been issued to or from `peer`, depending on
    /// `direction`. The k-th send of one rank is received by the k-th receive of the other rank, so
    /// the two numbers show which rank has fallen behind. Returns 0 for a rank that does not exist.
    pub fn messages(&self, direction: Direction, peer: u32) -> u64 {
        self.member.messages(direction, peer)
    }

    /// Sets whether the operations of this communicator go into the [record](crate::record) of the
    /// run. Does nothing if the run is not recorded.
    ///
    /// Turn recording off for data that differs between two runs of one program, for example times:
    /// `hccl-compare-runs` would report them as the first difference. All ranks must leave out the
    /// same operations. The setting does not apply to communicators that `split` or `subset` makes:
    /// each has a setting of its own. An operation of a [graph](crate::Graph) is recorded only if
    /// recording was on when the operation was captured and is on when it is replayed. Does not
    /// block.
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
