//! The frames that processes exchange, beyond what goes through shared memory. The receiver checks
//! everything.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::endpoint_news::EndpointNews;
use super::part_news::PartNews;
use super::still_news::StillNews;
use crate::collective::comm_error::CommError;
use crate::collective::request::CollectiveRequest;
use crate::processes::peer::Home;
use crate::profile::Product;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum News {
    /// About a root info, by its number in the process that has made it. `from_home`: that process
    /// has sent it.
    Root { root: u64, from_home: bool, news: RootNews },
    /// About a communicator, by its key.
    Comm { comm: u64, news: CommNews },
    /// About ends of channels between endpoints.
    Endpoint(EndpointNews),
    /// About whether the process can go on. By itself it lets nothing go on.
    Still(StillNews),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum RootNews {
    /// A rank comes.
    Enter(Newcomer),
    /// The number of ranks that are expected, those that are there, and which of these are in the
    /// process that says so.
    Here { ranks: u32, here: Vec<u32>, at_home: Vec<u32> },
    /// A rank was refused.
    Refused { rank: u32, code: u32, text: String },
    /// There will be no communicator.
    Failed(CommError),
    /// All are there. With one descriptor: the words that they share.
    Formed(Formation),
    /// This process has made its side of the communicator.
    Ready,
    /// All processes have made their sides.
    Go,
    /// A rank will not come.
    Leaves { rank: u32, why: String },
}

/// A rank that comes from another process.
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

/// Where a rank sits.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Seat {
    /// The number of its device among the devices of its program: the same card in every process.
    pub(crate) card: u32,
    /// The offset of the device's memory from the first address of the process's reserved device
    /// memory, in bytes.
    pub(crate) start: usize,
    /// The size of the device's memory, in bytes.
    pub(crate) bytes: usize,
    /// Whether checked mode watches it, and tells what it knows.
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
    /// The process of each rank, and its seat there.
    pub(super) ranks: Vec<(usize, Seat)>,
    /// Bytes of the words.
    pub(super) bytes: usize,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum CommNews {
    /// The communicator has failed.
    Broken { error: CommError },
    /// A rank issues nothing any more.
    Left { rank: usize, why: String },
    /// A rank has called its first collective.
    Posted { rank: usize, number: u64, request: CollectiveRequest, waits: bool },
    /// The rank no longer waits in its first collective.
    Goes { rank: usize },
    /// The sending process has just made its side, and asks for the earlier news.
    Asks,
    /// The answer to [`Asks`](Self::Asks): this process does not have the communicator, any more or
    /// yet.
    NotHere,
    /// A rank makes a sub-communicator; `turn` counts those of its name. To the process that keeps
    /// the register.
    WantsSub { rank: usize, turn: u64, wish: SubCommRequest },
    /// The answer of that process. The message carries one file descriptor: that of the words that
    /// the ranks share.
    SubIs { rank: usize, turn: u64, name: String, key: u64 },
    /// The other answer: the request of the rank differs from that of other ranks.
    SubDiffers { rank: usize, turn: u64, name: String, text: String, said: Vec<(usize, String)> },
    /// A rank exchanges its first messages with others.
    Wants { rank: usize, peers: Vec<usize>, function: String },
    /// A rank makes a call that all ranks make, and waits for them.
    CallsWithAll { rank: usize, purpose: String, said: String, function: String },
    /// A module that builds on communicators sends news of a rank.
    Part { rank: usize, news: PartNews },
}

/// The request of one rank for a sub-communicator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SubCommRequest {
    pub(crate) name: String,
    /// Its ranks, by their ranks in the parent.
    pub(crate) ranks: Vec<usize>,
    pub(crate) buffer_megabytes: u32,
}
