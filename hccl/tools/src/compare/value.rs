//! Finds the element in which two operations differ. Both must have been recorded whole.

use std::path::PathBuf;

use hccl::{bf16, f16};

use crate::read::RankFile;

/// Describes the first element that differs: its index, both values, and the number of elements
/// that differ. If the numbers of elements differ, describes these instead. Returns `None` if a run
/// has not recorded the bytes of the operation.
pub(crate) fn first_difference(
    files: &[&RankFile; 2],
    operation: &str,
    what: &str,
    dtype: &str,
) -> Result<Option<String>, String> {
    let [Some(a), Some(b)] = files.map(|file| whole_of(file, operation, what)) else {
        return Ok(None);
    };
    let read = |path: PathBuf| {
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let (a, b) = (read(a)?, read(b)?);
    let size = size_of_type(dtype)
        .ok_or_else(|| format!("{dtype} is not an element type: record both runs again"))?;
    let (elements, others) = (a.len() / size, b.len() / size);
    if elements != others {
        return Ok(Some(format!("{elements} elements in the first run, {others} in the second")));
    }
    let differs = |at: &usize| a[at * size..(at + 1) * size] != b[at * size..(at + 1) * size];
    let Some(at) = (0..elements).find(differs) else {
        return Err("the bytes are the same, so they are not those of the checksums: record both \
                    runs again"
            .into());
    };
    let count = (0..elements).filter(differs).count();
    let [a, b] = [&a, &b].map(|bytes| text(dtype, &bytes[at * size..(at + 1) * size]));
    Ok(Some(format!(
        "element {at}: {a} in the first run, {b} in the second; {count} of {elements} elements differ ({dtype})"
    )))
}

/// Returns the path of the file with the bytes of an operation, if there is one. It is in the
/// directory of the file with the lines.
fn whole_of(file: &RankFile, operation: &str, what: &str) -> Option<PathBuf> {
    let stem = file.path.file_stem()?.to_str()?;
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let operation: String = operation.chars().take(80).map(plain).collect();
    let path = file.path.with_file_name(format!("{stem}.{operation}.{what}"));
    path.exists().then_some(path)
}

fn size_of_type(dtype: &str) -> Option<usize> {
    Some(match dtype {
        "i8" | "u8" => 1,
        "i16" | "u16" | "f16" | "bf16" => 2,
        "i32" | "u32" | "f32" => 4,
        "i64" | "u64" | "f64" => 8,
        _ => return None,
    })
}

/// Returns a value and its bits as text.
fn text(dtype: &str, bytes: &[u8]) -> String {
    let bits = bytes.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    let unused = 64 - 8 * bytes.len() as u32;
    let signed = ((bits << unused) as i64) >> unused;
    let value = match dtype {
        "f16" => f16::from_bits(bits as u16).to_string(),
        "bf16" => bf16::from_bits(bits as u16).to_string(),
        "f32" => f32::from_bits(bits as u32).to_string(),
        "f64" => f64::from_bits(bits).to_string(),
        signed_type if signed_type.starts_with('i') => signed.to_string(),
        _ => bits.to_string(),
    };
    format!("{value} (0x{bits:0width$x})", width = 2 * bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_their_type() {
        assert_eq!(text("f32", &1.5f32.to_le_bytes()), "1.5 (0x3fc00000)");
        assert_eq!(text("i8", &[0xfe]), "-2 (0xfe)");
        assert_eq!(text("u16", &[0, 0x80]), "32768 (0x8000)");
        assert_eq!(text("i64", &(-3i64).to_le_bytes()), "-3 (0xfffffffffffffffd)");
        assert_eq!(text("bf16", &[0x80, 0x3f]), "1 (0x3f80)");
        assert_eq!(size_of_type("f8"), None);
    }
}
