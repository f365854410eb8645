//! The reads and writes of an operation after all ranks have arrived. A large operation is done
//! chunk by chunk, a small one at once.
//!
//! Every operation consists of *blocks*. Each block is read from the buffers of some ranks and
//! written to the buffers of others, once. A chunk is a part of a block, or of several blocks that
//! follow each other in a run (see `plan`).

use std::ops::Range;

use super::participants::Participants;
use super::plan::Plan;
use super::pointers::Pointers;
use super::request::{CollectiveRequest, Operation};
use super::table::{RECEIVES, SENDS};
use ascend_reduce::copy::copy;
use ascend_reduce::{DataType, ReduceOp, Store, reduce_chunk};

/// A large operation at which all ranks have arrived.
pub(crate) struct SharedWork<'a, P> {
    pub(crate) request: &'a CollectiveRequest,
    pub(crate) plan: &'a Plan,
    pub(crate) participants: &'a P,
    pub(crate) store: Store,
}

impl<P: Participants> SharedWork<'_, P> {
    /// Does the work of chunk number `chunk` of the runs of the ranks `of`.
    ///
    /// # Safety
    ///
    /// Each buffer has the size that its rank's request and table give. The send buffer and the
    /// receive buffer of a rank do not overlap, except for the block that an operation in place
    /// leaves unmoved. No other thread works on this chunk.
    pub(crate) unsafe fn run(&self, of: Range<usize>, chunk: u32) {
        let Self { request, participants, .. } = *self;
        let (rank, part) = self.plan.find(request, of, chunk, participants);
        let (start, bytes) = (part.start, part.len());
        let ranks = participants.ranks();
        // Both addresses lie within the buffers. `wrapping_add` does not require that, so it needs
        // no `unsafe`.
        let send =
            |rank, at: usize| participants.contribution(rank).send.wrapping_add(at).cast_mut();
        let recv = |rank, at: usize| participants.contribution(rank).recv.wrapping_add(at);
        let block = request.bytes();
        // SAFETY: the caller's promise, for the part of the buffers that this chunk is.
        unsafe {
            match request.operation {
                Operation::AllReduce(op) => {
                    let inputs = (0..ranks).map(|r| send(r, start));
                    self.reduce(op, bytes, inputs, (0..ranks).map(|r| recv(r, start)));
                }
                Operation::Reduce(op, root) => {
                    let inputs = (0..ranks).map(|r| send(r, start));
                    self.reduce(op, bytes, inputs, [recv(root as usize, start)]);
                }
                Operation::ReduceScatter(op) => {
                    let inputs = (0..ranks).map(|r| send(r, rank * block + start));
                    self.reduce(op, bytes, inputs, [recv(rank, start)]);
                }
                Operation::ReduceScatterV(op) => {
                    let place = |r| participants.blocks(r).of(SENDS, rank, request.dtype);
                    let end = (0..ranks).map(|r| place(r).0).fold(part.end, usize::min);
                    let inputs = (0..ranks).map(|r| send(r, place(r).1 + start));
                    self.reduce(op, end.saturating_sub(start), inputs, [recv(rank, start)]);
                }
                Operation::Broadcast(root) => {
                    let root = root as usize;
                    let others = (0..ranks).filter(|r| *r != root);
                    self.spread(bytes, send(root, start), others.map(|r| recv(r, start)));
                }
                Operation::AllGather => {
                    let outputs = (0..ranks).map(|r| recv(r, rank * block + start));
                    self.spread(bytes, send(rank, start), outputs);
                }
                Operation::AllGatherV => {
                    let place = |r| participants.blocks(r).of(SENDS, rank, request.dtype);
                    let end = (0..ranks).map(|r| place(r).0).fold(part.end, usize::min);
                    let outputs = (0..ranks).map(|r| recv(r, place(r).1 + start));
                    self.spread(end.saturating_sub(start), send(rank, start), outputs);
                }
                Operation::Scatter(root) => {
                    let from = send(root as usize, rank * block + start);
                    copy(recv(rank, start), from, bytes, self.store);
                }
                Operation::AlltoAll => {
                    let mut at = start;
                    while at < part.end {
                        let (source, offset) = (at / block, at % block);
                        let piece = (block - offset).min(part.end - at);
                        let from = send(source, rank * block + offset);
                        copy(recv(rank, at), from, piece, self.store);
                        at += piece;
                    }
                }
                Operation::AlltoAllV | Operation::AlltoAllVC => self.collect(rank, part),
                Operation::Barrier => {}
            }
        }
    }

    /// Copies a part of the data that `rank` receives. The byte range `part` counts through the
    /// received blocks, one after another.
    ///
    /// # Safety
    ///
    /// As for [`SharedWork::run`].
    unsafe fn collect(&self, rank: usize, part: Range<usize>) {
        let Self { request, participants, .. } = *self;
        let own = participants.blocks(rank);
        let to = participants.contribution(rank).recv;
        let mut begin = 0;
        for source in 0..participants.ranks() {
            if begin >= part.end {
                break;
            }
            let (expected, at) = own.of(RECEIVES, source, request.dtype);
            let wanted =
                part.start.max(begin) - begin..part.end.min(begin + expected).max(begin) - begin;
            begin += expected;
            if wanted.is_empty() {
                continue;
            }
            let (sent, from) = participants.blocks(source).of(SENDS, rank, request.dtype);
            let bytes = wanted.end.min(sent).saturating_sub(wanted.start);
            let from = participants.contribution(source).send.wrapping_add(from + wanted.start);
            // SAFETY: the caller's promise; the piece lies within the blocks of both sides.
            unsafe { copy(to.wrapping_add(at + wanted.start), from, bytes, self.store) };
        }
    }

    /// Reduces the elements of all inputs, and writes the result to every output.
    ///
    /// # Safety
    ///
    /// All pointers are valid for `bytes` bytes. An output is one of the inputs or does not overlap
    /// any of them.
    #[inline]
    unsafe fn reduce(
        &self,
        op: ReduceOp,
        bytes: usize,
        inputs: impl IntoIterator<Item = *mut u8>,
        outputs: impl IntoIterator<Item = *mut u8>,
    ) {
        let (mut read, mut written) = (Pointers::new(), Pointers::new());
        let (inputs, outputs) = (read.inputs(inputs), written.outputs(outputs));
        let (dtype, count) = (self.request.dtype, bytes / self.request.dtype.size());
        // SAFETY: the caller's promise.
        unsafe { reduce_chunk(dtype, op, inputs, outputs, count, self.store) };
    }

    /// Copies one input to all outputs except the input itself.
    ///
    /// # Safety
    ///
    /// As for [`SharedWork::reduce`].
    #[inline]
    unsafe fn spread(&self, bytes: usize, input: *mut u8, outputs: impl Iterator<Item = *mut u8>) {
        let mut written = Pointers::new();
        let outputs = written.outputs(outputs.filter(|output| *output != input));
        let input = input.cast_const();
        // SAFETY: the caller's promise. `reduce_chunk` accepts a single input of bytes in every
        // case.
        unsafe {
            match outputs {
                [output] => copy(*output, input, bytes, self.store),
                outputs => {
                    reduce_chunk(
                        DataType::Int8,
                        ReduceOp::Sum,
                        &[input],
                        outputs,
                        bytes,
                        self.store,
                    );
                }
            }
        }
    }
}

/// Does a small operation for one rank: reads the payloads of all ranks and writes to `recv`. A
/// payload holds all data that its rank gives.
///
/// # Safety
///
/// The payloads and `recv` have the sizes that the request gives.
#[inline]
pub(crate) unsafe fn run_small(
    request: &CollectiveRequest,
    rank: usize,
    ranks: usize,
    recv: *mut u8,
    payload: impl Fn(usize) -> *const u8,
) {
    if request.count == 0 {
        // There is no data to move.
        return;
    }
    let block = request.bytes();
    let reduce = |op, at: usize| {
        let mut read = Pointers::new();
        let inputs = read.inputs((0..ranks).map(|r| payload(r).wrapping_add(at).cast_mut()));
        let count = request.count as usize;
        // SAFETY: the caller's promise.
        unsafe { reduce_chunk(request.dtype, op, inputs, &[recv], count, Store::Plain) };
    };
    // SAFETY: the caller's promise.
    unsafe {
        match request.operation {
            Operation::AllReduce(op) => reduce(op, 0),
            Operation::Reduce(op, root) if root as usize == rank => reduce(op, 0),
            Operation::ReduceScatter(op) => reduce(op, rank * block),
            Operation::Broadcast(root) if root as usize != rank => {
                copy(recv, payload(root as usize), block, Store::Plain);
            }
            Operation::Scatter(root) => {
                let from = payload(root as usize).wrapping_add(rank * block);
                copy(recv, from, block, Store::Plain);
            }
            Operation::AllGather | Operation::AlltoAll => {
                let at = if request.operation == Operation::AlltoAll { rank * block } else { 0 };
                for source in 0..ranks {
                    let to = recv.wrapping_add(source * block);
                    copy(to, payload(source).wrapping_add(at), block, Store::Plain);
                }
            }
            // These ranks only give data and receive none.
            Operation::Reduce(..) | Operation::Broadcast(_) => {}
            // A barrier has no elements. An operation with tables that has elements is never small.
            Operation::Barrier
            | Operation::AlltoAllV
            | Operation::AlltoAllVC
            | Operation::AllGatherV
            | Operation::ReduceScatterV(_) => {}
        }
    }
}
