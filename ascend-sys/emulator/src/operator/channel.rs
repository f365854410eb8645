//! Channels: one rank's end of a connection to another rank.
//!
//! Each end has its own notifies, which the peer records and this rank waits for. It also holds the
//! addresses of the memory that the peer has exchanged: the peer's HCCL buffer, and the registered
//! memory that the peer has named in its description. The two ends of a pair are connected when
//! their requests [meet](super::link).

use super::engine::{OperatorEngine, name_of};
use super::latch::{Latch, end_all, mark};
use super::reaches::Reaches;
use super::thread::{generation, of_rank, side_of};
use crate::fabric::Member;
use crate::machine::foreign::ForeignMemory;
use crate::message::{Failure, refuse};
use crate::slots::{HandleKind, Slots, Slotted, unknown};
use crate::stream::Stream;
use ascend_sync::{AtomicU32, AtomicU64, Ordering, lock_std as lock};
use ascend_sys::{CommMem, CommMemType, CommProtocol};
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

pub(super) static CHANNELS: Slots<Channel> = Slots::new();

/// The largest number of notifies of an end.
pub(crate) const MOST_NOTIFIES: u32 = 64;
/// The number of notifies of each channel of the engine CCU, whatever number was requested.
pub(crate) const NOTIFIES_OF_CCU: u32 = 8;
/// The tag under which the HCCL buffer is exchanged.
pub(crate) const BUFFER_TAG: &str = "HcclBuffer";

/// The bit of [`Channel::marks`] that is set when the peer has left, and so records no more
/// notifies.
pub(super) const LEFT: u32 = 4;

pub(crate) struct Channel {
    index: u32,
    handle: AtomicU64,
    /// The handle of the peer's end in the peer's process; 0 until the ends are connected.
    peer: AtomicU64,
    /// Whether the peer is in another process.
    is_abroad: AtomicBool,
    /// The number of the rank that may use the end, as [`side_of`] returns it. 0 means that all
    /// threads of the device may use the end.
    side: AtomicU64,
    device: AtomicU32,
    pub(super) marks: AtomicU32,
    notifies: AtomicU32,
    /// The address of the peer's HCCL buffer.
    start: AtomicUsize,
    bytes: AtomicUsize,
    latches: [Latch; MOST_NOTIFIES as usize],
    /// The calls that are using memory of the peer.
    pub(super) reaches: Reaches,
    about: Mutex<Option<About>>,
}

/// The data of an end that few calls need.
pub(super) struct About {
    pub(super) member: Arc<Member>,
    pub(super) remote: usize,
    pub(super) engine: OperatorEngine,
    pub(super) protocol: CommProtocol,
    memories: Vec<Exchanged>,
    listed: Listed,
    /// The mappings of the peer's memory in this process, for a connected peer in another process.
    reached: Option<Vec<Arc<ForeignMemory>>>,
}

/// Memory that a rank lets its peer reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exchanged {
    pub(super) tag: String,
    pub(super) on_host: bool,
    pub(super) start: usize,
    pub(super) bytes: usize,
}

/// The arrays that a program receives. They stay valid until the channel ends.
#[derive(Default)]
struct Listed {
    memories: Box<[CommMem]>,
    names: Box<[*mut c_char]>,
    /// The texts that `names` points to.
    _texts: Vec<CString>,
}

// SAFETY: the pointers point to texts that the list owns, and to memory that is not accessed
// through them here.
unsafe impl Send for Listed {}

impl Slotted for Channel {
    const KIND: HandleKind = HandleKind::Channel;

    fn new(index: u32) -> Channel {
        Channel {
            index,
            handle: AtomicU64::new(0),
            peer: AtomicU64::new(0),
            is_abroad: AtomicBool::new(false),
            side: AtomicU64::new(0),
            device: AtomicU32::new(0),
            marks: AtomicU32::new(0),
            notifies: AtomicU32::new(0),
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            latches: std::array::from_fn(|_| Latch::new()),
            reaches: Reaches::new(),
            about: Mutex::new(None),
        }
    }
}

impl Channel {
    /// Makes an end that is not connected yet; see [`connect`](Self::connect). Returns its handle.
    pub(super) fn create(
        member: &Arc<Member>,
        remote: usize,
        engine: OperatorEngine,
        protocol: CommProtocol,
        notifies: u32,
    ) -> Result<u64, Failure> {
        let taken = CHANNELS.take(|channel, handle| {
            channel.handle.store(handle, Ordering::Relaxed);
            channel.peer.store(0, Ordering::Relaxed);
            channel.is_abroad.store(!member.comm.is_own(remote), Ordering::Relaxed);
            channel.side.store(side_of(member), Ordering::Relaxed);
            channel.device.store(member.device, Ordering::Relaxed);
            channel.start.store(0, Ordering::Relaxed);
            channel.bytes.store(0, Ordering::Relaxed);
            channel.marks.store(0, Ordering::Relaxed);
            channel.notifies.store(notifies, Ordering::Relaxed);
            channel.latches.iter().take(notifies as usize).for_each(|latch| {
                latch.begin(generation(handle));
            });
            let (memories, listed) = (Vec::new(), Listed::default());
            let member = Arc::clone(member);
            *lock(&channel.about) =
                Some(About { member, remote, engine, protocol, memories, listed, reached: None });
        });
        match taken {
            Some((_, handle)) => Ok(handle),
            None => refuse!(HCCL_E_UNAVAIL, "EI0007: all channels are in use; end some of them"),
        }
    }

    /// Makes this end belong to the rank `member`.
    pub(super) fn enter(&self, member: &Arc<Member>) {
        if let Some(about) = &mut *lock(&self.about) {
            about.member = Arc::clone(member);
        }
    }

    /// Connects this end with the peer's end `peer`. `memories` is the memory that the peer
    /// exchanges; between ranks, its first element is the peer's HCCL buffer.
    pub(super) fn connect(&self, peer: u64, memories: Vec<Exchanged>) {
        if let Some(buffer) = memories.first().filter(|_| self.side() != 0) {
            self.start.store(buffer.start, Ordering::Relaxed);
            self.bytes.store(buffer.bytes, Ordering::Relaxed);
        }
        if let Some(about) = &mut *lock(&self.about) {
            about.listed = Listed::of(&memories);
            about.memories = memories;
        }
        self.peer.store(peer, Ordering::Release);
    }

    /// Connects this end with an end of another process. `reached` holds the mappings of the peer's
    /// memory in this process.
    pub(super) fn connect_abroad(
        &self,
        peer: u64,
        memories: Vec<Exchanged>,
        reached: Vec<Arc<ForeignMemory>>,
    ) {
        if let Some(about) = &mut *lock(&self.about) {
            about.reached = Some(reached);
        }
        self.connect(peer, memories);
    }

    /// Takes the mappings of the memory that a peer in another process has exchanged. New calls do
    /// not find that memory any more. Returns `None` if the end was never connected, or if the
    /// mappings were taken before.
    pub(super) fn take_reached(&self) -> Option<Vec<Arc<ForeignMemory>>> {
        let mut about = lock(&self.about);
        let about = about.as_mut()?;
        about.memories.clear();
        self.start.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        about.reached.take()
    }

    /// Returns whether the peer is in another process.
    #[inline]
    pub(super) fn is_abroad(&self) -> bool {
        self.is_abroad.load(Ordering::Relaxed)
    }

    /// Returns the handle of the peer's end in the peer's process; 0 if the ends are not connected.
    pub(super) fn peer_handle(&self) -> u64 {
        self.peer.load(Ordering::Acquire)
    }

    /// Returns the end with this handle.
    #[inline]
    pub(crate) fn named(handle: u64) -> Result<&'static Channel, Failure> {
        CHANNELS.get(handle).map_or_else(|| stale(handle), Ok)
    }

    pub(super) fn handle(&self) -> u64 {
        self.handle.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn side(&self) -> u64 {
        self.side.load(Ordering::Relaxed)
    }

    /// Returns whether this end belongs to the rank `member`.
    pub(crate) fn is_of(&self, member: &Member) -> bool {
        self.side() == side_of(member)
    }

    /// Makes the end belong to no rank, so that all threads of its device may use it.
    pub(super) fn serve_all(&self) {
        self.side.store(0, Ordering::Relaxed);
    }

    /// Adds memory that the peer lets this end reach, or removes it if `reachable` is false.
    pub(super) fn admit(&self, memory: &Exchanged, reachable: bool) {
        if let Some(about) = &mut *lock(&self.about) {
            let known = about.memories.iter().position(|other| other == memory);
            match (known, reachable) {
                (None, true) => about.memories.push(memory.clone()),
                (Some(at), false) => drop(about.memories.remove(at)),
                _ => {}
            }
        }
    }

    pub(crate) fn device(&self) -> u32 {
        self.device.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn notifies(&self) -> u32 {
        self.notifies.load(Ordering::Relaxed)
    }

    /// Returns the peer's end, which is in this process.
    #[inline]
    pub(super) fn peer(&self) -> Result<&'static Channel, Failure> {
        CHANNELS.get(self.peer_handle()).map_or_else(|| self.peer_is_gone(), Ok)
    }

    /// Checks that the peer's end exists, in this process or in another one.
    #[inline]
    pub(super) fn check_peer(&self) -> Result<(), Failure> {
        if !self.is_abroad() {
            return self.peer().map(drop);
        }
        match self.marks.load(Ordering::Acquire) & LEFT {
            0 if self.peer_handle() != 0 => Ok(()),
            _ => self.peer_is_gone(),
        }
    }

    #[cold]
    fn peer_is_gone<T>(&self) -> Result<T, Failure> {
        refuse!(
            HCCL_E_REMOTE,
            "EI0012: the other end of {} is gone: the peer has ended its communicator, or its \
             call failed; make the channel again on both sides",
            self.describe()
        )
    }

    /// Returns the notify with this index; `None` if the end has no notify with this index.
    #[inline]
    pub(super) fn latch(&self, index: u32) -> Option<&Latch> {
        if index < self.notifies() { self.latches.get(index as usize) } else { None }
    }

    /// Returns the address and the size in bytes of the peer's HCCL buffer.
    #[inline]
    pub(crate) fn remote_buffer(&self) -> (usize, usize) {
        (self.start.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Returns whether the peer has exchanged all `bytes` bytes from `address` on.
    #[inline]
    pub(super) fn has_exchanged(&self, address: usize, bytes: usize) -> bool {
        let inside = |start: usize, length: usize| {
            let offset = address.wrapping_sub(start);
            offset < length && bytes <= length - offset
        };
        let (start, length) = self.remote_buffer();
        inside(start, length)
            || self.about(|about| {
                about.memories.iter().any(|memory| inside(memory.start, memory.bytes))
            }) == Some(true)
    }

    /// Returns a list of all memory that the peer has exchanged, for error texts.
    #[cold]
    pub(super) fn list_memories(&self) -> String {
        let say = |memory: &Exchanged| {
            let (start, end) = (memory.start, memory.start + memory.bytes);
            format!("\"{}\" {start:#x}..{end:#x} ({} bytes)", memory.tag, memory.bytes)
        };
        let all = self.about(|about| about.memories.iter().map(say).collect::<Vec<_>>());
        all.unwrap_or_default().join(", ")
    }

    /// Returns the memory that the peer has exchanged as C arrays: the number of entries, the
    /// memories, and their tags. Returns `None` if the channel has ended.
    pub(crate) fn remote_memories(&self) -> Option<(u32, *mut CommMem, *mut *mut c_char)> {
        let mut about = lock(&self.about);
        let listed = &mut about.as_mut()?.listed;
        let count = listed.memories.len() as u32;
        Some((count, listed.memories.as_mut_ptr(), listed.names.as_mut_ptr()))
    }

    /// Returns the engine and the protocol; `None` if the channel has ended.
    pub(crate) fn kind(&self) -> Option<(OperatorEngine, CommProtocol)> {
        self.about(|about| (about.engine, about.protocol))
    }

    /// Calls `look` with the data that few calls need. Returns `None` if the channel has ended.
    pub(super) fn about<R>(&self, look: impl FnOnce(&About) -> R) -> Option<R> {
        lock(&self.about).as_ref().map(look)
    }

    /// Notes that the peer will record no more notifies.
    pub(super) fn note_left(&self) {
        mark(&self.marks, LEFT);
    }

    /// Destroys the end with this handle, and wakes the streams that wait for its notifies.
    pub(super) fn end(handle: u64) {
        let Some(channel) = CHANNELS.get(handle) else { return };
        if !CHANNELS.retire(handle) {
            return;
        }
        *lock(&channel.about) = None;
        let latches = (0..channel.notifies()).filter_map(|index| channel.latch(index));
        let waiters = end_all(channel.device(), latches, generation(handle));
        CHANNELS.recycle(channel.index);
        waiters.into_iter().for_each(Stream::wake);
    }

    /// Returns the streams that wait for a notify of this end.
    pub(super) fn waiters(&self) -> impl Iterator<Item = &'static Stream> {
        (0..self.notifies()).filter_map(|index| self.latch(index)?.waiter())
    }

    /// Returns a description: `the channel of rank 0 of communicator "x" to rank 1 (HCCS)`.
    pub(crate) fn describe(&self) -> String {
        self.about(|About { member, remote, protocol, .. }| {
            format!("the channel of {} to rank {remote} ({})", of_rank(member), name_of(*protocol))
        })
        .unwrap_or_else(|| "a channel that has ended".into())
    }
}

impl Exchanged {
    /// Makes the entry for a rank's HCCL buffer.
    pub(super) fn buffer((start, bytes): (usize, usize)) -> Exchanged {
        Exchanged { tag: BUFFER_TAG.into(), on_host: false, start, bytes }
    }
}

impl Listed {
    fn of(memories: &[Exchanged]) -> Listed {
        let texts: Vec<CString> =
            memories.iter().map(|memory| CString::new(&*memory.tag).unwrap_or_default()).collect();
        let names = texts.iter().map(|text| text.as_ptr().cast_mut()).collect();
        let listed = memories.iter().map(|memory| CommMem {
            type_: match memory.on_host {
                true => CommMemType::COMM_MEM_TYPE_HOST,
                false => CommMemType::COMM_MEM_TYPE_DEVICE,
            },
            addr: std::ptr::with_exposed_provenance_mut(memory.start),
            size: memory.bytes as u64,
        });
        Listed { memories: listed.collect(), names, _texts: texts }
    }
}

#[cold]
fn stale<T>(handle: u64) -> Result<T, Failure> {
    refuse!(HCCL_E_PARA, "EI0003: {}", unknown(HandleKind::Channel, handle).text)
}
