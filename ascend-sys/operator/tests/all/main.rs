//! The tests of operators as data.

mod algorithms;
mod broken_forms;
mod broken_memory;
mod broken_rows;
mod broken_waits;
mod costs;
mod good;
mod large;
mod mutations;
mod order;
mod page;
mod pictures;
mod plan;
mod recorder;
mod traces;
