//! Executes a program on a backend, through the safe API.

use std::task::{Context, Waker};

use futures::FutureExt;
use futures::executor::block_on;
use hccl::dtype::{DType, ReduceKind, ReduceOp, bf16, f16};
use hccl::prelude::*;

use super::buffers::{Buffer, operands, pieces_of_messages, upload};
use super::group::group;
use super::interpret::{Bits, initial, with_type};
use super::program::*;

/// Runs a program and returns the contents of all ranks' buffers at the end.
pub fn execute(program: &Program, runtime: &Runtime) -> hccl::Result<Vec<Vec<Bits>>> {
    let beginnings = program.beginnings();
    let needs_meeting = |(team, at): (&Team, &Option<usize>)| {
        (team.origin == Origin::Meeting && at.is_some())
            .then(|| RootInfo::new(&runtime.device(0)?))
            .transpose()
    };
    let meetings = program.teams.iter().zip(&beginnings).map(needs_meeting);
    let meetings = meetings.collect::<hccl::Result<Vec<_>>>()?;
    runtime.run_ranks(program.ranks as u32, |rank| {
        let (index, device) = (rank.index() as usize, rank.device().clone());
        play(program, index, device, Box::new(move || rank.communicator()), &meetings)
    })
}

/// A function that makes the communicator of all ranks.
pub type World = Box<dyn Fn() -> hccl::Result<Communicator>>;

/// Runs one rank, and returns the contents of its buffers at the end. `meetings` has the root infos
/// of the communicators that need one.
pub fn play(
    program: &Program,
    index: usize,
    device: Device,
    world: World,
    meetings: &[Option<RootInfo>],
) -> hccl::Result<Vec<Bits>> {
    let (beginnings, ends) = (program.beginnings(), program.ends());
    let mut player = Player::new(program, index, device, world)?;
    for (at, step) in program.steps.iter().enumerate() {
        for team in 0..program.teams.len() {
            if beginnings[team] == Some(at) {
                player.join(&program.teams, team, meetings[team].as_ref())?;
            }
        }
        player.play(step, &program.teams)?;
        for (team, comm) in player.comms.iter_mut().enumerate() {
            if program.teams[team].is_brief && ends[team] == Some(at) {
                *comm = None;
            }
        }
    }
    player.end()
}

/// One rank while it runs a program.
pub struct Player {
    index: usize,
    device: Device,
    world: World,
    pub streams: Vec<Stream>,
    /// The communicators of which the rank is a member, as soon as they are made.
    pub comms: Vec<Option<Communicator>>,
    pub buffers: Vec<Box<dyn Buffer>>,
    kept: Vec<Work>,
}

impl Player {
    fn new(program: &Program, index: usize, device: Device, world: World) -> hccl::Result<Self> {
        let streams = (0..program.streams).map(|_| device.stream());
        let streams = streams.collect::<hccl::Result<Vec<_>>>()?;
        let upload = |(shape, bits): (&Shape, Bits)| {
            with_type!(shape.dtype, upload(&bits, &device, &streams[0]))
        };
        let buffers = program.buffers.iter().zip(initial(program, index)).map(upload);
        let buffers = buffers.collect::<hccl::Result<_>>()?;
        let comms = program.teams.iter().map(|_| None).collect();
        Ok(Player { index, device, world, streams, comms, buffers, kept: Vec::new() })
    }

    /// Takes part in making a communicator.
    fn join(&mut self, teams: &[Team], at: usize, meeting: Option<&RootInfo>) -> hccl::Result<()> {
        let Team { members, origin, .. } = &teams[at];
        let member = members.iter().position(|&member| member == self.index);
        match *origin {
            Origin::World => self.comms[at] = Some((self.world)()?),
            Origin::Meeting => {
                let (Some(member), Some(meeting)) = (member, meeting) else { return Ok(()) };
                let builder = Communicator::builder().device(&self.device);
                let builder = builder.rank(member as u32).world_size(members.len() as u32);
                self.comms[at] = Some(builder.root_info(meeting).build().wait()?);
            }
            Origin::Subset { of } => {
                let Some(whole) = &mut self.comms[of] else { return Ok(()) };
                let all = &teams[of].members;
                let rank = |member| all.iter().position(|other| other == member);
                let ranks = members.iter().filter_map(rank).map(|rank| rank as u32);
                self.comms[at] = whole.subset(&ranks.collect::<Vec<_>>(), at as u32).wait()?;
            }
            // The first team of a split makes all its teams.
            Origin::Split { .. } if at > 0 && teams[at - 1].origin == *origin => {}
            Origin::Split { of, .. } => {
                let Some(whole) = &mut self.comms[of] else { return Ok(()) };
                let parts = teams[at..].iter().take_while(|team| team.origin == *origin);
                let mut places = parts.enumerate().filter_map(|(part, Team { members, .. })| {
                    let place = members.iter().position(|&member| member == self.index)?;
                    Some((part, place as u32, members))
                });
                let Some((part, place, members)) = places.next() else {
                    assert!(
                        whole.split(None, 0).wait()?.is_none(),
                        "a communicator without a color"
                    );
                    return Ok(());
                };
                // Equal keys leave ranks in their order.
                let rank = |member| teams[of].members.iter().position(|other| other == member);
                let key = if members.is_sorted_by_key(rank) { 7 } else { place };
                self.comms[at + part] = whole.split(Some(part as u32 * 3), key).wait()?;
            }
        }
        if let Some(comm) = &self.comms[at] {
            let found = (Some(comm.rank() as usize), comm.world_size() as usize);
            assert_eq!(found, (member, members.len()), "the place in c{at}");
        }
        Ok(())
    }

    /// Waits for the kept works, and reads the buffers.
    fn end(self) -> hccl::Result<Vec<Bits>> {
        self.kept.iter().try_for_each(Work::wait)?;
        let last = self.streams.len() - 1;
        let found = self.buffers.iter().map(|buffer| buffer.download(&self.streams[last]));
        let found = found.collect::<hccl::Result<_>>()?;
        self.streams.iter().try_for_each(Stream::synchronize)?;
        Ok(found)
    }

    /// Issues this rank's part of each operation of a step.
    fn play(&mut self, step: &Step, teams: &[Team]) -> hccl::Result<()> {
        let turn = |operation| Turn::new(operation, teams, self.index);
        let turns: Vec<Turn<'_>> = step.operations.iter().filter_map(turn).collect();
        let Some(first) = turns.first() else { return Ok(()) };
        let ending = first.side.ending;
        if step.is_group {
            for work in group(self, turns)? {
                self.finish(work, ending)?;
            }
            return Ok(());
        }
        for turn in &turns {
            let Operation { kind, dtype, team, .. } = *turn.operation;
            let work = match kind {
                Kind::Batch => self.batch(turn)?,
                Kind::Barrier => {
                    let comm = self.comms[team].as_mut().expect("a member");
                    comm.barrier(&self.streams[turn.side.stream])?
                }
                kind => match kind.reduction() {
                    Some(reduction) => with_reduction!(reduction, dtype, reduce(self, turn))?,
                    None => with_type!(dtype, movement(self, turn))?,
                },
            };
            self.finish(work, turn.side.ending)?;
        }
        Ok(())
    }
}

/// The part of one rank in an operation.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    pub operation: &'a Operation,
    /// This rank in the communicator.
    pub member: usize,
    pub side: &'a Side,
}

impl<'a> Turn<'a> {
    /// Returns the part of a rank of the program in an operation, or `None` if the rank takes no
    /// part.
    fn new(operation: &'a Operation, teams: &[Team], index: usize) -> Option<Self> {
        let members = &teams[operation.team].members;
        let member = members.iter().position(|&member| member == index)?;
        if let Kind::Message { from, to } = operation.kind
            && member != from
            && member != to
        {
            return None;
        }
        Some(Turn { operation, member, side: &operation.sides[member] })
    }

    /// Returns the counts of all ranks, which every rank gives to an `all_to_all_vc`. For other
    /// operations the matrix is empty.
    pub fn matrix(&self) -> hccl::Result<CountMatrix> {
        let Operation { kind, sides, .. } = self.operation;
        if *kind != Kind::AllToAllVc {
            return Ok(CountMatrix::new(0, [])?);
        }
        let rows = sides.iter().flat_map(|side| &side.sent.counts);
        let counts: Vec<u64> = rows.map(|&count| count as u64).collect();
        Ok(CountMatrix::new(sides.len() as u32, counts)?)
    }
}

impl Player {
    fn batch(&mut self, turn: &Turn<'_>) -> hccl::Result<Work> {
        let Player { comms, buffers, streams, .. } = self;
        let mut pieces = pieces_of_messages(buffers, &turn.side.messages)?;
        let mut batch = comms[turn.operation.team].as_mut().expect("a member").batch();
        for (piece, items) in &mut pieces {
            if !items[0].sends {
                batch = piece.recv(batch, items[0].peer as u32);
                continue;
            }
            let piece = &*piece;
            for item in items {
                batch = piece.send(batch, item.peer as u32);
            }
        }
        batch.submit(&streams[turn.side.stream])
    }

    fn finish(&mut self, mut work: Work, ending: Ending) -> hccl::Result<()> {
        match ending {
            Ending::Waited => work.wait()?,
            Ending::Awaited => block_on(work)?,
            Ending::Abandoned => {
                let _ = work.poll_unpin(&mut Context::from_waker(Waker::noop()));
            }
            Ending::Kept => self.kept.push(work),
            Ending::Dropped => drop(work),
            Ending::Forgotten => std::mem::forget(work),
        }
        Ok(())
    }
}

/// Calls a function that is generic over the element type and the reduction. It covers the types
/// that at least one product reduces.
macro_rules! with_reduction {
    ($kind:expr, $dtype:expr, $function:ident($($argument:expr),*)) => {
        match ($kind, $dtype) {
            (ReduceKind::Sum, DType::I8) => $function::<i8, Sum>($($argument),*),
            (ReduceKind::Sum, DType::I16) => $function::<i16, Sum>($($argument),*),
            (ReduceKind::Sum, DType::I32) => $function::<i32, Sum>($($argument),*),
            (ReduceKind::Sum, DType::I64) => $function::<i64, Sum>($($argument),*),
            (ReduceKind::Sum, DType::U64) => $function::<u64, Sum>($($argument),*),
            (ReduceKind::Sum, DType::F16) => $function::<f16, Sum>($($argument),*),
            (ReduceKind::Sum, DType::BF16) => $function::<bf16, Sum>($($argument),*),
            (ReduceKind::Sum, DType::F32) => $function::<f32, Sum>($($argument),*),
            (ReduceKind::Sum, DType::F64) => $function::<f64, Sum>($($argument),*),
            (ReduceKind::Max, DType::I8) => $function::<i8, Max>($($argument),*),
            (ReduceKind::Max, DType::I16) => $function::<i16, Max>($($argument),*),
            (ReduceKind::Max, DType::I32) => $function::<i32, Max>($($argument),*),
            (ReduceKind::Max, DType::I64) => $function::<i64, Max>($($argument),*),
            (ReduceKind::Max, DType::U64) => $function::<u64, Max>($($argument),*),
            (ReduceKind::Max, DType::F16) => $function::<f16, Max>($($argument),*),
            (ReduceKind::Max, DType::BF16) => $function::<bf16, Max>($($argument),*),
            (ReduceKind::Max, DType::F32) => $function::<f32, Max>($($argument),*),
            (ReduceKind::Max, DType::F64) => $function::<f64, Max>($($argument),*),
            (ReduceKind::Min, DType::I8) => $function::<i8, Min>($($argument),*),
            (ReduceKind::Min, DType::I16) => $function::<i16, Min>($($argument),*),
            (ReduceKind::Min, DType::I32) => $function::<i32, Min>($($argument),*),
            (ReduceKind::Min, DType::I64) => $function::<i64, Min>($($argument),*),
            (ReduceKind::Min, DType::U64) => $function::<u64, Min>($($argument),*),
            (ReduceKind::Min, DType::F16) => $function::<f16, Min>($($argument),*),
            (ReduceKind::Min, DType::BF16) => $function::<bf16, Min>($($argument),*),
            (ReduceKind::Min, DType::F32) => $function::<f32, Min>($($argument),*),
            (ReduceKind::Min, DType::F64) => $function::<f64, Min>($($argument),*),
            (ReduceKind::Prod, DType::I8) => $function::<i8, Prod>($($argument),*),
            (ReduceKind::Prod, DType::I32) => $function::<i32, Prod>($($argument),*),
            (ReduceKind::Prod, DType::I64) => $function::<i64, Prod>($($argument),*),
            (ReduceKind::Prod, DType::U64) => $function::<u64, Prod>($($argument),*),
            (ReduceKind::Prod, DType::F16) => $function::<f16, Prod>($($argument),*),
            (ReduceKind::Prod, DType::F32) => $function::<f32, Prod>($($argument),*),
            (ReduceKind::Prod, DType::F64) => $function::<f64, Prod>($($argument),*),
            (kind, dtype) => unreachable!("nobody takes a {kind} of {dtype}"),
        }
    };
}
pub(crate) use with_reduction;

/// Calls an operation with a destination: the slice itself, or a new buffer, which is then copied
/// to the slice.
macro_rules! deliver {
    ($player:ident, $turn:ident, $slice:expr, |$to:ident| $call:expr) => {{
        let mut slice = $slice.expect("a destination");
        if $turn.side.fresh {
            let $to = $player.device.alloc::<T>(slice.len())?;
            // On another stream, if there is one.
            let stream = &$player.streams[($turn.side.stream + 1) % $player.streams.len()];
            $call?.settle(&mut slice, stream)
        } else {
            let $to = &mut slice;
            Ok($call?)
        }
    }};
}

/// The result of a call, with the destination buffer if the call made a new one.
trait Delivered<T: Element> {
    /// Copies the result to its destination, if it is in a new buffer.
    fn settle(self, to: &mut DeviceSliceMut<'_, T>, stream: &Stream) -> hccl::Result<Work>;
}

impl<T: Element> Delivered<T> for (DeviceBuffer<T>, Work) {
    fn settle(self, to: &mut DeviceSliceMut<'_, T>, stream: &Stream) -> hccl::Result<Work> {
        to.copy_from(&self.0, stream)?;
        Ok(self.1)
    }
}

impl<T: Element> Delivered<T> for (Option<DeviceBuffer<T>>, Work) {
    fn settle(self, to: &mut DeviceSliceMut<'_, T>, stream: &Stream) -> hccl::Result<Work> {
        to.copy_from(&self.0.expect("the destination comes back"), stream)?;
        Ok(self.1)
    }
}

fn movement<T: Element>(player: &mut Player, turn: &Turn<'_>) -> hccl::Result<Work> {
    let Turn { operation, member, side } = *turn;
    let [from, to] = operands::<T>(&mut player.buffers, side)?;
    let source = || from.as_ref().expect("a source").as_slice();
    let comm = player.comms[operation.team].as_mut().expect("a member");
    let stream = &player.streams[side.stream];
    match operation.kind {
        Kind::Broadcast(root) => comm.broadcast(&mut to.expect("a buffer"), root as u32, stream),
        Kind::AllGather if side.source.is_none() => {
            comm.all_gather_in_place(&mut to.expect("a buffer"), stream)
        }
        Kind::AllGather => {
            deliver!(player, turn, to, |to| comm.all_gather(source(), to, stream))
        }
        Kind::Scatter(root) => {
            let source = from.as_ref().map(DeviceSliceMut::as_slice);
            deliver!(player, turn, to, |to| comm.scatter(source, to, root as u32, stream))
        }
        Kind::AllToAll => {
            deliver!(player, turn, to, |to| comm.all_to_all(source(), to, stream))
        }
        Kind::AllGatherV => {
            let parts = partition(&side.received)?;
            deliver!(player, turn, to, |to| comm.all_gather_v(source(), to, &parts, stream))
        }
        Kind::AllToAllV => {
            let (sent, received) = (partition(&side.sent)?, partition(&side.received)?);
            deliver!(player, turn, to, |to| {
                comm.all_to_all_v(source(), to, &sent, &received, stream)
            })
        }
        Kind::AllToAllVc => {
            let matrix = turn.matrix()?;
            deliver!(player, turn, to, |to| comm.all_to_all_vc(source(), to, &matrix, stream))
        }
        Kind::Message { to: receiver, .. } if member != receiver => {
            comm.send(source(), receiver as u32, stream)
        }
        Kind::Message { from: sender, .. } => {
            deliver!(player, turn, to, |to| comm.recv(to, sender as u32, stream))
        }
        _ => unreachable!("no reduction, batch or barrier moves data of one type"),
    }
}

fn reduce<T: Reduce<Op>, Op: ReduceOp>(player: &mut Player, turn: &Turn<'_>) -> hccl::Result<Work> {
    let Turn { operation, side, .. } = *turn;
    let op = Op::default();
    let [from, to] = operands::<T>(&mut player.buffers, side)?;
    let source = || from.as_ref().expect("a source").as_slice();
    let comm = player.comms[operation.team].as_mut().expect("a member");
    let stream = &player.streams[side.stream];
    let Some(_) = side.source else {
        let mut buffer = to.expect("a buffer");
        return match operation.kind {
            Kind::AllReduce(_) => comm.all_reduce_in_place(&mut buffer, op, stream),
            Kind::Reduce(_, root) => comm.reduce_in_place(&mut buffer, op, root as u32, stream),
            _ => comm.reduce_scatter_in_place(&mut buffer, op, stream),
        };
    };
    match operation.kind {
        Kind::AllReduce(_) => {
            deliver!(player, turn, to, |to| comm.all_reduce(source(), to, op, stream))
        }
        Kind::Reduce(_, root) if side.destination.is_none() => {
            let nowhere = None::<&mut DeviceBuffer<T>>;
            comm.reduce(source(), nowhere, op, root as u32, stream)
        }
        Kind::Reduce(_, root) => {
            let root = root as u32;
            deliver!(player, turn, to, |to| comm.reduce(source(), Some(to), op, root, stream))
        }
        Kind::ReduceScatter(_) => {
            deliver!(player, turn, to, |to| comm.reduce_scatter(source(), to, op, stream))
        }
        _ => {
            let parts = partition(&side.sent)?;
            deliver!(player, turn, to, |to| {
                comm.reduce_scatter_v(source(), to, op, &parts, stream)
            })
        }
    }
}

pub fn partition(parts: &Parts) -> hccl::Result<Partition> {
    let (counts, at) = (parts.counts.iter().copied(), parts.displacements.iter().copied());
    Ok(Partition::with_displacements(counts, at)?)
}
