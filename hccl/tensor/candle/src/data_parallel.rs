//! Data-parallel training: every rank has the model, and a part of each batch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{VarBuilder, VarMap};
use hccl::prelude::*;
use hccl_train::{BucketOptions, GradientBuckets};

use crate::builder::{Hooks, Names, Recorder};
use crate::error::{Error, Result};
use crate::host::{broadcast, tensor, with_elements};
use crate::lane::{Lane, SharedLane, lock};

type Make<M> = Box<dyn Fn(VarBuilder<'static>) -> candle_core::Result<M> + Send>;

/// A model with a replica on every rank.
///
/// A step computes this rank's part of a batch. As soon as candle's backward pass has the gradient
/// of a parameter, the gradient is sent to the other ranks, and the backward pass continues: see
/// [`GradientBuckets`]. All ranks make a `DataParallel` and call its functions in the same order.
///
/// A function of a [`VarBuilder`] makes the model, as is usual for candle. It is called for every
/// step, with parameters that have a hook. That costs a copy of the parameters and a few
/// allocations. The function must request the same parameters each time. A layer that keeps state
/// between steps, such as the running means of a batch norm, loses this state.
pub struct DataParallel<M> {
    make: Make<M>,
    model: M,
    dtype: DType,
    /// The parameters, in the order in which the model requests them.
    vars: Vec<Var>,
    by_name: Arc<HashMap<String, (usize, Var)>>,
    lane: SharedLane,
    most: Option<f64>,
}

/// The results of a step over all ranks, with the same bits on every rank.
#[derive(Debug)]
pub struct StepResult {
    /// The mean loss of the whole batch.
    pub loss: f32,
    /// The mean gradient of every parameter, for an optimiser of candle.
    pub gradients: GradStore,
}

impl<M> DataParallel<M> {
    /// Makes the parameters that are not in the map yet, and gives every rank the parameters of
    /// rank 0.
    ///
    /// `model` is called with a builder for `dtype` on the CPU. Blocks until all ranks have called
    /// this function.
    pub fn new(
        map: &VarMap,
        dtype: DType,
        comm: Communicator,
        stream: Stream,
        model: impl Fn(VarBuilder<'static>) -> candle_core::Result<M> + Send + 'static,
    ) -> Result<Self> {
        Self::with(BucketOptions::default(), map, dtype, comm, stream, model)
    }

    /// Does the same as [`new`](Self::new), with options for the buckets of gradients.
    pub fn with(
        options: BucketOptions,
        map: &VarMap,
        dtype: DType,
        mut comm: Communicator,
        stream: Stream,
        model: impl Fn(VarBuilder<'static>) -> candle_core::Result<M> + Send + 'static,
    ) -> Result<Self> {
        let make: Make<M> = Box::new(model);
        let order = Names::default();
        let recorder = Recorder { map: map.clone(), names: order.clone() };
        let builder = VarBuilder::from_backend(Box::new(recorder), dtype, Device::Cpu);
        let model = make(builder)?;
        let names = std::mem::take(&mut *lock(&order));
        if names.is_empty() {
            return Err(Error::NoParameters);
        }
        let mut vars = Vec::new();
        for name in &names {
            let var = lock(map.data()).get(name).cloned();
            let var = var.ok_or_else(|| Error::UnknownParameter { name: name.clone() })?;
            broadcast(name, &var, &mut comm, &stream)?;
            vars.push(var);
        }
        // The loss is summed together with the gradients, in the bucket that is sent first.
        let lengths = vars.iter().map(|var| var.elem_count()).chain([1]);
        let buckets = GradientBuckets::with(options, &lengths.collect::<Vec<_>>(), &stream)?;
        let numbered = vars.iter().cloned().enumerate();
        let by_name = Arc::new(names.iter().cloned().zip(numbered).collect());
        let lane = Arc::new(Mutex::new(Lane::new(buckets, names, comm, stream)));
        Ok(Self { make, model, dtype, vars, by_name, lane, most: None })
    }

    /// Limits the norm of the gradients of all parameters together. If the norm of a step is larger
    /// than `most`, the step scales its gradients so that their norm is `most`. A step returns
    /// [`hccl_train::Error::Norm`] if `most` is negative or not a number.
    pub fn clip_norm(self, most: f64) -> Self {
        Self { most: Some(most), ..self }
    }

    /// Returns the parameters for an optimiser, in the order in which the model requests them.
    pub fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// Returns the names of the parameters, in the order of [`vars`](Self::vars).
    pub fn names(&self) -> Vec<String> {
        lock(&self.lane).names.clone()
    }

    /// Returns the model with the current parameters and without hooks, to evaluate held-out rows.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Runs a step. This rank has `rows` of the `of` rows of the batch. `loss` computes the mean
    /// loss of its rows.
    ///
    /// Gradients are weighted by rows, so that parts may have different sizes. A rank without rows
    /// takes part, too; its `loss` is not called. A parameter on which no loss depends has a
    /// gradient of zeros.
    ///
    /// Blocks until all ranks have computed. If one rank fails, the other ranks wait for it until
    /// their time limit, or until the communicator of that rank is dropped.
    pub fn step(
        &mut self,
        rows: usize,
        of: usize,
        loss: impl FnOnce(&M) -> candle_core::Result<Tensor>,
    ) -> Result<StepResult> {
        let share = share(rows, of)?;
        if let Some(most) = self.most.filter(|most| most.is_nan() || *most < 0.0) {
            return Err(hccl_train::Error::Norm { most }.into());
        }
        let number = lock(&self.lane).begin();
        let mut gradients = GradStore::default();
        if rows > 0 {
            let hooks = Hooks {
                vars: self.by_name.clone(),
                hooked: Mutex::default(),
                lane: self.lane.clone(),
                number,
            };
            let builder = VarBuilder::from_backend(Box::new(hooks), self.dtype, Device::Cpu);
            let (loss, value) = weighted(loss(&(self.make)(builder)?)?, share)?;
            lock(&self.lane).push(self.vars.len(), number, &[value])?;
            // The hooks lock the lane, so it must not be locked here.
            let computed = loss.backward();
            gradients = match lock(&self.lane).take_error() {
                Some(error) => return Err(error),
                None => computed?,
            };
        }
        let mut lane = lock(&self.lane);
        for missing in lane.missing() {
            let length = self.vars.get(missing).map_or(1, |var| var.elem_count());
            lane.push(missing, number, &vec![0.0; length])?;
        }
        let sums = lane.finish(number)?;
        let factor = match self.most {
            Some(most) => clipping(most, self.vars.len(), |at| sums.get(at))?,
            None => 1.0,
        };
        // The last gradients are summed first, as in the backward pass.
        for (at, var) in self.vars.iter().enumerate().rev() {
            let mean = tensor(sums.get(at)?, var.shape(), DType::F32)?;
            let mean = if factor == 1.0 { mean } else { (mean * factor)? };
            gradients.insert(var, mean.to_dtype(var.dtype())?);
        }
        let loss = sums.get(self.vars.len())?.first().copied().unwrap_or_default();
        Ok(StepResult { loss, gradients })
    }

    /// Adds the gradients of a part of a batch to the gradients of the next step. Sends nothing to
    /// other ranks.
    ///
    /// `rows` is the number of rows in this part. `of` is the number of rows in all parts of all
    /// ranks, as in [`step`](Self::step).
    pub fn accumulate(
        &mut self,
        rows: usize,
        of: usize,
        loss: impl FnOnce(&M) -> candle_core::Result<Tensor>,
    ) -> Result<()> {
        let share = share(rows, of)?;
        if rows == 0 {
            return Ok(());
        }
        let (loss, value) = weighted(loss(&self.model)?, share)?;
        let gradients = loss.backward()?;
        let mut lane = lock(&self.lane);
        for (at, var) in self.vars.iter().enumerate() {
            let Some(gradient) = gradients.get(var) else { continue };
            let what = || format!("the gradient of tensor {at}");
            let add = |gradient: &[f32]| lane.buckets.accumulate(at, gradient);
            with_elements(what, &gradient.to_dtype(DType::F32)?, add)??;
        }
        Ok(lane.buckets.accumulate(self.vars.len(), &[value])?)
    }
}

/// Returns the share of a batch that a rank has.
fn share(rows: usize, of: usize) -> Result<f64> {
    if rows > of || of == 0 { Err(Error::Rows { rows, of }) } else { Ok(rows as f64 / of as f64) }
}

/// Multiplies a loss by the share of its rows. Returns the product, and its value.
fn weighted(loss: Tensor, share: f64) -> Result<(Tensor, f32)> {
    if loss.elem_count() != 1 {
        return Err(Error::NotOneNumber { elements: loss.elem_count() });
    }
    let loss = (loss.flatten_all()? * share)?;
    let value = loss.to_dtype(DType::F32)?.to_vec1::<f32>()?;
    Ok((loss, value.first().copied().unwrap_or_default()))
}

/// Returns the factor that scales these gradients down until their norm is at most `most`.
fn clipping<'a>(
    most: f64,
    tensors: usize,
    gradient: impl Fn(usize) -> hccl_train::Result<&'a [f32]>,
) -> Result<f64> {
    let mut squares = 0.0;
    for tensor in 0..tensors {
        squares += gradient(tensor)?.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
    }
    let norm = squares.sqrt();
    Ok(if norm > most { most / norm } else { 1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{CpuStorage, CustomOp1, Layout, Shape};
    use candle_nn::{Linear, Module, linear};

    /// An operation that returns its input. Its backward pass records which gradients are not
    /// pushed yet.
    struct Look(SharedLane, Arc<Mutex<Vec<usize>>>);

    impl CustomOp1 for Look {
        fn name(&self) -> &'static str {
            "look"
        }

        fn cpu_fwd(
            &self,
            storage: &CpuStorage,
            layout: &Layout,
        ) -> candle_core::Result<(CpuStorage, Shape)> {
            crate::host::copy(storage, layout)
        }

        fn bwd(&self, _: &Tensor, _: &Tensor, of: &Tensor) -> candle_core::Result<Option<Tensor>> {
            *lock(&self.1) = lock(&self.0).missing();
            Ok(Some(of.clone()))
        }
    }

    #[test]
    fn the_gradients_of_the_last_layer_leave_before_the_first_one_is_computed() {
        let runtime = Runtime::emulator(1).unwrap();
        let model = |vb: VarBuilder| -> candle_core::Result<(Linear, Linear)> {
            Ok((linear(2, 3, vb.pp("first"))?, linear(3, 1, vb.pp("last"))?))
        };
        let missing = runtime.run_ranks(1, |rank| -> Result<Vec<usize>> {
            let (comm, stream) = (rank.communicator()?, rank.device().stream()?);
            let mut parallel = DataParallel::new(&VarMap::new(), DType::F32, comm, stream, model)?;
            let x = Tensor::ones((1, 2), DType::F32, &Device::Cpu)?;
            let (lane, missing) = (parallel.lane.clone(), Arc::new(Mutex::new(Vec::new())));
            parallel.step(1, 1, |(first, last)| {
                let hidden = first.forward(&x)?.apply_op1(Look(lane, missing.clone()))?;
                last.forward(&hidden)
            })?;
            Ok(std::mem::take(&mut *lock(&missing)))
        });
        // Weight and bias of the first layer.
        assert_eq!(missing.unwrap(), [[0, 1]]);
    }
}
