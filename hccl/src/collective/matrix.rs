//! The counts of an all-to-all: the number of elements that each rank sends to each rank.

use super::{CountsError, MOST_ELEMENTS};

/// The counts of an [`all_to_all_vc`](crate::Communicator::all_to_all_vc): the number of elements
/// that each rank sends to each rank. The matrix is the same on all ranks.
///
/// Row `s` has the counts that rank `s` sends, and column `d` has the counts that rank `d`
/// receives. Make a matrix once and use it for many calls: a call allocates nothing.
///
/// ```
/// use hccl::prelude::*;
///
/// # fn main() -> hccl::Result<()> {
/// // Rank 0 keeps 1 and sends 2; rank 1 sends 3 and keeps none.
/// let matrix = CountMatrix::new(2, vec![1, 2, 3, 0])?;
/// assert_eq!((matrix.sent_by(0), matrix.received_by(0)), (3, 4));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountMatrix {
    ranks: u32,
    counts: Box<[u64]>,
    /// The sums of the rows and of the columns.
    sent: Box<[u64]>,
    received: Box<[u64]>,
}

impl CountMatrix {
    /// Makes a matrix in which `counts[s * ranks + d]` elements go from rank `s` to rank `d`.
    ///
    /// # Errors
    ///
    /// [`CountsError::NotSquare`] if there are not `ranks * ranks` counts, and
    /// [`CountsError::TooMany`] if a count is more than HCCL accepts.
    pub fn new(ranks: u32, counts: impl Into<Vec<u64>>) -> Result<Self, CountsError> {
        let counts = counts.into().into_boxed_slice();
        let n = ranks as usize;
        if n.checked_mul(n) != Some(counts.len()) {
            return Err(CountsError::NotSquare { ranks, found: counts.len() });
        }
        let mut sent = vec![0u64; n].into_boxed_slice();
        let mut received = vec![0u64; n].into_boxed_slice();
        for (at, &count) in counts.iter().enumerate() {
            let (source, destination) = (at / n, at % n);
            if count > MOST_ELEMENTS as u64 {
                let (rank, count) = (source as u32, count as usize);
                return Err(CountsError::TooMany { what: "a block", rank, count });
            }
            // A sum that saturates is larger than any buffer, so a call rejects it.
            sent[source] = sent[source].saturating_add(count);
            received[destination] = received[destination].saturating_add(count);
        }
        Ok(CountMatrix { ranks, counts, sent, received })
    }

    /// Returns the number of ranks for which the matrix was made.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns the number of elements that go from rank `source` to rank `destination`. Returns 0
    /// for a rank that the matrix does not have.
    pub fn count(&self, source: u32, destination: u32) -> usize {
        if source >= self.ranks || destination >= self.ranks {
            return 0;
        }
        self.counts[source as usize * self.ranks as usize + destination as usize] as usize
    }

    /// Returns the number of elements that a rank sends: the sum of its row. Returns 0 for a rank
    /// that the matrix does not have.
    pub fn sent_by(&self, rank: u32) -> usize {
        self.sent.get(rank as usize).map_or(0, |&sum| sum as usize)
    }

    /// Returns the number of elements that a rank receives: the sum of its column. Returns 0 for a
    /// rank that the matrix does not have.
    pub fn received_by(&self, rank: u32) -> usize {
        self.received.get(rank as usize).map_or(0, |&sum| sum as usize)
    }

    /// Returns the counts row by row, as CANN expects them.
    #[inline]
    pub(super) fn table(&self) -> &[u64] {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_rows_and_columns() {
        let matrix = CountMatrix::new(3, vec![1, 2, 3, 40, 50, 60, 700, 800, 900]).unwrap();
        assert_eq!([0, 1, 2, 3].map(|rank| matrix.sent_by(rank)), [6, 150, 2400, 0]);
        assert_eq!([0, 1, 2, 3].map(|rank| matrix.received_by(rank)), [741, 852, 963, 0]);
        assert_eq!([matrix.count(1, 2), matrix.count(2, 0), matrix.count(0, 3)], [60, 700, 0]);
    }

    #[test]
    fn a_matrix_is_square_and_what_hccl_takes() {
        let short = CountMatrix::new(3, vec![0; 8]).unwrap_err();
        assert_eq!(short, CountsError::NotSquare { ranks: 3, found: 8 });
        assert_eq!(
            short.to_string(),
            "the number of counts in a matrix for 3 ranks must be 9, but is 8: give each source a \
             row with a count for each destination"
        );
        assert!(CountMatrix::new(u32::MAX, vec![]).is_err());
        let most = MOST_ELEMENTS as u64;
        assert!(CountMatrix::new(2, vec![most; 4]).is_ok());
        let long = CountMatrix::new(2, vec![0, 0, most + 1, 0]).unwrap_err();
        let count = MOST_ELEMENTS + 1;
        assert_eq!(long, CountsError::TooMany { what: "a block", rank: 1, count });
    }
}
