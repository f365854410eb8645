//! The operations of communicators: what they touch, and who knows what of whom behind them.

use super::blocks::engine;
use super::engine::{ArrivalKey, Checker, Sees};
use super::note::{Begin, NoteKind, operation};
use super::submit::put;
use crate::batch::item::BatchItem;
use crate::collective::call::CollectiveCall;
use crate::collective::request::{CollectiveRequest, Operation as Collective};
use crate::collective::table::{RECEIVES, SENDS};
use crate::fabric::Member;
use crate::memory::nominal;
use crate::message::Failure;
use crate::stream::Stream;
use crate::task::Touch;
use std::sync::Arc;

/// What is next to be told of an operation that has been announced.
#[must_use]
pub(crate) struct Announced(Option<Leaving>);

/// What the operation sees of the meetings that it leaves.
type Leaving = (Arc<Checker>, Vec<(ArrivalKey, Sees)>);

impl Announced {
    /// The operation is in the stream.
    #[inline]
    pub(crate) fn enqueued(self, stream: &'static Stream) -> Result<(), Failure> {
        match self.0 {
            None => Ok(()),
            Some((engine, leaves)) => put(engine, stream, NoteKind::End(leaves)),
        }
    }
}

/// Operations of communicators are announced when they run: a captured one at every execution of its graph.
#[inline]
fn watching(stream: &Stream) -> Option<Arc<Checker>> {
    engine(stream.device_id()).filter(|_| !stream.is_diverted())
}

/// A collective of a rank is next in the stream.
#[inline]
pub(crate) fn collective(
    stream: &'static Stream,
    member: &Member,
    number: u64,
    call: &CollectiveCall,
) -> Result<Announced, Failure> {
    match watching(stream) {
        None => Ok(Announced(None)),
        Some(engine) => announce(engine, stream, member, number, call),
    }
}

#[cold]
fn announce(
    engine: Arc<Checker>,
    stream: &'static Stream,
    member: &Member,
    number: u64,
    call: &CollectiveCall,
) -> Result<Announced, Failure> {
    let (rank, ranks) = (member.rank, member.comm.ranks());
    let (request, touches) = (&call.request, touches(call, rank, ranks));
    let key = (member.comm.id, 0, number);
    let (arrives, leaves) = if request.is_void() {
        (Vec::new(), Vec::new())
    } else {
        (vec![(key, rank, ranks)], vec![(key, sees(request, rank))])
    };
    let begin = Begin {
        operation: operation(
            stream,
            request.to_string(),
            Some(of_member(member, number)),
            request.function(),
            touches,
        ),
        apart: false,
        owns: Some(owns(member)),
        arrives,
    };
    put(engine.clone(), stream, NoteKind::Begin(begin))?;
    Ok(Announced(Some((engine, leaves))))
}

fn of_member(member: &Member, number: u64) -> String {
    format!("#{number} of communicator \"{}\", rank {}", member.comm.title(), member.rank)
}

/// A rank of a communicator has one operation under way.
fn owns(member: &Member) -> (u64, String) {
    let name = format!("rank {} of communicator \"{}\"", member.rank, member.comm.title());
    (member.comm.id << 20 | member.rank as u64, name)
}

/// What a rank's side of a collective touches.
pub(crate) fn touches(call: &CollectiveCall, rank: usize, ranks: usize) -> Vec<Touch> {
    let CollectiveCall { request, send, recv, table, .. } = call;
    let (send, recv) = (nominal(*send), nominal(*recv));
    let mut touches = Vec::new();
    match table {
        None => {
            let (sends, receives) = request.sizes(rank, ranks);
            touches.extend([Touch::read(send, sends), Touch::write(recv, receives)]);
        }
        Some(table) => {
            let blocks = |half, start, touch: fn(usize, usize) -> Touch| {
                (0..ranks).map(move |peer| {
                    let (bytes, offset) = table.blocks().of(half, peer, request.dtype);
                    touch(start + offset, bytes)
                })
            };
            match request.operation {
                Collective::AllGatherV => {
                    touches.push(Touch::read(send, table.extents[0].bytes));
                    touches.extend(blocks(SENDS, recv, Touch::write));
                }
                Collective::ReduceScatterV(_) => {
                    touches.extend(blocks(SENDS, send, Touch::read));
                    touches.push(Touch::write(recv, table.extents[1].bytes));
                }
                _ => {
                    touches.extend(blocks(SENDS, send, Touch::read));
                    touches.extend(blocks(RECEIVES, recv, Touch::write));
                }
            }
        }
    }
    touches.retain(|touch| !touch.range.is_empty());
    touches
}

/// Whose data a rank has when the collective is complete.
fn sees(request: &CollectiveRequest, rank: usize) -> Sees {
    let is_root = request.operation.root() == Some(rank as u32);
    match request.operation {
        Collective::Broadcast(root) | Collective::Scatter(root) if !is_root => {
            Sees::Party(root as usize)
        }
        Collective::Reduce(..) if is_root => Sees::All,
        Collective::Broadcast(_) | Collective::Scatter(_) | Collective::Reduce(..) => Sees::Nobody,
        _ => Sees::All,
    }
}

/// A list of messages that is being issued.
pub(crate) struct CheckedBatch {
    engine: Arc<Checker>,
    begin: Begin,
    leaves: Vec<(ArrivalKey, Sees)>,
}

impl CheckedBatch {
    /// From the items of the rank, if its device is checked. They become the next messages of their pairs.
    #[inline]
    pub(crate) fn of(
        stream: &'static Stream,
        member: &Member,
        items: &[BatchItem],
        call: &'static str,
    ) -> Option<CheckedBatch> {
        let engine = watching(stream)?;
        Some(CheckedBatch::read(engine, stream, member, items, call))
    }

    #[cold]
    fn read(
        engine: Arc<Checker>,
        stream: &'static Stream,
        member: &Member,
        items: &[BatchItem],
        call: &'static str,
    ) -> CheckedBatch {
        let (mut touches, mut arrives, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
        for item in items {
            let bytes = item.content.bytes();
            if !item.from.is_null() {
                touches.push(Touch::read(nominal(item.from), bytes));
            }
            let touch = if item.send { Touch::read } else { Touch::write };
            touches.push(touch(nominal(item.data), bytes));
            if item.peer != member.rank {
                let (rank, peer) = (member.rank as u64, item.peer as u64);
                let (source, destination) = if item.send { (rank, peer) } else { (peer, rank) };
                let way = 1 << 63 | source << 32 | destination;
                let side = usize::from(!item.send);
                let number = engine.next_number((member.comm.id, way, side as u64));
                let key = (member.comm.id, way, number);
                arrives.push((key, side, 2));
                leaves.push((key, Sees::Party(1 - side)));
            }
        }
        let what = match items.len() {
            1 => format!("{call} of 1 message"),
            several => format!("{call} of {several} messages"),
        };
        let operation = operation(stream, what, Some(of_rank(member)), call, touches);
        let begin = Begin { operation, apart: true, owns: Some(owns(member)), arrives };
        CheckedBatch { engine, begin, leaves }
    }

    /// The operation is next in the stream.
    pub(crate) fn announce(self, stream: &'static Stream) -> Result<Announced, Failure> {
        put(self.engine.clone(), stream, NoteKind::Begin(self.begin))?;
        Ok(Announced(Some((self.engine, self.leaves))))
    }
}

fn of_rank(member: &Member) -> String {
    format!("of communicator \"{}\", rank {}", member.comm.title(), member.rank)
}
