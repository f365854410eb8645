//! Running an operator on a communicator.

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
use crate::record::member::RecordedName;
use crate::trace::span;

const INPUT: &str = "the input";
const OUTPUT: &str = "the output";
const BUFFER: &str = "the buffer";

/// An operator that is about to run, and its buffers, made by [`Communicator::run`]:
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

/// A buffer that was given.
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
    /// Begins to run an operator of one's own. See [`operator`](crate::operator).
    ///
    /// It is an operation like any collective: all ranks run it in the same order among the
    /// communicator's operations, with the same number of elements and the same type. It takes a
    /// number, is ordered behind everything that uses the same buffers, and gives a [`Work`].
    /// Nothing happens before [`Run::submit`].
    ///
    /// ```
    /// use hccl::operator::*;
    /// use hccl::prelude::*;
    ///
    /// /// Rank 0 shows what it has, rank 1 takes it.
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
    /// Sets the elements that this rank gives: a buffer or a slice of one, as long as the table of
    /// [`Operator`] says. Not on ranks that give nothing.
    pub fn input<E: Element>(mut self, source: impl Source<E> + Lend<'a>) -> Self {
        self.input = Some(GivenBuffer { region: source.lend(), dtype: E::DTYPE });
        self
    }

    /// Sets the place of the elements that this rank gets. Not on ranks that get nothing.
    pub fn output<E: Element>(mut self, destination: impl Destination<E> + LendMut<'a>) -> Self {
        self.output = Some(GivenBuffer { region: destination.lend(), dtype: E::DTYPE });
        self
    }

    /// Sets one buffer for both: the whole output, in which the input lies at the start, or for an
    /// all-gather at this rank's own block.
    ///
    /// For operators that gather to all, reduce, broadcast, or send all to all.
    pub fn in_place<E: Element>(mut self, buffer: impl Destination<E> + LendMut<'a>) -> Self {
        self.in_place = Some(GivenBuffer { region: buffer.lend(), dtype: E::DTYPE });
        self
    }

    /// Sets the n of the operator, and its type, for ranks that neither give nor get anything but
    /// help all the same. Elsewhere the buffers say it.
    pub fn count<E: Element>(mut self, count: usize) -> Self {
        self.count = Some((count, E::DTYPE));
        self
    }

    /// Sets the engine that works through the threads; the host's task queues if nothing is said.
    /// The same on all ranks.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Records the tasks of this rank, acquires the resources that they need, and issues them.
    ///
    /// The stream is a running one: operators are not captured.
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
    /// Does not block: a helper thread makes channels to new peers, as it makes links for
    /// collectives (see [`comm`](crate::comm)), and the [`Work`] tells errors of the channels and
    /// all later ones. The communicator keeps the acquired resources: `HcclThreadAcquire`,
    /// `HcclThreadAcquireWithStream`, `HcclChannelAcquire`, `HcclGetHcclBuffer`. The tasks are
    /// `Hcomm..OnThread` calls.
    ///
    /// # Errors
    ///
    /// Nothing has been issued when this is [`Error::Refused`]. Its cause is
    ///
    /// * [`Error::Operator`] with every mistake that recording finds on this rank, and its line;
    /// * [`Error::WrongLength`], [`Error::Uneven`] and [`Error::RootOnly`] when the buffers are not
    ///   those that the operator takes on this rank, [`Error::Overlap`] when input and output share
    ///   memory;
    /// * [`Error::NotSupported`] when no task reduces the type in this way: reductions are sums,
    ///   maxima and minima of `i8`, `i16`, `i32`, `f16`, `bf16` and `f32`;
    /// * [`Error::Invalid`] for two types, and for an argument that the operator has no use for;
    /// * [`Error::OperatorFailed`] behind an operator of this communicator that has failed: then
    ///   notifies may be left set;
    /// * those that every operation has: [`Error::WrongDevice`], [`Error::WrongRuntime`],
    ///   [`Error::NoSuchRank`], [`Error::Aborted`].
    ///
    /// [`Error::Call`] is the error of CANN; that a peer has opened no channel to this rank comes
    /// with the [`Work`]. When CANN refuses a task in the midst, the communicator is
    /// [aborted](crate::comm::AbortHandle::abort): a part of an operator cannot be taken back. The
    /// [`Work`] tells failures on the device.
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
            // A rank without output only reads.
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

    /// Returns the input and the output, where there are any.
    fn regions(&self, tasks: &RankTasks) -> [Option<Region<'a>>; 2] {
        let RankTasks { input, output, in_place, .. } = *tasks;
        let Some(GivenBuffer { region, .. }) = &self.in_place else {
            return [&self.input, &self.output]
                .map(|given| given.as_ref().map(|given| given.region.clone()));
        };
        // The lengths are those of the buffer, which was checked.
        let part = |start: u64, bytes: u64| {
            let (start, end) = (start as usize, start.saturating_add(bytes) as usize);
            (end <= region.bytes()).then(|| region.part(start..end))
        };
        [part(in_place.unwrap_or(0), input), part(0, output)]
    }

    /// Puts the tasks of this rank onto the tape. Returns the communication buffer.
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

/// The checks before anything is recorded.
impl Run<'_> {
    /// Checks that the operator is for these ranks.
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
                    "the matrix of `{}` is for {of} ranks, but the communicator has {ranks}",
                    self.operator.name()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the type of all buffers.
    fn dtype(&self) -> Result<DType> {
        let given = [(INPUT, &self.input), (OUTPUT, &self.output), (BUFFER, &self.in_place)];
        let given =
            given.into_iter().filter_map(|(what, given)| Some((what, given.as_ref()?.dtype)));
        let mut all = given.chain(self.count.map(|(_, dtype)| ("the count", dtype)));
        let Some((first, dtype)) = all.next() else { return Ok(DType::U8) };
        match all.find(|(_, other)| *other != dtype) {
            None => Ok(dtype),
            Some((what, other)) => Err(invalid(format!(
                "{first} is of {dtype} and {what} of {other}: an operator works on one type"
            ))),
        }
    }

    /// Returns the n of the operator, from the lengths of the buffers.
    fn elements(&self) -> Result<usize> {
        let (goal, rank, ranks) =
            (self.operator.goal(), self.member.label.rank, self.member.world_size);
        // The sizes as multiples of n, or the sizes themselves when n has no meaning.
        let (input, output) = goal.sizes(rank, ranks, 1);
        let has_n = !matches!(goal, Goal::AllToAllV { .. } | Goal::Other { .. });
        let mut n = self.count.map(|(n, _)| n);
        let sides = match &self.in_place {
            None => [(INPUT, self.input.as_ref(), input), (OUTPUT, self.output.as_ref(), output)],
            Some(_) if self.input.is_some() || self.output.is_some() => {
                return Err(self.refused(
                    "takes `.in_place(..)`, or `.input(..)` and `.output(..)`, not both".to_owned(),
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
                    return Err(
                        self.refused(format!("takes {what} on rank {rank}, and none was given"))
                    );
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

    /// Checks that there is a task that reduces like this.
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
        let who = "the tasks of operators take sums, maxima and minima of i8, i16, i32, f16, bf16 and f32";
        let instead = "Convert first, or use the collective of the communicator, which takes more.";
        Err(Error::NotSupported { dtype, kind, product, who, instead })
    }
}

/// Whether the input can be a part of the output.
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
