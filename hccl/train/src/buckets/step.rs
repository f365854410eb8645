//! A step on gradient buckets: the gradients go in, and their sums come out. The rules are those of
//! [`buckets`](super).

use std::sync::atomic::{AtomicU64, Ordering};

use hccl::prelude::*;

use super::{BucketEvents, GradientBuckets, Place};
use crate::agreement::Layout;
use crate::error::{Error, Result};
use crate::gradient::{Gradient, Widen, scale};

/// The number of steps that have begun in this process so far, on any buckets.
static STEPS: AtomicU64 = AtomicU64::new(0);

impl<T: Widen<W>, W: Gradient> GradientBuckets<T, W> {
    /// Begins a step. Its result is the mean of the gradients over the ranks.
    pub fn step<'a>(
        &'a mut self,
        comm: &'a mut Communicator,
        stream: &'a Stream,
    ) -> Step<'a, T, W> {
        let factor = 1.0 / comm.world_size() as f32;
        let unfinished = self.issued;
        self.is_paused = false;
        self.current = STEPS.fetch_add(1, Ordering::Relaxed) + 1;
        if unfinished == 0 {
            self.places.iter_mut().for_each(|place| place.is_pushed = false);
            self.buckets.iter_mut().for_each(|bucket| bucket.missing = bucket.tensors.len());
        }
        Step { buckets: self, comm, stream, factor, unfinished }
    }

    /// Resumes a paused step, on the communicator and the stream on which it began.
    ///
    /// Returns [`Error::OtherStep`] if another step has begun since, or if the paused step belongs
    /// to other buckets.
    pub fn resume<'a>(
        &'a mut self,
        paused: PausedStep,
        comm: &'a mut Communicator,
        stream: &'a Stream,
    ) -> Result<Step<'a, T, W>> {
        let PausedStep { factor, unfinished, number, issued } = paused;
        if (number, issued) != (self.current, self.issued) {
            return Err(Error::OtherStep);
        }
        self.is_paused = false;
        Ok(Step { buckets: self, comm, stream, factor, unfinished })
    }
}

/// A step that was paused by [`Step::pause`]. It borrows nothing.
///
/// Dropping it drops the step.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::{GradientBuckets, PausedStep};
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let mut buckets = GradientBuckets::<f32>::new(&[4], &stream)?;
///     let paused: PausedStep = buckets.step(&mut comm, &stream).pause(); // borrows nothing
///     // ... a hook of the backward pass, which must own everything that it uses ...
///     let mut step = buckets.resume(paused, &mut comm, &stream)?;
///     step.push(0, &[1.0; 4])?;
///     step.finish()?.get(0)?;
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "resume the step, because the other ranks wait for it"]
pub struct PausedStep {
    factor: f32,
    unfinished: usize,
    /// The number of the step in the process.
    number: u64,
    issued: usize,
}

/// A step, which takes the gradients of a backward pass as they come and sums them over all ranks.
///
/// If a step is dropped before [`finish`](Self::finish) but after it has issued a bucket, the other
/// ranks keep waiting, and the next step returns [`Error::Unfinished`].
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::{GradientBuckets, Step};
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let mut buckets = GradientBuckets::<f32>::new(&[4], &stream)?;
///     let mut step: Step<'_, f32> = buckets.step(&mut comm, &stream);
///     step.push(0, &[rank.index() as f32; 4])?; // issued as soon as its bucket is full
///     assert_eq!(step.finish()?.get(0)?, [0.5; 4]);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct Step<'a, T: Widen<W>, W: Gradient = T> {
    buckets: &'a mut GradientBuckets<T, W>,
    comm: &'a mut Communicator,
    stream: &'a Stream,
    factor: f32,
    /// The number of buckets that an earlier step had issued when it ended early, or 0 if no step
    /// ended early.
    unfinished: usize,
}

impl<'a, T: Widen<W>, W: Gradient> Step<'a, T, W> {
    /// Multiplies every gradient by this factor before the sum, instead of by 1 / (number of
    /// ranks). All ranks must pass the same factor. Call it before the first push.
    pub fn scale(self, factor: f32) -> Self {
        Self { factor, ..self }
    }

    /// Pushes the gradient of a tensor. When a bucket and all buckets before it are full, the
    /// bucket is issued. Does not wait for other ranks, except in the first step on a communicator,
    /// in which the ranks compare their lengths and the sizes of their buckets. Also waits for the
    /// previous sum of the tensor's bucket, unless [`Gradients::get`] has waited for that sum.
    pub fn push(&mut self, tensor: usize, gradient: &[T]) -> Result<()> {
        self.check(tensor)?;
        self.buckets.write(tensor, gradient, false)?;
        self.pushed(tensor)
    }

    /// Pushes a gradient as [`push`](Self::push) does. `write` writes the gradient directly into
    /// its bucket, so that the gradient needs no memory of its own.
    pub fn push_with<R>(&mut self, tensor: usize, write: impl FnOnce(&mut [W]) -> R) -> Result<R> {
        self.check(tensor)?;
        let Place { bucket, ref range, is_accumulated: adds, .. } = *self.buckets.place(tensor)?;
        let range = range.clone();
        let to = &mut self.buckets.buckets[bucket].host.as_mut_slice()?[range];
        let before = if adds { to.to_vec() } else { Vec::new() };
        let result = write(to);
        to.iter_mut().zip(before).for_each(|(to, before)| *to = to.plus(before));
        self.buckets.places[tensor].is_accumulated = false;
        self.pushed(tensor)?;
        Ok(result)
    }

    /// Pauses the step until [`GradientBuckets::resume`], and ends its borrows.
    ///
    /// A hook in a backward pass must own all values that it uses. It resumes the step for one push
    /// and pauses it again. Meanwhile the buckets that have been issued are summed.
    pub fn pause(self) -> PausedStep {
        let Self { buckets, factor, unfinished, .. } = self;
        buckets.is_paused = true;
        PausedStep { factor, unfinished, number: buckets.current, issued: buckets.issued }
    }

    fn check(&self, tensor: usize) -> Result<()> {
        self.check_begun()?;
        match self.buckets.place(tensor)?.is_pushed {
            true => Err(Error::PushedTwice { tensor }),
            false => Ok(()),
        }
    }

    fn check_begun(&self) -> Result<()> {
        let (issued, buckets) = (self.unfinished, self.buckets.buckets.len());
        if issued > 0 { Err(Error::Unfinished { issued, buckets }) } else { Ok(()) }
    }

    /// Marks a tensor as pushed. Issues all full buckets up to the first bucket that is not full.
    fn pushed(&mut self, tensor: usize) -> Result<()> {
        let place = &mut self.buckets.places[tensor];
        place.is_pushed = true;
        let bucket = place.bucket;
        self.buckets.buckets[bucket].missing -= 1;
        while let Some(bucket) = self.buckets.buckets.get(self.buckets.issued) {
            if bucket.missing > 0 {
                break;
            }
            self.issue()?;
        }
        Ok(())
    }

    /// Compares the lengths and the sizes of the buckets of all ranks, in the first step on a
    /// communicator.
    fn agree(&mut self) -> Result<()> {
        let GradientBuckets { agreement, places, bytes, .. } = &mut *self.buckets;
        let lengths = places.iter().map(|place| place.range.len());
        agreement.check(|| Layout::new("tensor", lengths, *bytes), self.comm, self.stream)
    }

    fn issue(&mut self) -> Result<()> {
        self.agree()?;
        let Self { buckets, comm, stream, factor, .. } = self;
        let timed = buckets.timed;
        let bucket = &mut buckets.buckets[buckets.issued];
        // Counted even if a call below fails, because other ranks may have issued this bucket.
        buckets.issued += 1;
        if bucket.host.is_empty() {
            return Ok(());
        }
        if *factor != 1.0 {
            scale(bucket.host.as_mut_slice()?, *factor);
        }
        let event = || timed.then(|| stream.record_timed()).transpose();
        let begins = event()?;
        // The stream runs the three operations in order. So the last one completes after the
        // others, and its `Work` returns a failure of any of them.
        drop(bucket.device.copy_from_host(&bucket.host, stream)?);
        let uploaded = event()?;
        drop(comm.all_reduce_in_place(&mut bucket.device, Sum, stream)?);
        bucket.work = Some(bucket.device.copy_to(&mut bucket.host, stream)?);
        let events = begins.zip(uploaded).zip(event()?);
        bucket.events =
            events.map(|((begins, uploaded), ends)| BucketEvents { begins, uploaded, ends });
        Ok(())
    }

    /// Ends the step after all gradients have been pushed. Does not wait for the sums, but
    /// [`Gradients::get`] does.
    pub fn finish(mut self) -> Result<Gradients<'a, T, W>> {
        self.check_begun()?;
        let places = self.buckets.places.iter().enumerate();
        let missing = places.filter(|(_, place)| !place.is_pushed).map(|(tensor, _)| tensor);
        let tensors: Vec<usize> = missing.collect();
        if !tensors.is_empty() {
            return Err(Error::NotPushed { tensors });
        }
        self.agree()?; // has no effect unless there are no tensors here
        self.buckets.issued = 0;
        Ok(Gradients { buckets: self.buckets })
    }
}

/// The summed gradients of a step: the same bits on every rank.
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
///     let mut buckets = GradientBuckets::<f32>::new(&[4], &stream)?;
///     let mut step = buckets.step(&mut comm, &stream);
///     step.push(0, &[3.0; 4])?;
///     let mut gradients = step.finish()?;
///     assert_eq!(gradients.clip_norm(1.0)?, 6.0); // it was 6, now it is 1
///     assert_eq!(gradients.get(0)?, [0.5; 4]);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct Gradients<'a, T: Widen<W>, W: Gradient = T> {
    buckets: &'a mut GradientBuckets<T, W>,
}

impl<T: Widen<W>, W: Gradient> Gradients<'_, T, W> {
    /// Returns the sum for a tensor. Blocks until the bucket of this tensor has been copied back to
    /// the host. Does not wait for other buckets.
    pub fn get(&self, tensor: usize) -> Result<&[W]> {
        let place = self.buckets.place(tensor)?;
        let bucket = &self.buckets.buckets[place.bucket];
        bucket.work.as_ref().map_or(Ok(()), Work::wait)?;
        Ok(&bucket.host.as_slice()?[place.range.clone()])
    }

    /// Returns the Euclidean norm of all gradients together. Blocks until all gradients have been
    /// copied back to the host.
    pub fn norm(&self) -> Result<f64> {
        let mut squares = 0.0;
        for tensor in 0..self.buckets.places.len() {
            let of_tensor = self.get(tensor)?.iter().map(|element| element.to_f64().powi(2));
            squares += of_tensor.sum::<f64>();
        }
        Ok(squares.sqrt())
    }

    /// Scales all gradients so that their norm is at most `most`, and returns the norm before the
    /// scaling. Returns [`Error::Norm`] if `most` is negative or not a number. Every rank computes
    /// the same result by itself. Blocks until all gradients have been copied back to the host.
    pub fn clip_norm(&mut self, most: f64) -> Result<f64> {
        if most.is_nan() || most < 0.0 {
            return Err(Error::Norm { most });
        }
        let norm = self.norm()?;
        if norm > most {
            let factor = (most / norm) as f32;
            for bucket in &mut self.buckets.buckets {
                scale(bucket.host.as_mut_slice()?, factor);
            }
        }
        Ok(norm)
    }

    /// Returns the times of a bucket. `bucket` is its index in [`GradientBuckets::layout`]. Returns
    /// `None` without [`BucketOptions::timed`](super::BucketOptions::timed), for a bucket without
    /// elements, and for an index beyond the last bucket.
    pub fn events(&self, bucket: usize) -> Option<&BucketEvents> {
        self.buckets.buckets.get(bucket)?.events.as_ref()
    }
}
