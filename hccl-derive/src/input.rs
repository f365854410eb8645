//! Reads the struct and its attributes, and checks them as far as the text allows.

use std::collections::HashMap;

use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Data, DataStruct, DeriveInput, Error, Expr, Fields, GenericParam, Generics, Ident, LitInt,
    LitStr, Meta, Path, Result, Token, Visibility,
};

use crate::attributes::{self, Errors};
use crate::types::{self, Shape};
use crate::{docs, names, range};

/// A struct with the derive.
pub struct Struct {
    pub ident: Ident,
    pub visibility: Visibility,
    /// The generics; only a struct that is refused has any.
    pub generics: Generics,
    /// The name of the struct in C++.
    pub name: String,
    /// The namespace of the struct in C++.
    pub namespace: String,
    /// The doc comment of the struct.
    pub docs: String,
    /// The size that the attribute promises.
    pub size: Option<LitInt>,
    /// The path of `hccl`.
    pub root: Path,
    /// The fields that have a name.
    pub fields: Vec<Field>,
    /// Whether the compiler refuses the generated traits in any case.
    pub is_beyond_us: bool,
}

pub struct Field {
    pub ident: Ident,
    pub visibility: Visibility,
    /// The name of the field in Rust without `r#`, for generated names that contain it.
    pub rust: String,
    /// The name of the field in C++.
    pub name: String,
    /// The doc comment of the field.
    pub docs: String,
    pub ty: syn::Type,
    /// The shape of the type; `None` if the type is refused.
    pub shape: Option<Shape>,
    pub range: Option<Range>,
    /// The name of the constant with the offset of the field, which only a communication member
    /// has.
    pub constant: Option<String>,
}

pub enum Range {
    Good(Expr),
    /// A refused range. The setter is made all the same, so that only the range is reported.
    Refused,
}

/// Reads the struct, and collects all its errors. The struct is returned even if it is refused: the
/// derive still makes its output, so that uses of the struct cause no further errors.
pub fn read(item: &DeriveInput) -> (Struct, Option<Error>) {
    let ident = &item.ident;
    let mut read = Struct {
        ident: ident.clone(),
        visibility: item.vis.clone(),
        generics: item.generics.clone(),
        name: ident.unraw().to_string(),
        namespace: String::new(),
        docs: docs::text(&item.attrs),
        size: None,
        root: syn::parse_quote!(::hccl),
        fields: Vec::new(),
        is_beyond_us: false,
    };
    let mut errors = Errors::default();
    let data = match &item.data {
        Data::Struct(data) => Some(data),
        Data::Enum(_) => {
            let problem =
                "a tiling struct is a struct; an enum goes into one as its number, a `u32`";
            errors.say(ident.span(), problem);
            None
        }
        Data::Union(_) => {
            let problem =
                "a tiling struct is a struct: a union does not record which of its fields is set";
            errors.say(ident.span(), problem);
            None
        }
    };
    if data.is_some() {
        errors.keep(representation(item));
    }
    read.read_attributes(item, &mut errors);
    if let Some(data) = data {
        read.read_fields(data, &mut errors);
    }
    read.check_parameters(&mut errors);
    (read, errors.0)
}

impl Struct {
    fn check_parameters(&self, errors: &mut Errors) {
        let is_refused = self.fields.iter().any(|field| field.shape.is_none());
        match (self.generics.params.first(), &self.generics.where_clause) {
            // The lifetime belongs to a reference, whose error has been reported.
            (Some(GenericParam::Lifetime(_)), _) if is_refused => {}
            (Some(parameter), _) => {
                let problem = "a tiling struct has no parameters: C++ declares it once, with one layout; write one struct for each";
                errors.add(Error::new_spanned(parameter, problem));
            }
            (None, Some(clause)) => {
                let problem = "a tiling struct has no `where`, because it has no parameters: \
                               remove it";
                errors.say(clause.where_token.span, problem);
            }
            (None, None) => {}
        }
    }

    fn read_attributes(&mut self, item: &DeriveInput, errors: &mut Errors) {
        let mut name_span = self.ident.span();
        for entry in attributes::of_tiling(&item.attrs, "size = 592", errors) {
            if entry.key == "size" {
                self.size = errors.keep(entry.number("size = 592"));
            } else if entry.key == "name" {
                if let Some(text) = errors.keep(entry.text("name = \"AddTiling\"")) {
                    (self.name, name_span) = (text.value(), text.span());
                }
            } else if entry.key == "namespace" {
                let text = entry.text("namespace = \"a::b\"").and_then(|text| namespace(&text));
                self.namespace = errors.keep(text).unwrap_or_default();
            } else if entry.key == "crate" {
                if let Some(root) = errors.keep(entry.path("crate = ::hccl")) {
                    self.root = root;
                }
            } else {
                let problem = "a struct takes `name`, `namespace`, `size` and `crate`: leave \
                               other words out, and write `range` at a field";
                errors.say(entry.key.span(), problem);
            }
        }
        if let Some(problem) = names::problem(&self.name) {
            errors.say(name_span, problem);
        }
    }

    fn read_fields(&mut self, data: &DataStruct, errors: &mut Errors) {
        let Fields::Named(fields) = &data.fields else {
            let problem = "a tiling struct has fields with names, because C++ reads them by \
                           name: write `name: type` for each";
            errors.say(self.ident.span(), problem);
            return;
        };
        let mut seen: HashMap<String, Ident> = HashMap::new();
        let mut constants: HashMap<String, Ident> = HashMap::new();
        for field in &fields.named {
            self.is_beyond_us |= types::is_beyond_us(&field.ty);
            let Some(mut field) = Field::read(field, errors) else { continue };
            let ident = &field.ident;
            if let Some(other) = seen.insert(field.name.clone(), ident.clone()) {
                let name = &field.name;
                let problem = format!(
                    "`{other}` and `{ident}` are both `{name}` in C++: give one another name with `#[tiling(name = \"...\")]`"
                );
                errors.say(ident.span(), problem);
            } else if let Some(constant) = &field.constant
                && let Some(other) = constants.insert(constant.clone(), ident.clone())
            {
                let problem = format!(
                    "`{other}` and `{ident}` would both have the constant `{constant}`: give one another name"
                );
                errors.say(ident.span(), problem);
                field.constant = None;
            }
            self.fields.push(field);
        }
    }

    /// Returns a name for padding that no field has, in Rust or in C++.
    pub fn pad(&self) -> String {
        let taken = |name: &String| {
            self.fields.iter().any(|field| field.rust == *name || field.name == *name)
        };
        let more = (2..).map(|n| format!("_pad{n}"));
        std::iter::once("_pad".to_owned()).chain(more).find(|name| !taken(name)).unwrap_or_default()
    }
}

impl Field {
    fn read(field: &syn::Field, errors: &mut Errors) -> Option<Field> {
        let ident = field.ident.as_ref()?;
        let rust = ident.unraw().to_string();
        let mut name = names::lower_camel(&rust);
        let (mut name_span, mut range) = (ident.span(), None);
        let shape = errors.keep(Shape::read(&field.ty));
        for entry in attributes::of_tiling(&field.attrs, "range = 1..=64", errors) {
            if entry.key == "name" {
                if let Some(text) = errors.keep(entry.text("name = \"tileNum\"")) {
                    (name, name_span) = (text.value(), text.span());
                }
            } else if entry.key == "range" {
                let shape = shape.as_ref();
                let good = entry.value("range = 1..=64").and_then(|value| {
                    range::check(value, shape)?;
                    Ok(Range::Good(value.clone()))
                });
                range = Some(errors.keep(good).unwrap_or(Range::Refused));
            } else {
                let problem = "a field takes `name` and `range`: leave other words out, and \
                               write `size`, `namespace` and `crate` at the struct";
                errors.say(entry.key.span(), problem);
            }
        }
        if let Some(problem) = names::problem(&name) {
            errors.say(name_span, problem);
        }
        let member = shape.as_ref().filter(|shape| shape.name() == "Mc2CcTiling");
        let member = member.filter(|shape| shape.lengths.is_empty());
        let constant = member.map(|_| format!("{}_OFFSET", rust.to_uppercase()));
        let (ident, visibility, ty) = (ident.clone(), field.vis.clone(), field.ty.clone());
        let docs = docs::text(&field.attrs);
        Some(Field { ident, visibility, rust, name, docs, ty, shape, range, constant })
    }
}

/// The representations of enums.
const NUMBERS: [&str; 12] =
    ["i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize"];

/// Checks that the representation is `repr(C)` and nothing else.
fn representation(item: &DeriveInput) -> Result<()> {
    let mut c = false;
    for attribute in item.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        let parts = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
        for part in parts {
            if part.path().is_ident("C") {
                c = true;
                continue;
            }
            // The compiler reports this mistake as well, and one error is enough.
            if NUMBERS.iter().any(|number| part.path().is_ident(number)) {
                return Ok(());
            }
            let problem = if part.path().is_ident("packed") {
                "a packed struct has fields where the core cannot read them: put the fields with the greatest alignment first"
            } else if part.path().is_ident("align") {
                "the fields decide the alignment, in C++ too: leave `align` out, and add `[u8; N]` where bytes are missing"
            } else {
                "a tiling struct is `#[repr(C)]` and nothing else: leave the rest out"
            };
            return Err(Error::new(part.span(), problem));
        }
    }
    if !c {
        let problem = format!(
            "`#[repr(C)]` is missing: without it Rust orders the fields of `{}` as it likes, and C++ does not; write it above the struct",
            item.ident
        );
        return Err(Error::new(item.ident.span(), problem));
    }
    Ok(())
}

fn namespace(text: &LitStr) -> Result<String> {
    let value = text.value();
    for part in value.split("::") {
        if let Some(problem) = names::problem(part) {
            let problem = format!("{problem} (the namespace is names with `::` between them)");
            return Err(Error::new(text.span(), problem));
        }
    }
    Ok(value)
}
