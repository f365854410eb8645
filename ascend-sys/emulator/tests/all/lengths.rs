//! Tests of lengths and counts that exceed any memory. Each must be an error before anything is
//! read, written or allocated.

use ascend_emulator_testing::common::{self, Block, malloc, stream};
use ascend_emulator_testing::kernel::{function, load};
use ascend_emulator_testing::operator::{AICPU_TS, CPU, on_product, threads};
use ascend_emulator_testing::ranks::{self, Rank};
use ascend_emulator_testing::{call, fails, hccl, issue, not_issued, ok, refuses};
use ascend_sys::*;
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

/// Lengths that exceed the memory in different ways: beyond `isize`, beyond the free memory, or
/// beyond a limit.
const HUGE: [usize; 5] = [usize::MAX, usize::MAX - 7, 1 << 63, isize::MAX as usize, 1 << 40];

/// Returns an address 64 bytes before the end of a page. The page can be read and written, and the
/// next page is not mapped.
fn at_the_end_of_memory() -> *mut u8 {
    const PAGE: usize = 4096;
    // SAFETY: a new mapping touches no existing memory. It stays mapped until the process ends.
    let two = unsafe {
        let (all, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        libc::mmap(null_mut(), 2 * PAGE, all, private | libc::MAP_ANONYMOUS, -1, 0)
    };
    assert_ne!(two, libc::MAP_FAILED);
    // SAFETY: this unmaps the second page of the mapping made above, which is not in use.
    assert_eq!(unsafe { libc::munmap(two.byte_add(PAGE), PAGE) }, 0);
    two.wrapping_byte_add(PAGE - 64).cast()
}

#[test]
fn a_binary_of_more_bytes_than_there_are_is_an_error() {
    let _block = Block::one();
    let bytes = at_the_end_of_memory();
    for length in HUGE.into_iter().chain([65, 4096, 1 << 27]) {
        let _ = common::message();
        assert!(call!(aclrtCreateBinary(bytes.cast(), length)).is_null(), "{length:#x}");
        assert!(common::message().starts_with("aclrtCreateBinary: "));
        let mut handle = null_mut();
        let code = call!(aclrtBinaryLoadFromData(bytes.cast(), length, null(), &mut handle));
        assert_eq!(code, 100000, "{length:#x}: {}", common::message());
        assert!(handle.is_null());
    }
    let binary = call!(aclrtCreateBinary(bytes.cast(), 64));
    assert!(!binary.is_null());
    let mut handle = null_mut();
    fails!(107000, ["recorded kernels"], aclrtBinaryLoad(binary, &mut handle));
    ok!(aclrtDestroyBinary(binary));
    fails!(
        107009,
        ["/dev/zero"],
        aclrtBinaryLoadFromFile(c"/dev/zero".as_ptr(), null_mut(), &mut handle)
    );
}

#[test]
fn the_options_of_a_binary_and_the_attributes_of_a_launch_are_counted_first() {
    let _block = Block::one();
    let s = stream();
    let mut option = aclrtBinaryLoadOption {
        type_: aclrtBinaryLoadOptionType::ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE,
        value: aclrtBinaryLoadOptionValue { cpuKernelMode: 0 },
    };
    let program = crate::kernels_doors::program();
    let (bytes, mut handle) = (program.to_bytes(), null_mut());
    let (data, length): (*const c_void, _) = (bytes.as_ptr().cast(), bytes.len());
    let function = function(load(&program), "kernel");
    let mut list = null_mut();
    ok!(aclrtKernelArgsInit(function, &mut list));
    for count in HUGE {
        let options = aclrtBinaryLoadOptions { options: &mut option, numOpt: count };
        fails!(100000, ["numOpt"], aclrtBinaryLoadFromData(data, length, &options, &mut handle));
        // SAFETY: all zeros are valid for plain integers.
        let mut attribute: aclrtLaunchKernelAttr = unsafe { std::mem::zeroed() };
        let mut cfg = aclrtLaunchKernelCfg { attrs: &mut attribute, numAttrs: count };
        fails!(
            100000,
            ["numAttrs"],
            aclrtLaunchKernelWithConfig(function, 1, s, &mut cfg, list, null_mut())
        );
    }
}

#[test]
fn arguments_of_kernels_have_a_size() {
    let _block = Block::one();
    let (s, bytes) = (stream(), at_the_end_of_memory());
    let function = function(load(&crate::kernels_doors::program()), "kernel");
    let (mut list, mut place, mut value) = (null_mut(), null_mut(), null_mut());
    ok!(aclrtKernelArgsInit(function, &mut list));
    ok!(aclrtKernelArgsAppendPlaceHolder(list, &mut place));
    let (mut buffer, mut size) = (null_mut(), 0);
    for length in HUGE {
        let data: *mut c_void = bytes.cast();
        fails!(100000, ["paramSize"], aclrtKernelArgsAppend(list, data, length, &mut value));
        fails!(100000, ["paramSize"], aclrtKernelArgsParaUpdate(list, place, data, length));
        fails!(
            100000,
            ["dataSize"],
            aclrtKernelArgsGetPlaceHolderBuffer(list, place, length, &mut buffer)
        );
        let mut info = aclrtPlaceHolderInfo { addrOffset: 0, dataOffset: 8 };
        fails!(
            100000,
            ["argsSize"],
            aclrtLaunchKernelWithHostArgs(function, 1, s, null_mut(), data, length, null_mut(), 0)
        );
        fails!(
            100000,
            ["placeHolderNum"],
            aclrtLaunchKernelWithHostArgs(function, 1, s, null_mut(), data, 64, &mut info, length)
        );
    }
    fails!(100000, ["userArgsSize"], aclrtKernelArgsGetMemSize(function, usize::MAX, &mut size));
    // The arguments are a whole large allocation, and the number of arguments of the function is
    // not known.
    let (_, server) = ascend_emulator_testing::kernel::server();
    let large = malloc(32 << 20);
    fails!(100000, ["argsSize"], aclrtLaunchKernel(server, 1, large, 32 << 20, s));
}

#[test]
fn an_argument_list_that_is_none_is_not_followed() {
    let _block = Block::one();
    let s = stream();
    let function = function(load(&crate::kernels_doors::program()), "kernel");
    let readable = [0x5555_5555_u64; 2];
    let readable = (&raw const readable).cast_mut().cast::<c_void>();
    for list in [8 as *mut c_void, 0xdead_b000 as *mut c_void, readable] {
        let (mut handle, mut value) = (null_mut(), 7u64);
        let data = (&raw mut value).cast();
        fails!(107017, ["argument list"], aclrtKernelArgsAppend(list, data, 8, &mut handle));
        fails!(107017, ["argument list"], aclrtKernelArgsFinalize(list));
        fails!(
            107017,
            ["argument list"],
            aclrtLaunchKernelWithConfig(function, 1, s, null_mut(), list, null_mut())
        );
    }
}

#[test]
fn lists_of_the_runtime_are_counted_first() {
    let _block = Block::one();
    let (mut notify, mut key) = (null_mut(), [0 as c_char; 65]);
    ok!(aclrtCreateNotify(&mut notify, 0));
    ok!(aclrtNotifyGetExportKey(notify, key.as_mut_ptr(), 65, 0));
    let pids = at_the_end_of_memory().cast::<i32>();
    // SAFETY: the address has room for 16 numbers.
    (0..16).for_each(|at| unsafe { pids.add(at).write(1) });
    for count in HUGE {
        fails!(107000, ["num is"], aclrtNotifyBatchReset(&mut notify, count));
        fails!(107000, ["num is"], aclrtNotifySetImportPid(notify, pids, count));
    }
}

#[test]
fn copies_reach_no_further_than_all_addresses() {
    let _block = Block::one();
    let (device, host) = (malloc(64), [0u8; 64]);
    let (s, from) = (stream(), host.as_ptr().cast::<c_void>());
    let kind = common::H2D;
    for count in HUGE {
        assert_ne!(call!(aclrtMemcpy(device, count, from, count, kind)), 0);
        assert_ne!(call!(aclrtMemcpyAsync(device, count, from, count, kind, s)), 0);
        assert_ne!(call!(aclrtMemset(device, count, 1, count)), 0);
        assert_ne!(call!(aclrtMemsetAsync(device, count, 1, count, s)), 0);
        assert_ne!(call!(aclrtMemcpy2d(device, count, from, count, 8, 1 << 22, kind)), 0);
        let mut pointer = null_mut();
        assert_ne!(call!(aclrtMalloc(&mut pointer, count, common::POLICY)), 0);
        assert_ne!(call!(aclrtMallocAlign32(&mut pointer, count, common::POLICY)), 0);
        assert_ne!(call!(aclrtMallocHost(&mut pointer, count | 1 << 41)), 0);
        assert!(pointer.is_null());
    }
    // Both addresses are host addresses, and one of them is near the end of the address space.
    let beyond = usize::MAX - 4095;
    assert_ne!(
        call!(aclrtMemcpy(host.as_ptr().cast_mut().cast(), 8192, beyond as _, 8192, kind)),
        0
    );
}

#[test]
fn lists_of_devices_and_of_ranks_are_counted_first() {
    let mut made = null_mut();
    let mut device = 0;
    refuses!(
        HCCL_E_PARA,
        ["ndev is 4294967295"],
        HcclCommInitAll(u32::MAX, &mut device, &mut made)
    );
    on_product(3, 2, |rank: &mut Rank| {
        let list = at_the_end_of_memory().cast::<u32>();
        // SAFETY: the address has room for 16 numbers.
        (0..16).for_each(|at| unsafe { list.add(at).write(rank.rank) });
        let mut config = ranks::config("sub");
        let (mut comm, mut sub, mut backup) = (rank.comm, null_mut(), false);
        refuses!(
            HCCL_E_PARA,
            ["rankNum is 4294967295"],
            HcclCreateSubCommConfig(&mut comm, u32::MAX, list, 1, 0, &mut config, &mut sub)
        );
        // SAFETY: the address has room for 16 numbers.
        (0..16).for_each(|at| unsafe { list.add(at).write(0) });
        refuses!(
            HCCL_E_PARA,
            ["nRanks is 4294967295"],
            HcclCommWorkingDevNicSet(rank.comm, list, &mut backup, u32::MAX)
        );
    });
}

#[test]
fn teams_are_counted_before_their_ranks_are_read() {
    on_product(950, 2, |rank: &mut Rank| {
        let description = HcclTeamCreateDesc {
            header: CommAbiHeader { version: 1, magicWord: 0x0fcf_0f14, size: 88, reserved: 0 },
            rankIds: at_the_end_of_memory().cast(),
            rankNum: u32::MAX,
            selfRankId: u32::MAX,
            netLayer: u32::MAX,
            protocol: CommProtocol::COMM_PROTOCOL_RESERVED,
            requirement: HcommTeamSyncMemRequirement::default(),
            reserved: [0; 4],
        };
        let (mut team, mut sub) = (null_mut(), null_mut());
        let said = "desc->rankNum is 4294967295";
        refuses!(HCCL_E_PARA, [said], HcclWorldTeamCreate(rank.comm, &description, &mut team));
        let all = HcclTeamCreateDesc { rankIds: null(), rankNum: 0, ..description };
        hccl!(HcclWorldTeamCreate(rank.comm, &all, &mut team));
        refuses!(HCCL_E_PARA, [said], HcclSubTeamCreate(team, &description, &mut sub));
    });
}

#[test]
fn lists_of_operators_are_counted_first() {
    on_product(950, 2, |rank: &mut Rank| {
        let comm = rank.comm;
        let handles = at_the_end_of_memory().cast::<u64>();
        let (most, mut one, mut status) = (u32::MAX, 0u64, 0);
        refuses!(HCCL_E_PARA, ["channelNum"], HcclChannelDestroy(comm, handles, most));
        not_issued!(HCCL_E_PARA, ["channelNum"], HcommChannelDestroy(handles, most));
        not_issued!(HCCL_E_PARA, ["listNum"], HcommChannelGetStatus(handles, most, &mut status));
        not_issued!(HCCL_E_PARA, ["threadNum"], HcommThreadFree(handles, most));
        refuses!(HCCL_E_UNAVAIL, ["threadNum"], HcclThreadAcquire(comm, CPU, most, 1, &mut one));
        let notifies = handles.cast::<u32>();
        not_issued!(HCCL_E_PARA, ["threadNum"], HcommThreadAlloc(CPU, most, notifies, &mut one));
        let desc = HcclChannelDesc::default();
        refuses!(HCCL_E_PARA, ["channelNum"], HcclChannelAcquire(comm, CPU, &desc, most, &mut one));
        let engine = CommEngine::COMM_ENGINE_AICPU;
        refuses!(
            HCCL_E_PARA,
            ["threadNum"],
            HcclThreadExportToCommEngine(comm, most, handles, engine, &mut one)
        );
        let thread = threads(rank, AICPU_TS, 1, 1)[0];
        let list = handles.cast::<HcommBatchTransferDesc>();
        not_issued!(
            HCCL_E_PARA,
            ["transferDescNum"],
            HcommBatchTransferOnThread(thread, 1, list, most)
        );
        let addresses = handles.cast::<*mut c_void>();
        not_issued!(
            HCCL_E_PARA,
            ["count"],
            HcommAicpuTsTaskCacheStart(c"tag".as_ptr(), addresses, handles, u64::MAX)
        );
        let items = handles.cast::<HcclSendRecvItem>();
        refuses!(HCCL_E_PARA, ["itemNum"], HcclBatchSendRecv(items, most, comm, rank.stream));
        issue!(HcommAicpuTsTaskCacheStart(c"tag".as_ptr(), null_mut(), null_mut(), 0));
        issue!(HcommAicpuTsTaskCacheEnd(c"tag".as_ptr()));
    });
}
