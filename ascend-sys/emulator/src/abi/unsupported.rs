//! The functions of CANN that the emulator does not implement. They are in the function table, so
//! that a program that refers to them can start.
//!
//! A call returns the code for unsupported functions (207000, or `HCCL_E_NOT_SUPPORT`). The error
//! text has the name of the function and the reason. A function that returns no code returns NULL
//! or zero. No argument is checked.
//!
//! The [list](super::unsupported_list) is the only place that names these functions. The entries,
//! the page of the book and the tests are made from it.

use super::entries::{Acl, Hccl, answer, run};
use crate::message::{Failure, fail, refuse};
use ascend_sys::{ACL_ERROR_RT_FEATURE_NOT_SUPPORT, HcclResult, aclError, aclprofSubscribeOpFlag};
use std::ptr::{null, null_mut};

/// A function of CANN that returns "not supported".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported {
    /// The name of the function.
    pub name: &'static str,
    /// The reason why the emulator does not implement the function, as the error text has it.
    pub reason: &'static str,
}

impl Unsupported {
    fn text(&self) -> String {
        format!("the emulator does not support this function: {}; leave the call out", self.reason)
    }

    fn refuse<T>(&self) -> Result<T, Failure> {
        fail!(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "{}", self.text())
    }
}

/// Defines the list of the functions, and the function `fill`, which puts their entries into the
/// function table. The type of an entry is that of its field in the table.
macro_rules! unsupported {
    ($($reason:literal: $($name:ident),+ $(,)?;)*) => {
        /// The functions that return "not supported", by reason.
        pub static UNSUPPORTED: &[Unsupported] =
            &[$($(Unsupported { name: stringify!($name), reason: $reason }),+),*];

        /// Puts all of these functions into the function table.
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

/// A type that stands for a function of the list.
pub(super) trait UnsupportedName {
    const FUNCTION: Unsupported;
}

/// A C function type with an entry that returns "not supported".
pub(super) trait Refusing {
    /// Returns the C function of this type that returns "not supported" for `F`.
    fn of<F: UnsupportedName>() -> Self;
}

/// Implements [`Refusing`] for C functions with this number of arguments, and with fewer.
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

/// The result type of an unsupported function.
pub(super) trait Answer: Sized {
    /// Reports that the function is not supported. Returns the code for that, or a neutral value.
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

/// Implements [`Answer`] for result types that are not codes. Each of these types has a neutral
/// value.
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
