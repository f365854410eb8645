//! The resources of a communicator for custom operators: the threads, channels and memory of each
//! rank, and the requests by which pairs of ranks meet.
//!
//! The resources of a rank live as long as its side of the communicator.

use super::abroad;
use super::channel::{Channel, Exchanged};
use super::engine::OperatorEngine;
use super::latch::mark;
use super::link::Pairs;
use super::thread::{BROKEN, THREADS, Thread, ThreadOwner};
use crate::fabric::{Comm, CommPart, Heard, Member, PartNews};
use crate::machine::foreign::ForeignMemory;
use crate::memory::held::HeldMemory;
use crate::message::{Failure, refuse};
use crate::profile::Product;
use crate::step::Reason;
use crate::stream::{self, Stream};
use crate::{context, executor, machine, stream_end};
use ascend_sync::lock_std as lock;
use ascend_sys::ACL_ERROR_RT_CONTEXT_RELEASE_ERROR;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};

/// The largest number of threads of one rank, without those on streams of the program.
pub(crate) const MOST_THREADS: usize = 200;
const MOST_NOTIFIES: usize = 65_536;
/// The limit of the notifies of a single thread. A thread must have fewer notifies than this.
pub(crate) const NOTIFIES_OF_THREAD: u32 = 65_536;

/// The resources of a communicator: see the [module](self).
pub(crate) struct CommResources {
    ranks: Box<[Mutex<RankResources>]>,
    pub(super) pairs: Mutex<Pairs>,
    /// The mappings of memory that ranks of other processes have exchanged. The key is the rank,
    /// and the offset and size in bytes in the file of the rank's memory.
    pub(super) reached: Mutex<HashMap<(usize, usize, usize), Weak<ForeignMemory>>>,
}

/// The resources of one rank.
#[derive(Default)]
pub(super) struct RankResources {
    /// Whether the rank's side of the communicator has ended.
    gone: bool,
    threads: Vec<(OperatorEngine, u64)>,
    notifies: usize,
    /// The threads on streams of the program: the handle of each stream and that of its thread.
    wrapped: Vec<(u64, u64)>,
    /// The handle of the thread that launches kernels.
    pub(super) dedicated: Option<u64>,
    pub(super) channels: HashMap<ChannelKey, u64>,
    pub(super) buffer: Option<Arc<CommBuffer>>,
    pub(super) registered: Vec<CommMemory>,
}

/// The key of a channel. A second request with an equal key returns the same channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ChannelKey {
    pub(super) engine: OperatorEngine,
    pub(super) remote: usize,
    pub(super) protocol: i32,
    /// Both endpoints as bytes on Ascend 950; empty on other products.
    pub(super) endpoints: Box<[u8]>,
    /// The index among equal requests of one call.
    pub(super) index: usize,
}

/// The HCCL buffer of a rank. It is freed when the rank's side has ended and no rank of another
/// process can reach it any more.
pub(super) struct CommBuffer {
    pub(super) device: u32,
    pub(super) start: usize,
    /// The number of the allocation. A reset of the device ends the allocation, and then another
    /// allocation may have the same address.
    pub(super) number: u64,
    pub(super) bytes: usize,
}

impl Drop for CommBuffer {
    fn drop(&mut self) {
        let device = machine::device_slot(self.device);
        let allocation = (self.start, self.number);
        device.free_numbered(allocation, "HcclCommDestroy", stream::unfinished_on);
    }
}

/// Memory that was registered with `HcclCommMemReg`.
pub(super) struct CommMemory {
    pub(super) memory: Exchanged,
    pub(super) held: Option<HeldMemory>,
}

impl CommResources {
    pub(crate) fn new(ranks: usize) -> CommResources {
        let ranks = (0..ranks).map(|_| Mutex::default()).collect();
        CommResources { ranks, pairs: Mutex::default(), reached: Mutex::default() }
    }

    fn of_rank(&self, rank: usize) -> &Mutex<RankResources> {
        &self.ranks[rank]
    }
}

impl Comm {
    pub(super) fn resources(&self) -> &CommResources {
        self.part(|| CommResources::new(self.ranks()))
    }
}

/// Calls `use_it` with the resources of a rank, under their lock. `use_it` must not poll a stream.
pub(super) fn with_resources<R>(
    member: &Member,
    use_it: impl FnOnce(&mut RankResources) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let mut resources = lock(member.comm.resources().of_rank(member.rank));
    if resources.gone {
        return refuse!(
            HCCL_E_UNAVAIL,
            "rank {} has ended its communicator; make a new one",
            member.rank
        );
    }
    use_it(&mut resources)
}

/// Acquires a thread of an engine for each element of `notifies`, with at least that number of
/// notifies.
///
/// On Ascend 950 a rank has one list of threads for each engine. A later call gets the first
/// threads of the list again, and they are given the notifies that they lack. On A2 and A3 every
/// call makes new threads.
pub(crate) fn acquire_threads(
    member: &Arc<Member>,
    engine: OperatorEngine,
    notifies: &[u32],
) -> Result<Vec<u64>, Failure> {
    let place = StreamPlace::of(member)?;
    let batched = engine == OperatorEngine::Aicpu && member.comm.product != Product::Ascend950;
    let mut made = Vec::new();
    let acquired = with_resources(member, |resources| {
        let have: Vec<u64> = match member.comm.product {
            Product::A2 | Product::A3 => Vec::new(),
            Product::Ascend950 => {
                let same = resources.threads.iter().filter(|(of, _)| *of == engine);
                same.map(|(_, handle)| *handle).take(notifies.len()).collect()
            }
        };
        let old = have.iter().zip(notifies).map(|(handle, wanted)| {
            Thread::named(*handle).map_or(0, |thread| wanted.saturating_sub(thread.notifies()))
        });
        let new = &notifies[have.len()..];
        let more = old.chain(new.iter().copied()).map(|count| count as usize).sum::<usize>();
        resources.check_quota(member, new.len(), more)?;
        place.check_streams(new.len())?;
        for (handle, wanted) in have.iter().zip(notifies) {
            Thread::named(*handle)?.supplement(*wanted);
        }
        for count in new {
            let number = (resources.threads.len() + made.len()) as u32;
            let owner =
                ThreadOwner { member: Some(Arc::clone(member)), number, engine, wraps: false };
            made.push(Thread::create(place.stream()?, *count, batched, owner)?);
        }
        resources.notifies += more;
        resources.threads.extend(made.iter().map(|handle| (engine, *handle)));
        Ok(have.into_iter().chain(made.iter().copied()).collect())
    });
    let threads = match acquired {
        Ok(threads) => threads,
        Err(failure) => {
            // Either all threads are made, or none.
            made.into_iter().for_each(end_thread);
            return Err(failure);
        }
    };
    member.comm.check(crate::collective::comm_error::Origin::Call)?;
    Ok(threads)
}

/// Returns the handle of the thread on a stream of the program, with at least `notifies` notifies.
pub(crate) fn wrap_stream(
    member: &Arc<Member>,
    engine: OperatorEngine,
    stream: &'static Stream,
    notifies: u32,
) -> Result<u64, Failure> {
    member.comm.check(crate::collective::comm_error::Origin::Call)?;
    // The thread on a stream that was destroyed is ended.
    let dead = with_resources(member, |resources| {
        let is_dead = |(stream, _): &mut (u64, u64)| Stream::named(*stream).is_err();
        Ok(resources.wrapped.extract_if(.., is_dead).collect::<Vec<_>>())
    })?;
    dead.into_iter().for_each(|(_, thread)| Thread::end(thread));
    let handle = with_resources(member, |resources| {
        let known = resources.wrapped.iter().find(|(known, _)| *known == stream.handle());
        if let Some((_, handle)) = known {
            Thread::named(*handle)?.supplement(notifies);
            return Ok(*handle);
        }
        let number = resources.wrapped.len() as u32;
        let owner = ThreadOwner { member: Some(Arc::clone(member)), number, engine, wraps: true };
        let handle = Thread::create(stream, notifies, false, owner)?;
        resources.wrapped.push((stream.handle(), handle));
        Ok(handle)
    })?;
    // The check is repeated, because a failure in the meantime may have missed the new thread.
    member.comm.check(crate::collective::comm_error::Origin::Call)?;
    Ok(handle)
}

/// `HcommThreadAlloc`: makes threads outside of communicators, in the calling thread's context.
/// Either all are made, or none.
pub(crate) fn allocate_threads(
    engine: OperatorEngine,
    notifies: &[u32],
) -> Result<Vec<u64>, Failure> {
    let place = StreamPlace::current()?;
    place.check_streams(notifies.len())?;
    let batched = engine == OperatorEngine::Aicpu && place.device.product() != Product::Ascend950;
    let mut threads = Vec::with_capacity(notifies.len());
    for (number, count) in (0..).zip(notifies) {
        let owner = ThreadOwner { member: None, number, engine, wraps: false };
        let made = place.stream().and_then(|stream| Thread::create(stream, *count, batched, owner));
        match made {
            Ok(handle) => threads.push(handle),
            Err(failure) => {
                threads.into_iter().for_each(end_thread);
                return Err(failure);
            }
        }
    }
    Ok(threads)
}

/// `HcommThreadFree`: ends a thread. The queued tasks of the thread fail. Returns an error for a
/// thread of a communicator.
pub(crate) fn free_thread(handle: u64) -> Result<(), Failure> {
    let thread = Thread::named(handle)?;
    if thread.owner().is_some_and(|owner| owner.member.is_some()) {
        return refuse!(
            HCCL_E_PARA,
            "{} ends with its communicator; end that (HcclCommDestroy)",
            thread.describe()
        );
    }
    end_thread(handle);
    Ok(())
}

/// Ends a thread, and its stream unless the stream belongs to the program.
fn end_thread(handle: u64) {
    let Ok(thread) = Thread::named(handle) else { return };
    let own = thread.owner().is_some_and(|owner| !owner.wraps);
    if let (true, Ok(stream)) = (own, thread.stream()) {
        end_stream(stream);
    }
    Thread::end(handle);
}

/// Ends the threads of devices that are removed, if they belong to no communicator.
pub(crate) fn end_threads(devices: &Range<u32>) {
    for (thread, handle) in THREADS.live_handles() {
        if thread.side() == 0 && devices.contains(&thread.device()) {
            end_thread(handle);
        }
    }
}

impl RankResources {
    fn check_quota(&self, member: &Member, threads: usize, notifies: usize) -> Result<(), Failure> {
        let (has, had) = (self.threads.len(), self.notifies);
        if has + threads > MOST_THREADS {
            let again = match member.comm.product {
                Product::Ascend950 => "",
                _ => {
                    "; every call makes new ones on this product, so keep those of an earlier call"
                }
            };
            return refuse!(
                HCCL_E_UNAVAIL,
                "EI0007: the number of threads of rank {} is {has}, and it requests {threads} \
                 more; request fewer, since a rank has at most {MOST_THREADS}{again}",
                member.rank
            );
        }
        if had + notifies > MOST_NOTIFIES {
            return refuse!(
                HCCL_E_UNAVAIL,
                "EI0007: the number of notifies in the threads of rank {} is {had}, and it \
                 requests {notifies} more; request fewer, since a rank has at most \
                 {MOST_NOTIFIES} in a communicator",
                member.rank
            );
        }
        Ok(())
    }
}

/// The place for new streams of a rank: the context of the calling thread and its device.
pub(super) struct StreamPlace {
    context: u64,
    device: &'static machine::Device,
}

impl StreamPlace {
    pub(super) fn of(member: &Member) -> Result<StreamPlace, Failure> {
        let place = StreamPlace::current()?;
        if place.device.id != member.device {
            return refuse!(
                HCCL_E_PARA,
                "device {} is set in the calling thread, but the communicator \"{}\" is on device \
                 {}; set that device first (aclrtSetDevice)",
                machine::named(place.device.id),
                member.comm.title(),
                machine::named(member.device)
            );
        }
        Ok(place)
    }

    pub(super) fn current() -> Result<StreamPlace, Failure> {
        let (current, device) = context::current_device()?;
        Ok(StreamPlace { context: current.context, device })
    }

    pub(super) fn check_streams(&self, more: usize) -> Result<(), Failure> {
        let (has, most) =
            (context::stream_count(self.device.id), self.device.product().max_streams());
        if has + more > most {
            return refuse!(
                HCCL_E_UNAVAIL,
                "EI0007: the number of new threads is {more}, and each needs a stream, but device \
                 {} has {has} of {most} in use; destroy streams that are no longer needed",
                machine::named(self.device.id)
            );
        }
        Ok(())
    }

    pub(super) fn stream(&self) -> Result<&'static Stream, Failure> {
        context::create_stream(self.context, self.device, 0)
    }
}

impl CommPart for CommResources {
    /// Ends all resources of a rank whose side of the communicator has ended. Peers that still wait
    /// for a record of that rank fail.
    #[cold]
    fn left(&self, rank: usize, _: &str) {
        let resources = {
            let mut resources = lock(self.of_rank(rank));
            resources.gone = true;
            let left = std::mem::take(&mut *resources);
            resources.gone = true;
            left
        };
        for handle in resources.all_threads() {
            end_thread(handle);
        }
        for handle in resources.channels.into_values() {
            end_channel(handle);
        }
        drop(resources.buffer);
        executor::announce();
    }

    #[cold]
    fn repeat(&self, comm: &Comm, to: usize) {
        lock(&self.pairs).ask_again(comm, to);
    }

    #[cold]
    fn lost(&self, comm: &Comm, rank: usize) {
        self.lose(comm, rank);
    }

    #[cold]
    fn heard(&self, comm: &Comm, rank: usize, news: &PartNews) -> Heard {
        match news {
            PartNews::Channel { to, news } => self.hear(comm, rank, *to, news),
            _ => Heard::NotForThis,
        }
    }

    /// Fails every wait for a notify of the communicator.
    #[cold]
    fn broken(&self) {
        let mut waiters = Vec::new();
        for rank in &self.ranks {
            let resources = lock(rank);
            for thread in resources.all_threads().filter_map(|handle| Thread::named(handle).ok()) {
                mark(&thread.marks, BROKEN);
                waiters.extend(thread.waiters());
            }
            for channel in
                resources.channels.values().filter_map(|handle| Channel::named(*handle).ok())
            {
                mark(&channel.marks, BROKEN);
                waiters.extend(channel.waiters());
            }
        }
        waiters.into_iter().for_each(Stream::wake);
    }
}

/// Ends the stream of a thread. Its queued tasks fail.
pub(super) fn end_stream(stream: &'static Stream) {
    stream_end::destroy(stream, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, Reason::Ended);
}

/// Destroys an end of a channel, and notifies the other end. When this returns, no call of a peer
/// in this process is using memory of this end.
pub(super) fn end_channel(handle: u64) {
    let Ok(channel) = Channel::named(handle) else { return };
    if channel.is_abroad() {
        return abroad::end(handle, channel);
    }
    let peer = channel.peer().ok();
    if let Some(peer) = peer {
        peer.note_left();
        peer.waiters().for_each(Stream::wake);
    }
    Channel::end(handle);
    if let Some(peer) = peer {
        peer.reaches.wait();
    }
}

impl RankResources {
    fn all_threads(&self) -> impl Iterator<Item = u64> {
        let own = self.threads.iter().map(|(_, handle)| *handle);
        own.chain(self.wrapped.iter().map(|(_, handle)| *handle)).chain(self.dedicated)
    }
}
