//! Notes that say, for each byte, which of two copies is newer. They are stored as runs of bytes.

#![forbid(unsafe_code)]

use std::ops::Range;

/// The copy of a byte that is newer. See [`registration`](super::registration).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Newer {
    Program,
    Neither,
    Device,
}

/// A run of bytes with the same note. It begins where the run before it ends.
#[derive(Clone, Copy, Debug)]
struct NoteRun {
    end: usize,
    newer: Newer,
}

/// A note for each byte. Neighbouring runs differ, no run is empty, and together they cover all
/// bytes. Most operations use all bytes of an end, so there are one or two runs.
#[derive(Debug)]
pub(super) struct Notes {
    runs: Vec<NoteRun>,
}

impl Notes {
    /// Returns notes for `bytes` bytes, all with the same note.
    pub(super) fn new(bytes: usize, newer: Newer) -> Self {
        Notes { runs: (bytes > 0).then_some(NoteRun { end: bytes, newer }).into_iter().collect() }
    }

    /// Sets the note of all bytes of `range`, which must lie inside the noted bytes.
    pub(super) fn set(&mut self, range: Range<usize>, newer: Newer) {
        debug_assert!(range.end <= self.start(self.runs.len()), "{range:?} lies outside");
        if range.is_empty() {
            return;
        }
        // The run that contains the first byte of the range, and the run that contains the last.
        let first = self.runs.partition_point(|run| run.end <= range.start);
        let last = self.runs.partition_point(|run| run.end < range.end);
        let Some(&NoteRun { end: last_end, newer: last_newer }) = self.runs.get(last) else {
            return;
        };
        if first == last && last_newer == newer {
            return;
        }
        let start = self.start(first);
        let before = self.runs[first].newer;
        let mut new = [NoteRun { end: 0, newer }; 3];
        let mut count = 0;
        let mut push = |run| {
            new[count] = run;
            count += 1;
        };
        // The part of the first run that is before the range.
        if start < range.start && before != newer {
            push(NoteRun { end: range.start, newer: before });
        }
        // Joins the range with neighbours that have the same note.
        let mut from = first;
        if start == range.start && first > 0 && self.runs[first - 1].newer == newer {
            from -= 1;
        }
        let mut to = last + 1;
        if last_end > range.end {
            if last_newer == newer {
                push(NoteRun { end: last_end, newer });
            } else {
                push(NoteRun { end: range.end, newer });
                push(NoteRun { end: last_end, newer: last_newer });
            }
        } else {
            match self.runs.get(to) {
                Some(next) if next.newer == newer => {
                    push(*next);
                    to += 1;
                }
                _ => push(NoteRun { end: range.end, newer }),
            }
        }
        self.runs.splice(from..to, new[..count].iter().copied());
    }

    /// Returns the first contiguous bytes of a range that have this note.
    pub(super) fn first(&self, range: &Range<usize>, newer: Newer) -> Option<Range<usize>> {
        let at = self.runs.partition_point(|run| run.end <= range.start);
        for (at, run) in self.runs.iter().enumerate().skip(at) {
            let start = self.start(at).max(range.start);
            if start >= range.end {
                return None;
            }
            if run.newer == newer {
                return Some(start..run.end.min(range.end));
            }
        }
        None
    }

    /// Returns the first byte of run `at`.
    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).and_then(|before| self.runs.get(before)).map_or(0, |run| run.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the runs with an array of one note for each byte, for random ranges.
    #[test]
    fn runs_say_what_a_note_for_each_byte_says() {
        let bytes = if cfg!(miri) { 12 } else { 24 };
        let turns = if cfg!(miri) { 200 } else { 20_000 };
        let all = [Newer::Program, Newer::Neither, Newer::Device];
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut notes = Notes::new(bytes, Newer::Program);
        let mut expected = vec![Newer::Program; bytes];
        for _ in 0..turns {
            let start = random(bytes + 1);
            let end = start + random(bytes + 1 - start);
            let newer = all[random(3)];
            notes.set(start..end, newer);
            expected[start..end].fill(newer);

            let ends = notes.runs.iter().map(|run| run.end);
            assert!(ends.is_sorted_by(|a, b| a < b), "{notes:?}");
            assert!(notes.runs.windows(2).all(|two| two[0].newer != two[1].newer), "{notes:?}");
            let mut found = Vec::new();
            for run in &notes.runs {
                found.resize(run.end, run.newer);
            }
            assert_eq!(found, expected);

            let range = random(bytes + 1)..random(bytes + 1);
            let newer = all[random(3)];
            let first = range.clone().find(|&at| expected[at] == newer);
            let piece = first.map(|first| {
                let end = (first..range.end).find(|&at| expected[at] != newer);
                first..end.unwrap_or(range.end)
            });
            assert_eq!(notes.first(&range, newer), piece, "{newer:?} in {range:?} of {notes:?}");
        }
    }

    #[test]
    fn no_bytes_have_no_notes() {
        let mut notes = Notes::new(0, Newer::Program);
        notes.set(0..0, Newer::Device);
        assert_eq!(notes.first(&(0..0), Newer::Device), None);
    }
}
