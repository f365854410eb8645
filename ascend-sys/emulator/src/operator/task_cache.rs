//! Implements `HcommAicpuTsTaskCache...` of Ascend 950: records the primitives of an OS thread
//! under a tag, and issues them again with other addresses.
//!
//! During the recording, primitives run as usual. A recording begins with a list of address ranges.
//! An execution passes the same number of ranges. Each address in an old range is replaced by the
//! address at the same offset in the new range. Addresses outside of all ranges stay the same. The
//! recordings of a device end with the device.

pub(crate) mod run;

use super::primitive::Primitive;
use super::signal::{Await, Signal};
use crate::machine;
use crate::memory::nominal;
use crate::message::{Failure, refuse};
use ascend_reduce::{DataType, ReduceOp};
use ascend_sync::lock_std as lock;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Ranges of addresses, each with its start and its length in bytes.
type AddressRanges = Vec<(usize, usize)>;

struct CachedPrimitive {
    thread: u64,
    call: &'static str,
    what: AddressedPrimitive,
    /// The channel that the primitive crosses.
    over: Option<u64>,
}

/// A primitive with its addresses as programs use them.
enum AddressedPrimitive {
    Move { to: usize, from: usize, bytes: usize, kind: Option<(DataType, ReduceOp)> },
    Signal(Signal),
    Await(Await),
    Record(u64),
    Wait(u64, Option<Duration>),
}

struct CacheRecording {
    tag: String,
    device: u32,
    ranges: AddressRanges,
    noted: Vec<CachedPrimitive>,
}

/// The recordings, by device and tag.
static KEPT: Mutex<BTreeMap<(u32, String), Arc<CacheRecording>>> = Mutex::new(BTreeMap::new());

thread_local! {
    static OPEN: Cell<bool> = const { Cell::new(false) };
    static RECORDING: RefCell<Option<CacheRecording>> = const { RefCell::new(None) };
}

/// Returns whether the calling OS thread records its primitives.
#[inline]
pub(super) fn is_open() -> bool {
    OPEN.get()
}

/// Adds a primitive to the recording of the calling OS thread.
#[cold]
pub(super) fn note(thread: u64, call: &'static str, primitive: &Primitive, over: Option<u64>) {
    let moves = |to: *const u8, from: *const u8, bytes, kind| AddressedPrimitive::Move {
        to: nominal(to),
        from: nominal(from),
        bytes,
        kind,
    };
    let what = match primitive {
        Primitive::Copy(copy) => moves(copy.to, copy.from, copy.bytes, None),
        Primitive::Reduce(reduce) => {
            let (to, from, bytes, kind) = reduce.parts();
            moves(to, from, bytes, Some(kind))
        }
        Primitive::Signal(signal) => AddressedPrimitive::Signal(signal.clone()),
        Primitive::Await(wait) => AddressedPrimitive::Await(wait.clone()),
        Primitive::Record(handle) => AddressedPrimitive::Record(*handle),
        Primitive::Wait(handle, limit) => AddressedPrimitive::Wait(*handle, *limit),
    };
    RECORDING.with_borrow_mut(|recording| {
        if let Some(recording) = recording {
            recording.noted.push(CachedPrimitive { thread, call, what, over });
        }
    });
}

/// Returns whether there is a recording for a device and tag.
pub(crate) fn has(device: u32, tag: &str) -> bool {
    lock(&KEPT).contains_key(&(device, tag.to_owned()))
}

/// Begins a recording of the calling OS thread.
pub(crate) fn start(device: u32, tag: String, ranges: AddressRanges) -> Result<(), Failure> {
    RECORDING.with_borrow_mut(|recording| {
        if let Some(CacheRecording { tag, .. }) = recording {
            return refuse!(
                HCCL_E_PARA,
                "the calling thread records \"{tag}\" already; call HcommAicpuTsTaskCacheEnd first"
            );
        }
        *recording = Some(CacheRecording { tag, device, ranges, noted: Vec::new() });
        OPEN.set(true);
        Ok(())
    })
}

/// Ends the recording and keeps it. It replaces an older recording with the same tag.
pub(crate) fn end(tag: &str) -> Result<(), Failure> {
    RECORDING.with_borrow_mut(|recording| match recording.take_if(|open| open.tag == tag) {
        Some(ended) => {
            OPEN.set(false);
            lock(&KEPT).insert((ended.device, ended.tag.clone()), Arc::new(ended));
            Ok(())
        }
        None => refuse!(
            HCCL_E_PARA,
            "the calling thread records {}, and not \"{tag}\"; pass the tag of its \
             HcommAicpuTsTaskCacheStart",
            recording.as_ref().map_or("nothing".into(), |open| format!("\"{}\"", open.tag))
        ),
    })
}

/// Removes a recording.
pub(crate) fn clear(device: u32, tag: &str) -> Result<(), Failure> {
    match lock(&KEPT).remove(&(device, tag.to_owned())) {
        Some(_) => Ok(()),
        None => not_found(device, tag),
    }
}

/// Removes the recordings of devices that are removed.
pub(crate) fn forget(devices: &Range<u32>) {
    lock(&KEPT).retain(|(device, _), _| !devices.contains(device));
}

fn not_found<T>(device: u32, tag: &str) -> Result<T, Failure> {
    refuse!(
        HCCL_E_NOT_FOUND,
        "device {device} has no recorded tasks with the tag \"{tag}\"; record them first \
         (HcommAicpuTsTaskCacheStart)",
        device = machine::named(device)
    )
}
