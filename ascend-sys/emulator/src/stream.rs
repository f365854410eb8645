//! Streams: a task queue with an owner, a failure record, and the handle that programs hold.

use crate::core_limits::CoreLimits;
use crate::failures::Failures;
use crate::host_call_state::HostCallState;
use crate::machine::{self, Device};
use crate::message::Failure;
use crate::progress::QueuePoint;
use crate::queue::TaskQueue;
use crate::slots::{HandleKind, Slots, Slotted};
use crate::step::Reason;
use crate::task;
use crate::watchers::Watchers;
use ascend_sync::lock_std as lock;
use ascend_sys::ACL_ERROR_RT_NO_STREAM_RESOURCE;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// A task of a stream. It is stored inline in the queue.
pub(crate) type Task = task::ErasedTask<Stream>;

pub(crate) static STREAMS: Slots<Stream> = Slots::new();

pub(crate) struct Stream {
    /// The number of the slot, which never changes. Tickets continue when a slot is used again, so
    /// a slot and a ticket identify a task for ever.
    index: u32,
    pub(crate) queue: TaskQueue<Task>,
    handle: AtomicU64,
    context: AtomicU64,
    device: AtomicU32,
    pub(crate) flags: AtomicU32,
    /// The priority, which is kept only for queries by the program: all streams run alike.
    pub(crate) priority: AtomicU32,
    /// The tag, which is kept only for queries by the program.
    pub(crate) tag: AtomicU32,
    pub(crate) failure_mode: AtomicU32,
    pub(crate) core_limits: CoreLimits,
    /// The state of the host function that the head may be.
    pub(crate) host_call: HostCallState,
    /// The thread that runs the callbacks of this stream; 0 if there is none.
    pub(crate) subscriber: AtomicU64,
    /// The graph that takes submitted tasks instead of the queue; 0 if there is none. See
    /// `capture`.
    pub(crate) diverted: AtomicU64,
    pub(crate) watchers: Watchers,
    pub(crate) failures: Failures,
    /// The reason why the voided tasks give up.
    pub(crate) reason: Mutex<Option<Reason>>,
    /// The last `aclrtStreamStop` that held the queue.
    pub(crate) hold: Mutex<Option<StreamHold>>,
}

/// The time at which a stream was stopped, and the thread that did it.
pub(crate) struct StreamHold {
    pub(crate) at: Instant,
    pub(crate) by: u32,
}

impl Slotted for Stream {
    const KIND: HandleKind = HandleKind::Stream;

    fn new(index: u32) -> Stream {
        Stream {
            index,
            queue: TaskQueue::new(),
            handle: AtomicU64::new(0),
            context: AtomicU64::new(0),
            device: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            priority: AtomicU32::new(0),
            tag: AtomicU32::new(0),
            failure_mode: AtomicU32::new(0),
            core_limits: CoreLimits::default(),
            host_call: HostCallState::new(),
            subscriber: AtomicU64::new(0),
            diverted: AtomicU64::new(0),
            watchers: Watchers::new(),
            failures: Failures::default(),
            reason: Mutex::new(None),
            hold: Mutex::new(None),
        }
    }
}

impl Stream {
    /// Makes a new stream of a context.
    pub(crate) fn create(
        context: u64,
        device: &'static Device,
        flags: u32,
    ) -> Result<&'static Stream, Failure> {
        let taken = STREAMS.take(|stream, handle| {
            stream.handle.store(handle, Ordering::Relaxed);
            stream.context.store(context, Ordering::Relaxed);
            stream.device.store(device.id, Ordering::Relaxed);
            stream.flags.store(flags, Ordering::Relaxed);
            stream.priority.store(0, Ordering::Relaxed);
            stream.tag.store(0, Ordering::Relaxed);
            stream.failure_mode.store(0, Ordering::Relaxed);
            stream.core_limits.clear();
            stream.subscriber.store(0, Ordering::Relaxed);
            stream.diverted.store(0, Ordering::Relaxed);
            stream.failures.clear();
            *lock(&stream.reason) = None;
            stream.queue.set_gate(0);
        });
        match taken {
            Some((stream, _)) => Ok(stream),
            None => Err(Failure::new(
                ACL_ERROR_RT_NO_STREAM_RESOURCE,
                "every stream of the process is in use; destroy one with aclrtDestroyStream",
            )),
        }
    }

    /// Returns the stream of a handle, in any context.
    #[inline]
    pub(crate) fn named(handle: u64) -> Result<&'static Stream, Failure> {
        match STREAMS.get(handle) {
            Some(stream) => Ok(stream),
            None => Err(crate::slots::unknown(crate::slots::HandleKind::Stream, handle)),
        }
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn handle(&self) -> u64 {
        self.handle.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn context(&self) -> u64 {
        self.context.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn device_id(&self) -> u32 {
        self.device.load(Ordering::Relaxed)
    }

    pub(crate) fn device(&self) -> &'static Device {
        machine::device_slot(self.device_id())
    }

    /// Returns whether submitted tasks go to a graph.
    #[inline]
    pub(crate) fn is_diverted(&self) -> bool {
        self.diverted.load(Ordering::Relaxed) != 0
    }

    /// Returns the reason why the voided tasks give up.
    pub(crate) fn void_reason(&self) -> Reason {
        lock(&self.reason).clone().unwrap_or(Reason::Aborted)
    }

    /// Returns the failure of a task, if it is still kept.
    pub(crate) fn failure(&self, ticket: u64) -> Option<Failure> {
        self.failures.of(ticket)
    }

    /// Returns the first failure among some tasks that is still kept.
    pub(crate) fn failure_within(&self, tickets: &Range<u64>) -> Option<Failure> {
        self.failures.first_within(tickets)
    }

    /// Returns the last failure that no synchronise has returned. From now on, all earlier failures
    /// count as returned.
    #[inline]
    pub(crate) fn take_unreported(&self) -> Result<(), Failure> {
        self.failures.report(u64::MAX)
    }

    /// Makes the handle invalid, so that the stream cannot be found any more. Returns false if it
    /// was already invalid.
    pub(crate) fn take_handle(&self) -> bool {
        STREAMS.retire(self.handle())
    }

    /// Returns the name of the stream in messages, such as "stream 5 of device 2".
    pub(crate) fn describe(&self) -> String {
        format!("stream {} of device {}", self.index, machine::named(self.device_id()))
    }
}

/// A point in a stream. It is complete when every task submitted before it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    const TICKET_BITS: u32 = 44;

    /// Returns the point after the newest task of a stream.
    #[inline]
    pub(crate) fn now(stream: &Stream) -> Mark {
        Mark::new(stream, stream.queue.submitted())
    }

    #[inline]
    pub(crate) fn new(stream: &Stream, ticket: u64) -> Mark {
        Mark(u64::from(stream.index) << Mark::TICKET_BITS | ticket)
    }

    pub(crate) fn stream(self) -> Option<&'static Stream> {
        STREAMS.at((self.0 >> Mark::TICKET_BITS) as u32)
    }

    pub(crate) fn ticket(self) -> u64 {
        self.0 & ((1 << Mark::TICKET_BITS) - 1)
    }

    #[inline]
    pub(crate) fn is_complete(self) -> bool {
        self.stream().is_none_or(|stream| stream.queue.completed() >= self.ticket())
    }

    /// Returns the last failure of the tasks before the point that no synchronise has returned.
    /// From now on, all failures before the point count as returned. Does nothing if the point is
    /// not complete.
    pub(crate) fn take_unreported(self) -> Result<(), Failure> {
        match self.stream() {
            Some(stream) if stream.queue.completed() >= self.ticket() => {
                stream.failures.report(self.ticket())
            }
            _ => Ok(()),
        }
    }

    /// Returns the stream and the ticket, if the stream exists.
    pub(crate) fn point(self) -> Option<(&'static Stream, u64)> {
        self.stream().map(|stream| (stream, self.ticket()))
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Mark {
        Mark(bits)
    }
}

/// Returns the points that freed memory of some devices has to wait for: those after all work that
/// is unfinished on the devices now.
pub(crate) fn unfinished_on(devices: Range<u32>) -> Vec<QueuePoint> {
    let busy = STREAMS.all().filter(|stream| !stream.queue.is_idle());
    let theirs = busy.filter(|stream| devices.contains(&stream.device_id()));
    theirs.map(|stream| QueuePoint::now(&stream.queue.progress)).collect()
}
