//! The entries for engine contexts, as in CANN's `hccl_res.h`: memory that a communicator keeps for
//! an operator under a name.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Handle, Out};
use super::entries::{Hccl, entries};
use super::hccl_entry::not_null;
use crate::fabric::Member;
use crate::message::{Failure, refuse};
use crate::operator;
use ascend_sys::{CommEngine, HCCL_RES_TAG_MAX_LEN, HcclResult};
use std::ffi::c_void;

entries! {
    Hccl;

    fn HcclEngineCtxCreate(
        comm: Handle<Member>,
        tag: CText,
        engine: CommEngine,
        size: u64,
        context: Out<*mut c_void>,
    ) {
        comm.required("comm")?;
        let context = context.required("ctx")?;
        let tag = tag_of(&tag)?;
        not_empty(size)?;
        let address = operator::create(&*comm.find()?, &tag, engine, size, ENTRY)?;
        context.write(std::ptr::with_exposed_provenance_mut(address));
        Ok(())
    }

    fn HcclEngineCtxGet(
        comm: Handle<Member>,
        tag: CText,
        engine: CommEngine,
        context: Out<*mut c_void>,
        size: Out<u64>,
    ) {
        comm.required("comm")?;
        let context = context.required("ctx")?;
        let size = size.required("size")?;
        let tag = tag_of(&tag)?;
        // An operator uses this result to find out that it is called for the first time. So it is
        // not an error of the program, and has no text.
        let Some(found) = operator::find(&*comm.find()?, &tag, engine)? else {
            return Err(Failure::silent(HcclResult::HCCL_E_NOT_FOUND));
        };
        context.write(std::ptr::with_exposed_provenance_mut(found.address));
        size.write(found.bytes);
        Ok(())
    }

    fn HcclEngineCtxCopy(
        comm: Handle<Member>,
        engine: CommEngine,
        tag: CText,
        source: *const c_void,
        size: u64,
        offset: u64,
    ) {
        comm.required("comm")?;
        not_null(source, "srcCtx")?;
        let tag = tag_of(&tag)?;
        not_empty(size)?;
        operator::copy_into(&*comm.find()?, &tag, engine, (source.addr(), size), offset, ENTRY)
    }

    fn HcclEngineCtxDestroy(comm: Handle<Member>, tag: CText, engine: CommEngine) {
        comm.required("comm")?;
        let tag = tag_of(&tag)?;
        operator::destroy(&*comm.find()?, &tag, engine, ENTRY)
    }
}

/// Returns a tag. NULL is the empty tag.
fn tag_of(tag: &CText) -> Result<String, Failure> {
    let Some(text) = tag.given() else { return Ok(String::new()) };
    let length = text.to_bytes().len();
    if length > HCCL_RES_TAG_MAX_LEN as usize {
        return refuse!(
            HCCL_E_PARA,
            "ctxTag has {length} bytes; pass at most {HCCL_RES_TAG_MAX_LEN}"
        );
    }
    Ok(text.to_string_lossy().into_owned())
}

fn not_empty(size: u64) -> Result<(), Failure> {
    if size == 0 {
        return refuse!(HCCL_E_PARA, "size is 0; pass at least 1");
    }
    Ok(())
}
