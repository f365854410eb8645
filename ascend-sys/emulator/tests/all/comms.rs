//! Communicators: making, querying and ending them, and the rules for arguments.

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::ranks::{
    FP32, Rank, SUM, config, name_of, on_block, on_ranks, root_info,
};
use ascend_emulator_testing::{call, hccl, ok, refuses};
use ascend_sys::*;
use std::ffi::{CStr, c_void};

/// One element more than an operation accepts.
const MANY: u64 = 0x8_0000_0000;

#[test]
fn ranks_and_names() {
    on_ranks(3, |rank| {
        let (mut size, mut id) = (0, 99);
        hccl!(HcclGetRankSize(rank.comm, &mut size));
        hccl!(HcclGetRankId(rank.comm, &mut id));
        assert_eq!((size, id), (3, rank.rank));
        let name = std::ffi::CString::new(name_of(rank.comm)).unwrap();
        let mut found = std::ptr::null_mut();
        hccl!(HcclCommGetHandleWithName(name.as_ptr(), &mut found));
        assert_eq!(found, rank.comm);
        let nobody = c"nobody".as_ptr();
        refuses!(HCCL_E_PARA, ["nobody"], HcclCommGetHandleWithName(nobody, &mut found));
        let null = std::ptr::null_mut::<c_void>();
        refuses!(HCCL_E_PTR, ["comm"], HcclGetRankSize(null, &mut size));
        refuses!(HCCL_E_PTR, ["rank"], HcclGetRankId(rank.comm, std::ptr::null_mut()));
        let mut error = HcclResult(9);
        hccl!(HcclGetCommAsyncError(rank.comm, &mut error));
        assert_eq!(error.0, 0);
        assert_eq!(call!(HcclGetCommConfigCapability()), 12);
    });
}

#[test]
fn arguments_of_init_are_checked_in_the_order_of_cann() {
    on_block(AscendExtBlockConfig { deviceCount: 1, ..Block::config() }, |rank| {
        let (info, no_info) = (&raw const rank.info, std::ptr::null());
        let comm = &raw mut rank.comm;
        let no_comm = std::ptr::null_mut();
        refuses!(HCCL_E_PARA, ["nRanks"], HcclCommInitRootInfo(0, no_info, 0, no_comm));
        refuses!(HCCL_E_PARA, ["rank 1"], HcclCommInitRootInfo(1, no_info, 1, no_comm));
        refuses!(HCCL_E_PTR, ["comm"], HcclCommInitRootInfo(1, no_info, 0, no_comm));
        refuses!(HCCL_E_PTR, ["rootInfo"], HcclCommInitRootInfo(1, no_info, 0, comm));
        let none = std::ptr::null();
        refuses!(HCCL_E_PARA, ["config"], HcclCommInitRootInfoConfig(1, info, 0, none, comm));
        let garbage = HcclRootInfo::default();
        refuses!(HCCL_E_PARA, ["not a root info"], HcclCommInitRootInfo(1, &garbage, 0, comm));
        // The identifier of other libraries has 128 bytes.
        let mut cut = root_info();
        cut.internal[128..].fill(0);
        refuses!(HCCL_E_PARA, ["pass all of its 4108"], HcclCommInitRootInfo(1, &cut, 0, comm));
        rank.join();
        let again = &raw mut rank.comm;
        refuses!(HCCL_E_PARA, ["already made"], HcclCommInitRootInfo(1, info, 0, again));
        refuses!(HCCL_E_PTR, ["rootInfo"], HcclGetRootInfo(std::ptr::null_mut()));
    });
}

#[test]
fn a_name_is_taken_once_on_a_device() {
    on_block(AscendExtBlockConfig { deviceCount: 2, ..Block::config() }, |rank| {
        let config = config("training");
        hccl!(HcclCommInitRootInfoConfig(2, &rank.info, rank.rank, &config, &mut rank.comm));
        assert_eq!(name_of(rank.comm), "training");
        let info = root_info();
        let mut other = std::ptr::null_mut();
        refuses!(
            HCCL_E_PARA,
            ["training"],
            HcclCommInitRootInfoConfig(1, &info, 0, &config, &mut other)
        );
        hccl!(HcclCommDestroy(rank.comm));
        hccl!(HcclCommInitRootInfoConfig(1, &info, 0, &config, &mut other));
        hccl!(HcclCommDestroy(other));
    });
}

#[test]
fn ranks_that_disagree_are_told_so() {
    on_block(AscendExtBlockConfig { deviceCount: 2, ..Block::config() }, |rank| {
        let ranks = 2 + rank.rank;
        let comm = &mut rank.comm;
        refuses!(
            HCCL_E_PARA,
            ["EI0015", "disagree", "says 2", "says 3"],
            HcclCommInitRootInfo(ranks, &rank.info, rank.rank, comm)
        );
    });
}

#[test]
fn all_at_once() {
    let block = Block::new(3);
    let mut devices = [block.first, block.first + 1, block.first + 2];
    let mut comms = [std::ptr::null_mut(); 3];
    hccl!(HcclCommInitAll(3, devices.as_mut_ptr(), comms.as_mut_ptr()));
    std::thread::scope(|scope| {
        for (rank, comm) in comms.into_iter().enumerate() {
            let (device, comm) = (devices[rank], comm as usize);
            scope.spawn(move || {
                ok!(aclrtSetDevice(device));
                let (stream, comm) = (common::stream(), comm as HcclComm);
                let mut id = 0;
                hccl!(HcclGetRankId(comm, &mut id));
                assert_eq!(id as usize, rank);
                let buffer = common::malloc(4);
                common::write(buffer, &1.0f32.to_ne_bytes());
                hccl!(HcclAllReduce(buffer, buffer, 1, FP32, SUM, comm, stream));
                ok!(aclrtSynchronizeStream(stream));
                assert_eq!(common::read(buffer, 4), 3.0f32.to_ne_bytes());
                hccl!(HcclCommDestroy(comm));
            });
        }
    });
    let (ptr, out) = (devices.as_mut_ptr(), comms.as_mut_ptr());
    refuses!(HCCL_E_PARA, ["ndev"], HcclCommInitAll(0, ptr, out));
    refuses!(HCCL_E_PTR, ["devices"], HcclCommInitAll(3, std::ptr::null_mut(), out));
    devices[2] = devices[0];
    refuses!(HCCL_E_PARA, ["twice"], HcclCommInitAll(3, devices.as_mut_ptr(), out));
    devices[2] = 12_345;
    refuses!(HCCL_E_INTERNAL, ["12345"], HcclCommInitAll(3, devices.as_mut_ptr(), out));
    assert_eq!(comms, [std::ptr::null_mut(); 3]);
}

#[test]
fn handles_that_are_stale_or_garbage_are_errors() {
    on_ranks(1, |rank| {
        let null = std::ptr::null_mut::<c_void>();
        let buffer = rank.upload(&[0; 64]);
        let (stream, mut size) = (rank.stream, 0);
        let mut other = std::ptr::null_mut();
        hccl!(HcclCommInitRootInfo(1, &root_info(), 0, &mut other));
        hccl!(HcclCommDestroy(other));
        refuses!(HCCL_E_PARA, ["destroyed"], HcclCommDestroy(other));
        refuses!(HCCL_E_PARA, ["destroyed"], HcclGetRankSize(other, &mut size));
        let b = buffer;
        refuses!(HCCL_E_PARA, ["destroyed"], HcclAllReduce(b, b, 1, FP32, SUM, other, stream));
        let made_up = 0x1234 as HcclComm;
        refuses!(HCCL_E_PARA, ["0x1234"], HcclAllReduce(b, b, 1, FP32, SUM, made_up, stream));
        refuses!(HCCL_E_PARA, ["stream"], HcclAllReduce(b, b, 1, FP32, SUM, stream, stream));
        let comm = rank.comm;
        refuses!(HCCL_E_RUNTIME, ["stream"], HcclAllReduce(b, b, 1, FP32, SUM, comm, made_up));
        hccl!(HcclCommDestroy(null));
    });
}

#[test]
fn arguments_of_operations_are_checked_in_the_order_of_cann() {
    for product in [3, 950] {
        let config = AscendExtBlockConfig { deviceCount: 1, product, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            single_mistakes(rank, product);
            two_mistakes(rank, product);
        });
    }
}

fn single_mistakes(rank: &Rank, product: u32) {
    let (comm, stream) = (rank.comm, rank.stream);
    let null = std::ptr::null_mut::<c_void>();
    let b = rank.upload(&[0; 64]);
    let (t, o) = (FP32, SUM);
    refuses!(HCCL_E_PTR, ["sendBuf"], HcclAllReduce(null, b, 1, t, o, comm, stream));
    refuses!(HCCL_E_PTR, ["recvBuf"], HcclAllReduce(b, null, 1, t, o, comm, stream));
    refuses!(HCCL_E_PTR, ["comm"], HcclAllReduce(b, b, 1, t, o, null, stream));
    refuses!(HCCL_E_PTR, ["stream"], HcclAllReduce(b, b, 1, t, o, comm, null));
    refuses!(HCCL_E_PTR, ["comm"], HcclBroadcast(b, 1, t, 0, null, stream));
    refuses!(HCCL_E_PTR, ["buf"], HcclBroadcast(null, 1, t, 0, comm, stream));
    refuses!(HCCL_E_PTR, ["stream"], HcclBroadcast(b, 1, t, 0, comm, null));
    refuses!(HCCL_E_PTR, ["comm"], HcclBarrier(null, stream));
    refuses!(HCCL_E_PTR, ["stream"], HcclBarrier(comm, null));
    refuses!(HCCL_E_PARA, ["count"], HcclAllReduce(b, b, MANY, t, o, comm, stream));
    let fp64 = HcclDataType(10);
    if product == 950 {
        hccl!(HcclAllReduce(b, b, 1, fp64, o, comm, stream));
    } else {
        refuses!(HCCL_E_NOT_SUPPORT, ["FP64"], HcclAllReduce(b, b, 1, fp64, o, comm, stream));
    }
    let op = HcclReduceOp(7);
    refuses!(HCCL_E_NOT_SUPPORT, ["7"], HcclAllReduce(b, b, 1, t, op, comm, stream));
    for dtype in [1, 11] {
        let (dtype, prod) = (HcclDataType(dtype), HcclReduceOp(1));
        refuses!(HCCL_E_NOT_SUPPORT, ["PROD"], HcclAllReduce(b, b, 1, dtype, prod, comm, stream));
    }
    refuses!(HCCL_E_PARA, ["root 1"], HcclBroadcast(b, 1, t, 1, comm, stream));
    // The calls below have wrong pointers.
    refuses!(HCCL_E_PARA, ["sendBuf"], HcclAllReduce(b, b, 1000, t, o, comm, stream));
    let mut host = [0u8; 64];
    let host = host.as_mut_ptr().cast();
    refuses!(HCCL_E_PARA, ["host memory"], HcclBroadcast(host, 1, t, 0, comm, stream));
    let freed = rank.upload(&[0; 64]);
    rank.free(freed);
    refuses!(HCCL_E_PARA, ["buf", "free"], HcclBroadcast(freed, 1, t, 0, comm, stream));
}

/// Checks the order in which two mistakes are reported. A count of zero hides all mistakes. Then
/// come null pointers, the count, the type, the reduction or the root, and the memory that the
/// pointers refer to. The two implementations of CANN agree on this order.
fn two_mistakes(rank: &Rank, product: u32) {
    let (comm, stream) = (rank.comm, rank.stream);
    let null = std::ptr::null_mut::<c_void>();
    let b = rank.upload(&[0; 64]);
    let mut host = [0u8; 64];
    let host = host.as_mut_ptr().cast();
    let (t, o) = (FP32, SUM);
    let (bad_type, bad_op) = (HcclDataType(12), HcclReduceOp(9));
    // A count of zero is checked before everything else.
    hccl!(HcclAllReduce(null, null, 0, HcclDataType(99), bad_op, null, null));
    hccl!(HcclAllReduce(host, null, 0, bad_type, bad_op, comm, stream));
    hccl!(HcclBroadcast(null, 0, t, 7, null, null));
    hccl!(HcclBroadcast(null, 0, bad_type, 7, comm, stream));
    // Null pointers are checked before the count.
    refuses!(HCCL_E_PTR, ["sendBuf"], HcclAllReduce(null, b, MANY, t, o, comm, stream));
    refuses!(HCCL_E_PTR, ["stream"], HcclAllReduce(b, b, MANY, t, o, comm, null));
    refuses!(HCCL_E_PTR, ["buf"], HcclBroadcast(null, MANY, t, 0, comm, stream));
    refuses!(HCCL_E_PTR, ["stream"], HcclBroadcast(b, MANY, t, 0, comm, null));
    // The count is checked before the type.
    refuses!(HCCL_E_PARA, ["count"], HcclAllReduce(b, b, MANY, bad_type, o, comm, stream));
    refuses!(HCCL_E_PARA, ["count"], HcclBroadcast(b, MANY, bad_type, 0, comm, stream));
    // The type is checked before the reduction: a reduction that does not exist, and a type that
    // cannot be reduced.
    let uint8 = HcclDataType(7);
    refuses!(
        HCCL_E_NOT_SUPPORT,
        ["INT128"],
        HcclAllReduce(b, b, 1, bad_type, bad_op, comm, stream)
    );
    refuses!(HCCL_E_NOT_SUPPORT, ["UINT8"], HcclAllReduce(b, b, 1, uint8, bad_op, comm, stream));
    let hif8 = HcclDataType(14);
    if product == 950 {
        hccl!(HcclBroadcast(b, 1, hif8, 0, comm, stream));
        refuses!(HCCL_E_PARA, ["root 1"], HcclBroadcast(b, 1, hif8, 1, comm, stream));
    } else {
        refuses!(HCCL_E_NOT_SUPPORT, ["HIF8"], HcclBroadcast(b, 1, hif8, 1, comm, stream));
    }
    // The type is checked before the root.
    refuses!(HCCL_E_NOT_SUPPORT, ["INT128"], HcclBroadcast(b, 1, bad_type, 1, comm, stream));
    // All of them are checked before the memory that the pointers refer to.
    refuses!(HCCL_E_PARA, ["count"], HcclAllReduce(host, host, MANY, t, o, comm, stream));
    refuses!(HCCL_E_NOT_SUPPORT, ["INT128"], HcclAllReduce(host, b, 1, bad_type, o, comm, stream));
    refuses!(HCCL_E_NOT_SUPPORT, ["9"], HcclAllReduce(host, b, 1, t, bad_op, comm, stream));
    refuses!(HCCL_E_PARA, ["root 1"], HcclBroadcast(host, 1, t, 1, comm, stream));
    rank.sync();
}

#[test]
fn memory_of_another_device_is_named() {
    let block = Block::new(2);
    ok!(aclrtSetDevice(block.first));
    let foreign = common::malloc(64);
    ok!(aclrtSetDevice(block.first + 1));
    let (stream, own) = (common::stream(), common::malloc(64));
    let mut comm = std::ptr::null_mut();
    hccl!(HcclCommInitRootInfo(1, &root_info(), 0, &mut comm));
    refuses!(
        HCCL_E_PARA,
        ["recvBuf", "of device"],
        HcclAllReduce(own, foreign, 1, FP32, SUM, comm, stream)
    );
    ok!(aclrtSetDevice(block.first));
    let other = common::stream();
    refuses!(HCCL_E_PARA, ["device"], HcclBarrier(comm, other));
}

#[test]
fn a_suspended_communicator_refuses_until_it_resumes() {
    for (product, confirmed) in [(3, 22), (2, 0)] {
        let config = AscendExtBlockConfig { deviceCount: 1, product, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            assert_eq!(call!(HcclCommSuspend(rank.comm)).0, confirmed);
            refuses!(HCCL_E_SUSPENDING, ["HcclCommResume"], HcclBarrier(rank.comm, rank.stream));
            hccl!(HcclCommResume(rank.comm));
            hccl!(HcclBarrier(rank.comm, rank.stream));
        });
    }
}

#[test]
fn what_950_has_and_has_not() {
    let config = AscendExtBlockConfig { deviceCount: 1, product: 950, ..Block::config() };
    on_block(config, |rank| {
        rank.join();
        let name = std::ffi::CString::new(name_of(rank.comm)).unwrap();
        let mut status = HcclCommStatus(77);
        hccl!(HcclCommGetStatus(name.as_ptr(), &mut status));
        assert_eq!(status, HcclCommStatus::HCCL_COMM_STATUS_READY);
        let mut found = std::ptr::null_mut();
        let name = name.as_ptr();
        refuses!(HCCL_E_NOT_SUPPORT, [], HcclCommGetHandleWithName(name, &mut found));
        refuses!(HCCL_E_NOT_SUPPORT, [], HcclCommSuspend(rank.comm));
        let mut error = HcclResult(0);
        refuses!(HCCL_E_NOT_SUPPORT, [], HcclGetCommAsyncError(rank.comm, &mut error));
        assert_eq!(call!(HcclGetCommConfigCapability()), 10);
    });
}

#[test]
fn error_strings() {
    let text = |code| {
        let text = call!(HcclGetErrorString(HcclResult(code)));
        // SAFETY: the text is a static C string.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap()
    };
    let named = [
        "no error",
        "parameter error",
        "empty pointer",
        "memory error",
        "internal error",
        "not support feature",
        "not found specific resource",
        "resource unavailable",
        "call system interface error",
        "timeout",
        "open file fail",
        "tcp connect fail",
        "roce connect fail",
        "tcp transfer fail",
        "roce transfer fail",
        "call runtime api fail",
        "call driver api fail",
        "call profiling api fail",
        "call cce api fail",
        "call network api fail",
        "try again",
        "error cqe",
        "error communicator suspending",
        "retry constraint",
        "out of memory",
    ];
    for (code, name) in named.into_iter().enumerate() {
        assert_eq!(text(code as u32), name, "{code}");
    }
    for code in [25, 100, 1040, 1041] {
        assert_eq!(text(code), "unknown err", "{code}");
    }
    for code in [1042, 1043, u32::MAX] {
        assert_eq!(text(code), "unknown error", "{code}");
    }
}

#[test]
fn settings_are_read_back() {
    on_ranks(1, |rank| {
        let mut mode = 99u32;
        let mut algorithm = [1u8; 1600];
        let (comm, info) = (rank.comm, (&raw mut mode).cast());
        let (expansion, algo) = (HcclConfigType(0), HcclConfigType(1));
        hccl!(HcclConfigGetInfo(comm, expansion, 4, info));
        assert_eq!(mode, 5);
        hccl!(HcclConfigGetInfo(comm, algo, 1600, algorithm.as_mut_ptr().cast()));
        assert_eq!(algorithm, [0; 1600]);
        refuses!(HCCL_E_PARA, ["infoLen"], HcclConfigGetInfo(comm, expansion, 8, info));
        refuses!(HCCL_E_PARA, ["infoLen"], HcclConfigGetInfo(comm, algo, 4, info));
    });
}

#[test]
fn a_block_that_goes_takes_its_communicators_along() {
    let block = Block::new(1);
    ok!(aclrtSetDevice(block.first));
    let mut comm = std::ptr::null_mut();
    hccl!(HcclCommInitRootInfo(1, &root_info(), 0, &mut comm));
    drop(block);
    refuses!(HCCL_E_PARA, ["destroyed"], HcclCommDestroy(comm));
}
