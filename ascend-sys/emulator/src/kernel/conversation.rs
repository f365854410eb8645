//! One context that a server serves: it reads the messages there in order, and does what they say.

use super::area::{Area, Content, Work};
use super::track;
use super::turn::{self, Turn};
use super::write;
use crate::check;
use crate::collective::meeting::{Breakage, Cause, Origin};
use crate::collective::pending::Pending;
use crate::message::Failure;
use crate::task::Step;
use crate::timeline;
use ascend_sys::ACL_ERROR_RT_AICPU_EXCEPTION;
use std::fmt::Write as _;
use std::sync::Arc;

/// One context that it serves.
pub(super) struct Conversation {
    pub(super) area: Arc<Area>,
    /// The message that it is at.
    pub(super) slot: usize,
    /// It has compared the task in the slot with those of the others.
    pub(super) said: bool,
    pub(super) turn: Option<Box<Pending>>,
    pub(super) done: bool,
    /// What the kernel had done when it looked last.
    pub(super) seen: u64,
    /// Where turns are written down, if the block records, and the one under way.
    pub(super) log: Option<Arc<timeline::Log>>,
    pub(super) noted: Option<Box<timeline::Turn>>,
}

/// What became of a look at a context.
pub(super) enum Look {
    /// It has done something, and may do more.
    Moved,
    /// A piece of a turn is done.
    Again,
    Waits,
}

impl Conversation {
    pub(super) fn go_on(&mut self) -> Result<Look, Failure> {
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
    pub(super) fn next(&mut self, finished: u32) {
        let slot = self.slot;
        self.area.answer(|state| {
            if let Some(slot) = state.slots.get_mut(slot) {
                slot.finished = finished;
            }
        });
        self.slot += 1;
        self.said = false;
    }

    pub(super) fn work(
        &mut self,
        work: &Work,
        committed: u32,
        finished: u32,
    ) -> Result<Look, Failure> {
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
    pub(super) fn keep_note(&mut self) {
        if let (Some(log), Some(mut turn)) = (&self.log, self.noted.take()) {
            turn.to = log.now();
            log.turned(*turn);
        }
    }

    pub(super) fn finish_turn(&mut self) {
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
    pub(super) fn awaited(&self) -> Option<Arc<Area>> {
        let content = {
            let state = self.area.state();
            Arc::clone(&state.slots.get(self.slot)?.content)
        };
        match &*content {
            Content::After { area, .. } => Some(Arc::clone(area)),
            _ => None,
        }
    }

    pub(super) fn after_is_over(&self) -> bool {
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

    pub(super) fn failure(&self, text: String) -> Failure {
        Failure::new(ACL_ERROR_RT_AICPU_EXCEPTION, text)
            .of_task(format!("communication server of {}", self.area.describe()))
    }

    /// The failure of a turn, with the task that it belongs to.
    pub(super) fn told(&self, failure: Failure) -> Failure {
        let task = format!("communication server of {}: {}", self.area.describe(), self.describe());
        failure.of_task(task)
    }

    /// The other ranks learn that no more turns come from here.
    pub(super) fn break_off(&self, text: &str) {
        let rank = self.area.member.rank;
        let first = text.lines().next().unwrap_or_default();
        let text = format!("the communication server of rank {rank} has failed: {first}");
        self.area.member.comm.fail(Breakage { origin: Origin::Call, cause: Cause::Gone, text });
    }

    pub(super) fn describe(&self) -> String {
        let mut text = self.area.state().describe(self.slot);
        if let Some(pending) = &self.turn {
            let _ = write!(text, "; {}", pending.describe());
        }
        text
    }
}
