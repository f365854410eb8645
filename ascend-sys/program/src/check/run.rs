//! Runs all cores of a launch side by side, without their data.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::buffer::Touch;
use super::client::Clients;
use super::clock::{Clock, Ticks, Unit, Units};
use super::core_name::CoreName;
use super::finding::{Report, Severity};
use super::local::LocalMemory;
use super::member::{Member, State};
use super::space::Spaces;
use super::stop::{left_out, not_followed, stuck};
use super::sync::{self, Flags};
use super::traffic::Traffic;
use super::view::{Ground, View};
use super::widen::MayDo;
use super::windows::Windows;
use super::{CoreReads, Setting};
use super::{global, matmul, vector};
use crate::declared::{BlockId, Core};
use crate::flow::{Launch, Unknown, Walk};
use crate::program::Program;
use crate::show::Words;
use crate::step::{Hccl, Read, Source, Step, Sync};

/// The number of steps without an effect that count as one step.
const IDLE: u64 = 64;

/// The greatest number of blocks of a launch that the checker follows one by one. No chip has more
/// cube cores.
const MOST_BLOCKS: u32 = 256;

struct Run<'a> {
    ground: Ground<'a>,
    members: Vec<Member<'a>>,
    flags: Flags,
    clients: Clients,
    report: Report,
    traffic: Traffic,
    steps: u64,
    /// The number of steps left before the next loop is shortened.
    most: u64,
    /// The body of each loop that is shortened.
    short: Vec<BlockId>,
    /// Whether the run was too long to be followed to its end.
    is_cut: bool,
    /// The possible effects of branches and loops that depend on data, by their first block.
    may_do: BTreeMap<BlockId, MayDo>,
}

/// Returns the findings of a launch, and its accesses to windows.
pub(super) fn run<'a>(
    program: &'a Program,
    launch: &'a Launch,
    setting: &'a Setting,
) -> (Report, Windows) {
    let mut report = Report::default();
    if let Err((severity, message, help)) = possible(launch) {
        report.add(severity, "launch", Source::default(), None, || (message, help.to_owned()));
        return (report, Windows { open: true, ..Windows::default() });
    }
    let names: Vec<CoreName> = [Core::Aic, Core::Aiv]
        .into_iter()
        .flat_map(|kind| {
            (0..launch.blocks * program.mix.ratio(kind)).map(move |index| CoreName { kind, index })
        })
        .collect();
    let nothing: Rc<[Ticks]> = vec![Ticks::default(); names.len() + program.clients.len()].into();
    let member = |(at, name): (usize, &CoreName)| Member {
        name: *name,
        walk: Walk::new(program, launch, name.kind, name.index),
        memory: LocalMemory::new(program),
        units: Units::new(at, &nothing),
        state: State::Ready,
        reads: reads_of(setting, *name).iter(),
    };
    let mut run = Run {
        ground: Ground {
            program,
            launch,
            setting,
            words: Words::new(program),
            spaces: Spaces::new(program, setting),
        },
        members: names.iter().enumerate().map(member).collect(),
        flags: Flags::new(program.mix, launch.blocks),
        clients: Clients::new(program, &names),
        report,
        traffic: Traffic::new(setting.steps),
        steps: 0,
        most: setting.steps,
        short: Vec::new(),
        is_cut: false,
        may_do: BTreeMap::new(),
    };
    let windows = run.go();
    (run.report, windows)
}

/// Returns the numbers that a core has read in the launch, as far as they are known.
fn reads_of(setting: &Setting, core: CoreName) -> &[u64] {
    let of = |reads: &&CoreReads| (reads.kind, reads.index) == (core.kind, core.index);
    setting.reads.iter().find(of).map_or(&[], |reads| &reads.bits)
}

fn possible(launch: &Launch) -> Result<(), (Severity, String, &'static str)> {
    match launch.blocks {
        0 => Err((Severity::Error, "a launch of 0 blocks".to_owned(), "launch at least one block")),
        1..=MOST_BLOCKS => Ok(()),
        blocks @ ..=0xffff => Err((
            Severity::Note,
            format!(
                "a launch of {blocks} blocks is not checked: only launches of up to {MOST_BLOCKS} blocks are"
            ),
            "launch as many blocks as the chip has cores, and loop in the kernel",
        )),
        blocks => Err((
            Severity::Error,
            format!("a launch of {blocks} blocks, but a launch can have at most 65535"),
            "launch as many blocks as the chip has cores, and loop in the kernel",
        )),
    }
}

impl Run<'_> {
    fn go(&mut self) -> Windows {
        loop {
            let mut moved = false;
            for at in 0..self.members.len() {
                while self.can_go_on(at) {
                    moved = true;
                    self.step(at);
                    if self.steps > self.most && !self.shorten(at) {
                        self.too_long(at);
                        return self.end();
                    }
                }
            }
            moved |= self.meet(true) | self.meet(false);
            if !moved {
                break;
            }
        }
        self.end()
    }

    fn can_go_on(&mut self, at: usize) -> bool {
        let member = &mut self.members[at];
        match member.state {
            State::Ready => return true,
            State::Flag(flag) => {
                let Some(knows) = self.flags.take(at, flag) else { return false };
                member.units.control().learn(&knows);
            }
            State::Turn(turn) => {
                if !self.clients.done(self.ground.program, turn) {
                    return false;
                }
                let (client, number) = self.clients.number(self.ground.program, turn);
                self.clients.heard(client, number, member.units.control());
            }
            State::Barrier(_) | State::Ended | State::Lost => return false,
        }
        member.state = State::Ready;
        true
    }

    /// Lets all cores of a barrier continue if all of them have reached it. Returns whether they
    /// have.
    fn meet(&mut self, vector: bool) -> bool {
        let takes_part = |member: &Member<'_>| !vector || member.name.kind == Core::Aiv;
        let here = |member: &Member<'_>| {
            matches!(member.state, State::Barrier(of) if of == vector) || !takes_part(member)
        };
        if !self.members.iter().all(here) || !self.members.iter().any(takes_part) {
            return false;
        }
        let part = self.members.iter_mut().filter(|member| takes_part(member));
        let clocks: Vec<Clock> = part.map(|member| member.units.meet()).collect();
        let Some(joined) = Clock::join(&clocks) else { return false };
        for member in self.members.iter_mut().filter(|member| takes_part(member)) {
            member.units.control().learn(&joined);
            member.state = State::Ready;
        }
        true
    }

    /// Executes the next step of a core.
    fn step(&mut self, at: usize) {
        let Member { name, walk, memory, units, state, reads } = &mut self.members[at];
        let before = walk.passed();
        let next = walk.advance();
        self.steps += (walk.passed() - before).div_ceil(IDLE);
        let source = walk.source();
        let ground = &self.ground;
        // The number that a read gives its variable. It is known after the rules have been checked.
        let mut read = None;
        let (report, areas) = (&mut self.report, Vec::new());
        let unknown = Vec::new();
        let mut view = View { ground, walk, core: *name, source, report, units, areas, unknown };
        let node = match next {
            Ok(Some(node)) => node,
            Ok(None) => {
                *state = State::Ended;
                return;
            }
            Err(Unknown::Idle) => return,
            Err(why @ (Unknown::Data | Unknown::Short(_))) => {
                let blocks = walk.undecided();
                let may = blocks.first().map(|first| {
                    let of = || MayDo::of(ground.program, blocks);
                    &*self.may_do.entry(*first).or_insert_with(of)
                });
                let Some(may) = may.filter(|may| may.can_be_skipped()) else {
                    let (rule, message, help) = not_followed(&why, ground.setting.steps);
                    view.note(rule, message, help);
                    *state = State::Lost;
                    return;
                };
                let (rule, message) = left_out(&why, ground.setting.steps);
                let help = "nothing to change; the steps after it are checked, and checked mode checks this when it has run";
                let words = || (message, help.to_owned());
                view.report.add(Severity::Note, rule, source, Some(view.core), words);
                for base in &may.bases {
                    let space = view.space(*base).map(|(space, _)| space);
                    self.traffic.leave_open(space);
                }
                may.widen(memory, |variable| walk.set(variable, None));
                units.meet();
                // The list also has the reads of the skipped blocks, and their number is unknown.
                *reads = [].iter();
                return;
            }
            Err(Unknown::Fault(fault)) => {
                view.source = fault.source;
                view.fault(&fault);
                *state = State::Lost;
                return;
            }
        };
        match &node.step {
            Step::Read(variable, what) => {
                let given = reads.next().copied();
                let found = match what {
                    Read::Global(place) => {
                        let size = ground.program.variables[variable.0 as usize].what.size();
                        global::element(&mut view, place, size.into(), false);
                        None
                    }
                    Read::Local(local) => {
                        memory.element(&mut view, local, Touch::Read);
                        None
                    }
                    Read::Finished(task) => {
                        // A turn that a query found done is as good as a wait for it.
                        if let Some(turn) = self.clients.query(&mut view, at, *task, given) {
                            *state = State::Turn(turn);
                        }
                        None
                    }
                    Read::Queues(client) => self.clients.queues(&mut view, at, *client),
                    Read::Slice(task, received) => {
                        let (slice, turn) = self.clients.slice(&mut view, at, *task, *received);
                        if let Some(turn) = turn {
                            *state = State::Turn(turn);
                        }
                        slice
                    }
                };
                read = Some((*variable, found.or(given)));
            }
            Step::Buffer(buffer) => memory.step(&mut view, buffer),
            Step::Copy(copy) => global::copy(&mut view, memory, copy),
            Step::Vector(vector) => vector::look(&mut view, memory, vector),
            Step::Matmul(multiply) => matmul::look(&mut view, multiply),
            Step::Sync(Sync::Raise { mode, pipe, flag }) => {
                self.flags.raise(&mut view, *mode, *pipe, *flag);
            }
            Step::Sync(Sync::Await { flag }) => {
                if sync::synchronises(&mut view, "flags between cores") {
                    *state = State::Flag(*flag);
                }
            }
            Step::Sync(Sync::All { vector }) => {
                if sync::barrier(&mut view, *vector) {
                    *state = State::Barrier(*vector);
                }
            }
            Step::Sync(inside) => sync::units(&mut view, inside),
            Step::Hccl(call) => {
                *state = hccl(&mut self.clients, &mut view, at, call);
            }
            // The walk itself executes these steps.
            Step::Comment(_)
            | Step::Name(_)
            | Step::Set(..)
            | Step::Loop { .. }
            | Step::If { .. }
            | Step::On(..) => {}
        }
        for base in std::mem::take(&mut view.unknown) {
            self.traffic.leave_open(view.space(base).map(|(space, _)| space));
        }
        for area in std::mem::take(&mut view.areas) {
            self.traffic.add(at, *name, units, source, area);
        }
        if matches!(node.step, Step::Matmul(_)) {
            // The result of a product is available when its operands have been read.
            let read = units.release(Unit::In);
            units.acquire(Unit::Fix, &read);
        }
        if let Some((variable, found)) = read {
            walk.set(variable, found);
        }
    }

    /// Shortens the longest loop that a core is in, on all cores. Returns false if no loop is left
    /// that can be shortened, or if even the short loops took too long.
    fn shorten(&mut self, at: usize) -> bool {
        let Some(body) = self.members[at].walk.longest_loop() else { return false };
        let steps = self.ground.setting.steps;
        if self.short.contains(&body) || self.most >= steps.saturating_mul(2) {
            return false;
        }
        self.most += steps / 16;
        self.short.push(body);
        self.members.iter_mut().for_each(|member| member.walk.shorten(body));
        true
    }

    fn too_long(&mut self, at: usize) {
        self.is_cut = true;
        let Member { name, walk, .. } = &self.members[at];
        let steps = self.ground.setting.steps;
        self.report.add(Severity::Note, "long", walk.source(), Some(*name), || {
            let message =
                format!("the check ends here, because the kernel takes more than {steps} steps");
            (message, "no change is needed; with longer tiles, the check covers more".to_owned())
        });
    }

    /// Ends the run after all cores have stopped. Returns the accesses to windows.
    fn end(&mut self) -> Windows {
        // A core that was lost may have done anything that other cores lack.
        let whole = !self.is_cut && !self.members.iter().any(|of| matches!(of.state, State::Lost));
        if !whole || self.ends_well() {
            let Run { ground, clients, report, traffic, .. } = self;
            let server = |client| clients.server(client);
            let windows = traffic.look(ground, report, clients.all_sent(), server, whole);
            return Windows { open: windows.open || !whole, ..windows };
        }
        Windows { open: true, ..Windows::default() }
    }

    /// Returns whether all cores have reached their end and no raise of a flag was rejected.
    /// Reports the waits that never end, or else everything that is still open.
    fn ends_well(&mut self) -> bool {
        let Run { ground, members, flags, clients, report, .. } = self;
        let mut hangs = false;
        for at in 0..members.len() {
            let words = stuck(ground, members, flags, clients, at);
            let Member { name, walk, .. } = &members[at];
            if let Some((rule, message, help)) = words {
                hangs = true;
                let source = walk.source();
                report.add(Severity::Error, rule, source, Some(*name), || (message, help.into()));
            }
        }
        if hangs || flags.refused() {
            return false;
        }
        let strict = !ground.setting.tolerant;
        for (flag, source, core, count) in flags.left().into_iter().filter(|_| strict) {
            let name = members[core].name;
            report.add(Severity::Error, "unawaited", source, Some(name), || {
                let message =
                    format!("flag {flag} is raised, but no core awaits {count} of the raises");
                (message, "await a flag as often as it is raised".to_owned())
            });
        }
        for member in members.iter().filter(|_| strict) {
            for (queue, count, source) in member.memory.taken() {
                report.add(Severity::Error, "freed", source, Some(member.name), || {
                    let name = ground.words.queue(queue);
                    let message =
                        format!("not freed at the end: {count} of the buffers of `{name}`");
                    (message, "free every tensor that was allocated".to_owned())
                });
            }
        }
        clients.end(
            |core, source, look| {
                let Member { name, walk, units, .. } = &mut members[core];
                let ground = &*ground;
                let (report, areas) = (&mut *report, Vec::new());
                let unknown = Vec::new();
                look(&mut View {
                    ground,
                    walk,
                    core: *name,
                    source,
                    report,
                    units,
                    areas,
                    unknown,
                });
            },
            ground.program,
        );
        true
    }
}

/// Checks a call of a client. Returns the state of the core after the call.
fn hccl(clients: &mut Clients, view: &mut View<'_, '_>, at: usize, call: &Hccl) -> State {
    let mut known = true;
    match call {
        Hccl::Init(client, offset) => clients.init(view, at, *client, *offset),
        Hccl::Configure(client, offset, _) => clients.configure(view, at, *client, *offset),
        Hccl::Prepare { task, operation, repeat, commit } => {
            known = match view.count(*repeat) {
                Some(repeat) => clients.prepare(view, at, *task, operation, (repeat, *commit)),
                // Everything that follows depends on the number of turns, so the core is lost
                // without it.
                None => false,
            };
        }
        Hccl::Commit(task) => clients.commit(view, at, *task),
        Hccl::Wait(task) => {
            if let Some(turn) = clients.wait(view, at, *task) {
                return State::Turn(turn);
            }
        }
        Hccl::After(client, task) => known = clients.after(view, at, *client, *task),
        Hccl::Barrier(client, queue) => {
            let queue = view.count(*queue);
            clients.barrier(view, at, *client, queue);
        }
        Hccl::Finalize(client, waits) => clients.finalize(view, at, *client, *waits),
    }
    if known { State::Ready } else { State::Lost }
}
