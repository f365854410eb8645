//! Kernels: programs for the cores of an NPU, written in Rust, which communicate while they
//! compute. Use a kernel if data should be transferred while the cores compute. A collective alone
//! needs no kernel, and an algorithm for a collective is an [operator](mod@crate::operator).
//!
//! A function with [`#[kernel]`](macro@kernel) runs once, to *record* a
//! [`Program`](ascend_program::Program). A program is a small form of the kernel. Its sizes, loops
//! and branches still depend on symbols, such as the fields of a [tiling struct](tiling). The
//! program is [launched](launch) on the emulator, which can draw a [timeline]. For an NPU it is
//! printed as [Ascend C](Recorded::ascend_c).
//!
//! ```
//! use hccl::kernel::*;
//! use hccl::f16;
//!
//! #[derive(Tiling)]
//! #[repr(C)]
//! struct ReduceScatterTiling {
//!     init: Mc2InitTiling,
//!     reduce_scatter: Mc2CcTiling,
//!     tile_num: u64,
//!     tile_len: u64,
//!     tail_len: u64,
//! }
//!
//! #[kernel(mix = "aiv_1_0")]
//! fn reduce_scatter_custom(k: Kernel<ReduceScatterTiling>, x: Input<f16>, y: Output<f16>) {
//!     let t = k.tiling();
//!     k.on_aiv(|| {
//!         let hccl = k.hccl(0).init().configure(&t.reduce_scatter);
//!         let done = t.tile_len * t.tile_num;
//!         let stride = done + t.tail_len;
//!         let tiles = hccl.reduce_scatter(x, y, t.tile_len, Sum).stride(stride).repeat(t.tile_num).commit_all();
//!         let tail = hccl.reduce_scatter(x.at(done), y.at(done), t.tail_len, Sum).stride(stride).commit_all();
//!         hccl.wait_all(&tiles);
//!         hccl.wait_all(&tail);
//!         k.sync_all_aiv(); // a core that still waits when core 0 finalises would miss its result
//!         hccl.finalise();
//!     });
//! }
//!
//! # fn main() -> hccl::Result<()> {
//! let kernel = reduce_scatter_custom::record()?;
//! println!("{kernel}"); // the program, a line for each step
//! println!("{}", kernel.ascend_c()?); // its source for an NPU
//! # Ok(())
//! # }
//! ```
//!
//! # Recorded items
//!
//! * A [`Value`] is a scalar: a field of the tiling struct, the index of a core, or an expression
//!   of other values. A [`Variable`] is a scalar that changes.
//! * [`Kernel`] has the loops ([`range`](Kernel::range)), branches ([`when`](Kernel::when),
//!   [`on_aiv`](Kernel::on_aiv)), vector arithmetic and synchronisation. All other code is plain
//!   Rust and runs while the kernel is recorded: constants, functions, generic parameters, and
//!   `for`, which records its body once for each iteration.
//! * [`Input`] and [`Output`] are tensors in global memory. [`Queue`], [`Scratch`] and
//!   [`LocalTensor`] are in the local memory of a vector core.
//! * [`Hccl`] is the client that requests collectives, and [`Prepared`] is a task that the client
//!   has prepared. The [tables](mod@prepare) show the elements that each turn moves.
//! * [`Matmul`] is a product of matrices.
//!
//! # Units, errors, waiting
//!
//! Counts, offsets, strides and lengths are in elements, also those of queues and scratch buffers.
//! Two calls take bytes instead. [`workspace`](Kernel::workspace) takes the start of a workspace,
//! which has no element type yet. [`all_to_all_v_write`](Hccl::all_to_all_v_write) takes the
//! offsets and sizes of blocks. The documentation of each item names the corresponding call of
//! Ascend C.
//!
//! While a kernel is recorded, its calls never block and return no errors: each call records a step
//! with its source line. "Waits", "blocks" and "is stopped" in the documentation of such a call
//! describe the core that runs the kernel later. On the host, [`load`](Recorded::load) and
//! [`submit`](Launch::submit) do not block, and the [`Work`](crate::Work) of a launch reports its
//! outcome.
//!
//! # Mistakes
//!
//! Many mistakes do not compile:
//!
//! * a client that prepares before it was configured, or that is finalised in a loop;
//! * a commit of a task that is already committed;
//! * a use of a tensor that was passed on.
//!
//! Mistakes that exist on every product (a division of a vector of bytes, 300 turns) are collected.
//! `record` returns all of them, each with its line. Mistakes that depend on the product, on the
//! numbers in the tiling struct or on the ranks are found at launch.

#[doc(hidden)]
#[path = "generated.rs"]
pub mod __private;
pub mod check;
mod client;
mod control;
pub mod count;
pub(crate) mod driver;
pub mod launch;
mod local;
mod looked;
mod matmul;
mod object;
pub mod prepare;
mod prepared;
mod record;
mod recorded;
pub mod symbol;
mod sync;
mod tensor;
pub mod tiling;
pub mod timeline;
pub mod value;
mod vector;

pub use crate::error::kernel::{Mistake, RecordError};
/// A warning of the checker that a kernel can allow: see [`Kernel::allow`].
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn reserve(k: Kernel, later: Output<f32>) {
///     k.allow(Warning::NeverWritten, "the next version of the operator writes it");
/// }
/// # fn main() -> hccl::Result<()> {
/// # reserve::record()?;
/// # Ok(())
/// # }
/// ```
pub use ascend_program::Warning;
/// The settings of [`Recorded::project`].
///
/// ```
/// use hccl::kernel::*;
///
/// # #[kernel(mix = "aiv_only")]
/// # fn sevens(k: Kernel, y: Output<u64>) {
/// #     let line = y.at(k.block_index() * 8);
/// #     line.set(0, 7);
/// #     line.clean(0);
/// # }
/// # fn main() -> hccl::Result<()> {
/// let project = Project { package: "sevens".into(), blocks: 2, ..Project::new([]) };
/// for (name, text) in sevens::record()?.project(&project)? {
///     println!("{name}: {} bytes", text.len()); // a file of the operator project
/// }
/// # Ok(())
/// # }
/// ```
pub use ascend_program::ascend_c::Project;
pub use check::{Finding, Late, Report, Severity, Witness};
pub use client::{Configured, Declaration, Hccl, Initialised, Started};
pub use control::{First, Kernel};
/// Makes a function a kernel, or with `inline` a function that kernels call.
///
/// ```
/// use hccl::kernel::*;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { count: u64 }
///
/// /// Returns the start and the end of a core's part, for any kernel with these sizes.
/// #[kernel(inline)]
/// fn share(k: Kernel<Sizes>) -> (Value<u64>, Value<u64>) {
///     let each = k.tiling().count.div_ceil(k.block_count().cast::<u64>());
///     let start = k.block_index().cast::<u64>() * each;
///     (start, (start + each).min(k.tiling().count))
/// }
///
/// #[kernel(mix = "aiv_only")]
/// fn count_up(k: Kernel<Sizes>, y: Output<u64>) {
///     let (start, end) = share(k);
///     k.range(start..end, |i| {
///         y.set(i, i);
///         y.clean(i); // writes it to memory, where others see it
///     });
/// }
///
/// # fn main() -> hccl::Result<()> {
/// let program = count_up::record()?.to_string();
/// assert!(program.contains("let start = block_idx as u64 * each"));
/// # Ok(())
/// # }
/// ```
pub use hccl_derive::kernel;
pub use launch::{Launch, Loaded};
pub use local::{Amount, LocalSlice, LocalTensor, Pieces, Position, Queue, Scratch};
pub use matmul::{Matmul, Shape};
pub use prepared::{Committed, Open, Prepared};
pub use recorded::Recorded;
pub use sync::{Mode, Pipe};
pub use tensor::{Argument, Global, Input, Matrix, Output, Reads, Writes};
pub use tiling::{Mc2CcTiling, Mc2InitTiling, TCubeTiling, Tiling};
pub use timeline::{Recording, Timeline};
pub use value::{Value, Variable};
pub use vector::Round;

pub use crate::dtype::{Max, Min, Prod, Sum};
