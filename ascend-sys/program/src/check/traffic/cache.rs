//! Checks accesses of single elements. They go through the cache of a core, which no other core
//! sees.
//!
//! A written element reaches memory when its line is cleaned. So the clean must come before any
//! other access, by another core, a copy, the server, or the host after the end. A core sees the
//! writes of others only if it has cleaned the line after those writes. If two cores write a line,
//! the writes of one of them are lost.

use std::collections::BTreeMap;

use super::*;

/// The greatest number of pairs of accesses that are checked. A kernel with more pairs uses single
/// elements where it should use copies.
const MOST_PAIRS: u32 = 1 << 24;

struct Caches<'a, 'g> {
    traffic: &'a Traffic,
    ground: &'a Ground<'g>,
    sent: &'a [Sent],
    /// Whether all cores have been followed to their end.
    whole: bool,
    pairs: u32,
}

/// Reports accesses that come too early or too late. The accesses must be sorted by their
/// beginnings.
pub(super) fn look(
    traffic: &Traffic,
    ground: &Ground<'_>,
    report: &mut Report,
    sent: &[Sent],
    server: impl Fn(ClientId) -> usize,
    whole: bool,
) {
    let mut caches = Caches { traffic, ground, sent, whole, pairs: 0 };
    for (space, accesses) in &traffic.accesses {
        let longest = longest_of(accesses);
        for scalar in accesses.iter().filter(|access| access.area.way == Way::Cache) {
            let (from, to) = (scalar.area.from, scalar.area.end());
            let near = near(accesses, |of| of.area.from, longest, (from, to)).iter();
            let near = near.filter(|access| access.area.meets(from, to).is_some());
            let found = match scalar.area.write {
                true => caches.written(*space, scalar, near),
                false if ground.setting.tolerant => None,
                false => caches.read(*space, scalar, near, &server),
            };
            if caches.pairs > MOST_PAIRS {
                return not_all(report, scalar.source, Some(scalar.name));
            }
            let Some((what, help)) = found else { continue };
            report.add(Severity::Error, "clean", scalar.source, Some(scalar.name), || {
                let base = scalar.area.base;
                let element = (from - scalar.area.space.1) / element_size(ground, scalar);
                let verb = if scalar.area.write { "writes" } else { "reads" };
                let message = format!(
                    "this {verb} element {element} of `{}` through the core's cache, {what}",
                    ground.words.base(base)
                );
                (message, help.to_owned())
            });
        }
        caches.lines(*space, accesses, report);
    }
}

fn line(byte: u128) -> u128 {
    byte / u128::from(LINE)
}

type Found = Option<(String, &'static str)>;

impl<'a> Caches<'a, '_> {
    /// Returns the cleans of an access's line by the same core.
    fn cleans(&self, space: Space, access: &Access) -> &'a [Access] {
        let key = (space, access.core, line(access.area.from));
        self.traffic.cleans.get(&key).map_or(&[], |cleans| cleans)
    }

    /// Returns the first clean of an access's line that comes after the access.
    fn cleaned(&self, space: Space, access: &Access) -> Option<&'a Access> {
        self.cleans(space, access).iter().find(|clean| clean.order > access.order)
    }

    /// Returns the turns that touch the bytes of an access.
    fn turns(&mut self, space: Space, access: &Access) -> Vec<(&'a Sent, &'a Touched)> {
        let (from, to) = (access.area.from, access.area.end());
        let mut found = Vec::new();
        for turn in self.sent {
            for touched in turn.touched.iter() {
                let (of, start) = touched.space;
                self.pairs = self.pairs.saturating_add(touched.blocks.len() as u32 + 1);
                let meets = |(a, b): (u128, u128)| a < to && from < b;
                if of == space && turn.blocks(touched, start).any(meets) {
                    found.push((turn, touched));
                }
            }
        }
        found
    }

    /// Finds accesses to an element that come after a core has written it, but before it is in
    /// memory.
    fn written<'b>(
        &mut self,
        space: Space,
        written: &Access,
        near: impl Iterator<Item = &'b Access>,
    ) -> Found {
        let help = "clean the cache line after the write, before a copy, another core, the server or the host uses it";
        let clean = self.cleaned(space, written);
        for other in near {
            self.pairs = self.pairs.saturating_add(1);
            let early = if other.core == written.core {
                let later = other.order > written.order;
                let clean = clean.is_some_and(|clean| clean.order < other.order);
                other.area.way != Way::Cache && later && !clean
            } else {
                let later = other.knew(written);
                let clean = clean.is_some_and(|clean| other.knew(clean));
                // If two cores write elements of a line, one write is lost, which `lines` reports.
                let lost = other.area.way == Way::Cache && other.area.write;
                later && !clean && !lost
            };
            if early {
                return Some((format!("and {} before it is in memory", does(other)), help));
            }
        }
        for (turn, touched) in self.turns(space, written) {
            let before = turn.knew(written);
            if before && clean.is_none_or(|clean| !turn.knew(clean)) {
                let what = format!(
                    "and {}, committed in line {}, {} it before it is in memory",
                    turn.words(self.ground),
                    turn.source.line,
                    if touched.write { "receives" } else { "sends" }
                );
                return Some((what, help));
            }
        }
        let never = self.whole && clean.is_none() && !self.ground.setting.tolerant;
        never.then(|| ("and nothing cleans the cache line after it".to_owned(), help))
    }

    /// Finds a read of data that may still be in the core's cache although a copy, another core or
    /// the server has written it since.
    fn read<'b>(
        &mut self,
        space: Space,
        read: &Access,
        near: impl Iterator<Item = &'b Access>,
        server: impl Fn(ClientId) -> usize,
    ) -> Found {
        let help = "clean the cache line before you read what a copy, another core or the server has written";
        let cleans = self.cleans(space, read);
        let clean = cleans.iter().rev().find(|clean| clean.order < read.order);
        for other in near.filter(|other| other.area.write) {
            self.pairs = self.pairs.saturating_add(1);
            let stale = if other.core == read.core {
                let earlier = other.order < read.order;
                let clean = clean.is_some_and(|clean| clean.order > other.order);
                other.area.way != Way::Cache && earlier && !clean
            } else {
                let earlier = read.knew(other);
                earlier && clean.is_none_or(|clean| !clean.knew(other))
            };
            if stale {
                let what = format!("which may hold the value from before {}", does(other));
                return Some((what, help));
            }
        }
        for (turn, _) in self.turns(space, read).into_iter().filter(|(_, of)| of.write) {
            let server = server(turn.client);
            let earlier = read.clock.turns(server) >= turn.number;
            if earlier && clean.is_none_or(|clean| clean.clock.turns(server) < turn.number) {
                let what = format!(
                    "which may hold the value from before {} received it",
                    turn.words(self.ground)
                );
                return Some((what, help));
            }
        }
        None
    }

    /// Reports lines that two cores write, if neither core has cleaned the line before the other
    /// one writes.
    fn lines(&mut self, space: Space, accesses: &[Access], report: &mut Report) {
        let mut lines: BTreeMap<u128, Vec<&Access>> = BTreeMap::new();
        let scalars = |access: &&Access| access.area.way == Way::Cache && access.area.write;
        for access in accesses.iter().filter(scalars) {
            lines.entry(line(access.area.from)).or_default().push(access);
        }
        for mut written in lines.into_values() {
            written.sort_by_key(|access| access.order);
            for (at, later) in written.iter().enumerate() {
                self.pairs = self.pairs.saturating_add(at as u32);
                if self.pairs > MOST_PAIRS {
                    return not_all(report, later.source, Some(later.name));
                }
                let in_turn = |a: &Access, b: &Access| {
                    self.cleaned(space, a).is_some_and(|clean| b.knew(clean))
                };
                let both = written[..at].iter().find(|earlier| {
                    earlier.core != later.core
                        && !in_turn(earlier, later)
                        && !in_turn(later, earlier)
                });
                let Some(earlier) = both else { continue };
                report.add(Severity::Error, "line", later.source, Some(later.name), || {
                    let message = format!(
                        "this writes an element of `{}`, and in line {} {} writes an element of the same cache line ({LINE} bytes): one of the two writes is lost",
                        self.ground.words.base(later.area.base),
                        earlier.source.line,
                        earlier.name
                    );
                    let help = "let one core write the cache line, give each core a cache line of its own, or copy from local memory";
                    (message, help.to_owned())
                });
            }
        }
    }
}
