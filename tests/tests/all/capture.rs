//! Streams that record, and graphs. The tests run with the optional entries of the table, without
//! them, and in checked mode, which must find nothing.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use ascend_emulator_testing::ranks::slow;
use hccl::batch::Direction;
use hccl::prelude::*;
use hccl_tests::{both_backends, is_loaded, own_devices, runtime_with};

fn everywhere(test: impl Fn(&Runtime)) {
    both_backends(&test);
    if is_loaded() {
        return;
    }
    let checked = own_devices().devices(2).checked(true).build().unwrap();
    checked.set_deadline(Duration::from_secs(60));
    test(&checked);
    assert!(checked.findings().is_empty(), "{:?}", checked.findings());
}

/// Keeps a stream busy until the returned sender is dropped.
fn hold(stream: &Stream) -> mpsc::Sender<()> {
    let (open, gate) = mpsc::channel();
    // The function ends when the sender is dropped.
    stream.host_fn(move || assert!(gate.recv().is_err())).unwrap();
    open
}

#[test]
fn nothing_runs_before_a_replay_and_everything_at_each() {
    everywhere(|runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.upload(&[1, 2, 3, 4], &stream).unwrap();
        let mut y = device.zeros::<i32>(4, &stream).unwrap();
        let capture = device.begin_capture().unwrap();
        y.copy_from(&x, &capture).unwrap();
        x.slice_mut(..2).unwrap().fill_zero(&capture).unwrap();
        let mut graph = capture.end().unwrap();
        assert_eq!((graph.len(), graph.is_empty(), graph.device()), (2, false, &device));
        assert_eq!(y.to_vec(&stream).wait().unwrap(), [0; 4]);
        graph.replay(&stream).unwrap().wait().unwrap();
        assert_eq!(y.to_vec(&stream).wait().unwrap(), [1, 2, 3, 4]);
        // The replay is on another stream, and is ordered after the upload on the first one.
        x.upload(&[5, 6, 7, 8], &stream).unwrap();
        let other = device.stream().unwrap();
        graph.replay(&other).unwrap();
        graph.replay(&other).unwrap();
        assert_eq!(y.to_vec(&stream).wait().unwrap(), [0, 0, 7, 8]);
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [0, 0, 7, 8]);
    });
}

#[test]
fn a_capture_without_operations_is_a_graph() {
    everywhere(|runtime| {
        let device = runtime.device(0).unwrap();
        let mut graph = device.begin_capture().unwrap().end().unwrap();
        assert!(graph.is_empty());
        graph.replay(&device.stream().unwrap()).unwrap().wait().unwrap();
    });
}

#[test]
fn a_replay_waits_for_what_uses_the_same_bytes_and_is_waited_for() {
    everywhere(|runtime| {
        let device = runtime.device(0).unwrap();
        let (busy, free) = (device.stream().unwrap(), device.stream().unwrap());
        let mut x = device.upload(&vec![1u8; 100_000], &busy).unwrap();
        let mut y = device.zeros::<u8>(100_000, &busy).unwrap();
        let z = device.upload(&[9u8; 8], &free).unwrap();
        let capture = device.begin_capture().unwrap();
        y.copy_from(&x, &capture).unwrap();
        let mut graph = capture.end().unwrap();
        busy.synchronize().unwrap();

        let open = hold(&busy);
        x.upload(&vec![2u8; 100_000], &busy).unwrap();
        let work = graph.replay(&free).unwrap();
        assert!(!work.is_done(), "it reads what the busy stream is to write");
        drop(open);
        work.wait().unwrap();
        assert_eq!(y.to_vec(&busy).wait().unwrap(), vec![2; 100_000]);

        let open = hold(&busy);
        let work = graph.replay(&busy).unwrap();
        // Operations on memory that the graph does not touch continue. Memory that the graph reads
        // is not overwritten before the graph has run.
        assert_eq!(z.to_vec(&free).wait().unwrap(), [9; 8]);
        let later = x.upload(&vec![3u8; 100_000], &free).unwrap();
        assert!(!later.is_done() && !work.is_done());
        drop(open);
        later.wait().unwrap();
        assert_eq!(y.to_vec(&free).wait().unwrap(), vec![2; 100_000]);
    });
}

/// Replays a graph on one thread while another one issues operations on the same bytes. A graph
/// borrows nothing.
#[test]
fn a_replay_and_another_thread_are_ordered() {
    let turns = match hccl_tests::full() {
        true => 200_000,
        false if slow() => 4_000,
        false => 20_000,
    };
    everywhere(|runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&[1u64; 16], &stream).unwrap();
        let mut y = device.zeros::<u64>(16, &stream).unwrap();
        let mut z = device.zeros::<u64>(16, &stream).unwrap();
        let capture = device.begin_capture().unwrap();
        y.copy_from(&x, &capture).unwrap();
        let mut graph = capture.end().unwrap();
        std::thread::scope(|scope| {
            let replays = scope.spawn(|| {
                let stream = device.stream().unwrap();
                for _ in 0..turns {
                    graph.replay(&stream).unwrap().wait().unwrap();
                }
            });
            let mut turn = 0;
            while !replays.is_finished() {
                turn += 1;
                z.copy_from(&y, &stream).unwrap();
                if turn % 16 == 0 {
                    y.fill_zero(&stream).unwrap();
                }
            }
        });
        let z = z.to_vec(&stream).wait().unwrap();
        assert!(z.iter().all(|value| *value == z[0] && *value <= 1), "{z:?}");
    });
}

#[test]
fn memory_stays_as_long_as_a_graph_may_use_it() {
    // The test needs devices of its own, because it counts their memory.
    let runtime = runtime_with(1);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let before = device.memory_info().unwrap().free;
    let x = device.upload(&vec![7u8; 1 << 20], &stream).unwrap();
    let mut y = device.zeros::<u8>(1 << 20, &stream).unwrap();
    let capture = device.begin_capture().unwrap();
    y.copy_from(&x, &capture).unwrap();
    drop(x);
    let mut graph = capture.end().unwrap();
    stream.synchronize().unwrap();
    assert!(device.memory_info().unwrap().free <= before - (2 << 20));
    graph.replay(&stream).unwrap();
    assert_eq!(y.to_vec(&stream).wait().unwrap(), vec![7; 1 << 20]);
    drop((graph, y));
    stream.synchronize().unwrap();
    assert_eq!(device.memory_info().unwrap().free, before);
}

#[test]
fn drop_in_flight() {
    everywhere(|runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&[4i64; 1000], &stream).unwrap();
        let mut y = device.zeros::<i64>(1000, &stream).unwrap();
        let capture = device.begin_capture().unwrap();
        y.copy_from(&x, &capture).unwrap();
        let mut graph = capture.end().unwrap();
        let open = hold(&stream);
        drop(graph.replay(&stream).unwrap());
        let since = Instant::now();
        drop((graph, x));
        // A wait would last until the deadline, which is a minute.
        assert!(since.elapsed() < Duration::from_secs(30), "drop must not wait for the replay");
        drop(open);
        assert_eq!(y.to_vec(&stream).wait().unwrap(), [4; 1000]);
    });
}

#[test]
fn forget_in_flight() {
    everywhere(|runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&[4i64; 1000], &stream).unwrap();
        let mut y = device.zeros::<i64>(1000, &stream).unwrap();
        let capture = device.begin_capture().unwrap();
        y.copy_from(&x, &capture).unwrap();
        let mut graph = capture.end().unwrap();
        std::mem::forget(graph.replay(&stream).unwrap());
        std::mem::forget(graph);
        drop(x);
        assert_eq!(y.to_vec(&stream).wait().unwrap(), [4; 1000]);
        // A capture that is forgotten keeps only its stream in use.
        let forgotten = device.begin_capture().unwrap();
        y.fill_zero(&forgotten).unwrap();
        std::mem::forget(forgotten);
        assert_eq!(y.to_vec(&stream).wait().unwrap(), [4; 1000]);
    });
}

#[test]
fn an_abandoned_capture_runs_nothing() {
    everywhere(|runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.upload(&[1u16; 8], &stream).unwrap();
        for _ in 0..100 {
            let capture = device.begin_capture().unwrap();
            x.fill_zero(&capture).unwrap();
            drop(capture);
        }
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [1; 8]);
        // A thread other than the one that began the capture can drop it, too.
        let capture = device.begin_capture().unwrap();
        x.fill_zero(&capture).unwrap();
        std::thread::spawn(move || drop(capture)).join().unwrap();
        let capture = device.begin_capture().unwrap();
        x.fill_zero(&capture).unwrap();
        let mut graph = std::thread::spawn(move || capture.end().unwrap()).join().unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [0; 8]);
    });
}

#[test]
fn a_graph_belongs_to_its_device() {
    everywhere(|runtime| {
        let (here, there) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
        let stream = there.stream().unwrap();
        let mut x = here.zeros::<u8>(8, &here.stream().unwrap()).unwrap();
        let mut y = there.zeros::<u8>(8, &stream).unwrap();
        let capture = here.begin_capture().unwrap();
        x.fill_zero(&capture).unwrap();
        let refused = y.fill_zero(&capture).unwrap_err();
        assert!(matches!(refused, hccl::Error::WrongDevice { expected: 0, found: 1, .. }));
        let mut graph = capture.end().unwrap();
        let refused = graph.replay(&stream).unwrap_err();
        assert!(matches!(refused, hccl::Error::WrongDevice { what: "the graph", .. }));
        graph.replay(&here.stream().unwrap()).unwrap().wait().unwrap();
    });
}

#[test]
fn collectives_are_recorded_and_take_their_numbers_at_every_replay() {
    everywhere(|runtime| {
        let sums = runtime.run_ranks(2, |rank| -> hccl::Result<_> {
            let device = rank.device();
            let (stream, other) = (device.stream()?, device.stream()?);
            let mut comm = rank.communicator()?;
            let mut x = device.upload(&vec![1i64; 50_000], &stream)?;
            let mut small = device.upload(&[rank.index() as i64 + 1], &stream)?;
            let mut all = device.zeros::<i64>(2, &stream)?;
            comm.connect().wait()?;
            let capture = device.begin_capture()?;
            comm.all_reduce_in_place(&mut x, Sum, &capture)?;
            comm.all_gather(&small, &mut all, &capture)?;
            comm.broadcast(&mut small, 1, &capture)?;
            comm.barrier(&capture)?;
            let mut graph = capture.end()?;
            for _ in 0..3 {
                graph.replay(&stream)?;
                comm.all_reduce_in_place(&mut small, Max, &other)?;
                graph.replay(&other)?;
            }
            // Replays and calls of the communicator are in one order, on any streams.
            let found = (x.to_vec(&stream).wait()?, all.to_vec(&stream).wait()?);
            let refused = comm.broadcast(&mut small, 7, &stream).unwrap_err().to_string();
            Ok((found, refused))
        });
        for ((x, all), refused) in sums.unwrap() {
            assert_eq!(x, vec![64; 50_000]);
            assert_eq!(all, [2, 2]);
            // There are four collectives in each of six replays, three calls, and a connect before
            // them. So the next operation has number 29.
            assert!(refused.contains("#29"), "{refused}");
        }
    });
}

#[test]
fn messages_are_recorded_and_take_their_numbers_at_every_replay() {
    everywhere(|runtime| {
        let told = runtime.run_ranks(2, |rank| -> hccl::Result<_> {
            let device = rank.device();
            let (stream, other) = (device.stream()?, device.stream()?);
            let mut comm = rank.communicator()?;
            let (me, peer) = (rank.index(), 1 - rank.index());
            let mut mine = device.upload(&[me as i64], &stream)?;
            let mut theirs = device.zeros::<i64>(1, &stream)?;
            comm.connect_to(&[peer]).wait()?;
            let capture = device.begin_capture()?;
            comm.batch().send(&mine, peer).recv(&mut theirs, peer).submit(&capture)?;
            if me == 0 {
                comm.send(&theirs, peer, &capture)?;
            } else {
                comm.recv(&mut mine, peer, &capture)?;
            }
            let mut graph = capture.end()?;
            let messages = |comm: &Communicator| {
                [Direction::Send, Direction::Receive].map(|way| comm.messages(way, peer))
            };
            assert_eq!(messages(&comm), [1, 1], "nothing but the connect has been sent");
            graph.replay(&stream)?.wait()?;
            // Rank 1 receives from rank 0 the elements that it had sent.
            let first = (theirs.to_vec(&stream).wait()?, mine.to_vec(&stream).wait()?);
            mine.upload(&[me as i64 + 10], &stream)?;
            for _ in 0..2 {
                graph.replay(&other)?;
                comm.batch().send(&mine, peer).recv(&mut theirs, peer).submit(&stream)?;
            }
            let second = (theirs.to_vec(&stream).wait()?, mine.to_vec(&stream).wait()?);
            let refused = comm.batch().send(&mine, 7).submit(&stream).unwrap_err().to_string();
            Ok((first, second, messages(&comm), refused))
        });
        let values = |theirs, mine| (vec![theirs], vec![mine]);
        let [zero, one] = <[_; 2]>::try_from(told.unwrap()).unwrap();
        assert_eq!((zero.0, one.0), (values(1, 0), values(0, 1)));
        assert_eq!((zero.1, one.1), (values(11, 10), values(10, 11)));
        // In each direction there are the connect, a message of the batch in each of three replays,
        // and two batches. Rank 0 sends one more in each replay.
        assert_eq!((zero.2, one.2), ([9, 6], [6, 9]));
        assert!(zero.3.contains("batch #7 "), "{}", zero.3);
    });
}

#[test]
fn a_graph_keeps_its_communicators() {
    everywhere(|runtime| {
        let root = RootInfo::new(&runtime.device(0).unwrap()).unwrap();
        let sums = runtime.run_ranks(2, |rank| {
            let device = rank.device();
            let stream = device.stream()?;
            let comm = Communicator::builder().device(device).rank(rank.index()).world_size(2);
            let mut comm = comm.root_info(&root).build().wait()?;
            let mut x = device.upload(&[1i64; 100], &stream)?;
            comm.connect().wait()?;
            let capture = device.begin_capture()?;
            comm.all_reduce_in_place(&mut x, Sum, &capture)?;
            let mut graph = capture.end()?;
            graph.replay(&stream)?;
            drop(comm);
            // Making a stream causes the runtime to check dropped handles.
            drop(device.stream()?);
            graph.replay(&stream)?;
            drop(graph);
            x.to_vec(&stream).wait()
        });
        assert_eq!(sums.unwrap(), [[4; 100]; 2]);
    });
}

#[test]
fn ranks_that_replay_different_captures_are_told() {
    let runtime = runtime_with(2);
    runtime.set_deadline(Duration::from_secs(60));
    let outcome = runtime.run_ranks(2, |rank| -> hccl::Result<()> {
        let device = rank.device();
        let stream = device.stream()?;
        let mut comm = rank.communicator()?;
        let mut x = device.zeros::<f32>(100, &stream)?;
        comm.connect().wait()?;
        let graphs = (0..2).map(|_| {
            let capture = device.begin_capture()?;
            comm.all_reduce_in_place(&mut x, Sum, &capture)?;
            capture.end()
        });
        let mut graphs: Vec<Graph> = graphs.collect::<hccl::Result<_>>()?;
        graphs[rank.index() as usize].replay(&stream)?.wait()
    });
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("capture 1") && text.contains("capture 2"), "{text}");
}
