//! Devices, contexts and the current context of a thread, and handles that are stale or were never
//! valid.

use ascend_emulator_testing::captures;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{alone, call, fails, ok};
use ascend_sys::*;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

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
fn a_device_tells_its_numbers_of_cores_and_its_sizes() {
    let block = Block::one();
    let (id, mut value) = (block.first as u32, 0);
    for (attribute, number) in [
        (aclrtDevAttr::ACL_DEV_ATTR_AICORE_CORE_NUM, 24),
        (aclrtDevAttr::ACL_DEV_ATTR_CUBE_CORE_NUM, 24),
        (aclrtDevAttr::ACL_DEV_ATTR_VECTOR_CORE_NUM, 48),
        (aclrtDevAttr::ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE, 196_608),
        (aclrtDevAttr::ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, 1 << 30),
    ] {
        ok!(aclrtGetDeviceInfo(id, attribute, &mut value));
        assert_eq!(value, number);
    }
    let cores = aclrtDevAttr::ACL_DEV_ATTR_CUBE_CORE_NUM;
    fails!(100000, ["value is NULL"], aclrtGetDeviceInfo(id, cores, null_mut()));
    fails!(107001, [], aclrtGetDeviceInfo(u32::MAX, cores, &mut value));
    // The size of the cache is not known for the A3, and the size of a warp is not known for any
    // product.
    for unknown in [aclrtDevAttr::ACL_DEV_ATTR_WARP_SIZE, aclrtDevAttr::ACL_DEV_ATTR_L2_CACHE_SIZE]
    {
        fails!(
            207000,
            ["not known for an emulated Atlas A3"],
            aclrtGetDeviceInfo(id, unknown, &mut value)
        );
    }
    let a2 = Block::with(AscendExtBlockConfig { product: 2, ..Block::config() });
    let cache = aclrtDevAttr::ACL_DEV_ATTR_L2_CACHE_SIZE;
    ok!(aclrtGetDeviceInfo(a2.first as u32, cache, &mut value));
    assert_eq!(value, 192 << 20);
}

#[test]
fn two_devices_tell_how_they_are_linked_where_there_is_a_name_for_it() {
    let on = |product, devices| {
        Block::with(AscendExtBlockConfig { product, deviceCount: devices, ..Block::config() })
    };
    let topo = |block: &Block, a: u32, b: u32| {
        let (mut value, first) = (0, block.first as u32);
        ok!(aclrtGetDevicesTopo(first + a, first + b, &mut value));
        value
    };
    // A server of A2 has 8 devices, and two servers are linked by RoCE.
    let a2 = on(2, 9);
    assert_eq!(topo(&a2, 7, 0), ACL_RT_DEVS_TOPOLOGY_HCCS);
    let (first, mut value) = (a2.first as u32, 77);
    fails!(207000, ["not linked by HCCS"], aclrtGetDevicesTopo(first, first + 8, &mut value));
    let a3 = on(3, 17);
    assert_eq!(topo(&a3, 0, 16), ACL_RT_DEVS_TOPOLOGY_HCCS);
    let other = on(950, 2).first as u32;
    fails!(107001, [], aclrtGetDevicesTopo(other, other + 1, &mut value));
    let ub = on(950, 2);
    let other = ub.first as u32;
    fails!(207000, ["cannot name their link"], aclrtGetDevicesTopo(other, other + 1, &mut value));
    fails!(107001, ["are the same"], aclrtGetDevicesTopo(first, first, &mut value));
    fails!(107001, ["different blocks"], aclrtGetDevicesTopo(first, other, &mut value));
    fails!(107001, [], aclrtGetDevicesTopo(first, u32::MAX, &mut value));
    fails!(100000, ["value is NULL"], aclrtGetDevicesTopo(first, first + 1, null_mut()));
    assert_eq!(value, 77, "a refused call writes nothing");
}

#[test]
fn the_older_question_for_cores_has_the_same_answer() {
    let block = Block::one();
    let (id, mut value) = (block.first as u32, 0);
    for (info, number) in [
        (aclDeviceInfo::ACL_DEVICE_INFO_AI_CORE_NUM, 24),
        (aclDeviceInfo::ACL_DEVICE_INFO_VECTOR_CORE_NUM, 48),
    ] {
        ok!(aclGetDeviceCapability(id, info, &mut value));
        assert_eq!(value, number);
    }
    let cores = aclDeviceInfo::ACL_DEVICE_INFO_VECTOR_CORE_NUM;
    fails!(100000, ["value is NULL"], aclGetDeviceCapability(id, cores, null_mut()));
    fails!(107001, [], aclGetDeviceCapability(u32::MAX, cores, &mut value));
    let cache = aclDeviceInfo::ACL_DEVICE_INFO_L2_SIZE;
    fails!(
        207000,
        ["not known for an emulated Atlas A3"],
        aclGetDeviceCapability(id, cache, &mut value)
    );
}

#[test]
fn a_device_has_one_number() {
    let block = Block::one();
    let first = block.first;
    macro_rules! same {
        ($($name:ident: $result:literal;)*) => {$(
            let mut number = -1;
            ok!($name(first, &mut number));
            assert_eq!(number, first, stringify!($name));
            fails!(107001, [], $name(first + 1, &mut number));
            fails!(100000, [$result], $name(first, null_mut()));
        )*};
    }
    same! {
        aclrtGetLogicDevIdByUserDevId: "logicDevId is NULL";
        aclrtGetUserDevIdByLogicDevId: "userDevid is NULL";
        aclrtGetLogicDevIdByPhyDevId: "logicDevId is NULL";
        aclrtGetPhyDevIdByLogicDevId: "phyDevId is NULL";
        aclrtGetUserDevIdByPhyDevId: "userDevId is NULL";
        aclrtGetPhyDevIdByUserDevId: "phyDevId is NULL";
    }
}

#[test]
fn packages_have_the_version_of_the_interface() {
    for package in [c"hcomm", c"hccl", c"runtime"] {
        let (name, mut number, mut text) = (package.as_ptr().cast_mut(), 0, [1; 16]);
        ok!(aclsysGetVersionNum(name, &mut number));
        assert_eq!(number, 90_200_000);
        ok!(aclsysGetVersionStr(name, text.as_mut_ptr()));
        let bytes = text.map(|byte| byte as u8);
        assert_eq!(&bytes[..7], b"9.2.0\0\x01", "and no byte more");
        fails!(100000, ["versionNum is NULL"], aclsysGetVersionNum(name, null_mut()));
    }
    let (unknown, mut number) = (c"compiler".as_ptr().cast_mut(), 0);
    fails!(100000, ["compiler", "hcomm"], aclsysGetVersionNum(unknown, &mut number));
    fails!(100000, ["pkgName is NULL"], aclsysGetVersionNum(null_mut(), &mut number));
}

#[test]
fn the_parts_of_a_version_are_texts() {
    let text = |field: &[c_char]| {
        // SAFETY: the field contains a NUL, because its last byte was compared with 0.
        unsafe { CStr::from_ptr(field.as_ptr()) }.to_str().unwrap().to_owned()
    };
    for package in [0, 1, 3] {
        // SAFETY: any bytes are a valid value of this struct.
        let mut version: aclCANNPackageVersion = unsafe { std::mem::zeroed() };
        version.version = [7; 128];
        ok!(aclsysGetCANNVersion(aclCANNPackageName(package), &mut version));
        assert_eq!(version.version[127], 0);
        assert_eq!(text(&version.version), "9.2.0");
        let parts = [&version.majorVersion, &version.minorVersion, &version.releaseVersion];
        assert_eq!(parts.map(|part| text(part)), ["9", "2", "0"]);
    }
    // SAFETY: any bytes are a valid value of this struct.
    let mut version: aclCANNPackageVersion = unsafe { std::mem::zeroed() };
    for other in [2, 7, 8, u32::MAX] {
        let name = aclCANNPackageName(other);
        fails!(100000, ["name is"], aclsysGetCANNVersion(name, &mut version));
    }
    assert_eq!(version.version[0], 0, "a refused call writes nothing");
    fails!(100000, ["NULL"], aclsysGetCANNVersion(aclCANNPackageName(0), null_mut()));
}

#[test]
fn attributes_are_listed_and_asked_for() {
    let (mut list, mut count) = (std::ptr::null(), 0);
    ok!(aclGetCannAttributeList(&mut list, &mut count));
    // SAFETY: the list belongs to the library and is never freed.
    let listed = unsafe { std::slice::from_raw_parts(list, count) };
    let [inf_nan, bf16, jit] = [0, 1, 2].map(aclCannAttr);
    assert_eq!(listed, [inf_nan, bf16]);
    for (attribute, expected) in [(inf_nan, 1), (bf16, 1), (jit, 0)] {
        let mut value = 7;
        ok!(aclGetCannAttribute(attribute, &mut value));
        assert_eq!(value, expected);
    }
    let mut value = 7;
    for wrong in [-1, 3, i32::MIN] {
        fails!(100000, ["cannAttr is"], aclGetCannAttribute(aclCannAttr(wrong), &mut value));
    }
    assert_eq!(value, 7);
    fails!(100000, ["value is NULL"], aclGetCannAttribute(inf_nan, null_mut()));
    fails!(100000, ["NULL"], aclGetCannAttributeList(null_mut(), &mut count));
    fails!(100000, ["NULL"], aclGetCannAttributeList(&mut list, null_mut()));
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
    fails!(
        107017,
        ["is not the handle of any stream"],
        aclrtSynchronizeStream((&raw mut local).cast())
    );
    fails!(
        107017,
        ["is not the handle of any stream"],
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
        // SAFETY: this is eight bytes of pinned memory, which outlives the device, and nothing is
        // in flight.
        assert_eq!(unsafe { host.cast::<[u8; 8]>().read() }, [5; 8], "own stream: {own}");
        opener.join().unwrap();
    }
}

/// Sets the device in the calling thread and works on it. All calls must succeed.
fn works_on(device: i32) {
    ok!(aclrtSetDevice(device));
    let (a, s) = (malloc(8), stream());
    ok!(aclrtMemsetAsync(a, 8, 6, 8, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 8), [6; 8]);
    ok!(aclrtDestroyStream(s));
    ok!(aclrtFree(a));
}

/// Returns a thread that sets a device and resets it. The reset waits for a gate in a stream of the
/// device.
fn last_reset_behind(gate: &'static Gate, device: i32) -> JoinHandle<()> {
    let (sender, is_about_to) = channel();
    let resets = std::thread::spawn(move || {
        ok!(aclrtSetDevice(device));
        gate.close(stream());
        sender.send(()).unwrap();
        ok!(aclrtResetDevice(device));
    });
    is_about_to.recv().unwrap();
    // The sleep gives the reset time to begin.
    std::thread::sleep(Duration::from_millis(50));
    resets
}

#[test]
fn a_device_that_is_set_while_its_last_reset_waits_goes_on() {
    let block = Block::new(1);
    let (first, gate) = (block.first, Gate::new());
    let resets = last_reset_behind(gate, first);
    ok!(aclrtSetDevice(first));
    let (a, s) = (malloc(8), stream());
    gate.open();
    resets.join().unwrap();
    ok!(aclrtMemsetAsync(a, 8, 5, 8, s));
    ok!(aclrtSynchronizeStream(s));
    assert_eq!(read(a, 8), [5; 8]);
    ok!(aclrtResetDevice(first));
    fails!(107002, ["not set"], aclrtResetDevice(first));
    ok!(aclrtSetDevice(first));
    fails!(107017, ["was destroyed"], aclrtSynchronizeStream(s));
}

#[test]
fn of_two_resets_that_wait_the_later_one_ends_the_device() {
    let (_other, block) = (Block::one(), Block::new(1));
    let first = block.first;
    let host = malloc_host(8);
    ok!(aclrtMemset(host, 8, 0, 8));
    let reset = |gate: &'static Gate, to: usize| {
        let (sender, is_about_to) = channel();
        let resets = std::thread::spawn(move || {
            ok!(aclrtSetDevice(first));
            let s = stream();
            gate.close(s);
            if to != 0 {
                ok!(aclrtMemsetAsync(to as *mut c_void, 8, 5, 8, s));
            }
            sender.send(()).unwrap();
            ok!(aclrtResetDevice(first));
        });
        is_about_to.recv().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        resets
    };
    let gates = [Gate::new(), Gate::new()];
    let (earlier, later) = (reset(gates[0], 0), reset(gates[1], host as usize));
    // The work of the earlier thread ends. The later thread still waits for its own work.
    gates[0].open();
    earlier.join().unwrap();
    gates[1].open();
    later.join().unwrap();
    // SAFETY: this is eight bytes of pinned memory, which outlives the device, and nothing is in
    // flight.
    assert_eq!(unsafe { host.cast::<[u8; 8]>().read() }, [5; 8]);
    fails!(107002, ["not set"], aclrtResetDevice(first));
}

#[test]
fn a_device_that_is_set_while_it_ends_is_set_afterwards() {
    static DEVICE: AtomicI32 = AtomicI32::new(-1);
    static ENDS: AtomicBool = AtomicBool::new(false);
    /// Sets the device again, as a host function that runs while the device ends.
    unsafe extern "C" fn in_the_end(_: *mut c_void) {
        // The thread that ends the device must not wait for itself.
        ok!(aclrtSetDevice(DEVICE.load(Ordering::Acquire)));
        ENDS.store(true, Ordering::Release);
        std::thread::sleep(Duration::from_millis(100));
    }
    let block = Block::new(1);
    let first = block.first;
    for force in [false, true] {
        DEVICE.store(first, Ordering::Release);
        ENDS.store(false, Ordering::Release);
        let resets = std::thread::spawn(move || {
            ok!(aclrtSetDevice(first));
            let (a, s) = (malloc(8), stream());
            ok!(aclmdlRICaptureBegin(s, captures::RELAXED));
            ok!(aclrtMemsetAsync(a, 8, 1, 8, s));
            let graph = captures::end(s);
            ok!(aclmdlRIDestroyRegisterCallback(graph, Some(in_the_end), null_mut()));
            match force {
                false => ok!(aclrtResetDevice(first)),
                true => ok!(aclrtResetDeviceForce(first)),
            }
        });
        while !ENDS.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        ok!(aclrtSetDevice(first));
        let s = stream();
        resets.join().unwrap();
        ok!(aclrtSynchronizeStream(s));
        works_on(first);
        ok!(aclrtResetDevice(first));
        ok!(aclrtResetDevice(first));
        fails!(107002, ["not set"], aclrtResetDevice(first));
    }
}

#[test]
fn threads_that_each_set_and_reset_a_device_do_not_end_what_another_one_has() {
    let block = Block::new(1);
    let first = block.first;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    works_on(first);
                    ok!(aclrtResetDevice(first));
                }
            });
        }
    });
    fails!(107002, ["not set"], aclrtResetDevice(first));
}

#[test]
fn a_block_is_destroyed_while_a_reset_waits() {
    let block = Block::new(1);
    let (first, gate) = (block.first, Gate::new());
    let resets = last_reset_behind(gate, first);
    drop(block);
    resets.join().unwrap();
    gate.open();
    fails!(107001, [], aclrtSetDevice(first));
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
    // The next block has the addresses of this one, and may belong to another test.
    alone!(beside);
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
    let said = || {
        let _ = message();
        assert_eq!(call!(aclrtMemset(a, 8, 0, 8)), 107000);
        message()
    };
    // The thread that runs the host function may destroy the devices a little later.
    let (began, mut text) = (std::time::Instant::now(), said());
    while text.contains("or its block was destroyed") {
        assert!(began.elapsed() < std::time::Duration::from_secs(120), "{text}");
        std::thread::yield_now();
        text = said();
    }
    assert!(text.contains("a block of devices that is gone"), "{text}");
    fails!(107002, ["is gone"], aclrtSynchronizeDevice());
    fails!(107000, ["destroyed already"], ascendExtBlockDestroy(number));
}

#[test]
fn initialisation_is_counted() {
    // This is the only test that calls these functions, because the count belongs to the process.
    ok!(aclInit(std::ptr::null()));
    fails!(100002, ["no other effect"], aclInit(std::ptr::null()));
    let mut left = 9;
    ok!(aclFinalizeReference(&mut left));
    assert_eq!(left, 1);
    ok!(aclFinalize());
    fails!(100037, ["finalised already"], aclFinalize());
    fails!(100003, ["/no/such/file"], aclInit(c"/no/such/file".as_ptr()));
}
