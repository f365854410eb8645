//! What all ABI entries of HCCL share.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ascend_sys::{HcclComm, HcclResult, ThreadHandle};

use crate::context;
use crate::fabric::{Member, registry};
use crate::machine;
use crate::message::{Failure, PANICKED, add_text, refuse};
use crate::operator::issue;
use crate::profile::Product;

/// Runs the inside of a C function: a failure becomes its code, with the text noted for `aclGetRecentErrMsg`.
#[inline]
pub(super) fn abi_entry(
    name: &'static str,
    inside: impl FnOnce() -> Result<(), Failure>,
) -> HcclResult {
    match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(Ok(())) => HcclResult::HCCL_SUCCESS,
        Ok(Err(failure)) => tell(name, &failure),
        Err(_) => {
            let text = format!("EI9999: {PANICKED}");
            tell(name, &Failure::new(HcclResult::HCCL_E_INTERNAL, text))
        }
    }
}

#[cold]
fn tell(name: &str, failure: &Failure) -> HcclResult {
    let (code, text) = failure.in_hccl();
    // What has no number of its own is about an argument of the function.
    add_text(if text.starts_with("EI") {
        text.to_string()
    } else {
        format!("EI0003: {name}: {text}")
    });
    code
}

/// Refuses a null pointer.
pub(super) fn not_null<T>(pointer: *const T, argument: &str) -> Result<(), Failure> {
    if pointer.is_null() {
        return refuse!(HCCL_E_PTR, "the argument {argument} is NULL");
    }
    Ok(())
}

/// The rank behind a handle.
pub(super) fn member(comm: HcclComm) -> Result<Arc<Member>, Failure> {
    not_null(comm, "comm")?;
    registry::member(comm as u64)
}

/// A C string that an argument names.
///
/// # Safety
///
/// `text` is null or NUL-terminated.
pub(super) unsafe fn text_of(text: *const c_char, argument: &str) -> Result<String, Failure> {
    not_null(text, argument)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// The product that a thread of an operator is on.
pub(super) fn product_of(thread: ThreadHandle) -> Result<Product, Failure> {
    Ok(issue::thread_of(thread)?.product())
}

/// The product of the calling thread's device, or of the default block.
pub(super) fn product_of_thread() -> Product {
    match context::current_device() {
        Ok((_, device)) => device.product(),
        Err(_) => machine::default_block().map_or(Product::A3, |block| block.product),
    }
}
