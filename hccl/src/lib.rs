//! See the package description.

pub(crate) mod api;
pub mod batch;
pub(crate) mod brief;
pub mod collective;
pub mod comm;
pub mod device;
pub mod dtype;
pub mod error;
pub mod memory;
pub mod ranks;
pub mod runtime;
pub(crate) mod sync;
#[cfg(all(test, not(loom), feature = "emulator"))]
mod tests;
pub mod trace;
pub mod work;

pub use batch::Batch;
pub use comm::{CommConfig, Communicator, RootInfo};
pub use device::{Device, Event, Stream, TimedEvent};
pub use dtype::{bf16, f16};
pub use error::{Error, Result};
pub use memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Download, HostBuffer};
pub use ranks::{Rank, RankError};
pub use runtime::{Backend, Product, Runtime};
pub use work::Work;

/// What nearly every program uses: `use hccl::prelude::*;`.
pub mod prelude {
    pub use crate::comm::{AbortHandle, Active, CommConfig, Communicator, RootInfo, Suspended};
    pub use crate::dtype::{Element, Max, Min, Prod, Reduce, Sum, bf16, f16};
    pub use crate::memory::{Destination, Source, Uninit};
    pub use crate::{Device, DeviceBuffer, DeviceSlice, DeviceSliceMut, Event, HostBuffer};
    pub use crate::{Product, Rank, Runtime, Stream, Work};
}
