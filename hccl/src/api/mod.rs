//! The only interface to a device: a table of C functions that CANN or the emulator fills.
//!
//! [`call!`] calls a function of the table and converts its outcome. A missing function becomes
//! [`Error::MissingSymbol`]. A code becomes [`Error::Call`], with the name of the code and CANN's
//! text. The text is read at once on the same thread, because CANN keeps it per thread and only
//! until the next call.
//!
//! [`handles`] wraps the objects of AscendCL in owned handles, so that the layers above need no
//! `unsafe` for streams and events. [`item`] wraps a message of a batch, and [`entries`] wraps the
//! optional entries (`ascendExt*`). Nothing here depends on which backend filled the table.

pub(crate) mod entries;
pub(crate) mod graphs;
pub(crate) mod handles;
pub(crate) mod item;
pub(crate) mod kernels;
pub(crate) mod operators;
pub(crate) mod peers;

use ascend_sys::{Api, Functions, HcclResult, aclError};
use std::ffi::{CStr, c_char};

use crate::error::{Code, Error, Result};

/// Calls a function of the table: `unsafe { call!(table, aclrtFree, pointer) }?`.
///
/// Use the macro inside an `unsafe` block. The comment of the block says why the arguments are
/// valid for the function.
macro_rules! call {
    ($table:expr, $function:ident $(, $argument:expr)* $(,)?) => {
        match $table.functions().$function {
            Some(function) => {
                let status = function($($argument),*);
                $crate::api::check($table, stringify!($function), status)
            }
            None => Err($table.missing(stringify!($function))),
        }
    };
}
pub(crate) use call;

/// The functions of one backend.
pub(crate) struct Table {
    functions: Functions,
    /// The libraries that were searched for the functions.
    sources: Box<[String]>,
}

/// Returns the text that the backend has written into an array, up to its NUL.
pub(crate) fn words(text: &[c_char]) -> Box<str> {
    let bytes: Vec<u8> =
        text.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into()
}

impl Table {
    /// Returns a table with the functions of the emulator.
    #[cfg(feature = "emulator")]
    pub(crate) fn of_emulator(functions: Functions) -> Self {
        Self { functions, sources: ["the emulator".into()].into() }
    }

    /// Returns a table with the functions of a loaded or given backend.
    pub(crate) fn of_api(api: &Api) -> Self {
        Self { functions: *api.functions(), sources: api.sources().into() }
    }

    #[inline]
    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Returns the libraries that were searched for the functions, the runtime library first.
    pub(crate) fn sources(&self) -> &[String] {
        &self.sources
    }

    /// Returns the error for a function that the table does not have.
    #[cold]
    pub(crate) fn missing(&self, function: &'static str) -> Error {
        Error::MissingSymbol { function, tried: self.sources.clone(), context: None }
    }

    /// Returns CANN's text about the last failure on this thread, if there is one, and clears it.
    #[cold]
    pub(crate) fn recent_message(&self) -> Option<Box<str>> {
        let function = self.functions.aclGetRecentErrMsg?;
        // SAFETY: the function takes no arguments. The text stays valid until the next call on this
        // thread, and is copied here.
        let text = unsafe {
            let text = function();
            if text.is_null() {
                return None;
            }
            CStr::from_ptr(text).to_string_lossy()
        };
        let text = text.trim();
        (!text.is_empty()).then(|| text.into())
    }
}

/// A return type of CANN's functions, which is a code.
pub(crate) trait Status: Copy {
    fn is_success(self) -> bool;
    fn code(self) -> Code;
}

impl Status for aclError {
    #[inline]
    fn is_success(self) -> bool {
        self == 0
    }
    fn code(self) -> Code {
        Code::Acl(self)
    }
}

impl Status for HcclResult {
    #[inline]
    fn is_success(self) -> bool {
        self == HcclResult::HCCL_SUCCESS
    }
    fn code(self) -> Code {
        Code::Hccl(self.0)
    }
}

/// Turns a status into a result. [`call!`] uses this function.
#[inline]
pub(crate) fn check(table: &Table, function: &'static str, status: impl Status) -> Result<()> {
    if status.is_success() { Ok(()) } else { Err(failure(table, function, status.code())) }
}

#[cold]
fn failure(table: &Table, function: &'static str, code: Code) -> Error {
    Error::Call { function, code, message: table.recent_message(), context: None }
}
