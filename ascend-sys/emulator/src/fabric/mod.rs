//! How ranks become a communicator, find each other and part.

mod board;
mod comm;
pub(crate) mod config;
pub(crate) mod group;
pub(crate) mod hooks;
pub(crate) mod links;
mod parts;
pub(crate) mod place;
pub(crate) mod registry;
pub(crate) mod root;
pub(crate) mod subs;
pub(crate) mod topology;

pub(crate) use comm::{Comm, Member};
pub(crate) use parts::CommPart;
