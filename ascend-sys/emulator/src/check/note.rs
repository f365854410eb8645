//! What the engine hears from streams and from calls.

use super::blocks::{engine, is_on, issued};
use super::clock::{Clock, ClockPoint};
use super::engine::{ArrivalKey, Sees};
use super::{CheckedOperation, Checker, ClockComponent, Touch};
use crate::message::Failure;
use crate::step::{Reason, Step};
use crate::stream::{Mark, STREAMS, Stream, Task};
use crate::task::TaskBody;
use std::sync::Arc;

/// A task that does nothing but tell the checker what comes next in the stream.
pub(crate) struct CheckNote {
    engine: Arc<Checker>,
    /// What the host knew when it was issued.
    known: Arc<Clock>,
    what: NoteKind,
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

/// The task that a stream is at. Called with the lock of the stream's queue held, so it is the one after the last complete one.
fn here(stream: &Stream) -> ClockPoint {
    ClockPoint { component: ClockComponent(stream.index()), time: stream.queue.completed() + 1 }
}

fn point(mark: Mark) -> Option<ClockPoint> {
    Some(ClockPoint { component: ClockComponent(mark.stream()?.index()), time: mark.ticket() })
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

/// Puts a note into a stream. Returns its ticket.
pub(super) fn submit(
    engine: Arc<Checker>,
    stream: &'static Stream,
    what: NoteKind,
) -> Result<u64, Failure> {
    let known = engine.known_to_host();
    stream.submit(Box::new(CheckNote { engine, known, what }))
}

/// What comes next in the stream, from the function `call`: what it is, and what it touches. With `apart`, its parts may not
/// share a byte.
#[inline]
pub(crate) fn begins(
    stream: &'static Stream,
    call: &'static str,
    apart: bool,
    describe: impl FnOnce() -> (String, Vec<Touch>),
) -> Result<(), Failure> {
    let Some(engine) = engine(stream.device_id()) else { return Ok(()) };
    let (what, touches) = describe();
    let operation = operation(stream, what, None, call, touches);
    let begin = Begin { operation, apart, owns: None, arrives: Vec::new() };
    submit(engine, stream, NoteKind::Begin(begin)).map(drop)
}

/// As [`begins`], of an operation that belongs to somebody.
#[cold]
pub(crate) fn begins_of(
    stream: &'static Stream,
    call: &'static str,
    member: impl FnOnce() -> String,
    describe: impl FnOnce() -> (String, Vec<Touch>),
) -> Result<(), Failure> {
    let Some(engine) = engine(stream.device_id()) else { return Ok(()) };
    let (what, touches) = describe();
    let operation = operation(stream, what, Some(member()), call, touches);
    let begin = Begin { operation, apart: true, owns: None, arrives: Vec::new() };
    submit(engine, stream, NoteKind::Begin(begin)).map(drop)
}

/// An operation is next in the stream of which it will be known only at its end what it touches. Gives who issued it, if anybody
/// wants to know.
pub(crate) fn will_be_done(
    stream: &'static Stream,
    call: &'static str,
) -> Result<Option<String>, Failure> {
    Ok(marks(stream)?.map(|_| issued(call)))
}

/// The head of the stream, which is about to end, has touched memory: what it was, and which bytes.
pub(crate) fn was_done(stream: &'static Stream, issued: String, what: String, touches: Vec<Touch>) {
    if let Some(engine) = engine(stream.device_id()) {
        let place = stream.describe();
        let operation = Arc::new(CheckedOperation { what, place, member: None, issued, touches });
        engine.begin(here(stream), &operation, false);
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
            submit(engine, stream, NoteKind::Point).map(|ticket| Some(Mark::new(stream, ticket)))
        }
    }
}

/// A host function is next in the stream.
#[inline]
pub(crate) fn runs_on_host(stream: &'static Stream) -> Result<(), Failure> {
    engine(stream.device_id())
        .map_or(Ok(()), |engine| submit(engine, stream, NoteKind::ToHost).map(drop))
}

/// The host function is over.
#[inline]
pub(crate) fn returns_to_stream(stream: &'static Stream) -> Result<(), Failure> {
    engine(stream.device_id())
        .map_or(Ok(()), |engine| submit(engine, stream, NoteKind::FromHost).map(drop))
}

/// The head of the stream has waited for a point of another one.
#[inline]
pub(crate) fn event_passed(stream: &'static Stream, mark: Option<Mark>) {
    if let Some(engine) = engine(stream.device_id())
        && let Some(point) = mark.and_then(point)
    {
        engine.learn_point(here(stream), point);
    }
}

/// The record of a notify is next in the stream.
#[inline]
pub(crate) fn notify_set(stream: &'static Stream, handle: u64, id: u32) -> Result<(), Failure> {
    let Some(engine) = engine(stream.device_id()) else { return Ok(()) };
    let name = format!("notify {id}");
    let what = format!("record of {name}");
    let operation = operation(stream, what, None, "aclrtRecordNotify", Vec::new());
    submit(engine, stream, NoteKind::Set { signal: handle, name, operation }).map(drop)
}

/// The head of the stream has waited for a notify and cleared it.
#[inline]
pub(crate) fn notify_taken(stream: &'static Stream, handle: u64, id: u32) {
    if let Some(engine) = engine(stream.device_id()) {
        let (place, issued) = (stream.describe(), "aclrtWaitAndResetNotify".into());
        let what = format!("wait for notify {id}");
        let operation = CheckedOperation { what, place, member: None, issued, touches: Vec::new() };
        engine.take(handle, here(stream), &Arc::new(operation));
    }
}

/// The record of a signal that has this number and name is next in the stream, from the function `call`.
#[cold]
pub(crate) fn signal_set(
    stream: &'static Stream,
    signal: u64,
    name: String,
    call: &str,
) -> Result<(), Failure> {
    let Some(engine) = engine(stream.device_id()) else { return Ok(()) };
    let operation = operation(stream, format!("record of {name}"), None, call, Vec::new());
    submit(engine, stream, NoteKind::Set { signal, name, operation }).map(drop)
}

/// The head of the stream has waited for a signal and taken it.
#[cold]
pub(crate) fn signal_taken(stream: &'static Stream, signal: u64, name: String) {
    if let Some(engine) = engine(stream.device_id()) {
        let (place, issued) = (stream.describe(), "a primitive that waits".into());
        let what = format!("wait for {name}");
        let operation = CheckedOperation { what, place, member: None, issued, touches: Vec::new() };
        engine.take(signal, here(stream), &Arc::new(operation));
    }
}

/// A signal has ended: another one may have its number.
#[inline]
pub(crate) fn signal_ended(device: u32, signal: u64) {
    if is_on() {
        notify_cleared(device, signal);
    }
}

/// The host has cleared a notify.
pub(crate) fn notify_cleared(device: u32, handle: u64) {
    if let Some(engine) = engine(device) {
        engine.clear(handle);
    }
}

/// A call has told the host that a stream is complete up to a ticket.
#[inline]
pub(crate) fn host_saw(stream: &Stream, ticket: u64) {
    if let Some(engine) = engine(stream.device_id()) {
        engine.host_learns(ClockPoint { component: ClockComponent(stream.index()), time: ticket });
    }
}

/// A call has waited for all that was queued in the process.
pub(crate) fn host_saw_everything() {
    if is_on() {
        STREAMS.all().for_each(|stream| host_saw(stream, stream.queue.completed()));
    }
}

/// The same of a mark.
#[inline]
pub(crate) fn host_saw_mark(mark: Mark) {
    if is_on()
        && let Some(stream) = mark.stream()
    {
        host_saw(stream, mark.ticket());
    }
}
