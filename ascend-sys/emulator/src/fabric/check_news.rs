//! News of checked mode about a rank to the processes of the other ranks.

use serde::{Deserialize, Serialize};

/// News from the checker of a process for one of its ranks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum CheckNews {
    /// The rank comes to a meeting of the communicator, and knows this. It is sent before the
    /// operation begins, so a thread that sees the operation end can wait for it.
    Arrives { way: u64, number: u64, known: ToldClock },
    /// The host of its process knows this.
    HostKnows { known: ToldClock },
    /// The rank touches memory of the receiving rank. It is sent before the rank moves anything.
    Touches { to: usize, operation: ToldOperation },
}

/// A component of the clocks of some checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ToldComponent {
    /// The [name](crate::check) of the checker that has the stream or host.
    pub(crate) checker: u64,
    pub(crate) component: u32,
}

/// For each component, the step up to which it is known to be complete.
pub(crate) type ToldClock = Vec<(ToldComponent, u64)>;

/// An operation of one process, as it is told to another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ToldOperation {
    /// The end of its step.
    pub(crate) component: ToldComponent,
    pub(crate) time: u64,
    /// The operations that are complete when it begins.
    pub(crate) known: ToldClock,
    pub(crate) what: String,
    pub(crate) place: String,
    pub(crate) member: Option<String>,
    pub(crate) issued: String,
    /// The accesses to memory of the rank that is told.
    pub(crate) touches: Vec<ToldTouch>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ToldTouch {
    /// The address of the data in the receiving process.
    pub(crate) data: usize,
    pub(crate) bytes: usize,
    pub(crate) mode: ToldMode,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum ToldMode {
    Read,
    Write,
    Reduce(u32),
}
