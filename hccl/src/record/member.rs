//! The record of one rank of a communicator. It copies the memory that operations read and write,
//! and a thread writes a line for each operation to a file.

#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{self, Sender};

use super::records::Records;
use crate::device::Stream;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::memory::allocation::{Owned, Region};
use crate::memory::transfer;
use crate::order::label::{Label, Numbers, Takes};
use crate::order::work::Work;
use crate::runtime::Runtime;
use crate::sync::lock;

/// The record of one rank of a communicator.
pub(crate) struct MemberRecord {
    pub(super) records: Arc<Records>,
    /// The channel to the thread that writes the file.
    entries: Sender<RecordEntry>,
    /// Whether the operations of the communicator are left out of the record.
    is_paused: AtomicBool,
    /// The number of kernels that were launched with the communicator.
    launches: AtomicU64,
    /// The numbers of messages and batches that the communicator has issued outside of graphs.
    issued: Mutex<Numbers>,
}

/// A recorded operation, whose copies may still be in flight.
struct RecordEntry {
    at: u64,
    operation: String,
    dtype: DType,
    given: Option<RecordedBytes>,
    got: Option<RecordedBytes>,
}

/// A copy of device memory to the host, which may still be in flight.
pub(crate) struct RecordedBytes {
    work: Work,
    block: Owned,
    bytes: usize,
}

impl MemberRecord {
    /// Begins the record of a new communicator. Returns `None` if its run is not recorded, or if
    /// the file or its thread cannot be made.
    pub(crate) fn of(label: &Label, device: usize, runtime: &Runtime) -> Option<Arc<MemberRecord>> {
        let records = lock(&runtime.shared().records).clone()?;
        if records.is_finished() {
            return None;
        }
        let count = records.count(&label.communicator, device);
        let name =
            format!("{}.{count}.rank-{}.device-{device}", plain(&label.communicator), label.rank);
        let path = records.directory.join(format!("{name}.run"));
        let head = format!(
            "hccl run record 1\t{}\t{count}\t{}\t{}\n",
            label.communicator.escape_default(),
            label.rank,
            label.world_size
        );
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        let begun = made.and_then(|mut file| file.write_all(head.as_bytes()).map(|()| file));
        let (entries, came) = mpsc::channel();
        let of_thread = records.clone();
        let begun = begun.and_then(|file| {
            let write = move || {
                for entry in came {
                    write_line(&of_thread, &file, &name, &entry);
                    drop(entry);
                    of_thread.end();
                }
            };
            std::thread::Builder::new().name("hccl-record".into()).spawn(write)
        });
        match begun {
            Ok(_) => {
                let (is_paused, launches) = (AtomicBool::new(false), AtomicU64::new(0));
                let issued = Mutex::default();
                Some(Arc::new(MemberRecord { records, entries, is_paused, launches, issued }))
            }
            Err(error) => {
                records.note_problem(format!(
                    "{}: {error}; record into a new directory",
                    path.display()
                ));
                None
            }
        }
    }

    /// Sets whether operations are left out of the record from now on.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Relaxed);
    }

    /// Counts a launch and returns its number, from 1.
    pub(crate) fn count_launch(&self) -> u64 {
        self.launches.fetch_add(1, Relaxed) + 1
    }

    /// Counts a message or a batch that the communicator has issued outside of graphs.
    #[cold]
    pub(crate) fn count(&self, takes: Takes<'_>) {
        lock(&self.issued).add(takes);
    }

    /// Returns the number of operations with this kind of number that the communicator has issued
    /// outside of graphs.
    pub(super) fn issued(&self, takes: Takes<'_>) -> u64 {
        lock(&self.issued).of(takes)
    }

    pub(super) fn is_left_out(&self) -> bool {
        self.is_paused.load(Relaxed) || self.records.is_finished()
    }

    /// Returns the place of the next operation in the record, or `None` if the operation is left
    /// out.
    pub(super) fn place(&self) -> Option<u64> {
        (!self.is_left_out()).then(|| self.records.number())
    }

    /// Returns `None`, and notes a problem of the record, if there is no memory for a copy or if
    /// CANN rejects it.
    pub(super) fn unless_full<T>(&self, operation: &str, copied: Result<T>) -> Result<Option<T>> {
        match copied {
            Ok(copied) => Ok(Some(copied)),
            Err(error @ (Error::OutOfMemory { .. } | Error::Call { .. })) => {
                self.records.note_problem(format!("{operation}: {error}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends an operation to the thread that writes its line when the copies are complete.
    pub(super) fn write(
        &self,
        at: u64,
        operation: String,
        dtype: DType,
        given: Option<RecordedBytes>,
        got: Option<RecordedBytes>,
    ) {
        let entry = RecordEntry { at, operation, dtype, given, got };
        self.records.begin();
        if self.entries.send(entry).is_err() {
            self.records.end();
            self.records.note_problem("the thread of a record has ended: record again".into());
        }
    }
}

/// Begins to copy a region to the host, unless it is empty.
pub(super) fn copy(region: Option<Region<'_>>, stream: &Stream) -> Result<Option<RecordedBytes>> {
    let Some(region) = region.filter(|region| region.bytes() > 0) else { return Ok(None) };
    let bytes = region.bytes();
    let (work, block) = transfer::download("download", &region, stream)?;
    Ok(Some(RecordedBytes { work, block, bytes }))
}

/// Waits for the copies of an operation, and writes its line.
fn write_line(records: &Records, mut file: &File, name: &str, entry: &RecordEntry) {
    let RecordEntry { at, operation, dtype, given, got } = entry;
    let is_whole = records.whole.as_ref() == Some(operation);
    let text = |what: &str, copied: &Option<RecordedBytes>| -> String {
        let Some(RecordedBytes { work, block, bytes }) = copied else { return "-".into() };
        if let Err(error) = work.wait() {
            tracing::debug!("an operation that is recorded has failed: {error}");
            return "failed".into();
        }
        let bytes: Vec<u8> = transfer::read_block(block, *bytes);
        if is_whole {
            let path = records.directory.join(format!("{name}.{}.{what}", plain(operation)));
            if let Err(error) = std::fs::write(&path, &bytes) {
                records.note_problem(format!(
                    "{}: {error}; check the space and the permissions of the directory",
                    path.display()
                ));
            }
        }
        format!("{}:{:016x}", bytes.len(), digest(&bytes))
    };
    let (given, got) = (text("given", given), text("got", got));
    let operation = operation.escape_default();
    let line = format!("{at}\t{operation}\t{}\t{given}\t{got}\n", dtype.name());
    if let Err(error) = file.write_all(line.as_bytes()) {
        records.note_problem(format!(
            "{name}.run: {error}; check the space and the permissions of the directory"
        ));
    }
}

/// Turns a title into a part of the name of a file.
fn plain(title: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    title.chars().take(80).map(plain).collect()
}

/// Returns a checksum. If two inputs of equal length differ in only one word of eight bytes, their
/// checksums differ, because each step is invertible.
fn digest(bytes: &[u8]) -> u64 {
    let step =
        |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    step(words.map(word).fold(bytes.len() as u64, step), word(rest))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn a_checksum_sees_each_bit_and_the_length() {
        let bytes: Vec<u8> = (0..35).collect();
        let whole = digest(&bytes);
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(digest(&changed), whole, "bit {bit}");
        }
        assert_ne!(digest(&bytes[..34]), whole);
        assert_ne!(digest(&[0; 8]), digest(&[0; 16]));
    }

    #[test]
    fn a_title_becomes_the_name_of_a_file() {
        assert_eq!(plain("world/split 1"), "world-split-1");
        assert_eq!(plain("../../etc"), "------etc");
        assert_eq!(plain(&"x".repeat(300)).len(), 80);
    }
}
