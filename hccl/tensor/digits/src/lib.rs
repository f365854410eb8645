//! The parts that the examples for candle and burn share: the digits, the order in which they are
//! learned, and the table of results.

use std::fmt;
use std::path::Path;

/// The file of digits, read as `examples/train` reads it.
#[path = "../../../../examples/src/train/data.rs"]
pub mod data;

use data::{CLASSES, DataError, Digits, PIXELS, Split};

/// The widths of the network: pixels, two hidden layers, classes.
pub const WIDTHS: [usize; 4] = [PIXELS, 128, 64, CLASSES];

/// The number of times that each row is learned.
pub const EPOCHS: usize = 30;

/// The number of rows of a step, over all ranks. It is not a multiple of four, and the last step of
/// an epoch has fewer rows. So the parts of ranks differ in size.
pub const BATCH: usize = 42;

/// The learning rate.
pub const RATE: f64 = 0.2;

/// Reads the digits, and holds a fifth of them out.
pub fn split() -> Result<Split, DataError> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/data/digits.csv");
    Ok(Digits::read(Path::new(path))?.split(1))
}

/// Returns the rows of each step of an epoch. They are the same on all ranks, because all ranks
/// draw the same random numbers.
pub fn batches(rows: usize, epoch: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..rows).collect();
    fastrand::Rng::with_seed(epoch as u64).shuffle(&mut order);
    order.chunks(BATCH).map(<[usize]>::to_vec).collect()
}

/// Returns the part of a batch that a rank has.
pub fn shard(batch: &[usize], rank: usize, ranks: usize) -> &[usize] {
    &batch[batch.len() * rank / ranks..batch.len() * (rank + 1) / ranks]
}

/// Returns the first weights of a layer, a row for each output. They are the same in every run.
pub fn weights(layer: usize) -> Vec<f32> {
    let (inputs, outputs) = (WIDTHS[layer], WIDTHS[layer + 1]);
    let mut random = fastrand::Rng::with_seed(layer as u64);
    let bound = (6.0 / inputs as f32).sqrt();
    (0..inputs * outputs).map(|_| (2.0 * random.f32() - 1.0) * bound).collect()
}

/// The results of a training.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The way in which the model is divided.
    pub way: &'static str,
    /// The number of ranks.
    pub ranks: usize,
    /// The mean loss of each epoch.
    pub losses: Vec<f32>,
    /// The share of the held-out rows that the network recognises, from 0 to 1.
    pub accuracy: f64,
    /// The duration of the training, in seconds.
    pub seconds: f64,
}

/// Returns the largest difference between the losses of two curves in one epoch.
pub fn furthest(curves: &[Curve]) -> f32 {
    let apart = |one: &Curve, other: &Curve| {
        let pairs = one.losses.iter().zip(&other.losses);
        pairs.map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
    };
    let pairs = curves.iter().flat_map(|one| curves.iter().map(move |other| apart(one, other)));
    pairs.fold(0.0, f32::max)
}

/// The curves as a table to print.
pub struct Table<'a>(pub &'a [Curve]);

impl Table<'_> {
    fn row(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        cell: impl Fn(&Curve) -> String,
    ) -> fmt::Result {
        write!(f, "{title:>10}")?;
        for (at, curve) in self.0.iter().enumerate() {
            let begins = at > 0 && self.0[at - 1].way != curve.way;
            write!(f, "{}{:>9}", if begins { "   " } else { "" }, cell(curve))?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10}", "")?;
        for (at, of_way) in self.0.chunk_by(|one, other| one.way == other.way).enumerate() {
            let width = 9 * of_way.len();
            write!(f, "{}{:>width$}", if at > 0 { "   " } else { "" }, of_way[0].way)?;
        }
        writeln!(f)?;
        let plural = |ranks| if ranks == 1 { "rank" } else { "ranks" };
        self.row(f, "epoch", |curve| format!("{} {}", curve.ranks, plural(curve.ranks)))?;
        self.row(f, "", |_| "-------".into())?;
        let epochs = self.0.first().map_or(0, |curve| curve.losses.len());
        for epoch in (1..=epochs).filter(|epoch| [1, 2, 3].contains(epoch) || epoch % 5 == 0) {
            self.row(f, &epoch.to_string(), |curve| format!("{:.4}", curve.losses[epoch - 1]))?;
        }
        self.row(f, "", |_| "-------".into())?;
        self.row(f, "held out", |curve| format!("{:.1} %", 100.0 * curve.accuracy))?;
        self.row(f, "seconds", |curve| format!("{:.1}", curve.seconds))?;
        writeln!(f, "\nThe losses of an epoch differ by at most {:.1e}.", furthest(self.0))
    }
}
