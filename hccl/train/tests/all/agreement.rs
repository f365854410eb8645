//! Ranks that pass different lengths or options get an error that names the difference, before
//! anything is sent.

use hccl::prelude::*;
use hccl_train::{BucketOptions, Error, FixedSum, GradientBuckets, LayerShards, Result, Shards};

/// Runs a closure on three ranks. Returns the error of each rank.
fn errors(run: impl Fn(u32, &mut Communicator, &Stream) -> Result<()> + Sync) -> Vec<String> {
    let runtime = Runtime::emulator(3).unwrap();
    let errors = runtime.run_ranks(3, |rank| -> Result<_> {
        let (stream, mut comm) = (rank.device().stream()?, rank.communicator()?);
        let error = run(rank.index(), &mut comm, &stream).expect_err("the ranks differ");
        assert!(matches!(error, Error::RanksDiffer { .. }), "{error}");
        // The communicator goes on.
        let one = rank.device().upload(&[1_i64], &stream)?;
        let sum = comm.all_reduce(&one, rank.device().alloc(1)?, Sum, &stream)?.0;
        assert_eq!(sum.to_vec(&stream).wait()?, [3]);
        Ok(error.to_string())
    });
    errors.unwrap()
}

/// Checks that all ranks have the same error, and that it has these words.
fn assert_all_say(errors: Vec<String>, words: &str) {
    for error in &errors {
        assert!(error.contains(words), "{words:?} is not in: {error}");
        assert!(error.contains("pass the same lengths in the same order"), "{error}");
    }
}

/// Returns `usual` on every rank but rank 2, and `other` there.
fn of_rank<T>(rank: u32, usual: T, other: T) -> T {
    if rank == 2 { other } else { usual }
}

#[test]
fn gradients_of_different_models_are_not_summed() {
    let push_all = |lengths: &[usize], options: BucketOptions, comm: &mut _, stream: &_| {
        let mut buckets = GradientBuckets::<f32>::with(options, lengths, stream)?;
        let mut step = buckets.step(comm, stream);
        for (tensor, length) in lengths.iter().enumerate().rev() {
            step.push(tensor, &vec![1.0; *length])?;
        }
        step.finish().map(|_| ())
    };
    let of_lengths = |usual: &'static [usize], other: &'static [usize]| {
        errors(|rank, comm, stream| {
            push_all(of_rank(rank, usual, other), BucketOptions::default(), comm, stream)
        })
    };
    // The sums of the lengths are equal, so HCCL would see no difference.
    let swapped = "the length of tensor 1 is 5 on rank 0, but 3 on rank 2";
    assert_all_say(of_lengths(&[4, 5, 3], &[4, 3, 5]), swapped);
    let fewer = "the number of tensors is 3 on rank 0, but 2 on rank 2";
    assert_all_say(of_lengths(&[4, 5, 3], &[4, 8]), fewer);
    let none = "the number of tensors is 1 on rank 0, but 0 on rank 2";
    assert_all_say(of_lengths(&[4], &[]), none);
    let of_options = errors(|rank, comm, stream| {
        let options = BucketOptions::default().bytes(of_rank(rank, 16, 64));
        push_all(&[4, 4], options, comm, stream)
    });
    assert_all_say(of_options, "the size of a bucket in bytes is 16 on rank 0, but 64 on rank 2");
}

#[test]
fn shards_of_different_models_are_neither_summed_nor_gathered() {
    for gathers in [false, true] {
        let errors = errors(|rank, comm, stream| {
            let lengths: &[usize] = of_rank(rank, &[2, 4], &[4, 2]);
            let mut shards = Shards::<f32>::new(lengths, comm, stream)?;
            let own = vec![0.0; shards.own().len()];
            match gathers {
                true => shards.gather(&own, comm, stream),
                false => shards.reduce(comm, stream).map(|_| ()),
            }
        });
        assert_all_say(errors, "the length of tensor 0 is 2 on rank 0, but 4 on rank 2");
    }
    for gathers in [false, true] {
        let errors = errors(|rank, comm, stream| {
            // Padded to the number of ranks, the layers have the same length.
            let lengths = [3, of_rank(rank, 5, 6)];
            let first = |_, own: std::ops::Range<usize>| vec![0.0; own.len()];
            let mut layers = LayerShards::<f32>::new(&lengths, comm, stream, first)?;
            match gathers {
                true => layers.prefetch(0, comm, stream),
                false => layers.reduce(0, &[0.0; 3], comm, stream).map(|_| ()),
            }
        });
        assert_all_say(errors, "the length of layer 1 is 5 on rank 0, but 6 on rank 2");
    }
}

#[test]
fn a_communicator_of_the_same_name_with_other_ranks_is_compared_again() {
    let runtime = Runtime::emulator(2).unwrap();
    let sums = runtime.run_ranks(2, |rank| -> Result<_> {
        let stream = rank.device().stream()?;
        let mut world = rank.communicator()?;
        let mut kept = GradientBuckets::<f32>::new(&[2], &stream)?;
        let mut sums = Vec::new();
        for round in 0..2 {
            let mut part = world.split(Some(0), 0).wait()?.expect("every rank has a color");
            // Rank 1 is a replacement in the second round: its buckets are new.
            let mut new = GradientBuckets::<f32>::new(&[2], &stream)?;
            let buckets = if (round, rank.index()) == (1, 1) { &mut new } else { &mut kept };
            for _ in 0..2 {
                let mut step = buckets.step(&mut part, &stream);
                step.push(0, &[1.0, rank.index() as f32])?;
                sums.push(step.finish()?.get(0)?.to_vec());
            }
        }
        Ok(sums)
    });
    assert_eq!(sums.unwrap(), vec![vec![[1.0, 0.5]; 4]; 2]);
}

#[test]
fn shards_of_another_rank_or_another_number_of_ranks_are_refused_by_all() {
    let runtime = Runtime::emulator(3).unwrap();
    let outcome = runtime.run_ranks(3, |rank| -> Result<_> {
        let stream = rank.device().stream()?;
        let mut world = rank.communicator()?;
        let mut shards = Shards::<f32>::new(&[6], &world, &stream)?;
        let first = |_, own: std::ops::Range<usize>| vec![0.0; own.len()];
        let mut layers = LayerShards::<f32>::new(&[6], &world, &stream, first)?;
        shards.reduce(&mut world, &stream)?;
        layers.get(0, &mut world, &stream)?;
        // Rank 0 becomes the last.
        let key = (rank.index() + 2) % 3;
        let mut turned = world.split(Some(0), key).wait()?.expect("every rank has a color");
        let of_shards = shards.reduce(&mut turned, &stream).unwrap_err().to_string();
        let of_layers = layers.prefetch(0, &mut turned, &stream).unwrap_err().to_string();
        for error in [of_shards, of_layers] {
            let said = "rank 0 of 3 has shards that were made for rank 1 of 3: make new shards";
            assert!(error.contains(said), "{error}");
        }
        // Rank 2 is gone.
        let color = (rank.index() < 2).then_some(1);
        if let Some(mut fewer) = world.split(color, 0).wait()? {
            let own = vec![0.0; shards.own().len()];
            let error = shards.gather(&own, &mut fewer, &stream).unwrap_err().to_string();
            assert!(
                error.contains("rank 0 of 2 has shards that were made for rank 0 of 3"),
                "{error}"
            );
        }
        // The communicator for which they were made goes on.
        shards.reduce(&mut world, &stream).map(|_| ())
    });
    outcome.unwrap();
}

#[test]
fn lengths_that_the_padding_of_a_fixed_sum_hides_are_told() {
    let found = errors(|rank, comm, stream| {
        let own = [vec![1.0_f32; of_rank(rank, 4, 5)]];
        FixedSum::new(3).sum(&own, comm, stream).map(|_| ())
    });
    assert_all_say(found, "the length of a shard's gradients is 4 on rank 0, but 5 on rank 2");
}
