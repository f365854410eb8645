//! Kernels: programs for the cores of an NPU, written in Rust, which communicate while they
//! compute. Use one where data should be on its way while the cores compute. A collective by itself
//! needs no kernel, and an algorithm for one is an [operator](mod@crate::operator).
//!
//! A function with [`#[kernel]`](macro@kernel) is run once to *record* a
//! [`Program`](ascend_program::Program): a small form in which sizes, loops and branches are still
//! symbols of a [tiling struct](tiling). The program is [launched](launch) on the emulator, which
//! can draw a [timeline], and printed as [Ascend C](Recorded::ascend_c) for an NPU.
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
//!         k.sync_all_aiv(); // a core that still waits would miss its result when core 0 finalises
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
//! # What is recorded
//!
//! * A [`Value`] is a scalar: a field of the tiling struct, the index of a core, or made of these.
//!   A [`Variable`] is one that changes.
//! * [`Kernel`] has the loops ([`range`](Kernel::range)), branches ([`when`](Kernel::when),
//!   [`on_aiv`](Kernel::on_aiv)), vector arithmetic and synchronisation. Everything else is Rust
//!   and happens while the kernel is recorded: constants, functions, generic parameters, a `for`
//!   that writes its body down several times.
//! * [`Input`] and [`Output`] are tensors in global memory, [`Queue`], [`Scratch`] and
//!   [`LocalTensor`] belong to the memory of a vector core.
//! * [`Hccl`] is the client that asks for collectives, and [`Prepared`] a task that it has
//!   prepared; the [tables](mod@prepare) show what each turn moves.
//! * [`Matmul`] is a product of matrices.
//!
//! # Units, errors, waiting
//!
//! Counts, offsets, strides and lengths are elements everywhere, also of queues and scratch
//! buffers. The one exception is the start of a [`workspace`](Kernel::workspace), which is in
//! bytes, because it has no type before. Each item names the call of Ascend C that it stands for.
//!
//! A call in a kernel while it is recorded blocks nothing and returns no error: it notes a step
//! with its line. "Waits", "blocks" and "is stopped" in its documentation are about the core that
//! runs the kernel later. On the host [`load`](Recorded::load) and [`submit`](Launch::submit)
//! return at once, and the [`Work`](crate::Work) of a launch tells its outcome.
//!
//! # Mistakes
//!
//! Many mistakes do not compile: a client that prepares before it was configured, a commit of what
//! is committed, a tensor that was passed on and used again, a client finalised in a loop. Mistakes
//! on every product (a vector of bytes that is to be divided, 300 turns) are collected and come
//! back from `record`, each with its line. Mistakes that depend on the product, on the numbers in
//! the tiling struct or on the ranks are found at launch.

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
/// A warning that a kernel means: see [`Kernel::allow`].
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
/// ```
/// use hccl::kernel::*;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { count: u64 }
///
/// /// The part of a core, for any kernel with these sizes.
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
///         y.clean(i); // others are to see it
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
