//! The functions of CANN that the emulator does not do. They are in the table, so that a program
//! that names them starts.
//!
//! A call answers with the code for unsupported functions (207000, or `HCCL_E_NOT_SUPPORT`); the
//! text of the error has the name of the function and the reason. A function that returns no code
//! returns NULL or zero. No argument is looked at.
//!
//! The [list](UNSUPPORTED) is the only place that says which functions these are: the entries are
//! made from it, and so are the page of the book and the tests.

use super::entries::{Acl, Hccl, answer, run};
use crate::message::{Failure, fail, refuse};
use ascend_sys::{ACL_ERROR_RT_FEATURE_NOT_SUPPORT, HcclResult, aclError, aclprofSubscribeOpFlag};
use std::ptr::{null, null_mut};

pub use super::unsupported_list::UNSUPPORTED;
pub(super) use super::unsupported_list::fill;

/// A function of CANN that answers "not supported".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported {
    /// The name of the function.
    pub name: &'static str,
    /// Why the emulator does not do it, as the text of the error says it.
    pub reason: &'static str,
}

impl Unsupported {
    fn text(&self) -> String {
        format!("the emulator does not support this function: {}", self.reason)
    }

    fn refuse<T>(&self) -> Result<T, Failure> {
        fail!(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "{}", self.text())
    }
}

/// `fill`, which puts entries of these names into a table, and the list of the names. The type of
/// an entry is that of its field in the table.
macro_rules! unsupported {
    ($($reason:literal: $($name:ident),+ $(,)?;)*) => {
        /// The functions that answer "not supported", by reason.
        pub static UNSUPPORTED: &[Unsupported] =
            &[$($(Unsupported { name: stringify!($name), reason: $reason }),+),*];

        /// Puts all of them into a table.
        pub(in crate::abi) fn fill(table: &mut ascend_sys::Functions) {
            $($({
                enum This {}
                impl UnsupportedName for This {
                    const FUNCTION: Unsupported =
                        Unsupported { name: stringify!($name), reason: $reason };
                }
                table.$name = Some(Refusing::of::<This>());
            })+)*
        }
    };
}
pub(super) use unsupported;

/// A function of the list, as a type.
pub(super) trait UnsupportedName {
    const FUNCTION: Unsupported;
}

/// A type of C functions that can answer "not supported".
pub(super) trait Refusing {
    /// The C function of this type that answers so for `F`.
    fn of<F: UnsupportedName>() -> Self;
}

/// Makes C functions with this many arguments, and with fewer.
macro_rules! refusing {
    ($first:ident $($rest:ident)*) => {
        refusing! { = $first $($rest)* }
        refusing! { $($rest)* }
    };
    () => {
        refusing! { = }
    };
    (= $($argument:ident)*) => {
        impl<R: Answer, $($argument),*> Refusing for unsafe extern "C" fn($($argument),*) -> R {
            fn of<F: UnsupportedName>() -> Self {
                unsafe extern "C" fn entry<F: UnsupportedName, R: Answer, $($argument),*>(
                    $(_: $argument),*
                ) -> R {
                    R::refusal(&F::FUNCTION)
                }
                entry::<F, R, $($argument),*>
            }
        }
    };
}

refusing! { A B C D E G H I J K }

/// A result of such a function.
pub(super) trait Answer: Sized {
    /// Tells that the function is not supported.
    fn refusal(function: &Unsupported) -> Self;
}

impl Answer for aclError {
    #[cold]
    fn refusal(function: &Unsupported) -> aclError {
        run::<Acl>(function.name, || function.refuse())
    }
}

impl Answer for HcclResult {
    #[cold]
    fn refusal(function: &Unsupported) -> HcclResult {
        run::<Hccl>(function.name, || refuse!(HCCL_E_NOT_SUPPORT, "{}", function.text()))
    }
}

/// Results that are no codes, and their value that says nothing.
macro_rules! nothing {
    ($([$($generic:ident)?] $result:ty: $nothing:expr;)*) => {
        $(impl $(<$generic>)? Answer for $result {
            #[cold]
            fn refusal(function: &Unsupported) -> Self {
                answer::<Acl, Self>(function.name, $nothing, || function.refuse())
            }
        })*
    };
}

nothing! {
    [] (): ();
    [] u32: 0;
    [] u64: 0;
    [] usize: 0;
    [T] *const T: null();
    [T] *mut T: null_mut();
    [] aclprofSubscribeOpFlag: aclprofSubscribeOpFlag::ACL_SUBSCRIBE_NONE;
}
