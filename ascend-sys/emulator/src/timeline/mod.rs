//! Timelines: what the cores of kernels, the communication servers and the threads of operators of a block did when, and what moved between its
//! devices.
//!
//! A block records when it is told to. A kernel or a server that begins then keeps a [`Log`] and writes down where it stands
//! whenever that changes; one that begins at another time finds out with one load that there is none. What is recorded is laid out as
//! [`rows`], which are told as a [`picture`] or as a [`trace`].
//!
//! All times are taken from the clock of the machine. So a timeline shows how the *emulator* ran a kernel: in which order, who waited for whom,
//! what lay beside what. Emulated cores are interpreters, those of a launch run one after the other until they wait, and data moves by copies in
//! memory, so how long something takes says nothing about an NPU.

mod log;
mod picture;
mod rows;
mod threads;
mod trace;

pub(crate) use log::{
    Block, Doing, Launch, Log, Moved, Part, PrimitiveSpan, PrimitiveWork, TurnSpan,
};

use crate::machine;
use crate::message::{Failure, fail};
use ascend_sync::lock_std as lock;
use ascend_sys::{ACL_ERROR_INVALID_PARAM, AscendExtTimelineForm};
use rows::Chart;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A recording of a block, which goes on or has ended.
struct BlockRecording {
    block: u32,
    devices: Range<u32>,
    log: Arc<Log>,
    goes_on: bool,
}

static RECORDINGS: Mutex<Vec<BlockRecording>> = Mutex::new(Vec::new());
/// How many of them go on: the rule is none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn count(recordings: &[BlockRecording]) {
    let goes_on = recordings.iter().filter(|recording| recording.goes_on).count();
    COUNT.store(goes_on, Ordering::Release);
}

/// Where a device writes down what it does, if its block records.
#[inline]
pub(crate) fn of(device: u32) -> Option<Arc<Log>> {
    if COUNT.load(Ordering::Acquire) == 0 { None } else { find(device) }
}

#[cold]
fn find(device: u32) -> Option<Arc<Log>> {
    let recordings = lock(&RECORDINGS);
    let wanted = |one: &&BlockRecording| one.goes_on && one.devices.contains(&device);
    recordings.iter().find(wanted).map(|one| Arc::clone(&one.log))
}

/// A block begins to record; what it recorded before is forgotten.
pub(crate) fn begin(block: u32) -> Result<(), Failure> {
    let settings = machine::block(block)?;
    let mut recordings = lock(&RECORDINGS);
    if recordings.iter().any(|one| one.block == block && one.goes_on) {
        return fail!(ACL_ERROR_INVALID_PARAM, "block {block} records already: end that first");
    }
    recordings.retain(|one| one.block != block);
    recordings.push(BlockRecording {
        block,
        devices: settings.first..settings.first + settings.count,
        log: Arc::new(Log::new(settings.first)),
        goes_on: true,
    });
    count(&recordings);
    Ok(())
}

/// The recording of a block is complete.
pub(crate) fn end(block: u32) -> Result<(), Failure> {
    let mut recordings = lock(&RECORDINGS);
    let Some(recording) = recordings.iter_mut().find(|one| one.block == block && one.goes_on)
    else {
        return fail!(ACL_ERROR_INVALID_PARAM, "block {block} does not record");
    };
    recording.goes_on = false;
    recording.log.close();
    count(&recordings);
    Ok(())
}

/// The block is gone, and with it what it recorded.
pub(crate) fn forget(block: u32) {
    let mut recordings = lock(&RECORDINGS);
    recordings.retain(|one| one.block != block);
    count(&recordings);
}

/// What a block has recorded, in words.
pub(crate) fn tell(block: u32, form: AscendExtTimelineForm) -> Result<String, Failure> {
    let draw = match form {
        AscendExtTimelineForm::ASCEND_EXT_TIMELINE_TRACE => trace::write,
        AscendExtTimelineForm::ASCEND_EXT_TIMELINE_SVG => picture::draw,
        other => {
            return fail!(ACL_ERROR_INVALID_PARAM, "form is {}; 0 or 1 is expected", other.0);
        }
    };
    let log = {
        let recordings = lock(&RECORDINGS);
        match recordings.iter().find(|one| one.block == block) {
            Some(one) if one.goes_on => {
                return fail!(
                    ACL_ERROR_INVALID_PARAM,
                    "block {block} still records: end that first"
                );
            }
            Some(one) => Arc::clone(&one.log),
            None => {
                return fail!(ACL_ERROR_INVALID_PARAM, "block {block} has recorded nothing");
            }
        }
    };
    Ok(draw(&Chart::of(&log)))
}
