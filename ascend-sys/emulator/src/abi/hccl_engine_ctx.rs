//! Engine contexts: memory that a communicator keeps for an operator under a name. CANN's `hccl_res.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Hccl, Out, entries, run};
use super::hccl_entry::{member, not_null};
use crate::message::{Failure, refuse};
use crate::operator;
use ascend_sys::{CommEngine, HCCL_RES_TAG_MAX_LEN, HcclComm, HcclResult};
use std::ffi::{CStr, c_char, c_void};

entries! {
    Hccl;
    also { HcclEngineCtxGet }

    fn HcclEngineCtxCreate(
        comm: HcclComm,
        tag: *const c_char,
        engine: CommEngine,
        size: u64,
        context: Out<*mut c_void>,
    ) {
        not_null(comm, "comm")?;
        let context = context.required("ctx")?;
        // SAFETY: null or NUL-terminated by the C contract.
        let tag = unsafe { tag_of(tag) }?;
        not_empty(size)?;
        let address = operator::create(&*member(comm)?, &tag, engine, size, ENTRY)?;
        context.write(std::ptr::with_exposed_provenance_mut(address));
        Ok(())
    }

    fn HcclEngineCtxCopy(
        comm: HcclComm,
        engine: CommEngine,
        tag: *const c_char,
        source: *const c_void,
        size: u64,
        offset: u64,
    ) {
        not_null(comm, "comm")?;
        not_null(source, "srcCtx")?;
        // SAFETY: null or NUL-terminated by the C contract.
        let tag = unsafe { tag_of(tag) }?;
        not_empty(size)?;
        operator::copy_into(&*member(comm)?, &tag, engine, (source.addr(), size), offset, ENTRY)
    }

    fn HcclEngineCtxDestroy(comm: HcclComm, tag: *const c_char, engine: CommEngine) {
        not_null(comm, "comm")?;
        // SAFETY: null or NUL-terminated by the C contract.
        let tag = unsafe { tag_of(tag) }?;
        operator::destroy(&*member(comm)?, &tag, engine, ENTRY)
    }
}

/// A tag, where NULL is the empty one.
///
/// # Safety
///
/// `tag` is null or NUL-terminated.
unsafe fn tag_of(tag: *const c_char) -> Result<String, Failure> {
    if tag.is_null() {
        return Ok(String::new());
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(tag) };
    let length = text.to_bytes().len();
    if length > HCCL_RES_TAG_MAX_LEN as usize {
        return refuse!(
            HCCL_E_PARA,
            "ctxTag has {length} characters; {HCCL_RES_TAG_MAX_LEN} are possible"
        );
    }
    Ok(text.to_string_lossy().into_owned())
}

fn not_empty(size: u64) -> Result<(), Failure> {
    if size == 0 {
        return refuse!(HCCL_E_PARA, "size is 0");
    }
    Ok(())
}

unsafe extern "C" fn HcclEngineCtxGet(
    comm: HcclComm,
    tag: *const c_char,
    engine: CommEngine,
    context: *mut *mut c_void,
    size: *mut u64,
) -> HcclResult {
    let mut is_there = false;
    let code = run::<Hccl>("HcclEngineCtxGet", || {
        not_null(comm, "comm")?;
        not_null(context, "ctx")?;
        not_null(size, "size")?;
        // SAFETY: null or NUL-terminated by the C contract.
        let tag = unsafe { tag_of(tag) }?;
        if let Some(found) = operator::find(&*member(comm)?, &tag, engine)? {
            is_there = true;
            // SAFETY: not null, and valid for writes by the C contract.
            unsafe {
                context.write(std::ptr::with_exposed_provenance_mut(found.address));
                size.write(found.bytes);
            }
        }
        Ok(())
    });
    // This is how an operator learns that it is called for the first time: no mistake, and no text.
    match code {
        HcclResult::HCCL_SUCCESS if !is_there => HcclResult::HCCL_E_NOT_FOUND,
        code => code,
    }
}
