//! Refuses devices in a child that was forked from a process which used devices. The child does not
//! have the threads that run streams and answer other processes, but it shares the memory. A lock
//! that one of those threads held stays locked in the child for ever. So [every entry](crate::abi)
//! that uses devices returns an error in the child before it does anything. The parent is not
//! affected.

use crate::message::{Failure, fail};
use ascend_sys::ACL_ERROR_RT_CONTEXT_NULL;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set in a child that was forked from a process which used devices.
static FORKED: AtomicBool = AtomicBool::new(false);

/// The functions that also work in a forked child, because they only return constants.
const CONSTANTS: [&str; 8] = [
    "aclDataTypeSize",
    "aclGetCannAttribute",
    "aclGetCannAttributeList",
    "aclrtGetRunMode",
    "aclrtGetVersion",
    "aclsysGetCANNVersion",
    "aclsysGetVersionNum",
    "aclsysGetVersionStr",
];

/// Makes every child that is forked from this process from now on refuse devices.
pub(crate) fn devices_are_used() {
    static WATCH: Once = Once::new();
    unsafe extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    // SAFETY: the handler only writes an atomic, which is allowed after a fork.
    WATCH.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
}

/// Returns an error for a function of the C ABI, except the [`CONSTANTS`], in a process that was
/// forked from one that used devices.
#[inline]
pub(crate) fn refuse_in_child(function: &str) -> Result<(), Failure> {
    if is_child() && !CONSTANTS.contains(&function) { refused() } else { Ok(()) }
}

/// Returns an error for any use of devices in a process that was forked from one that used devices.
pub(crate) fn refuse_devices() -> Result<(), Failure> {
    if is_child() { refused() } else { Ok(()) }
}

#[inline]
fn is_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

#[cold]
fn refused() -> Result<(), Failure> {
    fail!(
        ACL_ERROR_RT_CONTEXT_NULL,
        "this process was forked from one that used devices, which do not survive a fork; start \
         it with exec, or fork before the first use of a device"
    )
}
