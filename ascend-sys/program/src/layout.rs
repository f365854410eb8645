//! The memory of a tiling struct, field by field.
//!
//! The host fills such a struct, a kernel reads it, and the C++ of the kernel declares it again; all three go by this table. The
//! derive macro `Tiling` makes one that costs nothing at run time, so everything here can stand in a constant.

use std::borrow::Cow;

/// One struct.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Its name in C++.
    pub name: Cow<'static, str>,
    /// The C++ namespace it is declared in; empty for the global one.
    pub namespace: Cow<'static, str>,
    /// Whether CANN's own headers declare it.
    pub role: Role,
    /// In bytes.
    pub size: u32,
    /// In bytes.
    pub align: u32,
    /// In the order of their offsets.
    pub fields: Cow<'static, [Field]>,
}

/// What a struct is to CANN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A struct of the program.
    User,
    /// `Mc2InitTiling`.
    InitTiling,
    /// `Mc2CcTiling`.
    CcTiling,
    /// `TCubeTiling`.
    CubeTiling,
}

/// One field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name in C++.
    pub name: Cow<'static, str>,
    /// From the start of the struct, in bytes.
    pub offset: u32,
    /// Of each element.
    pub item: Item,
    /// The lengths of an array, the outermost first; none for a plain field.
    pub lengths: Cow<'static, [u32]>,
}

/// What a field, or each element of an array, is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Item {
    /// A number.
    Number(Number),
    /// Another struct.
    Struct(Cow<'static, Layout>),
}

/// A type of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// One byte, 0 or 1.
    Bool,
}
