//! Tests that a profiler can be started and stopped, which begins and ends the recording of a
//! timeline.

use ascend_emulator_testing::common::{Block, malloc, message, stream};
use ascend_emulator_testing::kernel::{self, Given, function, launch, load};
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

/// Returns the number of bytes of the last timeline of a block.
fn told(block: &Block) -> usize {
    let (mut length, form) = (0, AscendExtTimelineForm::ASCEND_EXT_TIMELINE_TRACE);
    ok!(ascendExtTimeline(block.number, form, null_mut(), 0, &mut length));
    length
}

/// Checks everything in one test, because profiling is initialised once for the whole process.
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
    let kernel = function(load(&crate::kernels_doors::program()), "kernel");
    let (s, y, tiling) = (stream(), malloc(16), kernel::build::tiling(&[]));
    let launched = || {
        let arguments = [Given::Pointer(y), Given::Pointer(null_mut()), Given::Bytes(&tiling)];
        launch(kernel, 1, &arguments, s);
        ok!(aclrtSynchronizeStream(s));
    };
    launched();
    let lengths = [0, 1, 2].map(|launches| {
        ok!(aclprofStart(profile));
        (0..launches).for_each(|_| launched());
        ok!(aclprofStop(profile));
        let length = told(&block);
        launched();
        assert_eq!(told(&block), length, "nothing is recorded after the end");
        length
    });
    assert!(lengths.is_sorted_by(|a, b| a < b), "{lengths:?}");
    // It changes nothing to stop a profiler that was not started, or to start one twice.
    ok!(aclprofStop(profile));
    ok!(aclprofStart(profile));
    ok!(aclprofStart(profile));
    ok!(aclprofStop(profile));
    assert_eq!(told(&block), lengths[0]);
    // If the program records a timeline itself, the profiler does not end that recording.
    ok!(ascendExtTimelineRecord(block.number, 1));
    ok!(aclprofStart(profile));
    ok!(aclprofStop(profile));
    ok!(ascendExtTimelineRecord(block.number, 0));
    // The same holds for a recording that the program began after it ended the one of the profiler.
    for ends in [0, 1, 2] {
        let profile = config(&mut [first]);
        ok!(aclprofStart(profile));
        ok!(ascendExtTimelineRecord(block.number, 0));
        ok!(ascendExtTimelineRecord(block.number, 1));
        match ends {
            0 => ok!(aclprofStop(profile)),
            1 => ok!(aclprofFinalize()),
            _ => {}
        }
        ok!(aclprofDestroyConfig(profile));
        launched();
        ok!(ascendExtTimelineRecord(block.number, 0));
        assert!(told(&block) > lengths[0], "the launch is in it");
        if ends == 1 {
            ok!(aclprofInit(PATH.as_ptr(), PATH.count_bytes()));
        }
    }
    fails!(100000, ["profilerConfig is NULL"], aclprofStart(null()));
    ok!(aclprofStart(profile));
    ok!(aclprofDestroyConfig(profile));
    fails!(100000, ["does not record"], ascendExtTimelineRecord(block.number, 0));
    fails!(107017, ["was destroyed"], aclprofStart(profile));
    fails!(107017, ["was destroyed"], aclprofDestroyConfig(profile));
    let profile = config(&mut [first]);
    ok!(aclprofStart(profile));
    ok!(aclprofFinalize());
    fails!(100000, ["does not record"], ascendExtTimelineRecord(block.number, 0));
    fails!(100043, [not_yet[0]], aclprofFinalize());
    ok!(aclprofDestroyConfig(profile));
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
