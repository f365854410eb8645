//! News between processes about whether they are still.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// News about whether a process is still; see [`stillness`](super::stillness).
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StillNews {
    Still(StillProcess),
    /// The process is no longer still.
    Moves,
    /// A request to confirm that the process is still in the state that it reported. `round` is the
    /// number of the request.
    Asks {
        round: u64,
    },
    /// The answer to [`Asks`](Self::Asks): the process is still, in the state of the answer.
    Yes {
        round: u64,
        answer: StillAnswer,
    },
    /// These processes, in these states, can never go on.
    Deadlock {
        states: BTreeMap<u64, u64>,
        text: String,
    },
}

/// A process that is still.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StillProcess {
    /// The number of the state. It is a new number if the process was not still in the meantime.
    pub(super) state: u64,
    /// The names of the processes that this process waits for.
    pub(super) waits_for: BTreeSet<u64>,
    /// The descriptions of the waits of this process. `more` is the number of further waits.
    pub(super) lines: Vec<String>,
    pub(super) more: usize,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StillAnswer {
    pub(super) state: u64,
    pub(super) frames: FrameCounts,
}

/// The numbers of frames that were sent to each process and received from it, by the name of the
/// process.
pub(super) type FrameCounts = BTreeMap<u64, (u64, u64)>;
