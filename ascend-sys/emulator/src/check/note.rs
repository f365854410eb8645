//! Notes: tasks that tell the checker which operation comes next in their stream, and what the host
//! knew when it issued the operation.

use super::abroad::{self, Arrivals};
use super::blocks::{engine, issued};
use super::clock::{Clock, ClockPoint};
use super::engine::{ArrivalKey, Sees};
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

/// The time that the end of an operation waits for news of other processes. A process that is
/// silent for longer counts as one that tells nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// A task that only tells the checker what comes next in the stream.
pub(crate) struct CheckNote {
    pub(super) engine: Arc<Checker>,
    /// The knowledge of the host when it was issued.
    pub(super) known: Arc<Clock>,
    pub(super) what: NoteKind,
}

#[derive(Clone)]
pub(super) enum NoteKind {
    /// Only the knowledge of the host.
    Point,
    Begin(Begin),
    /// The operation before it is over.
    End(Vec<Leaving>),
    Set {
        signal: u64,
        name: String,
        operation: Arc<CheckedOperation>,
    },
    /// Other processes are told something.
    Tell,
    /// A host function begins: the host knows what the stream knows.
    ToHost,
    /// The host function has returned: the stream knows what the host knows.
    FromHost,
}

/// An operation is next.
#[derive(Clone)]
pub(super) struct Begin {
    pub(super) operation: Arc<CheckedOperation>,
    /// Its parts may not share a byte.
    pub(super) apart: bool,
    /// A thing that it may not share with another operation: a number and a name.
    pub(super) owns: Option<(u64, String)>,
    /// The meetings that it comes to.
    pub(super) arrives: Vec<Arriving>,
}

/// A rank comes to a meeting.
#[derive(Clone)]
pub(super) struct Arriving {
    pub(super) key: ArrivalKey,
    pub(super) comm: Arc<Comm>,
    pub(super) rank: usize,
    pub(super) participant: usize,
    /// The number of participants, how many of them are in this process, and how many tell of their
    /// arrival.
    pub(super) counts: (usize, usize, usize),
}

/// A rank leaves a meeting.
#[derive(Clone)]
pub(super) struct Leaving {
    pub(super) key: ArrivalKey,
    pub(super) sees: Sees,
    /// The arrivals in other processes that have to be told before.
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
            NoteKind::ToHost => engine.host_learns(at),
            NoteKind::FromHost => engine.learn(at, &engine.known_to_host()),
        }
        Step::Done(Ok(()))
    }

    /// The same note for another execution of a graph, by a host that knows more.
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

    /// The stream gives up: the operation will not run.
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

/// A point of the stream that carries what the host knows: for the record of an event.
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

/// The stream is about to tell other processes something, in a way that checkers do not see.
pub(crate) fn tells(stream: &'static Stream) -> Result<(), Failure> {
    let Some(engine) = engine(stream.device_id()) else { return Ok(()) };
    let known = known_to_issuer(&engine);
    stream.enqueue(Box::new(CheckNote { engine, known, what: NoteKind::Tell })).map(drop)
}

/// An operation is next in the stream whose accesses will be known only at its end. Returns the
/// call that issued it, if the device is watched.
pub(crate) fn will_be_done(
    stream: &'static Stream,
    call: &'static str,
) -> Result<Option<String>, Failure> {
    Ok(marks(stream)?.map(|_| issued(call)))
}
