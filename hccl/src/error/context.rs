//! The operation that an error belongs to.

use std::sync::Arc;

use super::peers;

/// The name that is used for an operation about which nothing is known.
pub(super) const UNKNOWN: &str = "operation";

/// The operation that an error belongs to.
///
/// ```
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(2)?;
/// # let error = runtime.run_ranks(2, |rank| {
/// #     let stream = rank.device().stream()?;
/// #     let mut comm = rank.communicator()?;
/// #     let mut x = rank.device().zeros::<f32>(4 + rank.index() as usize, &stream)?;
/// #     comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()
/// # }).unwrap_err();
/// # let error = error.root_cause();
/// // `error` comes from an all-reduce whose ranks gave different counts.
/// if let Some(context) = error.context() {
///     assert_eq!((context.operation, context.sequence), ("all_reduce", 1));
///     println!("rank {:?} of {:?}", context.rank, context.communicator);
/// }
/// # assert!(error.context().is_some());
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpContext {
    /// The function that was called, for example `all_reduce`.
    pub operation: &'static str,
    /// The title of the communicator: see [`Communicator::title`](crate::Communicator::title).
    pub communicator: Option<Box<str>>,
    /// This process's rank in the communicator.
    pub rank: Option<u32>,
    /// The number of ranks of the communicator.
    pub world_size: Option<u32>,
    /// The number of the operation in its communicator, or in its stream if it has no communicator.
    /// Numbers begin at 1; 0 means that the number is unknown.
    pub sequence: u64,
    /// The state of each rank, if the error is about ranks and the backend reports the states.
    pub peers: Option<Arc<peers::PeerReport>>,
}

impl OpContext {
    /// Returns the context of an operation without a communicator.
    pub(crate) fn new(operation: &'static str, sequence: u64) -> Self {
        let (communicator, rank, world_size, peers) = (None, None, None, None);
        Self { operation, communicator, rank, world_size, sequence, peers }
    }

    /// Returns the context of an operation about which nothing is known any more.
    pub(crate) fn unknown() -> Self {
        Self::new(UNKNOWN, 0)
    }

    pub(crate) fn is_unknown(&self) -> bool {
        *self == Self::unknown()
    }
}
