//! Why a call failed, in words: what `aclGetRecentErrMsg` returns, and the code that `aclrtGetLastError` returns.
//!
//! Both belong to the calling thread, as CANN has it by default.

use ascend_sys::{ACL_SUCCESS, aclError};
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char};
use std::sync::Arc;

/// A code of CANN with its explanation. The same failure may be told to many ranks.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) code: aclError,
    pub(crate) text: Arc<str>,
}

impl Failure {
    pub(crate) fn new(code: aclError, text: impl Into<Arc<str>>) -> Failure {
        Failure { code, text: text.into() }
    }
}

/// `Err(Failure)` with a formatted text.
macro_rules! fail {
    ($code:expr, $($text:tt)+) => {
        Err($crate::message::Failure::new($code, format!($($text)+)))
    };
}
pub(crate) use fail;

/// Texts kept for a thread that never asks.
const KEPT: usize = 32;

thread_local! {
    static TEXTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static RETURNED: RefCell<Option<CString>> = const { RefCell::new(None) };
    static LAST: Cell<aclError> = const { Cell::new(ACL_SUCCESS) };
}

/// Notes a text and a code for the calling thread.
pub(crate) fn report(code: aclError, text: String) {
    LAST.set(code);
    add_text(text);
}

/// Notes a text only: for callers whose codes are not those of ACL.
pub(crate) fn add_text(text: String) {
    TEXTS.with_borrow_mut(|texts| {
        if texts.len() == KEPT {
            texts.remove(0);
        }
        texts.push(text);
    });
}

/// The texts since the last call, newest first, or null. Valid until the thread's next call of this.
pub(crate) fn take_texts() -> *const c_char {
    let mut texts = TEXTS.take();
    if texts.is_empty() {
        return std::ptr::null();
    }
    texts.reverse();
    let mut bytes = texts.join("\n").into_bytes();
    bytes.retain(|&byte| byte != 0);
    RETURNED.with_borrow_mut(|returned| {
        let text = returned.insert(CString::new(bytes).unwrap_or_default());
        text.as_ptr()
    })
}

pub(crate) fn peek_last() -> aclError {
    LAST.get()
}

pub(crate) fn take_last() -> aclError {
    LAST.replace(ACL_SUCCESS)
}
