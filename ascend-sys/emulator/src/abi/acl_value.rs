//! The entries for words of memory by which streams synchronise.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_copy::may_reach;
use super::acl_memory::resolve;
use super::arguments::Handle;
use super::entries::{Acl, entries};
use crate::memory::MemoryPlace;
use crate::message::{Failure, fail};
use crate::stream::Stream;
use crate::submit;
use crate::value::{BYTES, ValueCondition, WaitForValue, Word, WriteValue};
use ascend_sys::{
    ACL_ERROR_RT_ADDR_UNALIGNED, ACL_ERROR_RT_PARAM_INVALID, ACL_STREAM_WAIT_VALUE_AND,
    ACL_STREAM_WAIT_VALUE_EQ, ACL_STREAM_WAIT_VALUE_GEQ, ACL_STREAM_WAIT_VALUE_NOR,
};
use std::ffi::c_void;

entries! {
    Acl;

    fn aclrtValueWrite(address: *mut c_void, value: u64, flag: u32, stream: Handle<Stream>) {
        let (word, place) = word(address)?;
        if flag != 0 {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "flag is {flag}; it must be 0");
        }
        let stream = stream.find()?;
        may_reach(stream, place)?;
        submit::submit(stream, ENTRY, WriteValue { word, value }).map(drop)
    }

    fn aclrtValueWait(address: *mut c_void, value: u64, flag: u32, stream: Handle<Stream>) {
        let (word, place) = word(address)?;
        let condition = condition(flag)?;
        let stream = stream.find()?;
        may_reach(stream, place)?;
        submit::submit(stream, ENTRY, WaitForValue { word, condition, value }).map(drop)
    }
}

/// Returns the condition of a wait with this flag.
pub(super) fn condition(flag: u32) -> Result<ValueCondition, Failure> {
    match flag {
        ACL_STREAM_WAIT_VALUE_GEQ => Ok(ValueCondition::Reached),
        ACL_STREAM_WAIT_VALUE_EQ => Ok(ValueCondition::Equal),
        ACL_STREAM_WAIT_VALUE_AND => Ok(ValueCondition::AnyBit),
        ACL_STREAM_WAIT_VALUE_NOR => Ok(ValueCondition::AnyBitOfNeither),
        _ => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "flag is {flag}; pass 0 (GEQ), 1 (EQ), 2 (AND) or 3 (NOR)"
        ),
    }
}

/// Returns the word at an address that a device reaches, and its place.
pub(super) fn word(address: *mut c_void) -> Result<(Word, MemoryPlace), Failure> {
    if address.is_null() {
        return Err(Failure::null("devAddr"));
    }
    if !address.addr().is_multiple_of(BYTES) {
        return fail!(
            ACL_ERROR_RT_ADDR_UNALIGNED,
            "devAddr is {address:p}; it must be a multiple of {BYTES}"
        );
    }
    let found = resolve(address, BYTES, "devAddr")?;
    if found.place == MemoryPlace::Pageable {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "devAddr: {address:p} is not memory that the device reaches; use memory of aclrtMalloc"
        );
    }
    // SAFETY: the word is aligned, since the distance of data from its address is a whole number of
    // pages. It was resolved, so it stays mapped.
    Ok((unsafe { Word::new(found.data) }, found.place))
}
