//! The protocol of a client with the engine of Ascend 950 (CCU), which has turns but no tasks.
//!
//! A turn is posted when it is committed: it takes the next of 64 places, and the engine runs the
//! turns in the order of the places. `Wait` checks and then frees the place that the turn would
//! have if all turns were committed in the order of their prepares. A committed turn that finds no
//! free place is owed, and is posted when a place becomes free. A kernel can commit one turn too
//! many. That turn then runs, one step after the last.

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

/// Posts an owed turn of a task, if there is one and a place is free. Returns whether a turn was
/// posted.
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

/// Implements `Wait`: begins a wait for the next turn of a task. There is no wait if no turn of the
/// task was committed.
pub(super) fn wait(core: &mut Core, client: usize, slot: usize) {
    let ring = &mut core.clients[client].ring;
    let start = ring.start(slot);
    let Some(task) = ring.tasks.get_mut(slot).filter(|task| task.committed > 0) else { return };
    let place = start + task.awaited as usize;
    task.awaited += 1;
    core.wait = Some(Wait::Place { client, slot, place });
}

/// Returns whether the turn in a place is done. If so, frees the place.
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
            // The working core has ended the conversation, so the counters have their last values.
            false => place < state.done_before,
        }
    };
    if done {
        clear(core, client, slot, world)?;
    }
    Ok(done)
}

/// Frees a place, and posts an owed turn of the same task. If that task owes no turn, posts an owed
/// turn of a later task.
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

/// Returns whether `Finalize` is done. It waits only for the committed turns of the last prepared
/// task.
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

/// Returns whether the engine can do the turn in a place without another call of this kernel;
/// without a place, whether it can do any further turn.
pub(super) fn may_end(world: &mut World, client: usize, place: Option<usize>) -> bool {
    let Ok(group) = world.group_of(client) else { return false };
    let state = group.area.state();
    match place {
        Some(place) => place < state.posted.len(),
        None => state.done < state.posted.len(),
    }
}
