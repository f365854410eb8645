//! The element types and the operators of HCCL, with their numbers in HCCL's ABI.

/// `HcclDataType`: the type of the elements of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DataType {
    /// A signed integer of 1 byte.
    Int8 = 0,
    /// A signed integer of 2 bytes.
    Int16 = 1,
    /// A signed integer of 4 bytes.
    Int32 = 2,
    /// An IEEE half-precision float of 2 bytes.
    Fp16 = 3,
    /// An IEEE single-precision float of 4 bytes.
    Fp32 = 4,
    /// A signed integer of 8 bytes.
    Int64 = 5,
    /// An unsigned integer of 8 bytes.
    Uint64 = 6,
    /// An unsigned integer of 1 byte. It can be moved but not reduced.
    Uint8 = 7,
    /// An unsigned integer of 2 bytes. It can be moved but not reduced.
    Uint16 = 8,
    /// An unsigned integer of 4 bytes. It can be moved but not reduced.
    Uint32 = 9,
    /// An IEEE double-precision float of 8 bytes.
    Fp64 = 10,
    /// A bfloat16 of 2 bytes.
    Bfp16 = 11,
    /// An integer of 16 bytes. It can be moved but not reduced.
    Int128 = 12,
    /// A HiFloat8 of 1 byte. It can be moved but not reduced.
    Hif8 = 14,
    /// An 8-bit float with 4 bits of exponent. It can be moved but not reduced.
    Fp8E4M3 = 15,
    /// An 8-bit float with 5 bits of exponent. It can be moved but not reduced.
    Fp8E5M2 = 16,
    /// An 8-bit power of two. It can be moved but not reduced.
    Fp8E8M0 = 17,
}

impl DataType {
    /// Every type, in the order of its number.
    pub const ALL: [Self; 17] = [
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Fp16,
        Self::Fp32,
        Self::Int64,
        Self::Uint64,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Fp64,
        Self::Bfp16,
        Self::Int128,
        Self::Hif8,
        Self::Fp8E4M3,
        Self::Fp8E5M2,
        Self::Fp8E8M0,
    ];

    /// Returns the type with this number in `HcclDataType`. Returns `None` for 13, the reserved
    /// value and any unknown number.
    pub fn from_hccl(value: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|t| *t as u32 == value)
    }

    /// Returns the size of one element in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::Int8
            | Self::Uint8
            | Self::Hif8
            | Self::Fp8E4M3
            | Self::Fp8E5M2
            | Self::Fp8E8M0 => 1,
            Self::Int16 | Self::Uint16 | Self::Fp16 | Self::Bfp16 => 2,
            Self::Int32 | Self::Uint32 | Self::Fp32 => 4,
            Self::Int64 | Self::Uint64 | Self::Fp64 => 8,
            Self::Int128 => 16,
        }
    }

    /// Returns whether the kernels of this crate reduce the type. Other types can only be moved.
    pub const fn is_reducible(self) -> bool {
        matches!(
            self,
            Self::Int8
                | Self::Int16
                | Self::Int32
                | Self::Int64
                | Self::Uint64
                | Self::Fp16
                | Self::Fp32
                | Self::Fp64
                | Self::Bfp16
        )
    }
}

/// `HcclReduceOp`: the operator that combines elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ReduceOp {
    /// The sum `a + b`.
    Sum = 0,
    /// The product `a * b`.
    Prod = 1,
    /// The larger value.
    Max = 2,
    /// The smaller value.
    Min = 3,
}

impl ReduceOp {
    /// Returns the operator with this number in `HcclReduceOp`. Returns `None` for the reserved
    /// value and any unknown number.
    pub const fn from_hccl(value: u32) -> Option<Self> {
        match value {
            0 => Some(Self::Sum),
            1 => Some(Self::Prod),
            2 => Some(Self::Max),
            3 => Some(Self::Min),
            _ => None,
        }
    }
}
