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
    /// Whether a table has it.
    pub is_there: fn(&Functions) -> bool,
    /// Calls it with a value for each parameter; `None` where the table lacks it. The values have
    /// to keep to its C contract.
    pub call: unsafe fn(&Functions, &[Value]) -> Option<Answer>,
}

/// A parameter of a function.
pub struct Parameter {
    /// The name in C.
    pub name: &'static str,
    /// The Rust type, without the path of C's types.
    pub ty: &'static str,
    /// The bytes of a value.
    pub size: usize,
    /// The bytes that a pointer points to; 0 when it is none, or points to something without a
    /// size.
    pub pointee: usize,
}

/// The largest argument that is passed by value.
const LARGEST: usize = 128;

/// An argument of any type, as its bytes.
#[derive(Clone, Copy)]
pub struct Value([u8; LARGEST]);

impl Value {
    /// A number, or a pointer; a narrower type gets the lower bytes.
    pub fn new(number: u64) -> Value {
        let mut bytes = [0; LARGEST];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Value(bytes)
    }

    /// A structure that is passed by value.
    pub fn of_bytes(structure: &[u8]) -> Value {
        let mut bytes = [0; LARGEST];
        bytes[..structure.len()].copy_from_slice(structure);
        Value(bytes)
    }

    /// The first eight bytes.
    pub fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(bytes)
    }

    /// The value as a type of C, for which any bytes are valid (for `bool` the caller ensures
    /// that).
    fn take<T: Copy>(&self) -> T {
        const { assert!(size_of::<T>() <= LARGEST) };
        // SAFETY: no more bytes than there are, and any of them are a value of the type.
        unsafe { self.0.as_ptr().cast::<T>().read_unaligned() }
    }
}

/// The return type of a function.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// A code; 0 is success.
    Code(i64),
    /// A number that is no code.
    Number(u64),
    /// A pointer, NULL when there is nothing.
    Pointer(u64),
    /// Nothing.
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

/// The function of a name.
///
/// # Panics
///
/// When there is none.
pub fn function(name: &str) -> &'static Function {
    let found = FUNCTIONS.iter().find(|function| function.name == name);
    found.unwrap_or_else(|| panic!("{name} is no function"))
}

/// The values of an enum of C, if the type is one.
pub fn values_of(ty: &str) -> Option<&'static [i64]> {
    ENUMS.iter().find(|(name, _)| *name == ty).map(|(_, values)| *values)
}
