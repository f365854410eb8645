//! Order: how operations get onto streams one after the other, and how anyone knows that one is complete.

pub(crate) mod faults;
pub(crate) mod issue;
pub(crate) mod issue_order;
mod marks;
pub(crate) mod patience;
pub(crate) mod queue;
pub(crate) mod reactor;
mod registry;
mod regular;
pub(crate) mod stamps;
pub(crate) mod stream_slot;
pub(crate) mod timeline;
pub(crate) mod together;
pub(crate) mod wait;
pub mod work;
