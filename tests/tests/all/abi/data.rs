//! `data/cann-abi.json` as Rust values.

use serde::Deserialize;

/// The C ABI of CANN as published.
#[derive(Deserialize)]
pub struct Abi {
    pub functions: Vec<Function>,
    pub enums: Vec<Enum>,
    pub records: Vec<Record>,
    pub opaque_records: Vec<Opaque>,
    pub typedefs: Vec<Typedef>,
    pub constants: Vec<Constant>,
    pub macros: Vec<Constant>,
}

/// A type and a name.
pub type Param = (String, String);

#[derive(Deserialize)]
pub struct Function {
    pub name: String,
    pub ret: String,
    pub params: Vec<Param>,
    #[serde(default)]
    pub variadic: bool,
    pub header: String,
    pub lib: Option<String>,
    pub since: String,
}

#[derive(Deserialize)]
pub struct Enum {
    pub name: String,
    pub underlying: String,
    pub values: Vec<(String, i64)>,
    pub header: String,
}

#[derive(Deserialize)]
pub struct Record {
    pub name: String,
    pub kind: String,
    pub size: u64,
    pub align: u64,
    pub fields: Vec<Field>,
    pub header: String,
}

/// A field with a type, or one with fields of its own.
#[derive(Deserialize)]
pub struct Field {
    pub name: Option<String>,
    /// The offset from the start of the outermost structure.
    pub offset: u64,
    pub size: u64,
    pub align: u64,
    #[serde(rename = "type")]
    pub ty: Option<String>,
    pub kind: Option<String>,
    pub fields: Option<Vec<Field>>,
}

#[derive(Deserialize)]
pub struct Opaque {
    pub name: String,
    pub tag: String,
}

/// A typedef. It is a pointer to a function if it has parameters.
#[derive(Deserialize)]
pub struct Typedef {
    pub name: String,
    #[serde(rename = "type")]
    pub ty: String,
    pub size: u64,
    #[serde(default)]
    pub ret: String,
    pub params: Option<Vec<Param>>,
}

#[derive(Deserialize)]
pub struct Constant {
    pub name: String,
    #[serde(rename = "type")]
    pub ty: String,
    pub value: i128,
}

impl Abi {
    pub fn load() -> Abi {
        serde_json::from_str(include_str!("../../../data/cann-abi.json"))
            .expect("the data is valid")
    }
}
