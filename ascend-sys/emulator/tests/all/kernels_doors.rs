//! Tests of the C functions around kernels: handles, argument lists, and every way to launch a
//! kernel.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::kernel::{self, build::Builder};
use ascend_emulator_testing::ranks::{
    SUCCESS, impatient_to_meet, name_of, on_block, on_ranks, patient,
};
use ascend_emulator_testing::{call, fails, hccl, ok, refuses};
use ascend_program::layout::Number;
use ascend_program::step::{Copy, Place, Step};
use ascend_program::{Mix, Program};
use ascend_sys::*;
use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

const INVALID: aclError = ACL_ERROR_RT_PARAM_INVALID;

/// Returns a kernel that writes the first number of its tiling and the number of blocks to `y`.
pub fn program() -> Program {
    let mut b = Builder::new(Mix::AivOnly);
    b.program.groups = 0;
    let y = b.output("y", Number::U64);
    b.program.tiling = Some(kernel::build::tiling_layout(0));
    let (first, blocks) =
        (b.field("first", 64), b.value(ascend_program::Of::BlockCount, Number::I64));
    let blocks = b.value(ascend_program::Of::Cast(blocks), Number::U64);
    b.on_block(0, |b| {
        for (at, value) in [(0, first), (1, blocks)] {
            let to: Place = b.at(y, at);
            b.step(Step::Copy(Copy::Set { to, value }));
        }
        let line = b.at(y, 0);
        b.step(Step::Copy(Copy::Clean(line)));
    });
    b.done()
}

fn tiling_of(first: u64) -> Vec<u8> {
    let mut bytes = kernel::build::tiling(&[]);
    bytes[64..72].copy_from_slice(&first.to_le_bytes());
    bytes
}

fn words(pointer: *const c_void) -> [u64; 2] {
    let bytes = read(pointer, 16);
    [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()))
}

#[test]
fn all_ways_of_launching_give_the_kernel_the_same_arguments() {
    let _block = Block::one();
    let (stream, y) = (stream(), malloc(16));
    let binary = load(&program());
    let function = function(binary, "kernel");
    let mut null_pointer: *mut c_void = null_mut();
    let device_tiling = malloc(tiling_of(0).len());
    // The arguments are given as a list with a placeholder.
    launch(
        function,
        3,
        &[Given::Pointer(y), Given::Pointer(null_mut()), Given::Bytes(&tiling_of(7))],
        stream,
    );
    ok!(aclrtSynchronizeStream(stream));
    assert_eq!(words(y), [7, 3]);
    // The arguments are given as a block of host memory, with a placeholder after the addresses.
    let mut block: Vec<u8> = [y as u64, 0, 0].into_iter().flat_map(u64::to_ne_bytes).collect();
    block.extend(tiling_of(8));
    let mut place = aclrtPlaceHolderInfo { addrOffset: 16, dataOffset: 24 };
    let bytes = block.as_mut_ptr().cast();
    ok!(aclrtLaunchKernelWithHostArgs(
        function,
        4,
        stream,
        null_mut(),
        bytes,
        block.len(),
        &mut place,
        1
    ));
    ok!(aclrtSynchronizeStream(stream));
    assert_eq!(words(y), [8, 4]);
    // The arguments are given as an array of pointers to values.
    write(device_tiling, &tiling_of(9));
    let (mut y_value, mut tiling_value) = (y, device_tiling);
    let mut array: [*mut c_void; 3] =
        [(&raw mut y_value).cast(), (&raw mut null_pointer).cast(), (&raw mut tiling_value).cast()];
    ok!(aclrtLaunchKernelWithArgsArray(function, 5, stream, null_mut(), array.as_mut_ptr()));
    ok!(aclrtSynchronizeStream(stream));
    assert_eq!(words(y), [9, 5]);
    // The arguments are given as a block of device memory.
    write(device_tiling, &tiling_of(10));
    let arguments = malloc(24);
    let values = [y as u64, 0, device_tiling as u64];
    write(arguments, &values.into_iter().flat_map(u64::to_ne_bytes).collect::<Vec<_>>());
    ok!(aclrtLaunchKernel(function, 6, arguments, 24, stream));
    ok!(aclrtSynchronizeStream(stream));
    assert_eq!(words(y), [10, 6]);
    ok!(aclrtLaunchKernelV2(function, 7, arguments, 24, null_mut(), stream));
    ok!(aclrtSynchronizeStream(stream));
    assert_eq!(words(y), [10, 7]);
    // The arguments are given as a list in memory of the caller, and one value changes before the
    // launch.
    let mut size = 0;
    ok!(aclrtKernelArgsGetHandleMemSize(function, &mut size));
    let mut memory = vec![0u64; size.div_ceil(8)];
    let mut payload = 0;
    ok!(aclrtKernelArgsGetMemSize(function, 24, &mut payload));
    let mut room = vec![0u64; payload.div_ceil(8)];
    let list: aclrtArgsHandle = memory.as_mut_ptr().cast();
    ok!(aclrtKernelArgsInitByUserMem(function, list, room.as_mut_ptr().cast(), payload));
    let mut handles = [null_mut(); 3];
    for (value, handle) in values.iter().zip(&mut handles) {
        let mut value = *value;
        ok!(aclrtKernelArgsAppend(list, (&raw mut value).cast(), 8, handle));
    }
    ok!(aclrtKernelArgsFinalize(list));
    let other = malloc(16);
    let mut value = other;
    ok!(aclrtKernelArgsParaUpdate(list, handles[0], (&raw mut value).cast(), 8));
    fails!(
        INVALID,
        ["not finalised"],
        aclrtLaunchKernelWithConfig(function, 1, stream, null_mut(), list, null_mut())
    );
    ok!(aclrtKernelArgsFinalize(list));
    ok!(aclrtLaunchKernelWithConfig(function, 8, stream, null_mut(), list, null_mut()));
    ok!(aclrtSynchronizeStream(stream));
    assert_eq!(words(other), [10, 8]);
}

#[test]
fn binaries_and_functions_answer_questions() {
    let _block = Block::one();
    let program = program();
    let bytes = program.to_bytes();
    let wrapper = call!(aclrtCreateBinary(bytes.as_ptr().cast(), bytes.len()));
    let mut loaded = null_mut();
    ok!(aclrtBinaryLoad(wrapper, &mut loaded));
    ok!(aclrtDestroyBinary(wrapper));
    fails!(107017, ["destroyed"], aclrtBinaryLoad(wrapper, &mut loaded));
    let function = function(loaded, "kernel");
    let mut by_entry = null_mut();
    ok!(aclrtBinaryGetFunctionByEntry(loaded, 0, &mut by_entry));
    assert_eq!(function, by_entry);
    fails!(INVALID, ["the only entry"], aclrtBinaryGetFunctionByEntry(loaded, 3, &mut by_entry));
    let mut name = [0; 32];
    ok!(aclrtGetFunctionName(function, 32, name.as_mut_ptr()));
    // SAFETY: the function has written a NUL-terminated name.
    assert_eq!(unsafe { CStr::from_ptr(name.as_ptr()) }, c"kernel");
    let mut owner = null_mut();
    ok!(aclrtFunctionGetBinary(function, &mut owner));
    assert_eq!(owner, loaded);
    let (mut count, mut offset, mut size) = (0, 0, 0);
    ok!(aclrtFunctionGetParamCount(function, &mut count));
    ok!(aclrtFunctionGetParamInfo(function, 2, &mut offset, &mut size));
    assert_eq!((count, offset, size), (3, 16, 8));
    fails!(
        INVALID,
        ["pass an index below 3"],
        aclrtFunctionGetParamInfo(function, 3, &mut offset, &mut size)
    );
    let mut kind = 0;
    ok!(aclrtGetFunctionAttribute(
        function,
        aclrtFuncAttribute::ACL_FUNC_ATTR_KERNEL_TYPE,
        &mut kind
    ));
    assert_eq!(kind, 2);
    let mut none = null_mut();
    fails!(
        INVALID,
        ["no function \"other\"", "\"kernel\""],
        aclrtBinaryGetFunction(loaded, c"other".as_ptr(), &mut none)
    );
    // The binary is also loaded from a file.
    let path = std::env::temp_dir().join(format!("kernel-{}.prog", std::process::id()));
    std::fs::write(&path, &bytes).unwrap();
    let c_path = CString::new(path.to_str().unwrap()).unwrap();
    ok!(aclrtBinaryLoadFromFile(c_path.as_ptr(), null_mut(), &mut loaded));
    std::fs::remove_file(&path).unwrap();
    fails!(
        107009,
        ["cannot read"],
        aclrtBinaryLoadFromFile(c_path.as_ptr(), null_mut(), &mut loaded)
    );
    // The communication server can be registered under another name.
    let (library, server) = server();
    let mut registered = null_mut();
    let (name, own) = (c"RunAicpuKfcSrvLaunch".as_ptr(), c"mine".as_ptr());
    ok!(aclrtRegisterCpuFunc(library, name, own, &mut registered));
    assert_eq!(registered, server);
    fails!(INVALID, ["no function"], aclrtRegisterCpuFunc(library, own, own, &mut registered));
}

#[test]
fn what_is_no_recorded_kernel_is_refused_with_what_is_taken() {
    let _block = Block::one();
    let mut none = null_mut();
    let elf = [0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
    fails!(
        INVALID,
        ["not a recorded kernel", "libccl_kernel.json"],
        aclrtBinaryLoadFromData(elf.as_ptr().cast(), 8, null(), &mut none)
    );
    let mut bytes = program().to_bytes();
    bytes.truncate(60);
    fails!(
        INVALID,
        ["damaged"],
        aclrtBinaryLoadFromData(bytes.as_ptr().cast(), 60, null(), &mut none)
    );
    bytes[8] = 77;
    fails!(
        INVALID,
        ["version 77"],
        aclrtBinaryLoadFromData(bytes.as_ptr().cast(), 60, null(), &mut none)
    );
}

#[test]
fn stale_handles_and_wrong_devices_are_errors() {
    let block = Block::with(AscendExtBlockConfig { deviceCount: 2, ..Block::config() });
    ok!(aclrtSetDevice(block.first));
    let (here, y) = (stream(), malloc(16));
    let binary = load(&program());
    let function = function(binary, "kernel");
    let bytes = tiling_of(1);
    let given = || [Given::Pointer(y), Given::Pointer(null_mut()), Given::Bytes(&bytes)];
    let list = list(function, &given());
    ok!(aclrtSetDevice(block.first + 1));
    let there = stream();
    fails!(
        107017,
        ["was loaded on device"],
        aclrtLaunchKernelWithConfig(function, 1, there, null_mut(), list, null_mut())
    );
    ok!(aclrtSetDevice(block.first));
    fails!(
        INVALID,
        ["numBlocks is 0"],
        aclrtLaunchKernelWithConfig(function, 0, here, null_mut(), list, null_mut())
    );
    // A launched kernel still runs if its binary is unloaded after the launch.
    let gate = Gate::new();
    gate.close(here);
    ok!(aclrtLaunchKernelWithConfig(function, 2, here, null_mut(), list, null_mut()));
    ok!(aclrtBinaryUnLoad(binary));
    gate.open();
    ok!(aclrtSynchronizeStream(here));
    assert_eq!(words(y), [1, 2]);
    fails!(
        107017,
        ["destroyed"],
        aclrtLaunchKernelWithConfig(function, 1, here, null_mut(), list, null_mut())
    );
    fails!(107017, ["destroyed"], aclrtKernelArgsFinalize(list));
    fails!(107017, ["destroyed"], aclrtBinaryUnLoad(binary));
    let mut none = null_mut();
    fails!(107017, ["destroyed"], aclrtBinaryGetFunction(binary, c"kernel".as_ptr(), &mut none));
    fails!(
        107017,
        ["is the handle of a stream"],
        aclrtBinaryGetFunction(here.cast(), c"kernel".as_ptr(), &mut none)
    );
}

/// Gives a kernel, after the workspace, the number of bytes of each buffer that the kernel may use.
#[test]
fn a_kernel_can_be_given_a_part_of_an_allocation() {
    let _block = Block::one();
    let (stream, y) = (stream(), malloc(64));
    write(y, &[0; 64]);
    let function = function(load(&program()), "kernel");
    let bytes = tiling_of(7);
    let length = |bytes: usize| Given::Pointer(std::ptr::without_provenance_mut(bytes));
    let given = |room: usize| {
        let none = || Given::Pointer(null_mut());
        let part = Given::Pointer(y.wrapping_byte_add(16));
        [part, none(), length(room), length(0), Given::Bytes(&bytes)]
    };
    launch(function, 3, &given(15), stream);
    fails!(ACL_ERROR_RT_AICORE_EXCEPTION, ["`y`, which has 1"], aclrtSynchronizeStream(stream));
    assert_eq!(words(y.wrapping_byte_add(16)), [0, 0]);
    launch(function, 3, &given(16), stream);
    ok!(aclrtSynchronizeStream(stream));
    assert_eq!(words(y.wrapping_byte_add(16)), [7, 3]);
    // A size that is larger than the allocation does no harm.
    launch(function, 2, &given(usize::MAX), stream);
    ok!(aclrtSynchronizeStream(stream));
    assert_eq!(words(y.wrapping_byte_add(16)), [7, 2]);
}

#[test]
fn arguments_that_do_not_fit_the_kernel_are_refused() {
    let _block = Block::one();
    let (stream, y) = (stream(), malloc(16));
    let function = function(load(&program()), "kernel");
    let mut list = null_mut();
    ok!(aclrtKernelArgsInit(function, &mut list));
    let (mut handle, mut value) = (null_mut(), y);
    ok!(aclrtKernelArgsAppend(list, (&raw mut value).cast(), 8, &mut handle));
    fails!(
        INVALID,
        ["is 1, but kernel has 3; pass these in this order: y, workspace, tiling"],
        aclrtKernelArgsFinalize(list)
    );
    ok!(aclrtKernelArgsAppendPlaceHolder(list, &mut handle));
    ok!(aclrtKernelArgsAppendPlaceHolder(list, &mut handle));
    fails!(INVALID, ["without a buffer"], aclrtKernelArgsFinalize(list));
    let mut small = 7u32;
    fails!(
        INVALID,
        ["not a value"],
        aclrtKernelArgsParaUpdate(list, handle, (&raw mut small).cast(), 4)
    );
    // The tiling has the size of another struct.
    let bytes = vec![0; 40];
    let given = [Given::Pointer(y), Given::Pointer(null_mut()), Given::Bytes(&bytes)];
    launch(function, 1, &given, stream);
    fails!(
        ACL_ERROR_RT_AICORE_EXCEPTION,
        ["has 40 bytes", "KernelTiling"],
        aclrtSynchronizeStream(stream)
    );
    // The argument points to host memory, but the kernel needs device memory.
    let host = malloc_host(16);
    let bytes = tiling_of(1);
    let given = [Given::Pointer(host), Given::Pointer(null_mut()), Given::Bytes(&bytes)];
    launch(function, 1, &given, stream);
    fails!(
        ACL_ERROR_RT_AICORE_EXCEPTION,
        ["y (0x", "not memory of device"],
        aclrtSynchronizeStream(stream)
    );
    let mut nothing = 0u64;
    fails!(
        INVALID,
        ["not memory that the device reaches"],
        aclrtLaunchKernel(function, 1, (&raw mut nothing).cast(), 24, stream)
    );
}

#[test]
fn contexts_are_checked_against_communicator_and_tiling() {
    on_ranks(2, |rank| {
        let name = name_of(rank.comm);
        let mut context = null_mut();
        let mut create = |bytes: &[u8]| {
            let _ = message();
            let bytes = bytes.as_ptr().cast_mut().cast();
            let code =
                call!(HcclAllocComResourceByTiling(rank.comm, rank.stream, bytes, &mut context));
            (code, message())
        };
        let good = tiling(&[REDUCE_SCATTER, ALL_TO_ALL], &name);
        assert_eq!(create(&good).0, SUCCESS);
        let (code, text) = create(&tiling(&[REDUCE_SCATTER], "another"));
        assert!(
            code == HcclResult::HCCL_E_PARA && text.contains(&name) && text.contains("another"),
            "{text}"
        );
        let (code, text) = create(&tiling(&[6, 7, 8, 10], &name));
        assert!(code == HcclResult::HCCL_E_PARA && text.contains("1 to 3"), "{text}");
        let (code, text) = create(&tiling(&[1], &name));
        assert!(code == HcclResult::HCCL_E_NOT_SUPPORT && text.contains("opType 1"), "{text}");
        let (code, text) = create(&[9; 64]);
        assert!(code == HcclResult::HCCL_E_PARA && text.contains("Mc2InitTiling"), "{text}");
        // The context begins with the fields that CANN defines: the workspace, its size, the rank
        // and the number of ranks.
        assert_eq!(create(&good).0, SUCCESS);
        let head = read(context, 32);
        assert_eq!(head[16..24], [rank.rank, 2].map(u32::to_le_bytes).concat());
        assert_eq!(u64::from_le_bytes(head[8..16].try_into().unwrap()), 16 << 20);
        // With an argument object, the call returns the same context.
        let (mut object, mut other) = (null_mut(), null_mut());
        hccl!(HcclKfcAllocOpArgs(&mut object));
        hccl!(HcclKfcOpArgsSetCommEngine(object, 2));
        hccl!(HcclKfcOpArgsSetAlgConfig(
            object,
            c"AllReduce=level0:doublering".as_ptr().cast_mut()
        ));
        hccl!(HcclCreateOpResCtx(rank.comm, 2, object, &mut other));
        assert_eq!(other, context);
        hccl!(HcclKfcOpArgsSetCommEngine(object, 5));
        refuses!(
            HCCL_E_PARA,
            ["engine is 5"],
            HcclCreateOpResCtx(rank.comm, 2, object, &mut other)
        );
        hccl!(HcclKfcFreeOpArgs(object));
        refuses!(HCCL_E_PARA, ["freed"], HcclKfcFreeOpArgs(object));
    });
}

#[test]
fn servers_take_contexts_only() {
    on_ranks(1, |rank| {
        let (_, server) = server();
        let given =
            [Given::Pointer(std::ptr::without_provenance_mut(0x11)), Given::Pointer(malloc(64))];
        let list = list(server, &given);
        fails!(
            INVALID,
            ["is not a context"],
            aclrtLaunchKernelWithConfig(server, 1, rank.stream, null_mut(), list, null_mut())
        );
        let given = [Given::Pointer(std::ptr::without_provenance_mut(0x72))];
        let list = kernel::list(server, &given);
        fails!(
            INVALID,
            ["version 2", "number of contexts 7"],
            aclrtLaunchKernelWithConfig(server, 1, rank.stream, null_mut(), list, null_mut())
        );
    });
}

/// Checks that a graph of a kernel and its server can be executed again and again.
#[test]
fn kernels_and_servers_are_captured() {
    on_ranks(2, |rank| {
        let call = Call::new(REDUCE_SCATTER, 0, 8, 16, 2);
        let ready = Ready::new(rank, &kernel::kernel(&[call], Number::I32, 2), &[REDUCE_SCATTER]);
        let (x, y) = (rank.upload(&[0; 256]), rank.upload(&[0; 256]));
        let mut event = null_mut();
        ok!(aclrtCreateEventExWithFlag(&mut event, ACL_EVENT_SYNC));
        let mut joined = null_mut();
        ok!(aclrtCreateEventExWithFlag(&mut joined, ACL_EVENT_SYNC));
        ok!(aclmdlRICaptureBegin(
            rank.stream,
            aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_RELAXED
        ));
        ok!(aclrtRecordEvent(event, rank.stream));
        ok!(aclrtStreamWaitEvent(ready.stream, event));
        ready.serve();
        ok!(aclrtRecordEvent(joined, ready.stream));
        ready.run(rank, 2, &[x, y]);
        ok!(aclrtStreamWaitEvent(rank.stream, joined));
        let mut graph = null_mut();
        ok!(aclmdlRICaptureEnd(rank.stream, &mut graph));
        for round in 1..4 {
            write(x, &ints((0..64).map(|n| n * round)));
            ok!(aclmdlRIExecuteAsync(graph, rank.stream));
            rank.sync();
            let found = to_ints(&read(y, 64));
            let expected: Vec<i32> =
                (0..16).map(|n| 2 * (rank.rank as i32 * 16 + n) * round).collect();
            assert_eq!(found, expected, "round {round}");
        }
        ok!(aclmdlRIDestroy(graph));
    });
}

#[test]
fn a_context_waits_for_all_ranks_once_for_each_way_of_communicating() {
    static HAS_CALLED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
    on_ranks(2, |rank| {
        for (operation, has_called) in [REDUCE_SCATTER, ALL_TO_ALL].into_iter().zip(&HAS_CALLED) {
            let bytes = tiling(&[operation], &name_of(rank.comm));
            if rank.rank == 1 {
                // Rank 0 is in its call by then.
                std::thread::sleep(std::time::Duration::from_millis(50));
                has_called.store(true, Ordering::Relaxed);
            }
            let first = context(rank, &bytes);
            assert!(has_called.load(Ordering::Relaxed), "it has waited for nobody");
            // The second call finds the links already made, so rank 1 need not call.
            if rank.rank == 0 {
                assert_eq!(context(rank, &bytes), first);
            }
        }
    });
}

#[test]
fn a_context_that_a_rank_never_asks_for_says_who_is_missing() {
    for leaves in [true, false] {
        let together = Barrier::new(3);
        let config = if leaves { patient(3) } else { impatient_to_meet(3) };
        on_block(config, |rank| {
            rank.join();
            let (bytes, mut found) = (tiling(&[ALL_TO_ALL], &name_of(rank.comm)), null_mut());
            let bytes = bytes.as_ptr().cast_mut().cast();
            if rank.rank == 2 {
                if !leaves {
                    together.wait();
                }
                hccl!(HcclCommDestroy(rank.comm));
                return;
            }
            let _ = message();
            let code =
                call!(HcclAllocComResourceByTiling(rank.comm, rank.stream, bytes, &mut found));
            let text = message();
            let (expected, pieces) = match leaves {
                true => (HcclResult::HCCL_E_REMOTE, ["rank 2 is gone", "communicator"]),
                false => (HcclResult::HCCL_E_TIMEOUT, ["rank 2 did not make", "opType 10"]),
            };
            assert_eq!(code, expected, "{text}");
            assert!(pieces.iter().all(|piece| text.contains(piece)), "{text}");
            if !leaves {
                together.wait();
            }
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}
