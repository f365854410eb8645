//! Reads a record: the files of a directory, one for each rank of a communicator.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// A recorded run.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) files: BTreeMap<Member, RankFile>,
}

/// One rank of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Member {
    pub(crate) title: String,
    /// The number of this communicator among those of its title, from 1.
    pub(crate) count: usize,
    pub(crate) rank: u32,
    ranks: u32,
    /// The device, which distinguishes members of several communicators that have the same title.
    device: String,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Member { title, count, rank, ranks, .. } = self;
        match count {
            1 => write!(f, "communicator {title}, rank {rank} of {ranks}"),
            _ => write!(
                f,
                "communicator {title} (number {count} of this title), rank {rank} of {ranks}"
            ),
        }
    }
}

/// The operations of a rank, in the order in which it has issued them.
#[derive(Debug)]
pub(crate) struct RankFile {
    pub(crate) path: PathBuf,
    pub(crate) lines: Vec<Line>,
}

/// One operation of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The place of the operation among all operations of its process.
    pub(crate) at: u64,
    /// The communicator, the name and the number of the operation.
    pub(crate) operation: String,
    pub(crate) dtype: String,
    /// The input: a length and a checksum, `-` for nothing, or `failed`.
    pub(crate) given: String,
    pub(crate) got: String,
}

/// The greatest length of a file that is read, in bytes.
const LONGEST: u64 = 4 << 30;

impl Record {
    pub(crate) fn read(directory: &Path) -> Result<Record, String> {
        let of = |path: &Path, error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let entries = std::fs::read_dir(directory).map_err(|error| of(directory, &error))?;
        let mut files = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(|error| of(directory, &error))?.path();
            if path.extension().is_none_or(|end| end != "run") {
                continue;
            }
            let length = std::fs::metadata(&path).map_err(|error| of(&path, &error))?.len();
            if length > LONGEST {
                return Err(of(
                    &path,
                    &"it is longer than a record can be: remove it, or record the run again",
                ));
            }
            let text = std::fs::read_to_string(&path).map_err(|error| of(&path, &error))?;
            let device = device_of(&path);
            let (member, lines) = parse(&text, device).map_err(|error| of(&path, &error))?;
            files.insert(member, RankFile { path, lines });
        }
        match files.is_empty() {
            true => Err(of(
                directory,
                &"no run is recorded there: pass a directory with files that end with .run",
            )),
            false => Ok(Record { files }),
        }
    }
}

fn device_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    stem.rsplit(".device-").next().unwrap_or_default().to_owned()
}

fn parse(text: &str, device: String) -> Result<(Member, Vec<Line>), String> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let ["hccl run record 1", title, count, rank, ranks] = head[..] else {
        return Err(
            "its first line is not that of a record of this version: record the run again".into()
        );
    };
    let number = |text: &str| {
        text.parse::<u32>().map_err(|_| format!("\"{text}\" is not a number: record the run again"))
    };
    let (count, rank, ranks) = (number(count)? as usize, number(rank)?, number(ranks)?);
    let member = Member { title: title.to_owned(), count, rank, ranks, device };
    let mut operations = Vec::new();
    for (index, line) in lines.enumerate() {
        let words: Vec<&str> = line.split('\t').collect();
        // The last line of a run that was killed may be cut off.
        let [at, operation, dtype, given, got] = words[..] else {
            return Err(format!("line {} is not an operation: record the run again", index + 2));
        };
        let at = at
            .parse()
            .map_err(|_| format!("line {} has no number: record the run again", index + 2))?;
        let [operation, dtype, given, got] = [operation, dtype, given, got].map(str::to_owned);
        operations.push(Line { at, operation, dtype, given, got });
    }
    Ok((member, operations))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_its_rank_and_its_operations() {
        let text = "hccl run record 1\tworld\t1\t2\t4\n7\tworld barrier 1\tf32\t-\t-\n";
        let (member, lines) = parse(text, "2".into()).unwrap();
        assert_eq!(member.to_string(), "communicator world, rank 2 of 4");
        assert_eq!(
            (lines[0].at, &*lines[0].operation, &*lines[0].got),
            (7, "world barrier 1", "-")
        );
    }

    #[test]
    fn what_is_no_record_is_an_error_with_its_line() {
        for (text, problem) in [
            ("", "first line"),
            ("hccl run record 2\tworld\t1\t0\t1\n", "first line"),
            ("hccl run record 1\tworld\t1\tzero\t1\n", "\"zero\" is not a number"),
            (
                "hccl run record 1\tworld\t1\t0\t1\n0\tworld barrier 1\tf3",
                "line 2 is not an operation",
            ),
            ("hccl run record 1\tworld\t1\t0\t1\nx\ta\tb\tc\td\n", "line 2 has no number"),
        ] {
            let error = parse(text, String::new()).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
