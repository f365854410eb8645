//! Checks HCCL clients: the calls on each core's object, and the order in which the server works.
//!
//! Every core has an object of its own. The object of one core, the working core, writes messages
//! and commits for all cores; the other objects only count. The server processes tasks in the order
//! in which the working core prepared them. So a turn is done when all earlier tasks are done and
//! the turn itself is committed.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Product;
use super::call::{self, Call};
use super::clock::{Clock, Unit};
use super::core_name::CoreName;
use super::one_sided;
use super::operation;
use super::traffic::{Sent, Touched};
use super::view::{View, many};
use crate::declared::*;
use crate::layout::{Item, Layout, Number, Role};
use crate::program::Program;
use crate::step::{Operation, Source};
use begun::Begun;

mod begun;
mod sent;
mod turns;

/// The greatest number of prepares and group syncs of a client together. The last message slot is
/// for `Finalize`.
const MOST_PREPARES: u32 = 63;

/// The greatest number of operations for which A3 has resources.
const MOST_MEMBERS: u64 = 3;

/// The algorithm that can divide an AlltoAllV into steps.
const FINE: &[u8] = b"AlltoAll=level0:fullmesh;level1:pairwise\0";

/// The client objects of all cores.
pub(super) struct Clients {
    /// The objects, by client and then by core.
    own: Vec<Vec<Own>>,
    /// The number of tasks that each client's server has finished.
    finished: Vec<usize>,
    /// The turns that have been committed.
    sent: Vec<Sent>,
    /// The committed turns of each client, by their numbers.
    committed: Vec<BTreeMap<u32, Begun>>,
    cores: Vec<CoreName>,
}

/// The client object of one core.
#[derive(Debug, Clone, Default)]
struct Own {
    /// The offset of the `Mc2InitTiling` of the client.
    tiling: Option<u64>,
    /// The number of queues of BatchWrite. If there are queues, every core works for itself and
    /// waits return at once.
    queues: u64,
    /// The number of cores that have queues.
    queue_cores: u64,
    /// The configured operations, each with the offset of its `Mc2CcTiling`.
    configured: BTreeMap<u32, u64>,
    handles: Vec<Handle>,
    syncs: u32,
    /// The tasks that must be finished before the next task.
    after: Vec<(ClientId, usize)>,
    /// The current handle of each task.
    current: BTreeMap<TaskId, usize>,
    barriers: BTreeSet<u64>,
    /// The last wait: its tick and its source.
    waited: Option<(u32, Source)>,
    finalized: Option<Finalized>,
    /// Whether a call came after the end. Tasks that are still open are then not reported
    /// separately.
    misused: bool,
}

#[derive(Debug, Clone)]
struct Finalized {
    source: Source,
    /// For each other core, the tick up to which this core has knowledge of its work.
    knows: Vec<u32>,
}

/// One prepared task.
#[derive(Debug, Clone)]
struct Handle {
    task: TaskId,
    source: Source,
    command: u32,
    turns: u64,
    /// The number of turns, or of steps if an AlltoAllV is divided into steps.
    steps: u64,
    /// The number of steps of one Commit or Wait.
    step: u64,
    committed: u64,
    waited: u64,
    /// The number of blocks that `Iterate` has returned. `side` has true if they were blocks to
    /// receive, and false if they were blocks to send.
    iterated: u64,
    side: Option<bool>,
    /// The tasks in other groups that must be finished before this task.
    after: Vec<(ClientId, usize)>,
    touched: Rc<[Touched]>,
}

impl Handle {
    /// Returns the progress of a task in words, such as `2 of 4 turns`.
    fn share(&self, steps: u64) -> String {
        let what = if self.steps == self.turns { "turns" } else { "steps" };
        format!("{steps} of {} {what}", self.steps)
    }
}

/// A turn that a core waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    client: ClientId,
    handle: usize,
    steps: u64,
    pub task: TaskId,
}

impl Clients {
    pub(super) fn new(program: &Program, cores: &[CoreName]) -> Self {
        Clients {
            own: vec![vec![Own::default(); cores.len()]; program.clients.len()],
            finished: vec![0; program.clients.len()],
            sent: Vec::new(),
            committed: program.clients.iter().map(|_| BTreeMap::new()).collect(),
            cores: cores.to_vec(),
        }
    }

    fn own(&mut self, client: ClientId, core: usize) -> &mut Own {
        &mut self.own[client.0 as usize][core]
    }

    /// Returns whether the object of a core writes messages.
    fn works(&self, program: &Program, client: ClientId, core: usize) -> bool {
        let name = self.cores[core];
        match program.clients[client.0 as usize].what.core {
            Some((kind, block)) => name.kind == kind && name.index == block,
            None => name.index == 0 || self.own[client.0 as usize][core].queues > 0,
        }
    }

    /// Returns the core whose messages the server reads.
    fn worker(&self, program: &Program, client: ClientId) -> Option<usize> {
        let works = |core: &usize| self.works(program, client, *core);
        let mut cores = (0..self.cores.len()).filter(works);
        let has = |core: &usize| !self.own[client.0 as usize][*core].handles.is_empty();
        cores.clone().find(has).or_else(|| cores.next())
    }

    /// Returns whether the server has finished this turn of a core's handle.
    pub(super) fn done(&mut self, program: &Program, turn: Turn) -> bool {
        self.serve(program);
        let client = turn.client.0 as usize;
        match turn.handle.cmp(&self.finished[client]) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.worker(program, turn.client).is_some_and(|worker| {
                let handle = self.own[client][worker].handles.get(turn.handle);
                handle.is_some_and(|of| of.committed >= turn.steps && self.open(of).is_none())
            }),
        }
    }

    /// Lets the servers finish as many tasks as they can.
    fn serve(&mut self, program: &Program) {
        let mut moved = true;
        while moved {
            moved = false;
            for client in 0..self.own.len() {
                let Some(worker) = self.worker(program, ClientId(client as u32)) else { continue };
                let next = self.own[client][worker].handles.get(self.finished[client]);
                if next.is_some_and(|of| of.committed >= of.steps && self.open(of).is_none()) {
                    self.finished[client] += 1;
                    moved = true;
                }
            }
        }
    }

    /// Returns the client of an unfinished task in another group that must be finished before this
    /// task.
    fn open(&self, handle: &Handle) -> Option<ClientId> {
        let open = |(client, at): &&(ClientId, usize)| self.finished[client.0 as usize] <= *at;
        handle.after.iter().find(open).map(|(client, _)| *client)
    }

    /// Returns the task that holds up a turn, and its progress in words. It is the first task that
    /// is not fully committed.
    pub(super) fn holds_up(&self, program: &Program, turn: Turn) -> Option<(TaskId, String)> {
        let mut client = turn.client;
        // If groups come after one another in a cycle, an unlimited loop would never end.
        for _ in 0..=self.own.len() {
            let handles = &self.own[client.0 as usize][self.worker(program, client)?].handles;
            let handle = handles.get(self.finished[client.0 as usize])?;
            match self.open(handle) {
                Some(other) => client = other,
                None => return Some((handle.task, handle.share(handle.committed))),
            }
        }
        None
    }

    /// Checks an `InitV2`.
    pub(super) fn init(&mut self, view: &mut View<'_, '_>, core: usize, client: ClientId, at: u32) {
        let program = view.ground.program;
        let name = view.words().client(client);
        if self.own(client, core).tiling.is_some() {
            let message = format!("`{name}` is initialised a second time");
            view.error("init", message, "initialise it once, outside of loops");
        }
        let group = program.clients[client.0 as usize].what.group;
        let same = |(at, other): (usize, &Declared<Client>)| {
            at != client.0 as usize
                && other.what.group == group
                && self.own[at][core].tiling.is_some()
        };
        if program.clients.iter().enumerate().any(same) {
            let message = format!("`{name}` is the second client of the context of group {group}");
            view.error("group", message, "use one client for each communicator");
        }
        let most = if view.product() == Product::A2 { 1 } else { 2 };
        if program.groups > most && view.strict() {
            let message = format!(
                "this kernel takes {}, but a kernel on {} can take at most {most}",
                many(program.groups.into(), "communicator"),
                view.product().name()
            );
            view.error("product", message, "use fewer communicators in one kernel");
        }
        if let Some((rank, ranks)) = view.group(client)
            && rank >= ranks
        {
            let message = format!("rank {rank} of {ranks} ranks");
            view.error(
                "launch",
                message,
                "use a rank below that number, because ranks are counted from 0",
            );
        }
        if let Some((kind, block)) = program.clients[client.0 as usize].what.core
            && !self.cores.contains(&CoreName { kind, index: block })
        {
            let message = format!(
                "`{name}` names {} as the core that writes its messages, but this launch has no such core",
                CoreName { kind, index: block }
            );
            view.error(
                "prepare-core",
                message,
                "name a core that every launch has, such as block 0",
            );
        }
        self.older_calls(view, client);
        let found = program.tiling.as_ref().and_then(|layout| role(layout, at, 0));
        if found != Some(Role::InitTiling) {
            let message = format!("there is no Mc2InitTiling at byte {at} of the tiling struct");
            view.error("init", message, "make an Mc2InitTiling the first field of the struct");
        } else if let Some(version) = view.tiling(at.into(), Number::U32)
            && version != 100
        {
            let message =
                format!("the version in the Mc2InitTiling is {version}, but it must be 100");
            view.error("init", message, "have the host fill it");
        }
        let members = view.tiling(u64::from(at) + 4, Number::U32).unwrap_or(0);
        if members > MOST_MEMBERS {
            let message = format!(
                "{members} Mc2CcTiling in the tiling, but a launch takes at most {MOST_MEMBERS}"
            );
            view.error("product", message, "have the host fill fewer, or use two kernels");
        }
        let queues = view.tiling(u64::from(at) + 42, Number::U16).unwrap_or(0);
        let cores = view.tiling(u64::from(at) + 44, Number::U16).unwrap_or(0);
        if queues * cores.max(1) > 40 {
            let message = format!("{queues} queues on {cores} cores, but A3 has 40 in all");
            view.error("product", message, "have the host set fewer queues or cores");
        }
        let own = self.own(client, core);
        (own.tiling, own.queues, own.queue_cores) = (Some(at.into()), queues, cores);
    }

    /// Checks `Init` and `SetCcTiling`, which are deprecated.
    fn older_calls(&self, view: &mut View<'_, '_>, client: ClientId) {
        let clients = &view.ground.program.clients;
        let by_address = clients[client.0 as usize].what.by_address;
        if by_address && view.product() == Product::Ascend950 && view.strict() {
            view.lacks("Init and SetCcTiling", "use InitV2 and SetCcTilingV2");
        }
        if by_address && let Some(other) = clients.iter().find(|other| !other.what.by_address) {
            let message = format!(
                "`{}` is initialised with Init, but `{}` with InitV2",
                view.words().client(client),
                other.name
            );
            view.error("init", message, "use the same call for all clients, InitV2 if you can");
        }
    }

    /// Checks a `SetCcTilingV2`.
    pub(super) fn configure(
        &mut self,
        view: &mut View<'_, '_>,
        core: usize,
        client: ClientId,
        offset: u32,
    ) {
        let Some(init) = self.ready(view, core, client) else { return };
        let at = init + u64::from(offset);
        let layout = view.ground.program.tiling.as_ref();
        let found = layout.zip(u32::try_from(at).ok()).and_then(|(layout, at)| role(layout, at, 0));
        if found != Some(Role::CcTiling) {
            let message = format!("there is no Mc2CcTiling at byte {at} of the tiling struct");
            view.error("configure", message, "configure it with a field of that type");
            return;
        }
        let Some(command) = view.tiling(at + 272, Number::U32) else { return };
        let count = view.tiling(init + 4, Number::U32).unwrap_or(0).min(8);
        let known = (0..count)
            .any(|n| view.tiling(init + 8 + 4 * n, Number::U32) == Some(u64::from(offset)));
        if command == 0 || !known {
            let message = match command {
                0 => format!("the Mc2CcTiling at byte {at} names no operation"),
                _ => format!("the Mc2InitTiling does not count the Mc2CcTiling at byte {at}"),
            };
            view.error("configure", message, "have the host fill it");
            return;
        }
        self.own(client, core).configured.insert(command as u32, at);
    }

    /// Returns the offset of the tiling of a client that is initialised and not finalised.
    /// Otherwise reports the failure and returns `None`.
    fn ready(&mut self, view: &mut View<'_, '_>, core: usize, client: ClientId) -> Option<u64> {
        let own = self.own(client, core);
        let (tiling, finalized) = (own.tiling, own.finalized.is_some());
        let name = view.words().client(client);
        if tiling.is_none() {
            let message = format!("`{name}` is used before it is initialised on this core");
            view.error("init", message, "initialise it first");
        } else if finalized {
            self.own(client, core).misused = true;
            let message = format!("`{name}` is used after it was finalised");
            view.error("finalize", message, "finalise it last");
            return None;
        }
        tiling
    }

    /// Checks a prepare call. Returns whether the state of the object is known afterwards.
    pub(super) fn prepare(
        &mut self,
        view: &mut View<'_, '_>,
        core: usize,
        task: TaskId,
        operation: &Operation,
        (repeat, commit): (u64, bool),
    ) -> bool {
        let program = view.ground.program;
        let client = program.tasks[task.0 as usize].what;
        if self.ready(view, core, client).is_none() {
            return true;
        }
        if !self.slot(view, core, client) {
            return false;
        }
        self.who_prepares(view, core, client);
        let command = operation.command();
        let own = self.own(client, core);
        one_sided::queue(view, operation, own.queues, own.queue_cores);
        let tiling = own.configured.get(&command).copied();
        let configured = own.configured.keys().map(|of| call::name(*of)).collect::<Vec<_>>();
        if tiling.is_none() {
            let message = format!(
                "`{}` prepares {}, but is configured for {}",
                view.words().client(client),
                call::name(command),
                if configured.is_empty() { "nothing".to_owned() } else { configured.join(", ") }
            );
            view.error("configure", message, "configure it with an Mc2CcTiling of that operation");
        }
        let turns = self.turns(view, repeat, command);
        let call = Call { task, client, operation, repeat: turns, tiling };
        let touched = operation::look(view, call).into();
        let (steps, step) = match tiling {
            Some(tiling) if command == 8 => self.fine(view, client, tiling, turns),
            _ => (turns, 1),
        };
        self.lost(view, core, client, task);
        let own = self.own(client, core);
        // A batch is committed at once, with or without `commit`.
        let committed = if commit || command == 18 { steps } else { 0 };
        let at = own.handles.len();
        own.current.insert(task, at);
        let after = std::mem::take(&mut own.after);
        own.handles.push(Handle {
            task,
            source: view.source,
            command,
            turns,
            steps,
            step,
            committed,
            waited: 0,
            iterated: 0,
            side: None,
            after,
            touched,
        });
        self.sent(view, core, (client, at), 0);
        true
    }

    /// Takes a slot for one more message and returns whether there was one. Without a slot, the
    /// hardware would overwrite other data.
    fn slot(&mut self, view: &mut View<'_, '_>, core: usize, client: ClientId) -> bool {
        let own = self.own(client, core);
        let slots = own.handles.len() as u32 + own.syncs + 1;
        if slots > MOST_PREPARES {
            let message = format!(
                "this is prepare or group sync number {slots} of `{}`, but a client takes at most {MOST_PREPARES}",
                view.words().client(client)
            );
            view.error("prepares", message, "prepare more turns at once, with repeat");
        }
        slots <= MOST_PREPARES
    }

    /// Checks which cores prepare. If the client names no core, only cores of one kind may prepare.
    fn who_prepares(&mut self, view: &mut View<'_, '_>, core: usize, client: ClientId) {
        if view.ground.program.clients[client.0 as usize].what.core.is_some() {
            return;
        }
        let here = self.cores[core];
        let mut others = self.cores.iter().zip(&self.own[client.0 as usize]);
        let other = others.find(|(of, own)| of.kind != here.kind && !own.handles.is_empty());
        if let Some((other, _)) = other {
            let name = view.words().client(client);
            let message = format!("`{name}` prepares on {here} and on {other}");
            let help = "prepare on cores of one kind, or name the core of the client";
            view.error("prepare-core", message, help);
        }
    }

    /// Returns the number of turns of a call, even if the call is wrong.
    fn turns(&self, view: &mut View<'_, '_>, repeat: u64, command: u32) -> u64 {
        let most = if matches!(command, 18 | 20) { 1 } else { 255 };
        if repeat == 0 {
            let message = "a repeat of 0: nothing is prepared and there is no handle".to_owned();
            view.error(
                "repeat",
                message,
                "if there is nothing to do, leave the call out on all ranks",
            );
        } else if repeat > most {
            let message =
                format!("a repeat of {repeat}, but {} takes at most {most}", call::name(command));
            view.error("repeat", message, "use longer tiles, or prepare a second time");
        }
        repeat.min(255)
    }

    /// Returns the number of steps of an AlltoAllV, and the number of steps of one Commit or Wait.
    fn fine(
        &self,
        view: &mut View<'_, '_>,
        client: ClientId,
        tiling: u64,
        turns: u64,
    ) -> (u64, u64) {
        let Some((_, ranks)) = view.group(client) else { return (turns, 1) };
        let step = view.tiling(tiling + 2, Number::U8).unwrap_or(0);
        let mut letters = (tiling + 144..).zip(FINE);
        let fine = letters.all(|(at, c)| view.tiling(at, Number::U8) == Some(u64::from(*c)));
        if view.product() != Product::A3 || step == 0 || !fine || ranks == 0 {
            return (turns, 1);
        }
        let ranks = u64::from(ranks);
        if step > ranks || ranks % step != 0 {
            let message = format!("steps of {step} among {ranks} ranks");
            view.error("iterate", message, "use a step size that divides the number of ranks");
            return (turns * ranks, 1);
        }
        (turns * ranks, step)
    }
}

/// Returns the role of the struct that begins at this byte of a struct, or of a struct within it.
fn role(layout: &Layout, at: u32, depth: u32) -> Option<Role> {
    layout.fields.iter().find_map(|field| {
        let Item::Struct(inner) = &field.item else { return None };
        let count = field.lengths.iter().fold(1_u32, |all, length| all.saturating_mul(*length));
        let from = at.checked_sub(field.offset)?;
        if inner.size == 0 || from / inner.size >= count {
            return None;
        }
        match from % inner.size {
            0 if inner.role != Role::User => Some(inner.role),
            inside if depth < 16 => role(inner, inside, depth + 1),
            _ => None,
        }
    })
}
