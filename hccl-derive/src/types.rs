//! The type of a field: what can be told from its text.
//!
//! A name may stand for another type, so what is not known to be wrong passes, and the compiler says whether it implements the trait.

use syn::spanned::Spanned;
use syn::{Error, Expr, Result, Type};

/// A field's type, arrays taken apart.
pub struct Shape {
    /// Of each element.
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
            Some(problem) => Err(Error::new(item.span(), problem)),
            None => Ok(Shape { item: item.clone(), lengths }),
        }
    }

    /// The last part of the name: `Mc2CcTiling` of `hccl::kernel::Mc2CcTiling<280>`.
    pub fn name(&self) -> String {
        last_name(&self.item).unwrap_or_default()
    }
}

fn last_name(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

/// Why a type cannot be in a tiling struct, and what to write.
fn refusal(ty: &Type) -> Option<String> {
    let text = match ty {
        Type::Path(_) => return last_name(ty).and_then(|name| refused_name(&name)),
        Type::Reference(_) | Type::Ptr(_) | Type::BareFn(_) => {
            "an address of the host means nothing to a kernel: pass tensors as arguments of the kernel, and a device address as `u64`"
        }
        Type::Slice(_) | Type::TraitObject(_) => {
            "the size of a field must be known: use an array, `[T; N]`, and a field for how many are used"
        }
        Type::Tuple(_) => {
            "a tuple has no layout that C++ knows: use an array, or a `#[repr(C)]` struct with `#[derive(Tiling)]`"
        }
        _ => "a tiling struct has numbers, `bool`, arrays and structs with `#[derive(Tiling)]`",
    };
    Some(text.to_owned())
}

fn refused_name(name: &str) -> Option<String> {
    let why = match name {
        "usize" | "isize" => {
            let fixed = if name == "usize" { "u64` or `u32" } else { "i64` or `i32" };
            return Some(format!("`{name}` has another size on another machine: use `{fixed}`"));
        }
        "u128" | "i128" => "C++ has no standard type of 128 bits: use `[u64; 2]`",
        "char" => "a Rust `char` is not a C++ `char`: use `u8` for a byte, `u32` for a code point",
        "String" | "str" | "OsString" | "PathBuf" | "CString" => {
            "a text of unknown length lies elsewhere, where no kernel reads: use bytes that end in a 0, `[u8; N]`"
        }
        "Vec" | "VecDeque" | "HashMap" | "BTreeMap" | "SmallVec" => {
            "its contents lie elsewhere, where no kernel reads: use an array, `[T; N]`, and a field for how many are used"
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
    Some(format!("`{name}` cannot be in a tiling struct: {why}"))
}
