//! Tests of the errors of functions that the emulator does not support. Tests with the shared
//! libraries (`hccl-tests`) check every function of the list.

use ascend_emulator::UNSUPPORTED;
use ascend_emulator_testing::common::message;
use ascend_emulator_testing::{call, fails, ok, refuses};
use ascend_sys::*;
use std::collections::BTreeSet;
use std::ptr::{null, null_mut};

#[test]
fn a_code_comes_with_the_name_and_the_reason() {
    let stream = null_mut();
    fails!(
        207000,
        ["aclrtActiveStream: ", "does not support", "aborted"],
        aclrtActiveStream(stream, stream)
    );
    let parameters = aclmdlRICondTaskParams::default();
    fails!(207000, ["aclmdlRIAddCondTask: "], aclmdlRIAddCondTask(parameters, stream, 0));
    let (refused, mut pointer) = ("HcclSymWinGetPeerPointer: ", null_mut());
    refuses!(
        HCCL_E_NOT_SUPPORT,
        [refused, "device code"],
        HcclSymWinGetPeerPointer(null_mut(), 0, 0, &mut pointer)
    );
    let last = aclrtLastErrLevel::ACL_RT_THREAD_LEVEL;
    assert_eq!(call!(aclrtGetLastError(last)), 207000);
}

#[test]
fn a_function_without_a_code_returns_nothing_and_tells_why() {
    let told = |name: &str| {
        let text = message();
        assert!(text.starts_with(&format!("{name}: the emulator does not support")), "{text}");
    };
    let _ = message();
    assert!(call!(aclrtCreateGroupInfo()).is_null());
    told("aclrtCreateGroupInfo");
    assert!(call!(aclrtAllocatorCreateDesc()).is_null());
    told("aclrtAllocatorCreateDesc");
    assert_eq!(call!(aclprofGetOpStart(null(), 0, 0)), 0);
    told("aclprofGetOpStart");
    assert_eq!(call!(aclprofGetModelId(null(), 0, 0)), 0);
    told("aclprofGetModelId");
    let none = aclprofSubscribeOpFlag::ACL_SUBSCRIBE_NONE;
    assert_eq!(call!(aclprofGetOpFlag(null(), 0, 0)), none);
    told("aclprofGetOpFlag");
    let attribute = aclprofSubscribeOpAttri::ACL_SUBSCRIBE_ATTRI_NONE;
    assert!(call!(aclprofGetOpAttriValue(null(), 0, 0, attribute)).is_null());
    told("aclprofGetOpAttriValue");
    call!(aclprofDestroyStamp(null_mut()));
    told("aclprofDestroyStamp");
}

#[test]
fn the_table_has_all_that_a_library_of_cann_exports() {
    let table = ascend_emulator::table();
    for symbol in SYMBOLS {
        let there = table.address(symbol.name.to_str().unwrap()).is_some();
        assert_eq!(there, symbol.library != Library::None, "{symbol:?}");
    }
    let names: BTreeSet<&str> = UNSUPPORTED.iter().map(|function| function.name).collect();
    assert_eq!(names.len(), UNSUPPORTED.len(), "a name is listed twice");
}

#[test]
fn a_line_for_the_log_is_dropped() {
    let _ = message();
    let (here, format) = (c"here".as_ptr(), c"%d %f %s".as_ptr());
    call!(aclAppLog(aclLogLevel::ACL_ERROR, here, here, 1, format, 1, 2.0, here));
    assert_eq!(message(), "");
    ok!(aclrtPeekAtLastError(aclrtLastErrLevel::ACL_RT_THREAD_LEVEL));
}
