//! Runs the same programs through `hccl`.

use super::program::{
    After, BUFFERS, GRAPHS, HOSTS, LENGTH, Local, Move, Operation, Program, STREAMS, Step,
    Together, values,
};
use super::reference::State;
use futures::executor::block_on;
use hccl::device::StreamState;
use hccl::prelude::*;
use hccl::{Communicator, Result};

/// Runs the first steps of a program, and returns the values of each rank.
pub fn run(runtime: &Runtime, program: &Program, steps: usize) -> Result<Vec<State>> {
    runtime.run_ranks(program.ranks as u32, |rank| {
        let mut side = Side::new(&rank)?;
        let me = rank.index() as usize;
        for step in &program.steps[..steps] {
            let elsewhere = match step {
                Step::Local { rank, elsewhere, .. } => *elsewhere && *rank == me,
                Step::Capture { elsewhere, .. } => *elsewhere,
                _ => false,
            };
            if elsewhere {
                let side = &mut side;
                std::thread::scope(|scope| {
                    let thread = scope.spawn(move || side.step(step));
                    thread.join().expect("the step does not panic")
                })?;
            } else {
                side.step(step)?;
            }
        }
        side.state()
    })
}

struct Side {
    device: Device,
    streams: Vec<Stream>,
    hosts: Vec<HostBuffer<i32>>,
    graphs: [Slot; GRAPHS],
    data: Data,
}

/// The buffers and communicators of operations that can be captured.
struct Data {
    buffers: Vec<DeviceBuffer<i32>>,
    /// A communicator of all ranks, which is replaced now and then.
    comm: Communicator,
    world: Communicator,
    /// The number of communicators so far.
    communicators: u32,
    ranks: usize,
    rank: usize,
}

#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    Open(Stream<Capturing>),
    Graph(Graph),
}

impl Slot {
    fn capture(&self) -> &Stream<Capturing> {
        match self {
            Slot::Open(capture) => capture,
            Slot::Empty | Slot::Graph(_) => panic!("the program has begun a capture"),
        }
    }

    fn graph(&mut self) -> &mut Graph {
        match self {
            Slot::Graph(graph) => graph,
            Slot::Empty | Slot::Open(_) => panic!("the program has ended the capture"),
        }
    }
}

/// Borrows two buffers at once: one to read and one to write.
fn two(
    buffers: &mut [DeviceBuffer<i32>],
    from: usize,
    to: usize,
) -> (&DeviceBuffer<i32>, &mut DeviceBuffer<i32>) {
    let [from, to] = buffers.get_disjoint_mut([from, to]).expect("two buffers");
    (from, to)
}

fn all_of(world: &mut Communicator, id: u32) -> Result<Communicator> {
    let ranks: Vec<u32> = (0..world.world_size()).collect();
    Ok(world.subset(&ranks, id).wait()?.expect("every rank is in it"))
}

fn finish(work: Work, after: After, streams: &[Stream]) -> Result<()> {
    match after {
        After::Drop => drop(work),
        After::Forget => std::mem::forget(work),
        After::Wait => work.wait()?,
        After::Await => block_on(work)?,
        After::Order(stream) => streams[stream].wait_for(&work)?,
    }
    Ok(())
}

impl Side {
    fn new(rank: &Rank) -> Result<Side> {
        let device = rank.device().clone();
        let streams: Vec<_> = (0..STREAMS).map(|_| device.stream()).collect::<Result<_>>()?;
        let buffers =
            (0..BUFFERS).map(|_| device.zeros(LENGTH, &streams[0])).collect::<Result<_>>()?;
        let hosts =
            (0..HOSTS).map(|_| rank.runtime().host_buffer(LENGTH)).collect::<Result<_>>()?;
        let mut world = rank.communicator()?;
        let (comm, ranks) = (all_of(&mut world, 0)?, rank.world_size() as usize);
        let (rank, communicators) = (rank.index() as usize, 1);
        let data = Data { buffers, comm, world, communicators, ranks, rank };
        Ok(Side { device, streams, hosts, graphs: Default::default(), data })
    }

    fn state(&mut self) -> Result<State> {
        let stream = &self.streams[0];
        let buffers = &self.data.buffers;
        let buffers =
            buffers.iter().map(|buffer| buffer.to_vec(stream).wait()).collect::<Result<_>>()?;
        let hosts = self
            .hosts
            .iter()
            .map(|host| host.as_slice().map(<[i32]>::to_vec))
            .collect::<Result<_>>()?;
        self.streams.iter().try_for_each(Stream::synchronize)?;
        Ok(State { buffers, hosts })
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        let me = self.data.rank;
        let Side { device, streams, graphs, data, .. } = self;
        match step {
            Step::Local { rank, stream, after, what, .. } if *rank == me => {
                return self.local(what, *stream, *after);
            }
            Step::Together { streams: on, after, what } => {
                if let Some(work) = data.together(what, &streams[on[me]])? {
                    finish(work, *after, streams)?;
                }
            }
            Step::Begin { graph } => {
                data.connect()?;
                graphs[*graph] = Slot::Open(device.begin_capture()?);
            }
            Step::Capture { graph, what, .. } => match what {
                Operation::Local { rank, what } if *rank == me => {
                    data.movement(what, graphs[*graph].capture())?;
                }
                Operation::Local { .. } => {}
                Operation::Together(what) => {
                    data.together(what, graphs[*graph].capture())?;
                }
            },
            Step::End { graph } => {
                if let Slot::Open(capture) = std::mem::take(&mut graphs[*graph]) {
                    graphs[*graph] = Slot::Graph(capture.end()?);
                }
            }
            Step::Replay { graph, streams: on, after } => {
                let work = graphs[*graph].graph().replay(&streams[on[me]])?;
                finish(work, *after, streams)?;
            }
            Step::Renew => {
                data.comm = all_of(&mut data.world, data.communicators)?;
                data.communicators += 1;
                if graphs.iter().any(|graph| matches!(graph, Slot::Open(_))) {
                    data.connect()?;
                }
            }
            Step::Abandon { graph, forget } => {
                let abandoned = std::mem::take(&mut graphs[*graph]);
                if *forget {
                    std::mem::forget(abandoned);
                }
            }
            Step::Local { .. } => {}
        }
        Ok(())
    }

    fn local(&mut self, what: &Local, stream: usize, after: After) -> Result<()> {
        let Side { device, streams, hosts, graphs, data } = self;
        let on = &streams[stream];
        let buffers = &mut data.buffers;
        let work = match what {
            Local::Move(what) => data.movement(what, on)?,
            Local::Upload { to, range, value } => {
                let values = values(*value, range.len());
                buffers[*to].slice_mut(range.clone())?.upload(&values, on)?
            }
            Local::Zeros { to, forget } => {
                let old = std::mem::replace(&mut buffers[*to], device.zeros(LENGTH, on)?);
                if *forget {
                    std::mem::forget(old);
                }
                return Ok(());
            }
            Local::Clone { from, to } => {
                let values = buffers[*from].to_vec(on);
                let values = if matches!(after, After::Await) {
                    block_on(values)?
                } else {
                    values.wait()?
                };
                buffers[*to] = device.upload(&values, on)?;
                return Ok(());
            }
            Local::CopyToHost { from, host } => buffers[*from].copy_to(&mut hosts[*host], on)?,
            Local::CopyFromHost { host, to } => buffers[*to].copy_from_host(&hosts[*host], on)?,
            Local::WriteHost { host, at, value } => {
                hosts[*host].as_mut_slice()?[*at] = *value;
                return Ok(());
            }
            Local::ReadHost { host } => {
                std::hint::black_box(hosts[*host].as_slice()?.iter().max());
                return Ok(());
            }
            Local::DropHost { host } => {
                hosts[*host] = device.runtime().host_buffer(LENGTH)?;
                return Ok(());
            }
            Local::Download { from, range } => {
                let download = buffers[*from].slice(range.clone())?.to_vec(on);
                match after {
                    After::Drop | After::Order(_) => drop(download),
                    After::Forget => std::mem::forget(download),
                    After::Wait => drop(download.wait()?),
                    After::Await => drop(block_on(download)?),
                }
                return Ok(());
            }
            Local::Event { to } => {
                let event = on.record()?;
                streams[*to].wait_event(&event)?;
                if matches!(after, After::Wait) {
                    event.wait()?;
                }
                return Ok(());
            }
            Local::Synchronize => return on.synchronize(),
            Local::HostFunction => {
                on.host_fn(|| std::thread::sleep(std::time::Duration::from_micros(100)))?
            }
            Local::NewStream => {
                streams[stream] = device.stream()?;
                return Ok(());
            }
            Local::Replay { graph } => graphs[*graph].graph().replay(on)?,
        };
        finish(work, after, streams)
    }
}

impl Data {
    /// Makes the links, because a capture accepts only operations that have links.
    fn connect(&mut self) -> Result<()> {
        self.comm.connect().wait()?;
        let peers = (0..self.ranks).filter(|peer| *peer != self.rank).map(|peer| peer as u32);
        self.comm.connect_to(&peers.collect::<Vec<_>>()).wait()
    }

    fn movement<S: StreamState>(&mut self, what: &Move, on: &Stream<S>) -> Result<S::Work> {
        match what {
            Move::Zero { to, range } => self.buffers[*to].slice_mut(range.clone())?.fill_zero(on),
            Move::Copy { from, to, start, range } => {
                let (from, to) = two(&mut self.buffers, *from, *to);
                let from = from.slice(*start..start + range.len())?;
                to.slice_mut(range.clone())?.copy_from(from, on)
            }
        }
    }

    /// Issues an operation. Returns `None` on a rank that has no part in it.
    fn together<S: StreamState>(
        &mut self,
        what: &Together,
        on: &Stream<S>,
    ) -> Result<Option<S::Work>> {
        let (ranks, rank, block) = (self.ranks, self.rank, LENGTH / self.ranks);
        let Data { buffers, comm, .. } = self;
        let work = match what {
            Together::AllReduce { from, to, range } => {
                let (from, to) = two(buffers, *from, *to);
                let to = to.slice_mut(range.clone())?;
                comm.all_reduce(from.slice(range.clone())?, to, Sum, on)
            }
            Together::AllReduceInPlace { to, range } => {
                comm.all_reduce_in_place(buffers[*to].slice_mut(range.clone())?, Sum, on)
            }
            Together::Broadcast { to, range, root } => {
                comm.broadcast(buffers[*to].slice_mut(range.clone())?, *root as u32, on)
            }
            Together::AllGather { from, to } => {
                let (from, to) = two(buffers, *from, *to);
                comm.all_gather(from.slice(..block)?, to, on)
            }
            Together::ReduceScatter { from, to } => {
                let (from, to) = two(buffers, *from, *to);
                comm.reduce_scatter(from, to.slice_mut(..block)?, Sum, on)
            }
            Together::Scatter { from, to, root } => {
                let (from, to) = two(buffers, *from, *to);
                let source = (*root == rank).then_some(from);
                comm.scatter(source, to.slice_mut(..block)?, *root as u32, on)
            }
            Together::AllToAll { from, to } => {
                let (from, to) = two(buffers, *from, *to);
                comm.all_to_all(from, to, on)
            }
            Together::Ring { from, to, range } => {
                let (from, to) = two(buffers, *from, *to);
                let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
                let (from, to) = (from.slice(range.clone())?, to.slice_mut(range.clone())?);
                comm.batch().send(from, next as u32).recv(to, before as u32).submit(on)
            }
            Together::Message { from, range, source, target, .. } if *source == rank => {
                comm.send(buffers[*from].slice(range.clone())?, *target as u32, on)
            }
            Together::Message { to, range, source, target, .. } if *target == rank => {
                comm.recv(buffers[*to].slice_mut(range.clone())?, *source as u32, on)
            }
            Together::Message { .. } => return Ok(None),
            Together::Barrier => comm.barrier(on),
        };
        work.map(Some)
    }
}
