//! The optional entries of the table (`ascendExt*`), asked for one by one. The header
//! `ascend/ascend_ext.h` says what they are for.

use std::ffi::{CStr, c_char, c_void};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Acquire};
use std::time::Duration;

use ascend_sys::{AscendExtProgress, HcclComm, HcclResult};

use super::handles::{STREAM_TIMEOUT, StreamHandle, Waited, milliseconds};
use super::{Table, call, words};
use crate::error::finding::Finding;
use crate::error::peers::MOST_RANKS;
use crate::error::{Code, Error, Result};

/// The progress of a stream: a line of counters that the backend writes.
#[derive(Clone, Copy)]
pub(crate) struct Progress(*const AscendExtProgress);

// SAFETY: the line stays mapped for the life of the process and is only read through atomics.
unsafe impl Send for Progress {}
// SAFETY: as above.
unsafe impl Sync for Progress {}

impl Progress {
    /// The address of the line, which tells it from others.
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    /// Returns the ticket of the last task that entered the stream.
    #[inline]
    pub(crate) fn submitted(self) -> u64 {
        // SAFETY: the line is mapped, aligned, and written with atomic stores only.
        unsafe { AtomicU64::from_ptr((&raw const (*self.0).submitted).cast_mut()) }.load(Acquire)
    }

    /// Returns the highest completed ticket: every task up to it is finished and touches no memory
    /// any more.
    #[inline]
    pub(crate) fn completed(self) -> u64 {
        // SAFETY: as in `submitted`.
        unsafe { AtomicU64::from_ptr((&raw const (*self.0).completed).cast_mut()) }.load(Acquire)
    }

    /// Returns the number of tasks that have failed.
    #[inline]
    pub(crate) fn failed(self) -> u64 {
        // SAFETY: as in `submitted`.
        unsafe { AtomicU64::from_ptr((&raw const (*self.0).failed).cast_mut()) }.load(Acquire)
    }
}

impl Table {
    /// Returns the stream's progress line, if the backend has one.
    pub(crate) fn progress(&self, stream: &StreamHandle) -> Option<Progress> {
        // Without these entries nobody could say which operation failed, or wait for one.
        self.functions().ascendExtStreamFailure?;
        self.functions().ascendExtAwaitTask?;
        let function = self.functions().ascendExtStreamProgress?;
        let mut line = std::ptr::null();
        // SAFETY: the handle is alive, the out parameter a live local.
        let code = unsafe { function(stream.raw(), &mut line) };
        (code == 0 && !line.is_null()).then_some(Progress(line))
    }

    /// Returns how the task with this ticket failed, if it did.
    pub(crate) fn stream_failure(
        &self,
        stream: &StreamHandle,
        ticket: u64,
    ) -> Option<(Code, Option<Box<str>>)> {
        let function = self.functions().ascendExtStreamFailure?;
        let mut code = 0;
        let mut text = [0 as c_char; ROOM];
        // SAFETY: the handle is alive, the out parameters are live locals, and the length is that
        // of the array.
        let status =
            unsafe { function(stream.raw(), ticket, &mut code, text.as_mut_ptr(), text.len()) };
        if status != 0 || code == 0 {
            return None;
        }
        Some((Code::Acl(code), said(&text)))
    }

    /// Blocks until the task with this ticket is complete, or until `limit`. `patience` is how long
    /// the caller means to wait in all. Returns whether it took all of `limit`.
    pub(crate) fn await_task(
        &self,
        stream: &StreamHandle,
        ticket: u64,
        limit: Duration,
        patience: Duration,
    ) -> Result<bool> {
        let Some(function) = self.functions().ascendExtAwaitTask else {
            return Err(self.missing("ascendExtAwaitTask"));
        };
        let [limit, patience] = [limit, patience].map(|time| milliseconds(time).unsigned_abs());
        // SAFETY: the handle is alive.
        let code = unsafe { function(stream.raw(), ticket, limit, patience) };
        match self.waited("ascendExtAwaitTask", code, STREAM_TIMEOUT) {
            Waited::Over(result) => result.map(|()| false),
            Waited::TimedOut => Ok(true),
        }
    }

    /// Returns the ranks that one of the tasks with these tickets waits for, where the backend can
    /// tell.
    pub(crate) fn task_peers(
        &self,
        stream: &StreamHandle,
        tickets: RangeInclusive<u64>,
    ) -> Vec<u32> {
        let (first, last) = tickets.into_inner();
        let Some(function) = self.functions().ascendExtTaskPeers else { return Vec::new() };
        let (mut ranks, mut count) = (vec![0; MOST_RANKS as usize], 0);
        // SAFETY: the handle is alive; the out parameters are live locals, and the room is that of
        // the list.
        let code = unsafe {
            function(stream.raw(), first, last, ranks.as_mut_ptr(), ranks.len(), &mut count)
        };
        ranks.truncate(if code == 0 { count } else { 0 });
        ranks
    }

    /// Tells the peers of a communicator that this rank issues nothing any more, where the backend
    /// can. Takes any handle, also a stale one.
    pub(crate) fn leave(&self, comm: HcclComm, reason: &CStr) {
        if let Some(function) = self.functions().ascendExtCommLeave {
            // SAFETY: a stale handle is an error; the text is live for the call.
            let code = unsafe { function(comm, reason.as_ptr()) };
            self.forget_refusal(code);
        }
    }

    /// Ends a communicator for all ranks, where the backend can. Takes any handle, also a stale
    /// one.
    pub(crate) fn abort(&self, comm: HcclComm) {
        if let Some(function) = self.functions().ascendExtCommAbort {
            // SAFETY: a stale handle is an error.
            let code = unsafe { function(comm) };
            self.forget_refusal(code);
        }
    }

    /// Tells the backend the title of a communicator for its texts, where it can use one.
    pub(crate) fn title(&self, comm: HcclComm, title: &str) {
        if let (Some(function), Ok(title)) =
            (self.functions().ascendExtCommTitle, std::ffi::CString::new(title))
        {
            // SAFETY: a stale handle is an error; the text is live for the call.
            let code = unsafe { function(comm, title.as_ptr()) };
            self.forget_refusal(code);
        }
    }

    /// Makes operations of no elements take a number on this communicator, where the backend can
    /// give them one. Otherwise they take none, as in CANN, and a rank that makes one alone is not
    /// found out.
    pub(crate) fn number_zeros(&self, comm: HcclComm) {
        if let Some(function) = self.functions().ascendExtCommNumbersZeros {
            // SAFETY: a stale handle is an error.
            let code = unsafe { function(comm) };
            self.forget_refusal(code);
        }
    }

    /// A handle may have been stale. The backend's message about that must not turn up in the text
    /// of a later error.
    fn forget_refusal(&self, code: HcclResult) {
        if code != HcclResult::HCCL_SUCCESS {
            drop(self.recent_message());
        }
    }

    /// Returns the handle that tells the backend of waits of threads outside of it.
    pub(crate) fn thread_waits(&self) -> ThreadWaits {
        ThreadWaits(self.functions().ascendExtThreadWaits)
    }

    /// Returns how a call of the last group of this thread failed, if it did and the backend says
    /// so.
    pub(crate) fn group_failure(&self, call: u32) -> Option<Error> {
        let function = self.functions().ascendExtGroupResult?;
        let mut code = HcclResult::HCCL_SUCCESS;
        let mut text = [0 as c_char; ROOM];
        // SAFETY: the out parameters are live locals, and the length is that of the array.
        let status = unsafe { function(call, &mut code, text.as_mut_ptr(), text.len()) };
        if status != HcclResult::HCCL_SUCCESS || code == HcclResult::HCCL_SUCCESS {
            return None;
        }
        let message = said(&text);
        let code = Code::Hccl(code.0);
        Some(Error::Call { function: "HcclGroupEnd", code, message, context: None })
    }

    pub(crate) fn has_await_activity(&self) -> bool {
        self.functions().ascendExtAwaitActivity.is_some()
    }

    /// Blocks until a task of some stream completes after `activity` was read, or until `limit`.
    pub(crate) fn await_activity(&self, activity: &mut u64, limit: Duration) -> Result<()> {
        let limit = milliseconds(limit).unsigned_abs();
        // SAFETY: the in and out parameter is live.
        unsafe { call!(self, ascendExtAwaitActivity, activity, limit) }
    }

    /// Takes fresh devices. Returns the block and the id of its first device.
    #[cfg(feature = "emulator")]
    pub(crate) fn create_block(
        &self,
        config: &ascend_sys::AscendExtBlockConfig,
    ) -> Result<(u32, i32)> {
        let (mut block, mut first) = (0, 0);
        // SAFETY: the configuration and the out parameters are live.
        unsafe { call!(self, ascendExtBlockCreate, config, &mut block, &mut first) }?;
        Ok((block, first))
    }

    /// Sets a fault of a device of a block.
    #[cfg(feature = "emulator")]
    pub(crate) fn set_fault(&self, block: u32, fault: &ascend_sys::AscendExtFault) -> Result<()> {
        // SAFETY: the description is live.
        unsafe { call!(self, ascendExtFaultSet, block, fault) }
    }

    /// Ends the faults of a device of a block.
    #[cfg(feature = "emulator")]
    pub(crate) fn clear_faults(&self, block: u32, device: u32) -> Result<()> {
        // SAFETY: takes numbers only.
        unsafe { call!(self, ascendExtFaultClear, block, device) }
    }

    /// Returns the number of findings of a block.
    pub(crate) fn count_findings(&self, block: u32) -> u32 {
        let mut count = 0;
        if let Some(function) = self.functions().ascendExtFindings {
            // SAFETY: the out parameter is a live local. A refusal leaves it alone.
            unsafe { function(block, &mut count) };
        }
        count
    }

    /// Returns one of the findings.
    pub(crate) fn finding(&self, block: u32, index: u32) -> Option<Finding> {
        use ascend_sys::AscendExtFindingForm as Form;
        let function = self.functions().ascendExtFinding?;
        let told = |form: Form| {
            let mut length = 0;
            // SAFETY: no text is asked for; the out parameter is a live local.
            let code =
                unsafe { function(block, index, form, std::ptr::null_mut(), 0, &mut length) };
            let mut text = vec![0_u8; (code == 0).then(|| length.checked_add(1)).flatten()?];
            // SAFETY: the text is as long as the call is told.
            let code = unsafe {
                function(block, index, form, text.as_mut_ptr().cast(), text.len(), &mut length)
            };
            let text = CStr::from_bytes_until_nul(&text).ok()?;
            (code == 0).then(|| text.to_string_lossy().into())
        };
        let text = told(Form::ASCEND_EXT_FINDING_TEXT)?;
        let picture = told(Form::ASCEND_EXT_FINDING_SVG)?;
        Some(Finding { text, picture })
    }

    /// Begins or ends recording what the kernels of a block do.
    pub(crate) fn record_timeline(&self, block: u32, on: bool) -> Result<()> {
        // A recording begins only if it can be read later.
        if self.functions().ascendExtTimeline.is_none() {
            return Err(self.missing("ascendExtTimeline"));
        }
        // SAFETY: takes numbers only.
        unsafe { call!(self, ascendExtTimelineRecord, block, on.into()) }
    }

    /// Returns the recorded timeline.
    pub(crate) fn timeline(
        &self,
        block: u32,
        form: ascend_sys::AscendExtTimelineForm,
    ) -> Result<Box<str>> {
        let mut length = 0;
        // SAFETY: no text is asked for; the out parameter is a live local.
        unsafe {
            call!(self, ascendExtTimeline, block, form, std::ptr::null_mut(), 0, &mut length)
        }?;
        let mut text = vec![0_u8; length.saturating_add(1)];
        let room = text.len();
        // SAFETY: the text is as long as the call is told.
        unsafe {
            let text = text.as_mut_ptr().cast();
            call!(self, ascendExtTimeline, block, form, text, room, &mut length)
        }?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(room);
        Ok(String::from_utf8_lossy(&text[..end]).into())
    }

    /// Tells the backend that the host itself touches pinned memory.
    pub(crate) fn host_touches(&self, start: *const c_void, bytes: usize, write: bool) {
        if let Some(function) = self.functions().ascendExtHostAccess {
            // SAFETY: the backend takes the address as a number.
            unsafe { function(start, bytes, write.into()) };
        }
    }

    pub(crate) fn destroy_block(&self, block: u32) -> Result<()> {
        // SAFETY: takes a number; everything that was made in the block becomes a stale handle,
        // which the backend checks.
        unsafe { call!(self, ascendExtBlockDestroy, block) }
    }
}

/// The length of the array for a text of the backend.
const ROOM: usize = 2048;

/// Returns the text that is written there, if any.
fn said(text: &[c_char]) -> Option<Box<str>> {
    Some(words(text)).filter(|text| !text.is_empty())
}

/// Tells the backend, where it wants to know, that a thread waits for another one: so it can prove
/// deadlocks.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ThreadWaits(Option<unsafe extern "C" fn(u32) -> ascend_sys::aclError>);

/// A wait of the calling thread for another one, until this is dropped.
pub(crate) struct ThreadWait {
    waits: ThreadWaits,
    patience: Duration,
}

impl ThreadWaits {
    /// Begins a wait of this much time in all.
    pub(crate) fn begin(self, patience: Duration) -> ThreadWait {
        ThreadWait { waits: self, patience }
    }

    fn say(self, patience_ms: u32) {
        if let Some(function) = self.0 {
            // SAFETY: a call with a number, which cannot fail.
            let _ = unsafe { function(patience_ms) };
        }
    }
}

impl ThreadWait {
    /// Pauses the wait, since the thread goes on for a while.
    pub(crate) fn pause(&self) {
        self.waits.say(0);
    }

    /// Tells that the thread has just found that it has to wait.
    pub(crate) fn look(&self) {
        self.waits.say(milliseconds(self.patience).unsigned_abs());
    }
}

impl Drop for ThreadWait {
    fn drop(&mut self) {
        self.waits.say(0);
    }
}
