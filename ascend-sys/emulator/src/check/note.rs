//! Notes: tasks that report to the checker the next operation of their stream, and the clock that
//! the host had when it issued that operation.

use super::abroad::{self, Arrivals};
use super::blocks::{engine, issued};
use super::clock::{Clock, ClockPoint};
use super::engine::{Apart, ArrivalKey, Sees};
use super::hear::here;
use super::issuer::known_to_issuer;
use super::reached;
use super::{CheckedOperation, Checker};
use crate::fabric::Comm;
use crate::message::Failure;
use crate::step::{Reason, Step};
use crate::stream::{Mark, Stream, Task};
use crate::task::{TaskBody, Touch};
use std::sync::Arc;
use std::time::Duration;

/// The time limit for the wait of an operation's end for reports of other processes. A process that
/// is silent for longer counts as one that reports nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// A task that only reports to the checker, for example the next operation of the stream, or the
/// end of the last operation.
pub(crate) struct CheckNote {
    pub(super) engine: Arc<Checker>,
    /// The clock of the issuer when it issued the note.
    pub(super) known: Arc<Clock>,
    pub(super) what: NoteKind,
}

#[derive(Clone)]
pub(super) enum NoteKind {
    /// Only the clock of the issuer.
    Point,
    Begin(Begin),
    /// The operation before the note is over.
    End(Vec<Leaving>),
    Set {
        signal: u64,
        name: String,
        operation: Arc<CheckedOperation>,
    },
    /// Data or a signal is sent to other processes.
    Tell,
    /// A word at this address is written, for which others may wait.
    Word(usize),
    /// A host function begins, so the host learns what the stream knows.
    ToHost,
    /// The host function has returned, so the stream learns what the host knows.
    FromHost,
}

/// The next operation of the stream.
#[derive(Clone)]
pub(super) struct Begin {
    pub(super) operation: Arc<CheckedOperation>,
    /// The accesses of the operation that must not share a byte.
    pub(super) apart: Apart,
    /// The number and the name of an object that may have only one user at a time.
    pub(super) owns: Option<(u64, String)>,
    /// The meetings at which the operation arrives.
    pub(super) arrives: Vec<Arriving>,
}

/// The arrival of a rank at a meeting.
#[derive(Clone)]
pub(super) struct Arriving {
    pub(super) key: ArrivalKey,
    pub(super) comm: Arc<Comm>,
    pub(super) rank: usize,
    pub(super) participant: usize,
    /// The number of participants, the number of those in this process, and the number of those
    /// that report their arrival.
    pub(super) counts: (usize, usize, usize),
}

/// The departure of a rank from a meeting.
#[derive(Clone)]
pub(super) struct Leaving {
    pub(super) key: ArrivalKey,
    pub(super) sees: Sees,
    /// The arrivals in other processes that must be reported first.
    pub(super) abroad: Option<Arrivals>,
}

impl TaskBody<Stream> for Box<CheckNote> {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        let (engine, at) = (&self.engine, here(stream));
        engine.learn(at, &self.known);
        match &self.what {
            NoteKind::Point => {}
            NoteKind::Begin(Begin { operation, apart, owns, arrives }) => {
                if let Some((thing, name)) = owns {
                    engine.own(at, operation, *thing, name);
                }
                engine.begin(at, operation, *apart);
                reached::tell_touches(engine, at, operation);
                arrives.iter().for_each(|arriving| arriving.arrive(engine, at));
            }
            NoteKind::End(leaves) => {
                let is_over = |it: &Leaving| {
                    it.abroad.as_ref().is_none_or(|all| all.are_over(engine, it.key, stream))
                };
                if !leaves.iter().all(is_over) {
                    return Step::Park;
                }
                leaves.iter().for_each(|leaving| leaving.leave(engine, at));
            }
            NoteKind::Set { signal, name, operation } => engine.set(*signal, name, at, operation),
            NoteKind::Tell => engine.tells(at),
            NoteKind::Word(address) => {
                // The checker cannot know which of the other accesses expect this write.
                engine.lent(*address);
                engine.tells(at);
            }
            NoteKind::ToHost => engine.host_learns(at),
            NoteKind::FromHost => engine.learn(at, &engine.known_to_host()),
        }
        Step::Done(Ok(()))
    }

    /// Makes the same note for another execution of a graph, with the current clock of the host.
    fn again(&self) -> Option<Task> {
        let known = self.engine.known_to_host();
        let note = CheckNote { engine: self.engine.clone(), known, what: self.what.clone() };
        Some(Task::new(Box::new(note)))
    }

    fn limit(&self) -> Option<Duration> {
        matches!(self.what, NoteKind::End(_)).then_some(PATIENCE)
    }

    fn kind(&self) -> &'static str {
        "note of the checked mode"
    }

    fn describe(&self) -> String {
        "note of the check for races".into()
    }

    /// Handles a failure of the stream, after which the next operation will not run.
    fn expire(&mut self, stream: &'static Stream, _: &Reason) -> Step {
        match &self.what {
            NoteKind::Begin(_) | NoteKind::Set { .. } => {
                self.engine.learn(here(stream), &self.known);
                Step::Done(Ok(()))
            }
            NoteKind::End(leaves) => {
                let at = here(stream);
                leaves.iter().for_each(|leaving| leaving.leave(&self.engine, at));
                Step::Done(Ok(()))
            }
            _ => self.poll(stream),
        }
    }
}

impl Arriving {
    fn arrive(&self, engine: &Checker, at: ClockPoint) {
        let Arriving { key, comm, rank, participant, counts } = self;
        engine.arrive(*key, *participant, *counts, at);
        let before = ClockPoint { time: at.time.saturating_sub(1), ..at };
        abroad::tell_arrival(engine, comm, *rank, *key, before);
    }
}

impl Leaving {
    fn leave(&self, engine: &Checker, at: ClockPoint) {
        let leaves_out = |all: &Arrivals| all.leave_something_out(engine, self.key);
        if self.abroad.as_ref().is_some_and(leaves_out) {
            engine.is_told(at);
        }
        engine.leave(self.key, self.sees, at);
    }
}

pub(super) fn operation(
    stream: &Stream,
    what: String,
    member: Option<String>,
    call: &str,
    touches: Vec<Touch>,
) -> Arc<CheckedOperation> {
    let (place, issued) = (stream.describe(), issued(call));
    Arc::new(CheckedOperation { what, place, process: None, member, issued, touches })
}

/// Puts a note with the clock of the issuer into the stream, for the record of an event. Returns
/// its point, if the device is checked.
#[inline]
pub(crate) fn marks(stream: &'static Stream) -> Result<Option<Mark>, Failure> {
    match engine(stream.device_id()) {
        None => Ok(None),
        Some(engine) => {
            let known = known_to_issuer(&engine);
            let note = CheckNote { engine, known, what: NoteKind::Point };
            stream.enqueue(Box::new(note)).map(|ticket| Some(Mark::new(stream, ticket)))
        }
    }
}

/// Notes that the stream is about to send data or a signal to other processes, in a way that
/// checkers do not see.
pub(crate) fn tells(stream: &'static Stream) -> Result<(), Failure> {
    let Some(engine) = engine(stream.device_id()) else { return Ok(()) };
    let known = known_to_issuer(&engine);
    stream.enqueue(Box::new(CheckNote { engine, known, what: NoteKind::Tell })).map(drop)
}

/// Notes that the accesses of the stream's next operation are known only at its end. Returns the
/// call that issued it, if the device is checked.
pub(crate) fn will_be_done(
    stream: &'static Stream,
    call: &'static str,
) -> Result<Option<String>, Failure> {
    Ok(marks(stream)?.map(|_| issued(call)))
}
