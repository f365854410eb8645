//! Every function of the C ABI, with its parameters and a way to call it, made from the table in
//! `ascend-sys`.

use std::ffi::c_void;

use ascend_sys::*;

/// A function of the table.
pub struct Function {
    /// The name in C.
    pub name: &'static str,
    /// The parameters in the order of C.
    pub parameters: &'static [Parameter],
    /// Returns whether a table has the function.
    pub is_there: fn(&Functions) -> bool,
    /// Calls the function with a value for each parameter. Returns `None` if the table lacks it.
    /// The values must obey the C contract of the function.
    pub call: unsafe fn(&Functions, &[Value]) -> Option<Answer>,
}

/// A parameter of a function.
pub struct Parameter {
    /// The name in C.
    pub name: &'static str,
    /// The Rust type, without the path of C's types.
    pub ty: &'static str,
    /// The number of bytes of a value.
    pub size: usize,
    /// The number of bytes that a pointer points to. 0 if the type is no pointer, or if its target
    /// has no size.
    pub pointee: usize,
}

/// The largest argument that is passed by value.
const LARGEST: usize = 128;

/// An argument of any type, as its bytes.
#[derive(Clone, Copy)]
pub struct Value([u8; LARGEST]);

impl Value {
    /// Makes the value of a number or of a pointer. A narrower type gets the lower bytes.
    pub fn new(number: u64) -> Value {
        let mut bytes = [0; LARGEST];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Value(bytes)
    }

    /// Makes the value of a structure that is passed by value.
    pub fn of_bytes(structure: &[u8]) -> Value {
        let mut bytes = [0; LARGEST];
        bytes[..structure.len()].copy_from_slice(structure);
        Value(bytes)
    }

    /// Returns the first eight bytes.
    pub fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(bytes)
    }

    /// Returns the value as a type of C for which any bytes are valid. For `bool` the caller
    /// ensures that the bytes are valid.
    fn take<T: Copy>(&self) -> T {
        const { assert!(size_of::<T>() <= LARGEST) };
        // SAFETY: the type has no more bytes than the value, and any bytes are a value of the type.
        unsafe { self.0.as_ptr().cast::<T>().read_unaligned() }
    }
}

/// The result of a function.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// A code; 0 is success.
    Code(i64),
    /// A number that is no code.
    Number(u64),
    /// A pointer, NULL when there is nothing.
    Pointer(u64),
    /// No result.
    Nothing,
}

impl From<i32> for Answer {
    fn from(code: i32) -> Answer {
        Answer::Code(code.into())
    }
}

impl From<HcclResult> for Answer {
    fn from(code: HcclResult) -> Answer {
        Answer::Code(code.0.into())
    }
}

impl From<aclprofSubscribeOpFlag> for Answer {
    fn from(flag: aclprofSubscribeOpFlag) -> Answer {
        Answer::Number(flag.0 as u64)
    }
}

impl<T> From<*mut T> for Answer {
    fn from(pointer: *mut T) -> Answer {
        Answer::Pointer(pointer.cast::<c_void>().addr() as u64)
    }
}

impl<T> From<*const T> for Answer {
    fn from(pointer: *const T) -> Answer {
        Answer::Pointer(pointer.cast::<c_void>().addr() as u64)
    }
}

impl From<f32> for Answer {
    fn from(number: f32) -> Answer {
        Answer::Number(number.to_bits().into())
    }
}

impl From<()> for Answer {
    fn from((): ()) -> Answer {
        Answer::Nothing
    }
}

macro_rules! numbers {
    ($($ty:ty),*) => {
        $(impl From<$ty> for Answer {
            fn from(number: $ty) -> Answer {
                Answer::Number(number as u64)
            }
        })*
    };
}
numbers!(u16, u32, u64, usize, i64);

#[allow(clippy::unit_arg, reason = "some functions return nothing")]
mod list {
    use super::*;

    include!(concat!(env!("OUT_DIR"), "/functions.rs"));
}

pub use list::{ENUMS, FUNCTIONS};

/// Returns the function with this name.
///
/// # Panics
///
/// If there is none.
pub fn function(name: &str) -> &'static Function {
    let found = FUNCTIONS.iter().find(|function| function.name == name);
    found.unwrap_or_else(|| panic!("{name} is no function"))
}

/// Returns the values of an enum of C, if the type is one.
pub fn values_of(ty: &str) -> Option<&'static [i64]> {
    ENUMS.iter().find(|(name, _)| *name == ty).map(|(_, values)| *values)
}
