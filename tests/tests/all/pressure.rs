//! Random programs on devices with little memory. Buffers, communicators and graphs are made and
//! dropped while operations are in flight, also after the run. Every rank has a model of the
//! buffers of all ranks, and compares each download with it.
//!
//! `cargo test` takes a sample, the same every time; with `HCCL_TEST_FULL=1` it is a hundred times
//! as much, and `HCCL_TEST_SEED=n` repeats the program with that number.

use std::time::Duration;

use ascend_emulator_testing::ranks::slow;
use fastrand::Rng;
use hccl::prelude::*;
use hccl::{Download, Graph, Result};
use hccl_tests::{full, own_devices, without_extensions};

/// The number of elements of a buffer. All buffers have the same size, a MiB, so that memory is not
/// fragmented.
const LEN: usize = 1 << 18;
/// The contents of a buffer: a few runs of equal numbers.
type Values = [i32; 4];
const BUFFERS: usize = 5;
/// The memory of a device in bytes. At most six buffers exist at a time, one of them for a moment,
/// and each needs a few more bytes.
const MEMORY: u64 = (7 << 20) + 4096;
const STEPS: usize = 40;

/// The model: the contents of all ranks' buffers.
type World = Vec<[Values; BUFFERS]>;

fn renewed(value: i32, rank: usize) -> Values {
    std::array::from_fn(|part| value.wrapping_add((rank * 1000 + part * 10) as i32))
}

fn sum_up(world: &mut World, place: usize) {
    let add = |sum: i32, value| sum.wrapping_add(value);
    let sum = |part| world.iter().map(|rank| rank[place][part]).fold(0, add);
    let sum = std::array::from_fn(sum);
    world.iter_mut().for_each(|rank| rank[place] = sum);
}

fn copy(world: &mut World, [from, to]: [usize; 2]) {
    world.iter_mut().for_each(|rank| rank[to] = rank[from]);
}

fn data(values: Values) -> Vec<i32> {
    values.map(|value| vec![value; LEN / 4]).concat()
}

/// One rank.
struct Player {
    index: usize,
    /// Chooses the actions, which are the same on all ranks.
    all: Rng,
    /// Chooses everything that does not change the contents of buffers.
    own: Rng,
    world: World,
    streams: Vec<Stream>,
    buffers: Vec<DeviceBuffer<i32>>,
    comms: Vec<Communicator>,
    /// Each graph sums up a buffer, and copies it to a second one.
    graphs: [Option<(Graph, [usize; 2])>; 2],
    downloads: Vec<(Download<i32>, Values)>,
}

impl Player {
    fn new(rank: &Rank, seed: u64) -> Result<Self> {
        let (index, device) = (rank.index() as usize, rank.device());
        let world: World = (0..4).map(|rank| [renewed(1, rank); BUFFERS]).collect();
        let world = world[..rank.world_size() as usize].to_vec();
        let (all, mut own) = (Rng::with_seed(seed), Rng::with_seed(seed * 4 + index as u64));
        let streams = (0..own.usize(2..4)).map(|_| device.stream()).collect::<Result<Vec<_>>>()?;
        let upload = |values: Values| device.upload(&data(values), &streams[0]);
        let buffers = world[index].map(upload).into_iter().collect::<Result<_>>()?;
        let comms = vec![rank.communicator()?, rank.communicator()?];
        let (graphs, downloads) = ([None, None], Vec::new());
        Ok(Player { index, all, own, world, streams, buffers, comms, graphs, downloads })
    }

    /// Runs the next step of all ranks. After the run `rank` is `None`, and the ranks only replay.
    fn step(&mut self, rank: Option<&Rank>) -> Result<()> {
        let Player { index, all, own, world, streams, buffers, comms, graphs, .. } = self;
        let stream = &streams[own.usize(0..streams.len())];
        if own.u8(0..4) == 0 {
            let time = Duration::from_micros(own.u64(0..1000));
            stream.host_fn(move || std::thread::sleep(time))?;
        }
        let in_run = rank.zip(comms.get_mut(all.usize(0..2)));
        let graph = &mut graphs[all.usize(0..2)];
        let (place, value) = (all.usize(0..BUFFERS), all.i32(..));
        let places = [place, (place + all.usize(1..BUFFERS)) % BUFFERS];
        let [first, second] = buffers.get_disjoint_mut(places).expect("two buffers");
        let work = match (all.u8(0..16), in_run) {
            (0..3, Some(_)) => {
                let ranks = world.iter_mut().enumerate();
                ranks.for_each(|(rank, buffers)| buffers[place] = renewed(value, rank));
                let new = stream.device().upload(&data(world[*index][place]), stream)?;
                // The memory is dropped before or after the graphs that use it.
                let old = std::mem::replace(first, new);
                let _old = own.bool().then_some(old);
                for graph in graphs {
                    *graph = graph.take().filter(|(_, used)| !used.contains(&place));
                }
                return Ok(());
            }
            (3..5, Some(_)) => {
                copy(world, places);
                second.copy_from(&*first, stream)?
            }
            (5, Some(_)) => {
                world.iter_mut().for_each(|rank| rank[place][1] = 0);
                first.slice_mut(LEN / 4..LEN / 2)?.fill_zero(stream)?
            }
            (6..10, Some((_, comm))) => {
                sum_up(world, place);
                comm.all_reduce_in_place(first, Sum, stream)?
            }
            (10..12, Some((rank, comm))) => {
                // The first operation of the new communicator makes the links.
                *comm = rank.communicator()?;
                return Ok(());
            }
            (12..14, Some((_, comm))) => {
                comm.connect().wait()?;
                let capture = stream.device().begin_capture()?;
                comm.all_reduce_in_place(&mut *first, Sum, &capture)?;
                second.copy_from(&*first, &capture)?;
                *graph = Some((capture.end()?, places));
                return Ok(());
            }
            _ => {
                let Some((graph, used)) = graph else { return Ok(()) };
                sum_up(world, used[0]);
                copy(world, *used);
                graph.replay(stream)?
            }
        };
        match own.u8(0..8) {
            0 => work.wait(),
            1 => streams[own.usize(0..streams.len())].wait_for(&work),
            _ => Ok(()),
        }
    }

    /// Reads a buffer on any stream, and allocates memory for a moment.
    fn look(&mut self) -> Result<()> {
        let Player { own, streams, buffers, .. } = self;
        let [stream, other] = [(); 2].map(|()| &streams[own.usize(0..streams.len())]);
        let place = own.usize(0..BUFFERS);
        let (buffer, values) = (&buffers[place], self.world[self.index][place]);
        match own.u8(0..5) {
            0 => self.downloads.push((buffer.to_vec(stream), values)),
            1 => compare(buffer.to_vec(stream), values)?,
            2 => {
                let mut copy = stream.device().zeros(LEN, stream)?;
                copy.copy_from(buffer, other)?;
                self.downloads.push((copy.to_vec(stream), values));
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends a rank after the run: it replays graphs, and drops its handles in an order of its own.
    fn end(mut self) -> Result<()> {
        for _ in 0..STEPS / 4 {
            self.step(None)?;
            self.look()?;
        }
        for (buffer, values) in self.buffers.iter().zip(self.world[self.index]) {
            self.downloads.push((buffer.to_vec(&self.streams[0]), values));
        }
        let mut order = [0, 1, 2, 3];
        self.own.shuffle(&mut order);
        order.into_iter().for_each(|what| match what {
            0 => self.buffers.clear(),
            1 => self.graphs = [None, None],
            2 => self.comms.clear(),
            _ => self.streams.clear(),
        });
        let mut downloads = self.downloads.into_iter();
        downloads.try_for_each(|(download, values)| compare(download, values))
    }
}

fn compare(download: Download<i32>, values: Values) -> Result<()> {
    assert!(download.wait()? == data(values), "it differs from the model: {values:?}");
    Ok(())
}

fn program(runtime: &Runtime, seed: u64) -> Result<()> {
    let players = runtime.run_ranks(2 + (seed % 3) as u32, |rank| -> Result<Player> {
        let mut player = Player::new(&rank, seed)?;
        for _ in 0..STEPS {
            player.step(Some(&rank))?;
            player.look()?;
        }
        // The graphs do not need the communicators.
        player.comms.truncate(player.own.usize(0..3));
        Ok(player)
    })?;
    std::thread::scope(|scope| {
        let players = players.into_iter().map(|player| scope.spawn(|| player.end()));
        let mut players = players.collect::<Vec<_>>().into_iter();
        players.try_for_each(|player| player.join().expect("the model is right"))
    })
}

fn programs(runtime: &Runtime, seeds: u64) {
    // Nothing here takes long, unless something hangs.
    runtime.set_deadline(Duration::from_secs(60));
    let asked_for = std::env::var("HCCL_TEST_SEED").ok();
    let seeds = match asked_for.map(|seed| seed.parse().expect("HCCL_TEST_SEED is a number")) {
        Some(seed) => seed..seed + 1,
        None if full() => 0..100 * seeds,
        None if slow() => 0..seeds / 6,
        None => 0..seeds,
    };
    for seed in seeds {
        program(runtime, seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(runtime.findings().is_empty(), "seed {seed}: {:?}", runtime.findings());
    }
}

fn devices(checked: bool) -> Runtime {
    let builder = own_devices().devices(4).memory(MEMORY);
    builder.checked(checked).build().unwrap()
}

#[test]
fn data_is_right_and_memory_comes_back_on_small_devices() {
    programs(&devices(false), 12);
}

#[test]
fn memory_that_comes_back_is_not_in_use() {
    programs(&devices(true), 6);
}

#[test]
fn data_is_right_without_optional_entries() {
    programs(&without_extensions(), 6);
}
