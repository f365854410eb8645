//! A profiler can be started and stopped, and records nothing.

use ascend_emulator_testing::common::{Block, message};
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ffi::CStr;
use std::ptr::{null, null_mut};

const PATH: &CStr = c"profile";
const ALL: u64 = ACL_PROF_ACL_API | ACL_PROF_TASK_TIME | ACL_PROF_AICORE_METRICS;

fn config(devices: &mut [u32]) -> *mut aclprofConfig {
    let (list, count) = (devices.as_mut_ptr(), devices.len() as u32);
    let metrics = aclprofAicoreMetrics::ACL_AICORE_PIPE_UTILIZATION;
    call!(aclprofCreateConfig(list, count, metrics, null(), ALL))
}

/// One test, since profiling is initialised once for the whole process.
#[test]
fn a_program_that_profiles_itself_runs() {
    let block = Block::one();
    let first = block.first as u32;
    let profile = config(&mut [first]);
    assert!(!profile.is_null(), "{}", message());
    let not_yet = ["not initialised", "aclprofInit"];
    fails!(100043, [not_yet[0], not_yet[1]], aclprofStart(profile));
    fails!(100043, [not_yet[0]], aclprofStop(profile));
    fails!(100043, [not_yet[0]], aclprofFinalize());

    fails!(100000, ["profilerResultPath is NULL"], aclprofInit(null(), 0));
    ok!(aclprofInit(PATH.as_ptr(), PATH.count_bytes()));
    fails!(100042, ["initialised already"], aclprofInit(PATH.as_ptr(), PATH.count_bytes()));
    for _ in 0..2 {
        ok!(aclprofStart(profile));
        ok!(aclprofStop(profile));
    }
    fails!(100000, ["profilerConfig is NULL"], aclprofStart(null()));
    ok!(aclprofDestroyConfig(profile));
    fails!(107017, ["was destroyed"], aclprofStart(profile));
    fails!(107017, ["was destroyed"], aclprofDestroyConfig(profile));
    ok!(aclprofFinalize());
    fails!(100043, [not_yet[0]], aclprofFinalize());
}

#[test]
fn a_configuration_names_devices_that_are_there() {
    let _block = Block::one();
    let none = config(&mut []);
    assert!(!none.is_null(), "{}", message());
    ok!(aclprofDestroyConfig(none));
    let _ = message();
    assert!(config(&mut [u32::MAX]).is_null());
    let text = message();
    assert!(text.contains("aclprofCreateConfig: ") && text.contains("device"), "{text}");
    let metrics = aclprofAicoreMetrics::ACL_AICORE_NONE;
    assert!(call!(aclprofCreateConfig(null_mut(), 1, metrics, null(), ALL)).is_null());
    let text = message();
    assert!(text.contains("aclprofCreateConfig: deviceIdList is NULL"), "{text}");
}

#[test]
fn a_list_of_more_devices_than_there_are_is_refused_before_it_is_read() {
    let block = Block::new(2);
    let first = block.first as u32;
    let both = config(&mut [first + 1, first]);
    assert!(!both.is_null(), "{}", message());
    ok!(aclprofDestroyConfig(both));
    let metrics = aclprofAicoreMetrics::ACL_AICORE_NONE;
    for count in [3, u32::MAX] {
        let _ = message();
        let mut one = first;
        assert!(call!(aclprofCreateConfig(&mut one, count, metrics, null(), ALL)).is_null());
        let text = message();
        assert!(text.contains(&format!("deviceNums is {count}")), "{text}");
    }
}
