//! A world in which functions are called: two devices of a product, and an object of every kind on
//! the first of them.

use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};

use ascend_emulator_testing::common::{self, Block, malloc, malloc_host, physical_properties};
use ascend_emulator_testing::kernel::{self, build::Builder};
use ascend_emulator_testing::operator::protocol_of;
use ascend_emulator_testing::ranks::{config, name_of, root_info};
use ascend_emulator_testing::{call, hccl, issue, ok};
use ascend_program::layout::Number;
use ascend_program::step::{Copy, Step};
use ascend_program::{Mix, Of};
use ascend_sys::*;

use crate::memory::Memory;
use crate::objects::Objects;

/// The bytes of each piece of memory of a device.
pub const PIECE: u64 = 64 << 10;
/// The unit of virtual memory.
pub const UNIT: u64 = 2 << 20;
/// The time that ranks of the world wait for one another, in milliseconds.
const PATIENCE: u32 = 1000;

/// The resources that calls can use, apart from handles.
pub struct World {
    /// The number of the product: 2, 3 or 950.
    pub product: u32,
    /// The number of the first device; the second one is the next.
    pub first: i32,
    /// The number of the block.
    pub block: u32,
    /// A kernel, as a file has it.
    pub kernel: Vec<u8>,
    /// The tiling struct of the kernel for the communicator of one rank.
    pub tiling: Vec<u8>,
    /// Texts that have a meaning: names of communicators, keys of exports, a path.
    pub texts: Texts,
    /// The endpoints of both devices.
    pub endpoints: [EndpointDesc; 2],
    /// The key of an event.
    pub event_key: [u8; 64],
    /// The address and the number of bytes of memory of another rank that this one can reach over a
    /// channel.
    pub remote: (u64, u64),
    /// An exported piece of memory of an endpoint.
    pub export: Vec<u8>,
    /// Physical memory that is exported, in both kinds of handles.
    pub shareable: (u64, [u8; 128]),
    /// A task of a graph. The task can be edited.
    pub task: u64,
    /// The stream of the graph that has the task.
    pub task_stream: u64,
}

/// Texts that have a meaning: names, keys, a table and paths.
pub struct Texts {
    /// Names of communicators.
    pub comms: [String; 2],
    /// The key of exported memory.
    pub memory: String,
    /// The key of an exported notify.
    pub notify: String,
    /// A rank table with one rank.
    pub table: String,
    /// A file for results.
    pub file: String,
    /// A file with a kernel.
    pub kernel: String,
}

/// A directory for the files of a run, which is removed together with this value. It is the current
/// directory.
pub struct Files(pub PathBuf);

impl Files {
    /// Makes the directory, and enters it.
    ///
    /// # Panics
    ///
    /// If the directory cannot be made.
    pub fn make() -> Files {
        let path = files_of(std::process::id());
        std::fs::create_dir_all(&path).expect("a directory for files");
        // So a wrong path is the name of a file in this directory.
        std::env::set_current_dir(&path).expect("it is there");
        Files(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("it is UTF-8").to_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the directory for the files of a process.
pub fn files_of(process: u32) -> PathBuf {
    std::env::temp_dir().join(format!("abi-calls-{process}"))
}

/// Makes a kernel that writes the first number of its tiling struct and the number of its blocks.
fn kernel() -> Vec<u8> {
    let mut b = Builder::new(Mix::AivOnly);
    b.program.groups = 0;
    let y = b.output("y", Number::U64);
    b.program.tiling = Some(kernel::build::tiling_layout(0));
    let first = b.field("first", 64);
    let blocks = b.value(Of::BlockCount, Number::I64);
    let blocks = b.value(Of::Cast(blocks), Number::U64);
    b.on_block(0, |b| {
        for (at, value) in [(0, first), (1, blocks)] {
            let to = b.at(y, at);
            b.step(Step::Copy(Copy::Set { to, value }));
        }
        let line = b.at(y, 0);
        b.step(Step::Copy(Copy::Clean(line)));
    });
    b.done().to_bytes()
}

fn endpoint_of(device: i32, protocol: CommProtocol) -> EndpointDesc {
    let mut count = 0;
    issue!(HcommEndpointGetDescNum(device, &mut count));
    let mut all = vec![EndpointDesc::default(); count as usize];
    issue!(HcommEndpointGetDescs(device, &mut count, all.as_mut_ptr()));
    *all.iter().find(|one| one.protocol == protocol).expect("there is one of the protocol")
}

/// Returns the description of a channel to the other rank.
pub fn channel_to(remote: u32, product: u32) -> HcclChannelDesc {
    let mut desc = HcclChannelDesc::unset();
    desc.remoteRank = remote;
    desc.channelProtocol = protocol_of(product);
    desc.notifyNum = 3;
    desc
}

/// Returns the description of a channel to the other device.
pub fn channel_between(remote: EndpointDesc) -> HcommChannelDesc {
    let mut desc = HcommChannelDesc::unset();
    desc.remoteEndpoint = remote;
    desc.notifyNum = 3;
    desc
}

/// Returns the description of a team, as `HcclTeamCreateDescInit` makes it.
pub fn team(ranks: *const u32, count: u32) -> HcclTeamCreateDesc {
    HcclTeamCreateDesc {
        header: CommAbiHeader { version: 1, magicWord: 0x0fcf_0f14, size: 88, reserved: 0 },
        rankIds: ranks,
        rankNum: count,
        selfRankId: u32::MAX,
        netLayer: u32::MAX,
        protocol: CommProtocol::COMM_PROTOCOL_RESERVED,
        requirement: HcommTeamSyncMemRequirement::default(),
        reserved: [0; 4],
    }
}

/// Calls a function that makes an object, and returns the handle as a number.
macro_rules! made {
    ($name:ident($to:ident $(, $argument:expr)*)) => {{
        let mut made = null_mut();
        let $to = &raw mut made;
        ok!($name($($argument),*));
        made as u64
    }};
}

/// Makes a world, with the first of its devices current in this thread.
///
/// # Panics
///
/// If a part of the world cannot be made.
pub fn build(product: u32, objects: &Objects, memory: &Memory, files: &Files) -> World {
    let block = AscendExtBlockConfig {
        product,
        deviceCount: 2,
        memoryBytes: 1 << 30,
        connectTimeoutMs: PATIENCE,
        execTimeoutMs: PATIENCE,
        ..Block::config()
    };
    let block = std::mem::ManuallyDrop::new(Block::with(block));
    let first = block.first;
    ok!(aclrtSetDevice(first));
    for _ in 0..3 {
        objects.add("aclrtStream", made!(aclrtCreateStream(to, to)));
        objects.add_memory(malloc(PIECE as usize) as u64, PIECE, false);
        objects.add_memory(malloc_host(PIECE as usize) as u64, PIECE, true);
    }
    let mut shared = null_mut();
    for flag in [ACL_EVENT_SYNC, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC, ACL_EVENT_IPC] {
        let event = made!(aclrtCreateEventExWithFlag(to, to, flag));
        objects.add("aclrtEvent", event);
        shared = event as aclrtEvent;
    }
    let notify = made!(aclrtCreateNotify(to, to, 0));
    objects.add("aclrtNotify", notify);
    let mut context = null_mut();
    ok!(aclrtGetCurrentContext(&mut context));
    objects.add("aclrtContext", context as u64);

    let bytes = kernel();
    let binary = made!(aclrtBinaryLoadFromData(to, bytes.as_ptr().cast(), bytes.len(), null(), to))
        as aclrtBinHandle;
    let function = kernel::function(binary, "kernel");
    let (library, _) = kernel::server();
    objects.add("aclrtBinHandle", binary as u64);
    objects.add("aclrtBinHandle", library as u64);
    objects.add("aclrtFuncHandle", function as u64);

    let texts = Texts {
        comms: Default::default(),
        memory: export_memory(malloc(PIECE as usize)),
        notify: export_notify(notify as aclrtNotify),
        table: files.path("table.json"),
        file: files.path("written"),
        kernel: files.path("kernel.prog"),
    };
    std::fs::write(&texts.kernel, &bytes).expect("a file with a kernel");
    let table = format!(
        "{{\"version\": \"1.0\", \"status\": \"completed\", \"server_count\": \"1\", \"server_list\": \
         [{{\"server_id\": \"calls-{}\", \"device\": [{{\"device_id\": \"0\", \"rank_id\": \"0\"}}]}}]}}",
        std::process::id()
    );
    std::fs::write(&texts.table, table).expect("a file with a table");
    let mut key = aclrtIpcEventHandle::default();
    ok!(aclrtIpcGetEventHandle(shared, &mut key));

    let protocol = protocol_of(product);
    let endpoints = [first, first + 1].map(|device| endpoint_of(device, protocol));
    let mut world = World {
        product,
        first,
        block: block.number,
        kernel: bytes,
        tiling: Vec::new(),
        texts,
        endpoints,
        event_key: key.reserved.map(|byte| byte as u8),
        remote: (0, 0),
        export: Vec::new(),
        shareable: (0, [0; 128]),
        task: 0,
        task_stream: 0,
    };
    communicators(&mut world, objects);
    connect_endpoints(&mut world, objects);
    graph(&mut world, objects);
    let reserved = memory.room(8);
    ok!(aclrtReserveMemAddress(reserved as *mut *mut c_void, UNIT as usize, 0, null_mut(), 1));
    objects.add_memory(memory.word(reserved), UNIT, false);
    let pieces = made!(aclrtMallocPhysical(to, to, UNIT as usize, &physical_properties(first), 0));
    objects.add("aclrtDrvMemHandle", pieces);
    let pieces = made!(aclrtMallocPhysical(to, to, UNIT as usize, &physical_properties(first), 0));
    let (own, fabric) = (pieces as aclrtDrvMemHandle, (&raw mut world.shareable.1).cast());
    let kind = aclrtMemSharedHandleType::ACL_MEM_SHARE_HANDLE_TYPE_FABRIC;
    ok!(aclrtMemExportToShareableHandleV2(own, 0, kind, fabric));
    let none = aclrtMemHandleType::ACL_MEM_HANDLE_TYPE_NONE;
    ok!(aclrtMemExportToShareableHandle(own, none, 0, &mut world.shareable.0));
    world
}

fn export_memory(at: *mut c_void) -> String {
    let mut key = [0; 65];
    ok!(aclrtIpcMemGetExportKey(at, PIECE as usize, key.as_mut_ptr(), key.len(), 1));
    text(&key)
}

fn export_notify(notify: aclrtNotify) -> String {
    let mut key = [0; 65];
    ok!(aclrtNotifyGetExportKey(notify, key.as_mut_ptr(), key.len(), 2));
    text(&key)
}

fn text(key: &[std::ffi::c_char]) -> String {
    let bytes = key.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    String::from_utf8(bytes).expect("keys are ASCII")
}

/// Makes a communicator of one rank, and one of two ranks with threads and channels.
fn communicators(world: &mut World, objects: &Objects) {
    let mut alone = null_mut();
    let info = root_info();
    hccl!(HcclCommInitRootInfoConfig(1, &info, 0, &config("alone"), &mut alone));
    objects.add("HcclComm", alone as u64);
    world.tiling = kernel::tiling(&[kernel::ALL_REDUCE], &name_of(alone));
    let info = root_info();
    let (first, product) = (world.first, world.product);
    let join = |rank: u32| {
        ok!(aclrtSetDevice(first + rank as i32));
        let (mut comm, stream) = (null_mut(), common::stream());
        hccl!(HcclCommInitRootInfoConfig(2, &info, rank, &config("pair"), &mut comm));
        hccl!(HcclBarrier(comm, stream));
        ok!(aclrtSynchronizeStream(stream));
        let desc = channel_to(1 - rank, product);
        let engines = [CommEngine::COMM_ENGINE_CPU_TS, CommEngine::COMM_ENGINE_CPU];
        let channels = engines.map(|engine| {
            let mut channel = 0;
            hccl!(HcclChannelAcquire(comm, engine, &desc, 1, &mut channel));
            channel
        });
        let mut third = 0;
        let (mut other, mut engine) = (desc, engines[1]);
        if product == 950 {
            engine = CommEngine::COMM_ENGINE_CCU;
            other.channelProtocol = CommProtocol::COMM_PROTOCOL_UB_CTP;
        } else {
            other.channelProtocol = CommProtocol::COMM_PROTOCOL_ROCE;
        }
        hccl!(HcclChannelAcquire(comm, engine, &other, 1, &mut third));
        let (mut remote, mut size) = (null_mut(), 0);
        hccl!(HcclChannelGetHcclBuffer(comm, channels[0], &mut remote, &mut size));
        let mut thread = 0;
        hccl!(HcclThreadAcquire(comm, engines[0], 1, 3, &mut thread));
        [comm as u64, channels[0], channels[1], third, thread, remote as u64, size]
    };
    let sides = std::thread::scope(|scope| {
        let other = scope.spawn(|| join(1));
        let own = join(0);
        [own, other.join().expect("the other rank has joined")]
    });
    for [comm, first, second, third, thread, ..] in sides {
        objects.add("HcclComm", comm);
        objects.add("ChannelHandle", first);
        objects.add("ChannelHandle", second);
        objects.add("ChannelHandle", third);
        objects.add("ThreadHandle", thread);
    }
    world.remote = (sides[0][5], sides[0][6]);
    world.texts.comms = [alone, sides[0][0] as HcclComm].map(name_of);
    let mut team_handle = null_mut();
    hccl!(HcclWorldTeamCreate(alone, &team(null(), 0), &mut team_handle));
    objects.add("HcommTeamHandle", team_handle as u64);
}

/// Makes an endpoint of each device, and a channel between them.
fn connect_endpoints(world: &mut World, objects: &Objects) {
    let mut sides = [(null_mut(), 0); 2];
    for (side, (own, other)) in sides.iter_mut().zip([(0, 1), (1, 0)]) {
        ok!(aclrtSetDevice(world.first + own as i32));
        issue!(HcommEndpointCreate(&world.endpoints[own], &mut side.0));
        let mut desc = channel_between(world.endpoints[other]);
        let engine = CommEngine::COMM_ENGINE_CPU;
        issue!(HcommChannelCreate(side.0, engine, &mut desc, 1, &mut side.1));
    }
    ok!(aclrtSetDevice(world.first));
    let mut status = -1;
    // The channel is connected after a few queries. If it is not, calls that use it fail.
    for _ in 0..1000 {
        issue!(HcommChannelGetStatus(&sides[0].1, 1, &mut status));
        let _ = call!(HcommChannelGetStatus(&sides[1].1, 1, &mut status));
        if status == 0 {
            break;
        }
        std::thread::yield_now();
    }
    for (endpoint, channel) in sides {
        objects.add("EndpointHandle", endpoint as u64);
        objects.add("ChannelHandle", channel);
    }
    let memory =
        CommMem { type_: CommMemType::COMM_MEM_TYPE_DEVICE, addr: malloc(4096), size: 4096 };
    let (tag, mut handle) = (CString::new("exported").expect("no NUL"), null_mut());
    issue!(HcommMemReg(sides[0].0, tag.as_ptr(), &memory, &mut handle));
    objects.add("HcommMemHandle", handle as u64);
    let (mut bytes, mut length) = (null_mut(), 0);
    issue!(HcommMemExport(sides[0].0, handle, &mut bytes, &mut length));
    // SAFETY: the function has returned this number of bytes at this address.
    world.export =
        unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize) }.to_vec();
}

/// Makes a graph with a group of tasks and a task that can be edited.
fn graph(world: &mut World, objects: &Objects) {
    let (stream, at) = (common::stream(), malloc(64));
    let (mut graph, mut group) = (null_mut(), null_mut());
    ok!(aclmdlRICaptureBegin(stream, aclmdlRICaptureMode(2)));
    ok!(aclmdlRICaptureTaskGrpBegin(stream));
    ok!(aclrtMemsetAsync(at, 64, 1, 64, stream));
    ok!(aclmdlRICaptureTaskGrpEnd(stream, &mut group));
    ok!(aclrtValueWrite(at, 3, 0, stream));
    ok!(aclmdlRICaptureEnd(stream, &mut graph));
    objects.add("aclmdlRI", graph as u64);
    objects.add("aclrtTaskGrp", group as u64);
    let (mut streams, mut count) = ([null_mut(); 1], 1);
    ok!(aclmdlRIGetStreams(graph, streams.as_mut_ptr(), &mut count));
    let (mut tasks, mut count) = ([null_mut(); 4], 4);
    ok!(aclmdlRIGetTasksByStream(streams[0], tasks.as_mut_ptr(), &mut count));
    let last = tasks[count as usize - 1] as u64;
    objects.add("aclmdlRITask", last);
    (world.task, world.task_stream) = (last, streams[0] as u64);
}
