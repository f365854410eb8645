//! News that checked mode sends about a rank to the processes of the other ranks.

use serde::{Deserialize, Serialize};

/// News that the checker of a process sends for one of its ranks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum CheckNews {
    /// The rank arrives at a meeting of the communicator, with the clock `known`. The news is sent
    /// before the operation begins, so a thread that sees the operation end can wait for the news.
    Arrives { way: u64, number: u64, known: ToldClock },
    /// The clock of the host of the sending process.
    HostKnows { known: ToldClock },
    /// The rank touches memory of the receiving rank. The news is sent before the rank moves any
    /// data.
    Touches { to: usize, operation: ToldOperation },
}

/// A component of the vector clocks, with the checker that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ToldComponent {
    /// The [name](crate::check) of the checker that has the stream or host.
    pub(crate) checker: u64,
    pub(crate) component: u32,
}

/// A clock in the news: for each component, the step up to which the component is known to be
/// complete.
pub(crate) type ToldClock = Vec<(ToldComponent, u64)>;

/// An operation of one process, as reported to another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ToldOperation {
    /// The component of the operation. With `time`, it names the end of the operation's step.
    pub(crate) component: ToldComponent,
    pub(crate) time: u64,
    /// The operations that are complete when this operation begins.
    pub(crate) known: ToldClock,
    pub(crate) what: String,
    pub(crate) place: String,
    pub(crate) member: Option<String>,
    pub(crate) issued: String,
    /// The accesses to memory of the receiving rank.
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
