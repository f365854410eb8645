//! Sets of bytes, as ranges that do not touch.

use std::collections::BTreeMap;

/// A set of bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranges {
    /// The end of each range, by its beginning.
    ends: BTreeMap<u128, u128>,
}

impl Ranges {
    pub(super) fn add(&mut self, mut from: u128, mut to: u128) {
        if from >= to {
            return;
        }
        // Ranges that touch the new one become part of it. They are adjacent in the map, and the
        // last of them begins at `to` or before.
        while let Some((&start, &end)) =
            self.ends.range(..=to).next_back().filter(|(_, end)| **end >= from)
        {
            self.ends.remove(&start);
            from = from.min(start);
            to = to.max(end);
        }
        self.ends.insert(from, to);
    }

    pub(super) fn remove(&mut self, from: u128, to: u128) {
        if from >= to {
            return;
        }
        while let Some((&start, &end)) =
            self.ends.range(..to).next_back().filter(|(_, end)| **end > from)
        {
            self.ends.remove(&start);
            if start < from {
                self.ends.insert(start, from);
            }
            if end > to {
                self.ends.insert(to, end);
            }
        }
    }

    /// Returns the first byte of a range that is not in the set.
    pub(super) fn missing(&self, from: u128, to: u128) -> Option<u128> {
        let within =
            self.ends.range(..=from).next_back().map(|(_, end)| *end).filter(|end| *end > from);
        let first = within.unwrap_or(from);
        (first < to).then_some(first)
    }

    /// Returns the parts of a range that are not in the set.
    pub(super) fn gaps(&self, from: u128, to: u128) -> Vec<(u128, u128)> {
        let mut gaps = Vec::new();
        let mut next = from;
        while let Some(start) = self.missing(next, to) {
            next = self.ends.range(start..to).next().map_or(to, |(&begin, _)| begin);
            gaps.push((start, next));
        }
        gaps
    }

    /// Adds the part of a range that is in another set.
    pub(super) fn join(&mut self, other: &Ranges, from: u128, to: u128) {
        let mut next = from;
        for (start, end) in other.gaps(from, to) {
            self.add(next, start);
            next = end;
        }
        self.add(next, to);
    }

    /// Returns the number of ranges.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns all ranges.
    pub(super) fn all(&self) -> impl Iterator<Item = (u128, u128)> {
        self.ends.iter().map(|(from, to)| (*from, *to))
    }

    pub(super) fn clear(&mut self) {
        self.ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    #[test]
    fn ranges_are_a_set_of_bytes() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 64]);
            for _ in 0..random.usize(0..12) {
                let from = random.usize(0..64);
                let to = (from + random.usize(0..20)).min(64);
                let adds = random.u8(0..3) > 0;
                match adds {
                    true => ranges.add(from as u128, to as u128),
                    false => ranges.remove(from as u128, to as u128),
                }
                bytes[from..to].fill(adds);
            }
            for from in 0..64 {
                for to in from..=64 {
                    let missing = (from..to).find(|at| !bytes[*at]);
                    let (first, last) = (from as u128, to as u128);
                    assert_eq!(ranges.missing(first, last), missing.map(|at| at as u128));
                    let gaps = ranges.gaps(first, last);
                    let is_gap = |at| gaps.iter().any(|(a, b)| (*a..*b).contains(&(at as u128)));
                    assert!(
                        (0..64).all(|at| is_gap(at) == ((from..to).contains(&at) && !bytes[at]))
                    );
                    let mut joined = Ranges::default();
                    joined.join(&ranges, first, last);
                    let has = |at| joined.missing(at as u128, at as u128 + 1).is_none();
                    assert!((0..64).all(|at| has(at) == ((from..to).contains(&at) && bytes[at])));
                }
            }
        }
    }
}
