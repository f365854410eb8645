//! Records the operations of graphs. Each operation has a line for each replay.
//!
//! A later operation of a graph may overwrite memory that an earlier operation has read or written.
//! So the graph copies the input and the output of each operation to its own memory (*snapshots*).
//! After each replay, the snapshots are copied to the host.

#![forbid(unsafe_code)]

use std::sync::Arc;

use super::member::{MemberRecord, copy};
use crate::device::state::sealed::ReplayHook;
use crate::device::{Stream, StreamState};
use crate::dtype::DType;
use crate::error::Result;
use crate::memory::allocation::{Owned, Region};
use crate::memory::transfer;
use crate::order::label::{Label, Takes};

/// Device memory to which a graph copies bytes that one of its operations reads or writes.
pub(crate) struct Snapshot {
    memory: Owned,
    bytes: usize,
}

impl Snapshot {
    /// Captures a copy of a region to new device memory, unless the region is empty.
    pub(super) fn capture<S: StreamState>(
        region: Option<Region<'_>>,
        stream: &Stream<S>,
    ) -> Result<Option<Snapshot>> {
        let Some(region) = region.filter(|region| region.bytes() > 0) else { return Ok(None) };
        let bytes = region.bytes();
        let memory = Owned::device(stream.device(), bytes)?;
        transfer::copy::<u8, S>(&region, &memory.region(0..bytes), stream)?;
        Ok(Some(Snapshot { memory, bytes }))
    }

    fn region(&self) -> Region<'_> {
        self.memory.region(0..self.bytes)
    }
}

/// An operation of a graph, which has a line in the record for each replay.
pub(super) struct CapturedOp {
    pub(super) record: Arc<MemberRecord>,
    pub(super) label: Arc<Label>,
    /// The name of the operation, without the communicator and the number.
    pub(super) operation: String,
    /// The kind of number that the operation takes. For a batch, the list of items is empty.
    pub(super) takes: Takes<'static>,
    /// The number of operations before this one in the graph that take a number of the same kind.
    pub(super) earlier: u64,
    pub(super) dtype: DType,
    pub(super) given: Option<Snapshot>,
    pub(super) got: Option<Snapshot>,
}

impl CapturedOp {
    /// Returns the number that the operation takes at the replay that is issued next.
    fn number(&self) -> u64 {
        let next = match self.takes {
            Takes::Nothing | Takes::Collective => self.label.next(),
            Takes::Message(direction, peer) => {
                self.record.issued(self.takes) + self.label.replayed_messages(direction, peer) + 1
            }
            Takes::Batch(_) => self.record.issued(self.takes) + self.label.replayed_batches() + 1,
        };
        next + self.earlier
    }
}

impl ReplayHook for CapturedOp {
    fn before(&self) -> Option<(u64, u64)> {
        self.record.place().map(|at| (at, self.number()))
    }

    fn after(&self, (at, number): (u64, u64), stream: &Stream) -> Result<()> {
        let title = format!("{} {} {number}", self.label.communicator, self.operation);
        let copies = |snapshot: &Option<Snapshot>| {
            let region = snapshot.as_ref().map(Snapshot::region);
            self.record.unless_full(&title, copy(region, stream))
        };
        let (Some(given), Some(got)) = (copies(&self.given)?, copies(&self.got)?) else {
            return Ok(());
        };
        self.record.write(at, title, self.dtype, given, got);
        Ok(())
    }
}
