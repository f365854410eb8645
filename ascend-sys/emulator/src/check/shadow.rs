//! What is remembered of memory: who wrote a byte last, who has read it since, and whether anybody ever wrote it.
//!
//! The bytes of an allocation lie in *cells*: runs of bytes of which the same is known. An access splits the cells at its edges;
//! a write makes one cell of all that it covers. Of reads only those are kept that no later read is certain to follow: whoever is
//! ordered behind the later one is ordered behind the earlier one too.

use super::clock::{Clock, Point};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// An operation, for messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    /// "copy of 4096 bytes".
    pub(crate) what: String,
    /// Where it ran: "stream 5 of device 2", "the host".
    pub(crate) place: String,
    /// "#3 of communicator "world", rank 1".
    pub(crate) member: Option<String>,
    /// Who asked for it: "aclrtMemcpyAsync on thread "main"".
    pub(crate) issued: String,
    /// Every byte that it touches.
    pub(crate) touches: Vec<Touch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
}

/// Bytes that an operation reads or writes, by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) range: Range<usize>,
    pub(crate) mode: Mode,
}

impl Touch {
    pub(crate) fn read(start: usize, bytes: usize) -> Touch {
        Touch { range: start..start.saturating_add(bytes), mode: Mode::Read }
    }

    pub(crate) fn write(start: usize, bytes: usize) -> Touch {
        Touch { range: start..start.saturating_add(bytes), mode: Mode::Write }
    }
}

/// An access that has begun: it is over when its point is passed.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) point: Point,
    pub(crate) mode: Mode,
    pub(crate) operation: Arc<Operation>,
}

/// What an access found.
#[derive(Debug)]
pub(crate) enum Found {
    /// Bytes that another access, at least one of the two a write, may touch at the same time.
    Unordered { bytes: Range<usize>, other: Access },
    /// Bytes that nobody ever wrote.
    Unwritten { bytes: Range<usize> },
}

#[derive(Clone, Debug, Default)]
struct Cell {
    end: usize,
    written: bool,
    write: Option<Access>,
    reads: Vec<Access>,
}

/// The memory of one allocation, or anything else that has one user at a time.
#[derive(Debug)]
pub(crate) struct Shadow {
    pub(crate) range: Range<usize>,
    /// For messages.
    pub(crate) name: Arc<str>,
    cells: BTreeMap<usize, Cell>,
    /// The access that ended it.
    pub(crate) freed: Option<Access>,
}

impl Shadow {
    /// With `written`, nobody asks whether its bytes were written before they are read.
    pub(crate) fn new(range: Range<usize>, name: Arc<str>, written: bool) -> Shadow {
        let cell = Cell { end: range.end, written, ..Cell::default() };
        Shadow { cells: BTreeMap::from([(range.start, cell)]), range, name, freed: None }
    }

    /// One access to some of its bytes, by somebody who knows what `clock` knows.
    pub(crate) fn access(
        &mut self,
        bytes: Range<usize>,
        access: &Access,
        clock: &Clock,
        mut found: impl FnMut(Found),
    ) {
        let bytes = bytes.start.max(self.range.start)..bytes.end.min(self.range.end);
        if bytes.is_empty() {
            return;
        }
        self.split(bytes.start);
        self.split(bytes.end);
        for (start, cell) in self.cells.range_mut(bytes.clone()) {
            let here = *start..cell.end;
            let others = cell.write.iter().chain(match access.mode {
                Mode::Write => cell.reads.iter(),
                Mode::Read => [].iter(),
            });
            for other in others.filter(|other| !clock.covers(other.point)) {
                found(Found::Unordered { bytes: here.clone(), other: other.clone() });
            }
            if access.mode == Mode::Read {
                if !cell.written {
                    // Once is enough.
                    cell.written = true;
                    found(Found::Unwritten { bytes: here });
                }
                cell.reads.retain(|read| !clock.covers(read.point));
                cell.reads.push(access.clone());
            }
        }
        if access.mode == Mode::Write {
            let inside: Vec<usize> = self.cells.range(bytes.clone()).map(|(at, _)| *at).collect();
            inside.iter().for_each(|at| {
                self.cells.remove(at);
            });
            let (write, reads) = (Some(access.clone()), Vec::new());
            self.cells.insert(bytes.start, Cell { end: bytes.end, written: true, write, reads });
        }
    }

    /// A cell begins at this byte, if one holds it.
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

/// Every allocation.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    shadows: BTreeMap<usize, Shadow>,
}

impl Memory {
    /// A new allocation, in the place of what was there.
    pub(crate) fn add(&mut self, shadow: Shadow) {
        self.forget(shadow.range.clone());
        self.shadows.insert(shadow.range.start, shadow);
    }

    /// Forgets what lies in a range.
    pub(crate) fn forget(&mut self, range: Range<usize>) {
        while let Some((&start, _)) = self
            .shadows
            .range(..range.end)
            .next_back()
            .filter(|(_, shadow)| shadow.range.end > range.start)
        {
            self.shadows.remove(&start);
        }
    }

    /// The living allocation that begins here.
    pub(crate) fn starting_at(&mut self, start: usize) -> Option<&mut Shadow> {
        self.shadows.get_mut(&start).filter(|shadow| shadow.freed.is_none())
    }

    /// The allocation, living or freed, that holds a byte.
    pub(crate) fn holding(&mut self, byte: usize) -> Option<&mut Shadow> {
        let (_, shadow) = self.shadows.range_mut(..=byte).next_back()?;
        shadow.range.contains(&byte).then_some(shadow)
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::Lane;
    use super::*;

    fn access(lane: u32, time: u64, mode: Mode) -> Access {
        let operation = Operation {
            what: format!("step {time} of {lane}"),
            place: String::new(),
            member: None,
            issued: String::new(),
            touches: Vec::new(),
        };
        Access { point: Point { lane: Lane(lane), time }, mode, operation: Arc::new(operation) }
    }

    /// The bytes that an access finds in conflict, with whom, and those that were never written.
    fn look(
        shadow: &mut Shadow,
        bytes: Range<usize>,
        access: &Access,
        knows: &[(u32, u64)],
    ) -> Vec<(Range<usize>, String)> {
        let mut clock = Clock::default();
        clock.raise(access.point);
        for &(lane, time) in knows {
            clock.raise(Point { lane: Lane(lane), time });
        }
        let mut all = Vec::new();
        shadow.access(bytes, access, &clock, |found| {
            all.push(match found {
                Found::Unordered { bytes, other } => (bytes, other.operation.what.clone()),
                Found::Unwritten { bytes } => (bytes, "unwritten".into()),
            });
        });
        all
    }

    #[test]
    fn a_conflict_is_found_byte_by_byte() {
        let mut shadow = Shadow::new(100..200, "".into(), false);
        assert_eq!(look(&mut shadow, 100..150, &access(1, 1, Mode::Write), &[]), []);
        assert_eq!(look(&mut shadow, 150..200, &access(2, 1, Mode::Write), &[]), []);
        let found = look(&mut shadow, 140..160, &access(3, 1, Mode::Read), &[(2, 1)]);
        assert_eq!(found, [(140..150, "step 1 of 1".into())]);
        // Reads of the same bytes never conflict; the write behind them has to know both.
        assert_eq!(look(&mut shadow, 155..156, &access(4, 1, Mode::Read), &[(2, 1)]), []);
        let found = look(&mut shadow, 155..156, &access(2, 2, Mode::Write), &[(3, 1)]);
        assert_eq!(found, [(155..156, "step 1 of 4".into())]);
    }

    #[test]
    fn whoever_follows_the_later_read_follows_the_earlier_one() {
        let mut shadow = Shadow::new(0..8, "".into(), true);
        look(&mut shadow, 0..8, &access(1, 1, Mode::Read), &[]);
        look(&mut shadow, 0..8, &access(2, 1, Mode::Read), &[(1, 1)]);
        assert_eq!(shadow.cells[&0].reads.len(), 1);
        assert_eq!(look(&mut shadow, 0..8, &access(3, 1, Mode::Write), &[(2, 1), (1, 1)]), []);
    }

    #[test]
    fn what_nobody_wrote_is_found_once() {
        let mut shadow = Shadow::new(0..64, "".into(), false);
        look(&mut shadow, 0..16, &access(1, 1, Mode::Write), &[]);
        let found = look(&mut shadow, 8..32, &access(1, 2, Mode::Read), &[]);
        assert_eq!(found, [(16..32, "unwritten".into())]);
        assert_eq!(look(&mut shadow, 0..32, &access(1, 3, Mode::Read), &[]), []);
    }

    #[test]
    fn an_allocation_takes_the_place_of_what_was_there() {
        let mut memory = Memory::default();
        memory.add(Shadow::new(0..64, "a".into(), false));
        memory.add(Shadow::new(64..128, "b".into(), false));
        memory.add(Shadow::new(32..96, "c".into(), false));
        assert!(memory.holding(10).is_none() && memory.holding(100).is_none());
        assert_eq!(memory.holding(64).map(|shadow| shadow.name.to_string()), Some("c".into()));
        assert!(memory.starting_at(32).is_some() && memory.starting_at(33).is_none());
    }
}
