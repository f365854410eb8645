//! Prints parts of the workspace by their names: `partial[i]` for an element of the part `partial`.

use super::level::Level;
use super::names::Thing;
use super::printer::Printer;
use super::text::Text;
use crate::declared::*;
use crate::layout::Number;
use crate::step::{Base, Place};

impl Printer<'_> {
    /// Returns a place as a named part of the workspace and an index, or `None` if no part fits.
    /// The part is the last one of the type that begins at the place or before it, as far as that
    /// is known. The kernel may have named another part, but the address is the same.
    pub(super) fn viewed(&mut self, place: &Place, number: Number) -> Option<(String, String)> {
        let (constant, terms) = match place.base {
            Base::Workspace => self.elements(place.offset, u64::from(number.size()))?,
            _ => return None,
        };
        let size = u64::from(number.size());
        let begins = |view: &WorkspaceView| {
            let whole = || (constant - view.byte).is_multiple_of(size);
            view.number == number && view.byte <= constant && whole()
        };
        let views = self.program.views.iter().enumerate();
        let (at, view) = (views.filter(|(_, view)| begins(&view.what)))
            .max_by_key(|(_, view)| view.what.byte)?;
        let at = at as u32;
        self.views.insert(at);
        let more = (constant - view.what.byte) / size;
        let mut index: Vec<_> = Vec::new();
        let alone = terms.len() == 1 && more == 0;
        for (value, times) in terms {
            index.push(match times {
                1 if alone => self.argument(value),
                1 => self.operand(value, Level::Sum),
                _ => format!("{} * {times}", self.operand(value, Level::Product)),
            });
        }
        if more > 0 || index.is_empty() {
            index.push(more.to_string());
        }
        Some((self.name(Thing::View(at)), index.join(" + ")))
    }

    /// Returns the element type of the workspace view that contains a place. Returns `None` if no
    /// view contains it.
    pub(super) fn viewed_number(&mut self, place: &Place) -> Option<Number> {
        let views = self.program.views.iter();
        let numbers: Vec<_> = views.map(|view| view.what.number).collect();
        numbers.into_iter().find(|number| self.viewed(place, *number).is_some())
    }

    /// Splits an offset in bytes into a constant and elements of this size.
    fn elements(&self, offset: ValueId, size: u64) -> Option<(u64, Vec<(ValueId, u64)>)> {
        let nameless = |id: ValueId| self.names.get(Thing::Value(id)).is_none();
        // With fewer bits, a product in bytes may wrap although the product in elements does not.
        (self.number(offset).size() == 8).then_some(())?;
        let (mut constant, mut terms, mut open) = (0u64, Vec::new(), vec![offset]);
        while let Some(id) = open.pop() {
            match self.program.values[id.0 as usize].of {
                Of::Constant(bits) if nameless(id) => constant = constant.checked_add(bits)?,
                Of::Binary(Binary::Add, a, b) if nameless(id) => open.extend([b, a]),
                Of::Binary(Binary::Mul, a, b) if nameless(id) => {
                    let known = |id: ValueId| match self.program.values[id.0 as usize].of {
                        Of::Constant(bits) if nameless(id) => Some(bits),
                        _ => None,
                    };
                    let (value, bytes) = match (known(a), known(b)) {
                        (_, Some(bytes)) => (a, bytes),
                        (Some(bytes), None) => (b, bytes),
                        (None, None) => return None,
                    };
                    bytes.is_multiple_of(size).then_some(())?;
                    terms.push((value, bytes / size));
                }
                _ if size == 1 => terms.push((id, 1)),
                _ => return None,
            }
        }
        Some((constant, terms))
    }

    /// Prints the tensors of the parts that the source uses.
    pub(super) fn view_tensors(&self) -> Text {
        let mut text = Text::indented(1);
        for at in &self.views {
            let WorkspaceView { number, byte } = self.program.views[*at as usize].what;
            let (name, ty) = (self.name(Thing::View(*at)), number.ascend_c());
            let from = match byte {
                0 => "userWorkspace".to_owned(),
                _ => format!("userWorkspace + {byte}"),
            };
            text.line(&format!("GlobalTensor<{ty}> {name};"));
            text.line(&format!("{name}.SetGlobalBuffer(reinterpret_cast<__gm__ {ty}*>({from}));"));
        }
        text
    }
}
