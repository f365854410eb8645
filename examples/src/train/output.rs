//! The folder of results.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// A file of the output, by its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// The loss curve.
    Loss,
    /// A few steps of every rank.
    Timeline,
    /// All steps of every rank.
    Trace,
}

impl File {
    /// All files.
    pub const ALL: [File; 3] = [File::Loss, File::Timeline, File::Trace];

    fn name(self) -> &'static str {
        match self {
            File::Loss => "loss.svg",
            File::Timeline => "timeline.svg",
            File::Trace => "trace.json",
        }
    }
}

/// A folder in which every [`File`] can be written.
#[derive(Debug)]
pub struct Output {
    folder: PathBuf,
}

impl Output {
    /// Makes the folder and its missing files, and opens every file for writing, so that a problem
    /// shows before the training. The files keep their old contents until [`Output::write`].
    pub fn prepare(folder: &Path) -> Result<Self, String> {
        let output = Self { folder: folder.to_owned() };
        fs::create_dir_all(folder).map_err(|error| refused(folder, &error))?;
        for file in File::ALL {
            let path = output.path(file);
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(|error| refused(&path, &error))?;
        }
        Ok(output)
    }

    /// Returns the path of a file.
    pub fn path(&self, file: File) -> PathBuf {
        self.folder.join(file.name())
    }

    /// Replaces a file.
    pub fn write(&self, file: File, text: &str) -> Result<(), String> {
        let path = self.path(file);
        fs::write(&path, text).map_err(|error| refused(&path, &error))
    }
}

fn refused(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        // This is the error of making a folder if something else has its name.
        io::ErrorKind::AlreadyExists => {
            format!("--out: cannot write {path}: it is not a folder; name a folder")
        }
        _ => format!("--out: cannot write {path}: {error}"),
    }
}
