//! The results that all ranks compute together: the mean of gradients, and whether to continue.
//!
//! Each step sums some *notes* together with the gradients. The notes are the number of rows, rows
//! times batches, and requests to stop. For each parameter there is also the number of ranks that
//! have a gradient. A step in which no rank has rows ends the epoch, so ranks may have different
//! numbers of batches.

use burn::module::Module;
use burn::optim::GradientsParams;
use hccl::prelude::*;
use hccl_train::{BucketOptions, GradientBuckets};

use crate::error::{Error, Result};
use crate::parameters::{give_gradients, lengths, take_gradients, values, with_values};

/// The indices of the notes before those of the parameters.
const ROWS: usize = 0;
const WEIGHTED: usize = 1;
const STOPS: usize = 2;
const NOTES: usize = 3;

/// The gradients of this rank that are not yet summed over the ranks.
#[derive(Default)]
pub(crate) struct OwnGradients {
    sums: Vec<Option<Vec<f32>>>,
    rows: usize,
    batches: usize,
}

impl OwnGradients {
    /// Adds the mean gradients of a number of rows.
    pub(crate) fn add(
        &mut self,
        model: &impl Module,
        gradients: GradientsParams,
        rows: usize,
    ) -> Result<()> {
        let gradients = take_gradients(model, gradients)?;
        self.sums.resize(gradients.len(), None);
        for (sum, gradient) in self.sums.iter_mut().zip(gradients) {
            let Some(mut gradient) = gradient else { continue };
            gradient.iter_mut().for_each(|element| *element *= rows as f32);
            match sum {
                Some(sum) => sum.iter_mut().zip(gradient).for_each(|(sum, other)| *sum += other),
                None => *sum = Some(gradient),
            }
        }
        self.rows += rows;
        self.batches += 1;
        Ok(())
    }
}

/// The result of a step of all ranks.
pub(crate) struct Mean {
    /// The mean gradients, or `None` if no rank had rows.
    pub(crate) gradients: Option<GradientsParams>,
    /// Whether a rank requests to stop.
    pub(crate) stops: bool,
}

/// The ranks, with the buckets for a model.
pub(crate) struct Replicas<'a> {
    comm: &'a mut Communicator,
    stream: &'a Stream,
    buckets: GradientBuckets<f32>,
    lengths: Vec<usize>,
}

impl<'a> Replicas<'a> {
    pub(crate) fn new(
        options: BucketOptions,
        model: &impl Module,
        comm: &'a mut Communicator,
        stream: &'a Stream,
    ) -> Result<Self> {
        let lengths = lengths(model);
        // The notes belong to the bucket that is sent first.
        let of_notes = NOTES + lengths.len();
        let of_buckets: Vec<usize> = lengths.iter().copied().chain([of_notes]).collect();
        let buckets = GradientBuckets::with(options, &of_buckets, stream)?;
        Ok(Self { comm, stream, buckets, lengths })
    }

    /// Returns the model with the parameters of rank 0. Blocks until all ranks have called this
    /// method.
    pub(crate) fn same<M: Module>(&mut self, model: M) -> Result<M> {
        let mut all = values(&model)?;
        for values in all.iter_mut().filter(|values| !values.is_empty()) {
            let mut buffer = self.stream.device().upload(values, self.stream)?;
            drop(self.comm.broadcast(&mut buffer, 0, self.stream)?);
            *values = buffer.to_vec(self.stream).wait()?;
        }
        Ok(with_values(model, all))
    }

    /// Returns the mean gradients over the rows of all ranks, and whether a rank requests to stop.
    /// Blocks until all ranks have called this method.
    pub(crate) fn mean(
        &mut self,
        model: &impl Module,
        mut own: OwnGradients,
        stops: bool,
    ) -> Result<Mean> {
        let parameters = self.lengths.len();
        if own.batches > 0 && own.sums.len() != parameters {
            return Err(Error::OtherParameters { now: own.sums.len(), before: parameters });
        }
        own.sums.resize(parameters, None);
        let mut notes = vec![own.rows as f32, (own.rows * own.batches) as f32, f32::from(stops)];
        notes.extend(own.sums.iter().map(|sum| f32::from(sum.is_some())));

        let mut step = self.buckets.step(self.comm, self.stream).scale(1.0);
        step.push(parameters, &notes)?;
        for (at, sum) in own.sums.iter().enumerate().rev() {
            match sum {
                Some(sum) => step.push(at, sum)?,
                None => step.push_with(at, |gradient| gradient.fill(0.0))?,
            }
        }
        let sums = step.finish()?;
        let notes = sums.get(parameters)?;
        let (rows, stops) = (notes[ROWS], notes[STOPS] > 0.0);
        if rows == 0.0 {
            return Ok(Mean { gradients: None, stops });
        }
        // The mean over all rows, times the number of accumulated batches, because burn adds them
        // up.
        let factor = notes[WEIGHTED] / (rows * rows);
        let mut means = Vec::new();
        for at in 0..parameters {
            let mean = |sum: &[f32]| sum.iter().map(|element| element * factor).collect();
            let has_gradient = notes[NOTES + at] > 0.0;
            means.push(if has_gradient { Some(mean(sums.get(at)?)) } else { None });
        }
        Ok(Mean { gradients: Some(give_gradients(model, means)), stops })
    }

    /// Returns whether `own` is true on any rank. Blocks until all ranks have called this method.
    pub(crate) fn any(&mut self, own: bool) -> Result<bool> {
        let mut flag = self.stream.device().upload(&[i32::from(own)], self.stream)?;
        drop(self.comm.all_reduce_in_place(&mut flag, Max, self.stream)?);
        Ok(flag.to_vec(self.stream).wait()?.contains(&1))
    }
}
