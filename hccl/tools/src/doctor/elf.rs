//! Examines a file that should be a shared library, without loading it. The loader does not report
//! that a library is for another processor, and it ends the process if the file is cut off.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The state of the file at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileState {
    Absent,
    Library,
    /// A library for other processors.
    OtherMachine(String),
    /// The file ends before the data that its headers name.
    Truncated {
        has: u64,
        needs: u64,
    },
    NoLibrary(&'static str),
    Unreadable(String),
}

impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileState::Absent => f.write_str("no such file"),
            FileState::Library => write!(f, "a library for {}", std::env::consts::ARCH),
            FileState::OtherMachine(machine) => {
                let own = std::env::consts::ARCH;
                write!(
                    f,
                    "it is for {machine}, and this machine is {own}: install the package for {own}"
                )
            }
            FileState::Truncated { has, needs } => {
                write!(f, "it is cut off: {has} of {needs} bytes are there; install it again")
            }
            FileState::NoLibrary(what) => {
                write!(f, "it is not a shared library: it is {what}; install the package again")
            }
            FileState::Unreadable(problem) => write!(f, "it cannot be read: {problem}"),
        }
    }
}

/// Returns the state of the file at a path.
pub(crate) fn state_of(path: &Path) -> FileState {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => FileState::Absent,
        Err(error) => FileState::Unreadable(error.to_string()),
        Ok(metadata) if metadata.is_dir() => FileState::NoLibrary("a directory"),
        Ok(metadata) if !metadata.is_file() => FileState::NoLibrary("no regular file"),
        Ok(metadata) => read(path, metadata.len())
            .unwrap_or_else(|error| FileState::Unreadable(error.to_string())),
    }
}

/// The sizes of ELF's headers for 64 bits.
const HEADER: usize = 64;
const SEGMENT: usize = 56;

fn read(path: &Path, length: u64) -> io::Result<FileState> {
    let mut file = File::open(path)?;
    let mut header = Vec::new();
    file.by_ref().take(HEADER as u64).read_to_end(&mut header)?;
    if !header.starts_with(b"\x7fELF") {
        let is_text =
            !header.is_empty() && header.iter().all(|byte| matches!(byte, 9..=13 | 32..127));
        return Ok(FileState::NoLibrary(match (header.is_empty(), is_text) {
            (true, _) => "an empty file",
            (_, true) => "a text",
            _ => "something else",
        }));
    }
    if header.len() < HEADER {
        return Ok(FileState::Truncated { has: length, needs: HEADER as u64 });
    }
    let number = |at: usize, bytes: usize| {
        header[at..at + bytes].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    // Only little-endian processors of 64 bits are of interest.
    if (header[4], header[5]) != (2, 1) {
        return Ok(FileState::OtherMachine(
            "a processor of 32 bits, or one with big-endian byte order".into(),
        ));
    }
    let own = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    match number(18, 2) {
        machine if machine == own => {}
        62 => return Ok(FileState::OtherMachine("x86_64".into())),
        183 => return Ok(FileState::OtherMachine("aarch64".into())),
        other => {
            return Ok(FileState::OtherMachine(format!("another processor (ELF machine {other})")));
        }
    }
    if number(16, 2) != 3 {
        return Ok(FileState::NoLibrary("a program or an object file"));
    }
    let (first, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let end = |start: u64, bytes: u64| start.saturating_add(bytes);
    let mut needs = end(first, size * count);
    if size as usize == SEGMENT && needs <= length {
        let mut segments = Vec::new();
        file.seek(SeekFrom::Start(first))?;
        file.take(size * count).read_to_end(&mut segments)?;
        for segment in segments.chunks_exact(SEGMENT) {
            let number = |at: usize| {
                segment[at..at + 8].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
            };
            // The offset of the segment in the file, and its length there.
            needs = needs.max(end(number(8), number(32)));
        }
    }
    Ok(match needs <= length {
        true => FileState::Library,
        false => FileState::Truncated { has: length, needs },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the state of a copy of the test program, to whose bytes `change` was applied.
    fn changed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> FileState {
        let mut bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        change(&mut bytes);
        let path =
            std::env::temp_dir().join(format!("hccl-doctor-elf-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let state = state_of(&path);
        std::fs::remove_file(&path).unwrap();
        state
    }

    #[test]
    fn a_library_is_told_from_what_is_none() {
        // A position-independent program has the same ELF type as a library.
        assert_eq!(changed("whole", |_| ()), FileState::Library);
        assert_eq!(changed("empty", Vec::clear), FileState::NoLibrary("an empty file"));
        let text = changed("text", |bytes| *bytes = b"GROUP ( libacl_rt.so.1 )\n".to_vec());
        assert_eq!(text, FileState::NoLibrary("a text"));
        assert_eq!(
            changed("object", |bytes| bytes[16] = 1),
            FileState::NoLibrary("a program or an object file")
        );
        assert_eq!(state_of(Path::new("/")), FileState::NoLibrary("a directory"));
        assert_eq!(state_of(Path::new("/there is/nothing here")), FileState::Absent);
    }

    #[test]
    fn another_processor_is_named() {
        let other = if cfg!(target_arch = "x86_64") { (183, "aarch64") } else { (62, "x86_64") };
        assert_eq!(
            changed("other", |bytes| bytes[18] = other.0),
            FileState::OtherMachine(other.1.into())
        );
        assert!(matches!(changed("bits", |bytes| bytes[4] = 1), FileState::OtherMachine(_)));
    }

    #[test]
    fn a_file_that_is_cut_off_is_found_wherever_it_ends() {
        for kept in [5, 63, 64, 100, 4096] {
            let state = changed("cut", |bytes| bytes.truncate(kept));
            assert!(matches!(state, FileState::Truncated { .. }), "{kept}: {state}");
        }
        // The sum of these numbers overflows.
        let state = changed("beyond", |bytes| bytes[32..40].fill(0xff));
        assert!(matches!(state, FileState::Truncated { .. }), "{state}");
    }
}
