//! `Mc2CcTilingConfig` of CANN, on the host: settings in, [`Mc2InitTiling`] and `Mc2CcTiling` out.
//!
//! CANN's class checks little: it takes an operation that the product does not have, a step size
//! where it means nothing, and a setting that is read on another product only. The kernel then
//! waits for ever, or the server does something else. So this file also checks the rules of the
//! documents for each product.

use typed_builder::TypedBuilder;

use super::built_in::{CC_BYTES, CC_VERSION, Filled};
use super::rules::{refuse, text};
use super::{CmdType, DataType, Mc2InitTiling, Tiling, TilingError, communication};
use crate::dtype::ReduceKind;
use crate::{Product, Result};

/// The settings of the [`Mc2InitTiling`], and with [`fill`](Self::fill) the way to write both kinds
/// of structs.
///
/// ```
/// use hccl::kernel::tiling::{CmdType, Mc2CcTilingConfig, Mc2InitTilingConfig};
/// # use hccl::Product;
/// # use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Tiles { init: Mc2InitTiling, all_reduce: Mc2CcTiling, count: u64 }
///
/// let config = Mc2InitTilingConfig::builder().product(Product::A3).build();
/// let kind = Mc2CcTilingConfig::builder().group_name("world").op_type(CmdType::AllReduce).build();
/// let mut tiling = Tiles::zeroed();
/// config.fill(&mut tiling, &[kind])?; // `init` and `all_reduce`
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, TypedBuilder)]
#[builder(
    doc,
    builder_type(
        doc = "Settings of a [`Mc2InitTilingConfig`]: each method sets one. From [`Mc2InitTilingConfig::builder`].\n\n\
            ```\n\
            use hccl::Product;\n\
            use hccl::kernel::tiling::Mc2InitTilingConfig;\n\
            \n\
            let config = Mc2InitTilingConfig::builder().product(Product::A3).queue_num(2).build();\n\
            ```"
    )
)]
pub struct Mc2InitTilingConfig {
    /// The product that the kernel runs on; [`Runtime::product`](crate::Runtime::product) returns
    /// that of the devices at hand.
    product: Product,
    /// A debug mode of CANN's: 1 to 4, or 250 and more.
    #[builder(default, setter(strip_option))]
    debug_mode: Option<u8>,
    /// `BatchWrite` on the A3: queues of each core, at least 1. Queues times cores are at most 40.
    #[builder(default, setter(strip_option))]
    queue_num: Option<u16>,
    /// `BatchWrite` on the A3: cores that use queues, at least 1.
    #[builder(default, setter(strip_option))]
    comm_block_num: Option<u16>,
}

/// The settings of one kind of communication of a kernel, for an
/// [`Mc2CcTiling`](super::Mc2CcTiling).
///
/// ```
/// use hccl::dtype::ReduceKind;
/// use hccl::kernel::tiling::{CmdType, Mc2CcTilingConfig};
///
/// let config = Mc2CcTilingConfig::builder()
///     .group_name("tensor-parallel") // `Communicator::name`
///     .op_type(CmdType::ReduceScatter)
///     .reduce_op(ReduceKind::Max)
///     .build();
/// # let _ = config;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, TypedBuilder)]
#[builder(
    doc,
    builder_type(
        doc = "Settings of a [`Mc2CcTilingConfig`]: each method sets one. From [`Mc2CcTilingConfig::builder`].\n\n\
            ```\n\
            use hccl::kernel::tiling::{CmdType, Mc2CcTilingConfig};\n\
            \n\
            let builder = Mc2CcTilingConfig::builder().group_name(\"world\");\n\
            let config = builder.op_type(CmdType::AllGather).build();\n\
            ```"
    )
)]
pub struct Mc2CcTilingConfig {
    /// The name of the communicator, 1 to 127 bytes, no NUL:
    /// [`Communicator::name`](crate::Communicator::name).
    #[builder(setter(into))]
    pub(super) group_name: String,
    /// The operation.
    pub(super) op_type: CmdType,
    /// The algorithm in CANN's words, at most 127 bytes, no NUL; without it [`CmdType::algorithm`].
    /// Only the A3 reads it, and the A3 wants one of the same operation.
    #[builder(default, setter(into, strip_option))]
    pub(super) algorithm: Option<String>,
    /// How elements are combined, by `AllReduce` and `ReduceScatter`; without it the sum.
    #[builder(default, setter(strip_option))]
    pub(super) reduce_op: Option<ReduceKind>,
    /// The type of the elements that are read. The 950 needs it; the A2 and the A3 use the type
    /// that the kernel gives.
    #[builder(default, setter(into, strip_option))]
    pub(super) source_type: Option<DataType>,
    /// The type of the elements that are written; without it that of the source.
    #[builder(default, setter(into, strip_option))]
    pub(super) destination_type: Option<DataType>,
    /// The communication engine, by the numbers of [`ascend_sys::CommEngine`]; 0 leaves the choice
    /// to CANN.
    #[builder(default)]
    pub(super) engine: u8,
    /// `AlltoAllV` on the A3: steps between two commits, which must divide the number of ranks. 0
    /// commits whole turns.
    #[builder(default)]
    pub(super) step_size: u8,
    /// `AllGather` and `AlltoAll` on the A2: do not copy a rank's own block to its output.
    #[builder(default)]
    pub(super) skip_local_rank_copy: bool,
    /// `AllReduce` and `AlltoAll` on the A2: the input is already in the window.
    #[builder(default)]
    pub(super) skip_buffer_window_copy: bool,
}

impl Mc2InitTilingConfig {
    /// Writes the [`Mc2InitTiling`] and, in the order of its fields, an `Mc2CcTiling` for each of
    /// `members`. If there are fewer members than fields, the last fields are left alone: the
    /// server does not learn of them. No other field is touched.
    ///
    /// The CANN functions are the two `GetTiling` of `Mc2CcTilingConfig`.
    ///
    /// # Errors
    ///
    /// [`Error::Tiling`](crate::Error::Tiling) for a setting that CANN or the product does not
    /// take, for more members than the struct has, and for a struct without an `Mc2InitTiling`.
    /// Then nothing is written.
    pub fn fill<T: Tiling>(&self, tiling: &mut T, members: &[Mc2CcTilingConfig]) -> Result<()> {
        let filled = self.checked(members)?;
        let bytes = members
            .iter()
            .map(|member| member.to_bytes(self.product))
            .collect::<Result<Vec<_>, TilingError>>()?;
        let init = |offsets: &[u32]| Mc2InitTiling::filled(offsets, &filled);
        Ok(communication::write(tiling, init, &bytes)?)
    }

    fn checked(&self, members: &[Mc2CcTilingConfig]) -> Result<Filled, TilingError> {
        if let Some(mode @ (0 | 5..250)) = self.debug_mode {
            return refuse("debug_mode", mode, "it must be 1 to 4, or 250 and more");
        }
        let queues = [("queue_num", self.queue_num), ("comm_block_num", self.comm_block_num)];
        for (setting, value) in queues {
            let Some(value) = value else { continue };
            if self.product != Product::A3 {
                return refuse(
                    setting,
                    value,
                    "only `BatchWrite` of the A3 has queues; leave it out",
                );
            }
            if !members.iter().any(|member| member.op_type == CmdType::BatchWrite) {
                return refuse(
                    setting,
                    value,
                    "only `BatchWrite` has queues, and no member does it",
                );
            }
            if value == 0 {
                return refuse(setting, value, "it must be at least 1");
            }
        }
        let (queues, cores) = (self.queue_num.unwrap_or(1), self.comm_block_num.unwrap_or(1));
        if u32::from(queues) * u32::from(cores) > 40 {
            let value = format!("{queues}, times {cores} of `comm_block_num`");
            return refuse("queue_num", value, "together they must be at most 40");
        }
        let (queue_num, comm_block_num) =
            (self.queue_num.unwrap_or(0), self.comm_block_num.unwrap_or(0));
        let debug_mode = self.debug_mode.unwrap_or(0);
        Ok(Filled { product: self.product, debug_mode, queue_num, comm_block_num })
    }
}

impl Mc2CcTilingConfig {
    fn to_bytes(&self, product: Product) -> Result<[u8; CC_BYTES], TilingError> {
        self.check(product)?;
        let source = self.source_type.or(self.destination_type);
        let destination = self.destination_type.or(source);
        let mut bytes = [0; CC_BYTES];
        bytes[0] = self.skip_local_rank_copy.into();
        bytes[1] = if self.skip_buffer_window_copy { 2 } else { 0 };
        bytes[2] = self.step_size;
        bytes[3] = CC_VERSION;
        bytes[13] = self.engine;
        bytes[14] = source.map_or(0, DataType::code);
        bytes[15] = destination.map_or(0, DataType::code);
        let name = text("group_name", &self.group_name, 1)?;
        bytes[16..144].copy_from_slice(&name);
        let algorithm = self.algorithm.as_deref().unwrap_or(self.op_type.algorithm());
        bytes[144..272].copy_from_slice(&text("algorithm", algorithm, 0)?);
        bytes[272..276].copy_from_slice(&self.op_type.code().to_ne_bytes());
        let reduce = self.reduce_op.unwrap_or(ReduceKind::Sum).code();
        bytes[276..280].copy_from_slice(&reduce.to_ne_bytes());
        Ok(bytes)
    }
}
