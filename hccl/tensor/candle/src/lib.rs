#![doc = include_str!("../README.md")]

mod builder;
mod data_parallel;
mod error;
mod host;
mod lane;
mod tensor_parallel;

pub use data_parallel::{DataParallel, StepResult};
pub use error::{Error, Result};
pub use tensor_parallel::{ColumnLinear, Group, RowLinear};
