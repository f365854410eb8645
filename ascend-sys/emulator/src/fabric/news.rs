//! The frames that processes exchange, besides the words in shared memory. The receiver checks
//! every frame.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::part_news::PartNews;
use super::still_news::StillNews;
use crate::collective::comm_error::CommError;
use crate::collective::request::CollectiveRequest;
use crate::processes::peer::Home;
use crate::profile::Product;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum News {
    /// News about a root info, which is named by its number in the process that made it.
    /// `from_home` is true if that process sent the news.
    Root { root: u64, from_home: bool, news: RootNews },
    /// News about a communicator, which is named by its key.
    Comm { comm: u64, news: CommNews },
    /// News about the ends of channels between endpoints.
    Endpoint(EndpointNews),
    /// News about whether the process is [still](super::stillness). A frame with this news is not
    /// counted among the frames that can let a process go on.
    Still(StillNews),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum RootNews {
    /// A rank joins.
    Enter(Newcomer),
    /// The number of ranks that are expected, the ranks that have come, and those of them that are
    /// in the sending process.
    Here { ranks: u32, here: Vec<u32>, at_home: Vec<u32> },
    /// A rank was refused.
    Refused { rank: u32, code: u32, text: String },
    /// There will be no communicator.
    Failed(CommError),
    /// All ranks have come. The frame carries one file descriptor: that of the words that the ranks
    /// share.
    Formed(Formation),
    /// The sending process has made its side of the communicator.
    Ready,
    /// All processes have made their sides.
    Go,
    /// A rank will not come.
    Leaves { rank: u32, why: String },
}

/// A rank that joins from another process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Newcomer {
    pub(super) rank: u32,
    pub(super) ranks: u32,
    pub(super) seat: Seat,
    pub(super) product: Product,
    pub(super) connect_timeout: Duration,
    pub(super) name: String,
    pub(super) buffer_megabytes: u32,
}

/// The device of a rank, as other processes see it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Seat {
    /// The number of the device among the devices of its program. A number means the same card in
    /// every process.
    pub(crate) card: u32,
    /// The offset of the device's memory from the first address of the process's reserved device
    /// memory, in bytes.
    pub(crate) start: usize,
    /// The size of the device's memory, in bytes.
    pub(crate) bytes: usize,
    /// Whether checked mode watches the device, and sends news about it.
    pub(crate) checked: bool,
}

/// A communicator whose ranks are all known.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Formation {
    pub(super) key: u64,
    pub(super) name: String,
    pub(super) product: Product,
    pub(super) connect_timeout: Duration,
    pub(super) processes: Vec<Home>,
    /// The process of each rank, as an index into `processes`, and the seat of the rank there.
    pub(super) ranks: Vec<(usize, Seat)>,
    /// The size of the shared words, in bytes.
    pub(super) bytes: usize,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum CommNews {
    /// The communicator has failed.
    Broken { error: CommError },
    /// A rank will issue nothing more.
    Left { rank: usize, why: String },
    /// A rank has called its first collective.
    Posted { rank: usize, number: u64, request: CollectiveRequest, waits: bool },
    /// The rank no longer waits in its first collective.
    Goes { rank: usize },
    /// The sending process has just made its side, and requests the earlier news.
    Asks,
    /// The answer to [`Asks`](Self::Asks) if the process does not have the communicator, any more
    /// or yet.
    NotHere,
    /// A rank requests a sub-communicator from the process that keeps the register. `turn` counts
    /// the requests of the rank for that name.
    WantsSub { rank: usize, turn: u64, wish: SubCommRequest },
    /// The answer of the register if the request agrees with those of other ranks. The frame
    /// carries one file descriptor: that of the words that the ranks share.
    SubIs { rank: usize, turn: u64, name: String, key: u64 },
    /// The answer of the register if the request differs from that of other ranks, or if there is
    /// no memory for the shared words.
    SubDiffers { rank: usize, turn: u64, name: String, text: String, said: Vec<(usize, String)> },
    /// A rank exchanges its first messages with these peers.
    Wants { rank: usize, peers: Vec<usize>, function: String },
    /// A rank makes a call that all ranks make, and waits for the other ranks.
    CallsWithAll { rank: usize, purpose: String, said: String, function: String },
    /// A module that builds on communicators sends news of a rank.
    Part { rank: usize, news: PartNews },
}

/// The request of one rank for a sub-communicator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SubCommRequest {
    pub(crate) name: String,
    /// The ranks of the sub-communicator, as ranks of the parent.
    pub(crate) ranks: Vec<usize>,
    pub(crate) buffer_megabytes: u32,
}

/// News about an end of a channel. The news names an end by its handle in its own process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum EndpointNews {
    /// The sending process has made an end that leads to an endpoint of the receiving process. The
    /// receiving process decides which ends belong together.
    Asks(AskedEnd),
    /// The end `end` of the receiving process has met `other`, an end of the sending process. The
    /// message carries one file descriptor: that of the words that the two ends share.
    Meets { end: u64, other: u64, key: u64, bytes: usize },
    /// The end `end` of the receiving process has met an end that does not match it. `text`
    /// describes the difference.
    Differs { end: u64, text: String },
    /// The sender no longer wants an end that it asked for.
    Withdraws { end: u64 },
    /// The counterpart of the end `end` of the receiving process no longer exists.
    Gone { end: u64 },
}

/// The request of a process for an end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AskedEnd {
    pub(crate) end: u64,
    pub(crate) protocol: i32,
    /// The device of the end's own endpoint, in the requesting process.
    pub(crate) seat: Seat,
    /// The offset of the memory of the other endpoint's device in the device memory of the
    /// receiving process, in bytes.
    pub(crate) to: usize,
    pub(crate) notifies: u32,
    /// The role in the socket connection: 0 for client, 1 for server. Any other value stands for
    /// either.
    pub(crate) role: i32,
}
