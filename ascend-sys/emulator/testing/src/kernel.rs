//! Helpers for kernels: loading and launching them as a C program would, and programs with one
//! collective.

pub mod one_sided;

pub use ascend_program_testing::build;

use crate::common;
use crate::hccl;
use crate::ok;
use crate::ranks::{Rank, name_of, on_block};
use ascend_program::layout::Number;
use ascend_program::step::{Base, Exchange, Hccl, Operation, PerRank, Reduction};
use ascend_program::{ClientId, Core, Mix, Program, TaskId};
use ascend_sys::*;
use build::Builder;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;

pub const A2: u32 = 2;
pub const A3: u32 = 3;
pub const ASCEND950: u32 = 950;

pub const ALL_REDUCE: u32 = 2;
pub const ALL_GATHER: u32 = 6;
pub const REDUCE_SCATTER: u32 = 7;
pub const ALL_TO_ALL_V: u32 = 8;
pub const ALL_TO_ALL: u32 = 10;

pub fn load(program: &Program) -> aclrtBinHandle {
    let bytes = program.to_bytes();
    let mut binary = null_mut();
    ok!(aclrtBinaryLoadFromData(bytes.as_ptr().cast(), bytes.len(), std::ptr::null(), &mut binary));
    binary
}

pub fn function(binary: aclrtBinHandle, name: &str) -> aclrtFuncHandle {
    let name = CString::new(name).unwrap();
    let mut function = null_mut();
    ok!(aclrtBinaryGetFunction(binary, name.as_ptr(), &mut function));
    function
}

/// Returns the communication server on the current device.
pub fn server() -> (aclrtBinHandle, aclrtFuncHandle) {
    let mut option = aclrtBinaryLoadOption {
        type_: aclrtBinaryLoadOptionType::ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE,
        value: aclrtBinaryLoadOptionValue { cpuKernelMode: 0 },
    };
    let mut options = aclrtBinaryLoadOptions { options: &mut option, numOpt: 1 };
    let mut binary = null_mut();
    let path = c"/usr/local/Ascend/opp/built-in/op_impl/aicpu/config/libccl_kernel.json";
    ok!(aclrtBinaryLoadFromFile(path.as_ptr(), &mut options, &mut binary));
    (binary, function(binary, "RunAicpuKfcSrvLaunch"))
}

/// An argument of a launch.
pub enum Given<'a> {
    Pointer(*mut c_void),
    Bytes(&'a [u8]),
}

/// Launches a function with a list of arguments.
pub fn launch(function: aclrtFuncHandle, blocks: u32, given: &[Given<'_>], stream: aclrtStream) {
    let list = list(function, given);
    ok!(aclrtLaunchKernelWithConfig(function, blocks, stream, null_mut(), list, null_mut()));
}

pub fn list(function: aclrtFuncHandle, given: &[Given<'_>]) -> aclrtArgsHandle {
    let mut list = null_mut();
    ok!(aclrtKernelArgsInit(function, &mut list));
    let mut places = Vec::new();
    for given in given {
        let mut handle = null_mut();
        match given {
            Given::Pointer(pointer) => {
                let mut pointer = *pointer;
                let value = (&raw mut pointer).cast();
                ok!(aclrtKernelArgsAppend(list, value, 8, &mut handle));
            }
            Given::Bytes(bytes) => {
                ok!(aclrtKernelArgsAppendPlaceHolder(list, &mut handle));
                places.push((handle, *bytes));
            }
        }
    }
    for (handle, bytes) in places {
        let mut buffer = null_mut();
        ok!(aclrtKernelArgsGetPlaceHolderBuffer(list, handle, bytes.len(), &mut buffer));
        // SAFETY: the buffer has the size of `bytes`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len()) };
    }
    ok!(aclrtKernelArgsFinalize(list));
    list
}

/// Returns the tiling of the operations for a communicator.
pub fn tiling(operations: &[u32], group: &str) -> Vec<u8> {
    let mut bytes = build::tiling(operations);
    for at in 0..operations.len() {
        let name = &mut bytes[64 + 512 * at + 16..][..128];
        name.fill(0);
        name[..group.len()].copy_from_slice(group.as_bytes());
        // The elements are `i32` (HCCL_DATA_TYPE_INT32), both read and written.
        bytes[64 + 512 * at + 14..][..2].fill(2);
    }
    bytes
}

/// Returns the context of a rank for these operations.
pub fn context(rank: &Rank, tiling: &[u8]) -> *mut c_void {
    let mut context = null_mut();
    let bytes = tiling.as_ptr().cast_mut().cast();
    hccl!(HcclAllocComResourceByTiling(rank.comm, rank.stream, bytes, &mut context));
    context
}

/// The kernel and the server of a rank, ready to be launched.
pub struct Ready {
    pub binaries: [aclrtBinHandle; 2],
    pub kernel: aclrtFuncHandle,
    pub server: aclrtFuncHandle,
    pub tiling: Vec<u8>,
    pub context: *mut c_void,
    /// The stream on which the server runs.
    pub stream: aclrtStream,
}

impl Ready {
    pub fn new(rank: &Rank, program: &Program, operations: &[u32]) -> Ready {
        Ready::of(rank, program, tiling(operations, &name_of(rank.comm)))
    }

    /// Returns a kernel and its server on a rank, with this filled tiling struct.
    pub fn of(rank: &Rank, program: &Program, tiling: Vec<u8>) -> Ready {
        let context = context(rank, &tiling);
        let binary = load(program);
        let (library, server) = server();
        let kernel = function(binary, &program.name);
        let stream = common::stream();
        Ready { binaries: [binary, library], kernel, server, tiling, context, stream }
    }

    /// Launches the server, with a descriptor of version 1 with one context.
    pub fn serve(&self) {
        let descriptor = std::ptr::without_provenance_mut(0x11);
        let given = [Given::Pointer(descriptor), Given::Pointer(self.context)];
        launch(self.server, 1, &given, self.stream);
    }

    /// Launches the kernel with these tensors.
    pub fn run(&self, rank: &Rank, blocks: u32, tensors: &[*mut c_void]) {
        let mut given = vec![Given::Pointer(self.context)];
        given.extend(tensors.iter().map(|tensor| Given::Pointer(*tensor)));
        given.extend([Given::Pointer(null_mut()), Given::Bytes(&self.tiling)]);
        launch(self.kernel, blocks, &given, rank.stream);
    }

    /// Launches the server and the kernel, and waits for both.
    pub fn run_all(&self, rank: &Rank, blocks: u32, tensors: &[*mut c_void]) {
        self.serve();
        self.run(rank, blocks, tensors);
        rank.sync();
        ok!(aclrtSynchronizeStream(self.stream));
    }

    pub fn end(self) {
        ok!(aclrtDestroyStream(self.stream));
        for binary in self.binaries {
            ok!(aclrtBinaryUnLoad(binary));
        }
    }
}

fn on_device(device: i32, rank: u32, ranks: u32, comm: HcclComm) -> Rank {
    ok!(aclrtSetDevice(device));
    Rank { rank, ranks, device, info: HcclRootInfo::default(), comm, stream: common::stream() }
}

/// Makes the links for kernels of one communicator. That takes all ranks, each on its own thread.
pub fn link(devices: &[i32], comms: &[HcclComm], operations: &[u32]) {
    let comms = comms.iter().map(|comm| comm.expose_provenance());
    std::thread::scope(|scope| {
        let one = |(rank, (device, comm)): (u32, (&i32, usize))| {
            let device = *device;
            scope.spawn(move || {
                let comm = std::ptr::with_exposed_provenance_mut(comm);
                let rank = on_device(device, rank, devices.len() as u32, comm);
                context(&rank, &tiling(operations, &name_of(comm)));
                ok!(aclrtDestroyStream(rank.stream));
            })
        };
        let threads: Vec<_> = (0..).zip(devices.iter().zip(comms)).map(one).collect();
        // Wait until the threads have ended: some tests count threads.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Ranks that one thread launches and waits for.
pub struct Together {
    pub ranks: Vec<(Rank, Ready, [*mut c_void; 2])>,
    pub block: common::Block,
}

impl Together {
    /// Returns the ranks of a new block. Each of them has an input and an output of `bytes` bytes.
    pub fn new(ranks: u32, program: &Program, operations: &[u32], bytes: usize) -> Together {
        Together::on(common::Block::new(ranks), ranks, program, operations, bytes)
    }

    pub fn on(
        block: common::Block,
        ranks: u32,
        program: &Program,
        operations: &[u32],
        bytes: usize,
    ) -> Together {
        let devices: Vec<i32> = (0..ranks as i32).map(|rank| block.first + rank).collect();
        let mut comms = vec![null_mut(); ranks as usize];
        hccl!(HcclCommInitAll(ranks, devices.as_ptr().cast_mut(), comms.as_mut_ptr()));
        link(&devices, &comms, operations);
        let one = |(rank, (device, comm)): (u32, (&i32, HcclComm))| {
            let rank = on_device(*device, rank, ranks, comm);
            let ready = Ready::new(&rank, program, operations);
            let tensors = [rank.upload(&vec![0; bytes]), rank.upload(&vec![0; bytes])];
            (rank, ready, tensors)
        };
        let ranks = (0..).zip(devices.iter().zip(comms)).map(one).collect();
        Together { ranks, block }
    }

    /// Launches the kernel once on all ranks.
    pub fn run_all(&self, blocks: u32) {
        for (rank, ready, tensors) in &self.ranks {
            ok!(aclrtSetDevice(rank.device));
            ready.serve();
            ready.run(rank, blocks, tensors);
        }
        for (rank, ready, _) in &self.ranks {
            ok!(aclrtSetDevice(rank.device));
            rank.sync();
            ok!(aclrtSynchronizeStream(ready.stream));
        }
    }

    pub fn end(self) {
        for (rank, ready, _) in self.ranks {
            ok!(aclrtSetDevice(rank.device));
            ready.end();
            hccl!(HcclCommDestroy(rank.comm));
        }
    }
}

/// Returns the clients of two groups, each with one operation.
pub fn two_clients(b: &mut Builder) -> [ClientId; 2] {
    b.program.tiling = Some(build::tiling_layout(2));
    [("hccl", 0), ("other", 1)].map(|(name, group)| {
        let client = b.client(name, group, None);
        b.hccl(Hccl::Init(client, 0));
        b.hccl(Hccl::Configure(client, 64 + 512 * group, format!("cc{group}")));
        client
    })
}

/// Launches a kernel of two groups, and one server for both on a stream of its own. Returns that
/// stream.
pub fn launch_for_two(
    rank: &Rank,
    other: HcclComm,
    program: &Program,
    operations: [u32; 2],
    tensors: &[*mut c_void],
) -> aclrtStream {
    let mut bytes = tiling(&operations, &name_of(rank.comm));
    let name = name_of(other);
    bytes[576 + 16..][..128].fill(0);
    bytes[576 + 16..][..name.len()].copy_from_slice(name.as_bytes());
    let contexts = [rank.comm, other].map(|comm| {
        let mut context = null_mut();
        let bytes = bytes.as_ptr().cast_mut().cast();
        hccl!(HcclAllocComResourceByTiling(comm, rank.stream, bytes, &mut context));
        context
    });
    let ((_, server), stream) = (server(), common::stream());
    let descriptor = std::ptr::without_provenance_mut(0x21);
    let given = [descriptor, contexts[0], contexts[1]].map(Given::Pointer);
    launch(server, 1, &given, stream);
    let pointers = contexts.iter().chain(tensors).chain([&null_mut()]);
    let mut given: Vec<_> = pointers.map(|pointer| Given::Pointer(*pointer)).collect();
    given.push(Given::Bytes(&bytes));
    launch(function(load(program), &program.name), 1, &given, rank.stream);
    stream
}

/// A call that prepares an operation.
#[derive(Clone, Debug)]
pub struct Call {
    pub command: u32,
    /// The offset from the start of both buffers, in elements.
    pub at: u64,
    pub count: u64,
    pub stride: u64,
    pub repeat: u64,
    pub commit: bool,
    /// The lists of an AlltoAllV.
    pub lists: [Vec<u64>; 4],
}

impl Call {
    pub fn new(command: u32, at: u64, count: u64, stride: u64, repeat: u64) -> Call {
        Call { command, at, count, stride, repeat, commit: true, lists: Default::default() }
    }
}

pub fn operation(b: &mut Builder, call: &Call, x: Base, y: Base, dtype: u32) -> Operation {
    let (send, recv) = (b.at(x, call.at), b.at(y, call.at));
    let exchange = Exchange { send, recv, count: b.n(call.count), dtype };
    let stride = b.n(call.stride);
    match call.command {
        ALL_REDUCE => Operation::AllReduce(exchange, Reduction::Sum),
        ALL_GATHER => Operation::AllGather(exchange, stride),
        REDUCE_SCATTER => Operation::ReduceScatter(exchange, Reduction::Sum, stride),
        ALL_TO_ALL => Operation::AlltoAll(exchange, stride),
        _ => {
            let mut list =
                |n: usize| PerRank::Values(call.lists[n].iter().map(|count| b.n(*count)).collect());
            Operation::AlltoAllV {
                send,
                recv,
                dtype,
                send_counts: list(0),
                send_displs: list(1),
                recv_counts: list(2),
                recv_displs: list(3),
            }
        }
    }
}

/// Returns a kernel that prepares the calls, commits the remaining turns one by one, waits for all
/// turns, and ends as in CANN's documentation.
pub fn kernel(calls: &[Call], number: Number, dtype: u32) -> Program {
    let mut b = Builder::new(Mix::MixAiv10);
    let (x, y) = (b.input("x", number), b.output("y", number));
    let mut commands: Vec<u32> = calls.iter().map(|call| call.command).collect();
    commands.dedup();
    b.on(Core::Aiv, |b| {
        let client = b.ready(&commands);
        let mut tasks: Vec<TaskId> = Vec::new();
        for (n, call) in calls.iter().enumerate() {
            let task = b.task(&format!("task{n}"), client);
            let operation = operation(b, call, x, y, dtype);
            b.prepare(task, operation, call.repeat, call.commit);
            tasks.push(task);
        }
        for (call, task) in calls.iter().zip(&tasks) {
            if !call.commit {
                b.times(call.repeat, |b| b.commit(*task));
            }
            b.times(call.repeat, |b| b.wait(*task));
        }
        b.sync_vectors();
        b.hccl(Hccl::Finalize(client, true));
    });
    b.done()
}

/// Runs a kernel on ranks of a product with these inputs. Returns their outputs of `out` bytes,
/// which held [`BLANK`] before.
pub fn run_on(
    product: u32,
    calls: &[Vec<Call>],
    (number, dtype): (Number, u32),
    inputs: &[Vec<u8>],
    out: usize,
    blocks: u32,
) -> Vec<Vec<u8>> {
    let config = AscendExtBlockConfig {
        deviceCount: inputs.len() as u32,
        product,
        ..common::Block::config()
    };
    on_block(config, |rank| {
        rank.join();
        let own = &calls[rank.rank as usize % calls.len()];
        let mut commands: Vec<u32> = own.iter().map(|call| call.command).collect();
        commands.dedup();
        let ready = Ready::new(rank, &kernel(own, number, dtype), &commands);
        let x = rank.upload(&inputs[rank.rank as usize]);
        let y = rank.upload(&vec![BLANK; out]);
        ready.run_all(rank, blocks, &[x, y]);
        let bytes = rank.download(y, out);
        ready.end();
        hccl!(HcclCommDestroy(rank.comm));
        bytes
    })
}

pub const BLANK: u8 = 0xee;

/// Applies the effect of a call to the outputs, element by element.
pub fn naive(call: &Call, inputs: &[Vec<i32>], outputs: &mut [Vec<i32>]) {
    let ranks = inputs.len();
    let (at, count) = (call.at as usize, call.count as usize);
    let stride = if call.stride == 0 { count } else { call.stride as usize };
    for turn in 0..call.repeat as usize {
        let t = at + turn * count;
        for q in 0..ranks {
            for i in 0..count {
                match call.command {
                    ALL_REDUCE => {
                        outputs[q][t + i] = (0..ranks).map(|p| inputs[p][t + i]).sum();
                    }
                    REDUCE_SCATTER => {
                        outputs[q][t + i] = (0..ranks).map(|p| inputs[p][t + q * stride + i]).sum();
                    }
                    _ => {
                        for p in 0..ranks {
                            let from = if call.command == ALL_GATHER { 0 } else { q * stride };
                            outputs[q][t + p * stride + i] = inputs[p][t + from + i];
                        }
                    }
                }
            }
        }
    }
}

/// Runs a call, and compares the result with the naive one.
pub fn is_naive(product: u32, call: &Call, inputs: &[Vec<i32>]) {
    let (length, blank) = (inputs[0].len(), i32::from_le_bytes([BLANK; 4]));
    let mut expected = vec![vec![blank; length]; inputs.len()];
    naive(call, inputs, &mut expected);
    let bytes: Vec<_> = inputs.iter().map(|input| ints(input.iter().copied())).collect();
    let calls = [vec![call.clone()]];
    let outputs = run_on(product, &calls, (Number::I32, 2), &bytes, 4 * length, 1);
    for (rank, (output, expected)) in outputs.iter().zip(&expected).enumerate() {
        let found = to_ints(output);
        let differs = found.iter().zip(expected).position(|(found, wanted)| found != wanted);
        assert!(
            found == *expected,
            "{call:?}, product {product}, {} ranks, rank {rank}, element {differs:?}",
            inputs.len()
        );
    }
}

/// Returns the bytes of numbers.
pub fn ints(numbers: impl IntoIterator<Item = i32>) -> Vec<u8> {
    numbers.into_iter().flat_map(i32::to_le_bytes).collect()
}

pub fn to_ints(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect()
}
