//! The training loop of one rank. This is the part to copy.
//!
//! Every rank holds a replica of the whole network and takes its shard of each batch. As soon as
//! the gradient of a layer is computed, its bucket is enqueued on the stream (upload, all-reduce,
//! download), and the backward pass continues. The rank waits for a bucket only just before the
//! optimiser needs it. All ranks get the same sums, so that their replicas stay the same without
//! ever being compared.

use std::error::Error;
use std::time::Instant;

use hccl::prelude::*;

use hccl_train::{BucketOptions, FixedSum, GradientBuckets};

use super::data::{CLASSES, Digits, PIXELS};
use super::device_clock::DeviceClock;
use super::network::{Momentum, Network, softmax_cross_entropy};
use super::timeline::{Activity, Message, Recorder, Span, Step, times_of, with_times};

/// A result whose error comes from `hccl`, or from a shape that does not fit.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The settings that decide the outcome together with the data.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The number of ranks that share each batch.
    pub ranks: usize,
    /// The number of times that each row is learned.
    pub epochs: usize,
    /// The number of rows of a step, over all ranks. The last step of an epoch takes the remaining
    /// rows.
    pub batch: usize,
    /// The widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// The learning rate: the length of a step down the gradient.
    pub rate: f32,
    /// The share of its velocity that the optimiser keeps.
    pub momentum: f32,
    /// The seed for the first weights and the order of the rows.
    pub seed: u64,
    /// The number of shards into which each batch is cut. The bits of the results are the same at
    /// any number of ranks that divides it. `None` means one shard for each rank.
    pub logical_shards: Option<usize>,
}

impl Recipe {
    /// Returns the default recipe of the example.
    ///
    /// The held-out rows had no influence on it: the program does not use them before the training
    /// is over.
    pub fn new(ranks: usize) -> Self {
        Self {
            ranks,
            epochs: 30,
            batch: 128,
            hidden: vec![512, 512],
            rate: 0.2,
            momentum: 0.9,
            seed: 1,
            logical_shards: None,
        }
    }

    /// Returns the widths of all layers, pixels first.
    pub fn widths(&self) -> Vec<usize> {
        let mut widths = vec![PIXELS];
        widths.extend(&self.hidden);
        widths.push(CLASSES);
        widths
    }

    /// Returns the number of steps in an epoch over this many rows.
    pub fn steps_per_epoch(&self, rows: usize) -> usize {
        rows.div_ceil(self.batch)
    }
}

/// The outcome of one rank.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The number of the rank.
    pub rank: usize,
    /// The trained network, with the same bits on every rank.
    pub network: Network,
    /// The mean loss of each step's batch, over all ranks, with the same bits on every rank.
    pub losses: Vec<f32>,
    /// The records of the steps of all ranks. Empty except on rank 0.
    pub steps: Vec<Vec<Step>>,
}

/// Trains on all ranks of the recipe, and returns the outcomes of this process's ranks: all of
/// them, or the one that a launcher has started as this process.
///
/// Blocks until they are done. Rank 0 calls `progress` after every step with the loss.
pub fn train(
    runtime: &Runtime,
    digits: &Digits,
    recipe: &Recipe,
    progress: impl Fn(f32) + Sync,
) -> Result<Vec<Outcome>> {
    let ranks = recipe.ranks as u32;
    let outcomes = runtime.run_job(ranks, |rank| -> Result<Outcome> {
        let mut random = fastrand::Rng::with_seed(recipe.seed);
        let mut replica = Replica::new(&rank, recipe, &mut random)?;
        let (index, ranks) = (rank.index() as usize, rank.world_size() as usize);
        let mut order: Vec<usize> = (0..digits.len()).collect();
        let mut losses = Vec::new();
        for _ in 0..recipe.epochs {
            // Every rank draws the same numbers, so all agree on the order without a message.
            random.shuffle(&mut order);
            for batch in order.chunks(recipe.batch) {
                let loss = match recipe.logical_shards {
                    None => {
                        let shard = shard(batch, index, ranks);
                        replica.step(&digits.select(shard), batch.len())?
                    }
                    Some(shards) => replica.step_in_shards(digits, batch, FixedSum::new(shards))?,
                };
                losses.push(loss);
                if index == 0 {
                    progress(loss);
                }
            }
        }
        let (network, steps) = replica.finish()?;
        Ok(Outcome { rank: index, network, losses, steps })
    })?;
    Ok(outcomes)
}

/// Returns this rank's part of a batch. The parts differ by at most one row, and no row is left
/// out.
pub fn shard(batch: &[usize], rank: usize, ranks: usize) -> &[usize] {
    &batch[batch.len() * rank / ranks..batch.len() * (rank + 1) / ranks]
}

/// The working state of one rank.
struct Replica {
    stream: Stream,
    comm: Communicator,
    network: Network,
    rate: f32,
    optimisers: Vec<Momentum>,
    /// A bucket for each layer. The bucket of the output layer also has room for the loss, after
    /// the gradient.
    buckets: GradientBuckets<f32>,
    /// The number of elements of each bucket.
    lengths: Vec<usize>,
    recorder: Recorder,
}

impl Replica {
    fn new(rank: &Rank, recipe: &Recipe, random: &mut fastrand::Rng) -> Result<Self> {
        let stream = rank.device().stream()?;
        let network = Network::new(&recipe.widths(), random);
        let optimisers = network.layers.iter().map(|l| Momentum::new(l, recipe.momentum)).collect();
        let mut lengths: Vec<usize> = network.layers.iter().map(|l| l.parameters()).collect();
        lengths.iter_mut().next_back().into_iter().for_each(|last| *last += 1);
        // The buckets are as small as possible, so that each layer of this small network has its
        // own.
        let options = BucketOptions::default().bytes(1).timed(true);
        let buckets = GradientBuckets::with(options, &lengths, &stream)?;
        let mut comm = rank.communicator()?;
        // The ranks may be processes with unrelated clocks, so all ranks count from this barrier.
        comm.barrier(&stream)?.wait()?;
        let recorder = Recorder::new(Instant::now());
        let rate = recipe.rate;
        Ok(Self { stream, comm, network, rate, optimisers, buckets, lengths, recorder })
    }

    /// Returns the network, and on rank 0 the records of all ranks.
    fn finish(mut self) -> Result<(Network, Vec<Vec<Step>>)> {
        let own = self.recorder.into_steps();
        let times = times_of(&own);
        let device = self.stream.device();
        let mine = device.upload(&times, &self.stream)?;
        let ranks = self.comm.world_size() as usize;
        let all = device.alloc(times.len() * ranks)?;
        // The times differ between runs that are otherwise the same, so they are not recorded.
        self.comm.set_recorded(false);
        let (all, _) = self.comm.all_gather(&mine, all, &self.stream)?;
        let all = all.to_vec(&self.stream).wait()?;
        // All ranks have the same steps, so only the times differ.
        let of_each = all.chunks(times.len()).map(|times| with_times(&own, times));
        let steps = if self.comm.rank() == 0 { of_each.collect() } else { Vec::new() };
        Ok((self.network, steps))
    }

    /// Runs one step on this rank's shard of a batch of `rows` rows. Returns the mean loss of the
    /// whole batch.
    fn step(&mut self, shard: &Digits, rows: usize) -> Result<f32> {
        let Self { stream, comm, network, rate, optimisers, buckets, lengths, recorder } = self;
        recorder.begin_step();
        let clock = DeviceClock::set(stream, recorder.now())?;

        let images = shard.images.view();
        let (outputs, loss, mut delta) = recorder.record(Activity::Forward, || {
            let outputs = network.forward(images);
            let logits = outputs.last().ok_or("a network without layers")?;
            let (loss, delta) = softmax_cross_entropy(logits, &shard.labels);
            Result::Ok((outputs, loss, delta))
        })?;

        // The gradients are divided by the rows of all ranks, so that the sum over the ranks is the
        // mean over the batch for any sizes of the shards.
        let scale = 1.0 / rows as f32;
        let mut step = buckets.step(comm, stream).scale(1.0);
        let mut enqueued = vec![0.0; lengths.len()];
        for (index, layer) in network.layers.iter().enumerate().rev() {
            let inputs = if index == 0 { images } else { outputs[index - 1].view() };
            // The bucket is enqueued, but not awaited: the ranks sum it during the backward pass of
            // the next layer.
            step.push_with(index, |gradient| {
                let written = recorder.record(Activity::Backward(index + 1), || {
                    let (of_layer, rest) = gradient.split_at_mut(layer.parameters());
                    rest.fill(loss * scale);
                    layer.backward(&inputs, &delta, scale, of_layer)
                });
                enqueued[index] = recorder.now();
                written
            })??;
            let span = Span { from: enqueued[index], to: recorder.now() };
            recorder.note(Activity::Enqueue(index + 1), span);
            if index > 0 {
                delta = recorder
                    .record(Activity::Backward(index + 1), || layer.delta_before(&inputs, &delta));
            }
        }

        let gradients = step.finish()?;
        let mut mean_loss = 0.0;
        let mut known = vec![Span { from: 0.0, to: 0.0 }; lengths.len()];
        for (index, layer) in network.layers.iter_mut().enumerate().rev() {
            let sum = recorder.record(Activity::Wait(index + 1), || gradients.get(index))?;
            known[index] = Span { from: enqueued[index], to: recorder.now() };
            recorder.record(Activity::Update(index + 1), || {
                let (gradient, rest) = sum.split_at(layer.parameters());
                mean_loss = rest.first().copied().unwrap_or(mean_loss);
                Result::Ok(optimisers[index].step(layer, gradient, *rate)?)
            })?;
        }
        // The buckets are in the order of the backward pass: the first one has the last layer.
        for (bucket, index) in (0..lengths.len()).rev().enumerate() {
            let events = gradients.events(bucket).ok_or("a bucket without events")?;
            let (span, arrived) = clock.span(events, known[index])?;
            let bytes = size_of::<f32>() * lengths[index];
            recorder.message(Message { layer: index + 1, bytes, span, arrived });
        }
        Ok(mean_loss)
    }

    /// Runs one step on this rank's logical shards of a batch. The gradients of the shards are kept
    /// apart, and added in an order that does not depend on the ranks. Returns the mean loss of the
    /// whole batch.
    fn step_in_shards(&mut self, digits: &Digits, batch: &[usize], fixed: FixedSum) -> Result<f32> {
        let Self { stream, comm, network, rate, optimisers, recorder, .. } = self;
        recorder.begin_step();
        let scale = 1.0 / batch.len() as f32;
        let mut of_shards = Vec::new();
        for number in fixed.shards_of(comm)? {
            let rows = digits.select(shard(batch, number, fixed.shards()));
            let compute = || network.gradient(rows.images.view(), &rows.labels, scale);
            of_shards.push(recorder.record(Activity::Backward(1), compute)?);
        }
        let sum = recorder.record(Activity::Wait(1), || fixed.sum(&of_shards, comm, stream))?;
        let mut rest = &sum[..];
        for (index, layer) in network.layers.iter_mut().enumerate() {
            let (gradient, others) = rest.split_at(layer.parameters());
            let update = || optimisers[index].step(layer, gradient, *rate);
            recorder.record(Activity::Update(index + 1), update)?;
            rest = others;
        }
        Ok(rest.first().copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_the_whole_batch_in_order() {
        let batch: Vec<usize> = (10..23).collect();
        for ranks in 1..=16 {
            let shards: Vec<_> = (0..ranks).map(|rank| shard(&batch, rank, ranks)).collect();
            assert_eq!(shards.concat(), batch);
            let sizes = || shards.iter().map(|shard| shard.len());
            assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1);
        }
    }
}
