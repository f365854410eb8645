//! The recorder, which the function of an operator receives. It has the rank for which the function
//! is recorded, the memory of that rank, and its channels.

use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

use ascend_operator::{Goal, Memory};

use super::channel::Channel;
use super::memory::LocalBuffer;
use super::state::{OperatorShape, State, Tape};
use super::thread::{MainThread, Thread};
use crate::dtype::DType;

/// The view that one rank has of an operator while the operator's function is recorded.
///
/// ```
/// use hccl::operator::*;
///
/// /// Every rank gives its elements to the next one.
/// fn shift(op: &Recorder<'_>, main: &mut MainThread<'_>) {
///     let shared = op.buffer().slice(..op.count());
///     main.copy(op.input(), shared);
///     let exposed = main.expose(op.channel(op.peer(1))); // the next rank may read it
///     main.visit(op.channel(op.peer(-1)), |theirs| {
///         main.read(theirs.slice(..op.count()), op.output());
///     });
///     main.reclaim(exposed);
/// }
/// let shift = Operator::other("shift", 100, 100, shift);
/// assert!(shift.record::<f32>(3, 100)?.check().is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct Recorder<'r> {
    state: &'r State,
}

/// Records a function onto a tape, and replaces the earlier contents of the tape.
pub(super) fn record(
    shape: OperatorShape,
    goal: &Arc<Goal>,
    tape: &mut Tape,
    function: &dyn Fn(&Recorder<'_>, &mut MainThread<'_>),
) {
    let state = State::new(shape, Arc::clone(goal), std::mem::take(tape));
    let recorder = Recorder { state: &state };
    let mut main = MainThread { thread: Thread { state: &state, index: 0 } };
    function(&recorder, &mut main);
    *tape = state.into_tape();
}

impl<'r> Recorder<'r> {
    /// Returns the rank for which the function is recorded.
    pub fn rank(&self) -> u32 {
        self.state.shape.rank
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        self.state.shape.ranks
    }

    /// Returns the rank that is `distance` places after this rank in the ring of all ranks:
    /// `peer(1)` is the next rank, and `peer(-1)` is the previous rank.
    pub fn peer(&self, distance: i64) -> u32 {
        let (rank, ranks) = (i64::from(self.rank()), i64::from(self.ranks()));
        (rank + distance % ranks).rem_euclid(ranks) as u32
    }

    /// Returns all other ranks in the order of the ring, beginning with the next rank. So no two
    /// ranks begin with the same peer.
    pub fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let (rank, ranks) = (self.rank(), self.ranks());
        (1..ranks).map(move |distance| {
            ((u64::from(rank) + u64::from(distance)) % u64::from(ranks)) as u32
        })
    }

    /// Returns the number of elements of the operator: the n in the table of
    /// [`Operator`](super::Operator).
    pub fn count(&self) -> usize {
        self.state.shape.count
    }

    /// Returns the goal of the operator: the result that all ranks produce together.
    pub fn goal(&self) -> &'r Goal {
        &self.state.goal
    }

    /// Returns the root of the operator. In a broadcast or scatter, only the root has an input. In
    /// a reduce or gather, only the root has an output. If the operator has no root, the call is a
    /// mistake, and returns 0.
    #[track_caller]
    pub fn root(&self) -> u32 {
        match self.state.goal.root() {
            Some(root) => root,
            None => {
                self.refuse("the operator has no root: use a goal that has one, such as broadcast");
                0
            }
        }
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.state.shape.dtype
    }

    /// Returns the input of the rank. Tasks must not write it.
    pub fn input(&self) -> LocalBuffer<'r> {
        LocalBuffer::whole(self.state, Memory::Input)
    }

    /// Returns the output of the rank, where it puts its result.
    pub fn output(&self) -> LocalBuffer<'r> {
        LocalBuffer::whole(self.state, Memory::Output)
    }

    /// Returns the part of this rank's input that is for `rank`. This is the whole input if the
    /// goal does not divide the input between ranks. It is empty if this rank has no input.
    #[track_caller]
    pub fn input_for(&self, rank: u32) -> LocalBuffer<'r> {
        let input = self.input();
        match self.goal() {
            _ if input.is_empty() => input,
            Goal::AllToAllV { counts } => {
                blocks(input, rank, |to| block_of(counts, self.rank(), to))
            }
            Goal::ReduceScatter(_) | Goal::Scatter { .. } | Goal::AllToAll => {
                input.block(rank, self.count())
            }
            _ => input,
        }
    }

    /// Returns the part of this rank's output that comes from `rank`. This is the whole output if
    /// the goal does not divide the output between ranks. It is empty if this rank has no output.
    #[track_caller]
    pub fn output_from(&self, rank: u32) -> LocalBuffer<'r> {
        let output = self.output();
        match self.goal() {
            _ if output.is_empty() => output,
            Goal::AllToAllV { counts } => {
                blocks(output, rank, |from| block_of(counts, from, self.rank()))
            }
            Goal::AllGather | Goal::Gather { .. } | Goal::AllToAll => {
                output.block(rank, self.count())
            }
            _ => output,
        }
    }

    /// Divides the elements of the operator into rounds of at most `most` elements, and returns the
    /// range of each round. Choose `most` so that one round fits into the communication buffer.
    /// Every rank has the same rounds. They are ranges of the [count](Self::count), or of the
    /// longest block for an all-to-all with a matrix. An operator without elements has no rounds.
    /// If `most` is 0 but there are elements, it is a mistake: the buffer is too small for the
    /// operator.
    ///
    /// ```
    /// use hccl::operator::*;
    ///
    /// fn copy_through_the_buffer(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    ///     for round in op.rounds(op.buffer().len()) {
    ///         let staged = op.buffer().slice(..round.len());
    ///         main.copy(op.input().slice(round.clone()), staged);
    ///         main.copy(staged, op.output().slice(round));
    ///     }
    /// }
    /// # let copy = Operator::all_gather("copy", copy_through_the_buffer);
    /// # let recorded = copy.on(1).count(10).buffer_bytes(16).record().unwrap();
    /// # assert_eq!(recorded.tasks().tasks(), 6);
    /// ```
    #[track_caller]
    pub fn rounds(&self, most: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let count = match self.goal() {
            Goal::AllToAllV { counts } => {
                let longest = counts.iter().flatten().copied().max().unwrap_or_default();
                usize::try_from(longest).unwrap_or(usize::MAX)
            }
            _ => self.count(),
        };
        if most == 0 && count > 0 {
            self.refuse(format!(
                "a round has room for 0 elements: give rounds at least 1 element, and set a larger \
                 communication buffer if {} elements are too few",
                self.buffer().len()
            ));
        }
        let most = if most == 0 { count.max(1) } else { most };
        (0..count).step_by(most).map(move |start| start..count.min(start.saturating_add(most)))
    }

    /// Returns the rank's communication buffer, the only memory that peers reach (CANN:
    /// `HcclGetHcclBuffer`). Its contents at the start are unspecified. It may be smaller than the
    /// data, so an operator that takes any count works in [rounds](Self::rounds).
    pub fn buffer(&self) -> LocalBuffer<'r> {
        LocalBuffer::whole(self.state, Memory::Buffer)
    }

    /// Opens the channel to a peer. The peer must open it too. It is a mistake if `peer` is this
    /// rank or does not exist.
    #[track_caller]
    pub fn channel(&self, peer: u32) -> Channel<'r> {
        let (rank, ranks) = (self.rank(), self.ranks());
        if peer == rank || peer >= ranks {
            let who = if peer == rank { "itself".to_owned() } else { format!("rank {peer}") };
            let text = format!(
                "rank {rank} of {ranks} opens a channel to {who}: \
                 a channel joins two different ranks of the operator, so give another rank"
            );
            self.state.mistake(Location::caller(), text);
        }
        let number = self.state.tape(|tape| tape.channel(peer));
        Channel { state: self.state, peer, number }
    }

    /// Refuses the setting for which the operator is recorded, for example the number of ranks.
    /// `text` is the text of the [mistake](super::Mistake): it says why the setting is refused, and
    /// which settings are accepted.
    #[track_caller]
    pub fn refuse(&self, text: impl Into<String>) {
        self.state.mistake(Location::caller(), text.into());
    }
}

/// Returns the number of elements that rank `from` has for rank `to`.
fn block_of(counts: &[Vec<u64>], from: u32, to: u32) -> usize {
    let row = counts.get(from as usize);
    let count = row.and_then(|row| row.get(to as usize)).copied().unwrap_or_default();
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Returns block `index` of a buffer that consists of blocks. `length` returns the length of each
/// block.
#[track_caller]
fn blocks(of: LocalBuffer<'_>, index: u32, length: impl Fn(u32) -> usize) -> LocalBuffer<'_> {
    let start = (0..index).map(&length).fold(0, usize::saturating_add);
    of.slice(start..start.saturating_add(length(index)))
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recorder").field(&self.state.shape).finish()
    }
}
