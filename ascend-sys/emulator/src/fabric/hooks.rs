//! Callbacks around the end of a communicator, and on Ascend 950 around its resuming.
//!
//! The callbacks of the whole process are called one at a time, in the order of their names. If a
//! callback returns an error code, the operation ends with that code. In CANN, a callback that
//! itself registers a callback, or ends or resumes a communicator, waits for itself. In the
//! emulator these calls return an error.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use ascend_sys::{HcclComm, HcclCommStatePhase, HcclResult};

use super::registry;
use crate::message::{Failure, refuse};

/// The largest length of a callback's name, in bytes.
const LONGEST: usize = 159;

type StateCallback = unsafe extern "C" fn(HcclComm, HcclCommStatePhase, *mut c_void) -> HcclResult;

/// The callbacks by name, each with the address that is passed to it.
type Hooks = BTreeMap<String, (StateCallback, usize)>;

static HOOKS: Mutex<Hooks> = Mutex::new(BTreeMap::new());

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn not_inside() -> Result<(), Failure> {
    if INSIDE.get() {
        return refuse!(
            HCCL_E_UNAVAIL,
            "a callback of HcclCommRegCommStateCallback cannot call this, because it would wait \
             for itself: make this call outside of the callback"
        );
    }
    Ok(())
}

/// Registers a callback, which replaces an earlier callback of the same name.
pub(crate) fn register(name: String, callback: StateCallback, args: usize) -> Result<(), Failure> {
    if name.is_empty() || name.len() > LONGEST {
        return refuse!(
            HCCL_E_PARA,
            "regName has {} bytes; pass a name of 1 to {LONGEST}",
            name.len()
        );
    }
    not_inside()?;
    HOOKS.lock().unwrap_or_else(PoisonError::into_inner).insert(name, (callback, args));
    Ok(())
}

/// Calls the callbacks for a phase of a communicator, until one of them returns an error code.
/// Blocks while another thread calls the callbacks.
pub(crate) fn call(comm: u64, phase: HcclCommStatePhase) -> Result<(), Failure> {
    struct InsideHook;
    impl Drop for InsideHook {
        fn drop(&mut self) {
            INSIDE.set(false);
        }
    }
    not_inside()?;
    // The lock is held while the callbacks run, as in CANN.
    let hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    INSIDE.set(true);
    let _inside = InsideHook;
    for (name, (callback, args)) in &*hooks {
        let args = std::ptr::with_exposed_provenance_mut(*args);
        // SAFETY: the registration promised that the callback can be called with these arguments.
        let code = unsafe { callback(comm as HcclComm, phase, args) };
        if code != HcclResult::HCCL_SUCCESS {
            let text = format!(
                "the callback \"{name}\" returned {} in phase {}; return HCCL_SUCCESS (0) from it \
                 to let the call go on",
                code.0, phase.0
            );
            return Err(Failure::new(code, text));
        }
    }
    Ok(())
}

/// Ends a communicator, and calls the callbacks before and after. If a callback before the end
/// returns an error code, the communicator is not ended.
pub(crate) fn around_end(comm: u64) -> Result<(), Failure> {
    if registry::member(comm).is_err() {
        // For an unknown communicator, `destroy` returns the error, and no callback is called.
        return registry::destroy(comm);
    }
    call(comm, HcclCommStatePhase::HCCL_COMM_STATE_PHASE_DESTROY_PRE)?;
    registry::destroy(comm)?;
    call(comm, HcclCommStatePhase::HCCL_COMM_STATE_PHASE_DESTROY_POST)
}
