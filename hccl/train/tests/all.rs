//! Steps of training on one to four ranks, compared with the results of one rank alone.

use hccl::prelude::*;
use hccl_train::pipeline::{Pass, Pipeline};
use hccl_train::tensor_parallel::{ColumnLinear, RowLinear, TensorParallel};
use hccl_train::{
    ArrayPart, BucketOptions, Checkpoints, Error, FixedSum, GradientBuckets, LayerShards, Result,
    Shards, objects,
};
use ndarray::{Array1, Array2};

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

/// The lengths of tensors, chosen so that buckets of 64 bytes have one tensor or several. Two
/// tensors are empty.
const LENGTHS: [usize; 7] = [3, 0, 20, 1, 1, 16, 0];

/// Returns the gradient of a tensor on a rank: whole numbers, whose sums are exact.
fn gradient(tensor: usize, rank: u32, step: usize) -> Vec<f32> {
    let value = |at: usize| (at + 10 * tensor + 100 * rank as usize + 1000 * step) as f32;
    (0..LENGTHS[tensor]).map(value).collect()
}

fn mean(tensor: usize, ranks: u32, step: usize) -> Vec<f32> {
    let mut sum = vec![0.0; LENGTHS[tensor]];
    for rank in 0..ranks {
        let own = gradient(tensor, rank, step);
        sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own / ranks as f32);
    }
    sum
}

fn assert_near(given: &[f32], expected: &[f32]) {
    assert_eq!(given.len(), expected.len());
    for (given, expected) in given.iter().zip(expected) {
        assert!((given - expected).abs() <= 1e-3, "{given} is not {expected}");
    }
}

#[test]
fn every_rank_has_the_mean_whatever_the_order_in_which_gradients_come() {
    for bytes in [1, 64, 1 << 20] {
        on_ranks(|rank, comm, stream| {
            let options = BucketOptions::default().bytes(bytes).timed(true);
            let mut buckets = GradientBuckets::<f32>::with(options, &LENGTHS, stream)?;
            let mut of_all: Vec<usize> = buckets.layout().flatten().collect();
            of_all.sort_unstable();
            assert_eq!(of_all, [0, 1, 2, 3, 4, 5, 6]);
            for step in 0..3 {
                let mut order: Vec<usize> = (0..LENGTHS.len()).collect();
                // The order is different on every rank and in every step.
                order.rotate_left((rank.index() as usize + step) % LENGTHS.len());
                let mut pushing = buckets.step(comm, stream);
                for tensor in order {
                    let own = gradient(tensor, rank.index(), step);
                    match tensor % 2 {
                        0 => pushing.push(tensor, &own)?,
                        _ => pushing.push_with(tensor, |place| place.copy_from_slice(&own))?,
                    }
                }
                let gradients = pushing.finish()?;
                for tensor in 0..LENGTHS.len() {
                    let expected = mean(tensor, rank.world_size(), step);
                    assert_near(gradients.get(tensor)?, &expected);
                }
                let events = gradients.events(0);
                if bytes == 1 << 20 {
                    let events = events.expect("it has elements");
                    assert!(events.begins.elapsed_until(&events.ends)?.as_secs() < 3600);
                }
                assert!(gradients.events(99).is_none());
            }
            Ok(())
        });
    }
}

#[test]
fn accumulated_gradients_join_the_next_push_once() {
    on_ranks(|rank, comm, stream| {
        let mut buckets = GradientBuckets::<f32>::new(&[2, 1], stream)?;
        for _ in 0..2 {
            buckets.accumulate(0, &[1.0, 2.0])?;
            buckets.accumulate(0, &[10.0, 20.0])?;
            buckets.accumulate(1, &[7.0])?;
            let mut step = buckets.step(comm, stream).scale(1.0);
            step.push(1, &[1.0])?;
            step.push_with(0, |place| place.fill(100.0))?;
            let gradients = step.finish()?;
            let ranks = rank.world_size() as f32;
            assert_eq!(gradients.get(0)?, [111.0 * ranks, 122.0 * ranks]);
            assert_eq!(gradients.get(1)?, [8.0 * ranks]);
        }
        Ok(())
    });
}

#[test]
fn gradients_of_16_bits_are_summed_in_32_on_request() {
    let sums = on_ranks(|rank, comm, stream| {
        // An f16 cannot represent 2049.
        let own = [f16::from_f32(if rank.index() == 0 { 2048.0 } else { 1.0 })];
        let mut wide = GradientBuckets::<f16, f32>::new(&[1], stream)?;
        let mut step = wide.step(comm, stream).scale(1.0);
        step.push(0, &own)?;
        let in_32 = step.finish()?.get(0)?[0];
        let mut narrow = GradientBuckets::<f16>::new(&[1], stream)?;
        let mut step = narrow.step(comm, stream).scale(1.0);
        step.push(0, &own)?;
        Ok((in_32, step.finish()?.get(0)?[0].to_f32()))
    });
    assert_eq!(sums[1], [(2049.0, 2048.0); 2]);
    let bf16s = on_ranks(|_, comm, stream| {
        let mut wide = GradientBuckets::<bf16, f32>::new(&[1], stream)?;
        let mut step = wide.step(comm, stream);
        step.push(0, &[bf16::from_f32(1.5)])?;
        Ok(step.finish()?.get(0)?[0])
    });
    assert!(bf16s.concat().iter().all(|mean| *mean == 1.5));
}

#[test]
fn clipping_scales_all_tensors_to_the_norm_and_leaves_smaller_ones() {
    on_ranks(|_, comm, stream| {
        let options = BucketOptions::default().bytes(4);
        let mut buckets = GradientBuckets::<f32>::with(options, &[1, 1], stream)?;
        let mut step = buckets.step(comm, stream);
        step.push(1, &[4.0])?;
        step.push(0, &[3.0])?;
        let mut gradients = step.finish()?;
        assert_eq!(gradients.clip_norm(10.0)?, 5.0);
        assert_eq!((gradients.get(0)?, gradients.get(1)?), (&[3.0][..], &[4.0][..]));
        assert_eq!(gradients.clip_norm(1.0)?, 5.0);
        assert_near(gradients.get(0)?, &[0.6]);
        assert_near(gradients.get(1)?, &[0.8]);
        assert!((gradients.norm()? - 1.0).abs() < 1e-6);
        Ok(())
    });
}

#[test]
fn mistakes_in_a_step_are_told_before_anything_moves() {
    on_ranks(|_, comm, stream| {
        let mut buckets = GradientBuckets::<f32>::new(&[2, 1], stream)?;
        let said = |outcome: Result<()>, piece: &str| {
            let text = outcome.expect_err(piece).to_string();
            assert!(text.contains(piece), "{piece:?} is not in: {text}");
        };
        said(buckets.accumulate(2, &[]), "there is no tensor 2: the number of tensors is 2");
        said(
            buckets.accumulate(0, &[1.0]),
            "the gradient of tensor 0 has 1 element, but 2 are needed",
        );
        let mut step = buckets.step(comm, stream);
        step.push(1, &[1.0])?;
        said(step.push(1, &[1.0]), "tensor 1 was already pushed");
        said(step.push_with(7, |_| ()), "there is no tensor 7");
        said(step.finish().map(drop), "no gradient was pushed for tensors [0]");
        // The failed step had issued nothing, so the next step works.
        let mut step = buckets.step(comm, stream);
        step.push(0, &[1.0, 2.0])?;
        step.push(1, &[3.0])?;
        assert_eq!(step.finish()?.get(0)?, [1.0, 2.0]);
        Ok(())
    });
}

#[test]
fn lengths_that_no_memory_has_are_told_and_not_added_up() {
    on_ranks(|_, comm, stream| {
        let is_told = |made: Result<(), Error>| {
            let error = made.unwrap_err().to_string();
            assert!(error.contains("are more than an address space holds"), "{error}");
        };
        for lengths in [&[usize::MAX][..], &[usize::MAX, 2], &[3, usize::MAX / 2, usize::MAX / 2]] {
            is_told(GradientBuckets::<f32>::new(lengths, stream).map(drop));
            is_told(Shards::<f32>::new(lengths, comm, stream).map(drop));
        }
        // The closure returns no elements, so the length is wrong.
        let made = LayerShards::<f32>::new(&[usize::MAX], comm, stream, |_, _| Vec::new());
        assert!(matches!(made.map(drop), Err(Error::Length { .. })));
        Ok(())
    });
}

#[test]
fn a_step_that_was_dropped_on_its_way_is_not_added_to_the_next() {
    on_ranks(|_, comm, stream| {
        let options = BucketOptions::default().bytes(4);
        let mut buckets = GradientBuckets::<f32>::with(options, &[1, 1], stream)?;
        buckets.step(comm, stream).push(1, &[1.0])?;
        let mut step = buckets.step(comm, stream);
        let refused = step.push(1, &[1.0]).expect_err("a bucket is under way");
        assert!(matches!(refused, Error::Unfinished { issued: 1, buckets: 2 }), "{refused}");
        assert!(step.finish().is_err());
        Ok(())
    });
}

#[test]
fn a_step_that_is_put_aside_between_pushes_gives_the_same_means() {
    on_ranks(|rank, comm, stream| {
        let options = BucketOptions::default().bytes(64);
        let mut buckets = GradientBuckets::<f32>::with(options, &LENGTHS, stream)?;
        for number in 0..2 {
            let mut paused = buckets.step(comm, stream).pause();
            for tensor in 0..LENGTHS.len() {
                let mut step = buckets.resume(paused, comm, stream)?;
                step.push(tensor, &gradient(tensor, rank.index(), number))?;
                paused = step.pause();
            }
            let means = buckets.resume(paused, comm, stream)?.finish()?;
            for tensor in 0..LENGTHS.len() {
                assert_near(means.get(tensor)?, &mean(tensor, rank.world_size(), number));
            }
        }
        Ok(())
    });
}

#[test]
fn a_step_that_was_put_aside_does_not_go_on_in_another_one() {
    on_ranks(|_, comm, stream| {
        let mut buckets = GradientBuckets::<f32>::new(&[1, 1], stream)?;
        let mut others = GradientBuckets::<f32>::new(&[1, 1], stream)?;
        let old = buckets.step(comm, stream).pause();
        let new = buckets.step(comm, stream).pause();
        let refused = buckets.resume(old, comm, stream).map(drop);
        assert!(matches!(refused, Err(Error::OtherStep)), "{refused:?}");
        let _ = others.step(comm, stream).pause();
        let refused = others.resume(new, comm, stream).map(drop);
        assert!(matches!(refused, Err(Error::OtherStep)), "{refused:?}");
        Ok(())
    });
}

#[test]
fn shards_give_each_rank_the_mean_of_its_part_and_all_parameters_to_everybody() {
    for lengths in [&[5, 0, 6][..], &[1], &[], &[4, 4]] {
        let parts = on_ranks(|rank, comm, stream| {
            let mut shards = Shards::<f32>::new(lengths, comm, stream)?;
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

/// Returns a matrix of whole numbers, whose sums and products are exact.
fn matrix(rows: usize, columns: usize, seed: usize) -> Array2<f32> {
    let value = |(row, column)| ((row * 7 + column * 3 + seed) % 11) as f32 - 5.0;
    Array2::from_shape_fn((rows, columns), value)
}

fn vector(length: usize, seed: usize) -> Array1<f32> {
    Array1::from_shape_fn(length, |at| ((at * 5 + seed) % 7) as f32 - 3.0)
}

#[test]
fn divided_layers_compute_what_whole_ones_do() {
    on_ranks(|rank, comm, stream| {
        let ranks = rank.world_size() as usize;
        let (tokens, width, hidden) = (3, 5, 2 * ranks);
        let inputs = matrix(tokens, width, 1);
        let (first, first_bias) = (matrix(width, hidden, 2), vector(hidden, 3));
        let (second, second_bias) = (matrix(hidden, width, 4), vector(width, 5));
        let delta = matrix(tokens, width, 6);
        // The results of the whole layers.
        let middle = inputs.dot(&first) + &first_bias;
        let outputs = middle.dot(&second) + &second_bias;
        let middle_delta = delta.dot(&second.t());
        let inputs_delta = middle_delta.dot(&first.t());
        // The results of the divided layers.
        let mut group = TensorParallel::new(comm, stream);
        let column = ColumnLinear::part_of(&first, &first_bias, &group)?;
        let row = RowLinear::part_of(&second, &second_bias, &group)?;
        let own = rank.index() as isize * 2..rank.index() as isize * 2 + 2;
        let own_middle = column.forward(inputs.view());
        assert_eq!(own_middle, middle.slice(ndarray::s![.., own.clone()]));
        assert_eq!(row.forward(own_middle.view(), &mut group)?, outputs);
        let of_row = row.backward(own_middle.view(), delta.view());
        assert_eq!(of_row.inputs, middle_delta.slice(ndarray::s![.., own.clone()]));
        let weight = middle.t().dot(&delta);
        assert_eq!(of_row.weight, weight.slice(ndarray::s![own.clone(), ..]));
        assert_eq!(of_row.bias, delta.sum_axis(ndarray::Axis(0)));
        let of_column = column.backward(inputs.view(), of_row.inputs.view(), &mut group)?;
        assert_eq!(of_column.inputs, inputs_delta);
        let weight = inputs.t().dot(&middle_delta);
        assert_eq!(of_column.weight, weight.slice(ndarray::s![.., own.clone()]));
        let bias = middle_delta.sum_axis(ndarray::Axis(0));
        assert_eq!(of_column.bias, bias.slice(ndarray::s![own]));
        if ranks > 1 {
            let odd =
                ColumnLinear::part_of(&matrix(2, ranks + 1, 0), &vector(ranks + 1, 0), &group);
            assert!(matches!(odd, Err(Error::NotDivisible { what: "outputs", .. })));
            let odd = RowLinear::part_of(&matrix(ranks + 1, 2, 0), &vector(2, 0), &group);
            assert!(matches!(odd, Err(Error::NotDivisible { what: "inputs", .. })));
        }
        assert!(RowLinear::part_of(&matrix(ranks, 2, 0), &vector(3, 0), &group).is_err());
        Ok(())
    });
}

#[test]
fn each_pair_has_the_backward_of_its_forward() {
    on_ranks(|rank, comm, stream| {
        let (me, ranks) = (rank.index() as usize, rank.world_size() as usize);
        let mut group = TensorParallel::new(comm, stream);
        let of = |rank: usize, length: usize| -> Vec<f32> {
            (0..length).map(|at| (at + 100 * rank) as f32).collect()
        };
        let sum: Vec<f32> = (0..6 * ranks)
            .map(|at| (0..ranks).map(|rank| (at + 100 * rank) as f32).sum())
            .collect();
        let own = of(me, 6 * ranks);
        assert_eq!(group.reduce_out(&own)?, sum);
        assert_eq!(group.copy_in_backward(&own)?, sum);
        assert_eq!(group.scatter_out(&own)?, sum[6 * me..6 * me + 6]);
        assert_eq!(group.gather_in_backward(&own)?, sum[6 * me..6 * me + 6]);
        let all: Vec<f32> = (0..ranks).flat_map(|rank| of(rank, 4)).collect();
        assert_eq!(group.gather_in(&of(me, 4))?, all);
        assert_eq!(group.scatter_out_backward(&of(me, 4))?, all);
        assert!(group.gather_in::<f32>(&[])?.is_empty());
        assert!(group.scatter_out::<f32>(&[])?.is_empty());
        assert!(group.reduce_out::<f32>(&[])?.is_empty());
        if ranks > 1 {
            let odd = group.scatter_out(&of(0, ranks + 1));
            assert!(matches!(odd, Err(Error::NotDivisible { .. })));
        }
        Ok(())
    });
}

#[test]
fn a_checkpoint_is_read_with_another_number_of_ranks() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("checkpoints");
    let _ = std::fs::remove_dir_all(&directory);
    let value = |at: usize| (at as f32).sqrt();
    const TOTAL: usize = 11;
    on_ranks(|rank, comm, stream| {
        let ranks = rank.world_size() as usize;
        let saved = Checkpoints::new(directory.join(ranks.to_string()));
        assert_eq!(saved.latest(), None);
        let shards = Shards::<f32>::new(&[TOTAL], comm, stream)?;
        // The remains of a training that was ended during a save.
        let stale = directory.join(ranks.to_string()).join("unfinished-12");
        std::fs::create_dir_all(&stale).unwrap();
        std::fs::write(stale.join("weights.0-1.part"), b"old").unwrap();
        comm.barrier(stream)?.wait()?;
        for step in [3, 12, 12] {
            let values: Vec<f32> = shards.own().map(|at| value(at) + step as f32).collect();
            let own = shards.own();
            let part = ArrayPart { name: "weights", total: TOTAL, own, values: &values };
            saved.save(step, &[part], comm, stream)?;
            assert_eq!(saved.latest(), Some(step));
        }
        // Any other number of ranks can load it.
        for others in 1..=5 {
            let share = TOTAL.div_ceil(others);
            for other in 0..others {
                let range = TOTAL.min(other * share)..TOTAL.min((other + 1) * share);
                let expected: Vec<f32> = range.clone().map(|at| value(at) + 12.0).collect();
                assert_eq!(saved.load::<f32>(12, "weights", range)?, expected);
            }
        }
        let said = |outcome: Result<Vec<f32>>, piece: &str| {
            let text = outcome.expect_err(piece).to_string();
            assert!(text.contains(piece), "{piece:?} is not in: {text}");
        };
        said(saved.load(12, "weights", 0..12), "has no element 11 of the array \"weights\"");
        said(saved.load(12, "bias", 0..1), "has no element 0 of the array \"bias\"");
        said(saved.load(4, "weights", 0..1), "step-4");
        let wrong = saved.load::<f16>(12, "weights", 0..1).expect_err("another type");
        assert!(wrong.to_string().contains("of another type"), "{wrong}");
        // If one rank cannot write its part, the save fails on all ranks, and the step does not
        // exist.
        let last = rank.index() + 1 == rank.world_size();
        let name = if last { "no/name" } else { "name" };
        let part = ArrayPart::<f32> { name, total: 0, own: 0..0, values: &[] };
        let failed = saved.save(20, &[part], comm, stream).expect_err("a name").to_string();
        assert!(failed.contains(&format!("rank {}:", ranks - 1)), "{failed}");
        assert_eq!(saved.latest(), Some(12));
        Ok(())
    });
}

#[test]
fn a_checkpoint_that_could_not_be_loaded_is_not_saved() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-covered");
    let _ = std::fs::remove_dir_all(&directory);
    on_ranks(|rank, comm, stream| {
        if rank.world_size() != 2 {
            return Ok(());
        }
        let saved = Checkpoints::new(&directory);
        let own = rank.index() as usize;
        let mut fails =
            |steps: [u64; 2], totals: [usize; 2], parts: &[[(usize, usize); 2]], text| {
                let values = [1.0_f32; 9];
                let parts: Vec<_> = parts
                    .iter()
                    .map(|part| part[own])
                    .map(|(start, end)| ArrayPart {
                        name: "w",
                        total: totals[own],
                        own: start..end,
                        values: &values[start..end],
                    })
                    .collect();
                let why = saved.save(steps[own], &parts, comm, stream).expect_err(text).to_string();
                assert!(why.contains(text), "{text:?} is not in: {why}");
            };
        let halves = [(0, 3), (3, 6)];
        fails([1, 1], [9, 9], &[halves], "no rank has element 6 of the array \"w\"");
        fails([1, 1], [6, 6], &[[(1, 3), (3, 6)]], "no rank has element 0");
        fails([1, 1], [6, 6], &[[(0, 2), (3, 6)]], "no rank has element 2");
        fails([1, 1], [6, 6], &[[(0, 5), (1, 6)]], "ranks 0 and 1 both have element 1");
        fails([1, 1], [6, 6], &[[(0, 6), (0, 6)]], "both have element 0");
        fails([1, 1], [6, 6], &[halves, halves], "both have element 0");
        fails([1, 1], [6, 7], &[halves], "is 6 on rank 0, but 7 on rank 1");
        fails([10, 11], [6, 6], &[halves], "saves step 1");
        assert_eq!(saved.latest(), None);
        assert!(!directory.join("unfinished-1").exists());
        Ok(())
    });
}

#[test]
fn a_save_never_deletes_an_array_of_the_same_step() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("twice");
    on_ranks(|rank, comm, stream| {
        let saved = Checkpoints::new(directory.join(comm.world_size().to_string()));
        if rank.index() == 0 {
            let _ = std::fs::remove_dir_all(directory.join(comm.world_size().to_string()));
        }
        let own = if rank.index() == 0 { 0..2 } else { 2..2 };
        let save = |names: &[&str], value: f32, comm: &mut Communicator| {
            let values = vec![value; own.len()];
            let part = |name| ArrayPart { name, total: 2, own: own.clone(), values: &values };
            let parts: Vec<_> = names.iter().map(|name| part(*name)).collect();
            saved.save(5, &parts, comm, stream)
        };
        save(&["w"], 1.0, comm)?;
        let why = save(&["state"], 2.0, comm).unwrap_err().to_string();
        assert!(
            why.contains("has the array \"w\" already") && why.contains("in one call"),
            "{why}"
        );
        assert_eq!(saved.load::<f32>(5, "w", 0..2)?, [1.0; 2]);
        save(&["state", "w"], 3.0, comm)?;
        assert_eq!(saved.load::<f32>(5, "w", 0..2)?, [3.0; 2]);
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

#[test]
fn a_part_of_a_checkpoint_that_was_damaged_is_refused() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged");
    let _ = std::fs::remove_dir_all(&directory);
    let step = directory.join("step-1");
    std::fs::create_dir_all(&step).unwrap();
    let saved = Checkpoints::new(&directory);
    for (bytes, piece) in [
        (&b"short"[..], "failed to fill"),
        (b"another!\x04\0\0\0\0\0\0\0\0\0\0\0", "not a part of a checkpoint"),
        (b"hccltr01\x04\0\0\0\0\0\0\0\0\0\0", "does not fit the range"),
        (b"hccltr01\x02\0\0\0\0\0\0\0\0\0\0\0", "another type"),
    ] {
        std::fs::write(step.join("w.0-1.part"), bytes).unwrap();
        let why = saved.load::<f32>(1, "w", 0..1).expect_err(piece).to_string();
        assert!(why.contains(piece), "{piece:?} is not in: {why}");
    }
}

#[test]
fn a_pipeline_brings_every_micro_batch_to_the_end_and_back() {
    on_ranks(|rank, comm, stream| {
        let (stage, stages) = (rank.index() as f32, rank.world_size() as f32);
        let mut pipeline = Pipeline::<f32>::new(9, comm, stream)?;
        assert_eq!(pipeline.is_last(), stage + 1.0 == stages);
        for micros in [0, 1, 5] {
            // A micro-batch has two elements more than its number. Each stage adds 1 to each
            // element in the forward pass and 10 in the backward pass.
            let expects = |pass| match pass {
                Pass::Forward(micro) | Pass::Backward(micro) => micro + 2,
            };
            let mut back = Vec::new();
            let run = |pass, input: Option<Vec<f32>>| -> Result<Vec<f32>> {
                match pass {
                    Pass::Forward(micro) => {
                        let input = input.unwrap_or_else(|| vec![micro as f32 * 100.0; micro + 2]);
                        assert_eq!(input, vec![micro as f32 * 100.0 + stage; micro + 2]);
                        Ok(input.iter().map(|value| value + 1.0).collect())
                    }
                    Pass::Backward(micro) => {
                        let input = input.unwrap_or_else(|| vec![micro as f32; micro + 2]);
                        let behind = stages - 1.0 - stage;
                        assert_eq!(input, vec![micro as f32 + 10.0 * behind; micro + 2]);
                        back.push(micro);
                        Ok(input.iter().map(|value| value + 10.0).collect())
                    }
                }
            };
            pipeline.step(micros, comm, stream, expects, run)?;
            assert!(back.into_iter().eq(0..micros));
        }
        Ok(())
    });
}

#[test]
fn what_has_no_room_between_two_stages_is_told_before_anything_moves() {
    on_ranks(|rank, comm, stream| {
        let mut pipeline = Pipeline::<f32>::new(3, comm, stream)?;
        let run = |_, _: Option<Vec<f32>>| Ok::<_, Error>(vec![0.0; 4]);
        let outcome = pipeline.step(1, comm, stream, |_| 4, run);
        if rank.world_size() > 1 {
            let why = outcome.expect_err("4 elements").to_string();
            assert!(why.contains("the room of the pipeline has 3 elements, but 4"), "{why}");
        }
        Ok(())
    });
}
