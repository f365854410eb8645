//! Counts and displacements of the operations whose blocks differ in size.
//!
//! A rank brings its table to the meeting. The table stays there for the other ranks until the rank
//! uses the same slot again. The parts that must agree between ranks are compared as numbers. If
//! all ranks pass the same counts, that number is one fingerprint of the counts. In `HcclAlltoAllV`
//! each rank has only its own row and column. So two sums over all pairs are compared: the sum of
//! the senders' counts and the sum of the receivers' counts. Whole tables are compared only if
//! these numbers differ, to name the pairs that disagree. No address depends on a fingerprint: a
//! block moves the lesser of the counts of its two sides.

use std::collections::BTreeMap;

use super::account::Account;
use crate::message::{Failure, refuse};
use ascend_reduce::DataType;

/// The counts and displacements of a rank in elements, one of each for every rank.
///
/// The tables of `HcclAlltoAllV` and `HcclAlltoAllVC` have two halves, [`SENDS`] and [`RECEIVES`].
/// The tables of the other operations have one half. For `HcclReduceScatterV` it describes the
/// blocks of the send buffer, for `HcclAllGatherV` the blocks of the receive buffer.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    ranks: usize,
    /// The halves, one after another; in each, the counts precede the displacements.
    words: Vec<u64>,
    /// For `HcclAlltoAllVC`: the counts of all pairs, row by row.
    matrix: Vec<u64>,
    /// The extents of the rank's send buffer and of its receive buffer.
    pub(crate) extents: [Extent; 2],
    /// The number of bytes of this rank's run (see `plan`): the bytes that it receives, or for
    /// `HcclAllGatherV` the bytes that it gives.
    pub(crate) run: usize,
    /// The sum over the messages that this rank sends. Over all ranks, the sum of `sends` must
    /// equal the sum of `receives`.
    pub(crate) sends: u64,
    pub(crate) receives: u64,
}

/// The part of a table that is stored in the slot itself. All ranks need this part, and need not
/// load another cache line for it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Summary {
    /// The sums and the run, as in [`Table`].
    pub(crate) run: usize,
    pub(crate) sends: u64,
    pub(crate) receives: u64,
    /// The counts and displacements.
    pub(crate) words: *const u64,
    pub(crate) length: usize,
}

impl Summary {
    /// The summary of an operation without tables.
    pub(crate) const NONE: Self =
        Self { run: 0, sends: 0, receives: 0, words: std::ptr::null(), length: 0 };
}

/// The counts and displacements of one rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockTable<'a> {
    pub(crate) ranks: usize,
    pub(crate) words: &'a [u64],
}

impl BlockTable<'_> {
    /// Returns the number of bytes of the block that belongs to a rank, and its start in the
    /// buffer. A block without elements may have any displacement, even a displacement that is too
    /// large for a number of bytes. Its start is returned as 0.
    #[inline]
    pub(crate) fn of(&self, half: usize, rank: usize, dtype: DataType) -> (usize, usize) {
        let start = 2 * half * self.ranks + rank;
        let word = |at| self.words.get(at).map_or(0, |word: &u64| *word as usize);
        match word(start) {
            0 => (0, 0),
            count => (count * dtype.size(), word(start + self.ranks) * dtype.size()),
        }
    }
}

/// The bytes that the blocks of a buffer take up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The number of bytes from the start of the buffer to the end of the last block.
    pub(crate) end: usize,
    /// The number of bytes of all blocks.
    pub(crate) bytes: usize,
}

impl Extent {
    /// Returns the extent of `bytes` bytes without holes.
    pub(crate) fn dense(bytes: usize) -> Self {
        Self { end: bytes, bytes }
    }
}

/// The index of the half for the blocks that a rank sends. It is also the index of the only half.
pub(crate) const SENDS: usize = 0;
/// The index of the half for the blocks that a rank receives.
pub(crate) const RECEIVES: usize = 1;

impl Table {
    /// A table for zero ranks.
    pub(crate) const EMPTY: Self = Self {
        ranks: 0,
        words: Vec::new(),
        matrix: Vec::new(),
        extents: [Extent { end: 0, bytes: 0 }; 2],
        run: 0,
        sends: 0,
        receives: 0,
    };

    /// Empties the table for a new operation. Its memory is kept.
    pub(crate) fn reset(&mut self, ranks: usize) {
        let (mut words, mut matrix) =
            (std::mem::take(&mut self.words), std::mem::take(&mut self.matrix));
        words.clear();
        matrix.clear();
        *self = Self { ranks, words, matrix, ..Self::EMPTY };
    }

    /// Makes this table a copy of another table. Reuses the memory of this table.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.words.clone_from(&other.words);
        self.matrix.clone_from(&other.matrix);
        let (words, matrix) = (std::mem::take(&mut self.words), std::mem::take(&mut self.matrix));
        *self = Self { words, matrix, ..*other };
    }

    /// Makes a copy of a table of another process from its words.
    pub(super) fn from_words(ranks: usize, words: Vec<u64>, matrix: Vec<u64>) -> Self {
        Self { ranks, words, matrix, ..Self::EMPTY }
    }

    /// Returns the words that the other ranks need: the counts and displacements, and the counts of
    /// all pairs.
    pub(super) fn all_words(&self) -> [&[u64]; 2] {
        [&self.words, &self.matrix]
    }

    /// Adds a half.
    pub(crate) fn push(
        &mut self,
        counts: impl Iterator<Item = u64>,
        displacements: impl Iterator<Item = u64>,
    ) {
        self.words.extend(counts);
        self.words.extend(displacements);
    }

    /// Adds both halves of a rank from the counts of all pairs. The blocks follow each other
    /// without gaps.
    pub(crate) fn push_matrix(&mut self, rank: usize, counts: impl Iterator<Item = u64>) {
        self.matrix.extend(counts);
        let matrix = std::mem::take(&mut self.matrix);
        self.push_packed(matrix.iter().copied().skip(rank * self.ranks).take(self.ranks));
        self.push_packed(matrix.iter().copied().skip(rank).step_by(self.ranks));
        self.matrix = matrix;
    }

    /// Returns the part of the table that must be equal on all ranks.
    pub(crate) fn common(&self) -> &[u64] {
        if self.matrix.is_empty() { self.counts(SENDS) } else { &self.matrix }
    }

    /// Adds a half of blocks that follow each other without gaps.
    fn push_packed(&mut self, counts: impl Iterator<Item = u64> + Clone) {
        self.words.extend(counts.clone());
        self.words.extend(counts.scan(0u64, |at, count| {
            let start = *at;
            *at = at.saturating_add(count);
            Some(start)
        }));
    }

    pub(crate) fn counts(&self, half: usize) -> &[u64] {
        let start = 2 * half * self.ranks;
        self.words.get(start..start + self.ranks).unwrap_or_default()
    }

    fn displacements(&self, half: usize) -> &[u64] {
        let start = (2 * half + 1) * self.ranks;
        self.words.get(start..start + self.ranks).unwrap_or_default()
    }

    /// Returns only the counts and displacements.
    pub(crate) fn blocks(&self) -> BlockTable<'_> {
        BlockTable { ranks: self.ranks, words: &self.words }
    }

    /// Returns the part of the table that is stored in the slot.
    pub(crate) fn summary(&self) -> Summary {
        let Self { run, sends, receives, .. } = *self;
        Summary { run, sends, receives, words: self.words.as_ptr(), length: self.words.len() }
    }

    /// Returns the extent in bytes of the blocks of a half. Returns an error if the blocks reach
    /// beyond any memory.
    pub(crate) fn extent(&self, half: usize, dtype: DataType) -> Result<Extent, Failure> {
        let (mut all, mut end) = (Some(0u64), Some(0u64));
        for (count, displacement) in self.counts(half).iter().zip(self.displacements(half)) {
            if *count > 0 {
                let last = displacement.checked_add(*count);
                end = end.zip(last).map(|(end, last)| end.max(last));
                all = all.and_then(|all| all.checked_add(*count));
            }
        }
        let bytes = |elements: Option<u64>| -> Option<usize> {
            // No buffer has more bytes than a pointer difference can express.
            let bytes = elements?.checked_mul(dtype.size() as u64)?;
            (bytes <= isize::MAX as u64).then_some(bytes as usize)
        };
        match (bytes(end), bytes(all)) {
            (Some(end), Some(bytes)) => Ok(Extent { end, bytes }),
            _ => refuse!(
                HCCL_E_PARA,
                "the counts and displacements reach beyond any memory; pass smaller numbers"
            ),
        }
    }

    /// Computes `sends` and `receives`: the sums, from the counts of this rank, on which both sides
    /// of each message must agree.
    pub(crate) fn sum_up(&mut self, rank: usize) {
        let sum = |counts: &[u64], pair: &dyn Fn(usize) -> (usize, usize)| {
            let terms = counts.iter().enumerate().map(|(peer, count)| message(pair(peer), *count));
            terms.fold(0, u64::wrapping_add)
        };
        self.sends = sum(self.counts(SENDS), &|peer| (rank, peer));
        self.receives = sum(self.counts(RECEIVES), &|peer| (peer, rank));
    }
}

/// Returns a number for a message of `count` elements from one rank to another.
fn message((from, to): (usize, usize), count: u64) -> u64 {
    mix(mix((from as u64) << 32 | to as u64) ^ count)
}

/// Returns a fingerprint of counts that must be equal on all ranks. It is 0 exactly if all counts
/// are 0.
pub(crate) fn fingerprint(counts: impl Iterator<Item = u64>) -> u64 {
    let (sum, any) = counts.fold((0, 0), |(sum, any), count| (mix(sum ^ count), any | count));
    if any == 0 { 0 } else { sum.max(1) }
}

/// Returns a number in which every bit depends on many bits of `word`. Different words give
/// different numbers.
#[inline]
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The largest number of places or pairs that an error text names.
const MENTIONED: usize = 8;

/// Describes, for each table, its entries at the places where the tables differ.
#[cold]
pub(crate) fn differences(tables: &[&Table]) -> Vec<String> {
    let count = |table: &Table, at: usize| table.common().get(at).copied().unwrap_or_default();
    let length = tables.iter().map(|table| table.common().len()).max().unwrap_or_default();
    let differs =
        |at: &usize| tables.windows(2).any(|two| count(two[0], *at) != count(two[1], *at));
    let places: Vec<usize> = (0..length).filter(differs).collect();
    let more = match places.len().saturating_sub(MENTIONED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let say = |table: &&Table| {
        let said = places.iter().take(MENTIONED).map(|at| {
            let (count, ranks) = (count(table, *at), table.ranks.max(1));
            if table.matrix.is_empty() {
                format!("{count} of rank {at}")
            } else {
                format!("{count} from rank {} to rank {}", at / ranks, at % ranks)
            }
        });
        format!("count {}{more}", said.collect::<Vec<_>>().join(", "))
    };
    tables.iter().map(say).collect()
}

/// Lists the pairs of ranks that disagree about the messages between them, one pair a line.
#[cold]
pub(crate) fn disagreements(tables: &[&Table]) -> Account {
    let mut lines = Vec::new();
    let mut said: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut more = 0;
    for (from, sender) in tables.iter().enumerate() {
        for (to, receiver) in tables.iter().enumerate() {
            let sent = sender.counts(SENDS).get(to).unwrap_or(&0);
            let expected = receiver.counts(RECEIVES).get(from).unwrap_or(&0);
            if sent != expected && lines.len() < MENTIONED {
                let mut says = |rank, what| said.entry(rank).or_default().push(what);
                says(from, format!("sends count {sent} to rank {to}"));
                says(to, format!("expects count {expected} from rank {from}"));
                lines.push(format!(
                    "\n  rank {from} sends count {sent} to rank {to}, which expects count \
                     {expected}"
                ));
            } else if sent != expected {
                more += 1;
            }
        }
    }
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let said = said.into_iter().map(|(rank, what)| (rank, what.join(", "))).collect();
    Account { text: format!("the counts differ{}{more}", lines.concat()), said }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn table(ranks: usize, halves: &[(&[u64], &[u64])]) -> Table {
        let mut table = Table::EMPTY;
        table.reset(ranks);
        for (counts, displacements) in halves {
            table.push(counts.iter().copied(), displacements.iter().copied());
        }
        table
    }

    #[test]
    fn blocks_and_sizes() {
        let table = table(3, &[(&[2, 0, 3], &[10, u64::MAX, 0]), (&[1, 1, 1], &[0, 1, 2])]);
        assert_eq!(table.blocks().of(SENDS, 0, DataType::Fp32), (8, 40));
        assert_eq!(table.blocks().of(SENDS, 1, DataType::Fp32), (0, 0));
        assert_eq!(table.blocks().of(RECEIVES, 2, DataType::Fp16), (2, 4));
        // A block without elements may have any displacement.
        assert_eq!(table.extent(SENDS, DataType::Fp32).unwrap(), Extent { end: 48, bytes: 20 });
        let far = super::tests::table(1, &[(&[1], &[u64::MAX])]);
        assert!(far.extent(SENDS, DataType::Int8).is_err());
        let wide = super::tests::table(1, &[(&[1], &[u64::MAX / 8])]);
        assert!(wide.extent(SENDS, DataType::Fp64).is_err());
    }

    #[test]
    fn packed_blocks_lie_one_behind_the_other() {
        let mut packed = Table::EMPTY;
        packed.reset(4);
        packed.push_packed([3, 0, 2, 1].into_iter());
        assert_eq!(packed.displacements(SENDS), [0, 3, 3, 5]);
    }

    #[test]
    fn a_fingerprint_is_zero_only_for_zeros() {
        assert_eq!(fingerprint([0; 7].into_iter()), 0);
        let others = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [2, 0, 0]];
        let prints: std::collections::HashSet<u64> =
            others.into_iter().map(|counts| fingerprint(counts.into_iter())).collect();
        assert_eq!(prints.len(), others.len());
        assert!(!prints.contains(&0));
    }

    #[test]
    fn sums_agree_exactly_when_all_pairs_do() {
        let counts = |wrong: u64| -> (u64, u64) {
            let sent = |from: u64, to: u64| from * 3 + to;
            let mut sums = (0u64, 0u64);
            for rank in 0..3u64 {
                let sends: Vec<_> = (0..3).map(|to| sent(rank, to)).collect();
                let mut receives: Vec<_> = (0..3).map(|from| sent(from, rank)).collect();
                if rank == 1 {
                    receives[2] += wrong;
                }
                let mut table = table(3, &[(&sends, &[0; 3]), (&receives, &[0; 3])]);
                table.sum_up(rank as usize);
                sums.0 = sums.0.wrapping_add(table.sends);
                sums.1 = sums.1.wrapping_add(table.receives);
            }
            sums
        };
        let (sends, receives) = counts(0);
        assert_eq!(sends, receives);
        let (sends, receives) = counts(1);
        assert_ne!(sends, receives);
    }

    #[test]
    fn disagreements_name_the_pair_and_both_sides() {
        let one = table(2, &[(&[1, 5], &[0, 0]), (&[1, 7], &[0, 0])]);
        let other = table(2, &[(&[7, 1], &[0, 0]), (&[4, 1], &[0, 0])]);
        let expected = "the counts differ\n  rank 0 sends count 5 to rank 1, which expects count 4";
        let account = disagreements(&[&one, &other]);
        assert_eq!(account.text, expected);
        let said = ["sends count 5 to rank 1", "expects count 4 from rank 0"];
        assert_eq!(account.said, [(0, said[0].into()), (1, said[1].into())]);
        let said = differences(&[&one, &other]);
        assert_eq!(said, ["count 1 of rank 0, 5 of rank 1", "count 7 of rank 0, 1 of rank 1"]);
    }
}
