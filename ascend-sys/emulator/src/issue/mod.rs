//! The operations of a rank, from the checked call to the task of a stream.
//!
//! [`submit`] puts collectives into a stream, and [`post`] puts messages into a stream. In an open
//! [group], both are kept until the group ends. The tasks are [collectives](collective) and
//! [batches](batch) of messages.

pub(crate) mod batch;
pub(crate) mod collective;
pub(crate) mod group;
mod joint;
pub(crate) mod post;
mod staged;
pub(crate) mod submit;
