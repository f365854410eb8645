//! 16. Training that continues when ranks die.
//!
//! A rank is killed in the middle of a step. The other ranks get an error that names it, meet again
//! at the store of `hcclrun`, make a smaller communicator, and continue from the last checkpoint. A
//! new process replaces the dead one, and the job grows again.
//!
//!     cargo build --release --bin hcclrun --example 16_elastic
//!     target/release/hcclrun -n 4 --elastic --restarts 2 --restart-delay 0.3 target/release/examples/16_elastic \
//!         --die 2@60 --die 0@160

use std::cmp::Ordering;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use hccl::ErrorKind;
use hccl::job::JobEnv;
use hccl::prelude::*;
use hccl_examples::train::data::{CLASSES, Digits, PIXELS};
use hccl_examples::train::loss_plot::{Mark, loss_picture};
use hccl_examples::train::network::{Network, softmax_cross_entropy};
use hccl_examples::train::parallel::shard;

/// Trains a network to read digits, on ranks that come and go.
#[derive(Parser)]
struct Options {
    /// The number of steps.
    #[arg(long, default_value_t = 360)]
    steps: usize,
    /// The number of steps between two checkpoints.
    #[arg(long, default_value_t = 20)]
    checkpoint: usize,
    /// The process that was started as this rank kills itself before this step; can be given
    /// several times.
    #[arg(long, value_name = "RANK@STEP")]
    die: Vec<String>,
    /// The file for the picture.
    #[arg(long, default_value = "elastic-out/loss.svg")]
    out: PathBuf,
}

const WIDTHS: [usize; 4] = [PIXELS, 256, 256, CLASSES];
const BATCH: usize = 128;
const RATE: f32 = 0.1;
const KEEP: f32 = 0.9;
const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv");

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A checkpoint: all that a rank needs to continue.
#[derive(Clone)]
struct State {
    network: Network,
    velocity: Vec<f32>,
    /// The loss of each step, without the steps that were discarded.
    losses: Vec<f32>,
    /// The history of the job: the step at which each number of ranks began.
    sizes: Vec<(usize, u32)>,
}

/// The reason why the ranks stop.
enum Stop {
    Done,
    /// New processes wait to take part.
    Newcomers,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let split = Digits::read(Path::new(DIGITS))?.split(1);
    let runtime = Runtime::auto()?;
    let mut rank = Rank::from_env(&runtime)?;
    // The number that the launcher gave. It stays the same when the set of ranks changes.
    let name = JobEnv::from_env()?.map_or(0, |env| env.rank);
    let is_new = rank.generation() > 1;
    let dies =
        |step: usize| !is_new && options.die.iter().any(|it| *it == format!("{name}@{step}"));

    let mut random = fastrand::Rng::with_seed(1);
    let network = Network::new(&WIDTHS, &mut random);
    let velocity = vec![0.0; network.parameters()];
    let mut checkpoint = State { network, velocity, losses: Vec::new(), sizes: Vec::new() };
    loop {
        let stopped = go_on(&rank, &mut checkpoint, &split.training, &options, &dies);
        let why = match stopped {
            Ok(Stop::Done) => break,
            Ok(Stop::Newcomers) => "somebody new has come".to_owned(),
            // A rank is gone: everything since the checkpoint is discarded.
            Err(error) => match error.downcast_ref::<hccl::Error>() {
                Some(known) if known.kind() == ErrorKind::RankGone => first_line(known),
                _ => return Err(error),
            },
        };
        let step = checkpoint.losses.len();
        rank = rank.regroup()?;
        if rank.index() == 0 {
            println!("{why}; {} ranks go on from step {step}", rank.world_size());
        }
    }
    if rank.index() == 0 {
        let held_out = &split.held_out;
        let accuracy = checkpoint.network.accuracy(held_out.images.view(), &held_out.labels);
        draw(&checkpoint, split.training.len(), &options)?;
        println!("accuracy={accuracy:.4} steps={} ranks={}", options.steps, rank.world_size());
    }
    Ok(())
}

/// Runs steps from the checkpoint on, and keeps the checkpoint up to date. Returns when all steps
/// are done or new processes wait.
fn go_on(
    rank: &Rank,
    checkpoint: &mut State,
    digits: &Digits,
    options: &Options,
    dies: &impl Fn(usize) -> bool,
) -> Result<Stop> {
    let stream = rank.device().stream()?;
    let mut comm = rank.communicator()?;
    // Rank 0 is never a newcomer, so it has a checkpoint. All ranks take that one, because those of
    // other ranks may be one step ahead.
    checkpoint.share(&mut comm, &stream)?;
    checkpoint.sizes.push((checkpoint.losses.len(), rank.world_size()));
    let mut state = checkpoint.clone();
    loop {
        let step = state.losses.len();
        if step.is_multiple_of(options.checkpoint) || step == options.steps {
            *checkpoint = state.clone();
        }
        if step == options.steps {
            return Ok(Stop::Done);
        }
        if dies(step) {
            println!("process {} kills itself before step {step}", std::process::id());
            kill_this_process();
        }
        // Rank 0 queries the number of newcomers, and the next sum gives the answer to all ranks.
        let asks = rank.index() == 0 && step.is_multiple_of(options.checkpoint);
        let newcomers = if asks { rank.newcomers()? } else { 0 };
        if state.step(rank, &mut comm, &stream, digits, newcomers as f32)? {
            return Ok(Stop::Newcomers);
        }
    }
}

impl State {
    /// Runs one step of all ranks. Returns true if rank 0 has reported newcomers; then nothing has
    /// changed.
    fn step(
        &mut self,
        rank: &Rank,
        comm: &mut Communicator,
        stream: &Stream,
        digits: &Digits,
        newcomers: f32,
    ) -> Result<bool> {
        let step = self.losses.len();
        // The rows of a step and their order do not depend on the number of ranks that share them.
        let batch: Vec<usize> = (0..BATCH).map(|row| (step * BATCH + row) % digits.len()).collect();
        let (index, ranks) = (rank.index() as usize, rank.world_size() as usize);
        let shard = digits.select(shard(&batch, index, ranks));

        let images = shard.images.view();
        let outputs = self.network.forward(images);
        let logits = outputs.last().ok_or("a network without layers")?;
        let (loss, mut delta) = softmax_cross_entropy(logits, &shard.labels);
        let parameters = self.network.parameters();
        let mut sums = vec![0.0; parameters + 2];
        let mut end = parameters;
        for (at, layer) in self.network.layers.iter().enumerate().rev() {
            let inputs = if at == 0 { images } else { outputs[at - 1].view() };
            let gradient = &mut sums[end - layer.parameters()..end];
            layer.backward(&inputs, &delta, 1.0 / BATCH as f32, gradient)?;
            end -= layer.parameters();
            if at > 0 {
                delta = layer.delta_before(&inputs, &delta);
            }
        }
        sums[parameters] = loss / BATCH as f32;
        sums[parameters + 1] = newcomers;
        let mut sums = rank.device().upload(&sums, stream)?;
        comm.all_reduce_in_place(&mut sums, Sum, stream)?.wait()?;
        let sums = sums.to_vec(stream).wait()?;
        if sums[parameters + 1] > 0.0 {
            return Ok(true);
        }
        let moved = self.velocity.iter_mut().zip(&sums).zip(numbers(&mut self.network));
        for ((velocity, gradient), parameter) in moved {
            *velocity = KEEP * *velocity + gradient;
            *parameter -= RATE * *velocity;
        }
        self.losses.push(sums[parameters]);
        Ok(false)
    }

    /// Gives the state of rank 0 to all ranks.
    fn share(&mut self, comm: &mut Communicator, stream: &Stream) -> Result<()> {
        let lengths = [self.losses.len() as u32, self.sizes.len() as u32];
        let lengths = broadcast(comm, stream, &lengths)?;
        let [losses, sizes] = [lengths[0] as usize, lengths[1] as usize];
        self.losses.resize(losses, 0.0);
        self.sizes.resize(sizes, (0, 0));
        let mut all: Vec<f32> = numbers(&mut self.network).map(|number| *number).collect();
        all.extend(&self.velocity);
        all.extend(&self.losses);
        all.extend(self.sizes.iter().flat_map(|(step, ranks)| [*step as f32, *ranks as f32]));
        let mut all = broadcast(comm, stream, &all)?.into_iter();
        numbers(&mut self.network)
            .chain(&mut self.velocity)
            .chain(&mut self.losses)
            .zip(&mut all)
            .for_each(|(own, theirs)| *own = theirs);
        let all: Vec<f32> = all.collect();
        for ((step, ranks), pair) in self.sizes.iter_mut().zip(all.chunks(2)) {
            (*step, *ranks) = (pair[0] as usize, pair[1] as u32);
        }
        Ok(())
    }
}

/// Returns the weights and biases of a network, in the order of a gradient.
fn numbers(network: &mut Network) -> impl Iterator<Item = &mut f32> {
    network.layers.iter_mut().flat_map(|layer| layer.weights.iter_mut().chain(&mut layer.bias))
}

/// Returns the values of rank 0.
fn broadcast<T: Element>(comm: &mut Communicator, stream: &Stream, own: &[T]) -> Result<Vec<T>> {
    let mut values = stream.device().upload(own, stream)?;
    comm.broadcast(&mut values, 0, stream)?.wait()?;
    Ok(values.to_vec(stream).wait()?)
}

fn draw(state: &State, rows: usize, options: &Options) -> Result<()> {
    let marks: Vec<Mark> = (state.sizes.windows(2))
        .map(|pair| {
            let ((_, before), (step, after)) = (pair[0], pair[1]);
            let what = match after.cmp(&before) {
                Ordering::Less => "a rank has died",
                Ordering::Equal => "a rank has died, another has come",
                Ordering::Greater => "a rank has come",
            };
            let text = format!("{what}: {after} go on from step {step}");
            Mark { step, text }
        })
        .collect();
    let (_, first) = state.sizes.first().copied().unwrap_or_default();
    let subtitle = format!("{first} ranks at first, each a process; batch {BATCH}");
    if let Some(folder) = options.out.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&options.out, loss_picture(&state.losses, rows / BATCH, &subtitle, &marks))?;
    println!("wrote {}", options.out.display());
    Ok(())
}

fn first_line(error: &hccl::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

fn kill_this_process() {
    let own = std::process::id().to_string();
    let _ = std::process::Command::new("kill").args(["-9", &own]).status();
}
