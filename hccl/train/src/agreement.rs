//! The comparison of the layouts that the ranks have passed, before their first operation.

use hccl::comm::AbortHandle;
use hccl::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::objects;

/// The arguments that must be the same on all ranks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// The name of one of the divided things: `tensor` or `layer`.
    pub(crate) piece: String,
    /// The number of elements of each tensor or layer.
    pub(crate) lengths: Vec<u64>,
    /// The size of a bucket in bytes. 0 if there are no buckets.
    pub(crate) bucket: u64,
    /// The rank and the number of ranks for which this rank has cut its part. `None` if it has
    /// everything.
    pub(crate) cut_for: Option<(u32, u32)>,
}

impl Layout {
    pub(crate) fn new(piece: &str, lengths: impl Iterator<Item = usize>, bucket: usize) -> Self {
        let lengths = lengths.map(|length| length as u64).collect();
        Self { piece: piece.into(), lengths, bucket: bucket as u64, cut_for: None }
    }

    /// Sets the rank and the number of ranks for which this rank has cut its part.
    pub(crate) fn cut_for(self, rank: usize, ranks: usize) -> Self {
        Self { cut_for: Some((rank as u32, ranks as u32)), ..self }
    }

    /// Returns the first value that differs in two layouts: its name, the value in this layout, and
    /// the value in `other`. Returns `None` if no value differs. Does not compare `cut_for`.
    fn difference(&self, other: &Layout) -> Option<(String, u64, u64)> {
        let counts = (self.lengths.len() as u64, other.lengths.len() as u64);
        let lengths = self.lengths.iter().zip(&other.lengths).enumerate();
        let mut values = vec![(format!("the number of {}s", self.piece), counts.0, counts.1)];
        values.extend(
            lengths.map(|(at, (a, b))| (format!("the length of {} {at}", self.piece), *a, *b)),
        );
        values.push(("the size of a bucket in bytes".into(), self.bucket, other.bucket));
        values.into_iter().find(|(_, a, b)| a != b)
    }
}

/// The memory of the communicator on which the ranks have last compared a layout.
///
/// It holds the handle instead of the name, because a communicator that replaces another one may
/// have the same name but other ranks.
#[derive(Default)]
pub(crate) struct Agreement(Option<AbortHandle>);

impl Agreement {
    /// Compares the layouts of all ranks, unless the last comparison without a difference was on
    /// this communicator. The comparison blocks until all ranks have called this method.
    ///
    /// Returns the same [`Error::RanksDiffer`] on every rank if a rank has another layout than rank
    /// 0. Returns the same [`Error::OtherPart`] on every rank if a rank has the part of another
    /// rank, or of another number of ranks.
    pub(crate) fn check(
        &mut self,
        layout: impl FnOnce() -> Layout,
        comm: &mut Communicator,
        stream: &Stream,
    ) -> Result<()> {
        if self.0.as_ref().is_some_and(|handle| handle.belongs_to(comm)) {
            return Ok(());
        }
        let all = objects::all_gather(&layout(), comm, stream)?;
        for (rank, other) in (0..).zip(&all) {
            let now = (rank, comm.world_size());
            if let Some(made) = other.cut_for.filter(|made| *made != now) {
                return Err(Error::OtherPart { rank, ranks: now.1, made_for: made.0, of: made.1 });
            }
            if let Some((what, first, given)) = all[0].difference(other) {
                return Err(Error::RanksDiffer { what, first, rank, given });
            }
        }
        self.0 = Some(comm.abort_handle());
        Ok(())
    }
}
