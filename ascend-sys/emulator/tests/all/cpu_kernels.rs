//! CPU kernels: libraries for the AI CPU that are compiled for the host, and their descriptors.

use ascend_emulator_testing::captures;
use ascend_emulator_testing::common::{self, *};
use ascend_emulator_testing::cpu_kernels::{compile, load, path_of};
use ascend_emulator_testing::kernel::{Given, function, list};
use ascend_emulator_testing::operator::{
    CPU_TS, ROCE, channels, desc, on_product, threads, upload,
};
use ascend_emulator_testing::{call, fails, issue, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock};

const INVALID: aclError = ACL_ERROR_RT_PARAM_INVALID;

fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compile(Path::new(env!("CARGO_TARGET_TMPDIR"))))
}

/// A file of a test. It is removed when the value is dropped.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str, bytes: &[u8]) -> TestFile {
        let path = library().with_file_name(format!("{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        TestFile(path)
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn kernel(name: &str) -> aclrtFuncHandle {
    function(load(library()), name)
}

/// Launches a function with arguments of the host.
fn launch<T>(function: aclrtFuncHandle, arguments: &mut T, stream: aclrtStream) {
    let (place, bytes) = ((&raw mut *arguments).cast(), size_of::<T>());
    let none = null_mut();
    ok!(aclrtLaunchKernelWithHostArgs(function, 1, stream, none, place, bytes, null_mut(), 0));
}

fn words(pointer: *const c_void, count: usize) -> Vec<u64> {
    let bytes = read(pointer, 8 * count);
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}

#[repr(C)]
struct Add {
    words: *mut c_void,
    count: u64,
    more: u64,
}

#[repr(C)]
struct Wait {
    runs: *const AtomicI32,
    may_return: *const AtomicI32,
    code: u32,
}

impl Wait {
    /// Returns words that are never freed, because the kernel may run forever. They are stored
    /// where a leak checker finds them.
    fn new(code: u32) -> (Wait, &'static AtomicI32, &'static AtomicI32) {
        static WORDS: Mutex<Vec<&AtomicI32>> = Mutex::new(Vec::new());
        let [runs, may_return] = [(); 2].map(|()| &*Box::leak(Box::new(AtomicI32::new(0))));
        WORDS.lock().unwrap().extend([runs, may_return]);
        (Wait { runs, may_return, code }, runs, may_return)
    }
}

fn await_set(word: &AtomicI32) {
    while word.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_kernel_runs_in_the_order_of_its_stream_and_reaches_memory_of_the_device() {
    let _block = Block::one();
    let (s, y, add) = (stream(), malloc(4096), kernel("Add"));
    for round in 1..20 {
        ok!(aclrtMemsetAsync(y, 4096, 0, 4096, s));
        // Arguments on the stack are copied at the launch.
        launch(add, &mut Add { words: y, count: 512, more: round }, s);
        launch(add, &mut Add { words: y, count: 256, more: 1000 }, s);
        ok!(aclrtSynchronizeStream(s));
        let found = words(y, 512);
        assert!(found[..256].iter().all(|word| *word == round + 1000), "{found:?}");
        assert!(found[256..].iter().all(|word| *word == round), "{found:?}");
    }
}

/// The arguments of the kernel `Collect`, followed by the data of its placeholder.
#[repr(C)]
struct Collect {
    to: *mut c_void,
    bytes: [u8; 3],
    behind: u64,
    data: [u32; 2],
}

#[test]
fn all_ways_of_launching_give_a_kernel_its_arguments() {
    let _block = Block::one();
    let (s, y, collect) = (stream(), malloc(16), kernel("Collect"));
    let mut block = Collect { to: y, bytes: [1, 2, 3], behind: 0, data: [40, 2] };
    // A block of the host with a placeholder is launched twice, which works because the kernel
    // writes into a copy.
    let mut place = aclrtPlaceHolderInfo { addrOffset: 16, dataOffset: 24 };
    for _ in 0..2 {
        let (bytes, none) = ((&raw mut block).cast(), null_mut());
        ok!(aclrtLaunchKernelWithHostArgs(collect, 1, s, none, bytes, 32, &mut place, 1));
        ok!(aclrtSynchronizeStream(s));
        assert_eq!(words(y, 2), [6, 42]);
    }
    // The arguments as a list: a value of three bytes between two pointers.
    let mut arguments = null_mut();
    ok!(aclrtKernelArgsInit(collect, &mut arguments));
    let mut handle = null_mut();
    let mut to = y;
    ok!(aclrtKernelArgsAppend(arguments, (&raw mut to).cast(), 8, &mut handle));
    let mut bytes = [4u8, 5, 6];
    ok!(aclrtKernelArgsAppend(arguments, bytes.as_mut_ptr().cast(), 3, &mut handle));
    ok!(aclrtKernelArgsAppendPlaceHolder(arguments, &mut handle));
    fails!(INVALID, ["placeholder without"], aclrtKernelArgsFinalize(arguments));
    let mut buffer = null_mut();
    ok!(aclrtKernelArgsGetPlaceHolderBuffer(arguments, handle, 8, &mut buffer));
    // SAFETY: the buffer has 8 bytes, and `write_unaligned` works at any address.
    unsafe { buffer.cast::<[u32; 2]>().write_unaligned([100, 1]) };
    let unfinished = || {
        fails!(
            INVALID,
            ["not finalised"],
            aclrtLaunchKernelWithConfig(collect, 1, s, null_mut(), arguments, null_mut())
        );
    };
    unfinished();
    ok!(aclrtKernelArgsFinalize(arguments));
    ok!(aclrtLaunchKernelWithConfig(collect, 1, s, null_mut(), arguments, null_mut()));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(words(y, 2), [15, 101]);
    // The arguments in device memory. The pointers among them are device addresses.
    let (place, behind) = (malloc(24), malloc(8));
    write(behind, &[7u32, 8].map(u32::to_ne_bytes).concat());
    let arguments = [y as u64, 0x03_02_01, behind as u64];
    write(place, &arguments.map(u64::to_ne_bytes).concat());
    ok!(aclrtLaunchKernel(collect, 1, place, 24, s));
    ok!(aclrtLaunchKernelV2(collect, 1, place, 24, null_mut(), s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(words(y, 2), [6, 15]);
    assert_eq!(words(place, 3), arguments, "the kernel has a copy");
}

#[test]
fn a_descriptor_names_kernels_and_the_library_beside_it() {
    let _block = Block::one();
    let name = library().file_name().unwrap().to_str().unwrap();
    let kernel = |kernel: &str, symbol: &str| {
        format!(
            "\"{kernel}\": {{\"opInfo\": {{\"opKernelLib\": \"AICPUKernel\", \
             \"kernelSo\": \"{name}\", \"functionName\": \"{symbol}\"}}}}"
        )
    };
    let text = format!("{{{}, {}}}", kernel("OwnAdd", "Add"), kernel("OwnNothing", "Nothing"));
    let file = TestFile::new("kernels.json", text.as_bytes());
    let mut option = aclrtBinaryLoadOption {
        type_: aclrtBinaryLoadOptionType::ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE,
        value: aclrtBinaryLoadOptionValue { cpuKernelMode: 0 },
    };
    let mut options = aclrtBinaryLoadOptions { options: &mut option, numOpt: 1 };
    let (path, mut binary) = (path_of(&file.0), null_mut());
    ok!(aclrtBinaryLoadFromFile(path.as_ptr(), &mut options, &mut binary));
    let add = function(binary, "OwnAdd");
    assert_eq!(add, function(binary, "OwnAdd"), "one handle for a name");
    let (s, y) = (stream(), malloc(8));
    ok!(aclrtMemsetAsync(y, 8, 0, 8, s));
    launch(add, &mut Add { words: y, count: 1, more: 5 }, s);
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(words(y, 1), [5]);
    let mut registered = null_mut();
    let (own, name) = (c"OwnAdd".as_ptr(), c"Op".as_ptr());
    ok!(aclrtRegisterCpuFunc(binary, own, name, &mut registered));
    assert_eq!(registered, add);
    let mut kind = 0;
    let attribute = aclrtFuncAttribute::ACL_FUNC_ATTR_KERNEL_TYPE;
    ok!(aclrtGetFunctionAttribute(add, attribute, &mut kind));
    assert_eq!(kind, 100);
    let mut none = null_mut();
    for (name, why) in [(c"Add", "for example OwnAdd"), (c"OwnNothing", "has no function Nothing")]
    {
        fails!(INVALID, [why], aclrtBinaryGetFunction(binary, name.as_ptr(), &mut none));
    }
    // A kernel that was launched still runs after its binary is unloaded, but the handle of the
    // function becomes invalid.
    launch(add, &mut Add { words: y, count: 1, more: 6 }, s);
    ok!(aclrtBinaryUnLoad(binary));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(words(y, 1), [11]);
    fails!(107017, ["function"], aclrtLaunchKernel(add, 1, y, 8, s));
}

#[test]
fn what_is_no_library_of_this_machine_is_refused_with_the_reason() {
    let _block = Block::one();
    let refused = |code: aclError, name: &str, bytes: &[u8], why: &str| {
        let (file, mut none) = (TestFile::new(name, bytes), null_mut());
        let path = path_of(&file.0);
        fails!(code, [why], aclrtBinaryLoadFromFile(path.as_ptr(), null_mut(), &mut none));
    };
    let whole = std::fs::read(library()).unwrap();
    refused(107009, "cut.so", &whole[..100], "cannot load");
    let mut foreign = whole.clone();
    foreign[18..20].copy_from_slice(&7u16.to_le_bytes());
    refused(INVALID, "foreign.so", &foreign, "number 7 in ELF");
    // The header of an object file that the Ascend C compiler would make.
    foreign[16] = 1;
    refused(INVALID, "kernel.o", &foreign, "object files of Ascend C need an NPU");
    refused(INVALID, "half.json", b"{\"A\": ", "not a descriptor of CPU kernels");
    let nowhere = br#"{"A": {"opInfo": {"kernelSo": "libnowhere.so", "functionName": "A"}}}"#;
    refused(107009, "nowhere.json", nowhere, "cannot load libnowhere.so");
    let mut none = null_mut();
    let bytes = whole.as_ptr().cast();
    fails!(
        INVALID,
        ["not a recorded kernel", "from a file"],
        aclrtBinaryLoadFromData(bytes, whole.len(), null(), &mut none)
    );
}

/// A program with the emulator built in cannot run a library that is linked with an installed
/// emulator.
#[test]
fn a_library_with_an_emulator_of_its_own_is_refused() {
    let _block = Block::one();
    // The symbol that identifies the core of an installed emulator.
    let core = b"const void *ascend_emulator_table(void) { return 0; }";
    let source = TestFile::new("core.c", core);
    let built = TestFile(source.0.with_extension("so"));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).args([&built.0, &source.0]);
    assert!(compiler.status().unwrap().success());
    let (path, mut none) = (path_of(&built.0), null_mut());
    fails!(
        INVALID,
        ["has another one built in"],
        aclrtBinaryLoadFromFile(path.as_ptr(), null_mut(), &mut none)
    );
}

#[test]
fn a_launch_that_cannot_be_is_refused() {
    let block = Block::with(AscendExtBlockConfig { deviceCount: 2, ..Block::config() });
    ok!(aclrtSetDevice(block.first));
    let (s, add) = (stream(), kernel("Add"));
    let mut bytes = [0u64; 3];
    let (place, none) = (bytes.as_mut_ptr().cast(), null_mut());
    let launch = |blocks, stream, size, places: *mut aclrtPlaceHolderInfo, count| {
        call!(aclrtLaunchKernelWithHostArgs(add, blocks, stream, none, place, size, places, count))
    };
    assert_eq!(launch(0, s, 24, null_mut(), 0), INVALID);
    assert_eq!(launch(2, s, 24, null_mut(), 0), 207000);
    assert!(message().contains("the number of its block"));
    for (address, data) in [(20, 0), (0, 24)] {
        let mut outside = aclrtPlaceHolderInfo { addrOffset: address, dataOffset: data };
        assert_eq!(launch(1, s, 24, &mut outside, 1), INVALID);
        assert!(message().contains("the arguments have 24 bytes"));
    }
    let mut count = 0;
    fails!(INVALID, ["are not described"], aclrtFunctionGetParamCount(add, &mut count));
    let mut one = bytes.as_mut_ptr().cast::<c_void>();
    fails!(
        INVALID,
        ["are not described"],
        aclrtLaunchKernelWithArgsArray(add, 1, s, none, &mut one)
    );
    let of_other = list(kernel("Return"), &[Given::Pointer(null_mut())]);
    fails!(
        INVALID,
        ["to another function"],
        aclrtLaunchKernelWithConfig(add, 1, s, none, of_other, null_mut())
    );
    ok!(aclrtSetDevice(block.first + 1));
    assert_eq!(launch(1, stream(), 24, null_mut(), 0), 107017);
    assert!(message().contains("load it there too"));
}

#[test]
fn a_result_other_than_zero_fails_the_stream() {
    let _block = Block::one();
    let (s, returns) = (stream(), kernel("Return"));
    launch(returns, &mut 0u32, s);
    ok!(aclrtSynchronizeStream(s));
    launch(returns, &mut 17u32, s);
    fails!(507018, ["CPU kernel Return returned 17"], aclrtSynchronizeStream(s));
    // The memory of the arguments is freed before the kernel begins.
    let (place, gate) = (malloc(8), Gate::new());
    gate.close(s);
    ok!(aclrtLaunchKernel(returns, 1, place, 8, s));
    ok!(aclrtFree(place));
    gate.open();
    fails!(507018, ["its arguments", "freed by aclrtFree"], aclrtSynchronizeStream(s));
}

#[test]
fn a_kernel_holds_up_its_own_stream_and_no_other_kernel() {
    let _block = Block::one();
    let wait = kernel("Wait");
    let kernels: Vec<_> = (0..8).map(|_| (stream(), Wait::new(0))).collect();
    for (s, (arguments, ..)) in &kernels {
        let mut copy = Wait { ..*arguments };
        launch(wait, &mut copy, *s);
    }
    // All the kernels run at the same time, although none of them returns.
    kernels.iter().for_each(|(_, (_, runs, _))| await_set(runs));
    assert!(kernels.iter().all(|(s, _)| !idle(*s)));
    for (s, (.., may_return)) in &kernels {
        may_return.store(1, Ordering::Release);
        ok!(aclrtSynchronizeStream(*s));
    }
}

#[test]
fn a_kernel_that_takes_too_long_or_is_aborted_is_left_alone() {
    let _block = Block::one();
    let (s, wait) = (stream(), kernel("Wait"));
    let (mut late, runs, may_return) = Wait::new(3);
    let id = aclrtLaunchKernelAttrId::ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US;
    let limit = aclrtTimeoutUs { timeoutLow: 20_000, timeoutHigh: 0 };
    let value = aclrtLaunchKernelAttrValue { timeoutUs: limit };
    let mut attribute = aclrtLaunchKernelAttr { id, value };
    let mut cfg = aclrtLaunchKernelCfg { attrs: &mut attribute, numAttrs: 1 };
    let (place, bytes) = ((&raw mut late).cast(), size_of::<Wait>());
    ok!(aclrtLaunchKernelWithHostArgs(wait, 1, s, &mut cfg, place, bytes, null_mut(), 0));
    fails!(507017, ["CPU kernel Wait", "gave up after"], aclrtSynchronizeStream(s));
    await_set(runs);
    // The next kernel may begin while the first one still runs. When the first one ends, the
    // emulator must not take that for the end of the next one.
    let (mut next, next_runs, next_may_return) = Wait::new(0);
    launch(wait, &mut next, s);
    await_set(next_runs);
    may_return.store(1, Ordering::Release);
    assert!(!idle(s));
    next_may_return.store(1, Ordering::Release);
    ok!(aclrtSynchronizeStream(s));
    let (mut aborted, runs, may_return) = Wait::new(0);
    launch(wait, &mut aborted, s);
    await_set(runs);
    ok!(aclrtStreamAbort(s));
    fails!(107023, ["aborted"], aclrtSynchronizeStream(s));
    may_return.store(1, Ordering::Release);
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Copy {
    start: usize,
    copy: usize,
    record: usize,
    end: usize,
    thread: ThreadHandle,
    to: *mut c_void,
    from: *mut c_void,
    bytes: u64,
    notify: u64,
}

impl Copy {
    /// Returns the arguments of a copy on a new operator thread, and the notify that the thread
    /// records after the copy.
    fn new(to: *mut c_void, from: *mut c_void, bytes: u64) -> (Copy, aclrtNotify) {
        let (mut thread, mut notify, mut id) = (0, null_mut(), 0);
        let engine = CommEngine::COMM_ENGINE_AICPU;
        issue!(HcommThreadAlloc(engine, 1, [1].as_ptr(), &mut thread));
        ok!(aclrtCreateNotify(&mut notify, 0));
        ok!(aclrtGetNotifyId(notify, &mut id));
        let table = common::table();
        let arguments = Copy {
            start: table.HcommBatchModeStart.unwrap() as usize,
            copy: table.HcommLocalCopyOnThread.unwrap() as usize,
            record: table.HcommAclrtNotifyRecordOnThread.unwrap() as usize,
            end: table.HcommBatchModeEnd.unwrap() as usize,
            thread,
            to,
            from,
            bytes,
            notify: id.into(),
        };
        (arguments, notify)
    }
}

#[test]
fn a_kernel_issues_primitives_in_a_batch_mode_of_its_own() {
    let _block = Block::one();
    let (s, from, to) = (stream(), malloc(4096), malloc(4096));
    let (copy, leave) = (kernel("Copy"), kernel("Leave"));
    let (mut arguments, notify) = Copy::new(to, from, 4096);
    for round in 1..10u8 {
        // The batch mode that this kernel leaves open ends when its thread ends.
        launch(leave, &mut arguments, s);
        ok!(aclrtMemsetAsync(from, 4096, round.into(), 4096, s));
        launch(copy, &mut arguments, s);
        ok!(aclrtWaitAndResetNotify(notify, s, 0));
        ok!(aclrtSynchronizeStream(s));
        assert_eq!(read(to, 4096), [round; 4096]);
    }
    // When a primitive is refused, the kernel returns the error of the primitive.
    arguments.bytes = 1 << 40;
    launch(copy, &mut arguments, s);
    fails!(507018, ["CPU kernel Copy returned 1"], aclrtSynchronizeStream(s));
}

#[test]
fn a_kernel_has_its_device_and_no_call_that_waits_for_streams() {
    let block = Block::with(AscendExtBlockConfig { deviceCount: 2, ..Block::config() });
    ok!(aclrtSetDevice(block.first + 1));
    #[repr(C)]
    struct Ask {
        device: usize,
        synchronise: usize,
        stream: aclrtStream,
        answers: *mut [i32; 2],
    }
    let mut answers = [0; 2];
    let (s, table) = (stream(), common::table());
    let mut arguments = Ask {
        device: table.aclrtGetDevice.unwrap() as usize,
        synchronise: table.aclrtSynchronizeStream.unwrap() as usize,
        stream: s,
        answers: &mut answers,
    };
    launch(kernel("Ask"), &mut arguments, s);
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(answers, [block.first + 1, 207000]);
}

#[test]
fn a_kernel_may_wait_in_a_primitive_where_a_host_function_may_not() {
    on_product(3, 2, |rank| {
        let thread = threads(rank, CPU_TS, 1, 0)[0];
        let channel = channels(rank, CPU_TS, &[desc(1 - rank.rank, ROCE, 1)])[0];
        #[repr(C)]
        struct Drain {
            drain: unsafe extern "C" fn(ThreadHandle, ChannelHandle) -> i32,
            thread: ThreadHandle,
            channel: ChannelHandle,
            answer: *mut i32,
        }
        let (mut in_kernel, mut in_function) = (-1, -1);
        let drain = common::table().HcommChannelDrainOnThread.unwrap();
        let mut arguments = Drain { drain, thread, channel, answer: &mut in_kernel };
        let (from, to) = (upload(&[9; 4096]), upload(&[0; 4096]));
        issue!(HcommLocalCopyOnThread(thread, to, from, 4096));
        launch(kernel("Drain"), &mut arguments, rank.stream);
        ok!(aclrtSynchronizeStream(rank.stream));
        assert_eq!(common::read(to, 4096), [9; 4096]);
        unsafe extern "C" fn function(arguments: *mut c_void) {
            // SAFETY: the arguments outlive the work of the stream.
            let it = unsafe { &*arguments.cast::<Drain>() };
            // SAFETY: `drain` is an entry of the table, and the test made both handles.
            unsafe { *it.answer = (it.drain)(it.thread, it.channel) };
        }
        arguments.answer = &mut in_function;
        ok!(aclrtLaunchHostFunc(rank.stream, Some(function), (&raw mut arguments).cast()));
        ok!(aclrtSynchronizeStream(rank.stream));
        assert_eq!(in_kernel, 0);
        assert_eq!(in_function, HcclResult::HCCL_E_RUNTIME.0 as i32);
    });
}

#[test]
fn a_captured_kernel_runs_at_each_execution_with_arguments_of_its_own() {
    let _block = Block::one();
    let (s, y, collect) = (stream(), malloc(16), kernel("Collect"));
    let (add, mut more) = (kernel("Add"), Add { words: y, count: 2, more: 10 });
    let mut block = Collect { to: y, bytes: [1, 2, 3], behind: 0, data: [40, 2] };
    let mut place = aclrtPlaceHolderInfo { addrOffset: 16, dataOffset: 24 };
    ok!(aclmdlRICaptureBegin(s, captures::RELAXED));
    let (bytes, none) = ((&raw mut block).cast(), null_mut());
    ok!(aclrtLaunchKernelWithHostArgs(collect, 1, s, none, bytes, 32, &mut place, 1));
    launch(add, &mut more, s);
    let graph = captures::end(s);
    for _ in 0..3 {
        ok!(aclrtMemset(y, 16, 0, 16));
        ok!(aclmdlRIExecuteAsync(graph, s));
        ok!(aclrtSynchronizeStream(s));
        assert_eq!(words(y, 2), [16, 52]);
    }
    ok!(aclmdlRIDestroy(graph));
}

/// Checks that the work a kernel issues is ordered after the work queued before that kernel, and
/// after nothing else that the host or another kernel did.
#[test]
fn checked_mode_knows_what_the_work_that_a_kernel_issues_comes_after() {
    for ordered in [true, false] {
        let check = AscendExtCheck::ASCEND_EXT_CHECK_RACES.0;
        let block = Block::one_with(AscendExtBlockConfig { check, ..Block::config() });
        let (s, t, from, to) = (stream(), stream(), malloc(64), malloc(64));
        let (mut arguments, notify) = Copy::new(to, from, 64);
        ok!(aclrtMemsetAsync(from, 64, 5, 64, s));
        // The kernel after the fill signals that the fill is done, but the checks do not see this.
        let (mut behind, runs, may_return) = Wait::new(0);
        launch(kernel("Wait"), &mut behind, s);
        await_set(runs);
        may_return.store(1, Ordering::Release);
        let by = if ordered { s } else { t };
        launch(kernel("Copy"), &mut arguments, by);
        ok!(aclrtWaitAndResetNotify(notify, by, 0));
        ok!(aclrtSynchronizeStream(by));
        let mut found = 0;
        ok!(ascendExtFindings(block.number, &mut found));
        assert_eq!(found, u32::from(!ordered));
        ok!(aclrtSynchronizeStream(s));
    }
}
