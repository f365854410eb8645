//! Collectives, and the way in which their ranks run them together. These modules do not depend on
//! the type of a communicator.
//!
//! The modules, from bottom to top:
//! - [`claim`]: the position of an operation, and the two words about it that a meeting compares.
//! - [`request`]: the request of a rank.
//! - [`table`]: its counts and displacements.
//! - [`validate`]: the arguments that each product accepts.
//! - [`call`]: a request with its buffers.
//! - [`participants`]: the contributions of the ranks.
//! - [`plan`]: the division of the work.
//! - [`run`]: the reads and writes.
//! - [`meeting`] and [`job`]: the concurrent core. In the meeting the ranks find each other; the
//!   job shares the work among them. `models` explores the interleavings of both.
//! - [`comm_error`]: the reason why a communicator has failed.
//! - [`sides`]: the description of a disagreement.
//!
//! The task that uses all of these is `issue::collective`.

pub(crate) mod account;
pub(crate) mod caches;
pub(crate) mod call;
pub(crate) mod claim;
pub(crate) mod comm_error;
pub(crate) mod contributions;
pub(crate) mod gathered;
pub(crate) mod job;
mod long_tables;
pub(crate) mod meeting;
#[cfg(all(test, loom))]
pub(crate) mod models;
pub(crate) mod participants;
pub(crate) mod plan;
mod pointers;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod sides;
pub(crate) mod sleeper;
pub(crate) mod sync;
pub(crate) mod table;
pub(crate) mod validate;
