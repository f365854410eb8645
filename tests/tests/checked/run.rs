//! The same programs through `hccl`.

use super::program::{
    After, BUFFERS, HOSTS, LENGTH, Local, Program, STREAMS, State, Step, Together, values,
};
use futures::executor::block_on;
use hccl::prelude::*;
use hccl::{Communicator, Result};

/// Runs the first steps of a program. The values of each rank.
pub fn run(runtime: &Runtime, program: &Program, steps: usize) -> Result<Vec<State>> {
    runtime.run_ranks(program.ranks as u32, |rank| {
        let mut side = Side::new(&rank)?;
        let me = rank.index() as usize;
        for step in &program.steps[..steps] {
            match step {
                Step::Local { rank, stream, after, elsewhere, what } if *rank == me => {
                    if *elsewhere {
                        let side = &mut side;
                        std::thread::scope(|scope| {
                            let thread = scope.spawn(move || side.local(what, *stream, *after));
                            thread.join().expect("the step does not panic")
                        })?;
                    } else {
                        side.local(what, *stream, *after)?;
                    }
                }
                Step::Local { .. } => {}
                Step::Together { streams, after, what } => {
                    side.together(what, streams[me], *after)?;
                }
            }
        }
        side.state()
    })
}

struct Side {
    device: Device,
    streams: Vec<Stream>,
    buffers: Vec<DeviceBuffer<i32>>,
    hosts: Vec<HostBuffer<i32>>,
    comm: Communicator,
    ranks: usize,
    rank: usize,
}

/// Two buffers at once: one to read and one to write.
fn two(
    buffers: &mut [DeviceBuffer<i32>],
    from: usize,
    to: usize,
) -> (&DeviceBuffer<i32>, &mut DeviceBuffer<i32>) {
    let [from, to] = buffers.get_disjoint_mut([from, to]).expect("two buffers");
    (from, to)
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
        let (comm, ranks) = (rank.communicator()?, rank.world_size() as usize);
        let rank = rank.index() as usize;
        Ok(Side { device, streams, buffers, hosts, comm, ranks, rank })
    }

    fn state(&mut self) -> Result<State> {
        let stream = &self.streams[0];
        let buffers = self
            .buffers
            .iter()
            .map(|buffer| buffer.to_vec(stream).wait())
            .collect::<Result<_>>()?;
        let hosts = self
            .hosts
            .iter()
            .map(|host| host.as_slice().map(<[i32]>::to_vec))
            .collect::<Result<_>>()?;
        self.streams.iter().try_for_each(Stream::synchronize)?;
        Ok(State { buffers, hosts })
    }

    fn local(&mut self, what: &Local, stream: usize, after: After) -> Result<()> {
        let Side { device, streams, buffers, hosts, .. } = self;
        let on = &streams[stream];
        let work = match what {
            Local::Zero { to, range } => buffers[*to].slice_mut(range.clone())?.fill_zero(on)?,
            Local::Upload { to, range, value } => {
                let values = values(*value, range.len());
                buffers[*to].slice_mut(range.clone())?.upload(&values, on)?
            }
            Local::Copy { from, to, start, range } => {
                let (from, to) = two(buffers, *from, *to);
                let from = from.slice(*start..start + range.len())?;
                to.slice_mut(range.clone())?.copy_from(from, on)?
            }
            Local::Zeros { to } => {
                buffers[*to] = device.zeros(LENGTH, on)?;
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
        };
        finish(work, after, streams)
    }

    fn together(&mut self, what: &Together, stream: usize, after: After) -> Result<()> {
        let (ranks, rank, block) = (self.ranks, self.rank, LENGTH / self.ranks);
        let Side { streams, buffers, comm, .. } = self;
        let on = &streams[stream];
        let work = match what {
            Together::AllReduce { from, to, range } => {
                let (from, to) = two(buffers, *from, *to);
                let to = to.slice_mut(range.clone())?;
                comm.all_reduce(from.slice(range.clone())?, to, Sum, on)?
            }
            Together::AllReduceInPlace { to, range } => {
                comm.all_reduce_in_place(buffers[*to].slice_mut(range.clone())?, Sum, on)?
            }
            Together::Broadcast { to, range, root } => {
                comm.broadcast(buffers[*to].slice_mut(range.clone())?, *root as u32, on)?
            }
            Together::AllGather { from, to } => {
                let (from, to) = two(buffers, *from, *to);
                comm.all_gather(from.slice(..block)?, to, on)?
            }
            Together::ReduceScatter { from, to } => {
                let (from, to) = two(buffers, *from, *to);
                comm.reduce_scatter(from, to.slice_mut(..block)?, Sum, on)?
            }
            Together::Scatter { from, to, root } => {
                let (from, to) = two(buffers, *from, *to);
                let source = (*root == rank).then_some(from);
                comm.scatter(source, to.slice_mut(..block)?, *root as u32, on)?
            }
            Together::AllToAll { from, to } => {
                let (from, to) = two(buffers, *from, *to);
                comm.all_to_all(from, to, on)?
            }
            Together::Ring { from, to, range } => {
                let (from, to) = two(buffers, *from, *to);
                let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
                let (from, to) = (from.slice(range.clone())?, to.slice_mut(range.clone())?);
                comm.batch().send(from, next as u32).recv(to, before as u32).submit(on)?
            }
            Together::Barrier => comm.barrier(on)?,
        };
        finish(work, after, streams)
    }
}
