//! The collectives, in which every rank of a communicator takes part, and single messages. Use them
//! for all that the table has. Several messages at once are a [batch](crate::batch), and an
//! algorithm that HCCL does not have is an [operator](mod@crate::operator).
//!
//! | operation | each rank gives | each rank gets |
//! | --- | --- | --- |
//! | [`all_reduce`](Communicator::all_reduce) | n | the sum (or so) of all, n |
//! | [`reduce`](Communicator::reduce) | n | the root: the sum of all, n |
//! | [`reduce_scatter`](Communicator::reduce_scatter), [`.._v`](Communicator::reduce_scatter_v) | p parts | its part of the sum |
//! | [`broadcast`](Communicator::broadcast) | the root: n | the root's, n |
//! | [`scatter`](Communicator::scatter) | the root: p parts | its part of the root's |
//! | [`all_gather`](Communicator::all_gather), [`.._v`](Communicator::all_gather_v) | n | all parts |
//! | [`all_to_all`](Communicator::all_to_all), [`.._v`](Communicator::all_to_all_v), [`.._vc`](Communicator::all_to_all_vc) | p parts | a part from each |
//! | [`send`](Communicator::send), [`recv`](Communicator::recv) | n, to one rank | n, from one rank |
//! | [`barrier`](Communicator::barrier) | nothing | nothing, when all are there |
//!
//! Variants `.._in_place` use one buffer. Those with a `v` take parts that differ in length, as a
//! [`Partition`]; `vc` takes a [`CountMatrix`].
//!
//! They return at once, also the first one of a communicator, whose links a helper thread makes
//! (see [`comm`](crate::comm)). The [`Work`] that they return is a future that watches: dropping it
//! neither cancels nor blocks, and awaiting it is needed only to learn when the operation is
//! complete on this rank, and how it ended. Every later operation that uses the same buffers, on
//! whatever stream, is ordered behind it without waiting on the host.
//!
//! Elements whose type is known at run time only have the same collectives
//! ([`Communicator::dynamic`]).
//!
//! All ranks must issue the same collectives, in the same order, with the same number of elements,
//! the same type, reduction and root; what a rank does differently is an error that names both
//! sides where the backend compares (the emulator always does; CANN when links are built), and
//! otherwise a wait until a deadline. A length of zero is an operation like any other and moves
//! nothing; but CANN does not compare it and waits for nobody, so there all ranks must issue it or
//! none. After a failed operation what its destinations hold is unspecified.
//!
//! # Errors
//!
//! A collective is checked before CANN is called, and a refused one takes no number in the
//! communicator and leaves the buffers alone; all of these come as [`Error::Refused`] with the
//! operation, the communicator, the rank and the number the operation would have had:
//!
//! * [`Error::WrongDevice`] and [`Error::WrongRuntime`] when a buffer or the communicator is not
//!   where the stream is;
//! * [`Error::WrongLength`] when two lengths differ that must be equal;
//! * [`Error::Overlap`] when source and destination share memory, which only foreign memory can;
//! * [`Error::Uneven`] when the ranks cannot share a buffer evenly;
//! * [`Error::Counts`] when counts or displacements do not fit one another, the buffers or the
//!   communicator;
//! * [`Error::NoSuchRank`] when the root or the peer is not a rank of the communicator;
//! * [`Error::RootOnly`] when the root lacks its buffer, or another rank gives one;
//! * [`Error::OwnMessage`] for a single message to oneself;
//! * [`Error::NotSupported`] when the product does not reduce the type with this operation (see
//!   [`dtype`](crate::dtype));
//! * [`Error::TooManyElements`] beyond 34,359,738,367 elements;
//! * [`Error::MissingSymbol`] when the backend does not have the C function;
//! * [`Error::Aborted`] after [`AbortHandle::abort`](crate::comm::AbortHandle::abort).
//!
//! [`Error::Call`] is the error of CANN itself, and [`Error::Failed`] is about an earlier operation
//! of the stream whose [`Work`] was dropped. The [`Work`] tells later errors, among others, as
//! [`Error::Call`], that a peer did not come while links were being made.
//!
//! # To add a collective
//!
//! 1. `op.rs`: a variant of `CollectiveKind`, and its C call in `enqueue`.
//! 2. The file of its family: a method of `Member`, which checks it and makes a `CollectiveOp`, and
//!    its public methods, which `issue` that.
//! 3. `group/record.rs`, if groups take it: a method which `put`s the same `CollectiveOp`.
//! 4. `dynamic_ops.rs`: the same for elements whose type is known at run time only, and the methods
//!    in both `dynamic.rs`.
//! 5. A row in the table above, one in `benches/operations`, and its tests.
//!
//! The book has the steps in the emulator: Design, The house.

// In the order in which rustdoc lists the methods that they have.
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
