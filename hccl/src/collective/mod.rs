//! Collectives, in which every rank of a communicator takes part, and single messages. Use them for
//! the operations in the table below. To send several messages at once, use a
//! [batch](crate::batch). For an algorithm that HCCL does not have, write an
//! [operator](mod@crate::operator).
//!
//! | operation | each rank gives | each rank gets |
//! | --- | --- | --- |
//! | [`all_reduce`](Communicator::all_reduce) | n | the sum (or another reduction) of all, n |
//! | [`reduce`](Communicator::reduce) | n | the root: the sum of all, n |
//! | [`reduce_scatter`](Communicator::reduce_scatter), [`.._v`](Communicator::reduce_scatter_v) | p parts | its part of the sum |
//! | [`broadcast`](Communicator::broadcast) | the root: n | the root's elements, n |
//! | [`scatter`](Communicator::scatter) | the root: p parts | its part of the root's elements |
//! | [`all_gather`](Communicator::all_gather), [`.._v`](Communicator::all_gather_v) | n | all parts |
//! | [`all_to_all`](Communicator::all_to_all), [`.._v`](Communicator::all_to_all_v), [`.._vc`](Communicator::all_to_all_vc) | p parts | a part from each |
//! | [`send`](Communicator::send), [`recv`](Communicator::recv) | n, to one rank | n, from one rank |
//! | [`barrier`](Communicator::barrier) | nothing | nothing, when all ranks have reached it |
//!
//! Variants `.._in_place` use one buffer. Variants `.._v` take parts that differ in length, given
//! as a [`Partition`]. The variant `.._vc` takes a [`CountMatrix`].
//!
//! All of them return at once, even the first operation of a communicator, because a helper thread
//! makes its links (see [`comm`](crate::comm)). The [`Work`] that they return is a future that only
//! watches the operation. Dropping it does not block and does not cancel the operation. Await it
//! only to learn when the operation is complete on this rank, and with what outcome. Every later
//! operation that uses the same buffers, on any stream, runs after this one without a wait on the
//! host.
//!
//! Elements whose type is known only at run time have the same collectives
//! ([`Communicator::dynamic`]).
//!
//! All ranks must issue the same collectives in the same order, with the same number of elements,
//! type, reduction and root. If a rank differs and the backend compares the ranks, the operation
//! fails with an error that names both sides. The emulator always compares the ranks, and CANN
//! compares them when it makes links. Otherwise the ranks wait until a deadline.
//!
//! An operation of length zero takes a number like any other and moves nothing. But CANN does not
//! compare it and does not wait for the other ranks, so with CANN either all ranks or none must
//! issue it. After an operation has failed, the contents of its destinations are unspecified.
//!
//! # Errors
//!
//! A collective is checked before CANN is called. If a check fails, the collective takes no number
//! in the communicator and does not change the buffers. Each of the following errors is the cause
//! in an [`Error::Refused`], which names the operation, the communicator, the rank and the number
//! that the operation would have had:
//!
//! * [`Error::WrongDevice`] and [`Error::WrongRuntime`] when a buffer or the communicator belongs
//!   to another device or runtime than the stream;
//! * [`Error::WrongLength`] when two lengths differ that must be equal;
//! * [`Error::Overlap`] when source and destination share memory, which is possible only with
//!   foreign memory;
//! * [`Error::Uneven`] when the length of a buffer is not a multiple of the number of ranks;
//! * [`Error::Counts`] when counts or displacements do not fit one another, the buffers or the
//!   communicator;
//! * [`Error::NoSuchRank`] when the root or the peer is not a rank of the communicator;
//! * [`Error::RootOnly`] when the root lacks its buffer, or another rank gives one;
//! * [`Error::OwnMessage`] for a single message from a rank to itself;
//! * [`Error::NotSupported`] when the product does not reduce the type with this operation (see
//!   [`dtype`](crate::dtype));
//! * [`Error::TooManyElements`] for more than 34,359,738,367 elements;
//! * [`Error::OutOfMemory`] for a reduce on a rank other than the root, if there is no memory for
//!   the result that the rank discards;
//! * [`Error::Aborted`] after [`AbortHandle::abort`](crate::comm::AbortHandle::abort).
//!
//! [`Error::Call`] is an error of CANN itself. [`Error::MissingSymbol`] means that the backend does
//! not have the C function. [`Error::Failed`] reports the failure of an earlier operation of the
//! stream, whose [`Work`] was dropped. The [`Work`] reports errors that occur later. For example,
//! it reports [`Error::Call`] if a peer did not arrive while links were being made.
//!
//! # To add a collective
//!
//! 1. `op.rs`: a variant of `CollectiveKind`, and its C call in `enqueue`.
//! 2. The file of its family: a method of `Member`, which checks the arguments and makes a
//!    `CollectiveOp`, and public methods, which `issue` this operation.
//! 3. `group/record.rs`, if groups take it: a method which `put`s the same `CollectiveOp`.
//! 4. `dynamic_ops.rs`: the same for elements whose type is known only at run time, and the methods
//!    in both `dynamic.rs`.
//! 5. A row in the table above, one in `benches/operations`, and its tests.
//!
//! The book describes the steps in the emulator: Design, Architecture.

// The order of these modules is the order in which rustdoc lists the methods that they define.
mod reduction;

mod movement;

mod variable;

mod message;

mod barrier;

mod dynamic;

mod check;
mod dynamic_ops;
mod issue;
mod matrix;
mod op;
mod partition;

pub use crate::error::counts::{CountsError, MOST_ELEMENTS};
pub use dynamic::DynCollectives;
pub use matrix::CountMatrix;
pub use partition::Partition;

pub(crate) use check::{CheckedReduction, check_apart};
pub(crate) use op::CollectiveOp;

#[cfg(doc)]
use crate::comm::Communicator;
#[cfg(doc)]
use crate::error::Error;
#[cfg(doc)]
use crate::order::work::Work;
