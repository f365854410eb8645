//! Enqueues recorded tasks on the threads of a communicator.
//!
//! Invariant: all tasks of an operator are checked before the first task is enqueued. The tasks use
//! only the input, the output and the communication buffer of this rank, and the communication
//! buffers of peers to which there is a channel. They never write the input. The operation stamps
//! its input and its output. It also stamps the communicator, which owns the communication buffer.
//!
//! The tasks of all threads are enqueued in the order in which they were recorded. So no thread
//! waits for a task of this rank that is not enqueued yet, however short the queues of the device
//! are.
//!
//! A sub-thread begins when the main thread sets its start notify, and the main thread waits for a
//! notify of its end. But a wait for a notify does not protect memory: when the communicator fails,
//! the wait ends early, and the tasks queued after it run. The memory of an operator belongs to
//! other operations before and after the operator, even if the operator fails. So at the start
//! every other thread waits for an event of the stream. At the end the stream waits for an event of
//! every other thread. A failure does not end a wait for an event.

#![expect(unsafe_code, reason = "the one place where primitives are called")]

use std::ffi::c_void;
use std::ptr;
use std::time::Duration;

use ascend_operator::plan::Engine;
use ascend_operator::{Memory, Piece, RankTasks, Signal, Task};
use ascend_sys::{HcclComm, ThreadHandle};

use super::operator::Operator;
use super::resources::{PeerChannel, Resources, Site, invalid};
use super::state::Tape;
use crate::api::Table;
use crate::api::handles::{EventHandle, StreamHandle};
use crate::api::operators::{Buffer, PrimitiveReduction};
use crate::comm::Member;
use crate::comm::detour::{Alike, CallFailure};
use crate::comm::links::Needs;
use crate::device::state::sealed::StreamState as _;
use crate::device::{Open, Stream};
use crate::dtype::DType;
use crate::error::operator::{Mistake, RecordError};
use crate::error::product::Product;
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::order::issue::{Issued, Touch};
use crate::order::label::Takes;
use crate::sync::lock;

/// An operator that is about to be issued. Its tasks are recorded on the tape.
pub(super) struct Issue<'a> {
    pub(super) member: &'a Member,
    pub(super) operator: &'a Operator,
    pub(super) sequence: u64,
    pub(super) engine: Engine,
    pub(super) dtype: DType,
    /// The input and the output, where the rank has them.
    pub(super) memory: [Option<&'a Region<'a>>; 2],
    pub(super) own: Buffer,
}

impl Issue<'_> {
    /// Issues the operator. The calling thread enqueues the tasks if the device's helper has no
    /// open jobs and there are channels to all peers of the operator. Otherwise the helper acquires
    /// the channels and enqueues the tasks; it takes the tape. `touches` names the communicator and
    /// the regions in `memory`.
    pub(super) fn on(
        &self,
        stream: &Stream,
        touches: &[Touch<'_>],
        tape: &mut Tape,
    ) -> Result<Issued> {
        let Issue { member, operator, sequence, engine, dtype, memory, own } = *self;
        let (name, device) = (operator.name(), member.device.clone());
        let given = |region: Option<&Region<'_>>| match region {
            Some(region) => Buffer { start: region.pointer(), bytes: region.bytes() as u64 },
            None => Buffer { start: ptr::null_mut(), bytes: 0 },
        };
        let given = OperatorCall {
            name,
            engine,
            product: member.product,
            rank: member.label.rank,
            ranks: member.world_size,
            seconds: member.exec_seconds,
            memory: [given(memory[0]), given(memory[1]), own],
            reduction: operator.goal().reduces().map(|op| (dtype, op)),
        };
        let shared = &member.operators.shared;
        let operation = member.operation(name, sequence, Takes::Collective);
        let is_connected = device.linking().is_idle()
            && lock(&shared.resources).are_connected(engine, &tape.tasks.channels)?;
        let event = match tape.tasks.threads.len() {
            1 if engine == Engine::CpuTs => None,
            _ => Some(device.lend_event()?),
        };
        if is_connected {
            let mut begun = false;
            let issued = Open::issue(stream, operation, touches, |_| {
                let (table, comm) = (device.table(), member.enter(stream)?);
                let resources = &mut lock(&shared.resources);
                let mut driver = given.driver(table, comm, tape, resources);
                // SAFETY: the handles are live. The regions of `memory` are in `touches`. So they
                // stay allocated, and no conflicting operation uses them, until the operation is
                // complete.
                unsafe { driver.drive(stream.queue().handle(), event.as_deref(), &mut begun) }
            });
            if begun && let Err(error) = &issued {
                shared.spoil(name, sequence, error);
                let _bound = device.bind()?;
                member.handle.abort(device.table());
            }
            return issued;
        }
        let (tape, shared) = (std::mem::take(tape), shared.clone());
        let call = move |table: &Table, comm, stream: &StreamHandle| {
            let mut begun = false;
            let outcome = shared.check().and_then(|()| {
                let resources = &mut lock(&shared.resources);
                let mut driver = given.driver(table, comm, &tape, resources);
                // SAFETY: as above.
                unsafe { driver.drive(stream, event.as_deref(), &mut begun) }
            });
            outcome.map_err(|error| {
                // Other ranks may still run this operator. They would take the notifies of a later
                // operator of this rank for those of this one.
                shared.spoil(name, sequence, &error);
                CallFailure { error, is_out: begun, aborts: begun }
            })
        };
        member.issue_alike(stream, operation, Needs::none(), (Alike::default(), touches), call)
    }
}

/// The values that all tasks of one run of an operator share, apart from the acquired resources.
#[derive(Clone, Copy)]
struct OperatorCall {
    /// The name of the operator.
    name: &'static str,
    engine: Engine,
    product: Option<Product>,
    rank: u32,
    ranks: u32,
    /// The time limit of a wait in seconds; 0 means no limit.
    seconds: u32,
    /// The input, the output and the communication buffer of this rank.
    memory: [Buffer; 3],
    /// The reduction of the operator.
    reduction: Option<PrimitiveReduction>,
}

impl OperatorCall {
    fn driver<'a>(
        self,
        table: &'a Table,
        comm: HcclComm,
        tape: &'a Tape,
        resources: &'a mut Resources,
    ) -> OperatorDriver<'a> {
        let OperatorCall { name, engine, product, rank, ranks, seconds, memory, reduction, .. } =
            self;
        let site = Site { table, comm, product, engine, ranks, buffer: memory[2].bytes, seconds };
        OperatorDriver { site, name, rank, tape, resources, memory, reduction }
    }
}

/// The state for enqueueing the tasks of one operator.
struct OperatorDriver<'a> {
    site: Site<'a>,
    name: &'static str,
    rank: u32,
    tape: &'a Tape,
    resources: &'a mut Resources,
    memory: [Buffer; 3],
    reduction: Option<PrimitiveReduction>,
}

/// The address of a piece: on this rank, or on the peer of a channel.
enum Found<'a> {
    Here(*mut c_void),
    There(&'a PeerChannel, *mut c_void),
}

impl OperatorDriver<'_> {
    /// Acquires the missing resources, checks all tasks, and enqueues them. Blocks until every peer
    /// with a missing channel has opened that channel too. Sets `begun` before it enqueues the
    /// first task: if a call fails after that, some tasks may be in flight.
    ///
    /// # Safety
    ///
    /// The communicator and the stream are live. Each buffer in `memory` lies on the device and has
    /// the stated length. It stays allocated until the stream has completed all work that is queued
    /// on it when this function returns. Until then only this work uses the buffer, but other
    /// operations may read the input.
    unsafe fn drive(
        &mut self,
        stream: &StreamHandle,
        event: Option<&EventHandle>,
        begun: &mut bool,
    ) -> Result<()> {
        let Site { table, .. } = self.site;
        // SAFETY: the caller's promise.
        let host = unsafe { self.resources.acquire(self.site, self.tape, stream.raw()) }?;
        self.check()?;
        if let Some(event) = event {
            self.part(stream, event)?;
        }
        table.start_batch()?;
        *begun = true;
        // SAFETY: the caller's promise; the handles were just acquired; the tasks were checked.
        let told = unsafe { self.tell_all(host) };
        // The batch is a state of this OS thread, so it must end even if a task was refused. The
        // tasks that were enqueued before that one continue to run.
        let ended = table.end_batch();
        let joined = event.map_or(Ok(()), |event| self.join(stream, event));
        told.and(ended).and(joined)
    }

    /// Makes the other threads wait until the tasks that are now queued on the stream are complete.
    fn part(&self, stream: &StreamHandle, event: &EventHandle) -> Result<()> {
        let Site { table, engine, .. } = self.site;
        table.record_event(event, stream)?;
        self.resources.streams(engine).try_for_each(|of_thread| table.wait_event(of_thread, event))
    }

    /// Makes the stream wait until the tasks that are queued on the other threads are complete.
    fn join(&self, stream: &StreamHandle, event: &EventHandle) -> Result<()> {
        let Site { table, engine, seconds, .. } = self.site;
        let mut outcome = Ok(());
        for of_thread in self.resources.streams(engine) {
            let waits =
                table.record_event(event, of_thread).and_then(|()| table.wait_event(stream, event));
            if let Err(error) = waits {
                // The stream cannot wait for this thread, so the host waits instead. Its limit is
                // that of a wait on the thread.
                let limit = match seconds {
                    0 => Duration::MAX,
                    seconds => Duration::from_secs(seconds.into()),
                };
                let stopped = table.synchronize_stream(of_thread, limit);
                outcome = outcome.and(stopped.map(drop)).and(Err(error));
            }
        }
        outcome
    }

    /// Checks that every task uses only memory and notifies that it may use.
    fn check(&self) -> Result<()> {
        let RankTasks { threads, .. } = &self.tape.tasks;
        for step in threads.iter().flatten() {
            let found = match &step.task {
                Task::Copy { from, to } | Task::Reduce { from, to, .. } => {
                    self.check_pieces(from, to)
                }
                Task::Record(signal) | Task::Wait(signal) => self.check_signal(signal),
            };
            if let Err(text) = found {
                let mut error = RecordError::new(self.name);
                error.add(self.rank, &[Mistake::new(text, step.source)]);
                return Err(Error::Operator(error));
            }
        }
        Ok(())
    }

    #[inline]
    fn check_pieces(&self, from: &Piece, to: &Piece) -> Result<(), String> {
        match (self.find(from), self.find(to)) {
            (None, _) => Err(self.not_there(from)),
            (_, None) => Err(self.not_there(to)),
            (Some(Found::There(..)), Some(Found::There(..))) => {
                Err(format!("{from} cannot go to {to}: one of the two must be on this rank"))
            }
            _ if to.rank == self.rank && to.memory == Memory::Input => Err(format!(
                "a task writes {to}, but the input is read-only: \
                 copy the input to the output or the communication buffer first"
            )),
            _ => Ok(()),
        }
    }

    #[inline]
    fn check_signal(&self, signal: &Signal) -> Result<(), String> {
        let there = match signal {
            Signal::Thread { thread, .. } => (*thread as usize) < self.resources.threads.len(),
            Signal::Channel { rank, peer, .. } => self.channel(*rank, *peer).is_some(),
        };
        if there { Ok(()) } else { Err(format!("{signal} does not exist: report this bug")) }
    }

    #[cold]
    fn not_there(&self, piece: &Piece) -> String {
        let Piece { rank, memory, .. } = piece;
        let own = *rank == self.rank;
        let bytes = match self.resources.peer(self.site.engine, *rank) {
            _ if own => self.memory[*memory as usize].bytes,
            Some(peer) if *memory == Memory::Buffer => peer.buffer.bytes,
            _ => {
                return format!(
                    "{piece} cannot be reached: use the communication buffer of that rank, and \
                     open a channel to the rank"
                );
            }
        };
        format!("{piece} do not exist: this memory has {bytes} bytes, so use a smaller range")
    }

    /// Returns the channel of a signal between `rank` and `peer`, one of which is this rank.
    #[inline]
    fn channel(&self, rank: u32, peer: u32) -> Option<&PeerChannel> {
        let other = if rank == self.rank { peer } else { rank };
        self.resources.peer(self.site.engine, other)
    }

    /// Returns the address of a piece, or `None` if this rank cannot reach all of it.
    #[inline]
    fn find(&self, piece: &Piece) -> Option<Found<'_>> {
        let within = |memory: &Buffer| {
            let end = piece.start.checked_add(piece.bytes)?;
            (end <= memory.bytes).then(|| memory.start.wrapping_byte_add(piece.start as usize))
        };
        if piece.rank == self.rank {
            return within(&self.memory[piece.memory as usize]).map(Found::Here);
        }
        let peer = self.resources.peer(self.site.engine, piece.rank)?;
        match piece.memory {
            Memory::Buffer => within(&peer.buffer).map(|start| Found::There(peer, start)),
            Memory::Input | Memory::Output => None,
        }
    }

    /// Enqueues all tasks of the operator. `host` is the thread of the stream.
    ///
    /// # Safety
    ///
    /// As for [`drive`](Self::drive). All resources are acquired, and all tasks are checked.
    unsafe fn tell_all(&mut self, host: ThreadHandle) -> Result<()> {
        let Site { table, engine, seconds, .. } = self.site;
        let mut told = std::mem::take(&mut self.resources.told);
        told.clear();
        told.resize(self.resources.threads.len(), 0);
        let (tape, threads) = (self.tape, &self.resources.threads);
        let start = tape.notifies.first().copied().unwrap_or(0);
        let main = threads.first().copied().unwrap_or(host);
        let mut tell_all = || {
            // SAFETY: the caller's promise: both threads have these notifies, and the tasks were
            // checked.
            unsafe {
                if engine == Engine::AicpuTs {
                    table.record_thread(host, main, start)?;
                    table.wait_thread(main, start, seconds)?;
                }
                for index in tape.order.iter().map(|thread| *thread as usize) {
                    let (Some(handle), Some(next)) = (threads.get(index), told.get_mut(index))
                    else {
                        return Err(invalid(format!(
                            "no thread {index} was acquired: report this bug"
                        )));
                    };
                    if let Some(step) = tape.tasks.threads.get(index).and_then(|t| t.get(*next)) {
                        self.tell(*handle, &step.task)?;
                    }
                    *next += 1;
                }
                if engine == Engine::AicpuTs {
                    table.record_thread(main, host, 0)?;
                    table.wait_thread(host, 0, seconds)?;
                }
            }
            Ok(())
        };
        let outcome = tell_all();
        self.resources.told = told;
        outcome
    }

    /// Enqueues one task on a thread.
    ///
    /// # Safety
    ///
    /// As for [`drive`](Self::drive). The task was checked.
    #[inline]
    unsafe fn tell(&self, thread: ThreadHandle, task: &Task) -> Result<()> {
        let Site { table, seconds, .. } = self.site;
        // SAFETY: the caller's promise; `find` returns only memory that has the length of the
        // piece.
        unsafe {
            match task {
                Task::Copy { from, to } => match (self.find(from), self.find(to)) {
                    (Some(Found::Here(from)), Some(Found::Here(at))) => {
                        table.local_copy(thread, at, from, to.bytes)
                    }
                    (Some(Found::There(peer, from)), Some(Found::Here(at))) => {
                        table.read(thread, peer.channel, at, from, to.bytes)
                    }
                    (Some(Found::Here(from)), Some(Found::There(peer, at))) => {
                        table.write(thread, peer.channel, at, from, to.bytes)
                    }
                    _ => Err(gone(task)),
                },
                Task::Reduce { from, to, .. } => {
                    let Some(reduction) = self.reduction else { return Err(gone(task)) };
                    let count = to.bytes / reduction.0.size() as u64;
                    match (self.find(from), self.find(to)) {
                        (Some(Found::Here(from)), Some(Found::Here(at))) => {
                            table.local_reduce(thread, at, from, count, reduction)
                        }
                        (Some(Found::There(peer, from)), Some(Found::Here(at))) => {
                            let over = (thread, peer.channel);
                            table.read_reduce(over, at, from, count, reduction)
                        }
                        (Some(Found::Here(from)), Some(Found::There(peer, at))) => {
                            let over = (thread, peer.channel);
                            table.write_reduce(over, at, from, count, reduction)
                        }
                        _ => Err(gone(task)),
                    }
                }
                Task::Record(Signal::Thread { thread: of, index, .. }) => {
                    match self.resources.threads.get(*of as usize) {
                        Some(of) => table.record_thread(thread, *of, *index),
                        None => Err(gone(task)),
                    }
                }
                Task::Wait(Signal::Thread { index, .. }) => {
                    table.wait_thread(thread, *index, seconds)
                }
                Task::Record(Signal::Channel { rank, peer, index }) => {
                    match self.channel(*rank, *peer) {
                        Some(peer) => table.record_channel(thread, peer.channel, *index),
                        None => Err(gone(task)),
                    }
                }
                Task::Wait(Signal::Channel { rank, peer, index }) => {
                    match self.channel(*rank, *peer) {
                        Some(peer) => table.wait_channel(thread, peer.channel, *index, seconds),
                        None => Err(gone(task)),
                    }
                }
            }
        }
    }
}

/// Returns the error for a resource that is missing although the checks found it. This cannot
/// happen.
#[cold]
fn gone(task: &Task) -> Error {
    invalid(format!("a checked resource of a task is missing: report this bug of hccl: {task}"))
}
