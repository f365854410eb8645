//! The message area of a context. A kernel and the communication server of its rank share it.
//!
//! On hardware the area is memory. It has slots for messages. Each slot has two counters: of the
//! turns that the kernel has committed, and of the turns that the server has finished. A kernel
//! accesses the area only through its client, so in the emulator it is a structure under a lock.
//! Only the part of the memory that the program can see exists: the head of the context (see
//! `context`).
//!
//! Each side counts its actions, so that the other side can see whether anything has changed since
//! its last check. An action wakes the other side if it sleeps.

use super::binary::SERVER;
use super::global::RegionAddress;
use super::hub::Hub;
use super::work::PreparedWork;
use crate::check;
use crate::collective::claim::MeetingPlace;
use crate::fabric::Member;
use crate::stream::{Mark, Stream};
use crate::task::Touch;
use ascend_sync::lock_std as lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// The largest number of messages that one kernel can write through a client, not counting the
/// final message.
pub(super) const MOST_TASKS: usize = 63;

/// The message area of one rank in one communicator.
pub(crate) struct Area {
    /// The address of the context.
    pub(super) context: usize,
    /// The rank in the communicator of the servers.
    pub(super) member: Arc<Member>,
    pub(super) hub: Arc<Hub>,
    /// The communicator's name.
    pub(super) group: String,
    state: Mutex<AreaState>,
}

/// The state of an area.
#[derive(Default)]
pub(super) struct AreaState {
    /// The number of conversations of a kernel with a server that have ended.
    pub(super) generation: u64,
    pub(super) kernel: Option<AreaSide>,
    pub(super) server: Option<AreaSide>,
    /// The tasks of servers that are queued in streams.
    pub(super) queued: Vec<Mark>,
    pub(super) slots: Vec<MessageSlot>,
    /// The posted turns, on Ascend 950. `done` is the number of those that are done, and
    /// `done_before` the number that were done in the previous conversation.
    pub(super) posted: Vec<Posted>,
    pub(super) done: usize,
    pub(super) done_before: usize,
    /// The queues of all cores, by number, if the host has set queues.
    pub(super) queues: Vec<WriteQueue>,
    /// The failure of the kernel or of the server. The other side fails when it sees it.
    pub(super) failure: Option<Arc<str>>,
    /// The number of actions of the kernel so far.
    pub(super) posts: u64,
    /// The number of actions of the server so far.
    pub(super) moves: u64,
    /// The latest turn of the rank. `tasks` is the number of tasks that the rank has begun.
    pub(super) place: MeetingPlace,
    pub(super) tasks: u64,
    /// The memory accesses of turns, in checked mode.
    pub(super) touches: Vec<Touch>,
}

impl Area {
    /// Reports to checked mode that the server's work for a task touches memory of a device, which
    /// may be a window.
    pub(super) fn window_touched(
        &self,
        device: u32,
        task: impl FnOnce() -> String,
        touches: impl FnOnce() -> Vec<Touch>,
    ) {
        if !check::is_on() {
            return;
        }
        let mark = self.state().server.as_ref().map(|server| server.mark);
        if let Some(stream) = mark.and_then(Mark::stream) {
            let describe = || (format!("{} of {}", task(), self.describe()), SERVER.to_owned());
            check::window_touched(stream, device, touches, describe);
        }
    }
}

/// A running kernel or server.
pub(super) struct AreaSide {
    /// The mark of its task.
    pub(super) mark: Mark,
    /// The stream to wake after an action of the other side, if this side sleeps.
    pub(super) sleeps: Option<&'static Stream>,
}

/// A message with its counters of turns.
pub(super) struct MessageSlot {
    pub(super) content: Arc<ClientMessage>,
    pub(super) committed: u32,
    pub(super) finished: u32,
    /// The number of the slot's task, once the server has sent the task to the other ranks.
    pub(super) said: Option<u64>,
}

impl MessageSlot {
    pub(super) fn new(content: ClientMessage) -> MessageSlot {
        MessageSlot { content: Arc::new(content), committed: 0, finished: 0, said: None }
    }
}

/// A turn of the task in a slot.
#[derive(Clone, Copy)]
pub(super) struct Posted {
    pub(super) slot: usize,
    /// The number of the turn, from 0.
    pub(super) turn: u32,
}

/// A queue of one-sided writes.
#[derive(Default)]
pub(super) struct WriteQueue {
    /// The messages in the queue that are not done yet.
    pub(super) messages: VecDeque<ClientMessage>,
    /// The number of messages that are done.
    pub(super) done: u64,
    /// Whether the end was put into the queue. `ended` is set when the server has reached it.
    pub(super) closing: bool,
    pub(super) ended: bool,
}

/// The content of a message.
pub(super) enum ClientMessage {
    Work(Box<PreparedWork>),
    /// A `BatchWrite` of `count` items.
    Write {
        items: RegionAddress,
        count: u64,
        place: String,
    },
    /// A wait for a task of another group.
    After {
        area: Arc<Area>,
        generation: u64,
        slot: usize,
        total: u32,
        place: String,
    },
    /// A wait until the queue is empty. The server processes a queue in order, so the queue is
    /// empty when the server reads the message.
    Barrier,
    Finalize,
}

impl Area {
    pub(super) fn new(context: usize, member: Arc<Member>, hub: Arc<Hub>, group: String) -> Area {
        Area { context, member, hub, group, state: Mutex::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, AreaState> {
        lock(&self.state)
    }

    /// Returns a description: `rank 2 of communicator "world"`.
    pub(super) fn describe(&self) -> String {
        format!("rank {} of communicator \"{}\"", self.member.rank, self.group)
    }

    /// Changes the area on behalf of the kernel, and wakes the server if it sleeps.
    pub(super) fn post<R>(&self, change: impl FnOnce(&mut AreaState) -> R) -> R {
        let mut state = self.state();
        let result = change(&mut state);
        state.posts += 1;
        let sleeper = state.server.as_mut().and_then(|server| server.sleeps.take());
        drop(state);
        if let Some(stream) = sleeper {
            stream.wake();
        }
        result
    }

    /// Changes the area on behalf of the server, and wakes the kernel if it sleeps.
    pub(super) fn answer<R>(&self, change: impl FnOnce(&mut AreaState) -> R) -> R {
        let mut state = self.state();
        let result = change(&mut state);
        state.moves += 1;
        let sleeper = state.kernel.as_mut().and_then(|kernel| kernel.sleeps.take());
        drop(state);
        if let Some(stream) = sleeper {
            stream.wake();
        }
        result
    }

    /// Returns the number of finished turns of the message in a slot. `None` if its conversation
    /// has ended, or if the slot has no message.
    pub(super) fn finished(&self, generation: u64, slot: usize) -> Option<u32> {
        let state = self.state();
        if state.generation != generation {
            return None;
        }
        state.slots.get(slot).map(|slot| slot.finished)
    }
}

impl AreaState {
    /// Ends the conversation and empties the area for the next kernel.
    pub(super) fn reset(&mut self) {
        self.slots.clear();
        self.posted.clear();
        self.queues.clear();
        self.done_before = std::mem::take(&mut self.done);
        self.failure = None;
        self.generation += 1;
    }

    /// Describes the state of a server that has reached the message in slot `at`.
    pub(super) fn describe(&self, at: usize) -> String {
        let kernel =
            if self.kernel.is_some() { "its kernel" } else { "a kernel, which does not run" };
        if !self.queues.is_empty() {
            let done: u64 = self.queues.iter().map(|queue| queue.done).sum();
            let open: Vec<_> =
                self.queues.iter().enumerate().filter(|(_, queue)| !queue.ended).collect();
            let first = open.first().map_or(0, |(number, _)| *number);
            return format!(
                "it has done {done} messages of {} queues and waits for {kernel}: {} queues, the first of them {first}, have not ended",
                self.queues.len(),
                open.len()
            );
        }
        let Some(slot) = self.slots.get(at) else {
            return format!("it has done all {at} tasks and waits for {kernel}");
        };
        match &*slot.content {
            ClientMessage::Work(work) => {
                let (committed, finished, total) = (slot.committed, slot.finished, work.total());
                let waits = if committed <= finished { "waits for the Commit of" } else { "is at" };
                format!(
                    "it {waits} turn {} of {total} of task {at}, {}: committed {committed}, finished {finished}",
                    finished + 1,
                    work.describe()
                )
            }
            ClientMessage::Write { place, .. } => {
                format!("it is at task {at}, BatchWrite ({place})")
            }
            ClientMessage::After { area, slot, place, .. } => format!(
                "it is at task {at}, InterHcclGroupSync ({place}), and waits for task {slot} of {}",
                area.describe()
            ),
            ClientMessage::Barrier | ClientMessage::Finalize => format!("it is at message {at}"),
        }
    }
}
