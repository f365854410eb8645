//! The two structs of CANN that the communication server reads.
//!
//! In CANN's headers both structs are opaque arrays of `uint8_t`, which CANN's class
//! `Mc2CcTilingConfig` fills. The fields here have the offsets at which that class writes them.

use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};

use ascend_program::layout::{Field, Item, Layout, Number, Role};

use super::{CmdType, DataType, FieldType, Tiling};
use crate::Product;
use crate::dtype::ReduceKind;

/// `Mc2InitTiling` of CANN, 64 bytes: holds the offsets of the [`Mc2CcTiling`] fields of a tiling
/// struct. A tiling struct of a kernel that communicates must begin with it.
///
/// [`Mc2InitTilingConfig::fill`](super::Mc2InitTilingConfig::fill) fills it.
///
/// ```
/// use hccl::kernel::tiling::{CmdType, Mc2CcTilingConfig, Mc2InitTilingConfig};
/// use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Tiles {
///     init: Mc2InitTiling, // the first field
///     all_reduce: Mc2CcTiling,
///     count: u64,
/// }
///
/// let mut tiling = Tiles { count: 64, ..Tiles::zeroed() };
/// let kind = Mc2CcTilingConfig::builder().group_name("world").op_type(CmdType::AllReduce).build();
/// Mc2InitTilingConfig::builder().product(hccl::Product::A3).build().fill(&mut tiling, &[kind])?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Mc2InitTiling([u8; 64]);

/// `Mc2CcTiling` of CANN: the group, operation and algorithm of one kind of communication.
///
/// [`Mc2InitTilingConfig::fill`](super::Mc2InitTilingConfig::fill) fills it.
///
/// The struct has 512 bytes in CANN's current headers. It has 280 bytes in older headers, and still
/// in CANN's documentation: `Mc2CcTiling<280>` is that struct. Both have the same fields; the
/// remaining bytes are reserved. The size determines the offsets of all later fields in a tiling
/// struct. These are known at compile time, so the size is part of the type. The C++ header asserts
/// the size: with a wrong choice the kernel does not compile.
///
/// ```
/// use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};
///
/// /// It has one `Mc2CcTiling` for each kind of communication of the kernel.
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Tiles { init: Mc2InitTiling, all_gather: Mc2CcTiling, all_reduce: Mc2CcTiling }
///
/// assert_eq!(Tiles::CC_TILINGS, [64, 64 + 512]); // their offsets in bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Mc2CcTiling<const BYTES: usize = 512>([u8; BYTES]);

/// The layout version in a filled `Mc2InitTiling`.
pub(super) const INIT_VERSION: u32 = 100;
/// The layout version in a filled `Mc2CcTiling`.
pub(super) const CC_VERSION: u8 = 1;
/// The number of bytes of `Mc2CcTiling` that have a meaning, which is the same in every release of
/// CANN.
pub(super) const CC_BYTES: usize = 280;

/// The device family in an `Mc2InitTiling` for the A2 (the 910B).
pub(super) const A2_FAMILY: u8 = 1;

/// The contents of an [`Mc2InitTiling`] except for the offsets.
pub(super) struct Filled {
    pub product: Product,
    pub debug_mode: u8,
    pub queue_num: u16,
    pub comm_block_num: u16,
}

impl Mc2InitTiling {
    /// The value that [`version`](Self::version) returns for a filled struct.
    pub const VERSION: u32 = INIT_VERSION;

    /// Returns the version of the layout, or 0 if the struct is not filled.
    pub fn version(&self) -> u32 {
        read_u32(&self.0, 0)
    }

    /// Returns the number of [`Mc2CcTiling`] that the server reads.
    pub fn count(&self) -> u32 {
        read_u32(&self.0, 4)
    }

    /// Returns the offsets of the [`Mc2CcTiling`] that the server reads, in bytes from the start of
    /// this struct.
    pub fn offsets(&self) -> impl Iterator<Item = u32> {
        let count = (self.count() as usize).min(ascend_program::layout::MAX_CC_TILINGS);
        (0..count).map(|n| read_u32(&self.0, 8 + 4 * n))
    }

    /// Returns CANN's debug mode, or 0 for none.
    pub fn debug_mode(&self) -> u8 {
        self.0[40]
    }

    /// Returns the number of queues of each core for `BatchWrite`, or 0 if it was not set.
    pub fn queue_num(&self) -> u16 {
        u16::from_ne_bytes([self.0[42], self.0[43]])
    }

    /// Returns the number of cores that use queues for `BatchWrite`, or 0 if it was not set.
    pub fn comm_block_num(&self) -> u16 {
        u16::from_ne_bytes([self.0[44], self.0[45]])
    }

    /// Returns the family of the device: 1 for the A2 (the 910B), 255 for other products, or 0 if
    /// the struct is not filled.
    pub fn device_family(&self) -> u8 {
        self.0[46]
    }

    /// Reads the struct from the first 64 bytes. Returns a struct of zeros if there are fewer
    /// bytes.
    pub(super) fn read(bytes: &[u8]) -> Self {
        bytes.first_chunk().copied().map(Self).unwrap_or_default()
    }

    /// Returns the bytes of a filled struct. `offsets` are those of its [`Mc2CcTiling`] in bytes.
    pub(super) fn filled(offsets: &[u32], filled: &Filled) -> [u8; 64] {
        let mut bytes = [0; 64];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &INIT_VERSION.to_ne_bytes());
        put(4, &(offsets.len() as u32).to_ne_bytes());
        for (n, offset) in offsets.iter().enumerate() {
            put(8 + 4 * n, &offset.to_ne_bytes());
        }
        put(40, &[filled.debug_mode]);
        put(42, &filled.queue_num.to_ne_bytes());
        put(44, &filled.comm_block_num.to_ne_bytes());
        put(46, &[if filled.product == Product::A2 { A2_FAMILY } else { 255 }]);
        bytes
    }
}

impl<const BYTES: usize> Mc2CcTiling<BYTES>
where
    Self: Tiling,
{
    /// Returns the version of the layout, or 0 if the struct is not filled.
    pub fn version(&self) -> u8 {
        self.0[3]
    }

    /// Returns the name of the communicator.
    pub fn group_name(&self) -> Cow<'_, str> {
        read_text(&self.0[16..144])
    }

    /// Returns the algorithm in CANN's notation.
    pub fn algorithm(&self) -> Cow<'_, str> {
        read_text(&self.0[144..272])
    }

    /// Returns the operation, or `None` if its number is not that of a [`CmdType`].
    pub fn op_type(&self) -> Option<CmdType> {
        CmdType::from_code(read_u32(&self.0, 272))
    }

    /// Returns the reduction, or `None` if its number is not that of a [`ReduceKind`]. The
    /// reduction has a meaning only for operations that combine elements.
    pub fn reduce_op(&self) -> Option<ReduceKind> {
        let code = read_u32(&self.0, 276);
        ReduceKind::ALL.iter().copied().find(|kind| kind.code() == code)
    }

    /// Returns the type of the elements that are read, or `None` if its number is not that of a
    /// [`DataType`]. A struct that was filled without a type returns `i8`, which has number 0.
    pub fn source_type(&self) -> Option<DataType> {
        DataType::from_code(self.0[14])
    }

    /// Returns the type of the elements that are written, or `None` if its number is not that of a
    /// [`DataType`]. A struct that was filled without a type returns `i8`, which has number 0.
    pub fn destination_type(&self) -> Option<DataType> {
        DataType::from_code(self.0[15])
    }

    /// Returns the number of the communication engine, or 0 if CANN chooses it.
    pub fn engine(&self) -> u8 {
        self.0[13]
    }

    /// Returns the number of steps between two commits of a fine-grained `AlltoAllV`, or 0 if a
    /// commit is for a whole turn.
    pub fn step_size(&self) -> u8 {
        self.0[2]
    }

    /// Returns whether a rank's own block is not copied to its output.
    pub fn skip_local_rank_copy(&self) -> bool {
        self.0[0] == 1
    }

    /// Returns whether the input is already in the window.
    pub fn skip_buffer_window_copy(&self) -> bool {
        self.0[1] == 2
    }
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the text before the first NUL.
fn read_text(bytes: &[u8]) -> Cow<'_, str> {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text)
}

impl Default for Mc2InitTiling {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl<const BYTES: usize> Default for Mc2CcTiling<BYTES> {
    fn default() -> Self {
        Self([0; BYTES])
    }
}

impl Debug for Mc2InitTiling {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dump())
    }
}

impl<const BYTES: usize> Debug for Mc2CcTiling<BYTES>
where
    Self: Tiling,
{
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dump())
    }
}

/// Returns a field that is a number or, if `lengths` is not empty, an array of numbers.
const fn field(name: &'static str, offset: u32, number: Number, lengths: &'static [u32]) -> Field {
    let (name, doc, lengths) = (Cow::Borrowed(name), Cow::Borrowed(""), Cow::Borrowed(lengths));
    Field { name, doc, offset, item: Item::Number(number), lengths }
}

// SAFETY: the struct consists of bytes, and every pattern of bytes is a valid value.
unsafe impl FieldType for Mc2InitTiling {
    const ITEM: Item = Item::Struct(Cow::Borrowed(Self::LAYOUT));
}

// SAFETY: the fields cover the struct from the first byte to the last without gaps, as the test
// below checks.
unsafe impl Tiling for Mc2InitTiling {
    const LAYOUT: &'static Layout = &Layout {
        name: Cow::Borrowed("Mc2InitTiling"),
        namespace: Cow::Borrowed(""),
        doc: Cow::Borrowed(""),
        role: Role::InitTiling,
        size: 64,
        align: 1,
        fields: Cow::Borrowed(&[
            field("version", 0, Number::U32, &[]),
            field("mc2HcommCnt", 4, Number::U32, &[]),
            field("offset", 8, Number::U32, &[8]),
            field("debugMode", 40, Number::U8, &[]),
            field("preparePosition", 41, Number::U8, &[]),
            field("queueNum", 42, Number::U16, &[]),
            field("commBlockNum", 44, Number::U16, &[]),
            field("devType", 46, Number::U8, &[]),
            field("reserved", 47, Number::U8, &[17]),
        ]),
    };
}

macro_rules! cc_tiling {
    ($bytes:literal $(, $rest:expr)?) => {
        // SAFETY: the struct consists of bytes, and every pattern of bytes is a valid value.
        unsafe impl FieldType for Mc2CcTiling<$bytes> {
            const ITEM: Item = Item::Struct(Cow::Borrowed(Self::LAYOUT));
        }

        // SAFETY: the fields cover the struct from the first byte to the last without gaps, as the
        // test below checks.
        unsafe impl Tiling for Mc2CcTiling<$bytes> {
            const LAYOUT: &'static Layout = &Layout {
                name: Cow::Borrowed("Mc2CcTiling"),
                namespace: Cow::Borrowed(""),
        doc: Cow::Borrowed(""),
                role: Role::CcTiling,
                size: $bytes,
                align: 1,
                fields: Cow::Borrowed(&[
                    field("skipLocalRankCopy", 0, Number::U8, &[]),
                    field("skipBufferWindowCopy", 1, Number::U8, &[]),
                    field("stepSize", 2, Number::U8, &[]),
                    field("version", 3, Number::U8, &[]),
                    field("reserved", 4, Number::U8, &[9]),
                    field("commEngine", 13, Number::U8, &[]),
                    field("srcDataType", 14, Number::U8, &[]),
                    field("dstDataType", 15, Number::U8, &[]),
                    field("groupName", 16, Number::U8, &[128]),
                    field("algConfig", 144, Number::U8, &[128]),
                    field("opType", 272, Number::U32, &[]),
                    field("reduceType", 276, Number::U32, &[]),
                    $($rest,)?
                ]),
            };
        }
    };
}

cc_tiling!(280);
cc_tiling!(512, field("reserved", 280, Number::U8, &[232]));

#[cfg(test)]
mod tests {
    use super::*;

    fn follow_one_another<T: Tiling>() {
        let mut end = 0;
        for field in T::LAYOUT.fields() {
            assert_eq!(u64::from(field.offset), end, "{}", field.name);
            end += field.size();
        }
        assert_eq!((end, size_of::<T>()), (u64::from(T::LAYOUT.size), end as usize));
        assert_eq!(align_of::<T>(), T::LAYOUT.align as usize);
    }

    #[test]
    fn the_fields_of_the_built_in_structs_follow_one_another() {
        follow_one_another::<Mc2InitTiling>();
        follow_one_another::<Mc2CcTiling>();
        follow_one_another::<Mc2CcTiling<280>>();
        follow_one_another::<super::super::TCubeTiling>();
    }
}
