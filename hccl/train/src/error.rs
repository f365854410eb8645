//! The errors of this crate.

/// The result type of this crate's functions.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::GradientBuckets;
///
/// fn train(rank: &Rank) -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?; // errors of `hccl` become this crate's
///     let mut buckets = GradientBuckets::<f32>::new(&[2], &stream)?;
///     let mut comm = rank.communicator()?;
///     let mut step = buckets.step(&mut comm, &stream);
///     step.push(0, &[1.0, 2.0])?;
///     step.finish()?.get(0)?;
///     Ok(())
/// }
/// # fn main() -> hccl::Result<()> {
/// # Runtime::emulator(2)?.run_ranks(2, |rank| train(&rank))?;
/// # Ok(())
/// # }
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a function of this crate failed.
///
/// [`Error::Hccl`], [`Error::Checkpoint`] and [`Error::Object`] may come after data was sent. Every
/// other error is a mistake that was found before any data was sent: of this rank, or, if it is
/// [`Error::RanksDiffer`] or [`Error::OtherPart`], of any rank.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::{Error, GradientBuckets};
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let mut buckets = GradientBuckets::<f32>::new(&[4], &stream)?;
///     let mut step = buckets.step(&mut comm, &stream);
///     match step.push(0, &[1.0; 3]) {
///         Err(Error::Hccl(error)) => return Err(error.into()), // the ranks have failed
///         Err(mistake) => eprintln!("{mistake}"), // 3 elements of 4: nothing has moved
///         Ok(()) => {}
///     }
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation of [`hccl`] failed.
    #[error(transparent)]
    Hccl(#[from] hccl::Error),
    /// There is no tensor or layer with this index.
    #[error(
        "there is no {what} {index}: the number of {what}s is {count}; pass an index below this \
         number"
    )]
    NoSuch {
        /// The kind of the missing item: a tensor or a layer.
        what: &'static str,
        /// The index that was passed.
        index: usize,
        /// The number of tensors or layers.
        count: usize,
    },
    /// A slice does not have the needed length.
    #[error(
        "{what} has {}, but {expected} {} needed: pass {expected}",
        elements(*.given),
        are(*.expected)
    )]
    Length {
        /// The name of the slice, with its number if it has one.
        what: String,
        /// The length that was passed.
        given: usize,
        /// The length that is needed.
        expected: usize,
    },
    /// The ranks have passed different lengths or options. Every rank returns this error, before
    /// any gradient or parameter is sent.
    #[error(
        "the ranks differ: {what} is {first} on rank 0, but {given} on rank {rank}; pass the same \
         lengths in the same order, and the same options, on all ranks"
    )]
    RanksDiffer {
        /// The name of the value that differs.
        what: String,
        /// The value on rank 0.
        first: u64,
        /// The first rank with another value.
        rank: u32,
        /// The value on that rank.
        given: u64,
    },
    /// Shards were made on another communicator, in which the rank had another number, or which
    /// had another number of ranks. Every rank returns this error, before anything is sent.
    #[error(
        "rank {rank} of {ranks} has shards that were made for rank {made_for} of {of}: make new \
         shards on all ranks, from a checkpoint for example"
    )]
    OtherPart {
        /// The rank whose shards do not fit.
        rank: u32,
        /// The number of ranks of the communicator.
        ranks: u32,
        /// The rank for which the shards were made.
        made_for: u32,
        /// The number of ranks for which the shards were made.
        of: u32,
    },
    /// Parameters were asked for before any were gathered.
    #[error(
        "no parameters were gathered yet: call `gather` on all ranks, with the first parameters \
         too, before you ask for them"
    )]
    NotGathered,
    /// A limit of a norm is negative or not a number.
    #[error("the largest norm is {most}: pass a number from 0")]
    Norm {
        /// The limit that was passed.
        most: f64,
    },
    /// A gradient was pushed twice in one step.
    #[error(
        "the gradient of tensor {tensor} was already pushed in this step; to add up several \
         gradients, call `accumulate` before the push"
    )]
    PushedTwice {
        /// The index of the tensor.
        tensor: usize,
    },
    /// A step ends without the gradients of some tensors.
    #[error("no gradient was pushed for tensors {tensors:?}; push zeros for a tensor without one")]
    NotPushed {
        /// The indices of the tensors without a gradient.
        tensors: Vec<usize>,
    },
    /// An earlier step was dropped or failed after it had issued some of its buckets.
    #[error(
        "an earlier step ended after {issued} of {buckets} buckets: the other ranks still wait for \
         the rest, so make a new communicator and new buckets"
    )]
    Unfinished {
        /// The number of buckets that the earlier step had issued.
        issued: usize,
        /// The number of buckets of a step.
        buckets: usize,
    },
    /// A paused step was resumed on other buckets, or after another step had begun.
    #[error(
        "the paused step is not the current step of these buckets: resume it on its own buckets, \
         before another step begins"
    )]
    OtherStep,
    /// Columns, rows or elements cannot be divided evenly among the ranks.
    #[error(
        "the number of {what}, {count}, cannot be divided evenly among {ranks} ranks: use a \
         positive multiple of {ranks}"
    )]
    NotDivisible {
        /// The name of the items to divide, for example columns, rows or elements.
        what: &'static str,
        /// The number of these items.
        count: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// A checkpoint cannot be written or read.
    #[error("checkpoint: {0}")]
    Checkpoint(String),
    /// An object cannot be serialised, or the received bytes cannot be deserialised.
    #[error(
        "an object cannot be {what}: {source}; use a type that postcard supports, and the same \
         type on all ranks"
    )]
    Object {
        /// The action that failed: `written` or `read`.
        what: &'static str,
        /// The error of the serialisation.
        source: postcard::Error,
    },
    /// The root of a broadcast has passed no object.
    #[error("rank {root} is the root of the broadcast, but has passed no object: pass `Some`")]
    NoObject {
        /// The root.
        root: u32,
    },
    /// The root of a scatter has objects for another number of ranks.
    #[error(
        "the number of objects to scatter is {given} on rank {root}, but the number of ranks is \
         {ranks}: pass one object for each rank"
    )]
    ObjectsOfRanks {
        /// The root, which passes the objects.
        root: u32,
        /// The number of objects that were passed.
        given: usize,
        /// The number of ranks, each of which needs an object.
        ranks: usize,
    },
}

impl<T: hccl::prelude::Element> From<hccl::memory::Refused<T>> for Error {
    fn from(refused: hccl::memory::Refused<T>) -> Self {
        Error::Hccl(refused.into())
    }
}

/// Returns a number of elements as text.
fn elements(count: usize) -> String {
    if count == 1 { "1 element".to_owned() } else { format!("{count} elements") }
}

/// Returns the verb for a number.
fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// Returns an error if a slice does not have the needed length.
pub(crate) fn check_length(what: impl Fn() -> String, given: usize, expected: usize) -> Result<()> {
    if given == expected {
        return Ok(());
    }
    Err(Error::Length { what: what(), given, expected })
}

/// Returns the error of a file or a directory of a checkpoint.
pub(crate) fn checkpoint_failed(path: &std::path::Path, why: impl std::fmt::Display) -> Error {
    Error::Checkpoint(format!("{}: {why}", path.display()))
}
