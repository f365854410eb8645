//! The communication server of a rank: a task of the stream on which it is launched.
//!
//! The server reads the messages of its contexts in order. A turn of a task runs when the kernel
//! has committed it and all ranks have reached it. A turn is a [collective](crate::collective), and
//! moves data as fast as one. The server ends when the kernels that it serves have written their
//! final messages.

use super::area::{Area, AreaSide};
use super::conversation::{Conversation, ConversationStep};
use super::order::Order;
use crate::message::Failure;
use crate::step::{Helpers, Need, Reason, Step};
use crate::stream::{Mark, Stream};
use crate::task::TaskBody;
use crate::timeline;
use ascend_sys::ACL_ERROR_RT_AICPU_EXCEPTION;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// The time limit for the wait of a server for its kernel. It is that of A2 and A3.
pub(super) const PATIENCE: Duration = Duration::from_secs(16 * 60);

/// A server that was launched.
pub(crate) struct Server {
    contexts: Vec<Conversation>,
    started: bool,
    /// The time limit for the wait for its kernels.
    limit: Option<Duration>,
    /// The number of messages and turns that it has done.
    progress: u64,
    /// The failure with which the server ends as soon as its turns have ended.
    failing: Option<Failure>,
    /// The order of the server relative to its kernels, if a seed chooses it.
    order: Option<Order>,
}

impl Server {
    /// Makes a server of these contexts.
    pub(super) fn new(areas: Vec<Arc<Area>>, limit: Option<Duration>) -> Server {
        let context = |area| Conversation {
            area,
            slot: 0,
            turn: None,
            written: false,
            done: false,
            seen: 0,
            log: None,
            noted: None,
        };
        let contexts: Vec<Conversation> = areas.into_iter().map(context).collect();
        Server { contexts, started: false, limit, progress: 0, failing: None, order: None }
    }

    fn start(&mut self, stream: &'static Stream) -> Result<(), Failure> {
        let mark = Mark::new(stream, stream.queue.completed() + 1);
        for (index, context) in self.contexts.iter().enumerate() {
            let taken = context.area.answer(|state| {
                state.queued.retain(|queued| *queued != mark && !queued.is_complete());
                match &state.server {
                    Some(_) => false,
                    None => {
                        state.server = Some(AreaSide { mark, sleeps: None });
                        true
                    }
                }
            });
            if !taken {
                for other in &self.contexts[..index] {
                    other.area.state().server = None;
                }
                let text = format!(
                    "another server runs already for {}: a context can have only one, which ends \
                     when its kernel has ended: launch one server for each kernel",
                    context.area.describe()
                );
                return Err(Failure::new(ACL_ERROR_RT_AICPU_EXCEPTION, text));
            }
        }
        let log = timeline::of(stream.device_id());
        self.contexts.iter_mut().for_each(|context| context.log = log.clone());
        self.order = Order::of(stream.device());
        self.started = true;
        Ok(())
    }

    /// Runs the kernels that the server waits for, unless another thread does. Returns true if a
    /// kernel has done something.
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

    /// Makes the server leave all of its conversations. A failure is reported to the kernels.
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

    /// Ends the server with its failure, as soon as its turns have stopped touching memory.
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
}

impl TaskBody<Stream> for Box<Server> {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        if self.failing.is_some() {
            return self.wind_up();
        }
        if !self.started
            && let Err(failure) = self.start(stream)
        {
            return Step::Done(Err(failure.of_task("communication server")));
        }
        if self.order.as_mut().is_some_and(Order::server_hesitates) {
            self.drive();
            return Step::Again;
        }
        loop {
            let mut moved = false;
            for index in 0..self.contexts.len() {
                match self.contexts[index].go_on() {
                    Ok(ConversationStep::Moved) => {
                        moved = true;
                        self.progress += 1;
                        if self.order.as_ref().is_some_and(Order::is_server_late) {
                            return Step::Again;
                        }
                    }
                    Ok(ConversationStep::Again) => return Step::Again,
                    Ok(ConversationStep::Waits) => {}
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

    fn arm(&mut self, stream: &'static Stream) -> bool {
        let mut ready = false;
        for context in self.contexts.iter_mut().filter(|context| !context.done) {
            if let Some(pending) = &mut context.turn {
                ready |= pending.arm(stream);
            }
            if let Some(task) = context.uncompared() {
                ready |= context.area.hub.arm(task, stream);
            }
            let mut state = context.area.state();
            if let Some(server) = &mut state.server {
                server.sleeps = Some(stream);
            }
            ready |= state.posts != context.seen;
            drop(state);
            if let Some(area) = context.awaited() {
                // The context belongs to this server or to another one. Nothing wakes this server
                // for that context, so the wait is checked from time to time.
                ready |= !Arc::ptr_eq(&area, &context.area) && context.after_is_over();
            }
        }
        ready
    }

    fn expire(&mut self, _: &'static Stream, why: &Reason) -> Step {
        if self.failing.is_none() {
            let failure = self.contexts.iter_mut().find_map(|context| match &mut context.turn {
                Some(pending) => match pending.expire(why) {
                    Step::Done(Err(failure)) => {
                        context.turn = None;
                        Some(context.told(failure))
                    }
                    Step::Done(Ok(())) => context.go_on_with_turn().err(),
                    // The turn is running, so it will end by itself.
                    Step::Again | Step::Park => None,
                },
                None => context.uncompared().map(|task| context.give_up_on(task, why)),
            });
            let own = || {
                let text = format!("{}: {}", self.describe(), why.text());
                Failure::new(why.code(), text).of_task("communication server")
            };
            self.failing = Some(failure.unwrap_or_else(own));
        }
        self.wind_up()
    }

    fn limit(&self) -> Option<Duration> {
        let turn = self.contexts.iter().find_map(|context| match &context.turn {
            Some(turn) => Some(turn.limit()),
            None => context.uncompared().map(|_| context.area.member.exec_timeout),
        });
        turn.unwrap_or(self.limit)
    }

    fn progress(&self) -> u64 {
        self.progress
    }

    /// Returns the task of the kernel that the server waits for, if there is one.
    fn upstream(&self) -> Option<(&'static Stream, u64)> {
        let mut waits = self.contexts.iter().filter(|c| !c.done && c.turn.is_none());
        let mark = waits
            .find_map(|context| context.area.state().kernel.as_ref().map(|kernel| kernel.mark));
        mark.and_then(Mark::point)
    }

    fn helpers(&self) -> Helpers {
        let mut all = Vec::new();
        for context in self.contexts.iter().filter(|context| !context.done) {
            match &context.turn {
                Some(pending) => match pending.helpers() {
                    Helpers::Queued(needs) => all.extend(needs),
                    other => return other,
                },
                None if context.uncompared().is_some() => return Helpers::Anybody,
                None if context.area.state().kernel.is_none() => all.push(Need::Call),
                None => {}
            }
        }
        if all.is_empty() { Helpers::Streams } else { Helpers::Queued(all) }
    }

    fn describe(&self) -> String {
        let mut text = String::from("communication server");
        for context in self.contexts.iter().filter(|context| !context.done) {
            let _ = write!(text, " of {}: {};", context.area.describe(), context.describe());
        }
        text.trim_end_matches(';').to_owned()
    }
}
