//! Callbacks around the end of a communicator, and on Ascend 950 around its resuming.
//!
//! They are called one at a time for the whole process, in the order of their names. A callback
//! that returns a code ends the operation with that code. In CANN a callback that calls register,
//! end or resume waits for itself; here that call is refused.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use ascend_sys::{HcclComm, HcclCommStatePhase, HcclResult};

use super::registry;
use crate::message::{Failure, refuse};

/// Most bytes of the name of a callback.
const LONGEST: usize = 159;

type StateCallback = unsafe extern "C" fn(HcclComm, HcclCommStatePhase, *mut c_void) -> HcclResult;

/// A callback, and the address that it is given.
type Hooks = BTreeMap<String, (StateCallback, usize)>;

static HOOKS: Mutex<Hooks> = Mutex::new(BTreeMap::new());

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn not_inside() -> Result<(), Failure> {
    if INSIDE.get() {
        return refuse!(
            HCCL_E_UNAVAIL,
            "not inside a callback of HcclCommRegCommStateCallback: it would wait for itself"
        );
    }
    Ok(())
}

/// A callback takes the place of an earlier one of the same name.
pub(crate) fn register(name: String, callback: StateCallback, args: usize) -> Result<(), Failure> {
    if name.is_empty() || name.len() > LONGEST {
        return refuse!(HCCL_E_PARA, "regName has {} bytes; it has 1 to {LONGEST}", name.len());
    }
    not_inside()?;
    HOOKS.lock().unwrap_or_else(PoisonError::into_inner).insert(name, (callback, args));
    Ok(())
}

/// Calls them all.
pub(crate) fn call(comm: u64, phase: HcclCommStatePhase) -> Result<(), Failure> {
    struct InsideHook;
    impl Drop for InsideHook {
        fn drop(&mut self) {
            INSIDE.set(false);
        }
    }
    not_inside()?;
    // Held while they run, as in CANN.
    let hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    INSIDE.set(true);
    let _inside = InsideHook;
    for (name, (callback, args)) in &*hooks {
        let args = std::ptr::with_exposed_provenance_mut(*args);
        // SAFETY: the registration promised that the callback can be called with these arguments.
        let code = unsafe { callback(comm as HcclComm, phase, args) };
        if code != HcclResult::HCCL_SUCCESS {
            let text = format!("the callback \"{name}\" returned {} in phase {}", code.0, phase.0);
            return Err(Failure::new(code, text));
        }
    }
    Ok(())
}

/// Ends a communicator, and calls them before and after.
pub(crate) fn around_end(comm: u64) -> Result<(), Failure> {
    if registry::member(comm).is_err() {
        // For an unknown communicator no callback is called: this is the error.
        return registry::destroy(comm);
    }
    call(comm, HcclCommStatePhase::HCCL_COMM_STATE_PHASE_DESTROY_PRE)?;
    registry::destroy(comm)?;
    call(comm, HcclCommStatePhase::HCCL_COMM_STATE_PHASE_DESTROY_POST)
}
