//! Operations in which all ranks of a communicator take part.
//!
//! [`meeting`] is where they find each other, [`job`] how they share the work; the two are the concurrent core, and
//! `models` explores their interleavings. [`request`] and [`table`] say what is asked for, [`plan`] how it is cut up, [`run`] what
//! is then read and written; [`call`] and [`pending`] make it a task of a stream, `participants` and `contributions` are what its ranks bring and where, [`validate`] knows what each product accepts,
//! [`sides`] puts a disagreement into words.

pub(crate) mod call;
pub(crate) mod comm_error;
mod contributions;
pub(crate) mod job;
pub(crate) mod meeting;
#[cfg(all(test, loom))]
pub(crate) mod models;
mod participants;
pub(crate) mod pending;
pub(crate) mod plan;
mod pointers;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod sides;
pub(crate) mod sleeper;
pub(crate) mod sync;
pub(crate) mod table;
pub(crate) mod validate;
