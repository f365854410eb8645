//! Errors of data-parallel steps and of divided layers.

use candle_core::DType;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a step, or of a layer that is divided over the ranks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The training layer or an operation of [`hccl`] failed.
    #[error(transparent)]
    Train(#[from] hccl_train::Error),
    /// candle failed: in the model, in the loss, or in the backward pass.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// A parameter has a type whose gradients are not summed.
    #[error(
        "parameter {name} is of type {dtype:?}, but only gradients of f32, f16 and bf16 are \
         summed: use one of these types"
    )]
    ParameterType {
        /// The name of the parameter.
        name: String,
        /// The type of the parameter.
        dtype: DType,
    },
    /// A tensor is on another device than the CPU.
    #[error(
        "{what} is not on the CPU; hccl-candle moves tensors of the CPU only: move it to the CPU"
    )]
    NotOnCpu {
        /// The name of the tensor.
        what: String,
    },
    /// A model has no parameters.
    #[error("the model requested no parameter: make its tensors with the builder")]
    NoParameters,
    /// A model requests a parameter that it did not request when it was first made.
    #[error(
        "the model requests a parameter {name} that it did not request at first: request the same \
         parameters each time"
    )]
    UnknownParameter {
        /// The name of the parameter.
        name: String,
    },
    /// A loss does not have exactly one element.
    #[error(
        "a loss is one number, but this tensor has {elements} elements: reduce it, for example \
         with `mean_all`"
    )]
    NotOneNumber {
        /// The number of elements of the tensor.
        elements: usize,
    },
    /// A rank has more rows than the batch, or the batch has none.
    #[error(
        "{} cannot be the part of a batch of {}: pass the number of rows of all ranks, at least 1",
        counted(*.rows),
        counted(*.of)
    )]
    Rows {
        /// The number of rows of this rank.
        rows: usize,
        /// The number of rows of all ranks.
        of: usize,
    },
    /// A gradient comes from a model whose step is over.
    #[error(
        "a gradient of parameter {name} comes outside of its step: \
         leave the backward pass to the step, and keep no tensor of it"
    )]
    OutsideOfStep {
        /// The name of the parameter.
        name: String,
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

/// Returns a number of rows as text.
fn counted(rows: usize) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

/// Turns an error into an error of a candle function, with the same text.
pub(crate) fn to_candle(error: impl Into<Error>) -> candle_core::Error {
    match error.into() {
        Error::Candle(error) => error,
        error => candle_core::Error::wrap(error),
    }
}
