//! Custom communication operators: threads, notifies, channels, communication memory, and the
//! primitives that move data.
//!
//! A [`Thread`](thread::Thread) is a stream that no handle of the runtime names, or a stream of the
//! program that was wrapped, together with its notifies. A [`Channel`](channel::Channel) is one
//! rank's end of a connection to another rank: its notifies, which the peer records, and the memory
//! that the peer has exchanged. A notify is a [`Latch`](latch::Latch): one bit. A
//! [primitive](issue) becomes one task of its thread's stream, or two: copies and reductions are
//! leaf work, a record is done at once, a wait parks.
//!
//! Around them stand the things that the library keeps for operators and that they may ask it for:
//! engine contexts, the rank graph, endpoints.
//!
//! # The callers of the primitives
//!
//! On hardware an AICPU kernel calls them, on the device. Here a [CPU kernel](crate::kernel) calls
//! them, or the host itself, with the handle of the AICPU thread. The handles are the same
//! everywhere, so a thread need not be exported to another engine.
//!
//! # When they run
//!
//! On A2 and A3 an AICPU thread takes primitives only between `HcommBatchModeStart` and
//! `HcommBatchModeEnd`, and runs nothing before the end. CANN accepts a primitive outside of the
//! two and never runs it; here it is refused, with a text that says so. Threads of the host (CPU,
//! CPU_TS, or a wrapped stream) run their primitives at once, and on 950 all threads do. Wherever a
//! batch mode is open, all primitives of that OS thread are kept for its end.
//!
//! # How failures travel
//!
//! A wait that fails (its limit, a deadlock, a peer that is gone, an aborted stream) ends the
//! communicator for all ranks, as a failed collective does. Then every wait of it fails, before it
//! looks at its bit. So the failure of a sub-thread reaches the main thread, which waits for the
//! sub-thread's notify, and from there the user's stream, which waits for the main thread's: there
//! the next synchronise returns it.

pub(crate) mod abroad;
pub(crate) mod acquire;
pub(crate) mod batch_mode;
pub(crate) mod channel;
mod context;
pub(crate) mod crossing;
pub(crate) mod dedicated;
pub(crate) mod endpoint;
pub(crate) mod endpoint_channel;
pub(crate) mod endpoint_home;
mod endpoint_link;
pub(crate) mod engine;
pub(crate) mod handles;
pub(crate) mod issue;
mod latch;
mod link;
pub(crate) mod memory;
pub(crate) mod memory_range;
pub(crate) mod now;
pub(crate) mod open;
mod primitive;
mod rank_graph;
mod reach;
mod reduce;
pub(crate) mod registered_import;
pub(crate) mod resources;
mod signal;
mod submit;
pub(crate) mod symmetric_window;
pub(crate) mod task_cache;
pub(crate) mod team;
pub(crate) mod thread;
mod traced;

pub(crate) use context::{copy_into, create, destroy, find};
pub(crate) use rank_graph::layer;
pub(crate) use reduce::{Reduce, kind as reduce_kind};
