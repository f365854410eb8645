//! Timelines: records of the cores, the communication servers and the links during launches, and of
//! the threads of operators. Use one to see where a kernel or an operator waits. For the calls of
//! the host use [`trace`](crate::trace).
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
//! # What is in it
//!
//! Each device has a row for its kernels, one for each core that ran a block, and one for its
//! communication server. A launch beside another one on the same device has rows of its own, and so
//! has a communicator beside another one, with a number behind their names. Then each link between
//! two ranks has one.
//!
//! | row | what it has |
//! |---|---|
//! | `kernel` | each launch, with its blocks, and why it failed if it did |
//! | `AIC 0`, `AIV 0`, ... | each block: where it ran, its products of matrices, and what it waited for: a turn of a task, a flag, all cores, the server at the end; marks where it prepared or committed |
//! | `server` | each turn, in two parts: until the last rank has come to it, and while data moves. A gap: nothing is committed |
//! | `0 → 1` | each turn for which rank 1 needs data of rank 0, with the bytes. Of an all-reduce that is all that rank 0 gives, whatever an algorithm would send |
//!
//! The trace has all of it, with the lines of the kernel; the picture leaves out rows beyond 24
//! cores a device, 16 devices and 56 links.
//!
//! # Operators
//!
//! The [operators](crate::operator) that run meanwhile are in it too. Each device has a row for its
//! main thread and for each of the others (numbered from 0, as they were acquired), with every
//! copy, record and wait. An arrow leads from each record to the wait that took it. (What an
//! operator *would* do in a model is [drawn](crate::operator::Recorded::timeline) without running
//! it.)
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
//! // Two notifies: "ready" and "left". Each begins in one rank and ends in the other.
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
//! # What its times mean
//!
//! Times are real time on this machine, of the emulator. Emulated cores are interpreters: those of
//! a launch run one after the other until they wait, on threads that they share with everything
//! else. Data moves by copies in memory when all ranks are there, so a link has no speed of its
//! own, and all links of a turn begin together. So a timeline shows what a kernel does in which
//! order, which core waits for which and why, and what lies beside what. *How long* something takes
//! says nothing about an NPU.
//!
//! Recording costs a little time for each wait and each turn. Without it nothing is written down.

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

/// A recording that goes on, made by [`Runtime::record_timeline`]. A drop ends it without a
/// timeline.
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
#[must_use = "what is recorded comes from `.finish()`"]
#[derive(Debug)]
pub struct Recording {
    runtime: Runtime,
    /// The timeline, after the end.
    ended: Mutex<Option<Timeline>>,
}

/// A recorded timeline. See the [module](self) for what is in it and what its times mean.
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
    /// Begins to record what kernels and operators do on all devices of this runtime, until
    /// [`Recording::finish`]. Never blocks. It uses the optional entries `ascendExtTimelineRecord`
    /// and `ascendExtTimeline`; see [`kernel::timeline`](crate::kernel::timeline).
    ///
    /// # Errors
    ///
    /// [`Error::MissingSymbol`] on a backend that records none, such as CANN, whose own profiler
    /// does that. The error of the emulator when the runtime records already: one recording at a
    /// time.
    pub fn record_timeline(&self) -> Result<Recording> {
        self.table().record_timeline(self.block(), true)?;
        Ok(Recording { runtime: self.clone(), ended: Mutex::new(None) })
    }
}

impl Recording {
    /// Ends the recording and returns the timeline. Launches that have ended by now are in it; wait
    /// for those that matter. Never blocks.
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
    /// for each process, which needs device memory for its record (some hundred bytes for an
    /// entry). It blocks until the last rank has called it.
    ///
    /// # Errors
    ///
    /// The errors of [`all_gather`](Communicator::all_gather) and
    /// [`broadcast`](Communicator::broadcast), and errors of the backend. As after any failed
    /// collective, the other ranks learn of it when this rank drops its communicator.
    pub fn gather(&self, comm: &mut Communicator, stream: &Stream) -> Result<Timeline> {
        let (device, ranks) = (comm.device().clone(), comm.world_size() as usize);
        // A recording must not end before the last rank is here, since ranks of a process share it.
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
            // A failure means that the recording has ended, and then there is nothing to do.
            let _ = self.runtime.table().record_timeline(self.runtime.block(), false);
        }
    }
}

impl Timeline {
    /// Returns a picture: the text of an SVG file. The text of a bar, with its place in the kernel,
    /// shows when the pointer rests on it.
    pub fn svg(&self) -> String {
        ascend_timeline::picture(&self.records)
    }

    /// Returns the same with every detail, for <https://ui.perfetto.dev>: the text of a JSON file
    /// in Chrome's trace event format.
    pub fn trace(&self) -> String {
        ascend_timeline::trace(&self.records)
    }

    /// Joins timelines of several runtimes or processes. A recording that is in several of them
    /// counts once. Never blocks.
    pub fn join(timelines: impl IntoIterator<Item = Timeline>) -> Timeline {
        let records = timelines.into_iter().map(|timeline| timeline.records);
        Timeline { records: Records::join(records) }
    }

    /// Returns a text for [`from_text`](Timeline::from_text) in another process. Only needed if the
    /// ranks cannot [gather](Recording::gather).
    pub fn to_text(&self) -> String {
        self.records.to_text()
    }

    /// Reads a text of [`to_text`](Timeline::to_text).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the text is something else, damaged, or of another version.
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
