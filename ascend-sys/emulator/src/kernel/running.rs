//! A running kernel. Its cores run in turn.

use super::arguments::Arguments;
use super::client;
use super::core::{Core, PIECE, Wait};
use super::interpreter::CoreProgress;
use super::local::LocalMemory;
use super::order::{Order, PendingUnits};
use super::posted;
use super::second_look::SecondLook;
use super::track::CoreTrack;
use super::verdict::Recorded;
use super::world::{KernelComm, World};
use crate::check;
use crate::collective::comm_error::{Cause, CommError, Origin};
use crate::message::Failure;
use crate::queue::Outcome;
use crate::stream::{Mark, Stream};
use crate::timeline;
use ascend_program::flow::{Launch, Walk};
use ascend_program::{Core as Kind, Program};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// The number of blocks that run at the same time. A kernel whose cores wait for each other can
/// have no more blocks.
pub(super) const RESIDENT: u32 = 64;

/// The number of polls for which a late instruction lets other ranks and the server continue first.
const HELD: u32 = 8;

/// A launch of a kernel.
#[derive(Clone)]
pub(super) struct Launched {
    pub(super) recorded: Arc<Recorded>,
    pub(super) arguments: Arguments,
    pub(super) blocks: u32,
    /// The time limit of the kernel's waits.
    pub(super) limit: Option<Duration>,
    /// The call that issued the launch, in checked mode.
    pub(super) issued: Option<String>,
}

impl Launched {
    /// Makes a launch into this stream. `call` is the name of the function that launches the
    /// kernel.
    pub(super) fn by_this_thread(
        recorded: Arc<Recorded>,
        arguments: Arguments,
        blocks: u32,
        limit: Option<Duration>,
        stream: &'static Stream,
        call: &'static str,
    ) -> Result<Launched, Failure> {
        let issued = check::will_be_done(stream, call)?;
        Ok(Launched { recorded, arguments, blocks, limit, issued })
    }
}

/// A running kernel.
pub(super) struct RunningKernel {
    /// The cores of the running blocks. For each block, the cube cores come before the vector
    /// cores. This field comes first, because it must be dropped before the fields to which the
    /// cores refer.
    pub(super) cores: Vec<Core>,
    pub(super) world: World,
    pub(super) launch: Arc<Launch>,
    /// The index of the core that has the next turn.
    pub(super) next: usize,
    /// The number of the first block that has not begun.
    pub(super) blocks_begun: u32,
    /// For each group, the server's count of actions before the current round of the cores.
    pub(super) seen: Vec<u64>,
    /// The number of rounds in which a core made progress.
    pub(super) progress: u64,
    /// The order of cores and units, if a seed chooses it.
    pub(super) order: Option<Order>,
    /// The number of rounds in which only late instructions could be done.
    pub(super) held: u32,
    /// The log and the record of the launch, if the block of devices records a timeline.
    pub(super) recorded: Option<Box<(Arc<timeline::Log>, ascend_timeline::Launch)>>,
    /// The input of the second check, if the launch is checked again after its end.
    pub(super) again: Option<Box<SecondLook>>,
}

impl RunningKernel {
    /// Collects the records of the cores that have run.
    fn collect(&mut self) {
        if let Some(again) = &mut self.again {
            again.collect(&mut self.cores);
        }
        let Some(recorded) = &mut self.recorded else { return };
        for core in &mut self.cores {
            let place = self.world.program.line(core.source());
            if let Some(mut track) = core.track.take() {
                track.end(&place);
                recorded.1.cores.extend(track.into_block());
            }
        }
    }

    /// Makes the cores of the next blocks.
    pub(super) fn begin_blocks(&mut self) {
        self.collect();
        self.cores.clear();
        self.next = 0;
        let program = Arc::as_ptr(&self.world.program);
        let launch = Arc::as_ptr(&self.launch);
        // SAFETY: `world` and `launch` keep both alive and never change them. They are dropped
        // after the cores, because fields are dropped in their order, and `cores` comes first.
        let (program, launch) = unsafe { (&*program, &*launch) };
        let begins = self.blocks_begun..launch.blocks.min(self.blocks_begun + RESIDENT);
        for block in begins.clone() {
            for kind in [Kind::Aic, Kind::Aiv] {
                let ratio = program.mix.ratio(kind);
                for index in block * ratio..(block + 1) * ratio {
                    let memory = LocalMemory::new(program, self.world.product);
                    let walk = Walk::new(program, launch, kind, index);
                    let mut core = Core::new(walk, program, memory);
                    if let Some(recorded) = &self.recorded {
                        let core_index = index - begins.start * ratio;
                        let track = CoreTrack::new(&recorded.0, kind, index, core_index, block);
                        core.track = Some(Box::new(track));
                    }
                    core.reads = self.again.is_some().then(Vec::new);
                    if let Some(order) = &mut self.order {
                        let units =
                            PendingUnits::new(order.fork(), (kind, index), program.queues.len());
                        core.units = Some(Box::new(units));
                    }
                    self.cores.push(core);
                }
            }
        }
        self.blocks_begun = begins.end;
    }

    /// Runs the cores for at most a piece of work.
    pub(super) fn go_on(&mut self, program: &Program) -> Result<Outcome, String> {
        let mut budget = PIECE;
        loop {
            for (group, seen) in self.world.groups.iter().zip(&mut self.seen) {
                if let Ok(group) = group {
                    let state = group.area.state();
                    *seen = state.moves;
                    if let Some(failure) = &state.failure {
                        return Err(format!("the server of the kernel has failed: {failure}"));
                    }
                }
            }
            let (mut moved, mut ended) = (false, 0);
            let count = self.cores.len();
            if let Some(order) = &mut self.order {
                self.next = order.below(count);
            }
            let first = self.next;
            for n in 0..count {
                let at = (first + n) % count;
                let core = &mut self.cores[at];
                // The order of the seed delays this core.
                if self.order.as_mut().is_some_and(|order| !core.ended && order.happens(3)) {
                    moved = true;
                    continue;
                }
                let progress = core.run(&mut self.world, &mut budget);
                match progress.map_err(|text| told(program, core, &text))? {
                    CoreProgress::Runs => moved = true,
                    CoreProgress::Ended => ended += 1,
                    CoreProgress::Waits => {}
                }
                if budget <= 0 {
                    // The core may be polling for something that another core has yet to do, so the
                    // next core gets the next turn.
                    self.next = (at + 1) % count;
                    if std::mem::take(&mut self.world.asked) {
                        self.drive();
                    }
                    return Ok(Outcome::Runnable);
                }
            }
            if ended == count {
                if self.blocks_begun < self.launch.blocks {
                    self.begin_blocks();
                    continue;
                }
                match self.servers_leave(program)? {
                    Outcome::Idle if self.is_left() => return Ok(Outcome::Idle),
                    Outcome::Idle => continue,
                    outcome => return Ok(outcome),
                }
            }
            if moved {
                self.progress += 1;
                continue;
            }
            match self.drive() {
                Outcome::Idle => continue,
                Outcome::Runnable => return Ok(Outcome::Runnable),
                Outcome::Parked | Outcome::Busy => {}
            }
            if self.cores.iter().any(|core| core.units.as_ref().is_some_and(|u| !u.is_empty())) {
                self.held += 1;
                // Other ranks and the server continue in the meantime.
                if !self.held.is_multiple_of(HELD) {
                    return Ok(Outcome::Runnable);
                }
                let from = self.order.as_mut().map_or(0, |order| order.below(count));
                for n in 0..count {
                    let core = &mut self.cores[(from + n) % count];
                    if core
                        .work(&mut self.world, true)
                        .map_err(|text| told(program, core, &text))?
                    {
                        break;
                    }
                }
                continue;
            }
            if !self.may_go_on() {
                return Err(format!("the kernel can never finish\n{}", self.states(program)));
            }
            return Ok(Outcome::Parked);
        }
    }

    /// Returns whether every server has ended its conversation with this kernel.
    fn is_left(&self) -> bool {
        let left = |group: &KernelComm| {
            !group.leaving || group.area.state().generation != group.generation
        };
        self.world.groups.iter().flatten().all(left)
    }

    /// Runs the servers that the kernel did not wait for. Called after all cores have ended,
    /// because the next kernel must find an empty area. Returns `Idle` if all servers have left, or
    /// if a server has done something.
    fn servers_leave(&mut self, program: &Program) -> Result<Outcome, String> {
        if self.is_left() {
            return Ok(Outcome::Idle);
        }
        let closing = |group: &KernelComm| {
            !group.leaving || group.area.state().queues.iter().all(|queue| queue.closing)
        };
        if !self.world.groups.iter().flatten().all(closing) {
            let states = self.states(program);
            return Err(format!(
                "the kernel has ended, but some core with queues has not called Finalize, so its \
                 server never ends; call Finalize on each core with queues\n{states}"
            ));
        }
        Ok(self.drive())
    }

    /// Runs the servers that the kernel waits for, unless another thread does. Returns `Idle` if a
    /// server has done something.
    fn drive(&mut self) -> Outcome {
        let mut outcome = Outcome::Parked;
        for (group, seen) in self.world.groups.iter().zip(&self.seen) {
            let Ok(group) = group else { continue };
            let mark = group.area.state().server.as_ref().map(|server| server.mark);
            if let Some(server) = mark.and_then(Mark::stream)
                && server.assist(4) == Outcome::Runnable
            {
                outcome = Outcome::Runnable;
            }
            if group.area.state().moves != *seen {
                return Outcome::Idle;
            }
        }
        outcome
    }

    /// Returns whether an action outside of the cores can end any of their waits.
    fn may_go_on(&mut self) -> bool {
        let (mut waits, mut places) = (Vec::new(), Vec::new());
        for core in &self.cores {
            match core.wait {
                Some(Wait::Turns { client, slot, finished }) => {
                    waits.push((client, slot, finished))
                }
                Some(Wait::Last { client }) if posted::is_used(&self.world) => {
                    places.push((client, None));
                }
                Some(Wait::Last { client }) => {
                    if let Some((slot, finished)) = core.clients[client].last {
                        waits.push((client, slot, finished));
                    }
                }
                Some(Wait::Place { client, place, .. }) => places.push((client, Some(place))),
                Some(Wait::Farewell { client, .. }) => {
                    if client::may_leave(&mut self.world, client) {
                        return true;
                    }
                }
                Some(Wait::Flag(_) | Wait::Units(_) | Wait::Barrier { .. }) | None => {}
            }
        }
        let world = &mut self.world;
        places.into_iter().any(|(client, place)| posted::may_end(world, client, place))
            || waits
                .into_iter()
                .any(|(client, slot, finished)| client::may_end(world, client, slot, finished))
    }

    /// Returns the task of a server that is running, or that is still queued, if there is one.
    pub(super) fn server(&self) -> Option<Mark> {
        self.world.groups.iter().flatten().find_map(|group| {
            let state = group.area.state();
            let queued = state.queued.iter().copied().find(|mark| !mark.is_complete());
            state.server.as_ref().map(|server| server.mark).or(queued)
        })
    }

    /// Returns an error text if the kernel needs a server that was never launched.
    pub(super) fn forgotten(&self) -> Option<String> {
        let needs = |core: &Core| {
            matches!(
                core.wait,
                Some(
                    Wait::Turns { .. }
                        | Wait::Place { .. }
                        | Wait::Last { .. }
                        | Wait::Farewell { .. }
                )
            )
        };
        if !self.cores.iter().any(needs) && self.is_left() {
            return None;
        }
        let missing = self.world.groups.iter().flatten().find(|group| {
            let state = group.area.state();
            group.used
                && state.server.is_none()
                && state.queued.iter().all(|mark| mark.is_complete())
        })?;
        Some(format!(
            "the server of rank {} was never launched: a kernel that communicates needs {} of {} on a second stream, with the same \
             context ({:#x}); communicator \"{}\"",
            missing.area.member.rank,
            super::binary::SERVER,
            super::binary::SERVER_LIBRARY,
            missing.area.context,
            missing.area.group
        ))
    }

    /// Describes the state of each core and each server, one line each. Cores in the same state
    /// share a line.
    pub(super) fn states(&self, program: &Program) -> String {
        let mut lines: Vec<(String, Vec<String>)> = Vec::new();
        for core in &self.cores {
            let mut text = core.describe(&self.world);
            if !core.ended && core.source().line == 0 {
                text = "has not begun".to_owned();
            } else if !core.ended {
                text = format!("{text}, in {}", program.line(core.source()));
            }
            match lines.iter_mut().find(|(other, _)| *other == text) {
                Some((_, cores)) => cores.push(core.name()),
                None => lines.push((text, vec![core.name()])),
            }
        }
        let mut all = String::new();
        for (text, cores) in lines {
            let who = match cores.as_slice() {
                [] => continue,
                [one] => one.clone(),
                [first, .., last] => format!("{} cores, {first} to {last}", cores.len()),
            };
            let _ = writeln!(all, "  {who}: {text}");
        }
        for group in self.world.groups.iter().flatten().filter(|group| group.used) {
            let state = group.area.state();
            let at = state.slots.iter().position(|slot| match &*slot.content {
                super::area::ClientMessage::Work(work) => slot.finished < work.total(),
                _ => slot.finished == 0,
            });
            let at = at.unwrap_or(state.slots.len());
            let is = if state.server.is_some() { "" } else { " (which does not run)" };
            let described = state.describe(at);
            let hub = &group.area.hub;
            let task = state.slots.get(at).and_then(|slot| slot.said);
            let waits = match task.filter(|task| !hub.is_compared(*task)) {
                Some(task) => format!("; it waits for {}", hub.missing(task)),
                None => String::new(),
            };
            let _ = writeln!(all, "  server of {}{is}: {described}{waits}", group.area.describe());
        }
        all.truncate(all.trim_end().len());
        all
    }

    /// Makes the kernel leave all of its conversations. `failure` is the reason, if it has failed.
    pub(super) fn leave(&mut self, failure: Option<&str>) {
        self.collect();
        if let Some((log, mut launch)) = self.recorded.take().map(|recorded| *recorded) {
            launch.to = log.now();
            launch.failure = failure.map(str::to_owned);
            log.launched(launch);
        }
        self.cores.clear();
        for group in self.world.groups.iter().flatten() {
            let area = &group.area;
            let unfinished = area.post(|state| {
                state.kernel = None;
                let Some(text) = failure else { return false };
                // A server that runs, or that is still queued, gets the reason.
                let awaited =
                    state.server.is_some() || state.queued.iter().any(|mark| !mark.is_complete());
                if state.generation == group.generation && awaited {
                    state.failure.get_or_insert_with(|| text.into());
                } else if state.generation == group.generation {
                    state.reset();
                }
                true
            });
            if unfinished
                && group.used
                && let Some(text) = failure
            {
                let rank = area.member.rank;
                let text = format!("the kernel of rank {rank} has failed: {text}");
                let error = CommError::new(Origin::Call, Cause::Gone, text);
                area.member.comm.fail(error);
            }
        }
    }

    /// Reports the accesses of the kernel to checked mode, as one operation.
    pub(super) fn tell_engine(&mut self, stream: &'static Stream, launched: &Launched) {
        let mut touches = self.world.touches();
        for group in self.world.groups.iter().flatten() {
            touches.append(&mut group.area.state().touches);
        }
        if !touches.is_empty() {
            let what = format!("kernel {}", launched.recorded.program.name);
            let issued = launched.issued.clone().unwrap_or_default();
            check::was_done(stream, issued, what, touches);
        }
    }
}

/// Returns the error text with its place and core.
fn told(program: &Program, core: &Core, text: &str) -> String {
    format!("{text}\n  --> {} on {}", program.line(core.source()), core.name())
}
