//! The mistakes in tiling data.

use std::borrow::Cow;

/// Bytes or settings of tiling data that CANN, or the kernel, would refuse or misread.
///
/// ```
/// use hccl::kernel::Tiling;
/// use hccl::kernel::tiling::TilingError;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Sizes { count: u64, scale: f32, rest: u32 }
/// let error = Sizes::from_bytes(&[0; 12]).map(|_| ()).unwrap_err();
/// match error.root_cause() {
///     hccl::Error::Tiling(TilingError::WrongSize { expected: 16, found, .. }) => {
///         assert_eq!(*found, 12);
///     }
///     _ => return Err(error),
/// }
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TilingError {
    /// The number of bytes is not the size of the struct.
    #[error(
        "{tiling} has {expected} bytes, but the number of bytes given is {found}\n\
         The other side has another layout: compare the layout hashes, or print both tables."
    )]
    WrongSize {
        /// The name of the struct, in C++.
        tiling: Box<str>,
        /// The size of the struct in bytes.
        expected: usize,
        /// The number of bytes that were given.
        found: usize,
    },
    /// A byte of a `bool` field is neither 0 nor 1.
    #[error(
        "{tiling}: the byte at offset {offset}, in `{field}`, is {found}, \
         but a bool is 0 or 1: write 0 or 1"
    )]
    NotBool {
        /// The name of the struct, in C++.
        tiling: Box<str>,
        /// The name of the field, in C++.
        field: Cow<'static, str>,
        /// The offset from the start of the struct, in bytes.
        offset: usize,
        /// The value of the byte.
        found: u8,
    },
    /// A value lies outside the range of its field.
    #[error("{tiling}: `{field}` is {value}, but it must lie in {range}")]
    OutOfRange {
        /// The name of the struct, in Rust.
        tiling: &'static str,
        /// The name of the field, in Rust.
        field: &'static str,
        /// The value, as text.
        value: Box<str>,
        /// The range of valid values, as text.
        range: &'static str,
    },
    /// Communication structs do not fit the struct that contains them.
    #[error("{tiling}: {problem}")]
    Communication {
        /// The name of the struct, in C++.
        tiling: Box<str>,
        /// The mistake, and what to do.
        problem: Box<str>,
    },
    /// A setting has a value that CANN or the product does not accept.
    #[error("tiling setting `{setting}` is {value}, but {rule}")]
    Setting {
        /// The name of the setting in
        /// [`Mc2CcTilingConfig`](crate::kernel::tiling::Mc2CcTilingConfig) or
        /// [`Mc2InitTilingConfig`](crate::kernel::tiling::Mc2InitTilingConfig).
        setting: &'static str,
        /// The value that was given.
        value: Box<str>,
        /// The rule for the value.
        rule: Cow<'static, str>,
    },
}
