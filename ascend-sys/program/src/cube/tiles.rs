//! The numbers of a `TCubeTiling`, and those of the chip that it is for.

/// The number of cube cores of a chip, and the sizes of the memories of one core that hold blocks
/// of matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chip {
    /// The number of cube cores.
    pub cores: u32,
    /// The size of the memory L0A in bytes. L0A holds blocks of A on their way into the cube unit.
    pub l0a: u32,
    /// The size of the memory L0B in bytes. L0B holds blocks of B on their way into the cube unit.
    pub l0b: u32,
    /// The size of the memory L0C in bytes. L0C holds blocks of C.
    pub l0c: u32,
    /// The size of the memory L1 in bytes. L1 holds blocks of A and B before they go to L0A and
    /// L0B, and the bias.
    pub l1: u32,
    /// The part of L1, in bytes, that is not available in a kernel that also has vector cores.
    pub l1_reserve: u32,
    /// The size of the memory for the bias of a block, in bytes.
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

            /// Returns the name of the field in C++.
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
    /// Returns the number of this field.
    pub fn get(&self, field: Field) -> i32 {
        self.0[field as usize]
    }

    /// Returns the number of this field as an `i128`. Products of these numbers do not fit into the
    /// type of a field.
    pub(super) fn wide(&self, field: Field) -> i128 {
        self.get(field).into()
    }

    pub(super) fn set(&mut self, field: Field, number: u32) {
        // No size is larger than that of a matrix, which has been checked.
        self.0[field as usize] = i32::try_from(number).unwrap_or(i32::MAX);
    }
}
