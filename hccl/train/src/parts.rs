//! The division of elements into one part for each rank.

use std::ops::Range;

/// A division into parts of equal length. If the elements do not fill all parts, the last parts are
/// shorter or empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    elements: usize,
    /// The length of a part, padding included.
    pub(crate) share: usize,
}

impl Parts {
    /// Divides `elements` elements among `ranks` ranks.
    pub(crate) fn new(elements: usize, ranks: usize) -> Self {
        Self { elements, share: elements.div_ceil(ranks) }
    }

    /// Returns the range of elements of a rank.
    pub(crate) fn of(self, rank: usize) -> Range<usize> {
        let at = |rank: usize| self.elements.min(rank.saturating_mul(self.share));
        at(rank)..at(rank + 1)
    }
}
