//! 6. An optimiser whose state is spread over the ranks (ZeRO, stages 1 and 2).
//!
//! Adam keeps two numbers for each parameter. If every rank has a replica of the network, all ranks
//! keep the same numbers. Here each rank keeps only the numbers for its share of the parameters.
//! The gradients are summed *into the shares* (reduce-scatter), each rank takes the step for its
//! share, and the new parameters go to all ranks (all-gather). Together the two move as much data
//! as one all-reduce.
//!
//!     cargo run --release --example 06_sharded_optimiser

use std::path::Path;

use hccl::prelude::*;
use hccl_examples::train::data::{CLASSES, Digits, PIXELS};
use hccl_examples::train::network::{Layer, Network};
use hccl_train::Shards;

const RANKS: usize = 4;
const WIDTHS: [usize; 4] = [PIXELS, 256, 256, CLASSES];
/// The number of rows of a step, over all ranks.
const BATCH: usize = 128;
const EPOCHS: usize = 12;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result<()> {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv"));
    let split = Digits::read(data)?.split(1);
    let runtime = Runtime::auto()?;
    let replicas = runtime.run_job(RANKS as u32, |rank| train(&rank, &split.training))?;

    let parameters = replicas[0].network.parameters();
    let state = |numbers: usize| format!("{:4} KiB", 2 * numbers * size_of::<f32>() / 1024);
    println!("parameters             {parameters:7}");
    println!("Adam's state, whole    {}", state(parameters));
    for replica in &replicas {
        let rank = replica.rank;
        println!("Adam's state, rank {rank}   {}", state(replica.adam.mean.len()));
        assert_eq!(replica.network, replicas[0].network, "the replicas stay the same bits");
    }
    let kept: usize = replicas.iter().map(|replica| replica.adam.mean.len()).sum();
    assert!(kept <= replicas.len() * parameters.div_ceil(RANKS), "nothing is kept twice");

    let held_out = &split.held_out;
    let accuracy = replicas[0].network.accuracy(held_out.images.view(), &held_out.labels);
    println!("\naccuracy={accuracy:.4} epochs={EPOCHS} ranks={RANKS}");
    assert!(accuracy >= 0.96, "{accuracy}");
    Ok(())
}

/// The state of a rank after training.
struct Replica {
    rank: usize,
    network: Network,
    adam: Adam,
}

fn train(rank: &Rank, digits: &Digits) -> Result<Replica> {
    let (me, device) = (rank.index() as usize, rank.device());
    let stream = device.stream()?;
    let mut comm = rank.communicator()?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut network = Network::new(&WIDTHS, &mut random);

    // The shards divide one tensor: the parameters of all layers, in the order of the gradient.
    let mut shards = Shards::new(&[network.parameters()], &comm, &stream)?;
    shards.scale(1.0);
    let weights = read(&network);
    let mut adam = Adam::new(&weights[shards.own()]);

    let mut order: Vec<usize> = (0..digits.len()).collect();
    for _ in 0..EPOCHS {
        // Every rank draws the same numbers, so all agree on the order without a message.
        random.shuffle(&mut order);
        for batch in order.chunks(BATCH) {
            let rows = batch.len() * me / RANKS..batch.len() * (me + 1) / RANKS;
            let part = digits.select(&batch[rows]);
            let scale = 1.0 / batch.len() as f32;
            let mut gradient = network.gradient(part.images.view(), &part.labels, scale)?;
            // The last element is the loss.
            gradient.pop();
            shards.gradient_mut(0)?.copy_from_slice(&gradient);
            adam.step(shards.reduce(&mut comm, &stream)?);
            shards.gather(&adam.weights, &mut comm, &stream)?;
            write(&mut network, shards.parameter(0)?);
        }
    }
    stream.synchronize()?;
    Ok(Replica { rank: me, network, adam })
}

/// Returns every parameter, in the order in which [`Network::gradient`] has them.
fn parameters(layers: &mut [Layer]) -> impl Iterator<Item = &mut f32> {
    layers.iter_mut().flat_map(|layer| layer.weights.iter_mut().chain(&mut layer.bias))
}

fn write(network: &mut Network, from: &[f32]) {
    parameters(&mut network.layers).zip(from).for_each(|(parameter, new)| *parameter = *new);
}

fn read(network: &Network) -> Vec<f32> {
    parameters(&mut network.layers.clone()).map(|parameter| *parameter).collect()
}

/// The weights and the state of Adam for a share of the parameters.
struct Adam {
    weights: Vec<f32>,
    mean: Vec<f32>,
    square: Vec<f32>,
    steps: i32,
}

impl Adam {
    fn new(weights: &[f32]) -> Self {
        let zeros = vec![0.0; weights.len()];
        Self { weights: weights.to_vec(), mean: zeros.clone(), square: zeros, steps: 0 }
    }

    fn step(&mut self, gradient: &[f32]) {
        const RATE: f32 = 2e-3;
        const KEEP: (f32, f32) = (0.9, 0.999);
        self.steps += 1;
        let rate = RATE * (1.0 - KEEP.1.powi(self.steps)).sqrt() / (1.0 - KEEP.0.powi(self.steps));
        let state = self.mean.iter_mut().zip(&mut self.square);
        for ((weight, (mean, square)), slope) in self.weights.iter_mut().zip(state).zip(gradient) {
            *mean = KEEP.0 * *mean + (1.0 - KEEP.0) * slope;
            *square = KEEP.1 * *square + (1.0 - KEEP.1) * slope * slope;
            *weight -= rate * *mean / (square.sqrt() + 1e-8);
        }
    }
}
