//! Graphs that are built: a program binds streams to a graph, and the operations on these streams
//! become its nodes.
//!
//! A bound stream behaves like a captured one of mode RELAXED. Each bound stream is a branch;
//! branch 0 is the stream that was bound first. A branch waits for another branch only if the
//! program uses events for that. But no branch begins before the graph is executed: node 0 is a
//! record at the beginning of branch 0, for which the other branches wait.

use super::graph::{self, GraphState, Node, NodeAction};
use super::recording::{CaptureRecording, CapturedStream, forget, is_free};
use super::{Active, Mode, add_active};
use crate::context;
use crate::machine;
use crate::message::{Failure, fail};
use crate::stream::Stream;
use ascend_sys::{
    ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, ACL_ERROR_RT_STREAM_CONTEXT,
    ACL_ERROR_STREAM_TASK_GROUP_STATUS,
};
use std::sync::atomic::Ordering;

/// The node at which every branch begins.
const BEGIN: usize = 0;

/// `aclmdlRIBuildBegin`: makes a graph of the current context, to which no stream is bound.
pub(crate) fn begin() -> Result<u64, Failure> {
    let (current, device) = context::current_device()?;
    let mode = Mode::Relaxed;
    let handle =
        graph::create(current.context, device.id, CaptureRecording::new(true, mode, Vec::new()))?;
    graph::with(handle, |state| {
        state.nodes.push(node(0, NodeAction::Record(0)));
        Ok(())
    })?;
    let (context, device, thread) = (current.context, device.id, std::thread::current().id());
    add_active(Active { graph: handle, context, device, mode, thread });
    Ok(handle)
}

fn node(branch: usize, step: NodeAction) -> Node {
    Node { branch, step, held: Vec::new() }
}

/// Calls `use_it` with a graph that is being built.
fn building<R>(
    handle: u64,
    use_it: impl FnOnce(&mut GraphState) -> Result<R, Failure>,
) -> Result<R, Failure> {
    graph::with(handle, |state| match &state.recording {
        Some(recording) if recording.is_built => use_it(state),
        _ => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "the graph is not being built; pass a graph of aclmdlRIBuildBegin, before the call of \
             aclmdlRIBuildEnd"
        ),
    })
}

/// `aclmdlRIBindStream`: binds a stream to a graph.
pub(crate) fn bind(handle: u64, stream: &'static Stream) -> Result<(), Failure> {
    building(handle, |state| {
        if context::is_default(stream) {
            return fail!(
                ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
                "the default stream cannot be bound to a graph; use a stream of aclrtCreateStream"
            );
        }
        if state.device != stream.device_id() {
            return fail!(
                ACL_ERROR_RT_STREAM_CONTEXT,
                "the graph is built on device {}, but {} is on another device; use a stream of the \
                 graph's device",
                machine::named(state.device),
                stream.describe()
            );
        }
        is_free(stream)?;
        let Some(recording) = &mut state.recording else { return Ok(()) };
        let diverted = &stream.diverted;
        if diverted.compare_exchange(0, handle, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return is_free(stream);
        }
        let mut known = recording.tracks.iter_mut();
        if let Some(track) = known.find(|track| std::ptr::eq(track.stream, stream)) {
            // The stream was unbound before, and now goes on.
            track.has_ended = false;
            return Ok(());
        }
        let branch = recording.tracks.len();
        recording.tracks.push(CapturedStream::new(stream));
        state.branches = branch + 1;
        if branch > 0 {
            state.nodes.push(node(branch, NodeAction::Wait(BEGIN, 0)));
        }
        Ok(())
    })
}

/// `aclmdlRIEndTask`: ends a stream in the graph, so that it records nothing more.
pub(crate) fn end_stream(handle: u64, stream: &'static Stream) -> Result<(), Failure> {
    building(handle, |state| {
        let track = track_of(state, handle, stream)?;
        if track.has_ended {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "{} has already ended in the graph; call aclmdlRIEndTask only once for it",
                stream.describe()
            );
        }
        track.has_ended = true;
        Ok(())
    })
}

/// Returns the track of a stream that is bound now.
fn track_of<'a>(
    state: &'a mut GraphState,
    handle: u64,
    stream: &'static Stream,
) -> Result<&'a mut CapturedStream, Failure> {
    let is_bound = stream.diverted.load(Ordering::Acquire) == handle;
    let tracks = state.recording.as_mut().map(|recording| &mut recording.tracks);
    let mut tracks = tracks.into_iter().flatten();
    match tracks.find(|track| is_bound && std::ptr::eq(track.stream, stream)) {
        Some(track) => Ok(track),
        None => Err(not_bound(stream)),
    }
}

fn not_bound(stream: &'static Stream) -> Failure {
    let text = format!("{} is not bound to the graph; pass a bound stream", stream.describe());
    Failure::new(ACL_ERROR_RT_PARAM_INVALID, text)
}

/// `aclmdlRIUnbindStream`: unbinds a stream. Its earlier operations stay in the graph.
pub(crate) fn unbind(handle: u64, stream: &'static Stream) -> Result<(), Failure> {
    graph::with(handle, |state| {
        if state.recording.is_some() {
            let track = track_of(state, handle, stream)?;
            is_closed(track)?;
            track.has_ended = true;
            stream.diverted.store(0, Ordering::Release);
            return Ok(());
        }
        let before = state.bound.len();
        state.bound.retain(|bound| *bound != stream.handle());
        if state.bound.len() == before { Err(not_bound(stream)) } else { Ok(()) }
    })
}

/// Checks that a stream has no open task group.
fn is_closed(track: &CapturedStream) -> Result<(), Failure> {
    match track.group {
        None => Ok(()),
        Some(_) => fail!(
            ACL_ERROR_STREAM_TASK_GROUP_STATUS,
            "a task group of {} is open; call aclmdlRICaptureTaskGrpEnd first",
            track.stream.describe()
        ),
    }
}

/// `aclmdlRIBuildEnd`: ends the building of a graph. The graph can then be executed, and the
/// streams run their operations again.
pub(crate) fn end(handle: u64) -> Result<(), Failure> {
    building(handle, |state| {
        let Some(recording) = &state.recording else { return Ok(()) };
        if recording.tracks.is_empty() {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "no stream was bound to the graph; bind one with aclmdlRIBindStream"
            );
        }
        recording.tracks.iter().try_for_each(is_closed)?;
        let streams = recording.tracks.iter().map(|track| track.stream);
        let bound = |stream: &&Stream| stream.diverted.load(Ordering::Acquire) == handle;
        state.bound = streams.filter(bound).map(Stream::handle).collect();
        Ok(())
    })?;
    forget(handle);
    Ok(())
}
