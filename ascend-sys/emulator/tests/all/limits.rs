//! Tests of the limits on the number of cores that kernels use, and on the time that they may wait.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ptr::null_mut;

const CUBE: aclrtDevResLimitType = aclrtDevResLimitType::ACL_RT_DEV_RES_CUBE_CORE;
const VECTOR: aclrtDevResLimitType = aclrtDevResLimitType::ACL_RT_DEV_RES_VECTOR_CORE;

fn of_device(device: i32) -> (u32, u32) {
    let mut limits = (0, 0);
    ok!(aclrtGetDeviceResLimit(device, CUBE, &mut limits.0));
    ok!(aclrtGetDeviceResLimit(device, VECTOR, &mut limits.1));
    limits
}

fn of_stream(stream: aclrtStream) -> (u32, u32) {
    let mut limits = (0, 0);
    ok!(aclrtGetStreamResLimit(stream, CUBE, &mut limits.0));
    ok!(aclrtGetStreamResLimit(stream, VECTOR, &mut limits.1));
    limits
}

fn of_thread() -> (u32, u32) {
    let mut limits = (0, 0);
    ok!(aclrtGetResInCurrentThread(CUBE, &mut limits.0));
    ok!(aclrtGetResInCurrentThread(VECTOR, &mut limits.1));
    limits
}

#[test]
fn a_thread_has_the_cores_of_the_stream_that_it_uses_or_else_of_its_device() {
    let block = Block::one();
    let (first, s) = (block.first, stream());
    assert_eq!((of_device(first), of_stream(s), of_thread()), ((24, 48), (24, 48), (24, 48)));
    ok!(aclrtSetDeviceResLimit(first, VECTOR, 40));
    assert_eq!((of_device(first), of_stream(s), of_thread()), ((24, 40), (24, 40), (24, 40)));
    ok!(aclrtSetStreamResLimit(s, CUBE, 8));
    assert_eq!((of_device(first), of_stream(s), of_thread()), ((24, 40), (8, 40), (24, 40)));
    ok!(aclrtUseStreamResInCurrentThread(s));
    assert_eq!(of_thread(), (8, 40));
    std::thread::spawn(move || {
        ok!(aclrtSetDevice(first));
        assert_eq!(of_thread(), (24, 40), "the other thread uses the stream");
        ok!(aclrtResetDevice(first));
    })
    .join()
    .unwrap();
    ok!(aclrtUnuseStreamResInCurrentThread(stream()));
    assert_eq!(of_thread(), (8, 40), "that was another stream");
    ok!(aclrtResetStreamResLimit(s));
    assert_eq!((of_stream(s), of_thread()), ((24, 40), (24, 40)));
    ok!(aclrtSetStreamResLimit(s, VECTOR, 1));
    assert_eq!(of_thread(), (24, 1));
    ok!(aclrtUnuseStreamResInCurrentThread(s));
    assert_eq!(of_thread(), (24, 40));
    // A destroyed stream limits nothing, and the next stream in its place has no limits of its own.
    ok!(aclrtUseStreamResInCurrentThread(s));
    ok!(aclrtDestroyStream(s));
    assert_eq!(of_thread(), (24, 40));
    assert_eq!(of_stream(stream()), (24, 40));
    ok!(aclrtResetDeviceResLimit(first));
    assert_eq!((of_device(first), of_thread()), ((24, 48), (24, 48)));
}

#[test]
fn the_last_reset_of_a_device_ends_its_limits_and_its_access_to_peers() {
    let block = Block::with(AscendExtBlockConfig { deviceCount: 2, ..Block::config() });
    let (first, second, mut access) = (block.first, block.first + 1, 77);
    for _ in 0..2 {
        ok!(aclrtSetDevice(first));
    }
    ok!(aclrtSetDeviceResLimit(first, CUBE, 8));
    ok!(aclrtDeviceEnablePeerAccess(second, 0));
    ok!(aclrtResetDevice(first));
    ok!(aclrtDevicePeerAccessStatus(first, second, &mut access));
    assert_eq!((of_device(first), access), ((8, 48), 1), "it is set still");
    ok!(aclrtResetDevice(first));
    ok!(aclrtSetDevice(first));
    ok!(aclrtDevicePeerAccessStatus(first, second, &mut access));
    assert_eq!((of_device(first), of_thread(), access), ((24, 48), (24, 48), 0));
}

#[test]
fn limits_of_cores_that_cannot_be_are_refused() {
    let block = Block::one();
    let (first, s, mut value) = (block.first, stream(), 77);
    for wrong in [0, 25, u32::MAX] {
        fails!(107000, ["1 to 24"], aclrtSetDeviceResLimit(first, CUBE, wrong));
        fails!(107000, ["1 to 24"], aclrtSetStreamResLimit(s, CUBE, wrong));
    }
    let no_kind = aclrtDevResLimitType(2);
    fails!(107000, ["type is 2"], aclrtSetDeviceResLimit(first, no_kind, 1));
    fails!(107000, ["type is 2"], aclrtGetDeviceResLimit(first, no_kind, &mut value));
    fails!(107000, ["type is 2"], aclrtSetStreamResLimit(s, no_kind, 1));
    fails!(107000, ["type is 2"], aclrtGetStreamResLimit(s, no_kind, &mut value));
    fails!(107000, ["type is 2"], aclrtGetResInCurrentThread(no_kind, &mut value));
    let other = first + 1;
    fails!(107001, [], aclrtSetDeviceResLimit(other, CUBE, 1));
    fails!(107001, [], aclrtGetDeviceResLimit(other, CUBE, &mut value));
    fails!(107001, [], aclrtResetDeviceResLimit(other));
    fails!(100000, ["value is NULL"], aclrtGetDeviceResLimit(first, CUBE, null_mut()));
    fails!(100000, ["value is NULL"], aclrtGetStreamResLimit(s, CUBE, null_mut()));
    fails!(100000, ["value is NULL"], aclrtGetResInCurrentThread(CUBE, null_mut()));
    let gone = stream();
    ok!(aclrtDestroyStream(gone));
    fails!(107017, [], aclrtSetStreamResLimit(gone, CUBE, 1));
    fails!(107017, [], aclrtGetStreamResLimit(gone, CUBE, &mut value));
    fails!(107017, [], aclrtResetStreamResLimit(gone));
    fails!(107017, [], aclrtUseStreamResInCurrentThread(gone));
    fails!(107017, [], aclrtUnuseStreamResInCurrentThread(gone));
    assert_eq!((of_device(first), of_stream(s), value), ((24, 48), (24, 48), 77));
    std::thread::spawn(|| {
        let mut value = 0;
        fails!(107002, [], aclrtGetResInCurrentThread(CUBE, &mut value));
    })
    .join()
    .unwrap();
}

#[test]
fn the_time_limit_of_kernels_is_told_as_it_holds() {
    // The setting applies to the whole process, but kernels of other tests wait for less than these
    // times.
    let milliseconds = || {
        let mut told = 0;
        ok!(aclrtGetOpExecuteTimeout(&mut told));
        told
    };
    let (own, mut interval, mut actual) = (milliseconds(), 0, 0);
    ok!(aclrtGetOpTimeOutInterval(&mut interval));
    assert!(interval > 0 && own > 0);
    ok!(aclrtSetOpExecuteTimeOut(1_000));
    assert_eq!(milliseconds(), 1_000_000);
    ok!(aclrtSetOpExecuteTimeOutWithMs(200_000));
    assert_eq!(milliseconds(), 200_000);
    ok!(aclrtSetOpExecuteTimeOutV2(600_000_000 + 1, &mut actual));
    assert_eq!(actual, 600_000_000 + interval, "in whole steps, rounded up");
    assert_eq!(milliseconds(), 600_001);
    ok!(aclrtSetOpExecuteTimeOutV2(u64::MAX, &mut actual));
    assert!(actual.is_multiple_of(interval) && u64::MAX - actual < interval);
    assert_eq!(milliseconds(), u32::MAX);
    // Zero restores the emulator's own limit.
    ok!(aclrtSetOpExecuteTimeOut(0));
    assert_eq!(milliseconds(), own);
    fails!(100000, ["actualTimeout is NULL"], aclrtSetOpExecuteTimeOutV2(9, null_mut()));
    fails!(100000, ["timeoutMs is NULL"], aclrtGetOpExecuteTimeout(null_mut()));
    fails!(100000, ["interval is NULL"], aclrtGetOpTimeOutInterval(null_mut()));
    assert_eq!(milliseconds(), own);
    let _ = call!(aclrtGetLastError(aclrtLastErrLevel::ACL_RT_THREAD_LEVEL));
}

#[test]
fn a_limit_of_a_size_is_told_once_it_is_set_until_the_last_reset_of_its_device() {
    let block = Block::new(2);
    let [stack, fifo] = [
        aclrtDeviceLimit::ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE,
        aclrtDeviceLimit::ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE,
    ];
    let mut size = 7;
    fails!(107002, [], aclrtDeviceSetLimit(stack, 1));
    fails!(107002, [], aclrtDeviceGetLimit(stack, &mut size));
    ok!(aclrtSetDevice(block.first));
    fails!(207000, ["was not set"], aclrtDeviceGetLimit(stack, &mut size));
    assert_eq!(size, 7, "a refused call writes nothing");
    ok!(aclrtDeviceSetLimit(stack, 65_536));
    ok!(aclrtDeviceSetLimit(fifo, usize::MAX));
    ok!(aclrtDeviceGetLimit(stack, &mut size));
    assert_eq!(size, 65_536);
    ok!(aclrtDeviceGetLimit(fifo, &mut size));
    assert_eq!(size, usize::MAX);
    fails!(100000, ["value is NULL"], aclrtDeviceGetLimit(stack, null_mut()));
    for wrong in [5, u32::MAX] {
        fails!(107000, ["0 to 4"], aclrtDeviceSetLimit(aclrtDeviceLimit(wrong), 1));
        fails!(107000, ["0 to 4"], aclrtDeviceGetLimit(aclrtDeviceLimit(wrong), &mut size));
    }
    ok!(aclrtSetDevice(block.first + 1));
    fails!(207000, ["was not set"], aclrtDeviceGetLimit(stack, &mut size));
    ok!(aclrtResetDevice(block.first));
    ok!(aclrtSetDevice(block.first));
    fails!(207000, ["was not set"], aclrtDeviceGetLimit(stack, &mut size));
}
