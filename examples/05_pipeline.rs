//! 5. A pipeline of four stages, one forward, one backward (1F1B).
//!
//! A network too large for one device is cut between its layers: each rank is a *stage* and has one
//! layer. A batch is cut into micro-batches, so that the stages work on different micro-batches at
//! the same time. After a few forward passes that fill the pipeline, a stage runs one backward pass
//! for each forward pass. So a stage keeps the inputs of only a few micro-batches: at most as many
//! as there are stages from this one to the last, however large the batch is.
//!
//! The output of a stage and its next input are in one batch of messages. If a stage sent first and
//! received afterwards, two neighbours would each wait for the other to receive.
//!
//! `hccl-train` has the schedule, the messages and the picture; this file has the computation of a
//! stage.
//!
//! At the end the weights are compared with those of a training without ranks. They have the same
//! bits.
//!
//!     cargo run --release --example 05_pipeline

use std::collections::VecDeque;
use std::path::Path;

use hccl::prelude::*;
use hccl_examples::train::data::{CLASSES, Digits, PIXELS};
use hccl_examples::train::network::{Layer, Momentum, Network, softmax_cross_entropy};
use hccl_train::pipeline::Pass::{self, Backward, Forward};
use hccl_train::pipeline::{Pipeline, picture};
use ndarray::{Array1, Array2};

const STAGES: usize = 4;
/// The width of the first stage's input, and of each stage's output.
const WIDTHS: [usize; STAGES + 1] = [PIXELS, 128, 128, 128, CLASSES];
/// The numbers of rows of a batch and of a micro-batch. The last ones of an epoch may be smaller.
const BATCH: usize = 128;
const MICRO: usize = 16;
const EPOCHS: usize = 12;
const RATE: f32 = 0.1;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result<()> {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv"));
    let split = Digits::read(data)?.split(1);
    let network = Network::new(&WIDTHS, &mut fastrand::Rng::with_seed(1));

    println!("the first batch, a column a pass (F forward, B backward, and the micro-batch):\n");
    for line in picture(STAGES, BATCH / MICRO).lines() {
        println!("  {line}");
    }

    let runtime = Runtime::auto()?;
    let stages = runtime.run_ranks(STAGES as u32, |rank| {
        let mut stage = Stage::new(&rank, network.layers[rank.index() as usize].clone())?;
        batches(&split.training, |batch| stage.step(&batch))?;
        Result::Ok((stage.part.layer, stage.part.most_kept))
    })?;

    println!();
    for (index, (layer, most_kept)) in stages.iter().enumerate() {
        let (inputs, outputs) = layer.weights.dim();
        println!("stage {index}  {inputs:3} -> {outputs:3}  inputs kept at a time: {most_kept}");
        assert_eq!(*most_kept, STAGES - index);
    }
    let trained = Network { layers: stages.into_iter().map(|(layer, _)| layer).collect() };
    assert_eq!(trained, without_ranks(network, &split.training)?, "the pipeline changes no bit");
    let accuracy = trained.accuracy(split.held_out.images.view(), &split.held_out.labels);
    println!("\naccuracy={accuracy:.4} epochs={EPOCHS} stages={STAGES}");
    assert!(accuracy >= 0.95, "{accuracy}");
    Ok(())
}

/// Calls `step` with each batch of the training, in micro-batches. All ranks get the same batches.
fn batches(digits: &Digits, mut step: impl FnMut(Vec<Digits>) -> Result<()>) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(2);
    let mut order: Vec<usize> = (0..digits.len()).collect();
    for _ in 0..EPOCHS {
        random.shuffle(&mut order);
        for batch in order.chunks(BATCH) {
            step(batch.chunks(MICRO).map(|rows| digits.select(rows)).collect())?;
        }
    }
    Ok(())
}

/// The stage of one rank: a layer, and its connection with the layers before and after it.
struct Stage {
    part: Part,
    pipeline: Pipeline<f32>,
    comm: Communicator,
    stream: Stream,
}

impl Stage {
    fn new(rank: &Rank, layer: Layer) -> Result<Self> {
        let stream = rank.device().stream()?;
        let comm = rank.communicator()?;
        let room = MICRO * WIDTHS.into_iter().max().unwrap_or(0);
        let pipeline = Pipeline::new(room, &comm, &stream)?;
        Ok(Self { part: Part::new(pipeline.stage(), layer), pipeline, comm, stream })
    }

    /// Runs all micro-batches of a batch forward and backward, and then one step of the optimiser.
    fn step(&mut self, micros: &[Digits]) -> Result<()> {
        let Self { part, pipeline, comm, stream } = self;
        let me = part.index;
        // A gradient has the width of its activations.
        let shape = |pass| match pass {
            Forward(micro) => (micros[micro].len(), WIDTHS[me]),
            Backward(micro) => (micros[micro].len(), WIDTHS[me + 1]),
        };
        let expects = |pass| shape(pass).0 * shape(pass).1;
        let run = |pass, input: Option<Vec<f32>>| -> Result<Vec<f32>> {
            let input =
                input.map(|input| Array2::from_shape_vec(shape(pass), input)).transpose()?;
            Ok(part.run(pass, input, micros)?.into_iter().collect())
        };
        pipeline.step(micros.len(), comm, stream, expects, run)?;
        part.update(micros.iter().map(Digits::len).sum())
    }
}

/// The computation of a stage, without messages.
struct Part {
    index: usize,
    layer: Layer,
    optimiser: Momentum,
    /// The gradient, summed over the micro-batches of a batch.
    gradient: Array1<f32>,
    /// The inputs of the micro-batches whose backward pass is still to come. On the last stage,
    /// also the derivative of the loss by the stage's outputs.
    kept: VecDeque<(Array2<f32>, Array2<f32>)>,
    most_kept: usize,
}

impl Part {
    fn new(index: usize, layer: Layer) -> Self {
        let optimiser = Momentum::new(&layer, 0.9);
        let gradient = Array1::zeros(layer.parameters());
        Self { index, layer, optimiser, gradient, kept: VecDeque::new(), most_kept: 0 }
    }

    /// Runs a pass with its input. `input` is `None` at the beginning of the network, where the
    /// micro-batch is the input, and at its end, where the loss gives the input.
    ///
    /// Returns the output of a forward pass, for the next stage. A backward pass returns the
    /// gradient for the stage before, or an empty array on stage 0.
    fn run(
        &mut self,
        pass: Pass,
        input: Option<Array2<f32>>,
        micros: &[Digits],
    ) -> Result<Array2<f32>> {
        let is_last = self.index + 1 == STAGES;
        match pass {
            Forward(micro) => {
                let input = input.unwrap_or_else(|| micros[micro].images.clone());
                let output = self.layer.forward(&input.view(), is_last);
                let loss = match is_last {
                    true => softmax_cross_entropy(&output, &micros[micro].labels).1,
                    false => Array2::default((0, 0)),
                };
                self.kept.push_back((input, loss));
                self.most_kept = self.most_kept.max(self.kept.len());
                Ok(output)
            }
            Backward(_) => {
                let (inputs, loss) = self.kept.pop_front().ok_or("backward before forward")?;
                let delta = input.unwrap_or(loss);
                let mut gradient = vec![0.0; self.layer.parameters()];
                self.layer.backward(&inputs.view(), &delta, 1.0, &mut gradient)?;
                self.gradient += &Array1::from(gradient);
                match self.index {
                    0 => Ok(Array2::default((0, 0))),
                    _ => Ok(self.layer.delta_before(&inputs.view(), &delta)),
                }
            }
        }
    }

    /// Runs one step of the optimiser with the mean gradient of a batch of `rows` rows, and clears
    /// the gradient.
    fn update(&mut self, rows: usize) -> Result<()> {
        self.gradient /= rows as f32;
        let gradient = self.gradient.as_slice().ok_or("a gradient in pieces")?;
        self.optimiser.step(&mut self.layer, gradient, RATE)?;
        self.gradient.fill(0.0);
        Ok(())
    }
}

/// Runs the same training in one place. Each micro-batch goes through all parts and back before the
/// next micro-batch begins.
fn without_ranks(network: Network, digits: &Digits) -> Result<Network> {
    let parts = network.layers.into_iter().enumerate();
    let mut parts: Vec<Part> = parts.map(|(index, layer)| Part::new(index, layer)).collect();
    batches(digits, |micros| {
        for micro in 0..micros.len() {
            let mut data = None;
            for part in &mut parts {
                data = Some(part.run(Forward(micro), data, &micros)?);
            }
            data = None;
            for part in parts.iter_mut().rev() {
                data = Some(part.run(Backward(micro), data, &micros)?);
            }
        }
        let rows = micros.iter().map(Digits::len).sum();
        parts.iter_mut().try_for_each(|part| part.update(rows))
    })?;
    Ok(Network { layers: parts.into_iter().map(|part| part.layer).collect() })
}
