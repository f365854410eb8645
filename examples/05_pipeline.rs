//! 5. A pipeline of four stages, one forward, one backward (1F1B).
//!
//! A network too large for one device is cut between its layers: each rank is a *stage* and has one layer.
//! A batch is cut into micro-batches, so that the stages work at the same time on different ones. After a
//! few forward passes to fill the pipeline, a stage goes one backward for each one forward; so it keeps the
//! inputs of at most as many micro-batches as there are stages from it to the end, however many a batch has.
//!
//! What a stage gives and what it needs next go in one batch of messages. With a send and a receive one
//! after the other, two neighbours would each wait for the other to receive.
//!
//! The weights at the end are compared with those of a training without ranks: they are the same bits.
//!
//!     cargo run --release --example 05_pipeline

use std::collections::VecDeque;
use std::path::Path;

use hccl::prelude::*;
use hccl_examples::train::data::{CLASSES, Digits, PIXELS};
use hccl_examples::train::network::{Layer, Momentum, Network, softmax_cross_entropy};
use ndarray::{Array1, Array2};

const STAGES: usize = 4;
/// What goes into the first stage, and what comes out of each.
const WIDTHS: [usize; STAGES + 1] = [PIXELS, 128, 128, 128, CLASSES];
/// Rows of a batch, and of a micro-batch. The last of an epoch may have fewer.
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
    print!("{}", picture(BATCH / MICRO));

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

/// Calls `step` with each batch of the training, in micro-batches. Every rank sees the same.
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

/// A pass of one micro-batch through a stage.
#[derive(Clone, Copy)]
enum Pass {
    Forward(usize),
    Backward(usize),
}
use Pass::{Backward, Forward};

/// The order in which a stage works on `micros` micro-batches.
fn schedule(stage: usize, micros: usize) -> Vec<Pass> {
    let fill = (STAGES - 1 - stage).min(micros);
    let steady = (fill..micros).flat_map(|micro| [Forward(micro), Backward(micro - fill)]);
    let drain = (micros - fill..micros).map(Backward);
    (0..fill).map(Forward).chain(steady).chain(drain).collect()
}

/// One rank: a layer, and its connection with the layers before and behind.
struct Stage {
    part: Part,
    comm: Communicator,
    stream: Stream,
    outgoing: DeviceBuffer<f32>,
    incoming: DeviceBuffer<f32>,
}

impl Stage {
    fn new(rank: &Rank, layer: Layer) -> Result<Self> {
        let stream = rank.device().stream()?;
        let room = MICRO * WIDTHS.into_iter().max().unwrap_or(0);
        Ok(Self {
            part: Part::new(rank.index() as usize, layer),
            comm: rank.communicator()?,
            outgoing: rank.device().zeros(room, &stream)?,
            incoming: rank.device().zeros(room, &stream)?,
            stream,
        })
    }

    /// One batch, all its micro-batches there and back, and one step of the optimiser.
    fn step(&mut self, micros: &[Digits]) -> Result<()> {
        let passes = schedule(self.part.index, micros.len());
        let mut input = self.exchange(None, passes.first(), micros)?;
        for (at, pass) in passes.iter().enumerate() {
            let output = self.part.run(*pass, input, micros)?;
            input = self.exchange(output, passes.get(at + 1), micros)?;
        }
        self.part.update(micros.iter().map(Digits::len).sum())
    }

    /// Sends the output of a pass to the stage that works on it next, and receives what the next pass works on.
    fn exchange(
        &mut self,
        output: Option<(Array2<f32>, usize)>,
        next: Option<&Pass>,
        micros: &[Digits],
    ) -> Result<Option<Array2<f32>>> {
        let Self { part, comm, stream, outgoing, incoming } = self;
        let me = part.index;
        // The width of a gradient is that of the activations it belongs to.
        let needs = match next {
            Some(&Forward(micro)) if me > 0 => Some((me - 1, micro, WIDTHS[me])),
            Some(&Backward(micro)) if me + 1 < STAGES => Some((me + 1, micro, WIDTHS[me + 1])),
            _ => None,
        };
        let mut messages = comm.batch();
        if let Some((output, to)) = &output {
            let mut part = outgoing.slice_mut(..output.len())?;
            drop(part.upload(output.as_slice().ok_or("rows that are apart")?, stream)?);
            messages = messages.send(outgoing.slice(..output.len())?, *to as u32);
        }
        let shape = needs.map(|(_, micro, width)| (micros[micro].len(), width));
        let len = shape.map_or(0, |(rows, width)| rows * width);
        if let Some((from, ..)) = needs {
            messages = messages.recv(incoming.slice_mut(..len)?, from as u32);
        }
        messages.submit(stream)?.wait()?;
        let Some(shape) = shape else { return Ok(None) };
        Ok(Some(incoming.slice(..len)?.to_array(shape, stream).wait()?))
    }
}

/// What a stage computes; nothing here knows of messages.
struct Part {
    index: usize,
    layer: Layer,
    optimiser: Momentum,
    /// Summed over the micro-batches of a batch.
    gradient: Array1<f32>,
    /// Inputs of the micro-batches that have not come back yet, and on the last stage how the loss depends on its outputs.
    kept: VecDeque<(Array2<f32>, Array2<f32>)>,
    most_kept: usize,
}

impl Part {
    fn new(index: usize, layer: Layer) -> Self {
        let optimiser = Momentum::new(&layer, 0.9);
        let gradient = Array1::zeros(layer.parameters());
        Self { index, layer, optimiser, gradient, kept: VecDeque::new(), most_kept: 0 }
    }

    /// A pass with its input, which is the micro-batch itself at the beginning of the network and its loss at the end. Returns its
    /// output and the stage that it goes to, if it goes to one.
    fn run(
        &mut self,
        pass: Pass,
        input: Option<Array2<f32>>,
        micros: &[Digits],
    ) -> Result<Option<(Array2<f32>, usize)>> {
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
                Ok((!is_last).then_some((output, self.index + 1)))
            }
            Backward(_) => {
                let (inputs, loss) = self.kept.pop_front().ok_or("backward before forward")?;
                let delta = input.unwrap_or(loss);
                let mut gradient = vec![0.0; self.layer.parameters()];
                self.layer.backward(&inputs.view(), &delta, 1.0, &mut gradient)?;
                self.gradient += &Array1::from(gradient);
                let before = || self.layer.delta_before(&inputs.view(), &delta);
                Ok((self.index > 0).then(|| (before(), self.index - 1)))
            }
        }
    }

    /// One step of the optimiser with the mean over a batch of `rows`.
    fn update(&mut self, rows: usize) -> Result<()> {
        self.gradient /= rows as f32;
        let gradient = self.gradient.as_slice().ok_or("a gradient in pieces")?;
        self.optimiser.step(&mut self.layer, gradient, RATE)?;
        self.gradient.fill(0.0);
        Ok(())
    }
}

/// The same training in one place: each micro-batch goes through all parts and back before the next.
fn without_ranks(network: Network, digits: &Digits) -> Result<Network> {
    let parts = network.layers.into_iter().enumerate();
    let mut parts: Vec<Part> = parts.map(|(index, layer)| Part::new(index, layer)).collect();
    batches(digits, |micros| {
        for micro in 0..micros.len() {
            let mut data = None;
            for part in &mut parts {
                data = part.run(Forward(micro), data, &micros)?.map(|(data, _)| data);
            }
            for part in parts.iter_mut().rev() {
                data = part.run(Backward(micro), data, &micros)?.map(|(data, _)| data);
            }
        }
        let rows = micros.iter().map(Digits::len).sum();
        parts.iter_mut().try_for_each(|part| part.update(rows))
    })?;
    Ok(Network { layers: parts.into_iter().map(|part| part.layer).collect() })
}

/// Who does what when, if all passes take as long: a line a stage, a column a pass.
fn picture(micros: usize) -> String {
    let mut queues = Vec::from_iter((0..STAGES).map(|stage| schedule(stage, micros).into_iter()));
    let mut next: Vec<_> = queues.iter_mut().map(Iterator::next).collect();
    let mut lines = Vec::from_iter((0..STAGES).map(|stage| format!("stage {stage} ")));
    // How many micro-batches have gone through a stage forward, and come back.
    let (mut forward, mut backward) = ([0; STAGES], [0; STAGES]);
    while next.iter().any(Option::is_some) {
        let (gone, back) = (forward, backward);
        for stage in 0..STAGES {
            let ready = next[stage].filter(|pass| match *pass {
                Forward(micro) => stage == 0 || gone[stage - 1] > micro,
                Backward(micro) => stage + 1 == STAGES || back[stage + 1] > micro,
            });
            lines[stage] += &match ready {
                Some(Forward(micro)) => format!(" F{micro}"),
                Some(Backward(micro)) => format!(" B{micro}"),
                None => "  .".to_string(),
            };
            if let Some(pass) = ready {
                match pass {
                    Forward(_) => forward[stage] += 1,
                    Backward(_) => backward[stage] += 1,
                }
                next[stage] = queues[stage].next();
            }
        }
    }
    lines.iter().map(|line| format!("  {}\n", line.trim_end_matches([' ', '.']))).collect()
}
