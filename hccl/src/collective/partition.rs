//! The division of a buffer into parts that may differ in length, one for each rank.

use std::ffi::c_void;
use std::ops::Range;

use super::{CountsError, MOST_ELEMENTS};

/// A division of a buffer among the ranks of a communicator. Each rank has one part: a count and a
/// displacement, both in elements.
///
/// Make a partition once and use it for many calls: operations borrow it, so a call allocates
/// nothing.
///
/// ```
/// use hccl::prelude::*;
///
/// # fn main() -> hccl::Result<()> {
/// // 3 elements of rank 0, none of rank 1, 2 of rank 2, without gaps.
/// let packed = Partition::packed([3, 0, 2])?;
/// assert_eq!((packed.of(0), packed.of(2), packed.extent()), (0..3, 3..5, 5));
///
/// // The same counts at chosen positions.
/// let apart = Partition::with_displacements([3, 0, 2], [4, 0, 0])?;
/// assert_eq!((apart.of(0), apart.of(2), apart.extent()), (4..7, 0..2, 7));
///
/// // 10 elements for 4 ranks, divided as evenly as possible.
/// let even = Partition::even(10, 4);
/// assert_eq!((0..4).map(|rank| even.count(rank)).collect::<Vec<_>>(), [3, 3, 2, 2]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    counts: Box<[u64]>,
    displacements: Box<[u64]>,
    /// The end of the part that ends last, and the rank of that part. Parts without elements do not
    /// count.
    extent: u64,
    last: u32,
    total: u64,
    /// The ranks of the first two parts that have elements in common, and the number of these
    /// elements.
    overlap: Option<(u32, u32, u64)>,
    /// The rank of the first part that is longer than HCCL accepts.
    too_long: Option<u32>,
}

impl Partition {
    /// Makes a partition whose parts follow one another without gaps, in the order of the ranks.
    ///
    /// # Errors
    ///
    /// [`CountsError::Overflow`] if the sum of the counts exceeds `isize::MAX`.
    pub fn packed(counts: impl IntoIterator<Item = usize>) -> Result<Self, CountsError> {
        let counts: Box<[u64]> = counts.into_iter().map(|count| count as u64).collect();
        let mut next = 0;
        let mut displacements = Vec::with_capacity(counts.len());
        for (rank, &count) in (0..).zip(&counts) {
            displacements.push(next);
            next = end(rank, next, count)?;
        }
        Self::new(counts, displacements.into())
    }

    /// Makes a partition whose parts begin at the given displacements, in any order, with or
    /// without gaps. Parts of a source may also overlap. Parts of a destination may not: the
    /// operation that uses the partition for a destination checks this.
    ///
    /// # Errors
    ///
    /// [`CountsError::Unpaired`] if the number of displacements differs from the number of counts,
    /// and [`CountsError::Overflow`] if the end of a part exceeds `isize::MAX`.
    pub fn with_displacements(
        counts: impl IntoIterator<Item = usize>,
        displacements: impl IntoIterator<Item = usize>,
    ) -> Result<Self, CountsError> {
        let counts: Box<[u64]> = counts.into_iter().map(|count| count as u64).collect();
        let displacements: Box<[u64]> = displacements.into_iter().map(|at| at as u64).collect();
        if counts.len() != displacements.len() {
            let (counts, displacements) = (counts.len(), displacements.len());
            return Err(CountsError::Unpaired { counts, displacements });
        }
        Self::new(counts, displacements)
    }

    /// Divides `len` elements among `ranks` ranks without gaps. The first `len % ranks` ranks get
    /// one element more than the other ranks.
    pub fn even(len: usize, ranks: u32) -> Self {
        let (len, n) = (len as u64, u64::from(ranks));
        let (each, more) = (len.checked_div(n).unwrap_or(0), len.checked_rem(n).unwrap_or(0));
        let counts: Box<[u64]> = (0..n).map(|rank| each + u64::from(rank < more)).collect();
        let displacements = (0..n).map(|rank| rank * each + rank.min(more)).collect();
        let extent = if n == 0 { 0 } else { len };
        let too_long = counts.iter().position(|&count| count > MOST_ELEMENTS as u64);
        Partition {
            counts,
            displacements,
            extent,
            last: ranks.saturating_sub(1),
            total: extent,
            overlap: None,
            too_long: too_long.map(|rank| rank as u32),
        }
    }

    fn new(counts: Box<[u64]>, displacements: Box<[u64]>) -> Result<Self, CountsError> {
        let (mut extent, mut last, mut total) = (0, 0, 0u64);
        for (rank, (&at, &count)) in (0..).zip(displacements.iter().zip(&counts)) {
            let end = end(rank, at, count)?;
            // An empty part does not extend the buffer, whatever its displacement.
            if count > 0 && end > extent {
                (extent, last) = (end, rank);
            }
            total = total.saturating_add(count);
        }
        let too_long = counts.iter().position(|&count| count > MOST_ELEMENTS as u64);
        let overlap = first_overlap(&counts, &displacements);
        let too_long = too_long.map(|rank| rank as u32);
        Ok(Partition { counts, displacements, extent, last, total, overlap, too_long })
    }

    /// Returns the number of ranks for which the partition was made.
    pub fn ranks(&self) -> u32 {
        self.counts.len() as u32
    }

    /// Returns the range of elements that belong to `rank`. The range is empty for a rank that the
    /// partition does not have.
    pub fn of(&self, rank: u32) -> Range<usize> {
        let at = self.displacements.get(rank as usize).map_or(0, |&at| at as usize);
        at..at + self.count(rank)
    }

    /// Returns the number of elements that belong to `rank`. Returns 0 for a rank that the
    /// partition does not have.
    pub fn count(&self, rank: u32) -> usize {
        self.counts.get(rank as usize).map_or(0, |&count| count as usize)
    }

    /// Returns the end, in elements, of the part that ends last. A buffer must have at least this
    /// length. Parts without elements do not count.
    pub fn extent(&self) -> usize {
        self.extent as usize
    }

    /// Returns the number of elements of all parts together.
    pub fn total(&self) -> usize {
        self.total as usize
    }

    /// Returns pointers to the counts and the displacements, as CANN expects them.
    #[inline]
    pub(super) fn pointers(&self) -> (*const c_void, *const c_void) {
        (self.counts.as_ptr().cast(), self.displacements.as_ptr().cast())
    }

    /// Checks that the partition fits a communicator of `world_size` ranks and a buffer of `length`
    /// elements. Errors call the buffer `what`.
    pub(super) fn fits(
        &self,
        what: &'static str,
        world_size: u32,
        length: usize,
    ) -> Result<(), CountsError> {
        if self.counts.len() != world_size as usize {
            let what = match what {
                DESTINATION => "the partition of the destination",
                _ => "the partition of the source",
            };
            return Err(CountsError::Ranks { what, found: self.counts.len(), world_size });
        }
        if let Some(rank) = self.too_long {
            let count = self.count(rank);
            return Err(CountsError::TooMany { what: "the part", rank, count });
        }
        if self.extent() > length {
            let (rank, end) = (self.last, self.extent());
            return Err(CountsError::Outside { what, rank, end, found: length });
        }
        Ok(())
    }

    /// Checks a partition of a destination: no element is written twice, and if `fresh` is true,
    /// every element is written.
    pub(super) fn fills(&self, length: usize, fresh: bool) -> Result<(), CountsError> {
        if let Some((first, second, common)) = self.overlap {
            return Err(CountsError::Overlap { first, second, common: common as usize });
        }
        if fresh && self.total() != length {
            return Err(CountsError::Gaps { written: self.total(), length });
        }
        Ok(())
    }
}

/// The names of arguments, in messages.
pub(super) const SOURCE: &str = "the source";
pub(super) const DESTINATION: &str = "the destination";
pub(super) const BUFFER: &str = "the buffer";

fn end(rank: u32, at: u64, count: u64) -> Result<u64, CountsError> {
    let end = at.checked_add(count).filter(|&end| isize::try_from(end).is_ok());
    let (displacement, count) = (at as usize, count as usize);
    end.ok_or(CountsError::Overflow { rank, displacement, count })
}

/// Returns the ranks of the first two parts, in the order of their displacements, that have
/// elements in common, and the number of these elements.
fn first_overlap(counts: &[u64], displacements: &[u64]) -> Option<(u32, u32, u64)> {
    let mut parts: Vec<(u64, u64, u32)> = (0..)
        .zip(displacements.iter().zip(counts))
        .filter(|(_, (_, count))| **count > 0)
        .map(|(rank, (&at, &count))| (at, at + count, rank))
        .collect();
    // Packed parts are in order already.
    parts.sort_unstable();
    parts.windows(2).find_map(|pair| {
        let [(_, end, first), (at, next_end, second)] = [pair[0], pair[1]];
        (at < end).then(|| (first, second, end.min(next_end) - at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_parts_lie_one_behind_the_other() {
        let partition = Partition::packed([3, 0, 2]).unwrap();
        assert_eq!((partition.ranks(), partition.extent(), partition.total()), (3, 5, 5));
        assert_eq!([0, 1, 2, 3].map(|rank| partition.of(rank)), [0..3, 3..3, 3..5, 0..0]);
        assert_eq!(*partition.displacements, [0, 3, 3]);
        assert_eq!(partition.fits(SOURCE, 3, 5), Ok(()));
        assert_eq!(partition.fills(5, true), Ok(()));
    }

    #[test]
    fn even_parts_differ_by_one_at_most() {
        for (len, ranks) in [(10, 4), (3, 5), (0, 2), (12, 3), (7, 1)] {
            let partition = Partition::even(len, ranks);
            let counts: Vec<usize> = (0..ranks).map(|rank| partition.count(rank)).collect();
            assert_eq!(
                partition,
                Partition { last: ranks - 1, ..Partition::packed(counts.clone()).unwrap() }
            );
            assert_eq!(counts.iter().sum::<usize>(), len);
            assert!(counts[0] - counts[ranks as usize - 1] <= 1);
        }
        assert_eq!(Partition::even(5, 0).extent(), 0);
    }

    #[test]
    fn mistakes_name_the_rank_and_both_numbers() {
        let unpaired = Partition::with_displacements([1, 2], [0]).unwrap_err();
        assert_eq!(unpaired, CountsError::Unpaired { counts: 2, displacements: 1 });
        let most = isize::MAX as usize;
        let overflow = Partition::packed([most, 1]).unwrap_err();
        assert_eq!(overflow, CountsError::Overflow { rank: 1, displacement: most, count: 1 });
        let overflow = Partition::with_displacements([2], [usize::MAX]).unwrap_err();
        assert_eq!(overflow, CountsError::Overflow { rank: 0, displacement: usize::MAX, count: 2 });

        let partition = Partition::with_displacements([4, 2, 3], [0, 20, 10]).unwrap();
        let ranks = partition.fits(SOURCE, 4, 22).unwrap_err();
        assert!(matches!(ranks, CountsError::Ranks { found: 3, world_size: 4, .. }));
        let outside = partition.fits(SOURCE, 3, 21).unwrap_err();
        let expected = CountsError::Outside { what: SOURCE, rank: 1, end: 22, found: 21 };
        assert_eq!(outside, expected);
        assert_eq!(partition.fills(22, false), Ok(()));
        let gaps = CountsError::Gaps { written: 9, length: 22 };
        assert_eq!(partition.fills(22, true), Err(gaps));
        let long = Partition::packed([1, MOST_ELEMENTS + 1]).unwrap();
        assert!(matches!(
            long.fits(SOURCE, 2, usize::MAX),
            Err(CountsError::TooMany { rank: 1, .. })
        ));
    }

    #[test]
    fn parts_of_a_destination_do_not_overlap() {
        let overlap = |counts: &[usize], at: &[usize]| {
            let (counts, at) = (counts.iter().copied(), at.iter().copied());
            Partition::with_displacements(counts, at).unwrap().fills(100, false).err()
        };
        let found = |first, second, common| Some(CountsError::Overlap { first, second, common });
        assert_eq!(overlap(&[4, 4], &[4, 0]), None);
        assert_eq!(overlap(&[4, 4], &[3, 0]), found(1, 0, 1));
        // A part inside another part, and two parts that begin at the same position.
        assert_eq!(overlap(&[9, 1, 2], &[0, 3, 50]), found(0, 1, 1));
        assert_eq!(overlap(&[2, 9], &[7, 7]), found(0, 1, 2));
        // Empty parts overlap no part.
        assert_eq!(overlap(&[9, 0, 0], &[0, 3, 3]), None);
    }
}
