//! CANN's `Mc2CcTilingConfig` on the host, which fills an [`Mc2InitTiling`] and `Mc2CcTiling`s from
//! settings.
//!
//! CANN's class checks little. It accepts an operation that the product does not have, a step size
//! that has no effect, and a setting that only another product reads. The kernel then waits
//! forever, or the server runs another operation than intended. So this module also checks the
//! rules of CANN's documentation for each product.

use typed_builder::TypedBuilder;

use super::built_in::{CC_BYTES, CC_VERSION, Filled};
use super::setting::{refuse, text};
use super::{CmdType, DataType, Mc2InitTiling, Tiling, TilingError, communication};
use crate::dtype::ReduceKind;
use crate::{Product, Result};

/// The settings of an [`Mc2InitTiling`]. Its method [`fill`](Self::fill) writes the `Mc2InitTiling`
/// and the `Mc2CcTiling`s of a tiling struct.
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
        doc = "The builder of an [`Mc2InitTilingConfig`], made by [`Mc2InitTilingConfig::builder`]. Each method sets one setting.\n\n\
            ```\n\
            use hccl::Product;\n\
            use hccl::kernel::tiling::Mc2InitTilingConfig;\n\
            \n\
            let config = Mc2InitTilingConfig::builder().product(Product::A3).queue_num(2).build();\n\
            ```"
    )
)]
pub struct Mc2InitTilingConfig {
    /// The product that the kernel runs on. [`Runtime::product`](crate::Runtime::product) returns
    /// the product of the runtime's devices.
    product: Product,
    /// The debug mode of CANN: 1 to 4, or at least 250.
    #[builder(default, setter(strip_option))]
    debug_mode: Option<u8>,
    /// The number of queues of each core for `BatchWrite` on the A3, at least 1. The number of
    /// queues times the number of cores must be at most 40.
    #[builder(default, setter(strip_option))]
    queue_num: Option<u16>,
    /// The number of cores that use queues for `BatchWrite` on the A3, at least 1.
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
        doc = "The builder of an [`Mc2CcTilingConfig`], made by [`Mc2CcTilingConfig::builder`]. Each method sets one setting.\n\n\
            ```\n\
            use hccl::kernel::tiling::{CmdType, Mc2CcTilingConfig};\n\
            \n\
            let builder = Mc2CcTilingConfig::builder().group_name(\"world\");\n\
            let config = builder.op_type(CmdType::AllGather).build();\n\
            ```"
    )
)]
pub struct Mc2CcTilingConfig {
    /// The name of the communicator, 1 to 127 bytes without a NUL:
    /// [`Communicator::name`](crate::Communicator::name).
    #[builder(setter(into))]
    pub(super) group_name: String,
    /// The operation.
    pub(super) op_type: CmdType,
    /// The algorithm in CANN's notation, at most 127 bytes without a NUL. The default is
    /// [`CmdType::algorithm`]. Only the A3 reads it; there it must be an algorithm of the same
    /// operation.
    #[builder(default, setter(into, strip_option))]
    pub(super) algorithm: Option<String>,
    /// The reduction of `AllReduce` or `ReduceScatter`. The default is the sum.
    #[builder(default, setter(strip_option))]
    pub(super) reduce_op: Option<ReduceKind>,
    /// The type of the elements that are read. The 950 needs it; the A2 and the A3 use the type
    /// that the kernel gives.
    #[builder(default, setter(into, strip_option))]
    pub(super) source_type: Option<DataType>,
    /// The type of the elements that are written. The default is the type of the source.
    #[builder(default, setter(into, strip_option))]
    pub(super) destination_type: Option<DataType>,
    /// The number of the communication engine in [`ascend_sys::CommEngine`]. 0 leaves the choice to
    /// CANN.
    #[builder(default)]
    pub(super) engine: u8,
    /// The number of steps between two commits of an `AlltoAllV` on the A3. It must divide the
    /// number of ranks. With 0, a commit is for a whole turn.
    #[builder(default)]
    pub(super) step_size: u8,
    /// Whether `AllGather` or `AlltoAll` on the A2 leaves out the copy of a rank's own block to its
    /// output.
    #[builder(default)]
    pub(super) skip_local_rank_copy: bool,
    /// Whether the input of `AllReduce` or `AlltoAll` on the A2 is already in the window.
    #[builder(default)]
    pub(super) skip_buffer_window_copy: bool,
}

impl Mc2InitTilingConfig {
    /// Writes the [`Mc2InitTiling`] of a tiling struct, and an `Mc2CcTiling` for each of `members`,
    /// in the order of the fields. If there are fewer members than `Mc2CcTiling` fields, the
    /// remaining `Mc2CcTiling` fields do not change, and the server does not read them. The fields
    /// of other types do not change.
    ///
    /// This does the work of both overloads of `Mc2CcTilingConfig::GetTiling` in CANN.
    ///
    /// # Errors
    ///
    /// [`Error::Tiling`](crate::Error::Tiling) for a setting that CANN or the product does not
    /// support. The same error is returned for more members than `Mc2CcTiling` fields, for a struct
    /// without an `Mc2InitTiling`, and for one of CANN's own structs. After an error, the struct is
    /// unchanged.
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
            return refuse(
                "debug_mode",
                mode,
                "it must be 1 to 4, or at least 250; use such a number",
            );
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
                    "only `BatchWrite` has queues, and no member is a `BatchWrite`; leave it out",
                );
            }
            if value == 0 {
                return refuse(
                    setting,
                    value,
                    "it must be at least 1; leave it out for the default",
                );
            }
        }
        let (queues, cores) = (self.queue_num.unwrap_or(1), self.comm_block_num.unwrap_or(1));
        if u32::from(queues) * u32::from(cores) > 40 {
            let value = format!("{queues}, times {cores} of `comm_block_num`");
            return refuse(
                "queue_num",
                value,
                "their product must be at most 40; lower one of them",
            );
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
