//! Communication operators of one's own: what the library keeps for them, and what they may ask it.

mod context;
pub(crate) mod endpoint;
mod handles;
pub(crate) mod open;
mod rank_graph;

pub(crate) use context::{copy_into, create, destroy, find, forget as forget_contexts};
pub(crate) use rank_graph::{Answers, layer};
