//! Memory, events and notifies that one process exports and others import (CANN calls this IPC).
//!
//! # Terms
//!
//! - The *exporter* has made the object. It gives out a [key](key): a text with the address of the
//!   exporter, and the number of the export there.
//! - An *importer* brings the key. It goes to the exporter, [asks](ask) for the object, and the
//!   exporter [decides](exports) by the number that the system gives the process of the importer.
//!
//! # Rules
//!
//! 1. Memory stays where it is: the importer maps the pages, under addresses of its own
//!    ([`memory`]).
//! 2. The state of an event or a notify is words in a memory file of its own, each changed by one
//!    atomic step ([`shared_event`], [`shared_notify`]). So a process sees at once what another one
//!    has recorded, however late it hears that it was woken.
//! 3. An import ends with an answer of the exporter, so that the exporter may free the memory as
//!    soon as the importer's call has returned.
//! 4. Objects of an exporter that has ended stay mapped. Memory can still be used; events and
//!    notifies are errors that name the process.

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

/// A process says something that is none of the fabric's news.
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

/// A process is gone.
pub(crate) fn lose(lost: &Arc<Peer>) {
    exports::lose(lost);
    ask::wake();
    waiters::wake_all();
}

/// Something may have changed in words that this process shares.
pub(crate) fn rung() {
    exports::relay();
    waiters::wake_all();
}
