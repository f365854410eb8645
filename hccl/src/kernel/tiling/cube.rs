//! `TCubeTiling`: how a matrix product is divided among the cores and in time.

use std::borrow::Cow;

use ascend_program::layout::{Field, Item, Layout, Number, Role};

use super::{FieldType, Tiling};

macro_rules! cube_tiling {
    ($($rust:ident $cpp:literal $doc:literal;)*) => {
        /// `TCubeTiling` of CANN, 200 bytes: the configuration of the high-level `Matmul` of a
        /// kernel.
        ///
        /// [`for_shape`](Self::for_shape) fills it, and so does CANN's library
        /// `MultiCoreMatmulTiling`. The launch checks a struct that is filled by hand for the rules
        /// that CANN documents: `base_m` and `base_n` are multiples of 16, the buffers of a block
        /// fit in L0, and so on. The layout, batch and share fields are 0 for a plain product.
        ///
        /// Older releases of CANN lack the last field. The C++ header asserts the size.
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
            /// All fields, in their order.
            pub(super) fn from_numbers([$($rust),*]: [i32; 50]) -> Self {
                TCubeTiling { $($rust),* }
            }
        }

        // SAFETY: the struct has numbers only, of which every pattern of bytes is a value.
        unsafe impl FieldType for TCubeTiling {
            const ITEM: Item = Item::Struct(Cow::Borrowed(Self::LAYOUT));
        }

        // SAFETY: there are 50 fields of 4 bytes each, and the offsets are the compiler's.
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
    used_core_num "usedCoreNum" ": cores that take part, at most those there are.";
    m "M" ": rows of A and C.";
    n "N" ": columns of B and C.";
    ka "Ka" ": columns of A.";
    kb "Kb" ": rows of B.";
    single_core_m "singleCoreM" ": rows of C of one core.";
    single_core_n "singleCoreN" ": columns of C of one core.";
    single_core_k "singleCoreK" ": the depth of one core, all of it.";
    base_m "baseM" ": rows of one instruction's block, a multiple of 16.";
    base_n "baseN" ": columns of one instruction's block, a multiple of 16.";
    base_k "baseK" ": depth of one instruction's block.";
    depth_a1 "depthA1" ": base blocks of A in L1.";
    depth_b1 "depthB1" ": base blocks of B in L1.";
    step_m "stepM" ": base blocks of A in L1 along the rows.";
    step_n "stepN" ": base blocks of B in L1 along the columns.";
    is_bias "isBias" ": 1 with a bias.";
    trans_length "transLength" ".";
    iterate_order "iterateOrder" ": 0 goes along the rows first, 1 along the columns.";
    share_mode "shareMode" ".";
    share_l1_size "shareL1Size" ".";
    share_l0c_size "shareL0CSize" ".";
    share_ub_size "shareUbSize" ".";
    batch_m "batchM" ".";
    batch_n "batchN" ".";
    single_batch_m "singleBatchM" ".";
    single_batch_n "singleBatchN" ".";
    step_ka "stepKa" ": base blocks of A in L1 along the depth.";
    step_kb "stepKb" ": base blocks of B in L1 along the depth.";
    depth_al1_cache_ub "depthAL1CacheUB" ".";
    depth_bl1_cache_ub "depthBL1CacheUB" ".";
    db_l0a "dbL0A" ": buffers of A in L0, 1 or 2.";
    db_l0b "dbL0B" ": buffers of B in L0, 1 or 2.";
    db_l0c "dbL0C" ": buffers of C in L0, 1 or 2.";
    a_layout_info_b "ALayoutInfoB" ".";
    a_layout_info_s "ALayoutInfoS" ".";
    a_layout_info_n "ALayoutInfoN" ".";
    a_layout_info_g "ALayoutInfoG" ".";
    a_layout_info_d "ALayoutInfoD" ".";
    b_layout_info_b "BLayoutInfoB" ".";
    b_layout_info_s "BLayoutInfoS" ".";
    b_layout_info_n "BLayoutInfoN" ".";
    b_layout_info_g "BLayoutInfoG" ".";
    b_layout_info_d "BLayoutInfoD" ".";
    c_layout_info_b "CLayoutInfoB" ".";
    c_layout_info_s1 "CLayoutInfoS1" ".";
    c_layout_info_n "CLayoutInfoN" ".";
    c_layout_info_g "CLayoutInfoG" ".";
    c_layout_info_s2 "CLayoutInfoS2" ".";
    batch_num "BatchNum" ".";
    mx_type_para "mxTypePara" ".";
}
