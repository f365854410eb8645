//! The part of each batch that a rank has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::transform::PartialDataset;
use burn::data::dataset::{Dataset, DatasetError};
use burn::tensor::Device;

use crate::error::{Error, Result};

/// A loader that gives each rank its part of every batch.
///
/// Together, the parts of all ranks are the batches that one rank alone would have. So a training
/// takes the same steps on any number of ranks. The parts of a batch differ by one row at most. All
/// ranks make the loader with the same arguments, except `rank`.
pub struct RankLoader<I, O> {
    dataset: Arc<dyn Dataset<I>>,
    batcher: Arc<dyn Batcher<I, O>>,
    device: Device,
    batch: usize,
    rank: usize,
    ranks: usize,
    seed: Option<u64>,
    /// The number of epochs that have begun.
    epochs: Arc<AtomicU64>,
}

impl<I, O> Clone for RankLoader<I, O> {
    fn clone(&self) -> Self {
        Self {
            dataset: self.dataset.clone(),
            batcher: self.batcher.clone(),
            device: self.device.clone(),
            epochs: self.epochs.clone(),
            ..*self
        }
    }
}

impl<I, O> RankLoader<I, O> {
    /// Makes a loader of batches of `batch` rows over all ranks, in the order of the dataset. The
    /// last batch has the remaining rows. Returns [`Error::NoSuchRank`] if `rank` is not below
    /// `ranks`, and [`Error::SmallBatch`] if `batch` is smaller than `ranks`.
    pub fn new(
        dataset: impl Dataset<I> + 'static,
        batcher: impl Batcher<I, O> + 'static,
        batch: usize,
        rank: usize,
        ranks: usize,
    ) -> Result<Self> {
        if rank >= ranks {
            return Err(Error::NoSuchRank { rank, ranks });
        }
        if batch < ranks {
            return Err(Error::SmallBatch { rows: batch, ranks });
        }
        Ok(Self {
            dataset: Arc::new(dataset),
            batcher: Arc::new(batcher),
            device: Device::default(),
            batch,
            rank,
            ranks,
            seed: None,
            epochs: Arc::default(),
        })
    }

    /// Shuffles the rows for every epoch, in an order that depends on this number and the epoch
    /// alone.
    pub fn shuffle(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Returns the rows of this rank in the batch that begins at row `from`.
    fn part(&self, from: usize) -> std::ops::Range<usize> {
        let rows = self.batch.min(self.dataset.len() - from);
        let at = |rank| from + rows * rank / self.ranks;
        at(self.rank)..at(self.rank + 1)
    }

    fn parts(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        (0..self.dataset.len()).step_by(self.batch).map(|from| self.part(from))
    }
}

impl<I, O> DataLoader<O> for RankLoader<I, O>
where
    I: Send + Sync + Clone + 'static,
    O: Send + 'static,
{
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let mut order: Vec<usize> = (0..self.dataset.len()).collect();
        let epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
        if let Some(seed) = self.seed {
            fastrand::Rng::with_seed(seed.wrapping_add(epoch)).shuffle(&mut order);
        }
        Box::new(Parts { loader: self, order, next: 0, processed: 0 })
    }

    fn num_items(&self) -> usize {
        self.parts().map(|part| part.len()).sum()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        Arc::new(Self { device: device.clone(), ..self.clone() })
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        let dataset = Arc::new(PartialDataset::new(self.dataset.clone(), start, end));
        Arc::new(Self { dataset, ..self.clone() })
    }
}

/// An iterator over this rank's parts of the batches of one epoch.
struct Parts<'a, I, O> {
    loader: &'a RankLoader<I, O>,
    order: Vec<usize>,
    /// The row at which the next batch begins.
    next: usize,
    processed: usize,
}

impl<I, O> Iterator for Parts<'_, I, O>
where
    I: Send + Sync + Clone + 'static,
    O: Send + 'static,
{
    type Item = std::result::Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.order.len() {
            return None;
        }
        let part = self.loader.part(self.next);
        self.next += self.loader.batch;
        // Only the last batch can have fewer rows than there are ranks.
        if part.is_empty() {
            return None;
        }
        self.processed += part.len();
        let rows = self.order.get(part)?.to_vec();
        let batch = |rows| self.loader.batcher.batch(rows, &self.loader.device);
        Some(self.loader.dataset.get_many(rows).map(batch))
    }
}

impl<I, O> DataLoaderIterator<O> for Parts<'_, I, O>
where
    I: Send + Sync + Clone + 'static,
    O: Send + 'static,
{
    fn progress(&self) -> Progress {
        let total = self.loader.parts().map(|part| part.len()).sum();
        Progress::new(self.processed, total, Some("items".into()))
    }
}
