//! Notifies that other processes record.
//!
//! The creator waits, and importers record. An importer sets a word, then rings the doorbell of the
//! creator, whose listener wakes the streams that wait. The notify is set if that word or the word
//! of the creator itself is set. A wait takes both words, so that two records without a wait
//! between them count as one.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::ask::Imported;
use super::waiters::Waiters;
use super::words::ObjectWords;
use crate::message::{Failure, fail};
use crate::processes::region::SharedWords;
use crate::stream::Stream;
use ascend_sys::{ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_IPC_ERROR};

struct NotifyWords {
    /// 1 if an importer has recorded the notify.
    set: AtomicU32,
    /// 1 if the creator has destroyed the notify.
    closed: AtomicU32,
}

// SAFETY: atomic words; zeros are a notify that is not set.
unsafe impl SharedWords for NotifyWords {}

impl NotifyWords {
    fn zero() -> Self {
        Self { set: AtomicU32::new(0), closed: AtomicU32::new(0) }
    }
}

/// One process's side of a notify.
pub(crate) struct SharedNotify {
    words: ObjectWords<NotifyWords>,
    /// The import from the creator; `None` in the creator.
    imported: Option<Imported>,
    waiters: Arc<Waiters>,
}

impl SharedNotify {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let words = ObjectWords::new(NotifyWords::zero)?;
        Ok(Arc::new(Self { words, imported: None, waiters: Waiters::new() }))
    }

    /// Makes this process's side of a notify of another process.
    pub(super) fn import(file: OwnedFd, imported: Imported) -> io::Result<Arc<Self>> {
        let words = ObjectWords::of(file, NotifyWords::zero)?;
        Ok(Arc::new(Self { words, imported: Some(imported), waiters: Waiters::new() }))
    }

    pub(super) fn file(&self) -> io::Result<Arc<OwnedFd>> {
        self.words.file()
    }

    /// Returns the id of the process that created the notify; `None` if it is this process.
    pub(crate) fn creator(&self) -> Option<u32> {
        self.imported.as_ref().map(|imported| imported.peer.home.process)
    }

    /// Records the notify. Only a process that has imported the notify calls this.
    pub(crate) fn record(&self) -> Result<(), Failure> {
        let Some(Imported { peer: creator, .. }) = &self.imported else { return Ok(()) };
        if let Some(why) = creator.gone() {
            return fail!(
                ACL_ERROR_RT_IPC_ERROR,
                "{why}; it created the notify, so keep it running until the last record"
            );
        }
        let words = self.words.get();
        if words.closed.load(Ordering::Acquire) != 0 {
            return fail!(
                ACL_ERROR_RT_INVALID_HANDLE,
                "process {} has destroyed the notify before the stream came to it; destroy it \
                 after the last record",
                creator.home.process
            );
        }
        words.set.store(1, Ordering::SeqCst);
        creator.bell.ring();
        Ok(())
    }

    /// Returns whether an importer has recorded the notify.
    pub(crate) fn is_set(&self) -> bool {
        self.words.get().set.load(Ordering::SeqCst) != 0
    }

    /// Takes the record of an importer. Returns true if there was one.
    pub(crate) fn take(&self) -> bool {
        self.words.get().set.swap(0, Ordering::SeqCst) != 0
    }

    /// Registers a stream that must be woken when an importer records the notify.
    pub(crate) fn add_waiter(&self, stream: &'static Stream) {
        self.waiters.add_stream(stream);
    }

    /// Marks the notify as destroyed, so that importers cannot record it any more. Only the creator
    /// calls this.
    pub(crate) fn close(&self) {
        self.words.get().closed.store(1, Ordering::Release);
    }
}
