//! The interpreter of a core. It runs until the core has to wait, and continues when the wait is
//! over.

use super::client::{self, AwaitedTurn};
use super::core::{Core, Wait, unknown};
use super::posted;
use super::world::World;
use ascend_program::flow::Unknown;

/// The cost of one step, as a number of moved bytes.
const STEP: i64 = 64;

/// The result of running a core for a while.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CoreProgress {
    /// The core made progress, perhaps to its end. Other cores may wait for its last step.
    Runs,
    Waits,
    /// The core had ended earlier.
    Ended,
}

impl Core {
    /// Runs until the core waits, ends, or has used up `budget`.
    pub(super) fn run(
        &mut self,
        world: &mut World,
        budget: &mut i64,
    ) -> Result<CoreProgress, String> {
        if self.ended {
            return Ok(CoreProgress::Ended);
        }
        if self.track.is_none() {
            return self.go_on(world, budget);
        }
        let here = world.program.line(self.source());
        if let Some(track) = &mut self.track {
            track.enter(here);
        }
        let progress = self.go_on(world, budget);
        let there = world.program.line(self.source());
        if let Some(track) = &mut self.track {
            track.leave();
            if self.ended {
                track.end(&there);
            }
        }
        progress
    }

    fn go_on(&mut self, world: &mut World, budget: &mut i64) -> Result<CoreProgress, String> {
        let mut moved = false;
        loop {
            if let Some(wait) = self.wait {
                if !self.is_over(wait, world)? {
                    if self.work(world, false)? {
                        moved = true;
                        *budget -= STEP;
                        if *budget > 0 {
                            continue;
                        }
                    }
                    return Ok(if moved { CoreProgress::Runs } else { CoreProgress::Waits });
                }
                self.wait = None;
                if let Some(track) = &mut self.track {
                    track.goes_on();
                }
                moved = true;
                // The end of a wait may begin the next wait.
                continue;
            }
            if *budget <= 0 {
                return Ok(CoreProgress::Runs);
            }
            moved = true;
            if let Some(product) = &mut self.product {
                if !product.go_on()? {
                    *budget = 0;
                    return Ok(CoreProgress::Runs);
                }
                self.product = None;
                if let Some(track) = &mut self.track {
                    track.multiplied();
                }
            }
            let works = self.units.as_mut().is_some_and(|units| units.prefers_work());
            if works && self.work(world, false)? {
                *budget -= STEP;
                continue;
            }
            let postponed = self.postponed.take();
            let node = match postponed.map_or_else(|| self.walk.advance(), |node| Ok(Some(node))) {
                Ok(Some(node)) => node,
                Ok(None) => {
                    if let Some(units) = self.units.as_ref().filter(|units| !units.is_empty()) {
                        self.wait = Some(Wait::Units(units.all()));
                        continue;
                    }
                    self.ended = true;
                    return Ok(CoreProgress::Runs);
                }
                // The computation is long, so other cores get their turns.
                Err(Unknown::Idle) => {
                    *budget = 0;
                    return Ok(CoreProgress::Runs);
                }
                Err(why) => return Err(unknown(why)),
            };
            *budget -= STEP;
            self.step(node, world, budget)?;
            if self.wait.is_some() && self.track.is_some() {
                self.track_wait(world);
            }
        }
    }

    /// Does one pending instruction of the core's units that is due, or, if `forced`, also one that
    /// is delayed. Returns false if there is none.
    pub(super) fn work(&mut self, world: &mut World, forced: bool) -> Result<bool, String> {
        let Some(units) = &mut self.units else { return Ok(false) };
        match units.next(forced) {
            None => Ok(false),
            Some((source, effect)) => {
                world.source = source;
                let done = effect(&mut self.memory, world);
                let line = |text| format!("{text}\n  --> given in {}", world.program.line(source));
                done.map_err(line).map(|()| true)
            }
        }
    }

    /// Records the wait that begins now.
    #[cold]
    fn track_wait(&mut self, world: &World) {
        let what = match self.wait {
            None => return,
            Some(Wait::Flag(flag)) => format!("flag {flag}"),
            Some(Wait::Units(_)) => "units".to_owned(),
            Some(Wait::Barrier { .. }) => "SyncAll".to_owned(),
            Some(Wait::Turns { client, slot, finished }) => {
                self.turn_name(client, slot, finished, world)
            }
            Some(Wait::Place { client, slot, place }) => {
                format!("place {place} for {}", self.turn_name(client, slot, 1, world))
            }
            Some(Wait::Last { .. } | Wait::Farewell { .. }) => "Finalize".to_owned(),
        };
        let place = world.program.line(self.source());
        if let Some(track) = &mut self.track {
            track.waits(what, place);
        }
    }

    /// Returns whether a wait is over. If so, also does the work that belongs to its end.
    fn is_over(&mut self, wait: Wait, world: &mut World) -> Result<bool, String> {
        match wait {
            Wait::Flag(flag) => Ok(world.flags.await_one(self.kind(), self.index(), flag)),
            Wait::Units(counts) => {
                Ok(self.units.as_ref().is_none_or(|units| units.are_done(&counts)))
            }
            Wait::Barrier { vector, number } => Ok(world.flags.is_open(vector, number)),
            Wait::Turns { client, slot, finished } => {
                client::turns_are_done(world, client, slot, finished)
            }
            Wait::Place { client, slot, place } => {
                posted::is_over(self, client, slot, place, world)
            }
            Wait::Last { client } => client::finish(self, world, client),
            Wait::Farewell { client, generation } => {
                Ok(client::server_has_left(world, client, generation))
            }
        }
    }

    /// Describes the state of the core, for error texts: its wait, or that it runs or has ended.
    pub(super) fn describe(&self, world: &World) -> String {
        let Some(wait) = self.wait else {
            return if self.ended { "has ended".into() } else { "runs".into() };
        };
        match wait {
            Wait::Flag(flag) => format!("waits for flag {flag}"),
            Wait::Units(_) => "waits for its units".into(),
            Wait::Barrier { vector, number } => {
                let form = if vector { "SyncAll<true>" } else { "SyncAll<false>" };
                let missing = world.flags.missing(vector, number);
                let named = missing.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
                let more = missing.len().saturating_sub(4);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("waits in {form} for {named}{more}")
            }
            Wait::Turns { client, slot, finished } => {
                format!("waits in Wait for {}", AwaitedTurn { world, client, slot, finished })
            }
            Wait::Place { client, slot, place } => {
                let held = AwaitedTurn { world, client, slot, finished: 0 };
                format!("waits in Wait for place {place} of the engine, which is meant for {held}")
            }
            Wait::Last { client } => match self.clients[client].last {
                Some((slot, finished)) => {
                    format!(
                        "waits in Finalize for {}",
                        AwaitedTurn { world, client, slot, finished }
                    )
                }
                None => "waits in Finalize".into(),
            },
            Wait::Farewell { .. } => "waits in Finalize for the server to leave".into(),
        }
    }
}
