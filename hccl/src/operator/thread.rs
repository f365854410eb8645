//! Threads of a rank, and the methods that record their tasks.
//!
//! The methods here record tasks and return at once. The tasks of one thread run in the order in
//! which they were recorded. Tasks of different threads run at the same time. A copy or reduction
//! of no elements records no task, as in CANN.

use std::fmt;
use std::ops::Deref;
use std::panic::Location;

use ascend_operator::task::{LEFT, READY};
use ascend_operator::{Piece, ReduceOp, Signal, Task};

use super::channel::{Access, Channel, Exposed, line};
use super::memory::{LocalBuffer, RemoteBuffer};
use super::notify::{Clear, Notify, Set};
use super::state::{HANDSHAKE, Here, MOST_THREADS, State, Visit};

/// A thread of the rank: a queue of tasks (CANN: `HcclThreadAcquire`).
///
/// ```
/// use hccl::operator::*;
///
/// /// Copies a part of the input.
/// fn copy_part(thread: &Thread<'_>, op: &Recorder<'_>, of: u32) {
///     let part = thread.index();
///     thread.copy(op.input().part(part, of), op.output().part(part, of));
/// }
/// fn own(op: &Recorder<'_>, main: &mut MainThread<'_>) {
///     main.fork(4, |threads| threads.iter().for_each(|thread| copy_part(&thread, op, 4)));
/// }
/// # let operator = Operator::other("own", 100, 100, own);
/// # assert!(operator.record::<f32>(3, 100)?.check().is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct Thread<'f> {
    pub(super) state: &'f State,
    pub(super) index: u32,
}

/// The main thread, which starts the other threads and waits for their ends. On the default engine
/// it is the stream on which the operator runs (CANN: `HcclThreadAcquireWithStream`).
///
/// ```
/// use hccl::operator::*;
///
/// fn own(op: &Recorder<'_>, main: &mut MainThread<'_>) {
///     main.copy(op.input(), op.buffer().slice(..op.count())); // by the stream itself
///     main.fork(2, |threads| {
///         for thread in threads.iter() {
///             let half = op.buffer().slice(..op.count()).part(thread.index(), 2);
///             thread.copy(half, op.output().part(thread.index(), 2));
///         }
///     }); // waits for both
/// }
/// # let operator = Operator::other("own", 100, 100, own);
/// # assert!(operator.record::<f32>(3, 100)?.check().is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct MainThread<'r> {
    pub(super) thread: Thread<'r>,
}

/// The threads of a [fork](MainThread::fork), the main thread first. The other threads end with the
/// fork.
///
/// ```
/// use hccl::operator::*;
///
/// fn own(op: &Recorder<'_>, main: &mut MainThread<'_>) {
///     main.fork(2, |threads: Threads<'_>| {
///         let [first, second] = threads.array(); // or `threads.iter()`, or `threads.get(1)`
///         first.copy(op.input().part(0, 2), op.output().part(0, 2));
///         second.copy(op.input().part(1, 2), op.output().part(1, 2));
///     });
/// }
/// # let operator = Operator::other("own", 100, 100, own);
/// # assert!(operator.record::<f32>(3, 100)?.check().is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Threads<'f> {
    state: &'f State,
    count: u32,
}

impl<'f> Threads<'f> {
    /// Returns thread `index`; 0 is the main thread. An index beyond the last thread is a mistake,
    /// and returns the main thread.
    #[track_caller]
    pub fn get(&self, index: u32) -> Thread<'f> {
        if index >= self.count {
            let text = format!(
                "thread {index} does not exist: threads are numbered from 0, and the fork has {}; \
                 fork more threads, or give a smaller index",
                self.count
            );
            self.state.mistake(Location::caller(), text);
            return Thread { state: self.state, index: 0 };
        }
        Thread { state: self.state, index }
    }

    /// Returns all threads, the main thread first.
    pub fn iter(&self) -> impl Iterator<Item = Thread<'f>> + use<'f> {
        let state = self.state;
        (0..self.count).map(move |index| Thread { state, index })
    }

    /// Returns the first `N` threads: `let [a, b] = threads.array();`. It is a mistake if the fork
    /// has fewer threads.
    #[track_caller]
    pub fn array<const N: usize>(&self) -> [Thread<'f>; N] {
        let here = *self;
        let mut next = 0;
        [(); N].map(|()| {
            next += 1;
            here.get(next - 1)
        })
    }
}

impl<'r> Deref for MainThread<'r> {
    type Target = Thread<'r>;

    fn deref(&self) -> &Thread<'r> {
        &self.thread
    }
}

impl MainThread<'_> {
    /// Calls `body` with `threads` threads, one of which is the main thread. The main thread starts
    /// the other `threads - 1` threads, the sub-threads. After the tasks that `body` records, the
    /// main thread waits until all sub-threads have ended. A sub-thread exists only in `body`. So
    /// no sub-thread is left running, and no sub-thread can start another sub-thread.
    ///
    /// All forks of an operator use the same sub-threads. If `threads` is 0 or 1, there is only the
    /// main thread. More than 4096 threads are a mistake, and then too there is only the main
    /// thread.
    ///
    /// ```
    /// use hccl::operator::*;
    ///
    /// fn both_halves_at_once(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    ///     main.fork(2, |threads| {
    ///         for (half, thread) in (0..).zip(threads.iter()) {
    ///             thread.copy(op.input().part(half, 2), op.output().part(half, 2));
    ///         }
    ///     });
    /// }
    /// # let both = Operator::all_reduce("both_halves_at_once", hccl::prelude::Sum, both_halves_at_once);
    /// # assert_eq!(both.record::<f32>(1, 8).unwrap().tasks().tasks(), 6);
    /// ```
    #[track_caller]
    pub fn fork<R>(&mut self, threads: u32, body: impl for<'f> FnOnce(Threads<'f>) -> R) -> R {
        let (state, here) = (self.thread.state, Location::caller());
        let count = if threads <= MOST_THREADS { threads.max(1) } else { 1 };
        if threads > MOST_THREADS {
            let text = format!(
                "a fork of {threads} threads is too large: at most {MOST_THREADS} threads can be \
                 recorded, and CANN gives a communicator at most 200; fork fewer threads"
            );
            state.mistake(here, text);
        }
        let rank = state.shape.rank;
        state.tape(|tape| {
            tape.threads(count);
            tape.next_span();
            for sub in 1..count {
                let (start, _) = tape.frame(rank, sub);
                tape.push(0, Task::Record(start), here);
                tape.push(sub, Task::Wait(start), here);
            }
        });
        // Dropping this ends the sub-threads, even if the closure panics.
        let _fork = Fork { state, count, here };
        body(Threads { state, count })
    }
}

/// A fork that has begun. Its drop records the end of every sub-thread.
struct Fork<'r> {
    state: &'r State,
    count: u32,
    here: Here,
}

impl Drop for Fork<'_> {
    fn drop(&mut self) {
        let rank = self.state.shape.rank;
        self.state.tape(|tape| {
            for sub in 1..self.count {
                let (_, end) = tape.frame(rank, sub);
                tape.push(sub, Task::Record(end), self.here);
                tape.push(0, Task::Wait(end), self.here);
            }
            tape.next_span();
        });
    }
}

/// Tasks within the rank.
impl<'f> Thread<'f> {
    /// Returns the number of the thread; 0 is the main thread.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Copies elements (CANN: `HcommLocalCopyOnThread`). Both buffers must have the same length.
    #[track_caller]
    pub fn copy(&self, from: LocalBuffer<'_>, to: LocalBuffer<'_>) {
        self.transfer(from.piece(), to.piece(), None);
    }

    /// Combines the elements of `from` with those of `into` by the reduction of the operator, and
    /// writes the results to `into` (CANN: `HcommLocalReduceOnThread`). Both buffers must have the
    /// same length.
    #[track_caller]
    pub fn reduce(&self, from: LocalBuffer<'_>, into: LocalBuffer<'_>) {
        let op = self.reduction();
        self.transfer(from.piece(), into.piece(), op);
    }

    /// Makes a notify for which this thread can wait, and which another thread can record.
    pub fn notify(&self) -> Notify<'f, Clear> {
        let index = self.state.tape(|tape| tape.notify(self.index));
        Notify::new(self.state, self.index, index)
    }

    /// Sets a notify of another thread (CANN: `HcommThreadNotifyRecordOnThread`).
    #[track_caller]
    pub fn record<'n>(&self, notify: Notify<'n, Clear>) -> Notify<'n, Set> {
        let here = Location::caller();
        if notify.thread == self.index {
            let text = format!(
                "thread {} records a notify of its own, so it would wait for itself: \
                 make the notify on the thread that waits",
                self.index
            );
            self.state.mistake(here, text);
        }
        self.state.tape(|tape| tape.set.push(((notify.thread, notify.index), here)));
        self.push(Task::Record(self.signal_of(&notify)), here);
        notify.in_state()
    }

    /// Waits for a notify of this thread, and clears it (CANN: `HcommThreadNotifyWaitOnThread`).
    #[track_caller]
    pub fn wait<'n>(&self, notify: Notify<'n, Set>) -> Notify<'n, Clear> {
        let here = Location::caller();
        if notify.thread != self.index {
            let text = format!(
                "thread {} waits for a notify of thread {}: \
                 only the thread that made a notify can wait for it, so wait on that thread",
                self.index, notify.thread
            );
            self.state.mistake(here, text);
        }
        let bit = (notify.thread, notify.index);
        self.state.tape(|tape| tape.set.retain(|(set, _)| *set != bit));
        self.push(Task::Wait(self.signal_of(&notify)), here);
        notify.in_state()
    }

    fn signal_of<S: super::NotifyState>(&self, notify: &Notify<'_, S>) -> Signal {
        let rank = self.state.shape.rank;
        Signal::Thread { rank, thread: notify.thread, index: notify.index }
    }
}

/// Tasks between ranks.
impl<'f> Thread<'f> {
    /// Allows the peer to use this rank's communication buffer, and notifies the peer that the
    /// buffer is ready.
    #[track_caller]
    pub fn expose<'r>(&self, channel: Channel<'r>) -> Exposed<'r> {
        let here = Location::caller();
        let before = self.state.tape(|tape| tape.channel_use(channel.number).exposed.replace(here));
        if let Some(since) = before {
            let (peer, since) = (channel.peer, line(since));
            let text = format!(
                "the buffer was already exposed to rank {peer} at {since}: \
                 reclaim it before exposing it again"
            );
            self.state.mistake(here, text);
        }
        self.push(Task::Record(theirs(channel, READY)), here);
        Exposed { channel }
    }

    /// Waits until the peer has left this rank's communication buffer.
    #[track_caller]
    pub fn reclaim(&self, exposed: Exposed<'_>) {
        let channel = exposed.channel;
        self.state.tape(|tape| tape.channel_use(channel.number).exposed = None);
        self.push(Task::Wait(ours(channel, LEFT)), Location::caller());
    }

    /// Waits until the peer has exposed its communication buffer to this rank.
    #[track_caller]
    pub fn enter<'r>(&self, channel: Channel<'r>) -> Access<'r> {
        let here = Location::caller();
        let before = self.state.tape(|tape| {
            let visit = Visit::new(here, self.index, tape.span);
            tape.channel_use(channel.number).entered.replace(visit)
        });
        if let Some(Visit { since, .. }) = before {
            let (peer, since) = (channel.peer, line(since));
            let text = format!(
                "the buffer of rank {peer} was already entered at {since}: \
                 leave it before entering it again"
            );
            self.state.mistake(here, text);
        }
        self.push(Task::Wait(ours(channel, READY)), here);
        Access { channel }
    }

    /// Notifies the peer that this rank has left the peer's communication buffer. By then the
    /// earlier tasks of this thread on that buffer are complete.
    #[track_caller]
    pub fn leave(&self, access: Access<'_>) {
        let (channel, here) = (access.channel, Location::caller());
        let visit = self.state.tape(|tape| {
            let span = tape.span;
            tape.channel_use(channel.number)
                .entered
                .take()
                .filter(|visit| !visit.is_over_for(self.index, span))
        });
        if visit.is_some() {
            let text = format!(
                "thread {} leaves the buffer of rank {} while other threads of the fork may still \
                 use it: leave it on the thread that entered and used it, or after the fork",
                self.index, channel.peer
            );
            self.state.mistake(here, text);
        }
        self.push(Task::Record(theirs(channel, LEFT)), here);
    }

    /// [Exposes](Self::expose) the rank's communication buffer, and then [reclaims](Self::reclaim)
    /// it. The peer can use the buffer in between.
    #[track_caller]
    pub fn lend(&self, to: Channel<'_>) {
        let exposed = self.expose(to);
        self.reclaim(exposed);
    }

    /// [Enters](Self::enter) the peer's communication buffer, calls `body` with the buffer, and
    /// [leaves](Self::leave) it.
    #[track_caller]
    pub fn visit<R>(&self, from: Channel<'_>, body: impl FnOnce(RemoteBuffer<'_>) -> R) -> R {
        let access = self.enter(from);
        let result = body(access.buffer());
        self.leave(access);
        result
    }

    /// [Lends](Self::lend) the rank's communication buffer to the peer of `to` while the rank
    /// [visits](Self::visit) the buffer of the peer of `from`. Both may be the same peer. The rank
    /// exposes its own buffer before it waits for its peer's, so ranks can exchange in a circle
    /// without a deadlock. Without `to` the rank only visits. Without `from` it only lends.
    #[track_caller]
    pub fn exchange<'r>(
        &self,
        to: impl Into<Option<Channel<'r>>>,
        from: impl Into<Option<Channel<'r>>>,
        body: impl FnOnce(RemoteBuffer<'_>),
    ) {
        let exposed = to.into().map(|to| self.expose(to));
        if let Some(from) = from.into() {
            self.visit(from, body);
        }
        if let Some(exposed) = exposed {
            self.reclaim(exposed);
        }
    }

    /// Copies elements from a peer's buffer to this rank's memory (CANN: `HcommReadOnThread`). Both
    /// buffers must have the same length.
    #[track_caller]
    pub fn read(&self, from: RemoteBuffer<'_>, to: LocalBuffer<'_>) {
        self.uses(from);
        self.transfer(from.piece(), to.piece(), None);
    }

    /// Combines elements of a peer's buffer with those of `into` by the reduction of the operator,
    /// and writes the results to `into` (CANN: `HcommReadReduceOnThread`). Both buffers must have
    /// the same length.
    #[track_caller]
    pub fn read_reduce(&self, from: RemoteBuffer<'_>, into: LocalBuffer<'_>) {
        self.uses(from);
        let op = self.reduction();
        self.transfer(from.piece(), into.piece(), op);
    }

    /// Copies elements from this rank's memory to a peer's buffer (CANN: `HcommWriteOnThread`).
    /// Both buffers must have the same length.
    #[track_caller]
    pub fn write(&self, from: LocalBuffer<'_>, to: RemoteBuffer<'_>) {
        self.uses(to);
        self.transfer(from.piece(), to.piece(), None);
    }

    /// Combines elements of this rank with those of a peer's buffer by the reduction of the
    /// operator, and writes the results to the peer's buffer (CANN: `HcommWriteReduceOnThread`).
    /// Both buffers must have the same length.
    ///
    /// Several ranks may combine elements into the same destination at the same time. Then every
    /// contribution counts, but their order is not fixed. Floating-point sums in another order are
    /// rounded differently, so [`check`](super::Recorded::check) notes them as `not-reproducible`.
    #[track_caller]
    pub fn write_reduce(&self, from: LocalBuffer<'_>, into: RemoteBuffer<'_>) {
        self.uses(into);
        let op = self.reduction();
        self.transfer(from.piece(), into.piece(), op);
    }

    /// Sets signal `index` at the peer's end of the channel (CANN:
    /// `HcommChannelNotifyRecordOnThread`). Use signals for protocols other than exposing and
    /// entering. The signals of a channel are numbered from 0. They use the notifies after the two
    /// of the handshake. A signal is one latched bit: it is recorded once and
    /// [awaited](Self::await_signal) once.
    #[track_caller]
    pub fn signal(&self, channel: Channel<'_>, index: u32) {
        let index = self.notify_of(channel, index);
        self.push(Task::Record(theirs(channel, index)), Location::caller());
    }

    /// Waits for signal `index` at this end of the channel, and clears it (CANN:
    /// `HcommChannelNotifyWaitOnThread`).
    #[track_caller]
    pub fn await_signal(&self, channel: Channel<'_>, index: u32) {
        let index = self.notify_of(channel, index);
        self.push(Task::Wait(ours(channel, index)), Location::caller());
    }

    fn notify_of(&self, channel: Channel<'_>, index: u32) -> u32 {
        let index = index.saturating_add(HANDSHAKE);
        self.state.tape(|tape| tape.channel_has(channel.number, index.saturating_add(1)));
        index
    }
}

impl Thread<'_> {
    #[track_caller]
    #[inline]
    fn transfer(&self, from: Piece, to: Piece, op: Option<ReduceOp>) {
        let here = Location::caller();
        if from.bytes != to.bytes {
            return self.unequal(here, from.bytes, to.bytes);
        }
        if from.bytes > 0 {
            let task = match op {
                None => Task::Copy { from, to },
                Some(op) => Task::Reduce { from, to, op },
            };
            self.push(task, here);
        }
    }

    /// Records that this thread uses a peer's buffer. Adds a mistake if nothing orders the use
    /// after the buffer is entered.
    #[track_caller]
    #[inline]
    fn uses(&self, buffer: RemoteBuffer<'_>) {
        let early = self.state.tape(|tape| {
            let span = tape.span;
            let visit = tape.channel_use(buffer.channel).entered.as_mut()?;
            (!visit.use_by(self.index, span)).then_some(visit.thread)
        });
        if let Some(entered) = early {
            let text = format!(
                "thread {} uses the buffer of rank {}, which thread {entered} has entered in this \
                 fork, but nothing orders the use after that: \
                 enter it before the fork, or on the thread that uses it",
                self.index, buffer.peer
            );
            self.state.mistake(Location::caller(), text);
        }
    }

    #[cold]
    fn unequal(&self, here: Here, from: u64, to: u64) {
        let [from, to] = [from, to].map(|bytes| bytes / self.state.shape.dtype.size() as u64);
        let text = format!(
            "the source has {from} elements, but the destination has {to}: slice one of the two"
        );
        self.state.mistake(here, text);
    }

    /// Returns the reduction of the operator. Adds a mistake if it has none.
    #[track_caller]
    fn reduction(&self) -> Option<ReduceOp> {
        if self.state.shape.op.is_none() {
            let text = "the operator has no reduction: make it with a constructor that takes a \
                        reduction, such as `Operator::all_reduce`";
            self.state.mistake(Location::caller(), text.to_owned());
        }
        self.state.shape.op
    }

    #[inline]
    fn push(&self, task: Task, here: Here) {
        self.state.push(self.index, task, here);
    }
}

/// Returns the signal of notify `index` at this rank's end of the channel.
fn ours(channel: Channel<'_>, index: u32) -> Signal {
    Signal::Channel { rank: channel.state.shape.rank, peer: channel.peer, index }
}

/// Returns the signal of notify `index` at the peer's end of the channel.
fn theirs(channel: Channel<'_>, index: u32) -> Signal {
    Signal::Channel { rank: channel.peer, peer: channel.state.shape.rank, index }
}

impl fmt::Debug for Thread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Thread({} of rank {})", self.index, self.state.shape.rank)
    }
}

impl fmt::Debug for MainThread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.thread.fmt(f)
    }
}

impl fmt::Debug for Threads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} threads of rank {}", self.count, self.state.shape.rank)
    }
}
