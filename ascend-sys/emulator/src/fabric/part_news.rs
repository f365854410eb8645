//! News between the parts of a communicator in different processes.

use serde::{Deserialize, Serialize};

use super::check_news::{CheckNews, ToldOperation};

/// News from the [parts](super::parts::CommPart) of a communicator to its parts in other processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum PartNews {
    /// A server has reached a task. The fields are the task's number, the columns that must agree,
    /// and the line of the kernel that prepared the task.
    Task { number: u64, columns: Vec<String>, place: String },
    /// News about a channel of an operator, for a rank of the receiving process.
    Channel { to: usize, news: ChannelNews },
    /// News of checked mode.
    Check(CheckNews),
}

impl PartNews {
    /// Returns the answer to this news from a process that no longer has the communicator, or does
    /// not have it yet. The answer consists of the rank that answers and its news. Returns `None`
    /// if no answer is needed.
    pub(super) fn answer_of_nobody(&self, rank: usize) -> Option<(usize, Self)> {
        match self {
            // This process does not access the memory of the end.
            Self::Channel { to, news: ChannelNews::Ended { end, .. } } => {
                let news = ChannelNews::LetsGo { end: *end };
                Some((*to, Self::Channel { to: rank, news }))
            }
            _ => None,
        }
    }
}

/// News about channels. An end is named by its handle in its own process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ChannelNews {
    /// The higher rank of a pair requests channels from the process of the lower rank. Each request
    /// of a process has a higher number than the one before. Requests that the other process has
    /// missed are repeated.
    Asks { number: u64, ends: Vec<OfferedEnd> },
    /// The answer: the request with this number has met a request of the lower rank.
    Meets { number: u64, ends: Vec<OfferedEnd> },
    /// A notify of an end of the receiving rank is recorded. `by` is the operation that records it,
    /// if checked mode is on.
    Records { end: u64, notify: u32, by: Option<Box<ToldOperation>> },
    /// An end of the sending rank no longer exists. `of` is the other end, or 0 if that is not
    /// known.
    Ended { end: u64, of: u64 },
    /// The sending rank and its queued operations no longer access the memory that this end of the
    /// other rank has exchanged.
    LetsGo { end: u64 },
}

/// An end that a rank has made, and the memory that it exchanges.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OfferedEnd {
    pub(crate) protocol: i32,
    pub(crate) notifies: u32,
    pub(crate) end: u64,
    pub(crate) memories: Vec<OfferedMemory>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OfferedMemory {
    pub(crate) tag: String,
    /// Whether this is pinned host memory of the process. Otherwise it is device memory of the
    /// rank.
    pub(crate) on_host: bool,
    /// The address of the data in the process of the rank that offers the memory.
    pub(crate) data: usize,
    pub(crate) bytes: usize,
}
