//! User-defined communication operators: collective algorithms that the crate checks before they
//! run, on the emulator or on CANN. Use an operator for an algorithm that HCCL does not have, or to
//! compare algorithms. A program that only calls [collectives](crate::collective) needs no
//! operator. For computation on the cores, use a [kernel](mod@crate::kernel).
//!
//! An operator is a function that describes the work of *one* rank. The function records the tasks
//! of the rank: copies, reductions, and the notifies and signals that order them.
//! [`Operator::record`] calls the function once for each rank; a run calls it for its own rank
//! only. In this example, every rank copies its elements into its communication buffer, exposes the
//! buffer to all other ranks, and reads from their buffers:
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
//!     // One thread for each other rank. The main thread is one of these threads.
//!     main.fork(op.ranks() - 1, |threads| {
//!         for (thread, peer) in threads.iter().zip(op.others()) {
//!             let channel = op.channel(peer);
//!             let exposed = thread.expose(channel); // the peer may read our buffer
//!             let access = thread.enter(channel); // waits until the peer exposes its buffer
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
//! * [`Recorder`] gives the function its rank, the number of ranks, its [memory](LocalBuffer) and
//!   its [channels](Channel).
//! * [`Thread`] is a queue of tasks. The [`MainThread`] is the stream on which the operator runs.
//!   It starts other threads in a [fork](MainThread::fork), and they end with the fork.
//! * [`Notify`] orders two threads of a rank. [`Channel`] orders two ranks: the owner of a
//!   communication buffer [exposes](Thread::expose) and [reclaims](Thread::reclaim) it, and the
//!   peer [enters](Thread::enter) and [leaves](Thread::leave) it. A [`RemoteBuffer`] exists only
//!   between entering and leaving.
//! * [`algorithms`] contains well-known algorithms that are written with these parts. Use them as
//!   they are, or as a starting point.
//!
//! A mistake that one rank makes by itself does not compile, or is reported as a [`Mistake`] with
//! its line when the operator is recorded. The [checker](Recorded::check) finds mistakes that arise
//! only from the tasks of several ranks together.
//!
//! # Running
//!
//! [`Communicator::run`](crate::Communicator::run) issues an operator as an operation like any
//! collective. The operation has a number, is ordered after every operation that uses the same
//! buffers, returns a [`Work`](crate::Work), is traced, and has a deadline.
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
//! Every call records the rank's tasks again, checks them for mistakes that one rank can make by
//! itself, and enqueues them on the threads. The communicator acquires threads, channels and the
//! communication buffer when they are first needed, and keeps them. The size of the communication
//! buffer is twice [`buffer_mib`](crate::CommConfig).
//!
//! On a device, the tasks of one operator are in flight on several queues. The operator is
//! complete, and its buffers are free, when all of its tasks have ended, even if one of them
//! failed. After an operator fails, the state of its notifies is undefined, so the communicator
//! refuses all later operators. An operator cannot be [captured](crate::device::graph).
//!
//! [`Engine`] lists the products on which operators run, and the engines that run only on the
//! emulator.
//!
//! # Units
//!
//! All lengths are numbers of elements. All elements of an operator have one type. The input and
//! the output belong to the rank, and peers cannot reach them. Peers reach only the communication
//! buffer, which belongs to the communicator.

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
/// The goal of an operator, from [`Operator::goal`].
///
/// ```
/// use hccl::operator::{Goal, Operator, algorithms};
///
/// let gather = Operator::all_gather("gather", algorithms::mesh::all_gather);
/// assert_eq!(*gather.goal(), Goal::AllGather);
/// ```
pub use ascend_operator::Goal;
/// A model of the durations of transfers and reductions, for [`Recorded::cost`].
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
/// The position of a task in a [`Recorded`] operator: its rank, its thread, and its index there.
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
/// The engine that runs the tasks of an operator: see [`Run::engine`].
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
