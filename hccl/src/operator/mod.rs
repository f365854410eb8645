//! Communication operators of one's own: collective algorithms, written once, proven before they
//! run, run on the emulator or on CANN.
//!
//! An operator is a function that says what *one* rank does. It is run once for each rank to record
//! tasks: copies, reductions, and the notifies and signals that order them. Here every rank puts
//! its elements into its communication buffer, lets all others at it, and reads theirs:
//!
//! ```
//! use hccl::operator::*;
//!
//! fn mesh_all_gather(op: &Recorder<'_>, main: &mut MainThread<'_>) {
//!     let n = op.count();
//!     let (input, output) = (op.input(), op.output());
//!     let shared = op.buffer().slice(..n);
//!     main.copy(input, shared);
//!     main.copy(input, output.block(op.rank(), n));
//!     // A thread for each of the others, this one among them.
//!     main.fork(op.ranks() - 1, |threads| {
//!         for (thread, peer) in threads.iter().zip(op.others()) {
//!             let channel = op.channel(peer);
//!             let exposed = thread.expose(channel); // the peer may read our buffer
//!             let access = thread.enter(channel); // and we its, as soon as it says so
//!             thread.read(access.buffer().slice(..n), output.block(peer, n));
//!             thread.leave(access);
//!             thread.reclaim(exposed);
//!         }
//!     });
//! }
//!
//! # fn main() -> hccl::Result<()> {
//! let gather = Operator::all_gather("mesh_all_gather", mesh_all_gather);
//! let recorded = gather.record::<f32>(4, 1000)?; // four ranks, 1000 elements each
//! assert_eq!(recorded.tasks().ranks[0].threads.len(), 3);
//! # Ok(())
//! # }
//! ```
//!
//! # The parts
//!
//! * [`Recorder`] holds the function's knowledge: its rank, the number of ranks, its
//!   [memory](LocalBuffer), its [channels](Channel).
//! * [`Thread`] is a queue of tasks. The [`MainThread`] is the stream on which the operator runs;
//!   it [forks](MainThread::fork) others, which end with the fork.
//! * [`Notify`] orders two threads of a rank. [`Channel`] orders two ranks: the owner of a
//!   communication buffer [exposes](Thread::expose) and [reclaims](Thread::reclaim) it, the user
//!   [enters](Thread::enter) and [leaves](Thread::leave) it. Only in between is there a
//!   [`RemoteBuffer`].
//! * [`algorithms`] are those of the field, written with these parts: to use, and to take as a
//!   beginning.
//!
//! Mistakes that one rank makes by itself do not compile, or are a [`Mistake`] with its line when
//! the operator is recorded. The checker finds mistakes that ranks make together.
//!
//! # Running
//!
//! [`Communicator::run`](crate::Communicator::run) makes an operator an operation like any
//! collective: numbered, ordered behind every operation that uses the same buffers, watched by a
//! [`Work`](crate::Work), traced, with a deadline.
//!
//! ```
//! # use hccl::operator::*;
//! # fn mesh_all_gather(op: &Recorder<'_>, main: &mut MainThread<'_>) {
//! #     let n = op.count();
//! #     let shared = op.buffer().slice(..n);
//! #     main.copy(op.input(), shared);
//! #     main.copy(op.input(), op.output().block(op.rank(), n));
//! #     main.fork(op.ranks() - 1, |threads| {
//! #         for (thread, peer) in threads.iter().zip(op.others()) {
//! #             let channel = op.channel(peer);
//! #             let exposed = thread.expose(channel);
//! #             let access = thread.enter(channel);
//! #             thread.read(access.buffer().slice(..n), op.output().block(peer, n));
//! #             thread.leave(access);
//! #             thread.reclaim(exposed);
//! #         }
//! #     });
//! # }
//! use hccl::prelude::*;
//!
//! # fn main() -> hccl::Result<()> {
//! let gather = Operator::all_gather("mesh_all_gather", mesh_all_gather);
//! let runtime = Runtime::emulator(4)?;
//! let all = runtime.run_ranks(4, |rank| {
//!     let (device, mut comm) = (rank.device(), rank.communicator()?);
//!     let stream = device.stream()?;
//!     let x = device.upload(&[comm.rank(), 9], &stream)?;
//!     let mut y = device.zeros::<u32>(8, &stream)?;
//!     comm.run(&gather).input(&x).output(&mut y).submit(&stream)?.wait()?;
//!     y.to_vec(&stream).wait()
//! })?;
//! assert_eq!(all[2], [0, 9, 1, 9, 2, 9, 3, 9]);
//! # Ok(())
//! # }
//! ```
//!
//! Every call records the rank's tasks anew, checks for mistakes that this rank can make by itself,
//! and tells the tasks to the threads. Threads, channels and the communication buffer are acquired
//! when they are first needed and kept by the communicator. The buffer is twice
//! [`buffer_mib`](crate::CommConfig) long.
//!
//! On a device the tasks of one operator are in flight on several queues. It is complete, and its
//! buffers are free, when all of them have ended, also when something failed. After an operator
//! fails, the state of its notifies is undefined, so the communicator then runs no more operators.
//! An operator cannot be [captured](crate::device::graph).
//!
//! [`Engine`] lists the products on which this runs, and the parts that only the emulator has.
//!
//! # Units
//!
//! All lengths are elements, all of one type: the operator's. Input and output are the rank's own.
//! Peers reach the communication buffer, which belongs to the communicator.

#![deny(unsafe_code)]

pub mod algorithms;
mod channel;
mod driver;
mod engine;
mod memory;
mod notify;
#[expect(clippy::module_inception, reason = "it is about the type of that name")]
mod operator;
mod recorded;
mod recorder;
mod resources;
mod run;
mod state;
mod thread;

pub use crate::error::operator::{Mistake, RecordError};
pub use ascend_operator::check::{Finding, Report, Severity};
pub use ascend_operator::plan::{Engine, Plan};
pub use ascend_operator::{Cost, Goal, Model, TaskId, check};
pub use channel::{Access, Channel, Exposed};
pub use memory::{LocalBuffer, RemoteBuffer};
pub use notify::{Clear, Notify, NotifyState, Set};
pub use operator::{Operator, Setting};
pub use recorded::Recorded;
pub use recorder::Recorder;
pub use run::Run;
pub use thread::{MainThread, Thread, Threads};

pub(crate) use resources::Operators;
