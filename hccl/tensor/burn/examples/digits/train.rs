//! A network learns to read digits in burn's training loop, with a replica on each rank.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::{Dataset, InMemDataset};
use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::SgdConfig;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::logger::MetricLogger;
use burn::train::metric::store::{EpochSummary, MetricsUpdate, Split};
use burn::train::metric::{LossMetric, MetricDefinition, NumericEntry};
use burn::train::{
    ClassificationOutput, InferenceStep, Learner, SupervisedTraining, TrainOutput, TrainStep,
    TrainingStrategy,
};
use hccl::prelude::*;
use hccl_burn::{DataParallel, RankLoader, Silent};
use hccl_tensor_digits::data::{Digits, Split as Rows};
use hccl_tensor_digits::{BATCH, Curve, EPOCHS, RATE, WIDTHS, weights};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A network of three linear layers.
#[derive(Module, Debug)]
pub struct Network {
    first: Linear,
    second: Linear,
    third: Linear,
}

/// Makes a layer with the same first weights in every run, so that runs can be compared.
fn layer(number: usize, device: &Device) -> Linear {
    let (inputs, outputs) = (WIDTHS[number], WIDTHS[number + 1]);
    let weight = TensorData::new(weights(number), [outputs, inputs]);
    let weight = Tensor::<2>::from_data(weight, device).transpose();
    let bias = Tensor::<1>::zeros([outputs], device);
    Linear { weight: Param::from_tensor(weight), bias: Some(Param::from_tensor(bias)) }
}

impl Network {
    fn new(device: &Device) -> Self {
        Self { first: layer(0, device), second: layer(1, device), third: layer(2, device) }
    }

    fn forward(&self, images: Tensor<2>) -> Tensor<2> {
        let hidden = relu(self.first.forward(images));
        self.third.forward(relu(self.second.forward(hidden)))
    }

    fn classify(&self, batch: Batch) -> ClassificationOutput {
        let output = self.forward(batch.images);
        let loss = CrossEntropyLossConfig::new().init(&output.device());
        let loss = loss.forward(output.clone(), batch.labels.clone());
        ClassificationOutput::new(loss, output, batch.labels)
    }
}

impl TrainStep for Network {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Network {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.classify(batch)
    }
}

/// Images, a row each, and their labels.
#[derive(Clone, Debug)]
pub struct Batch {
    images: Tensor<2>,
    labels: Tensor<1, Int>,
}

type Digit = (Vec<f32>, u8);

/// A batcher that puts digits into a batch.
struct Together;

impl Batcher<Digit, Batch> for Together {
    fn batch(&self, digits: Vec<Digit>, device: &Device) -> Batch {
        let rows = digits.len();
        let labels: Vec<i64> = digits.iter().map(|(_, label)| i64::from(*label)).collect();
        let pixels: Vec<f32> = digits.into_iter().flat_map(|(pixels, _)| pixels).collect();
        let images = TensorData::new(pixels, [rows, WIDTHS[0]]);
        let labels = TensorData::new(labels, [rows]);
        Batch {
            images: Tensor::from_data(images, device),
            labels: Tensor::from_data(labels, device),
        }
    }
}

fn dataset(digits: &Digits) -> InMemDataset<Digit> {
    let images = digits.images.rows().into_iter().map(|row| row.to_vec());
    InMemDataset::new(images.zip(digits.labels.iter().copied()).collect())
}

/// A logger that records the loss of each epoch over the held-out rows.
#[derive(Clone, Default)]
struct Losses(Arc<Mutex<Vec<f32>>>);

impl MetricLogger for Losses {
    fn log(&mut self, update: MetricsUpdate, epoch: usize, split: &Split) {
        let entry = update.entries_numeric.first();
        if let (Split::Valid, Some(entry)) = (split, entry.and_then(|e| e.running_entry.as_ref())) {
            let mut losses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            losses.resize(epoch, 0.0);
            losses[epoch - 1] = entry.current() as f32;
        }
    }

    fn read_numeric(
        &mut self,
        _: &str,
        _: usize,
        _: &Split,
    ) -> std::result::Result<Vec<NumericEntry>, String> {
        Ok(Vec::new())
    }

    fn log_metric_definition(&mut self, _: MetricDefinition) {}

    fn log_epoch_summary(&mut self, _: EpochSummary) {}
}

/// Trains with the network and a part of each batch on every rank.
pub fn data_parallel(ranks: usize, rows: &Rows) -> Result<Curve> {
    let began = Instant::now();
    let runtime = Runtime::emulator(ranks)?;
    let of_ranks = runtime.run_ranks(ranks as u32, |rank| train(&rank, rows))?;
    let (losses, accuracy) = of_ranks.into_iter().next().ok_or("no rank")?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Curve { way: "data parallel", ranks, losses, accuracy, seconds })
}

/// Trains on one rank. Returns the losses, and the share of the held-out rows that the network
/// reads at the end.
fn train(rank: &Rank, rows: &Rows) -> Result<(Vec<f32>, f64)> {
    let (index, ranks) = (rank.index() as usize, rank.world_size() as usize);
    let strategy = DataParallel::new(rank.communicator()?, rank.device().stream()?);
    // A rank learns its part of each batch, and examines all held-out rows.
    let learned = RankLoader::new(dataset(&rows.training), Together, BATCH, index, ranks)?;
    let held_out = rows.held_out.len();
    let examined = RankLoader::new(dataset(&rows.held_out), Together, held_out, 0, 1)?;
    let losses = Losses::default();
    let device = Device::default().autodiff();
    let learner = Learner::new(Network::new(&device), SgdConfig::new().init(), RATE);

    let result = SupervisedTraining::new("", Arc::new(learned.shuffle(1)), Arc::new(examined))
        .metrics((LossMetric::new(),))
        .num_epochs(EPOCHS)
        .with_training_strategy(TrainingStrategy::Custom(Arc::new(strategy)))
        .with_metric_logger(losses.clone())
        .with_application_logger(None)
        .renderer(Box::new(Silent))
        .launch(learner);
    if let Some(error) = result.error {
        return Err(error.to_string().into());
    }
    let digits: Vec<Digit> =
        dataset(&rows.held_out).iter().collect::<std::result::Result<_, _>>()?;
    let batch = Together.batch(digits, &Device::default());
    let read = result.model.forward(batch.images).argmax(1).squeeze_dim::<1>(1);
    let right = read.equal(batch.labels).int().sum().into_scalar::<i64>();
    let losses = losses.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok((losses, right as f64 / held_out as f64))
}
