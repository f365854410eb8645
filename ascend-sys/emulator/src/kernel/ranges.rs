//! Sets of bytes.

use std::ops::Range;

/// The number of ranges that are kept before adjacent ones are joined.
const MANY: usize = 1024;

/// A set of bytes, as ranges that need not be in order.
#[derive(Default)]
pub(super) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    pub(super) fn add(&mut self, start: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let end = start.saturating_add(bytes);
        match self.0.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.0.push(start..end),
        }
        if self.0.len() >= MANY && self.0.len().is_power_of_two() {
            self.join();
        }
    }

    fn join(&mut self) {
        self.0.sort_unstable_by_key(|range| range.start);
        self.0.dedup_by(|next, before| {
            let joins = next.start <= before.end;
            if joins {
                before.end = before.end.max(next.end);
            }
            joins
        });
    }

    /// Returns the ranges in order. No two of them overlap or are adjacent.
    pub(super) fn all(mut self) -> impl Iterator<Item = Range<u64>> {
        self.join();
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_whatever_their_order() {
        let mut ranges = Ranges::default();
        for n in (0..5000u64).rev() {
            ranges.add(n * 2, 2);
        }
        ranges.add(20_000, 10);
        ranges.add(20_005, 1);
        assert_eq!(ranges.all().collect::<Vec<_>>(), [0..10_000, 20_000..20_010]);
    }
}
