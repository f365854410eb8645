//! Shadow memory: the last writer of each byte, the reads and reductions since then, and whether
//! the byte was ever written.
//!
//! Race detection uses shadow memory: here before an operator runs, and in the emulator while it
//! runs. The caller defines the type `A` of an accessor, and the order of accesses, an [`Oracle`].
//!
//! *Cells* are runs of bytes with the same state. An access splits the cells at its edges. A write
//! makes one cell of all the bytes that it covers. A read is dropped if a later read is certain to
//! follow it: an access that comes after the later read also comes after the earlier one. The same
//! holds for reductions of one kind.

use std::collections::BTreeMap;
use std::ops::Range;

/// The effect of an access on bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The access only reads the bytes.
    Read,
    /// The access writes the bytes, whatever they held.
    Write,
    /// The access combines a value into the bytes, each element in one step. The number is the kind
    /// of the reduction. Two reductions of the same kind do not conflict, because their order makes
    /// no difference.
    Reduce(u32),
}

impl Mode {
    /// Returns whether two accesses to a byte must be ordered.
    pub fn conflicts(self, other: Mode) -> bool {
        match (self, other) {
            (Mode::Read, Mode::Read) => false,
            (Mode::Reduce(a), Mode::Reduce(b)) => a != b,
            _ => true,
        }
    }
}

/// The order of accesses, which decides which earlier accesses come before the current one. A
/// closure can implement it.
pub trait Oracle<A> {
    /// Returns whether the earlier access is certainly over.
    fn is_before(&mut self, earlier: &A) -> bool;

    /// Returns whether the earlier access is over, if that can be decided quickly. A wrong `false`
    /// does no harm: the answer only decides which accesses can be dropped. Override this method if
    /// the exact answer takes long.
    fn is_known_at_once(&mut self, earlier: &A) -> bool {
        self.is_before(earlier)
    }
}

impl<A, F: FnMut(&A) -> bool> Oracle<A> for F {
    fn is_before(&mut self, earlier: &A) -> bool {
        self(earlier)
    }
}

/// A problem that an access has.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<A> {
    /// Another access may touch the same bytes at the same time, and the two conflict.
    Unordered {
        /// The bytes that both accesses use.
        bytes: Range<usize>,
        /// The access that conflicts.
        other: A,
        /// The effect of the other access.
        mode: Mode,
    },
    /// The access uses bytes that were never written.
    Unwritten {
        /// The bytes that were never written.
        bytes: Range<usize>,
    },
}

#[derive(Clone, Debug)]
struct Cell<A> {
    end: usize,
    written: bool,
    write: Option<A>,
    reads: Vec<A>,
    reductions: Vec<(u32, A)>,
}

/// The shadow of a range of bytes: the state of each byte.
#[derive(Clone, Debug)]
pub struct Shadow<A> {
    range: Range<usize>,
    cells: BTreeMap<usize, Cell<A>>,
}

impl<A: Clone> Shadow<A> {
    /// Makes the shadow of a range of bytes. If `written` is set, the bytes count as written from
    /// the start.
    pub fn new(range: Range<usize>, written: bool) -> Shadow<A> {
        let cell = Cell::new(range.end, written, None);
        Shadow { cells: BTreeMap::from([(range.start, cell)]), range }
    }

    /// Returns the range of bytes that this shadow covers.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Records one access, and calls `found` for each problem. Bytes outside the range are ignored.
    pub fn access(
        &mut self,
        bytes: Range<usize>,
        mode: Mode,
        access: &A,
        mut oracle: impl Oracle<A>,
        mut found: impl FnMut(Found<A>),
    ) {
        let bytes = bytes.start.max(self.range.start)..bytes.end.min(self.range.end);
        if bytes.is_empty() {
            return;
        }
        self.split(bytes.start);
        self.split(bytes.end);
        for (start, cell) in self.cells.range_mut(bytes.clone()) {
            let here = *start..cell.end;
            for (other, other_mode) in cell.accesses() {
                if mode.conflicts(other_mode) && !oracle.is_before(other) {
                    let (bytes, other) = (here.clone(), other.clone());
                    found(Found::Unordered { bytes, other, mode: other_mode });
                }
            }
            if mode != Mode::Write && !cell.written {
                // Marking the byte as written avoids a second report for it.
                cell.written = true;
                found(Found::Unwritten { bytes: here });
            }
            match mode {
                Mode::Read => {
                    cell.reads.retain(|read| !oracle.is_known_at_once(read));
                    cell.reads.push(access.clone());
                }
                Mode::Reduce(kind) => {
                    cell.reductions.retain(|(other, reduction)| {
                        *other != kind || !oracle.is_known_at_once(reduction)
                    });
                    cell.reductions.push((kind, access.clone()));
                }
                Mode::Write => {}
            }
        }
        if mode == Mode::Write {
            let inside: Vec<usize> = self.cells.range(bytes.clone()).map(|(at, _)| *at).collect();
            inside.iter().for_each(|at| {
                self.cells.remove(at);
            });
            self.cells.insert(bytes.start, Cell::new(bytes.end, true, Some(access.clone())));
        }
    }

    /// Splits the cell that holds this byte, so that a cell begins at the byte.
    fn split(&mut self, at: usize) {
        if let Some((&start, cell)) = self.cells.range_mut(..at).next_back()
            && start < at
            && at < cell.end
        {
            let behind = cell.clone();
            cell.end = at;
            self.cells.insert(at, behind);
        }
    }
}

impl<A> Cell<A> {
    fn new(end: usize, written: bool, write: Option<A>) -> Cell<A> {
        Cell { end, written, write, reads: Vec::new(), reductions: Vec::new() }
    }

    /// Returns all accesses that later accesses may have to follow.
    fn accesses(&self) -> impl Iterator<Item = (&A, Mode)> {
        let reductions =
            self.reductions.iter().map(|(kind, reduction)| (reduction, Mode::Reduce(*kind)));
        let write = self.write.iter().map(|write| (write, Mode::Write));
        write.chain(reductions).chain(self.reads.iter().map(|read| (read, Mode::Read)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an access and returns the runs of bytes that have a problem. With bytes that conflict
    /// comes the other access; with bytes that were never written comes `None`.
    fn look(
        shadow: &mut Shadow<u32>,
        bytes: Range<usize>,
        (access, mode): (u32, Mode),
        knows: &[u32],
    ) -> Vec<(Range<usize>, Option<u32>)> {
        let mut all = Vec::new();
        let knows = |other: &u32| knows.contains(other);
        shadow.access(bytes, mode, &access, knows, |found| {
            all.push(match found {
                Found::Unordered { bytes, other, .. } => (bytes, Some(other)),
                Found::Unwritten { bytes } => (bytes, None),
            });
        });
        all
    }

    #[test]
    fn a_conflict_is_found_byte_by_byte() {
        let mut shadow = Shadow::new(100..200, false);
        assert_eq!(look(&mut shadow, 100..150, (1, Mode::Write), &[]), []);
        assert_eq!(look(&mut shadow, 150..200, (2, Mode::Write), &[]), []);
        let found = look(&mut shadow, 140..160, (3, Mode::Read), &[2]);
        assert_eq!(found, [(140..150, Some(1))]);
        // Reads of the same bytes never conflict. The write after them must follow both.
        assert_eq!(look(&mut shadow, 155..156, (4, Mode::Read), &[2]), []);
        let found = look(&mut shadow, 155..156, (5, Mode::Write), &[2, 3]);
        assert_eq!(found, [(155..156, Some(4))]);
    }

    #[test]
    fn whoever_follows_the_later_read_follows_the_earlier_one() {
        let mut shadow = Shadow::new(0..8, true);
        look(&mut shadow, 0..8, (1, Mode::Read), &[]);
        look(&mut shadow, 0..8, (2, Mode::Read), &[1]);
        assert_eq!(shadow.cells[&0].reads.len(), 1);
        assert_eq!(look(&mut shadow, 0..8, (3, Mode::Write), &[2, 1]), []);
    }

    #[test]
    fn what_nobody_wrote_is_found_once() {
        let mut shadow = Shadow::new(0..64, false);
        look(&mut shadow, 0..16, (1, Mode::Write), &[]);
        assert_eq!(look(&mut shadow, 8..32, (2, Mode::Read), &[1]), [(16..32, None)]);
        assert_eq!(look(&mut shadow, 0..32, (3, Mode::Read), &[1]), []);
        assert_eq!(look(&mut shadow, 32..48, (4, Mode::Reduce(0)), &[]), [(32..48, None)]);
    }

    #[test]
    fn reductions_of_one_kind_meet_and_others_do_not() {
        let mut shadow = Shadow::new(0..8, false);
        look(&mut shadow, 0..8, (1, Mode::Write), &[]);
        assert_eq!(look(&mut shadow, 0..8, (2, Mode::Reduce(0)), &[1]), []);
        assert_eq!(look(&mut shadow, 4..8, (3, Mode::Reduce(0)), &[1]), []);
        assert_eq!(look(&mut shadow, 6..8, (4, Mode::Reduce(1)), &[1, 2]), [(6..8, Some(3))]);
        // A read must follow all of the reductions, and so must a write.
        let found = look(&mut shadow, 0..8, (5, Mode::Read), &[1, 2]);
        assert_eq!(found, [(4..6, Some(3)), (6..8, Some(3)), (6..8, Some(4))]);
        let found = look(&mut shadow, 0..4, (6, Mode::Write), &[1, 5]);
        assert_eq!(found, [(0..4, Some(2))]);
    }

    #[test]
    fn a_reduction_follows_the_reads_before_it_and_the_write() {
        let mut shadow = Shadow::new(0..8, false);
        look(&mut shadow, 0..8, (1, Mode::Write), &[]);
        look(&mut shadow, 0..8, (2, Mode::Read), &[1]);
        look(&mut shadow, 0..8, (3, Mode::Reduce(0)), &[1, 2]);
        // The second reduction did not remove the reads that the first one had to follow.
        let found = look(&mut shadow, 0..8, (4, Mode::Reduce(0)), &[]);
        assert_eq!(found, [(0..8, Some(1)), (0..8, Some(2))]);
    }

    #[test]
    fn a_reduction_of_another_kind_stays_in_mind() {
        let mut shadow = Shadow::new(0..8, true);
        look(&mut shadow, 0..8, (1, Mode::Reduce(0)), &[]);
        look(&mut shadow, 0..8, (2, Mode::Reduce(1)), &[1]);
        let found = look(&mut shadow, 0..8, (3, Mode::Reduce(1)), &[]);
        assert_eq!(found, [(0..8, Some(1))]);
        look(&mut shadow, 0..8, (4, Mode::Reduce(1)), &[1, 2, 3]);
        assert_eq!(shadow.cells[&0].reductions.len(), 2);
    }
}
