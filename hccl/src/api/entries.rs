//! The optional entries of the table (`ascendExt*`). Each function here checks whether the table
//! has its entry. The header `ascend/ascend_ext.h` describes the entries.

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

/// The progress line of a stream: counters in shared memory that the backend writes.
#[derive(Clone, Copy)]
pub(crate) struct Progress(*const AscendExtProgress);

// SAFETY: the line stays mapped for the life of the process and is only read through atomics.
unsafe impl Send for Progress {}
// SAFETY: as above.
unsafe impl Sync for Progress {}

impl Progress {
    /// Returns the address of the line as a number that identifies the line.
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    /// Returns the ticket of the last task that entered the stream.
    #[inline]
    pub(crate) fn submitted(self) -> u64 {
        // SAFETY: the line is mapped, aligned, and written with atomic stores only.
        unsafe { AtomicU64::from_ptr((&raw const (*self.0).submitted).cast_mut()) }.load(Acquire)
    }

    /// Returns the highest completed ticket. All tasks up to this ticket have ended and no longer
    /// touch memory.
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
    /// Returns the stream's progress line. Returns `None` if the backend has no line for the
    /// stream, or if it lacks one of the other entries that `hccl` needs to use the line.
    pub(crate) fn progress(&self, stream: &StreamHandle) -> Option<Progress> {
        // Without these entries it would be impossible to find out which operation failed, or to
        // wait for one operation.
        self.functions().ascendExtStreamFailure?;
        self.functions().ascendExtAwaitTask?;
        let function = self.functions().ascendExtStreamProgress?;
        let mut line = std::ptr::null();
        // SAFETY: the handle is alive, and the out parameter is a live local.
        let code = unsafe { function(stream.raw(), &mut line) };
        (code == 0 && !line.is_null()).then_some(Progress(line))
    }

    /// Returns the code and the text of the failure of the task with this ticket. Returns `None` if
    /// the task did not fail, or if the backend does not know the failure any more or does not have
    /// this entry.
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

    /// Blocks until the task with this ticket is complete, but not longer than `limit`. `patience`
    /// is the time that the caller will wait in total, over several calls. Returns `true` if
    /// `limit` was reached.
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

    /// Returns the ranks for which one of the tasks with these tickets waits. The list is empty if
    /// no such task waits for ranks, or if the backend cannot report them.
    pub(crate) fn task_peers(
        &self,
        stream: &StreamHandle,
        tickets: RangeInclusive<u64>,
    ) -> Vec<u32> {
        let (first, last) = tickets.into_inner();
        let Some(function) = self.functions().ascendExtTaskPeers else { return Vec::new() };
        let (mut ranks, mut count) = (vec![0; MOST_RANKS as usize], 0);
        // SAFETY: the handle is alive; the out parameters are live locals, and the length is that
        // of the list.
        let code = unsafe {
            function(stream.raw(), first, last, ranks.as_mut_ptr(), ranks.len(), &mut count)
        };
        ranks.truncate(if code == 0 { count } else { 0 });
        ranks
    }

    /// Notifies the peers of a communicator that this rank issues no more operations, if the
    /// backend has this entry. The handle may be stale.
    pub(crate) fn leave(&self, comm: HcclComm, reason: &CStr) {
        if let Some(function) = self.functions().ascendExtCommLeave {
            // SAFETY: a stale handle is an error; the text is live for the call.
            let code = unsafe { function(comm, reason.as_ptr()) };
            self.forget_refusal(code);
        }
    }

    /// Aborts a communicator on all ranks, if the backend has this entry. The handle may be stale.
    pub(crate) fn abort(&self, comm: HcclComm) {
        if let Some(function) = self.functions().ascendExtCommAbort {
            // SAFETY: a stale handle is an error.
            let code = unsafe { function(comm) };
            self.forget_refusal(code);
        }
    }

    /// Sets the title of a communicator, which the backend shows in its texts. Does nothing if the
    /// backend does not have this entry.
    pub(crate) fn title(&self, comm: HcclComm, title: &str) {
        if let (Some(function), Ok(title)) =
            (self.functions().ascendExtCommTitle, std::ffi::CString::new(title))
        {
            // SAFETY: a stale handle is an error; the text is live for the call.
            let code = unsafe { function(comm, title.as_ptr()) };
            self.forget_refusal(code);
        }
    }

    /// Makes operations without elements take a number on this communicator, if the backend has
    /// this entry. Otherwise they take no number, as in CANN. Then it is not detected if only one
    /// rank issues an operation without elements.
    pub(crate) fn number_zeros(&self, comm: HcclComm) {
        if let Some(function) = self.functions().ascendExtCommNumbersZeros {
            // SAFETY: a stale handle is an error.
            let code = unsafe { function(comm) };
            self.forget_refusal(code);
        }
    }

    /// Discards the backend's message if a call failed, for example because the handle was stale.
    /// The message must not appear in the text of a later error.
    fn forget_refusal(&self, code: HcclResult) {
        if code != HcclResult::HCCL_SUCCESS {
            drop(self.recent_message());
        }
    }

    /// Returns the handle by which threads report to the backend that they wait for other threads.
    pub(crate) fn thread_waits(&self) -> ThreadWaits {
        ThreadWaits(self.functions().ascendExtThreadWaits)
    }

    /// Returns the error of one call of the last group of this thread, if the call failed and the
    /// backend reports it. Calls are numbered from 0.
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

    /// Returns whether [`await_activity`](Self::await_activity) can be called.
    pub(crate) fn has_await_activity(&self) -> bool {
        self.functions().ascendExtAwaitActivity.is_some()
    }

    /// Blocks until a task of any stream completes after `activity` was read, but not longer than
    /// `limit`. Then stores the new counter in `activity`, which is 0 at first.
    pub(crate) fn await_activity(&self, activity: &mut u64, limit: Duration) -> Result<()> {
        let limit = milliseconds(limit).unsigned_abs();
        // SAFETY: the parameter is live. The call reads and writes it.
        unsafe { call!(self, ascendExtAwaitActivity, activity, limit) }
    }

    /// Creates a block of new devices. Returns the number of the block and the id of its first
    /// device.
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

    /// Clears the faults of a device of a block.
    #[cfg(feature = "emulator")]
    pub(crate) fn clear_faults(&self, block: u32, device: u32) -> Result<()> {
        // SAFETY: the call takes only numbers.
        unsafe { call!(self, ascendExtFaultClear, block, device) }
    }

    /// Returns the number of findings of a block.
    pub(crate) fn count_findings(&self, block: u32) -> u32 {
        let mut count = 0;
        if let Some(function) = self.functions().ascendExtFindings {
            // SAFETY: the out parameter is a live local. A call that fails does not change it.
            unsafe { function(block, &mut count) };
        }
        count
    }

    /// Returns finding `index` of a block, if there is one.
    pub(crate) fn finding(&self, block: u32, index: u32) -> Option<Finding> {
        use ascend_sys::AscendExtFindingForm as Form;
        let function = self.functions().ascendExtFinding?;
        let told = |form: Form| {
            let mut length = 0;
            // SAFETY: the text is null with length 0; the out parameter is a live local.
            let code =
                unsafe { function(block, index, form, std::ptr::null_mut(), 0, &mut length) };
            let mut text = vec![0_u8; (code == 0).then(|| length.checked_add(1)).flatten()?];
            // SAFETY: the text has the length that is passed.
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

    /// Begins or ends recording the timeline of the kernels of a block.
    pub(crate) fn record_timeline(&self, block: u32, on: bool) -> Result<()> {
        // A recording begins only if the backend can return it later.
        if self.functions().ascendExtTimeline.is_none() {
            return Err(self.missing("ascendExtTimeline"));
        }
        // SAFETY: the call takes only numbers.
        unsafe { call!(self, ascendExtTimelineRecord, block, on.into()) }
    }

    /// Returns the recorded timeline of a block as text, in the given form.
    pub(crate) fn timeline(
        &self,
        block: u32,
        form: ascend_sys::AscendExtTimelineForm,
    ) -> Result<Box<str>> {
        let mut length = 0;
        // SAFETY: the text is null with length 0; the out parameter is a live local.
        unsafe {
            call!(self, ascendExtTimeline, block, form, std::ptr::null_mut(), 0, &mut length)
        }?;
        let mut text = vec![0_u8; length.saturating_add(1)];
        let room = text.len();
        // SAFETY: the text has the length that is passed.
        unsafe {
            let text = text.as_mut_ptr().cast();
            call!(self, ascendExtTimeline, block, form, text, room, &mut length)
        }?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(room);
        Ok(String::from_utf8_lossy(&text[..end]).into())
    }

    /// Reports to the backend that the host itself reads or writes pinned memory.
    pub(crate) fn host_touches(&self, start: *const c_void, bytes: usize, write: bool) {
        if let Some(function) = self.functions().ascendExtHostAccess {
            // SAFETY: the backend takes the address as a number.
            unsafe { function(start, bytes, write.into()) };
        }
    }

    /// Destroys a block. All handles of objects in the block become stale.
    pub(crate) fn destroy_block(&self, block: u32) -> Result<()> {
        // SAFETY: takes a number. The handles of the block become stale, and the backend checks for
        // stale handles.
        unsafe { call!(self, ascendExtBlockDestroy, block) }
    }
}

/// The length of the array for a text of the backend, in bytes.
const ROOM: usize = 2048;

/// Returns the text that the backend has written into the array, or `None` if it is empty.
fn said(text: &[c_char]) -> Option<Box<str>> {
    Some(words(text)).filter(|text| !text.is_empty())
}

/// The entry by which threads report to the backend that they wait for other threads. The backend
/// needs these reports to prove deadlocks. If the backend does not have the entry, nothing is
/// reported.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ThreadWaits(Option<unsafe extern "C" fn(u32) -> ascend_sys::aclError>);

/// A wait of the calling thread for another thread. Dropping it ends the wait.
pub(crate) struct ThreadWait {
    waits: ThreadWaits,
    patience: Duration,
}

impl ThreadWaits {
    /// Begins a wait that lasts for at most `patience` in total.
    pub(crate) fn begin(self, patience: Duration) -> ThreadWait {
        ThreadWait { waits: self, patience }
    }

    /// Reports a wait of `patience_ms` milliseconds in total. 0 reports that the thread runs.
    fn say(self, patience_ms: u32) {
        if let Some(function) = self.0 {
            // SAFETY: the call takes only a number, and cannot fail.
            let _ = unsafe { function(patience_ms) };
        }
    }
}

impl ThreadWait {
    /// Reports that the thread runs for a while, which pauses the wait.
    pub(crate) fn pause(&self) {
        self.waits.say(0);
    }

    /// Reports that the thread has just found that it still has to wait.
    pub(crate) fn look(&self) {
        self.waits.say(milliseconds(self.patience).unsigned_abs());
    }
}

impl Drop for ThreadWait {
    fn drop(&mut self) {
        self.waits.say(0);
    }
}
