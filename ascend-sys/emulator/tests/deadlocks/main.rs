//! Tests that prove deadlocks. A deadlock is found when nothing has moved for a while, so they do
//! not share their process with tests that keep all cores busy.

mod batches;
mod deadlocks;
mod messages;
mod operator_waits;
