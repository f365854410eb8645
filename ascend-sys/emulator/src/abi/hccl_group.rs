//! Groups. CANN's `hccl_comm.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use std::ffi::c_char;

use ascend_sys::{Functions, HcclResult};

use super::hccl_entry::{abi_entry, not_null};
use super::write_text;
use crate::issue::group;
use crate::message::add_text;

pub(super) fn fill(table: &mut Functions) {
    table.HcclGroupStart = Some(HcclGroupStart);
    table.HcclGroupEnd = Some(HcclGroupEnd);
    table.HcclGroupStatusGet = Some(HcclGroupStatusGet);
    table.ascendExtGroupResult = Some(ascendExtGroupResult);
}

unsafe extern "C" fn HcclGroupStart() -> HcclResult {
    abi_entry("HcclGroupStart", || {
        group::start();
        Ok(())
    })
}

unsafe extern "C" fn HcclGroupEnd() -> HcclResult {
    abi_entry("HcclGroupEnd", || {
        // A2 and A3 tell nobody; here the texts do.
        group::end()?.into_iter().for_each(add_text);
        Ok(())
    })
}

unsafe extern "C" fn HcclGroupStatusGet(is_open: *mut bool) -> HcclResult {
    abi_entry("HcclGroupStatusGet", || {
        not_null(is_open, "isGroupEnabled")?;
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { is_open.write(group::is_open()) };
        Ok(())
    })
}

unsafe extern "C" fn ascendExtGroupResult(
    index: u32,
    code: *mut HcclResult,
    text: *mut c_char,
    text_len: usize,
) -> HcclResult {
    abi_entry("ascendExtGroupResult", || {
        not_null(code, "code")?;
        let failure = group::result(index)?;
        let (found, words) = match &failure {
            None => (HcclResult::HCCL_SUCCESS, "".into()),
            Some(failure) => failure.in_hccl(),
        };
        // SAFETY: not null, so valid for a write; the text is as large as it says, by the C contract.
        unsafe {
            code.write(found);
            write_text(text, text_len, &words);
        }
        Ok(())
    })
}
