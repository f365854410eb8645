//! Tests of exported physical memory: it has the same bytes wherever it is mapped, and errors are
//! reported. Tests of the package `hccl-tests` share it between two processes.

use super::virtual_memory::{UNIT, free_bytes, physical, reserve};
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

const FABRIC: aclrtMemSharedHandleType = aclrtMemSharedHandleType::ACL_MEM_SHARE_HANDLE_TYPE_FABRIC;

fn shareable(handle: aclrtDrvMemHandle) -> aclrtMemFabricHandle {
    let mut shareable = aclrtMemFabricHandle { data: [7; 128] };
    let to = (&raw mut shareable).cast();
    ok!(aclrtMemExportToShareableHandleV2(handle, 0, FABRIC, to));
    shareable
}

#[test]
fn exported_memory_is_the_same_wherever_it_is_mapped() {
    let block = Block::one();
    let (a, b, free) = (reserve(2 * UNIT), reserve(2 * UNIT), free_bytes());
    let behind = b.wrapping_byte_add(UNIT);
    let map = |at, handle| ok!(aclrtMapMem(at, UNIT, 0, handle, 0));
    let is_filled = |at: *mut c_void, byte: u8| {
        for offset in [0, UNIT / 2, UNIT - 4] {
            assert_eq!(read(at.wrapping_byte_add(offset), 4), [byte; 4], "at {offset}");
        }
    };
    // One memory is exported while it is mapped, one after it was mapped, and one before it is
    // mapped for the first time.
    let [first, second, third] = [(); 3].map(|()| physical(block.first, UNIT));
    map(a, first);
    ok!(aclrtMemset(a, UNIT, 1, UNIT));
    let key = shareable(first);
    ok!(aclrtUnmapMem(a));
    map(b, second);
    ok!(aclrtMemset(b, UNIT, 2, UNIT));
    ok!(aclrtUnmapMem(b));
    shareable(second);
    shareable(third);
    assert_eq!(shareable(first).data, key.data, "it is exported once");
    map(b, second);
    is_filled(b, 2);
    map(behind, first);
    is_filled(behind, 1);
    // The two adjacent mappings can be used as one range.
    ok!(aclrtMemset(b, 2 * UNIT, 3, 2 * UNIT));
    ok!(aclrtUnmapMem(behind));
    fails!(107000, ["freed by aclrtUnmapMem"], aclrtMemset(behind, 8, 0, 8));
    map(behind, third);
    ok!(aclrtMemset(behind, UNIT, 4, UNIT));
    map(a, first);
    is_filled(a, 3);
    ok!(aclrtUnmapMem(a));
    // No other memory can be mapped where the exported memory has its bytes.
    let other = physical(block.first, UNIT);
    fails!(207000, ["physical memory has its bytes"], aclrtMapMem(a, UNIT, 0, other, 0));
    // The range can be released, and new memory gets other addresses.
    ok!(aclrtReleaseMemAddress(a));
    let c = reserve(4 * UNIT);
    map(c, other);
    ok!(aclrtMemset(c, UNIT, 9, UNIT));
    map(c.wrapping_byte_add(UNIT), first);
    is_filled(c.wrapping_byte_add(UNIT), 3);
    is_filled(behind, 4);
    is_filled(b, 3);
    for at in [b, behind, c, c.wrapping_byte_add(UNIT)] {
        ok!(aclrtUnmapMem(at));
    }
    for handle in [first, second, third, other] {
        ok!(aclrtFreePhysical(handle));
    }
    assert_eq!(free_bytes(), free);
    // The address of the released memory can be used again.
    let fresh = physical(block.first, UNIT);
    map(b, fresh);
    ok!(aclrtMemset(b, UNIT, 0, UNIT));
}

#[test]
fn exports_and_imports_of_physical_memory_that_are_wrong_are_refused() {
    let block = Block::one();
    let handle = physical(block.first, UNIT);
    let mut good = shareable(handle);
    let key: *mut c_void = (&raw mut good).cast();
    let (unknown, mut made, none) = (aclrtMemSharedHandleType(3), null_mut(), null_mut());
    macro_rules! refused {
        ($code:literal, [$said:literal], $name:ident($($argument:expr),*)) => {
            fails!($code, [$said], $name($($argument),*));
        };
    }
    refused!(100000, ["handle is NULL"], aclrtMemExportToShareableHandleV2(none, 0, FABRIC, key));
    refused!(
        100000,
        ["shareableHandle is NULL"],
        aclrtMemExportToShareableHandleV2(handle, 0, FABRIC, none)
    );
    refused!(107000, ["flags is 0x2"], aclrtMemExportToShareableHandleV2(handle, 2, FABRIC, key));
    refused!(
        107000,
        ["shareType is 3"],
        aclrtMemExportToShareableHandleV2(handle, 0, unknown, key)
    );
    refused!(
        107017,
        ["is not the handle of any physical memory"],
        aclrtMemExportToShareableHandleV2(key, 0, FABRIC, key)
    );

    refused!(
        107000,
        ["in the process that has exported it"],
        aclrtMemImportFromShareableHandleV2(key, FABRIC, 0, &mut made)
    );
    refused!(
        100000,
        ["shareableHandle is NULL"],
        aclrtMemImportFromShareableHandleV2(none, FABRIC, 0, &mut made)
    );
    refused!(
        100000,
        ["handle is NULL"],
        aclrtMemImportFromShareableHandleV2(key, FABRIC, 0, null_mut())
    );
    refused!(
        107000,
        ["flags is 0x1"],
        aclrtMemImportFromShareableHandleV2(key, FABRIC, 1, &mut made)
    );
    for at in [0, 3, 40, 63, 64, 127] {
        let mut damaged = good;
        damaged.data[at] ^= 0x11;
        let damaged = (&raw mut damaged).cast();
        let code = call!(aclrtMemImportFromShareableHandleV2(damaged, FABRIC, 0, &mut made));
        assert_eq!(code, 107000, "byte {at}: {}", message());
    }
    assert!(made.is_null());

    let mut pids = [1];
    let pid = pids.as_mut_ptr();
    ok!(aclrtMemSetPidToShareableHandleV2(key, FABRIC, pid, 1));
    refused!(
        100000,
        ["shareableHandle is NULL"],
        aclrtMemSetPidToShareableHandleV2(none, FABRIC, pid, 1)
    );
    refused!(
        100000,
        ["pid is NULL"],
        aclrtMemSetPidToShareableHandleV2(key, FABRIC, null_mut(), 1)
    );
    refused!(100000, ["num is 0"], aclrtMemSetPidToShareableHandleV2(key, FABRIC, pid, 0));
    pids[0] = 0;
    refused!(
        107000,
        ["pid 0"],
        aclrtMemSetPidToShareableHandleV2(key, FABRIC, pids.as_mut_ptr(), 1)
    );
    ok!(aclrtFreePhysical(handle));
    refused!(107017, ["was destroyed"], aclrtMemExportToShareableHandleV2(handle, 0, FABRIC, key));
    pids[0] = 1;
    refused!(
        107000,
        ["nothing is exported"],
        aclrtMemSetPidToShareableHandleV2(key, FABRIC, pids.as_mut_ptr(), 1)
    );
}

#[test]
fn numbers_of_exports_are_one_for_both_forms_and_refused_when_they_are_wrong() {
    let block = Block::one();
    let (handle, none) = (physical(block.first, UNIT), aclrtMemHandleType(0));
    let default = aclrtMemSharedHandleType::ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT;
    let (mut number, mut made, mut twice) = (0u64, null_mut(), [7u64; 2]);
    ok!(aclrtMemExportToShareableHandle(handle, none, 0, &mut number));
    // The value has 8 bytes, so the second number must stay unchanged.
    let at: *mut c_void = twice.as_mut_ptr().cast();
    ok!(aclrtMemExportToShareableHandleV2(handle, 0, default, at));
    assert_eq!(twice, [number, 7]);

    let (null, odd) = (null_mut(), aclrtMemHandleType(1));
    fails!(100000, ["handle is NULL"], aclrtMemExportToShareableHandle(null, none, 0, &mut number));
    fails!(
        107000,
        ["handleType is 1"],
        aclrtMemExportToShareableHandle(handle, odd, 0, &mut number)
    );
    fails!(107000, ["flags is 0x4"], aclrtMemExportToShareableHandle(handle, none, 4, &mut number));
    fails!(
        100000,
        ["shareableHandle is NULL"],
        aclrtMemExportToShareableHandle(handle, none, 0, null_mut())
    );

    let (own, first) = ("in the process that has exported it", block.first);
    fails!(107000, [own], aclrtMemImportFromShareableHandle(number, first, &mut made));
    fails!(107000, [own], aclrtMemImportFromShareableHandleV2(at, default, 0, &mut made));
    let nowhere = number ^ 1;
    fails!(
        107000,
        ["no process of this user has exported"],
        aclrtMemImportFromShareableHandle(nowhere, first, &mut made)
    );
    fails!(
        107001,
        ["there is no device"],
        aclrtMemImportFromShareableHandle(number, first + 1, &mut made)
    );
    fails!(
        100000,
        ["handle is NULL"],
        aclrtMemImportFromShareableHandle(number, first, null_mut())
    );
    let mut pids = [1];
    ok!(aclrtMemSetPidToShareableHandle(number, pids.as_mut_ptr(), 1));
    ok!(aclrtMemSetPidToShareableHandleV2(at, default, pids.as_mut_ptr(), 1));
    fails!(100000, ["pid is NULL"], aclrtMemSetPidToShareableHandle(number, null_mut(), 1));
    let pid = pids.as_mut_ptr();
    fails!(107000, ["nothing is exported"], aclrtMemSetPidToShareableHandle(nowhere, pid, 1));
    ok!(aclrtFreePhysical(handle));
    fails!(
        107000,
        ["no process of this user has exported"],
        aclrtMemImportFromShareableHandle(number, first, &mut made)
    );
    assert!(made.is_null());
}
