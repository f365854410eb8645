//! Entries and their arguments: the C contract, stated once.
//!
//! [`entries!`] makes a C function of each line, with CANN's types, and lists them in a table.
//! An entry's body gets typed arguments in their place. What the C contract promises of a pointer
//! (NULL, or valid for the length of the call) is promised where the argument is made; whether it
//! is NULL is asked where the body says so, because the order of checks is part of the ABI.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ascend_sys::{ACL_ERROR_INTERNAL_ERROR, ACL_SUCCESS, HcclResult, HcommResult, aclError};

use crate::message::{Failure, PANICKED, add_text, report};

/// A family of C functions: which codes they return, and how they tell a failure.
pub(super) trait Family {
    type Code;
    const SUCCESS: Self::Code;
    /// Notes the text of a failure for `aclGetRecentErrMsg`, and returns its code.
    fn tell(name: &str, failure: &Failure) -> Self::Code;
    fn panicked() -> Failure;
}

/// The functions of the runtime.
pub(super) enum Acl {}
/// Those of HCCL.
pub(super) enum Hccl {}
/// Those of HCCL whose codes are plain numbers.
pub(super) enum Hcomm {}

impl Family for Acl {
    type Code = aclError;
    const SUCCESS: aclError = ACL_SUCCESS;

    #[cold]
    fn tell(name: &str, failure: &Failure) -> aclError {
        let code = failure.acl_code();
        report(code, failure.told_by(name));
        code
    }

    #[cold]
    fn panicked() -> Failure {
        Failure::new(ACL_ERROR_INTERNAL_ERROR, PANICKED)
    }
}

impl Family for Hccl {
    type Code = HcclResult;
    const SUCCESS: HcclResult = HcclResult::HCCL_SUCCESS;

    #[cold]
    fn tell(name: &str, failure: &Failure) -> HcclResult {
        let (code, text) = failure.in_hccl();
        if text.is_empty() {
            return code;
        }
        // A text without a number of its own is about an argument of the function.
        let numbered = text.starts_with("EI");
        add_text(if numbered { text.to_string() } else { format!("EI0003: {name}: {text}") });
        code
    }

    #[cold]
    fn panicked() -> Failure {
        Failure::new(HcclResult::HCCL_E_INTERNAL, format!("EI9999: {PANICKED}"))
    }
}

impl Family for Hcomm {
    type Code = HcommResult;
    const SUCCESS: HcommResult = HcclResult::HCCL_SUCCESS.0 as HcommResult;

    #[cold]
    fn tell(name: &str, failure: &Failure) -> HcommResult {
        Hccl::tell(name, failure).0 as HcommResult
    }

    #[cold]
    fn panicked() -> Failure {
        Hccl::panicked()
    }
}

/// Runs the body of an entry: catches panics, and makes a code of a failure.
#[inline]
pub(super) fn run<F: Family>(
    name: &'static str,
    body: impl FnOnce() -> Result<(), Failure>,
) -> F::Code {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => F::SUCCESS,
        Ok(Err(failure)) => F::tell(name, &failure),
        Err(_) => F::tell(name, &F::panicked()),
    }
}

/// An argument of an entry, made of the C type. Plain values and raw pointers are themselves.
pub(super) trait Argument {
    type C;

    /// # Safety
    ///
    /// A pointer keeps the contract of the type that is made of it, until the entry returns.
    unsafe fn of(c: Self::C) -> Self;
}

impl<T: Copy> Argument for T {
    type C = T;

    #[inline]
    unsafe fn of(c: T) -> T {
        c
    }
}

/// A place for a result: NULL, or valid for a write.
pub(super) struct Out<T>(*mut T);

impl<T> Argument for Out<T> {
    type C = *mut T;

    #[inline]
    unsafe fn of(c: *mut T) -> Self {
        Out(c)
    }
}

impl<T> Out<T> {
    /// The place, which must not be NULL.
    #[inline]
    pub(super) fn required(self, argument: &str) -> Result<Place<T>, Failure> {
        if self.0.is_null() { Err(Failure::null(argument)) } else { Ok(Place(self.0)) }
    }

    /// Writes a value if the caller asks for it, by not passing NULL.
    #[inline]
    pub(super) fn write_if_asked(self, value: T) {
        if !self.0.is_null() {
            Place(self.0).write(value);
        }
    }
}

/// A place for a result that is not NULL.
pub(super) struct Place<T>(*mut T);

impl<T> Place<T> {
    /// The same place for a value of another type, which the C contract names.
    #[inline]
    pub(super) fn cast<U>(self) -> Place<U> {
        Place(self.0.cast())
    }

    #[inline]
    pub(super) fn write(&self, value: T) {
        // SAFETY: not null, so valid for a write by the contract of `Out`.
        unsafe { self.0.write_unaligned(value) };
    }
}

/// A value of the caller: NULL, or valid for reads.
pub(super) struct In<T>(*const T);

impl<T> Argument for In<T> {
    type C = *const T;

    #[inline]
    unsafe fn of(c: *const T) -> Self {
        In(c)
    }
}

impl<T> In<T> {
    /// The value, which must not be NULL.
    #[inline]
    pub(super) fn required(&self, argument: &str) -> Result<&T, Failure> {
        self.given().ok_or_else(|| Failure::null(argument))
    }

    /// The value, if there is one.
    #[inline]
    pub(super) fn given(&self) -> Option<&T> {
        // SAFETY: null or valid for reads by the contract of the type.
        unsafe { self.0.as_ref() }
    }
}

/// A text of the caller: NULL, or NUL-terminated.
pub(super) struct CText(*const c_char);

impl Argument for CText {
    type C = *const c_char;

    #[inline]
    unsafe fn of(c: *const c_char) -> Self {
        CText(c)
    }
}

impl CText {
    /// The text, which must not be NULL. What is no UTF-8 is replaced.
    pub(super) fn required(&self, argument: &str) -> Result<String, Failure> {
        let text = self.given().ok_or_else(|| Failure::null(argument))?;
        Ok(text.to_string_lossy().into_owned())
    }

    /// The text, if there is one.
    pub(super) fn given(&self) -> Option<&CStr> {
        // SAFETY: not null, so NUL-terminated by the contract of the type.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }
}

/// C functions of one family, and `fill`, which puts them into a table:
///
/// ```text
/// entries! { Acl;
///     fn aclrtGetDevice(device: Out<i32>) { device.required("deviceId")?.write(...); Ok(()) }
/// }
/// ```
///
/// A body returns `Result<(), Failure>`; `ENTRY` is the name of its function. Functions that
/// return no code of the family are written out, and listed first: `also { aclrtGetSocName }`.
macro_rules! entries {
    (
        $family:ty;
        $(also { $($also:ident),* $(,)? })?
        $(
            $(#[$attribute:meta])*
            fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block
        )*
    ) => {
        /// Puts the functions of this file into a table.
        pub(super) fn fill(table: &mut ascend_sys::Functions) {
            $($(table.$also = Some($also);)*)?
            $(table.$name = Some($name);)*
        }

        $(
            $(#[$attribute])*
            unsafe extern "C" fn $name(
                $($argument: <$type as $crate::abi::arguments::Argument>::C),*
            ) -> <$family as $crate::abi::arguments::Family>::Code {
                #[allow(dead_code, reason = "most bodies do not name their function")]
                const ENTRY: &str = stringify!($name);
                // SAFETY: the C contract is that of the argument's type.
                $(let $argument = unsafe {
                    <$type as $crate::abi::arguments::Argument>::of($argument)
                };)*
                $crate::abi::arguments::run::<$family>(
                    ENTRY,
                    move || -> Result<(), $crate::message::Failure> { $body },
                )
            }
        )*
    };
}
pub(super) use entries;
