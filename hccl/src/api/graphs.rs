//! Graphs as owned handles, on the same terms as those of [streams](super::handles).

use ascend_sys::{aclmdlRI, aclmdlRICaptureMode, aclrtStream};

use super::handles::{StreamHandle, made};
use super::{Table, call};
use crate::error::Result;

/// A graph.
pub(crate) struct GraphHandle(aclmdlRI);

// SAFETY: the handle is a name that CANN resolves; it takes it from any thread.
unsafe impl Send for GraphHandle {}
// SAFETY: as above.
unsafe impl Sync for GraphHandle {}

impl Table {
    /// Begins a capture of the stream. Mode RELAXED: other threads may copy meanwhile, and any
    /// thread may end it.
    pub(crate) fn begin_capture(&self, stream: &StreamHandle) -> Result<()> {
        let mode = aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
        // SAFETY: the handle is alive.
        unsafe { call!(self, aclmdlRICaptureBegin, stream.raw(), mode) }
    }

    /// Ends the capture of the stream.
    pub(crate) fn end_capture(&self, stream: &StreamHandle) -> Result<GraphHandle> {
        let mut graph = std::ptr::null_mut();
        // SAFETY: the handle is alive, the out parameter a live local.
        unsafe { call!(self, aclmdlRICaptureEnd, stream.raw(), &mut graph) }?;
        made("aclmdlRICaptureEnd", graph).map(GraphHandle)
    }

    /// Enqueues the recorded operations of the graph.
    ///
    /// # Safety
    /// Everything that the graph uses is alive, and stays so, and unused by others, until this
    /// execution is complete. The stream is alive.
    pub(crate) unsafe fn execute_graph(
        &self,
        graph: &GraphHandle,
        stream: aclrtStream,
    ) -> Result<()> {
        // SAFETY: the handle is alive; the rest is the caller's promise.
        unsafe { call!(self, aclmdlRIExecuteAsync, graph.0, stream) }
    }

    /// Destroys the graph. Waits while it runs.
    pub(crate) fn destroy_graph(&self, graph: GraphHandle) -> Result<()> {
        // SAFETY: the handle is moved in, so nobody has it any more.
        unsafe { call!(self, aclmdlRIDestroy, graph.0) }
    }
}
