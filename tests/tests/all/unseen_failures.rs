//! A failed operation whose `Work` is not checked: every reader of its destination gets its error,
//! and never the wrong bytes.

use hccl::prelude::*;
use hccl_tests::both_backends;

/// A length above what a small operation does in its first step.
const LEN: usize = 4000;

/// The way in which the first operation fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fails {
    /// The ranks disagree about the count.
    Mismatch,
    /// The other rank has returned.
    Gone,
}

type Read = fn(&Rank, &mut DeviceBuffer<i32>, [&Stream; 2]) -> hccl::Result<Vec<i32>>;

/// The ways in which a host reads memory. The operation was on the first stream.
const READS: [(&str, Read); 10] = [
    ("to_vec", |_, x, [s, _]| x.to_vec(s).wait()),
    ("await", |_, x, [s, _]| futures::executor::block_on(x.to_vec(s))),
    ("on another stream", |_, x, [_, t]| x.to_vec(t).wait()),
    ("into a slice", |_, x, [s, _]| {
        let mut values = vec![0; x.len()];
        x.download_into(&mut values, s).wait()?;
        Ok(values)
    }),
    ("a host buffer", |rank, x, [s, _]| {
        let mut host = rank.runtime().host_buffer(x.len())?;
        x.copy_to(&mut host, s)?;
        Ok(host.as_slice()?.to_vec())
    }),
    ("lent memory", |rank, x, [s, _]| {
        let mut values = vec![0; x.len()];
        rank.runtime().lend_mut(&mut values, |values| x.copy_to(values, s).map(drop))?;
        Ok(values)
    }),
    ("registered memory", |rank, x, [s, _]| {
        let mut memory = rank.runtime().register(vec![0; x.len()])?;
        x.copy_to(&mut memory, s)?;
        Ok(memory.into_inner()?)
    }),
    ("behind an event", |_, x, [s, t]| {
        s.record()?.wait()?;
        x.to_vec(t).wait()
    }),
    ("behind a wait on the device", |rank, x, [s, t]| {
        t.wait_event(&s.record()?)?;
        // This uses nothing that the operation has used.
        rank.device().zeros::<u8>(8, t)?.to_vec(t).wait()?;
        x.to_vec(t).wait()
    }),
    ("over a copy on another stream", |rank, x, [s, t]| {
        let mut copy = rank.device().zeros(x.len(), t)?;
        copy.copy_from(&*x, t)?;
        copy.to_vec(s).wait()
    }),
];

fn read(rank: &Rank, fails: Fails, connected: bool, keeps: bool, read: Read) -> hccl::Result<i32> {
    let (device, other) = (rank.device(), rank.index() == 1);
    let (first, second) = (device.stream()?, device.stream()?);
    let mut comm = rank.communicator()?;
    if connected {
        comm.connect().wait()?;
    }
    let len = LEN + usize::from(other && fails == Fails::Mismatch);
    let mut x = device.upload(&vec![1; len], &first)?;
    if other && fails == Fails::Gone {
        return Ok(2);
    }
    let work = comm.all_reduce_in_place(&mut x, Sum, &first)?;
    // The program never checks this work, whether it keeps or drops it.
    let _kept = keeps.then_some(work);
    Ok(read(rank, &mut x, [&first, &second])?[0])
}

#[test]
fn a_read_of_what_a_failed_operation_should_have_written_is_an_error() {
    both_backends(|runtime| {
        for (how, way) in READS {
            for fails in [Fails::Mismatch, Fails::Gone] {
                for (connected, keeps) in
                    [(false, false), (true, false), (false, true), (true, true)]
                {
                    // A read that waits for less than the data gets only the failures of dropped
                    // works.
                    if keeps && how == "behind an event" {
                        continue;
                    }
                    let outcome =
                        runtime.run_ranks(2, |rank| read(&rank, fails, connected, keeps, way));
                    let case = format!("{how}, {fails:?}, connected {connected}, keeps {keeps}");
                    let text =
                        outcome.map(|read| format!("{read:?}")).expect_err(&case).to_string();
                    let expected = if fails == Fails::Gone { "gone" } else { "differ" };
                    assert!(text.contains(expected), "{case}: {text}");
                }
            }
        }
    });
}

/// Checks that all waits for later work get the error of the failed operation, whatever that work
/// is.
#[test]
fn a_wait_for_what_comes_behind_a_failed_operation_tells_its_failure() {
    both_backends(|runtime| {
        let chained = |rank: Rank| -> hccl::Result<()> {
            let device = rank.device();
            let streams = [(); 3].map(|()| device.stream().unwrap());
            let (mut failing, mut well) = (rank.communicator()?, rank.communicator()?);
            let mut x = device.upload(&vec![1; LEN + rank.index() as usize], &streams[0])?;
            let mut y = device.upload(&[1; LEN], &streams[1])?;
            let mut z = device.upload(&[1; LEN], &streams[2])?;
            failing.all_reduce_in_place(&mut x, Sum, &streams[0])?;
            y.copy_from(x.slice(..LEN)?, &streams[1])?;
            z.copy_from(&y, &streams[2])?;
            well.all_reduce_in_place(&mut z, Sum, &streams[2])?.wait()
        };
        let error = runtime.run_ranks(2, chained).unwrap_err().to_string();
        assert!(error.contains("differ"), "{error}");
    });
}

/// Checks a replay, which is a failed operation in this sense, too.
#[test]
fn a_read_behind_a_failed_replay_is_an_error() {
    both_backends(|runtime| {
        let replayed = |rank: Rank| -> hccl::Result<Vec<i32>> {
            let (device, stream) = (rank.device(), rank.device().stream()?);
            let mut comm = rank.communicator()?;
            comm.connect().wait()?;
            let mut x = device.upload(&vec![1; LEN + rank.index() as usize], &stream)?;
            let capture = device.begin_capture()?;
            comm.all_reduce_in_place(&mut x, Sum, &capture)?;
            capture.end()?.replay(&stream)?;
            x.to_vec(&stream).wait()
        };
        let error = runtime.run_ranks(2, replayed).unwrap_err().to_string();
        assert!(error.contains("differ"), "{error}");
    });
}

/// Checks that a stream reports a failure to one later wait, and is usable after that.
#[test]
fn a_stream_goes_on_after_its_failure_was_told() {
    both_backends(|runtime| {
        let goes_on = |rank: Rank| -> hccl::Result<Vec<i32>> {
            let (device, stream) = (rank.device(), rank.device().stream()?);
            let mut comm = rank.communicator()?;
            let mut x = device.upload(&vec![1; LEN + rank.index() as usize], &stream)?;
            comm.all_reduce_in_place(&mut x, Sum, &stream)?;
            x.to_vec(&stream).wait().unwrap_err();
            let mut again = rank.communicator()?;
            let mut y = device.upload(&[1; 3], &stream)?;
            again.all_reduce_in_place(&mut y, Sum, &stream)?;
            y.to_vec(&stream).wait()
        };
        assert_eq!(runtime.run_ranks(2, goes_on).unwrap(), [[2; 3], [2; 3]]);
    });
}
