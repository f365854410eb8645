//! Tests of reserved addresses and physical memory: mapping, the bytes that stay, accounting, and
//! wrong arguments.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

pub const UNIT: usize = 2 << 20;

pub fn reserve(bytes: usize) -> *mut c_void {
    let mut start = null_mut();
    ok!(aclrtReserveMemAddress(&mut start, bytes, 0, null_mut(), 1));
    start
}

pub fn physical(device: i32, bytes: usize) -> aclrtDrvMemHandle {
    let mut handle = null_mut();
    ok!(aclrtMallocPhysical(&mut handle, bytes, &physical_properties(device), 0));
    handle
}

pub fn free_bytes() -> usize {
    let (mut free, mut total) = (0, 0);
    ok!(aclrtGetMemInfo(aclrtMemAttr::ACL_HBM_MEM, &mut free, &mut total));
    free
}

#[test]
fn pieces_side_by_side_are_used_as_one() {
    let block = Block::one();
    let (start, s) = (reserve(8 * UNIT), stream());
    let handles = [1, 2, 1].map(|units| physical(block.first, units * UNIT));
    ok!(aclrtMapMem(start, UNIT, 0, handles[0], 0));
    ok!(aclrtMapMem(start.wrapping_byte_add(UNIT), 2 * UNIT, 0, handles[1], 0));
    ok!(aclrtMapMem(start.wrapping_byte_add(3 * UNIT), UNIT, 0, handles[2], 0));
    ok!(aclrtMemsetAsync(start, 4 * UNIT, 7, 4 * UNIT, s));
    let other = malloc(4 * UNIT);
    ok!(aclrtMemcpyAsync(other, 4 * UNIT, start, 4 * UNIT, D2D, s));
    ok!(aclrtSynchronizeStream(s));
    assert!(read(other, 4 * UNIT).iter().all(|byte| *byte == 7));
    let mut attributes = aclrtPtrAttributes::default();
    ok!(aclrtPointerGetAttributes(start.wrapping_byte_add(3 * UNIT), &mut attributes));
    assert_eq!(attributes.location.id, block.first as u32);
    fails!(
        107000,
        ["reaches 1 byte beyond the end"],
        aclrtMemsetAsync(start, 4 * UNIT + 1, 0, 4 * UNIT + 1, s)
    );
    // A range must not include a gap without mapped memory.
    ok!(aclrtUnmapMem(start.wrapping_byte_add(UNIT)));
    fails!(107000, ["beyond the end"], aclrtMemset(start, 2 * UNIT, 0, 2 * UNIT));
    fails!(107000, ["freed by aclrtUnmapMem"], aclrtMemset(start.wrapping_byte_add(UNIT), 8, 0, 8));
    assert_eq!(read(start.wrapping_byte_add(3 * UNIT), 4), [7; 4]);
}

#[test]
fn bytes_stay_with_the_physical_memory() {
    let block = Block::one();
    let (a, b) = (reserve(2 * UNIT), reserve(2 * UNIT));
    let behind = a.wrapping_byte_add(UNIT);
    let (first, second) = (physical(block.first, UNIT), physical(block.first, UNIT));
    let map = |at, handle| ok!(aclrtMapMem(at, UNIT, 0, handle, 0));
    let is_filled = |at, byte: u8| {
        for offset in [0, UNIT / 2, UNIT - 4] {
            let at: *mut c_void = at;
            assert_eq!(read(at.wrapping_byte_add(offset), 4), [byte; 4], "at {offset}");
        }
    };
    map(a, first);
    ok!(aclrtMemset(a, UNIT, 1, UNIT));
    ok!(aclrtUnmapMem(a));
    // The memory is mapped at the same address again.
    map(a, first);
    is_filled(a, 1);
    ok!(aclrtUnmapMem(a));
    // Another memory is mapped at this address, and each memory keeps its own bytes.
    map(a, second);
    ok!(aclrtMemset(a, UNIT, 2, UNIT));
    map(behind, first);
    is_filled(behind, 1);
    is_filled(a, 2);
    // The memory moves to another range, and the first range is released.
    ok!(aclrtUnmapMem(a));
    ok!(aclrtUnmapMem(behind));
    map(b, first);
    is_filled(b, 1);
    ok!(aclrtReleaseMemAddress(a));
    map(b.wrapping_byte_add(UNIT), second);
    is_filled(b.wrapping_byte_add(UNIT), 2);
    fails!(107000, [], aclrtMemset(a, 8, 0, 8));
}

#[test]
fn physical_memory_counts_until_nothing_names_it() {
    let block = Block::one_with(AscendExtBlockConfig { memoryBytes: 4 << 20, ..Block::config() });
    let start = reserve(4 * UNIT);
    assert_eq!(free_bytes(), 2 * UNIT);
    let one = physical(block.first, UNIT);
    assert_eq!(free_bytes(), UNIT);
    let mut no = null_mut();
    fails!(
        207001,
        ["out of memory: 4194304 bytes", "2097152 of 4194304"],
        aclrtMallocPhysical(&mut no, 2 * UNIT, &physical_properties(block.first), 0)
    );
    fails!(207001, [], aclrtMalloc(&mut no, UNIT + 64, POLICY));
    ok!(aclrtMapMem(start, UNIT, 0, one, 0));
    // The handle gets a second reference, and is freed while the memory is mapped.
    let mut again = null_mut();
    ok!(aclrtMemRetainAllocationHandle(start.wrapping_byte_add(100), &mut again));
    assert_eq!(again, one);
    ok!(aclrtFreePhysical(one));
    let mut found = physical_properties(0);
    ok!(aclrtMemGetAllocationPropertiesFromHandle(one, &mut found));
    assert_eq!(
        (found.location.id, found.memAttr),
        (block.first as u32, aclrtMemAttr::ACL_HBM_MEM_HUGE)
    );
    ok!(aclrtFreePhysical(one));
    fails!(107017, ["physical memory"], aclrtFreePhysical(one));
    ok!(aclrtMemset(start, UNIT, 3, UNIT));
    assert_eq!(free_bytes(), UNIT);
    ok!(aclrtUnmapMem(start));
    assert_eq!(free_bytes(), 2 * UNIT);
    // Memory that was not freed ends with the device.
    let left = physical(block.first, UNIT);
    ok!(aclrtMapMem(start, UNIT, 0, left, 0));
    ok!(aclrtResetDevice(block.first));
    ok!(aclrtSetDevice(block.first));
    assert_eq!(free_bytes(), 2 * UNIT);
    fails!(107000, [], aclrtMemset(start, 8, 0, 8));
    fails!(107000, ["no reserved range"], aclrtReleaseMemAddress(start));
    fails!(107017, [], aclrtFreePhysical(left));
}

#[test]
fn a_mapping_gives_its_handle_back_after_the_last_reference_was_freed() {
    let block = Block::one();
    let (start, one) = (reserve(UNIT), physical(block.first, UNIT));
    let free = free_bytes();
    ok!(aclrtMapMem(start, UNIT, 0, one, 0));
    ok!(aclrtFreePhysical(one));
    fails!(107017, ["physical memory"], aclrtFreePhysical(one));
    let (mut again, mut found) = (null_mut(), physical_properties(0));
    ok!(aclrtMemRetainAllocationHandle(start, &mut again));
    assert_eq!(again, one);
    ok!(aclrtMemGetAllocationPropertiesFromHandle(again, &mut found));
    assert_eq!(found.location.id, block.first as u32);
    ok!(aclrtUnmapMem(start));
    assert_eq!(free_bytes(), free, "the reference holds it");
    ok!(aclrtFreePhysical(again));
    assert_eq!(free_bytes(), free + UNIT);
}

#[test]
fn memory_that_moves_leaves_nothing_at_its_old_place() {
    let block = Block::one();
    let (a, b) = (reserve(UNIT), reserve(UNIT));
    let [first, fresh] = [0; 2].map(|_| physical(block.first, UNIT));
    ok!(aclrtMapMem(a, UNIT, 0, first, 0));
    ok!(aclrtMemset(a, UNIT, 7, UNIT));
    ok!(aclrtUnmapMem(a));
    ok!(aclrtMapMem(b, UNIT, 0, first, 0));
    ok!(aclrtMapMem(a, UNIT, 0, fresh, 0));
    assert!(read(b, UNIT).iter().all(|byte| *byte == 7));
    assert!(read(a, UNIT).iter().all(|byte| *byte == 0), "the pages stayed behind");
}

#[test]
fn a_device_that_was_told_to_be_out_of_memory_has_no_physical_memory_either() {
    let block = Block::one();
    let size = size_of::<AscendExtFault>() as u32;
    let kind = AscendExtFaultKind::ASCEND_EXT_FAULT_OUT_OF_MEMORY.0;
    let fault = AscendExtFault { size, kind, device: 0, milliseconds: 0, number: 2 };
    ok!(ascendExtFaultSet(block.number, &fault));
    let before = free_bytes();
    let _first = malloc(64);
    let (used, mut handle) = (before - free_bytes(), null_mut());
    for _ in 0..2 {
        let good = physical_properties(block.first);
        fails!(207001, ["this fault"], aclrtMallocPhysical(&mut handle, UNIT, &good, 0));
    }
    assert_eq!(free_bytes(), before - used);
}

#[test]
fn each_of_some_neighbours_has_an_address_range_of_its_own() {
    let block = Block::one();
    let start = reserve(4 * UNIT);
    let at = |units: usize| start.wrapping_byte_add(units * UNIT);
    let pieces = [(0, 1), (1, 2), (3, 1)];
    for (unit, units) in pieces {
        ok!(aclrtMapMem(at(unit), units * UNIT, 0, physical(block.first, units * UNIT), 0));
    }
    for (unit, units) in pieces {
        let (mut base, mut size) = (null_mut(), 0);
        for inside in [0, 100, units * UNIT - 1] {
            let pointer = at(unit).wrapping_byte_add(inside);
            ok!(aclrtMemGetAddressRange(pointer, &mut base, &mut size));
            assert_eq!((base, size), (at(unit), units * UNIT), "{inside} bytes inside");
        }
    }
}

#[test]
fn a_graph_finds_out_that_its_memory_was_unmapped() {
    let block = Block::one();
    let (start, s, one) = (reserve(UNIT), stream(), physical(block.first, UNIT));
    ok!(aclrtMapMem(start, UNIT, 0, one, 0));
    let mut graph = null_mut();
    ok!(aclmdlRICaptureBegin(s, aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    ok!(aclrtMemsetAsync(start, 64, 5, 64, s));
    ok!(aclmdlRICaptureEnd(s, &mut graph));
    ok!(aclmdlRIExecuteAsync(graph, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(start, 64), [5; 64]);
    ok!(aclrtUnmapMem(start));
    fails!(107000, ["aclrtUnmapMem"], aclmdlRIExecuteAsync(graph, s));
    ok!(aclmdlRIDestroy(graph));
}

#[test]
fn wrong_arguments_of_virtual_memory_are_named() {
    let block = Block::new(2);
    ok!(aclrtSetDevice(block.first));
    let (mut at, mut handle, mut size) = (null_mut(), null_mut(), 0);
    let good = physical_properties(block.first);
    fails!(100000, ["virPtr is NULL"], aclrtReserveMemAddress(null_mut(), UNIT, 0, null_mut(), 0));
    fails!(100000, ["size is 0"], aclrtReserveMemAddress(&mut at, 0, 0, null_mut(), 0));
    fails!(107000, ["alignment"], aclrtReserveMemAddress(&mut at, UNIT, 64, null_mut(), 0));
    for bytes in [usize::MAX, 1 << 62] {
        fails!(
            207005,
            ["no address space"],
            aclrtReserveMemAddress(&mut at, bytes, 0, null_mut(), 0)
        );
    }
    let wish = (1usize << 40) as *mut c_void;
    fails!(207000, ["expectPtr"], aclrtReserveMemAddressNoUCMemory(&mut at, UNIT, 0, wish, 0));

    fails!(100000, ["handle is NULL"], aclrtMallocPhysical(null_mut(), UNIT, &good, 0));
    fails!(100000, ["prop is NULL"], aclrtMallocPhysical(&mut handle, UNIT, std::ptr::null(), 0));
    fails!(100000, ["size is 0"], aclrtMallocPhysical(&mut handle, 0, &good, 0));
    fails!(107000, ["flags is 0x1"], aclrtMallocPhysical(&mut handle, UNIT, &good, 1));
    fails!(107000, ["multiple of 2097152"], aclrtMallocPhysical(&mut handle, UNIT + 1, &good, 0));
    fails!(207001, [], aclrtMallocPhysical(&mut handle, usize::MAX & !(UNIT - 1), &good, 0));
    fails!(107001, [], aclrtMallocPhysical(&mut handle, UNIT, &physical_properties(-1), 0));
    let host = aclrtMemLocation { type_: aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_HOST, id: 0 };
    let on_host = aclrtPhysicalMemProp { location: host, ..good };
    fails!(207000, ["location of type 0"], aclrtMallocPhysical(&mut handle, UNIT, &on_host, 0));
    let small = aclrtPhysicalMemProp { memAttr: aclrtMemAttr::ACL_HBM_MEM_NORMAL, ..good };
    fails!(207000, ["memAttr 5"], aclrtMallocPhysical(&mut handle, UNIT, &small, 0));
    let odd = aclrtPhysicalMemProp { handleType: aclrtMemHandleType(1), ..good };
    fails!(107000, ["handleType 1"], aclrtMallocPhysical(&mut handle, UNIT, &odd, 0));

    let mut prop = good;
    let least = aclrtMemGranularityOptions::ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM;
    ok!(aclrtMemGetAllocationGranularity(&mut prop, least, &mut size));
    assert_eq!(size, UNIT);
    fails!(100000, ["prop"], aclrtMemGetAllocationGranularity(null_mut(), least, &mut size));
    fails!(100000, ["granularity"], aclrtMemGetAllocationGranularity(&mut prop, least, null_mut()));
    let undefined = aclrtMemGranularityOptions::ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF;
    fails!(
        107000,
        ["option is 65535"],
        aclrtMemGetAllocationGranularity(&mut prop, undefined, &mut size)
    );

    let start = reserve(4 * UNIT);
    let [one, two] = [1, 2].map(|units| physical(block.first, units * UNIT));
    let second = start.wrapping_byte_add(UNIT);
    fails!(100000, ["virPtr is NULL"], aclrtMapMem(null_mut(), UNIT, 0, one, 0));
    fails!(100000, ["handle is NULL"], aclrtMapMem(start, UNIT, 0, null_mut(), 0));
    fails!(100000, ["size is 0"], aclrtMapMem(start, 0, 0, one, 0));
    fails!(107000, ["offset is 0x200000"], aclrtMapMem(start, UNIT, UNIT, two, 0));
    fails!(107000, ["flags is 0x2"], aclrtMapMem(start, UNIT, 0, one, 2));
    fails!(107000, ["has 2097152 bytes"], aclrtMapMem(start, 2 * UNIT, 0, one, 0));
    fails!(107008, ["multiples of"], aclrtMapMem(start.wrapping_byte_add(4096), UNIT, 0, one, 0));
    fails!(107017, ["physical memory"], aclrtMapMem(start, UNIT, 0, start, 0));
    fails!(107000, ["in no reserved range"], aclrtMapMem(malloc(4 * UNIT), 2 * UNIT, 0, two, 0));
    let last = start.wrapping_byte_add(3 * UNIT);
    fails!(107000, ["in no reserved range"], aclrtMapMem(last, 2 * UNIT, 0, two, 0));
    ok!(aclrtMapMem(second, UNIT, 0, one, 0));
    fails!(207000, ["at one place only"], aclrtMapMem(start, UNIT, 0, one, 0));
    fails!(107000, ["overlaps"], aclrtMapMem(start, 2 * UNIT, 0, two, 0));
    let foreign = physical(block.first + 1, UNIT);
    fails!(107000, ["memory of one device"], aclrtMapMem(start, UNIT, 0, foreign, 0));
    fails!(107000, ["first"], aclrtReleaseMemAddress(start));
    fails!(107000, ["no reserved range"], aclrtReleaseMemAddress(second));
    fails!(107000, ["begins at"], aclrtUnmapMem(start));
    fails!(107000, ["no memory is mapped"], aclrtMemRetainAllocationHandle(start, &mut handle));
    fails!(107000, ["aclrtUnmapMem ends it"], aclrtFree(second));
    let mut key = [0; 65];
    fails!(207000, ["aclrtMapMem"], aclrtIpcMemGetExportKey(second, UNIT, key.as_mut_ptr(), 65, 1));
    // When no memory of the first device is mapped any more, memory of another device can be
    // mapped.
    ok!(aclrtUnmapMem(second));
    ok!(aclrtMapMem(start, UNIT, 0, foreign, 0));
    let mut attributes = aclrtPtrAttributes::default();
    ok!(aclrtPointerGetAttributes(start, &mut attributes));
    assert_eq!(attributes.location.id, block.first as u32 + 1);
    fails!(100000, ["virPtr is NULL"], aclrtUnmapMem(null_mut()));
    fails!(100000, ["virPtr is NULL"], aclrtReleaseMemAddress(null_mut()));
    fails!(100000, ["handle is NULL"], aclrtFreePhysical(null_mut()));
}

fn given(device: i32, flags: u32) -> aclrtMemAccessDesc {
    let location = physical_properties(device).location;
    aclrtMemAccessDesc { flags: aclrtMemAccessFlags(flags), location, rsv: [0; 12] }
}

fn right(at: *mut c_void, device: i32) -> u64 {
    let (mut location, mut flag) = (physical_properties(device).location, 7);
    ok!(aclrtMemGetAccess(at, &mut location, &mut flag));
    flag
}

#[test]
fn rights_are_those_of_pieces_and_end_with_them() {
    let block = Block::with(AscendExtBlockConfig { deviceCount: 2, product: 2, ..Block::config() });
    let (own, other) = (block.first, block.first + 1);
    ok!(aclrtSetDevice(own));
    let start = reserve(4 * UNIT);
    let second = start.wrapping_byte_add(UNIT);
    for at in [start, second] {
        let handle = physical(own, UNIT);
        ok!(aclrtMapMem(at, UNIT, 0, handle, 0));
        ok!(aclrtFreePhysical(handle));
    }
    let rights = || [start, second].map(|at| [own, other].map(|device| right(at, device)));
    assert_eq!(rights(), [[3, 0], [3, 0]]);
    // The other device reaches the memory as soon as it has the right to access it.
    ok!(aclrtSetDevice(other));
    let (theirs, s) = (malloc(64), stream());
    let no = "no access between devices";
    fails!(107000, [no], aclrtMemcpyAsync(theirs, 64, second, 64, D2D, s));
    let inside = second.wrapping_byte_add(UNIT - 1);
    ok!(aclrtMemSetAccess(second, UNIT, [given(other, 1), given(own, 0)].as_mut_ptr(), 2));
    assert_eq!((rights(), right(inside, other)), ([[3, 0], [0, 1]], 1));
    ok!(aclrtMemSetAccess(start, 2 * UNIT, &mut given(other, 3), 1));
    assert_eq!(rights(), [[3, 3], [0, 3]]);
    ok!(aclrtMemcpyAsync(theirs, 64, second, 64, D2D, s));
    ok!(aclrtSynchronizeStream(s));
    // New memory at the same address does not have the rights of the earlier memory.
    ok!(aclrtUnmapMem(second));
    ok!(aclrtMapMem(second, UNIT, 0, physical(own, UNIT), 0));
    assert_eq!(rights(), [[3, 3], [3, 0]]);
}

#[test]
fn rights_that_are_wrong_are_refused_and_none_is_given() {
    let (block, other) = (Block::one(), Block::new(1));
    let start = reserve(4 * UNIT);
    ok!(aclrtMapMem(start, 2 * UNIT, 0, physical(block.first, 2 * UNIT), 0));
    let (good, mut value) = (given(block.first, 1), 0);
    let set = |code: i32, said: &str, bytes: usize, mut desc: aclrtMemAccessDesc| {
        fails!(code, [said], aclrtMemSetAccess(start, bytes, &mut desc, 1));
    };
    set(100000, "size is 0", 0, good);
    set(107000, "not made of whole pieces", UNIT, good);
    set(107000, "not made of whole pieces", 3 * UNIT, good);
    set(107000, "not made of whole pieces", usize::MAX, good);
    set(107000, "flags 2", 2 * UNIT, given(block.first, 2));
    set(107001, "there is no device", 2 * UNIT, given(block.first + 1, 1));
    set(107000, "different blocks", 2 * UNIT, given(other.first, 1));
    let mut host = good;
    host.location.type_ = aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_HOST;
    set(207000, "type 0", 2 * UNIT, host);
    let (mut desc, none) = (good, null_mut());
    let behind = start.wrapping_byte_add(2 * UNIT);
    fails!(100000, ["virPtr is NULL"], aclrtMemSetAccess(none, UNIT, &mut desc, 1));
    fails!(100000, ["desc is NULL"], aclrtMemSetAccess(start, UNIT, null_mut(), 1));
    fails!(107000, ["count is 0"], aclrtMemSetAccess(start, UNIT, &mut desc, 0));
    fails!(107000, ["count is"], aclrtMemSetAccess(start, UNIT, &mut desc, usize::MAX));
    fails!(107000, ["whole pieces"], aclrtMemSetAccess(behind, UNIT, &mut desc, 1));
    // One of the two descriptions is wrong, so neither of them may take effect.
    let mut two = [good, given(block.first, 7)];
    fails!(107000, ["flags 7"], aclrtMemSetAccess(start, 2 * UNIT, two.as_mut_ptr(), 2));
    assert_eq!(right(start, block.first), 3);

    let mut location = good.location;
    fails!(100000, ["virPtr is NULL"], aclrtMemGetAccess(none, &mut location, &mut value));
    fails!(100000, ["location is NULL"], aclrtMemGetAccess(start, null_mut(), &mut value));
    fails!(100000, ["flag is NULL"], aclrtMemGetAccess(start, &mut location, null_mut()));
    fails!(107000, ["no memory is mapped"], aclrtMemGetAccess(behind, &mut location, &mut value));
    fails!(207000, ["type 0"], aclrtMemGetAccess(start, &mut host.location, &mut value));
}
