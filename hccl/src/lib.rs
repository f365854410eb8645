//! See the package description.

pub(crate) mod api;
pub(crate) mod brief;
pub mod device;
pub mod dtype;
pub mod error;
pub mod memory;
pub mod runtime;
pub(crate) mod sync;
#[cfg(all(test, not(loom), feature = "emulator"))]
mod tests;
pub mod work;

pub use device::{Device, Event, Stream, TimedEvent};
pub use dtype::{bf16, f16};
pub use error::{Error, Result};
pub use memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Download, HostBuffer};
pub use runtime::{Backend, Product, Runtime};
pub use work::Work;
