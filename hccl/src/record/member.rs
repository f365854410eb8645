//! The record of one rank of a communicator, on its way into a file: the memory that its operations
//! read and wrote.

#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{self, Sender};

use super::records::Records;
use crate::device::Stream;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::memory::allocation::{Owned, Region};
use crate::memory::transfer;
use crate::order::label::Label;
use crate::order::work::Work;
use crate::runtime::Runtime;
use crate::sync::lock;

/// The record of one rank of a communicator.
pub(crate) struct MemberRecord {
    records: Arc<Records>,
    /// To the thread that writes.
    entries: Sender<RecordEntry>,
    /// Whether its operations are left out.
    is_paused: AtomicBool,
    /// How many kernels were launched with the communicator.
    launches: AtomicU64,
}

/// An operation that was recorded, whose copies may be under way.
struct RecordEntry {
    at: u64,
    operation: String,
    dtype: DType,
    given: Option<RecordedBytes>,
    got: Option<RecordedBytes>,
}

/// A copy to the host.
struct RecordedBytes {
    work: Work,
    block: Owned,
    bytes: usize,
}

/// An operation that is about to be issued, with what it is given.
pub(crate) struct RecordedOp {
    at: u64,
    given: Option<RecordedBytes>,
}

impl MemberRecord {
    /// For a new communicator, if its run is recorded.
    pub(crate) fn of(label: &Label, device: usize, runtime: &Runtime) -> Option<Box<MemberRecord>> {
        let records = lock(&runtime.shared().records).upgrade()?;
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
                Some(Box::new(MemberRecord { records, entries, is_paused, launches }))
            }
            Err(error) => {
                records.note_problem(format!("{}: {error}", path.display()));
                None
            }
        }
    }

    /// Leaves out what comes from now on, or records it again.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Relaxed);
    }

    /// The number of a launch, from 1 on.
    pub(crate) fn count_launch(&self) -> u64 {
        self.launches.fetch_add(1, Relaxed) + 1
    }

    /// An operation is about to be issued: copies what it is given. An error is one of the stream.
    #[cold]
    pub(crate) fn before(
        &self,
        given: Option<Region<'_>>,
        stream: &Stream,
    ) -> Result<Option<RecordedOp>> {
        if self.is_paused.load(Relaxed) || self.records.is_finished() {
            return Ok(None);
        }
        let at = self.records.number();
        Ok(Some(RecordedOp { at, given: copy(given, stream)? }))
    }

    /// The operation of this name and type has been issued: copies what it gets. The operation goes
    /// on without its line when there is no memory for the copy or CANN refuses it:
    /// [`finish`](super::RunRecording::finish) returns that error. Another error is one of the
    /// stream.
    #[cold]
    pub(crate) fn after(
        &self,
        recorded: RecordedOp,
        (operation, dtype): (String, DType),
        got: Option<Region<'_>>,
        stream: &Stream,
    ) -> Result<()> {
        let RecordedOp { at, given } = recorded;
        let got = match copy(got, stream) {
            Ok(got) => got,
            Err(error @ (Error::OutOfMemory { .. } | Error::Call { .. })) => {
                self.records.note_problem(format!("{operation}: {error}"));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let entry = RecordEntry { at, operation, dtype, given, got };
        self.records.begin();
        if self.entries.send(entry).is_err() {
            self.records.end();
            self.records.note_problem("the thread that writes a record has ended".into());
        }
        Ok(())
    }
}

fn copy(region: Option<Region<'_>>, stream: &Stream) -> Result<Option<RecordedBytes>> {
    let Some(region) = region.filter(|region| region.bytes() > 0) else { return Ok(None) };
    let bytes = region.bytes();
    let (work, block) = transfer::download("download", &region, stream)?;
    Ok(Some(RecordedBytes { work, block, bytes }))
}

/// Writes the line of an operation when its copies are there.
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
                records.note_problem(format!("{}: {error}", path.display()));
            }
        }
        format!("{}:{:016x}", bytes.len(), digest(&bytes))
    };
    let (given, got) = (text("given", given), text("got", got));
    let operation = operation.escape_default();
    let line = format!("{at}\t{operation}\t{}\t{given}\t{got}\n", dtype.name());
    if let Err(error) = file.write_all(line.as_bytes()) {
        records.note_problem(format!("{name}.run: {error}"));
    }
}

/// A title as a part of the name of a file.
fn plain(title: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    title.chars().take(80).map(plain).collect()
}

/// A checksum. Two texts of one length that differ in one word of eight bytes have different ones:
/// each step can be undone.
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
