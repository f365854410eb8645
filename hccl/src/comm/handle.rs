//! The `HcclComm` behind a communicator, and when it may be destroyed.
//!
//! CANN reads through the handle before it looks it up, so a call with a destroyed handle is undefined behaviour and not an error.
//! The handle is therefore destroyed exactly once, by whoever comes last: one word says whether a call is under way, whether the
//! communicator has been aborted, and whether somebody has taken the destroying upon himself. It is changed by single atomic
//! steps only, so an abort in the middle of a call leaves the destroying to the end of that call.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ascend_sys::HcclComm;

use super::RootInfo;
use crate::api::{Table, call};
use crate::device::Device;
use crate::error::Result;

const CALLING: u32 = 1;
const ABORTED: u32 = 2;
const DESTROYED: u32 = 4;

/// See the [module](self).
pub(crate) struct Handle {
    raw: HcclComm,
    state: AtomicU32,
    rank: u32,
    root_info: Option<RootInfo>,
}

// SAFETY: the handle is a name for CANN, which takes it from any thread; `state` orders its end after every call.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// A call under way. While it lives, the handle does.
pub(crate) struct Calling<'a> {
    handle: &'a Handle,
    table: &'a Table,
}

impl Handle {
    /// # Safety
    ///
    /// `raw` is a communicator that nobody else destroys, and every table given to the methods is the one that made it.
    pub(crate) unsafe fn new(raw: HcclComm, rank: u32, root_info: Option<RootInfo>) -> Self {
        Handle { raw, state: AtomicU32::new(0), rank, root_info }
    }

    /// The handle for a call, or `None` after an abort. One call at a time: the caller holds `&mut Communicator`.
    #[inline]
    pub(crate) fn calling<'a>(&'a self, table: &'a Table) -> Option<Calling<'a>> {
        // Made before the look, so that the bit is taken back in either case.
        let calling = Calling { handle: self, table };
        let before = self.state.fetch_or(CALLING, Ordering::Acquire);
        (before & ABORTED == 0).then_some(calling)
    }

    #[inline]
    pub(crate) fn is_aborted(&self) -> bool {
        self.state.load(Ordering::Acquire) & ABORTED != 0
    }

    /// The handle itself, which may be stale after an abort.
    pub(crate) fn raw(&self) -> HcclComm {
        self.raw
    }

    /// Ends the communicator for all ranks, now or when the call that is under way returns.
    pub(crate) fn abort(&self, table: &Table) -> Result<()> {
        let before = self.state.fetch_or(ABORTED, Ordering::AcqRel);
        if before & ABORTED != 0 {
            return Ok(());
        }
        self.leave(table, c"it was aborted");
        if before & CALLING == 0 { self.destroy(table) } else { Ok(()) }
    }

    /// Tells the peers that this rank issues nothing more, where the backend can.
    pub(crate) fn leave(&self, table: &Table, reason: &CStr) {
        if let Some(root_info) = &self.root_info {
            root_info.leave(table, self.rank, reason);
        }
    }

    /// Destroys the handle unless that has happened. Some context of its device is current. CANN: `HcclCommDestroy`.
    pub(crate) fn destroy(&self, table: &Table) -> Result<()> {
        if self.state.fetch_or(DESTROYED | ABORTED, Ordering::AcqRel) & DESTROYED != 0 {
            return Ok(());
        }
        // SAFETY: a live handle: the bit says that nobody else destroys it, and no call is under way, nor can one begin.
        unsafe { call!(table, HcclCommDestroy, self.raw) }
    }
}

impl Calling<'_> {
    #[inline]
    pub(crate) fn raw(&self) -> HcclComm {
        self.handle.raw
    }
}

impl Drop for Calling<'_> {
    #[inline]
    fn drop(&mut self) {
        let before = self.handle.state.fetch_and(!CALLING, Ordering::AcqRel);
        if before & ABORTED != 0
            && let Err(error) = self.handle.destroy(self.table)
        {
            tracing::warn!("destroying an aborted communicator: {error}");
        }
    }
}

/// Ends a communicator from another thread.
///
/// For a watchdog, or a thread that learns that a peer is gone: the thread that uses the communicator may itself be waiting. May
/// be cloned and sent anywhere, and outlives the communicator harmlessly.
#[derive(Clone)]
pub struct AbortHandle {
    pub(super) handle: Arc<Handle>,
    pub(super) device: Device,
}

impl AbortHandle {
    /// Ends the communicator: operations that are in flight fail, on this rank and, where the backend can tell them, at once
    /// on the others; later ones are refused with [`Error::Aborted`](crate::Error::Aborted).
    ///
    /// Does not wait. If the communicator's own thread is inside a call of CANN, the handle is destroyed when that call
    /// returns. Aborting twice, or after the communicator was dropped, does nothing. CANN: `HcclCommDestroy`.
    ///
    /// # Errors
    ///
    /// [`Error::Call`](crate::Error::Call) when CANN refuses; the communicator cannot be used all the same.
    pub fn abort(&self) -> Result<()> {
        let _bound = self.device.bind()?;
        self.handle.abort(self.device.table())
    }

    /// Whether the communicator has been aborted, or dropped and destroyed.
    pub fn is_aborted(&self) -> bool {
        self.handle.is_aborted()
    }
}

impl std::fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AbortHandle").field("aborted", &self.is_aborted()).finish_non_exhaustive()
    }
}
