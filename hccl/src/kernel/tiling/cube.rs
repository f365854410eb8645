//! `TCubeTiling`: the division of a matrix product among the cores, and of a core's piece into
//! blocks that it computes one after another.

use std::borrow::Cow;

use ascend_program::layout::{Field, Item, Layout, Number, Role};

use super::{FieldType, Tiling};

macro_rules! cube_tiling {
    ($($rust:ident $cpp:literal $doc:literal;)*) => {
        /// `TCubeTiling` of CANN, 200 bytes: the configuration of the high-level `Matmul` of a
        /// kernel.
        ///
        /// [`for_shape`](Self::for_shape) fills it; CANN's library `MultiCoreMatmulTiling` can fill
        /// it too. A launch checks the struct for the rules that CANN documents: `base_m` and
        /// `base_n` must be multiples of 16, the buffers of a block must fit in L0, and so on. The
        /// layout, batch and share fields are 0 for a plain product, which has no batches and
        /// shares no memory.
        ///
        /// A base block is the part of a product that one instruction computes. Older releases of
        /// CANN lack the last field. The C++ header asserts the size.
        ///
        /// ```
        /// use hccl::kernel::{TCubeTiling, Tiling};
        /// use hccl::{Product, f16};
        ///
        /// #[derive(Tiling)]
        /// #[repr(C)]
        /// struct Tiles { cube: TCubeTiling }
        ///
        /// let cube = TCubeTiling::for_shape::<f16, f16, f16>(Product::A3, 1000, 520, 300).build()?;
        /// let tiling = Tiles { cube };
        /// assert_eq!(tiling.as_bytes().len(), 200);
        /// # Ok::<(), hccl::Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct TCubeTiling {
            $(#[doc = concat!("`", $cpp, "`", $doc)] pub $rust: i32,)*
        }

        impl TCubeTiling {
            /// Makes the struct from its 50 fields, in their order.
            pub(super) fn from_numbers([$($rust),*]: [i32; 50]) -> Self {
                TCubeTiling { $($rust),* }
            }
        }

        // SAFETY: the struct consists of numbers, for which every pattern of bytes is a valid
        // value.
        unsafe impl FieldType for TCubeTiling {
            const ITEM: Item = Item::Struct(Cow::Borrowed(Self::LAYOUT));
        }

        // SAFETY: the struct has 50 fields of 4 bytes each and no other bytes. The compiler
        // computes the offsets.
        unsafe impl Tiling for TCubeTiling {
            const LAYOUT: &'static Layout = &Layout {
                name: Cow::Borrowed("TCubeTiling"),
                namespace: Cow::Borrowed(""),
                doc: Cow::Borrowed(""),
                role: Role::CubeTiling,
                size: size_of::<Self>() as u32,
                align: align_of::<Self>() as u32,
                fields: Cow::Borrowed(&[$(Field {
                    name: Cow::Borrowed($cpp),
                    doc: Cow::Borrowed(""),
                    offset: std::mem::offset_of!(TCubeTiling, $rust) as u32,
                    item: Item::Number(Number::I32),
                    lengths: Cow::Borrowed(&[]),
                },)*]),
            };
        }
    };
}

const _: () = assert!(size_of::<TCubeTiling>() == 200);

cube_tiling! {
    used_core_num "usedCoreNum" ": the number of cores that take part, at most that of the device.";
    m "M" ": the number of rows of A and C.";
    n "N" ": the number of columns of B and C.";
    ka "Ka" ": the number of columns of A.";
    kb "Kb" ": the number of rows of B.";
    single_core_m "singleCoreM" ": the number of rows of C that one core computes.";
    single_core_n "singleCoreN" ": the number of columns of C that one core computes.";
    single_core_k "singleCoreK" ": the depth that one core computes, always the whole depth.";
    base_m "baseM" ": the number of rows of a base block, a multiple of 16.";
    base_n "baseN" ": the number of columns of a base block, a multiple of 16.";
    base_k "baseK" ": the depth of a base block.";
    depth_a1 "depthA1" ": the number of base blocks of A in L1.";
    depth_b1 "depthB1" ": the number of base blocks of B in L1.";
    step_m "stepM" ": the number of base blocks of A in L1 along the rows.";
    step_n "stepN" ": the number of base blocks of B in L1 along the columns.";
    is_bias "isBias" ": 1 for a product with a bias, and 0 otherwise.";
    trans_length "transLength" ": 0 in a struct that `for_shape` fills.";
    iterate_order "iterateOrder" ": 0 for blocks along the rows first, 1 along the columns first.";
    share_mode "shareMode" ": 0 for a plain product.";
    share_l1_size "shareL1Size" ": 0 for a plain product.";
    share_l0c_size "shareL0CSize" ": 0 for a plain product.";
    share_ub_size "shareUbSize" ": 0 for a plain product.";
    batch_m "batchM" ": 0 for a plain product.";
    batch_n "batchN" ": 0 for a plain product.";
    single_batch_m "singleBatchM" ": 0 for a plain product.";
    single_batch_n "singleBatchN" ": 0 for a plain product.";
    step_ka "stepKa" ": the number of base blocks of A in L1 along the depth.";
    step_kb "stepKb" ": the number of base blocks of B in L1 along the depth.";
    depth_al1_cache_ub "depthAL1CacheUB" ": 0 in a struct that `for_shape` fills.";
    depth_bl1_cache_ub "depthBL1CacheUB" ": 0 in a struct that `for_shape` fills.";
    db_l0a "dbL0A" ": the number of buffers of A in L0, 1 or 2.";
    db_l0b "dbL0B" ": the number of buffers of B in L0, 1 or 2.";
    db_l0c "dbL0C" ": the number of buffers of C in L0, 1 or 2.";
    a_layout_info_b "ALayoutInfoB" ": 0 for a plain product.";
    a_layout_info_s "ALayoutInfoS" ": 0 for a plain product.";
    a_layout_info_n "ALayoutInfoN" ": 0 for a plain product.";
    a_layout_info_g "ALayoutInfoG" ": 0 for a plain product.";
    a_layout_info_d "ALayoutInfoD" ": 0 for a plain product.";
    b_layout_info_b "BLayoutInfoB" ": 0 for a plain product.";
    b_layout_info_s "BLayoutInfoS" ": 0 for a plain product.";
    b_layout_info_n "BLayoutInfoN" ": 0 for a plain product.";
    b_layout_info_g "BLayoutInfoG" ": 0 for a plain product.";
    b_layout_info_d "BLayoutInfoD" ": 0 for a plain product.";
    c_layout_info_b "CLayoutInfoB" ": 0 for a plain product.";
    c_layout_info_s1 "CLayoutInfoS1" ": 0 for a plain product.";
    c_layout_info_n "CLayoutInfoN" ": 0 for a plain product.";
    c_layout_info_g "CLayoutInfoG" ": 0 for a plain product.";
    c_layout_info_s2 "CLayoutInfoS2" ": 0 for a plain product.";
    batch_num "BatchNum" ": 0 for a plain product.";
    mx_type_para "mxTypePara" ": 0 in a struct that `for_shape` fills.";
}
