//! Threads of operators. A thread is a queue of primitives with its own notifies.

use super::engine::OperatorEngine;
use super::latch::{Latch, Latches, end_all};
use crate::fabric::Member;
use crate::machine;
use crate::message::{Failure, refuse};
use crate::slots::{HandleKind, Slots, Slotted, unknown};
use crate::stream::Stream;
use ascend_sync::{AtomicU32, AtomicU64, Ordering, lock_std as lock};
use std::sync::{Arc, Mutex};

pub(super) static THREADS: Slots<Thread> = Slots::new();

/// The mark of a thread or channel whose communicator has failed.
pub(super) const BROKEN: u32 = 1;
/// The mark of a thread that accepts primitives only in batch mode.
const BATCHED: u32 = 2;
/// The mark of a thread that all communicators of its device use.
const SHARED: u32 = 4;

pub(crate) struct Thread {
    index: u32,
    handle: AtomicU64,
    /// The handle of the thread's stream.
    stream: AtomicU64,
    device: AtomicU32,
    /// The number of the rank that the thread belongs to: see [`side_of`].
    side: AtomicU64,
    pub(super) marks: AtomicU32,
    notifies: AtomicU32,
    latches: Latches,
    owner: Mutex<Option<ThreadOwner>>,
}

/// The owner of a thread.
#[derive(Clone)]
pub(crate) struct ThreadOwner {
    /// The rank; `None` for a thread outside of communicators.
    pub(crate) member: Option<Arc<Member>>,
    /// The index of the thread among its owner's threads, from 0.
    pub(crate) number: u32,
    pub(crate) engine: OperatorEngine,
    /// Whether the thread wraps a stream of the program.
    pub(crate) wraps: bool,
}

impl Slotted for Thread {
    const KIND: HandleKind = HandleKind::Thread;

    fn new(index: u32) -> Thread {
        Thread {
            index,
            handle: AtomicU64::new(0),
            stream: AtomicU64::new(0),
            device: AtomicU32::new(0),
            side: AtomicU64::new(0),
            marks: AtomicU32::new(0),
            notifies: AtomicU32::new(0),
            latches: Latches::new(),
            owner: Mutex::new(None),
        }
    }
}

/// Returns a number that identifies a rank of a communicator. Threads and channels can be used
/// together if they have the same number; 0 stands for no rank.
pub(super) fn side_of(member: &Member) -> u64 {
    member.comm.id << 16 | member.rank as u64
}

/// Returns the generation in a handle. No two objects of one slot have the same generation.
#[inline]
pub(super) fn generation(handle: u64) -> u32 {
    (handle >> 24) as u32
}

impl Thread {
    /// Makes a thread on a stream and returns its handle. The owner must end the thread.
    pub(super) fn create(
        stream: &Stream,
        notifies: u32,
        batched: bool,
        owner: ThreadOwner,
    ) -> Result<u64, Failure> {
        let taken = THREADS.take(|thread, handle| {
            let side = owner.member.as_ref().map_or(0, |member| side_of(member));
            thread.handle.store(handle, Ordering::Relaxed);
            thread.stream.store(stream.handle(), Ordering::Relaxed);
            thread.device.store(stream.device_id(), Ordering::Relaxed);
            thread.side.store(side, Ordering::Relaxed);
            thread.marks.store(if batched { BATCHED } else { 0 }, Ordering::Relaxed);
            thread.latches.grow(0, notifies as usize, generation(handle));
            thread.notifies.store(notifies, Ordering::Release);
            *lock(&thread.owner) = Some(owner);
        });
        match taken {
            Some((_, handle)) => Ok(handle),
            None => refuse!(HCCL_E_UNAVAIL, "EI0007: all threads are in use; free some of them"),
        }
    }

    /// Returns the thread with this handle.
    #[inline]
    pub(crate) fn named(handle: u64) -> Result<&'static Thread, Failure> {
        THREADS.get(handle).map_or_else(|| stale(handle), Ok)
    }

    pub(crate) fn handle(&self) -> u64 {
        self.handle.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn device(&self) -> u32 {
        self.device.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn side(&self) -> u64 {
        self.side.load(Ordering::Relaxed)
    }

    /// Returns whether the thread accepts primitives only in batch mode.
    #[inline]
    pub(super) fn is_batched(&self) -> bool {
        self.marks.load(Ordering::Relaxed) & BATCHED != 0
    }

    /// Allows this thread and the threads of all communicators of its device to record each other's
    /// notifies.
    pub(super) fn share(&self) {
        self.marks.fetch_or(SHARED, Ordering::Relaxed);
    }

    /// Returns whether the thread and another one may record each other's notifies.
    #[inline]
    pub(super) fn goes_with(&self, other: &Thread) -> bool {
        let shared = || {
            (self.marks.load(Ordering::Relaxed) | other.marks.load(Ordering::Relaxed)) & SHARED != 0
        };
        self.device() == other.device() && (self.side() == other.side() || shared())
    }

    /// Returns the stream of the thread. Returns an error if the context of the stream was
    /// destroyed, or if the program has destroyed a wrapped stream.
    #[inline]
    pub(crate) fn stream(&self) -> Result<&'static Stream, Failure> {
        let handle = self.stream.load(Ordering::Relaxed);
        match Stream::named(handle) {
            Ok(stream) => Ok(stream),
            Err(failure) => {
                refuse!(
                    HCCL_E_PARA,
                    "{} has no stream any more: {}. Acquire a new thread",
                    self.describe(),
                    failure.text
                )
            }
        }
    }

    pub(crate) fn notifies(&self) -> u32 {
        self.notifies.load(Ordering::Acquire)
    }

    /// Makes notifies until there are at least `notifies`. Only one thread may call this at a time.
    pub(super) fn supplement(&self, notifies: u32) {
        let now = self.notifies();
        if notifies > now {
            self.latches.grow(now as usize, notifies as usize, generation(self.handle()));
            self.notifies.store(notifies, Ordering::Release);
        }
    }

    /// Returns the notify with this index; `None` if the thread has no notify with this index.
    #[inline]
    pub(super) fn latch(&self, index: u32) -> Option<&Latch> {
        if index < self.notifies() { self.latches.get(index as usize) } else { None }
    }

    pub(crate) fn owner(&self) -> Option<ThreadOwner> {
        lock(&self.owner).clone()
    }

    /// Ends the thread, but not its stream. A task that waits for one of its notifies fails.
    pub(super) fn end(handle: u64) {
        let Some(thread) = THREADS.get(handle) else { return };
        if !THREADS.retire(handle) {
            return;
        }
        *lock(&thread.owner) = None;
        let latches = (0..thread.notifies()).filter_map(|index| thread.latch(index));
        let waiters = end_all(thread.device(), latches, generation(handle));
        THREADS.recycle(thread.index);
        waiters.into_iter().for_each(Stream::wake);
    }

    /// Returns the streams that wait for a notify of this thread.
    pub(super) fn waiters(&self) -> impl Iterator<Item = &'static Stream> {
        (0..self.notifies()).filter_map(|index| self.latch(index)?.waiter())
    }

    /// Returns a description: `thread 1 (AICPU) of rank 0 of communicator "x"`.
    pub(crate) fn describe(&self) -> String {
        let Some(ThreadOwner { member, number, engine, wraps }) = self.owner() else {
            return "a thread that has ended".into();
        };
        let thread = match (wraps, Stream::named(self.stream.load(Ordering::Relaxed))) {
            (false, _) => format!("thread {number} ({engine})"),
            (true, Ok(stream)) => format!("the thread on {}", stream.describe()),
            (true, Err(_)) => "the thread on a stream that was destroyed".into(),
        };
        match member {
            Some(member) => format!("{thread} of {}", of_rank(&member)),
            None => format!("{thread} of device {}", machine::named(self.device())),
        }
    }

    /// Returns the product of the thread's device.
    pub(crate) fn product(&self) -> crate::profile::Product {
        machine::device_slot(self.device()).product()
    }
}

/// Returns a description: `rank 0 of communicator "x"`.
pub(super) fn of_rank(member: &Member) -> String {
    format!("rank {} of communicator \"{}\"", member.rank, member.comm.title())
}

#[cold]
fn stale<T>(handle: u64) -> Result<T, Failure> {
    refuse!(HCCL_E_PARA, "EI0003: {}", unknown(HandleKind::Thread, handle).text)
}
