//! Sums the gradients of a model that every rank has, in buckets, during the backward pass.
//!
//! Terms: a *tensor* is one of the model's parameters, numbered in the order of the forward pass. A
//! *bucket* holds the gradients of neighbouring tensors and is reduced as one. A *step* is a
//! backward pass on all ranks.
//!
//! Rules:
//! 1. Buckets are issued in one fixed order, the last tensors first. This order does not depend on
//!    the order in which gradients are pushed. A full bucket waits until the buckets before it are
//!    full. So all ranks issue the same operations.
//! 2. A bucket that has been issued belongs to the device. The host reads its memory again when the
//!    sum has been copied back.
//! 3. If a step ends early, other ranks wait for its remaining buckets. The next step returns an
//!    error, instead of summing gradients of different steps.

pub(crate) mod step;

use std::marker::PhantomData;
use std::ops::Range;

use hccl::TimedEvent;
use hccl::prelude::*;

use crate::agreement::Agreement;
use crate::error::{Error, Result, check_length};
use crate::gradient::{Gradient, Widen};

/// The options of [`GradientBuckets::with`]: the size of a bucket, and whether it is timed.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::{BucketOptions, GradientBuckets};
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let options = BucketOptions::default().bytes(1 << 20).timed(true);
///     // A bucket ends with the tensor that reaches its size.
///     let buckets = GradientBuckets::<f32>::with(options, &[300_000, 2], &stream)?;
///     assert_eq!(buckets.layout().count(), 1);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BucketOptions {
    /// The size of a bucket in bytes. A bucket ends with the tensor that reaches this size. The
    /// default is 25 MB.
    pub bytes: usize,
    /// Whether events record the times of each bucket; see [`Gradients::events`]. The default is
    /// false.
    ///
    /// [`Gradients::events`]: crate::Gradients::events
    pub timed: bool,
}

impl Default for BucketOptions {
    fn default() -> Self {
        Self { bytes: 25_000_000, timed: false }
    }
}

impl BucketOptions {
    /// Sets the size of a bucket, in bytes.
    pub fn bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// Sets whether events are recorded.
    pub fn timed(self, timed: bool) -> Self {
        Self { timed, ..self }
    }
}

/// The times of a bucket, on the clock of its device.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::{BucketOptions, GradientBuckets};
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let options = BucketOptions::default().timed(true);
///     let mut buckets = GradientBuckets::<f32>::with(options, &[4], &stream)?;
///     let mut step = buckets.step(&mut comm, &stream);
///     step.push(0, &[1.0; 4])?;
///     let gradients = step.finish()?;
///     let events = gradients.events(0).expect("the buckets are timed");
///     println!("the sum took {:?}", events.uploaded.elapsed_until(&events.ends)?);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct BucketEvents {
    /// The time before the bucket is copied to the device.
    pub begins: TimedEvent,
    /// The time when the bucket is on the device and the sum can begin.
    pub uploaded: TimedEvent,
    /// The time when the sum has been copied back to the host.
    pub ends: TimedEvent,
}

struct Bucket<W: Element> {
    tensors: Range<usize>,
    /// The number of tensors that the current step has not pushed yet.
    missing: usize,
    /// The pinned memory that the device reads and writes directly.
    host: HostBuffer<W>,
    device: DeviceBuffer<W>,
    work: Option<Work>,
    events: Option<BucketEvents>,
}

/// The place of a tensor's gradient.
struct Place {
    bucket: usize,
    range: Range<usize>,
    /// Whether the place holds accumulated gradients that have not been pushed yet.
    is_accumulated: bool,
    is_pushed: bool,
}

/// The memory in which the gradients of a model are summed over all ranks, allocated once.
///
/// Gradients have the type `T` and are summed in the type `W`. For example,
/// `GradientBuckets<bf16, f32>` sums 16-bit gradients in 32 bits, which moves twice the bytes. The
/// result is the mean over the ranks, unless [`Step::scale`] sets another factor. The factor is
/// applied before the sum.
///
/// For each step, call [`step`](Self::step), [`Step::push`] for each tensor, [`Step::finish`] and
/// [`Gradients::get`]. If a step consists of several backward passes, call
/// [`accumulate`](Self::accumulate) for all passes but the last. It adds up gradients on this rank
/// and moves no data.
///
/// Of these calls, only [`Gradients::get`] waits for other ranks, with two exceptions. In the first
/// step on a communicator, [`Step::push`] and [`Step::finish`] may wait, too. A call that writes a
/// gradient waits for the previous sum of the bucket to which it writes, unless [`Gradients::get`]
/// has waited for that sum.
///
/// [`Gradients::get`]: crate::Gradients::get
/// [`Step::finish`]: crate::Step::finish
/// [`Step::push`]: crate::Step::push
/// [`Step::scale`]: crate::Step::scale
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::GradientBuckets;
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let mut buckets = GradientBuckets::<f32>::new(&[3, 2], &stream)?; // once for a model
///     for _ in 0..2 {
///         let mut step = buckets.step(&mut comm, &stream);
///         step.push(1, &[rank.index() as f32; 2])?; // the backward pass begins at the end
///         step.push(0, &[1.0; 3])?;
///         let means = step.finish()?;
///         assert_eq!(means.get(1)?, [0.5, 0.5]);
///     }
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct GradientBuckets<T: Widen<W>, W: Gradient = T> {
    buckets: Vec<Bucket<W>>,
    places: Vec<Place>,
    /// The number of buckets that the unfinished step has issued.
    issued: usize,
    /// The number, in the process, of the last step that began on these buckets, or 0 before the
    /// first step.
    current: u64,
    /// Whether the current step is paused.
    is_paused: bool,
    timed: bool,
    /// The size of a bucket in bytes that was asked for.
    bytes: usize,
    agreement: Agreement,
    marker: PhantomData<T>,
}

impl<T: Widen<W>, W: Gradient> GradientBuckets<T, W> {
    /// Allocates buckets for tensors of these lengths, in the order of the forward pass.
    ///
    /// All ranks must pass the same lengths. In the first step on a communicator, the push that
    /// fills the first bucket compares the lengths, and returns [`Error::RanksDiffer`] if they
    /// differ. So make the buckets anew on all ranks, or on none, while a communicator is in use.
    /// Allocates memory on the device of the stream, and pinned memory.
    pub fn new(lengths: &[usize], stream: &Stream) -> Result<Self> {
        Self::with(BucketOptions::default(), lengths, stream)
    }

    /// Allocates buckets as [`new`](Self::new) does, with options. All ranks must also pass the
    /// same [`BucketOptions::bytes`].
    pub fn with(options: BucketOptions, lengths: &[usize], stream: &Stream) -> Result<Self> {
        let device = stream.device();
        let (mut buckets, mut places) = (Vec::new(), Vec::new());
        let mut end = lengths.len();
        while end > 0 {
            // The sum saturates, and the allocation below refuses a sum that is too large.
            let (mut start, mut elements) = (end, 0usize);
            let is_full =
                |elements: usize| elements.saturating_mul(size_of::<W>()) >= options.bytes;
            // A bucket has at least one tensor, even if this tensor is larger than the bucket size.
            while start > 0 && (start == end || !is_full(elements)) {
                start -= 1;
                let range = elements..elements.saturating_add(lengths[start]);
                elements = range.end;
                let bucket = buckets.len();
                places.push(Place { bucket, range, is_accumulated: false, is_pushed: false });
            }
            buckets.push(Bucket {
                tensors: start..end,
                missing: end - start,
                host: device.runtime().host_buffer(elements)?,
                device: device.zeros(elements, stream)?,
                work: None,
                events: None,
            });
            end = start;
        }
        places.reverse();
        Ok(Self {
            buckets,
            places,
            issued: 0,
            current: 0,
            is_paused: false,
            timed: options.timed,
            bytes: options.bytes,
            agreement: Agreement::default(),
            marker: PhantomData,
        })
    }

    /// Returns the tensors of each bucket, in the order in which the buckets are summed.
    pub fn layout(&self) -> impl Iterator<Item = Range<usize>> {
        self.buckets.iter().map(|bucket| bucket.tensors.clone())
    }

    /// Stores a gradient, which is added to the next gradient that is pushed for this tensor.
    /// Several calls add up. Moves no data to the device or to other ranks. Returns
    /// [`Error::PushedTwice`] while a step is paused that has the gradient of this tensor already.
    pub fn accumulate(&mut self, tensor: usize, gradient: &[T]) -> Result<()> {
        if self.is_paused && self.place(tensor)?.is_pushed {
            return Err(Error::PushedTwice { tensor });
        }
        self.write(tensor, gradient, true)
    }

    fn place(&self, tensor: usize) -> Result<&Place> {
        let count = self.places.len();
        self.places.get(tensor).ok_or(Error::NoSuch { what: "tensor", index: tensor, count })
    }

    /// Writes a gradient to its place, or adds it to the gradients that were accumulated there.
    fn write(&mut self, tensor: usize, gradient: &[T], accumulates: bool) -> Result<()> {
        let place = self.place(tensor)?;
        let what = || format!("the gradient of tensor {tensor}");
        check_length(what, gradient.len(), place.range.len())?;
        let (bucket, adds, range) = (place.bucket, place.is_accumulated, place.range.clone());
        let to = &mut self.buckets[bucket].host.as_mut_slice()?[range];
        for (to, from) in to.iter_mut().zip(gradient) {
            *to = if adds { to.plus(from.widen()) } else { from.widen() };
        }
        self.places[tensor].is_accumulated = accumulates;
        Ok(())
    }
}
