//! The message area of one context, which a kernel and the communication server of its rank share.
//!
//! On hardware this is memory: slots for messages, and for each slot two counters, of turns that
//! the kernel has committed and of turns that the server has finished. A kernel reaches it through
//! its client only, so here it is a structure under a lock. Of the memory itself, only the part
//! that the program can see exists: the head of the context (see `context`).
//!
//! Each side counts the actions of the other since it looked, and is woken by it when it sleeps.

use super::binary::SERVER;
use super::global::RegionAddress;
use super::hub::Hub;
use super::work::PreparedWork;
use crate::check;
use crate::collective::meeting::MeetingPlace;
use crate::fabric::Member;
use crate::stream::{Mark, Stream};
use crate::task::Touch;
use ascend_sync::lock_std as lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// The messages that one kernel can write through a client, without the message that ends it.
pub(super) const MOST_TASKS: usize = 63;

/// The message area of one rank in one communicator.
pub(crate) struct Area {
    /// The address of the context.
    pub(super) context: usize,
    /// The rank among the servers.
    pub(super) member: Arc<Member>,
    pub(super) hub: Arc<Hub>,
    /// The communicator's name.
    pub(super) group: String,
    state: Mutex<AreaState>,
}

/// The state of an area.
#[derive(Default)]
pub(super) struct AreaState {
    /// The number of kernels that have ended their conversation with a server.
    pub(super) generation: u64,
    pub(super) kernel: Option<AreaSide>,
    pub(super) server: Option<AreaSide>,
    /// Servers that are queued in streams.
    pub(super) queued: Vec<Mark>,
    pub(super) slots: Vec<MessageSlot>,
    /// On Ascend 950: the turns that were posted, how many of them are done, and how many there
    /// were in the conversation before.
    pub(super) posted: Vec<Posted>,
    pub(super) done: usize,
    pub(super) done_before: usize,
    /// The queues of all cores, by number, where the host has set queues.
    pub(super) queues: Vec<WriteQueue>,
    /// The failure of the kernel or of the server: the other one gives up.
    pub(super) failure: Option<Arc<str>>,
    /// The number of actions of the kernel.
    pub(super) posts: u64,
    /// The number of actions of the server.
    pub(super) moves: u64,
    /// The newest turn of the rank, and the number of tasks that it has begun.
    pub(super) place: MeetingPlace,
    pub(super) tasks: u64,
    /// The accesses of turns, if the device is watched for races.
    pub(super) touches: Vec<Touch>,
}

impl Area {
    /// Notes that the server's work for a task touches memory of a device, which may be a window.
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

/// A kernel or a server that runs.
pub(super) struct AreaSide {
    /// Its task.
    pub(super) mark: Mark,
    /// The stream to wake when the other side does something.
    pub(super) sleeps: Option<&'static Stream>,
}

/// A message with its counters.
pub(super) struct MessageSlot {
    pub(super) content: Arc<ClientMessage>,
    pub(super) committed: u32,
    pub(super) finished: u32,
    /// The number of its task, when the server has told it to the other ranks.
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
    /// The messages that were put into it and are not done.
    pub(super) messages: VecDeque<ClientMessage>,
    /// How many of them are done.
    pub(super) done: u64,
    /// The end was put into the queue, and the server has come to it.
    pub(super) closing: bool,
    pub(super) ended: bool,
}

/// The content of a message.
pub(super) enum ClientMessage {
    Work(Box<PreparedWork>),
    /// `BatchWrite`: `count` items.
    Write {
        items: RegionAddress,
        count: u64,
        place: String,
    },
    /// Wait for a task of another group.
    After {
        area: Arc<Area>,
        generation: u64,
        slot: usize,
        total: u32,
        place: String,
    },
    /// Wait until a queue is empty; it is empty when the message is read.
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

    /// "rank 2 of "world"".
    pub(super) fn describe(&self) -> String {
        format!("rank {} of communicator \"{}\"", self.member.rank, self.group)
    }

    /// Changes the area for the kernel, in a way that the server may wait for.
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

    /// Changes the area for the server, in a way that the kernel may wait for.
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

    /// Returns the number of finished turns of the message in a slot; none if its conversation is
    /// over.
    pub(super) fn finished(&self, generation: u64, slot: usize) -> Option<u32> {
        let state = self.state();
        if state.generation != generation {
            return None;
        }
        state.slots.get(slot).map(|slot| slot.finished)
    }
}

impl AreaState {
    /// Ends the conversation: the next kernel finds an empty area.
    pub(super) fn reset(&mut self) {
        self.slots.clear();
        self.posted.clear();
        self.queues.clear();
        self.done_before = std::mem::take(&mut self.done);
        self.failure = None;
        self.generation += 1;
    }

    /// Describes the work of a server that has come to a message.
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
