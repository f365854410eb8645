//! Operations of several communicators that one thread issues together. Use a group to drive
//! several ranks from one thread, or to port a program that has groups. If each rank has its own
//! thread or process, groups are not needed. Do not use a group for speed.
//!
//! [`group`] collects operations and issues all of them at its end, from one thread for all ranks
//! of a process. The same operations would have the same results if they were issued one after
//! another. But CANN can optimise operations that it gets together, and a program that already has
//! groups can keep them.
//!
//! ```
//! use hccl::prelude::*;
//!
//! # fn main() -> hccl::Result<()> {
//! // One thread, three ranks.
//! let runtime = Runtime::emulator(3)?;
//! let devices = [runtime.device(0)?, runtime.device(1)?, runtime.device(2)?];
//! let mut comms = Communicator::init_all(&devices).wait()?;
//! let streams = [devices[0].stream()?, devices[1].stream()?, devices[2].stream()?];
//! let mut sums = Vec::new();
//! for (device, stream) in devices.iter().zip(&streams) {
//!     sums.push(device.upload(&[1.0_f32, 2.0], stream)?);
//! }
//! let work = hccl::group(|group| {
//!     for ((comm, stream), sum) in comms.iter_mut().zip(&streams).zip(&mut sums) {
//!         group.on(comm, stream).all_reduce_in_place(sum, Sum);
//!     }
//!     Ok(())
//! })?;
//! work.wait()?;
//! assert_eq!(sums[2].to_vec(&streams[2]).wait()?, [3.0, 6.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Rules
//!
//! * The closure only records. CANN is not called before the closure returns. So if the closure
//!   panics or returns an error, or if a check fails, nothing has been issued and no number is
//!   taken.
//! * Buffers are borrowed until the group ends. So no operation of a group can read what another
//!   operation writes. CANN requires this independence, because it may issue the operations in
//!   another order.
//! * A group has collectives or messages, but not both. The messages of each communicator form one
//!   batch, with the rules of a [batch](crate::batch): at most one message for each peer and
//!   direction.
//! * Each communicator has one stream, and each stream one communicator.
//! * On the Ascend 950, a group can have only messages, and at most 2,048 of them.
//! * A group cannot have batches, because CANN forbids them there, or a `reduce`, because CANN
//!   loses its arguments. It also cannot have barriers, which would gain nothing, or [custom
//!   operators](Communicator::run), whose channels need a thread for each rank.
//!
//! # Blocking
//!
//! The end of a group makes links, as first operations do, and blocks until they are made. If the
//! group has collectives, CANN then also blocks the thread until they are complete (A2 and A3). So
//! a group is for driving many ranks, not for speed.
//!
//! # Errors
//!
//! A mistake in an operation gives the same error as outside of a group, with the number that the
//! operation would have had. CANN does not report errors that occur at the end of a group, for
//! example because ranks disagree: the peers then wait until a deadline. The emulator reports these
//! errors ([`ascendExtGroupResult`](ascend_sys::Functions::ascendExtGroupResult)), and [`group`]
//! returns the first of them. The other operations may have been issued.

mod check;
mod dynamic;
mod entry;
mod record;
mod work;

pub use dynamic::DynRecorder;
pub use record::Recorder;
pub use work::GroupWork;

use entry::{Entry, GROUP, GroupOperation};

use crate::api::{Table, call};
use crate::comm::Communicator;
use crate::device::Stream;
use crate::error::{Error, Result};
use crate::order::awaiting;
use crate::order::together::{Part, issue_together};
use crate::order::work::Work;
use crate::record::operation::RecordedOp;
use crate::trace::span;

/// Calls `record`, which records operations, and then issues all of them together; see the
/// [module](self). Blocks as described [there](self#blocking). CANN: `HcclGroupStart`,
/// `HcclGroupEnd`.
///
/// # Errors
///
/// The error of `record`. [`Error::Refused`] for the first mistake in an operation, and
/// [`Error::WrongRuntime`] or [`Error::Invalid`] for a mistake of the group as a whole, for example
/// if it has messages and collectives. [`Error::Timeout`] if earlier operations still make their
/// links at the deadline. [`Error::Call`] is an error of CANN.
pub fn group<'env>(record: impl FnOnce(&mut Group<'env>) -> Result<()>) -> Result<GroupWork> {
    let mut group = Group { entries: Vec::new(), mistake: None };
    record(&mut group)?;
    group.issue()
}

/// The recorder that [`group`] gives its closure.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(2)?;
/// # let devices = [runtime.device(0)?, runtime.device(1)?];
/// # let [first, second] = [devices[0].stream()?, devices[1].stream()?];
/// let mut comms = Communicator::init_all(&devices).wait()?;
/// let [a, b] = &mut comms[..] else { unreachable!("two devices") };
/// let mut x = devices[0].upload(&[1.0_f32], &first)?;
/// let mut y = devices[1].upload(&[2.0_f32], &second)?;
/// hccl::group(|group: &mut hccl::Group<'_>| {
///     group.on(a, &first).broadcast(&mut x, 0);
///     group.on(b, &second).broadcast(&mut y, 0);
///     Ok(())
/// })?
/// .wait()?;
/// assert_eq!(y.to_vec(&second).wait()?, [1.0]);
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct Group<'env> {
    entries: Vec<Entry<'env>>,
    /// The first mistake. It is reported at the end.
    mistake: Option<Error>,
}

impl<'env> Group<'env> {
    /// Begins to record operations of a communicator, which is borrowed until the group has ended.
    /// The operations that the returned [`Recorder`] records are issued on `stream`.
    pub fn on(&mut self, comm: &'env mut Communicator, stream: &'env Stream) -> Recorder<'_, 'env> {
        self.entries.push(Entry { member: &mut comm.member, stream, operations: Vec::new() });
        let at = self.entries.len() - 1;
        Recorder { entry: &mut self.entries[at], mistake: &mut self.mistake }
    }

    fn issue(mut self) -> Result<GroupWork> {
        if let Some(mistake) = self.mistake.take() {
            return Err(mistake);
        }
        self.entries.retain(|entry| !entry.operations.is_empty());
        check::check(&mut self.entries)?;
        let Some(first) = self.entries.first() else { return Ok(GroupWork(Vec::new())) };
        let count: usize = self.entries.iter().map(|entry| entry.operations.len()).sum();
        let bytes: usize = self.entries.iter().map(Entry::bytes).sum();
        let _span = span!("hccl.group", GROUP, first.member, first.sequence(), count, bytes);
        awaiting::blocks(GROUP);
        for entry in &self.entries {
            entry.member.let_detours_pass(GROUP, entry.sequence())?;
        }
        let recorded = self.record_before()?;
        let (works, issued) = issue(&self.entries);
        // Also after a failure, because the operations that were issued have taken their numbers.
        let mut issued = issued.into_iter();
        for Entry { member, operations, .. } in &mut self.entries {
            for recorded in operations.iter().filter(|_| issued.next() == Some(true)) {
                member.count(recorded.operation.takes());
                if works.is_ok() {
                    member.handle.links.made(&recorded.operation.takes().into());
                }
            }
        }
        if works.is_ok() {
            self.record_after(recorded)?;
        }
        works.map(GroupWork)
    }

    /// Begins to copy the inputs of the operations, if their communicator is recorded. Returns one
    /// entry for each operation, or an empty list if no communicator is recorded.
    fn record_before(&self) -> Result<Vec<Option<RecordedOp>>> {
        if self.entries.iter().all(|entry| entry.member.record.is_none()) {
            return Ok(Vec::new());
        }
        let operations = self.entries.iter().flat_map(Entry::each);
        let before = operations.map(|(entry, GroupOperation { sequence, operation })| {
            let Some(record) = &entry.member.record else { return Ok(None) };
            let recorded = record.before(operation.given(), entry.stream);
            recorded.map_err(|error| entry.member.explain(operation.name(), *sequence, error))
        });
        before.collect()
    }

    /// Begins to copy the outputs of the operations whose inputs were copied.
    fn record_after(&self, recorded: Vec<Option<RecordedOp>>) -> Result<()> {
        let operations = self.entries.iter().flat_map(Entry::each);
        for (recorded, (entry, GroupOperation { sequence, operation })) in
            recorded.into_iter().zip(operations)
        {
            let Entry { member, stream, .. } = entry;
            if let (Some(record), Some(recorded)) = (&member.record, recorded) {
                let name = operation.recorded_as(&member.label, *sequence);
                let got = operation.got(member.label.rank);
                let done = record.after(recorded, name, got, stream);
                done.map_err(|error| member.explain(operation.name(), *sequence, error))?;
            }
        }
        Ok(())
    }
}

/// Issues the operations of all entries. Also returns, for each operation that was queued, whether
/// it was issued.
fn issue(entries: &[Entry<'_>]) -> (Result<Vec<Work>>, Vec<bool>) {
    let parts: Vec<Part<'_>> = entries.iter().map(Entry::part).collect();
    let mut issued = Vec::new();
    let works = issue_together(&parts, || call_all(entries, &mut issued));
    let first = &entries[0];
    (works.map_err(|error| first.member.explain(GROUP, first.sequence(), error)), issued)
}

/// Makes all calls of a group, from `HcclGroupStart` to `HcclGroupEnd`.
fn call_all(entries: &[Entry<'_>], issued: &mut Vec<bool>) -> Result<()> {
    let device = &entries[0].member.device;
    let table = device.table();
    if table.functions().HcclGroupEnd.is_none() {
        return Err(table.missing("HcclGroupEnd"));
    }
    let _bound = device.bind()?;
    // SAFETY: the function takes no arguments. Only the calls of `call_all` come before the end of
    // the group.
    unsafe { call!(table, HcclGroupStart) }?;
    let mut outcome = entries.iter().try_for_each(|entry| queue(entry, table, issued));
    // SAFETY: the function takes no arguments. The communicators, buffers and tables of the queued
    // operations are borrowed, so they are alive.
    let ended = unsafe { call!(table, HcclGroupEnd) };
    outcome = outcome.and(ended);
    // The backend numbers the queued operations of a group from 0.
    let operations = entries
        .iter()
        .flat_map(|entry| entry.operations.iter().map(|recorded| (&entry.member, recorded)));
    for (at, (issued, (member, recorded))) in issued.iter_mut().zip(operations).enumerate() {
        if let Some(error) = table.group_failure(at as u32) {
            // The recent messages have the texts of the failed calls, too. They would become part
            // of a later error of this thread.
            drop(table.recent_message());
            *issued = false;
            let GroupOperation { sequence, operation } = recorded;
            let error = member.explain(operation.name(), *sequence, error);
            outcome = outcome.and(Err(error));
        }
    }
    outcome
}

/// Queues the operations of a communicator, between the start and the end of the group.
fn queue(entry: &Entry<'_>, table: &Table, issued: &mut Vec<bool>) -> Result<()> {
    let Entry { member, stream, operations, .. } = entry;
    let _bound = member.device.bind()?;
    let stream = stream.as_raw();
    for GroupOperation { sequence, operation } in operations {
        let queued = match member.handle.calling() {
            // SAFETY: the handles are live. By the checks, the buffers are long enough. They are
            // among the touches of the group, so they stay allocated and unused by other operations
            // until the group is complete on this stream. Tables are borrowed until the group has
            // ended.
            Some(comm) => unsafe { operation.enqueue(table, comm, stream) },
            None => Err(Error::Aborted { context: None }),
        };
        queued.map_err(|error| member.explain(operation.name(), *sequence, error))?;
        issued.push(true);
    }
    Ok(())
}
