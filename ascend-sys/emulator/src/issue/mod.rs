//! Operations of a rank, from the checked call to the task of a stream.
//!
//! [`submit`] puts collectives into a stream and [`post`] messages, or both into the open [group],
//! which keeps them back until it ends. The tasks are a [collective] and a [batch] of messages.

pub(crate) mod batch;
pub(crate) mod collective;
pub(crate) mod group;
mod joint;
pub(crate) mod post;
mod staged;
pub(crate) mod submit;
