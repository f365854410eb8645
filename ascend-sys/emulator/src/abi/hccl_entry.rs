//! What all ABI entries of HCCL share.

use std::sync::Arc;

use ascend_sys::{HcclComm, ThreadHandle};

use crate::context;
use crate::fabric::{Member, registry};
use crate::machine;
use crate::message::Failure;
use crate::operator::issue;
use crate::profile::Product;

/// Refuses a null pointer.
pub(super) fn not_null<T>(pointer: *const T, argument: &str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::null(argument));
    }
    Ok(())
}

/// The rank behind a handle.
pub(super) fn member(comm: HcclComm) -> Result<Arc<Member>, Failure> {
    not_null(comm, "comm")?;
    registry::member(comm as u64)
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
