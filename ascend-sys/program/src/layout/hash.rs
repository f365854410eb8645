//! Computes the hash of a layout: FNV-1a with 64 bits over all parts of the layout except doc
//! comments.

use super::parts::{borrowed, text};
use super::{Field, Item, Layout, Number, Role};

impl Layout {
    /// Returns the hash of the layout. Equal layouts have the same hash, in every build and on
    /// every machine. The hash changes if a name, an offset, a size or a type differs. Doc comments
    /// do not count.
    pub const fn hash(&self) -> u64 {
        struct_(0xcbf2_9ce4_8422_2325, self)
    }
}

const fn struct_(hash: u64, layout: &Layout) -> u64 {
    let mut hash = string(hash, text(&layout.namespace));
    hash = string(hash, text(&layout.name));
    let role = match layout.role {
        Role::User => 0,
        Role::InitTiling => 1,
        Role::CcTiling => 2,
        Role::CubeTiling => 3,
    };
    hash = number(hash, role);
    hash = number(hash, layout.size);
    hash = number(hash, layout.align);
    hash = number(hash, layout.fields().len() as u32);
    let mut i = 0;
    while i < layout.fields().len() {
        hash = field(hash, &layout.fields()[i]);
        i += 1;
    }
    hash
}

const fn field(hash: u64, field: &Field) -> u64 {
    let mut hash = string(hash, text(&field.name));
    hash = number(hash, field.offset);
    hash = number(hash, field.lengths().len() as u32);
    let mut i = 0;
    while i < field.lengths().len() {
        hash = number(hash, field.lengths()[i]);
        i += 1;
    }
    match &field.item {
        Item::Number(item) => number(hash, code(*item)),
        Item::Struct(inner) => struct_(number(hash, 0), borrowed(inner)),
    }
}

/// Returns the code of a type. Code 0 is for structs.
const fn code(number: Number) -> u32 {
    match number {
        Number::I8 => 1,
        Number::I16 => 2,
        Number::I32 => 3,
        Number::I64 => 4,
        Number::U8 => 5,
        Number::U16 => 6,
        Number::U32 => 7,
        Number::U64 => 8,
        Number::F16 => 9,
        Number::Bf16 => 10,
        Number::F32 => 11,
        Number::F64 => 12,
        Number::Bool => 13,
    }
}

/// Hashes a text. The length comes first, so that the same letters give another hash if they are
/// divided differently between two texts.
const fn string(hash: u64, text: &str) -> u64 {
    bytes(number(hash, text.len() as u32), text.as_bytes())
}

const fn number(hash: u64, number: u32) -> u64 {
    bytes(hash, &number.to_le_bytes())
}

const fn bytes(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    hash
}
