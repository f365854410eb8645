//! Timelines: records of the cores, the communication servers and the links during launches, and of
//! the threads of operators. Use a timeline to see where a kernel or an operator waits. For the
//! calls of the host use [`trace`](crate::trace).
//!
//! ```
//! use hccl::Runtime;
//! use hccl::kernel::*;
//!
//! /// Each core writes a line of its cache, which is 64 bytes.
//! #[kernel(mix = "aiv_only")]
//! fn sevens(k: Kernel, y: Output<u64>) {
//!     let line = y.at(k.block_index().cast::<u64>() * 8);
//!     k.range(0..8u64, |i| line.set(i, 7));
//!     line.clean(0);
//! }
//!
//! # fn main() -> hccl::Result<()> {
//! let runtime = Runtime::emulator(1)?;
//! let device = runtime.device(0)?;
//! let stream = device.stream()?;
//! let mut y = device.zeros::<u64>(32, &stream)?;
//! let mut kernel = sevens::record()?.load(&device)?;
//!
//! let recording = runtime.record_timeline()?;
//! kernel.launch(4).output(&mut y).submit(&stream)?.wait()?;
//! let timeline = recording.finish()?;
//!
//! // std::fs::write("timeline.svg", timeline.svg())?;
//! // std::fs::write("timeline.json", timeline.trace())?; // for https://ui.perfetto.dev
//! assert!(timeline.svg().contains("AIV 3"));
//! assert!(timeline.trace().contains("\"block 3\""));
//! # Ok(())
//! # }
//! ```
//!
//! # Contents
//!
//! Each device has a row for its kernels, a row for each core that ran a block, and a row for its
//! communication server. If launches on a device overlap in time, further launches have rows of
//! their own, with a number after their names. The same holds for communicators. Each link between
//! two ranks has a row after those of the devices.
//!
//! | row | what it has |
//! |---|---|
//! | `kernel` | each launch, with its blocks, and why it failed if it did |
//! | `AIC 0`, `AIV 0`, ... | each block: the times at which it ran, its products of matrices, and its waits (for a turn of a task, a flag, all cores, or the end of the server); a mark for each prepare and commit |
//! | `server` | each turn, in two parts: the wait for the last rank, and the movement of data. In a gap, no turn is committed |
//! | `0 → 1` | each turn for which rank 1 needs data of rank 0, with the number of bytes. In an all-reduce, rank 1 needs all data of rank 0, whatever an algorithm would send |
//!
//! The trace contains all of this, with the source lines of the kernel. The picture shows at most
//! 24 cores per device, 16 threads of operators per device, 16 devices and 56 links.
//!
//! # Operators
//!
//! A timeline also contains the [operators](crate::operator) that run during the recording. Each
//! device has a row for its main thread and a row for each other thread, with every copy, record
//! and wait. The other threads are numbered from 0, in the order in which they were acquired. An
//! arrow leads from each record to the wait that consumed it.
//! ([`Recorded::timeline`](crate::operator::Recorded::timeline) draws the steps of an operator in a
//! model, without running the operator.)
//!
//! ```
//! use hccl::operator::Operator;
//! use hccl::prelude::*;
//!
//! # fn main() -> hccl::Result<()> {
//! let hand_over = Operator::send("hand_over", 0, 1, |op, main| match op.rank() {
//!     0 => {
//!         main.copy(op.input(), op.buffer().slice(..op.count()));
//!         let exposed = main.expose(op.channel(1));
//!         main.reclaim(exposed);
//!     }
//!     _ => {
//!         let access = main.enter(op.channel(0));
//!         main.read(access.buffer().slice(..op.count()), op.output());
//!         main.leave(access);
//!     }
//! });
//! let runtime = Runtime::emulator(2)?;
//! let recording = runtime.record_timeline()?;
//! runtime.run_ranks(2, |rank| {
//!     let (device, mut comm) = (rank.device(), rank.communicator()?);
//!     let stream = device.stream()?;
//!     let mut x = device.upload(&[rank.index() as i32; 64], &stream)?;
//!     match rank.index() {
//!         0 => comm.run(&hand_over).input(&x).submit(&stream)?,
//!         _ => comm.run(&hand_over).output(&mut x).submit(&stream)?,
//!     }
//!     .wait()
//! })?;
//! let timeline = recording.finish()?;
//! assert!(timeline.svg().contains("main thread"));
//! assert!(timeline.trace().contains("\"name\":\"0 → 1\""));
//! // Two notifies, "ready" and "left": the arrow of each begins in one rank and ends in the other.
//! let count = |what: &str| timeline.trace().matches(what).count();
//! assert_eq!([count("\"ph\":\"s\""), count("\"ph\":\"f\"")], [2, 2]);
//! assert_eq!(count("\"cat\":\"between ranks\""), 4);
//! # Ok(())
//! # }
//! ```
//!
//! # Ranks in several processes
//!
//! Each process records its own devices. [`Recording::gather`] joins the recordings of all
//! processes of a communicator, and gives every rank the timeline of the whole job. All processes
//! share one clock, so a turn shows when its last rank arrived, and arrows lead from one process to
//! another. The same program works with ranks that are threads.
//!
//! ```
//! use hccl::prelude::*;
//!
//! # fn main() -> hccl::Result<()> {
//! let runtime = Runtime::emulator(2)?;
//! let recording = runtime.record_timeline()?;
//! runtime.run_job(2, |rank| -> hccl::Result<()> {
//!     let mut comm = rank.communicator()?;
//!     // ... launches and operators ...
//!     let job = recording.gather(&mut comm, &rank.device().stream()?)?;
//!     if rank.index() == 0 {
//!         // std::fs::write("job.svg", job.svg())?;
//!         # assert!(job.svg().contains("no kernel"));
//!     }
//!     Ok(())
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! # Meaning of the times
//!
//! The times are real times of the emulator on this machine. Emulated cores are interpreters. The
//! cores of a launch run one after another until they wait, on threads that they share with all
//! other work. Data moves by copies in memory once all ranks have arrived. So a link has no speed
//! of its own, and all links of a turn begin at the same time. A timeline shows the order of a
//! kernel's work, which core waits for which and why, and which work overlaps. The durations say
//! nothing about an NPU.
//!
//! Recording costs a little time for each wait and each turn. Without a recording, nothing is
//! stored.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

use ascend_sync::lock_std;
use ascend_sys::AscendExtTimelineForm as Form;
use ascend_timeline::{Record, Records};

use crate::comm::Communicator;
use crate::device::Stream;
use crate::error::{Error, Result};
use crate::runtime::Runtime;

/// A running recording, made by [`Runtime::record_timeline`]. Dropping it ends the recording
/// without a timeline.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[kernel(mix = "aiv_only")]
/// # fn sevens(k: Kernel, y: Output<u64>) {
/// #     let line = y.at(k.block_index() * 8);
/// #     line.set(0, 7);
/// #     line.clean(0);
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = hccl::Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// # let mut y = device.zeros::<u64>(16, &stream)?;
/// # let mut kernel = sevens::record()?.load(&device)?;
/// let recording: Recording = runtime.record_timeline()?;
/// kernel.launch(2).output(&mut y).submit(&stream)?.wait()?;
/// let timeline = recording.finish()?;
/// # assert!(timeline.svg().contains("AIV 1"));
/// # Ok(())
/// # }
/// ```
#[must_use = "`.finish()` returns the timeline"]
#[derive(Debug)]
pub struct Recording {
    runtime: Runtime,
    /// The timeline, once the recording has ended.
    ended: Mutex<Option<Timeline>>,
}

/// A recorded timeline. The [module](self) describes its contents and the meaning of its times.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[kernel(mix = "aiv_only")]
/// # fn sevens(k: Kernel, y: Output<u64>) {
/// #     let line = y.at(k.block_index() * 8);
/// #     line.set(0, 7);
/// #     line.clean(0);
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = hccl::Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// # let mut y = device.zeros::<u64>(16, &stream)?;
/// # let mut kernel = sevens::record()?.load(&device)?;
/// let recording = runtime.record_timeline()?;
/// kernel.launch(2).output(&mut y).submit(&stream)?.wait()?;
/// let timeline: Timeline = recording.finish()?;
/// let picture: String = timeline.svg();
/// let trace: String = timeline.trace(); // for https://ui.perfetto.dev
/// # assert!(picture.contains("AIV 1") && trace.contains("block 1"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Timeline {
    records: Records,
}

impl Runtime {
    /// Begins a recording of the kernels and operators on all devices of this runtime, which
    /// [`Recording::finish`] ends. Never blocks. The recording uses the optional entries
    /// `ascendExtTimelineRecord` and `ascendExtTimeline`; see
    /// [`kernel::timeline`](crate::kernel::timeline).
    ///
    /// # Errors
    ///
    /// [`Error::MissingSymbol`] on a backend that records no timelines, such as CANN, which has a
    /// profiler of its own. The error of the emulator if this runtime already has a recording,
    /// because a runtime has at most one recording at a time.
    pub fn record_timeline(&self) -> Result<Recording> {
        self.table().record_timeline(self.block(), true)?;
        Ok(Recording { runtime: self.clone(), ended: Mutex::new(None) })
    }
}

impl Recording {
    /// Ends the recording and returns the timeline. It contains only launches that have ended, so
    /// wait for the launches first. Never blocks.
    ///
    /// # Errors
    ///
    /// The error of the backend.
    pub fn finish(self) -> Result<Timeline> {
        self.end()
    }

    /// Ends this recording on every rank of a communicator, and gives each rank the joined
    /// timeline. Ranks that are threads of one process share its recording. Only finished launches
    /// are in the timeline, so wait for them first.
    ///
    /// Every rank of the communicator must call this. It issues two all-gathers, and a broadcast
    /// for each process. A broadcast needs device memory for the record of the process: some
    /// hundred bytes for each entry. The call blocks until every rank has made it and the
    /// broadcasts are complete.
    ///
    /// # Errors
    ///
    /// The errors of [`all_gather`](Communicator::all_gather) and
    /// [`broadcast`](Communicator::broadcast), and errors of the backend. [`Error::Invalid`] if the
    /// record of a process has another version. As after any failed collective, the other ranks are
    /// notified when this rank drops its communicator.
    pub fn gather(&self, comm: &mut Communicator, stream: &Stream) -> Result<Timeline> {
        let (device, ranks) = (comm.device().clone(), comm.world_size() as usize);
        // The ranks of a process share a recording, so it must not end before the last rank has
        // made this call.
        let here = device.upload(&[1_u8], stream)?;
        comm.all_gather(&here, device.alloc::<u8>(ranks)?, stream)?.1.wait()?;
        let text = self.end()?.to_text().into_bytes();
        // Ranks of a process that use the same runtime have the same recording.
        let recording = u64::from(std::process::id()) << 32 | u64::from(self.runtime.block());
        let own = device.upload(&[recording, text.len() as u64], stream)?;
        let (all, _) = comm.all_gather(&own, device.alloc::<u64>(2 * ranks)?, stream)?;
        let all = all.to_vec(stream).wait()?;
        let mut known = BTreeSet::new();
        let mut timelines = Vec::new();
        // The first rank of each recording sends.
        for (root, of) in (0..).zip(all.chunks_exact(2)).filter(|(_, of)| known.insert(of[0])) {
            let mut room = match root == comm.rank() {
                true => device.upload(&text, stream)?,
                false => device.zeros::<u8>(of[1] as usize, stream)?,
            };
            comm.broadcast(&mut room, root, stream)?.wait()?;
            let text = room.to_vec(stream).wait()?;
            timelines.push(Timeline::from_text(&String::from_utf8_lossy(&text))?);
        }
        Ok(Timeline::join(timelines))
    }

    /// Ends the recording at the first call. Later calls return the same timeline.
    fn end(&self) -> Result<Timeline> {
        let mut ended = lock_std(&self.ended);
        if let Some(timeline) = &*ended {
            return Ok(timeline.clone());
        }
        let (table, block) = (self.runtime.table(), self.runtime.block());
        table.record_timeline(block, false)?;
        let timeline =
            Timeline::from_text(&table.timeline(block, Form::ASCEND_EXT_TIMELINE_RECORD)?)?;
        Ok(ended.insert(timeline).clone())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if lock_std(&self.ended).is_none() {
            // An error means that the recording has already ended, so it can be ignored.
            let _ = self.runtime.table().record_timeline(self.runtime.block(), false);
        }
    }
}

impl Timeline {
    /// Returns the timeline as a picture: the text of an SVG file. If the pointer rests on a bar, a
    /// tooltip shows its text and its place in the kernel.
    pub fn svg(&self) -> String {
        ascend_timeline::picture(&self.records)
    }

    /// Returns the timeline with every detail, for <https://ui.perfetto.dev>. This is the text of a
    /// JSON file in Chrome's trace event format.
    pub fn trace(&self) -> String {
        ascend_timeline::trace(&self.records)
    }

    /// Joins timelines of several runtimes or processes. A recording that is in several of the
    /// timelines appears once in the result. Never blocks.
    pub fn join(timelines: impl IntoIterator<Item = Timeline>) -> Timeline {
        let records = timelines.into_iter().map(|timeline| timeline.records);
        Timeline { records: Records::join(records) }
    }

    /// Returns the timeline as a text, which [`from_text`](Timeline::from_text) reads in another
    /// process. Use it only if the ranks cannot call [`gather`](Recording::gather).
    pub fn to_text(&self) -> String {
        self.records.to_text()
    }

    /// Reads a timeline from a text that [`to_text`](Timeline::to_text) returned.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the text is not a timeline, is damaged, or has another version.
    pub fn from_text(text: &str) -> Result<Timeline> {
        match Records::from_text(text) {
            Ok(records) => Ok(Timeline { records }),
            Err(why) => {
                let problem = why.to_string().into();
                Err(Error::Invalid { operation: "timeline", problem })
            }
        }
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |count: fn(&Record) -> usize| -> usize { self.records.iter().map(count).sum() };
        f.debug_struct("Timeline")
            .field("processes", &self.records.processes())
            .field("launches", &sum(|record| record.launches.len()))
            .field("turns", &sum(|record| record.turns.len()))
            .field("primitives", &sum(|record| record.primitives.len()))
            .finish()
    }
}
