//! burn's training loop, with a replica of the model on every rank.

use std::sync::{Mutex, PoisonError};

use burn::tensor::Device;
use burn::train::train::WorkerFailure;
use burn::train::{
    EventProcessorTraining, InferenceStep, Interrupter, Learner, LearnerEvent, LearnerModel,
    SupervisedLearningStrategy, SupervisedTrainingEventProcessor, TrainLoader, TrainingComponents,
    TrainingError, TrainingItem, ValidLoader,
};
use hccl::prelude::*;
use hccl_train::BucketOptions;

use crate::error::Result;
use crate::replicas::{OwnGradients, Replicas};

/// A strategy for burn's `SupervisedTraining`: every rank has the model and a part of each batch.
///
/// Each rank launches a training with a strategy of its own, and with the same model, optimiser and
/// number of epochs. The loader for training gives the rows of this rank, as [`RankLoader`] does.
/// The loader for validation gives the same rows on all ranks. A training begins with the
/// parameters of rank 0.
///
/// - Gradients are averaged over the rows of all ranks. The number of rows of a batch is the
///   increase of the loader's progress, and at least one. Ranks may have different numbers of
///   batches.
/// - burn has no hook for a gradient, so gradients are sent after the backward pass. Only the copy
///   of a bucket overlaps with the sum of the bucket before it.
/// - If one rank stops early or is interrupted, all ranks stop after the same step or epoch.
/// - Only rank 0 writes checkpoints. All ranks read them.
/// - An error of `hccl` ends the training. burn reports it as the error of a worker with the number
///   of this rank.
///
/// [`RankLoader`]: crate::RankLoader
pub struct DataParallel {
    ranks: Mutex<(Communicator, Stream)>,
    options: BucketOptions,
    device: Device,
}

impl DataParallel {
    /// Makes a strategy for all ranks of a communicator. The strategy works on this stream. burn
    /// computes on its default device.
    pub fn new(comm: Communicator, stream: Stream) -> Self {
        let (ranks, options) = (Mutex::new((comm, stream)), BucketOptions::default());
        Self { ranks, options, device: Device::default() }
    }

    /// Sets the options for the buckets of gradients.
    pub fn buckets(self, options: BucketOptions) -> Self {
        Self { options, ..self }
    }

    /// Sets the device on which burn computes. Gradients go through the memory of the host in any
    /// case.
    pub fn device(self, device: Device) -> Self {
        Self { device, ..self }
    }
}

impl<M: LearnerModel> SupervisedLearningStrategy<M> for DataParallel {
    fn fit(
        &self,
        components: TrainingComponents<M>,
        mut learner: Learner<M>,
        train: TrainLoader<M>,
        valid: ValidLoader<M>,
        starting_epoch: usize,
    ) -> (M, SupervisedTrainingEventProcessor<M>) {
        let device = match self.device.is_autodiff() {
            true => self.device.clone(),
            false => self.device.clone().autodiff(),
        };
        learner.fork(&device);
        let (comm, stream) = &mut *self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        let rank = comm.rank();
        let interrupter = components.interrupter.clone();
        let mut fit = Fit {
            train: train.to_device(&device),
            valid: valid.to_device(&device.inner()),
            learner,
            components,
            is_main: rank == 0,
        };
        let replicas = Replicas::new(self.options, &fit.learner.model(), comm, stream);
        if let Err(error) = replicas.and_then(|ranks| fit.epochs(ranks, starting_epoch)) {
            let failure = WorkerFailure { device_id: rank as usize, message: error.to_string() };
            interrupter.fail(TrainingError::Workers(vec![failure]));
        }
        (fit.learner.model(), fit.components.event_processor)
    }
}

/// A training on this rank.
struct Fit<M: LearnerModel> {
    learner: Learner<M>,
    train: TrainLoader<M>,
    valid: ValidLoader<M>,
    components: TrainingComponents<M>,
    is_main: bool,
}

impl<M: LearnerModel> Fit<M> {
    fn epochs(&mut self, mut ranks: Replicas<'_>, starting_epoch: usize) -> Result<()> {
        let model = ranks.same(self.learner.model())?;
        self.learner.load_model(model.into_record());
        for epoch in starting_epoch..=self.components.num_epochs {
            if self.epoch(&mut ranks, epoch)? {
                break;
            }
        }
        Ok(())
    }

    /// Runs an epoch. Returns whether it is the last epoch on all ranks.
    fn epoch(&mut self, ranks: &mut Replicas<'_>, epoch: usize) -> Result<bool> {
        let (train, valid) = (self.train.num_items(), self.valid.num_items());
        let start = |total_items| LearnerEvent::StartSplit { epoch_number: epoch, total_items };
        self.tell_train(start(train));
        let stops = self.train_epoch(ranks)?;
        self.tell_train(LearnerEvent::EndSplit(epoch));
        if stops {
            return Ok(true);
        }
        self.tell_valid(LearnerEvent::StartSplit { epoch_number: epoch, total_items: valid });
        self.valid_epoch();
        self.tell_valid(LearnerEvent::EndSplit(epoch));
        self.tell_train(LearnerEvent::EndEpoch(epoch));

        let components = &mut self.components;
        if components.checkpointer.is_some() || components.early_stopping.is_some() {
            components.interrupter.fail_on_error(components.event_processor.flush());
        }
        let interrupted = components.interrupter.should_stop();
        if let Some(checkpointer) = components.checkpointer.as_mut().filter(|_| self.is_main)
            && !interrupted
        {
            checkpointer.checkpoint(&self.learner, epoch, &components.event_store);
        }
        let store = &components.event_store;
        let early = components.early_stopping.as_mut();
        let stops = interrupted || early.is_some_and(|early| early.should_stop(epoch, store));
        ranks.any(stops)
    }

    /// Runs the steps of an epoch. Returns whether a rank requests to stop.
    fn train_epoch(&mut self, ranks: &mut Replicas<'_>) -> Result<bool> {
        let accumulation = self.components.grad_accumulation.unwrap_or(1).max(1);
        let interrupter = self.components.interrupter.clone();
        let loader = self.train.clone();
        let mut batches = loader.iter();
        let (mut iteration, mut processed) = (0, 0);
        loop {
            let model = self.learner.model();
            let (mut own, mut items) = (OwnGradients::default(), Vec::new());
            while items.len() < accumulation && !interrupter.should_stop() {
                let Some(batch) = next(&mut *batches, &interrupter) else { break };
                let progress = batches.progress();
                let rows = progress.items_processed.saturating_sub(processed).max(1);
                processed = progress.items_processed;
                let output = self.learner.train_step(batch);
                own.add(&model, output.grads, rows)?;
                items.push((output.item, progress));
            }
            let mean = ranks.mean(&model, own, interrupter.should_stop())?;
            let is_over = mean.gradients.is_none();
            if let Some(gradients) = mean.gradients {
                self.learner.lr_step();
                self.learner.optimizer_step(gradients);
            }
            for (item, progress) in items {
                iteration += 1;
                let rate = Some(self.learner.lr_current());
                let item = TrainingItem::new(item, progress, Some(iteration), rate);
                self.tell_train(LearnerEvent::ProcessedItem(item));
            }
            if mean.stops && !interrupter.should_stop() {
                interrupter.stop(Some("another rank has stopped"));
            }
            if mean.stops || is_over {
                return Ok(mean.stops);
            }
        }
    }

    fn valid_epoch(&mut self) {
        let interrupter = self.components.interrupter.clone();
        let model = self.learner.model().valid();
        let loader = self.valid.clone();
        let mut batches = loader.iter();
        let mut iteration = 0;
        while let Some(batch) = next(&mut *batches, &interrupter) {
            iteration += 1;
            let item = InferenceStep::step(&model, batch);
            let item = TrainingItem::new(item, batches.progress(), Some(iteration), None);
            self.tell_valid(LearnerEvent::ProcessedItem(item));
            if interrupter.should_stop() {
                break;
            }
        }
    }

    fn tell_train(&mut self, event: LearnerEvent<<M as burn::train::TrainStep>::Output>) {
        let told = self.components.event_processor.process_train(event);
        self.components.interrupter.fail_on_error(told);
    }

    fn tell_valid(&mut self, event: LearnerEvent<<M as InferenceStep>::Output>) {
        let told = self.components.event_processor.process_valid(event);
        self.components.interrupter.fail_on_error(told);
    }
}

/// Loads the next batch. Stops the training if the batch cannot be loaded.
fn next<O>(
    batches: &mut dyn burn::data::dataloader::DataLoaderIterator<O>,
    interrupter: &Interrupter,
) -> Option<O> {
    batches.next()?.map_err(|error| interrupter.fail(error)).ok()
}
