//! Tests of the variables of CANN that describe the devices of C programs: the visible devices, and
//! the variables that HCCL checks when it is initialised.

use ascend_emulator_testing::common::{malloc, malloc_host};
use ascend_emulator_testing::ranks::{config, root_info};
use ascend_emulator_testing::{alone, fails, hccl, ok, refuses};
use ascend_sys::*;
use std::ffi::{OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;

fn set(variables: &[(&str, &str)]) {
    // SAFETY: this is the only test of this process, and nothing has read the environment yet.
    variables.iter().for_each(|(name, value)| unsafe { std::env::set_var(name, value) });
}

fn device_of(pointer: *const c_void) -> (u32, aclrtMemLocationType) {
    let mut attributes = aclrtPtrAttributes::default();
    ok!(aclrtPointerGetAttributes(pointer, &mut attributes));
    (attributes.location.id, attributes.location.type_)
}

#[test]
fn a_program_has_the_visible_devices_under_numbers_of_its_own() {
    alone!();
    set(&[("ASCEND_EMULATOR_DEVICES", "8"), ("ASCEND_RT_VISIBLE_DEVICES", "5,2,7")]);
    let mut count = 0;
    ok!(aclrtGetDeviceCount(&mut count));
    assert_eq!(count, 3);
    fails!(107001, ["ASCEND_RT_VISIBLE_DEVICES"], aclrtSetDevice(3));
    let mut number = 0;
    for (user, machine) in [(0, 5), (1, 2), (2, 7)] {
        ok!(aclrtGetLogicDevIdByUserDevId(user, &mut number));
        assert_eq!(number, machine);
        ok!(aclrtGetPhyDevIdByUserDevId(user, &mut number));
        assert_eq!(number, machine);
        ok!(aclrtGetUserDevIdByLogicDevId(machine, &mut number));
        assert_eq!(number, user);
        ok!(aclrtGetUserDevIdByPhyDevId(machine, &mut number));
        assert_eq!(number, user);
    }
    ok!(aclrtGetLogicDevIdByPhyDevId(0, &mut number));
    assert_eq!(number, 0);
    fails!(107001, ["not visible"], aclrtGetUserDevIdByLogicDevId(0, &mut number));
    fails!(107001, ["ASCEND_EMULATOR_DEVICES"], aclrtGetPhyDevIdByLogicDevId(8, &mut number));
    let mut device = 9;
    for number in [1, 2, 0] {
        ok!(aclrtSetDevice(number));
        ok!(aclrtGetDevice(&mut device));
        assert_eq!(device, number);
        let memory = malloc(64);
        let place = aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE;
        assert_eq!(device_of(memory), (number as u32, place));
        ok!(aclrtMemset(memory, 64, 1, 64));
    }
    let mut access = 0;
    ok!(aclrtDeviceEnablePeerAccess(1, 0));
    ok!(aclrtDevicePeerAccessStatus(0, 1, &mut access));
    assert_eq!(access, 1);
    fails!(107001, ["and its peer are the same"], aclrtDeviceEnablePeerAccess(0, 0));
    // A rank table uses the device numbers of the machine.
    let path = std::env::temp_dir().join(format!("visible-{}.json", std::process::id()));
    let table = r#"{"status": "completed", "version": "1.0", "server_count": "1", "server_list":
        [{"server_id": "a", "device": [{"device_id": "5", "rank_id": "0"}]}]}"#;
    std::fs::write(&path, table).unwrap();
    let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let mut comm = null_mut();
    hccl!(HcclCommInitClusterInfo(text.as_ptr(), 0, &mut comm));
    hccl!(HcclCommDestroy(comm));
    ok!(aclrtSetDevice(1));
    refuses!(HCCL_E_PARA, [], HcclCommInitClusterInfo(text.as_ptr(), 0, &mut comm));
    std::fs::remove_file(&path).unwrap();
    let (mut all, mut comms) = ([0, 1, 2], [null_mut(); 3]);
    hccl!(HcclCommInitAll(3, all.as_mut_ptr(), comms.as_mut_ptr()));
    comms.iter().for_each(|comm| hccl!(HcclCommDestroy(*comm)));
    ok!(aclrtResetDevice(1));
    ok!(aclrtResetDevice(1));
    fails!(107002, ["device 1"], aclrtResetDevice(1));
}

#[test]
fn a_list_of_devices_that_are_not_there_is_an_error() {
    alone!();
    set(&[("ASCEND_EMULATOR_DEVICES", "4"), ("ASCEND_RT_VISIBLE_DEVICES", "0,4")]);
    let mut count = 0;
    fails!(107001, ["ASCEND_RT_VISIBLE_DEVICES=0,4"], aclrtGetDeviceCount(&mut count));
    fails!(107001, ["ASCEND_RT_VISIBLE_DEVICES=0,4"], aclrtSetDevice(0));
}

#[test]
fn a_value_that_is_no_text_is_an_error_and_not_taken_as_unset() {
    alone!();
    // SAFETY: this is the only test of this process, and nothing has read the environment yet.
    unsafe { std::env::set_var("ASCEND_RT_VISIBLE_DEVICES", OsStr::from_bytes(b"0\xff")) };
    fails!(107001, ["ASCEND_RT_VISIBLE_DEVICES=0\u{fffd}"], aclrtSetDevice(0));
}

/// Checks that HCCL does not start, but that the runtime works.
fn is_refused(said: &str) {
    ok!(aclrtSetDevice(0));
    ok!(aclrtFreeHost(malloc_host(64)));
    let (mut comm, mut devices, mut info) = (null_mut(), 0, HcclRootInfo::default());
    refuses!(HCCL_E_PARA, ["EI0001", said], HcclGetRootInfo(&mut info));
    refuses!(HCCL_E_PARA, ["EI0001", said], HcclCommInitAll(1, &mut devices, &mut comm));
    // A block that the program creates is described by the program, so HCCL starts there.
    let block = ascend_emulator_testing::common::Block::one();
    let info = root_info();
    let mut own = null_mut();
    hccl!(HcclCommInitRootInfo(1, &info, 0, &mut own));
    hccl!(HcclCommDestroy(own));
    let info = root_info();
    ok!(aclrtSetDevice(0));
    refuses!(HCCL_E_PARA, ["EI0001", said], HcclCommInitRootInfo(1, &info, 0, &mut comm));
    let wish = config("one");
    refuses!(
        HCCL_E_PARA,
        ["EI0001", said],
        HcclCommInitRootInfoConfig(1, &info, 0, &wish, &mut comm)
    );
    drop(block);
}

#[test]
fn a_buffer_size_that_is_none_is_told_when_hccl_starts() {
    alone!();
    set(&[("HCCL_BUFFSIZE", "none")]);
    is_refused("HCCL_BUFFSIZE=none");
}

#[test]
fn a_timeout_that_is_none_is_told_when_hccl_starts() {
    alone!();
    set(&[("HCCL_CONNECT_TIMEOUT", "7201")]);
    is_refused("HCCL_CONNECT_TIMEOUT=7201");
}

/// Returns the mode that `HcclConfigGetInfo` reports for a communicator whose configuration has
/// this mode.
fn answered(mode: u32) -> u32 {
    let mut config = config("");
    config.hcclOpExpansionMode = mode;
    let (info, mut comm, mut answered) = (root_info(), null_mut(), 99u32);
    hccl!(HcclCommInitRootInfoConfig(1, &info, 0, &config, &mut comm));
    let kind = HcclConfigType::HCCL_CONFIG_TYPE_OP_EXPANSION_MODE;
    hccl!(HcclConfigGetInfo(comm, kind, 4, (&raw mut answered).cast()));
    hccl!(HcclCommDestroy(comm));
    answered
}

#[test]
fn the_expansion_mode_decides_where_a_configuration_leaves_it_open() {
    alone!();
    set(&[("HCCL_OP_EXPANSION_MODE", "AIV")]);
    ok!(aclrtSetDevice(0));
    assert_eq!((answered(0), answered(2)), (1, 0));
}

#[test]
fn the_expansion_mode_of_the_environment_decides_what_a_suspension_returns() {
    alone!();
    set(&[("ASCEND_EMULATOR_PRODUCT", "A2"), ("HCCL_OP_EXPANSION_MODE", "AI_CPU")]);
    ok!(aclrtSetDevice(0));
    let (info, mut comm) = (root_info(), null_mut());
    hccl!(HcclCommInitRootInfo(1, &info, 0, &mut comm));
    refuses!(HCCL_E_SUSPENDING, ["means success"], HcclCommSuspend(comm));
    hccl!(HcclCommResume(comm));
    hccl!(HcclCommDestroy(comm));
    let mut config = config("");
    config.hcclOpExpansionMode = 1;
    let info = root_info();
    hccl!(HcclCommInitRootInfoConfig(1, &info, 0, &config, &mut comm));
    hccl!(HcclCommSuspend(comm));
    hccl!(HcclCommResume(comm));
    hccl!(HcclCommDestroy(comm));
}

#[test]
fn an_expansion_mode_that_is_none_is_told_on_the_950() {
    alone!();
    set(&[("ASCEND_EMULATOR_PRODUCT", "950"), ("HCCL_OP_EXPANSION_MODE", "junk")]);
    is_refused("HCCL_OP_EXPANSION_MODE=junk");
}

#[test]
fn an_expansion_mode_that_is_none_is_the_default_on_the_a3() {
    alone!();
    set(&[("HCCL_OP_EXPANSION_MODE", "junk")]);
    ok!(aclrtSetDevice(0));
    let (info, mut comm) = (root_info(), null_mut());
    hccl!(HcclCommInitRootInfo(1, &info, 0, &mut comm));
    hccl!(HcclCommDestroy(comm));
}
