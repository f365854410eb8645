//! Tests of gradient buckets.

use hccl::prelude::*;
use hccl_train::{BucketOptions, Error, GradientBuckets, LayerShards, Result, Shards};

use crate::{assert_near, on_ranks};

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
fn a_step_that_is_put_aside_refuses_to_accumulate_what_it_has() {
    on_ranks(|_, comm, stream| {
        let mut buckets = GradientBuckets::<f32>::new(&[2, 1], stream)?;
        let mut step = buckets.step(comm, stream);
        step.push(0, &[1.0, 2.0])?;
        let paused = step.pause();
        let twice = buckets.accumulate(0, &[5.0, 5.0]);
        assert!(matches!(twice, Err(Error::PushedTwice { tensor: 0 })));
        // The other one was not pushed yet.
        buckets.accumulate(1, &[3.0])?;
        let mut step = buckets.resume(paused, comm, stream)?;
        step.push(1, &[4.0])?;
        let means = step.finish()?;
        assert_near(means.get(0)?, &[1.0, 2.0]);
        assert_near(means.get(1)?, &[7.0]);
        // After the step, gradients of the next one can be accumulated.
        buckets.accumulate(0, &[1.0, 1.0])
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
