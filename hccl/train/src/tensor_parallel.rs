//! Layers that are divided over the ranks. Each rank has a part of the weight, and a part of the
//! inputs or outputs.
//!
//! Four pairs of a function and its backward pass move activations into and out of these layers.
//! All ranks must call them in the same order. Each call blocks until its result is there. Arrays
//! are row-major, with one token in each row.
//!
//! | pair | forward | backward |
//! | --- | --- | --- |
//! | copy in | nothing | all-reduce |
//! | reduce out | all-reduce | nothing |
//! | gather in | all-gather of the tokens | reduce-scatter |
//! | scatter out | reduce-scatter | all-gather |
//!
//! The first two pairs belong to tensor parallelism, where every rank has all tokens between the
//! layers. The last two pairs belong to sequence parallelism, where each rank has a share of the
//! tokens.

use hccl::prelude::*;
use ndarray::{Array1, Array2, ArrayView2, Axis};

use crate::error::{Error, Result, check_length};
use crate::gradient::Gradient;

/// The ranks over which layers are divided.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::tensor_parallel::TensorParallel;
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let mut group = TensorParallel::new(&mut comm, &stream);
///     // Each rank computes with its half of a layer, and gets the output of the whole layer.
///     let partial = [[1.0_f32, 2.0], [10.0, 20.0]][rank.index() as usize];
///     assert_eq!(group.reduce_out(&partial)?, [11.0, 22.0]);
///     // With sequence parallelism: the output for the tokens of this rank.
///     assert_eq!(group.scatter_out(&partial)?, [[11.0], [22.0]][rank.index() as usize]);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct TensorParallel<'a> {
    comm: &'a mut Communicator,
    stream: &'a Stream,
}

impl<'a> TensorParallel<'a> {
    /// Divides layers over all ranks of a communicator.
    pub fn new(comm: &'a mut Communicator, stream: &'a Stream) -> Self {
        Self { comm, stream }
    }

    fn rank(&self) -> usize {
        self.comm.rank() as usize
    }

    fn ranks(&self) -> usize {
        self.comm.world_size() as usize
    }

    /// Adds up the gradients of the parts of a layer: the backward pass of "copy in".
    pub fn copy_in_backward<T: Gradient>(&mut self, partial: &[T]) -> Result<Vec<T>> {
        self.sum(partial)
    }

    /// Adds up the outputs of the parts of a layer ("reduce out").
    pub fn reduce_out<T: Gradient>(&mut self, partial: &[T]) -> Result<Vec<T>> {
        self.sum(partial)
    }

    fn sum<T: Gradient>(&mut self, partial: &[T]) -> Result<Vec<T>> {
        if partial.is_empty() {
            return Ok(Vec::new());
        }
        let mut buffer = self.stream.device().upload(partial, self.stream)?;
        drop(self.comm.all_reduce_in_place(&mut buffer, Sum, self.stream)?);
        Ok(buffer.to_vec(self.stream).wait()?)
    }

    /// Returns the tokens of all ranks, in the order of the ranks ("gather in"). Each rank must
    /// pass the same number of tokens.
    pub fn gather_in<T: Gradient>(&mut self, own: &[T]) -> Result<Vec<T>> {
        if own.is_empty() {
            return Ok(Vec::new());
        }
        let part = self.stream.device().upload(own, self.stream)?;
        let all = self.stream.device().alloc(own.len() * self.ranks())?;
        let (all, _) = self.comm.all_gather(&part, all, self.stream)?;
        Ok(all.to_vec(self.stream).wait()?)
    }

    /// Adds up the gradients over the ranks, and returns the share of this rank: the backward pass
    /// of "gather in".
    pub fn gather_in_backward<T: Gradient>(&mut self, partial: &[T]) -> Result<Vec<T>> {
        self.share(partial)
    }

    /// Adds up the outputs of the parts of a layer, and returns the share of this rank ("scatter
    /// out"). The number of tokens must be a multiple of the number of ranks.
    pub fn scatter_out<T: Gradient>(&mut self, partial: &[T]) -> Result<Vec<T>> {
        self.share(partial)
    }

    /// Gathers the gradients of all shares: the backward pass of "scatter out".
    pub fn scatter_out_backward<T: Gradient>(&mut self, own: &[T]) -> Result<Vec<T>> {
        self.gather_in(own)
    }

    fn share<T: Gradient>(&mut self, partial: &[T]) -> Result<Vec<T>> {
        let ranks = self.ranks();
        if !partial.len().is_multiple_of(ranks) {
            let elements = partial.len();
            return Err(Error::NotDivisible { what: "elements", count: elements, ranks });
        }
        if partial.is_empty() {
            return Ok(Vec::new());
        }
        let whole = self.stream.device().upload(partial, self.stream)?;
        let part = self.stream.device().alloc(partial.len() / ranks)?;
        let (part, _) = self.comm.reduce_scatter(&whole, part, Sum, self.stream)?;
        Ok(part.to_vec(self.stream).wait()?)
    }

    fn sum_of(&mut self, partial: Array2<f32>) -> Result<Array2<f32>> {
        let shape = partial.raw_dim();
        // The result of a product is row-major already, so this copies nothing.
        let sum = self.sum(partial.as_standard_layout().as_slice().unwrap_or_default())?;
        let given = sum.len();
        Array2::from_shape_vec(shape, sum).map_err(|_| Error::Length {
            what: "the sum of a layer".into(),
            given,
            expected: partial.len(),
        })
    }

    /// Returns the range of this rank's part of `count` columns or rows.
    fn own(&self, what: &'static str, count: usize) -> Result<std::ops::Range<usize>> {
        let (rank, ranks) = (self.rank(), self.ranks());
        if !count.is_multiple_of(ranks) {
            return Err(Error::NotDivisible { what, count, ranks });
        }
        let each = count / ranks;
        Ok(rank * each..(rank + 1) * each)
    }
}

/// The gradients that the backward pass of a linear layer computes.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::tensor_parallel::{LinearGradient, RowLinear, TensorParallel};
/// use ndarray::array;
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let group = TensorParallel::new(&mut comm, &stream);
///     let mut layer = RowLinear::part_of(&array![[3.0], [4.0]], &array![0.0], &group)?;
///     // Two tokens: the input of this rank for each, and the gradients of the outputs.
///     let (inputs, outputs) = (array![[1.0], [2.0]], array![[10.0], [20.0]]);
///     let gradient: LinearGradient = layer.backward(inputs.view(), outputs.view());
///     layer.weight.scaled_add(-0.1, &gradient.weight);
///     layer.bias.scaled_add(-0.1, &gradient.bias);
///     assert_eq!((gradient.weight, gradient.bias), (array![[50.0]], array![30.0]));
///     // The gradient for the layer before, whose outputs on this rank are these inputs.
///     let slopes = [array![[30.0], [60.0]], array![[40.0], [80.0]]];
///     assert_eq!(gradient.inputs, slopes[rank.index() as usize]);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct LinearGradient {
    /// The gradient of this rank's part of the weight.
    pub weight: Array2<f32>,
    /// The gradient of the bias.
    pub bias: Array1<f32>,
    /// The gradient of the inputs of the layer.
    pub inputs: Array2<f32>,
}

impl LinearGradient {
    /// Computes the gradients of this rank's part alone, without a sum over the ranks.
    fn new(
        weight: &Array2<f32>,
        inputs: ArrayView2<'_, f32>,
        outputs: ArrayView2<'_, f32>,
    ) -> Self {
        Self {
            weight: inputs.t().dot(&outputs),
            bias: outputs.sum_axis(Axis(0)),
            inputs: outputs.dot(&weight.t()),
        }
    }
}

/// A linear layer whose outputs are divided: each rank has some columns of the weight.
///
/// Every rank passes the whole inputs and gets its own columns of the outputs. [`RowLinear`] takes
/// these columns as its inputs.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::tensor_parallel::{ColumnLinear, TensorParallel};
/// use ndarray::{array, s};
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// let (weight, bias) = (array![[1.0, 2.0, 3.0, 4.0]], array![0.5, 0.5, 0.5, 0.5]);
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let group = TensorParallel::new(&mut comm, &stream);
///     let layer = ColumnLinear::part_of(&weight, &bias, &group)?; // two of the four outputs
///     let inputs = array![[10.0]];
///     let whole = inputs.dot(&weight) + &bias;
///     let own = 2 * rank.index() as usize;
///     assert_eq!(layer.forward(inputs.view()), whole.slice(s![.., own..own + 2]));
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ColumnLinear {
    /// The weight, with one row for each input and one column for each output of this rank.
    pub weight: Array2<f32>,
    /// The bias, with one value for each output of this rank.
    pub bias: Array1<f32>,
}

impl ColumnLinear {
    /// Returns this rank's part of a whole layer. The number of outputs must be a multiple of the
    /// number of ranks.
    pub fn part_of(
        weight: &Array2<f32>,
        bias: &Array1<f32>,
        group: &TensorParallel<'_>,
    ) -> Result<Self> {
        check_length(|| "the bias".into(), bias.len(), weight.ncols())?;
        let own = group.own("outputs", weight.ncols())?;
        let range = own.start as isize..own.end as isize;
        Ok(Self {
            weight: weight.slice(ndarray::s![.., range.clone()]).to_owned(),
            bias: bias.slice(ndarray::s![range]).to_owned(),
        })
    }

    /// Returns this rank's columns of the outputs. Moves no data between ranks.
    pub fn forward(&self, inputs: ArrayView2<'_, f32>) -> Array2<f32> {
        inputs.dot(&self.weight) + &self.bias
    }

    /// Computes the gradients of the parameters and the inputs from the gradient of this rank's
    /// columns of the outputs. The gradient of the inputs is summed over the ranks. Blocks until
    /// the sum is there.
    pub fn backward(
        &self,
        inputs: ArrayView2<'_, f32>,
        outputs: ArrayView2<'_, f32>,
        group: &mut TensorParallel<'_>,
    ) -> Result<LinearGradient> {
        let mut gradient = LinearGradient::new(&self.weight, inputs, outputs);
        gradient.inputs = group.sum_of(gradient.inputs)?;
        Ok(gradient)
    }
}

/// A linear layer whose inputs are divided: each rank has some rows of the weight.
///
/// Every rank passes its own columns of the inputs, which are the outputs of a [`ColumnLinear`],
/// and gets the whole outputs.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::tensor_parallel::{ColumnLinear, RowLinear, TensorParallel};
/// use ndarray::array;
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// let (first, second) = (array![[1.0, 2.0]], array![[3.0], [4.0]]);
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let mut group = TensorParallel::new(&mut comm, &stream);
///     let column = ColumnLinear::part_of(&first, &array![0.0, 0.0], &group)?;
///     let row = RowLinear::part_of(&second, &array![0.5], &group)?;
///     // Each rank has one of the two values in the middle, and nothing moves for it.
///     let middle = column.forward(array![[10.0]].view());
///     let output = row.forward(middle.view(), &mut group)?;
///     assert_eq!(output, array![[110.5]]); // the sum of 10 * 1 * 3, 10 * 2 * 4 and the bias
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RowLinear {
    /// The weight, with one row for each input of this rank and one column for each output.
    pub weight: Array2<f32>,
    /// The bias, with one value for each output. It is the same on every rank.
    pub bias: Array1<f32>,
}

impl RowLinear {
    /// Returns this rank's part of a whole layer. The number of inputs must be a multiple of the
    /// number of ranks.
    pub fn part_of(
        weight: &Array2<f32>,
        bias: &Array1<f32>,
        group: &TensorParallel<'_>,
    ) -> Result<Self> {
        check_length(|| "the bias".into(), bias.len(), weight.ncols())?;
        let own = group.own("inputs", weight.nrows())?;
        let range = own.start as isize..own.end as isize;
        let weight = weight.slice(ndarray::s![range, ..]).to_owned();
        Ok(Self { weight, bias: bias.clone() })
    }

    /// Returns the outputs, summed over the ranks. Blocks until they are there.
    pub fn forward(
        &self,
        inputs: ArrayView2<'_, f32>,
        group: &mut TensorParallel<'_>,
    ) -> Result<Array2<f32>> {
        Ok(group.sum_of(inputs.dot(&self.weight))? + &self.bias)
    }

    /// Computes the gradients of the parameters and of this rank's columns of the inputs from the
    /// gradient of the outputs. Moves no data between ranks.
    pub fn backward(
        &self,
        inputs: ArrayView2<'_, f32>,
        outputs: ArrayView2<'_, f32>,
    ) -> LinearGradient {
        LinearGradient::new(&self.weight, inputs, outputs)
    }
}
