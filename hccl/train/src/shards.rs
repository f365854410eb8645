//! Parameters that every rank has as a whole, but of which each rank updates only a part.
//!
//! The optimiser's state of a parameter is on one rank only (ZeRO, stage 1), and so is its summed
//! gradient (stage 2). In a step, the gradients are summed into the parts, each rank updates its
//! own part, and all ranks gather the new parameters. This moves as many bytes as one all-reduce.

use std::ops::Range;

use hccl::prelude::*;

use crate::agreement::{Agreement, Layout};
use crate::error::{Error, Result, check_length};
use crate::gradient::{Gradient, scale};
use crate::parts::Parts;

/// Tensors that are joined to one sequence of elements, which is cut into one part for each rank.
///
/// Parts have the same length. If the number of elements is not a multiple of the number of ranks,
/// the last parts are shorter or empty. All ranks must call the functions in the same order.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::Shards;
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let mut shards = Shards::<f32>::new(&[3, 5], &comm, &stream)?;
///     let mut parameters = vec![1.0; shards.own().len()]; // and the state of the optimiser
///     shards.gradient_mut(0)?.fill(0.5);
///     shards.gradient_mut(1)?.fill(0.5);
///     for (parameter, gradient) in parameters.iter_mut().zip(shards.reduce(&mut comm, &stream)?) {
///         *parameter -= 0.5 * gradient;
///     }
///     shards.gather(&parameters, &mut comm, &stream)?;
///     assert_eq!(shards.parameter(1)?, [0.75; 5]);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct Shards<T: Gradient> {
    /// The range of each tensor among the elements of all tensors.
    places: Vec<Range<usize>>,
    own: Range<usize>,
    factor: f32,
    /// The gradients that are sent, for all parts with padding. `parameters` has the same length
    /// and receives the new parameters.
    gradients: HostBuffer<T>,
    parameters: HostBuffer<T>,
    whole: DeviceBuffer<T>,
    part: DeviceBuffer<T>,
    part_host: HostBuffer<T>,
    /// Whether `parameters` has the values of a gather.
    gathered: bool,
    /// The rank and the number of ranks for which the part was cut.
    rank: usize,
    ranks: usize,
    agreement: Agreement,
}

impl<T: Gradient> Shards<T> {
    /// Spreads tensors of these lengths over the ranks of a communicator. The lengths must be the
    /// same on all ranks: the first operation on a communicator waits for the other ranks, compares
    /// the lengths, and returns [`Error::RanksDiffer`] if they differ. Allocates memory on the
    /// device of the stream, and pinned memory.
    pub fn new(lengths: &[usize], comm: &Communicator, stream: &Stream) -> Result<Self> {
        let (mut places, mut end) = (Vec::with_capacity(lengths.len()), 0usize);
        // The sum saturates, and the allocation below refuses a sum that is too large.
        for &length in lengths {
            let start = end;
            end = start.saturating_add(length);
            places.push(start..end);
        }
        let (rank, ranks) = (comm.rank() as usize, comm.world_size() as usize);
        let parts = Parts::new(end, ranks);
        let share = parts.share;
        let whole = share.saturating_mul(ranks);
        let (device, runtime) = (stream.device(), stream.device().runtime());
        Ok(Self {
            places,
            own: parts.of(rank),
            factor: 1.0 / ranks as f32,
            gradients: runtime.host_buffer(whole)?,
            parameters: runtime.host_buffer(whole)?,
            whole: device.zeros(whole, stream)?,
            part: device.zeros(share, stream)?,
            part_host: runtime.host_buffer(share)?,
            gathered: false,
            rank,
            ranks,
            agreement: Agreement::default(),
        })
    }

    /// Returns the range of this rank's part, among the elements of all tensors.
    pub fn own(&self) -> Range<usize> {
        self.own.clone()
    }

    /// Returns the range of a tensor, among the elements of all tensors.
    pub fn place(&self, tensor: usize) -> Result<Range<usize>> {
        let count = self.places.len();
        let found = self.places.get(tensor).cloned();
        found.ok_or(Error::NoSuch { what: "tensor", index: tensor, count })
    }

    /// Returns the memory into which the backward pass writes the gradient of a tensor. It keeps
    /// its contents between steps, and a reduction scales them in place. So write every element in
    /// each step; do not add to the old contents.
    pub fn gradient_mut(&mut self, tensor: usize) -> Result<&mut [T]> {
        let place = self.place(tensor)?;
        Ok(&mut self.gradients.as_mut_slice()?[place])
    }

    /// Multiplies every gradient by this factor before the sum, instead of by 1 / (number of
    /// ranks). All ranks must pass the same factor.
    pub fn scale(&mut self, factor: f32) {
        self.factor = factor;
    }

    /// Returns the gradients of this rank's [own](Self::own) part, as their mean over the ranks.
    /// Blocks until they are there.
    pub fn reduce(&mut self, comm: &mut Communicator, stream: &Stream) -> Result<&[T]> {
        self.agree(comm, stream)?;
        if self.whole.is_empty() {
            return Ok(&[]);
        }
        if self.factor != 1.0 {
            scale(self.gradients.as_mut_slice()?, self.factor);
        }
        drop(self.whole.copy_from_host(&self.gradients, stream)?);
        drop(comm.reduce_scatter(&self.whole, &mut self.part, Sum, stream)?);
        self.part.copy_to(&mut self.part_host, stream)?.wait()?;
        Ok(&self.part_host.as_slice()?[..self.own.len()])
    }

    /// Gathers the parameters of all ranks on every rank. `own` has the parameters of this rank's
    /// [own](Self::own) part. Does not wait for the other ranks, but [`parameter`](Self::parameter)
    /// does.
    pub fn gather(&mut self, own: &[T], comm: &mut Communicator, stream: &Stream) -> Result<()> {
        check_length(|| "the part of this rank".into(), own.len(), self.own.len())?;
        self.agree(comm, stream)?;
        self.gathered = true;
        if self.whole.is_empty() {
            return Ok(());
        }
        self.part_host.as_mut_slice()?[..own.len()].copy_from_slice(own);
        drop(self.part.copy_from_host(&self.part_host, stream)?);
        drop(comm.all_gather(&self.part, &mut self.whole, stream)?);
        drop(self.whole.copy_to(&mut self.parameters, stream)?);
        Ok(())
    }

    fn agree(&mut self, comm: &mut Communicator, stream: &Stream) -> Result<()> {
        let lengths = self.places.iter().map(|place| place.len());
        let layout = || Layout::new("tensor", lengths, 0).cut_for(self.rank, self.ranks);
        self.agreement.check(layout, comm, stream)
    }

    /// Returns the values of a tensor that [`gather`](Self::gather) has received. Blocks until they
    /// have arrived. Returns the error of the gather if no earlier call has returned it, and
    /// [`Error::NotGathered`] if there was no gather.
    pub fn parameter(&self, tensor: usize) -> Result<&[T]> {
        if !self.gathered {
            return Err(Error::NotGathered);
        }
        Ok(&self.parameters.as_slice()?[self.place(tensor)?])
    }
}
