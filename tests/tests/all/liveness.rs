//! Liveness: a call waits only for the events that it needs, so the rest of the program continues.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use hccl::prelude::*;
use hccl::{Event, Graph, Result};
use hccl_tests::{both_backends, own_devices, runtime_with};

const MIB: usize = 1 << 20;
/// A limit that is long enough for everything that ends by itself.
const LONG: Duration = Duration::from_secs(60);

/// Makes one device with this many bytes of memory.
fn device_of(bytes: usize) -> Device {
    let builder = own_devices().devices(1).memory(bytes as u64).deadline(LONG);
    builder.build().unwrap().device(0).unwrap()
}

/// Makes a stream that does nothing until the sender is dropped.
fn gated(device: &Device) -> (Stream, mpsc::Sender<()>) {
    let stream = device.stream().unwrap();
    let (open, gate) = mpsc::channel::<()>();
    stream.host_fn(move || assert!(gate.recv().is_err(), "nothing is sent")).unwrap();
    (stream, open)
}

#[test]
fn threads_that_allocate_beside_each_other_wait_for_what_was_dropped() {
    for threads in [2, 3, 8] {
        let device = device_of(64 * MIB);
        // At most three quarters of the memory are in use at a time.
        let bytes = 48 * MIB / threads;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let stream = device.stream().unwrap();
                    for _ in 0..20 {
                        let mut x = device.zeros::<u8>(bytes, &stream).unwrap();
                        (0..3).for_each(|_| drop(x.fill_zero(&stream).unwrap()));
                    }
                });
            }
        });
    }
}

#[test]
fn memory_that_is_complete_is_found_beside_memory_that_is_in_use() {
    for first in [true, false] {
        let device = device_of(64 * MIB);
        let (blocked, gate) = gated(&device);
        let stream = device.stream().unwrap();
        // The order of the drops does not matter.
        let mut held = Some(device.zeros::<u8>(20 * MIB, &blocked).unwrap());
        let mut free = Some(device.zeros::<u8>(20 * MIB, &stream).unwrap());
        stream.host_fn(|| std::thread::sleep(Duration::from_millis(100))).unwrap();
        drop(free.as_mut().map(|free| free.fill_zero(&stream).unwrap()));
        for one in [first, !first] {
            drop(if one { held.take() } else { free.take() });
        }
        drop(device.alloc::<u8>(40 * MIB).unwrap());
        drop(gate);
        drop(device.alloc::<u8>(60 * MIB).unwrap());
    }
}

#[test]
fn memory_of_graphs_that_were_dropped_in_flight_is_waited_for() {
    let device = device_of(64 * MIB);
    for _ in 0..10 {
        let (stream, gate) = gated(&device);
        let mut x = device.zeros::<u8>(40 * MIB, &stream).unwrap();
        let capture = device.begin_capture().unwrap();
        x.fill_zero(&capture).unwrap();
        let mut graph = capture.end().unwrap();
        graph.replay(&stream).unwrap();
        drop((x, graph));
        let opener = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(gate);
        });
        drop(device.alloc::<u8>(40 * MIB).unwrap());
        opener.join().unwrap();
    }
}

#[test]
fn memory_that_cannot_come_is_refused_at_once() {
    let began = Instant::now();
    let device = device_of(64 * MIB);
    let kept = device.alloc::<u8>(40 * MIB).unwrap();
    let error = device.alloc::<u8>(40 * MIB).map(drop).unwrap_err();
    assert!(matches!(error, hccl::Error::OutOfMemory { .. }), "{error}");
    assert!(began.elapsed() < LONG / 2, "nothing was dropped");
    drop(kept);
    // The memory is in use until the deadline.
    device.runtime().set_deadline(Duration::from_millis(200));
    let (stream, gate) = gated(&device);
    drop(device.zeros::<u8>(40 * MIB, &stream).unwrap());
    let error = device.alloc::<u8>(40 * MIB).map(drop).unwrap_err();
    assert!(matches!(error, hccl::Error::OutOfMemory { .. }), "{error}");
    drop(gate);
}

/// A function that reads the result of work that was issued on a stream before a collective for
/// which the other rank has not come.
type Reader = fn(&Device, &DeviceBuffer<i32>, &Event, &Work) -> Result<()>;

const READERS: [(&str, Reader); 6] = [
    ("a download on another stream", |device, y, _, _| {
        assert_eq!(y.to_vec(&device.stream()?).wait()?, [7; 100]);
        Ok(())
    }),
    ("a copy on another stream", |device, y, _, _| {
        let stream = device.stream()?;
        let mut x = device.zeros(100, &stream)?;
        x.copy_from(y, &stream)?.wait()
    }),
    ("wait_event", |device, _, event, _| {
        let stream = device.stream()?;
        stream.wait_event(event)?;
        stream.synchronize()
    }),
    ("wait_for", |device, _, _, work| {
        let stream = device.stream()?;
        stream.wait_for(work)?;
        stream.synchronize()
    }),
    ("a wait for the event", |_, _, event, _| event.wait()),
    ("a wait for the work", |_, _, _, work| work.wait_timeout(LONG)),
];

#[test]
fn what_lies_before_a_first_contact_does_not_wait_for_it() {
    readers(false);
}

#[test]
fn what_lies_before_an_event_does_not_wait_for_a_collective_behind_it() {
    readers(true);
}

fn readers(linked: bool) {
    for (name, read) in READERS {
        both_backends(|runtime| {
            let (come, may_come) = mpsc::channel::<()>();
            let may_come = std::sync::Mutex::new(may_come);
            let out = runtime.run_ranks(2, |rank| -> Result<()> {
                let (device, stream) = (rank.device(), rank.device().stream()?);
                let mut comm = rank.communicator()?;
                if linked {
                    comm.connect().wait()?;
                }
                let mut x = device.zeros::<i32>(10, &stream)?;
                if rank.index() == 1 {
                    // The other rank must have read before this one issues its collective.
                    may_come.lock().unwrap().recv_timeout(LONG).unwrap();
                    return comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait();
                }
                let mut y = device.zeros::<i32>(100, &stream)?;
                stream.synchronize()?;
                stream.host_fn(|| std::thread::sleep(Duration::from_millis(50)))?;
                let work = y.upload(&[7; 100], &stream)?;
                let event = stream.record()?;
                let contact = comm.all_reduce_in_place(&mut x, Sum, &stream)?;
                // The readers of the work do not wait for a later event.
                stream.record()?;
                read(device, &y, &event, &work)?;
                assert!(!contact.is_done(), "the other rank has not come");
                come.send(()).unwrap();
                contact.wait()
            });
            if let Err(error) = out {
                panic!("{name}: {error}");
            }
        });
    }
}

#[test]
fn what_lies_between_two_first_contacts_waits_for_the_first_only() {
    between_two(false);
}

#[test]
fn what_lies_before_an_event_between_two_collectives_waits_for_the_first_only() {
    between_two(true);
}

fn between_two(linked: bool) {
    both_backends(|runtime| {
        let (come, may_come) = mpsc::channel::<()>();
        let may_come = std::sync::Mutex::new(may_come);
        runtime
            .run_ranks(2, |rank| -> Result<()> {
                let (device, stream) = (rank.device(), rank.device().stream()?);
                let (mut first, mut second) = (rank.communicator()?, rank.communicator()?);
                if linked {
                    first.connect().wait()?;
                    second.connect().wait()?;
                }
                let mut x = device.upload(&[i64::from(rank.index()) + 1; 10], &stream)?;
                let mut y = device.zeros::<i64>(10, &stream)?;
                stream.synchronize()?;
                first.all_reduce_in_place(&mut x, Sum, &stream)?;
                y.copy_from(&x, &stream)?;
                if linked {
                    stream.record()?;
                }
                if rank.index() == 1 {
                    may_come.lock().unwrap().recv_timeout(LONG).unwrap();
                    return second.all_reduce_in_place(&mut x, Sum, &stream)?.wait();
                }
                let contact = second.all_reduce_in_place(&mut x, Sum, &stream)?;
                assert_eq!(y.to_vec(&device.stream()?).wait()?, [3; 10]);
                assert!(!contact.is_done(), "the other rank has not come");
                come.send(()).unwrap();
                contact.wait()
            })
            .unwrap();
    });
}

#[test]
fn what_lies_before_a_first_contact_does_not_wait_for_one_of_another_stream() {
    both_backends(|runtime| {
        let (come, may_come) = mpsc::channel::<()>();
        let may_come = std::sync::Mutex::new(may_come);
        let program = |rank: Rank| -> Result<()> {
            let device = rank.device();
            let [stream, other] = [device.stream()?, device.stream()?];
            let (mut first, mut second) = (rank.communicator()?, rank.communicator()?);
            let mut x = device.zeros::<i32>(10, &stream)?;
            if rank.index() == 1 {
                may_come.lock().unwrap().recv_timeout(LONG).unwrap();
            }
            let mut y = device.zeros::<i32>(10, &stream)?;
            stream.synchronize()?;
            first.all_reduce_in_place(&mut x, Sum, &other)?;
            stream.host_fn(|| std::thread::sleep(Duration::from_millis(20)))?;
            y.upload(&[7; 10], &stream)?;
            // This operation follows the one on the other stream.
            let contact = second.all_reduce_in_place(&mut x, Sum, &stream)?;
            assert_eq!(y.to_vec(&device.stream()?).wait()?, [7; 10]);
            if rank.index() == 0 {
                assert!(!contact.is_done(), "the other rank has not come");
                come.send(()).unwrap();
            }
            contact.wait()
        };
        runtime.run_ranks(2, program).unwrap();
    });
}

/// Makes a graph that sums its memory over both ranks. Returns it with its stream and its memory.
fn graph_of(rank: &Rank) -> Result<(Graph, Stream, DeviceBuffer<f32>)> {
    let (device, stream) = (rank.device(), rank.device().stream()?);
    let mut comm = rank.communicator()?;
    comm.connect().wait()?;
    let mut x = device.upload(&[1f32; 1000], &stream)?;
    let capture = device.begin_capture()?;
    comm.all_reduce_in_place(&mut x, Sum, &capture)?;
    Ok((capture.end()?, stream, x))
}

#[test]
fn a_graph_that_leaves_its_run_replays() {
    both_backends(|runtime| {
        for split in [false, true] {
            let graphs = runtime.run_ranks(2, |rank| {
                if !split {
                    return graph_of(&rank);
                }
                // The graph uses a part of a communicator whose whole is dropped, too.
                let (device, stream) = (rank.device(), rank.device().stream()?);
                let mut whole = rank.communicator()?;
                let mut part = whole.split(Some(0), 0).wait()?.unwrap();
                drop(whole);
                part.connect().wait()?;
                let mut x = device.upload(&[1f32; 1000], &stream)?;
                let capture = device.begin_capture()?;
                part.all_reduce_in_place(&mut x, Sum, &capture)?;
                Ok((capture.end()?, stream, x))
            });
            let replay = |(mut graph, stream, x): (Graph, Stream, DeviceBuffer<f32>)| {
                graph.replay(&stream)?;
                graph.replay(&stream)?.wait()?;
                x.to_vec(&stream).wait()
            };
            let threads: Vec<_> =
                graphs.unwrap().into_iter().map(|graph| move || replay(graph)).collect();
            let sums: Vec<Vec<f32>> = std::thread::scope(|scope| {
                let threads: Vec<_> = threads.into_iter().map(|t| scope.spawn(t)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
            });
            assert_eq!(sums, [[4f32; 1000], [4f32; 1000]]);
        }
    });
}

#[test]
fn a_graph_whose_peer_is_gone_after_the_run_is_told_so() {
    let runtime = runtime_with(2);
    runtime.set_deadline(LONG);
    let graphs = runtime
        .run_ranks(2, |rank| graph_of(&rank).map(|graph| (rank.index() == 0).then_some(graph)))
        .unwrap();
    let (mut graph, stream, _x) = graphs.into_iter().flatten().next().unwrap();
    let error = graph.replay(&stream).and_then(|work| work.wait()).unwrap_err();
    assert_eq!(error.kind(), hccl::ErrorKind::RankGone, "{error}");
}
