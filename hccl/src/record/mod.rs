//! A record of the data that the operations of a run read and write. Use it to find where two runs
//! part that should give the same bits. It is not for watching a run, for which there is
//! [`trace`](crate::trace).
//!
//! [`Runtime::record_run`] switches it on for the communicators that are made afterwards. Each of
//! their operations leaves a line in a file of its communicator and rank: its name, its number, and
//! a checksum of what the rank gives to it and of what it gets. The command `hccl-compare-runs A B`
//! names the first operation in which two records differ, and in what goes in or in what comes out.
//! Recorded once more with that operation [whole](RunRecord::whole), it names the element and both
//! values.
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
//! # What is recorded
//!
//! * Collectives and messages that a communicator issues on a stream or in a
//!   [group](crate::group()), and [operators of one's own](crate::Communicator::run).
//! * Each message of a [batch](crate::batch): `world batch send to 3 5` is the one to rank 3 of the
//!   fifth batch.
//! * Each tensor of a kernel that is launched with a communicator, `world kernel gelu x 2`: an
//!   input as it goes in, an output as it comes out. A kernel that also reads an output shows a
//!   difference in its earlier contents as one that comes out. With several communicators the line
//!   is in the file of the first, and a pause of the first leaves the whole launch out. Launches
//!   are counted for each communicator apart.
//!
//! * Each of these operations in a [graph](crate::Graph), at each replay, under the number that it
//!   takes then: a run that replays a step leaves the same lines as a run that issues it again. An
//!   operation is left out if the record was paused when it was captured, and also when it is
//!   paused at the replay.
//!
//! Kernels without a communicator, copies and fills are not recorded, because they belong to no
//! communicator: a difference that arises there shows in the next operation that reads it. A
//! program leaves out times and the like with
//! [`Communicator::set_recorded`](crate::Communicator::set_recorded).
//!
//! # What it costs
//!
//! Nothing when it is off, but for a comparison or two an operation. When it is on, each operation
//! brings two copies to pinned memory of the host, in its stream, of what it reads and of what it
//! writes; pinned memory holds them until a thread of the communicator has read them once and
//! written a line. Operations do not wait for that thread. So a program whose operations take most
//! of its time takes several times as long.
//!
//! A graph needs device memory for all that its recorded operations read and write: it copies both
//! there, since later operations of the graph may write to the same place. The copies are not among
//! the operations that [`Graph::len`](crate::Graph::len) counts.

#![forbid(unsafe_code)]

pub(crate) mod member;
pub(crate) mod records;
mod replay;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::runtime::Runtime;
use crate::sync::lock;
use records::Records;

const RECORD_RUN: &str = "record_run";

/// Where a run is recorded, and how.
///
/// ```
/// use hccl::record::RunRecord;
///
/// let first = RunRecord::new("records/first");
/// // `hccl-compare-runs` has named this operation: once more, with all of its bytes.
/// let again = RunRecord::new("records/again").whole("world all_reduce 17");
/// ```
#[derive(Clone, Debug)]
pub struct RunRecord {
    directory: PathBuf,
    whole: Option<String>,
}

impl RunRecord {
    /// In this directory, which is made when it is not there, and in which no other run was
    /// recorded.
    pub fn new(directory: impl AsRef<Path>) -> Self {
        RunRecord { directory: directory.as_ref().to_owned(), whole: None }
    }

    /// With all bytes of one operation, on every rank: named as `hccl-compare-runs` names it, for
    /// example `world all_reduce 17` or `world recv from 3 5`.
    pub fn whole(self, operation: impl Into<String>) -> Self {
        RunRecord { whole: Some(operation.into()), ..self }
    }
}

/// A run that is being recorded. Dropped, it goes on: [`finish`](Self::finish) ends it.
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
    /// [`Error::Invalid`] when the directory cannot be made, and when the runtime records a run. A
    /// record that is there already is left alone: [`finish`](RunRecording::finish) is an error
    /// then.
    pub fn record_run(&self, record: RunRecord) -> Result<RunRecording> {
        let RunRecord { directory, whole } = record;
        std::fs::create_dir_all(&directory)
            .map_err(|error| invalid(format!("{}: {error}", directory.display())))?;
        let records = Arc::new(Records::new(directory, whole));
        let mut current = lock(&self.shared().records);
        if current.upgrade().is_some_and(|current| !current.is_finished()) {
            return Err(invalid(
                "the runtime records a run, which has to be finished first".into(),
            ));
        }
        *current = Arc::downgrade(&records);
        drop(current);
        Ok(RunRecording { records, runtime: self.clone() })
    }
}

impl RunRecording {
    /// Ends it, and waits until all that was recorded is in its files, up to the runtime's
    /// deadline. No operation may be under way in a call of another thread.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when a file could not be written, or an operation could not be recorded
    /// after it was issued; [`Error::Timeout`] when an operation is
    /// not complete by then.
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
