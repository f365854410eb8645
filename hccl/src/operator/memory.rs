//! The memory on which an operator works: parts of a rank's own memory, and parts of a peer's
//! communication buffer.

use std::fmt;
use std::ops::{Bound, Range, RangeBounds};
use std::panic::Location;

use ascend_operator::{Memory, Piece};

use super::state::State;

/// A range of elements of the rank's own memory: of its input, its output or its communication
/// buffer.
///
/// A `LocalBuffer` is a place, not data: its elements have values only when the operator runs.
/// Copying a `LocalBuffer` copies the place, not the elements.
///
/// ```
/// use hccl::operator::*;
///
/// /// Copies the two halves of the input in two threads.
/// fn own(op: &Recorder<'_>, main: &mut MainThread<'_>) {
///     let (input, output): (LocalBuffer<'_>, LocalBuffer<'_>) = (op.input(), op.output());
///     main.fork(2, |threads| {
///         for thread in threads.iter() {
///             let half = thread.index();
///             thread.copy(input.part(half, 2), output.part(half, 2));
///         }
///     });
/// }
/// # let operator = Operator::other("own", 100, 100, own);
/// # assert!(operator.record::<f32>(3, 100)?.check().is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct LocalBuffer<'r> {
    pub(super) state: &'r State,
    pub(super) memory: Memory,
    start: usize,
    length: usize,
}

/// A range of elements of a peer's communication buffer (CANN: `HcclChannelGetHcclBuffer`). An
/// [`Access`](super::Access) returns it, and it cannot outlive the `Access`.
///
/// ```
/// use hccl::operator::*;
///
/// fn own(op: &Recorder<'_>, main: &mut MainThread<'_>) {
///     main.copy(op.input(), op.buffer().slice(..op.count()));
///     let exposed = main.expose(op.channel(op.peer(1)));
///     main.visit(op.channel(op.peer(-1)), |theirs: RemoteBuffer<'_>| {
///         main.read(theirs.slice(..op.count()), op.output());
///     });
///     main.reclaim(exposed);
/// }
/// # let operator = Operator::other("own", 100, 100, own);
/// # assert!(operator.record::<f32>(3, 100)?.check().is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct RemoteBuffer<'a> {
    pub(super) state: &'a State,
    pub(super) peer: u32,
    /// The index of the channel to the peer.
    pub(super) channel: usize,
    start: usize,
    length: usize,
}

/// Implements the methods that both kinds of buffers have.
macro_rules! places {
    ($buffer:ident, $life:lifetime) => {
        impl<$life> $buffer<$life> {
            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                self.length
            }

            /// Returns whether the buffer has no elements.
            pub fn is_empty(&self) -> bool {
                self.length == 0
            }

            /// Returns the elements in `range`. A range that does not lie within the buffer is a
            /// mistake, and returns an empty buffer.
            #[track_caller]
            pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
                let (start, length) = inside(self.state, range, self.length);
                Self { start: self.start + start, length, ..*self }
            }

            /// Divides the buffer into blocks of `length` elements each, and returns block `index`.
            /// A block that does not lie within the buffer is a mistake, and returns an empty
            /// buffer.
            #[track_caller]
            pub fn block(&self, index: u32, length: usize) -> Self {
                let start = (index as usize).saturating_mul(length);
                self.slice(start..start.saturating_add(length))
            }

            /// Divides the buffer into `parts` parts whose lengths differ by at most one element,
            /// and returns part `index`.
            #[track_caller]
            pub fn part(&self, index: u32, parts: u32) -> Self {
                self.parts(index..index.saturating_add(1), parts)
            }

            /// Returns the consecutive [parts](Self::part) in `range` as one buffer.
            #[track_caller]
            pub fn parts(&self, range: Range<u32>, parts: u32) -> Self {
                let cut = |index: u32| {
                    (self.length as u128 * u128::from(index) / u128::from(parts.max(1))) as usize
                };
                self.slice(cut(range.start)..cut(range.end))
            }

            /// Returns consecutive parts of `length` elements each. The last part may be shorter.
            /// An empty buffer has no parts. A `length` of 0 counts as 1.
            pub fn chunks(&self, length: usize) -> impl Iterator<Item = Self> + use<$life> {
                let (whole, length) = (*self, length.max(1));
                (0..whole.length).step_by(length).map(move |at| Self {
                    start: whole.start + at,
                    length: length.min(whole.length - at),
                    ..whole
                })
            }
        }
    };
}
places!(LocalBuffer, 'r);
places!(RemoteBuffer, 'a);

impl<'r> LocalBuffer<'r> {
    pub(super) fn whole(state: &'r State, memory: Memory) -> Self {
        let length = state.shape.sizes[memory as usize];
        LocalBuffer { state, memory, start: 0, length }
    }

    pub(super) fn piece(&self) -> Piece {
        self.state.piece(self.state.shape.rank, self.memory, self.start, self.length)
    }
}

impl<'a> RemoteBuffer<'a> {
    pub(super) fn whole(state: &'a State, peer: u32, channel: usize) -> Self {
        let length = state.shape.sizes[Memory::Buffer as usize];
        RemoteBuffer { state, peer, channel, start: 0, length }
    }

    /// Returns the elements of the peer's communication buffer at the position of `place` in this
    /// rank's communication buffer. It is a mistake if `place` is in other memory, or if its
    /// position does not lie within this buffer. The result is then empty.
    ///
    /// ```
    /// # use hccl::operator::*;
    /// # fn step(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    /// let part = op.buffer().part(op.rank(), op.ranks());
    /// let next = op.channel(op.peer(1));
    /// main.exchange(next, next, |theirs| main.read_reduce(theirs.at(part), part));
    /// # }
    /// # Operator::all_reduce("step", hccl::prelude::Sum, step).record::<f32>(2, 8).unwrap();
    /// ```
    #[track_caller]
    pub fn at(&self, place: LocalBuffer<'_>) -> Self {
        let range = place.start.checked_sub(self.start).map(|at| at..at + place.length);
        match range {
            Some(range) if place.memory == Memory::Buffer => self.slice(range),
            _ => {
                let text = format!(
                    "{place:?} have no counterpart among {self:?}: \
                     give a part of this rank's communication buffer with the same range"
                );
                self.state.mistake(Location::caller(), text);
                Self { length: 0, ..*self }
            }
        }
    }

    pub(super) fn piece(&self) -> Piece {
        self.state.piece(self.peer, Memory::Buffer, self.start, self.length)
    }
}

/// Writes the range and the memory, for example "elements 4..8 of the output".
impl fmt::Debug for LocalBuffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, length, memory, .. } = self;
        write!(f, "elements {start}..{} of the {memory}", start + length)
    }
}

/// Writes the range, the memory and the rank, for example "elements 4..8 of the communication
/// buffer of rank 2".
impl fmt::Debug for RemoteBuffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, length, peer, .. } = self;
        let (end, memory) = (start + length, Memory::Buffer);
        write!(f, "elements {start}..{end} of the {memory} of rank {peer}")
    }
}

/// Returns the start and the length of a range. A range that does not lie within `length` elements
/// is a mistake, and returns (0, 0).
#[track_caller]
fn inside(state: &State, range: impl RangeBounds<usize>, length: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(at) => *at,
        Bound::Excluded(at) => at.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(at) => at.saturating_add(1),
        Bound::Excluded(at) => *at,
        Bound::Unbounded => length,
    };
    if start <= end && end <= length {
        return (start, end - start);
    }
    let range = Range { start, end };
    state.mistake(
        Location::caller(),
        format!("elements {range:?} do not lie in a buffer of length {length}: change the range"),
    );
    (0, 0)
}
