//! News between processes about ends of channels between endpoints, before these are connected.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::news::{News, Seat};
use crate::processes::listener::as_bytes;
use crate::processes::peer::Peer;

/// An end is named by its handle in its own process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum EndpointNews {
    /// A process has made an end that leads to an endpoint of the receiving process, which decides
    /// which ends go together.
    Asks(AskedEnd),
    /// The end has met `other`, an end of the sending process. The message carries one file
    /// descriptor: that of the words that the two ends share.
    Meets { end: u64, other: u64, key: u64, bytes: usize },
    /// The end has met one that differs from it.
    Differs { end: u64, text: String },
    /// The sender no longer wants an end that it asked for.
    Withdraws { end: u64 },
    /// The counterpart of the end `end` of the receiving process no longer exists.
    Gone { end: u64 },
}

/// An end, as a process asks for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AskedEnd {
    pub(crate) end: u64,
    pub(crate) protocol: i32,
    /// The device of its endpoint, in the process that asks.
    pub(crate) seat: Seat,
    /// The start of the memory of the device of the other endpoint, in the process that is asked.
    pub(crate) to: usize,
    pub(crate) notifies: u32,
    /// The side of the socket: 0 the client, 1 the server, else either.
    pub(crate) role: i32,
}

type EndLoser = fn(&Arc<Peer>, &str);
type EndHearer = fn(&Arc<Peer>, EndpointNews, Option<OwnedFd>);

static HEARS: OnceLock<(EndHearer, EndLoser)> = OnceLock::new();

/// Registers the hearers: from now on they hear what others say of ends, and that a process is
/// gone. Before this, this process has told nobody of an endpoint.
pub(crate) fn listen(hears: EndHearer, loses: EndLoser) {
    let _ = HEARS.set((hears, loses));
}

/// A process is gone.
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
    // Without the file the other process answers that the end is gone.
    let file = file.and_then(|file| file.as_fd().try_clone_to_owned().ok());
    peer.say(&as_bytes(&News::Endpoint(news)), file.map(Arc::new).into_iter().collect());
}
