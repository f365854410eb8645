//! Device memory, pinned host memory, and the copies between them and the host. Use `upload` and
//! `to_vec` for slices and vectors, a [`HostBuffer`] for large copies that recur, and
//! [`Registered`] memory for data that another library holds. A [`DynBuffer`] is only for elements
//! whose type is known at run time.
//!
//! A [`DeviceBuffer`] is memory of one device. It is never a Rust reference: the only way to it is
//! an operation on a [`Stream`](crate::Stream). A [`HostBuffer`] is pinned host memory, which
//! devices copy to and from at full speed and which the host sees as a slice when no device uses
//! it. Data of ordinary slices goes through pinned blocks of the runtime, so
//! [`Device::upload`](crate::Device::upload), [`DeviceBuffer::to_vec`] and
//! [`DeviceBuffer::download_into`] take and give plain slices and vectors. Memory of the program's
//! own can be [registered](Registered): then devices copy to and from it where it is.
//!
//! # Why this is safe
//!
//! Operations take `&` for what they read and `&mut` for what they write, and the borrows end when
//! the call returns, while the device is still at it. Each allocation therefore carries stamps:
//! which operation of which stream reads or writes which of its bytes. An operation on another
//! stream that needs the same bytes waits for them, the host waits for them before it gets a slice,
//! and the memory is freed only when all are complete. Dropping or forgetting a `Work`, a buffer or
//! a stream changes nothing about that. Operations on disjoint slices do not wait for one another.

pub(crate) mod allocation;
#[cfg(feature = "ndarray")]
mod array;
pub(crate) mod block;
mod buffer;
mod download;
mod dynamic;
mod host;
mod host_slice;
mod newer;
pub(crate) mod pool;
mod registered;
mod registration;
mod slice;
pub(crate) mod traits;
pub(crate) mod transfer;

#[cfg(feature = "ndarray")]
pub use array::DownloadArray;
pub use buffer::{DeviceBuffer, Init, Uninit};
pub use download::{Download, DownloadInto};
pub use dynamic::{DynBuffer, DynSlice, DynSliceMut};
pub use host::HostBuffer;
pub use host_slice::{HostDestination, HostSlice, HostSliceMut, HostSource};
pub use registered::{GivenBack, HostMemory, HostMemoryMut, Registered};
pub use slice::{DeviceSlice, DeviceSliceMut};
pub use traits::{Destination, Refused, Source};
