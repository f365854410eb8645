//! The resources that a communicator keeps for operators: threads, channels and buffers, acquired
//! when an operator first needs them.
//!
//! The resources stay until the communicator is destroyed, because CANN has no function that
//! releases them. So an operator that runs again acquires nothing. The threads must be kept here,
//! because on the A2 and the A3 each request makes new threads, and a communicator has at most 200.
//!
//! Acquiring a channel waits for the peer. So a [helper thread](crate::comm) acquires missing
//! channels and then enqueues the tasks. For this reason the resources are
//! [shared](SharedResources) with the helper. Recording does not use them.
//!
//! Invariant: every handle here was made by this communicator, and is used only while the
//! communicator is live.

#![expect(unsafe_code, reason = "asks CANN for what is kept here")]

use std::sync::{Arc, Mutex, OnceLock};

use ascend_operator::acquire;
use ascend_operator::plan::{Engine, limits};
use ascend_sys::{ChannelHandle, HcclComm, ThreadHandle, aclrtStream};

use super::engine::{ENGINES, checked, code, protocol};
use super::state::Tape;
use crate::api::Table;
use crate::api::handles::StreamHandle;
use crate::api::operators::Buffer;
use crate::comm::handle::CommHandle;
use crate::device::Device;
use crate::error::product::Product;
use crate::error::{Error, OpContext, Result};
use crate::order::issue::Issued;
use crate::order::stream_slot::StreamSlot;

/// The state of a communicator for operators. Helpers use only its `shared` part.
#[derive(Default)]
pub(crate) struct Operators {
    /// The tape of the last recording. The next recording reuses its memory.
    pub(crate) tape: Tape,
    buffer: Option<Buffer>,
    /// The issued operators that are not known to be complete yet.
    pub(super) issued: Vec<Last>,
    pub(super) shared: Arc<SharedResources>,
}

/// The state that is used to issue tasks, on the communicator's thread or on a helper.
#[derive(Default)]
pub(super) struct SharedResources {
    /// A helper holds this lock while it waits for peers.
    pub(super) resources: Mutex<Resources>,
    /// The error of the operator that failed. Once it is set, no operator can run.
    spoiled: OnceLock<Error>,
}

/// The acquired resources of a communicator, and the state of the tasks that are being enqueued.
/// See the [module](self).
#[derive(Default)]
pub(super) struct Resources {
    engines: [OfEngine; ENGINES],
    /// The handles of the threads of the operator that is being issued, the main thread's handle
    /// first.
    pub(super) threads: Vec<ThreadHandle>,
    /// The number of tasks of each thread that are already enqueued.
    pub(super) told: Vec<usize>,
}

/// The resources of one engine.
#[derive(Default)]
struct OfEngine {
    /// The threads, in descending order of their numbers of notifies.
    threads: Vec<SubThread>,
    /// The channels, indexed by the rank of the peer.
    peers: Vec<Option<PeerChannel>>,
}

struct SubThread {
    handle: ThreadHandle,
    notifies: u32,
    stream: StreamHandle,
}

/// A channel, and the communication buffer of its peer.
#[derive(Clone, Copy)]
pub(super) struct PeerChannel {
    pub(super) channel: ChannelHandle,
    notifies: u32,
    pub(super) buffer: Buffer,
}

/// An operator that was issued.
pub(super) struct Last {
    pub(super) slot: &'static StreamSlot,
    pub(super) issued: Issued,
    pub(super) name: &'static str,
    pub(super) sequence: u64,
}

/// The owner of the resources, and the settings of the operator that needs them.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) table: &'a Table,
    pub(super) comm: HcclComm,
    pub(super) product: Option<Product>,
    pub(super) engine: Engine,
    pub(super) ranks: u32,
    /// The size of this rank's communication buffer in bytes.
    pub(super) buffer: u64,
    /// The time limit of a wait in seconds; 0 means no limit.
    pub(super) seconds: u32,
}

impl Operators {
    /// Returns the communication buffer of this rank, which lies on `device`.
    pub(super) fn buffer(&mut self, device: &Device, handle: &CommHandle) -> Result<Buffer> {
        if let Some(buffer) = self.buffer {
            return Ok(buffer);
        }
        let _bound = device.bind()?;
        let Some(comm) = handle.calling() else { return Err(Error::Aborted { context: None }) };
        // SAFETY: the caller holds the communicator, so its handle is live.
        Ok(*self.buffer.insert(unsafe { device.table().communication_buffer(comm) }?))
    }

    /// Checks that no earlier operator has failed. After a failure, an unknown set of notifies may
    /// still be set.
    pub(super) fn check(&mut self) -> Result<()> {
        let shared = &self.shared;
        self.issued.retain(|Last { slot, issued, name, sequence }| {
            let goes_on = !slot.is_work_complete(issued.number, issued.tickets.1);
            if !goes_on && let Err(error) = slot.outcome(issued.number, issued.tickets) {
                shared.spoil(name, *sequence, &error);
            }
            goes_on
        });
        shared.check()
    }
}

impl SharedResources {
    /// Records that an operator has failed. No operator can run after it, because the state of the
    /// notifies is undefined.
    pub(super) fn spoil(&self, operator: &'static str, sequence: u64, error: &Error) {
        self.spoiled.get_or_init(|| {
            let cause = Box::new(error.clone());
            Error::OperatorFailed { operator, sequence, cause }
        });
    }

    /// Checks that no operator has failed.
    pub(super) fn check(&self) -> Result<()> {
        self.spoiled.get().map_or(Ok(()), |why| Err(why.clone()))
    }
}

impl Resources {
    /// Returns whether there is a channel to each of these peers, so that no call waits for a peer.
    /// Returns an error if a channel has too few notifies, or needs more than a channel can have.
    pub(super) fn are_connected(&self, engine: Engine, wanted: &[(u32, u32)]) -> Result<bool> {
        let mut all = true;
        for (peer, notifies) in wanted {
            all &= self.engines[engine as usize].known(*peer, *notifies)?.is_some();
        }
        Ok(all)
    }

    /// Acquires the missing resources of the recorded tasks. Blocks until every peer with a missing
    /// channel has opened that channel too. Returns the thread of the stream.
    ///
    /// # Safety
    ///
    /// The communicator and the stream are live, and these resources belong to the communicator.
    pub(super) unsafe fn acquire(
        &mut self,
        site: Site<'_>,
        Tape { tasks, notifies, .. }: &Tape,
        stream: aclrtStream,
    ) -> Result<ThreadHandle> {
        let of_engine = &mut self.engines[site.engine as usize];
        let (main, subs) =
            notifies.split_first().map_or((0, &[][..]), |(main, subs)| (*main, subs));
        let most = subs.iter().copied().max().unwrap_or(0);
        // With `AicpuTs` the stream starts the main thread through one more notify of that thread,
        // and the main thread reports its end through one notify of the stream.
        let (count, most, of_stream) = match site.engine {
            Engine::CpuTs => (subs.len(), most, main),
            Engine::AicpuTs => (notifies.len(), most.max(main + 1), 1),
        };
        // SAFETY: the caller's promise.
        unsafe {
            of_engine.have_threads(site, count, most)?;
            of_engine.have_channels(site, &tasks.channels)?;
            let stream = site.table.thread_of_stream(site.comm, stream, of_stream)?;
            self.threads.clear();
            self.threads.extend((site.engine == Engine::CpuTs).then_some(stream));
            self.threads.extend(of_engine.threads[..count].iter().map(|thread| thread.handle));
            Ok(stream)
        }
    }

    /// Returns the channel to a peer, or `None` if it was not acquired.
    #[inline]
    pub(super) fn peer(&self, engine: Engine, rank: u32) -> Option<&PeerChannel> {
        self.engines[engine as usize].peers.get(rank as usize)?.as_ref()
    }

    /// Returns the streams of the threads of the operator that is being issued, without the stream
    /// on which the operator runs.
    pub(super) fn streams(&self, engine: Engine) -> impl Iterator<Item = &StreamHandle> {
        let count = self.threads.len() - usize::from(engine == Engine::CpuTs);
        self.engines[engine as usize].threads.iter().take(count).map(|thread| &thread.stream)
    }
}

impl OfEngine {
    /// Returns the channel to a peer, if there is one. It is an error if the channel has fewer than
    /// `notifies` notifies, or if no channel can have that many.
    fn known(&self, peer: u32, notifies: u32) -> Result<Option<&PeerChannel>> {
        match self.peers.get(peer as usize).and_then(Option::as_ref) {
            Some(known) if known.notifies >= notifies => Ok(Some(known)),
            Some(known) => Err(too_few(peer, notifies, known.notifies)),
            None if notifies > limits::CHANNEL_NOTIFIES => Err(too_many(peer, notifies)),
            None => Ok(None),
        }
    }

    /// Acquires threads until at least `count` of them have `notifies` notifies each. These threads
    /// are then the first ones in the list.
    ///
    /// # Safety
    ///
    /// As for [`Resources::acquire`].
    unsafe fn have_threads(&mut self, site: Site<'_>, count: usize, notifies: u32) -> Result<()> {
        let there = self.threads.iter().map(|thread| thread.notifies);
        let request = acquire::threads(there, count, notifies, site.product.map(checked));
        let Some(acquire::Request { count, notifies, again }) = request else { return Ok(()) };
        let mut handles = vec![0; count];
        // SAFETY: the caller's promise.
        unsafe {
            let engine = code(site.engine);
            site.table.acquire_threads(site.comm, engine, notifies, &mut handles)?;
            for handle in handles {
                let known = self.threads.iter_mut().find(|thread| again && thread.handle == handle);
                if let Some(known) = known {
                    known.notifies = known.notifies.max(notifies);
                    continue;
                }
                let stream = site.table.stream_of_thread(site.comm, handle)?;
                self.threads.push(SubThread { handle, notifies, stream });
            }
        }
        self.threads.sort_by_key(|thread| std::cmp::Reverse(thread.notifies));
        Ok(())
    }

    /// Acquires the missing channels to these peers, with the given numbers of notifies. Blocks
    /// until the peers have opened these channels too.
    ///
    /// # Safety
    ///
    /// As for [`Resources::acquire`].
    unsafe fn have_channels(&mut self, site: Site<'_>, wanted: &[(u32, u32)]) -> Result<()> {
        if self.peers.is_empty() {
            self.peers.resize(site.ranks as usize, None);
        }
        let mut missing = Vec::new();
        for (peer, notifies) in wanted {
            if self.known(*peer, *notifies)?.is_none() {
                missing.push((*peer, acquire::channel_notifies(*notifies)));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let (engine, protocol) = (code(site.engine), protocol(site.engine, site.product));
        // SAFETY: the caller's promise.
        unsafe {
            let channels = site.table.acquire_channels(site.comm, engine, protocol, &missing);
            let peers = || site.table.peers_of_attempt().map(Arc::new);
            let where_they_were = || OpContext { peers: peers(), ..OpContext::unknown() };
            let channels = channels.map_err(|error| error.in_operation(where_they_were))?;
            for ((peer, notifies), channel) in missing.into_iter().zip(channels) {
                let buffer = site.table.remote_buffer(site.comm, channel)?;
                if buffer.bytes != site.buffer {
                    return Err(different(peer, buffer.bytes, site.buffer));
                }
                if let Some(place) = self.peers.get_mut(peer as usize) {
                    *place = Some(PeerChannel { channel, notifies, buffer });
                }
            }
        }
        Ok(())
    }
}

#[cold]
fn too_few(peer: u32, needed: u32, has: u32) -> Error {
    invalid(format!(
        "an earlier operator opened the channel to rank {peer} with {has} notifies at each end, \
         but this operator uses {needed}: run this operator first, or on another communicator"
    ))
}

#[cold]
fn different(peer: u32, theirs: u64, ours: u64) -> Error {
    invalid(format!(
        "the communication buffer of rank {peer} has {theirs} bytes, but that of this rank has \
         {ours}, so the ranks would work in different rounds: give all ranks the same `buffer_mib`"
    ))
}

#[cold]
fn too_many(peer: u32, needed: u32) -> Error {
    invalid(format!(
        "the channel to rank {peer} would need {needed} notifies at each end, \
         but a channel has at most {}: use fewer signals",
        limits::CHANNEL_NOTIFIES
    ))
}

pub(super) fn invalid(problem: String) -> Error {
    Error::Invalid { operation: "run", problem: problem.into() }
}
