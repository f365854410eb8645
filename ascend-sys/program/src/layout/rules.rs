//! The rules of a tiling struct, as functions that run while the program is compiled.
//!
//! The derive macro has no access to the size of a type. So it makes the layout, and passes each
//! field to [`field_problem`] and the whole struct to [`size_problem`] and [`tail_problem`]. The
//! text that they return becomes a compile error at that field or struct. So the rules are in one
//! place, and the numbers in their texts are those of the compiler.

use super::{Communication, Item, Layout, MAX_CC_TILINGS};

/// The greatest number of bytes of a tiling struct. It is half of the 32 KiB stack of a core,
/// because a kernel first copies the struct to that stack.
pub const MAX_SIZE: usize = 16 * 1024;

/// A text that is composed in a constant.
#[derive(Clone, Copy)]
pub struct Message {
    bytes: [u8; 400],
    length: usize,
}

impl Message {
    const fn new() -> Self {
        Self { bytes: [0; 400], length: 0 }
    }

    /// Appends a text. A text that does not fit is left out; real names are not that long.
    const fn text(mut self, text: &str) -> Self {
        let text = text.as_bytes();
        if self.length + text.len() <= self.bytes.len() {
            let mut i = 0;
            while i < text.len() {
                self.bytes[self.length] = text[i];
                self.length += 1;
                i += 1;
            }
        }
        self
    }

    const fn number(self, number: u64) -> Self {
        let mut digits = [0u8; 20];
        let (mut rest, mut first) = (number, digits.len());
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        match str::from_utf8(digits.split_at(first).1) {
            Ok(digits) => self.text(digits),
            Err(_) => self,
        }
    }

    /// Appends `1 byte` or `n bytes`.
    const fn count(self, number: u64, one: &str) -> Self {
        let text = self.number(number).text(" ").text(one);
        if number == 1 { text } else { text.text("s") }
    }

    /// Returns the text.
    pub const fn as_str(&self) -> &str {
        match str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}

/// Returns the problem of a field of a layout, if there is one. `name` is the name of the field in
/// Rust, and `pad` is a name that is free for padding.
pub const fn field_problem(
    layout: &Layout,
    index: usize,
    name: &str,
    pad: &str,
) -> Option<Message> {
    let field = &layout.fields()[index];
    let say = Message::new();
    let end = if index == 0 { 0 } else { end(layout, index - 1) };
    let offset = field.offset as u64;
    if offset > end {
        let gap = offset - end;
        let say = say.count(gap, "byte").text(" of implicit padding before `").text(name);
        let say = say.text("`: add `").text(pad).text(": [u8; ").number(gap);
        return Some(say.text("]` before it, or put the fields with the greatest alignment first"));
    }
    if let Item::Struct(_) = &field.item {
        return communication_problem(layout, index, name);
    }
    None
}

const fn communication_problem(layout: &Layout, index: usize, name: &str) -> Option<Message> {
    let say = Message::new().text("`").text(name);
    let before = Communication::of_first(layout, index);
    let with = Communication::of_first(layout, index + 1);
    if with.inits() > before.inits() && with.last_init() != 0 {
        let say = if before.has_init() {
            say.text("` is a second `Mc2InitTiling`: a tiling struct has one, as its first field")
        } else {
            let say = say.text("` is an `Mc2InitTiling` at offset ").number(with.last_init());
            say.text(": make it the first field, because the communication server reads it at the start of the tiling data")
        };
        return Some(say);
    }
    if with.count() > before.count() {
        if before.count() == 0 && !Communication::of(layout).has_init() {
            return Some(say.text(
                "` is an `Mc2CcTiling` without an `Mc2InitTiling`: add `init: Mc2InitTiling` as the first field of the struct",
            ));
        }
        if before.count() <= MAX_CC_TILINGS && with.count() > MAX_CC_TILINGS {
            let say = say.text("` is one `Mc2CcTiling` too many: an `Mc2InitTiling` counts ");
            let say = say.number(MAX_CC_TILINGS as u64);
            return Some(say.text("; use two kernels, or one member for equal operations"));
        }
    }
    None
}

/// Returns the problem of the size of a struct, if there is one.
pub const fn size_problem(layout: &Layout, size: usize) -> Option<Message> {
    let say = Message::new();
    if layout.fields().is_empty() {
        return Some(say.text(
            "a tiling struct has at least one field: add one, because an empty struct has 0 \
             bytes in Rust and 1 in C++",
        ));
    }
    if size > MAX_SIZE {
        let say = say.text("the struct has ").count(size as u64, "byte");
        let say = say.text(
            ", too large for launch: a kernel copies it to the stack of its core, which leaves it ",
        );
        let say = say.number(MAX_SIZE as u64);
        return Some(say.text("; pass long tables as a tensor in global memory"));
    }
    None
}

/// Returns the problem of the end of a struct, if there is one. `pad` is a name that is free for
/// padding.
pub const fn tail_problem(layout: &Layout, size: usize, pad: &str) -> Option<Message> {
    let say = Message::new();
    if layout.fields().is_empty() || size > MAX_SIZE {
        return None;
    }
    let end = end(layout, layout.fields().len() - 1);
    let missing = end.next_multiple_of(8) - end;
    if missing == 0 {
        return None;
    }
    let say = if size as u64 > end {
        let say = say.count(size as u64 - end, "byte").text(" of implicit padding at the end");
        say.text(", and the size must be a multiple of 8")
    } else {
        let say = say.text("the struct has ").count(end, "byte");
        say.text(", and the size must be a multiple of 8")
    };
    let say = say.text(": add `").text(pad).text(": [u8; ").number(missing);
    Some(say.text("]` as the last field"))
}

/// Returns the problem if a struct does not have the size that its attribute promises.
pub const fn promise_problem(size: usize, promised: usize) -> Option<Message> {
    if size == promised {
        return None;
    }
    let say = Message::new().text("the struct has ").count(size as u64, "byte");
    Some(
        say.text(", and ")
            .number(promised as u64)
            .text(" were promised: correct one of the two numbers"),
    )
}

const fn end(layout: &Layout, index: usize) -> u64 {
    let field = &layout.fields()[index];
    field.offset as u64 + field.size()
}
