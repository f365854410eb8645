//! Tests the strategy: its steps are those of burn on one device, and all ranks end together.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::data::dataloader::DataLoader;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::{Dataset, DatasetError, InMemDataset};
use burn::optim::SgdConfig;
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::logger::InMemoryMetricLogger;
use burn::train::metric::store::EventStoreClient;
use burn::train::{
    EarlyStoppingStrategy, Learner, LearningResult, SupervisedTraining, TrainingStrategy,
};
use hccl::prelude::*;
use hccl_burn::{DataParallel, RankLoader, Silent};
use hccl_train::BucketOptions;

use crate::toy::{Batch, Toy};

type Row = [f32; 3];
type Loader = RankLoader<Row, Batch>;

struct Together;

impl Batcher<Row, Batch> for Together {
    fn batch(&self, rows: Vec<Row>, device: &Device) -> Batch {
        let data = TensorData::new(rows.concat(), [rows.len(), 3]);
        Tensor::from_data(data, device)
    }
}

fn rows(from: usize, to: usize) -> InMemDataset<Row> {
    let row = |at: usize| [0.3, 1.1, 2.3].map(|by| (at as f32 * by).cos());
    InMemDataset::new((from..to).map(row).collect())
}

fn loader(from: usize, to: usize, batch: usize, rank: usize, ranks: usize) -> Loader {
    RankLoader::new(rows(from, to), Together, batch, rank, ranks).unwrap()
}

fn training(loader: impl DataLoader<Batch> + 'static) -> SupervisedTraining<Toy> {
    training_in("".as_ref(), loader)
}

fn training_in(
    directory: &Path,
    loader: impl DataLoader<Batch> + 'static,
) -> SupervisedTraining<Toy> {
    let valid = self::loader(0, 2, 2, 0, 1);
    SupervisedTraining::<Toy>::new(directory, Arc::new(loader), Arc::new(valid))
        .num_epochs(3)
        .with_metric_logger(InMemoryMetricLogger::new())
        .with_application_logger(None)
        .renderer(Box::new(Silent))
}

fn learner(seed: f32) -> Learner<Toy> {
    // With weight decay a gradient of zeros would change a parameter.
    let decay = burn::optim::decay::WeightDecayConfig::new(0.1);
    let optimiser = SgdConfig::new().with_weight_decay(Some(decay)).init();
    Learner::new(Toy::new(seed, &Device::default().autodiff()), optimiser, 0.5)
}

/// Returns the parameters after a training by burn on one device.
fn by_burn(loader: Loader, accumulation: usize) -> Vec<f32> {
    let result = training(loader).grads_accumulation(accumulation).launch(learner(0.0));
    assert!(result.error.is_none());
    result.model.numbers()
}

/// Launches a training on each rank.
fn on_ranks<T: Send>(
    ranks: u32,
    launch: impl Fn(usize, DataParallel) -> hccl_burn::Result<T> + Sync,
) -> Vec<T> {
    let runtime = Runtime::emulator(ranks as usize).unwrap();
    let of_ranks = runtime.run_ranks(ranks, |rank| {
        let strategy = DataParallel::new(rank.communicator()?, rank.device().stream()?);
        launch(rank.index() as usize, strategy)
    });
    of_ranks.unwrap()
}

fn custom(strategy: DataParallel) -> TrainingStrategy<Toy> {
    TrainingStrategy::Custom(Arc::new(strategy))
}

fn numbers(result: LearningResult<Toy>) -> Vec<f32> {
    let error = result.error.map(|error| error.to_string());
    assert_eq!(error, None);
    result.model.numbers()
}

fn assert_near(given: &[f32], expected: &[f32]) {
    assert_eq!(given.len(), expected.len());
    let near = |(one, other): (&f32, &f32)| (one - other).abs() < 1e-5;
    assert!(given.iter().zip(expected).all(near), "{given:?} is not {expected:?}");
}

#[test]
fn any_number_of_ranks_takes_the_steps_of_burn_on_one_device() {
    // The batches of 11 rows have 4, 4 and 3 rows. One of four ranks has no row of the last batch.
    let expected = by_burn(loader(0, 11, 4, 0, 1).shuffle(5), 1);
    assert_ne!(expected[..8], learner(0.0).model().numbers()[..8]);
    for ranks in [1, 2, 3, 4] {
        for bytes in [1, 25_000_000] {
            let of_ranks = on_ranks(ranks, |rank, strategy| {
                let strategy = strategy.buckets(BucketOptions::default().bytes(bytes));
                let part = loader(0, 11, 4, rank, ranks as usize).shuffle(5);
                // All ranks begin with the parameters of rank 0.
                let launch = training(part).with_training_strategy(custom(strategy));
                Ok(numbers(launch.launch(learner(rank as f32))))
            });
            assert_near(&of_ranks[0], &expected);
            // All ranks have the same bits. Values that are not learned come from rank 0, too.
            assert!(of_ranks.iter().all(|of_rank| *of_rank == of_ranks[0]));
        }
    }
}

#[test]
fn accumulated_batches_are_added_up_as_burn_does() {
    let expected = by_burn(loader(0, 12, 2, 0, 1), 3);
    let of_ranks = on_ranks(2, |rank, strategy| {
        let training = training(loader(0, 12, 2, rank, 2)).grads_accumulation(3);
        Ok(numbers(training.with_training_strategy(custom(strategy)).launch(learner(0.0))))
    });
    of_ranks.iter().for_each(|of_rank| assert_near(of_rank, &expected));
}

#[test]
fn ranks_with_different_numbers_of_batches_end_their_epochs_together() {
    // Rank 0 has five batches of one row. Rank 1 has one batch of two rows.
    let of_ranks = on_ranks(2, |rank, strategy| {
        let part = if rank == 0 { loader(0, 5, 1, 0, 1) } else { loader(5, 7, 2, 0, 1) };
        let training = training(part).with_training_strategy(custom(strategy));
        Ok(numbers(training.launch(learner(0.0))))
    });
    assert_eq!(of_ranks[0], of_ranks[1]);
    assert_ne!(of_ranks[0][..8], learner(0.0).model().numbers()[..8]);
}

/// A batcher that stops the training when the third batch is loaded.
struct Stopping {
    interrupter: burn::train::Interrupter,
    batches: AtomicUsize,
}

impl Batcher<Row, Batch> for Stopping {
    fn batch(&self, rows: Vec<Row>, device: &Device) -> Batch {
        if self.batches.fetch_add(1, Ordering::Relaxed) == 2 {
            self.interrupter.stop(Some("three are enough"));
        }
        Together.batch(rows, device)
    }
}

#[test]
fn if_one_rank_is_interrupted_all_stop_after_the_same_step() {
    let expected = by_burn(loader(0, 12, 4, 0, 1), 1);
    let of_ranks = on_ranks(2, |rank, strategy| {
        let interrupter = burn::train::Interrupter::new();
        let batcher = Stopping { interrupter: interrupter.clone(), batches: AtomicUsize::new(0) };
        let part = match rank {
            0 => loader(0, 24, 4, rank, 2),
            _ => RankLoader::new(rows(0, 24), batcher, 4, rank, 2)?,
        };
        let training = training(part).num_epochs(1).with_interrupter(interrupter);
        let result = training.with_training_strategy(custom(strategy)).launch(learner(0.0));
        let reason = result.interrupted.clone().and_then(|interruption| interruption.reason);
        Ok((numbers(result), reason))
    });
    assert_eq!(of_ranks[0].0, of_ranks[1].0);
    assert_eq!(of_ranks[0].1.as_deref(), Some("another rank has stopped"));
    assert_eq!(of_ranks[1].1.as_deref(), Some("three are enough"));
    // Three batches of 4 rows are the same as one epoch over 12 rows.
    let three = training(loader(0, 12, 4, 0, 1)).num_epochs(1).launch(learner(0.0));
    assert_near(&of_ranks[0].0, &numbers(three));
    assert_ne!(of_ranks[0].0, expected);
}

/// A dataset whose rows cannot be read.
struct Broken;

impl Dataset<Row> for Broken {
    fn get(&self, _: usize) -> Result<Row, DatasetError> {
        Err(DatasetError::new(std::io::Error::other("the disk is gone")))
    }

    fn len(&self) -> usize {
        6
    }
}

#[test]
fn if_one_rank_cannot_load_its_rows_all_stop() {
    let of_ranks = on_ranks(2, |rank, strategy| {
        let part = match rank {
            0 => loader(0, 6, 2, 0, 2),
            _ => RankLoader::new(Broken, Together, 2, 1, 2)?,
        };
        let training = training(part).with_training_strategy(custom(strategy));
        let result = training.launch(learner(0.0));
        Ok((result.error.map(|error| error.to_string()), result.interrupted.is_some()))
    });
    assert_eq!(of_ranks[0], (None, true));
    let error = of_ranks[1].0.as_deref().unwrap();
    assert!(error.contains("the disk is gone"), "{error}");
}

/// A strategy that ends the training after some epochs.
#[derive(Clone)]
struct After(usize);

impl EarlyStoppingStrategy for After {
    fn should_stop(&mut self, epoch: usize, _: &EventStoreClient) -> bool {
        epoch >= self.0
    }
}

#[test]
fn if_one_rank_stops_early_all_do_after_the_same_epoch() {
    let of_ranks = on_ranks(3, |rank, strategy| {
        let training = training(loader(0, 9, 3, rank, 3)).num_epochs(50);
        let training = training.early_stopping(After(if rank == 2 { 2 } else { 50 }));
        Ok(numbers(training.with_training_strategy(custom(strategy)).launch(learner(0.0))))
    });
    let two = training(loader(0, 9, 3, 0, 1)).num_epochs(2).launch(learner(0.0));
    let two = numbers(two);
    of_ranks.iter().for_each(|of_rank| assert_near(of_rank, &two));
}

#[test]
fn only_rank_0_writes_checkpoints_and_all_go_on_from_them() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("checkpoints");
    let _ = fs::remove_dir_all(&folder);
    let launch = |strategy, rank: usize, of_rank: usize, epochs, checkpoint: Option<usize>| {
        let directory = folder.join(of_rank.to_string());
        let training = training_in(&directory, loader(0, 8, 4, rank, 2)).num_epochs(epochs);
        let training = training.with_default_checkpointers();
        let training = match checkpoint {
            Some(epoch) => training.checkpoint(epoch),
            None => training,
        };
        numbers(training.with_training_strategy(custom(strategy)).launch(learner(0.0)))
    };
    // A folder for each rank shows which ranks write.
    on_ranks(2, |rank, strategy| Ok(launch(strategy, rank, rank, 2, None)));
    let files =
        |rank: &str| fs::read_dir(folder.join(rank).join("checkpoint")).map_or(0, Iterator::count);
    assert!(files("0") > 0);
    assert_eq!(files("1"), 0);
    // All ranks read the checkpoints of rank 0.
    let went_on = on_ranks(2, |rank, strategy| Ok(launch(strategy, rank, 0, 3, Some(2))));
    let at_once = numbers(training(loader(0, 8, 4, 0, 1)).launch(learner(0.0)));
    went_on.iter().for_each(|of_rank| assert_near(of_rank, &at_once));
}

#[test]
fn an_error_of_hccl_ends_the_training_with_the_rank_and_the_reason() {
    let of_ranks = on_ranks(2, |rank, strategy| {
        // One rank leaves before the first step.
        if rank == 1 {
            return Ok(None);
        }
        let training = training(loader(0, 4, 2, 0, 2)).with_training_strategy(custom(strategy));
        let error = training.launch(learner(0.0)).error;
        Ok(Some(error.map(|error| error.to_string()).unwrap_or_default()))
    });
    let error = of_ranks[0].as_deref().unwrap();
    assert!(error.starts_with("training worker on device 0 failed: "), "{error}");
}
