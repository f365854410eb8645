//! Checks the accesses of an operation. Finds other accesses that nothing orders relative to them,
//! and reads of unwritten bytes.

use super::*;
use crate::task::Touch;

impl Checker {
    /// Notes that an allocation was freed at a point of a stream. Later accesses to it are errors.
    pub(crate) fn freed_at(&self, at: ClockPoint, start: usize, operation: Arc<CheckedOperation>) {
        if let Some(shadow) = lock(&self.state).memory.starting_at(start) {
            shadow.freed = Some(Access { point: at, mode: Mode::Write, operation });
        }
    }
}

impl CheckerState {
    pub(super) fn touch(
        &mut self,
        at: ClockPoint,
        operation: &Arc<CheckedOperation>,
        clock: &Clock,
    ) {
        // Reads come first, because an operation in place reads the earlier contents.
        for reads in [true, false] {
            let touches = operation.touches.iter();
            for touch in touches.filter(|touch| (touch.mode == Mode::Read) == reads) {
                self.touch_one(at, operation, clock, touch.mode, touch.range.clone());
            }
        }
    }

    pub(super) fn touch_one(
        &mut self,
        at: ClockPoint,
        operation: &Arc<CheckedOperation>,
        clock: &Clock,
        mode: Mode,
        bytes: Range<usize>,
    ) {
        let Some(shadow) = self.memory.holding(bytes.start) else { return };
        let access = Access { point: at, mode, operation: operation.clone() };
        let (range, memory) = (shadow.range(), shadow.name.clone());
        // Mapped memory may continue in the next piece.
        let behind = range.end.max(bytes.start)..bytes.end;
        let bytes = bytes.start..bytes.end.min(range.end);
        let mut found = Vec::new();
        match &shadow.freed {
            Some(free) => found.push((FindingKind::Freed, Some(free.clone()), bytes)),
            None => shadow.access(bytes, &access, clock, |what| match what {
                Found::Unordered { bytes, other, .. } => {
                    found.push((FindingKind::Race, Some(other), bytes))
                }
                Found::Unwritten { .. } if self.kernels_write => {}
                Found::Unwritten { bytes } => found.push((FindingKind::Unwritten, None, bytes)),
            }),
        }
        for (kind, other, bytes) in found {
            // The report of another process may arrive after later operations.
            let follows = |other: &Access| self.clock_at(other.point).covers(at);
            if told::is_foreign(at.component) && other.as_ref().is_some_and(follows) {
                continue;
            }
            let knew = other.as_ref().map_or(0, |other| clock.get(other.point.component));
            let first = other.iter().map(|other| side(other, &range));
            let sides = first.chain([side(&access, &range)]).collect();
            let bytes = Some(bytes.start - range.start..bytes.end - range.start);
            let (memory, size) = (memory.clone(), range.len());
            self.found(Finding { kind, memory, size, bytes, sides, knew });
        }
        if !behind.is_empty() {
            self.touch_one(at, operation, clock, mode, behind);
        }
    }

    /// Adds a finding if accesses of one operation share bytes although they must not.
    pub(super) fn overlaps(
        &mut self,
        at: ClockPoint,
        operation: &Arc<CheckedOperation>,
        apart: Apart,
    ) {
        let checked = |touch: &&Touch| match apart {
            Apart::None => false,
            Apart::Writes => touch.mode != Mode::Read,
            Apart::All => true,
        };
        let mut sorted: Vec<_> = operation.touches.iter().filter(checked).collect();
        sorted.sort_by_key(|touch| touch.range.start);
        let mut last: [Option<&Touch>; 2] = [None, None];
        for touch in sorted {
            let write = usize::from(touch.mode != Mode::Read);
            for before in last {
                let Some(before) = before.filter(|before| {
                    touch.mode.conflicts(before.mode)
                        && before.range.end > touch.range.start
                        && !touch.range.is_empty()
                }) else {
                    continue;
                };
                let bytes = touch.range.start..before.range.end.min(touch.range.end);
                let Some(shadow) = self.memory.holding(bytes.start) else { continue };
                let (range, memory) = (shadow.range(), shadow.name.clone());
                let sides = [before, touch].map(|touch| {
                    let mut side = side(
                        &Access { point: at, mode: touch.mode, operation: operation.clone() },
                        &range,
                    );
                    side.bytes = Some(offsets(&touch.range, &range));
                    side
                });
                let finding = Finding {
                    kind: FindingKind::Overlap,
                    memory,
                    size: range.len(),
                    bytes: Some(offsets(&bytes, &range)),
                    sides: sides.into(),
                    knew: 0,
                };
                self.found(finding);
                return;
            }
            if last[write].is_none_or(|before| before.range.end < touch.range.end) {
                last[write] = Some(touch);
            }
        }
    }
}

/// Makes one side of a finding about the allocation in `range`.
pub(super) fn side(access: &Access, range: &Range<usize>) -> FindingSide {
    let verb = match access.mode {
        Mode::Read => "read",
        Mode::Write => "write",
        Mode::Reduce(_) => "reduce",
    };
    let mut side = FindingSide::plain(verb, &access.operation, access.point.time);
    // The range from the first to the last byte that the operation touches in this allocation.
    let mine = access.operation.touches.iter().filter(|touch| {
        touch.mode == access.mode && touch.range.start < range.end && touch.range.end > range.start
    });
    side.bytes = mine
        .map(|touch| offsets(&touch.range, range))
        .reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
    side
}

fn offsets(bytes: &Range<usize>, within: &Range<usize>) -> Range<usize> {
    bytes.start.max(within.start) - within.start..bytes.end.min(within.end) - within.start
}
