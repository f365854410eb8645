//! `ASCEND_EMULATOR_TIMELINE`: a timeline of the whole process.
//!
//! Every block records from its start. The emulator writes the file when the process exits.

use super::log::Log;
use ascend_sync::lock_std as lock;
use ascend_timeline::Records;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// The variable with the name of the file: `.svg` for a picture, `.json` for a trace. A file of any
/// other name gets a line with the text form of the records, which `hcclrun --timeline` joins. `%p`
/// in the name is replaced by the process id.
const NAME: &str = "ASCEND_EMULATOR_TIMELINE";

pub(super) struct Whole {
    file: PathBuf,
    /// The process that writes. A forked child inherits the exit handler, but must not write.
    process: u32,
    /// The logs of all recordings, finished or not.
    logs: Mutex<Vec<Arc<Log>>>,
}

/// Returns the timeline of the process, if the environment requests it.
pub(super) fn whole() -> Option<&'static Whole> {
    static WHOLE: OnceLock<Option<Whole>> = OnceLock::new();
    let made = || {
        let file = std::env::var_os(NAME).filter(|file| !file.is_empty())?;
        // SAFETY: the handler is a function of this library. The C library runs it before it
        // unloads the library.
        let is_set = unsafe { libc::atexit(write_at_exit) } == 0;
        if !is_set {
            eprintln!(
                "ascend-emulator: {NAME}: no timeline will be written, because the process can \
                 register no more exit handlers; register fewer of them"
            );
        }
        let process = std::process::id();
        is_set.then(|| Whole { file: named(&file, process), process, logs: Mutex::default() })
    };
    WHOLE.get_or_init(made).as_ref()
}

/// Replaces `%p`, unless the name is not text.
fn named(file: &OsStr, process: u32) -> PathBuf {
    match file.to_str() {
        Some(text) => text.replace("%p", &process.to_string()).into(),
        None => file.into(),
    }
}

impl Whole {
    /// Keeps the log of a block. Drops the logs of destroyed blocks that have no entry.
    pub(super) fn keep(&self, log: &Arc<Log>) {
        let mut logs = lock(&self.logs);
        logs.retain(|log| !log.is_closed_and_empty());
        logs.push(Arc::clone(log));
    }

    fn write(&self) {
        let logs = std::mem::take(&mut *lock(&self.logs));
        logs.iter().for_each(|log| log.close());
        let records: Records = logs.iter().map(|log| log.record()).collect();
        let written = match ascend_timeline::form_of(&self.file) {
            Some(draw) => fs::write(&self.file, draw(&records)),
            None => append(&self.file, records.to_text() + "\n"),
        };
        if let Err(error) = written {
            let file = Path::display(&self.file);
            eprintln!(
                "ascend-emulator: {NAME}={file}: the timeline is not written: {error}; name \
                 another file"
            );
        }
    }
}

/// Adds a line to a file. Several processes may add lines to the same file.
fn append(file: &Path, line: String) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(file)?.write_all(line.as_bytes())
}

extern "C" fn write_at_exit() {
    if let Some(whole) = whole().filter(|whole| whole.process == std::process::id()) {
        // A panic must not unwind into C.
        let _ = std::panic::catch_unwind(|| whole.write());
    }
}
