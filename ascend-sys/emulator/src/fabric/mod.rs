//! Communicators: how ranks find each other, where they meet, and how they part.
//!
//! A communicator ([`Comm`]) is its identity, the places where its ranks meet (for collectives,
//! messages, and on the host), and what each rank has on record. A [`Member`] is one rank's side of
//! it. What builds on a communicator keeps a [part](CommPart) in it, so nothing here imports
//! kernels, operators, or the operations themselves.

pub(crate) mod attempt;
mod between;
mod board;
pub(crate) mod cluster;
mod comm;
pub(crate) mod config;
pub(crate) mod gathering;
pub(crate) mod hooks;
mod joint;
mod joint_subs;
pub(crate) mod links;
mod news;
mod parts;
pub(crate) mod place;
mod rank_states;
pub(crate) mod rank_table;
pub(crate) mod registry;
pub(crate) mod root;
pub(crate) mod root_info;
pub(crate) mod subs;
pub(crate) mod topology;

pub(crate) use comm::{Comm, Member};
pub(crate) use joint::Joint;
pub(crate) use parts::CommPart;
