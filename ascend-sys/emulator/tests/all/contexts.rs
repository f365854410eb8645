//! Devices, contexts and what is current in a thread; handles that are stale or were never any.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ptr::null_mut;

#[test]
fn a_thread_without_a_device_is_told_so() {
    std::thread::spawn(|| {
        let mut device = 0;
        let mut stream = null_mut();
        let mut memory = null_mut();
        fails!(107002, ["call aclrtSetDevice first"], aclrtGetDevice(&mut device));
        fails!(107002, ["aclrtCreateStream: "], aclrtCreateStream(&mut stream));
        fails!(107002, [], aclrtMalloc(&mut memory, 8, POLICY));
        fails!(107002, [], aclrtSynchronizeDevice());
        fails!(107002, [], aclrtSynchronizeStream(null_mut()));
    })
    .join()
    .unwrap();
}

#[test]
fn device_ids() {
    let block = Block::one();
    let (mut device, mut count) = (0, 0);
    ok!(aclrtGetDevice(&mut device));
    assert_eq!(device, block.first);
    ok!(aclrtGetDeviceCount(&mut count));
    assert_eq!(count, 8);
    fails!(107001, ["there is no device 8", "ASCEND_EMULATOR_DEVICES"], aclrtSetDevice(8));
    fails!(107001, ["there is no device -1"], aclrtSetDevice(-1));
    fails!(107001, [], aclrtSetDevice(block.first + 1));
    fails!(107001, [], aclrtSetDevice(i32::MAX));
    fails!(100000, ["deviceId is NULL"], aclrtGetDevice(null_mut()));
}

#[test]
fn a_device_tells_its_numbers_of_cores() {
    let block = Block::one();
    let (id, mut value) = (block.first as u32, 0);
    for (attribute, number) in [
        (aclrtDevAttr::ACL_DEV_ATTR_AICORE_CORE_NUM, 24),
        (aclrtDevAttr::ACL_DEV_ATTR_CUBE_CORE_NUM, 24),
        (aclrtDevAttr::ACL_DEV_ATTR_VECTOR_CORE_NUM, 48),
    ] {
        ok!(aclrtGetDeviceInfo(id, attribute, &mut value));
        assert_eq!(value, number);
    }
    let cores = aclrtDevAttr::ACL_DEV_ATTR_CUBE_CORE_NUM;
    fails!(100000, ["value is NULL"], aclrtGetDeviceInfo(id, cores, null_mut()));
    fails!(107001, [], aclrtGetDeviceInfo(u32::MAX, cores, &mut value));
    let other = aclrtDevAttr::ACL_DEV_ATTR_WARP_SIZE;
    fails!(207000, ["tells its numbers of cores"], aclrtGetDeviceInfo(id, other, &mut value));
}

#[test]
fn the_default_context_is_shared_and_counted() {
    let block = Block::one();
    let first = block.first;
    let mut mine = null_mut();
    ok!(aclrtGetCurrentContext(&mut mine));
    let s = stream() as usize;
    let mine = mine as usize;
    std::thread::spawn(move || {
        ok!(aclrtSetDevice(first));
        let mut context = null_mut();
        ok!(aclrtGetCurrentContext(&mut context));
        assert_eq!(context as usize, mine);
        ok!(aclrtSynchronizeStream(s as aclrtStream));
        ok!(aclrtResetDevice(first));
    })
    .join()
    .unwrap();
    ok!(aclrtSynchronizeStream(s as aclrtStream));
    fails!(
        107000,
        ["default context", "aclrtResetDevice"],
        aclrtDestroyContext(mine as aclrtContext)
    );
    let memory = malloc(8);
    ok!(aclrtResetDevice(first));
    fails!(107002, ["call aclrtSetDevice first"], aclrtSynchronizeStream(s as aclrtStream));
    fails!(107002, ["not set"], aclrtResetDevice(first));
    fails!(107002, ["not set"], aclrtResetDeviceForce(first));
    ok!(aclrtSetDevice(first));
    fails!(107017, ["was destroyed"], aclrtSynchronizeStream(s as aclrtStream));
    fails!(107017, ["was destroyed"], aclrtSetCurrentContext(mine as aclrtContext));
    fails!(107000, ["freed by aclrtResetDevice"], aclrtFree(memory));
    ok!(aclrtSetDevice(first));
    ok!(aclrtResetDeviceForce(first));
    fails!(107002, ["not set"], aclrtResetDevice(first));
}

#[test]
fn streams_belong_to_their_context() {
    let block = Block::one();
    let (s, mut primary, mut other) = (stream(), null_mut(), null_mut());
    ok!(aclrtGetCurrentContext(&mut primary));
    ok!(aclrtCreateContext(&mut other, block.first));
    fails!(107003, ["belongs to another context"], aclrtSynchronizeStream(s));
    fails!(107003, [], aclrtMemsetAsync(malloc(8), 8, 0, 8, s));
    fails!(107003, [], aclrtDestroyStream(s));
    let t = stream();
    ok!(aclrtSetCurrentContext(primary));
    ok!(aclrtSynchronizeStream(s));
    fails!(107003, [], aclrtSynchronizeStream(t));
    ok!(aclrtDestroyContext(other));
    fails!(107017, ["the context", "was destroyed"], aclrtSetCurrentContext(other));
    fails!(107017, ["the stream", "was destroyed"], aclrtSynchronizeStream(t));
}

#[test]
fn stale_and_made_up_streams() {
    let _block = Block::one();
    let s = stream();
    ok!(aclrtDestroyStream(s));
    fails!(107017, ["the stream", "was destroyed"], aclrtSynchronizeStream(s));
    fails!(107017, ["the stream", "was destroyed"], aclrtDestroyStream(s));
    let again = stream();
    assert_ne!(s, again);
    fails!(107017, [], aclrtSynchronizeStream(s));
    let mut local = 0u64;
    fails!(107017, ["no stream handle"], aclrtSynchronizeStream((&raw mut local).cast()));
    fails!(
        107017,
        ["no stream handle"],
        aclrtSynchronizeStream(std::ptr::without_provenance_mut(8))
    );
    fails!(107003, ["default stream"], aclrtDestroyStream(null_mut()));
}

#[test]
fn destroying_a_stream_waits_for_its_work() {
    let _block = Block::one();
    let (a, s, gate) = (malloc(8), stream(), Gate::new());
    gate.close(s);
    ok!(aclrtMemsetAsync(a, 8, 5, 8, s));
    let opener = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(30));
        gate.open();
    });
    ok!(aclrtDestroyStream(s));
    assert_eq!(read(a, 8), [5; 8]);
    opener.join().unwrap();
}

#[test]
fn resetting_a_device_waits_for_the_work_of_its_default_context() {
    for own in [true, false] {
        let block = Block::one();
        let s = if own { stream() } else { null_mut() };
        let (a, host, gate) = (malloc(8), malloc_host(8), Gate::new());
        ok!(aclrtMemset(host, 8, 0, 8));
        gate.close(s);
        ok!(aclrtMemsetAsync(a, 8, 5, 8, s));
        ok!(aclrtMemcpyAsync(host, 8, a, 8, D2H, s));
        let opener = std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            gate.open();
        });
        ok!(aclrtResetDevice(block.first));
        // SAFETY: eight bytes of pinned memory, which outlives the device; nothing is in flight.
        assert_eq!(unsafe { host.cast::<[u8; 8]>().read() }, [5; 8], "own stream: {own}");
        opener.join().unwrap();
    }
}

#[test]
fn texts_come_newest_first_and_belong_to_their_thread() {
    let _ = message();
    assert_ne!(call!(aclrtSetDevice(-7)), 0);
    assert_ne!(call!(aclrtGetDevice(null_mut())), 0);
    std::thread::spawn(|| {
        assert_eq!(message(), "");
        assert_ne!(call!(aclrtSetDevice(-8)), 0);
        let text = message();
        assert!(text.contains("device -8") && !text.contains("device -7"), "{text}");
    })
    .join()
    .unwrap();
    let text = message();
    let (newest, oldest) = text.split_once('\n').expect("two texts");
    assert!(newest.contains("deviceId is NULL"), "{text}");
    assert!(oldest.contains("there is no device -7"), "{text}");
    assert_eq!(message(), "", "asking takes them");
}

#[test]
fn streams_are_limited_per_device() {
    let _block = Block::one();
    let mut left = 0;
    ok!(aclrtGetStreamAvailableNum(&mut left));
    assert_eq!(left, 1983, "1984 without the default stream");
    let all: Vec<_> = (0..left).map(|_| stream()).collect();
    let mut one_more = null_mut();
    fails!(207008, ["all 1984 streams"], aclrtCreateStream(&mut one_more));
    ok!(aclrtDestroyStream(all[7]));
    ok!(aclrtCreateStream(&mut one_more));
}

#[test]
fn destroying_a_block_fails_what_is_queued() {
    let block = Block::one();
    let (a, s, t, gate) = (malloc(8), stream(), stream(), Gate::new());
    let mut e = null_mut();
    ok!(aclrtCreateEventWithFlag(&mut e, ACL_EVENT_SYNC));
    ok!(aclrtStreamWaitEvent(t, e));
    ok!(aclrtMemsetAsync(a, 8, 1, 8, t));
    gate.close(s);
    let opener = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        gate.open();
    });
    let number = block.number;
    drop(block);
    opener.join().unwrap();
    fails!(107017, ["destroyed"], aclrtSynchronizeStream(s));
    fails!(107000, ["a block of devices that is gone"], aclrtMemset(a, 8, 0, 8));
    fails!(107002, ["is gone"], aclrtSynchronizeDevice());
    fails!(107000, ["destroyed already"], ascendExtBlockDestroy(number));
}

#[test]
fn initialisation_is_counted() {
    // The only test that calls these: the count belongs to the process.
    ok!(aclInit(std::ptr::null()));
    fails!(100002, ["harmless"], aclInit(std::ptr::null()));
    let mut left = 9;
    ok!(aclFinalizeReference(&mut left));
    assert_eq!(left, 1);
    ok!(aclFinalize());
    fails!(100037, ["finalised already"], aclFinalize());
    fails!(100003, ["/no/such/file"], aclInit(c"/no/such/file".as_ptr()));
}
