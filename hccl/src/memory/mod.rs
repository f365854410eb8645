//! Device memory, pinned host memory, and the copies between them and the host. Use `upload` and
//! `to_vec` for slices and vectors, a [`HostBuffer`] for large copies that recur, and
//! [`Registered`] memory for data that another library holds. A [`DynBuffer`] is only for elements
//! whose type is known at run time.
//!
//! A [`DeviceBuffer`] is memory of one device. The host has no Rust reference to this memory; only
//! operations on a [`Stream`](crate::Stream) access it. A [`HostBuffer`] is pinned host memory.
//! Devices copy to and from it at full speed, and the host sees it as a slice when no device uses
//! it. Data of ordinary slices is copied through pinned blocks of the runtime, so
//! [`Device::upload`](crate::Device::upload), [`DeviceBuffer::to_vec`] and
//! [`DeviceBuffer::download_into`] work with plain slices and vectors. Memory of the program can be
//! [registered](Registered); then devices copy to and from it directly.
//!
//! # Why this is safe
//!
//! Operations take `&` for memory that they read and `&mut` for memory that they write. These
//! borrows end when the call returns, while the device still uses the memory. Therefore each
//! allocation carries stamps. A stamp says which operation of which stream reads or writes which
//! bytes. An operation on another stream that needs the same bytes waits for the stamped
//! operations. The host also waits for them before it gets a slice, and the memory is freed only
//! when all of them are complete. This holds even if a `Work`, a buffer or a stream is dropped or
//! forgotten. Operations on disjoint slices do not wait for one another.

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
