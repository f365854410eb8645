//! The types of the fields of a tiling struct.

use ascend_program::layout::{Field, Item, Layout, Number};

use super::TilingError;
use crate::dtype::{bf16, f16};
use crate::error::Result;

/// The type of a field, or of an element of an array: a number, `bool`, or a struct with
/// `#[derive(Tiling)]`.
///
/// # Safety
///
/// `ITEM` must describe the type: its size, and the byte patterns that are valid values.
///
/// ```
/// use hccl::kernel::Tiling;
///
/// #[derive(Clone, Copy, Tiling)]
/// #[repr(C)]
/// struct Part { start: u64, count: u64 }
///
/// /// Numbers, `bool`, arrays of these, and structs with the derive.
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { parts: [Part; 4], scale: f32, rounds: u32 }
///
/// assert_eq!(size_of::<Sizes>(), 4 * 16 + 8);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in a tiling struct",
    label = "a field is a number, a `bool`, or a struct with `#[derive(Tiling)]`",
    note = "a struct of your own needs `#[derive(Tiling)]` and `#[repr(C)]` as well",
    note = "numbers are i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, hccl::f16 and hccl::bf16",
    note = "store an enum as its number, a `u32`; write an array as `[T; N]`, not as a type alias"
)]
pub unsafe trait FieldType: Sized + 'static {
    /// The type as an item of a [`Layout`].
    const ITEM: Item;

    /// Checks that the fields of a struct are within their ranges.
    #[doc(hidden)]
    fn check_value(&self) -> Result<()> {
        Ok(())
    }
}

macro_rules! numbers {
    ($($ty:ty: $number:ident;)*) => {
        $(
            const _: () = assert!(size_of::<$ty>() == Number::$number.size() as usize);
            // SAFETY: the size is checked above. `Number::Bool` stands for the two valid byte
            // patterns of a `bool`. For the other types, every pattern is valid.
            unsafe impl FieldType for $ty {
                const ITEM: Item = Item::Number(Number::$number);
            }
        )*
    };
}

numbers! {
    i8: I8;
    i16: I16;
    i32: I32;
    i64: I64;
    u8: U8;
    u16: U16;
    u32: U32;
    u64: U64;
    f16: F16;
    bf16: Bf16;
    f32: F32;
    f64: F64;
    bool: Bool;
}

/// Checks that the bytes can be a struct of this layout. Their number must be the size of the
/// struct, and each `bool` must be 0 or 1.
pub(super) fn check_bytes(layout: &Layout, bytes: &[u8]) -> Result<(), TilingError> {
    if bytes.len() != layout.size as usize {
        return Err(TilingError::WrongSize {
            tiling: layout.path().into(),
            expected: layout.size as usize,
            found: bytes.len(),
        });
    }
    check_bools(layout, bytes, 0, layout)
}

fn check_bools(
    layout: &Layout,
    bytes: &[u8],
    base: usize,
    whole: &Layout,
) -> Result<(), TilingError> {
    for field in layout.fields() {
        let start = base + field.offset as usize;
        // The sizes in a layout were checked when it was made, so every field is within the bytes.
        match &field.item {
            Item::Number(Number::Bool) => {
                let all = bytes.iter().enumerate().skip(start).take(field.count() as usize);
                for (offset, &found) in all {
                    if found > 1 {
                        return Err(TilingError::NotBool {
                            tiling: whole.path().into(),
                            field: field.name.clone(),
                            offset,
                            found,
                        });
                    }
                }
            }
            Item::Struct(inner) if has_bools(field) => {
                for n in 0..field.count() as usize {
                    check_bools(inner, bytes, start + n * inner.size as usize, whole)?;
                }
            }
            Item::Number(_) | Item::Struct(_) => {}
        }
    }
    Ok(())
}

fn has_bools(field: &Field) -> bool {
    match &field.item {
        Item::Number(number) => *number == Number::Bool,
        Item::Struct(inner) => inner.fields().iter().any(has_bools),
    }
}
