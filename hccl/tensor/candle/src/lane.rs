//! Moves gradients from the backward pass to the ranks.
//!
//! candle's custom operations are `'static`, so the hooks of a step push into a shared [`Lane`]
//! behind a lock. Rules:
//! 1. A step is paused between two pushes, and the next push resumes it.
//! 2. A hook has the number of its step. A gradient with another number is refused.
//! 3. The first error of a step is kept, since candle passes on only the text of an error.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Shape, Tensor};
use hccl::prelude::*;
use hccl_train::{GradientBuckets, Gradients, PausedStep, Step};

use crate::error::{Error, Result};
use crate::host::{copy, with_elements};

/// The gradient buckets of a model, and the communicator on which the gradients are summed.
pub(crate) struct Lane {
    pub(crate) buckets: GradientBuckets<f32>,
    pub(crate) comm: Communicator,
    pub(crate) stream: Stream,
    /// The names of the parameters, in the order of the forward pass. The loss is one more tensor,
    /// after them.
    pub(crate) names: Vec<String>,
    paused: Option<PausedStep>,
    /// The number of the step that began last.
    number: u64,
    is_pushed: Vec<bool>,
    error: Option<Error>,
}

impl Lane {
    pub(crate) fn new(
        buckets: GradientBuckets<f32>,
        names: Vec<String>,
        comm: Communicator,
        stream: Stream,
    ) -> Self {
        let is_pushed = vec![false; names.len() + 1];
        Self { buckets, comm, stream, names, paused: None, number: 0, is_pushed, error: None }
    }

    /// Begins a step and returns its number.
    pub(crate) fn begin(&mut self) -> u64 {
        // The parts of ranks are weighted already, so they are added and not averaged.
        let step = self.buckets.step(&mut self.comm, &self.stream).scale(1.0);
        self.paused = Some(step.pause());
        self.number += 1;
        self.error = None;
        self.is_pushed.fill(false);
        self.number
    }

    /// Resumes the step with this number. `tensor` is only for the text of the error.
    fn resume(&mut self, tensor: usize, number: u64) -> Result<Step<'_, f32>> {
        let paused = if number == self.number { self.paused.take() } else { None };
        let Some(paused) = paused else {
            let name = self.names.get(tensor).map_or("loss", |name| name);
            return Err(Error::OutsideOfStep { name: name.to_owned() });
        };
        Ok(self.buckets.resume(paused, &mut self.comm, &self.stream)?)
    }

    /// Pushes a gradient: copies it into pinned memory, and issues the buckets that are full.
    pub(crate) fn push(&mut self, tensor: usize, number: u64, gradient: &[f32]) -> Result<()> {
        let mut step = self.resume(tensor, number)?;
        let pushed = step.push(tensor, gradient);
        self.paused = Some(step.pause());
        pushed?;
        if let Some(is_pushed) = self.is_pushed.get_mut(tensor) {
            *is_pushed = true;
        }
        Ok(())
    }

    fn push_tensor(&mut self, tensor: usize, number: u64, gradient: &Tensor) -> Result<()> {
        let gradient = gradient.to_dtype(DType::F32)?;
        let what = || format!("the gradient of tensor {tensor}");
        with_elements(what, &gradient, |elements| self.push(tensor, number, elements))?
    }

    /// Returns the tensors without a gradient in this step.
    pub(crate) fn missing(&self) -> Vec<usize> {
        let tensors = self.is_pushed.iter().enumerate();
        tensors.filter(|(_, is_pushed)| !**is_pushed).map(|(tensor, _)| tensor).collect()
    }

    /// Ends the step, and returns the sums over all ranks.
    pub(crate) fn finish(&mut self, number: u64) -> Result<Gradients<'_, f32>> {
        let loss = self.names.len();
        Ok(self.resume(loss, number)?.finish()?)
    }

    /// Takes the error of a hook, if there was one.
    pub(crate) fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }
}

/// A lane that hooks share.
pub(crate) type SharedLane = Arc<Mutex<Lane>>;

/// Locks a value that several hooks share, even after a panic: a panic under the lock leaves a step
/// unfinished, and the next step reports that.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An operation that returns its input. Its backward pass pushes the gradient of a parameter.
///
/// candle visits a node when all parts of its gradient have been added up. So the gradient is
/// complete, however often the parameter was used.
pub(crate) struct PushGradient {
    pub(crate) tensor: usize,
    pub(crate) number: u64,
    pub(crate) lane: SharedLane,
}

impl CustomOp1 for PushGradient {
    fn name(&self) -> &'static str {
        "hccl-push-gradient"
    }

    fn cpu_fwd(
        &self,
        storage: &CpuStorage,
        layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        copy(storage, layout)
    }

    /// Pushes the gradient. Returns no gradient for the variable itself: the step gives it the
    /// gradient of all ranks.
    fn bwd(
        &self,
        _: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> candle_core::Result<Option<Tensor>> {
        let mut lane = lock(&self.lane);
        if let Err(error) = lane.push_tensor(self.tensor, self.number, gradient) {
            let told = candle_core::Error::msg(&error);
            lane.error.get_or_insert(error);
            return Err(told);
        }
        Ok(None)
    }
}
