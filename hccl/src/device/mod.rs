//! Devices, streams and events.
//!
//! Start from a [`Device`] when there is memory to allocate or a stream to make; a program that
//! only calls collectives gets both from its rank. A [`Stream`] is a queue of the device: what
//! enters it runs in that order, and different streams run at the same time. An [`Event`] is a
//! point in a stream that the host or another stream can wait for.

// In the order in which rustdoc lists the methods that they have.
mod stream;

#[expect(clippy::module_inception, reason = "it is about the type of that name")]
mod device;

mod event;

pub mod graph;

pub(crate) mod deferred;
pub(crate) mod shared;
pub(crate) mod state;

pub(crate) use device::LentEvent;
pub use device::{Device, MemoryInfo};
pub use event::{Event, TimedEvent};
pub use graph::{Captured, Capturing, Graph};
pub use state::{Open, StreamState};
pub use stream::Stream;
