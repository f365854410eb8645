//! The errors of a step.

/// The result of this crate's functions.
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

/// The reason why a step of training failed.
///
/// Everything but [`Error::Hccl`] is a mistake of this rank that was found before anything moved.
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
    /// There is no such tensor or layer.
    #[error("there is no {what} {index}: there are {count}, from 0")]
    NoSuch {
        /// A tensor or a layer.
        what: &'static str,
        /// The one that was asked for.
        index: usize,
        /// The number of tensors or layers.
        count: usize,
    },
    /// Something has another length than it was declared with.
    #[error("{what} has {given} elements, but {expected} belong there")]
    Length {
        /// The name of the thing, with its number.
        what: String,
        /// The length that was passed.
        given: usize,
        /// The length that it has to have.
        expected: usize,
    },
    /// A gradient was pushed twice in one step.
    #[error(
        "the gradient of tensor {tensor} was pushed before in this step; several of one step are \
         added up by `accumulate`"
    )]
    PushedTwice {
        /// The tensor.
        tensor: usize,
    },
    /// A step ends without the gradients of some tensors.
    #[error("no gradient was pushed for tensors {tensors:?}; a tensor without one needs zeros")]
    NotPushed {
        /// The tensors.
        tensors: Vec<usize>,
    },
    /// A step before was dropped or failed after the ranks had begun to add.
    #[error(
        "a step before ended after {issued} of {buckets} buckets: the other ranks still wait for \
         the rest, so make a new communicator and new buckets"
    )]
    Unfinished {
        /// The number of buckets that were handed to the device.
        issued: usize,
        /// The number of buckets of a step.
        buckets: usize,
    },
    /// A step that was put aside is resumed with other buckets, or after another one has begun.
    #[error("the step that was put aside is not the current step of these buckets")]
    OtherStep,
    /// Columns, rows or elements cannot be divided evenly among the ranks.
    #[error("{count} {what} cannot be divided among {ranks} ranks: take a multiple")]
    NotDivisible {
        /// The name of these: columns, rows or elements.
        what: &'static str,
        /// The number of them.
        count: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// A checkpoint cannot be written or read.
    #[error("checkpoint: {0}")]
    Checkpoint(String),
    /// An object cannot be written, or the received bytes are no object.
    #[error("an object cannot be {what}: {source}")]
    Object {
        /// Written or read.
        what: &'static str,
        /// The reason.
        source: postcard::Error,
    },
    /// The root of a scatter has objects for another number of ranks.
    #[error("rank {root} has {given} objects for {ranks} ranks")]
    ObjectsOfRanks {
        /// The rank that gives them.
        root: u32,
        /// The number that was given.
        given: usize,
        /// The number that is needed.
        ranks: usize,
    },
}

impl<T: hccl::prelude::Element> From<hccl::memory::Refused<T>> for Error {
    fn from(refused: hccl::memory::Refused<T>) -> Self {
        Error::Hccl(refused.into())
    }
}

/// Whether a slice has the length that belongs there.
pub(crate) fn check_length(what: impl Fn() -> String, given: usize, expected: usize) -> Result<()> {
    if given == expected {
        return Ok(());
    }
    Err(Error::Length { what: what(), given, expected })
}
