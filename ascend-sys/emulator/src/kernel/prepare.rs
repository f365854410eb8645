//! The prepare calls of a client, which make messages for the server from their arguments.

use super::area::{ClientMessage, MOST_TASKS};
use super::books::PreparedTask;
use super::client::{configuration, post, ready, tell_track};
use super::core::Core;
use super::posted;
use super::queues;
use super::work::{PreparedWork, WorkKind, WriteWindows};
use super::world::World;
use crate::collective::validate;
use crate::message::Failure;
use crate::profile::Product;
use ascend_program::layout::Number;
use ascend_program::step::{Operation, PerRank, Reduction};
use ascend_program::{TaskId, ValueId};
use ascend_reduce::{DataType, ReduceOp};

/// The largest number of ranks for which a list of an AlltoAllV can have numbers.
const MOST_RANKS: usize = 256;

pub(super) fn prepare(
    core: &mut Core,
    task: TaskId,
    operation: &Operation,
    repeat: ValueId,
    commit_all: bool,
    world: &mut World,
) -> Result<(), String> {
    let id = world.program.tasks[task.0 as usize].what;
    let client = id.0 as usize;
    ready(core, id, world)?;
    let repeat = core.count(repeat)?;
    if repeat == 0 {
        // As on hardware, there is then no task, and later calls with it have no effect.
        core.handles[task.0 as usize] = None;
        return Ok(());
    }
    if repeat > 255 {
        return Err(format!("repeat is {repeat}; pass 1 to 255"));
    }
    let once = matches!(operation, Operation::BatchWrite { .. } | Operation::AlltoAllvWrite { .. });
    if once && repeat != 1 {
        return Err(format!("repeat is {repeat}; one-sided writes have one turn: pass 1"));
    }
    let at = configuration(core, client, operation.command(), world)?;
    if core.clients[client].slot >= MOST_TASKS {
        return Err(format!(
            "{} prepares more than {MOST_TASKS} tasks, which is the limit of one client; prepare \
             fewer, with a larger repeat",
            world.client_name(client)
        ));
    }
    let repeat = repeat as u32;
    let ranks = world.group_of(client)?.area.member.comm.ranks() as u32;
    let steps = match operation {
        Operation::AlltoAllV { .. } => match core.tiling_number(at + 2, Number::U8)? as u32 {
            0 => None,
            size if size <= ranks && ranks.is_multiple_of(size) => Some(size),
            size => {
                return Err(format!(
                    "the number of ranks, {ranks}, is not a multiple of the stepSize, {size}; set \
                     a stepSize that divides the number of ranks"
                ));
            }
        },
        _ => None,
    };
    let (total, step) = match steps {
        Some(size) => (repeat * ranks, size),
        None => (repeat, 1),
    };
    let slot = core.clients[client].slot;
    let write = matches!(operation, Operation::BatchWrite { .. });
    let all = commit_all || write;
    let handle = PreparedTask {
        client,
        slot,
        total: if write { 1 } else { total },
        step,
        ranks,
        committed: if all { if write { 1 } else { total } } else { 0 },
        awaited: 0,
        slices: 0,
    };
    let committed = handle.committed;
    let last = (slot, handle.total);
    if core.clients[client].queues.each > 0 {
        let Operation::BatchWrite { queue, .. } = operation else {
            return Err(format!(
                "{} has queues (SetQueueNum), so it can prepare only BatchWrite; leave out \
                 SetQueueNum for other operations",
                world.client_name(client)
            ));
        };
        let queue = core.count(*queue)?;
        let content = content(core, task, operation, repeat, steps, at, world)?;
        core.clients[client].slot += 1;
        queues::put(core, client, queue, content, world)?;
    } else if core.clients[client].works {
        let content = content(core, task, operation, repeat, steps, at, world)?;
        // On Ascend 950 a turn counts as committed when it is posted.
        let at_once = if posted::is_used(world) { 0 } else { committed };
        post(core, client, content, at_once, world)?;
    } else {
        core.clients[client].slot += 1;
    }
    if posted::is_used(world) {
        posted::prepared(core, client, (repeat, committed), world)?;
    }
    core.clients[client].last = Some(last);
    let tells = core.clients[client].works;
    core.handles[task.0 as usize] = Some(handle);
    if tells {
        tell_track(core, "prepare", client, slot, committed, world);
    }
    Ok(())
}

fn content(
    core: &Core,
    task: TaskId,
    operation: &Operation,
    repeat: u32,
    steps: Option<u32>,
    tiling: u64,
    world: &mut World,
) -> Result<ClientMessage, String> {
    let client = world.program.tasks[task.0 as usize].what.0 as usize;
    let place = world.program.line(core.source());
    let product = world.product;
    let spot = |place: &ascend_program::step::Place, world: &mut World| {
        let (base, offset) = core.place(place, world)?;
        world.spot(base, offset)
    };
    if let Operation::BatchWrite { items, count, .. } = operation {
        if product == Product::Ascend950 {
            return Err("Ascend 950 has no BatchWrite; use AlltoAllvWrite".into());
        }
        return Ok(ClientMessage::Write {
            items: spot(items, world)?,
            count: core.count(*count)?,
            place,
        });
    }
    if let Operation::AlltoAllvWrite { send, offsets, sizes, window, local } = operation {
        if product != Product::Ascend950 {
            return Err(format!(
                "{product} has no AlltoAllvWrite, which only Ascend 950 has; use BatchWrite"
            ));
        }
        let windows = WriteWindows {
            offsets: spot(offsets, world)?,
            sizes: spot(sizes, world)?,
            at: core.count(*window)?,
            own: core.count(*local)?,
        };
        return Ok(ClientMessage::Work(Box::new(PreparedWork {
            name: world.program.tasks[task.0 as usize].name.clone(),
            place,
            kind: WorkKind::AlltoAllvWrite,
            dtype: DataType::Uint8,
            send: spot(send, world)?,
            recv: None,
            windows: Some(windows),
            count: 0,
            stride: 0,
            skips_own: false,
            lists: Default::default(),
            repeat,
            steps,
            ranks: world.group_of(client)?.area.member.comm.ranks() as u32,
        })));
    }
    let (kind, exchange, stride) = match operation {
        Operation::AllReduce(exchange, op) => {
            (WorkKind::AllReduce(reduction(*op)), Some(exchange), None)
        }
        Operation::AllGather(exchange, stride) => {
            (WorkKind::AllGather, Some(exchange), Some(*stride))
        }
        Operation::ReduceScatter(exchange, op, stride) => {
            (WorkKind::ReduceScatter(reduction(*op)), Some(exchange), Some(*stride))
        }
        Operation::AlltoAll(exchange, stride) => {
            (WorkKind::AlltoAll, Some(exchange), Some(*stride))
        }
        Operation::AlltoAllV { .. }
        | Operation::BatchWrite { .. }
        | Operation::AlltoAllvWrite { .. } => (WorkKind::AlltoAllV, None, None),
    };
    let (send, recv, dtype) = match (operation, exchange) {
        (_, Some(exchange)) => (&exchange.send, &exchange.recv, exchange.dtype),
        (Operation::AlltoAllV { send, recv, dtype, .. }, _) => (send, recv, *dtype),
        _ => return Err("an operation without buffers".into()),
    };
    let refused = |failure: Failure| format!("{}: {}", kind.name(), failure.text);
    let dtype = match kind {
        WorkKind::AllReduce(op) | WorkKind::ReduceScatter(op) => {
            rules(core, product, op, tiling)?;
            validate::reduction(product, dtype, op as u32).map_err(refused)?.0
        }
        _ => validate::movement(product, dtype).map_err(refused)?,
    };
    if kind == WorkKind::AlltoAllV && product == Product::A2 {
        return Err("Atlas A2 has no AlltoAllV in kernels; Atlas A3 and Ascend 950 have: use \
                    BatchWrite instead"
            .into());
    }
    let ranks = world.group_of(client)?.area.member.comm.ranks();
    let count = exchange.map_or(Ok(0), |exchange| core.count(exchange.count))?;
    validate::count(count).map_err(refused)?;
    let lists = match operation {
        Operation::AlltoAllV { send_counts, send_displs, recv_counts, recv_displs, .. } => {
            let list = |list, what| numbers(core, list, ranks, what);
            [
                list(send_counts, "sendCounts")?,
                list(send_displs, "sdispls")?,
                list(recv_counts, "recvCounts")?,
                list(recv_displs, "rdispls")?,
            ]
        }
        _ => Default::default(),
    };
    Ok(ClientMessage::Work(Box::new(PreparedWork {
        name: world.program.tasks[task.0 as usize].name.clone(),
        place,
        kind,
        dtype,
        send: spot(send, world)?,
        recv: Some(spot(recv, world)?),
        windows: None,
        count,
        stride: stride.map_or(Ok(0), |stride| core.count(stride))?,
        // The host has set skipLocalRankCopy.
        skips_own: product == Product::A2
            && matches!(kind, WorkKind::AllGather | WorkKind::AlltoAll)
            && core.tiling_number(tiling, Number::U8)? == 1,
        lists,
        repeat,
        steps,
        ranks: ranks as u32,
    })))
}

/// Checks on Ascend 950, which uses the reduction of the tiling, that the call has the same
/// reduction. Other products use the reduction of the call.
fn rules(core: &Core, product: Product, op: ReduceOp, tiling: u64) -> Result<(), String> {
    let said = core.tiling_number(tiling + 276, Number::U32)?;
    if product == Product::Ascend950 && said != op as u64 {
        return Err(format!(
            "the reduction is {op:?} here, but the Mc2CcTiling has the reduceType {said}, which \
             is the one that Ascend 950 uses; give both the same reduction"
        ));
    }
    Ok(())
}

fn reduction(op: Reduction) -> ReduceOp {
    match op {
        Reduction::Sum => ReduceOp::Sum,
        Reduction::Prod => ReduceOp::Prod,
        Reduction::Max => ReduceOp::Max,
        Reduction::Min => ReduceOp::Min,
    }
}

/// Returns one number for each rank.
fn numbers(core: &Core, list: &PerRank, ranks: usize, what: &str) -> Result<Vec<u64>, String> {
    let length = match list {
        PerRank::Tiling(_, _, length) => *length as usize,
        PerRank::Values(values) => values.len(),
    };
    if length < ranks || ranks > MOST_RANKS {
        return Err(format!(
            "{what} has {length} numbers for {ranks} ranks; pass one for each rank, for at most \
             {MOST_RANKS} ranks"
        ));
    }
    match list {
        PerRank::Tiling(offset, ..) => (0..ranks as u64)
            .map(|rank| core.tiling_number(u64::from(*offset) + 8 * rank, Number::U64))
            .collect(),
        PerRank::Values(values) => values[..ranks].iter().map(|value| core.count(*value)).collect(),
    }
}
