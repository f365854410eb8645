//! Checkpoints of arrays that are spread over the ranks. Another number of ranks can read them.
//!
//! A checkpoint is a directory `step-N`. Each rank writes its part of each array into a file of its
//! own. The name of the file contains the range of the part. The directory has another name until
//! all ranks have written, so a directory with the name `step-N` is complete. A checkpoint that is
//! replaced is called `replaced-N` for a moment, and counts as long as there is no `step-N`. A
//! reader searches for the files that have the elements it needs. So it does not matter how many
//! ranks wrote the files.
//!
//! All ranks must reach the directory by the same path, as on one machine or a shared file system.

mod part_file;

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hccl::prelude::*;

use crate::error::{Error, Result, check_length, checkpoint_failed};
use crate::gradient::Gradient;
use crate::objects;

/// The checkpoints of a training, in one directory.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::{ArrayPart, Checkpoints};
///
/// # fn main() -> hccl_train::Result<()> {
/// # let directory = std::env::temp_dir().join(format!("hccl-checkpoints-all-{}", std::process::id()));
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let checkpoints = Checkpoints::new(&directory);
///     let start = 4 * rank.index() as usize;
///     let own = start..start + 4; // of 8 elements
///     let weight = ArrayPart { name: "weight", total: 8, own, values: &[1.5_f32; 4] };
///     checkpoints.save(100, &[weight], &mut comm, &stream)?;
///
///     // Later, with any number of ranks.
///     assert_eq!(checkpoints.latest(), Some(100));
///     assert_eq!(checkpoints.load::<f32>(100, "weight", 2..6)?, [1.5; 4]);
///     Ok(())
/// })?;
/// # let _ = std::fs::remove_dir_all(directory);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoints {
    directory: PathBuf,
}

/// A part of an array, for [`Checkpoints::save`].
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::{ArrayPart, Checkpoints};
///
/// # fn main() -> hccl_train::Result<()> {
/// # let directory = std::env::temp_dir().join(format!("hccl-checkpoints-part-{}", std::process::id()));
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let checkpoints = Checkpoints::new(&directory);
///     let start = 4 * rank.index() as usize;
///     let own = start..start + 4; // of 8 elements
///     let weight = ArrayPart { name: "weight", total: 8, own, values: &[1.5_f32; 4] };
///     checkpoints.save(100, &[weight], &mut comm, &stream)?;
///     Ok(())
/// })?;
/// # let _ = std::fs::remove_dir_all(directory);
/// # Ok(())
/// # }
/// ```
pub struct ArrayPart<'a, T> {
    /// The name of the array, which may have only letters, digits and underscores.
    pub name: &'a str,
    /// The number of elements of the whole array.
    pub total: usize,
    /// The range of elements that this rank has. Together the ranks must have each element once.
    pub own: Range<usize>,
    /// The values of these elements.
    pub values: &'a [T],
}

impl Checkpoints {
    /// Returns a handle for the checkpoints in a directory. The first [`save`](Self::save) makes
    /// the directory if it does not exist.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    fn step(&self, step: u64) -> PathBuf {
        self.directory.join(format!("step-{step}"))
    }

    /// Returns the name that an older checkpoint of a step has while a newer one takes its place.
    fn replaced(&self, step: u64) -> PathBuf {
        self.directory.join(format!("replaced-{step}"))
    }

    /// Returns the directory with the complete checkpoint of a step. This is the older checkpoint
    /// if a training was ended between the two renames of [`finish`].
    fn complete(&self, step: u64) -> PathBuf {
        let (newest, older) = (self.step(step), self.replaced(step));
        if !newest.exists() && older.exists() { older } else { newest }
    }

    /// Returns the latest step that was saved, if there is one.
    pub fn latest(&self) -> Option<u64> {
        let entries = fs::read_dir(&self.directory).ok()?;
        let steps = entries.flatten().filter_map(|entry| {
            let name = entry.file_name();
            let name = name.to_str()?;
            let step = name.strip_prefix("step-").or_else(|| name.strip_prefix("replaced-"))?;
            step.parse().ok()
        });
        steps.max()
    }

    /// Saves this rank's parts of some arrays. All ranks must call it for the same step. Blocks
    /// until all ranks have written. If it fails on one rank, it fails on all. Replaces a
    /// checkpoint of the same step, but only if the save has all arrays of it. The arrays of one
    /// call have one type; for arrays of another type, use `Checkpoints` of another directory.
    ///
    /// # Errors
    ///
    /// [`Error::Checkpoint`] if the ranks differ in the step, in the element type or in the number
    /// of elements of an array, or if they do not have each element exactly once. Then no file is
    /// written. If all ranks have the whole array, one rank must pass all of it, and the other
    /// ranks must pass an empty range. [`Error::Checkpoint`] also if a file cannot be written.
    pub fn save<T: Gradient>(
        &self,
        step: u64,
        parts: &[ArrayPart<'_, T>],
        comm: &mut Communicator,
        stream: &Stream,
    ) -> Result<()> {
        let unfinished = self.directory.join(format!("unfinished-{step}"));
        let own = parts.iter().map(plan).collect::<Result<Vec<PartPlan>>>();
        let own = own.map_err(|why| why.to_string());
        let mut plans = Vec::new();
        let dtype = T::DTYPE.name().to_owned();
        let all = objects::all_gather(&(step, dtype, own), comm, stream)?;
        for (rank, (its_step, its_type, its_parts)) in (0..).zip(all) {
            if its_step != step {
                let own = comm.rank();
                return Err(Error::Checkpoint(format!(
                    "rank {own} saves step {step}, but rank {rank} saves step {its_step}: save the \
                     same step on all ranks"
                )));
            }
            if its_type != T::DTYPE.name() {
                return Err(Error::Checkpoint(format!(
                    "rank {} saves elements of type {}, but rank {rank} of type {its_type}: save \
                     one type on all ranks",
                    comm.rank(),
                    T::DTYPE.name()
                )));
            }
            let its_parts: Vec<PartPlan> =
                its_parts.map_err(|why| Error::Checkpoint(format!("rank {rank}: {why}")))?;
            plans.extend(its_parts.into_iter().map(|part| (rank, part)));
        }
        let names: BTreeSet<String> = plans.iter().map(|(_, (name, ..))| name.clone()).collect();
        check_cover(plans)?;
        let cleared = match comm.rank() {
            0 => self.clear(step, &unfinished, &names).map_err(|why| why.to_string()),
            _ => Ok(()),
        };
        objects::broadcast(Some(&cleared), 0, comm, stream)?.map_err(Error::Checkpoint)?;
        let outcome = parts
            .iter()
            .try_for_each(|part| part_file::write(&unfinished, part.name, &part.own, part.values));
        let told = outcome.as_ref().map_err(ToString::to_string).copied();
        for (rank, outcome) in objects::all_gather(&told, comm, stream)?.into_iter().enumerate() {
            outcome.map_err(|why| Error::Checkpoint(format!("rank {rank}: {why}")))?;
        }
        let outcome = match comm.rank() {
            0 => finish(&unfinished, &self.step(step), &self.replaced(step))
                .map_err(|why| why.to_string()),
            _ => Ok(()),
        };
        objects::broadcast(Some(&outcome), 0, comm, stream)?.map_err(Error::Checkpoint)
    }

    /// Prepares the directory of a save. If an earlier training was ended during a save, its files
    /// may still be there. A checkpoint of the same step is replaced, but only with all its arrays.
    fn clear(&self, step: u64, unfinished: &Path, names: &BTreeSet<String>) -> Result<()> {
        let directory = self.complete(step);
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let file = entry.file_name();
            let name = file.to_str().and_then(parse).map(|(name, _)| name.to_owned());
            if let Some(name) = name.filter(|name| !names.contains(name)) {
                return Err(Error::Checkpoint(format!(
                    "{} has the array \"{name}\" already, which this save would delete: save all \
                     arrays of a step in one call, and arrays of another type in another directory",
                    directory.display()
                )));
            }
        }
        match unfinished.exists() {
            true => {
                fs::remove_dir_all(unfinished).map_err(|why| checkpoint_failed(unfinished, why))
            }
            false => Ok(()),
        }
    }

    /// Loads a range of elements of an array. The number of ranks that saved the array does not
    /// matter. Does not wait for other ranks.
    ///
    /// # Errors
    ///
    /// [`Error::Checkpoint`] if the checkpoint does not have all elements of the range, or if a
    /// file cannot be read, was damaged, or has elements of another type.
    pub fn load<T: Gradient>(&self, step: u64, name: &str, range: Range<usize>) -> Result<Vec<T>> {
        let directory = self.complete(step);
        let mut parts = Vec::new();
        for entry in fs::read_dir(&directory).map_err(|why| checkpoint_failed(&directory, why))? {
            let path = entry.map_err(|why| checkpoint_failed(&directory, why))?.path();
            let place = path.file_name().and_then(|name| name.to_str()).and_then(parse);
            if let Some((_, own)) = place.filter(|(of, _)| *of == name) {
                parts.push((own, path));
            }
        }
        parts.sort_by_key(|(own, _)| own.start);
        // The range may be larger than any memory, so room is made only for what the files have.
        let mut values = Vec::new();
        for (own, path) in parts {
            let wanted = range.start.max(own.start)..range.end.min(own.end);
            // Takes the parts in order and without a gap.
            if wanted.is_empty() || wanted.start != range.start + values.len() {
                continue;
            }
            let wanted = wanted.start - own.start..wanted.end - own.start;
            part_file::read(&path, wanted, own.len(), &mut values)?;
        }
        if values.len() == range.len() {
            return Ok(values);
        }
        Err(Error::Checkpoint(format!(
            "{} has no element {} of the array \"{name}\": load a range that was saved",
            directory.display(),
            range.start + values.len()
        )))
    }
}

/// Returns the name of the array and the range of the part, from the name of a file.
fn parse(file: &str) -> Option<(&str, Range<usize>)> {
    let (name, place) = file.strip_suffix(".part")?.rsplit_once('.')?;
    let (start, end) = place.split_once('-')?;
    Some((name, start.parse().ok()?..end.parse().ok()?))
}

/// The name of an array, its length, and the range of a part.
type PartPlan = (String, u64, Range<u64>);

/// Checks a part by itself.
fn plan<T: Gradient>(part: &ArrayPart<'_, T>) -> Result<PartPlan> {
    let ArrayPart { name, total, own, values } = part;
    let is_name = |name: &str| name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
    if name.is_empty() || !is_name(name) {
        return Err(Error::Checkpoint(format!(
            "the name of an array may have only letters, digits and underscores, unlike \
             \"{name}\": rename the array"
        )));
    }
    check_length(|| format!("the part of \"{name}\""), values.len(), own.len())?;
    if own.end > *total {
        return Err(Error::Checkpoint(format!(
            "the part {own:?} of \"{name}\" does not lie inside the array, whose length is \
             {total}: correct the range or the total"
        )));
    }
    Ok((name.to_string(), *total as u64, own.start as u64..own.end as u64))
}

/// Checks that the parts of all ranks, each with its rank, have each element of each array once.
fn check_cover(mut parts: Vec<(u32, PartPlan)>) -> Result<()> {
    parts.sort_by(|(_, (a, _, x)), (_, (b, _, y))| (a, x.start, x.end).cmp(&(b, y.start, y.end)));
    for array in parts.chunk_by(|(_, (a, ..)), (_, (b, ..))| a == b) {
        let Some((first, (name, total, _))) = array.first() else { continue };
        let mut end = 0;
        let mut before = *first;
        for (rank, (_, length, range)) in array {
            if length != total {
                return Err(Error::Checkpoint(format!(
                    "the length of the array \"{name}\" is {total} on rank {first}, but {length} \
                     on rank {rank}: pass the same total on all ranks"
                )));
            }
            if range.is_empty() {
                continue;
            }
            if range.start < end {
                return Err(Error::Checkpoint(format!(
                    "ranks {before} and {rank} both have element {} of the array \"{name}\": each \
                     element must be in the part of one rank only",
                    range.start
                )));
            }
            if range.start > end {
                return Err(missing(name, end));
            }
            (end, before) = (range.end, *rank);
        }
        if end < *total {
            return Err(missing(name, end));
        }
    }
    Ok(())
}

fn missing(name: &str, element: u64) -> Error {
    Error::Checkpoint(format!(
        "no rank has element {element} of the array \"{name}\": give each element to one rank"
    ))
}

/// Gives the directory of a complete checkpoint its final name. An older checkpoint of the step is
/// removed only after that, so there is a complete one at any moment.
fn finish(unfinished: &Path, step: &Path, replaced: &Path) -> Result<()> {
    let remove = || match replaced.exists() {
        true => fs::remove_dir_all(replaced).map_err(|why| checkpoint_failed(replaced, why)),
        false => Ok(()),
    };
    fs::create_dir_all(unfinished).map_err(|why| checkpoint_failed(unfinished, why))?;
    if step.exists() {
        remove()?;
        fs::rename(step, replaced).map_err(|why| checkpoint_failed(step, why))?;
    }
    fs::rename(unfinished, step).map_err(|why| checkpoint_failed(step, why))?;
    remove()
}
