//! The communication server of a rank, as a task of the stream that it is launched on.
//!
//! It reads the messages of its contexts in order. A turn of a task runs when the kernel has committed it and all ranks have come to
//! it; it is a [collective](crate::collective), so it moves data as fast as one. The server leaves when the kernels that it serves have
//! said that they are done.

use super::area::{Area, Content, Side, Work};
use super::track;
use super::turn::{self, Turn};
use super::write;
use crate::check;
use crate::collective::meeting::{Breakage, Cause, Origin};
use crate::collective::pending::Pending;
use crate::deadlock::{self, Helpers};
use crate::message::Failure;
use crate::stream::{Mark, Stream};
use crate::task::{Reason, Step};
use crate::timeline;
use ascend_sys::ACL_ERROR_RT_AICPU_EXCEPTION;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// How long a server waits for its kernel, as on A2 and A3.
pub(super) const PATIENCE: Duration = Duration::from_secs(16 * 60);

/// A server that was launched.
pub(crate) struct Server {
    contexts: Vec<Context>,
    issuer: u32,
    started: bool,
    /// How long it waits for its kernels.
    limit: Option<Duration>,
    /// Messages and turns that it has done.
    progress: u64,
    /// Why it ends, as soon as its turns have.
    failing: Option<Failure>,
}

/// One context that it serves.
struct Context {
    area: Arc<Area>,
    /// The message that it is at.
    slot: usize,
    /// It has compared the task in the slot with those of the others.
    said: bool,
    turn: Option<Box<Pending>>,
    done: bool,
    /// What the kernel had done when it looked last.
    seen: u64,
    /// Where turns are written down, if the block records, and the one under way.
    log: Option<Arc<timeline::Log>>,
    noted: Option<Box<timeline::Turn>>,
}

/// What became of a look at a context.
enum Look {
    /// It has done something, and may do more.
    Moved,
    /// A piece of a turn is done.
    Again,
    Waits,
}

impl Server {
    /// A server of these contexts, launched by the calling thread.
    pub(super) fn new(areas: Vec<Arc<Area>>, limit: Option<Duration>) -> Server {
        let context = |area| Context {
            area,
            slot: 0,
            said: false,
            turn: None,
            done: false,
            seen: 0,
            log: None,
            noted: None,
        };
        let contexts: Vec<Context> = areas.into_iter().map(context).collect();
        for context in &contexts {
            context.area.hub.comm.note_user(context.area.member.rank);
        }
        Server {
            contexts,
            issuer: deadlock::me(),
            started: false,
            limit,
            progress: 0,
            failing: None,
        }
    }

    fn start(&mut self, stream: &'static Stream) -> Result<(), Failure> {
        let mark = Mark::new(stream, stream.lane.completed() + 1);
        for (index, context) in self.contexts.iter().enumerate() {
            let taken = context.area.answer(|state| {
                state.queued.retain(|queued| *queued != mark && !queued.is_complete());
                match &state.server {
                    Some(_) => false,
                    None => {
                        state.server = Some(Side { mark, sleeps: None });
                        true
                    }
                }
            });
            if !taken {
                for other in &self.contexts[..index] {
                    other.area.state().server = None;
                }
                let text = format!(
                    "another server runs already for {}: a context has one at a time, which leaves when its kernel has ended",
                    context.area.describe()
                );
                return Err(Failure::new(ACL_ERROR_RT_AICPU_EXCEPTION, text));
            }
        }
        let log = timeline::of(stream.device_id());
        self.contexts.iter_mut().for_each(|context| context.log = log.clone());
        self.started = true;
        Ok(())
    }

    pub(crate) fn poll(&mut self, stream: &'static Stream) -> Step {
        if self.failing.is_some() {
            return self.wind_up();
        }
        if !self.started
            && let Err(failure) = self.start(stream)
        {
            return Step::Done(Err(failure.of_task("communication server")));
        }
        loop {
            let mut moved = false;
            for index in 0..self.contexts.len() {
                match self.contexts[index].go_on() {
                    Ok(Look::Moved) => {
                        moved = true;
                        self.progress += 1;
                    }
                    Ok(Look::Again) => return Step::Again,
                    Ok(Look::Waits) => {}
                    Err(failure) => {
                        self.contexts[index].turn = None;
                        self.failing = Some(failure);
                        return self.wind_up();
                    }
                }
            }
            if self.contexts.iter().all(|context| context.done) {
                self.leave(None);
                return Step::Done(Ok(()));
            }
            if !moved {
                return if self.drive() { Step::Again } else { Step::Park };
            }
        }
    }

    /// Runs the kernels that it waits for, if nobody else does. True if that may have helped.
    fn drive(&self) -> bool {
        let mut helped = false;
        for context in self.contexts.iter().filter(|c| !c.done && c.turn.is_none()) {
            let mark = context.area.state().kernel.as_ref().map(|kernel| kernel.mark);
            if let Some(kernel) = mark.and_then(Mark::stream) {
                kernel.assist(1);
                helped |= context.area.state().posts != context.seen;
            }
        }
        helped
    }

    /// Ends its part: the kernels learn of a failure.
    fn leave(&mut self, failure: Option<&Arc<str>>) {
        for context in &mut self.contexts {
            context.area.answer(|state| {
                state.server = None;
                if let (Some(text), false) = (failure, context.done) {
                    state.failure.get_or_insert_with(|| Arc::clone(text));
                    if state.kernel.is_none() {
                        state.reset();
                    }
                }
            });
            if let (Some(text), false) = (failure, context.done) {
                context.break_off(text);
            }
        }
        self.started = false;
    }

    pub(crate) fn arm(&mut self, stream: &'static Stream) -> bool {
        let mut ready = false;
        for context in self.contexts.iter_mut().filter(|context| !context.done) {
            if let Some(pending) = &mut context.turn {
                ready |= pending.arm(stream);
            }
            let mut state = context.area.state();
            if let Some(server) = &mut state.server {
                server.sleeps = Some(stream);
            }
            ready |= state.posts != context.seen;
            drop(state);
            if let Some(area) = context.awaited() {
                // Another context of this server, or of one that is no other's business: it is looked at now and then.
                ready |= !Arc::ptr_eq(&area, &context.area) && context.after_is_over();
            }
        }
        ready
    }

    pub(crate) fn expire(&mut self, why: &Reason) -> Step {
        if self.failing.is_none() {
            let failure = self.contexts.iter_mut().find_map(|context| match &mut context.turn {
                Some(pending) => match pending.expire(why) {
                    Step::Done(Err(failure)) => {
                        context.turn = None;
                        Some(context.told(failure))
                    }
                    Step::Done(Ok(())) => {
                        context.finish_turn();
                        None
                    }
                    // It runs, so it ends.
                    Step::Again | Step::Park => None,
                },
                None => None,
            });
            let own = || {
                let text = format!("{}: {}", self.describe(), why.text());
                Failure::new(why.code(), text).of_task("communication server")
            };
            self.failing = Some(failure.unwrap_or_else(own));
        }
        self.wind_up()
    }

    /// Ends with its failure, when no turn of it touches memory any more.
    fn wind_up(&mut self) -> Step {
        let Some(failure) = self.failing.clone() else { return Step::Again };
        let why = Reason::Stopped(Arc::clone(&failure.text));
        for context in &mut self.contexts {
            match context.turn.as_mut().map(|pending| pending.expire(&why)) {
                None => {}
                Some(Step::Done(_)) => context.turn = None,
                Some(step) => return step,
            }
        }
        self.leave(Some(&failure.text));
        self.failing = None;
        Step::Done(Err(failure))
    }

    pub(crate) fn limit(&self) -> Option<Duration> {
        let turn = self.contexts.iter().find_map(|context| context.turn.as_ref());
        turn.map_or(self.limit, |turn| turn.limit())
    }

    pub(crate) fn progress(&self) -> u64 {
        self.progress
    }

    /// The task of the kernel that it waits for, if there is one.
    pub(crate) fn upstream(&self) -> Option<Mark> {
        let mut waits = self.contexts.iter().filter(|c| !c.done && c.turn.is_none());
        waits.find_map(|context| context.area.state().kernel.as_ref().map(|kernel| kernel.mark))
    }

    pub(crate) fn helpers(&self) -> Helpers {
        let mut threads = Vec::new();
        for context in self.contexts.iter().filter(|context| !context.done) {
            match &context.turn {
                Some(pending) => match pending.helpers() {
                    Helpers::Threads(more) => threads.extend(more),
                    other => return other,
                },
                None if context.area.state().kernel.is_none() => threads.push(self.issuer),
                None => {}
            }
        }
        if threads.is_empty() { Helpers::Stream } else { Helpers::Threads(threads) }
    }

    pub(crate) fn describe(&self) -> String {
        let mut text = String::from("communication server");
        for context in self.contexts.iter().filter(|context| !context.done) {
            let _ = write!(text, " of {}: {};", context.area.describe(), context.describe());
        }
        text.trim_end_matches(';').to_owned()
    }
}

impl Context {
    fn go_on(&mut self) -> Result<Look, Failure> {
        if self.done {
            return Ok(Look::Waits);
        }
        if let Some(pending) = &mut self.turn {
            return match pending.poll() {
                Step::Done(Ok(())) => {
                    self.finish_turn();
                    Ok(Look::Moved)
                }
                Step::Done(Err(failure)) => Err(self.told(failure)),
                Step::Again => Ok(Look::Again),
                Step::Park => Ok(Look::Waits),
            };
        }
        let state = self.area.state();
        self.seen = state.posts;
        if let Some(text) = &state.failure {
            let text = format!("the kernel that it serves has failed: {text}");
            return Err(Failure::new(ACL_ERROR_RT_AICPU_EXCEPTION, text)
                .of_task(format!("communication server of {}", self.area.describe())));
        }
        let Some(slot) = state.slots.get(self.slot) else { return Ok(Look::Waits) };
        let (content, committed, finished) =
            (Arc::clone(&slot.content), slot.committed, slot.finished);
        drop(state);
        match &*content {
            Content::Work(work) => self.work(work, committed, finished),
            Content::Write { items, count, place } => {
                if let Some(log) = &self.log {
                    self.noted = Some(Box::new(track::writes(log, &self.area, *count, place)));
                }
                let moved = self.noted.as_mut().map(|turn| &mut turn.moved);
                write::run(&self.area, items.clone(), *count, moved)
                    .map_err(|text| self.failure(format!("BatchWrite ({place}): {text}")))?;
                self.keep_note();
                self.next(1);
                Ok(Look::Moved)
            }
            Content::After { .. } => {
                if !self.after_is_over() {
                    return Ok(Look::Waits);
                }
                self.next(1);
                Ok(Look::Moved)
            }
            Content::Barrier => {
                self.next(1);
                Ok(Look::Moved)
            }
            Content::Finalize => {
                self.done = true;
                self.area.answer(|state| {
                    state.server = None;
                    state.reset();
                });
                Ok(Look::Moved)
            }
        }
    }

    /// The message in the slot is done with.
    fn next(&mut self, finished: u32) {
        let slot = self.slot;
        self.area.answer(|state| {
            if let Some(slot) = state.slots.get_mut(slot) {
                slot.finished = finished;
            }
        });
        self.slot += 1;
        self.said = false;
    }

    fn work(&mut self, work: &Work, committed: u32, finished: u32) -> Result<Look, Failure> {
        if finished >= work.total() {
            self.slot += 1;
            self.said = false;
            return Ok(Look::Moved);
        }
        let member = Arc::clone(&self.area.member);
        if !self.said {
            let number = {
                let mut state = self.area.state();
                state.tasks += 1;
                state.tasks
            };
            self.said = true;
            // A disagreement has ended the communicator; the turn finds the text there.
            let _ = self.area.hub.say(member.rank, number, work);
        }
        // A fine-grained task waits before every so many steps.
        let needed = match work.steps {
            Some(size) => (finished / size + 1) * size,
            None => finished + 1,
        };
        if committed < needed {
            return match member.comm.meeting.breakage() {
                Some(breakage) => Err(self.failure(breakage.told(
                    breakage.cause.report_code(),
                    Origin::Collective(self.area.state().place.number),
                ))),
                None => Ok(Look::Waits),
            };
        }
        let mut turn = Turn { work, member: &member };
        let call = turn::call(&mut turn, finished).map_err(|text| self.failure(text))?;
        let place = {
            let mut state = self.area.state();
            state.place.number += 1;
            state.place.turn += u64::from(!call.request.is_void());
            state.place
        };
        member.comm.note_turn(member.rank, place.number);
        if check::engine(member.device).is_some() {
            let touches = check::touches(&call, member.rank, member.comm.ranks());
            self.area.state().touches.extend(touches);
        }
        if let Some(log) = &self.log {
            let meets = !call.request.is_void();
            let noted = track::turn(log, &self.area, work, finished, place.number, meets);
            self.noted = Some(Box::new(noted));
        }
        // SAFETY: `member` lives until the turn is kept.
        let mut turn = unsafe { Pending::new(&member, place, call) };
        turn.keep();
        self.turn = Some(Box::new(turn));
        Ok(Look::Moved)
    }

    /// What was noted has ended.
    fn keep_note(&mut self) {
        if let (Some(log), Some(mut turn)) = (&self.log, self.noted.take()) {
            turn.to = log.now();
            log.turned(*turn);
        }
    }

    fn finish_turn(&mut self) {
        self.turn = None;
        self.keep_note();
        let slot = self.slot;
        self.area.answer(|state| {
            if let Some(slot) = state.slots.get_mut(slot) {
                slot.finished += 1;
            }
        });
    }

    /// Another area, whose task the next message waits for.
    fn awaited(&self) -> Option<Arc<Area>> {
        let content = {
            let state = self.area.state();
            Arc::clone(&state.slots.get(self.slot)?.content)
        };
        match &*content {
            Content::After { area, .. } => Some(Arc::clone(area)),
            _ => None,
        }
    }

    fn after_is_over(&self) -> bool {
        let content = {
            let state = self.area.state();
            state.slots.get(self.slot).map(|slot| Arc::clone(&slot.content))
        };
        match content.as_deref() {
            Some(Content::After { area, generation, slot, total, .. }) => {
                area.finished(*generation, *slot).is_none_or(|finished| finished >= *total)
            }
            _ => true,
        }
    }

    fn failure(&self, text: String) -> Failure {
        Failure::new(ACL_ERROR_RT_AICPU_EXCEPTION, text)
            .of_task(format!("communication server of {}", self.area.describe()))
    }

    /// The failure of a turn, with the task that it belongs to.
    fn told(&self, failure: Failure) -> Failure {
        let task = format!("communication server of {}: {}", self.area.describe(), self.describe());
        failure.of_task(task)
    }

    /// The other ranks learn that no more turns come from here.
    fn break_off(&self, text: &str) {
        let rank = self.area.member.rank;
        let first = text.lines().next().unwrap_or_default();
        let text = format!("the communication server of rank {rank} has failed: {first}");
        self.area.member.comm.fail(Breakage { origin: Origin::Call, cause: Cause::Gone, text });
    }

    fn describe(&self) -> String {
        let mut text = self.area.state().describe(self.slot);
        if let Some(pending) = &self.turn {
            let _ = write!(text, "; {}", pending.describe());
        }
        text
    }
}

impl super::area::State {
    /// The conversation is over: the next kernel finds an empty area.
    pub(super) fn reset(&mut self) {
        self.slots.clear();
        self.failure = None;
        self.generation += 1;
    }

    /// What a server is at that has come to a message.
    pub(super) fn describe(&self, at: usize) -> String {
        let Some(slot) = self.slots.get(at) else {
            let kernel =
                if self.kernel.is_some() { "its kernel" } else { "a kernel, which does not run" };
            return format!("it has done all {at} tasks and waits for {kernel}");
        };
        match &*slot.content {
            Content::Work(work) => {
                let (committed, finished, total) = (slot.committed, slot.finished, work.total());
                let waits = if committed <= finished { "waits for the Commit of" } else { "is at" };
                format!(
                    "it {waits} turn {} of {total} of task {at}, {}: committed {committed}, finished {finished}",
                    finished + 1,
                    work.describe()
                )
            }
            Content::Write { place, .. } => format!("it is at task {at}, BatchWrite ({place})"),
            Content::After { area, slot, place, .. } => format!(
                "it is at task {at}, InterHcclGroupSync ({place}), and waits for task {slot} of {}",
                area.describe()
            ),
            Content::Barrier | Content::Finalize => format!("it is at message {at}"),
        }
    }
}
