//! The operations of communicators: their accesses, and what each rank knows after them.

use super::abroad::{Arrivals, way};
use super::blocks::engine;
use super::engine::{Apart, Checker, Sees};
use super::note::{Arriving, Begin, Leaving, NoteKind, operation};
use super::submit::put;
use crate::batch::item::BatchItem;
use crate::collective::call::CollectiveCall;
use crate::collective::request::{CollectiveRequest, Operation as Collective};
use crate::collective::table::{RECEIVES, SENDS};
use crate::fabric::{Comm, Member};
use crate::memory::nominal;
use crate::message::Failure;
use crate::stream::Stream;
use crate::task::Touch;
use std::sync::Arc;

/// An operation that was announced to the checker. The caller must then report its outcome: it is
/// in the stream ([`enqueued`](Self::enqueued)), or it is not ([`withdrawn`](Self::withdrawn)).
#[must_use]
pub(crate) struct Announced(Option<(Arc<Checker>, Vec<Leaving>)>);

impl Announced {
    /// Handles an announced operation that was not put into the stream. The next operation gets its
    /// numbers.
    pub(crate) fn withdrawn(self) {
        if let Some((engine, leaves)) = self.0 {
            for Leaving { key, sees, .. } in leaves {
                // Only messages take their numbers from the checker. The other side of a message is
                // the participant 0 or 1. For a collective, there is no number to take back.
                if let Sees::Party(other) = sees {
                    engine.number_not_used((key.0, key.1, 1 - other.min(1) as u64));
                }
            }
        }
    }

    /// Puts the note for the end of the operation into the stream, which now has the operation.
    #[inline]
    pub(crate) fn enqueued(self, stream: &'static Stream) -> Result<(), Failure> {
        match self.0 {
            None => Ok(()),
            Some((engine, leaves)) => put(engine, stream, NoteKind::End(leaves)),
        }
    }
}

/// Returns the checker for an operation in the stream, if it is to be announced now. A captured
/// operation is announced at every execution of its graph instead.
#[inline]
fn watching(stream: &Stream) -> Option<Arc<Checker>> {
    engine(stream.device_id()).filter(|_| !stream.is_diverted())
}

/// Announces that a collective of a rank is next in the stream.
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
    let (comm, sees) = (&member.comm, sees(request, rank));
    let (counts, comm_of) = (counts(comm, 0..ranks), Arc::clone(comm));
    let arriving = Arriving { key, comm: comm_of, rank, participant: rank, counts };
    let leaves = vec![Leaving { key, sees, abroad: sees.awaited(comm, |at| at, ranks) }];
    let begin = Begin {
        operation: operation(
            stream,
            request.to_string(),
            Some(of_member(member, number)),
            request.function(),
            touches,
        ),
        apart: apart(request.operation),
        owns: Some(owns(member)),
        arrives: vec![arriving],
    };
    put(engine.clone(), stream, NoteKind::Begin(begin))?;
    Ok(Announced(Some((engine, leaves))))
}

/// Returns the number of participants of a meeting, the number of those in this process, and the
/// number of those that report their arrival. `ranks` are their ranks.
fn counts(comm: &Comm, ranks: impl IntoIterator<Item = usize>) -> (usize, usize, usize) {
    ranks.into_iter().fold((0, 0, 0), |(all, own, told), rank| {
        let is_own = comm.is_own(rank);
        let tells = is_own || comm.is_checked_abroad(rank);
        (all + 1, own + usize::from(is_own), told + usize::from(tells))
    })
}

fn of_member(member: &Member, number: u64) -> String {
    let Member { comm, rank, .. } = member;
    let zeros = comm.lone_zeros(*rank, number.saturating_sub(1));
    let zeros = zeros.map(|said| format!(", after a call {said}")).unwrap_or_default();
    format!("#{number} of communicator \"{}\", rank {rank}{zeros}", comm.title())
}

/// Returns the number and the name of a rank of a communicator, as an object that may have only one
/// operation at a time.
fn owns(member: &Member) -> (u64, String) {
    let name = format!("rank {} of communicator \"{}\"", member.rank, member.comm.title());
    (member.comm.id << 20 | member.rank as u64, name)
}

/// Returns the accesses of a collective that must not share a byte. No byte may have two results.
/// Where CANN forbids to work in place, no byte may be sent and received into, either.
fn apart(operation: Collective) -> Apart {
    match operation {
        Collective::AlltoAll
        | Collective::AlltoAllV
        | Collective::AlltoAllVC
        | Collective::AllGatherV
        | Collective::ReduceScatterV(_) => Apart::All,
        _ => Apart::Writes,
    }
}

/// Returns the accesses of a rank's side of a collective.
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

/// Returns the participants whose data a rank has when the collective is complete.
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

impl Sees {
    /// Returns the arrivals in other processes on which this knowledge depends. There are
    /// `participants` participants, and `rank_of` returns the rank of each.
    fn awaited(
        self,
        comm: &Arc<Comm>,
        rank_of: impl Fn(usize) -> usize,
        participants: usize,
    ) -> Option<Arrivals> {
        let seen = match self {
            Sees::Nobody => 0..0,
            Sees::Party(one) => one..one + 1,
            Sees::All => 0..participants,
        };
        Arrivals::of(comm, seen.map(|at| (at, rank_of(at))))
    }
}

/// A list of messages that is issued, for checked mode.
pub(crate) struct CheckedBatch {
    engine: Arc<Checker>,
    begin: Begin,
    leaves: Vec<Leaving>,
}

impl CheckedBatch {
    /// Makes the list from the items of the rank. The items become the next messages of their pairs
    /// of ranks. Returns `None` if the device is not checked, or if the stream is captured.
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
                let Member { comm, rank, .. } = member;
                let ends = if item.send { [*rank, item.peer] } else { [item.peer, *rank] };
                let way = way(ends[0], ends[1]);
                let side = usize::from(!item.send);
                let number = engine.next_number((comm.id, way, side as u64));
                let key = (comm.id, way, number);
                let (counts, sees) = (counts(comm, ends), Sees::Party(1 - side));
                let (comm, rank) = (Arc::clone(comm), *rank);
                let abroad = sees.awaited(&comm, |at| ends[at], 2);
                arrives.push(Arriving { key, comm, rank, participant: side, counts });
                leaves.push(Leaving { key, sees, abroad });
            }
        }
        let what = match items.len() {
            1 => format!("{call} of 1 message"),
            several => format!("{call} of {several} messages"),
        };
        let operation = operation(stream, what, Some(of_rank(member)), call, touches);
        let begin = Begin { operation, apart: Apart::All, owns: Some(owns(member)), arrives };
        CheckedBatch { engine, begin, leaves }
    }

    /// Announces that the operation is next in the stream.
    pub(crate) fn announce(self, stream: &'static Stream) -> Result<Announced, Failure> {
        let announced = Announced(Some((self.engine.clone(), self.leaves)));
        match put(self.engine, stream, NoteKind::Begin(self.begin)) {
            Ok(()) => Ok(announced),
            Err(failure) => {
                announced.withdrawn();
                Err(failure)
            }
        }
    }
}

fn of_rank(member: &Member) -> String {
    format!("of communicator \"{}\", rank {}", member.comm.title(), member.rank)
}
