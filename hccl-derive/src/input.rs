//! The struct and its attributes, read and checked as far as text goes.

use std::collections::HashMap;

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DataStruct, DeriveInput, Error, Expr, Fields, Ident, LitInt, LitStr, Meta,
    Path, Result, Token, Visibility,
};

use crate::names;
use crate::types::Shape;

/// A struct with the derive.
pub struct Struct {
    pub ident: Ident,
    pub visibility: Visibility,
    /// In C++.
    pub name: String,
    /// In C++.
    pub namespace: String,
    /// What the attribute promises.
    pub size: Option<LitInt>,
    /// Where `hccl` is.
    pub root: Path,
    pub fields: Vec<Field>,
}

pub struct Field {
    pub ident: Ident,
    pub visibility: Visibility,
    /// The same, for names that are made of it.
    pub rust: String,
    /// In C++.
    pub name: String,
    pub ty: syn::Type,
    pub shape: Shape,
    pub range: Option<Expr>,
}

/// Why a struct is refused, and what is left of it: enough for what uses it to be compiled, so that nothing but the reason is reported.
pub struct Refused {
    pub error: Error,
    pub rest: Option<Struct>,
}

impl Struct {
    pub fn read(item: &DeriveInput) -> std::result::Result<Struct, Box<Refused>> {
        let ident = &item.ident;
        let mut read = Struct {
            ident: ident.clone(),
            visibility: item.vis.clone(),
            name: ident.unraw().to_string(),
            namespace: String::new(),
            size: None,
            root: syn::parse_quote!(::hccl),
            fields: Vec::new(),
        };
        let mut errors = Errors(None);
        let data = match &item.data {
            Data::Struct(data) => Some(data),
            Data::Enum(_) => {
                let problem =
                    "a tiling struct is a struct; an enum goes into one as its number, a `u32`";
                errors.add(Error::new(ident.span(), problem));
                None
            }
            Data::Union(_) => {
                let problem = "a tiling struct is a struct: with a union nobody knows which of its fields is meant";
                errors.add(Error::new(ident.span(), problem));
                None
            }
        };
        if !item.generics.params.is_empty() {
            let problem = "a tiling struct has no parameters: C++ declares it once, with one layout; write one struct for each";
            errors.add(Error::new(item.generics.span(), problem));
        }
        if data.is_some() {
            errors.keep(representation(item));
        }
        let mut name_span = ident.span();
        errors.keep(attributes(&item.attrs, |meta| {
            if meta.path.is_ident("size") {
                read.size = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("name") {
                let text: LitStr = meta.value()?.parse()?;
                (read.name, name_span) = (text.value(), text.span());
            } else if meta.path.is_ident("namespace") {
                let text: LitStr = meta.value()?.parse()?;
                read.namespace = namespace(&text)?;
            } else if meta.path.is_ident("crate") {
                read.root = meta.value()?.call(Path::parse_mod_style)?;
            } else {
                return Err(meta.error("a struct takes `name`, `namespace`, `size` and `crate`; `range` belongs to a field"));
            }
            Ok(())
        }));
        if let Some(problem) = names::problem(&read.name) {
            errors.add(Error::new(name_span, problem));
        }
        if let Some(data) = data {
            errors.keep(read.read_fields(data));
        }
        match errors.0 {
            None => Ok(read),
            Some(error) => {
                let rest = item.generics.params.is_empty().then_some(read);
                Err(Box::new(Refused { error, rest }))
            }
        }
    }

    fn read_fields(&mut self, data: &DataStruct) -> Result<()> {
        let Fields::Named(fields) = &data.fields else {
            let problem = "a tiling struct has fields with names, because C++ reads them by name";
            return Err(Error::new(self.ident.span(), problem));
        };
        let mut errors = Errors(None);
        let mut seen: HashMap<String, Ident> = HashMap::new();
        for field in &fields.named {
            match Field::read(field) {
                Ok(field) => {
                    if let Some(other) = seen.insert(field.name.clone(), field.ident.clone()) {
                        let name = &field.name;
                        let problem = format!(
                            "`{other}` and `{}` are both `{name}` in C++: give one another name with `#[tiling(name = \"...\")]`",
                            field.ident
                        );
                        errors.add(Error::new(field.ident.span(), problem));
                    }
                    self.fields.push(field);
                }
                Err(error) => errors.add(error),
            }
        }
        errors.or(())
    }

    /// A name for padding that no field has, in Rust or in C++.
    pub fn pad(&self) -> String {
        let taken = |name: &String| {
            self.fields.iter().any(|field| field.rust == *name || field.name == *name)
        };
        let more = (2..).map(|n| format!("_pad{n}"));
        std::iter::once("_pad".to_owned()).chain(more).find(|name| !taken(name)).unwrap_or_default()
    }
}

impl Field {
    /// The range as it is written, for messages.
    pub fn bounds(&self) -> Option<String> {
        let range = self.range.as_ref()?;
        let written = range.to_token_stream().to_string();
        let mut text = String::with_capacity(written.len());
        for word in written.split_whitespace() {
            // Only between two words a space has to stay.
            let of_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            if of_word(text.chars().last()) && of_word(word.chars().next()) {
                text.push(' ');
            }
            text.push_str(word);
        }
        Some(text)
    }

    fn read(field: &syn::Field) -> Result<Field> {
        let Some(ident) = &field.ident else {
            return Err(Error::new(field.span(), "a field of a tiling struct has a name"));
        };
        let rust = ident.unraw().to_string();
        let mut name = names::lower_camel(&rust);
        let (mut name_span, mut range) = (ident.span(), None);
        let mut errors = Errors(None);
        errors.keep(attributes(&field.attrs, |meta| {
            if meta.path.is_ident("name") {
                let text: LitStr = meta.value()?.parse()?;
                (name, name_span) = (text.value(), text.span());
            } else if meta.path.is_ident("range") {
                let value: Expr = meta.value()?.parse()?;
                if !matches!(value, Expr::Range(_)) {
                    return Err(Error::new(
                        value.span(),
                        "`range` takes a range: `range = 1..=64`, `range = 1..`",
                    ));
                }
                range = Some(value);
            } else {
                return Err(meta.error(
                    "a field takes `name` and `range`; `size` and `namespace` belong to the struct",
                ));
            }
            Ok(())
        }));
        if let Some(problem) = names::problem(&name) {
            errors.add(Error::new(name_span, problem));
        }
        match Shape::read(&field.ty) {
            Ok(shape) => errors.or(Field {
                visibility: field.vis.clone(),
                ident: ident.clone(),
                rust,
                name,
                ty: field.ty.clone(),
                shape,
                range,
            }),
            Err(error) => {
                errors.add(error);
                Err(errors.0.unwrap_or_else(|| Error::new(ident.span(), "this field is refused")))
            }
        }
    }
}

/// All that is wrong, in one go.
struct Errors(Option<Error>);

impl Errors {
    fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    fn keep(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.add(error);
        }
    }

    fn or<T>(self, value: T) -> Result<T> {
        self.0.map_or(Ok(value), Err)
    }
}

fn attributes(
    attributes: &[Attribute],
    mut each: impl FnMut(ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    let ours = attributes.iter().filter(|attribute| attribute.path().is_ident("tiling"));
    for attribute in ours {
        attribute.parse_nested_meta(&mut each)?;
    }
    Ok(())
}

/// `repr(C)`, and nothing beside it.
fn representation(item: &DeriveInput) -> Result<()> {
    let mut c = false;
    for attribute in item.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        let parts = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
        for part in parts {
            if part.path().is_ident("C") {
                c = true;
                continue;
            }
            let problem = if part.path().is_ident("packed") {
                "a packed struct has fields where the core cannot read them: put the fields with the greatest alignment first"
            } else if part.path().is_ident("align") {
                "the fields decide the alignment, in C++ too: leave `align` out, and add `[u8; N]` where bytes are missing"
            } else {
                "a tiling struct is `#[repr(C)]` and nothing else"
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
