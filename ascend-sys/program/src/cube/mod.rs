//! `TCubeTiling`: the division of a product of matrices among the cube cores.
//!
//! [`Tiles`] is its 50 numbers. [`Tiles::problem`] checks them against the rules that CANN
//! documents for `MatmulImpl` with `CFG_MDL`, the form that is printed. [`Shape::tiles`] fills them
//! so that they keep these rules.

mod rules;
mod shape;

pub use rules::Problem;
pub use shape::{Refused, Shape};

/// The number of cube cores of a chip, and the memory of one of them for blocks of matrices, in
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chip {
    /// The number of cube cores.
    pub cores: u32,
    /// The memory L0A, in bytes: for blocks of A on their way into the cube unit.
    pub l0a: u32,
    /// The memory L0B, in bytes: for blocks of B on their way into the cube unit.
    pub l0b: u32,
    /// The memory L0C for blocks of C, in bytes.
    pub l0c: u32,
    /// The memory L1, in bytes: for blocks of A and B before they go to L0A and L0B, and for the
    /// bias.
    pub l1: u32,
    /// The part of L1, in bytes, that a kernel with vector cores beside the cube cores does not
    /// have.
    pub l1_reserve: u32,
    /// The memory for the bias of a block, in bytes.
    pub bias: u32,
}

macro_rules! fields {
    ($($field:ident $name:literal,)*) => {
        /// A number of a `TCubeTiling`, in the order of the struct.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are CANN's")]
        pub enum Field { $($field,)* }

        impl Field {
            /// All fields, in the order of the struct.
            pub const ALL: [Field; 50] = [$(Field::$field,)*];

            /// Its name in C++.
            pub fn name(self) -> &'static str {
                match self { $(Field::$field => $name,)* }
            }
        }
    };
}

fields! {
    UsedCoreNum "usedCoreNum",
    M "M",
    N "N",
    Ka "Ka",
    Kb "Kb",
    SingleCoreM "singleCoreM",
    SingleCoreN "singleCoreN",
    SingleCoreK "singleCoreK",
    BaseM "baseM",
    BaseN "baseN",
    BaseK "baseK",
    DepthA1 "depthA1",
    DepthB1 "depthB1",
    StepM "stepM",
    StepN "stepN",
    IsBias "isBias",
    TransLength "transLength",
    IterateOrder "iterateOrder",
    ShareMode "shareMode",
    ShareL1Size "shareL1Size",
    ShareL0CSize "shareL0CSize",
    ShareUbSize "shareUbSize",
    BatchM "batchM",
    BatchN "batchN",
    SingleBatchM "singleBatchM",
    SingleBatchN "singleBatchN",
    StepKa "stepKa",
    StepKb "stepKb",
    DepthAL1CacheUB "depthAL1CacheUB",
    DepthBL1CacheUB "depthBL1CacheUB",
    DbL0A "dbL0A",
    DbL0B "dbL0B",
    DbL0C "dbL0C",
    ALayoutInfoB "ALayoutInfoB",
    ALayoutInfoS "ALayoutInfoS",
    ALayoutInfoN "ALayoutInfoN",
    ALayoutInfoG "ALayoutInfoG",
    ALayoutInfoD "ALayoutInfoD",
    BLayoutInfoB "BLayoutInfoB",
    BLayoutInfoS "BLayoutInfoS",
    BLayoutInfoN "BLayoutInfoN",
    BLayoutInfoG "BLayoutInfoG",
    BLayoutInfoD "BLayoutInfoD",
    CLayoutInfoB "CLayoutInfoB",
    CLayoutInfoS1 "CLayoutInfoS1",
    CLayoutInfoN "CLayoutInfoN",
    CLayoutInfoG "CLayoutInfoG",
    CLayoutInfoS2 "CLayoutInfoS2",
    BatchNum "BatchNum",
    MxTypePara "mxTypePara",
}

/// The numbers of a `TCubeTiling`, in the order of the struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiles(pub [i32; 50]);

impl Tiles {
    /// The number of this field.
    pub fn get(&self, field: Field) -> i32 {
        self.0[field as usize]
    }

    /// The number of this field, wide enough for products, which do not fit in the type of a field.
    fn wide(&self, field: Field) -> i128 {
        self.get(field).into()
    }

    fn set(&mut self, field: Field, number: u32) {
        // No size is above that of a matrix, which has been checked.
        self.0[field as usize] = i32::try_from(number).unwrap_or(i32::MAX);
    }
}
