//! Graphs as owned handles, with the same invariant as the handles of [streams](super::handles).

use ascend_sys::{aclmdlRI, aclmdlRICaptureMode, aclrtStream};

use super::handles::{StreamHandle, made};
use super::{Table, call};
use crate::error::Result;

/// An owned handle of a graph.
pub(crate) struct GraphHandle(aclmdlRI);

// SAFETY: CANN resolves the handle itself, and accepts it from any thread.
unsafe impl Send for GraphHandle {}
// SAFETY: as above.
unsafe impl Sync for GraphHandle {}

impl Table {
    /// Begins a capture of the stream. The mode is RELAXED: other threads may copy during the
    /// capture, and any thread may end it.
    pub(crate) fn begin_capture(&self, stream: &StreamHandle) -> Result<()> {
        let mode = aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
        // SAFETY: the handle is alive.
        unsafe { call!(self, aclmdlRICaptureBegin, stream.raw(), mode) }
    }

    /// Ends the capture of the stream, and returns the recorded graph.
    pub(crate) fn end_capture(&self, stream: &StreamHandle) -> Result<GraphHandle> {
        let mut graph = std::ptr::null_mut();
        // SAFETY: the handle is alive, and the out parameter is a live local.
        unsafe { call!(self, aclmdlRICaptureEnd, stream.raw(), &mut graph) }?;
        made("aclmdlRICaptureEnd", graph).map(GraphHandle)
    }

    /// Enqueues the recorded operations of the graph.
    ///
    /// # Safety
    /// Everything that the graph uses stays alive, and nothing else uses it, until this execution
    /// is complete. The stream is alive.
    pub(crate) unsafe fn execute_graph(
        &self,
        graph: &GraphHandle,
        stream: aclrtStream,
    ) -> Result<()> {
        // SAFETY: the handle is alive; the rest is the caller's promise.
        unsafe { call!(self, aclmdlRIExecuteAsync, graph.0, stream) }
    }

    /// Destroys the graph. Blocks while the graph runs.
    pub(crate) fn destroy_graph(&self, graph: GraphHandle) -> Result<()> {
        // SAFETY: the handle is moved in, so no other code can use it.
        unsafe { call!(self, aclmdlRIDestroy, graph.0) }
    }
}
