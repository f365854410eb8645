//! Issuing the operations that the checks have described.

use super::op::CollectiveOp;
use super::partition::{BUFFER, DESTINATION, SOURCE};
use crate::comm::Member;
use crate::device::{Stream, StreamState};
use crate::error::Result;
use crate::order::issue::{Slip, Touch};
use crate::record::operation::RecordedOp;

impl Member {
    /// Issues an operation within its span, counts it unless the stream captures, and records it if
    /// the run is recorded. If the checks of the operation have failed, returns their error
    /// instead.
    #[inline(always)]
    pub(super) fn issue<S: StreamState>(
        &mut self,
        operation: CollectiveOp<'_>,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let takes = operation.takes();
        let sequence = self.next(takes);
        let _span = operation.span(self, sequence);
        let [source, destination] =
            if operation.in_place { [BUFFER; 2] } else { [SOURCE, DESTINATION] };
        let touches: &[Touch<'_>] = match (&operation.reads, &operation.writes) {
            (Some(from), Some(to)) => &[self.touch(), from.read(source), to.write(destination)],
            (Some(from), None) => &[self.touch(), from.read(source)],
            (None, Some(to)) => &[self.touch(), to.write(destination)],
            (None, None) => &[self.touch()],
        };
        let recorded = match &self.record {
            None => None,
            Some(_) => self.record_before(&operation, sequence, stream)?,
        };
        let slip = Slip::default();
        self.issue_touching(touches, &operation, sequence, stream, &slip)?;
        if S::RUNS {
            self.count(takes);
        }
        let work = slip.work(stream, operation.name());
        if let Some(recorded) = recorded {
            self.record_after(recorded, &operation, sequence, stream)?;
        }
        Ok(work)
    }

    #[cold]
    fn record_before<S: StreamState>(
        &self,
        operation: &CollectiveOp<'_>,
        sequence: u64,
        stream: &Stream<S>,
    ) -> Result<Option<RecordedOp>> {
        let Some(record) = &self.record else { return Ok(None) };
        // An operation whose checks have failed is not issued, so it is not recorded.
        if operation.checked.is_err() {
            return Ok(None);
        }
        let recorded = record.before(operation.given(), stream);
        recorded.map_err(|error| self.explain(operation.name(), sequence, error))
    }

    #[cold]
    fn record_after<S: StreamState>(
        &self,
        recorded: RecordedOp,
        operation: &CollectiveOp<'_>,
        sequence: u64,
        stream: &Stream<S>,
    ) -> Result<()> {
        let Some(record) = &self.record else { return Ok(()) };
        let name = operation.recorded_as(&self.label, sequence);
        let done = record.after(recorded, name, operation.got(self.label.rank), stream);
        done.map_err(|error| self.explain(operation.name(), sequence, error))
    }

    /// Issues an operation. `touches` names the communicator and the buffers of the operation.
    #[inline(never)]
    fn issue_touching<S: StreamState>(
        &self,
        touches: &[Touch<'_>],
        operation: &CollectiveOp<'_>,
        sequence: u64,
        stream: &Stream<S>,
        slip: &Slip,
    ) -> Result<()> {
        let name = operation.name();
        if let Err(error) = &operation.checked {
            return Err(self.explain(name, sequence, error.clone()));
        }
        let takes = operation.takes();
        let call = self.operation(name, sequence, takes);
        let issued = if self.is_linked::<S>(takes) {
            S::issue(stream, call, touches, |raw| {
                let comm = self.enter(stream)?;
                // SAFETY: the handles are live, and the checks have found no error. `touches` names
                // the buffers, so they stay allocated and unused by other operations until this one
                // is complete.
                unsafe { operation.enqueue(self.device.table(), comm, raw) }
            })
        } else {
            let operation = operation.detach();
            self.issue_by_helper(stream, call, takes.into(), touches, move |table, comm, stream| {
                // SAFETY: as above.
                unsafe { operation.enqueue(table, comm, stream.raw()) }
            })
        };
        slip.put(issued.map_err(|error| self.explain(name, sequence, error))?);
        Ok(())
    }
}
