//! The origin of bytes. The checker computes with these symbols instead of data.
//!
//! A byte that was copied from an input stays that byte of that input, wherever it is copied to. A
//! byte that was reduced is a set of bytes: one from the input of each rank in a set of ranks, all
//! at the same offset. Any other value made of inputs is wrong for every collective.

use crate::task::ReduceOp;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The contents of a run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Bytes that were never written.
    Nothing,
    /// A wrong value that a finding has already reported.
    Reported,
    /// Bytes of inputs.
    From(Origin),
}

/// Bytes of the inputs of some ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The operator that these inputs belong to.
    pub(super) operator: u32,
    /// The ranks, as the number of a set in [`Sets`].
    pub(super) ranks: u32,
    /// The operation that combines the bytes. `None` if they come from one rank.
    pub(super) op: Option<ReduceOp>,
    /// The number to add to the offset of a byte to get its offset in the inputs. The sum wraps.
    pub(super) shift: usize,
}

impl Value {
    /// Returns the same bytes at another offset.
    pub(super) fn moved(self, from: usize, to: usize) -> Value {
        match self {
            Value::From(origin) => {
                let shift = origin.shift.wrapping_add(from).wrapping_sub(to);
                Value::From(Origin { shift, ..origin })
            }
            other => other,
        }
    }
}

/// Sets of ranks. Each set is stored once and has a number.
#[derive(Debug)]
pub(super) struct Sets {
    sets: Vec<Box<[u64]>>,
    numbers: HashMap<Box<[u64]>, u32>,
    unions: HashMap<(u32, u32), u32>,
    /// The number of ranks.
    ranks: usize,
}

impl Sets {
    pub(super) fn new(ranks: usize) -> Sets {
        Sets { sets: Vec::new(), numbers: HashMap::new(), unions: HashMap::new(), ranks }
    }

    /// Returns the set of one rank alone.
    pub(super) fn one(&mut self, rank: usize) -> u32 {
        self.of([rank].into_iter())
    }

    /// Returns the set of all ranks.
    pub(super) fn all(&mut self) -> u32 {
        self.of(0..self.ranks)
    }

    fn of(&mut self, ranks: impl Iterator<Item = usize>) -> u32 {
        let mut set = vec![0; self.ranks.div_ceil(64)].into_boxed_slice();
        for rank in ranks {
            if let Some(word) = set.get_mut(rank / 64) {
                *word |= 1 << (rank % 64);
            }
        }
        self.number(set)
    }

    fn number(&mut self, set: Box<[u64]>) -> u32 {
        if let Some(&known) = self.numbers.get(&set) {
            return known;
        }
        let number = self.sets.len() as u32;
        self.sets.push(set.clone());
        self.numbers.insert(set, number);
        number
    }

    pub(super) fn union(&mut self, a: u32, b: u32) -> u32 {
        let key = (a.min(b), a.max(b));
        if let Some(&known) = self.unions.get(&key) {
            return known;
        }
        let words = self.words(a).iter().zip(self.words(b)).map(|(a, b)| a | b).collect();
        let number = self.number(words);
        self.unions.insert(key, number);
        number
    }

    fn words(&self, set: u32) -> &[u64] {
        self.sets.get(set as usize).map_or(&[], |words| words)
    }

    /// Returns the ranks of a set.
    pub(super) fn ranks(&self, set: u32) -> Vec<usize> {
        let words = self.words(set);
        (0..self.ranks).filter(|rank| words[rank / 64] >> (rank % 64) & 1 == 1).collect()
    }

    /// Returns the ranks that are in both sets.
    pub(super) fn common(&self, a: u32, b: u32) -> Vec<usize> {
        if self.words(a).iter().zip(self.words(b)).all(|(a, b)| a & b == 0) {
            return Vec::new();
        }
        let b = self.ranks(b);
        self.ranks(a).into_iter().filter(|rank| b.binary_search(rank).is_ok()).collect()
    }
}

/// The contents of one memory.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// The runs, by their first byte. The bytes between runs are [`Value::Nothing`].
    runs: BTreeMap<usize, ByteRun>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteRun {
    end: usize,
    value: Value,
    /// The task that wrote the run last.
    by: u32,
}

impl Values {
    /// Adds the contents of these bytes to `all`: runs without gaps, each with the task that wrote
    /// it.
    pub(super) fn get(&self, bytes: Range<usize>, all: &mut Vec<(Range<usize>, Value, u32)>) {
        let nobody = crate::lanes::NONE;
        let mut at = bytes.start;
        let before = self.runs.range(..=at).next_back();
        let inside = self.runs.range((std::ops::Bound::Excluded(at), std::ops::Bound::Unbounded));
        for (&start, run) in before.into_iter().chain(inside) {
            if start >= bytes.end {
                break;
            }
            let (start, end) = (start.max(at), run.end.min(bytes.end));
            if start >= end {
                continue;
            }
            if at < start {
                all.push((at..start, Value::Nothing, nobody));
            }
            all.push((start..end, run.value, run.by));
            at = end;
        }
        if at < bytes.end {
            all.push((at..bytes.end, Value::Nothing, nobody));
        }
    }

    /// Writes a value to these bytes. `by` is the task that writes it.
    pub(super) fn put(&mut self, bytes: Range<usize>, value: Value, by: u32) {
        self.split(bytes.start);
        self.split(bytes.end);
        let inside: Vec<usize> = self.runs.range(bytes.clone()).map(|(at, _)| *at).collect();
        inside.iter().for_each(|at| {
            self.runs.remove(at);
        });
        if let Some((_, run)) = self.runs.range_mut(..bytes.start).next_back()
            && (run.end, run.value, run.by) == (bytes.start, value, by)
        {
            run.end = bytes.end;
            return;
        }
        self.runs.insert(bytes.start, ByteRun { end: bytes.end, value, by });
    }

    fn split(&mut self, at: usize) {
        if let Some((_, run)) = self.runs.range_mut(..at).next_back()
            && at < run.end
        {
            let behind = *run;
            run.end = at;
            self.runs.insert(at, behind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(ranks: u32, shift: usize) -> Value {
        Value::From(Origin { operator: 0, ranks, op: None, shift })
    }

    fn got(values: &Values, bytes: Range<usize>) -> Vec<(Range<usize>, Value)> {
        let mut all = Vec::new();
        values.get(bytes, &mut all);
        all.into_iter().map(|(range, value, _)| (range, value)).collect()
    }

    #[test]
    fn the_last_write_of_each_byte_counts() {
        let mut values = Values::default();
        values.put(10..20, origin(0, 0), 1);
        values.put(14..30, origin(1, 0), 2);
        values.put(16..18, Value::Reported, 3);
        let expected = [
            (5..10, Value::Nothing),
            (10..14, origin(0, 0)),
            (14..16, origin(1, 0)),
            (16..18, Value::Reported),
            (18..30, origin(1, 0)),
            (30..31, Value::Nothing),
        ];
        assert_eq!(got(&values, 5..31), expected);
        assert_eq!(got(&values, 15..17), [(15..16, origin(1, 0)), (16..17, Value::Reported)]);
        values.put(0..40, origin(2, 0), 4);
        values.put(40..50, origin(2, 0), 4);
        assert_eq!(got(&values, 0..50), [(0..50, origin(2, 0))]);
    }

    #[test]
    fn bytes_stay_what_they_are_wherever_they_go() {
        let there = origin(0, 0).moved(100, 7).moved(7, 30);
        assert_eq!(there, origin(0, 70));
        assert_eq!(there.moved(30, 100), origin(0, 0));
    }

    #[test]
    fn sets_are_the_same_when_their_ranks_are() {
        let mut sets = Sets::new(130);
        let (a, b, c) = (sets.one(0), sets.one(64), sets.one(129));
        let ab = sets.union(a, b);
        let (x, bc) = (sets.union(ab, c), sets.union(c, b));
        assert_eq!(sets.union(a, bc), x);
        assert_eq!(sets.ranks(x), [0, 64, 129]);
        assert_eq!(sets.common(ab, bc), [64]);
        assert!(sets.common(a, bc).is_empty());
        let all = sets.all();
        assert_eq!(sets.ranks(all).len(), 130);
    }
}
