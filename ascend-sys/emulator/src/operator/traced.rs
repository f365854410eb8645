//! Records the primitives of a block that records a timeline. Each entry has the time when the
//! primitive became the next task of its stream, and the time when it was done.

use super::primitive::Primitive;
use super::signal::{NotifyRef, Of};
use super::thread::Thread;
use crate::machine;
use crate::memory::{MemoryPlace, nominal, place_of};
use crate::message::Failure;
use crate::step::{Helpers, Reason, Step};
use crate::stream::{Stream, Task};
use crate::submit;
use crate::task::{Awaited, Effects, Passed, TaskBody};
use crate::timeline::{self, Log};
use ascend_timeline::{NotifyKey, PrimitiveSpan, PrimitiveWork};
use std::sync::Arc;
use std::time::Duration;

/// A primitive with the record that is written when it is done.
pub(crate) struct Traced {
    task: Task,
    log: Arc<Log>,
    device: u32,
    entry: PrimitiveSpan,
    /// The time when the primitive became the next task of its stream.
    began: Option<u64>,
}

impl Traced {
    /// Makes the record of a primitive that is issued. Returns `None` if its block does not record,
    /// or if the primitive is for a notify of the runtime.
    #[inline]
    pub(super) fn of(
        thread: &Thread,
        call: &'static str,
        primitive: &Primitive,
    ) -> Option<TraceNote> {
        let device = thread.device();
        let log = timeline::of(device)?;
        let entry = entry(thread, call, work(thread, primitive)?);
        Some(TraceNote { log, device, entry })
    }

    /// Writes the record if the primitive has ended.
    fn tell(&self, step: Step) -> Step {
        if let Step::Done(result) = &step {
            let to = self.log.now();
            let failure = result.as_ref().err().map(|failure| failure.text.to_string());
            let from = self.began.unwrap_or(to);
            self.log.did(PrimitiveSpan { from, to, failure, ..self.entry.clone() });
        }
        step
    }
}

impl TaskBody<Stream> for Box<Traced> {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        self.began.get_or_insert_with(|| self.log.now());
        let step = self.task.poll(stream);
        self.tell(step)
    }

    fn arm(&mut self, stream: &'static Stream) -> bool {
        self.task.arm(stream)
    }

    fn awaits(&self) -> Awaited {
        self.task.awaits()
    }

    fn expire(&mut self, stream: &'static Stream, why: &Reason) -> Step {
        let step = self.task.expire(stream, why);
        self.tell(step)
    }

    fn limit(&self) -> Option<Duration> {
        self.task.limit()
    }

    fn helpers(&self) -> Helpers {
        self.task.helpers()
    }

    fn again(&self) -> Option<Task> {
        // The graph may be executed during a later recording than that of its capture. (If nothing
        // was recorded at the capture, its primitives are not traced.)
        let log = timeline::of(self.device).unwrap_or_else(|| Arc::clone(&self.log));
        let note = TraceNote { log, entry: self.entry.clone(), device: self.device };
        Some(Task::new(note.on(self.task.again()?)))
    }

    fn kind(&self) -> &'static str {
        self.task.kind()
    }

    fn touched(&self) -> [(*const u8, usize); 2] {
        self.task.touched()
    }

    fn effects(&self) -> Effects {
        self.task.effects()
    }

    fn passed(&self, how: &Result<(), Failure>) -> Option<Passed<Stream>> {
        self.task.passed(how)
    }

    fn describe(&self) -> String {
        self.task.describe()
    }
}

/// The record of a primitive, before it is submitted.
pub(super) struct TraceNote {
    log: Arc<Log>,
    device: u32,
    entry: PrimitiveSpan,
}

impl TraceNote {
    /// Wraps a task so that it writes the record when it is done.
    fn on(self, task: Task) -> Box<Traced> {
        let TraceNote { log, device, entry } = self;
        Box::new(Traced { task, log, device, entry, began: None })
    }
}

/// Puts a primitive of a thread into the thread's stream.
#[inline]
pub(super) fn submit(
    note: Option<TraceNote>,
    thread: &Thread,
    stream: &'static Stream,
    call: &'static str,
    task: impl TaskBody<Stream>,
) -> Result<(), Failure> {
    let member = || Some(format!("of {}", thread.describe()));
    match note {
        None => submit::submit_of(stream, call, member, task).map(drop),
        Some(note) => submit::submit_of(stream, call, member, note.on(Task::new(task))).map(drop),
    }
}

impl NotifyRef {
    /// Returns the key of the notify in a timeline. The recorder and the waiter get the same key,
    /// even in different processes.
    fn key(&self) -> NotifyKey {
        let own = std::process::id();
        let (process, owner, on_channel) = match self.of {
            Of::Thread(thread) => (own, thread.handle(), false),
            Of::Channel(channel) => (own, channel.handle(), true),
            Of::Peer(channel) => {
                let process = channel.about(|it| it.member.comm.process_of(it.remote));
                (process.unwrap_or(own), channel.peer_handle(), true)
            }
        };
        NotifyKey { process, owner, on_channel, index: self.index }
    }

    /// Returns the key of the notify and its description, for a timeline.
    pub(super) fn noted(&self) -> (NotifyKey, String) {
        let whose = match self.ends() {
            Some((rank, peer)) => {
                format!("notify {} of rank {rank} on its channel with rank {peer}", self.index)
            }
            None => self.describe(),
        };
        (self.key(), whose)
    }
}

fn work(thread: &Thread, primitive: &Primitive) -> Option<PrimitiveWork> {
    let device = |data: *const u8| match place_of(nominal(data)) {
        Ok(MemoryPlace::Device(id)) => id,
        _ => thread.device(),
    };
    let moves = |(to, bytes): (*const u8, usize), from, reduces| {
        let (from, to) = (machine::named(device(from)), machine::named(device(to)));
        PrimitiveWork::Moves { from, to, bytes: bytes as u64, reduces }
    };
    match primitive {
        Primitive::Copy(copy) => Some(moves((copy.to.cast_const(), copy.bytes), copy.from, false)),
        Primitive::Reduce(reduce) => {
            let [to, (from, _)] = reduce.touched();
            Some(moves(to, from, true))
        }
        Primitive::Signal(signal) => Some(signal.work()),
        Primitive::Await(wait) => Some(wait.work()),
        Primitive::Record(_) | Primitive::Wait(..) => None,
    }
}

fn entry(thread: &Thread, call: &'static str, work: PrimitiveWork) -> PrimitiveSpan {
    let owner = thread.owner();
    let member = owner.as_ref().and_then(|owner| owner.member.as_ref());
    let name = match &owner {
        Some(owner) if owner.wraps => "main thread".into(),
        Some(owner) => format!("thread {}", owner.number),
        None => "a thread that has ended".into(),
    };
    PrimitiveSpan {
        device: machine::named(thread.device()),
        rank: member.map(|member| member.rank),
        group: member.map_or_else(String::new, |member| member.comm.name.to_string()),
        thread: thread.handle(),
        name,
        call: call.to_owned(),
        work,
        from: 0,
        to: 0,
        failure: None,
    }
}
