//! Tiling structs: plain data that the host fills and a kernel reads. Use one for numbers that are
//! not known when the kernel is recorded, and for the communication of a kernel. Other kernels need
//! no tiling struct.
//!
//! A kernel takes its sizes, counts and switches from one tiling struct. The host writes it in
//! Rust, the kernel reads it in C++, and the communication server reads parts of it too. So all
//! three must agree on the offset of every byte. `#[derive(Tiling)]` checks the Rust struct field
//! by field at compile time, and makes the C++ struct from the same layout:
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
//! // Fill the structs for the communication server, as CANN's `Mc2CcTilingConfig` does.
//! let member = Mc2CcTilingConfig::builder().group_name("world").op_type(CmdType::AllToAll).build();
//! Mc2InitTilingConfig::builder().product(Product::A3).build().fill(&mut tiling, &[member])?;
//!
//! assert_eq!(AllToAllTiling::ALL_TO_ALL_OFFSET, 64); // the argument of `SetCcTilingV2`
//! println!("{}", AllToAllTiling::LAYOUT); // offset, size, type and name of each field
//! println!("{}", tiling.dump()); // the same with the values
//! println!("{}", AllToAllTiling::LAYOUT.header()); // the C++ struct, with assertions
//!
//! let bytes = tiling.as_bytes(); // the kernel gets these
//! let again = AllToAllTiling::from_bytes(bytes)?;
//! assert_eq!(again.tile_num, 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Types of fields
//!
//! | Rust | C++ | |
//! | --- | --- | --- |
//! | `i8` to `i64`, `u8` to `u64` | `int8_t` to `uint64_t` | |
//! | `f32`, `f64` | `float`, `double` | [`macro_header`](Layout::macro_header) has no `double` |
//! | [`f16`](crate::f16), [`bf16`](crate::bf16) | `uint16_t` | a kernel reads the bits as `half` or `bfloat16_t` |
//! | `bool` | `bool` | [`macro_header`](Layout::macro_header) has no `bool` |
//! | `[T; N]`, also of arrays | `T name[N]` | |
//! | a struct with the derive | the struct | its size must be a multiple of 8, like that of every tiling struct |
//! | [`Mc2InitTiling`], [`Mc2CcTiling`], [`TCubeTiling`] | CANN's own | from `kernel_tiling/kernel_tiling.h` |
//!
//! A tiling struct has no implicit padding: all bytes between fields must be declared as fields.
//! Rust must not expose uninitialised padding, and the bytes that a kernel receives should not
//! depend on earlier contents of memory. If padding is missing, the error of the compiler says how
//! many bytes are missing and where.
//!
//! # Sizes
//!
//! A struct with more than [`MAX_SIZE`] bytes does not compile. CANN recommends less than 2 KiB for
//! data that is passed with a launch. An [`Mc2InitTiling`] has room for the offsets of eight
//! [`Mc2CcTiling`]. A launch accepts at most three, and checks this.

mod built_in;
pub(in crate::kernel) mod communication;
mod config;
mod cube;
mod field;
mod kinds;
pub(in crate::kernel) mod range;
mod rules;
mod setting;
mod shape;
#[expect(clippy::module_inception, reason = "the module is about the trait of that name")]
mod tiling;

pub use crate::error::tiling::TilingError;
/// The offsets of the parts of a tiling struct that the communication server reads.
///
/// ```
/// use hccl::kernel::tiling::Communication;
/// use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Tiles { init: Mc2InitTiling, all_reduce: Mc2CcTiling, count: u64 }
///
/// assert_eq!(Communication::of(Tiles::LAYOUT).cc_tilings(), [64]);
/// ```
pub use ascend_program::layout::Communication;
/// The values of a tiling struct, as text.
///
/// ```
/// use hccl::kernel::Tiling;
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Sizes { count: u64, scale: f32, rest: u32 }
///
/// let sizes = Sizes { count: 64, scale: 0.5, rest: 0 };
/// println!("{}", sizes.dump()); // offset, name and value of each field
/// # assert!(sizes.dump().to_string().contains("64"));
/// ```
pub use ascend_program::layout::Dump;
/// A field of a [`Layout`].
///
/// ```
/// use hccl::kernel::Tiling;
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Sizes { count: u64, scale: f32, rest: u32 }
///
/// let offsets: Vec<_> = Sizes::LAYOUT.fields().iter().map(|field| field.offset).collect();
/// assert_eq!(offsets, [0, 8, 12]);
/// ```
pub use ascend_program::layout::Field;
/// The error that [`Layout::macro_header`] returns for a struct which its macros cannot express.
///
/// ```
/// use hccl::kernel::Tiling;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Flags { count: u32, on: bool, rest: [u8; 3] }
///
/// let error = Flags::LAYOUT.macro_header("Add").unwrap_err();
/// println!("{}: {}", error.subject, error.problem); // the macros have no `bool`
/// ```
pub use ascend_program::layout::HeaderError;
/// The type of a [`Field`]: a number or a struct.
///
/// ```
/// use hccl::kernel::Tiling;
/// use hccl::kernel::tiling::{Item, Number};
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Sizes { count: u64, scale: f32, rest: u32 }
///
/// assert_eq!(Sizes::LAYOUT.fields()[1].item, Item::Number(Number::F32));
/// ```
pub use ascend_program::layout::Item;
/// The layout of a tiling struct, which is a table of its fields: [`Tiling::LAYOUT`].
///
/// ```
/// use hccl::kernel::Tiling;
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Sizes { count: u64, scale: f32, rest: u32 }
///
/// println!("{}", Sizes::LAYOUT); // offset, size, type and name of each field
/// println!("{}", Sizes::LAYOUT.header()); // the struct in C++
/// assert_eq!(Sizes::LAYOUT.size, 16);
/// ```
pub use ascend_program::layout::Layout;
/// The type of a number in a tiling struct or in a kernel.
///
/// ```
/// use hccl::kernel::Tiling;
/// use hccl::kernel::tiling::{Item, Number};
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Sizes { count: u64, scale: f32, rest: u32 }
///
/// assert_eq!(Sizes::LAYOUT.fields()[0].item, Item::Number(Number::U64));
/// ```
pub use ascend_program::layout::Number;
/// The role of a tiling struct: one of CANN's own structs, or a struct of the program.
///
/// ```
/// use hccl::kernel::tiling::Role;
/// use hccl::kernel::{Mc2InitTiling, Tiling};
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Sizes { count: u64, scale: f32, rest: u32 }
///
/// assert_eq!(Sizes::LAYOUT.role, Role::User);
/// ```
pub use ascend_program::layout::Role;
pub use ascend_program::layout::{MAX_CC_TILINGS, MAX_SIZE};
pub use built_in::{Mc2CcTiling, Mc2InitTiling};
pub use config::{
    Mc2CcTilingConfig, Mc2CcTilingConfigBuilder, Mc2InitTilingConfig, Mc2InitTilingConfigBuilder,
};
pub use cube::TCubeTiling;
pub use field::FieldType;
/// Makes a struct a tiling struct: implements the trait of the same name for it.
///
/// ```
/// use hccl::kernel::Tiling;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct AddTiling {
///     #[tiling(range = 1..=64)]
///     tile_num: u32,
///     tile_len: u32,
/// }
/// let mut tiling = AddTiling { tile_len: 128, ..AddTiling::zeroed() };
/// tiling.set_tile_num(4)?; // 0 and 65 are errors
/// # Ok::<(), hccl::Error>(())
/// ```
pub use hccl_derive::Tiling;
pub use kinds::{CmdType, DataType};
pub use shape::TCubeTilingBuilder;
pub use tiling::Tiling;

#[cfg(test)]
mod tests {
    use super::*;

    /// A tiling struct as in another crate, except for the path of `hccl`.
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
