//! The prepares of a client: the operations, their turns, and the tasks that come of them. Use
//! `commit_all` when the whole input is there, and `prepare` when the kernel makes it turn by turn.
//!
//! # Turns
//!
//! The server does a task in `repeat` turns, each the same operation on buffers that have moved on
//! by `count` elements. From the start of one rank's block to the start of the next rank's there
//! are `stride` elements; 0 means that the blocks touch. Four ranks, 300 elements for each, in
//! turns of 128, 128 and 44:
//!
//! | `all_gather(x, y, 128).stride(300).repeat(2)` | from rank 0 | rank 1 | rank 2 | rank 3 |
//! | --- | --- | --- | --- | --- |
//! | the first turn reads `x[0..128]`, writes | `y[0..128]` | `y[300..428]` | `y[600..728]` | `y[900..1028]` |
//! | the second turn reads `x[128..256]`, writes | `y[128..256]` | `y[428..556]` | `y[728..856]` | `y[1028..1156]` |
//! | **`all_gather(x.at(256), y.at(256), 44).stride(300)`** | | | | |
//! | reads `x[256..300]`, writes | `y[256..300]` | `y[556..600]` | `y[856..900]` | `y[1156..1200]` |
//!
//! With `reduce_scatter` the table is read the other way: the elements that stand for rank `r` are
//! read from each rank, and their sum is written to rank `r`. With `all_to_all` block `j` of rank
//! `i` becomes block `i` of rank `j`, in both with the same stride. With more than one turn and no
//! stride the blocks of different ranks would overlap. Each of these methods shows four ranks as a
//! picture: [`all_gather`](Hccl::all_gather), [`reduce_scatter`](Hccl::reduce_scatter),
//! [`all_reduce`](Hccl::all_reduce), [`all_to_all`](Hccl::all_to_all),
//! [`all_to_all_v`](Hccl::all_to_all_v).
//!
//! # Turn by turn
//!
//! `commit_all` says that all of the input is there. A kernel that makes the input ends with
//! `prepare`, and commits a turn when its input is ready. One that uses the result waits turn by
//! turn:
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
//!             k.sync_all_aiv(); // the server reads what all cores have written
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

/// An operation before it is prepared: [`prepare`](Self::prepare) or
/// [`commit_all`](Self::commit_all) ends it.
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
///         let task = begun.repeat(4).commit_all(); // of 4 times `count` elements
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

/// An operation without its stride.
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
    /// `recv` may be the same.
    ///
    /// Each turn begins `count` elements behind the one before, in both buffers. 300 elements on
    /// four ranks, as 128, 128 and 44:
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

    /// Gives all ranks the `count` elements of each rank, one block after the other (`AllGather`).
    ///
    /// With `t` turns before it, a turn reads `count` elements from `t * count` on, and those of
    /// rank `r` go to `t * count + r * stride`. 300 elements of each of four ranks, as 128, 128 and
    /// 44:
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
    /// With `t` turns before it, a turn reads the block that begins at `t * count + r * stride` on
    /// each rank, and writes the result to `t * count` on rank `r`. Four ranks, 300 elements for
    /// each, as 128, 128 and 44:
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
    /// With `t` turns before it, block `b` begins at `t * count + b * stride`, in both buffers.
    /// Four ranks, 356 elements for each pair, as 128, 128 and 100:
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

    /// Exchanges blocks of any length (`AlltoAllV`): `send_counts[j]` elements from
    /// `send_displs[j]` on go to rank `j`, and `recv_counts[i]` elements of rank `i` go to where
    /// `recv_displs[i]` says. Not on the A2. In the next turn each displacement has moved on by its
    /// count.
    ///
    /// The numbers are an array of `u64` of the tiling struct, or an array of values; there must be
    /// one for each rank.
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
    /// With several turns the blocks need room for all of them. The same counts, twice as much room
    /// for each block, two turns:
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
    /// `sizes[r]` bytes from `offsets[r]` of `send` on go to byte `window` of the window of rank
    /// `r`. Both are `u64`s in global memory, one for each rank, and are read when the turn runs.
    /// For the own block, `local` counts instead of its size. When the turn is over, so are the
    /// writes of all ranks. The window is the one that the context of the rank names
    /// (`HcclAllocComResourceByTiling`); a kernel on the 950 cannot ask for it.
    ///
    /// | two ranks, `window` 64 times the rank | sends | its window then has |
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

    /// Writes to other ranks, as `count` items in global memory say (`BatchWrite`): on the A2 of 32
    /// bytes each, on the A3 of 64. `queue` is 0 on the A2. The items must be in memory:
    /// [`clean`](super::Global::clean) those that were written element by element.
    ///
    /// On the A3 the host may give each core queues (`queue_num` and `comm_block_num` of the
    /// tiling). Then every core that has some writes into its own, `wait` returns at once, and
    /// every one of them finalises the client; nothing else can be prepared with it.
    ///
    /// It goes into the queue at once, so end it with [`write`](Prepare::write).
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
    /// Sets the elements from the start of the block of one rank to that of the next. Unless told,
    /// blocks touch, which with several turns makes them overlap.
    pub fn stride(mut self, elements: impl Count) -> Self {
        self.stride = elements.count();
        self
    }
}

impl<S: Turns> Prepare<'_, S> {
    /// Sets the number of turns, 1 to 255; one unless told.
    pub fn repeat(mut self, turns: impl Count) -> Self {
        self.repeat = turns.count();
        self
    }
}

impl<S: Commits> Prepare<'_, S> {
    /// Prepares it. Nothing moves before a turn is [committed](Hccl::commit).
    pub fn prepare(self) -> Prepared<Open> {
        self.end(false)
    }

    /// Prepares it and commits all turns at once: the input is there.
    pub fn commit_all(self) -> Prepared<Committed> {
        self.end(true)
    }
}

impl Prepare<'_, Written> {
    /// Prepares it, which is all there is to do.
    pub fn write(self) -> Prepared<Committed> {
        self.end(true)
    }
}

impl<S> Prepare<'_, S> {
    fn end<Q>(mut self, commit: bool) -> Prepared<Q> {
        let (parts, hccl) = (self.parts.take(), self.hccl);
        let ended = parts.and_then(|parts| {
            // The line of the operation says more than the line of its end.
            hccl.with(self.here, |recorder| {
                let operation = parts.operation(recorder, self.stride);
                let task = TaskId(recorder.program.tasks.len() as u32);
                let name = recorder.unique("task");
                recorder.program.tasks.push(Declared { name, what: hccl.client });
                let repeat = self.repeat.id(recorder);
                if let Some(turns) = recorder.known(repeat)
                    && !(1..=255).contains(&turns)
                {
                    recorder.mistake(format!("a task has 1 to 255 turns, not {turns}"));
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

/// An operation that is not ended is a mistake: it looks as if something was prepared.
impl<S> Drop for Prepare<'_, S> {
    fn drop(&mut self) {
        if self.parts.is_some() && !std::thread::panicking() {
            self.hccl.with(self.here, |recorder| {
                recorder.mistake(
                    "nothing is prepared here: end it with `.commit_all()` or `.prepare()`",
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
