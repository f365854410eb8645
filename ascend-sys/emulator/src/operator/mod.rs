//! Custom communication operators: threads, notifies, channels, communication memory, and the
//! primitives that move data.
//!
//! A [`Thread`](thread::Thread) is a stream with its notifies. The stream is either an internal
//! one, which has no handle of the runtime, or a stream of the program that was wrapped. A
//! [`Channel`](channel::Channel) is one rank's end of a connection to another rank. It has
//! notifies, which the peer records, and the memory that the peer has exchanged. A notify is a
//! [`Latch`](latch::Latch): one bit. A [primitive](issue) becomes one or two tasks of its thread's
//! stream. Copies and reductions are leaf tasks, a record completes at once, and a wait parks.
//!
//! The module also has engine contexts, the rank graph, and endpoints, which the library provides
//! to operators as well.
//!
//! # The callers of the primitives
//!
//! On hardware an AICPU kernel calls the primitives on the device. Here a [CPU
//! kernel](crate::kernel) calls them, or the host itself with the handle of the AICPU thread. The
//! handles are the same for all engines, so a thread need not be exported to another engine.
//!
//! # When the primitives run
//!
//! On A2 and A3 an AICPU thread accepts primitives only between `HcommBatchModeStart` and
//! `HcommBatchModeEnd`, and runs them at the end. CANN accepts a primitive outside of the two calls
//! and never runs it; the emulator returns an error whose text explains this. Threads of the host
//! (CPU, CPU_TS, or a wrapped stream) run their primitives at once, and on Ascend 950 all threads
//! do. If an OS thread is in batch mode, all primitives that it issues are kept until the end of
//! the batch mode.
//!
//! # How failures travel
//!
//! A wait fails because of its time limit, a deadlock, a peer that is gone, or an aborted stream. A
//! failed wait ends the communicator for all ranks, as a failed collective does. Then every wait of
//! the communicator fails before it checks its bit. So a failure travels along the waits. The main
//! thread waits for a notify of a sub-thread, and the user's stream waits for a notify of the main
//! thread. So a failure of the sub-thread reaches the user's stream. The next synchronise on the
//! user's stream returns the failure.

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
mod reaches;
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
