//! Prints a layout as a readable table: offset, size, type and name of each field.

use std::fmt::{self, Display, Formatter};

use super::{Field, Layout};

impl Display for Layout {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes, alignment {}", self.path(), self.size, self.align)?;
        let types: Vec<String> = self.fields().iter().map(Field::ascend_c).collect();
        let width = types.iter().map(String::len).max().unwrap_or(0).max("type".len());
        write!(f, "\n{:>8}{:>8}  {:width$}  name", "offset", "size", "type")?;
        for (field, ty) in self.fields().iter().zip(&types) {
            write!(f, "\n{:>8}{:>8}  {ty:width$}  {}", field.offset, field.size(), field.name)?;
        }
        Ok(())
    }
}

impl Field {
    /// Returns the C++ type in the kernel, with the lengths of an array, such as `float[3][4]`.
    pub fn ascend_c(&self) -> String {
        let mut text = self.item.ascend_c().to_owned();
        for length in self.lengths() {
            text.push_str(&format!("[{length}]"));
        }
        text
    }
}
