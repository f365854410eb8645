//! Timelines of blocks: the activities of kernel cores, communication servers and operator threads,
//! and the data that moved between devices.
//!
//! A block records when the program or the environment requests it. A kernel or a server that
//! begins while its block records keeps a [`Log`], and adds an entry whenever its activity changes.
//! At other times it finds with one load that there is no log. `ascend-timeline` draws the records.
//!
//! All times are taken from the clock of the machine. So a timeline shows how the *emulator* ran a
//! kernel: in which order, which core waited for which, and what ran at the same time. The cores of
//! a launch are interpreters, each of which runs until it waits. Data moves by copies in memory. So
//! the durations do not show how fast an NPU is.

mod log;
mod whole;

pub(crate) use log::Log;
use log::LogMark;

use crate::message::{Failure, fail};
use ascend_sync::lock_std as lock;
use ascend_sys::{ACL_ERROR_INVALID_PARAM, AscendExtTimelineForm};
use ascend_timeline::{Record, Records};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The recording of a block.
struct BlockRecording {
    block: u32,
    devices: Range<u32>,
    log: Arc<Log>,
    /// Whether the log belongs to the timeline of the [whole] process. Then the log stays open as
    /// long as the block exists.
    is_whole: bool,
    asked: Option<AskedPart>,
}

/// The part of a log that the program, or one of its profiling configurations, has requested.
#[derive(Clone, Copy)]
struct AskedPart {
    /// The number of this recording, which its owner has.
    number: u64,
    from: LogMark,
    /// The end of the part; `None` while the recording goes on.
    to: Option<LogMark>,
}

impl BlockRecording {
    fn is_asked_now(&self) -> bool {
        self.asked.is_some_and(|part| part.to.is_none())
    }

    fn goes_on(&self) -> bool {
        self.is_whole || self.is_asked_now()
    }
}

static RECORDINGS: Mutex<Vec<BlockRecording>> = Mutex::new(Vec::new());
/// The number of recordings that go on. It is usually 0.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn count(recordings: &[BlockRecording]) {
    let goes_on = recordings.iter().filter(|recording| recording.goes_on()).count();
    COUNT.store(goes_on, Ordering::Release);
}

/// Returns the log of a device, if its block records.
#[inline]
pub(crate) fn of(device: u32) -> Option<Arc<Log>> {
    if COUNT.load(Ordering::Acquire) == 0 { None } else { find(device) }
}

#[cold]
fn find(device: u32) -> Option<Arc<Log>> {
    let recordings = lock(&RECORDINGS);
    let wanted = |one: &&BlockRecording| one.goes_on() && one.devices.contains(&device);
    recordings.iter().find(wanted).map(|one| Arc::clone(&one.log))
}

/// Begins a recording, and returns its number. The owner of the recording is the caller that has
/// the number. An earlier recording of the block is dropped. Returns an error if that recording has
/// not ended.
pub(crate) fn begin(block: u32, devices: Range<u32>) -> Result<u64, Failure> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let part = |from| Some(AskedPart { number, from, to: None });
    let mut recordings = lock(&RECORDINGS);
    match recordings.iter_mut().find(|one| one.block == block) {
        Some(one) if one.is_asked_now() => {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "block {block} already records; end that recording first"
            );
        }
        Some(one) if one.is_whole => one.asked = part(one.log.mark()),
        _ => {
            recordings.retain(|one| one.block != block);
            let log = Arc::new(Log::new(block));
            let asked = part(LogMark::default());
            recordings.push(BlockRecording { block, devices, log, is_whole: false, asked });
        }
    }
    count(&recordings);
    Ok(number)
}

/// Ends the recording of a block that has this number. Without a number, ends the recording that
/// goes on, even if the caller does not own it. Returns an error if that recording does not exist.
pub(crate) fn end(block: u32, number: Option<u64>) -> Result<(), Failure> {
    let mut recordings = lock(&RECORDINGS);
    let wanted =
        |part: AskedPart| part.to.is_none() && number.is_none_or(|number| part.number == number);
    let asked = |one: &&mut BlockRecording| one.block == block && one.asked.is_some_and(wanted);
    let Some(recording) = recordings.iter_mut().find(asked) else {
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "block {block} does not record; begin a recording first"
        );
    };
    if let Some(part) = &mut recording.asked {
        part.to = Some(recording.log.mark());
    }
    if !recording.is_whole {
        recording.log.close();
    }
    count(&recordings);
    Ok(())
}

/// Notes a new block. The block records at once if the environment requests a process timeline.
pub(crate) fn open(block: u32, devices: Range<u32>) {
    if let Some(whole) = whole::whole() {
        let log = Arc::new(Log::new(block));
        whole.keep(&log);
        let mut recordings = lock(&RECORDINGS);
        recordings.push(BlockRecording { block, devices, log, is_whole: true, asked: None });
        count(&recordings);
    }
}

/// Forgets a destroyed block. The timeline of the whole process keeps its log.
pub(crate) fn forget(block: u32) {
    let mut recordings = lock(&RECORDINGS);
    recordings.iter().filter(|one| one.block == block).for_each(|one| one.log.close());
    recordings.retain(|one| one.block != block);
    count(&recordings);
}

/// Returns the last recording of a block that was requested, as a text. Returns an error if there
/// is no such recording, or if it goes on.
pub(crate) fn tell(block: u32, form: AscendExtTimelineForm) -> Result<String, Failure> {
    let tell = match form {
        AscendExtTimelineForm::ASCEND_EXT_TIMELINE_TRACE => ascend_timeline::trace,
        AscendExtTimelineForm::ASCEND_EXT_TIMELINE_SVG => ascend_timeline::picture,
        AscendExtTimelineForm::ASCEND_EXT_TIMELINE_RECORD => Records::to_text,
        other => {
            return fail!(ACL_ERROR_INVALID_PARAM, "form is {}; pass 0 to 2", other.0);
        }
    };
    let (log, from, to) = {
        let recordings = lock(&RECORDINGS);
        let recording = recordings.iter().find(|one| one.block == block);
        match recording.and_then(|one| Some((one, one.asked?))) {
            Some((_, AskedPart { to: None, .. })) => {
                return fail!(
                    ACL_ERROR_INVALID_PARAM,
                    "block {block} still records; end the recording first"
                );
            }
            Some((one, AskedPart { from, to: Some(to), .. })) => (Arc::clone(&one.log), from, to),
            None => {
                return fail!(
                    ACL_ERROR_INVALID_PARAM,
                    "block {block} has recorded nothing; begin and end a recording first"
                );
            }
        }
    };
    let left_out = to.left_out - from.left_out;
    let record = Record { left_out, ..log.record().within(from.at, to.at) };
    Ok(tell(&[record].into_iter().collect()))
}
