//! The settings of a check.

use crate::plan::{Engine, Plan, Product, limits};

/// The settings of a check. The default is any product, the default [`Engine`], CANN's [limits] and
/// no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The product that the operator runs on. With `None`, it may run on any product, and rules
    /// that only some products have are skipped.
    pub product: Option<Product>,
    /// The engine that executes the threads of the operator.
    pub engine: Engine,
    /// The greatest number of threads of a communicator.
    pub threads: u32,
    /// The greatest number of notifies of all threads of a communicator together.
    pub notifies: u32,
    /// The greatest number of notifies of one thread.
    pub thread_notifies: u32,
    /// The greatest number of notifies of each end of a channel.
    pub channel_notifies: u32,
    /// The resources that each rank has acquired, by rank. A single plan counts for all ranks. If
    /// there is no plan, each rank has the resources that it needs.
    pub plans: Vec<Plan>,
}

impl Default for Setting {
    fn default() -> Self {
        Setting {
            product: None,
            engine: Engine::default(),
            threads: limits::THREADS,
            notifies: limits::NOTIFIES,
            thread_notifies: limits::THREAD_NOTIFIES,
            channel_notifies: limits::CHANNEL_NOTIFIES,
            plans: Vec::new(),
        }
    }
}
