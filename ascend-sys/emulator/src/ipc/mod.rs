//! Memory, events and notifies that one process exports and others import (CANN calls this IPC).
//!
//! # Terms
//!
//! - The *exporter* has made the object. It gives out a [key](key): a text with the address of the
//!   exporter, and the number of the export there.
//! - An *importer* has the key. It connects to the exporter and [asks](ask) for the object. The
//!   exporter [decides](exports) by the process id of the importer, as the system reports it.
//!
//! # Rules
//!
//! 1. Memory stays where it is: the importer maps the pages, under addresses of its own
//!    ([`memory`]).
//! 2. The state of an event or a notify is in the words of a memory file. Each word is changed by
//!    one atomic operation ([`shared_event`], [`shared_notify`]). So a process sees at once what
//!    another process has recorded, even if it is woken late.
//! 3. An import ends with an answer of the exporter, so that the exporter may free the memory as
//!    soon as the importer's call has returned.
//! 4. Objects of an exporter that has ended stay mapped. Its memory can still be used. Calls that
//!    use its events and notifies return errors that name the process.

pub(crate) mod ask;
pub(crate) mod exports;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod memory;
pub(crate) mod news;
pub(crate) mod physical;
pub(crate) mod registered;
pub(crate) mod shared_event;
pub(crate) mod shared_notify;
mod waiters;
mod words;

use std::sync::Arc;

use crate::processes::line::Frame;
use crate::processes::peer::Peer;
use crate::virtual_memory;

/// Handles a frame that is not news of the fabric.
pub(crate) fn hear(from: &Arc<Peer>, frame: Frame) {
    let Ok(news::IpcFrame::Ipc(news)) = serde_json::from_slice(&frame.bytes) else { return };
    match news {
        news::IpcNews::Wants { ask, kind, number } => exports::want(from, ask, kind, number),
        news::IpcNews::Ends { ask, import, number } => {
            exports::end_import(from, ask, import, number)
        }
        news::IpcNews::Answer { ask, answer } => ask::answered(from, ask, answer, frame.files),
        news::IpcNews::Withdrawn { number } => {
            memory::withdrawn(from, number);
            registered::withdrawn(from, number);
            virtual_memory::shared::withdrawn(&from.home, number);
        }
    }
}

/// Handles the loss of a process.
pub(crate) fn lose(lost: &Arc<Peer>) {
    exports::lose(lost);
    ask::wake();
    waiters::wake_all();
}

/// Handles a ring of the doorbell: words that this process shares may have changed.
pub(crate) fn rung() {
    exports::relay();
    waiters::wake_all();
}
