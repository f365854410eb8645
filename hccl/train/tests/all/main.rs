//! Steps of training on one to four ranks, compared with the results of one rank alone.

mod agreement;
mod buckets;
mod checkpoints;
mod pipelines;
mod shards;
mod tensor_parallel;

use hccl::prelude::*;
use hccl_train::{Error, FixedSum, GradientBuckets, Result, objects};

/// Runs a closure on each rank, for every number of ranks up to four. Returns the results of the
/// ranks for each number.
fn on_ranks<T: Send + 'static>(
    run: impl Fn(&Rank, &mut Communicator, &Stream) -> Result<T> + Sync,
) -> Vec<Vec<T>> {
    let of_ranks = |ranks| {
        let runtime = Runtime::emulator(ranks as usize).unwrap();
        let results = runtime.run_ranks(ranks, |rank| {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            run(&rank, &mut comm, &stream)
        });
        results.unwrap()
    };
    (1..=4).map(of_ranks).collect()
}

fn assert_near(given: &[f32], expected: &[f32]) {
    assert_eq!(given.len(), expected.len());
    for (given, expected) in given.iter().zip(expected) {
        assert!((given - expected).abs() <= 1e-3, "{given} is not {expected}");
    }
}

#[test]
fn a_fixed_sum_has_the_same_bits_at_any_number_of_ranks() {
    for length in [0, 1, 13] {
        // The sum of these numbers depends on the order.
        let shard = |number: usize| -> Vec<f32> {
            (0..length).map(|at| ((number * 7919 + at * 104729) as f32).sin() * 1e3).collect()
        };
        let sums = on_ranks(|_, comm, stream| {
            let fixed = FixedSum::new(12);
            let own: Vec<Vec<f32>> = fixed.shards_of(comm)?.map(shard).collect();
            fixed.sum(&own, comm, stream)
        });
        let bits = |sum: &Vec<f32>| sum.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
        let first = bits(&sums[0][0]);
        assert_eq!(first.len(), length);
        assert!(sums.concat().iter().all(|sum| bits(sum) == first));
    }
    on_ranks(|rank, comm, stream| {
        let wrong = FixedSum::new(5).sum(&[[1.0f32]], comm, stream);
        if rank.world_size() > 1 {
            assert!(matches!(wrong, Err(Error::NotDivisible { count: 5, .. })));
        }
        let fixed = FixedSum::new(rank.world_size() as usize * 2);
        let uneven = fixed.sum(&[vec![1.0f32], vec![1.0, 2.0]], comm, stream);
        assert!(uneven.is_err_and(|why| why.to_string().contains("shard 1 of this rank")));
        Ok(())
    });
}

#[test]
fn objects_of_any_size_go_to_the_ranks_that_want_them() {
    type Object = (String, Vec<u32>, Option<f64>);
    let object = |rank: u32| -> Object {
        let rank = rank as usize;
        (format!("rank {rank}"), vec![7; 1000 * rank], rank.is_multiple_of(2).then_some(0.5))
    };
    on_ranks(|rank, comm, stream| {
        let (own, last) = (object(rank.index()), rank.world_size() - 1);
        let all: Vec<Object> = (0..rank.world_size()).map(object).collect();
        assert_eq!(objects::broadcast(Some(&own), last, comm, stream)?, all[last as usize]);
        let given = (rank.index() == 0).then_some(());
        assert_eq!(objects::broadcast(given.as_ref(), 0, comm, stream)?, (), "nothing at all");
        assert_eq!(objects::all_gather(&own, comm, stream)?, all);
        let gathered = objects::gather(&own, last, comm, stream)?;
        assert_eq!(gathered, (rank.index() == last).then(|| all.clone()));
        let mut turned = all.clone();
        turned.reverse();
        let given = (rank.index() == last).then_some(&turned[..]);
        let own_piece = objects::scatter(given, last, comm, stream)?;
        assert_eq!(own_piece, turned[rank.index() as usize]);
        let outside = rank.world_size();
        let is_outside = |why: &Error| {
            let Error::Hccl(hccl::Error::NoSuchRank { rank, .. }) = why else { return false };
            *rank == outside
        };
        let nobody = objects::gather(&own, outside, comm, stream);
        assert!(nobody.is_err_and(|why| is_outside(&why)));
        let nobody = objects::scatter::<Object>(None, outside, comm, stream);
        assert!(nobody.is_err_and(|why| is_outside(&why)));
        if rank.world_size() == 1 {
            let few = objects::scatter::<Object>(Some(&[]), 0, comm, stream);
            assert!(matches!(few, Err(Error::ObjectsOfRanks { given: 0, ranks: 1, .. })));
            let none = objects::broadcast::<Object>(None, 0, comm, stream);
            assert!(none.is_err_and(|why| why.to_string().contains("has passed no object")));
        }
        Ok(())
    });
}

#[test]
fn bytes_of_another_type_and_limits_that_are_none_are_errors() {
    on_ranks(|rank, comm, stream| {
        let sent = (String::from("text"), 7_u8);
        match rank.index() {
            0 => drop(objects::broadcast(Some(&sent), 0, comm, stream)?),
            _ => {
                let why = objects::broadcast::<u32>(None, 0, comm, stream).unwrap_err().to_string();
                assert!(why.contains("an object cannot be read"), "{why}");
            }
        }
        let mut buckets = GradientBuckets::<f32>::new(&[1], stream)?;
        let mut step = buckets.step(comm, stream);
        step.push(0, &[2.0])?;
        let mut gradients = step.finish()?;
        for most in [-1.0, f64::NAN] {
            let why = gradients.clip_norm(most).unwrap_err().to_string();
            assert!(why.contains("pass a number from 0"), "{why}");
        }
        assert_eq!((gradients.clip_norm(0.0)?, gradients.get(0)?), (2.0, &[0.0][..]));
        Ok(())
    });
}
