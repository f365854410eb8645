//! The beginning of a kernel. Its arguments are read, it is checked, and it joins the conversations
//! with the servers.

use super::area::{Area, AreaSide};
use super::arguments::{self, KernelArgument, Sorted};
use super::context;
use super::flags::Flags;
use super::global::Region;
use super::order::Order;
use super::running::{Launched, RESIDENT, RunningKernel};
use super::second_look::SecondLook;
use super::world::{KernelComm, World};
use crate::machine;
use crate::memory;
use crate::stream::{Mark, Stream};
use crate::timeline;
use ascend_program::flow::Launch;
use ascend_program::step::{Step as Does, Sync};
use ascend_program::{Core as Kind, Program};
use std::sync::Arc;

/// Returns whether the cores of a program wait for each other.
fn synchronises(program: &Program) -> bool {
    let waits = |step: &Does| {
        matches!(step, Does::Sync(Sync::Raise { .. } | Sync::Await { .. } | Sync::All { .. }))
    };
    program.blocks.iter().flatten().any(|node| waits(&node.step))
}

impl RunningKernel {
    pub(super) fn start(
        launched: &Launched,
        stream: &'static Stream,
    ) -> Result<RunningKernel, String> {
        let program = &launched.recorded.program;
        let device = stream.device();
        let given = launched.arguments.read()?;
        let names = arguments::names(program);
        let Sorted { contexts, buffers, extents, tiling } = arguments::sort(program, &given)?;
        let region = |(at, (argument, name)): (usize, (&KernelArgument, &String))| {
            let region = Region::new(name, argument.word(name)?, device.id)?;
            match extents.get(at) {
                Some(bytes) => {
                    Ok(region.first(bytes.word(format_args!("of the length of {name}"))?))
                }
                None => Ok(region),
            }
        };
        let buffers = buffers.iter().zip(&names[contexts.len()..]);
        let regions: Vec<_> = buffers.enumerate().map(region).collect();
        let found: Vec<_> = contexts
            .iter()
            .zip(&names)
            .map(|(argument, name)| {
                let address = argument.word(name)?;
                match context::find(address) {
                    Some(area) if area.member.device == device.id => Ok(area),
                    Some(area) => Err(format!(
                        "{name} ({address:#x}) is of device {}, but the kernel runs on {}; pass \
                         a context of the kernel's device",
                        machine::named(area.member.device),
                        machine::named(device.id)
                    )),
                    None => Err(format!(
                        "{name} ({address:#x}) is not a context; pass one from \
                         HcclAllocComResourceByTiling, whose communicator still exists"
                    )),
                }
            })
            .collect();
        let areas: Vec<_> = found.iter().flatten().map(Arc::clone).collect();
        let running = RunningKernel::begin(launched, stream, regions, tiling, found);
        if let Err(text) = &running {
            refuse(&areas, &format!("{}: {}", program.name, in_one_line(text)));
        }
        running
    }

    /// Begins a kernel whose arguments were read and whose contexts were looked up.
    fn begin(
        launched: &Launched,
        stream: &'static Stream,
        regions: Vec<Result<Region, String>>,
        tiling: &KernelArgument,
        found: Vec<Result<Arc<Area>, String>>,
    ) -> Result<RunningKernel, String> {
        let (program, device) = (&launched.recorded.program, stream.device());
        if launched.blocks > RESIDENT && synchronises(program) {
            return Err(format!(
                "{} blocks, whose cores wait for each other, must run at once, which at most \
                 {RESIDENT} can; launch at most {RESIDENT} blocks",
                launched.blocks
            ));
        }
        let ranks = found.iter().map(|found| match found {
            Ok(area) => (area.member.rank as u32, area.member.comm.ranks() as u32),
            Err(_) => (0, 0),
        });
        let launch = Arc::new(Launch {
            blocks: launched.blocks,
            tiling: tiling_bytes(program, tiling, device.id)?,
            groups: ranks.collect(),
        });
        let left_out = launched.recorded.check(&launch, device.product(), &regions)?;
        let again = left_out.filter(|_| launched.issued.is_some()).map(SecondLook::new);
        let mark = Mark::new(stream, stream.queue.completed() + 1);
        let joined = join(found, mark)?;
        let seen = vec![0; joined.len()];
        let (cubes, vectors) = (program.mix.ratio(Kind::Aic), program.mix.ratio(Kind::Aiv));
        let flags = Flags::new(launched.blocks * cubes, launched.blocks * vectors, vectors);
        let world = World::new(
            Arc::clone(program),
            device.product(),
            flags,
            regions,
            joined,
            (stream, launched.issued.clone()),
        );
        let mut running = RunningKernel {
            cores: Vec::new(),
            world,
            launch,
            next: 0,
            blocks_begun: 0,
            seen,
            progress: 0,
            order: Order::of(device),
            held: 0,
            recorded: None,
            again: again.map(Box::new),
        };
        if let Some(log) = timeline::of(device.id) {
            running.recorded = Some(Box::new(running.record(log, device.id)));
        }
        running.begin_blocks();
        Ok(running)
    }

    /// Makes the timeline record of a launch that begins.
    fn record(
        &self,
        log: Arc<timeline::Log>,
        device: u32,
    ) -> (Arc<timeline::Log>, ascend_timeline::Launch) {
        let from = log.now();
        let launch = ascend_timeline::Launch {
            device: machine::named(device),
            kernel: self.world.program.name.clone(),
            blocks: self.launch.blocks,
            ranks: self.world.groups.iter().flatten().map(|group| group.area.member.rank).collect(),
            from,
            to: from,
            failure: None,
            cores: Vec::new(),
        };
        (log, launch)
    }
}

/// Returns in one line why a kernel cannot begin, for the other ranks. The line contains the first
/// finding and its place, if there are findings.
fn in_one_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    match (lines.next(), lines.next().and_then(|line| line.strip_prefix("--> "))) {
        (Some(finding), Some(place)) => format!("{first}: {finding} ({place})"),
        _ => first.to_owned(),
    }
}

/// Reports to the servers that wait for a kernel, or that are still queued, that the kernel cannot
/// begin.
fn refuse(areas: &[Arc<Area>], text: &str) {
    for area in areas {
        area.post(|state| {
            let awaited =
                state.server.is_some() || state.queued.iter().any(|mark| !mark.is_complete());
            if state.kernel.is_none() && awaited {
                state.failure.get_or_insert_with(|| text.into());
            }
        });
    }
}

/// Makes the kernel join the conversation of each of its contexts. If it cannot join one, it joins
/// none.
fn join(
    found: Vec<Result<Arc<Area>, String>>,
    mark: Mark,
) -> Result<Vec<Result<KernelComm, String>>, String> {
    let mut joined: Vec<Result<KernelComm, String>> = Vec::new();
    let mut refused = None;
    for area in found {
        let group = area.and_then(|area| {
            let taken = area.post(|state| {
                if state.kernel.is_some() {
                    return Err(format!(
                        "another kernel is running with the context of {}; only one may run at a \
                         time: launch this one after its end, for example on the same stream",
                        area.describe()
                    ));
                }
                if !state.slots.is_empty() {
                    return Err(format!(
                        "the previous kernel with the context of {} ended without Finalize; call \
                         Finalize at the end of every kernel that communicates",
                        area.describe()
                    ));
                }
                if state.server.is_none() {
                    state.failure = None;
                }
                state.touches.clear();
                state.kernel = Some(AreaSide { mark, sleeps: None });
                Ok(state.generation)
            });
            match taken {
                Ok(generation) => {
                    Ok(KernelComm { area, generation, writer: None, used: false, leaving: false })
                }
                Err(text) => {
                    refused.get_or_insert(text.clone());
                    Err(text)
                }
            }
        });
        joined.push(group);
    }
    match refused {
        None => Ok(joined),
        Some(text) => {
            for group in joined.iter().flatten() {
                group.area.post(|state| state.kernel = None);
            }
            Err(text)
        }
    }
}

/// Returns the bytes of the tiling struct.
fn tiling_bytes(
    program: &Program,
    argument: &KernelArgument,
    device: u32,
) -> Result<Vec<u8>, String> {
    let Some(layout) = &program.tiling else { return Ok(Vec::new()) };
    let size = layout.size as usize;
    match argument {
        KernelArgument::Bytes(bytes, more)
            if bytes.len() == size || (*more && bytes.len() > size) =>
        {
            Ok(bytes[..size].to_vec())
        }
        KernelArgument::Bytes(bytes, _) => Err(format!(
            "the tiling has {} bytes, but {} of the kernel has {size}: host and kernel must use the same struct",
            bytes.len(),
            layout.name
        )),
        KernelArgument::Word(address) => {
            // The tiling is checked like any other buffer.
            Region::new("tiling", *address, device)?.at(0, size as u64)?;
            let address = usize::try_from(*address).unwrap_or(usize::MAX);
            let found = memory::resolve(address, size)?;
            let mut bytes = vec![0; size];
            let store = ascend_reduce::Store::Plain;
            // SAFETY: the bytes lie in a live allocation, and `bytes` has the same number.
            unsafe { ascend_reduce::copy::copy(bytes.as_mut_ptr(), found.data, size, store) };
            Ok(bytes)
        }
    }
}
