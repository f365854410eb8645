//! Tests of memory pools: streams allocate and free their memory in the order of their tasks.

use ascend_emulator_testing::captures::GLOBAL;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::aclrtMemPoolAttr as Attr;
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

const THRESHOLD: Attr = Attr::ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD;
const RESERVED: Attr = Attr::ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT;
const RESERVED_HIGH: Attr = Attr::ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH;
const USED: Attr = Attr::ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT;
const USED_HIGH: Attr = Attr::ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH;
/// A size in bytes that is more than half of the memory of a device.
const MOST: usize = 600 << 20;

fn properties(device: i32) -> aclrtMemPoolProps {
    let kind = aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE;
    aclrtMemPoolProps {
        location: aclrtMemLocation { id: device as u32, type_: kind },
        ..aclrtMemPoolProps::default()
    }
}

fn pool_with(properties: &aclrtMemPoolProps) -> aclrtMemPool {
    let mut pool = null_mut();
    ok!(aclrtMemPoolCreate(&mut pool, properties));
    pool
}

fn pool(block: &Block) -> aclrtMemPool {
    pool_with(&properties(block.first))
}

fn allocate(pool: aclrtMemPool, bytes: usize, stream: aclrtStream) -> *mut c_void {
    let mut pointer = null_mut();
    ok!(aclrtMemPoolMallocAsync(&mut pointer, bytes, pool, stream));
    pointer
}

fn get(pool: aclrtMemPool, attr: Attr) -> u64 {
    let mut value = u64::MAX;
    ok!(aclrtMemPoolGetAttr(pool, attr, (&raw mut value).cast()));
    value
}

fn set(pool: aclrtMemPool, attr: Attr, mut value: u64) {
    ok!(aclrtMemPoolSetAttr(pool, attr, (&raw mut value).cast()));
}

/// Returns the number of free bytes of the current device.
fn free() -> usize {
    let (mut free, mut total) = (0, 0);
    ok!(aclrtGetMemInfo(aclrtMemAttr::ACL_HBM_MEM, &mut free, &mut total));
    free
}

fn event() -> aclrtEvent {
    let mut event = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut event, ACL_EVENT_SYNC));
    event
}

fn findings(block: &Block) -> u32 {
    let mut count = 0;
    ok!(ascendExtFindings(block.number, &mut count));
    count
}

#[test]
fn a_pool_reserves_what_it_uses_and_gives_it_back() {
    let block = Block::one();
    let (s, p, before) = (stream(), pool(&block), free());
    let a = allocate(p, 1000, s);
    ok!(aclrtMemsetAsync(a, 1000, 7, 1000, s));
    let used = get(p, USED);
    assert!(used >= 1000 && get(p, RESERVED) == used && free() == before - used as usize);
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 1000), [7; 1000]);
    let b = allocate(p, 2000, s);
    let most = get(p, USED);
    assert!(most >= used + 2000);
    ok!(aclrtMemPoolFreeAsync(a, s));
    ok!(aclrtMemPoolFreeAsync(b, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!([USED, RESERVED].map(|attr| get(p, attr)), [0, 0]);
    assert_eq!([USED_HIGH, RESERVED_HIGH].map(|attr| get(p, attr)), [most, most]);
    assert_eq!(free(), before);
    set(p, USED_HIGH, 0);
    set(p, RESERVED_HIGH, 0);
    assert_eq!([USED_HIGH, RESERVED_HIGH].map(|attr| get(p, attr)), [0, 0]);
    ok!(aclrtMemPoolDestroy(p));
}

#[test]
fn a_stream_takes_what_it_frees_itself_before_it_comes_to_the_free() {
    let block = Block::one();
    let (s, t, p, gate) = (stream(), stream(), pool(&block), Gate::new());
    gate.close(s);
    let a = allocate(p, MOST, s);
    ok!(aclrtMemsetAsync(a, 64, 1, 64, s));
    ok!(aclrtMemPoolFreeAsync(a, s));
    let b = allocate(p, MOST, s);
    assert_eq!(a, b);
    ok!(aclrtMemsetAsync(b, 32, 2, 32, s));
    // The address now belongs to the newer allocation, which can be freed once.
    ok!(aclrtMemPoolFreeAsync(b, s));
    fails!(107000, ["is being freed"], aclrtMemPoolFreeAsync(b, s));
    // The memory becomes available to another stream only when stream `s` reaches the free.
    fails!(
        207001,
        ["out of memory", "of a pool"],
        aclrtMemPoolMallocAsync(&mut null_mut(), MOST, p, t)
    );
    let c = allocate(p, 100, s);
    assert_eq!(c, b, "and so does a smaller one, rather than reserve more");
    gate.open();
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(c, 64), [[2; 32], [1; 32]].concat());
    fails!(107000, ["beyond the end"], aclrtMemset(c, 1000, 0, 1000));
    ok!(aclrtMemPoolFreeAsync(c, s));
    ok!(aclrtSynchronizeStream(s));
    let d = allocate(p, MOST, t);
    ok!(aclrtMemPoolFreeAsync(d, t));
    ok!(aclrtSynchronizeStream(t));
    assert_eq!([USED, RESERVED].map(|attr| get(p, attr)), [0, 0]);
}

#[test]
fn work_of_another_stream_before_a_queued_free_may_come_later() {
    let block = Block::one();
    let (s, t, p, e, copied) = (stream(), stream(), pool(&block), event(), malloc(64));
    let a = allocate(p, 64, s);
    ok!(aclrtStreamWaitEvent(s, e));
    ok!(aclrtMemPoolFreeAsync(a, s));
    ok!(aclrtMemsetAsync(a, 64, 5, 64, t));
    ok!(aclrtMemcpyAsync(copied, 64, a, 64, D2D, t));
    ok!(aclrtRecordEvent(e, t));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(copied, 64), [5; 64]);
    fails!(107000, ["which was freed by aclrtMemPoolFreeAsync"], aclrtMemsetAsync(a, 64, 5, 64, t));
    fails!(107000, ["which was freed by aclrtMemPoolFreeAsync"], aclrtMemPoolFreeAsync(a, s));
}

#[test]
fn what_is_freed_stays_reserved_up_to_the_threshold() {
    let block = Block::one();
    let (s, p, before) = (stream(), pool(&block), free());
    set(p, THRESHOLD, 1 << 20);
    assert_eq!(get(p, THRESHOLD), 1 << 20);
    let give = |bytes: usize| {
        let pointer = allocate(p, bytes, s);
        ok!(aclrtMemPoolFreeAsync(pointer, s));
        ok!(aclrtSynchronizeStream(s));
    };
    give(4 << 20);
    assert_eq!([USED, RESERVED].map(|attr| get(p, attr)), [0, 1 << 20]);
    assert_eq!(free(), before - (1 << 20));
    // The pool serves this allocation from reserved memory.
    let a = allocate(p, 1000, s);
    assert_eq!(get(p, RESERVED), 1 << 20);
    ok!(aclrtMemPoolTrimTo(p, 1 << 19));
    assert_eq!(get(p, RESERVED), 1 << 19);
    ok!(aclrtMemPoolTrimTo(p, 0));
    assert_eq!(get(p, RESERVED), get(p, USED), "what is used stays");
    ok!(aclrtMemPoolFreeAsync(a, s));
    ok!(aclrtSynchronizeStream(s));
    give(4 << 20);
    assert_eq!(get(p, RESERVED), 1 << 20);
    set(p, THRESHOLD, 0);
    assert_eq!((get(p, RESERVED), free()), (0, before));
}

#[test]
fn a_pool_has_at_most_its_own_size() {
    let block = Block::one();
    let (s, p) =
        (stream(), pool_with(&aclrtMemPoolProps { maxSize: 1 << 20, ..properties(block.first) }));
    let a = allocate(p, 1 << 19, s);
    let too_many = 1 << 19 | 1 << 10;
    fails!(
        207001,
        ["out of memory", "at most 1048576"],
        aclrtMemPoolMallocAsync(&mut null_mut(), too_many, p, s)
    );
    fails!(207001, ["out of memory"], aclrtMemPoolMallocAsync(&mut null_mut(), usize::MAX, p, s));
    ok!(aclrtMemPoolFreeAsync(a, s));
    ok!(aclrtSynchronizeStream(s));
    allocate(p, too_many, s);
}

#[test]
fn a_destroyed_pool_ends_with_its_last_allocation() {
    let block = Block::one();
    let (s, p, before) = (stream(), pool(&block), free());
    set(p, THRESHOLD, 1 << 20);
    let a = allocate(p, 64, s);
    ok!(aclrtMemPoolDestroy(p));
    fails!(107017, ["the memory pool", "was destroyed"], aclrtMemPoolDestroy(p));
    fails!(107017, [], aclrtMemPoolMallocAsync(&mut null_mut(), 64, p, s));
    ok!(aclrtMemsetAsync(a, 64, 3, 64, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 64), [3; 64]);
    ok!(aclrtMemPoolFreeAsync(a, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(free(), before);
}

#[test]
fn an_abort_and_the_end_of_a_device_free_what_is_queued_and_what_is_left() {
    let block = Block::one();
    let (s, p, e, before) = (stream(), pool(&block), event(), free());
    let (a, _left) = (allocate(p, MOST, s), allocate(p, 64, s));
    ok!(aclrtStreamWaitEvent(s, e));
    ok!(aclrtMemPoolFreeAsync(a, s));
    ok!(aclrtStreamAbort(s));
    let _ = call!(aclrtSynchronizeStream(s));
    assert_eq!(get(p, USED), get(p, RESERVED));
    assert!(get(p, USED) < MOST as u64);
    // If a free is still queued when the device is reset, it must not free a later allocation.
    let b = allocate(p, MOST, s);
    ok!(aclrtStreamWaitEvent(s, e));
    ok!(aclrtMemPoolFreeAsync(b, s));
    ok!(aclrtResetDeviceForce(block.first));
    ok!(aclrtSetDevice(block.first));
    assert_eq!(free(), before);
    fails!(107017, ["the memory pool", "was destroyed"], aclrtMemPoolTrimTo(p, 0));
}

#[test]
fn streams_of_threads_share_a_pool_and_no_byte() {
    const ROUNDS: usize = 200;
    let block = Block::one();
    let (p, first) = (pool(&block) as usize, block.first);
    let user = |number: u8| {
        std::thread::spawn(move || {
            ok!(aclrtSetDevice(first));
            let (s, p) = (stream(), p as aclrtMemPool);
            let kept = malloc(4096);
            for round in 0..ROUNDS {
                let bytes = 64 + round * 64 % 4096;
                let a = allocate(p, bytes, s);
                ok!(aclrtMemsetAsync(a, bytes, number.into(), bytes, s));
                let b = allocate(p, bytes, s);
                ok!(aclrtMemcpyAsync(b, bytes, a, bytes, D2D, s));
                ok!(aclrtMemPoolFreeAsync(a, s));
                ok!(aclrtMemcpyAsync(kept, bytes, b, bytes, D2D, s));
                ok!(aclrtMemPoolFreeAsync(b, s));
                if round % 16 == 0 {
                    ok!(aclrtSynchronizeStream(s));
                    assert!(read(kept, bytes).iter().all(|byte| *byte == number));
                }
            }
            ok!(aclrtSynchronizeStream(s));
        })
    };
    let users: Vec<_> = (1..4).map(user).collect();
    users.into_iter().for_each(|user| user.join().unwrap());
    assert_eq!([USED, RESERVED].map(|attr| get(p as aclrtMemPool, attr)), [0, 0]);
}

#[test]
fn checked_mode_finds_a_use_that_comes_before_the_allocation_or_behind_the_free() {
    let check = AscendExtCheck::ASCEND_EXT_CHECK_RACES.0;
    let config = || AscendExtBlockConfig { check, ..Block::config() };
    for (waits, early, late) in [(true, false, false), (false, true, false), (false, false, true)] {
        let block = Block::one_with(config());
        let (s, t, p, e, f) = (stream(), stream(), pool(&block), event(), event());
        let a = allocate(p, 64, s);
        ok!(aclrtRecordEvent(e, s));
        if !early {
            ok!(aclrtStreamWaitEvent(t, e));
        }
        ok!(aclrtMemsetAsync(a, 64, 5, 64, t));
        ok!(aclrtRecordEvent(f, t));
        if waits || early {
            ok!(aclrtStreamWaitEvent(s, f));
        }
        ok!(aclrtMemPoolFreeAsync(a, s));
        ok!(aclrtSynchronizeStream(s));
        ok!(aclrtSynchronizeStream(t));
        assert_eq!(findings(&block), u32::from(early || late), "{waits} {early} {late}");
    }
    // The use is queued after the free, in the same stream.
    let block = Block::one_with(config());
    let (s, p, gate) = (stream(), pool(&block), Gate::new());
    let a = allocate(p, 64, s);
    gate.close(s);
    ok!(aclrtMemPoolFreeAsync(a, s));
    ok!(aclrtMemsetAsync(a, 64, 5, 64, s));
    gate.open();
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(findings(&block), 1);
}

#[test]
fn the_flags_for_reuse_are_kept() {
    let block = Block::one();
    let p = pool(&block);
    for attr in [1, 2, 3].map(Attr) {
        // The attribute has 4 bytes, so the second value must stay unchanged.
        let mut values = [7u32; 2];
        ok!(aclrtMemPoolGetAttr(p, attr, values.as_mut_ptr().cast()));
        assert_eq!(values, [1, 7]);
        values[0] = 0;
        ok!(aclrtMemPoolSetAttr(p, attr, values.as_mut_ptr().cast()));
        ok!(aclrtMemPoolGetAttr(p, attr, values.as_mut_ptr().cast()));
        assert_eq!(values, [0, 7]);
        values[0] = 2;
        fails!(107000, ["value is 2"], aclrtMemPoolSetAttr(p, attr, values.as_mut_ptr().cast()));
    }
}

#[test]
fn arguments_that_are_wrong_are_refused() {
    let block = Block::with(AscendExtBlockConfig { deviceCount: 2, ..Block::config() });
    ok!(aclrtSetDevice(block.first + 1));
    let elsewhere = stream();
    ok!(aclrtSetDevice(block.first));
    let (s, p, other, mut value) = (stream(), pool(&block), malloc(64), 1u64);
    let at: *mut c_void = (&raw mut value).cast();
    let good = properties(block.first);
    let kind = |handle: u32, location: u32, allocation: u32| {
        let mut properties = aclrtMemPoolProps { handleType: aclrtMemHandleType(handle), ..good };
        properties.location.type_ = aclrtMemLocationType(location);
        properties.allocType = aclrtMemAllocationType(allocation);
        properties
    };
    let mut made = null_mut();
    fails!(100000, ["memPool is NULL"], aclrtMemPoolCreate(null_mut(), &good));
    fails!(100000, ["poolProps is NULL"], aclrtMemPoolCreate(&mut made, null_mut()));
    fails!(107000, ["allocType 1"], aclrtMemPoolCreate(&mut made, &kind(0, 1, 1)));
    fails!(207000, ["handleType 2"], aclrtMemPoolCreate(&mut made, &kind(2, 1, 0)));
    fails!(207000, ["location of type 0"], aclrtMemPoolCreate(&mut made, &kind(0, 0, 0)));
    let nowhere = properties(block.first + 2);
    fails!(107001, ["there is no device"], aclrtMemPoolCreate(&mut made, &nowhere));
    fails!(107017, [], aclrtMemPoolDestroy(null_mut()));
    fails!(107017, [], aclrtMemPoolDestroy(s));

    fails!(100000, ["value is NULL"], aclrtMemPoolSetAttr(p, THRESHOLD, null_mut()));
    fails!(100000, ["value is NULL"], aclrtMemPoolGetAttr(p, THRESHOLD, null_mut()));
    fails!(107000, ["attr is 9"], aclrtMemPoolSetAttr(p, Attr(9), at));
    fails!(107000, ["attr is 0"], aclrtMemPoolGetAttr(p, Attr(0), at));
    fails!(107000, ["not set"], aclrtMemPoolSetAttr(p, USED, at));
    fails!(107000, ["value is 1"], aclrtMemPoolSetAttr(p, USED_HIGH, at));
    fails!(107017, [], aclrtMemPoolGetAttr(null_mut(), USED, at));

    fails!(100000, ["ptr is NULL"], aclrtMemPoolMallocAsync(null_mut(), 64, p, s));
    fails!(100000, ["size is 0"], aclrtMemPoolMallocAsync(&mut made, 0, p, s));
    fails!(107017, [], aclrtMemPoolMallocAsync(&mut made, 64, null_mut(), s));
    fails!(100000, ["ptr is NULL"], aclrtMemPoolFreeAsync(null_mut(), s));
    fails!(107000, ["not of a pool"], aclrtMemPoolFreeAsync(other, s));
    fails!(107000, ["is not device memory"], aclrtMemPoolFreeAsync(at, s));
    let a = allocate(p, 64, s);
    let inside = a.wrapping_byte_add(8);
    fails!(107000, ["is 8 bytes inside"], aclrtMemPoolFreeAsync(inside, s));
    fails!(107000, ["memory of a pool", "aclrtMemPoolFreeAsync"], aclrtFree(a));
    // Only streams of the pool's device may allocate from the pool.
    ok!(aclrtSetDevice(block.first + 1));
    fails!(
        107003,
        ["the pool belongs to device 0"],
        aclrtMemPoolMallocAsync(&mut made, 64, p, elsewhere)
    );
    ok!(aclrtSetDevice(block.first));
    assert!(made.is_null());
    ok!(aclrtMemPoolFreeAsync(a, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(get(p, USED), 0);
}

#[test]
fn a_captured_stream_neither_allocates_nor_frees() {
    let block = Block::one();
    let (s, t, p) = (stream(), stream(), pool(&block));
    let a = allocate(p, 64, t);
    ok!(aclrtSynchronizeStream(t));
    let mut graph = null_mut();
    ok!(aclmdlRICaptureBegin(s, GLOBAL));
    fails!(
        207000,
        ["cannot be captured", "allocation"],
        aclrtMemPoolMallocAsync(&mut null_mut(), 64, p, s)
    );
    fails!(207000, ["cannot be captured", "free"], aclrtMemPoolFreeAsync(a, s));
    fails!(507903, ["cannot be captured"], aclmdlRICaptureEnd(s, &mut graph));
    let used = get(p, USED);
    ok!(aclrtMemPoolFreeAsync(a, t));
    ok!(aclrtSynchronizeStream(t));
    assert!(used > 0 && get(p, USED) == 0, "what was refused has left nothing");
}
