//! Tests of allocation: accounting, out of memory, freeing memory that a pending task uses, and
//! pinned and registered host memory.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{fails, ok};
use ascend_sys::*;
use std::ptr::null_mut;

fn free_bytes() -> usize {
    let (mut free, mut total) = (0, 0);
    ok!(aclrtGetMemInfo(aclrtMemAttr::ACL_HBM_MEM, &mut free, &mut total));
    free
}

#[test]
fn memory_is_accounted_and_runs_out() {
    let _block = Block::one_with(AscendExtBlockConfig { memoryBytes: 1 << 20, ..Block::config() });
    let mut p = null_mut();
    assert_eq!(free_bytes(), 1 << 20);
    let a = malloc(1000);
    ok!(aclrtFree(a));
    fails!(
        207001,
        ["1048577 bytes", "1048576 of 1048576 are free"],
        aclrtMalloc(&mut p, (1 << 20) + 1, POLICY)
    );
    fails!(207001, [], aclrtMalloc(&mut p, usize::MAX, POLICY));
    fails!(100000, ["size is 0"], aclrtMalloc(&mut p, 0, POLICY));
    fails!(100000, ["devPtr is NULL"], aclrtMalloc(null_mut(), 8, POLICY));
    fails!(100000, ["devPtr is NULL"], aclrtFree(null_mut()));
    let all: Vec<_> = (0..16).map(|_| malloc(65_536 - 32)).collect();
    assert_eq!(free_bytes(), 0);
    fails!(207001, ["0 of 1048576"], aclrtMalloc(&mut p, 1, POLICY));
    all.into_iter().for_each(|p| ok!(aclrtFree(p)));
    assert_eq!(free_bytes(), 1 << 20);
}

#[test]
fn device_memory_is_aligned_to_64_bytes() {
    for product in [2, 3, 950] {
        let _block = Block::one_with(AscendExtBlockConfig { product, ..Block::config() });
        for bytes in [1, 31, 32, 33, 64, 65, 1000, 4097, (1 << 20) + 1, (2 << 20) + 1] {
            let address = malloc(bytes).addr();
            assert!(address.is_multiple_of(64), "{bytes} bytes at {address:#x}");
        }
    }
}

#[test]
fn a_device_of_950_does_not_pad() {
    let _block = Block::one_with(AscendExtBlockConfig {
        memoryBytes: 1 << 20,
        product: 950,
        ..Block::config()
    });
    let before = free_bytes();
    malloc(33);
    assert_eq!(before - free_bytes(), 64);
}

#[test]
fn freed_memory_is_not_reused_under_a_queued_task() {
    let _block = Block::one_with(AscendExtBlockConfig { memoryBytes: 1 << 20, ..Block::config() });
    let (s, gate) = (stream(), Gate::new());
    let a = malloc(600_000);
    gate.close(s);
    ok!(aclrtMemsetAsync(a, 600_000, 7, 600_000, s));
    ok!(aclrtFree(a));
    fails!(107000, ["freed by aclrtFree"], aclrtMemsetAsync(a, 8, 7, 8, s));
    let b = malloc(600_000);
    assert!(b.addr() >= a.addr() + 600_000 || b.addr() + 600_000 <= a.addr());
    ok!(aclrtMemset(b, 600_000, 1, 600_000));
    gate.open();
    ok!(aclrtSynchronizeStream(s));
    assert!(read(b, 600_000).iter().all(|&byte| byte == 1));
    // After the task has run, the freed memory can be used again.
    ok!(aclrtFree(b));
    assert_eq!(malloc(600_000), a);
}

#[test]
fn free_with_synchronise_waits() {
    let _block = Block::one();
    let (a, s, gate) = (malloc(8), stream(), Gate::new());
    gate.close(s);
    ok!(aclrtMemsetAsync(a, 8, 7, 8, s));
    let opener = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        gate.open();
    });
    ok!(aclrtFreeWithDevSync(a));
    assert!(idle(s));
    opener.join().unwrap();
}

#[test]
fn where_a_pointer_lives() {
    let block = Block::one();
    let (device, pinned, mut pageable) = (malloc(64), malloc_host(64), [0u8; 64]);
    let location = |pointer: *const std::ffi::c_void| {
        // SAFETY: all zeros are valid for a plain C struct of numbers.
        let mut attributes: aclrtPtrAttributes = unsafe { std::mem::zeroed() };
        ok!(aclrtPointerGetAttributes(pointer, &mut attributes));
        attributes.location
    };
    assert_eq!(location(device).type_, aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE);
    assert_eq!(location(device).id, block.first as u32);
    assert_eq!(location(pinned).type_, aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_HOST);
    let unregistered = aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    assert_eq!(location(pageable.as_ptr().cast()).type_, unregistered);
    fails!(107000, ["aclrtFreeHost frees it"], aclrtFree(pinned));
    fails!(107000, ["aclrtFree frees it"], aclrtFreeHost(device));
    fails!(107000, ["pageable host memory"], aclrtFreeHost(pageable.as_mut_ptr().cast()));
    fails!(107000, ["8 bytes inside allocation #"], aclrtFree(device.wrapping_byte_add(8)));
    ok!(aclrtFreeHost(pinned));
    fails!(107000, ["pinned host memory", "freed by aclrtFreeHost"], aclrtFreeHost(pinned));
    let (mut base, mut size) = (null_mut(), 0);
    ok!(aclrtMemGetAddressRange(device.wrapping_byte_add(5), &mut base, &mut size));
    assert_eq!((base, size), (device, 64));
}

#[test]
fn registered_memory_counts_as_pinned() {
    let _block = Block::one();
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let mut page = Box::new(Page([3; 4096]));
    let host: *mut std::ffi::c_void = page.0.as_mut_ptr().cast();
    let mut mapped = null_mut();
    let kind = aclrtHostRegisterType(0);
    fails!(
        107008,
        ["aligned to 4096"],
        aclrtHostRegister(host.wrapping_byte_add(8), 64, kind, &mut mapped)
    );
    ok!(aclrtHostRegister(host, 4096, kind, &mut mapped));
    fails!(507910, [], aclrtHostRegister(host, 4096, kind, &mut mapped));
    let (device, s, gate) = (malloc(4096), stream(), Gate::new());
    gate.close(s);
    ok!(aclrtMemcpyAsync(device, 4096, host, 4096, H2D, s));
    assert!(!idle(s), "the copy did not wait");
    gate.open();
    ok!(aclrtHostUnregister(host));
    assert_eq!(read(device, 4096), [3; 4096]);
    fails!(507911, [], aclrtHostUnregister(host));
    drop(page);
}

#[test]
fn a_thousand_devices_in_a_block() {
    let block =
        Block::with(AscendExtBlockConfig { deviceCount: 1000, memoryBytes: 0, ..Block::config() });
    ok!(aclrtSetDevice(block.first + 999));
    let a = malloc(64);
    write(a, &[4; 64]);
    assert_eq!(read(a, 64), [4; 64]);
}

#[test]
fn memory_is_registered_by_flags_and_its_address_on_the_device_is_asked_for() {
    let _block = Block::one();
    #[repr(align(4096))]
    struct Page([u8; 8192]);
    let mut page = Box::new(Page([3; 8192]));
    let host: *mut std::ffi::c_void = page.0.as_mut_ptr().cast();
    let inside = host.wrapping_byte_add(100);
    let mut there = null_mut();
    let (mapped, pinned) = (ACL_HOST_REG_MAPPED as u32, ACL_HOST_REG_PINNED as u32);
    fails!(507911, ["not in registered memory"], aclrtHostGetDevicePointer(inside, &mut there, 0));
    fails!(107000, ["flag is 0x0"], aclrtHostRegisterV2(host, 4096, 0));
    fails!(107000, ["flag is 0x3"], aclrtHostRegisterV2(host, 4096, mapped | 1));
    let io = ACL_HOST_REG_IOMEMORY as u32;
    fails!(207000, ["I/O memory"], aclrtHostRegisterV2(host, 4096, mapped | io));
    fails!(107008, ["aligned to 4096"], aclrtHostRegisterV2(inside, 64, mapped));
    fails!(100000, ["ptr is NULL"], aclrtHostRegisterV2(null_mut(), 64, mapped));
    fails!(100000, ["size is 0"], aclrtHostRegisterV2(host, 0, mapped));
    fails!(100000, ["beyond the last address"], aclrtHostRegisterV2(host, u64::MAX, mapped));
    ok!(aclrtHostRegisterV2(host, 4096, mapped | pinned));
    fails!(507910, [], aclrtHostRegisterV2(host, 4096, mapped));
    ok!(aclrtHostGetDevicePointer(inside, &mut there, 0));
    assert_eq!(there, inside);
    fails!(100000, ["pDevice is NULL"], aclrtHostGetDevicePointer(inside, null_mut(), 0));
    fails!(100000, ["pHost is NULL"], aclrtHostGetDevicePointer(null_mut(), &mut there, 0));
    fails!(107000, ["flag is 0x1"], aclrtHostGetDevicePointer(inside, &mut there, 1));
    let behind = host.wrapping_byte_add(4096);
    fails!(507911, [], aclrtHostGetDevicePointer(behind, &mut there, 0));
    let (device, s, gate) = (malloc(64), stream(), Gate::new());
    gate.close(s);
    ok!(aclrtMemcpyAsync(device, 64, there, 64, H2D, s));
    assert!(!idle(s), "it waited for the stream");
    gate.open();
    ok!(aclrtHostUnregister(host));
    assert_eq!(read(device, 64), [3; 64]);
    fails!(507911, [], aclrtHostGetDevicePointer(inside, &mut there, 0));
    drop(page);
}

#[test]
fn memory_for_the_task_scheduler_is_memory_of_the_device() {
    let _block = Block::one_with(AscendExtBlockConfig { memoryBytes: 1 << 20, ..Block::config() });
    let (mut p, mut no) = (null_mut(), null_mut());
    let config = null_mut();
    ok!(aclrtMallocForTaskScheduler(&mut p, 1000, POLICY, config));
    assert!(free_bytes() < 1 << 20);
    ok!(aclrtMemset(p, 1000, 1, 1000));
    fails!(
        207001,
        ["out of memory"],
        aclrtMallocForTaskScheduler(&mut no, 1 << 20, POLICY, config)
    );
    fails!(100000, ["size is 0"], aclrtMallocForTaskScheduler(&mut no, 0, POLICY, config));
    fails!(100000, ["devPtr is NULL"], aclrtMallocForTaskScheduler(null_mut(), 8, POLICY, config));
    ok!(aclrtFree(p));
    assert_eq!(free_bytes(), 1 << 20);
}

#[test]
fn what_is_flushed_has_to_be_device_memory() {
    let _block = Block::one();
    let (a, host) = (malloc(64), malloc_host(64));
    ok!(aclrtMemset(a, 64, 5, 64));
    ok!(aclrtMemFlush(a, 64));
    ok!(aclrtMemInvalidate(a, 64));
    assert_eq!(read(a, 64), [5; 64]);
    fails!(100000, ["devPtr is NULL"], aclrtMemFlush(null_mut(), 64));
    fails!(100000, ["size is 0"], aclrtMemInvalidate(a, 0));
    fails!(107000, ["beyond the end"], aclrtMemFlush(a, 65));
    fails!(107000, ["beyond the end"], aclrtMemInvalidate(a, usize::MAX));
    fails!(107000, ["not device memory"], aclrtMemInvalidate(host, 64));
}
