//! Events: points in streams, for which other streams and threads wait.
//!
//! For the host, a record is a snapshot of the stream's newest ticket. For an event of
//! `aclrtCreateEventExWithFlag`, it is a snapshot for the waits of streams, too. A wait takes the
//! latest record before it, and an event that was never recorded counts as complete. The record of
//! an event of this kind is a task only if the event keeps time, or if the stream is held.
//!
//! An event of the older kind is a flag of the hardware, which streams read and write in their
//! order. The task of a record sets the flag. A wait that reaches the head of its stream blocks
//! until the flag is set, and `aclrtResetEvent` clears it. So a program can issue record, wait and
//! reset several times before the first of these tasks has run. In a program without resets, the
//! flag would stay set, and a later wait would not wait. CANN does not publish what happens then.
//! Here, a wait also waits for the latest record before it, if that record was in flight when the
//! wait was issued.

mod tasks;

use crate::check;
use crate::executor::{self, wait};
use crate::ipc::shared_event::{SharedEvent, SharedWait, WaitShared};
use crate::latched_bit::LatchedBit;
use crate::machine;
use crate::message::{Failure, fail};
use crate::sleep::Enders;
use crate::slots::{CAPACITY, HandleKind, Slots, Slotted};
use crate::stream::{Mark, Stream};
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_RT_EVENT_NOT_COMPLETE, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_NO_EVENT_RESOURCE, ACL_ERROR_RT_PARAM_INVALID,
    ACL_ERROR_RT_STREAM_CONTEXT, ACL_EVENT_EXTERNAL, ACL_EVENT_IPC, ACL_EVENT_SYNC,
    ACL_EVENT_TIME_LINE,
};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tasks::{RecordEvent, ResetEvent, Target, WaitEvent};

pub(crate) static EVENTS: Slots<Event> = Slots::new();

/// The bit of the state word that is set if the event is recorded. The word also holds the mark.
const RECORDED: u64 = 1 << 62;
/// The bit of the state word that is set while a thread sleeps until the event is recorded.
const AWAITED: u64 = 1 << 63;

pub(crate) struct Event {
    index: u32,
    device: AtomicU32,
    flags: AtomicU32,
    /// Whether the event was made by `aclrtCreateEventExWithFlag`.
    ex: AtomicBool,
    /// The latest record, as the host sees it.
    state: AtomicU64,
    /// The flag of the older kind.
    flag: LatchedBit,
    /// The bits of the mark of the record that set the flag last. Written before the flag.
    setter: AtomicU64,
    /// The time of the last completed record of an event that keeps time, as [`nanoseconds`]
    /// returns it.
    time: AtomicU64,
    /// The handle of the graph in which the event was recorded last; 0 if it was recorded in a
    /// stream. `captured_node` is the node in that graph: see `capture`.
    captured: AtomicU64,
    captured_node: AtomicU32,
    /// The number of unfinished waits of streams for the event.
    waits: AtomicU32,
    /// The part that other processes can share; only for an event with `ACL_EVENT_IPC`.
    shared: Mutex<Option<Arc<SharedEvent>>>,
}

/// The error for an event that is not recorded, and counts as complete only after a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotRecorded;

impl Slotted for Event {
    const KIND: HandleKind = HandleKind::Event;

    fn new(index: u32) -> Event {
        Event {
            index,
            device: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            ex: AtomicBool::new(false),
            state: AtomicU64::new(0),
            flag: LatchedBit::default(),
            setter: AtomicU64::new(0),
            time: AtomicU64::new(0),
            captured: AtomicU64::new(0),
            captured_node: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            shared: Mutex::new(None),
        }
    }
}

impl Event {
    /// Returns the number of further events that the process can have.
    pub(crate) fn available() -> usize {
        CAPACITY.saturating_sub(EVENTS.live().count())
    }

    pub(crate) fn id(&self) -> u32 {
        self.index
    }

    pub(crate) fn create(device: u32, flags: u32, ex: bool) -> Result<u64, Failure> {
        let shared = match flags & ACL_EVENT_IPC {
            0 => None,
            _ => Some(SharedEvent::new().map_err(|e| {
                let text = format!(
                    "cannot make shared memory: {e}; raise the process's limits on files and memory"
                );
                Failure::new(ACL_ERROR_RT_NO_EVENT_RESOURCE, text)
            })?),
        };
        Event::create_with(device, flags, ex, shared)
    }

    /// Makes an event that stands for an event of another process, on a device of the calling
    /// thread.
    pub(crate) fn import(device: u32, shared: Arc<SharedEvent>) -> Result<u64, Failure> {
        Event::create_with(device, ACL_EVENT_IPC, true, Some(shared))
    }

    fn create_with(
        device: u32,
        flags: u32,
        ex: bool,
        shared: Option<Arc<SharedEvent>>,
    ) -> Result<u64, Failure> {
        let taken = EVENTS.take(|event, _| {
            event.device.store(device, Ordering::Relaxed);
            event.flags.store(flags, Ordering::Relaxed);
            event.ex.store(ex, Ordering::Relaxed);
            event.state.store(0, Ordering::Relaxed);
            event.flag.renew();
            event.time.store(0, Ordering::Relaxed);
            event.captured.store(0, Ordering::Relaxed);
            *lock(&event.shared) = shared;
        });
        match taken {
            Some((_, handle)) => Ok(handle),
            None => fail!(
                ACL_ERROR_RT_NO_EVENT_RESOURCE,
                "every event of the process is in use; destroy one with aclrtDestroyEvent"
            ),
        }
    }

    #[inline]
    pub(crate) fn named(handle: u64) -> Result<&'static Event, Failure> {
        match EVENTS.get(handle) {
            Some(event) => Ok(event),
            None => Err(crate::slots::unknown(crate::slots::HandleKind::Event, handle)),
        }
    }

    /// Destroys an event. Work that waits for it keeps its target, but the event itself is gone at
    /// once.
    pub(crate) fn destroy(handle: u64) -> Result<(), Failure> {
        let event = Event::named(handle)?;
        if !EVENTS.retire(handle) {
            return Err(crate::slots::unknown(crate::slots::HandleKind::Event, handle));
        }
        if let Some(shared) = lock(&event.shared).take() {
            shared.close();
        }
        // Streams and threads that wait for a record must notice that there will be none.
        executor::announce();
        event.flag.wake();
        EVENTS.recycle(event.index);
        Ok(())
    }

    /// Records the event: it marks the newest task of a stream. See [`capture`](crate::capture) for
    /// a stream that is captured.
    #[inline]
    pub(crate) fn record(
        &'static self,
        handle: u64,
        stream: &'static Stream,
    ) -> Result<(), Failure> {
        self.same_device(stream)?;
        if let Some(shared) = self.shared() {
            return shared.record(stream);
        }
        self.captured.store(0, Ordering::Relaxed);
        let marked = check::marks(stream)?;
        // A held stream does not begin a record, so the record has to be a task.
        let mark = if self.keeps_time() || self.is_flag() || stream.queue.is_held() {
            let ticket = stream.enqueue(RecordEvent { event: self, handle })?;
            Mark::new(stream, ticket)
        } else {
            marked.unwrap_or_else(|| Mark::now(stream))
        };
        // One step sets the mark and reads whether a thread sleeps, so neither side can miss the
        // other.
        let before = self.state.swap(mark.to_bits() | RECORDED, Ordering::AcqRel);
        if before & AWAITED != 0 {
            executor::announce();
        }
        Ok(())
    }

    fn keeps_time(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & ACL_EVENT_TIME_LINE != 0
    }

    /// Returns whether the event is of the older kind, and streams can wait for it.
    #[inline]
    fn is_flag(&self) -> bool {
        !self.ex.load(Ordering::Relaxed) && self.flags.load(Ordering::Relaxed) & ACL_EVENT_SYNC != 0
    }

    /// Returns the part of the event that other processes can share, if it has one.
    #[inline]
    pub(crate) fn shared(&self) -> Option<Arc<SharedEvent>> {
        if self.flags.load(Ordering::Relaxed) & ACL_EVENT_IPC == 0 {
            return None;
        }
        lock(&self.shared).clone()
    }

    /// Returns an error if other processes can share the event. `what` names the refused operation.
    #[inline]
    pub(crate) fn is_for_one_process(&self, what: &str) -> Result<(), Failure> {
        if self.flags.load(Ordering::Relaxed) & ACL_EVENT_IPC == 0 {
            return Ok(());
        }
        fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "an event with ACL_EVENT_IPC cannot be {what}; use an event without this flag"
        )
    }

    /// Returns the graph and the node of the last record, if that record was captured.
    pub(crate) fn captured(&self) -> Option<(u64, usize)> {
        let graph = self.captured.load(Ordering::Acquire);
        (graph != 0).then(|| (graph, self.captured_node.load(Ordering::Relaxed) as usize))
    }

    pub(crate) fn set_captured(&self, graph: u64, node: usize) {
        self.captured_node.store(node as u32, Ordering::Relaxed);
        self.captured.store(graph, Ordering::Release);
    }

    /// Returns the flags with which the event was created.
    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Returns whether the event was made for waits across the border of a capture
    /// (`ACL_EVENT_EXTERNAL`).
    pub(crate) fn is_external(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & ACL_EVENT_EXTERNAL != 0
    }

    /// Returns whether the event was made by `aclrtCreateEventExWithFlag` with `ACL_EVENT_SYNC`.
    pub(crate) fn is_for_captures(&self) -> bool {
        self.ex.load(Ordering::Relaxed) && self.flags.load(Ordering::Relaxed) & ACL_EVENT_SYNC != 0
    }

    #[inline]
    pub(crate) fn same_device(&self, stream: &Stream) -> Result<(), Failure> {
        let device = self.device.load(Ordering::Relaxed);
        if device == stream.device_id() {
            return Ok(());
        }
        fail!(
            ACL_ERROR_RT_STREAM_CONTEXT,
            "the event belongs to device {device}, but {} does not; use a stream of device \
             {device}",
            stream.describe(),
            device = machine::named(device)
        )
    }

    /// Returns the point that the event marks, if it is recorded.
    #[inline]
    pub(crate) fn mark(&self) -> Option<Mark> {
        let state = self.state.load(Ordering::Acquire);
        (state & RECORDED != 0).then(|| Mark::from_bits(state & !(RECORDED | AWAITED)))
    }

    /// Returns the point that a host call must wait for; `None` if the event is complete. An event
    /// of the older kind that is not recorded is an error.
    pub(crate) fn pending(&self) -> Result<Option<Mark>, NotRecorded> {
        match self.mark() {
            Some(mark) if executor::is_complete(mark) => Ok(None),
            Some(mark) => Ok(Some(mark)),
            None if self.ex.load(Ordering::Relaxed) => Ok(None),
            None => Err(NotRecorded),
        }
    }

    /// Makes later work of the stream wait for the event. `limit` is the longest time that the wait
    /// may be at the head of the stream.
    pub(crate) fn wait(
        &'static self,
        handle: u64,
        stream: &'static Stream,
        limit: Option<Duration>,
    ) -> Result<(), Failure> {
        self.same_device(stream)?;
        let ex = self.ex.load(Ordering::Relaxed);
        if let Some(event) = self.shared() {
            return match event.latest()? {
                SharedWait::Nothing => {
                    check::host_is_told(stream.device_id());
                    Ok(())
                }
                SharedWait::Here(mark) => self.enqueue_wait(stream, Target::Mark(mark), limit),
                SharedWait::Elsewhere(record) => {
                    stream.enqueue(WaitShared { event, record, limit }).map(drop)
                }
            };
        }
        if !ex && !self.is_flag() {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the event was created without ACL_EVENT_SYNC: streams cannot wait for it; create \
                 it with this flag"
            );
        }
        let target = match self.mark() {
            Some(mark) if ex => Target::Mark(mark),
            None if ex => return Ok(()),
            latest => Target::Flag { event: self, handle, latest },
        };
        if let Target::Mark(mark) = target
            && mark.is_complete()
            && stream.queue.is_idle()
            && !check::is_on()
        {
            return Ok(());
        }
        self.enqueue_wait(stream, target, limit)
    }

    fn enqueue_wait(
        &'static self,
        stream: &'static Stream,
        target: Target,
        limit: Option<Duration>,
    ) -> Result<(), Failure> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        stream.enqueue(WaitEvent { event: self, target, limit }).map(drop)
    }

    /// Makes the task that clears the event.
    pub(crate) fn reset(
        &'static self,
        handle: u64,
        stream: &Stream,
    ) -> Result<ResetEvent, Failure> {
        self.same_device(stream)?;
        self.is_for_one_process("reset")?;
        if !self.is_flag() {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "this event cannot be reset; create it with aclrtCreateEvent, or with \
                 aclrtCreateEventWithFlag and ACL_EVENT_SYNC"
            );
        }
        Ok(ResetEvent { event: self, handle })
    }

    /// Registers the caller for a wake-up by a record. Returns true if the event is already
    /// recorded.
    fn await_record(&self) -> bool {
        self.state.fetch_or(AWAITED, Ordering::AcqRel) & RECORDED != 0
    }

    /// Waits on the calling thread until the event is recorded and complete. Returns false if
    /// `limit` passes first. If it is certain that no thread can record the event, returns the
    /// description of the deadlock as an error.
    pub(crate) fn await_complete(&'static self, limit: Option<Duration>) -> Result<bool, Arc<str>> {
        match self.pending() {
            Ok(None) => Ok(true),
            Ok(Some(mark)) => {
                Ok(mark.stream().is_none_or(|stream| wait(stream, mark.ticket(), limit)))
            }
            Err(NotRecorded) => {
                let began = Instant::now();
                let what = || "a thread that waits for an event that nobody has recorded".into();
                let only_here = Enders::Processes(Vec::new());
                let most = limit.unwrap_or(Duration::MAX);
                let is_recorded = || self.await_record() || self.pending() != Err(NotRecorded);
                if !executor::goals::await_others(most, only_here, what, is_recorded)? {
                    return Ok(false);
                }
                let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
                Ok(self
                    .mark()
                    .and_then(|mark| Some((mark, mark.stream()?)))
                    .is_none_or(|(m, s)| wait(s, m.ticket(), left)))
            }
        }
    }

    /// Returns whether waits of streams for this event are still unfinished.
    pub(crate) fn has_waits(&self) -> bool {
        self.waits.load(Ordering::Acquire) != 0
    }

    /// Describes the state of an event that is not reached, for the error of a wait that has ended.
    pub(crate) fn unfinished(&self) -> String {
        match self.mark().and_then(Mark::stream) {
            Some(stream) => stream.unfinished(),
            None => "nobody has recorded the event".into(),
        }
    }

    /// Returns the time at which the event was reached, as [`nanoseconds`] returns it.
    pub(crate) fn time(&self) -> Result<u64, Failure> {
        if !self.keeps_time() {
            return fail!(
                ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                "the event was created without ACL_EVENT_TIME_LINE; create it with this flag"
            );
        }
        match self.mark() {
            Some(mark) if executor::is_complete(mark) => Ok(self.time.load(Ordering::Acquire)),
            _ => fail!(
                ACL_ERROR_RT_EVENT_NOT_COMPLETE,
                "the event is not recorded or not complete yet; record it, then wait for it with \
                 aclrtSynchronizeEvent"
            ),
        }
    }
}

/// Returns the number of nanoseconds since the first call of this function in the process.
pub(crate) fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::step::Step;
    use crate::task::TaskBody;
    use std::sync::LazyLock;

    #[test]
    fn the_task_of_a_record_wakes_who_waits_for_the_flag() {
        static STREAMS: LazyLock<[Stream; 2]> = LazyLock::new(|| [1, 2].map(Stream::new));
        let [records, waits] = LazyLock::force(&STREAMS);
        let handle = Event::create(0, ACL_EVENT_SYNC, false).unwrap();
        let event = Event::named(handle).unwrap();
        let target = Target::Flag { event, handle, latest: None };
        let mut wait = WaitEvent { event, target, limit: None };
        event.waits.store(1, Ordering::Relaxed);
        assert!(!wait.arm(waits), "the flag is not set");
        let mut record = RecordEvent { event, handle };
        assert!(matches!(record.poll(records), Step::Done(Ok(()))));
        assert!(!event.flag.is_awaited(), "it sleeps on");
        assert!(wait.arm(waits), "the flag is set");
        assert!(matches!(event.reset(handle, records).unwrap().poll(records), Step::Done(Ok(()))));
        assert!(matches!(wait.poll(waits), Step::Park), "the flag is cleared");
        Event::destroy(handle).unwrap();
    }
}
