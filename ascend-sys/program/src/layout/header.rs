//! Prints a layout as C++, for the kernel and for the host side of an operator.
//!
//! Each header asserts the size of every struct and the offset of every field. So if a compiler
//! lays out a struct differently, or if CANN's own structs have other sizes, the build stops.
//! Otherwise the kernel would read the wrong bytes.

use std::fmt::Write as _;

use super::{Field, Item, Layout, Number, Role};
use crate::comment;

/// The reason why a struct cannot be written in the older form.
#[derive(Clone, PartialEq, Eq)]
pub struct HeaderError {
    /// The struct and the field that the error is about, or another subject.
    pub subject: String,
    /// The problem and the remedy.
    pub problem: &'static str,
}

impl std::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.subject, self.problem)
    }
}

/// Writes the same text as `Display`, since `unwrap` prints it.
impl std::fmt::Debug for HeaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HeaderError: {self}")
    }
}

impl std::error::Error for HeaderError {}

impl Layout {
    /// Returns the struct as a plain C++ struct, after the structs that it contains. CANN's
    /// documents require this form in new operators. Host and kernel include the same file.
    ///
    /// CANN's own structs come from `kernel_tiling/kernel_tiling.h`. C++ on the host has no 16-bit
    /// floats, so they are declared as `uint16_t`, and a kernel reads them as `half` or
    /// `bfloat16_t`.
    pub fn header(&self) -> String {
        let mut text = String::new();
        let guard = guard(self, "");
        line(&mut text, &made_from(self));
        line(&mut text, &format!("#ifndef {guard}\n#define {guard}\n"));
        line(&mut text, "#include <cstddef>\n#include <cstdint>");
        let parts = parts(self);
        let built_in: Vec<_> = parts.iter().filter(|part| part.role != Role::User).collect();
        if !built_in.is_empty() {
            line(&mut text, "\n#include \"kernel_tiling/kernel_tiling.h\"\n");
        }
        for part in built_in {
            let (name, size) = (&part.name, part.size);
            let why = format!("this release of CANN has another {name}");
            line(&mut text, &format!("static_assert(sizeof({name}) == {size}, \"{why}\");"));
        }
        for part in parts.iter().filter(|part| part.role == Role::User) {
            line(&mut text, "");
            open(&mut text, &part.namespace);
            plain(&mut text, part, &part.name, |field| declare(field, &part.namespace));
            close(&mut text, &part.namespace);
        }
        line(&mut text, &format!("\n#endif // {guard}"));
        text
    }

    /// Returns the struct in the older form, for the host side of the operator `op_type`. This form
    /// uses the macros of `register/tilingdata_base.h`, and CANN generates the kernel's side from
    /// it. The macros require the namespace `optiling`.
    ///
    /// The classes that the macros define have accessors instead of fields. So the header also
    /// declares a plain struct with the layout that the framework gives the kernel, and its
    /// `static_assert`s check that struct.
    ///
    /// # Errors
    ///
    /// Fails for a struct that the macros cannot express: they have no `bool`, no `double` and no
    /// arrays of structs, put structs at multiples of 8 bytes, and allow only one namespace. Such a
    /// struct has only the plain form. Also fails if `op_type` is not a C++ identifier.
    pub fn macro_header(&self, op_type: &str) -> Result<String, HeaderError> {
        let identifier = |text: &str| {
            !text.starts_with(|first: char| first.is_ascii_digit())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !text.is_empty()
        };
        if !identifier(op_type) {
            let problem = "the operator type must be a C++ identifier, such as `AddCustom`";
            return Err(HeaderError { subject: format!("{op_type:?}"), problem });
        }
        let parts = parts(self);
        for (i, part) in parts.iter().enumerate() {
            if parts[..i].iter().any(|other| other.name == part.name) {
                let problem = "there are two structs of this name, and the macros have only one namespace: rename one";
                return Err(HeaderError { subject: part.name.to_string(), problem });
            }
        }
        let mut text = String::new();
        let guard = guard(self, "_MACROS");
        line(&mut text, &made_from(self));
        line(&mut text, &format!("#ifndef {guard}\n#define {guard}\n"));
        line(&mut text, "#include <cstddef>\n#include <cstdint>\n");
        line(&mut text, "#include \"register/tilingdata_base.h\"");
        if parts.iter().any(|part| part.role != Role::User) {
            line(&mut text, "#include \"tiling/tiling_api.h\"");
        }
        line(&mut text, "\nnamespace optiling {");
        let own: Vec<_> = parts.iter().filter(|part| part.role == Role::User).collect();
        for (i, part) in own.iter().enumerate() {
            comment(&mut text, "", &part.doc);
            line(&mut text, &format!("BEGIN_TILING_DATA_DEF({})", part.name));
            for field in part.fields() {
                comment(&mut text, "    ", &field.doc);
                line(&mut text, &format!("    {};", definition(part, field)?));
            }
            line(&mut text, "END_TILING_DATA_DEF;");
            // A struct within another struct is registered under its own name.
            let outermost = i + 1 == own.len();
            let registered =
                if outermost { op_type.to_owned() } else { format!("{}Op", part.name) };
            let name = &part.name;
            line(&mut text, &format!("REGISTER_TILING_DATA_CLASS({registered}, {name})\n"));
        }
        line(&mut text, "// What the framework lays out for the kernel.\nnamespace layout {");
        for part in own {
            plain(&mut text, part, &part.name, |field| match &field.item {
                Item::Struct(inner) if inner.role != Role::User => opaque(field, inner),
                _ => declare_local(field),
            });
        }
        line(&mut text, "} // namespace layout\n} // namespace optiling");
        line(&mut text, &format!("\n#endif // {guard}"));
        Ok(text)
    }
}

/// Returns a struct and all structs that it contains, each once. A struct comes after those that it
/// contains.
fn parts(layout: &Layout) -> Vec<&Layout> {
    fn add<'a>(layout: &'a Layout, parts: &mut Vec<&'a Layout>) {
        if parts.contains(&layout) {
            return;
        }
        if layout.role == Role::User {
            for field in layout.fields() {
                if let Item::Struct(inner) = &field.item {
                    add(inner, parts);
                }
            }
        }
        parts.push(layout);
    }
    let mut parts = Vec::new();
    add(layout, &mut parts);
    parts
}

/// Prints the struct and its assertions.
fn plain(text: &mut String, layout: &Layout, name: &str, declare: impl Fn(&Field) -> String) {
    let declarations: Vec<String> = layout.fields().iter().map(declare).collect();
    let width = declarations.iter().map(String::len).max().unwrap_or(0);
    comment(text, "", &layout.doc);
    line(text, &format!("struct {name} {{"));
    for (field, declaration) in layout.fields().iter().zip(&declarations) {
        comment(text, "    ", &field.doc);
        let (offset, size) = (field.offset, field.size());
        let note = match field.item {
            Item::Number(Number::F16) => ", the bits of half",
            Item::Number(Number::Bf16) => ", the bits of bfloat16_t",
            _ => "",
        };
        let s = if size == 1 { "" } else { "s" };
        line(text, &format!("    {declaration:width$} // at {offset}, {size} byte{s}{note}"));
    }
    line(text, "};");
    let size = layout.size;
    assertion(text, &format!("sizeof({name}) == {size}"), &format!("{name}: size"));
    for field in layout.fields() {
        let (field, offset) = (&field.name, field.offset);
        let what = format!("{name}: offset of {field}");
        assertion(text, &format!("offsetof({name}, {field}) == {offset}"), &what);
    }
}

/// Prints an assertion in lines of at most 120 characters.
fn assertion(text: &mut String, condition: &str, what: &str) {
    let space = if condition.len() + what.len() > 100 { "\n    " } else { " " };
    line(text, &format!("static_assert({condition},{space}\"{what}\");"));
}

/// Prints the declaration of a field in a struct of this namespace.
fn declare(field: &Field, namespace: &str) -> String {
    match &field.item {
        Item::Struct(inner) if inner.role == Role::User && inner.namespace != namespace => {
            declared(&format!("::{}", inner.path()), field)
        }
        _ => declare_local(field),
    }
}

fn declare_local(field: &Field) -> String {
    match &field.item {
        Item::Number(number) => declared(host(*number), field),
        Item::Struct(inner) => declared(&inner.name, field),
    }
}

fn declared(ty: &str, field: &Field) -> String {
    let mut text = format!("{ty} {}", field.name);
    for length in field.lengths() {
        let _ = write!(text, "[{length}]");
    }
    text.push(';');
    text
}

/// Prints a struct of CANN's as bytes, or as numbers if it needs their alignment.
fn opaque(field: &Field, inner: &Layout) -> String {
    let ty = if inner.align == 4 { "int32_t" } else { "uint8_t" };
    declared(ty, field).replace(';', &format!("[{}];", inner.size / inner.align))
}

/// Returns the name of a type that compilers of the host also support.
fn host(number: Number) -> &'static str {
    match number {
        Number::F16 | Number::Bf16 => "uint16_t",
        other => other.ascend_c(),
    }
}

/// Prints a field in the older form.
fn definition(layout: &Layout, field: &Field) -> Result<String, HeaderError> {
    let name = &field.name;
    let refuse = |problem| {
        let subject = format!("{}.{name}", layout.path());
        Err(HeaderError { subject, problem })
    };
    match &field.item {
        Item::Number(Number::Bool) => {
            refuse("the macros of the older form have no bool: use u8, or the plain form")
        }
        Item::Number(Number::F64) => {
            refuse("the macros of the older form have no double: use f32, or the plain form")
        }
        Item::Number(number) if field.lengths().is_empty() => {
            Ok(format!("TILING_DATA_FIELD_DEF({}, {name})", host(*number)))
        }
        // An array of arrays has the same layout as one long array.
        Item::Number(number) => {
            Ok(format!("TILING_DATA_FIELD_DEF_ARR({}, {}, {name})", host(*number), field.count()))
        }
        Item::Struct(_) if !field.lengths().is_empty() => {
            refuse("the macros of the older form have no arrays of structs: use the plain form")
        }
        Item::Struct(_) if !field.offset.is_multiple_of(8) => refuse(
            "the macros of the older form put structs at multiples of 8 bytes: move it, or use the plain form",
        ),
        Item::Struct(inner) => Ok(format!("TILING_DATA_FIELD_DEF_STRUCT({}, {name})", inner.name)),
    }
}

/// Returns a comment that names the Rust struct as the one to change, and has the hash with which
/// the two sides can be compared.
fn made_from(layout: &Layout) -> String {
    format!(
        "// Made from the tiling struct in Rust, which is the one to change. Layout hash {:#018x}.",
        layout.hash()
    )
}

/// Returns the name of the include guard: `A_B_ADD_TILING_H` for `a::b::AddTiling`.
fn guard(layout: &Layout, suffix: &str) -> String {
    let (mut guard, mut small) = (String::new(), false);
    for c in layout.path().replace("::", "_").chars() {
        if c.is_ascii_uppercase() && small {
            guard.push('_');
        }
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
        guard.push(c.to_ascii_uppercase());
    }
    format!("{guard}{suffix}_H")
}

fn open(text: &mut String, namespace: &str) {
    for part in namespace.split("::").filter(|part| !part.is_empty()) {
        line(text, &format!("namespace {part} {{"));
    }
}

fn close(text: &mut String, namespace: &str) {
    for part in namespace.rsplit("::").filter(|part| !part.is_empty()) {
        line(text, &format!("}} // namespace {part}"));
    }
}

/// Prints a doc comment.
fn comment(text: &mut String, indent: &str, doc: &str) {
    for comment in comment::lines(doc, 117 - indent.len()) {
        line(text, &format!("{indent}{comment}"));
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
