//! Queues of one-sided writes, which the host sets up on A3. Each core that has queues writes only
//! to its own queues, and each queue ends separately.

use super::area::{ClientMessage, WriteQueue};
use super::books::Queues;
use super::core::{Core, Wait};
use super::world::World;
use crate::profile::Product;
use ascend_program::layout::Number;

/// The largest number of queues of all cores together.
const MOST_QUEUES: u64 = 40;

/// Reads the settings of the host, and makes the queues.
pub(super) fn init(
    core: &Core,
    client: usize,
    offset: u64,
    world: &mut World,
) -> Result<Queues, String> {
    let each = core.tiling_number(offset + 42, Number::U16)?;
    if each == 0 {
        return Ok(Queues::default());
    }
    if world.product != Product::A3 {
        return Err("only Atlas A3 has queues of BatchWrite; leave out SetQueueNum on other \
                    products"
            .into());
    }
    let cores = core.tiling_number(offset + 44, Number::U16)?.max(1);
    let all = each * cores;
    if all > MOST_QUEUES {
        return Err(format!(
            "the number of queues is {each} for each core, with {cores} as the number of cores; \
             set at most {MOST_QUEUES} queues for all cores together (SetQueueNum, \
             SetCommBlockNum)"
        ));
    }
    world.group_of(client)?.area.post(|state| {
        if state.queues.is_empty() {
            state.queues.resize_with(all as usize, WriteQueue::default);
        }
    });
    Ok(Queues { each, cores })
}

/// Puts a message into a queue of this core.
pub(super) fn put(
    core: &Core,
    client: usize,
    queue: u64,
    content: ClientMessage,
    world: &mut World,
) -> Result<(), String> {
    let Queues { each, cores } = core.clients[client].queues;
    let name = world.client_name(client);
    if queue >= each {
        return Err(format!(
            "{name} has no queue {queue}: each core has {each}; number the queues of a core from \
             0"
        ));
    }
    let (kind, index) = (core.kind(), core.index());
    if u64::from(index) >= cores {
        return Err(format!(
            "{name} has queues for {cores} cores (commBlockNum), but {} has none; let only the \
             first {cores} call it, or set a larger number (SetCommBlockNum)",
            core.name()
        ));
    }
    let group = world.group_of(client)?;
    let (writer, _) = *group.writer.get_or_insert((kind, 0));
    if writer != kind {
        return Err(format!(
            "{name} receives calls from cores of both kinds, which share their queues; let only one kind of core call it"
        ));
    }
    let number = queue + u64::from(index) * each;
    group.area.post(|state| {
        if let Some(queue) = state.queues.get_mut(number as usize) {
            queue.closing |= matches!(content, ClientMessage::Finalize);
            queue.messages.push_back(content);
        }
    });
    Ok(())
}

/// Implements `Finalize`: ends the queues of this core.
pub(super) fn finalise(
    core: &mut Core,
    client: usize,
    sync: bool,
    world: &mut World,
) -> Result<(), String> {
    let Queues { each, cores } = core.clients[client].queues;
    if u64::from(core.index()) >= cores {
        return Ok(());
    }
    for queue in 0..each {
        put(core, client, queue, ClientMessage::Finalize, world)?;
    }
    let group = world.group_of(client)?;
    group.leaving = true;
    let generation = group.generation;
    if sync {
        core.wait = Some(Wait::Farewell { client, generation });
    }
    Ok(())
}
