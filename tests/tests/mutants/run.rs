//! Runs a program on its ranks, in an order that a seed chooses.

use std::ffi::c_void;
use std::ptr::null_mut;

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::kernel::{self, A3, Given};
use ascend_emulator_testing::ranks::{Rank, name_of};
use ascend_emulator_testing::{call, hccl, ok};
use ascend_program::Program;
use ascend_program::check::Late;
use ascend_sys::*;

use crate::subjects::Subject;

/// The byte that fills the unwritten workspace. It makes a NaN in every float type.
const UNWRITTEN: u8 = 0xff;

/// The bytes that fill outputs before the kernel writes them: numbers that the kernel cannot have
/// read. One is less than all inputs and the other is more, because a maximum hides the first one
/// and a minimum the second one.
pub const BEFORE: [u8; 2] = [0xee, 0x66];

/// The outcome of a run: for each rank its tensors, or the error.
pub type Outcome = Result<Vec<Vec<Vec<u8>>>, String>;

struct Seat {
    rank: Rank,
    tiling: Vec<u8>,
    context: *mut c_void,
    server: Option<(aclrtBinHandle, aclrtFuncHandle, aclrtStream)>,
    tensors: Vec<*mut c_void>,
    workspace: *mut c_void,
}

/// Devices whose kernels run in the order of one seed, prepared for one subject.
pub struct Bench<'a> {
    subject: &'a Subject,
    seats: Vec<Seat>,
    inputs: Vec<Vec<Vec<u8>>>,
    _block: Block,
}

/// Returns small numbers. All sums and products of them here are exact. Each tensor of each rank
/// has its own numbers.
fn input(rank: usize, tensor: usize, bytes: usize, is_half: bool) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed((16 * rank + tensor) as u64);
    let numbers: Vec<f32> = (0..bytes / 2).map(|_| f32::from(random.u8(0..4))).collect();
    let number = |n: usize| numbers[n];
    match is_half {
        true => (0..bytes / 2).flat_map(|n| hccl::f16::from_f32(number(n)).to_le_bytes()).collect(),
        false => (0..bytes / 4).flat_map(|n| number(n).to_le_bytes()).collect(),
    }
}

impl<'a> Bench<'a> {
    pub fn new(subject: &'a Subject, seed: u64, late: Option<Late>, before: u8) -> Bench<'a> {
        let ranks = subject.ranks;
        let block = Block::with(AscendExtBlockConfig {
            deviceCount: ranks,
            product: A3,
            connectTimeoutMs: 2000,
            execTimeoutMs: 400,
            memoryBytes: 1 << 30,
            kernelSeed: seed,
            kernelLate: late.map_or([0; 32], Late::letters),
            ..Block::config()
        });
        let devices: Vec<i32> = (0..ranks as i32).map(|rank| block.first + rank).collect();
        let mut comms = vec![null_mut(); ranks as usize];
        let communicates = subject.program.groups > 0;
        if communicates {
            hccl!(HcclCommInitAll(ranks, devices.as_ptr().cast_mut(), comms.as_mut_ptr()));
        }
        let seat = |rank: u32, comm: HcclComm| {
            let device = devices[rank as usize];
            ok!(aclrtSetDevice(device));
            let info = HcclRootInfo::default();
            let rank = Rank { rank, ranks, device, info, comm, stream: common::stream() };
            let name = if communicates { name_of(comm) } else { String::new() };
            let tiling = (subject.tiling)(&name);
            let context = if communicates { kernel::context(&rank, &tiling) } else { null_mut() };
            (rank, tiling, context)
        };
        if communicates {
            // This call involves all ranks, each on a thread.
            let places: Vec<usize> = comms.iter().map(|comm| comm.expose_provenance()).collect();
            std::thread::scope(|scope| {
                for (rank, place) in (0..).zip(&places) {
                    let seat = &seat;
                    scope.spawn(move || {
                        let (rank, ..) = seat(rank, std::ptr::with_exposed_provenance_mut(*place));
                        ok!(aclrtDestroyStream(rank.stream));
                    });
                }
            });
        }
        let seats = (0..).zip(&comms).map(|(rank, comm)| {
            let (rank, tiling, context) = seat(rank, *comm);
            let server = communicates.then(|| {
                let (library, function) = kernel::server();
                (library, function, common::stream())
            });
            let tensors = subject.tensors.iter().map(|bytes| common::malloc(*bytes)).collect();
            let workspace =
                if subject.workspace > 0 { common::malloc(subject.workspace) } else { null_mut() };
            Seat { rank, tiling, context, server, tensors, workspace }
        });
        let seats: Vec<Seat> = seats.collect();
        let inputs = (0..ranks as usize).map(|rank| {
            let parameters = subject.program.parameters.iter().zip(&subject.tensors).enumerate();
            parameters
                .map(|(at, (parameter, bytes))| match parameter.output {
                    true => vec![before; *bytes],
                    false => input(rank, at, *bytes, parameter.number.size() == 2),
                })
                .collect()
        });
        Bench { subject, inputs: inputs.collect(), seats, _block: block }
    }

    /// Launches a program once on all ranks and waits for it.
    pub fn run(&self, program: &Program) -> Outcome {
        let mut binaries = Vec::new();
        for (seat, inputs) in self.seats.iter().zip(&self.inputs) {
            ok!(aclrtSetDevice(seat.rank.device));
            for (tensor, bytes) in seat.tensors.iter().zip(inputs) {
                let (from, length) = (bytes.as_ptr().cast(), bytes.len());
                ok!(aclrtMemcpy(*tensor, length, from, length, common::H2D));
            }
            if self.subject.workspace > 0 {
                let length = self.subject.workspace;
                ok!(aclrtMemset(seat.workspace, length, UNWRITTEN.into(), length));
            }
            if let Some((_, server, stream)) = seat.server {
                let descriptor = std::ptr::without_provenance_mut(0x11);
                let given = [Given::Pointer(descriptor), Given::Pointer(seat.context)];
                kernel::launch(server, 1, &given, stream);
            }
            let binary = kernel::load(program);
            let function = kernel::function(binary, &program.name);
            let mut given = Vec::new();
            if seat.server.is_some() {
                given.push(Given::Pointer(seat.context));
            }
            given.extend(seat.tensors.iter().map(|tensor| Given::Pointer(*tensor)));
            given.push(Given::Pointer(seat.workspace));
            if program.tiling.is_some() {
                given.push(Given::Bytes(&seat.tiling));
            }
            kernel::launch(function, self.subject.blocks, &given, seat.rank.stream);
            binaries.push(binary);
        }
        let mut failed = None;
        for seat in &self.seats {
            ok!(aclrtSetDevice(seat.rank.device));
            let own = seat.server.map(|(.., stream)| stream);
            for stream in [Some(seat.rank.stream), own].into_iter().flatten() {
                if call!(aclrtSynchronizeStream(stream)) != 0 {
                    failed.get_or_insert_with(common::message);
                }
            }
        }
        binaries.into_iter().for_each(|binary| ok!(aclrtBinaryUnLoad(binary)));
        if let Some(text) = failed {
            return Err(text);
        }
        Ok(self
            .seats
            .iter()
            .map(|seat| {
                ok!(aclrtSetDevice(seat.rank.device));
                let tensors = seat.tensors.iter().zip(&self.subject.tensors);
                tensors.map(|(tensor, bytes)| seat.rank.download(*tensor, *bytes)).collect()
            })
            .collect())
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        for seat in &self.seats {
            ok!(aclrtSetDevice(seat.rank.device));
            if let Some((library, _, stream)) = seat.server {
                call!(aclrtDestroyStream(stream));
                call!(aclrtBinaryUnLoad(library));
                call!(HcclCommDestroy(seat.rank.comm));
            }
        }
    }
}
