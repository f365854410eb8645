//! The states of a stream: it runs operations or records them.

#![forbid(unsafe_code)]

use ascend_sys::aclrtStream;

use super::Stream;
use crate::error::Result;
use crate::order::issue::{Issued, Operation, Slip, Touch, issue_number};
use crate::order::work::Work;

pub(crate) mod sealed {
    use super::*;

    /// The functions with which the crate issues operations on a stream.
    pub trait StreamState: Sized {
        type Handle;
        /// Whether an operation takes its number when it is issued, as on a stream that runs.
        const RUNS: bool;
        fn issue(
            stream: &Stream<Self>,
            operation: Operation<'_>,
            touches: &[Touch<'_>],
            enqueue: impl FnOnce(aclrtStream) -> Result<()>,
        ) -> Result<Issued>;
        fn handle(stream: &Stream<Self>, issued: Issued, name: &'static str) -> Self::Handle;
        /// Returns the stream if it runs operations, or `None` if it records them.
        fn open(stream: &Stream<Self>) -> Option<&Stream<Open>>;
        /// Adds a hook to the graph for an operation of a communicator that was just captured.
        /// `hook` gets the number of earlier operations of this communicator in the graph whose
        /// numbers are of the same kind. `copies` operations of the graph belong to the hook, and
        /// do not [count](super::super::Graph::len). Does nothing on a stream that runs operations.
        fn at_replay(
            stream: &Stream<Self>,
            operation: Operation<'_>,
            copies: u64,
            hook: impl FnOnce(u64) -> Box<dyn ReplayHook>,
        );
    }

    /// A hook that records a captured operation at each replay of its graph.
    pub trait ReplayHook: Send + Sync {
        /// Returns the place of the operation in the record and its number, or `None` if this
        /// replay is not recorded. Called before each replay.
        fn before(&self) -> Option<(u64, u64)>;
        /// Records the operation. Called after the replay has been issued on `stream`, with the
        /// result of [`before`](Self::before). Returns an error only if the stream has failed.
        fn after(&self, begun: (u64, u64), stream: &Stream) -> Result<()>;
    }
}

/// The state of a [`Stream`]: [`Open`], or [`Capturing`](super::Capturing). It decides which type
/// an operation returns.
///
/// The trait is sealed.
///
/// ```
/// use hccl::device::StreamState;
/// use hccl::prelude::*;
///
/// /// One step, which can be run at once or captured.
/// fn step<S: StreamState>(
///     sum: &mut DeviceBuffer<f32>,
///     comm: &mut Communicator,
///     stream: &Stream<S>,
/// ) -> hccl::Result<S::Work> {
///     comm.all_reduce_in_place(sum, Sum, stream)
/// }
/// # let runtime = Runtime::emulator(1)?;
/// # let sums = runtime.run_ranks(1, |rank| {
/// #     let stream = rank.device().stream()?;
/// #     let mut x = rank.device().upload(&[2.0], &stream)?;
/// #     step(&mut x, &mut rank.communicator()?, &stream)?.wait()?;
/// #     x.to_vec(&stream).wait()
/// # })?;
/// # assert_eq!(sums, [[2.0]]);
/// # Ok::<(), hccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a state of a stream",
    note = "a stream is `Stream` (short for `Stream<Open>`) or `Stream<Capturing>`"
)]
pub trait StreamState: sealed::StreamState<Handle = <Self as StreamState>::Work> {
    /// The return type of an operation: a [`Work`], or [`Captured`](super::Captured).
    type Work;
}

/// The state of an ordinary [`Stream`], which runs its operations.
///
/// ```
/// use hccl::device::Open;
/// use hccl::Stream;
///
/// # let runtime = hccl::Runtime::emulator(1)?;
/// let stream: Stream<Open> = runtime.device(0)?.stream()?; // the same as `Stream`
/// stream.synchronize()?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Debug)]
pub struct Open;

impl StreamState for Open {
    type Work = Work;
}

impl sealed::StreamState for Open {
    type Handle = Work;
    const RUNS: bool = true;

    #[inline(always)]
    fn issue(
        stream: &Stream,
        operation: Operation<'_>,
        touches: &[Touch<'_>],
        enqueue: impl FnOnce(aclrtStream) -> Result<()>,
    ) -> Result<Issued> {
        issue_number((stream.slot(), stream.queue()), operation, touches, enqueue)
    }

    #[inline(always)]
    fn handle(stream: &Stream, issued: Issued, name: &'static str) -> Work {
        Work::new(stream.slot(), issued, name)
    }

    fn open(stream: &Stream) -> Option<&Stream> {
        Some(stream)
    }

    fn at_replay(
        _: &Stream,
        _: Operation<'_>,
        _: u64,
        _: impl FnOnce(u64) -> Box<dyn sealed::ReplayHook>,
    ) {
    }
}

/// Issues one operation. See [`order::issue`](crate::order::issue).
///
/// `enqueue` gets the raw stream, and the stream's context is current on this thread. The enqueued
/// tasks may use exactly the memory that `touches` names.
#[inline(always)]
pub(crate) fn issue<S: StreamState>(
    stream: &Stream<S>,
    operation: Operation<'_>,
    touches: &[Touch<'_>],
    enqueue: impl FnOnce(ascend_sys::aclrtStream) -> Result<()>,
) -> Result<S::Work> {
    let name = operation.name;
    handle(stream, S::issue(stream, operation, touches, enqueue), name)
}

/// Returns the caller's handle of an operation that has been issued.
#[inline(always)]
pub(crate) fn handle<S: StreamState>(
    stream: &Stream<S>,
    issued: Result<Issued>,
    name: &'static str,
) -> Result<S::Work> {
    Ok(S::handle(stream, issued?, name))
}

impl Slip {
    /// Returns the caller's handle of the operation.
    #[inline(always)]
    pub(crate) fn work<S: StreamState>(&self, stream: &Stream<S>, name: &'static str) -> S::Work {
        S::handle(stream, self.issued(), name)
    }
}
