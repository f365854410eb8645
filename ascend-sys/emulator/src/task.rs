//! What a stream can hold. A task is small, lies in the queue itself, and is polled by whoever runs the stream.
//!
//! *Leaf work* (copies and fills) is done in pieces of at most [`PIECE`] bytes. *Waits* never hold a thread: they park, and
//! arrange to be woken when somebody is about to sleep. *User code* runs on threads of its own.

use crate::callback::{self, HostCall};
use crate::capture::Branch;
use crate::check;
use crate::collective::plan::store_for;
use crate::copy;
use crate::event::{RecordTime, ResetEvent, WaitEvent};
use crate::faults::Hold;
use crate::issue::batch::PendingBatch;
use crate::issue::collective::PendingCollective;
use crate::kernel::{Kernel, Server};
use crate::memory::nominal;
use crate::message::Failure;
use crate::notify::{RecordNotify, WaitNotify};
use crate::operator::{Await, Reduce, Signal, Traced};
use crate::queue::{Fresh, Job};
use crate::reduce::Store;
use crate::report::Callback;
use crate::step::{Helpers, PIECE, Reason, Step};
use crate::stream::{Mark, Stream};
use std::time::Duration;

/// A task of a stream. It lies inline in the queue.
pub(crate) enum Task {
    Copy(Copy),
    Fill(Fill),
    WaitEvent(WaitEvent),
    ResetEvent(ResetEvent),
    RecordTime(RecordTime),
    HostCall(HostCall),
    Callback(Callback),
    RecordNotify(RecordNotify),
    WaitNotify(WaitNotify),
    /// Waits for a point in another stream.
    After(Mark),
    /// A branch of a graph that was replayed.
    Branch(Branch),
    Collective(PendingCollective),
    Batch(PendingBatch),
    /// A kernel, and the communication server that one needs.
    Kernel(Box<Kernel>),
    Server(Box<Server>),
    /// What comes next, for a block that is checked.
    Note(Box<check::CheckNote>),
    /// Primitives of operators: a reduction, the record of a notify, the wait for one.
    Reduce(Reduce),
    Signal(Signal),
    Await(Await),
    /// One of them, or a copy, in a block that records a timeline.
    Traced(Box<Traced>),
    /// A fault that the device was told to have.
    Hold(Hold),
}

impl Task {
    /// Makes progress: at most about 64 KiB or 20 microseconds of work, then [`Step::Again`].
    pub(crate) fn poll(&mut self, stream: &'static Stream) -> Step {
        match self {
            Task::Copy(copy) => copy.poll(),
            Task::Fill(fill) => fill.poll(),
            Task::WaitEvent(wait) => {
                let step = wait.poll();
                if matches!(step, Step::Done(Ok(()))) {
                    check::event_passed(stream, wait.upstream());
                }
                step
            }
            Task::ResetEvent(reset) => reset.poll(),
            Task::RecordTime(record) => record.poll(),
            Task::HostCall(call) => call.poll(stream),
            Task::Callback(callback) => callback.poll(stream),
            Task::RecordNotify(record) => record.poll(),
            Task::WaitNotify(wait) => wait.poll(stream),
            Task::After(mark) if mark.is_complete() => {
                check::event_passed(stream, Some(*mark));
                Step::Done(Ok(()))
            }
            Task::After(_) => Step::Park,
            Task::Branch(branch) => {
                let step = branch.poll();
                if !matches!(step, Step::Park) {
                    check::event_passed(stream, Some(branch.end()));
                }
                step
            }
            Task::Collective(pending) => pending.poll(),
            Task::Batch(pending) => pending.poll(),
            Task::Kernel(kernel) => kernel.poll(stream),
            Task::Server(server) => server.poll(stream),
            Task::Note(note) => note.poll(stream),
            Task::Reduce(reduce) => reduce.poll(),
            Task::Signal(signal) => signal.poll(),
            Task::Await(wait) => wait.poll(stream),
            Task::Traced(traced) => traced.poll(stream),
            Task::Hold(hold) => hold.poll(stream),
        }
    }

    /// The task is parked and a thread is about to sleep: arrange that `stream.wake()` is called when a poll may help.
    /// True when that has already happened.
    fn arm(&mut self, stream: &'static Stream) -> bool {
        match self {
            Task::WaitEvent(wait) => wait.arm(stream),
            Task::WaitNotify(wait) => wait.arm(stream),
            Task::Collective(pending) => pending.arm(stream),
            Task::Batch(pending) => pending.arm(stream),
            Task::Kernel(kernel) => kernel.arm(stream),
            Task::Server(server) => server.arm(stream),
            Task::Await(wait) => wait.arm(),
            Task::Traced(traced) => traced.task.arm(stream),
            // A callback thread wakes the stream in any case, the housekeeper one that is held; the others never park.
            Task::HostCall(_)
            | Task::Hold(_)
            | Task::Callback(_)
            | Task::RecordNotify(_)
            | Task::After(_)
            | Task::Branch(_)
            | Task::Copy(_)
            | Task::Fill(_)
            | Task::ResetEvent(_)
            | Task::RecordTime(_)
            | Task::Reduce(_)
            | Task::Signal(_)
            | Task::Note(_) => false,
        }
    }

    /// Gives up, as far as nothing of the task touches memory any more; parks otherwise.
    pub(crate) fn expire(&mut self, stream: &'static Stream, why: &Reason) -> Step {
        match self {
            Task::HostCall(call) if callback::is_running(stream) => call.poll(stream),
            Task::Callback(callback) if callback::is_running(stream) => callback.poll(stream),
            Task::Collective(pending) => pending.expire(why),
            Task::Batch(pending) => pending.expire(why),
            Task::Kernel(kernel) => kernel.expire(stream, why),
            Task::Server(server) => server.expire(why),
            Task::Await(wait) => wait.expire(why),
            Task::Traced(traced) => {
                let step = traced.task.expire(stream, why);
                traced.tell(step)
            }
            Task::Note(note) => note.give_up(stream),
            _ => Step::Done(Err(Failure::new(
                why.code(),
                format!("{}: {}", self.describe(), why.text()),
            ))),
        }
    }

    /// How long the task may stay parked at the head of its stream. `None`: for ever.
    pub(crate) fn limit(&self) -> Option<Duration> {
        match self {
            Task::Traced(traced) => traced.task.limit(),
            Task::WaitEvent(wait) => wait.limit,
            Task::WaitNotify(wait) => wait.limit,
            Task::Collective(pending) => pending.limit(),
            Task::Batch(pending) => pending.limit(),
            Task::Kernel(kernel) => kernel.limit(),
            Task::Server(server) => server.limit(),
            Task::Await(wait) => wait.limit,
            _ => None,
        }
    }

    /// A number that changes when a task that waits again and again gets on: its limit is for each wait.
    pub(crate) fn progress(&self) -> u64 {
        match self {
            Task::Kernel(kernel) => kernel.progress(),
            Task::Server(server) => server.progress(),
            _ => 0,
        }
    }

    /// The point of another stream that this task waits for. Whoever is about to sleep registers there.
    pub(crate) fn upstream(&self) -> Option<Mark> {
        match self {
            Task::WaitEvent(wait) => wait.upstream(),
            Task::After(mark) => Some(*mark),
            Task::Branch(branch) => Some(branch.end()),
            Task::Kernel(kernel) => kernel.upstream(),
            Task::Server(server) => server.upstream(),
            _ => None,
        }
    }

    /// Who could help the parked task: see `deadlock`.
    pub(crate) fn helpers(&self) -> Helpers {
        match self {
            Task::After(_) | Task::Branch(_) => Helpers::Stream,
            Task::WaitEvent(wait) => wait.helpers(),
            Task::Collective(pending) => pending.helpers(),
            Task::Batch(pending) => pending.helpers(),
            Task::Kernel(kernel) => kernel.helpers(),
            Task::Server(server) => server.helpers(),
            Task::Await(wait) => wait.helpers(),
            Task::Traced(traced) => traced.task.helpers(),
            _ => Helpers::Anybody,
        }
    }

    /// The same task once more, for another place in a stream. `None` for tasks that make sense only once.
    pub(crate) fn again(&self) -> Option<Task> {
        match self {
            Task::Copy(copy) => Some(Task::Copy(copy.clone())),
            Task::Fill(fill) => Some(Task::Fill(fill.clone())),
            Task::HostCall(call) => Some(Task::HostCall(call.clone())),
            Task::Callback(callback) => Some(Task::Callback(callback.clone())),
            Task::RecordNotify(record) => Some(Task::RecordNotify(record.clone())),
            Task::WaitNotify(wait) => Some(Task::WaitNotify(wait.clone())),
            Task::Reduce(reduce) => Some(Task::Reduce(reduce.clone())),
            Task::Signal(signal) => Some(Task::Signal(signal.clone())),
            Task::Await(wait) => Some(Task::Await(wait.clone())),
            Task::Traced(traced) => traced.again(),
            Task::Note(note) => Some(Task::Note(Box::new(note.again()))),
            _ => None,
        }
    }

    /// What kind of task it is, of those that can be captured.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Task::Copy(_) => "copy",
            Task::Fill(_) => "fill",
            Task::HostCall(_) => "host function",
            Task::Callback(_) => "callback",
            Task::RecordNotify(_) | Task::Signal(_) => "record of a notify",
            Task::WaitNotify(_) | Task::Await(_) => "wait for a notify",
            Task::Reduce(_) => "reduction",
            Task::Traced(traced) => traced.task.kind(),
            Task::Note(_) => "note of the checked mode",
            _ => "task of another kind",
        }
    }

    /// The bytes that a copy, a fill or a reduction touches.
    pub(crate) fn touched(&self) -> [(*const u8, usize); 2] {
        match self {
            Task::Copy(copy) => copy.touched(),
            Task::Reduce(reduce) => reduce.touched(),
            Task::Traced(traced) => traced.task.touched(),
            Task::Fill(fill) => [(fill.to.cast_const(), fill.bytes), (std::ptr::null(), 0)],
            _ => [(std::ptr::null(), 0); 2],
        }
    }

    /// For messages: what it is and what it waits for.
    pub(crate) fn describe(&self) -> String {
        match self {
            Task::Copy(copy) => format!("copy of {} bytes", copy.bytes),
            Task::Fill(fill) => format!("fill of {} bytes", fill.bytes),
            Task::WaitEvent(wait) => wait.describe(),
            Task::ResetEvent(_) => "reset of an event".into(),
            Task::RecordTime(_) => "record of an event with its time".into(),
            Task::HostCall(_) => "host function".into(),
            Task::Callback(_) => "callback for the thread that subscribed".into(),
            Task::RecordNotify(_) | Task::Signal(_) => "record of a notify".into(),
            Task::WaitNotify(wait) => wait.describe(),
            Task::Await(wait) => wait.describe(),
            Task::Reduce(reduce) => reduce.describe(),
            Task::Traced(traced) => traced.task.describe(),
            Task::After(mark) => match mark.stream() {
                Some(stream) => format!("wait for task {} of {}", mark.ticket(), stream.describe()),
                None => "wait for another stream".into(),
            },
            Task::Branch(branch) => format!("wait for {}", branch.describe()),
            Task::Collective(pending) => pending.describe(),
            Task::Batch(pending) => pending.describe(),
            Task::Kernel(kernel) => kernel.describe(),
            Task::Server(server) => server.describe(),
            Task::Note(_) => "note of the check for races".into(),
            Task::Hold(hold) => hold.describe(),
        }
    }
}

impl Job for Task {
    type Owner = Stream;
    type Failure = Failure;

    #[inline]
    fn poll(&mut self, stream: &'static Stream) -> Step {
        Task::poll(self, stream)
    }

    fn arm(&mut self, stream: &'static Stream) -> bool {
        Task::arm(self, stream)
    }

    fn give_up(&mut self, stream: &'static Stream) -> Step {
        self.expire(stream, &stream.void_reason())
    }

    fn panicked(&mut self, stream: &'static Stream) -> Step {
        self.expire(stream, &Reason::Panicked)
    }

    fn failed(stream: &'static Stream, ticket: u64, failure: Failure) {
        stream.note_failure(ticket, failure);
    }

    fn wake(stream: &'static Stream) {
        stream.wake();
    }
}

/// Operations of a rank: the call lends them the rank until they have to stay.
macro_rules! fresh {
    ($($pending:ty => $task:ident),*) => {$(
        impl Fresh<Task> for $pending {
            #[inline]
            fn start(&mut self, _: &'static Stream) -> Step {
                self.poll()
            }

            #[inline]
            fn into_job(mut self) -> Task {
                self.keep();
                Task::$task(self)
            }
        }
    )*};
}
fresh!(PendingCollective => Collective, PendingBatch => Batch);

impl Fresh<Task> for Copy {
    #[inline]
    fn start(&mut self, _: &'static Stream) -> Step {
        self.poll()
    }

    #[inline]
    fn into_job(self) -> Task {
        Task::Copy(self)
    }
}

/// Rows of bytes to copy; one row unless it is a 2D copy.
#[derive(Clone)]
pub(crate) struct Copy {
    pub(crate) to: *mut u8,
    pub(crate) from: *const u8,
    /// Of one row.
    pub(crate) bytes: usize,
    pub(crate) rows: usize,
    pub(crate) to_pitch: usize,
    pub(crate) from_pitch: usize,
    /// Bytes of the current row that are done.
    done: usize,
    pub(crate) store: Store,
}

// SAFETY: the addresses were resolved at issue and stay mapped; memory behind them is touched by the copy kernels only.
unsafe impl Send for Copy {}

impl Copy {
    pub(crate) fn new(to: *mut u8, from: *const u8, bytes: usize) -> Copy {
        // One piece is small enough for any cache: no need to ask.
        let store = if bytes <= PIECE { Store::Plain } else { store_for(bytes.saturating_mul(2)) };
        Copy { to, from, bytes, rows: 1, to_pitch: 0, from_pitch: 0, done: 0, store }
    }

    fn touched(&self) -> [(*const u8, usize); 2] {
        let extent = |pitch: usize| (self.rows - 1) * pitch + self.bytes;
        [(self.to.cast_const(), extent(self.to_pitch)), (self.from, extent(self.from_pitch))]
    }

    pub(crate) fn rows(self, rows: usize, to_pitch: usize, from_pitch: usize) -> Copy {
        Copy { rows, to_pitch, from_pitch, ..self }
    }

    /// What it is, and what it reads and writes: for a block that is checked.
    pub(crate) fn touches(&self) -> (String, Vec<check::Touch>) {
        let &Copy { bytes, rows, to_pitch, from_pitch, .. } = self;
        let (to, from) = (nominal(self.to), nominal(self.from));
        let what = match rows {
            1 => format!("copy of {bytes} bytes"),
            rows => format!("copy of {rows} rows of {bytes} bytes"),
        };
        let rows = |start: usize, pitch: usize, touch: fn(usize, usize) -> check::Touch| {
            let (rows, bytes) = if pitch == bytes { (1, rows * bytes) } else { (rows, bytes) };
            (0..rows).map(move |row| touch(start + row * pitch, bytes))
        };
        let reads = rows(from, from_pitch, check::Touch::read);
        (what, reads.chain(rows(to, to_pitch, check::Touch::write)).collect())
    }

    #[inline]
    pub(crate) fn poll(&mut self) -> Step {
        let mut left = PIECE;
        loop {
            let piece = (self.bytes - self.done).min(left);
            // SAFETY: `done + piece <= bytes`, and both rows were checked to hold `bytes` bytes. Rows of a program that
            // overlap are a race of the copy with itself: the kernel only reads and writes bytes of the two rows.
            unsafe {
                copy::copy(self.to.add(self.done), self.from.add(self.done), piece, self.store)
            };
            self.done += piece;
            left -= piece;
            if self.done == self.bytes {
                self.rows -= 1;
                if self.rows == 0 {
                    return Step::Done(Ok(()));
                }
                self.done = 0;
                self.to = self.to.wrapping_add(self.to_pitch);
                self.from = self.from.wrapping_add(self.from_pitch);
            }
            if left == 0 {
                return Step::Again;
            }
        }
    }
}

/// Bytes to set.
#[derive(Clone)]
pub(crate) struct Fill {
    pub(crate) to: *mut u8,
    pub(crate) value: u8,
    pub(crate) bytes: usize,
    done: usize,
}

// SAFETY: as for `Copy`.
unsafe impl Send for Fill {}

impl Fill {
    pub(crate) fn new(to: *mut u8, value: u8, bytes: usize) -> Fill {
        Fill { to, value, bytes, done: 0 }
    }

    /// As for a copy.
    pub(crate) fn touches(&self) -> (String, Vec<check::Touch>) {
        let what = format!("fill of {} bytes", self.bytes);
        (what, vec![check::Touch::write(nominal(self.to), self.bytes)])
    }

    pub(crate) fn poll(&mut self) -> Step {
        let piece = (self.bytes - self.done).min(PIECE);
        // SAFETY: `done + piece <= bytes`, which were checked at issue.
        unsafe { copy::fill(self.to.add(self.done), self.value, piece) };
        self.done += piece;
        if self.done == self.bytes { Step::Done(Ok(())) } else { Step::Again }
    }
}
