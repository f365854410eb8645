//! The tables of counts of ranks in several processes.
//!
//! Ranks of one process read each other's tables in place. Another process cannot do that, so the
//! words of a table are copied to shared memory. Each of the two slots of a rank has an area there,
//! with room for the longest table.

use super::claim::MeetingPlace;
use super::sync::{AtomicU64, Ordering};
use super::table::Table;
use crate::processes::region::{Ground, Placed, SharedWords};

/// The areas for tables in shared memory: see the [module](self). There are none if all ranks are
/// in one process.
pub(super) struct LongTables {
    ranks: usize,
    words: Placed<TableWord>,
}

#[repr(C)]
struct TableWord(AtomicU64);

// SAFETY: an atomic word: zeros are valid, and it holds no address.
unsafe impl SharedWords for TableWord {}

/// Returns the number of words of the longest table of `ranks` ranks: two halves of counts and
/// displacements, and the counts of all pairs.
fn longest(ranks: usize) -> usize {
    4 * ranks + ranks * ranks
}

impl LongTables {
    pub(super) fn new(ranks: usize, ground: &Ground) -> Self {
        let count = if matches!(ground, Ground::Heap) { 0 } else { 2 * ranks * longest(ranks) };
        Self { ranks, words: ground.place(count, |_| TableWord(AtomicU64::new(0))) }
    }

    fn of(&self, rank: usize, place: MeetingPlace) -> &[TableWord] {
        let longest = longest(self.ranks);
        let start = (2 * rank + (place.number & 1) as usize) * longest;
        self.words.get(start..start + longest).unwrap_or_default()
    }

    /// Writes the table of the rank that owns the slot.
    pub(super) fn write(&self, rank: usize, place: MeetingPlace, table: &Table) {
        let words = table.all_words().into_iter().flatten();
        for (to, word) in self.of(rank, place).iter().zip(words) {
            to.0.store(*word, Ordering::Relaxed);
        }
    }

    /// Reads the table that the owner of the slot has written: `words` counts and displacements,
    /// and `matrix` counts of pairs.
    pub(super) fn read(
        &self,
        rank: usize,
        place: MeetingPlace,
        words: usize,
        matrix: usize,
    ) -> Table {
        let mut all = self.of(rank, place).iter().map(|word| word.0.load(Ordering::Relaxed));
        let words = all.by_ref().take(words).collect();
        Table::from_words(self.ranks, words, all.take(matrix).collect())
    }
}
