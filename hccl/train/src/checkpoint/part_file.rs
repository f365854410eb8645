//! The file of one part of an array.
//!
//! The file begins with [`MAGIC`] and the name of the element type, filled up with zeros to 8
//! bytes. Then come the elements in little-endian order, in blocks of [`BLOCK`] elements, of which
//! the last one may be shorter. The CRC-32 of its bytes follows each block, in little-endian order.
//! So a reader of a range reads and checks only the blocks that have elements of it.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use crate::error::{Result, checkpoint_failed};
use crate::gradient::Gradient;

/// The first bytes of a file: the name and the version of the format.
const MAGIC: [u8; 8] = *b"hccltr02";
/// The length of the name of the type in the file, in bytes.
const NAME: usize = 8;
const HEAD: usize = MAGIC.len() + NAME;
/// The number of elements in a block.
const BLOCK: usize = 1 << 16;
/// The length of a checksum, in bytes.
const SUM: usize = 4;

/// Writes a range of an array into a file in this directory, which is made if it does not exist.
pub(super) fn write<T: Gradient>(
    directory: &Path,
    name: &str,
    own: &Range<usize>,
    values: &[T],
) -> Result<()> {
    let path = directory.join(format!("{name}.{}-{}.part", own.start, own.end));
    fs::create_dir_all(directory).map_err(|why| checkpoint_failed(directory, why))?;
    let file = File::create(&path).map_err(|why| checkpoint_failed(&path, why))?;
    let mut file = BufWriter::new(file);
    let mut write = || {
        file.write_all(&MAGIC)?;
        file.write_all(&type_name::<T>())?;
        let mut bytes = Vec::new();
        for block in values.chunks(BLOCK) {
            bytes.clear();
            block.iter().for_each(|value| value.write_to(&mut bytes));
            file.write_all(&bytes)?;
            file.write_all(&crc32fast::hash(&bytes).to_le_bytes())?;
        }
        file.flush()?;
        file.get_ref().sync_all()
    };
    write().map_err(|why| checkpoint_failed(&path, why))
}

/// Reads a range of elements of a part that has `elements` elements, and appends them to `to`.
pub(super) fn read<T: Gradient>(
    path: &Path,
    wanted: Range<usize>,
    elements: usize,
    to: &mut Vec<T>,
) -> Result<()> {
    let mut file = File::open(path).map_err(|why| checkpoint_failed(path, why))?;
    let length = file.metadata().map_err(|why| checkpoint_failed(path, why))?.len();
    let mut head = [0; HEAD];
    file.read_exact(&mut head).map_err(|why| checkpoint_failed(path, why))?;
    let (magic, name) = head.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(checkpoint_failed(
            path,
            "the file is not a part of a checkpoint of this version: save the checkpoint again",
        ));
    }
    if name != type_name::<T>() {
        let saved = String::from_utf8_lossy(name);
        return Err(checkpoint_failed(
            path,
            format_args!(
                "the elements in the file are of another type, {}, not {}: load the type that was \
                 saved",
                saved.trim_end_matches('\0'),
                T::DTYPE.name()
            ),
        ));
    }
    if Some(length) != length_of::<T>(elements) {
        return Err(checkpoint_failed(
            path,
            "the length of the file does not fit the range in its name: use another checkpoint",
        ));
    }
    for block in wanted.start / BLOCK..wanted.end.div_ceil(BLOCK) {
        let start = block * BLOCK;
        let count = BLOCK.min(elements - start);
        let at = HEAD + block * (BLOCK * size_of::<T>() + SUM);
        let mut bytes = vec![0; count * size_of::<T>() + SUM];
        file.seek(SeekFrom::Start(at as u64)).map_err(|why| checkpoint_failed(path, why))?;
        file.read_exact(&mut bytes).map_err(|why| checkpoint_failed(path, why))?;
        let (values, sum) = bytes.split_at(count * size_of::<T>());
        if sum != crc32fast::hash(values).to_le_bytes() {
            return Err(checkpoint_failed(
                path,
                format_args!(
                    "elements {start} to {} of this part were damaged: use another checkpoint",
                    start + count - 1
                ),
            ));
        }
        let skipped = wanted.start.saturating_sub(start);
        let taken = count.min(wanted.end - start) - skipped;
        let values = values.chunks_exact(size_of::<T>()).skip(skipped).take(taken);
        to.extend(values.map(T::read_from));
    }
    Ok(())
}

/// Returns the name of a type as it stands in a file.
fn type_name<T: Gradient>() -> [u8; NAME] {
    let mut name = [0; NAME];
    name.iter_mut().zip(T::DTYPE.name().bytes()).for_each(|(to, from)| *to = from);
    name
}

/// Returns the length of the file of a part with this number of elements; `None` if no file can be
/// that long.
fn length_of<T: Gradient>(elements: usize) -> Option<u64> {
    let values = elements.checked_mul(size_of::<T>())?;
    let sums = elements.div_ceil(BLOCK).checked_mul(SUM)?;
    Some(values.checked_add(sums)?.checked_add(HEAD)? as u64)
}
