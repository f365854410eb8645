//! The type of operators, and the settings for which an operator is recorded.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use ascend_operator::{Goal, ReduceOp as Op};

use super::recorded::Recorded;
use super::recorder::{Recorder, record};
use super::state::{OperatorShape, Tape};
use super::thread::MainThread;
use crate::collective::CountMatrix;
use crate::dtype::{DType, Element, ReduceKind, ReduceOp};
use crate::error::operator::{Mistake, RecordError};

/// The default size of a communication buffer in bytes: that of CANN, twice 200 MiB.
const BUFFER: u64 = 2 * (200 << 20);

/// The function of an operator.
type Function = dyn Fn(&Recorder<'_>, &mut MainThread<'_>) + Send + Sync;

/// A communication operator: a function that describes the work of one rank, and the goal that all
/// ranks achieve together.
///
/// In the table, p is the number of ranks, and n is the count of the operator. Lengths are in
/// elements.
///
/// | made by | input of a rank | output of a rank |
/// | --- | --- | --- |
/// | [`all_gather`](Self::all_gather) | n | the inputs of all ranks: p n |
/// | [`all_reduce`](Self::all_reduce) | n | the reduction of the inputs of all ranks: n |
/// | [`reduce_scatter`](Self::reduce_scatter) | p n: a block for each rank | the reduction of the blocks for this rank: n |
/// | [`broadcast`](Self::broadcast) | the root: n | n |
/// | [`reduce`](Self::reduce) | n | the root: n |
/// | [`scatter`](Self::scatter) | the root: p n | n |
/// | [`gather`](Self::gather) | n | the root: p n |
/// | [`all_to_all`](Self::all_to_all) | p n: a block for each rank | p n: a block from each rank |
/// | [`all_to_all_v`](Self::all_to_all_v) | a block for each rank | a block from each rank, of the lengths in the matrix |
/// | [`send`](Self::send) | the sender: n | the receiver: n |
/// | [`other`](Self::other) | the given length | the given length |
///
/// A clone is another handle to the same operator.
///
/// ```
/// use hccl::operator::{Operator, algorithms};
/// use hccl::prelude::*;
///
/// let sum = Operator::all_reduce("ring_sum", Sum, algorithms::ring::all_reduce);
/// sum.record::<f32>(4, 1000)?.check().is_good(); // no device is needed for that
/// # assert!(sum.record::<f32>(4, 1000)?.check().is_good());
///
/// # let runtime = Runtime::emulator(4)?;
/// let sums = runtime.run_ranks(4, |rank| {
///     let stream = rank.device().stream()?;
///     let mut x = rank.device().upload(&[1.0_f32; 8], &stream)?;
///     rank.communicator()?.run(&sum).in_place(&mut x).submit(&stream)?.wait()?;
///     x.to_vec(&stream).wait()
/// })?;
/// assert_eq!(sums[3], [4.0; 8]);
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone)]
pub struct Operator {
    name: &'static str,
    goal: Arc<Goal>,
    function: Arc<Function>,
    /// The source line that made the operator.
    source: &'static Location<'static>,
}

/// Defines a constructor for each goal.
macro_rules! goals {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $goal:expr;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(
            name: &'static str,
            $($argument: $type,)*
            function: impl Fn(&Recorder<'_>, &mut MainThread<'_>) + Send + Sync + 'static,
        ) -> Self {
            let source = Location::caller();
            Operator { name, goal: Arc::new($goal), function: Arc::new(function), source }
        }
    )*};
}

impl Operator {
    goals! {
        /// Makes an operator in which all ranks get the elements of each rank.
        all_gather() Goal::AllGather;
        /// Makes an operator in which all ranks get the reduction of the elements of each rank.
        all_reduce(op: impl ReduceOp) Goal::AllReduce(reduction(op));
        /// Makes an operator in which every rank gets the reduction of the blocks that all ranks
        /// have for it.
        reduce_scatter(op: impl ReduceOp) Goal::ReduceScatter(reduction(op));
        /// Makes an operator in which all ranks get the elements of the root.
        broadcast(root: u32) Goal::Broadcast { root };
        /// Makes an operator in which the root gets the reduction of the elements of each rank.
        reduce(op: impl ReduceOp, root: u32) Goal::Reduce { op: reduction(op), root };
        /// Makes an operator in which every rank gets its block of the root's elements.
        scatter(root: u32) Goal::Scatter { root };
        /// Makes an operator in which the root gets the elements of each rank.
        gather(root: u32) Goal::Gather { root };
        /// Makes an operator in which every rank gets a block from each rank.
        all_to_all() Goal::AllToAll;
        /// Makes an operator in which every rank gets a block from each rank. The matrix has the
        /// number of elements of each block.
        all_to_all_v(counts: &CountMatrix) Goal::AllToAllV { counts: rows(counts) };
        /// Makes an operator in which one rank gets the elements of another rank.
        send(from: u32, to: u32) Goal::Send { from, to };
        /// Makes an operator with another goal. On every rank the input has `input` elements and
        /// the output has `output` elements, whatever the count. The checker does not check the
        /// contents of the output.
        other(input: u64, output: u64) Goal::Other { input, output };
    }

    /// Returns the name of the operator, which messages, traces and pictures show.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the goal of the operator: the result that all ranks produce together.
    pub fn goal(&self) -> &Goal {
        &self.goal
    }

    /// Records the tasks of every rank, for a run on `ranks` ranks with a count of `count` elements
    /// (the n in the table above). No task runs.
    ///
    /// # Errors
    ///
    /// Returns every mistake that one rank makes by itself, with its line. Examples are ranges
    /// outside of buffers, lengths that differ, and calls without their counterpart, such as
    /// `enter` without `leave`. If `ranks` or `count` does not fit the operator, returns only that
    /// mistake. [`Recorded::check`] finds the other mistakes: races, deadlocks, and writes to the
    /// input.
    #[track_caller]
    pub fn record<E: Element>(&self, ranks: u32, count: usize) -> Result<Recorded, RecordError> {
        self.on(ranks).count(count).dtype(E::DTYPE).record()
    }

    /// Begins a recording with more settings: an element type that is known only at run time, the
    /// size of the communication buffer, or an input in place.
    pub fn on(&self, ranks: u32) -> Setting<'_> {
        Setting {
            operator: self,
            ranks,
            count: 0,
            dtype: DType::F32,
            buffer: BUFFER,
            in_place: false,
        }
    }

    /// Records the tasks of one rank onto the tape.
    pub(super) fn record_rank(&self, shape: OperatorShape, tape: &mut Tape) {
        record(shape, &self.goal, tape, &*self.function);
    }

    /// Returns the rank and the sizes for which the operator is recorded. `count` is in elements,
    /// and `buffer` in bytes. With `in_place` the input is a part of the output.
    pub(super) fn shape(
        &self,
        rank: u32,
        ranks: u32,
        (count, dtype): (usize, DType),
        buffer: u64,
        in_place: bool,
    ) -> OperatorShape {
        let (input, output) = self.goal.sizes(rank, ranks, count as u64);
        // Clamped, so that no later computation overflows. `Setting::problem` refuses sizes beyond
        // any memory.
        let most = isize::MAX as usize / dtype.size();
        let elements = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(most);
        let start = match *self.goal {
            Goal::AllGather => (count as u64).saturating_mul(rank.into()),
            _ => 0,
        };
        OperatorShape {
            rank,
            ranks,
            count,
            dtype,
            op: self.goal.reduces(),
            sizes: [elements(input), elements(output), dtype.elements(elements(buffer))],
            in_place: (in_place && input > 0 && output > 0).then(|| elements(start)),
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operator({}, {:?})", self.name, self.goal)
    }
}

/// The setting for which an operator is recorded, made by [`Operator::on`].
///
/// ```
/// use hccl::dtype::DType;
/// use hccl::operator::{Operator, algorithms};
///
/// let gather = Operator::all_gather("gather", algorithms::mesh::all_gather);
/// let recorded = gather.on(8).count(1 << 20).dtype(DType::BF16).buffer_bytes(64 << 20).record()?;
/// assert_eq!(recorded.tasks().ranks.len(), 8);
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Setting<'o> {
    operator: &'o Operator,
    ranks: u32,
    count: usize,
    dtype: DType,
    buffer: u64,
    in_place: bool,
}

impl Setting<'_> {
    /// Sets the count in elements (the n in the table of [`Operator`]). The default is 0.
    pub fn count(self, count: usize) -> Self {
        Setting { count, ..self }
    }

    /// Sets the type of the elements. The default is `f32`.
    pub fn dtype(self, dtype: DType) -> Self {
        Setting { dtype, ..self }
    }

    /// Sets the size of each rank's communication buffer in bytes. The default is that of CANN, 400
    /// MiB.
    pub fn buffer_bytes(self, buffer: u64) -> Self {
        Setting { buffer, ..self }
    }

    /// Makes the input a part of the output: the start of the output, or for an all-gather the
    /// rank's own block.
    pub fn in_place(self) -> Self {
        Setting { in_place: true, ..self }
    }

    /// Records the operator. See [`Operator::record`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Operator::record`], or an error if the setting does not fit the
    /// operator.
    #[track_caller]
    pub fn record(self) -> Result<Recorded, RecordError> {
        let Setting { operator, ranks, count, dtype, buffer, in_place } = self;
        let mut error = RecordError::new(operator.name);
        if let Some(text) = self.problem() {
            error.add(0, &[Mistake::new(text, Location::caller())]);
            return Err(error);
        }
        let recorded = (0..ranks).map(|rank| {
            let mut tape = Tape::default();
            let shape = operator.shape(rank, ranks, (count, dtype), buffer, in_place);
            operator.record_rank(shape, &mut tape);
            error.add(rank, &tape.mistakes);
            tape.tasks
        });
        let ranks = recorded.collect();
        if !error.is_empty() {
            return Err(error);
        }
        Ok(Recorded::new(ascend_operator::Operator {
            name: operator.name.to_owned(),
            goal: Goal::clone(&operator.goal),
            count: count as u64,
            element: dtype.size() as u64,
            floats: dtype.is_float(),
            handshake: true,
            source: Some(operator.source),
            ranks,
        }))
    }

    /// Returns the text of the mistake if the setting is wrong for every function.
    fn problem(&self) -> Option<String> {
        let Setting { operator, ranks, count, dtype, .. } = self;
        if let Goal::AllToAllV { counts } = &*operator.goal
            && counts.len() != *ranks as usize
        {
            return Some(format!(
                "the matrix is for {} ranks, but the operator is recorded for {ranks}: \
                 use the same number of ranks",
                counts.len()
            ));
        }
        if let Some(rank) = operator.goal.rank_beyond(*ranks) {
            return Some(format!(
                "the operator names rank {rank}, but the number of ranks is {ranks}: \
                 name a smaller rank, or record the operator for more ranks"
            ));
        }
        let bytes = |n: u64| n.saturating_mul(dtype.size() as u64);
        let most = (0..*ranks)
            .map(|rank| operator.goal.sizes(rank, *ranks, *count as u64))
            .map(|(input, output)| bytes(input).max(bytes(output)))
            .max()?;
        (most > isize::MAX as u64)
            .then(|| format!("a rank has {most} bytes or more, beyond any memory: lower the count"))
    }
}

fn reduction<R: ReduceOp>(_: R) -> Op {
    match R::KIND {
        ReduceKind::Sum => Op::Sum,
        ReduceKind::Prod => Op::Prod,
        ReduceKind::Max => Op::Max,
        ReduceKind::Min => Op::Min,
    }
}

fn rows(counts: &CountMatrix) -> Vec<Vec<u64>> {
    let row = |from| (0..counts.ranks()).map(|to| counts.count(from, to) as u64).collect();
    (0..counts.ranks()).map(row).collect()
}
