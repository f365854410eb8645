//! Callbacks that a program registers by name. The emulator calls them when a device is set or
//! reset, when a stream is created or destroyed, and when the tasks of a device are aborted.
//!
//! The callbacks are called in the order of their names, on the thread that made the causing call,
//! with no lock held. So a callback may call any function. The calls that a callback makes call no
//! callbacks.

use crate::counted::CountedTable;
use crate::machine;
use crate::message::{Failure, fail};
use ascend_sys::{
    ACL_ERROR_RT_DEVICE_TASK_ABORT, ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceState,
    aclrtDeviceTaskAbortStage, aclrtStream, aclrtStreamState,
};
use std::cell::Cell;
use std::ffi::c_void;

type DeviceCallback = unsafe extern "C" fn(i32, aclrtDeviceState, *mut c_void);
type StreamCallback = unsafe extern "C" fn(aclrtStream, aclrtStreamState, *mut c_void);
type AbortCallback = unsafe extern "C" fn(i32, aclrtDeviceTaskAbortStage, u32, *mut c_void) -> i32;

/// The callbacks of one kind, each with its argument.
pub(crate) struct StateHooks<F>(CountedTable<String, (F, usize)>);

pub(crate) static DEVICE: StateHooks<DeviceCallback> = StateHooks::new();
pub(crate) static STREAM: StateHooks<StreamCallback> = StateHooks::new();
pub(crate) static ABORT: StateHooks<AbortCallback> = StateHooks::new();

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

impl<F: Copy> StateHooks<F> {
    const fn new() -> Self {
        StateHooks(CountedTable::new())
    }

    /// Registers a callback, which replaces an earlier callback of the same name. If `callback` is
    /// `None`, removes the earlier callback, and returns an error if there is none.
    pub(crate) fn set(
        &self,
        name: String,
        callback: Option<F>,
        args: *mut c_void,
    ) -> Result<(), Failure> {
        if name.is_empty() {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "regName is empty; pass a name");
        }
        match callback {
            Some(callback) => {
                self.0.lock().insert(name, (callback, args.expose_provenance()));
            }
            None if self.0.lock().remove(&name).is_none() => {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "callback is NULL, which removes a callback, but none is registered under the \
                     name \"{name}\"; pass the name of a registered callback"
                );
            }
            None => {}
        }
        Ok(())
    }

    /// Calls all callbacks until one of them fails. Returns the error of that callback. Does
    /// nothing if this thread is in a callback.
    fn call(
        &self,
        mut each: impl FnMut(&str, F, *mut c_void) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        struct InsideHook;
        impl Drop for InsideHook {
            fn drop(&mut self) {
                INSIDE.set(false);
            }
        }
        if self.0.is_empty() || INSIDE.get() {
            return Ok(());
        }
        let all: Vec<_> = self.0.lock().iter().map(|(name, it)| (name.clone(), *it)).collect();
        INSIDE.set(true);
        let _inside = InsideHook;
        all.into_iter().try_for_each(|(name, (callback, args))| {
            each(&name, callback, std::ptr::with_exposed_provenance_mut(args))
        })
    }
}

/// Calls the callbacks for the device that the program names by this number.
pub(crate) fn tell_device(number: i32, state: aclrtDeviceState) -> Result<(), Failure> {
    DEVICE.call(|_, callback, args| {
        // SAFETY: the caller that registered it promised that it can be called with these.
        unsafe { callback(number, state, args) };
        Ok(())
    })
}

/// Calls the callbacks for a stream.
pub(crate) fn tell_stream(handle: u64, state: aclrtStreamState) -> Result<(), Failure> {
    STREAM.call(|_, callback, args| {
        // SAFETY: as in `tell_device`.
        unsafe { callback(handle as aclrtStream, state, args) };
        Ok(())
    })
}

/// Calls the callbacks for an abort of a device. A callback can refuse the abort.
pub(crate) fn tell_abort(
    number: i32,
    stage: aclrtDeviceTaskAbortStage,
    timeout: u32,
) -> Result<(), Failure> {
    ABORT.call(|name, callback, args| {
        // SAFETY: as in `tell_device`.
        match unsafe { callback(number, stage, timeout, args) } {
            0 => Ok(()),
            answer => {
                let device = machine::find_device(number).map_or(0, |device| device.id);
                fail!(
                    ACL_ERROR_RT_DEVICE_TASK_ABORT,
                    "the callback \"{name}\" returned {answer} in stage {} of the abort of device \
                     {}; return 0 from it to allow the abort",
                    stage.0,
                    machine::named(device)
                )
            }
        }
    })
}
