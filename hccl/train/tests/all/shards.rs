//! Tests of sharded parameters.

use hccl_train::{Error, LayerShards, Shards};

use crate::{assert_near, on_ranks};

#[test]
fn shards_give_each_rank_the_mean_of_its_part_and_all_parameters_to_everybody() {
    for lengths in [&[5, 0, 6][..], &[1], &[], &[4, 4]] {
        let parts = on_ranks(|rank, comm, stream| {
            let mut shards = Shards::<f32>::new(lengths, comm, stream)?;
            assert!(matches!(shards.parameter(0), Err(Error::NotGathered)));
            for step in 0..2 {
                for tensor in 0..lengths.len() {
                    let from = shards.place(tensor)?.start;
                    let of_rank = (rank.index() + step) as f32;
                    for (at, to) in shards.gradient_mut(tensor)?.iter_mut().enumerate() {
                        *to = (from + at) as f32 + of_rank;
                    }
                }
                let (own, ranks) = (shards.own(), rank.world_size() as f32);
                let expected: Vec<f32> =
                    own.clone().map(|at| at as f32 + (ranks - 1.0) / 2.0 + step as f32).collect();
                assert_near(shards.reduce(comm, stream)?, &expected);
                let new: Vec<f32> = own.map(|at| -(at as f32) - step as f32).collect();
                shards.gather(&new, comm, stream)?;
                for tensor in 0..lengths.len() {
                    let place = shards.place(tensor)?;
                    let expected: Vec<f32> = place.map(|at| -(at as f32) - step as f32).collect();
                    assert_near(shards.parameter(tensor)?, &expected);
                }
            }
            assert!(shards.gather(&[0.0; 99], comm, stream).is_err());
            assert!(shards.gradient_mut(lengths.len()).is_err());
            Ok(shards.own())
        });
        for parts in parts {
            let all: Vec<usize> = parts.into_iter().flatten().collect();
            assert!(all.iter().copied().eq(0..lengths.iter().sum()), "each once, in order");
        }
    }
}

#[test]
fn layers_are_whole_while_they_are_used_and_change_with_their_parts() {
    let lengths = [7, 0, 3, 12];
    on_ranks(|rank, comm, stream| {
        let value = |layer: usize, at: usize| (100 * layer + at) as f32;
        let mut layers = LayerShards::new(&lengths, comm, stream, |layer, own| {
            own.map(|at| value(layer, at)).collect()
        })?;
        for round in 0..2 {
            let old = |layer: usize, at: usize| value(layer, at) - round as f32;
            let forward = 0..lengths.len();
            for layer in forward.clone().chain(forward.rev()) {
                let next = (layer + 1) % lengths.len();
                let all: Vec<f32> = (0..lengths[layer]).map(|at| old(layer, at)).collect();
                layers.prefetch(layer, comm, stream)?;
                layers.prefetch(layer, comm, stream)?;
                assert_eq!(layers.get(layer, comm, stream)?, all);
                layers.prefetch(next, comm, stream)?;
                assert_eq!(layers.get(layer, comm, stream)?, all, "it stays while the next comes");
            }
            for (layer, length) in lengths.into_iter().enumerate() {
                let gradient = vec![rank.index() as f32; length];
                let own = layers.own(layer)?;
                let mean = layers.reduce(layer, &gradient, comm, stream)?;
                assert_near(&mean, &vec![(rank.world_size() - 1) as f32 / 2.0; own.len()]);
                let new: Vec<f32> = own.map(|at| old(layer, at) - 1.0).collect();
                layers.update(layer, &new, stream)?;
            }
        }
        assert!(layers.get(4, comm, stream).is_err());
        assert!(layers.update(0, &[0.0; 99], stream).is_err());
        assert!(layers.reduce(0, &[0.0; 99], comm, stream).is_err());
        Ok(())
    });
}
