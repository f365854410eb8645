//! Physical memory that one process exports and another maps.

use std::ffi::c_void;
use std::ptr::null_mut;

use ascend_emulator_testing::common::{Block, D2D, malloc, read, stream, write};
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;

use super::own_process;
use super::pair::other;

const UNIT: usize = 2 << 20;
const FABRIC: aclrtMemSharedHandleType = aclrtMemSharedHandleType::ACL_MEM_SHARE_HANDLE_TYPE_FABRIC;
const OPEN: u64 = ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION;

fn reserve() -> *mut c_void {
    let mut start = null_mut();
    ok!(aclrtReserveMemAddress(&mut start, 4 * UNIT, 0, null_mut(), 1));
    start
}

fn physical() -> aclrtDrvMemHandle {
    let mut device = 0;
    ok!(aclrtGetDevice(&mut device));
    let kind = aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE;
    let properties = aclrtPhysicalMemProp {
        memAttr: aclrtMemAttr::ACL_HBM_MEM_HUGE,
        location: aclrtMemLocation { id: device as u32, type_: kind },
        ..aclrtPhysicalMemProp::default()
    };
    let mut handle = null_mut();
    ok!(aclrtMallocPhysical(&mut handle, UNIT, &properties, 0));
    handle
}

/// Maps a page of memory with a pattern of this seed. Returns its handle and its address.
fn mapped(seed: u8) -> (aclrtDrvMemHandle, *mut c_void) {
    let (handle, start) = (physical(), reserve());
    ok!(aclrtMapMem(start, UNIT, 0, handle, 0));
    write(start, &pattern(seed));
    (handle, start)
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..UNIT).map(|at| (at >> 12) as u8 ^ seed).collect()
}

/// Returns the export as text, which one process can send to the other.
fn export(handle: aclrtDrvMemHandle, flags: u64) -> String {
    let mut shareable = aclrtMemFabricHandle { data: [7; 128] };
    let to = (&raw mut shareable).cast();
    ok!(aclrtMemExportToShareableHandleV2(handle, flags, FABRIC, to));
    shareable.data.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn shareable(text: &str) -> aclrtMemFabricHandle {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    aclrtMemFabricHandle { data: std::array::from_fn(byte) }
}

fn import(text: &str) -> aclrtDrvMemHandle {
    let (mut shareable, mut handle) = (shareable(text), null_mut());
    let from = (&raw mut shareable).cast();
    ok!(aclrtMemImportFromShareableHandleV2(from, FABRIC, 0, &mut handle));
    handle
}

#[test]
fn the_pages_are_those_of_the_exporter_wherever_they_are_mapped() {
    let Some(mut other) = other(
        "ipc::physical::the_pages_are_those_of_the_exporter_wherever_they_are_mapped",
        |talk| {
            let (handle, start, second) = (import(&talk.next()), reserve(), reserve());
            let mut properties = aclrtPhysicalMemProp::default();
            ok!(aclrtMemGetAllocationPropertiesFromHandle(handle, &mut properties));
            assert_eq!(properties.memAttr, aclrtMemAttr::ACL_HBM_MEM_HUGE);
            ok!(aclrtMapMem(start, UNIT, 0, handle, 0));
            assert!(read(start, UNIT) == pattern(1));
            fails!(
                ACL_ERROR_RT_PARAM_INVALID,
                ["reaches 1 byte beyond the end", "of process", "aclrtMapMem"],
                aclrtMemset(start, UNIT + 1, 0, UNIT + 1)
            );
            fails!(ACL_ERROR_RT_PARAM_INVALID, ["aclrtUnmapMem ends it"], aclrtFree(start));
            let (stream, own) = (stream(), malloc(UNIT));
            write(own, &pattern(2));
            ok!(aclrtMemcpyAsync(start, UNIT, own, UNIT, D2D, stream));
            ok!(aclrtSynchronizeStream(stream));
            talk.say("written");
            talk.next();
            assert!(read(start, UNIT) == pattern(3));
            // The memory is mapped at another address, and then again at the first one.
            ok!(aclrtUnmapMem(start));
            fails!(107000, ["freed by aclrtUnmapMem"], aclrtMemset(start, 8, 0, 8));
            ok!(aclrtMapMem(second, UNIT, 0, handle, 0));
            assert!(read(second, UNIT) == pattern(3));
            ok!(aclrtUnmapMem(second));
            ok!(aclrtMapMem(start, UNIT, 0, handle, 0));
            assert!(read(start, UNIT) == pattern(3));
            // A range has either own memory or imported memory.
            let (mine, behind) = (physical(), start.wrapping_byte_add(UNIT));
            fails!(107000, ["but not both"], aclrtMapMem(behind, UNIT, 0, mine, 0));
            // Own memory at an address that had imported memory has its own bytes.
            ok!(aclrtMapMem(second, UNIT, 0, mine, 0));
            ok!(aclrtMemset(second, UNIT, 9, UNIT));
            assert!(read(start, UNIT) == pattern(3));
            let mut to = aclrtMemFabricHandle { data: [0; 128] };
            let to = (&raw mut to).cast();
            fails!(
                107000,
                ["belongs to process"],
                aclrtMemExportToShareableHandleV2(handle, 0, FABRIC, to)
            );
            talk.say("read");
            talk.next();
        },
    ) else {
        return;
    };
    let _block = Block::one();
    let (handle, start) = mapped(1);
    assert_eq!(other.ask(&export(handle, OPEN)), "written");
    assert!(read(start, UNIT) == pattern(2));
    // The memory is mapped at another address, and the other process still sees it.
    let elsewhere = reserve();
    ok!(aclrtUnmapMem(start));
    ok!(aclrtMapMem(elsewhere, UNIT, 0, handle, 0));
    assert!(read(elsewhere, UNIT) == pattern(2));
    write(elsewhere, &pattern(3));
    assert_eq!(other.ask("changed"), "read");
    assert!(read(elsewhere, UNIT) == pattern(3));
    other.say("end");
    other.end();
}

#[test]
fn a_number_leads_to_the_process_that_has_exported_under_it() {
    let Some(mut other) =
        other("ipc::physical::a_number_leads_to_the_process_that_has_exported_under_it", |talk| {
            let mut number = talk.next().parse::<u64>().unwrap();
            let (mut device, mut first, mut second) = (0, null_mut(), null_mut());
            ok!(aclrtGetDevice(&mut device));
            let fails_with = |piece: &str| {
                let mut handle = null_mut();
                fails!(
                    ACL_ERROR_RT_IPC_ERROR,
                    [piece],
                    aclrtMemImportFromShareableHandle(number, device, &mut handle)
                );
            };
            fails_with("may not import it; permitted are [1]");
            talk.say(own_process());
            talk.next();
            ok!(aclrtMemImportFromShareableHandle(number, device, &mut first));
            let (default, from) = (
                aclrtMemSharedHandleType::ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT,
                (&raw mut number).cast(),
            );
            ok!(aclrtMemImportFromShareableHandleV2(from, default, 0, &mut second));
            // Each of the two handles can be mapped, and is the same memory.
            let (a, b) = (reserve(), reserve());
            ok!(aclrtMapMem(a, UNIT, 0, first, 0));
            ok!(aclrtMapMem(b, UNIT, 0, second, 0));
            assert!(read(a, UNIT) == pattern(5));
            write(a, &pattern(6));
            assert!(read(b, UNIT) == pattern(6));
            talk.say("written");
            talk.next();
        })
    else {
        return;
    };
    let _block = Block::one();
    let (handle, start) = mapped(5);
    let (mut number, kind) = (0, aclrtMemHandleType::ACL_MEM_HANDLE_TYPE_NONE);
    ok!(aclrtMemExportToShareableHandle(handle, kind, 0, &mut number));
    ok!(aclrtMemSetPidToShareableHandle(number, [1].as_mut_ptr(), 1));
    let mut process = other.ask(&number.to_string()).parse::<i32>().unwrap();
    ok!(aclrtMemSetPidToShareableHandle(number, &mut process, 1));
    assert_eq!(other.ask("permitted"), "written");
    assert!(read(start, UNIT) == pattern(6));
    other.say("end");
    other.end();
}

#[test]
fn only_permitted_processes_import_physical_memory() {
    let Some(mut other) =
        other("ipc::physical::only_permitted_processes_import_physical_memory", |talk| {
            talk.say(own_process());
            let text = talk.next();
            let (mut key, mut handle) = (shareable(&text), null_mut());
            let key = (&raw mut key).cast();
            fails!(
                ACL_ERROR_RT_IPC_ERROR,
                ["may not import it"],
                aclrtMemImportFromShareableHandleV2(key, FABRIC, 0, &mut handle)
            );
            assert!(handle.is_null());
            fails!(
                ACL_ERROR_RT_PARAM_INVALID,
                ["only that process may permit imports"],
                aclrtMemSetPidToShareableHandleV2(key, FABRIC, [own_process()].as_mut_ptr(), 1)
            );
            talk.say("refused");
            talk.next();
            import(&text);
            talk.say("imported");
            talk.next();
        })
    else {
        return;
    };
    let _block = Block::one();
    let (handle, _) = mapped(4);
    let mut process = other.hear().parse::<i32>().unwrap();
    let text = export(handle, 0);
    assert_eq!(other.ask(&text), "refused");
    let mut key = shareable(&text);
    let key = (&raw mut key).cast();
    ok!(aclrtMemSetPidToShareableHandleV2(key, FABRIC, &mut process, 1));
    assert_eq!(other.ask("permitted"), "imported");
    other.say("end");
    other.end();
}

#[test]
fn an_importer_keeps_the_pages_that_the_exporter_has_freed() {
    let Some(mut other) =
        other("ipc::physical::an_importer_keeps_the_pages_that_the_exporter_has_freed", |talk| {
            let (text, start) = (talk.next(), reserve());
            let handle = import(&text);
            ok!(aclrtMapMem(start, UNIT, 0, handle, 0));
            talk.say("mapped");
            talk.next();
            assert!(read(start, UNIT) == pattern(5));
            // No other import gets it.
            let (mut key, mut again) = (shareable(&text), null_mut());
            let key = (&raw mut key).cast();
            fails!(
                ACL_ERROR_RT_IPC_ERROR,
                ["not exported by this key any more"],
                aclrtMemImportFromShareableHandleV2(key, FABRIC, 0, &mut again)
            );
            ok!(aclrtUnmapMem(start));
            ok!(aclrtFreePhysical(handle));
            fails!(107017, ["was destroyed"], aclrtMapMem(start, UNIT, 0, handle, 0));
            talk.say("let go");
            talk.next();
        })
    else {
        return;
    };
    let _block = Block::one();
    let (handle, start) = mapped(5);
    assert_eq!(other.ask(&export(handle, OPEN)), "mapped");
    ok!(aclrtUnmapMem(start));
    ok!(aclrtFreePhysical(handle));
    let new = physical();
    fails!(207000, ["physical memory has its bytes"], aclrtMapMem(start, UNIT, 0, new, 0));
    ok!(aclrtReleaseMemAddress(start));
    // New memory has other pages as long as the other process has those pages.
    for _ in 0..4 {
        mapped(6);
    }
    assert_eq!(other.ask("freed"), "let go");
    // This process gets a message about the release, and later the addresses are free.
    mapped(6);
    other.say("end");
    other.end();
}

#[test]
fn a_reset_of_the_exporter_ends_the_memory_of_its_device_only() {
    let Some(mut other) = other(
        "ipc::physical::a_reset_of_the_exporter_ends_the_memory_of_its_device_only",
        |talk| {
            let (start, second) = (reserve(), reserve());
            let (handle, kept) = (import(&talk.next()), import(&talk.next()));
            ok!(aclrtMapMem(start, UNIT, 0, handle, 0));
            ok!(aclrtMapMem(second, UNIT, 0, kept, 0));
            talk.say("mapped");
            talk.next();
            // The exporter sends a message, and this process receives it.
            while call!(aclrtMemset(start, 8, 0, 8)) == 0 {
                std::thread::yield_now();
            }
            fails!(107000, ["whose device was reset"], aclrtMemset(start, 8, 0, 8));
            assert!(read(second, UNIT) == pattern(8));
            ok!(aclrtReleaseMemAddress(start));
            ok!(aclrtUnmapMem(second));
            ok!(aclrtFreePhysical(kept));
            ok!(aclrtReleaseMemAddress(second));
            talk.say("gone");
            talk.next();
        },
    ) else {
        return;
    };
    let block = Block::new(2);
    ok!(aclrtSetDevice(block.first + 1));
    let (kept, _) = mapped(8);
    ok!(aclrtSetDevice(block.first));
    let (handle, _) = mapped(7);
    other.say(&export(handle, OPEN));
    assert_eq!(other.ask(&export(kept, OPEN)), "mapped");
    ok!(aclrtResetDeviceForce(block.first));
    assert_eq!(other.ask("reset"), "gone");
    other.say("end");
    other.end();
}
