//! Events that several processes record and wait for.
//!
//! # Words
//!
//! - `latest`: the newest record. It holds the process that made the record (0: the creator), and a
//!   number that counts the records of all processes. One step sets both.
//! - `done`: record number `n` is over if entry `n` modulo [`RECORDS`] holds `n` or more. A record
//!   takes its number only when the record that had the entry before is over.
//! - `gone`: for each process that has ended, its process id. The creator sets it.
//! - `awaited`: set if a waiter sleeps until a record is over.
//! - `relay`: set to make the creator wake all importers, because they cannot wake one another.
//!
//! # Rules
//!
//! 1. A record takes its number in the call, and is over when its stream has come to it. So a wait
//!    that is called later, in any process, waits for it.
//! 2. A waiter registers, sets `awaited`, then checks `done`. The process that ends a record stores
//!    `done`, then takes `awaited`. So at least one of the two sees the other.
//! 3. If a process ends before its record is over, a wait for that record is an error. So is any
//!    wait that is not over when the creator ends.
//!
//! No word is trusted, because another process may have set it. An index of a process is taken
//! modulo the size of the table.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::ask::Imported;
use super::key::ExportKey;
use super::waiters::Waiters;
use super::words::ObjectWords;
use crate::check;
use crate::executor::{Goal, block, wait};
use crate::message::{Failure, fail};
use crate::processes::peer::Peer;
use crate::processes::region::SharedWords;
use crate::queue::Readiness;
use crate::step::Step;
use crate::stream::{Mark, Stream};
use crate::task::{Passed, TaskBody};
use ascend_sync::{Thread, lock_std as lock};
use ascend_sys::{
    ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, ACL_ERROR_RT_IPC_ERROR, ACL_ERROR_RT_NO_EVENT_RESOURCE,
};

/// The largest number of records in flight.
const RECORDS: usize = 64;
/// The largest number of processes that can have one event, with its creator.
pub(super) const PROCESSES: usize = 64;
/// The lowest bit of the process in `latest`.
const PROCESS_AT: u32 = 48;

pub(super) struct EventWords {
    latest: AtomicU64,
    done: [AtomicU64; RECORDS],
    gone: [AtomicU32; PROCESSES],
    awaited: AtomicU32,
    relay: AtomicU32,
    /// 1 if the creator has destroyed the event.
    closed: AtomicU32,
}

// SAFETY: atomic words; zeros are an event that nobody has recorded.
unsafe impl SharedWords for EventWords {}

impl EventWords {
    fn zero() -> Self {
        Self {
            latest: AtomicU64::new(0),
            done: [const { AtomicU64::new(0) }; RECORDS],
            gone: [const { AtomicU32::new(0) }; PROCESSES],
            awaited: AtomicU32::new(0),
            relay: AtomicU32::new(0),
            closed: AtomicU32::new(0),
        }
    }
}

/// A record of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedRecord {
    number: u64,
    process: usize,
}

impl SharedRecord {
    fn of(word: u64) -> Option<Self> {
        let number = word & ((1 << PROCESS_AT) - 1);
        let process = (word >> PROCESS_AT) as usize % PROCESSES;
        (number != 0).then_some(Self { number, process })
    }

    fn word(self) -> u64 {
        (self.process as u64) << PROCESS_AT | self.number
    }
}

/// One process's side of an event.
pub(crate) struct SharedEvent {
    words: ObjectWords<EventWords>,
    /// The index of this process among those of the event.
    index: usize,
    /// The import from the creator; `None` in the creator.
    imported: Option<Imported>,
    /// The processes that have imported the event; only in the creator.
    importers: Mutex<Vec<Arc<Peer>>>,
    pub(super) waiters: Arc<Waiters>,
    /// The key, once the creator has exported the event.
    pub(super) key: OnceLock<ExportKey>,
    /// The newest record of this process, and its mark.
    own: Mutex<Option<(SharedRecord, Mark)>>,
}

impl SharedEvent {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Self::with(ObjectWords::new(EventWords::zero)?, 0, None))
    }

    /// Makes this process's side of an event of another process.
    pub(super) fn import(file: OwnedFd, index: usize, imported: Imported) -> io::Result<Arc<Self>> {
        if !(1..PROCESSES).contains(&index) {
            return Err(io::Error::other(
                "it has sent an unexpected answer; use one version of the emulator in all \
                 processes",
            ));
        }
        Ok(Self::with(ObjectWords::of(file, EventWords::zero)?, index, Some(imported)))
    }

    fn with(words: ObjectWords<EventWords>, index: usize, imported: Option<Imported>) -> Arc<Self> {
        let (importers, key, own) = (Mutex::default(), OnceLock::new(), Mutex::default());
        Arc::new(Self { words, index, imported, importers, waiters: Waiters::new(), key, own })
    }

    pub(super) fn file(&self) -> io::Result<Arc<OwnedFd>> {
        self.words.file()
    }

    pub(crate) fn is_imported(&self) -> bool {
        self.imported.is_some()
    }

    /// Returns the process that created the event; `None` if it is this process.
    fn creator(&self) -> Option<&Peer> {
        self.imported.as_ref().map(|imported| &*imported.peer)
    }

    /// Returns an error if the creator of the event has ended or has destroyed the event.
    fn check(&self) -> Result<(), Failure> {
        let Some(creator) = self.creator() else { return Ok(()) };
        let process = creator.home.process;
        if let Some(why) = creator.gone() {
            return fail!(
                ACL_ERROR_RT_IPC_ERROR,
                "{why}; it created the event, so keep it running until the last use of the event"
            );
        }
        if self.words.get().closed.load(Ordering::Acquire) != 0 {
            return fail!(
                ACL_ERROR_RT_IPC_ERROR,
                "process {process} has destroyed the event; destroy it after its last use"
            );
        }
        Ok(())
    }

    /// Takes the number of a new record. The returned task ends the record in any case.
    fn begin_record(self: &Arc<Self>) -> Result<RecordShared, Failure> {
        self.check()?;
        let words = self.words.get();
        let mut before = words.latest.load(Ordering::Acquire);
        loop {
            let number = SharedRecord::of(before).map_or(0, |record| record.number) + 1;
            let earlier = number.saturating_sub(RECORDS as u64);
            if !self.is_done(earlier) {
                return fail!(
                    ACL_ERROR_RT_NO_EVENT_RESOURCE,
                    "{RECORDS} records of the event are in flight, or were when a process ended; \
                     wait for earlier records, or create a new event"
                );
            }
            let record = SharedRecord { number, process: self.index };
            let set = words.latest.compare_exchange(
                before,
                record.word(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match set {
                Ok(_) => return Ok(RecordShared { event: Arc::clone(self), record }),
                Err(now) => before = now,
            }
        }
    }

    /// Records the event in a stream.
    pub(crate) fn record(self: &Arc<Self>, stream: &'static Stream) -> Result<(), Failure> {
        let task = self.begin_record()?;
        let record = task.record;
        check::tells(stream)?;
        let mark = Mark::new(stream, stream.enqueue(task)?);
        let mut own = lock(&self.own);
        if own.is_none_or(|(known, _)| known.number < record.number) {
            *own = Some((record, mark));
        }
        Ok(())
    }

    /// Waits on the calling thread until the newest record is over. Returns an error if that takes
    /// longer than `limit`.
    pub(crate) fn synchronise(&self, limit: Option<Duration>) -> Result<(), Failure> {
        let (is_over, result) = match self.latest()? {
            SharedWait::Nothing => (true, Ok(())),
            SharedWait::Here(mark) => {
                let over = mark.stream().is_none_or(|stream| wait(stream, mark.ticket(), limit));
                (over, if over { mark.take_unreported() } else { Ok(()) })
            }
            SharedWait::Elsewhere(record) => {
                let goal = SharedRecordGoal { event: self, record };
                (block(&goal, limit), self.look(record).unwrap_or(Ok(())))
            }
        };
        check::host_is_told_by_others();
        if is_over {
            return result;
        }
        fail!(
            ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
            "not complete after {:?}, and its work goes on, in this process or another one\nPass a \
             longer timeout if the work only needs more time.",
            limit.unwrap_or_default()
        )
    }

    /// Returns the record that a wait has to wait for.
    pub(crate) fn latest(&self) -> Result<SharedWait, Failure> {
        self.check()?;
        let Some(record) = SharedRecord::of(self.words.get().latest.load(Ordering::Acquire)) else {
            return Ok(SharedWait::Nothing);
        };
        let own = *lock(&self.own);
        match own.filter(|(known, _)| *known == record) {
            Some((_, mark)) => Ok(SharedWait::Here(mark)),
            None if self.is_done(record.number) => Ok(SharedWait::Nothing),
            None => Ok(SharedWait::Elsewhere(record)),
        }
    }

    fn is_done(&self, number: u64) -> bool {
        self.words.get().done[number as usize % RECORDS].load(Ordering::Acquire) >= number
    }

    /// Returns the outcome of a record: success if the record is over, an error if it can never
    /// end. Returns `None` if the record may still end.
    fn look(&self, record: SharedRecord) -> Option<Result<(), Failure>> {
        if self.is_done(record.number) {
            return Some(Ok(()));
        }
        let gone = self.words.get().gone[record.process].load(Ordering::Acquire);
        if gone != 0 {
            return Some(fail!(
                ACL_ERROR_RT_IPC_ERROR,
                "process {gone} has ended before its stream came to the record of the event; \
                 synchronise its stream before it ends"
            ));
        }
        let creator = self.creator()?;
        let why = creator.gone()?;
        Some(fail!(
            ACL_ERROR_RT_IPC_ERROR,
            "{why}; it created the event, so keep it running until the last use of the event"
        ))
    }

    /// Ends a record, and wakes its waiters.
    fn finish(&self, record: SharedRecord) {
        let words = self.words.get();
        words.done[record.number as usize % RECORDS].fetch_max(record.number, Ordering::SeqCst);
        // Rule 2.
        if words.awaited.swap(0, Ordering::SeqCst) != 0 {
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        self.waiters.wake();
        match self.creator() {
            Some(creator) => {
                self.words.get().relay.store(1, Ordering::Release);
                creator.bell.ring();
            }
            None => lock(&self.importers).iter().for_each(|peer| peer.bell.ring()),
        }
    }

    /// Wakes the importers if one of them requests it. The creator calls this when its doorbell was
    /// rung.
    pub(super) fn relay(&self) {
        if self.words.get().relay.swap(0, Ordering::AcqRel) != 0 {
            self.wake_all();
        }
    }

    pub(super) fn set_importers(&self, importers: Vec<Arc<Peer>>) {
        *lock(&self.importers) = importers;
    }

    /// Notes that an importer has ended. Only the creator calls this.
    pub(super) fn lose(&self, index: usize, process: u32) {
        if let Some(gone) = self.words.get().gone.get(index) {
            gone.store(process.max(1), Ordering::Release);
            self.wake_all();
        }
    }

    /// Returns whether a process with this index has ended. Only the creator calls this.
    pub(super) fn has_lost(&self, index: usize) -> bool {
        let gone = self.words.get().gone.get(index);
        gone.is_some_and(|gone| gone.load(Ordering::Acquire) != 0)
    }

    /// Marks the event as destroyed, so that new calls with the event fail. Only the creator calls
    /// this.
    pub(super) fn set_closed(&self) {
        self.words.get().closed.store(1, Ordering::Release);
    }
}

/// The record that a wait for an event waits for.
pub(crate) enum SharedWait {
    Nothing,
    /// A record of this process.
    Here(Mark),
    /// A record of another process.
    Elsewhere(SharedRecord),
}

/// The task that ends a record when its stream comes to it, or when the task is dropped.
struct RecordShared {
    event: Arc<SharedEvent>,
    record: SharedRecord,
}

impl Drop for RecordShared {
    fn drop(&mut self) {
        self.event.finish(self.record);
    }
}

impl TaskBody<Stream> for RecordShared {
    fn poll(&mut self, _: &'static Stream) -> Step {
        self.event.finish(self.record);
        Step::Done(Ok(()))
    }

    fn describe(&self) -> String {
        "record of an event that other processes can have".into()
    }
}

/// The task by which later work of a stream waits for a record of another process.
pub(crate) struct WaitShared {
    pub(crate) event: Arc<SharedEvent>,
    pub(crate) record: SharedRecord,
    pub(crate) limit: Option<Duration>,
}

impl TaskBody<Stream> for WaitShared {
    fn poll(&mut self, _: &'static Stream) -> Step {
        self.event.look(self.record).map_or(Step::Park, Step::Done)
    }

    fn arm(&mut self, stream: &'static Stream) -> bool {
        self.event.waiters.add_stream(stream);
        self.event.words.get().awaited.store(1, Ordering::SeqCst);
        self.event.look(self.record).is_some()
    }

    fn limit(&self) -> Option<Duration> {
        self.limit
    }

    fn passed(&self, how: &Result<(), Failure>) -> Option<Passed<Stream>> {
        how.is_ok().then_some(Passed::Told)
    }

    fn describe(&self) -> String {
        "wait for an event that another process has recorded".into()
    }
}

/// The wait of a thread for a record of another process.
struct SharedRecordGoal<'a> {
    event: &'a SharedEvent,
    record: SharedRecord,
}

impl Goal for SharedRecordGoal<'_> {
    fn done(&self) -> bool {
        self.event.look(self.record).is_some()
    }

    fn work(&self) {}

    fn prepare(&self, me: &Thread) -> Readiness {
        self.event.waiters.add_thread(me);
        self.event.words.get().awaited.store(1, Ordering::SeqCst);
        if self.done() { Readiness::Done } else { Readiness::Sleep }
    }

    fn forget(&self, me: &Thread) {
        self.event.waiters.forget_thread(me);
    }
}
