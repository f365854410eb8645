//! The HCCL client of one core: the effects of its calls, and the messages that it writes to the
//! server.
//!
//! Every core that calls a client keeps its own [records](super::books). Only the working core
//! writes messages and counters.

use super::area::{ClientMessage, MOST_TASKS, MessageSlot};
use super::books::{Client, PreparedTask};
use super::core::{Core, Wait};
use super::posted;
use super::queues;
use super::world::World;
use crate::profile::Product;
use ascend_program::layout::Number;
use ascend_program::{ClientId, Core as CoreKind, TaskId};
use std::sync::Arc;

pub(super) fn init(
    core: &mut Core,
    id: ClientId,
    offset: u64,
    world: &mut World,
) -> Result<(), String> {
    let client = id.0 as usize;
    let name = world.client_name(client);
    if core.clients[client].init.is_some() {
        return Err(format!("{name} is initialised already; call InitV2 only once"));
    }
    world.group_of(client)?.used = true;
    let version = core.tiling_number(offset, Number::U32)?;
    if version != 100 {
        return Err(format!(
            "at byte {offset} of the tiling there is no Mc2InitTiling: it begins with {version}, \
             not with 100; fill it on the host (Mc2CcTilingConfig::GetTiling)"
        ));
    }
    let (kind, block) = match world.program.clients[client].what.core {
        Some((kind, block)) => (Some(kind), block),
        None => (None, 0),
    };
    let works = core.index() == block && kind.is_none_or(|kind| kind == core.kind());
    let queues = queues::init(core, client, offset, world)?;
    core.clients[client] = Client { init: Some(offset), works, queues, ..Client::default() };
    Ok(())
}

/// Checks that the client can be used.
pub(super) fn ready(core: &Core, id: ClientId, world: &World) -> Result<(), String> {
    let client = &core.clients[id.0 as usize];
    let name = &world.program.clients[id.0 as usize].name;
    if client.finalised {
        return Err(format!("{name} is used after its Finalize; call Finalize last"));
    }
    if client.init.is_none() {
        return Err(format!("{name} is used before its InitV2; call InitV2 first"));
    }
    Ok(())
}

pub(super) fn configure(
    core: &mut Core,
    id: ClientId,
    offset: u64,
    path: &str,
    world: &mut World,
) -> Result<(), String> {
    ready(core, id, world)?;
    let at = core.clients[id.0 as usize].init.unwrap_or(0) + offset;
    let command = core.tiling_number(at + 272, Number::U32)? as u32;
    let mut group = Vec::new();
    for n in 0..128 {
        match core.tiling_number(at + 16 + n, Number::U8)? as u8 {
            0 => break,
            byte => group.push(byte),
        }
    }
    let group = String::from_utf8_lossy(&group).into_owned();
    let name = world.client_name(id.0 as usize);
    let own = world.group_of(id.0 as usize)?.area.group.clone();
    if group != own {
        return Err(format!(
            "{path} is for the group \"{group}\", but the context of {name} is of the \
             communicator \"{own}\"; fill the Mc2CcTiling with that name (HcclGetCommName)"
        ));
    }
    let configured = &mut core.clients[id.0 as usize].configured;
    configured.retain(|(other, _)| *other != command);
    configured.push((command, at));
    Ok(())
}

/// Returns the offset of the `Mc2CcTiling` of an operation.
pub(super) fn configuration(
    core: &Core,
    client: usize,
    command: u32,
    world: &World,
) -> Result<u64, String> {
    let configured = &core.clients[client].configured;
    match configured.iter().find(|(number, _)| *number == command) {
        Some((_, at)) => Ok(*at),
        None => {
            let known: Vec<_> = configured.iter().map(|(number, _)| number.to_string()).collect();
            Err(format!(
                "{} was not configured for this operation, whose opType is {command} (its \
                 Mc2CcTiling have the opType {}); call SetCcTilingV2 first",
                world.program.clients[client].name,
                if known.is_empty() { "none".into() } else { known.join(", ") }
            ))
        }
    }
}

/// Writes a message if this core is the one that writes messages.
pub(super) fn post(
    core: &mut Core,
    client: usize,
    content: ClientMessage,
    committed: u32,
    world: &mut World,
) -> Result<(), String> {
    let (kind, index, works) = (core.kind(), core.index(), core.clients[client].works);
    core.clients[client].slot += 1;
    if !works {
        return Ok(());
    }
    let name = world.client_name(client);
    let group = world.group_of(client)?;
    let writer = *group.writer.get_or_insert((kind, index));
    if writer != (kind, index) {
        let say = |(kind, index): (CoreKind, u32)| match kind {
            CoreKind::Aic => format!("AIC {index}"),
            CoreKind::Aiv => format!("AIV {index}"),
        };
        return Err(format!(
            "{name} receives calls from {} and from {}: let only one kind of core call it, or name the core of the client",
            say(writer),
            say((kind, index))
        ));
    }
    group
        .area
        .post(|state| state.slots.push(MessageSlot { committed, ..MessageSlot::new(content) }));
    Ok(())
}

pub(super) fn commit(core: &mut Core, task: TaskId, world: &mut World) -> Result<(), String> {
    let Some(handle) = &mut core.handles[task.0 as usize] else { return Ok(()) };
    if posted::is_used(world) {
        let PreparedTask { client, slot, .. } = *handle;
        ready(core, ClientId(client as u32), world)?;
        return posted::commit(core, client, slot, world);
    }
    // Commits beyond the last turn are ignored.
    handle.committed = (handle.committed + handle.step).min(handle.total);
    let PreparedTask { client, slot, committed, .. } = *handle;
    ready(core, ClientId(client as u32), world)?;
    if core.clients[client].works {
        tell_track(core, "commit", client, slot, committed, world);
        world.group_of(client)?.area.post(|state| {
            if let Some(slot) = state.slots.get_mut(slot) {
                slot.committed = slot.committed.max(committed);
            }
        });
    }
    Ok(())
}

/// Adds a message of the working core to the core's track, if the launch is recorded.
pub(super) fn tell_track(
    core: &mut Core,
    call: &str,
    client: usize,
    slot: usize,
    turn: u32,
    world: &World,
) {
    if core.track.is_none() {
        return;
    }
    let text = format!("{call} {}", core.turn_name(client, slot, turn, world));
    if let Some(track) = &mut core.track {
        track.tells(text);
    }
}

pub(super) fn wait(core: &mut Core, task: TaskId, world: &World) {
    let Some(handle) = &mut core.handles[task.0 as usize] else { return };
    let PreparedTask { client, slot, .. } = *handle;
    if posted::is_used(world) {
        return posted::wait(core, client, slot);
    }
    // Wait returns at once for a task in a queue.
    if core.clients[client].queues.each > 0 {
        return;
    }
    // A core does not wait for turns that it has not committed: the call returns -1 at once.
    if handle.awaited < handle.committed {
        handle.awaited = (handle.awaited + handle.step).min(handle.total);
        let PreparedTask { client, slot, awaited, .. } = *handle;
        core.wait = Some(Wait::Turns { client, slot, finished: awaited });
    }
}

/// Implements `Query`: returns the number of finished turns of a task.
pub(super) fn query(core: &Core, task: TaskId, world: &mut World) -> Result<u64, String> {
    if posted::is_used(world) {
        return Err("Ascend 950 has no Query; use Wait".into());
    }
    let Some(handle) = &core.handles[task.0 as usize] else { return Ok(0) };
    if core.clients[handle.client].queues.each > 0 {
        return Ok(0);
    }
    world.asked = true;
    let group = world.group_of(handle.client)?;
    let finished = group.area.finished(group.generation, handle.slot);
    Ok(finished.unwrap_or(0).into())
}

/// Implements `GetQueueNum`: returns the number of queues of a client.
pub(super) fn queues(core: &Core, id: ClientId) -> Result<u64, String> {
    match core.clients[id.0 as usize].init {
        Some(offset) => core.tiling_number(offset + 42, Number::U16),
        None => Err("GetQueueNum is called before InitV2; call InitV2 first".into()),
    }
}

/// Returns the rank of the next block of a fine-grained AlltoAllV: a block to produce, or, if
/// `received`, a block to receive.
pub(super) fn slice(
    core: &mut Core,
    task: TaskId,
    received: bool,
    world: &mut World,
) -> Result<u64, String> {
    let name = world.program.tasks[task.0 as usize].name.clone();
    let Some(handle) = &mut core.handles[task.0 as usize] else {
        return Err(format!("Iterate of {name}, which was not prepared; prepare it first"));
    };
    if handle.total == handle.slices || !handle.total.is_multiple_of(handle.ranks) {
        return Err(format!(
            "Iterate of {name}, which has no more blocks or is not fine-grained; set its \
             stepSize, and call Iterate once for each block"
        ));
    }
    let (at, ranks) = (handle.slices % handle.ranks, handle.ranks);
    handle.slices += 1;
    let (slices, step) = (handle.slices, handle.step);
    let rank = world.group_of(handle.client)?.area.member.rank as u32;
    if received {
        if slices.is_multiple_of(step) {
            wait(core, task, world);
        }
        return Ok(u64::from((rank + ranks - at) % ranks));
    }
    Ok(u64::from((rank + at) % ranks))
}

pub(super) fn after(
    core: &mut Core,
    id: ClientId,
    task: TaskId,
    world: &mut World,
) -> Result<(), String> {
    ready(core, id, world)?;
    if world.product != Product::A3 {
        return Err(format!(
            "{} has no InterHcclGroupSync, which only Atlas A3 has; call Wait for the task of \
             the other group",
            world.product
        ));
    }
    let name = world.program.tasks[task.0 as usize].name.clone();
    let Some(handle) = core.handles[task.0 as usize].clone() else {
        return Err(format!(
            "InterHcclGroupSync with {name}, which was not prepared; prepare it first"
        ));
    };
    let (own, other) = (id.0 as usize, handle.client);
    let group = |client: usize| world.program.clients[client].what.group;
    if group(own) == group(other) {
        return Err(format!(
            "InterHcclGroupSync with {name}, which is of the same group; pass a task of another \
             group"
        ));
    }
    if core.clients[own].slot >= MOST_TASKS {
        return Err(format!(
            "one client can have at most {MOST_TASKS} tasks; this is one more: prepare fewer, \
             with a larger repeat"
        ));
    }
    let place = world.program.line(core.source());
    let source = world.group_of(other)?;
    let (area, generation) = (Arc::clone(&source.area), source.generation);
    let (slot, total) = (handle.slot, handle.total);
    post(core, own, ClientMessage::After { area, generation, slot, total, place }, 1, world)
}

/// Implements `QueueBarrier`. The messages of a queue are processed in order, so a barrier needs no
/// wait.
pub(super) fn barrier(
    core: &mut Core,
    id: ClientId,
    queue: u64,
    world: &mut World,
) -> Result<(), String> {
    ready(core, id, world)?;
    let client = id.0 as usize;
    if world.product != Product::A3 {
        return Err(format!(
            "{} has no QueueBarrier, which only Atlas A3 has; leave out the call",
            world.product
        ));
    }
    if core.clients[client].queues.each > 0 {
        return queues::put(core, client, queue, ClientMessage::Barrier, world);
    }
    if queue > 0 {
        let name = world.client_name(client);
        return Err(format!(
            "{name} has no queue {queue}: the host has set none; set their number on the host \
             (SetQueueNum)"
        ));
    }
    post(core, client, ClientMessage::Barrier, 0, world)
}

pub(super) fn finalise(
    core: &mut Core,
    id: ClientId,
    sync: bool,
    world: &mut World,
) -> Result<(), String> {
    ready(core, id, world)?;
    let client = id.0 as usize;
    core.clients[client].finalised = true;
    if core.clients[client].queues.each > 0 {
        return queues::finalise(core, client, sync, world);
    }
    if !core.clients[client].works {
        return Ok(());
    }
    if sync {
        core.wait = Some(Wait::Last { client });
        return Ok(());
    }
    world.group_of(client)?.leaving = true;
    post(core, client, ClientMessage::Finalize, 0, world)
}

/// Returns whether the counter of finished turns of a message has reached a value.
pub(super) fn turns_are_done(
    world: &mut World,
    client: usize,
    slot: usize,
    wanted: u32,
) -> Result<bool, String> {
    let group = world.group_of(client)?;
    let state = group.area.state();
    if state.generation != group.generation {
        return Err(
            "the client was finalised by its working core while this core still waits: all cores must meet (SyncAll) between \
             the last Wait and Finalize"
                .into(),
        );
    }
    Ok(state.slots.get(slot).is_some_and(|slot| slot.finished >= wanted))
}

/// Implements `Finalize` for the working core: writes the final message when the last task is done.
/// Returns whether the core's wait is over.
pub(super) fn finish(core: &mut Core, world: &mut World, client: usize) -> Result<bool, String> {
    if posted::is_used(world) {
        if !posted::last_is_done(core, client, world)? {
            return Ok(false);
        }
        // The server does not answer the final message.
        world.group_of(client)?.leaving = true;
        return post(core, client, ClientMessage::Finalize, 0, world).map(|()| true);
    }
    if let Some((slot, total)) = core.clients[client].last
        && !turns_are_done(world, client, slot, total)?
    {
        return Ok(false);
    }
    post(core, client, ClientMessage::Finalize, 0, world)?;
    let generation = world.group_of(client)?.generation;
    core.wait = Some(Wait::Farewell { client, generation });
    Ok(false)
}

/// Returns whether the server has answered the final message.
pub(super) fn server_has_left(world: &mut World, client: usize, generation: u64) -> bool {
    world.group_of(client).is_ok_and(|group| group.area.state().generation != generation)
}

/// Returns whether the server can end the conversation without another call of this kernel.
pub(super) fn may_leave(world: &mut World, client: usize) -> bool {
    let Ok(group) = world.group_of(client) else { return false };
    group.area.state().queues.iter().all(|queue| queue.closing)
}

/// Returns whether a wait for turns can end without another call of this kernel.
pub(super) fn may_end(world: &mut World, client: usize, slot: usize, finished: u32) -> bool {
    let Ok(group) = world.group_of(client) else { return false };
    let state = group.area.state();
    let complete = |slot: &MessageSlot| match &*slot.content {
        ClientMessage::Work(work) => slot.committed >= work.total(),
        _ => true,
    };
    state.slots.iter().take(slot).all(complete)
        && state.slots.get(slot).is_some_and(|slot| match &*slot.content {
            ClientMessage::Work(_) => slot.committed >= finished,
            _ => true,
        })
}

/// A turn that a core waits for, in the form in which error texts describe it.
pub(super) struct AwaitedTurn<'a> {
    pub(super) world: &'a World,
    pub(super) client: usize,
    pub(super) slot: usize,
    pub(super) finished: u32,
}

impl std::fmt::Display for AwaitedTurn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let group = self.world.program.clients[self.client].what.group as usize;
        let Some(Ok(group)) = self.world.groups.get(group) else { return f.write_str("a task") };
        let state = group.area.state();
        let Some(slot) = state.slots.get(self.slot) else {
            return write!(f, "task {}, which is not prepared yet", self.slot);
        };
        match &*slot.content {
            ClientMessage::Work(work) => write!(
                f,
                "turn {} of task {}, {}: committed {}, finished {}",
                self.finished,
                self.slot,
                work.describe(),
                slot.committed,
                slot.finished
            ),
            _ => write!(f, "task {}", self.slot),
        }
    }
}
