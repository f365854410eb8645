//! Runs operators on a communicator.

#![forbid(unsafe_code)]

use std::fmt;

use ascend_operator::plan::Engine;
use ascend_operator::{Goal, RankTasks, ReduceOp};
use smallvec::SmallVec;

use super::driver::Issue;
use super::operator::Operator;
use super::resources::{Last, invalid};
use crate::api::operators::Buffer;
use crate::collective::check_apart;
use crate::comm::{Communicator, Member};
use crate::device::Stream;
use crate::device::state::handle;
use crate::dtype::{DType, Element, ReduceKind};
use crate::error::operator::RecordError;
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::memory::traits::{Lend, LendMut};
use crate::memory::{Destination, Source};
use crate::order::issue::Touch;
use crate::order::label::Takes;
use crate::order::work::Work;
use crate::record::operation::RecordedName;
use crate::trace::span;

const INPUT: &str = "the input";
const OUTPUT: &str = "the output";
const BUFFER: &str = "the buffer";

/// An operator that is about to run, and its buffers. [`Communicator::run`] makes it, and
/// [`submit`](Self::submit) issues it.
///
/// ```
/// use hccl::operator::{Operator, algorithms};
/// use hccl::prelude::*;
///
/// let gather = Operator::all_gather("gather", algorithms::mesh::all_gather);
/// # let runtime = Runtime::emulator(2)?;
/// let all = runtime.run_ranks(2, |rank| {
///     let (device, mut comm) = (rank.device(), rank.communicator()?);
///     let stream = device.stream()?;
///     let x = device.upload(&[rank.index()], &stream)?;
///     let mut y = device.zeros::<u32>(2, &stream)?;
///     comm.run(&gather).input(&x).output(&mut y).submit(&stream)?.wait()?;
///     y.to_vec(&stream).wait()
/// })?;
/// assert_eq!(all, [[0, 1], [0, 1]]);
/// # Ok::<(), hccl::Error>(())
/// ```
#[must_use = "nothing runs before `.submit(&stream)`"]
pub struct Run<'a> {
    member: &'a mut Member,
    operator: &'a Operator,
    input: Option<GivenBuffer<'a>>,
    output: Option<GivenBuffer<'a>>,
    in_place: Option<GivenBuffer<'a>>,
    count: Option<(usize, DType)>,
    engine: Engine,
}

/// The memory of a buffer that the caller has given, and the type of its elements.
struct GivenBuffer<'a> {
    region: Region<'a>,
    dtype: DType,
}

impl GivenBuffer<'_> {
    fn elements(&self) -> usize {
        self.dtype.elements(self.region.bytes())
    }
}

impl Communicator {
    /// Begins a run of a user-defined operator. See [`operator`](crate::operator).
    ///
    /// A run is an operation like any collective. All ranks run it in the same order among the
    /// communicator's operations, with the same number of elements and the same type. The run takes
    /// a number, is ordered after every operation that uses the same buffers, and returns a
    /// [`Work`]. Nothing is issued before [`Run::submit`].
    ///
    /// ```
    /// use hccl::operator::*;
    /// use hccl::prelude::*;
    ///
    /// /// Rank 0 exposes its elements, and rank 1 reads them.
    /// fn hand_over(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    ///     let channel = op.channel(1 - op.rank());
    ///     let shared = ..op.count();
    ///     if op.rank() == 0 {
    ///         main.copy(op.input(), op.buffer().slice(shared));
    ///         let exposed = main.expose(channel);
    ///         main.reclaim(exposed);
    ///     } else {
    ///         let access = main.enter(channel);
    ///         main.read(access.buffer().slice(shared), op.output());
    ///         main.leave(access);
    ///     }
    /// }
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let hand_over = Operator::send("hand_over", 0, 1, hand_over);
    /// let runtime = Runtime::emulator(2)?;
    /// let got = runtime.run_ranks(2, |rank| {
    ///     let (device, mut comm) = (rank.device(), rank.communicator()?);
    ///     let stream = device.stream()?;
    ///     let mut x = device.upload(&[comm.rank() as f32; 3], &stream)?;
    ///     match comm.rank() {
    ///         0 => comm.run(&hand_over).input(&x).submit(&stream)?,
    ///         _ => comm.run(&hand_over).output(&mut x).submit(&stream)?,
    ///     };
    ///     x.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(got[1], [0.0; 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<'a>(&'a mut self, operator: &'a Operator) -> Run<'a> {
        Run {
            member: &mut self.member,
            operator,
            input: None,
            output: None,
            in_place: None,
            count: None,
            engine: Engine::default(),
        }
    }
}

impl<'a> Run<'a> {
    /// Sets the input of this rank: a buffer, or a slice of a buffer, with the length in the table
    /// of [`Operator`]. A rank that has no input must not call this.
    pub fn input<E: Element>(mut self, source: impl Source<E> + Lend<'a>) -> Self {
        self.input = Some(GivenBuffer { region: source.lend(), dtype: E::DTYPE });
        self
    }

    /// Sets the output of this rank: a buffer, or a slice of a buffer, with the length in the table
    /// of [`Operator`]. A rank that has no output must not call this.
    pub fn output<E: Element>(mut self, destination: impl Destination<E> + LendMut<'a>) -> Self {
        self.output = Some(GivenBuffer { region: destination.lend(), dtype: E::DTYPE });
        self
    }

    /// Sets one buffer for the input and the output. The buffer is the whole output. The input is
    /// the start of the buffer, or for an all-gather this rank's own block.
    ///
    /// The operator must be an all-gather, an all-reduce, a broadcast, a reduce, or an all-to-all
    /// without a matrix.
    pub fn in_place<E: Element>(mut self, buffer: impl Destination<E> + LendMut<'a>) -> Self {
        self.in_place = Some(GivenBuffer { region: buffer.lend(), dtype: E::DTYPE });
        self
    }

    /// Sets the count of the operator in elements (the n in the table of [`Operator`]), and its
    /// type. A rank that takes part without any buffer must call this. On other ranks the count and
    /// the type follow from the buffers.
    pub fn count<E: Element>(mut self, count: usize) -> Self {
        self.count = Some((count, E::DTYPE));
        self
    }

    /// Sets the engine that runs the threads. The default is [`Engine::CpuTs`]. All ranks must use
    /// the same engine.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Records the tasks of this rank, acquires the resources that the tasks need, and enqueues the
    /// tasks.
    ///
    /// The stream must not be capturing, because operators cannot be captured.
    ///
    /// ```compile_fail,E0308
    /// # use hccl::prelude::*;
    /// # fn f(comm: &mut Communicator, operator: &hccl::operator::Operator, device: &Device) -> hccl::Result<()> {
    /// let capture = device.begin_capture()?;
    /// comm.run(operator).submit(&capture)?; // expected `&Stream`, found `&Stream<Capturing>`
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// This does not block. A helper thread opens channels to new peers, as it makes links for
    /// collectives (see [`comm`](crate::comm)). The [`Work`] reports errors of the channels and all
    /// later errors. The communicator keeps the resources that it acquires by `HcclThreadAcquire`,
    /// `HcclThreadAcquireWithStream`, `HcclChannelAcquire` and `HcclGetHcclBuffer`. The tasks are
    /// `Hcomm..OnThread` calls.
    ///
    /// # Errors
    ///
    /// If this returns [`Error::Refused`], nothing has been issued. The cause of that error is one
    /// of these:
    ///
    /// * [`Error::Operator`] with every mistake that recording finds on this rank, each with its
    ///   line;
    /// * [`Error::WrongLength`] or [`Error::Uneven`] if a buffer does not have the length that the
    ///   operator needs on this rank;
    /// * [`Error::Overlap`] if the input and the output share memory;
    /// * [`Error::NotSupported`] if tasks cannot reduce the type in this way: they compute sums,
    ///   maxima and minima of `i8`, `i16`, `i32`, `f16`, `bf16` and `f32`;
    /// * [`Error::Invalid`] if the buffers have different types, if a buffer is missing, or if the
    ///   operator does not use a buffer on this rank;
    /// * [`Error::OperatorFailed`] if an earlier operator of this communicator has failed, because
    ///   notifies may then still be set;
    /// * an error that every operation can return: [`Error::WrongDevice`], [`Error::WrongRuntime`],
    ///   [`Error::NoSuchRank`] or [`Error::Aborted`].
    ///
    /// [`Error::Call`] is an error of CANN. If CANN refuses a task after other tasks were enqueued,
    /// the communicator is [aborted](crate::comm::AbortHandle::abort), because a part of an
    /// operator cannot be taken back. The [`Work`] reports a peer that has opened no channel to
    /// this rank, and failures on the device.
    pub fn submit(mut self, stream: &Stream) -> Result<Work> {
        let (name, sequence) = (self.operator.name(), self.member.next(Takes::Collective));
        let given = [&self.input, &self.output, &self.in_place];
        let bytes: usize = given.into_iter().flatten().map(|given| given.region.bytes()).sum();
        let count = given.into_iter().flatten().map(GivenBuffer::elements).max().unwrap_or(0);
        let _span = span!("hccl.run", name, self.member, sequence, count, bytes);
        self.issue(sequence, stream).map_err(|error| self.member.explain(name, sequence, error))
    }

    fn issue(&mut self, sequence: u64, stream: &Stream) -> Result<Work> {
        self.check_goal()?;
        let dtype = self.dtype()?;
        let count = self.elements()?;
        self.check_reduction(dtype)?;
        if let (Some(input), Some(output)) = (&self.input, &self.output) {
            check_apart(self.operator.name(), &input.region, &output.region)?;
        }
        self.member.operators.check()?;
        let own = self.record((count, dtype))?;

        let [input, output] = self.regions(&self.member.operators.tape.tasks);
        let recorded = match &self.member.record {
            None => None,
            Some(record) => record.before(input.clone(), stream)?,
        };
        let mut tape = std::mem::take(&mut self.member.operators.tape);
        let mut touches: SmallVec<[Touch<'_>; 3]> = SmallVec::new();
        touches.push(self.member.touch());
        match &self.in_place {
            // A rank without an output only reads the buffer.
            Some(_) if tape.tasks.output == 0 => {
                touches.extend(input.iter().map(|region| region.read(BUFFER)));
            }
            Some(whole) => touches.push(whole.region.write(BUFFER)),
            None => {
                touches.extend(input.iter().map(|region| region.read(INPUT)));
                touches.extend(output.iter().map(|region| region.write(OUTPUT)));
            }
        }
        let issue = Issue {
            member: self.member,
            operator: self.operator,
            sequence,
            engine: self.engine,
            dtype,
            memory: [input.as_ref(), output.as_ref()],
            own,
        };
        let issued = issue.on(stream, &touches, &mut tape);
        drop(touches);
        let Member { operators, .. } = &mut *self.member;
        operators.tape = tape;
        let (slot, name, issued) = (stream.slot(), self.operator.name(), issued?);
        operators.issued.push(Last { slot, issued, name, sequence });
        self.member.handle.note_own_work(slot, issued.number);
        self.member.count(Takes::Collective);
        let work = handle(stream, Ok(issued), name)?;
        if let (Some(record), Some(recorded)) = (&self.member.record, recorded) {
            let (label, operation) = (&self.member.label, name.to_owned());
            let takes = Takes::Collective;
            let name = RecordedName { label, operation, sequence, takes, dtype };
            record.after(recorded, name, output, stream)?;
        }
        Ok(work)
    }

    /// Returns the memory of the input and of the output. If this rank does not have the input or
    /// the output, its memory is `None`.
    fn regions(&self, tasks: &RankTasks) -> [Option<Region<'a>>; 2] {
        let RankTasks { input, output, in_place, .. } = *tasks;
        let Some(GivenBuffer { region, .. }) = &self.in_place else {
            return [&self.input, &self.output]
                .map(|given| given.as_ref().map(|given| given.region.clone()));
        };
        // The buffer has these lengths: `elements` has checked them.
        let part = |start: u64, bytes: u64| {
            let (start, end) = (start as usize, start.saturating_add(bytes) as usize);
            (end <= region.bytes()).then(|| region.part(start..end))
        };
        [part(in_place.unwrap_or(0), input), part(0, output)]
    }

    /// Records the tasks of this rank onto the tape. Returns the communication buffer of this rank.
    fn record(&mut self, what: (usize, DType)) -> Result<Buffer> {
        let Member { operators, handle, device, label, world_size, .. } = &mut *self.member;
        let buffer = operators.buffer(device, handle)?;
        let in_place = self.in_place.is_some();
        let shape = self.operator.shape(label.rank, *world_size, what, buffer.bytes, in_place);
        self.operator.record_rank(shape, &mut operators.tape);
        if operators.tape.mistakes.is_empty() {
            return Ok(buffer);
        }
        let mut error = RecordError::new(self.operator.name());
        error.add(label.rank, &operators.tape.mistakes);
        Err(Error::Operator(error))
    }
}

/// The checks that run before the tasks are recorded.
impl Run<'_> {
    /// Checks that the ranks and the matrix of the operator's goal fit the communicator.
    fn check_goal(&self) -> Result<()> {
        match self.operator.goal() {
            Goal::Broadcast { root }
            | Goal::Reduce { root, .. }
            | Goal::Scatter { root }
            | Goal::Gather { root } => self.member.check_rank("the root", *root),
            Goal::Send { from, to } => {
                self.member.check_rank("the sender", *from)?;
                self.member.check_rank("the receiver", *to)
            }
            Goal::AllToAllV { counts } if counts.len() != self.member.world_size as usize => {
                let (of, ranks) = (counts.len(), self.member.world_size);
                Err(invalid(format!(
                    "the matrix of `{}` is for {of} ranks, but the communicator has {ranks}: \
                     use a matrix for its number of ranks",
                    self.operator.name()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the type of the elements. It is an error if two buffers differ in type. Without
    /// buffers and without a count the type is `u8`.
    fn dtype(&self) -> Result<DType> {
        let given = [(INPUT, &self.input), (OUTPUT, &self.output), (BUFFER, &self.in_place)];
        let given =
            given.into_iter().filter_map(|(what, given)| Some((what, given.as_ref()?.dtype)));
        let mut all = given.chain(self.count.map(|(_, dtype)| ("the count", dtype)));
        let Some((first, dtype)) = all.next() else { return Ok(DType::U8) };
        match all.find(|(_, other)| *other != dtype) {
            None => Ok(dtype),
            Some((what, other)) => Err(invalid(format!(
                "{first} has type {dtype}, but {what} has type {other}: use one type for all"
            ))),
        }
    }

    /// Returns the count of the operator (its n), which follows from the lengths of the buffers.
    fn elements(&self) -> Result<usize> {
        let (goal, rank, ranks) =
            (self.operator.goal(), self.member.label.rank, self.member.world_size);
        // The sizes for n = 1, that is, as multiples of n. If the goal has no n, these are the
        // sizes themselves.
        let (input, output) = goal.sizes(rank, ranks, 1);
        let has_n = !matches!(goal, Goal::AllToAllV { .. } | Goal::Other { .. });
        let mut n = self.count.map(|(n, _)| n);
        let sides = match &self.in_place {
            None => [(INPUT, self.input.as_ref(), input), (OUTPUT, self.output.as_ref(), output)],
            Some(_) if self.input.is_some() || self.output.is_some() => {
                return Err(self.refused(
                    "takes either `.in_place(..)`, or `.input(..)` and `.output(..)`: pass only \
                     one of the two"
                        .to_owned(),
                ));
            }
            Some(_) if !runs_in_place(goal) => {
                return Err(self.refused(
                    "does not run in place: give it `.input(..)` and `.output(..)`".to_owned(),
                ));
            }
            Some(whole) => [(BUFFER, Some(whole), input.max(output)), (BUFFER, None, 0)],
        };
        for (what, given, factor) in sides {
            let factor = usize::try_from(factor).unwrap_or(usize::MAX);
            let found = match given {
                None if factor == 0 => continue,
                Some(given) if factor == 0 && given.elements() == 0 => continue,
                None => {
                    return Err(self.refused(format!(
                        "needs {what} on rank {rank}, but the call has none: pass it on that rank"
                    )));
                }
                Some(_) if factor == 0 => {
                    return Err(self.refused(format!(
                        "has no use for {what} on rank {rank}: leave it out there"
                    )));
                }
                Some(given) => given.elements(),
            };
            let expected = match n {
                _ if !has_n => factor,
                Some(n) => n.saturating_mul(factor),
                None if found.is_multiple_of(factor) => {
                    n = Some(found / factor);
                    continue;
                }
                None => return Err(Error::Uneven { what, length: found, world_size: ranks }),
            };
            if found != expected {
                return Err(Error::WrongLength {
                    operation: self.operator.name(),
                    what,
                    expected,
                    found,
                });
            }
        }
        Ok(n.unwrap_or(0))
    }

    fn refused(&self, text: String) -> Error {
        invalid(format!("the operator `{}` {text}", self.operator.name()))
    }

    /// Checks that tasks can reduce this type with the reduction of the operator.
    fn check_reduction(&self, dtype: DType) -> Result<()> {
        let (Some(op), Some(product)) = (self.operator.goal().reduces(), self.member.product)
        else {
            return Ok(());
        };
        let kind = match op {
            ReduceOp::Sum => ReduceKind::Sum,
            ReduceOp::Prod => ReduceKind::Prod,
            ReduceOp::Max => ReduceKind::Max,
            ReduceOp::Min => ReduceKind::Min,
        };
        use DType::{BF16, F16, F32, I8, I16, I32};
        if kind != ReduceKind::Prod && matches!(dtype, I8 | I16 | I32 | F16 | BF16 | F32) {
            return Ok(());
        }
        let who = "the tasks of an operator compute only sums, maxima and minima of i8, i16, i32, f16, bf16 and f32";
        let instead =
            "Convert first, or use the collective of the communicator, which reduces more types.";
        Err(Error::NotSupported { dtype, kind, product, who, instead })
    }
}

/// Returns whether the input can be a part of the output for this goal.
fn runs_in_place(goal: &Goal) -> bool {
    matches!(
        goal,
        Goal::AllGather
            | Goal::AllReduce(_)
            | Goal::Broadcast { .. }
            | Goal::Reduce { .. }
            | Goal::AllToAll
    )
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({:?} on rank {})", self.operator, self.member.label.rank)
    }
}
