//! Captured streams and graphs: operations that are issued once and run many times. Use them for a
//! step that repeats with the same buffers, if issuing takes a large part of its time. Do not use
//! them for a step whose buffers change.
//!
//! [`Device::begin_capture`] makes a stream that records. Operations on it return [`Captured`]
//! instead of a [`Work`]: they have not run, and there is nothing to wait for. [`Stream::end`]
//! returns the [`Graph`], and [`Graph::replay`] issues the whole graph with one call, as one
//! operation with one [`Work`].
//!
//! ```
//! use hccl::prelude::*;
//!
//! # fn main() -> hccl::Result<()> {
//! let runtime = Runtime::emulator(2)?;
//! let sums = runtime.run_ranks(2, |rank| {
//!     let (device, mut comm) = (rank.device(), rank.communicator()?);
//!     let stream = device.stream()?;
//!     let mut x = device.upload(&[1.0f32, 2.0], &stream)?;
//!
//!     comm.connect().wait()?; // a capture waits for no other rank, so the links come first
//!     let capture = device.begin_capture()?;
//!     comm.all_reduce_in_place(&mut x, Sum, &capture)?;
//!     comm.all_reduce_in_place(&mut x, Sum, &capture)?;
//!     let mut graph = capture.end()?;
//!
//!     graph.replay(&stream)?; // two all-reduces
//!     graph.replay(&stream)?.wait()?; // and two more
//!     x.to_vec(&stream).wait()
//! })?;
//! assert_eq!(sums[1], [16.0, 32.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # What can be captured
//!
//! Operations of communicators, and copies and fills on the device, can be captured. These do not
//! compile:
//!
//! * a call that involves the host (`upload`, `to_vec`, [`HostBuffer`](crate::HostBuffer),
//!   [`Stream::host_fn`]);
//! * a [`group`](crate::group()), because its end may wait;
//! * an [operator of the program](crate::Communicator::run), because its threads are other streams;
//! * a [launch](crate::kernel::Launch) of a kernel;
//! * a destination that has never been written, because only a replay writes it.
//!
//! # Why it is safe
//!
//! Nothing runs during a capture, so there is nothing to wait for. A graph keeps the memory and the
//! communicators of its operations, and it records the bytes that each operation reads or writes.
//! So dropping a buffer or a communicator frees nothing that a graph uses. A replay is ordered like
//! any other operation: it waits for earlier operations on any stream that use the same bytes, and
//! later operations wait for it. Dropping a graph never blocks. The graph is destroyed when its
//! last replay is complete.
//!
//! All ranks of a communicator must replay the same captures in the same order.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex};

use ascend_sys::aclrtStream;
use smallvec::SmallVec;

use super::deferred::Retire;
use super::state::sealed::ReplayHook;
use super::state::{StreamState, sealed};
use super::{Device, Stream};
use crate::api::Table;
use crate::api::graphs::GraphHandle;
use crate::comm::detour::{Handles, Users, issue_by_helper, label_key};
use crate::comm::links::Needs;
use crate::comm::reason_to_leave;
use crate::error::{Error, Result};
use crate::order::issue::{Issued, MemoryPlace, Operation, Touch, check_places, issue_number};
use crate::order::label::{Label, Numbers, Takes};
use crate::order::queue::StreamQueue;
use crate::order::stamps::{AccessKind, Conflicts, Stamps, are_complete};
use crate::order::work::Work;
use crate::sync::lock;

/// The state of a stream that records. See the [module](self).
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// # let mut x = device.upload(&[1, 2], &stream)?;
/// # let y = device.upload(&[3, 4], &stream)?;
/// let capture: Stream<Capturing> = device.begin_capture()?;
/// x.copy_from(&y, &capture)?; // recorded, not run
/// let mut graph: Graph = capture.end()?;
/// graph.replay(&stream)?.wait()?;
/// assert_eq!(x.to_vec(&stream).wait()?, [3, 4]);
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct Capturing {
    queue: Arc<StreamQueue>,
    /// The record of the capture, or `None` before the capture has begun and after it has ended.
    recording: Mutex<Option<GraphRecording>>,
}

/// An operation that was recorded. It runs when the [`Graph`] is replayed.
///
/// ```
/// use hccl::{Captured, Work};
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// # let mut x = device.upload(&[1, 2], &stream)?;
/// # let y = device.upload(&[3, 4], &stream)?;
///
/// let issued: Work = x.fill_zero(&stream)?;
/// let capture = device.begin_capture()?;
/// let recorded: Captured = x.copy_from(&y, &capture)?; // nothing to wait for
/// # let _ = (issued, recorded);
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Debug)]
pub struct Captured(());

/// The record of a capture: the memory and the communicators that its operations use.
#[derive(Default)]
struct GraphRecording {
    uses: Vec<GraphUse>,
    communicators: Vec<GraphComm>,
    operations: u64,
    /// The hooks of operations, in the order of the operations.
    hooks: Vec<Box<dyn ReplayHook>>,
}

/// A communicator that a graph uses, and the numbers that each replay takes in it.
struct GraphComm {
    label: Arc<Label>,
    numbers: Numbers,
    device: Device,
    /// The guard of a run. It is kept so that the run does not report this rank as gone while the
    /// graph may still issue.
    _alive: Option<Arc<()>>,
}

impl Drop for GraphComm {
    fn drop(&mut self) {
        self.label.leave(self.device.table(), reason_to_leave());
    }
}

/// A range of bytes that a graph uses. The stamps keep the memory from being freed.
struct GraphUse {
    stamps: Arc<Stamps>,
    range: Range<usize>,
    access: AccessKind,
}

impl GraphRecording {
    /// Counts an operation that has been recorded.
    fn count(&mut self, device: &Device, operation: &Operation<'_>) {
        self.operations += 1;
        let Some((label, _)) = operation.communicator else { return };
        let known = self.communicators.iter_mut().find(|known| Arc::ptr_eq(&known.label, label));
        if let Some(GraphComm { numbers, .. }) = known {
            label.will_replay(operation.takes, numbers);
        } else {
            let mut numbers = Numbers::default();
            label.will_replay(operation.takes, &mut numbers);
            label.join();
            let (label, device) = (label.clone(), device.clone());
            let _alive = label.alive();
            self.communicators.push(GraphComm { label, numbers, device, _alive });
        }
    }

    /// Adds the bytes that an operation touches. Joins them with adjoining bytes that were added
    /// before, so that a replay has little to stamp.
    fn add(&mut self, touch: &Touch<'_>) {
        let Touch { stamps, range, access, .. } = touch;
        if range.is_empty() {
            return;
        }
        let same = self.uses.iter_mut().find(|known| {
            Arc::ptr_eq(&known.stamps, stamps)
                && known.access == *access
                && known.range.start <= range.end
                && range.start <= known.range.end
        });
        match same {
            Some(known) => {
                let (start, end) = (known.range.start, known.range.end);
                known.range = start.min(range.start)..end.max(range.end);
            }
            None => {
                let (stamps, range, access) = ((*stamps).clone(), range.clone(), *access);
                self.uses.push(GraphUse { stamps, range, access });
            }
        }
    }
}

impl Device {
    /// Makes a stream that records operations until [`Stream::end`] makes a [`Graph`] of them
    /// (`aclmdlRICaptureBegin`, mode RELAXED). Does not block.
    ///
    /// Dropping the stream abandons the capture.
    pub fn begin_capture(&self) -> Result<Stream<Capturing>> {
        self.reap();
        let bound = self.bind()?;
        let queue = StreamQueue::open(self.clone(), self.table().create_stream()?, true);
        let state = Capturing { queue: queue.clone(), recording: Mutex::default() };
        let mut stream = Stream::in_state(queue, state);
        self.table().begin_capture(stream.queue().handle())?;
        stream.state_mut().recording = Mutex::new(Some(GraphRecording::default()));
        drop(bound);
        Ok(stream)
    }
}

impl Stream<Capturing> {
    /// Ends the capture (`aclmdlRICaptureEnd`) and returns the graph. No operation has run yet.
    /// Does not block.
    ///
    /// ```compile_fail,E0599
    /// # use hccl::prelude::*;
    /// # fn f(device: &Device) -> hccl::Result<()> {
    /// let capture = device.begin_capture()?;
    /// capture.synchronize()?; // nothing runs, so there is nothing to wait for
    /// # Ok(())
    /// # }
    /// ```
    pub fn end(self) -> Result<Graph> {
        let Capturing { queue, recording } = self.state();
        let ended = lock(recording).take();
        let Some(GraphRecording { uses, communicators, operations, hooks }) = ended else {
            let problem =
                "the capture has already ended: begin another with `begin_capture`".into();
            return Err(Error::Invalid { operation: "end", problem });
        };
        let device = queue.device().clone();
        let bound = device.bind()?;
        let handle = device.table().end_capture(queue.handle())?;
        drop(bound);
        Ok(Graph {
            parts: Some(GraphParts { handle: Arc::new(handle), uses }),
            stamps: Arc::new(Stamps::new()),
            label: Label::of_graph(communicators.iter().map(|known| &known.label)),
            communicators: communicators.into(),
            operations,
            hooks,
            device,
        })
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        if lock(&self.recording).take().is_none() {
            return;
        }
        let device = self.queue.device();
        let Ok(_bound) = device.bind() else { return };
        let ended = device.table().end_capture(self.queue.handle());
        // The graph never ran, so destroying it does not wait.
        if let Err(error) = ended.and_then(|graph| device.table().destroy_graph(graph)) {
            tracing::debug!("an abandoned capture could not be ended and destroyed: {error}");
        }
    }
}

impl StreamState for Capturing {
    type Work = Captured;
}

impl sealed::StreamState for Capturing {
    type Handle = Captured;
    const RUNS: bool = false;

    fn issue(
        stream: &Stream<Self>,
        operation: Operation<'_>,
        touches: &[Touch<'_>],
        enqueue: impl FnOnce(aclrtStream) -> Result<()>,
    ) -> Result<Issued> {
        let queue = stream.queue();
        check_places(queue, operation.name, touches)?;
        touches.iter().for_each(|touch| touch.stamps.share());
        let _bound = queue.device().bind()?;
        let _issuing = stream.slot().issuing();
        let mut recording = lock(&stream.state().recording);
        let Some(recording) = &mut *recording else {
            let problem =
                "the capture has already ended: begin another with `begin_capture`".into();
            return Err(Error::Invalid { operation: operation.name, problem });
        };
        // Added before the call: a call that fails halfway may have recorded some of its tasks.
        touches.iter().for_each(|touch| recording.add(touch));
        let number = recording.operations + 1;
        enqueue(queue.handle().raw())
            .map_err(|error| error.in_operation(|| operation.context(number)))?;
        recording.count(queue.device(), &operation);
        Ok(Issued { number, tickets: (0, 0) })
    }

    fn handle(_: &Stream<Self>, _: Issued, _: &'static str) -> Captured {
        Captured(())
    }

    fn open(_: &Stream<Self>) -> Option<&Stream> {
        None
    }

    fn at_replay(
        stream: &Stream<Self>,
        operation: Operation<'_>,
        copies: u64,
        hook: impl FnOnce(u64) -> Box<dyn ReplayHook>,
    ) {
        let Some(recording) = &mut *lock(&stream.state().recording) else { return };
        recording.operations = recording.operations.saturating_sub(copies);
        let Some((label, _)) = operation.communicator else { return };
        let known = recording.communicators.iter().find(|known| Arc::ptr_eq(&known.label, label));
        // This includes the operation itself, which is the last one.
        let taken = known.map_or(0, |known| known.numbers.of(operation.takes));
        recording.hooks.push(hook(taken.saturating_sub(1)));
    }
}

/// Recorded operations that run together. See the [module](self).
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// # let mut x = device.upload(&[1, 2], &stream)?;
/// # let y = device.upload(&[3, 4], &stream)?;
/// let capture = device.begin_capture()?;
/// x.fill_zero(&capture)?;
/// x.copy_from(&y, &capture)?;
/// let mut graph = capture.end()?;
/// assert_eq!(graph.len(), 2);
/// for _ in 0..3 {
///     graph.replay(&stream)?; // both, as one operation
/// }
/// stream.synchronize()?;
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct Graph {
    /// The parts of the graph; `None` only during the drop.
    parts: Option<GraphParts>,
    /// The stamps of the replays. Each replay writes the graph, so replays do not overlap.
    stamps: Arc<Stamps>,
    /// The label under which errors name a replay; `None` without communicators.
    label: Option<Arc<Label>>,
    /// The communicators of the graph, shared with helpers that are about to replay it.
    communicators: Arc<[GraphComm]>,
    operations: u64,
    /// The hooks of operations, in the order of the operations.
    hooks: Vec<Box<dyn ReplayHook>>,
    device: Device,
}

/// The parts of a graph that live until its last replay is complete.
struct GraphParts {
    /// The handle, shared with helpers that are about to replay the graph. They share the stamps
    /// too.
    handle: Arc<GraphHandle>,
    uses: Vec<GraphUse>,
}

/// A graph that was dropped. It is free when its last replay is complete.
struct RetiredGraph {
    parts: GraphParts,
    stamps: Arc<Stamps>,
}

impl Retire for RetiredGraph {
    fn name(&self) -> &'static str {
        "graph"
    }

    /// Returns the lowest number: a graph is destroyed before the communicators that it uses.
    fn order(&self) -> u8 {
        0
    }

    fn is_free(&mut self) -> bool {
        Arc::get_mut(&mut self.parts.handle).is_some() && are_complete(&mut self.stamps)
    }

    fn unfinished(&self) -> Conflicts {
        self.stamps.all_unfinished()
    }

    fn destroy(self: Box<Self>, table: &Table) -> Result<()> {
        let GraphParts { handle, uses } = self.parts;
        let result = Arc::into_inner(handle).map_or(Ok(()), |handle| table.destroy_graph(handle));
        // Dropped last: the memory may be freed only after the graph is destroyed.
        drop(uses);
        result
    }
}

impl Graph {
    /// Issues everything that was recorded, on a stream of the same device, as one operation
    /// (`aclmdlRIExecuteAsync`). Does not block.
    ///
    /// A graph may be replayed any number of times, on one stream or on several, also while an
    /// earlier replay is in flight. Replays run one after another. Collectives and messages take
    /// new numbers at every replay, so a replay is a part of the order of operations that all ranks
    /// must keep.
    ///
    /// # Errors
    ///
    /// * [`Error::WrongDevice`] or [`Error::WrongRuntime`] if the stream is on another device or
    ///   runtime.
    /// * [`Error::Aborted`] if a communicator of the graph was aborted.
    /// * [`Error::Call`] if CANN returns an error. While the links of an earlier operation are
    ///   being made, a helper thread makes this call (see [`comm`](crate::comm)), and the [`Work`]
    ///   returns the error.
    pub fn replay(&mut self, stream: &Stream) -> Result<Work> {
        const REPLAY: &str = "replay";
        let Some(GraphParts { handle, uses }) = &self.parts else {
            return Err(Error::Invalid {
                operation: REPLAY,
                problem: "the graph is gone: capture it again".into(),
            });
        };
        let this = Touch {
            stamps: &self.stamps,
            range: 0..1,
            access: AccessKind::Write,
            place: MemoryPlace::Device(&self.device),
            what: "the graph",
        };
        let uses = uses.iter().map(|used| Touch {
            stamps: &used.stamps,
            range: used.range.clone(),
            access: used.access,
            // The memory is on the device of the graph, which is checked above.
            place: MemoryPlace::Nowhere,
            what: "what the graph uses",
        });
        let touches: SmallVec<[Touch<'_>; 16]> = std::iter::once(this).chain(uses).collect();
        let number = self.communicators.first().map_or(0, |first| first.label.next());
        let communicator = self.label.as_ref().map(|label| (label, number));
        let operation = Operation { name: REPLAY, communicator, takes: Takes::Nothing };
        // Called before the replay takes its numbers.
        let begun: Vec<_> = self.hooks.iter().map(|hook| hook.before()).collect();
        let linking = self.device.linking();
        let issued = if self.communicators.is_empty() || linking.is_idle() {
            issue_number((stream.slot(), stream.queue()), operation, &touches, |raw| {
                if !self.communicators.is_empty() {
                    self.device.issue_order().take(stream.slot());
                }
                if self.label.as_ref().is_some_and(|label| label.aborted.load(Acquire)) {
                    return Err(Error::Aborted { context: None });
                }
                // SAFETY: the graph keeps all memory that its operations use, and `touches` names
                // all of it. So until this replay is complete, the memory stays allocated and no
                // other operation touches it.
                unsafe { self.device.table().execute_graph(handle, raw) }
            })
        } else {
            // A helper still has operations of communicators to issue. The helper issues this one
            // too, so that the program's order is kept.
            let keys = self.communicators.iter().map(|known| label_key(&known.label)).collect();
            let users = Users { keys, handles: Handles::new(), needs: Needs::none() };
            let (handle, touched) = (handle.clone(), vec![self.stamps.clone()]);
            let communicators = self.communicators.clone();
            issue_by_helper(stream, operation, users, (&touches, touched), move |table, stream| {
                // SAFETY: as above. This closure holds the handle, so the graph and everything that
                // it uses are kept.
                let issued = unsafe { table.execute_graph(&handle, stream.raw()) };
                // Not dropped before the call: the drop may report to the peers that this rank
                // issues nothing more.
                drop(communicators);
                issued.map_err(Into::into)
            })
        }?;
        let work = Work::new(stream.slot(), issued, REPLAY);
        for GraphComm { label, numbers, .. } in &*self.communicators {
            label.count_replayed(numbers);
        }
        for (hook, begun) in self.hooks.iter().zip(begun) {
            if let Some(begun) = begun {
                hook.after(begun, stream)?;
            }
        }
        Ok(work)
    }

    /// Returns the number of operations in the graph.
    pub fn len(&self) -> usize {
        self.operations as usize
    }

    /// Returns whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.operations == 0
    }

    /// Returns the device of the graph.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // Dropped first, so that the peers get the reason. When a communicator is destroyed, its
        // peers are notified too, but without the reason.
        self.communicators = Arc::default();
        if let Some(parts) = self.parts.take() {
            let stamps = std::mem::replace(&mut self.stamps, Arc::new(Stamps::new()));
            self.device.retire(RetiredGraph { parts, stamps });
            self.device.reap_in_drop();
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} operations, device {})", self.operations, self.device.index())
    }
}
