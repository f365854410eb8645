//! Operators: a function and a goal.

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

/// The bytes of a communication buffer unless told otherwise: CANN's default, twice 200 MiB.
const BUFFER: u64 = 2 * (200 << 20);

/// The function of an operator.
type Function = dyn Fn(&Recorder<'_>, &mut MainThread<'_>) + Send + Sync;

/// A communication operator: a function that says what one rank does, and what all of them together
/// are to achieve.
///
/// | made by | input of a rank | output of a rank |
/// | --- | --- | --- |
/// | [`all_gather`](Self::all_gather) | n | those of all ranks: p n |
/// | [`all_reduce`](Self::all_reduce) | n | the sum (or so) of all: n |
/// | [`reduce_scatter`](Self::reduce_scatter) | p n: a block for each rank | the sum of its blocks: n |
/// | [`broadcast`](Self::broadcast) | the root: n | n |
/// | [`reduce`](Self::reduce) | n | the root: n |
/// | [`scatter`](Self::scatter) | the root: p n | n |
/// | [`gather`](Self::gather) | n | the root: p n |
/// | [`all_to_all`](Self::all_to_all) | p n: a block for each rank | p n: a block from each |
/// | [`all_to_all_v`](Self::all_to_all_v) | a block for each rank | a block from each, of the lengths in the matrix |
/// | [`send`](Self::send) | the sender: n | the receiver: n |
/// | [`other`](Self::other) | as given | as given |
///
/// Cloning it gives another handle of the same operator.
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
    /// The line that made it.
    source: &'static Location<'static>,
}

/// Makes the constructor for each goal.
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
        /// Makes an operator in which every rank gets the reduction of the elements that all have
        /// for it.
        reduce_scatter(op: impl ReduceOp) Goal::ReduceScatter(reduction(op));
        /// Makes an operator in which all ranks get the elements of the root.
        broadcast(root: u32) Goal::Broadcast { root };
        /// Makes an operator in which the root gets the reduction of the elements of each rank.
        reduce(op: impl ReduceOp, root: u32) Goal::Reduce { op: reduction(op), root };
        /// Makes an operator in which every rank gets its block of the root's elements.
        scatter(root: u32) Goal::Scatter { root };
        /// Makes an operator in which the root gets the elements of each rank.
        gather(root: u32) Goal::Gather { root };
        /// Makes an operator in which every rank gets a block from each.
        all_to_all() Goal::AllToAll;
        /// Makes an operator in which every rank gets a block from each, of as many elements as the
        /// matrix says.
        all_to_all_v(counts: &CountMatrix) Goal::AllToAllV { counts: rows(counts) };
        /// Makes an operator in which one rank gets the elements of another one.
        send(from: u32, to: u32) Goal::Send { from, to };
        /// Makes an operator for something else: every rank gives `input` and gets `output`
        /// elements, whatever the count. The checker does not look at the contents of the output.
        other(input: u64, output: u64) Goal::Other { input, output };
    }

    /// Returns the name, for messages, traces and pictures.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns what the operator is to achieve.
    pub fn goal(&self) -> &Goal {
        &self.goal
    }

    /// Records the tasks of all of `ranks` ranks for `count` elements: the n of the table above.
    /// Nothing runs.
    ///
    /// # Errors
    ///
    /// Every mistake that does not depend on what the ranks do together: ranges outside of buffers,
    /// lengths that differ, halves that are missing, each with its line.
    #[track_caller]
    pub fn record<E: Element>(&self, ranks: u32, count: usize) -> Result<Recorded, RecordError> {
        self.on(ranks).count(count).dtype(E::DTYPE).record()
    }

    /// Begins a recording with more settings: a type that is known at run time, the size of the
    /// communication buffer, in place.
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

    /// Records the tasks of one rank.
    pub(super) fn record_rank(&self, shape: OperatorShape, tape: &mut Tape) {
        record(shape, &self.goal, tape, &*self.function);
    }

    /// Returns the elements of the input, the output and the communication buffer of a rank, and
    /// where in the output the input begins when the two are in place.
    pub(super) fn shape(
        &self,
        rank: u32,
        ranks: u32,
        (count, dtype): (usize, DType),
        buffer: u64,
        in_place: bool,
    ) -> OperatorShape {
        let (input, output) = self.goal.sizes(rank, ranks, count as u64);
        // A size beyond any memory is refused where it is asked for.
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

/// The setting that an operator is recorded for, made by [`Operator::on`].
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
    /// Sets the n of the operator, in elements; 0 if nothing is said.
    pub fn count(self, count: usize) -> Self {
        Setting { count, ..self }
    }

    /// Sets the type of the elements; `f32` if nothing is said.
    pub fn dtype(self, dtype: DType) -> Self {
        Setting { dtype, ..self }
    }

    /// Sets the bytes of each rank's communication buffer; CANN's default of 400 MiB if nothing is
    /// said.
    pub fn buffer_bytes(self, buffer: u64) -> Self {
        Setting { buffer, ..self }
    }

    /// Puts the input into the output: at its start, or for an all-gather at the rank's own block.
    pub fn in_place(self) -> Self {
        Setting { in_place: true, ..self }
    }

    /// Records the operator. See [`Operator::record`].
    ///
    /// # Errors
    ///
    /// Those of [`Operator::record`].
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

    /// Returns the mistake in the setting, if the setting is wrong for every function that could be
    /// recorded.
    fn problem(&self) -> Option<String> {
        let Setting { operator, ranks, count, dtype, .. } = self;
        if let Goal::AllToAllV { counts } = &*operator.goal
            && counts.len() != *ranks as usize
        {
            return Some(format!(
                "the matrix is for {} ranks, and the operator is recorded for {ranks}",
                counts.len()
            ));
        }
        if let Some(rank) = operator.goal.rank_beyond(*ranks) {
            return Some(format!("the operator names rank {rank}, and there are {ranks}"));
        }
        let bytes = |n: u64| n.saturating_mul(dtype.size() as u64);
        let most = (0..*ranks)
            .map(|rank| operator.goal.sizes(rank, *ranks, *count as u64))
            .map(|(input, output)| bytes(input).max(bytes(output)))
            .max()?;
        (most > isize::MAX as u64)
            .then(|| format!("a rank would have {most} bytes or more, which no memory has"))
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
