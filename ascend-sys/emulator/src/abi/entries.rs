//! Entries of the ABI. [`entries!`] makes a C function with CANN's types from each line, and puts
//! it into the function table.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ascend_sys::{ACL_ERROR_INTERNAL_ERROR, ACL_SUCCESS, HcclResult, HcommResult, aclError};

use crate::check::OneHost;
use crate::fork;
use crate::message::{Failure, PANICKED, add_text, report};

/// A family of C functions: the type of their codes, and the way in which they report a failure.
pub(super) trait Family {
    type Code;
    const SUCCESS: Self::Code;
    /// Stores the text of a failure for `aclGetRecentErrMsg`, and returns its code.
    fn tell(name: &str, failure: &Failure) -> Self::Code;
    fn panicked() -> Failure;
}

/// The functions of the runtime.
pub(super) enum Acl {}
/// The functions of HCCL.
pub(super) enum Hccl {}
/// The functions of HCCL whose codes are plain numbers.
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
        // A text that does not begin with a number is about an argument of the function.
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

/// Runs the body of an entry. Returns an error in a forked child, catches panics, and converts a
/// failure to a code.
#[inline]
pub(super) fn run<F: Family>(
    name: &'static str,
    body: impl FnOnce() -> Result<(), Failure>,
) -> F::Code {
    if let Err(failure) = fork::refuse_in_child(name) {
        return F::tell(name, &failure);
    }
    let _call = OneHost::begin();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => F::SUCCESS,
        Ok(Err(failure)) => F::tell(name, &failure),
        Err(_) => F::tell(name, &F::panicked()),
    }
}

/// Runs the body of an entry that returns no code. On a failure, reports it and returns
/// `otherwise`.
#[inline]
pub(super) fn answer<F: Family, T>(
    name: &'static str,
    otherwise: T,
    body: impl FnOnce() -> Result<T, Failure>,
) -> T {
    let mut answer = otherwise;
    run::<F>(name, || {
        answer = body()?;
        Ok(())
    });
    answer
}

/// Defines C functions of one family, and the function `fill`, which puts them into a function
/// table:
///
/// ```text
/// entries! { Acl;
///     fn aclrtGetDevice(device: Out<i32>) { device.required("deviceId")?.write(...); Ok(()) }
///     fn aclrtNotifyBatchReset(notifies: Slice<aclrtNotify>[count], count: usize) { ... }
///
///     each direction in { HcommWriteOnThread: Crossing::Write, HcommReadOnThread: Crossing::Read }
///     fn (thread: ThreadHandle, len: u64) { cross(ENTRY, thread, direction(len)) }
/// }
/// ```
///
/// A body returns `Result<(), Failure>`. `ENTRY` is the name of its function. A length in brackets
/// is another argument of the function. Entries that differ only in one word are the lines of an
/// `each` table; these tables come last. Functions that do not return a code of the family are
/// written separately and listed first: `also { aclrtGetSocName }`.
macro_rules! entries {
    (
        $family:ty;
        $(also { $($also:ident),* $(,)? })?
        $(
            $(#[$attribute:meta])*
            fn $name:ident $arguments:tt $body:block
        )*
        $(
            each $word:ident in { $($line:ident: $value:expr),* $(,)? }
            fn $shared:tt $way:block
        )*
    ) => {
        /// Puts the functions of this file into the function table.
        pub(super) fn fill(table: &mut ascend_sys::Functions) {
            $($(table.$also = Some($also);)*)?
            $(table.$name = Some($name);)*
            $($(table.$line = Some($line);)*)*
        }

        $($crate::abi::entries::entry! {
            $family; [$(#[$attribute])*] $name $arguments [] $body
        })*
        $($crate::abi::entries::lines! {
            $family; $word [$($line: $value),*] $shared $way
        })*
    };
}
pub(super) use entries;

/// Defines one entry for each line of a table.
macro_rules! lines {
    ($family:ty; $word:ident [] $shared:tt $way:block) => {};
    (
        $family:ty;
        $word:ident [$line:ident: $value:expr $(, $others:ident: $values:expr)*]
        $shared:tt $way:block
    ) => {
        $crate::abi::entries::entry! { $family; [] $line $shared [$word = $value] $way }
        $crate::abi::entries::lines! {
            $family; $word [$($others: $values),*] $shared $way
        }
    };
}
pub(super) use lines;

/// Defines one C function.
macro_rules! entry {
    (
        $family:ty;
        [$($attribute:tt)*]
        $name:ident ($($argument:ident: $type:ty $([$length:ident])?),* $(,)?)
        [$($word:ident = $value:expr)?]
        $body:block
    ) => {
        $($attribute)*
        unsafe extern "C" fn $name(
            $($argument: <$type as $crate::abi::arguments::FromC>::C),*
        ) -> <$family as $crate::abi::entries::Family>::Code {
            #[allow(dead_code, reason = "most bodies do not name their function")]
            const ENTRY: &str = stringify!($name);
            $(
                #[allow(unused_variables, reason = "a length may stand in brackets alone")]
                // SAFETY: the C contract of the function is the contract of the argument's type.
                let $argument = unsafe {
                    $crate::abi::entries::argument!($type, $argument $(, $length)?)
                };
            )*
            $crate::abi::entries::run::<$family>(
                ENTRY,
                move || -> Result<(), $crate::message::Failure> {
                    $(let $word = $value;)?
                    $body
                },
            )
        }
    };
}
pub(super) use entry;

/// Makes an argument from its C value, with its length if it has one.
macro_rules! argument {
    ($type:ty, $argument:ident) => {
        <$type as $crate::abi::arguments::Argument>::of($argument)
    };
    ($type:ty, $argument:ident, $length:ident) => {
        <$type as $crate::abi::arguments::CountedArgument>::of(
            $argument,
            $crate::abi::arguments::length($length),
        )
    };
}
pub(super) use argument;
