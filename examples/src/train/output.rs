//! The folder of results.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The files it will hold.
pub const FILES: [&str; 3] = ["loss.svg", "timeline.svg", "trace.json"];

/// A folder in which all of [`FILES`] can be written.
#[derive(Debug)]
pub struct Output {
    folder: PathBuf,
}

impl Output {
    /// Makes the folder, and tries to open every file, so that nobody trains for nothing. What the files
    /// held stays until [`Output::write`].
    pub fn prepare(folder: &Path) -> Result<Self, String> {
        let output = Self { folder: folder.to_owned() };
        fs::create_dir_all(folder).map_err(|error| output.refused(&error))?;
        for file in FILES {
            let path = folder.join(file);
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .map_err(|error| output.refused(&error))?;
        }
        Ok(output)
    }

    /// Replaces a file.
    pub fn write(&self, file: &str, text: &str) -> Result<(), String> {
        fs::write(self.folder.join(file), text).map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &io::Error) -> String {
        format!("--out {}: cannot be written: {error}", self.folder.display())
    }
}
