//! The element types and the operators of HCCL, with the numbers they have in its ABI.

/// `HcclDataType`: the type of the elements of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DataType {
    /// Signed, 1 byte.
    Int8 = 0,
    /// Signed, 2 bytes.
    Int16 = 1,
    /// Signed, 4 bytes.
    Int32 = 2,
    /// IEEE half precision, 2 bytes.
    Fp16 = 3,
    /// IEEE single precision, 4 bytes.
    Fp32 = 4,
    /// Signed, 8 bytes.
    Int64 = 5,
    /// Unsigned, 8 bytes.
    Uint64 = 6,
    /// Unsigned, 1 byte; moved only.
    Uint8 = 7,
    /// Unsigned, 2 bytes; moved only.
    Uint16 = 8,
    /// Unsigned, 4 bytes; moved only.
    Uint32 = 9,
    /// IEEE double precision, 8 bytes.
    Fp64 = 10,
    /// bfloat16, 2 bytes.
    Bfp16 = 11,
    /// 16 bytes; moved only.
    Int128 = 12,
    /// HiFloat8, 1 byte; moved only.
    Hif8 = 14,
    /// 8-bit float, 4 bits of exponent; moved only.
    Fp8E4M3 = 15,
    /// 8-bit float, 5 bits of exponent; moved only.
    Fp8E5M2 = 16,
    /// 8-bit power of two; moved only.
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

    /// The type with this number in `HcclDataType`; `None` for 13, the reserved value and anything
    /// unknown.
    pub fn from_hccl(value: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|t| *t as u32 == value)
    }

    /// The size of one element in bytes.
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

    /// Whether the kernels of this module reduce the type. The others can only be moved.
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

/// `HcclReduceOp`: how elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ReduceOp {
    /// `a + b`.
    Sum = 0,
    /// `a * b`.
    Prod = 1,
    /// The larger.
    Max = 2,
    /// The smaller.
    Min = 3,
}

impl ReduceOp {
    /// The operator with this number in `HcclReduceOp`; `None` for the reserved value and anything
    /// unknown.
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
