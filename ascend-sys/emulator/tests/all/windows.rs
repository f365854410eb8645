//! Tests of the symmetric windows of a communicator, and of its memory ranges.

use super::virtual_memory::{UNIT, physical, reserve};
use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::Block;
use ascend_emulator_testing::ranks::{Rank, config, limit, on_block};
use ascend_emulator_testing::{hccl, issue, ok, refuses};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

fn on(product: u32, ranks: u32, run: impl Fn(&mut Rank) + Sync) {
    let config = AscendExtBlockConfig { deviceCount: ranks, product, ..Block::config() };
    let config = AscendExtBlockConfig { connectTimeoutMs: limit(), ..config };
    on_block(AscendExtBlockConfig { memoryBytes: 16 * UNIT as u64, ..config }, |rank| run(rank));
}

/// Returns the address of physical memory of the rank's device, mapped in a range of its own.
fn mapped(rank: &Rank, bytes: usize) -> *mut c_void {
    let start = reserve(bytes);
    ok!(aclrtMapMem(start, bytes, 0, physical(rank.device, bytes), 0));
    start
}

fn window(comm: HcclComm, start: *mut c_void, bytes: usize) -> HcclCommSymWindow {
    let mut window = null_mut();
    hccl!(HcclCommSymWinRegister(comm, start, bytes as u64, &mut window, 1));
    assert!(!window.is_null());
    window
}

/// Returns the window that contains these bytes, and the offset of the bytes in it.
fn found(comm: HcclComm, start: *mut c_void, bytes: usize) -> (HcclCommSymWindow, usize) {
    let (mut window, mut offset) = (std::ptr::dangling_mut(), 77);
    hccl!(HcclCommSymWinGet(comm, start, bytes, &mut window, &mut offset));
    (window, offset)
}

#[test]
fn a_window_is_found_by_what_lies_in_it_until_its_last_registration_ends() {
    for product in [3, 950] {
        on(product, 2, |rank| {
            rank.join();
            let comm = rank.comm;
            let start = if product == 3 { mapped(rank, UNIT) } else { rank.upload(&[0; UNIT]) };
            let first = window(comm, start, UNIT);
            assert_eq!(found(comm, start, UNIT), (first, 0));
            assert_eq!(found(comm, start.wrapping_byte_add(100), 24), (first, 100));
            let beyond = start.wrapping_byte_add(UNIT - 8);
            assert_eq!(found(comm, beyond, 9), (null_mut(), 0), "one byte too many");
            assert_eq!(window(comm, start, UNIT), first, "registered once more");
            hccl!(HcclCommSymWinDeregister(first));
            assert_eq!(found(comm, start, 1), (first, 0));
            hccl!(HcclCommSymWinDeregister(first));
            assert_eq!(found(comm, start, 1), (null_mut(), 0));
            refuses!(HCCL_E_PARA, ["is gone"], HcclCommSymWinDeregister(first));
            hccl!(HcclCommDestroy(comm));
        });
    }
}

#[test]
fn a_window_ends_with_its_communicator_and_says_when_its_memory_has_gone() {
    on(950, 2, |rank| {
        rank.join();
        let start = rank.upload(&[0; 4096]);
        let window = window(rank.comm, start, 4096);
        ok!(aclrtFree(start));
        let (mut place, mut offset) = (null_mut(), 0);
        refuses!(
            HCCL_E_PARA,
            ["memory of a window must not be freed"],
            HcclCommSymWinGet(rank.comm, start, 8, &mut place, &mut offset)
        );
        hccl!(HcclCommDestroy(rank.comm));
        refuses!(HCCL_E_PARA, ["is gone"], HcclCommSymWinDeregister(window));
    });
}

#[test]
fn ranks_that_register_different_sizes_all_learn_both() {
    on(950, 2, |rank| {
        rank.join();
        let (start, mut window) = (rank.upload(&[0; 8192]), null_mut());
        let bytes = 4096 * (1 + u64::from(rank.rank));
        refuses!(
            HCCL_E_PARA,
            ["disagree about symmetric window 1", "4096 bytes", "8192 bytes"],
            HcclCommSymWinRegister(rank.comm, start, bytes, &mut window, 1)
        );
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn a_rank_that_does_not_register_is_named() {
    let others = Barrier::new(2);
    on(950, 2, |rank| {
        rank.join();
        if rank.rank == 0 {
            let (start, mut window) = (rank.upload(&[0; 64]), null_mut());
            refuses!(
                HCCL_E_TIMEOUT,
                ["rank 1 did not make", "HcclCommSymWinRegister for symmetric window 1"],
                HcclCommSymWinRegister(rank.comm, start, 64, &mut window, 1)
            );
        }
        others.wait();
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn what_cannot_be_a_window_is_refused_before_anybody_waits() {
    on(950, 2, |rank| {
        rank.join();
        let (comm, start, mut window) = (rank.comm, rank.upload(&[0; 64]), null_mut());
        let mut offset = 0;
        refuses!(
            HCCL_E_PTR,
            ["comm"],
            HcclCommSymWinRegister(null_mut(), start, 64, &mut window, 1)
        );
        refuses!(
            HCCL_E_PTR,
            ["addr"],
            HcclCommSymWinRegister(comm, null_mut(), 64, &mut window, 1)
        );
        refuses!(HCCL_E_PTR, ["winHandle"], HcclCommSymWinRegister(comm, start, 64, null_mut(), 1));
        refuses!(HCCL_E_PARA, ["size"], HcclCommSymWinRegister(comm, start, 0, &mut window, 1));
        for flag in [0, 2, u32::MAX] {
            refuses!(
                HCCL_E_PARA,
                ["it must be 1"],
                HcclCommSymWinRegister(comm, start, 64, &mut window, flag)
            );
        }
        for size in [65, u64::MAX] {
            refuses!(
                HCCL_E_PARA,
                ["addr"],
                HcclCommSymWinRegister(comm, start, size, &mut window, 1)
            );
        }
        let host = (&raw mut offset).cast();
        refuses!(HCCL_E_PARA, ["host"], HcclCommSymWinRegister(comm, host, 8, &mut window, 1));
        refuses!(HCCL_E_PTR, ["winHandle"], HcclCommSymWinDeregister(null_mut()));
        refuses!(HCCL_E_PARA, ["any symmetric window"], HcclCommSymWinDeregister(comm));
        refuses!(
            HCCL_E_PTR,
            ["ptr"],
            HcclCommSymWinGet(comm, null_mut(), 8, &mut window, &mut offset)
        );
        refuses!(
            HCCL_E_PARA,
            ["size"],
            HcclCommSymWinGet(comm, start, 0, &mut window, &mut offset)
        );
        refuses!(
            HCCL_E_PTR,
            ["offset"],
            HcclCommSymWinGet(comm, start, 8, &mut window, null_mut())
        );
        assert_eq!(found(comm, start, usize::MAX), (null_mut(), 0));
        hccl!(HcclCommDestroy(comm));
    });
    on(2, 2, |rank| {
        rank.join();
        let (start, mut window) = (rank.upload(&[0; 64]), null_mut());
        refuses!(
            HCCL_E_NOT_SUPPORT,
            ["A2"],
            HcclCommSymWinRegister(rank.comm, start, 64, &mut window, 1)
        );
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn an_a3_takes_physical_memory_up_to_what_the_configuration_says() {
    on(3, 2, |rank| {
        let mut said = config("");
        // This is the smallest size that can be given, and it is too small for any window.
        said.hcclSymWinMaxMemSizePerRank = 0;
        let Rank { rank: own, ranks, info, .. } = *rank;
        hccl!(HcclCommInitRootInfoConfig(ranks, &info, own, &said, &mut rank.comm));
        let (comm, mut window) = (rank.comm, null_mut());
        let plain = rank.upload(&[0; 64]);
        refuses!(
            HCCL_E_PARA,
            ["physical memory that is mapped"],
            HcclCommSymWinRegister(comm, plain, 64, &mut window, 1)
        );
        refuses!(
            HCCL_E_MEMORY,
            ["addresses for 0", "hcclSymWinMaxMemSizePerRank"],
            HcclCommSymWinRegister(comm, mapped(rank, UNIT), UNIT as u64, &mut window, 1)
        );
        hccl!(HcclCommDestroy(comm));
    });
    on(3, 2, |rank| {
        rank.join();
        let mut start = null_mut();
        issue!(HcommMemAlloc(&mut start, 100));
        let window = window(rank.comm, start, 100);
        hccl!(HcclCommSymWinDeregister(window));
        issue!(HcommMemFree(start));
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn memory_in_a_range_is_active_and_stays_until_that_ends() {
    on(3, 2, |rank| {
        rank.join();
        let (comm, base) = (rank.comm, reserve(4 * UNIT));
        let handle = physical(rank.device, UNIT);
        refuses!(
            HCCL_E_INTERNAL,
            ["call HcclCommSetMemoryRange first"],
            HcclCommActivateCommMemory(comm, base, UNIT, 0, handle, 0)
        );
        refuses!(
            HCCL_E_INTERNAL,
            ["call HcclCommSetMemoryRange first"],
            HcclCommDeactivateCommMemory(comm, base)
        );
        hccl!(HcclCommSetMemoryRange(comm, base, 4 * UNIT, 0, 0));
        let inside = base.wrapping_byte_add(UNIT);
        refuses!(HCCL_E_PARA, ["overlaps"], HcclCommSetMemoryRange(comm, inside, UNIT, 0, 0));
        ok!(aclrtMapMem(inside, UNIT, 0, handle, 0));
        hccl!(HcclCommActivateCommMemory(comm, inside, UNIT, 0, handle, 0));
        refuses!(
            HCCL_E_PARA,
            ["overlaps the memory"],
            HcclCommActivateCommMemory(comm, inside, UNIT, 0, handle, 0)
        );
        // The communicator keeps the memory alive after it is unmapped and freed.
        ok!(aclrtUnmapMem(inside));
        ok!(aclrtFreePhysical(handle));
        let mut properties = aclrtPhysicalMemProp::default();
        ok!(aclrtMemGetAllocationPropertiesFromHandle(handle, &mut properties));
        refuses!(HCCL_E_PARA, ["memory is active"], HcclCommUnsetMemoryRange(comm, base));
        refuses!(
            HCCL_E_PARA,
            ["no active memory begins"],
            HcclCommDeactivateCommMemory(comm, base)
        );
        hccl!(HcclCommDeactivateCommMemory(comm, inside));
        refuses!(
            HCCL_E_RUNTIME,
            ["handle"],
            HcclCommActivateCommMemory(comm, inside, UNIT, 0, handle, 0)
        );
        hccl!(HcclCommUnsetMemoryRange(comm, base));
        refuses!(HCCL_E_PARA, ["no range begins"], HcclCommUnsetMemoryRange(comm, base));
        hccl!(HcclCommDestroy(comm));
    });
}

#[test]
fn a_range_that_ends_with_its_communicator_lets_its_memory_go() {
    on(3, 2, |rank| {
        rank.join();
        let (base, handle) = (reserve(UNIT), physical(rank.device, UNIT));
        hccl!(HcclCommSetMemoryRange(rank.comm, base, UNIT, 0, 0));
        hccl!(HcclCommActivateCommMemory(rank.comm, base, UNIT, 0, handle, 0));
        ok!(aclrtFreePhysical(handle));
        hccl!(HcclCommDestroy(rank.comm));
        let mut properties = aclrtPhysicalMemProp::default();
        let code = ascend_emulator_testing::call!(aclrtMemGetAllocationPropertiesFromHandle(
            handle,
            &mut properties
        ));
        assert_ne!(code, ACL_SUCCESS);
    });
}

#[test]
fn what_cannot_be_a_range_is_refused_before_anybody_waits() {
    on(3, 2, |rank| {
        rank.join();
        let (comm, base) = (rank.comm, reserve(UNIT));
        let handle = physical(rank.device, UNIT);
        refuses!(HCCL_E_PTR, ["comm"], HcclCommSetMemoryRange(null_mut(), base, UNIT, 0, 0));
        refuses!(HCCL_E_PTR, ["baseVirPtr"], HcclCommSetMemoryRange(comm, null_mut(), UNIT, 0, 0));
        for size in [0, usize::MAX] {
            refuses!(HCCL_E_PARA, ["not a range"], HcclCommSetMemoryRange(comm, base, size, 0, 0));
        }
        refuses!(HCCL_E_PARA, ["alignment"], HcclCommSetMemoryRange(comm, base, UNIT, 1, 0));
        refuses!(HCCL_E_PARA, ["flags"], HcclCommSetMemoryRange(comm, base, UNIT, 0, 1));
        refuses!(HCCL_E_PARA, ["no range begins"], HcclCommUnsetMemoryRange(comm, base));
        hccl!(HcclCommSetMemoryRange(comm, base, UNIT, 0, 0));
        refuses!(
            HCCL_E_PTR,
            ["virPtr"],
            HcclCommActivateCommMemory(comm, null_mut(), UNIT, 0, handle, 0)
        );
        refuses!(
            HCCL_E_PTR,
            ["handle"],
            HcclCommActivateCommMemory(comm, base, UNIT, 0, null_mut(), 0)
        );
        refuses!(HCCL_E_RUNTIME, ["handle"], HcclCommActivateCommMemory(comm, base, 8, 0, comm, 0));
        refuses!(HCCL_E_PARA, ["offset"], HcclCommActivateCommMemory(comm, base, 8, 1, handle, 0));
        let beyond = UNIT + 1;
        refuses!(
            HCCL_E_PARA,
            ["lies in no memory range"],
            HcclCommActivateCommMemory(comm, base, beyond, 0, handle, 0)
        );
        hccl!(HcclCommDestroy(comm));
    });
    for (product, ranks, said) in [(2, 2, "A2"), (950, 2, "950"), (3, 17, "more than one server")] {
        on(product, ranks, |rank| {
            rank.join();
            let base = std::ptr::without_provenance_mut(1 << 21);
            refuses!(HCCL_E_NOT_SUPPORT, [said], HcclCommSetMemoryRange(rank.comm, base, 8, 0, 0));
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}
