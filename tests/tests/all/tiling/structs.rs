//! The structs of these tests: one of each kind, with the values that both languages read and
//! write.

use hccl::kernel::tiling::{CmdType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, TCubeTiling, Tiling};
use hccl::{Product, bf16, f16};

/// The struct of a kernel that communicates, with the names of the documents.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(name = "AllToAllCustomTilingData", size = 592)]
pub struct AllToAll {
    pub init: Mc2InitTiling,
    #[tiling(name = "alltoallCcTiling")]
    pub all_to_all: Mc2CcTiling,
    pub tile_num: u32,
    pub tail_num: u32,
    pub tile_len: u64,
}

/// One field of every type, arrays, arrays of arrays, and structs in structs.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(namespace = "tests::every")]
pub struct Everything {
    pub i_8: i8,
    pub u_8: u8,
    pub i_16: i16,
    pub i_32: i32,
    pub i_64: i64,
    pub u_64: u64,
    pub u_32: u32,
    pub u_16: u16,
    pub half_float: f16,
    pub brain: bf16,
    pub flag: bool,
    pub flags: [bool; 3],
    pub _gap: [u8; 2],
    #[tiling(name = "single")]
    pub float: f32,
    pub matrix: [[f32; 3]; 2],
    pub more: u32,
    #[tiling(name = "twice")]
    pub double: f64,
    pub part: Part,
    #[tiling(name = "all")]
    pub parts: [[Part; 2]; 2],
    pub twin: Twin,
    pub _pad: [u8; 8],
}

/// A part in the same namespace.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(namespace = "tests::every")]
pub struct Part {
    pub rows: u32,
    pub done: bool,
    pub _pad: [u8; 3],
}

/// A part in another namespace.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(namespace = "tests")]
pub struct Twin {
    pub halves: [f16; 4],
}

/// A fused operator: several communications, products of matrices, and a part.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
pub struct Fused {
    pub init: Mc2InitTiling,
    pub all_gather: Mc2CcTiling,
    pub more: [Mc2CcTiling; 2],
    pub tile: TCubeTiling,
    pub tail: TCubeTiling,
    pub shape: Shape,
    pub counts: [i64; 256],
}

const MOST_RANKS: u8 = 64;

/// A struct that is a part of [`Fused`].
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(name = "ShapeTiling")]
pub struct Shape {
    #[tiling(range = 1..=MOST_RANKS as u32)]
    pub rank_dim: u32,
    pub scale: f32,
    #[tiling(range = ..1 << 40)]
    pub lengths: [u64; 2],
}

/// A tiling struct for releases of CANN whose `Mc2CcTiling` is shorter.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(size = 352)]
pub struct Older {
    pub init: Mc2InitTiling,
    pub all_reduce: Mc2CcTiling<280>,
    pub turns: u64,
}

/// A value that can be converted to its bits and back.
pub trait Bits: Copy {
    fn bits(self) -> u64;
    fn of(bits: u64) -> Self;
}

macro_rules! bits {
    ($($ty:ty: $bits:ident,)*) => {$(
        impl Bits for $ty {
            fn bits(self) -> u64 {
                $bits::from_ne_bytes(self.to_ne_bytes()).into()
            }
            fn of(bits: u64) -> Self {
                Self::from_ne_bytes((bits as $bits).to_ne_bytes())
            }
        }
    )*};
}

bits! {
    i8: u8, u8: u8, i16: u16, u16: u16, i32: u32, u32: u32, i64: u64, u64: u64,
    f32: u32, f64: u64, f16: u16, bf16: u16,
}

impl Bits for bool {
    fn bits(self) -> u64 {
        self.into()
    }
    fn of(bits: u64) -> Self {
        bits & 1 == 1
    }
}

/// A struct with access to some of its values, by their names in C++.
pub trait Sample: Tiling {
    const LEAVES: &'static [&'static str];
    fn bits(&self) -> Vec<u64>;
    /// Sets all of these values to the bits that `bits` returns.
    fn set(&mut self, bits: impl FnMut() -> u64);
    /// Fills the members that the server reads.
    fn fill(&mut self) {}
}

macro_rules! samples {
    ($($ty:ident ($($fill:ident)?) { $($cpp:literal: ($($path:tt)*),)* })*) => {$(
        impl Sample for $ty {
            const LEAVES: &'static [&'static str] = &[$($cpp,)*];
            fn bits(&self) -> Vec<u64> {
                vec![$(self.$($path)*.bits(),)*]
            }
            fn set(&mut self, mut bits: impl FnMut() -> u64) {
                $(self.$($path)* = Bits::of(bits());)*
            }
            $(fn fill(&mut self) { $fill(self) })?
        }
    )*};
}

samples! {
    AllToAll (communicating) {
        "tileNum": (tile_num),
        "tailNum": (tail_num),
        "tileLen": (tile_len),
    }
    Everything () {
        "i8": (i_8),
        "u8": (u_8),
        "i16": (i_16),
        "i32": (i_32),
        "i64": (i_64),
        "u64": (u_64),
        "u32": (u_32),
        "u16": (u_16),
        "halfFloat": (half_float),
        "brain": (brain),
        "flag": (flag),
        "flags[0]": (flags[0]),
        "flags[2]": (flags[2]),
        "single": (float),
        "twice": (double),
        "matrix[0][2]": (matrix[0][2]),
        "matrix[1][0]": (matrix[1][0]),
        "part.rows": (part.rows),
        "part.done": (part.done),
        "all[0][1].rows": (parts[0][1].rows),
        "all[1][0].done": (parts[1][0].done),
        "twin.halves[3]": (twin.halves[3]),
        "_pad[7]": (_pad[7]),
    }
    Fused (fused) {
        "tile.M": (tile.m),
        "tile.mxTypePara": (tile.mx_type_para),
        "tail.usedCoreNum": (tail.used_core_num),
        "tail.depthAL1CacheUB": (tail.depth_al1_cache_ub),
        "tail.CLayoutInfoS2": (tail.c_layout_info_s2),
        "shape.scale": (shape.scale),
        "counts[0]": (counts[0]),
        "counts[255]": (counts[255]),
    }
    Older (communicating) {
        "turns": (turns),
    }
}

fn fused(tiling: &mut Fused) {
    communicating(tiling);
    tiling.shape.rank_dim = 8;
}

/// Fills all members of the tiling.
fn communicating<T: Tiling>(tiling: &mut T) {
    let member =
        Mc2CcTilingConfig::builder().group_name("world").op_type(CmdType::AllReduce).build();
    let members = vec![member; T::CC_TILINGS.len()];
    Mc2InitTilingConfig::builder().product(Product::A3).build().fill(tiling, &members).unwrap();
}
