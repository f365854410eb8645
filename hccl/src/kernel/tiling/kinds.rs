//! The operations that a kernel can request and the types of their elements, with their numbers in
//! the communication structs.

use std::fmt;

use crate::dtype::DType;

macro_rules! commands {
    ($($name:ident, $code:ident, $text:literal, $algorithm:literal, $doc:literal;)*) => {
        /// An operation that a kernel can request (`HcclCMDType`).
        ///
        /// ```
        /// use hccl::kernel::tiling::{CmdType, Mc2CcTilingConfig};
        ///
        /// let builder = Mc2CcTilingConfig::builder().group_name("world");
        /// let kind = builder.op_type(CmdType::AllToAll).build();
        /// assert!(CmdType::ALL.contains(&CmdType::AllToAll));
        /// # let _ = kind;
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum CmdType {
            $(#[doc = $doc] $name,)*
        }

        impl CmdType {
            /// Every operation.
            pub const ALL: &'static [CmdType] = &[$(CmdType::$name,)*];

            /// Returns CANN's number for the operation (`HcclCMDType`).
            pub const fn code(self) -> u32 {
                match self { $(CmdType::$name => ascend_sys::HcclCMDType::$code.0,)* }
            }

            /// Returns the name of the operation's method in Ascend C's `Hccl` client.
            pub const fn name(self) -> &'static str {
                match self { $(CmdType::$name => $text,)* }
            }

            /// Returns the algorithm that CANN's documentation gives for the operation on the A3.
            pub const fn algorithm(self) -> &'static str {
                match self { $(CmdType::$name => $algorithm,)* }
            }
        }
    };
}

commands! {
    AllReduce, HCCL_CMD_ALLREDUCE, "AllReduce", "AllReduce=level0:doublering",
        "`AllReduce`: combines the elements of all ranks; every rank gets the result.";
    AllGather, HCCL_CMD_ALLGATHER, "AllGather", "AllGather=level0:doublering",
        "`AllGather`: gives every rank the blocks of all ranks.";
    ReduceScatter, HCCL_CMD_REDUCE_SCATTER, "ReduceScatter", "ReduceScatter=level0:doublering",
        "`ReduceScatter`: combines the blocks of all ranks; each rank gets one block.";
    AllToAllV, HCCL_CMD_ALLTOALLV, "AlltoAllV", "AlltoAll=level0:fullmesh;level1:pairwise",
        "`AlltoAllV`: exchanges blocks of any length. Only on the A3 and the 950.";
    AllToAll, HCCL_CMD_ALLTOALL, "AlltoAll", "AlltoAll=level0:fullmesh;level1:pairwise",
        "`AlltoAll`: exchanges blocks of equal length.";
    BatchWrite, HCCL_CMD_BATCH_WRITE, "BatchWrite", "BatchWrite=level0:fullmesh",
        "`BatchWrite`: writes to other ranks. Only on the A2 and the A3.";
    AllToAllVWrite, HCCL_CMD_HALF_ALLTOALLV, "AlltoAllvWrite", "AlltoAll=level0:fullmesh;level1:pairwise",
        "`AlltoAllvWrite`: writes blocks to windows. Only on the 950 (`HCCL_CMD_HALF_ALLTOALLV`).";
}

impl CmdType {
    /// Returns whether the operation combines elements.
    pub const fn reduces(self) -> bool {
        matches!(self, CmdType::AllReduce | CmdType::ReduceScatter)
    }

    pub(super) fn from_code(code: u32) -> Option<CmdType> {
        CmdType::ALL.iter().copied().find(|kind| kind.code() == code)
    }
}

impl fmt::Display for CmdType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! data_types {
    ($($name:ident, $code:ident, $text:literal;)*) => {
        /// An element type that the communication server supports (`HcclDataType`): a type of
        /// [`DType`], or a float of 8 bits.
        ///
        /// ```
        /// use hccl::dtype::DType;
        /// use hccl::kernel::tiling::DataType;
        ///
        /// assert_eq!(DataType::from(DType::F16), DataType::F16);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum DataType {
            $(#[doc = concat!("The element type `", $text, "`.")] $name,)*
        }

        impl DataType {
            /// Every type, in the order of CANN's numbers.
            pub const ALL: &'static [DataType] = &[$(DataType::$name,)*];

            /// Returns CANN's number for the type (`HcclDataType`).
            pub const fn code(self) -> u8 {
                // The cast keeps the number, because all numbers are below 20.
                match self { $(DataType::$name => ascend_sys::HcclDataType::$code.0 as u8,)* }
            }

            /// Returns the name of the type, for example `f16`.
            pub const fn name(self) -> &'static str {
                match self { $(DataType::$name => $text,)* }
            }
        }
    };
}

data_types! {
    I8, HCCL_DATA_TYPE_INT8, "i8";
    I16, HCCL_DATA_TYPE_INT16, "i16";
    I32, HCCL_DATA_TYPE_INT32, "i32";
    F16, HCCL_DATA_TYPE_FP16, "f16";
    F32, HCCL_DATA_TYPE_FP32, "f32";
    I64, HCCL_DATA_TYPE_INT64, "i64";
    U64, HCCL_DATA_TYPE_UINT64, "u64";
    U8, HCCL_DATA_TYPE_UINT8, "u8";
    U16, HCCL_DATA_TYPE_UINT16, "u16";
    U32, HCCL_DATA_TYPE_UINT32, "u32";
    F64, HCCL_DATA_TYPE_FP64, "f64";
    BF16, HCCL_DATA_TYPE_BFP16, "bf16";
    HiF8, HCCL_DATA_TYPE_HIF8, "hif8";
    F8E4M3, HCCL_DATA_TYPE_FP8E4M3, "fp8e4m3";
    F8E5M2, HCCL_DATA_TYPE_FP8E5M2, "fp8e5m2";
    F8E8M0, HCCL_DATA_TYPE_FP8E8M0, "fp8e8m0";
}

impl DataType {
    pub(super) fn from_code(code: u8) -> Option<DataType> {
        DataType::ALL.iter().copied().find(|kind| kind.code() == code)
    }
}

impl From<DType> for DataType {
    fn from(dtype: DType) -> Self {
        match dtype {
            DType::I8 => DataType::I8,
            DType::I16 => DataType::I16,
            DType::I32 => DataType::I32,
            DType::F16 => DataType::F16,
            DType::F32 => DataType::F32,
            DType::I64 => DataType::I64,
            DType::U64 => DataType::U64,
            DType::U8 => DataType::U8,
            DType::U16 => DataType::U16,
            DType::U32 => DataType::U32,
            DType::F64 => DataType::F64,
            DType::BF16 => DataType::BF16,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
