//! Collectives, and how their ranks do them together. Nothing here knows a communicator.
//!
//! From the bottom: [`request`] is the request of a rank, [`table`] its counts and displacements,
//! [`validate`] the arguments that each product accepts, [`call`] a request with its buffers.
//! [`participants`] are the contributions of the ranks, [`plan`] divides the work, [`run`] reads
//! and writes. [`meeting`] is where the ranks find each other and [`job`] how they share the work:
//! these two are the concurrent core, and `models` explores their interleavings. [`comm_error`] is
//! the reason why a communicator has failed, [`sides`] puts a disagreement into words. The task
//! that brings all of this together is `issue::collective`.

pub(crate) mod account;
pub(crate) mod caches;
pub(crate) mod call;
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
