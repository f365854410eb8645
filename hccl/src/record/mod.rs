//! A record of the data that the operations of a run read and write. Use it to find the first
//! difference between two runs that should give the same bits. To watch a run, use
//! [`trace`](crate::trace) instead.
//!
//! [`Runtime::record_run`] turns recording on for the communicators that are made afterwards. Each
//! rank of a communicator has a file, in which each operation has a line. The line has the name and
//! the number of the operation, and the checksums of its input and its output on this rank. The
//! command `hccl-compare-runs A B` names the first operation in which two records differ, and says
//! whether its input or its output differs. If the runs are recorded once more with that operation
//! [whole](RunRecord::whole), the command also names the element and both values.
//!
//! ```
//! use hccl::prelude::*;
//! use hccl::record::RunRecord;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::emulator(2)?;
//! let directory = std::env::temp_dir().join(format!("hccl-record-{}", std::process::id()));
//! let recording = runtime.record_run(RunRecord::new(&directory))?;
//! runtime.run_ranks(2, |rank| {
//!     let stream = rank.device().stream()?;
//!     let mut x = rank.device().upload(&[1.0f32; 8], &stream)?;
//!     rank.communicator()?.all_reduce_in_place(&mut x, Sum, &stream)?.wait()
//! })?;
//! recording.finish()?;
//! assert_eq!(std::fs::read_dir(&directory)?.count(), 2);
//! # std::fs::remove_dir_all(directory)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Recorded operations
//!
//! * Collectives and messages that a communicator issues on a stream or in a
//!   [group](crate::group()), and [custom operators](crate::Communicator::run).
//! * Each message of a [batch](crate::batch): `world batch send to 3 5` is the message to rank 3 in
//!   the fifth batch.
//! * Each tensor of a kernel that is launched with a communicator, for example
//!   `world kernel gelu x 2`: inputs before the launch, and outputs after it. If a kernel also
//!   reads an output, a difference in the earlier contents of this tensor is reported as a
//!   difference of the output. If a launch has several communicators, its lines are in the file of
//!   the first communicator. Pausing the record of the first communicator leaves out the whole
//!   launch. Each communicator counts its launches separately.
//!
//! * Each of these operations in a [graph](crate::Graph), at each replay, with the number that it
//!   takes at this replay. So a run that replays a step has the same lines as a run that issues the
//!   step again. An operation is left out if the record was paused when the operation was captured,
//!   or if it is paused at the replay.
//!
//! Kernels without a communicator, copies and fills are not recorded, because they belong to no
//! communicator. A difference that they cause appears in the next recorded operation that reads
//! their output. Use [`Communicator::set_recorded`](crate::Communicator::set_recorded) to leave out
//! data that differs in every run, for example times.
//!
//! # Cost
//!
//! When recording is off, it costs one or two comparisons for each operation. When it is on, each
//! operation adds two copies to its stream: of the memory that it reads, and of the memory that it
//! writes. The copies go to pinned memory of the host, which is in use until a thread of the
//! communicator has read the copies once and written a line. Operations do not wait for that
//! thread. A program that spends most of its time in operations takes several times as long.
//!
//! A graph needs additional device memory, for copies of all memory that its recorded operations
//! read and write, because later operations of the graph may overwrite the originals.
//! [`Graph::len`](crate::Graph::len) does not count these copies.

#![forbid(unsafe_code)]

pub(crate) mod member;
pub(crate) mod operation;
pub(crate) mod records;
mod replay;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::runtime::Runtime;
use crate::sync::lock;
use records::Records;

const RECORD_RUN: &str = "record_run";

/// The directory in which a run is recorded, and the options of the record.
///
/// ```
/// use hccl::record::RunRecord;
///
/// let first = RunRecord::new("records/first");
/// // Records the run again, with all bytes of the operation that `hccl-compare-runs` has named.
/// let again = RunRecord::new("records/again").whole("world all_reduce 17");
/// ```
#[derive(Clone, Debug)]
pub struct RunRecord {
    directory: PathBuf,
    whole: Option<String>,
}

impl RunRecord {
    /// Returns the settings of a record in this directory. [`record_run`](Runtime::record_run)
    /// makes the directory if it does not exist. The directory must not contain the record of an
    /// earlier run.
    pub fn new(directory: impl AsRef<Path>) -> Self {
        RunRecord { directory: directory.as_ref().to_owned(), whole: None }
    }

    /// Also records all bytes of one operation, on every rank. `operation` is the name that
    /// `hccl-compare-runs` prints, for example `world all_reduce 17` or `world recv from 3 5`.
    pub fn whole(self, operation: impl Into<String>) -> Self {
        RunRecord { whole: Some(operation.into()), ..self }
    }
}

/// A run that is being recorded. [`finish`](Self::finish) ends the record. If this handle is
/// dropped instead, the record continues until the runtime is freed, and the runtime cannot begin
/// another record.
///
/// ```
/// use hccl::record::{RunRecord, RunRecording};
///
/// # let directory = std::env::temp_dir().join(format!("hccl-recording-{}", std::process::id()));
/// # let runtime = hccl::Runtime::emulator(1)?;
/// let recording: RunRecording = runtime.record_run(RunRecord::new(&directory))?;
/// // ... the run ...
/// recording.finish()?; // now all lines are in the files
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the last lines may be missing unless the recording is finished"]
pub struct RunRecording {
    records: Arc<Records>,
    runtime: Runtime,
}

impl Runtime {
    /// Records the operations of all communicators that are made from now on. See [`record`](self).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the directory cannot be made, or if the runtime already records a run.
    /// If the directory has a record already, that record is not overwritten, and
    /// [`finish`](RunRecording::finish) returns an error.
    pub fn record_run(&self, record: RunRecord) -> Result<RunRecording> {
        let RunRecord { directory, whole } = record;
        std::fs::create_dir_all(&directory).map_err(|error| {
            invalid(format!("{}: {error}; use another path", directory.display()))
        })?;
        let records = Arc::new(Records::new(directory, whole));
        let mut current = lock(&self.shared().records);
        if current.as_ref().is_some_and(|current| !current.is_finished()) {
            return Err(invalid(
                "the runtime already records a run: finish that record first".into(),
            ));
        }
        *current = Some(Arc::clone(&records));
        drop(current);
        Ok(RunRecording { records, runtime: self.clone() })
    }
}

impl RunRecording {
    /// Ends the record. Blocks until all recorded operations are in its files, for at most the
    /// runtime's deadline. Meanwhile other threads must not be in a call that issues an operation.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if a file could not be written, or if an operation could not be recorded
    /// after it was issued. [`Error::Timeout`] if an operation is not complete by the deadline.
    pub fn finish(self) -> Result<()> {
        match self.records.finish(self.runtime.deadline()) {
            None => {
                let what = "an operation that is recorded".into();
                let after = self.runtime.deadline();
                Err(Error::Timeout { what, after, message: None, context: None })
            }
            Some(problem) => problem.map_or(Ok(()), |problem| Err(invalid(problem))),
        }
    }
}

fn invalid(problem: String) -> Error {
    Error::Invalid { operation: RECORD_RUN, problem: problem.into() }
}
