//! The two structs of CANN that the communication server reads.
//!
//! In CANN's headers both are opaque, arrays of `uint8_t` that its class `Mc2CcTilingConfig`
//! writes. The fields here are where that class writes them.

use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};

use ascend_program::layout::{Field, Item, Layout, Number, Role};

use super::{CmdType, DataType, FieldType, Tiling};
use crate::Product;
use crate::dtype::ReduceKind;

/// `Mc2InitTiling`, 64 bytes: says where the [`Mc2CcTiling`] of the struct are. The first field of
/// a kernel that communicates.
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

/// `Mc2CcTiling`: the group, operation and algorithm of one kind of communication.
///
/// [`Mc2InitTilingConfig::fill`](super::Mc2InitTilingConfig::fill) fills it.
///
/// It has 512 bytes in CANN's headers of today and 280 in older ones, whose documents still say so:
/// `Mc2CcTiling<280>` is that one. The fields are the same; the rest is reserved. All other offsets
/// in a struct depend on the size, and they are known when the program is compiled, so the choice
/// is part of the type. The C++ header asserts the size: with a wrong choice the kernel does not
/// compile.
///
/// ```
/// use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};
///
/// /// One for each kind of communication of the kernel.
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Tiles { init: Mc2InitTiling, all_gather: Mc2CcTiling, all_reduce: Mc2CcTiling }
///
/// assert_eq!(Tiles::CC_TILINGS, [64, 64 + 512]); // where they are
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Mc2CcTiling<const BYTES: usize = 512>([u8; BYTES]);

/// The version of its layout that `Mc2InitTiling` holds.
pub(super) const INIT_VERSION: u32 = 100;
/// The version of its layout that `Mc2CcTiling` holds.
pub(super) const CC_VERSION: u8 = 1;
/// The bytes of `Mc2CcTiling` that have a meaning, in every release.
pub(super) const CC_BYTES: usize = 280;

/// The family of the A2, the 910B.
pub(super) const A2_FAMILY: u8 = 1;

/// The settings of an [`Mc2InitTiling`] beside the offsets.
pub(super) struct Filled {
    pub product: Product,
    pub debug_mode: u8,
    pub queue_num: u16,
    pub comm_block_num: u16,
}

impl Mc2InitTiling {
    /// The value that [`version`](Self::version) returns for a struct that was filled.
    pub const VERSION: u32 = INIT_VERSION;

    /// Returns the version of the layout, 0 before the struct is filled.
    pub fn version(&self) -> u32 {
        read_u32(&self.0, 0)
    }

    /// Returns the number of [`Mc2CcTiling`] that the server is to know.
    pub fn count(&self) -> u32 {
        read_u32(&self.0, 4)
    }

    /// Returns the places of the [`Mc2CcTiling`] that the server is to know, in bytes from this
    /// struct.
    pub fn offsets(&self) -> impl Iterator<Item = u32> {
        let count = (self.count() as usize).min(ascend_program::layout::MAX_CC_TILINGS);
        (0..count).map(|n| read_u32(&self.0, 8 + 4 * n))
    }

    /// Returns the debug mode, 0 for none.
    pub fn debug_mode(&self) -> u8 {
        self.0[40]
    }

    /// Returns the number of queues of each core for `BatchWrite`.
    pub fn queue_num(&self) -> u16 {
        u16::from_ne_bytes([self.0[42], self.0[43]])
    }

    /// Returns the number of cores that use queues for `BatchWrite`.
    pub fn comm_block_num(&self) -> u16 {
        u16::from_ne_bytes([self.0[44], self.0[45]])
    }

    /// Returns the family of the device: 1 for the 910B, 255 for others.
    pub fn device_family(&self) -> u8 {
        self.0[46]
    }

    /// Reads the struct at the front of these bytes, which are at least 64.
    pub(super) fn read(bytes: &[u8]) -> Self {
        bytes.first_chunk().copied().map(Self).unwrap_or_default()
    }

    /// Returns the bytes of the struct for these members and a product.
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
    /// Returns the version of the layout, 0 before the struct is filled.
    pub fn version(&self) -> u8 {
        self.0[3]
    }

    /// Returns the name of the communicator.
    pub fn group_name(&self) -> Cow<'_, str> {
        read_text(&self.0[16..144])
    }

    /// Returns the algorithm, in CANN's words.
    pub fn algorithm(&self) -> Cow<'_, str> {
        read_text(&self.0[144..272])
    }

    /// Returns the operation, if it is one that kernels have.
    pub fn op_type(&self) -> Option<CmdType> {
        CmdType::from_code(read_u32(&self.0, 272))
    }

    /// Returns the reduction, or `None` if the struct names none that exists. It has a meaning only
    /// for operations that combine elements.
    pub fn reduce_op(&self) -> Option<ReduceKind> {
        let code = read_u32(&self.0, 276);
        ReduceKind::ALL.iter().copied().find(|kind| kind.code() == code)
    }

    /// Returns the type of the elements that are read.
    pub fn source_type(&self) -> Option<DataType> {
        DataType::from_code(self.0[14])
    }

    /// Returns the type of the elements that are written.
    pub fn destination_type(&self) -> Option<DataType> {
        DataType::from_code(self.0[15])
    }

    /// Returns the communication engine, 0 for CANN's choice.
    pub fn engine(&self) -> u8 {
        self.0[13]
    }

    /// Returns the number of steps between two commits of a fine-grained `AlltoAllV`, 0 for a
    /// coarse one.
    pub fn step_size(&self) -> u8 {
        self.0[2]
    }

    /// Whether a rank's own block is not copied to its output.
    pub fn skip_local_rank_copy(&self) -> bool {
        self.0[0] == 1
    }

    /// Whether the input is already in the window.
    pub fn skip_buffer_window_copy(&self) -> bool {
        self.0[1] == 2
    }
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the text up to the NUL.
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

/// A field with a plain number or, if a length is given, an array.
const fn field(name: &'static str, offset: u32, number: Number, lengths: &'static [u32]) -> Field {
    let (name, doc, lengths) = (Cow::Borrowed(name), Cow::Borrowed(""), Cow::Borrowed(lengths));
    Field { name, doc, offset, item: Item::Number(number), lengths }
}

// SAFETY: the struct is bytes, of which every pattern is a value.
unsafe impl FieldType for Mc2InitTiling {
    const ITEM: Item = Item::Struct(Cow::Borrowed(Self::LAYOUT));
}

// SAFETY: the fields follow one another from the first byte to the last, as the test below checks.
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
        // SAFETY: the struct is bytes, of which every pattern is a value.
        unsafe impl FieldType for Mc2CcTiling<$bytes> {
            const ITEM: Item = Item::Struct(Cow::Borrowed(Self::LAYOUT));
        }

        // SAFETY: the fields follow one another from the first byte to the last, as the test below
        // checks.
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
