//! Groups. CANN's `hccl_comm.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::Out;
use super::entries::{Hccl, entries};
use std::ffi::c_char;

use ascend_sys::HcclResult;

use super::hccl_entry::not_null;
use super::raw::write_text;
use crate::issue::group;
use crate::message::add_text;

entries! {
    Hccl;

    fn HcclGroupStart() {
        group::start();
        Ok(())
    }

    fn HcclGroupEnd() {
        // A2 and A3 tell nobody; here the texts do.
        group::end()?.into_iter().for_each(add_text);
        Ok(())
    }

    fn HcclGroupStatusGet(is_open: Out<bool>) {
        let is_open = is_open.required("isGroupEnabled")?;
        is_open.write(group::is_open());
        Ok(())
    }

    fn ascendExtGroupResult(index: u32, code: *mut HcclResult, text: *mut c_char, text_len: usize) {
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
    }
}
