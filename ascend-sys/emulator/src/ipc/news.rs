//! The news between processes about their exports. The receiver checks everything.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::key::ExportKind;
use crate::memory::window;
use crate::processes::listener::as_bytes;
use crate::processes::peer::Peer;

/// A frame on the line. The news of the fabric, which use the same line, have other names.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum IpcFrame {
    Ipc(IpcNews),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum IpcNews {
    /// A process wants to import something. Its import has the number of the question from now on.
    Wants { ask: u64, kind: ExportKind, number: u64 },
    /// The importer ends an import.
    Ends { ask: u64, import: u64, number: u64 },
    /// The answer to a question; with the words, if there are some, as a descriptor.
    Answer { ask: u64, answer: Result<Granted, String> },
    /// The exporter has ended the memory.
    Withdrawn { number: u64 },
}

/// The object that an importer was granted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Granted {
    /// Memory of a card: `bytes` bytes at the offset `start` in the device memory of the exporter.
    Memory { card: u32, start: usize, bytes: usize },
    /// Memory that is registered on an endpoint.
    Registered(RegisteredRange),
    /// Registered memory of which no other process can have a part, for this reason.
    OfItsProcess(String),
    /// The words of an event, and the index of the importer among its processes.
    Event { index: usize },
    /// Words of a notify.
    Notify,
    /// An import has ended.
    Ended,
}

/// Memory that is registered on an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RegisteredRange {
    /// Whether it is pinned host memory, else memory of the endpoint's card.
    pub(crate) on_host: bool,
    pub(crate) card: u32,
    /// Where it lies in the file of the exporter's memory.
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    /// The protocol of the endpoint, and the start of its device's memory in that file.
    pub(crate) protocol: i32,
    pub(crate) device_start: usize,
}

impl Granted {
    /// Returns the addresses in the exporter.
    pub(super) fn memory(&self) -> Option<Range<usize>> {
        let windows = window::reserved()?;
        let (first, bytes) = match *self {
            Granted::Memory { start, bytes, .. } => (windows.nominal + start, bytes),
            Granted::Registered(RegisteredRange { on_host: true, start, bytes, .. }) => {
                (windows.data + start, bytes)
            }
            Granted::Registered(RegisteredRange { start, bytes, .. }) => {
                (windows.nominal + start, bytes)
            }
            _ => return None,
        };
        Some(first..first + bytes)
    }
}

pub(super) fn say(peer: &Peer, news: IpcNews, file: Option<Arc<OwnedFd>>) {
    peer.say(&as_bytes(&IpcFrame::Ipc(news)), file.into_iter().collect());
}
