//! Data parallel: every rank has the model, and a part of each batch.

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

/// A model of which every rank has a replica.
///
/// A step computes this rank's part of a batch. The gradient of a parameter leaves for the other
/// ranks as soon as candle's backward pass has it, and the backward pass goes on: see
/// [`GradientBuckets`]. All ranks make it and call its functions in the same order.
///
/// The model is a function of a [`VarBuilder`], as models for candle are. It is called for every
/// step, with parameters that have a hook. That costs a copy of the parameters and a few
/// allocations. It asks for the same parameters each time. A layer that keeps something of its own
/// between steps, such as the running means of a batch norm, loses it.
pub struct DataParallel<M> {
    make: Make<M>,
    model: M,
    dtype: DType,
    /// The parameters, in the order in which the model asks for them.
    vars: Vec<Var>,
    by_name: Arc<HashMap<String, (usize, Var)>>,
    lane: SharedLane,
    most: Option<f64>,
}

/// The results of a step of all ranks together: the same bits on every rank.
#[derive(Debug)]
pub struct StepResult {
    /// The mean loss of the whole batch.
    pub loss: f32,
    /// The mean gradient of every parameter, for an optimiser of candle.
    pub gradients: GradStore,
}

impl<M> DataParallel<M> {
    /// Makes the parameters that are not in the map yet, and gives every rank those of rank 0.
    ///
    /// `model` is called with a builder for `dtype` on the CPU. Waits for all ranks.
    pub fn new(
        map: &VarMap,
        dtype: DType,
        comm: Communicator,
        stream: Stream,
        model: impl Fn(VarBuilder<'static>) -> candle_core::Result<M> + Send + 'static,
    ) -> Result<Self> {
        Self::with(BucketOptions::default(), map, dtype, comm, stream, model)
    }

    /// Makes the same as [`new`](Self::new), with options for the buckets that gradients go in.
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
        // The loss goes with the gradients, in the bucket that leaves first.
        let lengths = vars.iter().map(|var| var.elem_count()).chain([1]);
        let buckets = GradientBuckets::with(options, &lengths.collect::<Vec<_>>(), &stream)?;
        let numbered = vars.iter().cloned().enumerate();
        let by_name = Arc::new(names.iter().cloned().zip(numbered).collect());
        let lane = Arc::new(Mutex::new(Lane::new(buckets, names, comm, stream)));
        Ok(Self { make, model, dtype, vars, by_name, lane, most: None })
    }

    /// Scales the gradients of a step so that their norm, of all parameters together, is at most
    /// this.
    pub fn clip_norm(self, most: f64) -> Self {
        Self { most: Some(most), ..self }
    }

    /// The parameters for an optimiser, in the order in which the model asks for them.
    pub fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// The names of the parameters, in the same order.
    pub fn names(&self) -> Vec<String> {
        lock(&self.lane).names.clone()
    }

    /// The model with the current parameters, without hooks: to look at rows held out.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Runs a step. `loss` is the mean over the `rows` that this rank has of the `of` rows of the
    /// batch.
    ///
    /// Gradients are weighted by rows, so that parts may have different sizes. A rank without rows
    /// takes part, too; its `loss` is not called. A parameter on which no loss depends has a
    /// gradient of zeros.
    ///
    /// Waits until all ranks have computed. After an error of one rank the others wait for it until
    /// their time limit, or until its communicator is dropped.
    pub fn step(
        &mut self,
        rows: usize,
        of: usize,
        loss: impl FnOnce(&M) -> candle_core::Result<Tensor>,
    ) -> Result<StepResult> {
        let share = share(rows, of)?;
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
            // Hooks lock the lane.
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
        // The way of the backward pass: the last ones are back first.
        for (at, var) in self.vars.iter().enumerate().rev() {
            let mean = tensor(sums.get(at)?, var.shape(), DType::F32)?;
            let mean = if factor == 1.0 { mean } else { (mean * factor)? };
            gradients.insert(var, mean.to_dtype(var.dtype())?);
        }
        let loss = sums.get(self.vars.len())?.first().copied().unwrap_or_default();
        Ok(StepResult { loss, gradients })
    }

    /// Adds the gradients of a part of a batch to those of the next step, and moves nothing.
    ///
    /// `rows` and `of` count as in [`step`](Self::step): `of` are the rows of all parts and all
    /// ranks.
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

/// The part of a batch that a rank has.
fn share(rows: usize, of: usize) -> Result<f64> {
    if rows > of || of == 0 { Err(Error::Rows { rows, of }) } else { Ok(rows as f64 / of as f64) }
}

/// Multiplies a loss with the share of its rows. Returns the product, and its value.
fn weighted(loss: Tensor, share: f64) -> Result<(Tensor, f32)> {
    if loss.elem_count() != 1 {
        return Err(Error::NotOneNumber { elements: loss.elem_count() });
    }
    let loss = (loss.flatten_all()? * share)?;
    let value = loss.to_dtype(DType::F32)?.to_vec1::<f32>()?;
    Ok((loss, value.first().copied().unwrap_or_default()))
}

/// The factor that brings the norm of these gradients down to the most that is allowed.
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

    /// The identity; its backward pass notes which gradients are not pushed yet.
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
