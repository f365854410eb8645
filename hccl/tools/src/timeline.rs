//! `--timeline`: one timeline of all ranks.
//!
//! The emulator in each rank writes its record into a memfd of hcclrun when the rank exits. So no
//! temporary file can stay behind.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::path::{Path, PathBuf};

use ascend_timeline::{Record, Records, form_of};

/// The variable that names the file into which the emulator writes its timeline.
pub(crate) const VARIABLE: &str = "ASCEND_EMULATOR_TIMELINE";

/// Returns the file that the environment of hcclrun names, if there is one. hcclrun writes it, so
/// the ranks must not write to it themselves.
pub(crate) fn from_environment() -> Result<Option<PathBuf>, String> {
    match std::env::var_os(VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from) {
        Some(file) if form_of(&file).is_none() => {
            Err(format!("{VARIABLE}={}: give a name that ends with .svg or .json", file.display()))
        }
        file => Ok(file),
    }
}

/// The records of all processes of the job.
#[derive(Default)]
pub(crate) struct Timelines {
    /// The rank, process id and memfd of each process that was started.
    parts: Vec<(u32, u32, TimelinePart)>,
}

/// A memfd for the records of one rank. Each process that the rank starts may add a line, too.
pub(crate) struct TimelinePart(File);

impl TimelinePart {
    pub(crate) fn new() -> io::Result<TimelinePart> {
        // SAFETY: the name is a string for C.
        let descriptor = unsafe { libc::memfd_create(c"timeline".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, so this is its only owner.
        Ok(TimelinePart(unsafe { File::from_raw_fd(descriptor) }))
    }

    /// Returns the path by which a process of the same user opens the memfd while hcclrun runs.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }

    fn read(mut self) -> Result<String, String> {
        let mut text = String::new();
        self.0
            .rewind()
            .and_then(|()| self.0.read_to_string(&mut text))
            .map_err(|e| e.to_string())?;
        match text.is_empty() {
            true => {
                Err("it was killed, ended without its exit handlers, or used no emulated device"
                    .into())
            }
            false => Ok(text),
        }
    }
}

impl Timelines {
    /// Adds the memfd of a process that was started.
    pub(crate) fn add(&mut self, rank: u32, process: u32, part: TimelinePart) {
        self.parts.push((rank, process, part));
    }

    /// Joins and draws the records, and writes the result to `file`. All ranks must have exited.
    pub(crate) fn write(self, file: &Path) -> Result<(), String> {
        let mut all = Vec::new();
        for (rank, process, part) in self.parts {
            let missing =
                |why| eprintln!("hcclrun: no timeline of rank {rank} (process {process}): {why}");
            match part.read() {
                Ok(text) => text.lines().for_each(|line| match Records::from_text(line) {
                    Ok(records) => all.push(records),
                    Err(why) => missing(why.to_string()),
                }),
                Err(why) => missing(why),
            }
        }
        let records = Records::join(all);
        let draw = form_of(file)
            .ok_or("a timeline is drawn as .svg or .json; give a name that ends so")?;
        fs::write(file, draw(&records)).map_err(|error| format!("{}: {error}", file.display()))?;
        let sum = |count: fn(&Record) -> usize| -> usize { records.iter().map(count).sum() };
        eprintln!(
            "hcclrun: {}: processes {}, launches of kernels {}, turns of servers {}, primitives \
             of operators {}",
            file.display(),
            records.processes(),
            sum(|record| record.launches.len()),
            sum(|record| record.turns.len()),
            sum(|record| record.primitives.len())
        );
        Ok(())
    }
}
