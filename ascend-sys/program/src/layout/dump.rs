//! Prints the bytes of a tiling struct as names and values.

use std::fmt::{self, Display, Formatter};

use super::{Field, Item, Layout, Number, Role};

/// A tiling struct in readable form, made by [`Layout::dump`].
#[derive(Debug, Clone, Copy)]
pub struct Dump<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
}

/// The greatest number of elements of an array that are shown.
const SHOWN: u64 = 16;

impl Layout {
    /// Returns the values in these bytes as text, one line each. `?` stands for a value beyond the
    /// end of the bytes.
    pub fn dump<'a>(&'a self, bytes: &'a [u8]) -> Dump<'a> {
        Dump { layout: self, bytes }
    }
}

impl Display for Dump<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes", self.layout.path(), self.bytes.len())?;
        let mut lines = Vec::new();
        lines_of(self.layout, self.bytes, 0, "", &mut lines);
        let width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
        for Line { offset, name, value } in &lines {
            write!(f, "\n{offset:>8}  {name:width$}  {value}")?;
        }
        Ok(())
    }
}

struct Line {
    offset: u64,
    name: String,
    value: String,
}

fn lines_of(layout: &Layout, bytes: &[u8], base: u64, prefix: &str, lines: &mut Vec<Line>) {
    for field in layout.fields() {
        // CANN's reserved bytes are left out.
        if layout.role != Role::User && field.name == "reserved" {
            continue;
        }
        let name = format!("{prefix}{}", field.name);
        let offset = base + u64::from(field.offset);
        match &field.item {
            Item::Number(number) => {
                let value = match text(layout, field, bytes, offset) {
                    Some(text) => text,
                    None => numbers(field, *number, bytes, offset),
                };
                lines.push(Line { offset, name, value });
            }
            Item::Struct(inner) if field.lengths().is_empty() => {
                lines_of(inner, bytes, offset, &format!("{name}."), lines);
            }
            Item::Struct(inner) => {
                for n in 0..field.count().min(SHOWN) {
                    let at = offset + n * u64::from(inner.size);
                    let index = index(field, n);
                    lines_of(inner, bytes, at, &format!("{name}{index}."), lines);
                }
                if let rest @ 1.. = field.count().saturating_sub(SHOWN) {
                    lines.push(Line { offset, name, value: format!("and {rest} more") });
                }
            }
        }
    }
}

/// Returns the index of element `n` in an array of arrays, such as `[1][2]`.
fn index(field: &Field, n: u64) -> String {
    let (mut rest, mut text) = (n, String::new());
    for &length in field.lengths().iter().rev() {
        let length = u64::from(length).max(1);
        text = format!("[{}]{text}", rest % length);
        rest /= length;
    }
    text
}

/// Returns the text of `groupName` or `algConfig`, the two fields of `Mc2CcTiling` that end in a
/// NUL. Returns `None` for other fields.
fn text(layout: &Layout, field: &Field, bytes: &[u8], offset: u64) -> Option<String> {
    if layout.role != Role::CcTiling || !matches!(&*field.name, "groupName" | "algConfig") {
        return None;
    }
    let start = usize::try_from(offset).ok()?;
    let text = bytes.get(start..start.checked_add(usize::try_from(field.size()).ok()?)?)?;
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    Some(format!("{:?}", String::from_utf8_lossy(&text[..end])))
}

fn numbers(field: &Field, number: Number, bytes: &[u8], offset: u64) -> String {
    let values = (0..field.count().min(SHOWN))
        .map(|n| value(number, bytes, offset + n * u64::from(number.size())));
    let (values, lengths) = (values.collect::<Vec<_>>(), field.lengths());
    match field.count().saturating_sub(SHOWN) {
        0 => brackets(&values, lengths),
        rest => format!("[{}, and {rest} more]", values.join(", ")),
    }
}

/// Returns an array of arrays as text: `[[1, 2], [3, 4]]`.
fn brackets(values: &[String], lengths: &[u32]) -> String {
    let Some((&length, inner)) = lengths.split_first() else { return values.concat() };
    let each = values.len().checked_div(length as usize).unwrap_or(0).max(1);
    let parts: Vec<_> = values.chunks(each).map(|part| brackets(part, inner)).collect();
    format!("[{}]", parts.join(", "))
}

fn value(number: Number, bytes: &[u8], offset: u64) -> String {
    fn read<const N: usize>(bytes: &[u8], offset: u64) -> Option<[u8; N]> {
        bytes.get(usize::try_from(offset).ok()?..)?.first_chunk().copied()
    }
    macro_rules! read {
        ($ty:ty) => {
            read(bytes, offset).map(|bytes| <$ty>::from_ne_bytes(bytes).to_string())
        };
    }
    let value = match number {
        Number::I8 => read!(i8),
        Number::I16 => read!(i16),
        Number::I32 => read!(i32),
        Number::I64 => read!(i64),
        Number::U8 => read!(u8),
        Number::U16 => read!(u16),
        Number::U32 => read!(u32),
        Number::U64 => read!(u64),
        Number::F16 => read!(half::f16),
        Number::Bf16 => read!(half::bf16),
        Number::F32 => read!(f32),
        Number::F64 => read!(f64),
        Number::Bool => read(bytes, offset).map(|[byte]: [u8; 1]| match byte {
            0 => "false".to_owned(),
            1 => "true".to_owned(),
            other => format!("{other} (no bool)"),
        }),
    };
    value.unwrap_or_else(|| "?".to_owned())
}
