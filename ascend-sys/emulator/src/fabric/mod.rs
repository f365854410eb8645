//! Communicators: the ways in which ranks find each other, meet and leave.
//!
//! A communicator ([`Comm`]) has an identity and a record of each rank. It also has the places
//! where its ranks meet: for collectives, for messages, and on the host. A [`Member`] is one rank's
//! side of a communicator. A module that builds on a communicator keeps a [part](CommPart) in it,
//! so nothing in this directory imports kernels, operators, or the operations themselves.

mod absent;
pub(crate) mod attempt;
mod beside;
mod between;
mod board;
mod check_news;
pub(crate) mod cluster;
mod comm;
pub(crate) mod config;
pub(crate) mod endpoint_news;
mod formation;
#[cfg(all(any(test, fuzzing), not(loom), not(miri)))]
pub(crate) mod fuzz_peer;
pub(crate) mod gathering;
pub(crate) mod hooks;
mod joint;
mod joint_subs;
pub(crate) mod links;
mod lone_zeros;
mod news;
pub(crate) mod pair;
mod part_news;
mod parts;
pub(crate) mod place;
pub(crate) mod processes;
mod rank_states;
pub(crate) mod rank_table;
pub(crate) mod registry;
pub(crate) mod root;
pub(crate) mod root_info;
mod still_news;
pub(crate) mod stillness;
pub(crate) mod subs;
pub(crate) mod topology;

pub(crate) use check_news::{
    CheckNews, ToldClock, ToldComponent, ToldMode, ToldOperation, ToldTouch,
};
pub(crate) use comm::{Comm, Member};
pub(crate) use joint::{Joint, is_any_joint};
pub(crate) use news::{AskedEnd, EndpointNews, Seat, SubCommRequest};
pub(crate) use part_news::{ChannelNews, OfferedEnd, OfferedMemory, PartNews};
pub(crate) use parts::{CommPart, Heard};
