//! Checks that data read or sent from the workspace, and from windows, has been written before.
//!
//! This memory is unwritten when the kernel begins. A write of a core or a turn counts for a read
//! unless it is known to come after the read; other rules check whether the two are ordered. Other
//! ranks write to windows too, so bytes of windows that this rank has not written are
//! [settled](super::super::windows) after all ranks have been checked.

use std::cell::Cell;

use super::super::ranges::Ranges;
use super::super::windows::{Window, WindowRead, Windows};
use super::*;

/// The greatest number of pieces of a memory that are checked.
const MOST_PIECES: usize = 1 << 22;

/// The greatest number of ranges of windows that a rank reports for the check of all ranks, as
/// written or as missing.
const MOST_TOLD: usize = 1 << 16;

/// A piece of memory that is unwritten at first, with all accesses to it.
struct Fresh<'a> {
    space: Space,
    accesses: &'a [Access],
    /// The writes, sorted by their beginnings.
    writes: Vec<&'a Access>,
    longest: u128,
    sent: &'a [Sent],
    looked: Cell<usize>,
}

/// A read or a send of bytes that nothing on this rank has written before.
struct Reader {
    source: Source,
    /// The core that reads. `None` if a turn sends the bytes.
    core: Option<CoreName>,
    /// The read or send in words: `this reads`, or ``turn 2 of `x` sends``.
    what: String,
    /// The bytes that nothing has written.
    gaps: Vec<(u128, u128)>,
}

/// Reports reads and sends of bytes of the workspace that nothing has written. Returns the accesses
/// of this rank to windows.
pub(super) fn look(
    traffic: &Traffic,
    ground: &Ground<'_>,
    report: &mut Report,
    sent: &[Sent],
    server: impl Fn(ClientId) -> usize,
) -> Windows {
    let is_window = |space: &Space| matches!(space, Space::Window(..));
    let open = traffic.all_open || traffic.open.iter().any(is_window);
    let mut windows = Windows { open, ..Windows::default() };
    let mut told = 0;
    let touched = sent.iter().flat_map(|turn| turn.touched.iter().map(|touched| touched.space.0));
    let spaces: BTreeSet<Space> = traffic.accesses.keys().copied().chain(touched).collect();
    let workspace = ground.spaces.workspace().filter(|space| traffic.knows(*space));
    for space in spaces.into_iter().filter(|space| is_window(space) || Some(*space) == workspace) {
        let accesses = traffic.accesses.get(&space).map_or(&[][..], |all| all);
        // An addition to unwritten bytes leaves them unwritten.
        let writes = |access: &&Access| access.area.write && access.area.way != Way::Add;
        let writes: Vec<&Access> = accesses.iter().filter(writes).collect();
        let longest = longest_of(writes.iter().copied());
        let fresh = Fresh { space, accesses, writes, longest, sent, looked: Cell::new(0) };
        match space {
            Space::Window(group, rank, output) => {
                let window = Window { group, rank, output };
                let mut written = Ranges::default();
                for (from, to) in fresh.all_written() {
                    fresh.look();
                    written.add(from, to);
                    if told + written.len() > MOST_TOLD || fresh.has_looked_enough() {
                        windows.open = true;
                        break;
                    }
                }
                told += written.len();
                windows.written.insert(window, written);
                fresh.looked.set(0);
                for Reader { source, core, what, gaps } in fresh.readers(ground, report, &server) {
                    told += gaps.len();
                    if told > MOST_TOLD {
                        not_all(report, source, core);
                        break;
                    }
                    windows.reads.push(WindowRead { window, source, core, what, gaps });
                }
            }
            Space::Arguments(_) => {
                for Reader { source, core, what, gaps } in fresh.readers(ground, report, &server) {
                    let byte = gaps.first().map_or(0, |(from, _)| *from);
                    report.add(Severity::Error, "unwritten", source, core, || {
                        let message = format!(
                            "{what} byte {byte} of the workspace, which nobody has written"
                        );
                        let help = match core {
                            Some(_) => "write it first, or read only written bytes",
                            None => "write it before the commit, or send only written bytes",
                        };
                        (message, help.to_owned())
                    });
                }
            }
        }
    }
    windows
}

/// Returns the pieces of an area that lie between two places.
fn pieces(area: &Area, (first, last): (u128, u128)) -> impl Iterator<Item = (u128, u128)> + use<> {
    let Area { from, bytes, pitch, count, .. } = *area;
    let (bytes, pitch, count) = match bytes == pitch {
        true => (bytes.saturating_mul(count), u128::MAX, 1),
        false => (bytes, pitch, count),
    };
    // The skipped pieces before end at `first` or earlier, and those after begin at `last` or
    // later.
    let before = first.saturating_sub(from.saturating_add(bytes)) / pitch;
    let behind = last.saturating_sub(from).div_ceil(pitch);
    (before..count.min(behind)).map(move |at| {
        let from = from.saturating_add(at.saturating_mul(pitch));
        (from, from.saturating_add(bytes))
    })
}

/// The range of all memory.
const EVERYWHERE: (u128, u128) = (0, u128::MAX);

impl Fresh<'_> {
    /// Returns the reads and sends of bytes that nothing on this rank has written before.
    fn readers(
        &self,
        ground: &Ground<'_>,
        report: &mut Report,
        server: impl Fn(ClientId) -> usize,
    ) -> Vec<Reader> {
        let mut readers = Vec::new();
        let reads = |access: &&Access| !access.area.write || access.area.way == Way::Add;
        for read in self.accesses.iter().filter(reads) {
            let later = |write: &Access| write.knew(read) || std::ptr::eq(write, read);
            let behind = |turn: &Sent| turn.knew(read);
            let gaps = self.gaps(pieces(&read.area, EVERYWHERE), later, behind);
            if self.has_looked_enough() {
                not_all(report, read.source, Some(read.name));
                return readers;
            }
            if !gaps.is_empty() {
                let adds = read.area.way == Way::Add;
                let what = if adds { "this adds to" } else { "this reads" }.to_owned();
                readers.push(Reader { source: read.source, core: Some(read.name), what, gaps });
            }
        }
        for turn in self.sent {
            let server = server(turn.client);
            for touched in turn.touched.iter().filter(|of| !of.write && of.space.0 == self.space) {
                let later = |write: &Access| write.clock.turns(server) >= turn.number;
                let behind =
                    |other: &Sent| other.client == turn.client && other.number >= turn.number;
                let gaps = self.gaps(turn.blocks(touched, touched.space.1), later, behind);
                if self.has_looked_enough() {
                    not_all(report, turn.source, None);
                    return readers;
                }
                if !gaps.is_empty() {
                    let what = format!("{} sends", turn.words(ground));
                    readers.push(Reader { source: turn.source, core: None, what, gaps });
                }
            }
        }
        readers
    }

    /// Returns the parts of these pieces that have not been written. Writes that are known to come
    /// later do not count.
    fn gaps(
        &self,
        pieces: impl Iterator<Item = (u128, u128)>,
        later: impl Fn(&Access) -> bool,
        behind: impl Fn(&Sent) -> bool,
    ) -> Vec<(u128, u128)> {
        let mut gaps = Vec::new();
        for (from, to) in pieces {
            self.look();
            if self.has_looked_enough() {
                break;
            }
            gaps.extend(self.written((from, to), &later, &behind).gaps(from, to));
        }
        gaps
    }

    /// Returns the written parts of these bytes, without writes that are known to come later.
    fn written(
        &self,
        (from, to): (u128, u128),
        later: impl Fn(&Access) -> bool,
        behind: impl Fn(&Sent) -> bool,
    ) -> Ranges {
        let mut found = Ranges::default();
        for write in near(&self.writes, |of| of.area.from, self.longest, (from, to)) {
            self.look();
            if later(write) || self.has_looked_enough() {
                continue;
            }
            for (a, b) in pieces(&write.area, (from, to)) {
                self.look();
                found.add(a, b);
            }
        }
        for (a, b) in self.received(|turn| !behind(turn)) {
            self.look();
            found.add(a, b);
        }
        found
    }

    fn look(&self) {
        self.looked.set(self.looked.get() + 1);
    }

    fn has_looked_enough(&self) -> bool {
        self.looked.get() > MOST_PIECES
    }

    /// Returns all writes, whenever they happen.
    fn all_written(&self) -> impl Iterator<Item = (u128, u128)> {
        let by_cores = self.writes.iter().flat_map(|write| pieces(&write.area, EVERYWHERE));
        by_cores.chain(self.received(|_| true))
    }

    /// Returns the writes of turns for which `counts` returns true.
    fn received(&self, counts: impl Fn(&Sent) -> bool) -> impl Iterator<Item = (u128, u128)> {
        let space = self.space;
        self.sent.iter().filter(move |turn| counts(turn)).flat_map(move |turn| {
            let touched = turn.touched.iter().filter(move |of| of.write && of.space.0 == space);
            touched.flat_map(move |touched| turn.blocks(touched, touched.space.1))
        })
    }
}
