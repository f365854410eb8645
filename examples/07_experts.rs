//! 7. A mixture of experts: every rank has one expert, and each row goes to the expert for it.
//!
//! A gate chooses one of four experts for each row. The number of rows for each rank is known only
//! after the gate has decided. So the ranks first exchange the counts (all-to-all), then the rows
//! (all-to-all-v), there and back. In the backward pass the gradients go the same way. The first
//! layer and the gate are replicas on all ranks; their gradients are summed (all-reduce). The
//! gradients of an expert need no sum, because its rank has all of its rows.
//!
//!     cargo run --release --example 07_experts

use std::path::Path;

use hccl::collective::Partition;
use hccl::prelude::*;
use hccl_examples::train::data::{CLASSES, Digits, PIXELS};
use hccl_examples::train::network::{Layer, Momentum, Network, softmax_cross_entropy};
use ndarray::{Array1, Array2, Axis};

/// The number of ranks. Each rank has one expert.
const RANKS: usize = 4;
const HIDDEN: usize = 64;
/// The number of rows of a step, over all ranks.
const BATCH: usize = 128;
const EPOCHS: usize = 30;
const RATE: f32 = 0.1;
/// The weight of an uneven load of the experts in the loss. Without it one expert gets all rows,
/// and the other experts do not learn.
const BALANCE: f32 = 0.3;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result<()> {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv"));
    let split = Digits::read(data)?.split(1);
    let runtime = Runtime::auto()?;
    let models = runtime.run_ranks(RANKS as u32, |rank| train(&rank, &split.training))?;

    let (first, gate) = (&models[0].shared, &models[0].gate);
    assert!(models.iter().all(|model| model.shared == *first && model.gate == *gate));
    let test = &split.held_out;
    let hidden = first.forward(&test.images.view(), false);
    let (chosen, weights) = choose(&softmax(&gate.forward(&hidden.view(), true)));

    println!("rows held out, by the expert that the gate chooses and the digit that they show\n");
    println!(
        "          {}   rows   right",
        Vec::from_iter((0..10).map(|d| format!("{d:4}"))).concat()
    );
    let mut right = 0;
    for (expert, model) in models.iter().enumerate() {
        let rows: Vec<usize> = (0..test.len()).filter(|&row| chosen[row] == expert).collect();
        let logits = model.expert(&hidden.select(Axis(0), &rows)).1;
        let labels = rows.iter().map(|&row| usize::from(test.labels[row]));
        let hits = logits
            .outer_iter()
            .zip(labels.clone())
            .filter(|(logits, label)| (0..CLASSES).all(|other| logits[other] <= logits[*label]));
        let hits = hits.count();
        let of = |digit| labels.clone().filter(move |label| *label == digit).count();
        let digits = Vec::from_iter((0..CLASSES).map(|digit| match of(digit) {
            0 => "   .".into(),
            count => format!("{count:4}"),
        }));
        println!("expert {expert}  {}  {:5}   {hits:5}", digits.concat(), rows.len());
        assert!(rows.len() > test.len() / RANKS / 4, "nobody is left out");
        right += hits;
    }
    let sure = weights.mean().unwrap_or(0.0);
    let accuracy = right as f64 / test.len() as f64;
    println!("\naccuracy={accuracy:.4} epochs={EPOCHS} experts={RANKS} gate_certainty={sure:.2}");
    assert!(accuracy >= 0.95, "{accuracy}");
    Ok(())
}

/// The model of a rank: replicas of the first layer and the gate, and an expert of two layers.
struct Model {
    shared: Layer,
    gate: Layer,
    expert: [Layer; 2],
}

impl Model {
    fn new(rank: usize) -> Self {
        let layer = |seed: u64, widths: [usize; 2]| {
            Network::new(&widths, &mut fastrand::Rng::with_seed(seed)).layers.remove(0)
        };
        // All ranks have the same seeds for the shared layers.
        let own = 3 + 2 * rank as u64;
        Self {
            shared: layer(1, [PIXELS, HIDDEN]),
            gate: layer(2, [HIDDEN, RANKS]),
            expert: [layer(own, [HIDDEN, HIDDEN]), layer(own + 1, [HIDDEN, CLASSES])],
        }
    }

    /// Returns the outputs of the expert's layers.
    fn expert(&self, rows: &Array2<f32>) -> (Array2<f32>, Array2<f32>) {
        let middle = self.expert[0].forward(&rows.view(), false);
        let logits = self.expert[1].forward(&middle.view(), true);
        (middle, logits)
    }
}

fn train(rank: &Rank, digits: &Digits) -> Result<Model> {
    let me = rank.index() as usize;
    let mut model = Model::new(me);
    let mut roads = Roads::new(rank)?;
    let optimiser = |layer: &Layer| Momentum::new(layer, 0.9);
    let mut optimisers =
        [&model.shared, &model.gate, &model.expert[0], &model.expert[1]].map(optimiser);
    let mut random = fastrand::Rng::with_seed(1);
    let mut order: Vec<usize> = (0..digits.len()).collect();
    for _ in 0..EPOCHS {
        // Every rank draws the same numbers, so all agree on the order without a message.
        random.shuffle(&mut order);
        for batch in order.chunks(BATCH) {
            let rows = &batch[batch.len() * me / RANKS..batch.len() * (me + 1) / RANKS];
            let gradients = gradients(&model, &mut roads, digits.select(rows), batch.len())?;
            let Model { shared, gate, expert: [one, two] } = &mut model;
            let layers = [shared, gate, one, two];
            for ((layer, optimiser), gradient) in
                layers.into_iter().zip(&mut optimisers).zip(gradients)
            {
                optimiser.step(layer, &gradient, RATE)?;
            }
        }
    }
    Ok(model)
}

/// Returns the gradients of the first layer, the gate, and the two layers of this rank's expert.
/// `part` is this rank's part of a batch of `batch` rows.
fn gradients(
    model: &Model,
    roads: &mut Roads,
    part: Digits,
    batch: usize,
) -> Result<[Vec<f32>; 4]> {
    let Model { shared, gate, expert: [one, two] } = model;
    let scale = 1.0 / batch as f32;
    let mut gradients = [shared, gate, one, two].map(|layer| vec![0.0; layer.parameters()]);

    // The rows are sorted by expert, so the rows for one expert are adjacent. This order is kept.
    let hidden = shared.forward(&part.images.view(), false);
    let (chosen, _) = choose(&softmax(&gate.forward(&hidden.view(), true)));
    let mut sorted: Vec<usize> = (0..part.len()).collect();
    sorted.sort_by_key(|&row| chosen[row]);
    let part = part.select(&sorted);
    let hidden = hidden.select(Axis(0), &sorted);
    let chances = softmax(&gate.forward(&hidden.view(), true));
    let (chosen, weights) = choose(&chances);
    let give: Vec<usize> = (0..RANKS).map(|e| chosen.iter().filter(|&&c| c == e).count()).collect();
    let take = roads.counts(&give)?;

    // The rows go to the experts, and the logits go back to the ranks of the rows.
    let rows = roads.travel(&hidden, &give, &take)?;
    let (middle, logits) = model.expert(&rows);
    let logits = roads.travel(&logits, &take, &give)?;

    // The output is that of the expert, times the chance that the gate gave to this expert.
    let weights = weights.insert_axis(Axis(1));
    let (_, delta) = softmax_cross_entropy(&(&logits * &weights), &part.labels);

    // The gradients go the same way.
    let into_expert = roads.travel(&(&delta * &weights), &give, &take)?;
    two.backward(&middle.view(), &into_expert, scale, &mut gradients[3])?;
    let between = two.delta_before(&middle.view(), &into_expert);
    one.backward(&rows.view(), &between, scale, &mut gradients[2])?;
    let into_hidden = roads.travel(&one.delta_before(&rows.view(), &between), &take, &give)?;

    // The derivative of the loss by the gate's chances. A chance changes the weight of the chosen
    // expert's output, and the cost of an uneven load.
    let load: Array1<f32> = give.iter().map(|&rows| rows as f32 / part.len() as f32).collect();
    let mut cost = Array2::from_shape_fn(chances.dim(), |(_, e)| BALANCE * RANKS as f32 * load[e]);
    for (row, &expert) in chosen.iter().enumerate() {
        cost[[row, expert]] += delta.row(row).dot(&logits.row(row));
    }
    let mean = (&chances * &cost).sum_axis(Axis(1)).insert_axis(Axis(1));
    let into_gate = &chances * &(cost - mean);
    gate.backward(&hidden.view(), &into_gate, scale, &mut gradients[1])?;
    let into_hidden = into_hidden + gate.delta_before(&hidden.view(), &into_gate);
    shared.backward(&part.images.view(), &into_hidden, scale, &mut gradients[0])?;

    let [shared, gate, ..] = &mut gradients;
    roads.sum(shared)?;
    roads.sum(gate)?;
    Ok(gradients)
}

/// The connections between a rank and all other ranks.
struct Roads {
    comm: Communicator,
    stream: Stream,
    device: Device,
    /// Room for all rows of a batch, because all of them may be for one expert.
    outbox: DeviceBuffer<f32>,
    inbox: DeviceBuffer<f32>,
}

impl Roads {
    fn new(rank: &Rank) -> hccl::Result<Self> {
        let (device, stream) = (rank.device().clone(), rank.device().stream()?);
        let room = BATCH * HIDDEN;
        let (outbox, inbox) = (device.zeros(room, &stream)?, device.zeros(room, &stream)?);
        Ok(Self { comm: rank.communicator()?, stream, device, outbox, inbox })
    }

    /// Returns the number of rows that each rank gives to this rank. This rank gives `give[i]` rows
    /// to rank `i`.
    fn counts(&mut self, give: &[usize]) -> hccl::Result<Vec<usize>> {
        let give: Vec<u32> = give.iter().map(|&rows| rows as u32).collect();
        let give = self.device.upload(&give, &self.stream)?;
        let (take, _) = self.comm.all_to_all(&give, self.device.alloc(RANKS)?, &self.stream)?;
        let take = take.to_vec(&self.stream).wait()?;
        Ok(take.into_iter().map(|rows| rows as usize).collect())
    }

    /// Exchanges rows. The first `give[0]` rows go to rank 0, the next `give[1]` rows to rank 1 and
    /// so on. Rank `i` sends `take[i]` rows. Received rows are in the order of the ranks, too.
    fn travel(
        &mut self,
        rows: &Array2<f32>,
        give: &[usize],
        take: &[usize],
    ) -> Result<Array2<f32>> {
        let Self { comm, stream, outbox, inbox, .. } = self;
        let width = rows.ncols();
        let part = |rows: &[usize]| Partition::packed(rows.iter().map(|rows| rows * width));
        let shape = (take.iter().sum(), width);
        let (sent, received) = (rows.len(), shape.0 * width);
        outbox.slice_mut(..sent)?.upload(rows.as_slice().ok_or("rows that are apart")?, stream)?;
        comm.all_to_all_v(
            outbox.slice(..sent)?,
            inbox.slice_mut(..received)?,
            &part(give)?,
            &part(take)?,
            stream,
        )?;
        Ok(inbox.slice(..received)?.to_array(shape, stream).wait()?)
    }

    /// Sums the numbers over the ranks.
    fn sum(&mut self, numbers: &mut Vec<f32>) -> hccl::Result<()> {
        let mut sum = self.device.upload(numbers, &self.stream)?;
        self.comm.all_reduce_in_place(&mut sum, Sum, &self.stream)?;
        *numbers = sum.to_vec(&self.stream).wait()?;
        Ok(())
    }
}

fn softmax(logits: &Array2<f32>) -> Array2<f32> {
    let mut chances = logits.clone();
    for mut row in chances.rows_mut() {
        let largest = row.fold(f32::NEG_INFINITY, |a, &b| a.max(b));
        row.mapv_inplace(|logit| (logit - largest).exp());
        let sum = row.sum();
        row /= sum;
    }
    chances
}

/// Returns the most probable expert of each row, and its chance.
fn choose(chances: &Array2<f32>) -> (Vec<usize>, Array1<f32>) {
    let best = |row: ndarray::ArrayView1<f32>| {
        (0..RANKS).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0)
    };
    let chosen: Vec<usize> = chances.outer_iter().map(best).collect();
    let weights = chosen.iter().zip(chances.outer_iter()).map(|(&e, row)| row[e]).collect();
    (chosen, weights)
}
