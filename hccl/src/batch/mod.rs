//! Messages between pairs of ranks, several at once. Use a batch when a rank sends and receives in
//! one step. A rank that only sends, or only receives, can call [`send`](Communicator::send) or
//! [`recv`](Communicator::recv). For an exchange among all ranks, use
//! [`all_to_all`](Communicator::all_to_all).
//!
//! Batches can express every pattern of point-to-point messages: neighbours in a ring, halo
//! exchange, pipelines, and messages from all ranks to some. [`Communicator::batch`] begins a
//! batch, [`send`](Batch::send) and [`recv`](Batch::recv) add messages, and
//! [`submit`](Batch::submit) issues all of them. The sends and receives of a batch do not wait for
//! one another, so the order in which they are added does not matter and cannot cause a deadlock.
//!
//! Each message needs a send on one rank, and a receive with the same length and type on the peer.
//! This is also true for a message of zero elements. A send without its receive, or a receive
//! without its send, waits until a deadline. Ranks that have no message need not take part.
//!
//! ```
//! use hccl::prelude::*;
//!
//! # fn main() -> hccl::Result<()> {
//! // Everyone gives its number to the next rank in a ring.
//! let runtime = Runtime::emulator(3)?;
//! let got = runtime.run_ranks(3, |rank| {
//!     let stream = rank.device().stream()?;
//!     let mut comm = rank.communicator()?;
//!     let (next, previous) = ((comm.rank() + 1) % 3, (comm.rank() + 2) % 3);
//!     let own = rank.device().upload(&[comm.rank()], &stream)?;
//!     let mut other = rank.device().zeros::<u32>(1, &stream)?;
//!     comm.batch().send(&own, next).recv(&mut other, previous).submit(&stream)?.wait()?;
//!     other.to_vec(&stream).wait()
//! })?;
//! assert_eq!(got, [[2], [0], [1]]);
//! # Ok(())
//! # }
//! ```
//!
//! # Limits of products
//!
//! On the A2, batches need an Atlas 800T A2, a 900 A2 PoD or a 200T A2 Box16. If links fail with
//! `EI0010` on a Box16 that has RoCE interfaces, set `HCCL_INTRA_ROCE_ENABLE=1` and
//! `HCCL_INTRA_PCIE_ENABLE=0`. With more than 500 ranks an A2 runs at most three batches at a time.
//! CANN does not support batches together with virtual pipelines.

mod check;

pub use crate::error::batch::{BatchError, Direction};
pub(crate) use check::{Peers, Used, check_overlap};

use crate::api::item::Item;
use crate::api::{Table, call};
use crate::collective::CollectiveOp;
use crate::comm::{Communicator, Member};
use crate::device::state::handle;
use crate::device::{Stream, StreamState};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::memory::traits::{Lend, LendMut};
use crate::memory::{Destination, DynSlice, DynSliceMut, Source};
use crate::order::issue::Touch;
use crate::order::label::Takes;
#[cfg(doc)]
use crate::order::work::Work;
use crate::record::operation::{RecordedName, RecordedOp};
use crate::trace::span;

const BATCH: &str = "batch";

/// The lists of a batch, kept by the communicator so that the next batch need not allocate them.
#[derive(Default)]
pub(crate) struct Lists {
    items: Vec<Item>,
    touches: Vec<Touch<'static>>,
}

/// Messages that are collected and then issued together; see the [module](self).
///
/// The buffers are borrowed until [`submit`](Self::submit). A batch that is dropped without being
/// submitted does nothing.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| {
///     let (device, mut comm) = (rank.device(), rank.communicator()?);
///     let stream = device.stream()?;
///     let own = device.upload(&[rank.index()], &stream)?;
///     let mut other = device.zeros::<u32>(1, &stream)?;
///     let peer = 1 - rank.index();
///     comm.batch().send(&own, peer).recv(&mut other, peer).submit(&stream)?.wait()
/// })?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[must_use = "a batch does nothing until it is submitted"]
pub struct Batch<'comm, 'buffers> {
    member: &'comm mut Member,
    items: Vec<Item>,
    touches: Vec<Touch<'buffers>>,
    /// A second list of the messages, for the record. Empty unless the run is recorded.
    recorded: Vec<(Direction, u32, DType, Region<'buffers>)>,
    /// Whether a message uses foreign memory, which the borrow checker does not see.
    foreign: bool,
    /// The first mistake. It is reported by `submit`.
    mistake: Option<Error>,
}

impl Communicator {
    /// Begins a batch of messages.
    ///
    /// Nothing is issued before [`Batch::submit`], and the communicator is borrowed until then.
    #[inline]
    pub fn batch<'buffers>(&mut self) -> Batch<'_, 'buffers> {
        let Lists { items, touches } = std::mem::take(&mut self.member.lists);
        let member = &mut self.member;
        Batch { member, items, touches, recorded: Vec::new(), foreign: false, mistake: None }
    }
}

impl<'buffers> Batch<'_, 'buffers> {
    /// Adds a message to rank `to`: all elements of `source`.
    ///
    /// The peer must receive the same number of elements of the same type, in a batch too. If `to`
    /// is this rank itself, this batch must also have the receive.
    #[inline]
    pub fn send<T: Element>(mut self, source: impl Source<T> + Lend<'buffers>, to: u32) -> Self {
        self.add(Direction::Send, to, source.lend(), T::DTYPE);
        self
    }

    /// Adds a message from rank `from`, which fills `destination`: a `&mut DeviceBuffer` or a
    /// [`DeviceSliceMut`](crate::DeviceSliceMut).
    #[inline]
    pub fn recv<T: Element>(
        mut self,
        destination: impl Destination<T> + LendMut<'buffers>,
        from: u32,
    ) -> Self {
        self.add(Direction::Receive, from, destination.lend(), T::DTYPE);
        self
    }

    /// Adds a message as [`send`](Self::send) does, for elements whose type is known only at run
    /// time.
    pub fn send_dynamic(mut self, source: impl Into<DynSlice<'buffers>>, to: u32) -> Self {
        let source = source.into();
        self.add(Direction::Send, to, source.region(), source.dtype());
        self
    }

    /// Adds a message as [`recv`](Self::recv) does, for elements whose type is known only at run
    /// time.
    pub fn recv_dynamic(
        mut self,
        destination: impl Into<DynSliceMut<'buffers>>,
        from: u32,
    ) -> Self {
        let destination = destination.into();
        self.add(Direction::Receive, from, destination.region(), destination.dtype());
        self
    }

    #[inline]
    fn add(&mut self, direction: Direction, peer: u32, region: Region<'buffers>, dtype: DType) {
        let message = CollectiveOp::of_message(direction, dtype, &region, peer);
        if let (Some(item), Ok(())) = (message.item(), &message.checked) {
            let touch = match direction {
                Direction::Send => region.read("the source of a message"),
                Direction::Receive => region.write("the destination of a message"),
            };
            self.foreign |= region.is_foreign();
            if self.member.record.is_some() {
                self.recorded.push((direction, peer, dtype, region.clone()));
            }
            self.items.push(item);
            self.touches.push(touch);
        } else if let Err(error) = message.checked {
            self.mistake.get_or_insert(error);
        }
    }

    /// Issues the messages, or records them on a stream that is [captured](crate::Graph). An empty
    /// batch is an operation too, with no messages.
    ///
    /// Does not block (see [`comm`](crate::comm)). The [`Work`] is complete when all messages of
    /// this rank have been sent and received. CANN: `HcclBatchSendRecv`.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if a check finds a mistake. Then nothing has been issued. The cause is
    /// one of the errors of the [collectives](crate::collective), or [`Error::Batch`] for one of
    /// these mistakes:
    ///
    /// * a peer is out of range;
    /// * two messages have the same direction and peer;
    /// * a message to this rank itself lacks its send or its receive, or the two differ in length
    ///   or type;
    /// * one message receives into memory that another message uses.
    ///
    /// [`Error::Call`] is an error of CANN.
    pub fn submit<S: StreamState>(mut self, stream: &Stream<S>) -> Result<S::Work> {
        let sequence = self.member.next(Takes::Batch(&self.items));
        let bytes: usize = self.items.iter().map(Item::bytes).sum();
        let _span = span!("hccl.batch", BATCH, self.member, sequence, self.items.len(), bytes);
        self.issue(sequence, stream).map_err(|error| self.member.explain(BATCH, sequence, error))
    }

    fn issue<S: StreamState>(&mut self, sequence: u64, stream: &Stream<S>) -> Result<S::Work> {
        if let Some(mistake) = self.mistake.take() {
            return Err(mistake);
        }
        self.member.peers.check(&self.items)?;
        if self.foreign {
            self.member.peers.check_overlap(&self.items)?;
        }
        let recorded = match self.recorded.is_empty() {
            true => Vec::new(),
            false => self.record_before(stream)?,
        };
        let count = self.items.len() as u32;
        let items = self.items.as_mut_ptr();
        let mut touches: Vec<Touch<'_>> = std::mem::take(&mut self.touches);
        touches.push(self.member.touch());
        let member = &*self.member;
        let batch = member.operation(BATCH, sequence, Takes::Batch(&self.items));
        // SAFETY: the handles are live. The pointer is to `count` items of CANN's layout, which
        // CANN reads during the call. `touches` names the buffers, so they stay allocated and
        // unused by other operations until this one is complete.
        let call = move |table: &Table, comm, raw, items: *mut Item| unsafe {
            call!(table, HcclBatchSendRecv, items.cast(), count, comm, raw)
        };
        let issued = if member.is_linked::<S>(batch.takes) {
            S::issue(stream, batch, &touches, |raw| {
                call(member.device.table(), member.enter(stream)?, raw, items)
            })
        } else {
            let mut items = self.items.clone();
            let needs = batch.takes.into();
            member.issue_by_helper(stream, batch, needs, &touches, move |table, comm, stream| {
                call(table, comm, stream.raw(), items.as_mut_ptr())
            })
        };
        let outcome = handle(stream, issued, BATCH);
        self.touches = emptied(touches);
        if S::RUNS && outcome.is_ok() {
            self.member.count(Takes::Batch(&self.items));
        }
        if !recorded.is_empty() && outcome.is_ok() {
            self.record_after(recorded, sequence, stream)?;
        }
        outcome
    }

    #[cold]
    fn record_before<S: StreamState>(&self, stream: &Stream<S>) -> Result<Vec<RecordedOp>> {
        let Some(record) = &self.member.record else { return Ok(Vec::new()) };
        let given = self.recorded.iter().map(|(direction, _, _, region)| {
            record.before((*direction == Direction::Send).then(|| region.clone()), stream)
        });
        // One entry for each message, or none while the record is paused.
        given.filter_map(Result::transpose).collect()
    }

    #[cold]
    fn record_after<S: StreamState>(
        &self,
        recorded: Vec<RecordedOp>,
        sequence: u64,
        stream: &Stream<S>,
    ) -> Result<()> {
        let Some(record) = &self.member.record else { return Ok(()) };
        for (recorded, message) in recorded.into_iter().zip(&self.recorded) {
            let (direction, peer, dtype, region) = message;
            let (which, got) = match direction {
                Direction::Send => ("send to", None),
                Direction::Receive => ("recv from", Some(region.clone())),
            };
            let (label, operation) = (&self.member.label, format!("{BATCH} {which} {peer}"));
            let takes = Takes::Batch(&self.items);
            let name = RecordedName { label, operation, sequence, takes, dtype: *dtype };
            record.after(recorded, name, got, stream)?;
        }
        Ok(())
    }
}

impl Drop for Batch<'_, '_> {
    fn drop(&mut self) {
        self.items.clear();
        let items = std::mem::take(&mut self.items);
        self.member.lists = Lists { items, touches: emptied(std::mem::take(&mut self.touches)) };
    }
}

/// Returns the same allocation, emptied, for touches of another lifetime. The standard library
/// collects in place, so nothing is allocated.
fn emptied<'to>(mut touches: Vec<Touch<'_>>) -> Vec<Touch<'to>> {
    touches.clear();
    touches.into_iter().map_while(|_| None).collect()
}
