//! Tests the parts of batches that ranks get.

use burn::data::dataloader::DataLoader;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::InMemDataset;
use burn::tensor::Device;
use hccl_burn::{Error, RankLoader};

/// A batcher that returns rows as they are.
struct Rows;

impl Batcher<u32, Vec<u32>> for Rows {
    fn batch(&self, rows: Vec<u32>, _: &Device) -> Vec<u32> {
        rows
    }
}

fn loader(rows: u32, batch: usize, rank: usize, ranks: usize) -> RankLoader<u32, Vec<u32>> {
    RankLoader::new(InMemDataset::new((0..rows).collect()), Rows, batch, rank, ranks).unwrap()
}

fn batches(loader: &dyn DataLoader<Vec<u32>>) -> Vec<Vec<u32>> {
    loader.iter().map(Result::unwrap).collect()
}

#[test]
fn the_parts_of_all_ranks_are_the_batches_of_one() {
    for (rows, batch, ranks) in [(10, 4, 1), (10, 4, 2), (10, 4, 4), (13, 5, 3), (0, 3, 2)] {
        let whole = batches(&loader(rows, batch, 0, 1).shuffle(3));
        let mut joined: Vec<Vec<u32>> = vec![Vec::new(); whole.len()];
        let mut items = 0;
        for rank in 0..ranks {
            let loader = loader(rows, batch, rank, ranks).shuffle(3);
            let parts = batches(&loader);
            assert!(parts.iter().all(|part| !part.is_empty()));
            assert_eq!(loader.num_items(), parts.concat().len());
            items += loader.num_items();
            joined.iter_mut().zip(parts).for_each(|(joined, part)| joined.extend(part));
        }
        assert_eq!(items, rows as usize);
        assert_eq!(joined, whole);
        assert!(whole.iter().rev().skip(1).all(|rows| rows.len() == batch));
    }
}

#[test]
fn every_epoch_has_all_rows_in_an_order_of_its_own_that_the_seed_decides() {
    let all: Vec<u32> = (0..20).collect();
    let epochs = |loader: &dyn DataLoader<Vec<u32>>| [(); 2].map(|()| batches(loader).concat());
    assert_eq!(epochs(&loader(20, 6, 0, 1)), [all.clone(), all.clone()]);
    let shuffled = epochs(&loader(20, 6, 0, 1).shuffle(1));
    assert_ne!(shuffled[0], shuffled[1]);
    assert_eq!(shuffled, epochs(&loader(20, 6, 0, 1).shuffle(1)));
    assert_ne!(shuffled, epochs(&loader(20, 6, 0, 1).shuffle(9)));
    for mut epoch in shuffled {
        epoch.sort_unstable();
        assert_eq!(epoch, all);
    }
}

#[test]
fn progress_counts_the_rows_of_the_rank_also_of_a_slice_on_another_device() {
    let loader = loader(11, 4, 1, 2).to_device(&Device::default().autodiff()).slice(1, 11);
    let mut parts = loader.iter();
    assert_eq!((parts.progress().items_processed, parts.progress().items_total), (0, 5));
    assert_eq!(parts.next().unwrap().unwrap(), [3, 4]);
    assert_eq!(parts.progress().items_processed, 2);
    assert_eq!(parts.next().unwrap().unwrap(), [7, 8]);
    assert_eq!(parts.next().unwrap().unwrap(), [10]);
    assert!(parts.next().is_none() && parts.progress().is_completed());
}

#[test]
fn parts_that_cannot_be_are_refused() {
    let made = |batch, rank, ranks| {
        RankLoader::new(InMemDataset::new(vec![1u32]), Rows, batch, rank, ranks).map(drop)
    };
    assert!(matches!(made(3, 0, 4), Err(Error::SmallBatch { rows: 3, ranks: 4 })));
    assert!(matches!(made(0, 0, 1), Err(Error::SmallBatch { rows: 0, ranks: 1 })));
    assert!(matches!(made(4, 2, 2), Err(Error::NoSuchRank { rank: 2, ranks: 2 })));
    assert!(matches!(made(4, 0, 0), Err(Error::NoSuchRank { rank: 0, ranks: 0 })));
}
