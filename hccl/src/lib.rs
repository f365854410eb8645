//! Distributed programs for Ascend NPUs: collectives over HCCL as safe, asynchronous Rust, on CANN
//! or on an emulator.
//!
//! ```
//! use hccl::prelude::*;
//!
//! # fn main() -> hccl::Result<()> {
//! let runtime = Runtime::emulator(4)?; // or Runtime::auto(), which takes CANN when there is one
//! let sums = runtime.run_ranks(4, |rank| {
//!     let stream = rank.device().stream()?;
//!     let mut comm = rank.communicator()?;
//!     let mine = rank.device().upload(&[rank.index() as f32; 8], &stream)?;
//!     let mut sum = rank.device().zeros::<f32>(8, &stream)?;
//!     comm.all_reduce(&mine, &mut sum, Sum, &stream)?.wait()?; // or .await
//!     sum.to_vec(&stream).wait()
//! })?;
//! assert_eq!(sums[0], [6.0; 8]);
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`runtime`] | the backend and its devices |
//! | [`ranks`] | [`Runtime::run_job`] and [`Runtime::run_ranks`]: a closure once a rank, in processes or threads |
//! | [`job`] | what a launcher says, and the store at which processes meet |
//! | [`device`] | devices, streams, events, [captured streams and graphs](device::graph) |
//! | [`memory`] | buffers on devices, pinned buffers on the host, slices, copies; arrays of `ndarray` with the feature of that name |
//! | [`comm`] | communicators and their configuration |
//! | [`collective`], [`batch`] | the operations |
//! | [`mod@group`] | operations of several communicators from one thread |
//! | [`kernel`] | kernels that communicate: writing them in Rust, launching, printing; their [tiling structs](kernel::tiling) |
//! | [`mod@operator`] | communication operators of one's own: recorded, checked, drawn, run |
//! | [`work`] | what an operation gives back: a future that only watches |
//! | [`dtype`] | element types, and which reductions they have |
//! | [`error`] | what can go wrong |
//! | [`trace`] | the `tracing` spans |
//! | [`record`] | a record of a run, to find where two runs part |
//!
//! # Three rules
//!
//! * **An operation starts when it is called**, in program order, never in a poll. Dropping its
//!   [`Work`] cancels nothing. If nobody saw an error, the next operation or synchronise of the
//!   stream returns it. So end with a synchronise, or the error of the last operation is only a
//!   warning in the log when its stream goes.
//! * **Memory lives as long as an operation uses it**, whatever is dropped, forgotten, cancelled or
//!   panics.
//! * **Counts are elements**, and the crate checks before the call what types cannot check.

// rustdoc lists the methods of a type in the order of these lines, and in a module those of its
// submodules first. So this is the order in which a program meets them, a line between two so that
// rustfmt keeps it.

pub mod runtime;

pub mod ranks;

pub mod device;

pub mod memory;

pub mod comm;

pub mod collective;

pub mod batch;

pub mod group;

pub(crate) mod order;

mod pending;

pub mod dtype;

pub mod error;

pub mod kernel;

pub mod operator;

pub mod record;

pub mod trace;

pub(crate) mod api;

pub(crate) mod sync;

// The emulator maps memory in a way that Miri does not support.
#[cfg(all(test, not(loom), not(miri), feature = "emulator"))]
mod tests;

pub use batch::Batch;
pub use collective::{CountMatrix, Partition};
pub use comm::{CommConfig, Communicator, RootInfo};
pub use device::{Captured, Capturing, Device, Event, Graph, Stream, TimedEvent};
pub use dtype::{bf16, f16};
pub use error::{Error, ErrorKind, Result};
pub use group::{Group, GroupWork, group};
pub use hccl_job as job;
pub use memory::{
    DeviceBuffer, DeviceSlice, DeviceSliceMut, Download, DownloadInto, DynBuffer, DynSlice,
    DynSliceMut, HostBuffer, HostSlice, HostSliceMut, Registered,
};
pub use order::work;
pub use pending::Pending;
pub use ranks::{Rank, RankError};
#[cfg(feature = "emulator")]
pub use runtime::Fault;
pub use runtime::{Backend, Finding, Product, Runtime};
pub use work::Work;

/// The names that nearly every program uses: `use hccl::prelude::*;`.
pub mod prelude {
    pub use crate::collective::{CountMatrix, Partition};
    pub use crate::comm::{AbortHandle, Active, CommConfig, Communicator, RootInfo, Suspended};
    pub use crate::dtype::{Element, Max, Min, Prod, Reduce, Sum, bf16, f16};
    pub use crate::memory::{Destination, Source, Uninit};
    pub use crate::{
        Capturing, Device, DeviceBuffer, DeviceSlice, DeviceSliceMut, Event, Graph, HostBuffer,
        HostSlice, HostSliceMut, Registered,
    };
    pub use crate::{Pending, Product, Rank, Runtime, Stream, Work};
}
