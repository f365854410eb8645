#![doc = include_str!("../README.md")]

mod error;
mod loader;
mod parameters;
mod replicas;
mod silent;
mod strategy;

pub use error::{Error, Result};
pub use loader::RankLoader;
pub use silent::Silent;
pub use strategy::DataParallel;
