//! Defects that random programs have found, each reduced to a small program.

use hccl::prelude::*;
use hccl_tests::runtime_with;

/// Passes empty buffers that begin at the same address as the other buffer. CANN detects an
/// operation in place by equal pointers.
#[test]
fn an_empty_source_may_begin_where_the_destination_does() {
    let runtime = runtime_with(2);
    let outcome = runtime.run_ranks(2, |rank| -> hccl::Result<()> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let is_first = comm.rank() == 0;
        // Rank 0 has five elements for every rank, and rank 1 has none.
        let mut buffer = rank.device().upload(&[comm.rank() as i32; 10], &stream)?;
        let own = if is_first { 5 } else { 0 };
        let all = Partition::packed([5, 0])?;
        let expected = [0; 5];

        let (source, mut rest) = buffer.split_at_mut(own)?;
        let (mut to, _) = rest.slice_mut(..)?.split_at_mut(5)?;
        comm.all_gather_v(source.as_slice(), &mut to, &all, &stream)?;
        assert_eq!(to.as_slice().to_vec(&stream).wait()?, expected);

        to.fill_zero(&stream)?;
        let matrix = CountMatrix::new(2, vec![0, 5, 0, 0])?;
        if is_first {
            // This rank receives nothing.
            let (mut nothing, _) = rest.split_at_mut(0)?;
            comm.all_to_all_vc(source.as_slice(), &mut nothing, &matrix, &stream)?;
        } else {
            comm.all_to_all_vc(source.as_slice(), &mut to, &matrix, &stream)?;
            assert_eq!(to.as_slice().to_vec(&stream).wait()?, expected);
        }

        // Rank 1 gets no part of the sum, and its destination begins at the same address as its
        // source.
        let mut sums = rank.device().upload(&[3; 10], &stream)?;
        let (mut to, source) = sums.split_at_mut(own)?;
        let (source, _) = source.split_at_mut(5)?;
        comm.reduce_scatter_v(source.as_slice(), &mut to, Sum, &all, &stream)?;
        assert_eq!(to.as_slice().to_vec(&stream).wait()?, vec![6; own]);
        Ok(())
    });
    outcome.unwrap();
}

/// Checks that a rank leaves the whole communicator only when it has dropped all of its parts, too.
#[test]
fn a_part_outlives_what_it_is_part_of() {
    let runtime = runtime_with(2);
    let root = RootInfo::new(&runtime.device(0).unwrap()).unwrap();
    let parts = runtime.run_ranks(2, |rank| -> hccl::Result<_> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let builder = Communicator::builder().device(device).rank(rank.index());
        let mut whole = builder.world_size(2).root_info(&root).build().wait()?;
        let mut part = whole.subset(&[1, 0], 1).wait()?.expect("a member");
        if rank.index() == 1 {
            drop(whole);
            part.barrier(&stream)?.wait()?;
            drop(part);
        } else {
            part.barrier(&stream)?.wait()?;
            let error = whole.barrier(&stream).and_then(|work| work.wait()).unwrap_err();
            assert!(error.to_string().contains("rank 1 is gone"), "{error}");
        }
        // The same is true for the communicators of a run. One of them outlives the run.
        rank.communicator()?.subset(&[0, 1], 1).wait()
    });
    let parts = parts.unwrap();
    std::thread::scope(|scope| {
        for mut part in parts.into_iter().flatten() {
            scope.spawn(move || {
                let stream = part.device().stream().unwrap();
                part.barrier(&stream).unwrap().wait().unwrap();
            });
        }
    });
}
