//! Errors of steps and of loaders.

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a step or of a loader.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The training layer or an operation of [`hccl`] failed.
    #[error(transparent)]
    Train(#[from] hccl_train::Error),
    /// burn could not give the elements of a tensor.
    #[error(
        "parameter {parameter}: its elements cannot be read: {problem}; check its device and its \
         element type"
    )]
    Unreadable {
        /// The number of the parameter, in the order of the model.
        parameter: usize,
        /// The text of burn's error.
        problem: String,
    },
    /// The model has another number of trainable parameters than at the start.
    #[error(
        "the number of trainable parameters is {now}, but it was {before} at the start: do not \
         add, remove or freeze parameters during the training"
    )]
    OtherParameters {
        /// The number of parameters that the model has now.
        now: usize,
        /// The number of parameters that the model had at the start.
        before: usize,
    },
    /// A batch has fewer rows than there are ranks.
    #[error(
        "a batch size of {rows} is too small: each of the {ranks} ranks needs a row, so use at \
         least {ranks}"
    )]
    SmallBatch {
        /// The number of rows of a batch.
        rows: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// The number of a rank is not below the number of ranks.
    #[error("rank {rank} does not exist: the number of ranks is {ranks}; pass a smaller rank")]
    NoSuchRank {
        /// The number that was given for the rank.
        rank: usize,
        /// The number of ranks.
        ranks: usize,
    },
}

impl From<hccl::Error> for Error {
    fn from(error: hccl::Error) -> Self {
        Self::Train(error.into())
    }
}

impl<T: hccl::prelude::Element> From<hccl::memory::Refused<T>> for Error {
    fn from(refused: hccl::memory::Refused<T>) -> Self {
        Self::Train(refused.into())
    }
}
