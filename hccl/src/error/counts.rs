//! The mistakes in the counts of a [`Partition`](crate::collective::Partition) or a
//! [`CountMatrix`](crate::collective::CountMatrix).

use super::counted::counted;

/// The largest number of elements that HCCL takes in one operation.
pub const MOST_ELEMENTS: usize = 0x7_ffff_ffff;

/// Counts or displacements that do not fit one another, the buffers or the communicator. All
/// counts, displacements and lengths are in elements.
///
/// ```
/// use hccl::collective::CountsError;
/// use hccl::Partition;
///
/// let refused = Partition::with_displacements([2, 2], [0]).unwrap_err();
/// assert_eq!(refused, CountsError::Unpaired { counts: 2, displacements: 1 });
/// println!("{refused}");
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CountsError {
    /// The number of counts differs from the number of displacements.
    #[error(
        "the number of counts is {counts}, but the number of displacements is {displacements}: \
         give one count and one displacement for each rank"
    )]
    Unpaired {
        /// The number of counts.
        counts: usize,
        /// The number of displacements.
        displacements: usize,
    },
    /// The end of a part exceeds `isize::MAX`.
    #[error(
        "the part of rank {rank} begins at {displacement} and has length {count}, \
         so its end exceeds `isize::MAX`: use smaller values"
    )]
    Overflow {
        /// The rank of the part.
        rank: u32,
        /// The offset at which the part begins.
        displacement: usize,
        /// The length of the part.
        count: usize,
    },
    /// One part, or one block of a matrix, has more elements than HCCL takes in one operation.
    #[error(
        "{what} of rank {rank} has {count} elements, more than HCCL takes in one operation \
         ({MOST_ELEMENTS}): use several operations"
    )]
    TooMany {
        /// The part or the block that is too large, as text.
        what: &'static str,
        /// The rank of the part or block.
        rank: u32,
        /// The number of its elements.
        count: usize,
    },
    /// The counts are made for another number of ranks than the communicator has.
    #[error(
        "{what} is made for {}, but the communicator has {world_size}: \
         make it for the ranks of the communicator",
        counted(*found, "rank")
    )]
    Ranks {
        /// The name of the argument.
        what: &'static str,
        /// The number of ranks that the argument is made for.
        found: usize,
        /// The number of ranks of the communicator.
        world_size: u32,
    },
    /// A matrix does not have a row and a column for each rank.
    #[error(
        "the number of counts in a matrix for {} must be {}, but is {found}: \
         give each source a row with a count for each destination",
        counted(*ranks as usize, "rank"),
        u64::from(*ranks) * u64::from(*ranks)
    )]
    NotSquare {
        /// The number of ranks.
        ranks: u32,
        /// The number of counts that were given.
        found: usize,
    },
    /// A buffer that holds only this rank's part does not have the length of the part.
    #[error(
        "{what} has {}, but {of} of rank {rank} has {expected}: \
         pass a buffer of that length",
        counted(*found, "element")
    )]
    OwnLength {
        /// The name of the argument that has the wrong length.
        what: &'static str,
        /// The name of the part whose length the buffer should have.
        of: &'static str,
        /// The number of this rank.
        rank: u32,
        /// The length that the buffer should have.
        expected: usize,
        /// The length of the buffer.
        found: usize,
    },
    /// A part ends after the end of the buffer.
    #[error(
        "{what} has {}, but the part of rank {rank} ends at {end}: \
         pass a longer buffer, or change the counts",
        counted(*found, "element")
    )]
    Outside {
        /// The name of the argument.
        what: &'static str,
        /// The rank of the part.
        rank: u32,
        /// The offset at which the part ends.
        end: usize,
        /// The length of the buffer.
        found: usize,
    },
    /// Two parts of a destination have elements in common.
    #[error(
        "the parts of ranks {first} and {second} have elements in common ({common}), and both are written: give each its own range"
    )]
    Overlap {
        /// The rank whose part begins first.
        first: u32,
        /// The rank whose part begins inside the other part.
        second: u32,
        /// The number of elements that belong to both parts.
        common: usize,
    },
    /// The parts do not cover a destination that was never written, so some of its elements would
    /// stay uninitialised.
    #[error(
        "the parts cover {written} of the {} of the destination, \
         and the rest would stay uninitialised: \
         pass `&mut` of a buffer that has been written, or leave no gaps",
        counted(*length, "element")
    )]
    Gaps {
        /// The number of elements that the parts cover.
        written: usize,
        /// The number of elements of the destination.
        length: usize,
    },
    /// The numbers of elements that a rank sends to itself and receives from itself differ.
    #[error(
        "rank {rank} sends itself {} and receives {received} from itself: make both counts equal",
        counted(*sent, "element")
    )]
    Own {
        /// The number of this rank.
        rank: u32,
        /// The number of elements that are sent.
        sent: usize,
        /// The number of elements that are received.
        received: usize,
    },
}
