//! Random programs of events. They record, await and forget points in streams. In the meantime
//! communicators are made, connected, divided, aborted and dropped in flight, and streams are made
//! and dropped. Every rank has a model of its buffers' contents.
//!
//! `cargo test` takes a sample, the same every time; with `HCCL_TEST_FULL=1` it is a hundred times
//! as much, and `HCCL_TEST_SEED=n` repeats the program with that number.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use ascend_emulator_testing::ranks::slow;
use fastrand::Rng;
use hccl::prelude::*;
use hccl::{Event, Result};
use hccl_tests::{Devices, full, is_loaded, own_devices, without_extensions};

const LEN: usize = 3000;
const BUFFERS: usize = 3;
const STEPS: usize = 30;

/// An event, whether its stream has reached it, and the `Work` of the operation before it, if that
/// is kept.
struct Point {
    event: Event,
    reached: Arc<AtomicBool>,
    before: Option<Work>,
}

/// One rank.
struct Player<'a> {
    rank: &'a Rank,
    /// Whether the backend reports an abort to the other ranks. If it does not, they wait until its
    /// time limits.
    tells: bool,
    /// Chooses the actions, which are the same on all ranks.
    all: Rng,
    /// Chooses everything that does not change the contents of buffers.
    own: Rng,
    /// The model: the contents of each buffer of each rank.
    world: Vec<[i32; BUFFERS]>,
    streams: Vec<Stream>,
    buffers: Vec<DeviceBuffer<i32>>,
    comms: Vec<Communicator>,
    points: Vec<Point>,
}

impl<'a> Player<'a> {
    fn new(rank: &'a Rank, tells: bool, seed: u64) -> Result<Self> {
        let (index, device) = (rank.index() as usize, rank.device());
        let world: Vec<_> = (1..=rank.world_size() as i32).map(|rank| [rank; BUFFERS]).collect();
        let (all, own) = (Rng::with_seed(seed), Rng::with_seed(seed * 4 + index as u64));
        let streams = (0..3).map(|_| device.stream()).collect::<Result<Vec<_>>>()?;
        let upload = |value: i32| device.upload(&[value; LEN], &streams[0]);
        let buffers = world[index].map(upload).into_iter().collect::<Result<_>>()?;
        let comms = vec![rank.communicator()?, rank.communicator()?];
        Ok(Player { rank, tells, all, own, world, streams, buffers, comms, points: Vec::new() })
    }

    /// Runs the next step of all ranks.
    fn step(&mut self) -> Result<()> {
        let Player { rank, tells, all, own, world, streams, buffers, comms, .. } = self;
        let (device, index) = (rank.device(), rank.index() as usize);
        let stream = &streams[own.usize(0..streams.len())];
        if own.u8(0..4) == 0 {
            std::thread::sleep(Duration::from_micros(own.u64(0..500)));
        }
        let comm = &mut comms[all.usize(0..2)];
        let place = all.usize(0..BUFFERS);
        let to = (place + all.usize(1..BUFFERS)) % BUFFERS;
        let [first, second] = buffers.get_disjoint_mut([place, to]).expect("two buffers");
        let work = match all.u8(0..16) {
            0..6 => {
                let sum = world.iter().fold(0, |sum: i32, rank| sum.wrapping_add(rank[place]));
                world.iter_mut().for_each(|rank| rank[place] = sum);
                comm.all_reduce_in_place(first, Sum, stream)?
            }
            6..8 => {
                world.iter_mut().for_each(|rank| rank[to] = rank[place]);
                second.copy_from(&*first, stream)?
            }
            8..10 => {
                // The old communicator is dropped in flight.
                *comm = rank.communicator()?;
                return Ok(());
            }
            10..12 => {
                let connected = comm.connect();
                match own.u8(0..3) {
                    0 => connected.wait()?,
                    1 => drop(connected),
                    _ => std::mem::forget(connected),
                }
                return Ok(());
            }
            12..14 => {
                let mut part = comm.split(Some(rank.index() % 2), 0).wait()?.expect("a color");
                for color in 0..2 {
                    let sum = world.iter().skip(color).step_by(2);
                    let sum = sum.fold(0, |sum: i32, rank| sum.wrapping_add(rank[place]));
                    let ranks = world.iter_mut().skip(color).step_by(2);
                    ranks.for_each(|rank| rank[place] = sum);
                }
                part.all_reduce_in_place(first, Sum, stream)?
            }
            14 => {
                let aborts = all.usize(0..world.len()) == index;
                let linked = all.bool();
                if !*tells {
                    return Ok(());
                }
                return abort(rank, aborts, linked, own);
            }
            _ => {
                // This replaces a stream. The work of the dropped one continues.
                let new = device.stream()?;
                let at = own.usize(0..streams.len());
                drop(std::mem::replace(&mut streams[at], new));
                return Ok(());
            }
        };
        match own.u8(0..6) {
            0 => work.wait(),
            1 => streams[own.usize(0..streams.len())].wait_for(&work),
            2 => {
                std::mem::forget(work);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Does something that changes no buffer: sets points, waits for them on the host or on other
    /// streams, or reads a buffer.
    fn point(&mut self) -> Result<()> {
        let Player { rank, own, world, streams, buffers, points, .. } = self;
        let stream = &streams[own.usize(0..streams.len())];
        match own.u8(0..6) {
            0 | 1 => {
                let reached = Arc::new(AtomicBool::new(false));
                let reaches = reached.clone();
                let work = stream.host_fn(move || reaches.store(true, Release))?;
                let before = own.bool().then_some(work);
                points.push(Point { event: stream.record()?, reached, before });
            }
            2 if !points.is_empty() => {
                let Point { event, reached, .. } = &points[own.usize(0..points.len())];
                let reached = reached.clone();
                stream.wait_event(event)?;
                stream.host_fn(move || assert!(reached.load(Acquire), "before its event"))?;
            }
            3 if !points.is_empty() => {
                let Point { event, reached, before } =
                    points.swap_remove(own.usize(0..points.len()));
                if own.bool() {
                    event.wait()?;
                }
                if event.is_done() {
                    assert!(reached.load(Acquire), "done before the stream was there");
                    assert!(before.is_none_or(|work| work.is_done()), "done before its operation");
                }
            }
            4 => {
                let place = own.usize(0..BUFFERS);
                let download = buffers[place].to_vec(stream);
                match own.u8(0..3) {
                    0 => drop(download),
                    1 => std::mem::forget(download),
                    _ => assert_eq!(download.wait()?, [world[rank.index() as usize][place]; LEN]),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        for (buffer, value) in self.buffers.iter().zip(self.world[self.rank.index() as usize]) {
            assert_eq!(buffer.to_vec(&self.streams[0]).wait()?, [value; LEN]);
        }
        drop(self.streams);
        for Point { event, reached, .. } in self.points {
            event.wait()?;
            assert!(reached.load(Acquire), "done before the stream was there");
        }
        Ok(())
    }
}

/// Aborts a communicator on one rank while all ranks use it, on streams that nothing else uses.
fn abort(rank: &Rank, aborts: bool, linked: bool, own: &mut Rng) -> Result<()> {
    let device = rank.device();
    let [stream, other] = [device.stream()?, device.stream()?];
    let mut comm = rank.communicator()?;
    if linked {
        comm.connect().wait()?;
    }
    let mut x = device.zeros::<i32>(LEN, &stream)?;
    let y = device.upload(&[5; LEN], &stream)?;
    let event = stream.record()?;
    if aborts {
        // The abort comes before or after the rank's own part of the operation.
        let work = own.bool().then(|| comm.all_reduce_in_place(&mut x, Sum, &stream));
        comm.abort()?;
        drop(work);
    } else {
        // The other rank may have aborted the communicator already.
        if let Ok(work) = comm.all_reduce_in_place(&mut x, Sum, &stream) {
            // Earlier operations are not affected by its outcome.
            other.wait_event(&event)?;
            assert_eq!(y.to_vec(&other).wait()?, [5; LEN]);
            if own.bool() {
                drop(work.wait());
            }
        }
    }
    drop(comm);
    drop(stream.synchronize());
    Ok(())
}

fn programs(runtime: &Runtime, tells: bool, seeds: u64) {
    // Nothing here takes long, unless something hangs.
    runtime.set_deadline(Duration::from_secs(60));
    let asked_for = std::env::var("HCCL_TEST_SEED").ok();
    let seeds = match asked_for.map(|seed| seed.parse().expect("HCCL_TEST_SEED is a number")) {
        Some(seed) => seed..seed + 1,
        None if full() => 0..100 * seeds,
        None if slow() => 0..seeds / 3,
        None => 0..seeds,
    };
    for seed in seeds {
        let program = |rank: Rank| -> Result<()> {
            let mut player = Player::new(&rank, tells, seed)?;
            for _ in 0..STEPS {
                player.step()?;
                player.point()?;
            }
            player.end()
        };
        let ended = runtime.run_ranks(2 + (seed % 3) as u32, program);
        ended.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(runtime.findings().is_empty(), "seed {seed}: {:?}", runtime.findings());
    }
}

fn devices(checked: bool) -> Runtime {
    // Forgotten handles keep their devices in use, and a sanitizer leaves few addresses.
    if !checked {
        return Devices::new(4).memory(1 << 30).runtime();
    }
    own_devices().devices(4).memory(1 << 30).checked(true).build().unwrap()
}

#[test]
fn nothing_is_done_before_its_event() {
    programs(&devices(false), !is_loaded(), 15);
}

#[test]
fn events_order_what_they_are_between() {
    programs(&devices(true), true, 9);
}

#[test]
fn nothing_is_done_before_its_event_without_optional_entries() {
    programs(&without_extensions(), false, 9);
}

#[test]
fn runtimes_beside_each_other_have_nothing_to_do_with_each_other() {
    std::thread::scope(|scope| {
        for checked in [true, false, true] {
            scope.spawn(move || programs(&devices(checked), true, 6));
        }
    });
}
