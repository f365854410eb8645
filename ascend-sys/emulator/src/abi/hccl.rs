//! What all doors of HCCL share, and the questions that need no communicator.
#![allow(non_snake_case, reason = "CANN's names")]

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ascend_sys::{Functions, HcclComm, HcclResult};

use super::{
    hccl_batch, hccl_comm, hccl_config, hccl_group, hccl_messages, hccl_ops, hccl_state,
    hccl_tables,
};
use crate::collective::validate::{Refusal, refuse};
use crate::context;
use crate::fabric::{Member, registry};
use crate::machine;
use crate::message::{PANICKED, add_text};
use crate::profile::Product;

/// Puts the functions of HCCL into a table.
pub(crate) fn fill(table: &mut Functions) {
    table.HcclGetErrorString = Some(HcclGetErrorString);
    table.HcclGetCommConfigCapability = Some(HcclGetCommConfigCapability);
    hccl_comm::fill(table);
    hccl_config::fill(table);
    hccl_group::fill(table);
    hccl_state::fill(table);
    hccl_ops::fill(table);
    hccl_tables::fill(table);
    hccl_batch::fill(table);
    hccl_messages::fill(table);
}

/// Runs the inside of a C function: a refusal becomes its code, with the text noted for `aclGetRecentErrMsg`.
#[inline]
pub(super) fn door(name: &'static str, inside: impl FnOnce() -> Result<(), Refusal>) -> HcclResult {
    match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(Ok(())) => HcclResult::HCCL_SUCCESS,
        Ok(Err(refusal)) => tell(name, refusal),
        Err(_) => {
            let text = format!("EI9999: {PANICKED}");
            tell(name, Refusal::new(HcclResult::HCCL_E_INTERNAL, text))
        }
    }
}

#[cold]
fn tell(name: &str, Refusal { code, text }: Refusal) -> HcclResult {
    // What has no number of its own is about an argument of the function.
    add_text(if text.starts_with("EI") { text } else { format!("EI0003: {name}: {text}") });
    code
}

/// Refuses a null pointer.
pub(super) fn not_null<T>(pointer: *const T, argument: &str) -> Result<(), Refusal> {
    if pointer.is_null() {
        return refuse!(HCCL_E_PTR, "the argument {argument} is NULL");
    }
    Ok(())
}

/// The rank behind a handle.
pub(super) fn member(comm: HcclComm) -> Result<Arc<Member>, Refusal> {
    not_null(comm, "comm")?;
    registry::member(comm as u64)
}

/// A C string that an argument names.
///
/// # Safety
///
/// `text` is null or NUL-terminated.
pub(super) unsafe fn text_of(text: *const c_char, argument: &str) -> Result<String, Refusal> {
    not_null(text, argument)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// The product of the calling thread's device, or of the default block.
pub(super) fn product_of_thread() -> Product {
    match context::current_device() {
        Ok((_, device)) => device.product(),
        Err(_) => machine::default_block().map_or(Product::A3, |block| block.product),
    }
}

unsafe extern "C" fn HcclGetErrorString(code: HcclResult) -> *const c_char {
    let text: &CStr = match code.0 {
        0 => c"no error",
        1 => c"parameter error",
        2 => c"empty pointer",
        3 => c"memory error",
        4 => c"internal error",
        5 => c"not support feature",
        6 => c"not found specific resource",
        7 => c"resource unavailable",
        8 => c"call system interface error",
        9 => c"timeout",
        10 => c"open file fail",
        11 => c"tcp connect fail",
        12 => c"roce connect fail",
        13 => c"tcp transfer fail",
        14 => c"roce transfer fail",
        15 => c"call runtime api fail",
        16 => c"call driver api fail",
        17 => c"call profiling api fail",
        18 => c"call cce api fail",
        19 => c"call network api fail",
        20 => c"try again",
        21 => c"error cqe",
        22 => c"error communicator suspending",
        23 => c"retry constraint",
        24 => c"out of memory",
        25..=1041 => c"unknown err",
        _ => c"unknown error",
    };
    text.as_ptr()
}

unsafe extern "C" fn HcclGetCommConfigCapability() -> u32 {
    match product_of_thread() {
        Product::A2 | Product::A3 => 12,
        Product::Ascend950 => 10,
    }
}
