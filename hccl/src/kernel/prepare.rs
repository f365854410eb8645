//! The operations that a client can prepare, the turns of an operation, and the tasks that result.
//! End an operation with `commit_all` if its whole input is in memory, and with `prepare` if the
//! kernel makes the input turn by turn.
//!
//! # Turns
//!
//! The server runs a task in `repeat` turns. Each turn is the same operation, `count` elements
//! further on in the buffers. `stride` is the number of elements from the start of one rank's block
//! to the start of the next rank's block; 0 means that the blocks touch. The table shows four ranks
//! with 300 elements each, in turns of 128, 128 and 44:
//!
//! | `all_gather(x, y, 128).stride(300).repeat(2)` | from rank 0 | rank 1 | rank 2 | rank 3 |
//! | --- | --- | --- | --- | --- |
//! | the first turn reads `x[0..128]`, writes | `y[0..128]` | `y[300..428]` | `y[600..728]` | `y[900..1028]` |
//! | the second turn reads `x[128..256]`, writes | `y[128..256]` | `y[428..556]` | `y[728..856]` | `y[1028..1156]` |
//! | **`all_gather(x.at(256), y.at(256), 44).stride(300)`** | | | | |
//! | reads `x[256..300]`, writes | `y[256..300]` | `y[556..600]` | `y[856..900]` | `y[1156..1200]` |
//!
//! A `reduce_scatter` works in the opposite direction. Each turn reads the elements for rank `r`
//! from every rank, combines them, and writes the result to rank `r`. With `all_to_all`, block `j`
//! of rank `i` becomes block `i` of rank `j`; both buffers have the same stride. If a task has
//! several turns and no stride, the blocks of different ranks overlap. The documentation of each of
//! these methods shows four ranks as a picture: [`all_gather`](Hccl::all_gather),
//! [`reduce_scatter`](Hccl::reduce_scatter), [`all_reduce`](Hccl::all_reduce),
//! [`all_to_all`](Hccl::all_to_all), [`all_to_all_v`](Hccl::all_to_all_v).
//!
//! # Turn by turn
//!
//! `commit_all` declares that the whole input is in memory. A kernel that makes the input itself
//! ends the operation with `prepare`, and commits each turn when the input of the turn is ready. A
//! kernel that uses the result waits for each turn:
//!
//! ```
//! use hccl::kernel::*;
//!
//! #[derive(Tiling)]
//! #[repr(C)]
//! struct Tiles { init: Mc2InitTiling, all_reduce: Mc2CcTiling, tile_num: u64, tile_len: u64 }
//!
//! #[kernel(mix = "aiv_1_0")]
//! fn in_turns(k: Kernel<Tiles>, y: Output<f32>) {
//!     let t = k.tiling();
//!     k.on_aiv(|| {
//!         let hccl = k.hccl(0).init().configure(&t.all_reduce);
//!         let tiles = hccl.all_reduce(y, y, t.tile_len, Sum).repeat(t.tile_num).prepare();
//!         k.range(..t.tile_num, |tile| {
//!             let _mine = y.at(tile * t.tile_len); // compute this tile here
//!             k.sync_all_aiv(); // the server reads the writes of all cores
//!             hccl.commit(&tiles);
//!         });
//!         k.range(..t.tile_num, |tile| {
//!             hccl.wait(&tiles);
//!             let _summed = y.at(tile * t.tile_len); // use this tile here
//!         });
//!         k.sync_all_aiv();
//!         hccl.finalise();
//!     });
//! }
//! # fn main() -> hccl::Result<()> {
//! # in_turns::record()?; Ok(())
//! # }
//! ```

mod kinds;

pub use kinds::{Commits, Contiguous, Single, Strided, Turns, Written};

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use ascend_program::layout::Number;
use ascend_program::step::{Exchange, Hccl as Call, Operation, Reduction, Step};
use ascend_program::{Declared, Of, TaskId, ValueId};

use super::client::{Configured, Hccl};
use super::count::{Count, Counted};
use super::prepared::{Committed, Open, Prepared};
use super::record::{Caller, KernelRecorder};
use super::symbol::{CountRecorder, PerRankCounts};
use super::tensor::{Input, Output, Spot, number};
use super::value::Value;
use crate::dtype::{Element, Reduce, ReduceKind, ReduceOp};

/// An operation that is not prepared yet. [`prepare`](Self::prepare),
/// [`commit_all`](Self::commit_all) or, for a `BatchWrite`, [`write`](Self::write) prepares it.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Tiles { init: Mc2InitTiling, all_reduce: Mc2CcTiling, count: u64 }
/// #[kernel(mix = "aiv_1_0")]
/// fn reduce(k: Kernel<Tiles>, y: Output<f32>) {
///     let t = k.tiling();
///     k.on_aiv(|| {
///         let hccl = k.hccl(0).init().configure(&t.all_reduce);
///         let begun: prepare::Prepare<'_, _> = hccl.all_reduce(y, y, t.count, Sum);
///         let task = begun.repeat(4).commit_all(); // 4 turns of `count` elements
///         hccl.wait_all(&task);
///         k.sync_all_aiv();
///         hccl.finalise();
///     });
/// }
/// # fn main() -> hccl::Result<()> {
/// # reduce::record()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is prepared before `.commit_all()` or `.prepare()`"]
pub struct Prepare<'a, S> {
    hccl: &'a Hccl<Configured>,
    parts: Option<Parts>,
    repeat: Counted,
    stride: Counted,
    here: Caller,
    of: PhantomData<fn() -> S>,
}

impl<S> fmt::Debug for Prepare<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepare").finish_non_exhaustive()
    }
}

/// The parts of an operation, except for its stride and its number of turns.
enum Parts {
    Same { kind: Same, send: Spot, recv: Spot, count: Counted, dtype: u32, number: Number },
    Whole(Operation),
}

#[derive(Clone, Copy)]
enum Same {
    AllReduce(Reduction),
    AllGather,
    ReduceScatter(Reduction),
    AlltoAll,
}

fn reduction(kind: ReduceKind) -> Reduction {
    match kind {
        ReduceKind::Sum => Reduction::Sum,
        ReduceKind::Prod => Reduction::Prod,
        ReduceKind::Max => Reduction::Max,
        ReduceKind::Min => Reduction::Min,
    }
}

impl Hccl<Configured> {
    /// Combines `count` elements of all ranks; every rank gets the result (`AllReduce`). `send` and
    /// `recv` may be the same memory.
    ///
    /// Each turn begins `count` elements after the turn before, in both buffers. The picture shows
    /// 300 elements on four ranks, in turns of 128, 128 and 44:
    ///
    #[doc = include_str!("prepare/all_reduce.svg")]
    #[track_caller]
    pub fn all_reduce<E: Reduce<Op>, Op: ReduceOp>(
        &self,
        send: impl Into<Input<E>>,
        recv: Output<E>,
        count: impl Count,
        _op: Op,
    ) -> Prepare<'_, Contiguous> {
        let kind = Same::AllReduce(reduction(Op::KIND));
        self.same(kind, send.into(), recv, count.count(), Location::caller())
    }

    /// Gives every rank the `count` elements of each rank, in the order of the ranks (`AllGather`).
    ///
    /// Turn `t`, counted from 0, reads `count` elements from element `t * count` on. It writes the
    /// elements of rank `r` from element `t * count + r * stride` on. The picture shows four ranks
    /// with 300 elements each, in turns of 128, 128 and 44:
    ///
    #[doc = include_str!("prepare/all_gather.svg")]
    #[track_caller]
    pub fn all_gather<E: Element>(
        &self,
        send: impl Into<Input<E>>,
        recv: Output<E>,
        count: impl Count,
    ) -> Prepare<'_, Strided> {
        self.same(Same::AllGather, send.into(), recv, count.count(), Location::caller())
    }

    /// Combines the blocks of all ranks; rank `r` gets block `r`, with `count` elements
    /// (`ReduceScatter`).
    ///
    /// For each rank `r`, turn `t`, counted from 0, reads the block that begins at
    /// `t * count + r * stride` on every rank. It writes the result to rank `r`, from element
    /// `t * count` on. The picture shows four ranks with 300 elements each, in turns of 128, 128
    /// and 44:
    ///
    #[doc = include_str!("prepare/reduce_scatter.svg")]
    #[track_caller]
    pub fn reduce_scatter<E: Reduce<Op>, Op: ReduceOp>(
        &self,
        send: impl Into<Input<E>>,
        recv: Output<E>,
        count: impl Count,
        _op: Op,
    ) -> Prepare<'_, Strided> {
        let kind = Same::ReduceScatter(reduction(Op::KIND));
        self.same(kind, send.into(), recv, count.count(), Location::caller())
    }

    /// Exchanges blocks between all ranks: block `j` of rank `i`, with `count` elements, becomes
    /// block `i` of rank `j` (`AlltoAll`).
    ///
    /// In turn `t`, counted from 0, block `b` begins at `t * count + b * stride` in both buffers.
    /// The picture shows four ranks with 356 elements for each pair, in turns of 128, 128 and 100:
    ///
    #[doc = include_str!("prepare/all_to_all.svg")]
    #[track_caller]
    pub fn all_to_all<E: Element>(
        &self,
        send: impl Into<Input<E>>,
        recv: Output<E>,
        count: impl Count,
    ) -> Prepare<'_, Strided> {
        self.same(Same::AlltoAll, send.into(), recv, count.count(), Location::caller())
    }

    fn same<E: Element, S>(
        &self,
        kind: Same,
        send: Input<E>,
        recv: Output<E>,
        count: Counted,
        here: Caller,
    ) -> Prepare<'_, S> {
        let parts = self.with(here, |recorder| Parts::Same {
            kind,
            send: send.spot(recorder),
            recv: recv.spot(recorder),
            count,
            dtype: E::DTYPE.code(),
            number: number::<E>(),
        });
        self.begin(parts, here)
    }

    fn begin<S>(&self, parts: Option<Parts>, here: Caller) -> Prepare<'_, S> {
        let (repeat, stride) = (Counted::ONE, Counted::ZERO);
        Prepare { hccl: self, parts, repeat, stride, here, of: PhantomData }
    }

    /// Exchanges blocks of any length (`AlltoAllV`). The block for rank `j` has `send_counts[j]`
    /// elements and begins at `send_displs[j]` in `send`. The block from rank `i` has
    /// `recv_counts[i]` elements and is written to `recv_displs[i]` in `recv`. In each later turn,
    /// every displacement is larger by its count. Not on the A2.
    ///
    /// All four lists are in elements. A list is an array of `u64` in the tiling struct, or an
    /// array of values. It must have one number for each rank.
    ///
    /// | four ranks | sends | from | receives | to |
    /// | --- | --- | --- | --- | --- |
    /// | rank 0 | 3 3 3 3 | 0 3 6 9 | 3 2 1 3 | 0 3 5 6 |
    /// | rank 1 | 2 2 3 2 | 0 2 4 7 | 3 2 4 3 | 0 3 5 9 |
    /// | rank 2 | 1 4 4 4 | 0 1 5 9 | 3 3 4 3 | 0 3 6 10 |
    /// | rank 3 | 3 3 3 3 | 0 3 6 9 | 3 2 4 3 | 0 3 5 9 |
    ///
    #[doc = include_str!("prepare/all_to_all_v.svg")]
    ///
    /// With several turns, each block needs room for all turns. The picture shows the same counts
    /// in two turns, with twice as much room for each block:
    ///
    #[doc = include_str!("prepare/all_to_all_v_turns.svg")]
    #[track_caller]
    pub fn all_to_all_v<E: Element>(
        &self,
        send: impl Into<Input<E>>,
        (send_counts, send_displs): (impl PerRankCounts, impl PerRankCounts),
        recv: Output<E>,
        (recv_counts, recv_displs): (impl PerRankCounts, impl PerRankCounts),
    ) -> Prepare<'_, Contiguous> {
        let (send, here) = (send.into(), Location::caller());
        let parts = self.with(here, |recorder| {
            let send = send.spot(recorder).place(recorder, number::<E>());
            let recv = recv.spot(recorder).place(recorder, number::<E>());
            let recording = &mut CountRecorder(recorder);
            Parts::Whole(Operation::AlltoAllV {
                send,
                recv,
                dtype: E::DTYPE.code(),
                send_counts: send_counts.counts(recording),
                send_displs: send_displs.counts(recording),
                recv_counts: recv_counts.counts(recording),
                recv_displs: recv_displs.counts(recording),
            })
        });
        self.begin(parts, here)
    }

    /// Writes a block of bytes into the input window of each rank (`AlltoAllvWrite`), at a place
    /// that the sender chooses. Only on the Ascend 950, in one turn.
    ///
    /// For each rank `r`, this writes `sizes[r]` bytes to the window of rank `r`. The bytes begin
    /// at byte `offsets[r]` of `send`, and at byte `window` of the window. `offsets` and `sizes`
    /// have one `u64` for each rank. They are in global memory and are read when the turn runs. For
    /// the block that a rank sends to itself, `local` is the size in bytes, and `sizes[r]` is
    /// ignored. When a turn is complete, the writes of all ranks are complete.
    ///
    /// The context of the rank names the window (`HcclAllocComResourceByTiling`). A kernel on the
    /// 950 cannot query the window.
    ///
    /// | two ranks, `window` is 64 times the rank | sends | its window then has |
    /// | --- | --- | --- |
    /// | rank 0: `offsets` 0 8, `sizes` 0 16, `local` 8 | `x[0..8]` to itself, `x[8..24]` to rank 1 | 0: `x[0..8]` of rank 0, 64: `x[0..24]` of rank 1 |
    /// | rank 1: `offsets` 0 24, `sizes` 24 0, `local` 4 | `x[0..24]` to rank 0, `x[24..28]` to itself | 0: `x[8..24]` of rank 0, 64: `x[24..28]` of rank 1 |
    ///
    /// ```
    /// use hccl::kernel::*;
    ///
    /// #[derive(Tiling)]
    /// #[repr(C)]
    /// struct Blocks { init: Mc2InitTiling, write: Mc2CcTiling, window: u64, local: u64 }
    ///
    /// #[kernel(mix = "aiv_1_0")]
    /// fn blocks(k: Kernel<Blocks>, x: Input<u8>, offsets: Input<u64>, sizes: Input<u64>) {
    ///     let t = k.tiling();
    ///     k.on_aiv(|| {
    ///         let hccl = k.hccl(0).init().configure(&t.write);
    ///         let written = hccl.all_to_all_v_write(x, offsets, sizes, t.window, t.local).commit_all();
    ///         hccl.wait(&written);
    ///         k.sync_all_aiv();
    ///         hccl.finalise();
    ///     });
    /// }
    /// # fn main() -> hccl::Result<()> {
    /// # blocks::record()?; Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn all_to_all_v_write<E: Element>(
        &self,
        send: impl Into<Input<E>>,
        offsets: impl Into<Input<u64>>,
        sizes: impl Into<Input<u64>>,
        window: impl Count,
        local: impl Count,
    ) -> Prepare<'_, Single> {
        let (send, offsets, sizes) = (send.into(), offsets.into(), sizes.into());
        let (window, local, here) = (window.count(), local.count(), Location::caller());
        let parts = self.with(here, |recorder| {
            let send = send.spot(recorder).place(recorder, number::<E>());
            let list = |list: Input<u64>, recorder: &mut KernelRecorder| {
                list.spot(recorder).place(recorder, Number::U64)
            };
            let (offsets, sizes) = (list(offsets, recorder), list(sizes, recorder));
            let (window, local) = (window.value(recorder), local.value(recorder));
            Parts::Whole(Operation::AlltoAllvWrite { send, offsets, sizes, window, local })
        });
        self.begin(parts, here)
    }

    /// Writes to other ranks, as described by `count` items in global memory (`BatchWrite`). An
    /// item has 32 bytes on the A2 and 64 bytes on the A3. `queue` must be 0 on the A2. The items
    /// must be in memory: [`clean`](super::Global::clean) items that were written element by
    /// element.
    ///
    /// On the A3 the host may give each core queues of its own (`queue_num` and `comm_block_num` of
    /// the tiling). Then each core that has queues writes into them, and `wait` returns at once.
    /// Each of these cores must finalise the client. The client can prepare only `BatchWrite`s.
    ///
    /// The items enter the queue at once, without a commit, so end the operation with
    /// [`write`](Prepare::write).
    #[track_caller]
    pub fn batch_write<E: Element>(
        &self,
        items: impl Into<Input<E>>,
        count: impl Count,
        queue: impl Count,
    ) -> Prepare<'_, Written> {
        let (items, here) = (items.into(), Location::caller());
        let (count, queue) = (count.count(), queue.count());
        let parts = self.with(here, |recorder| {
            let items = items.spot(recorder).place(recorder, number::<E>());
            let (count, queue) = (count.value(recorder), queue.value(recorder));
            Parts::Whole(Operation::BatchWrite { items, count, queue })
        });
        self.begin(parts, here)
    }
}

impl Prepare<'_, Strided> {
    /// Sets the number of elements from the start of one rank's block to the start of the next
    /// rank's block. Without this call the blocks of one turn touch, so the blocks of several turns
    /// overlap.
    pub fn stride(mut self, elements: impl Count) -> Self {
        self.stride = elements.count();
        self
    }
}

impl<S: Turns> Prepare<'_, S> {
    /// Sets the number of turns, 1 to 255. The default is 1.
    pub fn repeat(mut self, turns: impl Count) -> Self {
        self.repeat = turns.count();
        self
    }
}

impl<S: Commits> Prepare<'_, S> {
    /// Prepares the operation. The server moves no data before a turn is [committed](Hccl::commit).
    pub fn prepare(self) -> Prepared<Open> {
        self.end(false)
    }

    /// Prepares the operation and commits all its turns at once. The whole input must be in memory.
    pub fn commit_all(self) -> Prepared<Committed> {
        self.end(true)
    }
}

impl Prepare<'_, Written> {
    /// Prepares the operation. It needs no commit.
    pub fn write(self) -> Prepared<Committed> {
        self.end(true)
    }
}

impl<S> Prepare<'_, S> {
    fn end<Q>(mut self, commit: bool) -> Prepared<Q> {
        let (parts, hccl) = (self.parts.take(), self.hccl);
        let ended = parts.and_then(|parts| {
            // The step gets the line of the operation, which is more useful than the line at which
            // the operation ends.
            hccl.with(self.here, |recorder| {
                let operation = parts.operation(recorder, self.stride);
                let task = TaskId(recorder.program.tasks.len() as u32);
                let name = recorder.unique("task");
                recorder.program.tasks.push(Declared { name, what: hccl.client });
                let repeat = self.repeat.id(recorder);
                if let Some(turns) = recorder.known(repeat)
                    && !(1..=255).contains(&turns)
                {
                    recorder.mistake(format!(
                        "a task has 1 to 255 turns, not {turns}: pass a number from 1 to 255"
                    ));
                }
                let turns = match recorder.number(repeat) {
                    Number::U64 => repeat,
                    _ => recorder.push(Of::Cast(ValueId(repeat.0)), Number::U64),
                };
                let repeat = recorder.value(repeat);
                recorder.step(Step::Hccl(Call::Prepare { task, operation, repeat, commit }));
                (task, super::record::ValueHandle { recording: recorder.number, id: turns })
            })
        });
        match ended {
            Some((task, turns)) => {
                let turns = Value::new(turns);
                Prepared::new(hccl.recording, task, turns)
            }
            None => {
                let turns = Value::new(super::record::ValueHandle::NONE);
                Prepared::new(0, TaskId(0), turns)
            }
        }
    }
}

/// Notes a mistake if the operation is dropped before it is prepared. The kernel would then not run
/// it, although the code looks as if it did.
impl<S> Drop for Prepare<'_, S> {
    fn drop(&mut self) {
        if self.parts.is_some() && !std::thread::panicking() {
            self.hccl.with(self.here, |recorder| {
                recorder.mistake(
                    "nothing is prepared here: end the operation with `.commit_all()`, \
                     `.prepare()` or, for a `BatchWrite`, `.write()`",
                );
            });
        }
    }
}

impl Parts {
    fn operation(self, recorder: &mut KernelRecorder, stride: Counted) -> Operation {
        match self {
            Parts::Whole(operation) => operation,
            Parts::Same { kind, send, recv, count, dtype, number } => {
                let exchange = Exchange {
                    send: send.place(recorder, number),
                    recv: recv.place(recorder, number),
                    count: count.value(recorder),
                    dtype,
                };
                match kind {
                    Same::AllReduce(op) => Operation::AllReduce(exchange, op),
                    Same::AllGather => Operation::AllGather(exchange, stride.value(recorder)),
                    Same::ReduceScatter(op) => {
                        Operation::ReduceScatter(exchange, op, stride.value(recorder))
                    }
                    Same::AlltoAll => Operation::AlltoAll(exchange, stride.value(recorder)),
                }
            }
        }
    }
}
