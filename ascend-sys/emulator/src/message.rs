//! Keeps the reasons why calls failed: the texts that `aclGetRecentErrMsg` returns, and the code
//! that `aclrtGetLastError` returns.
//!
//! Both belong to the calling thread, as in CANN by default. The texts belong to the process if the
//! configuration of `aclInit` says so.

use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_INTERNAL_ERROR, ACL_ERROR_INVALID_PARAM, ACL_SUCCESS, HcclResult, aclError,
};
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The text for a panic, wherever it is caught.
pub(crate) const PANICKED: &str =
    "the emulator panicked; this is a defect of the emulator, so please report it";

/// A code of one of CANN's two families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    Acl(aclError),
    Hccl(HcclResult),
    /// An argument is NULL. Each family has its own code and text for this.
    Null,
}

impl From<aclError> for ErrorCode {
    fn from(code: aclError) -> ErrorCode {
        ErrorCode::Acl(code)
    }
}

impl From<HcclResult> for ErrorCode {
    fn from(code: HcclResult) -> ErrorCode {
        ErrorCode::Hccl(code)
    }
}

impl PartialEq<aclError> for ErrorCode {
    fn eq(&self, code: &aclError) -> bool {
        *self == ErrorCode::Acl(*code)
    }
}

impl PartialEq<HcclResult> for ErrorCode {
    fn eq(&self, code: &HcclResult) -> bool {
        *self == ErrorCode::Hccl(*code)
    }
}

/// A code of CANN with its explanation. The same failure may be reported to many ranks.
///
/// It is one pointer, so that a function that can fail returns its success in registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure(Box<Particulars>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Particulars {
    pub(crate) code: ErrorCode,
    /// A line with the cause. Lines with details, and with advice, may follow.
    pub(crate) text: Arc<str>,
    /// The task that failed; `None` if the function itself failed.
    pub(crate) task: Option<Arc<str>>,
}

impl Deref for Failure {
    type Target = Particulars;

    fn deref(&self) -> &Particulars {
        &self.0
    }
}

impl Failure {
    #[cold]
    pub(crate) fn new(code: impl Into<ErrorCode>, text: impl Into<Arc<str>>) -> Failure {
        Failure(Box::new(Particulars { code: code.into(), text: text.into(), task: None }))
    }

    /// Makes a failure whose code is an answer, not a mistake. It has no text.
    pub(crate) fn silent(code: HcclResult) -> Failure {
        Failure::new(code, "")
    }

    /// Makes the failure for an argument that is NULL.
    #[cold]
    pub(crate) fn null(argument: &str) -> Failure {
        Failure::new(ErrorCode::Null, format!("{argument} is NULL; pass a valid pointer"))
    }

    /// Returns the code that a function of the runtime returns. Functions of the runtime do not
    /// call HCCL, except when a graph issues its operations again. The failures of these operations
    /// get a code of their own.
    pub(crate) fn acl_code(&self) -> aclError {
        match self.code {
            ErrorCode::Acl(code) => code,
            ErrorCode::Hccl(_) => ACL_ERROR_INTERNAL_ERROR,
            ErrorCode::Null => ACL_ERROR_INVALID_PARAM,
        }
    }

    /// Returns the code and the text with which a function of HCCL reports the failure. For the
    /// failure of a runtime function that it called, the code is `HCCL_E_RUNTIME`, and the text has
    /// the runtime's code.
    #[cold]
    pub(crate) fn in_hccl(&self) -> (HcclResult, Arc<str>) {
        match self.code {
            ErrorCode::Hccl(code) => (code, Arc::clone(&self.text)),
            ErrorCode::Null => {
                (HcclResult::HCCL_E_PTR, format!("the argument {}", self.text).into())
            }
            ErrorCode::Acl(code) => {
                let text = format!("EI9999: {} [the runtime returned {code}]", self.text);
                (HcclResult::HCCL_E_RUNTIME, text.into())
            }
        }
    }

    /// Makes the failure of one item of a list that a function of HCCL got. `item` names it, for
    /// example `item 3`.
    #[cold]
    pub(crate) fn of_item(self, item: impl Display) -> Failure {
        let (code, text) = self.in_hccl();
        Failure::new(code, format!("{item}: {text}"))
    }

    pub(crate) fn of_task(mut self, task: impl Into<Arc<str>>) -> Failure {
        self.0.task = Some(task.into());
        self
    }

    /// Returns the same failure with another code.
    pub(crate) fn with_code(mut self, code: impl Into<ErrorCode>) -> Failure {
        self.0.code = code.into();
        self
    }

    /// Returns the text, with the task in brackets after the cause.
    pub(crate) fn with_task(&self) -> String {
        match (&self.task, self.text.split_once('\n')) {
            (None, _) => self.text.to_string(),
            (Some(task), Some((cause, rest))) => format!("{cause} [{task}]\n{rest}"),
            (Some(task), None) => format!("{} [{task}]", self.text),
        }
    }

    /// Returns the text as the function `name` reports it: about itself, or about a task that it
    /// found to have failed.
    pub(crate) fn told_by(&self, name: &str) -> String {
        if self.task.is_none() { format!("{name}: {}", self.text) } else { self.with_task() }
    }
}

/// Makes an `Err(Failure)` with a code of the runtime and a formatted text.
macro_rules! fail {
    ($code:expr, $($text:tt)+) => {
        Err($crate::message::Failure::new($code, format!($($text)+)))
    };
}
pub(crate) use fail;

/// Makes an `Err(Failure)` with a code of HCCL and a formatted text.
macro_rules! refuse {
    ($code:ident, $($text:tt)+) => {
        Err($crate::message::Failure::new(ascend_sys::HcclResult::$code, format!($($text)+)))
    };
}
pub(crate) use refuse;

/// The largest number of texts that are kept for a thread that does not take them.
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

/// Whether texts belong to the process (`err_msg_mode` of `aclInit`). `TEXTS_OF_PROCESS` has those
/// that were not taken yet.
static OF_PROCESS: AtomicBool = AtomicBool::new(false);
static TEXTS_OF_PROCESS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Sets whether texts belong to the process from now on, or to the thread that made the call.
pub(crate) fn keep_for_process(of_process: bool) {
    OF_PROCESS.store(of_process, Ordering::Relaxed);
}

/// Notes only a text, for callers whose codes are not those of ACL.
pub(crate) fn add_text(text: String) {
    let add = |texts: &mut Vec<String>| {
        if texts.len() == KEPT {
            texts.remove(0);
        }
        texts.push(text);
    };
    if OF_PROCESS.load(Ordering::Relaxed) {
        return add(&mut lock(&TEXTS_OF_PROCESS));
    }
    // If the thread is ending, its texts are gone, and nobody would take this one.
    let _ = TEXTS.try_with(|texts| add(&mut texts.borrow_mut()));
}

/// Returns the texts since the last call, newest first, or null if there are none. They are valid
/// until the thread calls this function again.
pub(crate) fn take_texts() -> *const c_char {
    let mut texts = match OF_PROCESS.load(Ordering::Relaxed) {
        true => std::mem::take(&mut *lock(&TEXTS_OF_PROCESS)),
        false => TEXTS.try_with(RefCell::take).unwrap_or_default(),
    };
    if texts.is_empty() {
        return std::ptr::null();
    }
    texts.reverse();
    let mut bytes = texts.join("\n").into_bytes();
    bytes.retain(|&byte| byte != 0);
    let returned = RETURNED.try_with(|returned| {
        let text = CString::new(bytes).unwrap_or_default();
        returned.borrow_mut().insert(text).as_ptr()
    });
    returned.unwrap_or(std::ptr::null())
}

pub(crate) fn peek_last() -> aclError {
    LAST.get()
}

pub(crate) fn take_last() -> aclError {
    LAST.replace(ACL_SUCCESS)
}
