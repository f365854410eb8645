//! The news that processes exchange about their exports. The receiver checks every field.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::key::ExportKind;
use crate::memory::window;
use crate::processes::listener::as_bytes;
use crate::processes::peer::Peer;

/// A frame on the line between two processes. The news of the fabric, which use the same line, have
/// other names.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum IpcFrame {
    Ipc(IpcNews),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum IpcNews {
    /// A process requests an import. If it is granted, the import has the number of the request.
    Wants { ask: u64, kind: ExportKind, number: u64 },
    /// The importer ends an import.
    Ends { ask: u64, import: u64, number: u64 },
    /// The answer to a request. If the object has shared words, their file comes with the answer,
    /// as a descriptor.
    Answer { ask: u64, answer: Result<Granted, String> },
    /// The exporter has withdrawn the memory.
    Withdrawn { number: u64 },
}

/// The object that an importer was granted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Granted {
    /// Memory of a card: `bytes` bytes at the offset `start` in the device memory of the exporter.
    Memory { card: u32, start: usize, bytes: usize },
    /// Memory that is registered on an endpoint.
    Registered(RegisteredRange),
    /// Registered memory that only the exporter can have, for this reason.
    OfItsProcess(String),
    /// The words of an event, and the index of the importer among its processes.
    Event { index: usize },
    /// The words of a notify.
    Notify,
    /// An import has ended.
    Ended,
}

/// Memory that is registered on an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RegisteredRange {
    /// Whether the memory is pinned host memory. Otherwise it is memory of the endpoint's card.
    pub(crate) on_host: bool,
    pub(crate) card: u32,
    /// The offset of the memory in the file of the exporter's memory, in bytes.
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    /// The protocol of the endpoint, as the number of CANN.
    pub(crate) protocol: i32,
    /// The offset in the same file of the memory of the endpoint's device, in bytes.
    pub(crate) device_start: usize,
}

impl Granted {
    /// Returns the addresses of the memory in the exporter; `None` if the object is not memory.
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
