//! The way in which a client talks to the engine of Ascend 950 (CCU), which knows turns but no
//! tasks.
//!
//! A turn is posted when it is committed, into the next of 64 places, and the engine runs turns in
//! that order. `Wait` looks at the place that the turn would have if all were committed in the
//! order of their prepares, and frees it. A turn that finds no free place is owed until then. A
//! kernel can commit a turn too many, which then really runs, one step behind the last.

use super::area::Posted;
use super::books::Turns;
use super::core::{Core, Wait};
use super::world::World;
use crate::profile::Product;

/// The number of places for turns.
const ROOM: usize = 64;

pub(super) fn is_used(world: &World) -> bool {
    world.product == Product::Ascend950
}

/// Notes that a task is prepared, with `committed` of its turns committed.
pub(super) fn prepared(
    core: &mut Core,
    client: usize,
    (repeat, committed): (u32, u32),
    world: &mut World,
) -> Result<(), String> {
    let ring = &mut core.clients[client].ring;
    ring.tasks.push(Turns { repeat, committed, posted: 0, awaited: 0 });
    let slot = ring.tasks.len() - 1;
    for _ in 0..committed {
        post(core, client, slot, world)?;
    }
    Ok(())
}

pub(super) fn commit(
    core: &mut Core,
    client: usize,
    slot: usize,
    world: &mut World,
) -> Result<(), String> {
    if let Some(task) = core.clients[client].ring.tasks.get_mut(slot) {
        task.committed += 1;
    }
    post(core, client, slot, world).map(drop)
}

/// Posts a turn of a task that is owed, if there is one and a free place. Returns whether it did.
fn post(core: &mut Core, client: usize, slot: usize, world: &mut World) -> Result<bool, String> {
    let works = core.clients[client].works;
    let ring = &mut core.clients[client].ring;
    let Some(task) = ring.tasks.get_mut(slot) else { return Ok(false) };
    if task.posted >= task.committed || ring.posted >= ring.cleared + ROOM {
        return Ok(false);
    }
    let turn = task.posted;
    task.posted += 1;
    ring.posted += 1;
    if works {
        world.group_of(client)?.area.post(|state| {
            state.posted.push(Posted { slot, turn });
            if let Some(slot) = state.slots.get_mut(slot) {
                slot.committed += 1;
            }
        });
    }
    Ok(true)
}

/// `Wait`. Without any commit of the task it returns at once.
pub(super) fn wait(core: &mut Core, client: usize, slot: usize) {
    let ring = &mut core.clients[client].ring;
    let start = ring.start(slot);
    let Some(task) = ring.tasks.get_mut(slot).filter(|task| task.committed > 0) else { return };
    let place = start + task.awaited as usize;
    task.awaited += 1;
    core.wait = Some(Wait::Place { client, slot, place });
}

/// Whether the turn in a place is done. If so, frees the place.
pub(super) fn is_over(
    core: &mut Core,
    client: usize,
    slot: usize,
    place: usize,
    world: &mut World,
) -> Result<bool, String> {
    let done = {
        let group = world.group_of(client)?;
        let state = group.area.state();
        match state.generation == group.generation {
            true => place < state.done,
            // The working core has ended the conversation: the counters keep their last values.
            false => place < state.done_before,
        }
    };
    if done {
        clear(core, client, slot, world)?;
    }
    Ok(done)
}

/// A place is free for a turn that is owed: posts one of the same task, or else of a later one.
fn clear(core: &mut Core, client: usize, slot: usize, world: &mut World) -> Result<(), String> {
    let ring = &mut core.clients[client].ring;
    ring.cleared += 1;
    for slot in slot..ring.tasks.len() {
        if post(core, client, slot, world)? {
            break;
        }
    }
    Ok(())
}

/// Whether `Finalize` is done: it waits for the committed turns of the task that was prepared last,
/// and for nothing else.
pub(super) fn last_is_done(
    core: &mut Core,
    client: usize,
    world: &mut World,
) -> Result<bool, String> {
    let Some(slot) = core.clients[client].ring.tasks.len().checked_sub(1) else { return Ok(true) };
    loop {
        let ring = &mut core.clients[client].ring;
        let start = ring.start(slot);
        let Some(task) = ring.tasks.get_mut(slot) else { return Ok(true) };
        if task.awaited >= task.committed {
            return Ok(true);
        }
        let place = start + task.awaited as usize;
        if !is_over(core, client, slot, place, world)? {
            return Ok(false);
        }
        if let Some(task) = core.clients[client].ring.tasks.get_mut(slot) {
            task.awaited += 1;
        }
    }
}

/// Whether the engine can reach a place without another call of this kernel, or go on at all.
pub(super) fn may_end(world: &mut World, client: usize, place: Option<usize>) -> bool {
    let Ok(group) = world.group_of(client) else { return false };
    let state = group.area.state();
    match place {
        Some(place) => place < state.posted.len(),
        None => state.done < state.posted.len(),
    }
}
