//! What is read or sent of the workspace has been written before.
//!
//! Nobody has written to the workspace when the kernel begins. What cores and turns write counts for a read unless it is known to come
//! behind it; whether the order is right is for the other rules.

use super::super::ranges::Ranges;
use super::*;

/// So many pieces of memory are looked at.
const MOST_PIECES: u128 = 1 << 22;

/// All that is known of the workspace.
struct Workspace<'a> {
    space: Space,
    /// By where they begin.
    writes: Vec<&'a Access>,
    longest: u128,
    sent: &'a [Sent],
    looked: u128,
}

/// Reports what is read or sent of the workspace that nobody has written.
pub(super) fn look(
    traffic: &Traffic,
    ground: &Ground<'_>,
    report: &mut Report,
    sent: &[Sent],
    server: impl Fn(ClientId) -> usize,
) {
    let Some(space) = ground.spaces.workspace().filter(|space| traffic.knows(*space)) else {
        return;
    };
    let accesses = traffic.accesses.get(&space).map_or(&[][..], |all| all);
    let writes: Vec<&Access> = accesses.iter().filter(|access| access.area.write).collect();
    let longest = longest_of(writes.iter().copied());
    let mut workspace = Workspace { space, writes, longest, sent, looked: 0 };
    let reads = |access: &&Access| !access.area.write || access.area.way == Way::Add;
    for read in accesses.iter().filter(reads) {
        let later = |write: &Access| write.knew(read) || std::ptr::eq(write, read);
        let missing = pieces(&read.area).find_map(|(from, to)| {
            let written = workspace.written((from, to), later, |turn| turn.knew(read));
            written.missing(from, to)
        });
        if workspace.looked > MOST_PIECES {
            return not_all(report, read);
        }
        let Some(byte) = missing else { continue };
        report.add(Severity::Error, "unwritten", read.source, Some(read.name), || {
            let message =
                format!("this reads byte {byte} of the workspace, which nobody has written");
            (message, "write it before, or read only what was written".to_owned())
        });
    }
    for turn in sent {
        let server = server(turn.client);
        for touched in turn.touched.iter().filter(|of| !of.write && of.space.0 == space) {
            let missing = turn.blocks(touched, touched.space.1).find_map(|(from, to)| {
                let later = |write: &Access| write.clock.turns(server) >= turn.number;
                let behind =
                    |other: &Sent| other.client == turn.client && other.number >= turn.number;
                workspace.written((from, to), later, behind).missing(from, to)
            });
            let Some(byte) = missing else { continue };
            report.add(Severity::Error, "unwritten", turn.source, None, || {
                let message = format!(
                    "{} sends byte {byte} of the workspace, which nobody has written",
                    turn.words(ground)
                );
                (message, "write it before the commit, or send only what was written".to_owned())
            });
        }
    }
}

/// Where the pieces of an area begin and end.
fn pieces(area: &Area) -> impl Iterator<Item = (u128, u128)> + use<> {
    let Area { from, bytes, pitch, count, .. } = *area;
    let (bytes, count) =
        if bytes == pitch { (bytes.saturating_mul(count), 1) } else { (bytes, count) };
    (0..count).map(move |at| {
        let from = from.saturating_add(at.saturating_mul(pitch));
        (from, from.saturating_add(bytes))
    })
}

impl Workspace<'_> {
    /// What has been written of these bytes, but for what is known to come later.
    fn written(
        &mut self,
        (from, to): (u128, u128),
        later: impl Fn(&Access) -> bool,
        behind: impl Fn(&Sent) -> bool,
    ) -> Ranges {
        let mut found = Ranges::default();
        for write in near(&self.writes, |of| of.area.from, self.longest, (from, to)) {
            self.looked += 1;
            if later(write) || self.looked > MOST_PIECES {
                continue;
            }
            for (a, b) in pieces(&write.area).filter(|(a, b)| *a < to && from < *b) {
                self.looked += 1;
                found.add(a, b);
            }
        }
        for turn in self.sent.iter().filter(|turn| !behind(turn)) {
            for touched in turn.touched.iter().filter(|of| of.write && of.space.0 == self.space) {
                for (a, b) in turn.blocks(touched, touched.space.1) {
                    self.looked += 1;
                    found.add(a, b);
                }
            }
        }
        found
    }
}
