//! Tests that prove deadlocks. A deadlock is reported when there was no progress for a while, so
//! these tests do not share their process with tests that keep all cores busy.

mod batches;
mod deadlocks;
mod messages;
mod operator_waits;
