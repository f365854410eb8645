//! Devices, streams and events. Use several streams if copies, kernels and collectives are to run
//! at the same time, and events if one stream must wait for a point in another. A program that only
//! calls collectives needs one stream for each rank.
//!
//! A [`Device`] allocates memory and makes streams; a rank has [its own](crate::Rank::device). A
//! [`Stream`] is a queue of the device. Operations on one stream run in the order in which they
//! were issued, and different streams run at the same time. An [`Event`] is a point in a stream
//! that the host or another stream can wait for.

// rustdoc lists the methods of a type in the order of these modules.
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
