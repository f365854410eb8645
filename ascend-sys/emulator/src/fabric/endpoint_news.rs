//! News between processes about the ends of channels between endpoints, before the ends are
//! connected.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use super::news::{EndpointNews, News};
use crate::processes::listener::as_bytes;
use crate::processes::peer::Peer;

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
