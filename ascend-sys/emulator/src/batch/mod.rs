//! Messages between pairs of ranks.
//!
//! A rank's messages are a list of [items](item::BatchItem). The [exchange](exchange::Exchange) of
//! a communicator has a [channel](channel::MessageChannel) for each (source, destination), where
//! the two sides of a message meet and share the copying, and a [party] for each rank: the stream
//! that sleeps in its batch. The task that posts the items and looks after them is in
//! `issue::batch`.

pub(crate) mod channel;
pub(crate) mod exchange;
pub(crate) mod item;
pub(crate) mod party;
mod progress;
