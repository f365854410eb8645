//! The entries for groups, as in CANN's `hccl_comm.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Out, OutText};
use super::entries::{Hccl, entries};

use ascend_sys::HcclResult;

use crate::issue::group;
use crate::message::add_text;

entries! {
    Hccl;

    fn HcclGroupStart() {
        group::start();
        Ok(())
    }

    fn HcclGroupEnd() {
        // A2 and A3 do not report these failures. Here they are added to the error texts.
        group::end()?.into_iter().for_each(add_text);
        Ok(())
    }

    fn HcclGroupStatusGet(is_open: Out<bool>) {
        let is_open = is_open.required("isGroupEnabled")?;
        is_open.write(group::is_open());
        Ok(())
    }

    fn ascendExtGroupResult(
        index: u32,
        code: Out<HcclResult>,
        text: OutText[text_len],
        text_len: usize,
    ) {
        let code = code.required("code")?;
        let failure = group::result(index)?;
        let (found, words) = match &failure {
            None => (HcclResult::HCCL_SUCCESS, "".into()),
            Some(failure) => failure.in_hccl(),
        };
        code.write(found);
        text.write(&words);
        Ok(())
    }
}
