//! Distributed programs for Ascend NPUs: collectives over HCCL as safe, asynchronous Rust, on CANN
//! or on an emulator.
//!
//! ```
//! use hccl::prelude::*;
//!
//! # fn main() -> hccl::Result<()> {
//! let runtime = Runtime::emulator(4)?; // or Runtime::auto(), which uses CANN if it is installed
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
//! # When to use what
//!
//! | to | use |
//! | --- | --- |
//! | run one program on a laptop and on a cluster | [`Runtime::auto`], [`Runtime::run_job`] |
//! | test on virtual devices | [`Runtime::emulator`], [`Runtime::run_ranks`]; [`Fault`]s to inject failures |
//! | start the ranks in another way | [`RootInfo`], [`Communicator::builder`] |
//! | work with some of the ranks | [`Communicator::split`], [`Communicator::subset`] |
//! | reduce, gather, spread or exchange over all ranks | a [`collective`], such as [`Communicator::all_reduce`] |
//! | send to some ranks and receive from others | [`Communicator::batch`] |
//! | run copies, kernels and collectives at the same time | several [`Stream`]s; [`Event`]s if one stream waits for another |
//! | find out when an operation is complete, and whether it failed | its [`Work`]: `.await` or [`wait`](Work::wait) |
//! | repeat a step with less work for the host | a [`Graph`] |
//! | move data that the program or another library holds | [`Runtime::register`], [`Runtime::lend`] |
//! | handle elements whose type is known at run time only | [`DynBuffer`], [`Communicator::dynamic`] |
//! | drive several ranks from one thread | a [`group`](group()) |
//! | communicate while the cores compute | a [kernel](mod@kernel) |
//! | use an algorithm that HCCL does not have | an [operator](mod@operator) |
//! | handle an error | [`Error::kind`], [`Error::missing_ranks`], [`Error::gone_ranks`] |
//! | see what a run does | [`trace`] for the host, [timelines](kernel::timeline) for devices |
//! | find the operation at which two runs begin to differ | [`record`] |
//!
//! Nearly every program begins with `use hccl::prelude::*;`. For training there is a separate
//! crate, `hccl-train`, with gradient buckets, shards, divided layers and checkpoints.
//!
//! # Three rules
//!
//! * **An operation starts when it is called**, in program order, and never in a poll. Dropping its
//!   [`Work`] cancels nothing. If the program never sees the error of an operation, the next
//!   operation, wait or synchronise after it returns the error. So does every read by the host of
//!   memory that the failed operation should have written. End a program with a synchronise:
//!   otherwise the error of the last operation is only a warning in the log when the stream is
//!   dropped.
//! * **Memory lives as long as an operation uses it**, even if a handle is dropped or forgotten, a
//!   future is cancelled, or a thread panics.
//! * **Counts are elements**. Before a call, the crate checks the conditions that the types cannot
//!   check.

// rustdoc lists the methods of a type in the order of these lines, and within a module it lists the
// methods of the submodules first. So the modules are in the order in which a program uses them.
// The empty lines between them keep rustfmt from sorting them.

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

#[doc(inline)]
pub use batch::Batch;
#[doc(inline)]
pub use collective::{CountMatrix, Partition};
#[doc(inline)]
pub use comm::{CommConfig, Communicator, RootInfo};
#[doc(inline)]
pub use device::{Captured, Capturing, Device, Event, Graph, Stream, TimedEvent};
pub use dtype::{bf16, f16};
#[doc(inline)]
pub use error::{Error, ErrorKind, Result};
#[doc(inline)]
pub use group::{Group, GroupWork, group};
pub use hccl_job as job;
#[doc(inline)]
pub use memory::{
    DeviceBuffer, DeviceSlice, DeviceSliceMut, Download, DownloadInto, DynBuffer, DynSlice,
    DynSliceMut, HostBuffer, HostSlice, HostSliceMut, Registered,
};
pub use order::work;
pub use pending::Pending;
#[doc(inline)]
pub use ranks::{Rank, RankError};
#[cfg(feature = "emulator")]
#[doc(inline)]
pub use runtime::Fault;
#[doc(inline)]
pub use runtime::{Backend, Finding, Product, Runtime};
pub use work::Work;

/// The names that nearly every program uses: `use hccl::prelude::*;`. Kernels and operators need
/// more: `use hccl::kernel::*;`, `use hccl::operator::*;`.
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
