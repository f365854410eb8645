//! Helpers for the ABI entries of HCCL.

use ascend_sys::ThreadHandle;

use crate::context;
use crate::machine;
use crate::message::Failure;
use crate::operator::issue;
use crate::profile::Product;

/// Returns an error for a null pointer.
pub(super) fn not_null<T>(pointer: *const T, argument: &str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::null(argument));
    }
    Ok(())
}

/// Returns the product of the device of an operator's thread.
pub(super) fn product_of(thread: ThreadHandle) -> Result<Product, Failure> {
    Ok(issue::thread_of(thread)?.product())
}

/// Returns the product of the calling thread's device, or of the default block if the thread has no
/// device.
pub(super) fn product_of_thread() -> Product {
    match context::current_device() {
        Ok((_, device)) => device.product(),
        Err(_) => machine::default_block().map_or(Product::A3, |block| block.product),
    }
}
