//! Callbacks that a program registers for `aclInit` and `aclFinalize`.
//!
//! They are called on the thread that calls `aclInit` or `aclFinalize`, in the order of their
//! registration, with no lock held. So they may call any function. If a callback itself calls
//! `aclInit` or `aclFinalize`, no callbacks are called for that. A callback is identified by its
//! type and its function.

use crate::message::{Failure, fail};
use ascend_sync::lock_std as lock;
use ascend_sys::{ACL_ERROR_INVALID_PARAM, aclRegisterCallbackType};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::ptr::with_exposed_provenance_mut;
use std::sync::Mutex;

type InitCallback = unsafe extern "C" fn(*const c_char, usize, *mut c_void) -> c_int;
type FinalizeCallback = unsafe extern "C" fn(*mut c_void) -> c_int;

/// A registered callback.
#[derive(Clone, Copy)]
struct Hook<F> {
    kind: u32,
    function: F,
    user_data: usize,
}

/// The callbacks of one kind.
pub(crate) struct InitHooks<F>(Mutex<Vec<Hook<F>>>);

pub(crate) static INIT: InitHooks<InitCallback> = InitHooks(Mutex::new(Vec::new()));
pub(crate) static FINALIZE: InitHooks<FinalizeCallback> = InitHooks(Mutex::new(Vec::new()));

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A function pointer, compared by its address.
pub(crate) trait Address: Copy {
    fn address(self) -> usize;
}

impl Address for InitCallback {
    fn address(self) -> usize {
        self as usize
    }
}

impl Address for FinalizeCallback {
    fn address(self) -> usize {
        self as usize
    }
}

impl<F: Address> InitHooks<F> {
    /// Registers a callback. If it is already registered, it gets the new user data.
    pub(crate) fn register(
        &self,
        kind: aclRegisterCallbackType,
        callback: Option<F>,
        user_data: *mut c_void,
    ) -> Result<(), Failure> {
        let (kind, function) = checked(kind, callback)?;
        let user_data = user_data.expose_provenance();
        let mut hooks = lock(&self.0);
        match hooks.iter_mut().find(|hook| hook.is(kind, function)) {
            Some(hook) => hook.user_data = user_data,
            None => hooks.push(Hook { kind, function, user_data }),
        }
        Ok(())
    }

    /// Removes a callback, so that it is not called any more. Does not wait for a call that another
    /// thread has begun.
    pub(crate) fn unregister(
        &self,
        kind: aclRegisterCallbackType,
        callback: Option<F>,
    ) -> Result<(), Failure> {
        let (kind, function) = checked(kind, callback)?;
        let mut hooks = lock(&self.0);
        match hooks.iter().position(|hook| hook.is(kind, function)) {
            Some(at) => {
                hooks.remove(at);
                Ok(())
            }
            None => fail!(
                ACL_ERROR_INVALID_PARAM,
                "cbFunc is not registered with the type {kind}; pass a function and the type that \
                 it was registered with"
            ),
        }
    }

    /// Calls `each` with each callback until `each` breaks. Does nothing if this thread is in a
    /// callback.
    fn call(&self, mut each: impl FnMut(Hook<F>) -> ControlFlow<()>) {
        struct InsideHook;
        impl Drop for InsideHook {
            fn drop(&mut self) {
                INSIDE.set(false);
            }
        }
        if INSIDE.replace(true) {
            return;
        }
        let _inside = InsideHook;
        let registered = lock(&self.0).clone();
        for hook in registered {
            // An earlier callback, or another thread, may have unregistered it.
            let still = lock(&self.0).iter().find(|it| it.is(hook.kind, hook.function)).copied();
            if still.is_some_and(|hook| each(hook).is_break()) {
                break;
            }
        }
    }
}

impl<F: Address> Hook<F> {
    fn is(&self, kind: u32, function: F) -> bool {
        self.kind == kind && self.function.address() == function.address()
    }

    fn user_data(&self) -> *mut c_void {
        with_exposed_provenance_mut(self.user_data)
    }

    /// Turns the answer of the callback into the result of `function`.
    fn answered(&self, function: &str, answer: c_int) -> Result<(), Failure> {
        match answer {
            0 => Ok(()),
            code => fail!(
                code,
                "a callback of type {} for {function} returned {code}; return 0 from it to \
                 report success",
                self.kind
            ),
        }
    }
}

fn checked<F>(kind: aclRegisterCallbackType, callback: Option<F>) -> Result<(u32, F), Failure> {
    if !matches!(kind.0, 0..=7 | 65_535) {
        return fail!(ACL_ERROR_INVALID_PARAM, "type is {}; pass 0 to 7, or 65535", kind.0);
    }
    match callback {
        Some(function) => Ok((kind.0, function)),
        None => fail!(ACL_ERROR_INVALID_PARAM, "cbFunc is NULL; pass a function"),
    }
}

/// Calls the callbacks of `aclInit` with the text of its configuration, until one of them fails.
/// Returns the error of that callback.
pub(crate) fn tell_init(configuration: &CStr) -> Result<(), Failure> {
    let (text, length) = (configuration.as_ptr(), configuration.count_bytes());
    let mut result = Ok(());
    INIT.call(|hook| {
        // SAFETY: the program has promised, by registering it, that it can be called with these.
        let answer = unsafe { (hook.function)(text, length, hook.user_data()) };
        result = hook.answered("aclInit", answer);
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    result
}

/// Calls all callbacks of `aclFinalize`. Returns the error of the first callback that fails.
pub(crate) fn tell_finalize() -> Result<(), Failure> {
    let mut result = Ok(());
    FINALIZE.call(|hook| {
        // SAFETY: as in `tell_init`.
        let answer = unsafe { (hook.function)(hook.user_data()) };
        let answered = hook.answered("aclFinalize", answer);
        if result.is_ok() {
            result = answered;
        }
        ControlFlow::Continue(())
    });
    result
}
