//! Compares the accesses of the cores with the turns of the server, and then calls the other checks
//! of memory.

use super::*;

impl Traffic {
    /// Reports accesses that are not ordered, and returns the accesses to windows. `server` returns
    /// the index of a client's server among the cores of a clock.
    pub(in crate::check) fn look(
        &mut self,
        ground: &Ground<'_>,
        report: &mut Report,
        sent: &[Sent],
        server: impl Fn(ClientId) -> usize,
        whole: bool,
    ) -> Windows {
        if let Some((name, source)) = self.left_out {
            let most = self.most;
            report.add(Severity::Note, "long", source, Some(name), || {
                let message = format!(
                    "uses of the same memory by several cores are checked only up to here, because there are over {most} different uses"
                );
                (message, "no change is needed; with longer tiles, the check covers more".to_owned())
            });
        }
        // The accesses are sorted by their beginnings, and none is longer than the longest. So few
        // of them can overlap a block.
        let mut longest = BTreeMap::new();
        for (space, accesses) in &mut self.accesses {
            accesses.sort_by_key(|access| access.area.from);
            longest.insert(*space, longest_of(&*accesses));
        }
        for turn in sent {
            for touched in turn.touched.iter() {
                let (space, start) = touched.space;
                let Some(accesses) = self.accesses.get(&space) else { continue };
                for (from, to) in turn.blocks(touched, start) {
                    let near = near(accesses, |of| of.area.from, longest[&space], (from, to));
                    for access in near.iter().filter(|of| of.area.write || touched.write) {
                        let before = turn.knew(access);
                        let after = access.clock.turns(server(turn.client)) >= turn.number;
                        if !before
                            && !after
                            && let Some(byte) = access.area.meets(from, to)
                        {
                            say(ground, report, turn, touched, access, byte - start);
                        }
                    }
                }
            }
        }
        cache::look(self, ground, report, sent, &server, whole);
        race::look(&self.accesses, ground, report);
        let windows = defined::look(self, ground, report, sent, &server);
        if whole {
            wasted::look(self, ground, report, sent, server);
        }
        windows
    }
}

fn say(
    ground: &Ground<'_>,
    report: &mut Report,
    turn: &Sent,
    touched: &Touched,
    access: &Access,
    byte: u128,
) {
    let rule = if touched.write { "arrived" } else { "ready" };
    report.add(Severity::Error, rule, access.source, Some(access.name), || {
        let words = &ground.words;
        let shared = match access.area.base == touched.base {
            true => String::new(),
            false => format!(", as `{}`", words.base(access.area.base)),
        };
        let message = format!(
            "this {} element {} of `{}`{shared}, which {} {}, and nothing orders it with that turn, committed in line {}",
            if access.area.write { "writes" } else { "reads" },
            byte / u128::from(touched.size.max(1)),
            words.base(touched.base),
            turn.words(ground),
            if touched.write { "receives" } else { "sends" },
            turn.source.line
        );
        let unit = access.area.unit;
        let help = match touched.write {
            true => "wait for the turn first: on this core, or on another core that this core then synchronises with, by a barrier or a flag".into(),
            false if turn.clock.core() == access.core && access.area.write => format!(
                "before the commit, let the scalar unit wait for the write: call `k.wait_for(Pipe::Scalar, {})` or a barrier between cores; after it, wait for the turn before you write again",
                unit.pipe()
            ),
            false => "synchronise all writing cores before the commit, and wait for the turn before you write again".into(),
        };
        let (turn, line) = (turn.words(ground), access.source.line);
        let work = format!("{} of {} is done with line {line}", unit.name(), access.name);
        let (text, late) = match touched.write {
            true => (format!("{work} before the server runs {turn}"), Late::Server),
            false => {
                (format!("the server runs {turn} before {work}"), Late::line(access.name, line))
            }
        };
        (message, help, Witness { text, late })
    });
}
