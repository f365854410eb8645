//! The modes of a process: each is a way to call functions, and a seed decides the rest.

use std::ffi::c_void;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering};

use ascend_emulator::UNSUPPORTED;
use ascend_emulator_testing::common::message;
use ascend_emulator_testing::{call, ok};
use ascend_sys::*;
use fastrand::Rng;

use crate::caller::{Caller, Choice, Run};
use crate::children::may_wait;
use crate::functions::{FUNCTIONS, Value};
use crate::leaks;
use crate::world::{self, Files};

/// A way to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Calls each function of a part of the table until it succeeds.
    Tour,
    /// Calls each function of a part of the table with one wrong argument, for each argument in
    /// turn.
    Sweep,
    /// Makes random calls, one after the other.
    Chain,
    /// Makes random calls on three threads that share their objects.
    Threads,
    /// Calls functions before anything is initialised, and after everything has ended.
    Bare,
    /// Calls functions in a process that was forked.
    Forked,
    /// Calls functions in a callback of a stream.
    Callback,
    /// Makes the same random calls in several rounds, each on new devices; no round may leave
    /// anything behind.
    Leaks,
    /// Makes a call, and then a mistake of this program itself: a crash, a panic, a hang or a leak.
    #[value(hide = true)]
    Planted,
}

/// All modes that a user can choose.
pub const MODES: [Mode; 8] = [
    Mode::Tour,
    Mode::Sweep,
    Mode::Chain,
    Mode::Threads,
    Mode::Bare,
    Mode::Forked,
    Mode::Callback,
    Mode::Leaks,
];

/// Kinds of handles that do not end with the devices, each with the function that ends one.
const OWN: &[(&str, &str)] = &[
    ("aclDataBuffer", "aclDestroyDataBuffer"),
    ("aclprofConfig", "aclprofDestroyConfig"),
    ("aclrtBinary", "aclrtDestroyBinary"),
    ("aclrtEvent", "aclrtDestroyEvent"),
    ("HcclChannelConfig", "HcclChannelConfigDestroy"),
    ("HcommChannelConfig", "HcommChannelConfigDestroy"),
    ("opArgs", "HcclKfcFreeOpArgs"),
];

/// Parts of the names of functions whose effect outlasts the devices and is not recorded in
/// [`Objects`](crate::objects::Objects): settings, callbacks and registered memory.
const LASTS: [&str; 5] = ["Register", "Subscribe", "SetTsDevice", "aclInit", "HcommMemReg"];

/// The number of parts into which the table is divided for a tour or a sweep.
pub const PARTS: usize = 30;
/// The products. The first one has the most functions.
const PRODUCTS: [u32; 3] = [3, 950, 2];

/// The number of tries of a function in a tour.
const ATTEMPTS: usize = 48;

/// Calls that have to be made before a function can succeed.
const BEFORE: &[(&str, &[&str])] = &[
    ("aclmdlRICaptureEnd", &["aclmdlRICaptureBegin"]),
    ("aclmdlRICaptureTaskGrpBegin", &["aclmdlRICaptureBegin"]),
    ("aclmdlRICaptureTaskGrpEnd", &["aclmdlRICaptureBegin", "aclmdlRICaptureTaskGrpBegin"]),
    ("aclmdlRICaptureTaskUpdateEnd", &["aclmdlRICaptureTaskUpdateBegin", "aclrtMemsetAsync"]),
    ("aclGetRecentErrMsg", &["aclrtIpcOpenEventHandle"]),
    (
        "aclmdlRIDestroyUnregisterCallback",
        &["aclmdlRICaptureBegin", "aclmdlRICaptureEnd", "aclmdlRIDestroyRegisterCallback"],
    ),
    ("aclrtGetLastError", &["aclrtGetLastError"]),
    ("aclrtPeekAtLastError", &["aclrtGetLastError"]),
    ("aclrtResetEvent", &["aclrtCreateEventWithFlag", "aclrtStreamWaitEvent"]),
    ("aclrtMapMem", &["aclrtReserveMemAddress", "aclrtMallocPhysical"]),
    ("aclrtUnmapMem", &["aclrtReserveMemAddress", "aclrtMallocPhysical", "aclrtMapMem"]),
    (
        "aclrtMemRetainAllocationHandle",
        &["aclrtReserveMemAddress", "aclrtMallocPhysical", "aclrtMapMem"],
    ),
    ("aclrtMemSetAccess", &["aclrtReserveMemAddress", "aclrtMallocPhysical", "aclrtMapMem"]),
    ("aclrtMemGetAccess", &["aclrtReserveMemAddress", "aclrtMallocPhysical", "aclrtMapMem"]),
    ("aclrtMemPoolDestroy", &["aclrtMemPoolCreate"]),
    ("aclrtMemPoolSetAttr", &["aclrtMemPoolCreate"]),
    ("aclrtMemPoolGetAttr", &["aclrtMemPoolCreate"]),
    ("aclrtMemPoolTrimTo", &["aclrtMemPoolCreate"]),
    ("aclrtMemPoolMallocAsync", &["aclrtMemPoolCreate"]),
    ("aclrtMemPoolFreeAsync", &["aclrtMemPoolCreate", "aclrtMemPoolMallocAsync"]),
    ("aclrtCntNotifyDestroy", &["aclrtCntNotifyCreate"]),
    ("aclrtCntNotifyRecord", &["aclrtCntNotifyCreate"]),
    ("aclrtCntNotifyReset", &["aclrtCntNotifyCreate"]),
    ("aclrtCntNotifyGetId", &["aclrtCntNotifyCreate"]),
    ("aclrtCntNotifyWaitWithTimeout", &["aclrtCntNotifyCreate"]),
    ("aclmdlRIBindStream", &["aclmdlRIBuildBegin", "aclrtCreateStream"]),
    ("aclmdlRIEndTask", &["aclmdlRIBuildBegin", "aclrtCreateStream", "aclmdlRIBindStream"]),
    ("aclmdlRIBuildEnd", &["aclmdlRIBuildBegin", "aclrtCreateStream", "aclmdlRIBindStream"]),
    (
        "aclmdlRIUnbindStream",
        &["aclmdlRIBuildBegin", "aclrtCreateStream", "aclmdlRIBindStream", "aclmdlRIBuildEnd"],
    ),
    ("HcclCommSymWinRegister", &["HcommMemAlloc"]),
    ("HcclCommSymWinDeregister", &["HcommMemAlloc", "HcclCommSymWinRegister"]),
    ("HcclCommUnsetMemoryRange", &["HcclCommSetMemoryRange"]),
    ("HcclCommActivateCommMemory", &["aclrtMallocPhysical", "HcclCommSetMemoryRange"]),
    (
        "HcclCommDeactivateCommMemory",
        &["aclrtMallocPhysical", "HcclCommSetMemoryRange", "HcclCommActivateCommMemory"],
    ),
    ("aclrtKernelArgsAppend", &["aclrtKernelArgsInit"]),
    ("aclrtKernelArgsAppendPlaceHolder", &["aclrtKernelArgsInit"]),
    (
        "aclrtKernelArgsGetPlaceHolderBuffer",
        &["aclrtKernelArgsInit", "aclrtKernelArgsAppendPlaceHolder"],
    ),
    ("aclrtKernelArgsParaUpdate", &["aclrtKernelArgsInit", "aclrtKernelArgsAppend"]),
    (
        "aclrtKernelArgsFinalize",
        &[
            "aclrtKernelArgsInit",
            "aclrtKernelArgsAppend",
            "aclrtKernelArgsAppend",
            "aclrtKernelArgsAppend",
        ],
    ),
    (
        "aclrtLaunchKernelWithConfig",
        &[
            "aclrtKernelArgsInit",
            "aclrtKernelArgsAppend",
            "aclrtKernelArgsAppend",
            "aclrtKernelArgsAppend",
            "aclrtKernelArgsFinalize",
        ],
    ),
    ("aclrtBinaryLoad", &["aclrtCreateBinary"]),
    ("aclrtDestroyBinary", &["aclrtCreateBinary"]),
    ("aclDestroyDataBuffer", &["aclCreateDataBuffer"]),
    ("aclUpdateDataBuffer", &["aclCreateDataBuffer"]),
    ("aclGetDataBufferAddr", &["aclCreateDataBuffer"]),
    ("aclGetDataBufferSize", &["aclCreateDataBuffer"]),
    ("aclGetDataBufferSizeV2", &["aclCreateDataBuffer"]),
    ("aclrtHostUnregister", &["aclrtHostRegister"]),
    ("aclrtHostGetDevicePointer", &["aclrtHostRegisterV2"]),
    ("aclrtProcessReport", &["aclrtSubscribeReport", "aclrtLaunchCallback"]),
    ("aclrtLaunchCallback", &["aclrtSubscribeReport"]),
    ("aclrtUnSubscribeReport", &["aclrtSubscribeReport"]),
    ("aclrtExceptionInfoCallbackUnregister", &["aclrtExceptionInfoCallbackRegister"]),
    ("aclrtQueryEventWaitStatus", &["aclrtRecordEvent"]),
    ("aclrtEventGetTimestamp", &["aclrtRecordEvent", "aclrtSynchronizeStream"]),
    ("aclrtEventElapsedTime", &["aclrtRecordEvent", "aclrtSynchronizeStream"]),
    ("aclrtDeviceGetLimit", &["aclrtDeviceSetLimit"]),
    ("aclrtUnuseStreamResInCurrentThread", &["aclrtUseStreamResInCurrentThread"]),
    ("aclrtDeviceDisablePeerAccess", &["aclrtDeviceEnablePeerAccess"]),
    ("aclrtDestroyContext", &["aclrtCreateContext"]),
    ("aclInitCallbackUnRegister", &["aclInitCallbackRegister"]),
    ("aclFinalizeCallbackUnRegister", &["aclFinalizeCallbackRegister"]),
    ("aclFinalize", &["aclInit"]),
    ("aclFinalizeReference", &["aclInit"]),
    ("aclprofFinalize", &["aclprofInit"]),
    ("aclprofDestroyConfig", &["aclprofCreateConfig"]),
    ("aclprofStart", &["aclprofInit", "aclprofCreateConfig"]),
    ("aclprofStop", &["aclprofInit", "aclprofCreateConfig", "aclprofStart"]),
    ("HcclGroupEnd", &["HcclGroupStart"]),
    ("HcclCommResume", &["HcclCommSuspend"]),
    ("HcclEngineCtxGet", &["HcclEngineCtxCreate"]),
    ("HcclEngineCtxCopy", &["HcclEngineCtxCreate"]),
    ("HcclEngineCtxDestroy", &["HcclEngineCtxCreate"]),
    ("HcclChannelConfigDestroy", &["HcclChannelConfigCreate"]),
    ("HcclChannelConfigSetInt", &["HcclChannelConfigCreate"]),
    ("HcclChannelConfigSetStr", &["HcclChannelConfigCreate"]),
    ("HcclChannelAcquireWithConfig", &["HcclChannelConfigCreate"]),
    ("HcommChannelConfigDestroy", &["HcommChannelConfigCreate"]),
    ("HcommChannelConfigSetInt", &["HcommChannelConfigCreate"]),
    ("HcommChannelCreateWithConfig", &["HcommChannelConfigCreate"]),
    ("HcclSubTeamCreate", &["HcclWorldTeamCreate"]),
    ("HcclTeamWindowDeregister", &["HcclTeamWindowRegister"]),
    ("HcclKfcFreeOpArgs", &["HcclKfcAllocOpArgs"]),
    ("HcclKfcOpArgsSetSrcDataType", &["HcclKfcAllocOpArgs"]),
    ("HcclKfcOpArgsSetDstDataType", &["HcclKfcAllocOpArgs"]),
    ("HcclKfcOpArgsSetReduceType", &["HcclKfcAllocOpArgs"]),
    ("HcclKfcOpArgsSetCount", &["HcclKfcAllocOpArgs"]),
    ("HcclKfcOpArgsSetAlgConfig", &["HcclKfcAllocOpArgs"]),
    ("HcclKfcOpArgsSetCommEngine", &["HcclKfcAllocOpArgs"]),
    (
        "HcclCreateOpResCtx",
        &["HcclKfcAllocOpArgs", "HcclKfcOpArgsSetAlgConfig", "HcclKfcOpArgsSetCommEngine"],
    ),
    ("HcommAicpuTsTaskCacheEnd", &["HcommAicpuTsTaskCacheStart"]),
    (
        "HcommAicpuTsTaskCacheExecute",
        &["HcommAicpuTsTaskCacheStart", "HcommLocalCopyOnThread", "HcommAicpuTsTaskCacheEnd"],
    ),
    ("HcommAicpuTsTaskCacheClear", &["HcommAicpuTsTaskCacheStart", "HcommAicpuTsTaskCacheEnd"]),
    ("HcommBatchModeEnd", &["HcommBatchModeStart"]),
    ("HcommReleaseComm", &["HcommAcquireComm"]),
    ("HcommMemUnimport", &["HcommMemImport"]),
    ("HcommThreadFree", &["HcommThreadAlloc"]),
    ("HcommMemFree", &["HcommMemAlloc"]),
    ("aclrtIpcMemClose", &["aclrtIpcMemImportByKey"]),
    ("HcclRecv", &["HcclSend"]),
];

/// Returns whether the page of functions lists a function as working.
pub fn works(index: usize) -> bool {
    let name = FUNCTIONS[index].name;
    let there = (FUNCTIONS[index].is_there)(ascend_emulator_testing::common::table());
    there && !name.starts_with("ascendExt") && !UNSUPPORTED.iter().any(|it| it.name == name)
}

/// Runs a mode to its end.
pub fn run(mode: Mode, seed: u64, run: &Run) {
    let files = Files::make();
    let product = PRODUCTS[seed as usize % PRODUCTS.len()];
    let build = || {
        let built = world::build(product, &run.objects, &run.memory, &files);
        assert!(run.world.set(built).is_ok(), "there is one world");
        run.has_world.store(true, Ordering::Relaxed);
    };
    match mode {
        Mode::Tour => {
            build();
            let mut part: Vec<usize> = part(seed).collect();
            part.sort_by_key(|&index| (may_wait(FUNCTIONS[index].name), ends(index)));
            part.into_iter().for_each(|index| tour(run, index, seed));
        }
        Mode::Sweep => {
            build();
            part(seed).for_each(|index| sweep(run, index, seed));
        }
        Mode::Chain => {
            build();
            chain(&mut Caller::new(run, 0, seed), 150);
        }
        Mode::Threads => {
            build();
            threads(run, seed);
        }
        Mode::Bare => bare(run, seed, build),
        Mode::Forked => {
            build();
            forked(run, seed);
        }
        Mode::Callback => {
            build();
            in_callback(run, seed);
        }
        Mode::Leaks => leaves_nothing(|| {
            let round = run.again();
            on_new_devices(&round, seed, product, &files);
            run.memory.goes_on_behind(&round.memory);
        }),
        Mode::Planted => {
            build();
            planted(run, seed);
        }
    }
    // This ends the devices, even if the calls have left objects behind.
    if let Some(world) = run.world.get() {
        let _ = call!(ascendExtBlockDestroy(world.block));
    }
}

fn planted(run: &Run, seed: u64) {
    let place = Value::new(run.memory.room(8));
    Caller::new(run, 0, seed).call_with(index_of("aclrtGetDeviceCount"), &[place]);
    match seed {
        // SAFETY: nothing is mapped at this address, so the read ends this process.
        0 => drop(unsafe { std::ptr::with_exposed_provenance::<u8>(4096).read_volatile() }),
        1 => panic!("as asked for"),
        3 => leaves_nothing(|| std::mem::forget(std::hint::black_box(vec![0_u8; 100]))),
        _ => loop {
            std::thread::park();
        },
    }
}

/// Runs the rounds, and ends this process if each of them leaves something behind.
fn leaves_nothing(round: impl FnMut()) {
    if let Err(report) = leaks::look(round) {
        println!("{report}");
        std::process::abort();
    }
}

/// Runs one round of [`Mode::Leaks`].
fn on_new_devices(run: &Run, seed: u64, product: u32, files: &Files) {
    run.has_world.store(false, Ordering::Relaxed);
    let world = world::build(product, &run.objects, &run.memory, files);
    let block = world.block;
    assert!(run.world.set(world).is_ok(), "there is one world");
    run.has_world.store(true, Ordering::Relaxed);
    let mut caller = Caller::new(run, 0, seed);
    for _ in 0..120 {
        let index = choose(&mut caller.random);
        let name = FUNCTIONS[index].name;
        if works(index) && !may_wait(name) && !LASTS.iter().any(|part| name.contains(part)) {
            caller.call(index, Choice::Plausible, None);
        }
    }
    settle(&mut caller, "Wait");
    // The next round makes communicators, so no group may be open.
    while call!(HcclGroupEnd()).0 == 0 {}
    for (kind, destroy) in OWN {
        let handles = run.objects.lists().live.get(kind).cloned().unwrap_or_default();
        for handle in handles {
            caller.call_with(index_of(destroy), &[Value::new(handle)]);
        }
    }
    let pinned = run.objects.lists().memory.clone();
    for piece in pinned.iter().filter(|piece| piece.pinned) {
        caller.call_with(index_of("aclrtFreeHost"), &[Value::new(piece.at)]);
    }
    let _ = message();
    ok!(ascendExtBlockDestroy(block));
}

/// Returns the functions of the part that a seed chooses.
fn part(seed: u64) -> impl Iterator<Item = usize> {
    let part = (seed / PRODUCTS.len() as u64) as usize % PARTS;
    (0..FUNCTIONS.len()).filter(move |index| index % PARTS == part)
}

fn index_of(name: &str) -> usize {
    let found = FUNCTIONS.iter().position(|it| it.name == name);
    found.unwrap_or_else(|| panic!("{name} is no function"))
}

fn tour(run: &Run, index: usize, seed: u64) {
    if !works(index) {
        return;
    }
    let mut caller = Caller::new(run, 0, seed ^ index as u64);
    let mut text = String::new();
    let before = BEFORE.iter().find(|(name, _)| *name == FUNCTIONS[index].name);
    // A function that may wait for ever gets fewer tries, because a wait ends the child before the
    // remaining functions of the part.
    let attempts = if may_wait(FUNCTIONS[index].name) { ATTEMPTS / 4 } else { ATTEMPTS };
    for attempt in 0..attempts {
        // The first tries use objects that belong together, the later ones any objects.
        caller.focus = (attempt < ATTEMPTS / 4).then_some(attempt);
        let device = Value::new(caller.device() as u64);
        caller.call_with(index_of("aclrtSetDevice"), &[device]);
        for name in before.map_or(&[][..], |(_, before)| before) {
            caller.call(index_of(name), Choice::Plausible, None);
        }
        if FUNCTIONS[index].name != "aclGetRecentErrMsg" {
            let _ = message();
        }
        if FUNCTIONS[index].name == "HcommChannelNotifyWait" {
            record_all(&mut caller);
        }
        if caller.call(index, Choice::Plausible, None) {
            settle(&mut caller, FUNCTIONS[index].name);
            return;
        }
        let said = message();
        settle(&mut caller, FUNCTIONS[index].name);
        if !text.contains(&said) {
            text += &said;
            text.push('\n');
        }
    }
    // This is visible only if the process is no child: `one tour SEED --here`.
    println!("{} has not succeeded: {text}", FUNCTIONS[index].name);
}

/// Records the notifies of all channels, so that no thread waits for them.
fn record_all(caller: &mut Caller<'_>) {
    let channels = caller.run.objects.lists().live.get("ChannelHandle").cloned();
    for channel in channels.unwrap_or_default() {
        for notify in 0..3 {
            let arguments = [Value::new(channel), Value::new(notify)];
            caller.call_with(index_of("HcommChannelNotifyRecord"), &arguments);
        }
    }
}

/// Ends captures and a group, which keep other calls from succeeding. Also aborts the streams if
/// `name` contains `Wait` or `Stop`.
fn settle(caller: &mut Caller<'_>, name: &str) {
    let streams = caller.run.objects.lists().live.get("aclrtStream").cloned().unwrap_or_default();
    for stream in streams {
        let mut graph = std::ptr::null_mut();
        // Most of these streams are not being captured, and are idle.
        let _ = call!(aclmdlRICaptureEnd(stream as aclrtStream, &mut graph));
        if name.contains("Wait") || name.contains("Stop") {
            let _ = call!(aclrtStreamAbort(stream as aclrtStream));
        }
    }
    let _ = call!(HcclGroupEnd());
}

fn sweep(run: &Run, index: usize, seed: u64) {
    let mut caller = Caller::new(run, 0, seed ^ index as u64);
    let count = FUNCTIONS[index].parameters.len();
    for at in 0..count {
        for attempt in 0..if works(index) { 7 } else { 1 } {
            caller.focus = (attempt < 3).then_some(attempt);
            caller.call(index, Choice::Plausible, Some(at));
        }
    }
    for _ in 0..2 {
        caller.call(index, Choice::Hostile, None);
    }
}

/// Makes random calls.
fn chain(caller: &mut Caller<'_>, calls: usize) {
    for _ in 0..calls {
        let index = choose(&mut caller.random);
        if caller.chance(4) {
            // The following calls use the same objects.
            caller.focus = Some(caller.random.usize(..8));
        } else if caller.chance(3) {
            caller.focus = None;
        }
        let count = FUNCTIONS[index].parameters.len();
        match caller.random.u32(..20) {
            0 => caller.call(index, Choice::Hostile, None),
            1..5 if count > 0 => {
                let at = caller.random.usize(..count);
                caller.call(index, Choice::Plausible, Some(at))
            }
            _ => caller.call(index, Choice::Plausible, None),
        };
    }
}

/// Returns whether a function ends objects that other functions need.
fn ends(index: usize) -> bool {
    const ENDS: [&str; 12] = [
        "ResetDevice",
        "Finalize",
        "Destroy",
        "Free",
        "Abort",
        "Leave",
        "Close",
        "Suspend",
        "Resume",
        "CreateContext",
        "Release",
        "UnLoad",
    ];
    ENDS.iter().any(|word| FUNCTIONS[index].name.contains(word))
}

/// Chooses a function, seldom one that ends things or one that is not supported.
fn choose(random: &mut Rng) -> usize {
    loop {
        let index = random.usize(..FUNCTIONS.len());
        let name = FUNCTIONS[index].name;
        let common = works(index) || name.starts_with("ascendExt");
        if (common || random.u32(..20) == 0) && (!ends(index) || random.u32(..4) == 0) {
            return index;
        }
    }
}

fn threads(run: &Run, seed: u64) {
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                let mut caller = Caller::new(run, thread, seed * 3 + u64::from(thread));
                let first = run.world.get().map_or(0, |world| world.first);
                let device = first + i32::from(caller.chance(4));
                caller.call_with(index_of("aclrtSetDevice"), &[Value::new(device as u64)]);
                chain(&mut caller, 80);
            });
        }
    });
}

fn bare(run: &Run, seed: u64, build: impl Fn()) {
    let mut caller = Caller::new(run, 0, seed);
    chain(&mut caller, 100);
    while call!(HcclGroupEnd()).0 == 0 {}
    // The library may be initialised already, so the result does not matter.
    let _ = call!(aclInit(null()));
    build();
    while call!(aclFinalize()) == 0 {}
    chain(&mut caller, 100);
}

fn forked(run: &Run, seed: u64) {
    // SAFETY: only one thread of this process makes calls, and the child continues with that
    // thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        chain(&mut Caller::new(run, 1, seed), 150);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the forked process has ended so");
    // The fork has not changed the parent.
    ok!(aclrtSynchronizeDevice());
    chain(&mut Caller::new(run, 0, seed), 30);
}

static IN_CALLBACK: AtomicBool = AtomicBool::new(false);

fn in_callback(run: &Run, seed: u64) {
    unsafe extern "C" fn calls(argument: *mut c_void) {
        // SAFETY: the argument is the pair below, and the function below waits for this callback.
        let (run, seed) = unsafe { *argument.cast::<(&Run, u64)>() };
        chain(&mut Caller::new(run, 1, seed), 80);
        IN_CALLBACK.store(true, Ordering::Release);
    }
    let mut argument = (run, seed);
    let mut caller = Caller::new(run, 0, seed);
    let stream = caller.handle("aclrtStream") as aclrtStream;
    ok!(aclrtLaunchHostFunc(stream, Some(calls), (&raw mut argument).cast()));
    while !IN_CALLBACK.load(Ordering::Acquire) {
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    chain(&mut caller, 30);
}
