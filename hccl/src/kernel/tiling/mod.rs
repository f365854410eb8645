//! Tiling structs: plain data that the host fills and a kernel reads.
//!
//! A kernel takes its sizes, counts and switches from one such struct. The host writes it in Rust, the kernel reads it in C++, and a server that
//! communicates for the kernel reads parts of it too, so every byte has to be where the others look for it. `#[derive(Tiling)]` holds the
//! Rust struct to that, field by field, when the program is compiled, and makes the C++ from the same table:
//!
//! ```
//! use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};
//! use hccl::kernel::tiling::{CmdType, Mc2CcTilingConfig, Mc2InitTilingConfig};
//! use hccl::Product;
//!
//! #[derive(Tiling)]
//! #[repr(C)]
//! #[tiling(name = "AllToAllCustomTilingData", size = 592)]
//! struct AllToAllTiling {
//!     init: Mc2InitTiling,
//!     #[tiling(name = "alltoallCcTiling")]
//!     all_to_all: Mc2CcTiling,
//!     #[tiling(range = 1..=255)]
//!     tile_num: u32,
//!     tail_num: u32,
//!     tile_len: u64,
//! }
//!
//! # fn main() -> hccl::Result<()> {
//! let mut tiling = AllToAllTiling { tail_num: 1, tile_len: 128, ..AllToAllTiling::zeroed() };
//! tiling.set_tile_num(2)?; // 0 and 256 are errors
//!
//! // What `Mc2CcTilingConfig` of CANN does: the structs for the communication server.
//! let member = Mc2CcTilingConfig::builder().group_name("world").op_type(CmdType::AllToAll).build();
//! Mc2InitTilingConfig::builder().product(Product::A3).build().fill(&mut tiling, &[member])?;
//!
//! assert_eq!(AllToAllTiling::ALL_TO_ALL_OFFSET, 64); // what `SetCcTilingV2` takes
//! println!("{}", AllToAllTiling::LAYOUT); // offset, size, type and name of each field
//! println!("{}", tiling.dump()); // and its values
//! println!("{}", AllToAllTiling::LAYOUT.header()); // the C++ struct, with assertions
//!
//! let bytes = tiling.as_bytes(); // what the kernel gets
//! let again = AllToAllTiling::from_bytes(bytes)?;
//! assert_eq!(again.tile_num, 2);
//! # Ok(())
//! # }
//! ```
//!
//! # What a field can be
//!
//! | Rust | C++ | |
//! | --- | --- | --- |
//! | `i8` to `i64`, `u8` to `u64` | `int8_t` to `uint64_t` | |
//! | `f32`, `f64` | `float`, `double` | no `double` in the macros of the older form |
//! | [`f16`](crate::f16), [`bf16`](crate::bf16) | `uint16_t` | a kernel reads the bits as `half` or `bfloat16_t` |
//! | `bool` | `bool` | not in the macros of the older form |
//! | `[T; N]`, also of arrays | `T name[N]` | |
//! | a struct with the derive | the struct | its size is a multiple of 8 too |
//! | [`Mc2InitTiling`], [`Mc2CcTiling`], [`TCubeTiling`] | CANN's own | from `kernel_tiling/kernel_tiling.h` |
//!
//! Bytes between fields do not exist unless they are written down as fields: Rust may not show uninitialised padding to anybody, and what a
//! kernel receives should not depend on what was in memory before. The compiler says how many are missing and where.
//!
//! # Sizes
//!
//! A struct with more than [`MAX_SIZE`] bytes does not compile. CANN recommends less than 2 KiB for data that travels with a launch. One
//! [`Mc2InitTiling`] counts up to eight [`Mc2CcTiling`]; the A3 takes three of them at launch, which is checked there.

mod built_in;
pub(in crate::kernel) mod communication;
mod config;
mod cube;
mod field;
mod rules;

use std::mem::MaybeUninit;

pub use crate::error::tiling::TilingError;
pub use ascend_program::layout::{
    Communication, Dump, Field, HeaderError, Item, Layout, MAX_CC_TILINGS, MAX_SIZE, Number, Role,
};
pub use built_in::{Mc2CcTiling, Mc2InitTiling};
pub use config::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
pub use cube::TCubeTiling;
pub use field::FieldType;
pub use hccl_derive::Tiling;

use crate::Result;

/// A struct that the host fills and a kernel reads. Implemented by `#[derive(Tiling)]`; see the [module](self).
///
/// # Safety
///
/// `LAYOUT` describes the whole struct: its fields lie where the table says, each has the type that it says, and between and behind them
/// there are no bytes. The derive checks this when the program is compiled, so there is no reason to write an implementation by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tiling struct",
    label = "this needs a struct with `#[derive(Tiling)]` and `#[repr(C)]`",
    note = "write `#[derive(hccl::kernel::Tiling)]` and `#[repr(C)]` above `{Self}`"
)]
pub unsafe trait Tiling: FieldType {
    /// Name, offset, size and type of each field. `Display` prints it as a table.
    const LAYOUT: &'static Layout;

    /// Tells layouts apart: another number as soon as a name, an offset, a size or a type is another.
    const LAYOUT_HASH: u64 = Self::LAYOUT.hash();

    /// Where the [`Mc2CcTiling`] are, in bytes: what `SetCcTilingV2` takes. For a field `all_to_all` the derive also makes a constant
    /// of its own, `ALL_TO_ALL_OFFSET`.
    const CC_TILINGS: &'static [u64] = const { Communication::of(Self::LAYOUT) }.cc_tilings();

    /// The struct with zeros in all its bytes.
    fn zeroed() -> Self {
        // SAFETY: by `LAYOUT` the struct is made of numbers and bools, for which zeros are a value.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }

    /// The bytes that the kernel gets.
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: by `LAYOUT` there is no padding, so all bytes of the struct are initialised; they live as long as the borrow.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }

    /// The struct with these bytes, at any alignment.
    ///
    /// # Errors
    ///
    /// [`Error::Tiling`](crate::Error::Tiling) for a wrong number of bytes, a `bool` that is neither 0 nor 1, a value
    /// out of the range of its field, and communication structs that were not filled by this version of the library or that stand elsewhere.
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        field::check_bytes(Self::LAYOUT, bytes)?;
        // SAFETY: the bytes are as many as the struct has. By `LAYOUT` it is made of numbers, of which every pattern is a value, and bools,
        // which were checked.
        let read: Self = unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() };
        read.check()?;
        communication::check(Self::LAYOUT, bytes)?;
        Ok(read)
    }

    /// Whether each field with a `range` lies in it, for fields that were not set by their setter.
    ///
    /// # Errors
    ///
    /// [`Error::Tiling`](crate::Error::Tiling) with the first that does not.
    fn check(&self) -> Result<()> {
        self.check_value()
    }

    /// Names and values, a line each.
    fn dump(&self) -> Dump<'_> {
        Self::LAYOUT.dump(self.as_bytes())
    }
}

/// What the generated code of the derive refers to.
#[doc(hidden)]
pub mod __private {
    pub use ascend_program::layout::{
        Field, Item, Layout, Role, field_problem, promise_problem, size_problem, tail_problem,
    };

    pub use super::field::out_of_range;
    pub use super::{FieldType, Tiling};
    pub use crate::Result;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As another crate writes it, but for where `hccl` is.
    #[derive(Tiling, Clone, Copy)]
    #[repr(C)]
    #[tiling(crate = crate)]
    struct Small {
        init: Mc2InitTiling,
        member: Mc2CcTiling<280>,
        flags: [bool; 2],
        #[tiling(range = 1..)]
        rows: u16,
        scale: f32,
    }

    #[test]
    fn bytes_go_out_and_come_in_at_any_alignment() {
        let member =
            Mc2CcTilingConfig::builder().group_name("g").op_type(CmdType::AllGather).build();
        let mut small = Small { flags: [false, true], scale: 0.5, ..Small::zeroed() };
        small.set_rows(7).unwrap();
        let init = Mc2InitTilingConfig::builder().product(crate::Product::A3).build();
        init.fill(&mut small, &[member]).unwrap();
        for start in 0..8 {
            let mut bytes = vec![0; start];
            bytes.extend_from_slice(small.as_bytes());
            let read = Small::from_bytes(&bytes[start..]).unwrap();
            assert_eq!((read.flags, read.rows, read.scale), ([false, true], 7, 0.5));
            assert_eq!((read.init, read.member), (small.init, small.member));
            bytes[start + 345] = 2;
            assert!(Small::from_bytes(&bytes[start..]).is_err());
        }
    }
}
