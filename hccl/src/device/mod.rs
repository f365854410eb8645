//! Devices, streams and events. Use several streams where copies, kernels and collectives are to
//! run side by side, and events where one waits for a point in another. A program that only calls
//! collectives needs one stream for each rank.
//!
//! A [`Device`] allocates memory and makes streams; a rank has [its own](crate::Rank::device). A
//! [`Stream`] is a queue of the device: what enters it runs in that order, and different streams
//! run at the same time. An [`Event`] is a point in a stream that the host or another stream can
//! wait for.

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
