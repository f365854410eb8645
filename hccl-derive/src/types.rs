//! Reads the type of a field, and finds the reason why a type cannot be in a tiling struct.
//!
//! A name may stand for any type, so a type with a name is never refused here. The compiler checks
//! whether it fits, and the name only decides the text of the error. Types without a name are known
//! from their text.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Error, Expr, Ident, Result, Type};

/// The type of a field: the elements and the lengths of its arrays.
pub struct Shape {
    /// The type of each element.
    pub item: Type,
    /// The lengths of an array, the outermost first.
    pub lengths: Vec<Expr>,
}

impl Shape {
    pub fn read(ty: &Type) -> Result<Shape> {
        let (mut item, mut lengths) = (ty, Vec::new());
        loop {
            match item {
                Type::Array(array) => {
                    lengths.push(array.len.clone());
                    item = &array.elem;
                }
                Type::Paren(inner) => item = &inner.elem,
                Type::Group(inner) => item = &inner.elem,
                _ => break,
            }
        }
        match refusal(item) {
            Some(problem) => Err(Error::new_spanned(item, problem)),
            None => Ok(Shape { item: item.clone(), lengths }),
        }
    }

    /// Returns the last part of the element type's name: `Mc2CcTiling` of
    /// `hccl::kernel::Mc2CcTiling<280>`. Returns an empty text if the type has no name.
    pub fn name(&self) -> String {
        last_name(&self.item).unwrap_or_default()
    }

    /// Returns the text of the error when the type of an element does not fit.
    pub fn misfit(&self) -> String {
        let text = compact(&self.item);
        match last_name(&self.item).and_then(|name| hint(&name)) {
            Some(hint) => format!("`{text}` cannot be in a tiling struct: {hint}"),
            None => format!(
                "`{text}` cannot be in a tiling struct: it is not a number (i8 to i64, u8 to u64, f32, f64, hccl::f16, hccl::bf16), a `bool` or a struct with `#[derive(Tiling)]`; \
                 an enum goes in as its number, a `u32`, and an array is written out, `[T; N]`, not under another name"
            ),
        }
    }
}

fn last_name(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

/// Returns whether the derive cannot do anything for a struct with this field: either the struct
/// has no size, or the compiler refuses the field in any case.
pub fn is_beyond_us(ty: &Type) -> bool {
    match ty {
        Type::Slice(_) | Type::TraitObject(_) | Type::Infer(_) | Type::ImplTrait(_) => true,
        Type::Path(path) => path.path.is_ident("str"),
        Type::Array(array) => is_beyond_us(&array.elem),
        Type::Paren(inner) => is_beyond_us(&inner.elem),
        Type::Group(inner) => is_beyond_us(&inner.elem),
        _ => false,
    }
}

/// Returns the reason why a type cannot be in a tiling struct, and the replacement. Returns `None`
/// if the text does not show that the type cannot be there.
fn refusal(ty: &Type) -> Option<String> {
    let text = match ty {
        Type::Path(path) if path.path.is_ident("str") => return hint("str"),
        Type::Path(_) | Type::Macro(_) => return None,
        Type::Reference(_) | Type::Ptr(_) | Type::BareFn(_) => {
            "an address of the host means nothing to a kernel: pass tensors as arguments of the kernel, and a device address as `u64`"
        }
        Type::Slice(_) | Type::TraitObject(_) => {
            "the size of a field must be known: use an array, `[T; N]`, and a field for how many are used"
        }
        Type::Tuple(_) => {
            "a tuple has no layout that C++ knows: use an array, or a `#[repr(C)]` struct with `#[derive(Tiling)]`"
        }
        _ => "use a number, a `bool`, an array or a struct with `#[derive(Tiling)]`",
    };
    Some(text.to_owned())
}

/// Returns the reason and the replacement for a type with a well-known name. Returns `None` for any
/// other name.
fn hint(name: &str) -> Option<String> {
    let why = match name {
        "usize" | "isize" => {
            let fixed = if name == "usize" { "u64` or `u32" } else { "i64` or `i32" };
            return Some(format!("it has another size on another machine: use `{fixed}`"));
        }
        "Mc2CcTiling" => "use `Mc2CcTiling` or `Mc2CcTiling<280>`, which CANN's releases have",
        "u128" | "i128" => "C++ has no standard type of 128 bits: use `[u64; 2]`",
        "char" => "a Rust `char` is not a C++ `char`: use `u8` for a byte, `u32` for a code point",
        "String" | "str" | "OsString" | "PathBuf" | "CString" => {
            "a text of unknown length is elsewhere in memory, where no kernel reads: use bytes that end in a 0, `[u8; N]`"
        }
        "Vec" | "VecDeque" | "HashMap" | "BTreeMap" | "SmallVec" => {
            "its contents are elsewhere in memory, where no kernel reads: use an array, `[T; N]`, and a field for how many are used"
        }
        "Box" | "Rc" | "Arc" | "Cow" | "NonNull" | "Weak" => {
            "an address of the host means nothing to a kernel: put the value itself here"
        }
        "Option" | "Result" => {
            "C++ has no such layout: use a value that stands for none, or a `bool` or `u8` beside it"
        }
        "Cell" | "RefCell" | "UnsafeCell" | "Mutex" | "RwLock" | "OnceCell" | "OnceLock"
        | "MaybeUninit" => "a tiling struct is plain data: put the value itself here",
        _ if name.starts_with("NonZero") => {
            "C++ may write a 0 here, which such a type must never hold: use the plain number with `#[tiling(range = 1..)]`"
        }
        _ if name.starts_with("Atomic") => "a tiling struct is plain data: use the plain number",
        _ => return None,
    };
    Some(why.to_owned())
}

/// Returns the text of some code, with spaces only between words that would touch.
pub fn compact(code: &impl ToTokens) -> String {
    let written = code.to_token_stream().to_string();
    let mut text = String::with_capacity(written.len());
    for word in written.split_whitespace() {
        let of_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if of_word(text.chars().last()) && of_word(word.chars().next()) {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

/// Returns the code with the name of the struct in place of `Self`. The code can then be moved to a
/// place where `Self` is another type or does not exist.
pub fn without_self(code: TokenStream, name: &Ident) -> TokenStream {
    let replace = |token| match token {
        TokenTree::Ident(ident) if ident == "Self" => {
            let mut name = name.clone();
            name.set_span(ident.span());
            TokenTree::Ident(name)
        }
        TokenTree::Group(group) => {
            let inner = without_self(group.stream(), name);
            let mut replaced = proc_macro2::Group::new(group.delimiter(), inner);
            replaced.set_span(group.span());
            TokenTree::Group(replaced)
        }
        token => token,
    };
    code.into_iter().map(replace).collect()
}
