//! Operations of a rank as tasks of its streams: a [collective], a [batch] of messages, and the open
//! [group] that keeps both back until it ends.

pub(crate) mod batch;
pub(crate) mod collective;
pub(crate) mod group;
