//! Tests of the attributes of a stream that a program sets and reads.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::{fails, ok};
use ascend_sys::*;
use std::ptr::null_mut;

const MODE: aclrtStreamAttr = aclrtStreamAttr::ACL_STREAM_ATTR_FAILURE_MODE;
const TAG: aclrtStreamAttr = aclrtStreamAttr::ACL_STREAM_ATTR_USER_CUSTOM_TAG;
const PRIORITY: aclrtStreamAttr = aclrtStreamAttr::ACL_STREAM_ATTR_PRIORITY;

fn get(stream: aclrtStream, attribute: aclrtStreamAttr) -> u64 {
    let mut value = aclrtStreamAttrValue { reserve: [u32::MAX; 4] };
    ok!(aclrtGetStreamAttribute(stream, attribute, &mut value));
    // SAFETY: all members are plain numbers, and all bytes were written.
    unsafe { value.failureMode }
}

fn set(stream: aclrtStream, attribute: aclrtStreamAttr, number: u32) {
    let mut value = aclrtStreamAttrValue { reserve: [u32::MAX; 4] };
    value.userCustomTag = number;
    ok!(aclrtSetStreamAttribute(stream, attribute, &mut value));
}

fn priority(stream: aclrtStream) -> u32 {
    let mut told = u32::MAX;
    ok!(aclrtStreamGetPriority(stream, &mut told));
    told
}

#[test]
fn a_stream_keeps_its_priority_and_its_tag() {
    let _block = Block::one();
    let (plain, mut s) = (stream(), null_mut());
    ok!(aclrtCreateStreamWithConfig(&mut s, 5, ACL_STREAM_FAST_LAUNCH));
    assert_eq!((priority(plain), priority(s), priority(null_mut())), (0, 5, 0));
    assert_eq!((get(s, PRIORITY), get(s, TAG)), (5, 0));
    set(s, PRIORITY, 3);
    set(s, TAG, 0xdead_beef);
    assert_eq!((priority(s), get(s, PRIORITY), get(s, TAG)), (3, 3, 0xdead_beef));
    assert_eq!((priority(plain), get(plain, TAG)), (0, 0));
    // The next stream in the same place must not have the attributes of the destroyed one.
    ok!(aclrtDestroyStream(s));
    let next = stream();
    assert_eq!((priority(next), get(next, TAG)), (0, 0));
}

#[test]
fn the_failure_mode_is_the_one_of_its_own_function() {
    let _block = Block::one();
    let (s, t) = (stream(), stream());
    let value = |mode| aclrtStreamAttrValue { failureMode: mode };
    assert_eq!(get(s, MODE), 0);
    ok!(aclrtSetStreamAttribute(s, MODE, &mut value(1)));
    assert_eq!(get(s, MODE), 1);
    fails!(107000, ["set it once"], aclrtSetStreamFailureMode(s, 1));
    ok!(aclrtSetStreamFailureMode(t, 1));
    assert_eq!(get(t, MODE), 1);
    fails!(107000, ["set it once"], aclrtSetStreamAttribute(t, MODE, &mut value(1)));
    // All eight bytes of the value count.
    let wrong = 1 << 32;
    fails!(107000, ["mode is 4294967296"], aclrtSetStreamAttribute(s, MODE, &mut value(wrong)));
}

#[test]
fn attributes_that_a_stream_has_not_are_refused() {
    let _block = Block::one();
    let s = stream();
    let mut value = aclrtStreamAttrValue { reserve: [7; 4] };
    for (attribute, code) in [(4, 207000), (0, 107000), (6, 107000)] {
        let attribute = aclrtStreamAttr(attribute);
        fails!(code, ["stmAttrType is"], aclrtSetStreamAttribute(s, attribute, &mut value));
        fails!(code, ["stmAttrType is"], aclrtGetStreamAttribute(s, attribute, &mut value));
    }
    fails!(100000, ["value is NULL"], aclrtSetStreamAttribute(s, TAG, null_mut()));
    fails!(100000, ["value is NULL"], aclrtGetStreamAttribute(s, TAG, null_mut()));
    fails!(100000, ["priority is NULL"], aclrtStreamGetPriority(s, null_mut()));
    ok!(aclrtDestroyStream(s));
    let mut told = 0;
    fails!(107017, [], aclrtStreamGetPriority(s, &mut told));
    fails!(107017, [], aclrtSetStreamAttribute(s, TAG, &mut value));
    fails!(107017, [], aclrtGetStreamAttribute(s, TAG, &mut value));
    // SAFETY: this member is a plain number.
    assert_eq!(unsafe { value.reserve }, [7; 4], "a refused call writes nothing");
}

/// Checks that the recording of overflows cannot be switched on, because the emulator does not
/// record overflows of floats.
#[test]
fn the_switch_for_overflows_is_off() {
    let _block = Block::one();
    let (s, mut flag) = (stream(), 7);
    ok!(aclrtGetStreamOverflowSwitch(s, &mut flag));
    assert_eq!(flag, 0);
    ok!(aclrtSetStreamOverflowSwitch(s, 0));
    fails!(207000, ["does not record"], aclrtSetStreamOverflowSwitch(s, 1));
    let switch = aclrtStreamAttr::ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK;
    assert_eq!(get(s, switch), 0);
    set(s, switch, 0);
    let mut on = aclrtStreamAttrValue { reserve: [1; 4] };
    fails!(207000, ["does not record"], aclrtSetStreamAttribute(s, switch, &mut on));
    fails!(100000, ["flag is NULL"], aclrtGetStreamOverflowSwitch(s, null_mut()));
    ok!(aclrtDestroyStream(s));
    fails!(107017, [], aclrtSetStreamOverflowSwitch(s, 0));
    flag = 7;
    fails!(107017, [], aclrtGetStreamOverflowSwitch(s, &mut flag));
    assert_eq!(flag, 7);
}
