//! Training with several ranks: the layer between a model and the collectives of [`hccl`].
//!
//! | situation | use |
//! | --- | --- |
//! | every rank has the whole model and a part of each batch | [`GradientBuckets`] |
//! | the optimiser's state, or also the parameters, are spread over the ranks | [`Shards`], [`LayerShards`] |
//! | each layer is spread over the ranks | [`tensor_parallel`] |
//! | each rank has some of the layers | [`pipeline`] |
//! | a training is continued later with another number of ranks | [`Checkpoints`] |
//! | objects that are not arrays of numbers are sent to other ranks | [`objects`] |
//! | a sum must have the same bits for any number of ranks | [`FixedSum`] |
//!
//! This crate uses only public operations of [`hccl`], so it runs on CANN and on the emulator. All
//! ranks of a communicator must call its functions in the same order. Tensors are slices in host
//! memory: each step copies the data of a tensor library to the device and back.
//!
//! ```
//! use hccl::prelude::*;
//! use hccl_train::GradientBuckets;
//!
//! # fn main() -> hccl_train::Result<()> {
//! let runtime = Runtime::emulator(2)?;
//! let means = runtime.run_ranks(2, |rank| -> hccl_train::Result<Vec<f32>> {
//!     let stream = rank.device().stream()?;
//!     let mut comm = rank.communicator()?;
//!     // A model of two tensors, in the order of the forward pass.
//!     let mut buckets = GradientBuckets::<f32>::new(&[3, 2], &stream)?;
//!     let mut step = buckets.step(&mut comm, &stream);
//!     // The backward pass begins with the last tensor.
//!     step.push(1, &[rank.index() as f32; 2])?;
//!     step.push(0, &[1.0; 3])?;
//!     let gradients = step.finish()?;
//!     Ok(gradients.get(1)?.to_vec())
//! })?;
//! assert_eq!(means, [[0.5, 0.5], [0.5, 0.5]]);
//! # Ok(())
//! # }
//! ```

mod agreement;
mod buckets;
mod checkpoint;
mod error;
mod fixed_sum;
mod gradient;
mod layer_shards;
pub mod objects;
mod parts;
pub mod pipeline;
mod shards;
pub mod tensor_parallel;

/// The examples of the page about this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/learn/training-layer.md")]
pub struct Page;

pub use buckets::step::{Gradients, PausedStep, Step};
pub use buckets::{BucketEvents, BucketOptions, GradientBuckets};
pub use checkpoint::{ArrayPart, Checkpoints};
pub use error::{Error, Result};
pub use fixed_sum::FixedSum;
pub use gradient::{Gradient, Widen};
pub use layer_shards::LayerShards;
pub use shards::Shards;
