//! Executes a group: operations of several communicators that one rank issues together.

use hccl::dtype::{DType, ReduceKind, ReduceOp, bf16, f16};
use hccl::group::{GroupWork, Recorder};
use hccl::prelude::*;

use super::buffers::{Piece, Typed, pieces};
use super::execute::{Player, Turn, partition, with_reduction};
use super::interpret::with_type;
use super::program::{Kind, Span};

/// The data that an operation borrows until the group has ended.
struct Entry<'a> {
    turn: Turn<'a>,
    source: Option<Piece<'a>>,
    destination: Option<Piece<'a>>,
    sent: Partition,
    received: Partition,
    matrix: CountMatrix,
}

/// Issues this rank's part of each operation of a group.
pub fn group(player: &mut Player, mut turns: Vec<Turn<'_>>) -> hccl::Result<GroupWork> {
    let Player { streams, comms, buffers, .. } = player;
    // A communicator is named once, together with all its operations.
    turns.sort_by_key(|turn| turn.operation.team);
    let mut entries = Vec::new();
    for turn in turns {
        let (sent, received) = (partition(&turn.side.sent)?, partition(&turn.side.received)?);
        entries.push(Entry {
            turn,
            source: None,
            destination: None,
            sent,
            received,
            matrix: turn.matrix()?,
        });
    }
    // All pieces are cut at once, in the order of the buffers.
    let mut spans: Vec<(Span, usize, bool)> = Vec::new();
    for (at, Entry { turn, .. }) in entries.iter().enumerate() {
        spans.extend(turn.side.source.map(|span| (span, at, true)));
        spans.extend(turn.side.destination.map(|span| (span, at, false)));
    }
    spans.sort();
    let cut = pieces(buffers, &spans.iter().map(|(span, ..)| *span).collect::<Vec<_>>())?;
    for (piece, (_, at, is_source)) in cut.into_iter().zip(spans) {
        let Entry { source, destination, .. } = &mut entries[at];
        *(if is_source { source } else { destination }) = Some(piece);
    }
    let mut comms: Vec<Option<&mut Communicator>> = comms.iter_mut().map(Option::as_mut).collect();
    let of_one = entries.chunk_by_mut(|a, b| a.turn.operation.team == b.turn.operation.team);
    hccl::group(|group| {
        for entries in of_one {
            let Turn { operation, side, .. } = entries[0].turn;
            let comm = comms[operation.team].take().expect("a member");
            let mut recorder = group.on(comm, &streams[side.stream]);
            for entry in entries {
                let dtype = entry.turn.operation.dtype;
                recorder = match entry.turn.operation.kind.reduction() {
                    Some(kind) => with_reduction!(kind, dtype, reduce(recorder, entry)),
                    None => with_type!(dtype, movement(recorder, entry)),
                };
            }
        }
        Ok(())
    })
}

fn movement<'g, 'env, T: Typed>(
    recorder: Recorder<'g, 'env>,
    entry: &'env mut Entry<'_>,
) -> Recorder<'g, 'env> {
    let Turn { operation, member, .. } = entry.turn;
    let Entry { source, destination, sent, received, matrix, .. } = entry;
    let from = source.as_mut().map(|piece| DeviceSliceMut::as_slice(T::slice(piece)));
    let to = destination.as_mut().map(T::slice);
    let source = || from.clone().expect("a source");
    let Some(to) = to else {
        let Kind::Message { to, .. } = operation.kind else {
            unreachable!("only a sender has none")
        };
        return recorder.send(source(), to as u32);
    };
    match operation.kind {
        Kind::Broadcast(root) => recorder.broadcast(to, root as u32),
        Kind::AllGather => recorder.all_gather(source(), to),
        Kind::AllGatherV => recorder.all_gather_v(source(), to, received),
        Kind::Scatter(root) => {
            let source = (member == root).then(source);
            recorder.scatter(source, to, root as u32)
        }
        Kind::AllToAll => recorder.all_to_all(source(), to),
        Kind::AllToAllV => recorder.all_to_all_v(source(), to, sent, received),
        Kind::AllToAllVc => recorder.all_to_all_vc(source(), to, matrix),
        Kind::Message { from, .. } => recorder.recv(to, from as u32),
        kind => unreachable!("{kind:?} is not for groups"),
    }
}

fn reduce<'g, 'env, T: Typed + Reduce<Op>, Op: ReduceOp>(
    recorder: Recorder<'g, 'env>,
    entry: &'env mut Entry<'_>,
) -> Recorder<'g, 'env> {
    let Entry { turn, source, destination, sent, .. } = entry;
    let from = source.as_mut().map(|piece| DeviceSliceMut::as_slice(T::slice(piece)));
    let to = destination.as_mut().map(T::slice).expect("a destination");
    match (turn.operation.kind, from) {
        (Kind::AllReduce(_), None) => recorder.all_reduce_in_place(to, Op::default()),
        (Kind::AllReduce(_), Some(from)) => recorder.all_reduce(from, to, Op::default()),
        (Kind::ReduceScatter(_), Some(from)) => recorder.reduce_scatter(from, to, Op::default()),
        (Kind::ReduceScatterV(_), Some(from)) => {
            recorder.reduce_scatter_v(from, to, Op::default(), sent)
        }
        (kind, _) => unreachable!("{kind:?} is not for groups"),
    }
}
