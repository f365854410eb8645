//! News between processes about the ends of channels between endpoints, before the ends are
//! connected.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::news::{News, Seat};
use crate::processes::listener::as_bytes;
use crate::processes::peer::Peer;

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

type EndLoser = fn(&Arc<Peer>, &str);
type EndHearer = fn(&Arc<Peer>, EndpointNews, Option<OwnedFd>);

static HEARS: OnceLock<(EndHearer, EndLoser)> = OnceLock::new();

/// Registers the functions that handle news about ends and the loss of a process. Until the first
/// call, news is dropped: this process has announced no endpoint before.
pub(crate) fn listen(hears: EndHearer, loses: EndLoser) {
    let _ = HEARS.set((hears, loses));
}

/// Handles the loss of a process.
pub(super) fn lose(lost: &Arc<Peer>, why: &str) {
    if let Some((_, loses)) = HEARS.get() {
        loses(lost, why);
    }
}

pub(super) fn hear(from: &Arc<Peer>, news: EndpointNews, file: Option<OwnedFd>) {
    if let Some((hears, _)) = HEARS.get() {
        hears(from, news, file);
    }
}

pub(crate) fn say(peer: &Peer, news: EndpointNews, file: Option<&OwnedFd>) {
    // If the file cannot be duplicated, the news is sent without it, and the other process answers
    // that the end is gone.
    let file = file.and_then(|file| file.as_fd().try_clone_to_owned().ok());
    peer.say(&as_bytes(&News::Endpoint(news)), file.map(Arc::new).into_iter().collect());
}
