//! The conversation of a server with the kernels of one context. The server reads the messages in
//! order and carries them out.

use super::area::{Area, ClientMessage, Posted};
use super::global::RegionAddress;
use super::track;
use super::turn::{self, TaskTurn};
use super::work::PreparedWork;
use super::write;
use crate::check;
use crate::collective::call::CollectiveCall;
use crate::collective::comm_error::{Cause, CommError, Origin};
use crate::collective::request::CollectiveRequest;
use crate::issue::collective::PendingCollective;
use crate::message::Failure;
use crate::profile::Product;
use crate::step::{Reason, Step};
use crate::task::TaskBody;
use crate::timeline;
use ascend_sys::ACL_ERROR_RT_AICPU_EXCEPTION;
use std::fmt::Write as _;
use std::sync::Arc;

/// A context that a server serves.
pub(super) struct Conversation {
    pub(super) area: Arc<Area>,
    /// The slot of the current message.
    pub(super) slot: usize,
    pub(super) turn: Option<Box<PendingCollective>>,
    /// Whether this rank has done its writes for an AlltoAllvWrite, and now meets the other ranks
    /// once more.
    pub(super) written: bool,
    pub(super) done: bool,
    /// The number of actions of the kernel at the last check.
    pub(super) seen: u64,
    /// The log of turns, if the block of devices records a timeline. `noted` is the record of the
    /// current turn.
    pub(super) log: Option<Arc<timeline::Log>>,
    pub(super) noted: Option<Box<ascend_timeline::TurnSpan>>,
}

/// The next action of the server.
enum NextAction {
    Message(Arc<ClientMessage>, u32, u32),
    /// A turn of the task in the slot, given by its number.
    Turn(Arc<ClientMessage>, u32),
    Queues,
    Uncommitted,
    Nothing,
}

/// The result of one step of a conversation.
pub(super) enum ConversationStep {
    /// The conversation has done something, and may do more.
    Moved,
    /// A piece of a turn is done, and the turn goes on.
    Again,
    Waits,
}

impl Conversation {
    pub(super) fn go_on(&mut self) -> Result<ConversationStep, Failure> {
        if self.done {
            return Ok(ConversationStep::Waits);
        }
        if let Some(pending) = &mut self.turn {
            return match pending.poll() {
                Step::Done(Ok(())) => self.go_on_with_turn().map(|()| ConversationStep::Moved),
                Step::Done(Err(failure)) => Err(self.told(failure)),
                Step::Again => Ok(ConversationStep::Again),
                Step::Park => Ok(ConversationStep::Waits),
            };
        }
        match self.next_message()? {
            NextAction::Nothing => Ok(ConversationStep::Waits),
            NextAction::Queues => self.serve_queues(),
            NextAction::Uncommitted => self.wait_for_commit(),
            NextAction::Turn(content, turn) => match &*content {
                ClientMessage::Work(work) => self.begin_turn(work, turn),
                _ => Ok(ConversationStep::Waits),
            },
            NextAction::Message(content, committed, finished) => {
                self.message(&content, committed, finished)
            }
        }
    }

    /// Returns the next action that the kernel requests.
    fn next_message(&mut self) -> Result<NextAction, Failure> {
        let state = self.area.state();
        self.seen = state.posts;
        if let Some(text) = &state.failure {
            let text = format!("the kernel that it serves has failed: {text}");
            return Err(Failure::new(ACL_ERROR_RT_AICPU_EXCEPTION, text)
                .of_task(format!("communication server of {}", self.area.describe())));
        }
        if !state.queues.is_empty() {
            return Ok(NextAction::Queues);
        }
        if self.area.hub.comm.product == Product::Ascend950 {
            // On Ascend 950 turns run in the order in which they were committed.
            let posted = state.posted.get(state.done).copied();
            if let Some(Posted { slot, turn }) = posted
                && let Some(message) = state.slots.get(slot)
            {
                self.slot = slot;
                return Ok(NextAction::Turn(Arc::clone(&message.content), turn));
            }
            return Ok(match state.slots.last() {
                Some(last) if matches!(*last.content, ClientMessage::Finalize) => {
                    NextAction::Message(Arc::clone(&last.content), 0, 0)
                }
                Some(_) => NextAction::Uncommitted,
                None => NextAction::Nothing,
            });
        }
        Ok(match state.slots.get(self.slot) {
            Some(slot) => {
                NextAction::Message(Arc::clone(&slot.content), slot.committed, slot.finished)
            }
            None => NextAction::Nothing,
        })
    }

    fn message(
        &mut self,
        content: &ClientMessage,
        committed: u32,
        finished: u32,
    ) -> Result<ConversationStep, Failure> {
        match content {
            ClientMessage::Work(work) => self.work(work, committed, finished),
            ClientMessage::Write { items, count, place } => {
                self.write(items, *count, place)?;
                self.next(1);
                Ok(ConversationStep::Moved)
            }
            ClientMessage::After { .. } => {
                if !self.after_is_over() {
                    return Ok(ConversationStep::Waits);
                }
                self.next(1);
                Ok(ConversationStep::Moved)
            }
            ClientMessage::Barrier => {
                self.next(1);
                Ok(ConversationStep::Moved)
            }
            ClientMessage::Finalize => {
                self.end();
                Ok(ConversationStep::Moved)
            }
        }
    }

    /// Does the writes of a `BatchWrite`.
    fn write(&mut self, items: &RegionAddress, count: u64, place: &str) -> Result<(), Failure> {
        if let Some(log) = &self.log {
            self.noted = Some(Box::new(track::writes(log, &self.area, count, place)));
        }
        let moved = self.noted.as_mut().map(|turn| &mut turn.moved);
        write::run(&self.area, items.clone(), count, moved)
            .map_err(|text| self.failure(format!("BatchWrite ({place}): {text}")))?;
        self.keep_note();
        Ok(())
    }

    /// Carries out one message of each queue.
    fn serve_queues(&mut self) -> Result<ConversationStep, Failure> {
        let mut moved = false;
        let queues = self.area.state().queues.len();
        for number in 0..queues {
            let message = self.area.state().queues[number].messages.pop_front();
            let Some(message) = message else { continue };
            if let ClientMessage::Write { items, count, place } = &message {
                self.write(items, *count, place)?;
            }
            moved = true;
            self.area.answer(|state| {
                let queue = &mut state.queues[number];
                queue.done += 1;
                queue.ended |= matches!(message, ClientMessage::Finalize);
            });
        }
        if self.area.state().queues.iter().all(|queue| queue.ended) {
            self.end();
        }
        Ok(if moved { ConversationStep::Moved } else { ConversationStep::Waits })
    }

    /// Ends the conversation, as the final message of the kernel requests.
    fn end(&mut self) {
        self.done = true;
        self.area.answer(|state| {
            state.server = None;
            state.reset();
        });
    }

    /// Stores the number of finished turns of the message in the slot, and continues with the next
    /// message.
    pub(super) fn next(&mut self, finished: u32) {
        let slot = self.slot;
        self.area.answer(|state| {
            if let Some(slot) = state.slots.get_mut(slot) {
                slot.finished = finished;
            }
        });
        self.slot += 1;
    }

    pub(super) fn work(
        &mut self,
        work: &PreparedWork,
        committed: u32,
        finished: u32,
    ) -> Result<ConversationStep, Failure> {
        if finished >= work.total() {
            self.slot += 1;
            return Ok(ConversationStep::Moved);
        }
        self.say(work);
        // A fine-grained task waits for a commit before every `size` steps.
        let needed = match work.steps {
            Some(size) => (finished / size + 1) * size,
            None => finished + 1,
        };
        if committed < needed { self.wait_for_commit() } else { self.begin_turn(work, finished) }
    }

    /// Compares the task in the slot with the tasks of the other ranks, once. A disagreement ends
    /// the communicator, and the turn then fails with its text.
    fn say(&self, work: &PreparedWork) {
        let number = {
            let mut state = self.area.state();
            let next = state.tasks + 1;
            let Some(slot) = state.slots.get_mut(self.slot) else { return };
            if slot.said.is_some() {
                return;
            }
            slot.said = Some(next);
            state.tasks = next;
            next
        };
        self.area.hub.say(self.area.member.rank, number, work);
    }

    /// Returns the number of the task in the slot, if its first turn still waits for ranks of other
    /// processes to send their tasks.
    pub(super) fn uncompared(&self) -> Option<u64> {
        if self.turn.is_some() || !self.area.hub.comm.is_joint() {
            return None;
        }
        let said = self.area.state().slots.get(self.slot)?.said?;
        (!self.area.hub.is_compared(said)).then_some(said)
    }

    /// Ends the wait for the ranks that have not reached a task, and ends the communicator. Returns
    /// the failure.
    pub(super) fn give_up_on(&self, task: u64, why: &Reason) -> Failure {
        let missing = self.area.hub.missing(task);
        let text = format!("rank {} waited for {missing}: {}", self.area.member.rank, why.text());
        let cause = match why {
            Reason::Timeout(_) => Cause::Timeout,
            _ => Cause::Gone,
        };
        let error = self.area.member.comm.fail(CommError::new(Origin::Call, cause, text));
        let origin = Origin::Collective(self.area.state().place.number + 1);
        let text = error.told_to_kernel(error.cause.report_code(), origin);
        self.told(Failure::new(why.code(), text))
    }

    /// Makes the conversation wait for a commit. Returns an error if the communicator has failed.
    fn wait_for_commit(&self) -> Result<ConversationStep, Failure> {
        match self.area.member.comm.meeting.error() {
            Some(error) => Err(self.failure(error.told_to_kernel(
                error.cause.report_code(),
                Origin::Collective(self.area.state().place.number),
            ))),
            None => Ok(ConversationStep::Waits),
        }
    }

    fn begin_turn(
        &mut self,
        work: &PreparedWork,
        finished: u32,
    ) -> Result<ConversationStep, Failure> {
        self.say(work);
        if self.uncompared().is_some() {
            return Ok(ConversationStep::Waits);
        }
        let member = Arc::clone(&self.area.member);
        let mut turn = TaskTurn { work, member: &member };
        let call = turn::call(&mut turn, finished).map_err(|text| self.failure(text))?;
        if check::engine(member.device).is_some() {
            let touches = check::touches(&call, member.rank, member.comm.ranks());
            let (area, windows) = (&self.area, || touches.clone());
            area.window_touched(member.device, || work.describe(), windows);
            area.state().touches.extend(touches);
        }
        if let Some(log) = &self.log {
            let number = self.area.state().place.number + 1;
            let noted = track::turn(log, &self.area, work, finished, number);
            self.noted = Some(Box::new(noted));
        }
        self.meet(call);
        Ok(ConversationStep::Moved)
    }

    /// Begins a meeting of the ranks.
    fn meet(&mut self, call: CollectiveCall) {
        let member = Arc::clone(&self.area.member);
        let place = {
            let mut state = self.area.state();
            state.place.number += 1;
            state.place
        };
        member.comm.note_issued(member.rank, place.number);
        // SAFETY: `member` lives until `keep`, after which the turn keeps it alive.
        let mut turn = unsafe { PendingCollective::new(&member, place, call) };
        turn.keep();
        self.turn = Some(Box::new(turn));
    }

    /// Completes the record of the turn and writes it to the log.
    pub(super) fn keep_note(&mut self) {
        if let (Some(log), Some(mut turn)) = (&self.log, self.noted.take()) {
            turn.to = log.now();
            log.turned(*turn);
        }
    }

    /// Does the work after the ranks have met for a turn.
    pub(super) fn go_on_with_turn(&mut self) -> Result<(), Failure> {
        self.turn = None;
        let content = self.area.state().slots.get(self.slot).map(|slot| Arc::clone(&slot.content));
        if let Some(ClientMessage::Work(work)) = content.as_deref()
            && let Some(windows) = &work.windows
            && !self.written
        {
            // All ranks have reached the task, so the windows are free. The second meeting ensures
            // that all ranks have written the windows.
            let moved = self.noted.as_mut().map(|turn| &mut turn.moved);
            write::blocks(&self.area, work, windows, moved)
                .map_err(|text| self.failure(format!("{}: {text}", work.describe())))?;
            self.written = true;
            self.meet(CollectiveCall::new(
                CollectiveRequest::BARRIER,
                std::ptr::null(),
                std::ptr::null_mut(),
            ));
            return Ok(());
        }
        self.written = false;
        self.keep_note();
        let slot = self.slot;
        self.area.answer(|state| {
            if let Some(slot) = state.slots.get_mut(slot) {
                slot.finished += 1;
            }
            state.done += usize::from(state.done < state.posted.len());
        });
        Ok(())
    }

    /// Returns the area of the task that the current message waits for; `None` if it is not a wait
    /// for a task of another group.
    pub(super) fn awaited(&self) -> Option<Arc<Area>> {
        let content = {
            let state = self.area.state();
            Arc::clone(&state.slots.get(self.slot)?.content)
        };
        match &*content {
            ClientMessage::After { area, .. } => Some(Arc::clone(area)),
            _ => None,
        }
    }

    pub(super) fn after_is_over(&self) -> bool {
        let content = {
            let state = self.area.state();
            state.slots.get(self.slot).map(|slot| Arc::clone(&slot.content))
        };
        match content.as_deref() {
            Some(ClientMessage::After { area, generation, slot, total, .. }) => {
                area.finished(*generation, *slot).is_none_or(|finished| finished >= *total)
            }
            _ => true,
        }
    }

    pub(super) fn failure(&self, text: String) -> Failure {
        Failure::new(ACL_ERROR_RT_AICPU_EXCEPTION, text)
            .of_task(format!("communication server of {}", self.area.describe()))
    }

    /// Adds the description of the server's task to the failure of a turn.
    pub(super) fn told(&self, failure: Failure) -> Failure {
        let task = format!("communication server of {}: {}", self.area.describe(), self.describe());
        failure.of_task(task)
    }

    /// Ends the communicator of the servers after a failure, so that the other ranks do not wait
    /// for this server.
    pub(super) fn break_off(&self, text: &str) {
        let rank = self.area.member.rank;
        let first = text.lines().next().unwrap_or_default();
        let text = format!("the communication server of rank {rank} has failed: {first}");
        self.area.member.comm.fail(CommError::new(Origin::Call, Cause::Gone, text));
    }

    pub(super) fn describe(&self) -> String {
        let mut text = self.area.state().describe(self.slot);
        if let Some(pending) = &self.turn {
            let _ = write!(text, "; {}", pending.describe());
        }
        if let Some(task) = self.uncompared() {
            let _ = write!(text, "; it waits for {}", self.area.hub.missing(task));
        }
        text
    }
}
