//! Messages between pairs of ranks.
//!
//! A rank's messages are a list of [items](item::BatchItem). The [exchange](exchange::Exchange) of
//! a communicator has a [channel](channel::MessageChannel) for each pair (source, destination), in
//! which the two sides of a message meet and share the copying. It also has a [party] for each
//! rank, with the stream that sleeps in the rank's batch. The task that posts the items and copies
//! the data is in `issue::batch`.

pub(crate) mod channel;
pub(crate) mod exchange;
pub(crate) mod item;
pub(crate) mod party;
mod progress;
