//! Tests of engine contexts. An operator stores data in a context of a communicator at its first
//! call, and later calls use that data.

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::ranks::{Rank, on_block, on_ranks};
use ascend_emulator_testing::{call, fails, hccl, ok, refuses};
use ascend_sys::*;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};

const CPU: CommEngine = CommEngine::COMM_ENGINE_CPU;
const CPU_TS: CommEngine = CommEngine::COMM_ENGINE_CPU_TS;
const AICPU: CommEngine = CommEngine::COMM_ENGINE_AICPU;
const AICPU_TS: CommEngine = CommEngine::COMM_ENGINE_AICPU_TS;
const AIV: CommEngine = CommEngine::COMM_ENGINE_AIV;
const CCU: CommEngine = CommEngine::COMM_ENGINE_CCU;
const PRODUCTS: [u32; 3] = [2, 3, 950];

/// Runs a function on one rank, on a device of the product.
fn alone(product: u32, run: impl Fn(&mut Rank) + Sync) {
    on_block(AscendExtBlockConfig { product, ..Block::config() }, |rank| {
        rank.join();
        run(rank);
        hccl!(HcclCommDestroy(rank.comm));
    });
}

fn create(comm: HcclComm, tag: *const c_char, engine: CommEngine, size: u64) -> *mut c_void {
    let mut context = null_mut();
    hccl!(HcclEngineCtxCreate(comm, tag, engine, size, &mut context));
    assert!(!context.is_null());
    context
}

/// Returns the address and the size of a context that exists.
fn get(comm: HcclComm, tag: *const c_char, engine: CommEngine) -> (*mut c_void, u64) {
    let (mut context, mut size) = (null_mut(), 0);
    hccl!(HcclEngineCtxGet(comm, tag, engine, &mut context, &mut size));
    (context, size)
}

fn is_missing(comm: HcclComm, tag: *const c_char, engine: CommEngine) {
    let _ = common::message();
    let (mut context, mut size) = (null_mut(), 77);
    let code = call!(HcclEngineCtxGet(comm, tag, engine, &mut context, &mut size));
    assert_eq!(code, HcclResult::HCCL_E_NOT_FOUND);
    assert_eq!((context, size, common::message().as_str()), (null_mut(), 77, ""));
}

fn free_memory() -> usize {
    let (mut free, mut total) = (0, 0);
    ok!(aclrtGetMemInfo(aclrtMemAttr::ACL_HBM_MEM, &mut free, &mut total));
    free
}

#[test]
fn a_context_is_found_by_its_tag_and_engine_until_it_is_ended() {
    for product in PRODUCTS {
        alone(product, |rank| {
            let (comm, tag, other) = (rank.comm, c"all_gather".as_ptr(), c"scatter".as_ptr());
            is_missing(comm, tag, AICPU_TS);
            let made = create(comm, tag, AICPU_TS, 100);
            assert_eq!(get(comm, tag, AICPU_TS), (made, 100));
            is_missing(comm, other, AICPU_TS);
            // The engine is part of the name of a context, even where two engines are handled in
            // the same way.
            [CPU, CPU_TS, AICPU, AIV].into_iter().for_each(|engine| is_missing(comm, tag, engine));
            let on_host = create(comm, tag, CPU_TS, 8);
            assert_eq!(get(comm, tag, CPU_TS), (on_host, 8));
            assert_eq!(get(comm, tag, AICPU_TS), (made, 100));
            let mut again = null_mut();
            let pieces = ["\"all_gather\"", "100 bytes"];
            refuses!(
                HCCL_E_PARA,
                [pieces[0], pieces[1]],
                HcclEngineCtxCreate(comm, tag, AICPU_TS, 100, &mut again)
            );
            hccl!(HcclEngineCtxDestroy(comm, tag, AICPU_TS));
            is_missing(comm, tag, AICPU_TS);
            assert_eq!(get(comm, tag, CPU_TS), (on_host, 8));
            refuses!(
                HCCL_E_NOT_FOUND,
                ["there is no context \"all_gather\""],
                HcclEngineCtxDestroy(comm, tag, AICPU_TS)
            );
        });
    }
}

#[test]
fn no_tag_is_the_empty_tag() {
    alone(3, |rank| {
        let made = create(rank.comm, null(), AIV, 16);
        assert_eq!(get(rank.comm, c"".as_ptr(), AIV), (made, 16));
        hccl!(HcclEngineCtxDestroy(rank.comm, c"".as_ptr(), AIV));
        is_missing(rank.comm, null(), AIV);
    });
}

#[test]
fn engines_of_the_host_get_host_memory_and_the_others_memory_of_the_device() {
    for product in PRODUCTS {
        alone(product, |rank| {
            let tag = c"where".as_ptr();
            let on_950 = (product == 950).then_some(CCU);
            for engine in [CPU, CPU_TS].into_iter().chain(on_950) {
                let context = create(rank.comm, tag, engine, 4096);
                // SAFETY: the context is host memory of 4096 bytes, and nothing else accesses it.
                let bytes = unsafe { std::slice::from_raw_parts_mut(context.cast::<u8>(), 4096) };
                assert!(bytes.iter().all(|byte| *byte == 0), "engine {}", engine.0);
                bytes.fill(7);
            }
            for engine in [AICPU, AICPU_TS, AIV] {
                let context = create(rank.comm, tag, engine, 4096);
                let mut what = aclrtPtrAttributes::default();
                ok!(aclrtPointerGetAttributes(context, &mut what));
                let device = aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE;
                assert_eq!((what.location.type_, what.location.id), (device, rank.device as u32));
                assert_eq!(rank.download(context, 4096), [0; 4096]);
            }
        });
    }
}

#[test]
fn bytes_are_copied_to_their_place_in_a_context() {
    on_ranks(2, |rank| {
        let (comm, tag, own) = (rank.comm, c"table".as_ptr(), rank.rank as u8);
        let (device, host) = (create(comm, tag, AICPU_TS, 64), create(comm, tag, CPU, 64));
        let source = [own + 1; 16];
        let from = source.as_ptr().cast();
        for engine in [AICPU_TS, CPU] {
            hccl!(HcclEngineCtxCopy(comm, engine, tag, from, 16, 8));
            hccl!(HcclEngineCtxCopy(comm, engine, tag, from, 4, 60));
        }
        let mut expected = [0; 64];
        expected[8..24].fill(own + 1);
        expected[60..].fill(own + 1);
        assert_eq!(rank.download(device, 64), expected);
        // SAFETY: the context is host memory of 64 bytes, and nothing else accesses it.
        assert_eq!(unsafe { host.cast::<[u8; 64]>().read() }, expected);
    });
}

#[test]
fn what_does_not_fit_into_a_context_is_refused() {
    alone(3, |rank| {
        let (comm, tag) = (rank.comm, c"small".as_ptr());
        create(comm, tag, AICPU, 64);
        let source = [1u8; 65];
        let from: *const c_void = source.as_ptr().cast();
        for (size, offset) in [(65, 0), (8, 57), (1, 64), (1, u64::MAX), (u64::MAX, 1)] {
            refuses!(
                HCCL_E_PARA,
                ["beyond the end of the context \"small\"", "64"],
                HcclEngineCtxCopy(comm, AICPU, tag, from, size, offset)
            );
        }
        let device = rank.upload(&[2; 64]);
        refuses!(
            HCCL_E_PARA,
            ["srcCtx", "not host memory"],
            HcclEngineCtxCopy(comm, AICPU, tag, device, 64, 0)
        );
        let other = c"other".as_ptr();
        refuses!(
            HCCL_E_NOT_FOUND,
            ["there is no context \"other\""],
            HcclEngineCtxCopy(comm, AICPU, other, from, 1, 0)
        );
    });
}

#[test]
fn wrong_arguments_are_refused_on_every_product() {
    for product in PRODUCTS {
        alone(product, |rank| {
            let (comm, tag, none) = (rank.comm, c"tag".as_ptr(), null_mut());
            let longest = CString::new("x".repeat(255)).unwrap();
            let too_long = CString::new("x".repeat(256)).unwrap();
            let (mut context, mut size) = (null_mut(), 0);
            let (out, bytes) = (&raw mut context, &raw mut size);
            refuses!(HCCL_E_PTR, ["comm"], HcclEngineCtxCreate(none, tag, CPU, 8, out));
            refuses!(HCCL_E_PTR, ["ctx"], HcclEngineCtxCreate(comm, tag, CPU, 8, null_mut()));
            refuses!(HCCL_E_PARA, ["size is 0"], HcclEngineCtxCreate(comm, tag, CPU, 0, out));
            let long = too_long.as_ptr();
            refuses!(HCCL_E_PARA, ["256", "255"], HcclEngineCtxCreate(comm, long, CPU, 8, out));
            create(comm, longest.as_ptr(), CPU, 8);
            refuses!(HCCL_E_PTR, ["comm"], HcclEngineCtxGet(none, tag, CPU, out, bytes));
            refuses!(HCCL_E_PTR, ["ctx"], HcclEngineCtxGet(comm, tag, CPU, null_mut(), bytes));
            refuses!(HCCL_E_PTR, ["size"], HcclEngineCtxGet(comm, tag, CPU, out, null_mut()));
            refuses!(HCCL_E_PARA, ["256"], HcclEngineCtxGet(comm, long, CPU, out, bytes));
            let from = tag.cast();
            refuses!(HCCL_E_PTR, ["comm"], HcclEngineCtxCopy(none, CPU, tag, from, 1, 0));
            refuses!(HCCL_E_PTR, ["srcCtx"], HcclEngineCtxCopy(comm, CPU, tag, null(), 1, 0));
            refuses!(HCCL_E_PARA, ["size is 0"], HcclEngineCtxCopy(comm, CPU, tag, from, 0, 0));
            refuses!(HCCL_E_PARA, ["256"], HcclEngineCtxCopy(comm, CPU, long, from, 1, 0));
            refuses!(HCCL_E_PTR, ["comm"], HcclEngineCtxDestroy(none, tag, CPU));
            refuses!(HCCL_E_PARA, ["256"], HcclEngineCtxDestroy(comm, long, CPU));
            for engine in [CommEngine(-1), CommEngine(6)] {
                let said = "not the number of an engine";
                refuses!(HCCL_E_PARA, [said], HcclEngineCtxCreate(comm, tag, engine, 8, out));
                refuses!(HCCL_E_PARA, [said], HcclEngineCtxGet(comm, tag, engine, out, bytes));
                refuses!(HCCL_E_PARA, [said], HcclEngineCtxCopy(comm, engine, tag, from, 1, 0));
                refuses!(HCCL_E_PARA, [said], HcclEngineCtxDestroy(comm, tag, engine));
            }
            if product == 950 {
                create(comm, tag, CCU, 8);
            } else {
                let said = "no engine CCU";
                refuses!(HCCL_E_PARA, [said], HcclEngineCtxCreate(comm, tag, CCU, 8, out));
            }
            let most = 1 << 40;
            refuses!(HCCL_E_MEMORY, ["are free"], HcclEngineCtxCreate(comm, tag, AIV, most, out));
            is_missing(comm, tag, AIV);
        });
    }
}

#[test]
fn contexts_end_with_their_rank_of_the_communicator() {
    on_block(AscendExtBlockConfig { deviceCount: 2, ..Block::config() }, |rank| {
        let before = free_memory();
        for _ in 0..3 {
            hccl!(HcclCommInitAll(1, [rank.device].as_mut_ptr(), &mut rank.comm));
            let context = create(rank.comm, c"kept".as_ptr(), AICPU, 1 << 20);
            create(rank.comm, c"kept".as_ptr(), CPU, 1 << 20);
            assert!(before - free_memory() >= 1 << 20);
            hccl!(HcclCommDestroy(rank.comm));
            assert_eq!(free_memory(), before);
            let mut bytes = [0u8; 4];
            let to = bytes.as_mut_ptr().cast();
            // This check uses device memory only: host memory that was freed may already belong to
            // another test.
            fails!(107000, ["HcclCommDestroy"], aclrtMemcpy(to, 4, context, 4, common::D2H));
        }
    });
}

#[test]
fn a_context_of_the_device_can_be_freed_while_a_task_uses_it() {
    alone(3, |rank| {
        let context = create(rank.comm, c"late".as_ptr(), AICPU, 64);
        let gate = common::Gate::new();
        gate.close(rank.stream);
        let target = rank.upload(&[9; 64]);
        ok!(aclrtMemcpyAsync(target, 64, context, 64, common::D2D, rank.stream));
        hccl!(HcclEngineCtxDestroy(rank.comm, c"late".as_ptr(), AICPU));
        // The new allocation must not get the bytes that the pending task still reads.
        let other = rank.upload(&[5; 64]);
        gate.open();
        rank.sync();
        assert_eq!(rank.download(target, 64), [0; 64]);
        assert_eq!(rank.download(other, 64), [5; 64]);
    });
}

#[test]
fn a_checked_block_knows_what_is_in_a_context_and_who_uses_it() {
    let check = AscendExtCheck::ASCEND_EXT_CHECK_RACES.0;
    let block = Block::one_with(AscendExtBlockConfig { check, ..Block::config() });
    let (mut device, mut comm) = (block.first, null_mut());
    hccl!(HcclCommInitAll(1, &mut device, &mut comm));
    let findings = || {
        let mut count = 0;
        ok!(ascendExtFindings(block.number, &mut count));
        count
    };
    let (tag, stream) = (c"checked".as_ptr(), common::stream());
    let (context, target) = (create(comm, tag, AICPU, 64), common::malloc(64));
    // A new context is filled with zeros, so this copy reads initialized memory.
    ok!(aclrtMemcpyAsync(target, 64, context, 64, common::D2D, stream));
    ok!(aclrtSynchronizeStream(stream));
    let source = [1u8; 64];
    let from = source.as_ptr().cast();
    hccl!(HcclEngineCtxCopy(comm, AICPU, tag, from, 64, 0));
    ok!(aclrtMemcpyAsync(target, 64, context, 64, common::D2D, stream));
    assert_eq!(findings(), 0);
    // This copy is not ordered with the copy in the stream.
    hccl!(HcclEngineCtxCopy(comm, AICPU, tag, from, 64, 0));
    assert_eq!(findings(), 1);
    let (mut length, mut text) = (0, vec![0u8; 4000]);
    let (to, form) = (text.as_mut_ptr().cast(), AscendExtFindingForm::ASCEND_EXT_FINDING_TEXT);
    ok!(ascendExtFinding(block.number, 0, form, to, text.len(), &mut length));
    let text = String::from_utf8(text[..length].to_vec()).unwrap();
    for piece in ["HcclEngineCtxCopy", "aclrtMemcpyAsync", "the context \"checked\""] {
        assert!(text.contains(piece), "{piece:?} is not in: {text}");
    }
    ok!(aclrtSynchronizeStream(stream));
    hccl!(HcclCommDestroy(comm));
}
