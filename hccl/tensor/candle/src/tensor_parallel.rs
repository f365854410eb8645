//! Layers that are divided over the ranks, with a backward pass for candle.
//!
//! | function of [`Group`] | forward | backward |
//! | --- | --- | --- |
//! | [`copy_in`](Group::copy_in) | nothing | all-reduce |
//! | [`reduce_out`](Group::reduce_out) | all-reduce | nothing |
//! | [`gather_in`](Group::gather_in) | all-gather of the tokens | reduce-scatter |
//! | [`scatter_out`](Group::scatter_out) | reduce-scatter | all-gather |
//!
//! The functions are those of [`hccl_train::tensor_parallel`]. All ranks of a group must build the
//! same graph, so that their forward and backward passes run the same operations in the same order.
//! A pass that moves data blocks until its result is there.

use std::sync::{Arc, Mutex};

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, Var, WithDType};
use candle_nn::{Init, Linear, Module, VarBuilder};
use hccl::prelude::*;
use hccl_train::Gradient;
use hccl_train::tensor_parallel::TensorParallel;

use crate::error::to_candle;
use crate::host::{broadcast, copy, with_floats};
use crate::lane::lock;

/// The ranks over which layers are divided. A clone is the same group.
#[derive(Clone)]
pub struct Group {
    shared: Arc<Mutex<(Communicator, Stream)>>,
    rank: usize,
    ranks: usize,
}

/// The operation by which elements move between the ranks of a group.
#[derive(Clone, Copy)]
enum Way {
    Keep,
    Sum,
    Gather,
    Share,
}

impl Group {
    /// Makes a group of all ranks of a communicator. The group works on this stream.
    pub fn new(comm: Communicator, stream: Stream) -> Self {
        let (rank, ranks) = (comm.rank() as usize, comm.world_size() as usize);
        Self { shared: Arc::new(Mutex::new((comm, stream))), rank, ranks }
    }

    /// Returns the number of this rank in the group.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns a copy of this rank's part of a tensor that is divided over the ranks along
    /// `dimension`.
    pub fn part(&self, tensor: &Tensor, dimension: usize) -> Result<Tensor> {
        let each = self.each("elements of the dimension", tensor.dim(dimension)?)?;
        tensor.narrow(dimension, self.rank * each, each)?.force_contiguous()
    }

    /// Sets these variables to the values that they have on rank 0. All ranks must pass the same
    /// number of variables, with the same shapes. Blocks until all ranks have called this method.
    pub fn broadcast(&self, vars: &[Var]) -> Result<()> {
        let (comm, stream) = &mut *lock(&self.shared);
        let each = |var| broadcast("to be broadcast", var, comm, stream).map_err(to_candle);
        vars.iter().try_for_each(each)
    }

    /// Returns the same tensor. The backward pass adds up the gradients of all ranks.
    pub fn copy_in(&self, inputs: &Tensor) -> Result<Tensor> {
        self.pair(inputs, Way::Keep, Way::Sum)
    }

    /// Adds up the outputs of the parts of a layer over the ranks.
    pub fn reduce_out(&self, partial: &Tensor) -> Result<Tensor> {
        self.pair(partial, Way::Sum, Way::Keep)
    }

    /// Gathers the tokens (the first dimension) of all ranks, in the order of the ranks. Each rank
    /// gives the same number of tokens.
    pub fn gather_in(&self, own: &Tensor) -> Result<Tensor> {
        self.pair(own, Way::Gather, Way::Share)
    }

    /// Adds up the outputs of the parts of a layer, and returns this rank's share of the tokens
    /// (the first dimension). The number of tokens is a multiple of the number of ranks.
    pub fn scatter_out(&self, partial: &Tensor) -> Result<Tensor> {
        self.pair(partial, Way::Share, Way::Gather)
    }

    fn pair(&self, tensor: &Tensor, forward: Way, backward: Way) -> Result<Tensor> {
        let group = self.clone();
        tensor.contiguous()?.apply_op1(Pair { group, forward, backward })
    }

    /// Returns the number of elements in the part of each rank.
    fn each(&self, what: &'static str, count: usize) -> Result<usize> {
        if !count.is_multiple_of(self.ranks) {
            let ranks = self.ranks;
            return Err(to_candle(hccl_train::Error::NotDivisible { what, count, ranks }));
        }
        Ok(count / self.ranks)
    }

    /// Returns the shape of the result.
    fn shape(&self, way: Way, shape: &Shape) -> Result<Shape> {
        let mut dims = shape.dims().to_vec();
        match (way, dims.first_mut()) {
            (Way::Keep | Way::Sum, _) => {}
            (_, None) => candle_core::bail!(
                "a tensor without dimensions has no tokens: use the first dimension for tokens"
            ),
            (Way::Gather, Some(tokens)) => *tokens *= self.ranks,
            (Way::Share, Some(tokens)) => *tokens = self.each("tokens", *tokens)?,
        }
        Ok(dims.into())
    }

    fn go<T: WithDType + Gradient>(&self, way: Way, elements: &[T]) -> Result<CpuStorage> {
        let (comm, stream) = &mut *lock(&self.shared);
        let mut parallel = TensorParallel::new(comm, stream);
        let gone = match way {
            Way::Keep => Ok(elements.to_vec()),
            Way::Sum => parallel.reduce_out(elements),
            Way::Gather => parallel.gather_in(elements),
            Way::Share => parallel.scatter_out(elements),
        };
        Ok(T::to_cpu_storage_owned(gone.map_err(to_candle)?))
    }
}

/// A function of a group, with its backward pass.
struct Pair {
    group: Group,
    forward: Way,
    backward: Way,
}

impl CustomOp1 for Pair {
    fn name(&self) -> &'static str {
        match self.forward {
            Way::Keep => "hccl-copy-in",
            Way::Sum => "hccl-reduce-out",
            Way::Gather => "hccl-gather-in",
            Way::Share => "hccl-scatter-out",
        }
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let shape = self.group.shape(self.forward, layout.shape())?;
        if let Way::Keep = self.forward {
            return copy(storage, layout);
        }
        let moved = with_floats!(storage, layout, |elements| self.group.go(self.forward, elements));
        Ok((moved?, shape))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        if let Way::Keep = self.backward {
            return Ok(Some(gradient.clone()));
        }
        let Self { ref group, forward, backward } = *self;
        let back = Pair { group: group.clone(), forward: backward, backward: forward };
        Ok(Some(gradient.contiguous()?.apply_op1_no_bwd(&back)?))
    }
}

/// A linear layer whose outputs are divided: each rank has some rows of candle's weight.
///
/// The inputs are whole, and every rank has them. The outputs are this rank's columns, as
/// [`RowLinear`] takes them.
#[derive(Clone)]
pub struct ColumnLinear {
    linear: Linear,
    group: Group,
}

impl ColumnLinear {
    /// Makes the layer from this rank's part of the weight and of the bias. The weight has a row
    /// for each output.
    pub fn new(weight: Tensor, bias: Option<Tensor>, group: &Group) -> Self {
        Self { linear: Linear::new(weight, bias), group: group.clone() }
    }

    /// Takes this rank's part of a layer from a builder, as [`candle_nn::linear`] takes a whole
    /// layer. `outputs` is a multiple of the number of ranks.
    pub fn load(inputs: usize, outputs: usize, vb: VarBuilder, group: &Group) -> Result<Self> {
        let own = group.each("outputs", outputs)?;
        let linear = candle_nn::linear(inputs, own, vb)?;
        Ok(Self { linear, group: group.clone() })
    }

    /// Returns this rank's part of the layer.
    pub fn linear(&self) -> &Linear {
        &self.linear
    }
}

impl Module for ColumnLinear {
    fn forward(&self, inputs: &Tensor) -> Result<Tensor> {
        self.linear.forward(&self.group.copy_in(inputs)?)
    }
}

/// A linear layer whose inputs are divided: each rank has some columns of candle's weight.
///
/// The inputs are this rank's columns, as [`ColumnLinear`] gives them. The outputs are whole, and
/// every rank has them.
#[derive(Clone)]
pub struct RowLinear {
    linear: Linear,
    bias: Option<Tensor>,
    group: Group,
}

impl RowLinear {
    /// Makes the layer from this rank's part of the weight and from the bias. The weight has a
    /// column for each input. The bias must be the same on every rank.
    pub fn new(weight: Tensor, bias: Option<Tensor>, group: &Group) -> Self {
        Self { linear: Linear::new(weight, None), bias, group: group.clone() }
    }

    /// Takes this rank's part of a layer from a builder. `inputs` is a multiple of the number of
    /// ranks. A new bias is zero, so that it is the same on every rank.
    pub fn load(inputs: usize, outputs: usize, vb: VarBuilder, group: &Group) -> Result<Self> {
        let own = group.each("inputs", inputs)?;
        // candle's choice for the whole layer: the inputs of all ranks count.
        let stdev = (2.0 / inputs as f64).sqrt();
        let init = Init::Randn { mean: 0.0, stdev };
        let weight = vb.get_with_hints((outputs, own), "weight", init)?;
        let bias = vb.get_with_hints(outputs, "bias", Init::Const(0.0))?;
        Ok(Self::new(weight, Some(bias), group))
    }

    /// Returns this rank's part of the weight.
    pub fn weight(&self) -> &Tensor {
        self.linear.weight()
    }

    /// Returns the bias.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }
}

impl Module for RowLinear {
    fn forward(&self, inputs: &Tensor) -> Result<Tensor> {
        let sum = self.group.reduce_out(&self.linear.forward(inputs)?)?;
        match &self.bias {
            Some(bias) => sum.broadcast_add(bias),
            None => Ok(sum),
        }
    }
}
