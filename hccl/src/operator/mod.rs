//! Communication operators of one's own: collective algorithms, written once, proven before they
//! run, run on the emulator or on CANN. Use one for an algorithm that HCCL does not have, or to
//! compare algorithms. A program that only calls [collectives](crate::collective) needs none, and
//! work on the cores is for a [kernel](mod@crate::kernel).
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
/// The cost of an operator, from [`Recorded::cost`].
///
/// ```
/// use hccl::operator::{Model, Operator, algorithms};
///
/// let gather = Operator::all_gather("gather", algorithms::mesh::all_gather);
/// let cost = gather.record::<f32>(4, 100)?.cost(&Model::default());
/// println!("{} s in {} steps", cost.time, cost.steps);
/// assert_eq!(cost.bytes_sent, [1200; 4]); // 100 elements to each of 3 others
/// # Ok::<(), hccl::Error>(())
/// ```
pub use ascend_operator::Cost;
/// The purpose of an operator, from [`Operator::goal`].
///
/// ```
/// use hccl::operator::{Goal, Operator, algorithms};
///
/// let gather = Operator::all_gather("gather", algorithms::mesh::all_gather);
/// assert_eq!(*gather.goal(), Goal::AllGather);
/// ```
pub use ascend_operator::Goal;
/// The durations with which [`Recorded::cost`] counts.
///
/// ```
/// use hccl::operator::{Model, Operator, algorithms};
///
/// let gather = Operator::all_gather("gather", algorithms::mesh::all_gather);
/// // 2 µs and 100 GB/s for a transfer; reductions take no time.
/// let model = Model::new(2e-6, 1e-11, 0.0);
/// let (small, large) = (gather.record::<f32>(8, 1)?, gather.record::<f32>(8, 1 << 20)?);
/// assert!(small.cost(&model).time < large.cost(&model).time);
/// # Ok::<(), hccl::Error>(())
/// ```
pub use ascend_operator::Model;
/// A task of a [`Recorded`] operator.
///
/// ```
/// use hccl::operator::{Model, Operator, algorithms};
///
/// let gather = Operator::all_gather("gather", algorithms::mesh::all_gather);
/// let cost = gather.record::<f32>(4, 100)?.cost(&Model::default());
/// for task in &cost.critical_path {
///     println!("rank {}, thread {}, task {}", task.rank, task.thread, task.position);
/// }
/// # assert!(!cost.critical_path.is_empty());
/// # Ok::<(), hccl::Error>(())
/// ```
pub use ascend_operator::TaskId;
pub use ascend_operator::check;
/// A finding of [`Recorded::check`].
///
/// ```
/// use hccl::operator::*;
///
/// // The reader enters, but no rank exposes.
/// let stuck = Operator::other("stuck", 8, 8, |op: &Recorder<'_>, main: &mut MainThread<'_>| {
///     main.visit(op.channel(op.peer(1)), |theirs| main.read(theirs.slice(..8), op.output()));
/// });
/// let report = stuck.record::<f32>(2, 8)?.check();
/// for finding in report.errors() {
///     println!("{finding}"); // the problem, the line, the rank and thread, and the remedy
/// }
/// # assert!(!report.is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
pub use ascend_operator::check::Finding;
/// The result of [`Recorded::check`].
///
/// ```
/// use hccl::operator::{Operator, algorithms};
///
/// let gather = Operator::all_gather("gather", algorithms::mesh::all_gather);
/// let report = gather.record::<f32>(4, 100)?.check();
/// assert!(report.is_good(), "{report}");
/// println!("{} tasks were checked", report.tasks);
/// # Ok::<(), hccl::Error>(())
/// ```
pub use ascend_operator::check::Report;
/// The severity of a [`Finding`].
///
/// ```
/// use hccl::operator::*;
///
/// // The reader enters, but no rank exposes.
/// let stuck = Operator::other("stuck", 8, 8, |op: &Recorder<'_>, main: &mut MainThread<'_>| {
///     main.visit(op.channel(op.peer(1)), |theirs| main.read(theirs.slice(..8), op.output()));
/// });
/// let report = stuck.record::<f32>(2, 8)?.check();
/// let worst = report.errors().all(|finding| finding.severity == Severity::Error);
/// assert!(worst);
/// # Ok::<(), hccl::Error>(())
/// ```
pub use ascend_operator::check::Severity;
/// The engine of an operator: see [`Run::engine`].
///
/// ```
/// use hccl::operator::{Engine, Operator, algorithms};
/// use hccl::prelude::*;
///
/// let sum = Operator::all_reduce("sum", Sum, algorithms::mesh::all_reduce_two_shot);
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| {
///     let stream = rank.device().stream()?;
///     let mut x = rank.device().upload(&[1.0_f32; 4], &stream)?;
///     let mut comm = rank.communicator()?;
///     comm.run(&sum).in_place(&mut x).engine(Engine::AicpuTs).submit(&stream)?.wait()
/// })?;
/// # Ok::<(), hccl::Error>(())
/// ```
pub use ascend_operator::plan::Engine;
/// The resources of one rank, from [`Recorded::plans`].
///
/// ```
/// use hccl::operator::{Engine, Operator, algorithms};
///
/// let gather = Operator::all_gather("gather", algorithms::mesh::all_gather);
/// for (rank, plan) in gather.record::<f32>(4, 100)?.plans(Engine::CpuTs).iter().enumerate() {
///     println!("rank {rank}: {} threads, {} channels", plan.threads, plan.channels.len());
/// #   assert_eq!(plan.channels.len(), 3);
/// }
/// # Ok::<(), hccl::Error>(())
/// ```
pub use ascend_operator::plan::Plan;
pub use channel::{Access, Channel, Exposed};
pub use memory::{LocalBuffer, RemoteBuffer};
pub use notify::{Clear, Notify, NotifyState, Set};
pub use operator::{Operator, Setting};
pub use recorded::Recorded;
pub use recorder::Recorder;
pub use run::Run;
pub use thread::{MainThread, Thread, Threads};

pub(crate) use resources::Operators;
