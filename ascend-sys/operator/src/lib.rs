//! Communication operators as data: the tasks of every thread of every rank.
//!
//! An operator is a function that each rank runs once to record its [tasks](task): copies,
//! reductions, records of notifies, and waits for them. The tasks of all ranks together are an
//! [`Operator`]. Nothing in it has run yet, so all of it can be examined: the resources it takes,
//! whether it can hang, whether two tasks race, and whether its result is right.
//!
//! `hccl` records operators, and `ascend-emulator` or CANN runs them. This crate has the parts that
//! both share, and the analyses that depend on neither of them.

pub mod acquire;
pub mod check;
pub mod cost;
mod lanes;
pub mod order;
pub mod picture;
pub mod plan;
mod schedule;
pub mod shadow;
mod show;
pub mod task;
mod words;

pub use cost::{Cost, Model};
pub use order::{Order, TaskId};
pub use plan::Plan;
pub use task::{Goal, Memory, Operator, Piece, RankTasks, ReduceOp, Signal, Step, Task};
