//! The recording of one operation: the copies before and after it, issued or captured.

#![forbid(unsafe_code)]

use std::sync::Arc;

use super::member::{MemberRecord, RecordedBytes, copy};
use super::replay::{CapturedOp, Snapshot};
use crate::device::{Stream, StreamState};
use crate::dtype::DType;
use crate::error::Result;
use crate::memory::allocation::Region;
use crate::order::issue::Operation;
use crate::order::label::{Label, Takes};

/// The copy of an operation's input, taken before the operation is issued or captured.
pub(crate) enum RecordedOp {
    Issued { at: u64, given: Option<RecordedBytes> },
    Captured { given: Option<Snapshot> },
}

/// The name of an operation that is recorded.
pub(crate) struct RecordedName<'a> {
    pub(crate) label: &'a Arc<Label>,
    /// The name without the communicator and the number.
    pub(crate) operation: String,
    pub(crate) sequence: u64,
    /// The numbers that the operation takes.
    pub(crate) takes: Takes<'a>,
    pub(crate) dtype: DType,
}

impl MemberRecord {
    /// Begins to copy the input of an operation that is about to be issued or captured. Returns
    /// `None` if the operation is left out of the record. The error is that of the copy.
    #[cold]
    pub(crate) fn before<S: StreamState>(
        &self,
        given: Option<Region<'_>>,
        stream: &Stream<S>,
    ) -> Result<Option<RecordedOp>> {
        if self.is_left_out() {
            return Ok(None);
        }
        Ok(Some(match S::open(stream) {
            Some(stream) => {
                let at = self.records.number();
                RecordedOp::Issued { at, given: copy(given, stream)? }
            }
            None => RecordedOp::Captured { given: Snapshot::capture(given, stream)? },
        }))
    }

    /// Begins to copy the output of an operation that has been issued or captured. If there is no
    /// memory for the copy, or if CANN rejects it, the operation gets no line, and
    /// [`finish`](super::RunRecording::finish) returns that error. Any other error is an error of
    /// the stream.
    #[cold]
    pub(crate) fn after<S: StreamState>(
        self: &Arc<Self>,
        recorded: RecordedOp,
        name: RecordedName<'_>,
        got: Option<Region<'_>>,
        stream: &Stream<S>,
    ) -> Result<()> {
        let RecordedName { label, operation, sequence, takes, dtype } = name;
        match recorded {
            RecordedOp::Issued { at, given } => {
                let Some(stream) = S::open(stream) else { return Ok(()) };
                let title = format!("{} {operation} {sequence}", label.communicator);
                if let Some(got) = self.unless_full(&title, copy(got, stream))? {
                    self.write(at, title, dtype, given, got);
                }
            }
            RecordedOp::Captured { given } => {
                let got = self.unless_full(&operation, Snapshot::capture(got, stream))?;
                let Some(got) = got else { return Ok(()) };
                let copies = u64::from(given.is_some()) + u64::from(got.is_some());
                let (record, of_graph, kind) = (self.clone(), label.clone(), takes.without_items());
                let communicator = Some((label, sequence));
                let captured = Operation { name: "record", communicator, takes };
                S::at_replay(stream, captured, copies, |earlier| {
                    Box::new(CapturedOp {
                        record,
                        label: of_graph,
                        operation,
                        takes: kind,
                        earlier,
                        dtype,
                        given,
                        got,
                    })
                });
            }
        }
        Ok(())
    }
}
