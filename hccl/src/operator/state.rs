//! The state of a recording while the function of an operator runs.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

use ascend_operator::{Goal, Memory, Piece, RankTasks, ReduceOp, Signal, Step, Task};

use crate::dtype::DType;
use crate::error::operator::Mistake;

/// The number of notifies at each end of a channel that exposing and entering take.
pub(super) const HANDSHAKE: u32 = 2;

/// The most threads of a fork: beyond the limit of CANN, so that the checker can say what would be
/// too many.
pub(super) const MOST_THREADS: u32 = 4096;

/// The place of a call in the source.
pub(super) type Here = &'static Location<'static>;

/// The rank and the sizes that an operator is recorded for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperatorShape {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// The n of the goal.
    pub(crate) count: usize,
    pub(crate) dtype: DType,
    pub(crate) op: Option<ReduceOp>,
    /// The elements of the input, the output and the communication buffer.
    pub(crate) sizes: [usize; 3],
    /// The place in the output at which the input begins, in elements, if it is a part of it.
    pub(crate) in_place: Option<usize>,
}

/// The recorded tasks. Kept from one recording to the next, so that the same one again allocates
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    pub(crate) tasks: RankTasks,
    /// The thread of each task, in the order in which they were recorded.
    pub(super) order: Vec<u32>,
    /// The number of notifies of each thread.
    pub(super) notifies: Vec<u32>,
    /// For each sub-thread: its notify with which it is started, and the main thread's with which
    /// it ends.
    frames: Vec<(u32, u32)>,
    /// The use of each channel, in the order in which they were opened.
    channels: Vec<ChannelUse>,
    /// The notifies that are set, by thread and index, and the line that set them.
    pub(super) set: Vec<((u32, u32), Here)>,
    /// The [span](Visit) that the recording is in.
    pub(super) span: u32,
    /// Threads of earlier recordings.
    spare: Vec<Vec<Step>>,
    pub(crate) mistakes: Vec<Mistake>,
}

/// The state of the memory at the two ends of a channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChannelUse {
    /// The own memory is the peer's, since this line.
    pub(super) exposed: Option<Here>,
    /// The peer's memory is ours, by this visit.
    pub(super) entered: Option<Visit>,
}

/// A stay at the peer's memory: the thread that entered it, and the one that has used it since.
///
/// A recording has *spans*: outside of forks, in the first fork, outside again, and so on. Tasks in
/// different spans are ordered; tasks of two threads in one span are not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) since: Here,
    pub(super) thread: u32,
    span: u32,
    /// The last span with a use, and the thread in it; None: several.
    used: (u32, Option<u32>),
}

impl Visit {
    pub(super) fn new(since: Here, thread: u32, span: u32) -> Self {
        Visit { since, thread, span, used: (span, Some(thread)) }
    }

    /// Notes a use by a thread. Returns whether the visit has certainly begun by then.
    pub(super) fn use_by(&mut self, thread: u32, span: u32) -> bool {
        self.used = match self.used {
            (last, by) if last == span && by != Some(thread) => (span, None),
            _ => (span, Some(thread)),
        };
        self.span != span || self.thread == thread
    }

    /// Whether all uses are certainly over when the thread leaves.
    pub(super) fn is_over_for(&self, thread: u32, span: u32) -> bool {
        let (last, by) = self.used;
        (self.span != span || self.thread == thread) && (last != span || by == Some(thread))
    }
}

/// A recording that is under way.
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

    /// Returns the tape, when the function has ended.
    pub(super) fn into_tape(self) -> Tape {
        let mut tape = self.tape.into_inner();
        tape.end();
        tape
    }

    /// Changes the tape. No caller runs code of the user meanwhile, so the tape is never asked for
    /// twice.
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

    /// Returns `length` elements of a rank's memory, in bytes.
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

    /// Sees to it that there are `count` threads.
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

    /// Begins the next span: a fork begins or ends.
    pub(super) fn next_span(&mut self) {
        self.span += 1;
    }

    /// Ends the function: halves without their other half are mistakes.
    fn end(&mut self) {
        for (ends, (peer, _)) in self.channels.iter().zip(&self.tasks.channels) {
            if let Some(since) = ends.exposed {
                let text = format!(
                    "the buffer that is exposed to rank {peer} here is never reclaimed: call `reclaim` on what `expose` gave"
                );
                self.mistakes.push(Mistake::new(text, since));
            }
            if let Some(Visit { since, .. }) = ends.entered {
                let text = format!(
                    "the buffer of rank {peer} that is entered here is never left, and rank {peer} waits for that: call `leave` on what `enter` gave"
                );
                self.mistakes.push(Mistake::new(text, since));
            }
        }
        for ((thread, _), since) in self.set.drain(..) {
            let text = format!(
                "the notify that is recorded here is never waited for: call `wait` on thread {thread} with what `record` gave"
            );
            self.mistakes.push(Mistake::new(text, since));
        }
    }

    /// Returns a notify of a thread that nobody else has.
    pub(super) fn notify(&mut self, thread: u32) -> u32 {
        let next = &mut self.notifies[thread as usize];
        *next += 1;
        *next - 1
    }

    /// Returns the signals with which a sub-thread is started and ended.
    pub(super) fn frame(&self, rank: u32, thread: u32) -> (Signal, Signal) {
        let (start, end) = self.frames[thread as usize - 1];
        (
            Signal::Thread { rank, thread, index: start },
            Signal::Thread { rank, thread: 0, index: end },
        )
    }

    /// Returns the number of the channel to a peer, which is opened if it is not open.
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
