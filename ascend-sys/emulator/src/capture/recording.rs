//! The recording of a capture, from its begin to its end: operations on captured streams become
//! nodes.

use super::graph::{self, CapturedCall, CapturedIssue, GraphState, Node, NodeAction};
use super::{Active, Mode, add_active, find_active, group, remove_active};
use crate::context;
use crate::event::Event;
use crate::memory::held::{HeldMemory, hold};
use crate::message::{Failure, fail};
use crate::stream::{Stream, Task};
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_CAPTURE_DEPENDENCY, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
    ACL_ERROR_RT_INTERNAL_ERROR, ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
    ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED,
    ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, ACL_ERROR_RT_STREAM_CAPTURED,
    ACL_ERROR_RT_STREAM_NOT_CAPTURED, ACL_ERROR_RT_STREAM_UNJOINED,
    ACL_ERROR_STREAM_TASK_GROUP_STATUS, ACL_STREAM_CPU_SCHEDULE, ACL_STREAM_DEVICE_USE_ONLY,
    ACL_STREAM_PERSISTENT,
};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::thread::ThreadId;
use std::time::Duration;

/// The state of a capture while it goes on.
pub(super) struct CaptureRecording {
    /// Whether the recording is a graph that is built from bound streams, and not a capture.
    pub(super) is_built: bool,
    mode: Mode,
    thread: ThreadId,
    /// The streams of the branches: the stream that was captured, then those that joined.
    pub(super) tracks: Vec<CapturedStream>,
    /// The nodes that are records for which a stream waits.
    waited: BTreeSet<usize>,
    /// The reason why the recording can no longer become a graph.
    invalid: Option<String>,
}

/// A stream that is captured or bound.
pub(super) struct CapturedStream {
    pub(super) stream: &'static Stream,
    newest: Option<usize>,
    /// Whether later operations of the stream do not belong to the graph. This is possible only for
    /// a graph that is built.
    pub(super) has_ended: bool,
    /// The nodes of the task group that is open.
    pub(super) group: Option<Vec<usize>>,
}

impl CapturedStream {
    pub(super) fn new(stream: &'static Stream) -> CapturedStream {
        CapturedStream { stream, newest: None, has_ended: false, group: None }
    }
}

impl CaptureRecording {
    pub(super) fn new(is_built: bool, mode: Mode, tracks: Vec<CapturedStream>) -> CaptureRecording {
        let thread = std::thread::current().id();
        CaptureRecording { is_built, mode, thread, tracks, waited: BTreeSet::new(), invalid: None }
    }
}

/// The answer of `aclmdlRICaptureGetInfo` for a stream.
pub(crate) enum Status {
    None,
    Active(u64),
    Invalidated,
    /// The stream is bound to a graph that is built.
    Bound,
}

/// `aclmdlRICaptureBegin`: begins to capture a stream.
pub(crate) fn begin(handle: u64, mode: u32) -> Result<(), Failure> {
    if handle == 0 {
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "stream is NULL, and the default stream cannot be captured; use a stream of \
             aclrtCreateStream"
        );
    }
    let mode = Mode::of(mode)?;
    let stream = Stream::of_current_context(handle)?;
    let current = context::current()?;
    if context::default_stream(current)? == stream.handle() {
        return fail!(
            ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
            "the default stream cannot be captured; use a stream of aclrtCreateStream"
        );
    }
    is_free(stream)?;
    let unfit = ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;
    let flags = stream.flags.load(Ordering::Relaxed) & unfit;
    if flags != 0 {
        return fail!(
            ACL_ERROR_RT_INTERNAL_ERROR,
            "{} was created with the flags {flags:#x}, with which a stream cannot be captured; \
             create one without them",
            stream.describe()
        );
    }
    let recording = CaptureRecording::new(false, mode, vec![CapturedStream::new(stream)]);
    let thread = recording.thread;
    let (context, device) = (current.context, stream.device_id());
    let graph = graph::create(context, device, recording)?;
    let taken = stream.diverted.compare_exchange(0, graph, Ordering::AcqRel, Ordering::Acquire);
    if taken.is_err() {
        graph::discard(graph);
        return is_free(stream);
    }
    add_active(Active { graph, context, device, mode, thread });
    Ok(())
}

/// Returns an error for a stream that is captured, or whose tasks go to a task group.
pub(super) fn is_free(stream: &'static Stream) -> Result<(), Failure> {
    if !stream.is_diverted() {
        return Ok(());
    }
    fail!(
        ACL_ERROR_RT_STREAM_CAPTURED,
        "{} is being captured already, or updates a task group; end that first",
        stream.describe()
    )
}

/// `aclmdlRICaptureGetInfo`: returns whether a stream is captured or bound.
pub(crate) fn status(stream: &'static Stream) -> Status {
    let handle = stream.diverted.load(Ordering::Acquire);
    let status = graph::with(handle, |state| {
        Ok(match state.captures(stream) {
            Some((recording, _)) if recording.is_built => Status::Bound,
            Some((recording, _)) if recording.invalid.is_some() => Status::Invalidated,
            Some(_) => Status::Active(handle),
            None => Status::None,
        })
    });
    status.unwrap_or(Status::None)
}

/// Returns an error for a wait, a query or a destroy of a stream that is captured or bound.
#[cold]
pub(super) fn refuse_captured(stream: &'static Stream) -> Result<(), Failure> {
    match status(stream) {
        Status::None => Ok(()),
        Status::Active(_) | Status::Invalidated => fail!(
            ACL_ERROR_RT_STREAM_CAPTURED,
            "{} is being captured: its operations are recorded and do not run; call \
             aclmdlRICaptureEnd first",
            stream.describe()
        ),
        Status::Bound => fail!(
            ACL_ERROR_RT_STREAM_CAPTURED,
            "{} is bound to a graph that is being built: its operations become part of the graph; \
             call aclmdlRIBuildEnd or aclmdlRIUnbindStream first",
            stream.describe()
        ),
    }
}

/// `aclmdlRICaptureEnd`: ends a capture, and returns the complete graph.
pub(crate) fn end(stream: &'static Stream) -> Result<u64, Failure> {
    let handle = stream.diverted.load(Ordering::Acquire);
    let not_captured = || {
        Failure::new(
            ACL_ERROR_RT_STREAM_NOT_CAPTURED,
            format!("{} is not being captured; call aclmdlRICaptureBegin first", stream.describe()),
        )
    };
    let ended = graph::with(handle, |state| {
        let captured = state.captures(stream).filter(|(recording, _)| !recording.is_built);
        let (recording, branch) = captured.ok_or_else(not_captured)?;
        if branch != 0 {
            return fail!(
                ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED,
                "{} has joined the capture of {}; end the capture on that stream",
                stream.describe(),
                recording.tracks[0].stream.describe()
            );
        }
        // From here on, the recording is over, whether or not it becomes a graph.
        Ok(recording.check())
    });
    match ended {
        Ok(Ok(())) => {
            forget(handle);
            Ok(handle)
        }
        Ok(Err(failure)) => {
            forget(handle);
            graph::discard(handle);
            Err(failure)
        }
        Err(failure) if failure.code == ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED => Err(failure),
        Err(_) => Err(not_captured()),
    }
}

impl CaptureRecording {
    /// Checks that the recording can become a graph.
    fn check(&self) -> Result<(), Failure> {
        if self.mode != Mode::Relaxed && self.thread != std::thread::current().id() {
            return fail!(
                ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                "another thread began the capture, so only mode RELAXED would allow this; the \
                 recording is discarded, so capture again, and end the capture in its thread"
            );
        }
        if let Some(why) = &self.invalid {
            return fail!(
                ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                "the capture has become invalid: {why}; begin a new one"
            );
        }
        for CapturedStream { stream, newest, group, .. } in &self.tracks {
            if group.is_some() {
                return fail!(
                    ACL_ERROR_STREAM_TASK_GROUP_STATUS,
                    "a task group of {} is open; call aclmdlRICaptureTaskGrpEnd first",
                    stream.describe()
                );
            }
            if !std::ptr::eq(*stream, self.tracks[0].stream)
                && !newest.is_some_and(|node| self.waited.contains(&node))
            {
                return fail!(
                    ACL_ERROR_RT_STREAM_UNJOINED,
                    "{} has joined the capture and has not come back: its last operation must be \
                     the record of an event for which a stream of the capture waits",
                    stream.describe()
                );
            }
        }
        Ok(())
    }
}

/// Ends the capture of a graph: its streams run their operations again.
pub(super) fn forget(handle: u64) {
    remove_active(handle);
    let _ = graph::with(handle, |state| {
        if let Some(recording) = state.recording.take() {
            for track in recording.tracks {
                let diverted = &track.stream.diverted;
                let _ = diverted.compare_exchange(handle, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
        Ok(())
    });
}

/// Abandons the capture that a stream is part of, because the stream ends.
pub(crate) fn abandon(stream: &'static Stream) {
    let handle = stream.diverted.swap(0, Ordering::AcqRel);
    if handle == 0 {
        return;
    }
    if !group::abandon(stream) {
        forget(handle);
        graph::discard(handle);
    }
}

impl GraphState {
    /// Returns the recording that a stream takes part in, and its branch.
    pub(super) fn captures(
        &mut self,
        stream: &'static Stream,
    ) -> Option<(&mut CaptureRecording, usize)> {
        let recording = self.recording.as_mut()?;
        let branch = recording.tracks.iter().position(|t| std::ptr::eq(t.stream, stream))?;
        Some((recording, branch))
    }

    /// Adds a node.
    fn push(
        &mut self,
        stream: &'static Stream,
        step: NodeAction,
        held: Vec<HeldMemory>,
    ) -> Result<usize, Failure> {
        let node = self.nodes.len();
        let Some((recording, branch)) = self.captures(stream) else {
            return fail!(
                ACL_ERROR_RT_STREAM_NOT_CAPTURED,
                "the capture of {} has just ended; issue operations before aclmdlRICaptureEnd",
                stream.describe()
            );
        };
        if let Some(why) = &recording.invalid {
            return fail!(
                ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                "the capture of {} has become invalid: {why}; begin a new one",
                stream.describe()
            );
        }
        if let NodeAction::Wait(record, _) = step {
            recording.waited.insert(record);
        }
        let track = &mut recording.tracks[branch];
        if track.has_ended {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "{} has ended in the graph being built (aclmdlRIEndTask) and records no more; \
                 issue the operation on another bound stream",
                stream.describe()
            );
        }
        track.newest = Some(node);
        if let Some(group) = &mut track.group {
            group.push(node);
        }
        self.nodes.push(Node { branch, step, held });
        Ok(node)
    }

    /// Invalidates a capture, because an operation was refused that the program believes to be in
    /// it.
    fn invalidate(&mut self, failure: Failure) -> Failure {
        if let Some(recording) = &mut self.recording {
            recording.invalid.get_or_insert_with(|| failure.text.to_string());
        }
        failure
    }
}

/// Records a task on a diverted stream. Returns the newest ticket of the tasks that the stream
/// itself runs.
#[cold]
pub(super) fn divert(stream: &'static Stream, task: Task) -> Result<u64, Failure> {
    if task.again().is_none() {
        let handle = stream.diverted.load(Ordering::Acquire);
        let text =
            format!("this cannot be captured: {}; issue it outside of captures", task.describe());
        let failure = Failure::new(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, text);
        return graph::with(handle, |state| Err(state.invalidate(failure)));
    }
    let held = hold(task.touched()).map_err(gone)?;
    push(stream, NodeAction::Task(task), held)?;
    Ok(stream.queue.submitted())
}

/// Adds a node to the graph of a diverted stream, or replaces a node if a task group is updated.
fn push(
    stream: &'static Stream,
    step: NodeAction,
    held: Vec<HeldMemory>,
) -> Result<usize, Failure> {
    let handle = stream.diverted.load(Ordering::Acquire);
    if group::is_updating(stream) {
        return group::replace(stream, step, held).map(|()| 0);
    }
    graph::with(handle, |state| state.push(stream, step, held))
}

/// Records a call on a diverted stream. `issue` makes the call again, on any stream.
#[cold]
pub(crate) fn record_call(
    stream: &'static Stream,
    name: String,
    touched: &[(*const u8, usize)],
    issue: Box<CapturedIssue>,
) -> Result<(), Failure> {
    let held = hold(touched.iter().copied()).map_err(gone)?;
    push(stream, NodeAction::Call(CapturedCall { name, issue }), held).map(drop)
}

fn gone(text: String) -> Failure {
    Failure::new(ACL_ERROR_RT_PARAM_INVALID, text)
}

/// `aclrtRecordEvent`: records an event, in the graph if the stream is captured.
#[inline]
pub(crate) fn record_event(
    event: &'static Event,
    handle: u64,
    stream: &'static Stream,
) -> Result<(), Failure> {
    if stream.is_diverted() {
        event.same_device(stream)?;
        event.is_for_one_process("recorded in a capture")?;
        return record_in_graph(event, handle, stream);
    }
    event.record(handle, stream)
}

/// Records an event on a diverted stream.
#[cold]
fn record_in_graph(
    event: &'static Event,
    event_handle: u64,
    stream: &'static Stream,
) -> Result<(), Failure> {
    if event.is_external() {
        let issue = move |stream| Event::named(event_handle)?.record(event_handle, stream);
        let name = "record of an external event".to_string();
        return record_call(stream, name, &[], Box::new(issue));
    }
    let handle = stream.diverted.load(Ordering::Acquire);
    let node = push(stream, NodeAction::Record(event_handle), Vec::new())?;
    event.set_captured(handle, node);
    Ok(())
}

/// `aclrtStreamWaitEvent`: makes a stream wait for an event. If the stream is captured, the wait is
/// in the graph. If only the event is from a capture, the stream joins that capture.
#[inline]
pub(crate) fn wait_event(
    event: &'static Event,
    handle: u64,
    stream: &'static Stream,
    limit: Option<Duration>,
) -> Result<(), Failure> {
    event.same_device(stream)?;
    if stream.is_diverted() {
        event.is_for_one_process("waited for in a capture")?;
    }
    if (stream.is_diverted() || event.captured().is_some())
        && wait_in_graph(event, handle, stream, limit)?
    {
        return Ok(());
    }
    event.wait(handle, stream, limit)
}

/// Handles a wait in which the stream or the event belongs to a capture. Returns false if the wait
/// is an ordinary wait.
#[cold]
fn wait_in_graph(
    event: &'static Event,
    event_handle: u64,
    stream: &'static Stream,
    limit: Option<Duration>,
) -> Result<bool, Failure> {
    if event.is_external() {
        if !stream.is_diverted() {
            return Ok(false);
        }
        let issue = move |stream| Event::named(event_handle)?.wait(event_handle, stream, limit);
        let name = "wait for an external event".to_string();
        return record_call(stream, name, &[], Box::new(issue)).map(|()| true);
    }
    let recorded =
        event.captured().filter(|(graph, _)| find_active(|a| a.graph == *graph).is_some());
    let own = stream.diverted.load(Ordering::Acquire);
    let handle = match recorded {
        _ if own != 0 => own,
        Some((graph, _)) => graph,
        None => return Ok(false),
    };
    graph::with(handle, |state| {
        if !event.is_for_captures() {
            return Err(state.invalidate(Failure::new(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "a capture cannot wait for this event; create it with aclrtCreateEventExWithFlag \
                 and ACL_EVENT_SYNC or ACL_EVENT_EXTERNAL",
            )));
        }
        let Some((_, record)) = recorded.filter(|(graph, _)| *graph == handle) else {
            let text = format!(
                "{} is being captured and cannot wait for an event that was not recorded in the \
                 same capture; record it there, or create it with ACL_EVENT_EXTERNAL",
                stream.describe()
            );
            return Err(state.invalidate(Failure::new(ACL_ERROR_RT_CAPTURE_DEPENDENCY, text)));
        };
        if own == 0 {
            state.join(handle, stream)?;
        }
        state.push(stream, NodeAction::Wait(record, event_handle), Vec::new()).map(|_| true)
    })
}

impl GraphState {
    /// Makes a stream part of the capture, because the stream waits for an event of the capture.
    fn join(&mut self, handle: u64, stream: &'static Stream) -> Result<(), Failure> {
        if context::is_default(stream) {
            return fail!(
                ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
                "the event was recorded in a stream that is being captured, and the default stream \
                 cannot join a capture; let a stream of aclrtCreateStream wait"
            );
        }
        let Some(recording) = &mut self.recording else { return Ok(()) };
        if recording.is_built {
            return fail!(
                ACL_ERROR_RT_CAPTURE_DEPENDENCY,
                "the event was recorded in a stream that is bound to a graph being built, and {} \
                 is not; bind it with aclmdlRIBindStream",
                stream.describe()
            );
        }
        is_free(stream)?;
        let diverted = &stream.diverted;
        if diverted.compare_exchange(0, handle, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return is_free(stream);
        }
        recording.tracks.push(CapturedStream::new(stream));
        self.branches = recording.tracks.len();
        Ok(())
    }
}
