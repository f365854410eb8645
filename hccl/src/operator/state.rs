//! The state of a recording while the function of an operator runs.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

use ascend_operator::{Goal, Memory, Piece, RankTasks, ReduceOp, Signal, Step, Task};

use crate::dtype::DType;
use crate::error::operator::Mistake;

/// The number of notifies that exposing and entering take at each end of a channel.
pub(super) const HANDSHAKE: u32 = 2;

/// The largest number of threads of a fork. It exceeds the limit of CANN, so that a fork beyond
/// that limit can be recorded and the checker can report it.
pub(super) const MOST_THREADS: u32 = 4096;

/// The place of a call in the source.
pub(super) type Here = &'static Location<'static>;

/// The rank and the sizes for which an operator is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperatorShape {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// The n in the table of [`Operator`](super::Operator), in elements.
    pub(crate) count: usize,
    pub(crate) dtype: DType,
    pub(crate) op: Option<ReduceOp>,
    /// The sizes of the input, the output and the communication buffer, in elements.
    pub(crate) sizes: [usize; 3],
    /// The offset in the output at which the input begins, in elements. `None` if the input is not
    /// a part of the output.
    pub(crate) in_place: Option<usize>,
}

/// The recorded tasks, and the bookkeeping of the recording. A tape is reused for the next
/// recording, so that recording the same operator again allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    pub(crate) tasks: RankTasks,
    /// The thread of each task, in the order in which the tasks were recorded.
    pub(super) order: Vec<u32>,
    /// The number of notifies of each thread.
    pub(super) notifies: Vec<u32>,
    /// For each sub-thread, the index of its own notify that starts it, and the index of the main
    /// thread's notify that reports its end.
    frames: Vec<(u32, u32)>,
    /// The use of each channel, in the order in which the channels were opened.
    channels: Vec<ChannelUse>,
    /// The notifies that are set. Each has its thread, its index, and the line that set it.
    pub(super) set: Vec<((u32, u32), Here)>,
    /// The number of the current [span](Visit) of the recording.
    pub(super) span: u32,
    /// Empty task lists of threads of earlier recordings, kept for reuse.
    spare: Vec<Vec<Step>>,
    pub(crate) mistakes: Vec<Mistake>,
}

/// The state of the memory at the two ends of a channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChannelUse {
    /// The line that has exposed this rank's buffer to the peer; `None` if the buffer is not
    /// exposed.
    pub(super) exposed: Option<Here>,
    /// The visit of this rank to the peer's buffer; `None` if the buffer is not entered.
    pub(super) entered: Option<Visit>,
}

/// A visit to a peer's buffer: the thread that entered the buffer, and the threads that have used
/// it since.
///
/// A recording consists of *spans*: before the first fork, in the first fork, between the first and
/// the second fork, and so on. Tasks in different spans are ordered. Tasks of different threads in
/// the same span are not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) since: Here,
    pub(super) thread: u32,
    span: u32,
    /// The last span in which the buffer was used, and the thread that used it there. `None` if
    /// several threads used it there.
    used: (u32, Option<u32>),
}

impl Visit {
    pub(super) fn new(since: Here, thread: u32, span: u32) -> Self {
        Visit { since, thread, span, used: (span, Some(thread)) }
    }

    /// Records a use by a thread. Returns whether the visit is certain to have begun before the
    /// use.
    pub(super) fn use_by(&mut self, thread: u32, span: u32) -> bool {
        self.used = match self.used {
            (last, by) if last == span && by != Some(thread) => (span, None),
            _ => (span, Some(thread)),
        };
        self.span != span || self.thread == thread
    }

    /// Returns whether all uses are certain to be complete when the thread leaves the buffer.
    pub(super) fn is_over_for(&self, thread: u32, span: u32) -> bool {
        let (last, by) = self.used;
        (self.span != span || self.thread == thread) && (last != span || by == Some(thread))
    }
}

/// A recording in progress.
pub struct State {
    pub(super) shape: OperatorShape,
    pub(super) goal: Arc<Goal>,
    tape: RefCell<Tape>,
}

impl State {
    pub(super) fn new(shape: OperatorShape, goal: Arc<Goal>, mut tape: Tape) -> Self {
        tape.begin(&shape);
        State { shape, goal, tape: RefCell::new(tape) }
    }

    /// Ends the recording and returns the tape. The function of the operator must have returned.
    pub(super) fn into_tape(self) -> Tape {
        let mut tape = self.tape.into_inner();
        tape.end();
        tape
    }

    /// Calls `change` with the tape. No caller runs user code in `change`, so the tape is never
    /// borrowed twice.
    pub(super) fn tape<R>(&self, change: impl FnOnce(&mut Tape) -> R) -> R {
        change(&mut self.tape.borrow_mut())
    }

    #[inline]
    pub(super) fn push(&self, thread: u32, task: Task, source: Here) {
        self.tape(|tape| tape.push(thread, task, source));
    }

    #[cold]
    pub(super) fn mistake(&self, source: Here, text: String) {
        self.tape(|tape| tape.mistakes.push(Mistake::new(text, source)));
    }

    /// Returns the piece of a rank's memory that has `length` elements from element `start` on.
    #[inline]
    pub(super) fn piece(&self, rank: u32, memory: Memory, start: usize, length: usize) -> Piece {
        let size = self.shape.dtype.size() as u64;
        Piece { rank, memory, start: start as u64 * size, bytes: length as u64 * size }
    }
}

impl Tape {
    fn begin(&mut self, shape: &OperatorShape) {
        let size = shape.dtype.size() as u64;
        self.mistakes.clear();
        self.order.clear();
        self.notifies.clear();
        self.frames.clear();
        self.channels.clear();
        self.set.clear();
        self.span = 0;
        self.tasks.channels.clear();
        for mut thread in self.tasks.threads.drain(..).rev() {
            thread.clear();
            self.spare.push(thread);
        }
        let [input, output, buffer] = shape.sizes.map(|elements| elements as u64 * size);
        (self.tasks.input, self.tasks.output, self.tasks.buffer) = (input, output, buffer);
        self.tasks.in_place = shape.in_place.map(|start| start as u64 * size);
        self.threads(1);
    }

    /// Adds threads until there are at least `count`.
    pub(super) fn threads(&mut self, count: u32) {
        while self.tasks.threads.len() < count as usize {
            self.tasks.threads.push(self.spare.pop().unwrap_or_default());
            self.notifies.push(0);
            let thread = self.tasks.threads.len() as u32 - 1;
            if thread > 0 {
                let frame = (self.notify(thread), self.notify(0));
                self.frames.push(frame);
            }
        }
    }

    /// Begins the next span. Each fork calls this method when it begins and when it ends.
    pub(super) fn next_span(&mut self) {
        self.span += 1;
    }

    /// Ends the recording. Adds a mistake for every `expose` without `reclaim`, `enter` without
    /// `leave`, and `record` without `wait`.
    fn end(&mut self) {
        for (ends, (peer, _)) in self.channels.iter().zip(&self.tasks.channels) {
            if let Some(since) = ends.exposed {
                let text = format!(
                    "the buffer that is exposed to rank {peer} here is never reclaimed: \
                     pass the result of `expose` to `reclaim`"
                );
                self.mistakes.push(Mistake::new(text, since));
            }
            if let Some(Visit { since, .. }) = ends.entered {
                let text = format!(
                    "the buffer of rank {peer} that is entered here is never left, so rank {peer} \
                     would wait forever: pass the result of `enter` to `leave`"
                );
                self.mistakes.push(Mistake::new(text, since));
            }
        }
        for ((thread, _), since) in self.set.drain(..) {
            let text = format!(
                "the notify that is recorded here is never waited for: \
                 call `wait` on thread {thread} with the result of `record`"
            );
            self.mistakes.push(Mistake::new(text, since));
        }
    }

    /// Returns the index of a new notify of a thread.
    pub(super) fn notify(&mut self, thread: u32) -> u32 {
        let next = &mut self.notifies[thread as usize];
        *next += 1;
        *next - 1
    }

    /// Returns the signal that starts a sub-thread, and the signal that reports its end.
    pub(super) fn frame(&self, rank: u32, thread: u32) -> (Signal, Signal) {
        let (start, end) = self.frames[thread as usize - 1];
        (
            Signal::Thread { rank, thread, index: start },
            Signal::Thread { rank, thread: 0, index: end },
        )
    }

    /// Returns the index of the channel to a peer. Opens the channel if it is not open yet.
    pub(super) fn channel(&mut self, peer: u32) -> usize {
        let open = self.tasks.channels.iter().position(|(other, _)| *other == peer);
        open.unwrap_or_else(|| {
            self.tasks.channels.push((peer, HANDSHAKE));
            self.channels.push(ChannelUse::default());
            self.channels.len() - 1
        })
    }

    /// Gives the channel at least `notifies` notifies at each end.
    pub(super) fn channel_has(&mut self, channel: usize, notifies: u32) {
        let (_, has) = &mut self.tasks.channels[channel];
        *has = notifies.max(*has);
    }

    pub(super) fn channel_use(&mut self, channel: usize) -> &mut ChannelUse {
        &mut self.channels[channel]
    }

    #[inline]
    pub(super) fn push(&mut self, thread: u32, task: Task, source: Here) {
        self.tasks.threads[thread as usize].push(Step { task, source });
        self.order.push(thread);
    }
}
