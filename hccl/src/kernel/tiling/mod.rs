//! Tiling structs: plain data that the host fills and a kernel reads.
//!
//! A kernel takes its sizes, counts and switches from one tiling struct. The host writes it in
//! Rust, the kernel reads it in C++, and a server that communicates for the kernel reads parts of
//! it too. So every byte has to be where the others look for it. `#[derive(Tiling)]` holds the Rust
//! struct to that, field by field, when the program is compiled, and makes the C++ from the same
//! table:
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
//! Bytes between fields do not exist unless they are written down as fields: Rust may not show
//! uninitialised padding to anybody, and the bytes that a kernel receives should not depend on
//! earlier contents of memory. The compiler says how many are missing and where.
//!
//! # Sizes
//!
//! A struct with more than [`MAX_SIZE`] bytes does not compile. CANN recommends less than 2 KiB for
//! data that travels with a launch. One [`Mc2InitTiling`] counts up to eight [`Mc2CcTiling`]; the
//! A3 takes three of them at launch, which is checked there.

mod built_in;
pub(in crate::kernel) mod communication;
mod config;
mod cube;
mod field;
mod kinds;
pub(in crate::kernel) mod range;
mod rules;
mod shape;
#[expect(clippy::module_inception, reason = "it is about the trait of that name")]
mod tiling;

pub use crate::error::tiling::TilingError;
pub use ascend_program::layout::{
    Communication, Dump, Field, HeaderError, Item, Layout, MAX_CC_TILINGS, MAX_SIZE, Number, Role,
};
pub use built_in::{Mc2CcTiling, Mc2InitTiling};
pub use config::{
    Mc2CcTilingConfig, Mc2CcTilingConfigBuilder, Mc2InitTilingConfig, Mc2InitTilingConfigBuilder,
};
pub use cube::TCubeTiling;
pub use field::FieldType;
pub use hccl_derive::Tiling;
pub use kinds::{CmdType, DataType};
pub use shape::TCubeTilingBuilder;
pub use tiling::Tiling;

#[cfg(test)]
mod tests {
    use super::*;

    /// As another crate writes it, but for the path of `hccl`.
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
