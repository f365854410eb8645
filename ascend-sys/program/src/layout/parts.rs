//! A layout and its parts: the struct, its fields, and the types of the fields.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{self, Display, Formatter};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The layout of a struct.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layout {
    /// The name of the struct in C++.
    pub name: Cow<'static, str>,
    /// The C++ namespace of the struct. Empty for the global namespace.
    pub namespace: Cow<'static, str>,
    /// The doc comment of the struct in Rust, for the header. Empty if there is none.
    pub doc: Cow<'static, str>,
    /// The meaning of the struct to CANN.
    pub role: Role,
    /// The size of the struct in bytes.
    pub size: u32,
    /// The alignment of the struct in bytes.
    pub align: u32,
    /// The fields, in the order of their offsets.
    pub fields: Cow<'static, [Field]>,
}

/// The meaning of a struct to CANN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// A struct of the program.
    User,
    /// The struct `Mc2InitTiling`.
    InitTiling,
    /// The struct `Mc2CcTiling`.
    CcTiling,
    /// The struct `TCubeTiling`.
    CubeTiling,
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Field {
    /// The name of the field in C++.
    pub name: Cow<'static, str>,
    /// The doc comment of the field in Rust, for the header. Empty if there is none.
    pub doc: Cow<'static, str>,
    /// The offset from the start of the struct, in bytes.
    pub offset: u32,
    /// The type of each element.
    pub item: Item,
    /// The lengths of an array, the outermost first. Empty for a plain field.
    pub lengths: Cow<'static, [u32]>,
}

/// The type of a field, or of each element of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Item {
    /// A number.
    Number(Number),
    /// Another struct.
    Struct(#[serde(deserialize_with = "shallow")] Cow<'static, Layout>),
}

/// Limits the depth of nested structs. An encoding with more levels than any real program has is
/// rejected.
fn shallow<'de, D: Deserializer<'de>>(from: D) -> Result<Cow<'static, Layout>, D::Error> {
    const DEEPEST: u32 = 16;
    thread_local!(static DEPTH: Cell<u32> = const { Cell::new(0) });
    let depth = DEPTH.get();
    if depth == DEEPEST {
        return Err(D::Error::custom("structs are nested too deeply"));
    }
    DEPTH.set(depth + 1);
    let read = Layout::deserialize(from);
    DEPTH.set(depth);
    read.map(Cow::Owned)
}

/// A type of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Number {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
    /// A boolean: one byte, 0 or 1.
    Bool,
}

impl Layout {
    /// Returns the fields. Can be called in a constant.
    pub const fn fields(&self) -> &[Field] {
        match &self.fields {
            Cow::Borrowed(fields) => fields,
            Cow::Owned(fields) => fields.as_slice(),
        }
    }

    /// Returns the field with this name in C++.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields().iter().find(|field| field.name == name)
    }

    /// Returns the name of the struct with its namespace.
    pub fn path(&self) -> String {
        if self.namespace.is_empty() {
            self.name.to_string()
        } else {
            format!("{}::{}", self.namespace, self.name)
        }
    }
}

impl Field {
    /// Returns the lengths of an array. Can be called in a constant.
    pub const fn lengths(&self) -> &[u32] {
        match &self.lengths {
            Cow::Borrowed(lengths) => lengths,
            Cow::Owned(lengths) => lengths.as_slice(),
        }
    }

    /// Returns the number of elements, which is 1 for a plain field.
    pub const fn count(&self) -> u64 {
        let (lengths, mut count, mut i) = (self.lengths(), 1u64, 0);
        while i < lengths.len() {
            count = count.saturating_mul(lengths[i] as u64);
            i += 1;
        }
        count
    }

    /// Returns the size of all elements, in bytes.
    pub const fn size(&self) -> u64 {
        self.count().saturating_mul(self.item.size() as u64)
    }
}

impl Item {
    /// Returns the size of one element, in bytes.
    pub const fn size(&self) -> u32 {
        match self {
            Item::Number(number) => number.size(),
            Item::Struct(layout) => borrowed(layout).size,
        }
    }

    /// Returns the C++ type in the kernel, without a namespace.
    pub fn ascend_c(&self) -> &str {
        match self {
            Item::Number(number) => number.ascend_c(),
            Item::Struct(layout) => &layout.name,
        }
    }
}

impl Number {
    /// Returns the size of the type in bytes.
    pub const fn size(self) -> u32 {
        match self {
            Number::I8 | Number::U8 | Number::Bool => 1,
            Number::I16 | Number::U16 | Number::F16 | Number::Bf16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 => 8,
        }
    }

    /// Returns the name of the type in Ascend C.
    pub const fn ascend_c(self) -> &'static str {
        match self {
            Number::I8 => "int8_t",
            Number::I16 => "int16_t",
            Number::I32 => "int32_t",
            Number::I64 => "int64_t",
            Number::U8 => "uint8_t",
            Number::U16 => "uint16_t",
            Number::U32 => "uint32_t",
            Number::U64 => "uint64_t",
            Number::F16 => "half",
            Number::Bf16 => "bfloat16_t",
            Number::F32 => "float",
            Number::F64 => "double",
            Number::Bool => "bool",
        }
    }
}

impl Display for Number {
    /// Writes the name of the type in Rust.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Number::I8 => "i8",
            Number::I16 => "i16",
            Number::I32 => "i32",
            Number::I64 => "i64",
            Number::U8 => "u8",
            Number::U16 => "u16",
            Number::U32 => "u32",
            Number::U64 => "u64",
            Number::F16 => "f16",
            Number::Bf16 => "bf16",
            Number::F32 => "f32",
            Number::F64 => "f64",
            Number::Bool => "bool",
        })
    }
}

/// Returns the layout that a `Cow` refers to. Can be called in a constant.
#[allow(clippy::ptr_arg, reason = "a `Cow` is no reference in a constant unless it is taken apart")]
pub(super) const fn borrowed<'a>(layout: &'a Cow<'static, Layout>) -> &'a Layout {
    match layout {
        Cow::Borrowed(layout) => layout,
        Cow::Owned(layout) => layout,
    }
}

/// Returns the text that a `Cow` refers to. Can be called in a constant.
#[allow(clippy::ptr_arg, reason = "a `Cow` is no reference in a constant unless it is taken apart")]
pub(super) const fn text<'a>(text: &'a Cow<'static, str>) -> &'a str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => text.as_str(),
    }
}
