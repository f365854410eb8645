//! Channels to ranks in other processes.
//!
//! Each process holds the ends of its own ranks. The two requests of a pair of ranks meet in the
//! process of the lower rank. The higher rank sends its request there, and the answer is the
//! request of the lower rank. A rank exchanges device memory, or pinned host memory of the
//! emulator. The other process maps that memory at addresses of its own, as memory of the same card
//! or as pinned host memory. The record of a notify is sent to the peer's process after all earlier
//! writes.
//!
//! Memory that a rank of another process may still reach must not be freed. So an end *lends* the
//! memory that it exchanges. Lent memory is freed only after the other process has released it, or
//! when that process is gone. A process releases lent memory when its end is gone and no queued
//! task uses the memory.

use super::channel::{BUFFER_TAG, CHANNELS, Channel, Exchanged};
use super::link::{ChannelRequest, LinkRequest};
use super::resources::{CommBuffer, CommResources, with_resources};
use super::signal::NotifyRef;
use crate::check;
use crate::counted::CountedTable;
use crate::fabric::{ChannelNews, Comm, Heard, Member, OfferedEnd, OfferedMemory};
use crate::later;
use crate::machine::{
    self,
    foreign::{ForeignMemory, ForeignPlace, card_of, is_outside},
};
use crate::memory::{self, host_pool, pool::HeldRange, pool::PAGE};
use crate::message::{Failure, refuse};
use crate::progress::{QueuePoint, are_complete};
use crate::stream::{Stream, unfinished_on};
use ascend_sync::lock_std as lock;
use ascend_sys::CommProtocol;
use std::ops::Range;
use std::sync::Arc;

/// Memory that an end has exchanged with a rank of another process.
struct LentMemory {
    /// The communicator that receives the message that the memory is released.
    comm: Arc<Comm>,
    to: usize,
    device: u32,
    buffer: Option<Arc<CommBuffer>>,
    registered: Vec<Range<usize>>,
    /// Prevents the reuse of the memory when its device is reset. This is the last field, so that
    /// it is dropped last.
    hold: Arc<()>,
}

/// The lent memory, by the handle of the end that lends it.
static LENT: CountedTable<u64, LentMemory> = CountedTable::new();

impl LentMemory {
    fn is_lent_to(&self, comm: &Comm, rank: usize) -> bool {
        (self.comm.id, self.to) == (comm.id, rank)
    }
}

/// Lends the memory that a request offers to a rank of another process. The memory cannot be freed
/// from now on. If the request is not sent, the caller must [take the memory back](take_back).
pub(super) fn lend(
    member: &Member,
    remote: usize,
    request: &mut LinkRequest,
) -> Result<(), Failure> {
    let mut memories = request.channel_requests.iter().flat_map(|it| &it.memories);
    memories.try_for_each(|memory| may_be_shown(memory, remote))?;
    let buffer = with_resources(member, |resources| Ok(resources.buffer.clone()))?;
    for ChannelRequest { end, memories, .. } in &request.channel_requests {
        let others = memories.iter().filter(|it| it.tag != BUFFER_TAG);
        let registered: Vec<Range<usize>> =
            others.map(|it| it.start..it.start + it.bytes).collect();
        check::lent(member, &registered);
        let lent = LentMemory {
            comm: Arc::clone(&member.comm),
            to: remote,
            device: member.device,
            buffer: buffer.clone(),
            registered,
            hold: Arc::new(()),
        };
        LENT.lock().insert(*end, lent);
    }
    // A loss of the peer from now on ends the lending. This check covers an earlier one.
    if member.comm.is_lost(remote) {
        take_back(request);
    }
    request.offer = request.offer()?;
    Ok(())
}

/// Checks that another process can map the memory.
fn may_be_shown(memory: &Exchanged, remote: usize) -> Result<(), Failure> {
    let Exchanged { tag, on_host, start, bytes } = memory;
    if is_outside(*start) {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "\"{tag}\" cannot be exchanged with rank {remote} of another process: it is memory of \
             another process, or mapped by aclrtMapMem; exchange memory of aclrtMalloc"
        );
    }
    if *on_host && host_pool().find(*start, *bytes).is_err() {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "\"{tag}\" is host memory that the program has allocated itself, and rank {remote} is in another process, which cannot map it: use \
             memory of aclrtMallocHost"
        );
    }
    Ok(())
}

/// Notes that the other process has the handle of an end between endpoints. An end between
/// endpoints lends no memory itself.
pub(super) fn lend_end(member: &Member, end: u64) {
    let lent = LentMemory {
        comm: Arc::clone(&member.comm),
        to: 1 - member.rank,
        device: member.device,
        buffer: None,
        registered: Vec::new(),
        hold: Arc::new(()),
    };
    LENT.lock().insert(end, lent);
}

/// Ends a connection between endpoints, because the other process has never connected its end.
pub(super) fn lose_end(member: &Member, end: u64) {
    end_lent(|own, _| own == end);
    member.comm.leave(1 - member.rank, "it has destroyed its end of the channel".into());
    if let Ok(channel) = Channel::named(end) {
        peer_ended(channel);
    }
}

/// Takes back the memory of a request that was not sent to another process.
pub(super) fn take_back(request: &LinkRequest) {
    end_lent(|end, _| request.channel_requests.iter().any(|request| request.end == end));
}

/// Ends the lending of memory for which `is_over` returns true. This may free memory, after the
/// lock is released.
fn end_lent(is_over: impl Fn(u64, &LentMemory) -> bool) {
    if LENT.is_empty() {
        return;
    }
    let _over: Vec<LentMemory> = {
        let mut lent = LENT.lock();
        let over = lent.iter().filter(|(end, memory)| is_over(**end, memory));
        let ends: Vec<u64> = over.map(|(end, _)| *end).collect();
        ends.iter().filter_map(|end| lent.remove(end)).collect()
    };
}

/// Returns memory of a device that ranks of other processes may still reach.
pub(crate) fn held_on(device: u32) -> Vec<HeldRange> {
    if LENT.is_empty() {
        return Vec::new();
    }
    let lent = LENT.lock();
    let of_device = lent.values().filter(|lent| lent.device == device);
    let held = |lent: &LentMemory| {
        let buffer = lent.buffer.as_ref().map(|it| it.start..it.start + it.bytes);
        let hold = Arc::downgrade(&lent.hold);
        let ranges = lent.registered.iter().cloned().chain(buffer);
        ranges.map(|bytes| HeldRange { bytes, hold: hold.clone() }).collect::<Vec<_>>()
    };
    of_device.flat_map(held).collect()
}

/// Checks that memory can be freed: a rank of another process must not reach it.
pub(crate) fn check_free(memory: Range<usize>) -> Result<(), String> {
    if LENT.is_empty() {
        return Ok(());
    }
    let lent = LENT.lock();
    let overlaps = |one: &Range<usize>| one.start < memory.end && memory.start < one.end;
    match lent.values().find(|lent| lent.registered.iter().any(overlaps)) {
        None => Ok(()),
        Some(LentMemory { comm, to, .. }) => Err(format!(
            "it is registered with communicator \"{}\", and rank {to}, in another process, reaches it over a channel: end the communicator first",
            comm.title()
        )),
    }
}

impl LinkRequest {
    /// Returns the request in the form that is sent to another process.
    fn offer(&self) -> Result<Vec<OfferedEnd>, Failure> {
        let memory = |memory: &Exchanged| match memory::resolve(memory.start, memory.bytes) {
            Ok(found) => Ok(OfferedMemory {
                tag: memory.tag.clone(),
                on_host: memory.on_host,
                data: found.data.addr(),
                bytes: memory.bytes,
            }),
            Err(text) => refuse!(
                HCCL_E_PARA,
                "registered memory must not be freed: {text}. Free it after the communicator has \
                 ended"
            ),
        };
        let end = |request: &ChannelRequest| {
            Ok(OfferedEnd {
                protocol: request.protocol.0,
                notifies: request.notifies,
                end: request.end,
                memories: request.memories.iter().map(memory).collect::<Result<_, Failure>>()?,
            })
        };
        self.channel_requests.iter().map(end).collect()
    }

    /// Makes a request from the message of a rank of another process.
    fn told(number: u64, ends: Vec<OfferedEnd>) -> Arc<Self> {
        let memory = |OfferedMemory { tag, on_host, data, bytes }| {
            // The address is one of the other process. The rank that connects maps it.
            Exchanged { tag, on_host, start: data, bytes }
        };
        let request = |OfferedEnd { protocol, notifies, end, memories }| ChannelRequest {
            protocol: CommProtocol(protocol),
            notifies,
            end,
            memories: memories.into_iter().map(memory).collect(),
        };
        let channel_requests = ends.into_iter().map(request).collect();
        let function = "HcclChannelAcquire";
        Arc::new(Self { channel_requests, function, offer: Vec::new(), number })
    }
}

/// Maps memory that a rank of another process has exchanged. Returns its addresses in this process,
/// and the mapping.
fn reach(
    member: &Member,
    remote: usize,
    told: &Exchanged,
) -> Result<(Exchanged, Arc<ForeignMemory>), Failure> {
    let comm = &member.comm;
    let found = comm.joint.as_ref().and_then(|joint| match told.on_host {
        true => joint.in_file_of_host(remote, told.start, told.bytes),
        false => joint.in_file(remote, told.start, told.bytes),
    });
    let Some((peer, start)) = found else {
        return refuse!(
            HCCL_E_REMOTE,
            "EI0012: \"{}\" of rank {remote}, {} bytes, does not lie in the memory of its {}; \
             register it again on that rank",
            told.tag,
            told.bytes,
            if told.on_host { "process" } else { "device" }
        );
    };
    let of_page = start % PAGE;
    let (first, bytes) = (start - of_page, of_page + told.bytes);
    let mut known = lock(&comm.resources().reached);
    known.retain(|_, memory| memory.strong_count() > 0);
    let name = (remote, first, bytes);
    let memory = match known.get(&name).and_then(std::sync::Weak::upgrade) {
        Some(memory) => memory,
        None => {
            let failed = |text| Failure::new(ascend_sys::HcclResult::HCCL_E_REMOTE, text);
            let (place, file) = if told.on_host {
                (ForeignPlace::Host, peer.host_file(first, bytes))
            } else {
                let card = comm.place_of(remote).map_or(0, |place| place.index);
                let device = card_of(machine::device_slot(member.device), card)
                    .map_err(|text| failed(format!("memory of rank {remote}: {text}")))?;
                (ForeignPlace::Device(device), peer.file(first, bytes))
            };
            let file = file.map_err(|e| failed(e.to_string()))?;
            let process = peer.home.process;
            let made =
                ForeignMemory::new(place, (file, first), bytes, process, "HcclChannelAcquire")
                    .map_err(|failure| failed(failure.text.to_string()))?;
            let made = Arc::new(made);
            check::reaches(member, remote, made.addresses(), told.start - of_page);
            known.insert(name, Arc::downgrade(&made));
            made
        }
    };
    let start = memory.addresses().start + of_page;
    Ok((Exchanged { start, ..told.clone() }, memory))
}

/// Connects an end of this process with the end that its request has met.
pub(super) fn connect(
    member: &Member,
    remote: usize,
    own: u64,
    theirs: &ChannelRequest,
) -> Result<(), Failure> {
    let channel = Channel::named(own)?;
    let found: Vec<_> = theirs
        .memories
        .iter()
        .map(|memory| reach(member, remote, memory))
        .collect::<Result<_, _>>()?;
    let (memories, reached) = found.into_iter().unzip();
    channel.connect_abroad(theirs.end, memories, reached);
    if lock(&member.comm.resources().pairs).settle(remote, theirs.end) == Some(true) {
        peer_ended(channel);
    }
    Ok(())
}

/// Declines a connection: the call has met an end of another process, but does not connect with
/// that end.
pub(super) fn decline(member: &Member, remote: usize, end: u64) {
    if lock(&member.comm.resources().pairs).settle(remote, end).is_some() {
        member.comm.tell_channel_of(member.rank, remote, ChannelNews::LetsGo { end });
    }
}

/// Handles the loss of the peer's end of a channel.
fn peer_ended(channel: &'static Channel) {
    channel.note_left();
    channel.waiters().for_each(Stream::wake);
    let about = channel.about(|about| (Arc::clone(&about.member), about.remote));
    if let (Some(reached), Some((member, remote))) = (channel.take_reached(), about) {
        let comm = Arc::clone(&member.comm);
        let_go(comm, (member.rank, remote), channel.peer_handle(), channel, reached);
    }
}

/// Destroys an end that leads to another process, and notifies that process. The memory of that
/// process is released when no queued task of this process reaches it.
pub(super) fn end(handle: u64, channel: &'static Channel) {
    let about = channel.about(|about| (Arc::clone(&about.member), about.remote));
    let Some((member, remote)) = about else { return };
    let (comm, rank) = (&member.comm, member.rank);
    let (of, reached) = (channel.peer_handle(), channel.take_reached());
    Channel::end(handle);
    // The other process has the handle of this end.
    if LENT.lock().contains_key(&handle) {
        comm.tell_channel_of(rank, remote, ChannelNews::Ended { end: handle, of });
    }
    if let Some(reached) = reached {
        let_go(Arc::clone(comm), (rank, remote), of, channel, reached);
    }
}

/// Releases the memory of a peer's end and notifies the peer, as soon as no running call and no
/// queued task reaches that memory. New calls do not find it any more.
fn let_go(
    comm: Arc<Comm>,
    (rank, to): (usize, usize),
    end: u64,
    channel: &'static Channel,
    reached: Vec<Arc<ForeignMemory>>,
) {
    let (mut until, mut reached): (Option<Vec<QueuePoint>>, _) = (None, reached);
    later::until_done(move || {
        if until.is_none() && !channel.reaches.are_over() {
            return false;
        }
        let is_done = are_complete(until.get_or_insert_with(|| unfinished_on(0..u32::MAX)));
        if is_done {
            reached.clear();
            comm.tell_channel_of(rank, to, ChannelNews::LetsGo { end });
        }
        is_done
    });
}

impl CommResources {
    /// Handles the loss of a rank's process.
    pub(super) fn lose(&self, comm: &Comm, rank: usize) {
        lock(&self.pairs).forget(rank);
        end_lent(|_, lent| lent.is_lent_to(comm, rank));
    }

    /// Handles news about channels from a rank of another process to one of this process.
    pub(super) fn hear(&self, comm: &Comm, rank: usize, to: usize, news: &ChannelNews) -> Heard {
        if to >= comm.ranks() || !comm.is_own(to) || comm.is_own(rank) {
            return Heard::Taken;
        }
        let lets_go = |end| comm.tell_channel_of(to, rank, ChannelNews::LetsGo { end });
        match news {
            ChannelNews::Asks { number, ends } if to < rank => {
                let mut pairs = lock(&self.pairs);
                if !ends.is_empty() && pairs.is_new(rank, *number) {
                    let theirs = LinkRequest::told(*number, ends.clone());
                    if let Some(ours) = pairs.post(rank, to, &theirs).met.get() {
                        tell_met(comm, to, rank, ours, &theirs);
                    }
                }
            }
            ChannelNews::Meets { number, ends } if rank < to => {
                let ends = LinkRequest::told(*number, ends.clone());
                if !lock(&self.pairs).answer(rank, *number, &ends) {
                    // The request was withdrawn in the meantime.
                    ends.channel_requests.iter().for_each(|theirs| lets_go(theirs.end));
                }
            }
            ChannelNews::Records { end, notify, by } => {
                if let Some(channel) = own_end(comm, *end, to, rank)
                    && let Some(spot) = NotifyRef::of_channel(channel, *notify)
                {
                    spot.is_recorded_by(by.as_deref(), comm.process_of(rank));
                    spot.set(Stream::wake);
                }
            }
            ChannelNews::Ended { end, of } => {
                // Waking a stream polls it, so no lock is held during the wake.
                let unmet = lock(&self.pairs).ended(rank, to, *end);
                if !unmet.is_empty() {
                    unmet.into_iter().for_each(lets_go);
                } else if let Some(channel) = connected(comm, (to, *of), (rank, *end)) {
                    peer_ended(channel);
                }
            }
            ChannelNews::LetsGo { end } => {
                end_lent(|own, lent| own == *end && lent.is_lent_to(comm, rank));
            }
            ChannelNews::Asks { .. } | ChannelNews::Meets { .. } => {}
        }
        Heard::Taken
    }
}

/// Notifies another process that its request has met a request of a rank of this process.
pub(super) fn tell_met(
    comm: &Comm,
    rank: usize,
    peer: usize,
    ours: &LinkRequest,
    theirs: &LinkRequest,
) {
    let (number, ends) = (theirs.number, ours.offer.clone());
    comm.tell_channel_of(rank, peer, ChannelNews::Meets { number, ends });
}

/// Returns the end with this handle, if it belongs to rank `own` of this process and leads to rank
/// `remote` of another process.
fn own_end(comm: &Comm, end: u64, own: usize, remote: usize) -> Option<&'static Channel> {
    let channel = Channel::named(end).ok()?;
    let is_it = channel.about(|about| {
        let Member { comm: of, rank, .. } = &*about.member;
        (of.id, *rank, about.remote) == (comm.id, own, remote)
    });
    is_it.unwrap_or_default().then_some(channel)
}

/// Returns the end of this process that is connected with an end of another process. `of` is the
/// handle of the own end as the other process has it; it is not valid if that process never
/// connected.
fn connected(
    comm: &Comm,
    (own, of): (usize, u64),
    (remote, end): (usize, u64),
) -> Option<&'static Channel> {
    let leads_there = |channel: &&Channel| channel.is_abroad() && channel.peer_handle() == end;
    let said = own_end(comm, of, own, remote).filter(leads_there);
    said.or_else(|| {
        let mut all = CHANNELS.live_handles().filter(|(channel, _)| leads_there(channel));
        all.find_map(|(_, handle)| own_end(comm, handle, own, remote))
    })
}
