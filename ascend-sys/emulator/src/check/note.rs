//! Notes: tasks that tell the checker what comes next in their stream, and what the host knew when
//! it was issued.

use super::blocks::{engine, issued};
use super::clock::Clock;
use super::engine::{ArrivalKey, Sees};
use super::hear::here;
use super::{CheckedOperation, Checker};
use crate::message::Failure;
use crate::step::{Reason, Step};
use crate::stream::{Mark, Stream, Task};
use crate::task::{TaskBody, Touch};
use std::sync::Arc;

/// A task that does nothing but tell the checker what comes next in the stream.
pub(crate) struct CheckNote {
    pub(super) engine: Arc<Checker>,
    /// What the host knew when it was issued.
    pub(super) known: Arc<Clock>,
    pub(super) what: NoteKind,
}

#[derive(Clone)]
pub(super) enum NoteKind {
    /// Only what the host knew.
    Point,
    Begin(Begin),
    /// The operation before it is over.
    End(Vec<(ArrivalKey, Sees)>),
    Set {
        signal: u64,
        name: String,
        operation: Arc<CheckedOperation>,
    },
    /// A host function begins: the host knows what the stream knows.
    ToHost,
    /// It has returned: the stream knows what the host knows.
    FromHost,
}

/// An operation is next.
#[derive(Clone)]
pub(super) struct Begin {
    pub(super) operation: Arc<CheckedOperation>,
    /// Its parts may not share a byte.
    pub(super) apart: bool,
    /// What it may not share with another operation: a number and a name.
    pub(super) owns: Option<(u64, String)>,
    /// The meetings that it comes to: as which participant, of how many.
    pub(super) arrives: Vec<(ArrivalKey, usize, usize)>,
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
                for (key, participant, participants) in arrives {
                    engine.arrive(*key, *participant, *participants, at);
                }
            }
            NoteKind::End(leaves) => {
                leaves.iter().for_each(|(key, sees)| engine.leave(*key, *sees, at))
            }
            NoteKind::Set { signal, name, operation } => engine.set(*signal, name, at, operation),
            NoteKind::ToHost => engine.host_learns(at),
            NoteKind::FromHost => engine.learn(at, &engine.known_to_host()),
        }
        Step::Done(Ok(()))
    }

    /// The same for another execution of a graph, by a host that knows more.
    fn again(&self) -> Option<Task> {
        let known = self.engine.known_to_host();
        let note = CheckNote { engine: self.engine.clone(), known, what: self.what.clone() };
        Some(Task::new(Box::new(note)))
    }

    fn kind(&self) -> &'static str {
        "note of the checked mode"
    }

    fn describe(&self) -> String {
        "note of the check for races".into()
    }

    /// The stream gives up, so the operation will not run.
    fn expire(&mut self, stream: &'static Stream, _: &Reason) -> Step {
        match self.what {
            NoteKind::Begin(_) | NoteKind::Set { .. } => {
                self.engine.learn(here(stream), &self.known);
                Step::Done(Ok(()))
            }
            _ => self.poll(stream),
        }
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
    Arc::new(CheckedOperation { what, place, member, issued, touches })
}

/// A point of the stream that carries what the host knows: for the record of an event.
#[inline]
pub(crate) fn marks(stream: &'static Stream) -> Result<Option<Mark>, Failure> {
    match engine(stream.device_id()) {
        None => Ok(None),
        Some(engine) => {
            let known = engine.known_to_host();
            let note = CheckNote { engine, known, what: NoteKind::Point };
            stream.enqueue(Box::new(note)).map(|ticket| Some(Mark::new(stream, ticket)))
        }
    }
}

/// An operation is next in the stream of which it will be known only at its end what it touches.
/// Gives who issued it, if anybody wants to know.
pub(crate) fn will_be_done(
    stream: &'static Stream,
    call: &'static str,
) -> Result<Option<String>, Failure> {
    Ok(marks(stream)?.map(|_| issued(call)))
}
