//! The entries of an attribute: `name`, `name = value`, with commas between them.
//!
//! All of them are read before any is checked, so that every mistake is reported, not only the
//! first.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Error, Expr, ExprLit, ExprPath, Ident, Lit, LitInt, LitStr, Meta, Path, Result,
    Token,
};

/// The errors so far, which are reported together.
#[derive(Default)]
pub struct Errors(pub Option<Error>);

impl Errors {
    pub fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    pub fn say(&mut self, span: Span, problem: impl std::fmt::Display) {
        self.add(Error::new(span, problem));
    }

    /// Returns the value of a result. If it is an error, keeps the error and returns `None`.
    pub fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }
}

pub struct Entry {
    pub key: Ident,
    value: Option<Expr>,
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> Result<Entry> {
        let key = input.call(Ident::parse_any)?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        if !input.is_empty() && !input.peek(Token![,]) {
            let problem = format!(
                "`{key}` is followed by `=` and its value: write these, and a comma before the \
                 next entry"
            );
            return Err(Error::new(input.span(), problem));
        }
        Ok(Entry { key, value })
    }
}

impl Entry {
    /// Returns the value, or an error with an example of the right form.
    pub fn value(&self, example: &str) -> Result<&Expr> {
        let problem = || {
            Error::new(self.key.span(), format!("`{}` has a value: write `{example}`", self.key))
        };
        self.value.as_ref().map(ungrouped).ok_or_else(problem)
    }

    pub fn text(&self, example: &str) -> Result<LitStr> {
        match self.value(example)? {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text.clone()),
            other => Err(self.another(other, "a text", example)),
        }
    }

    pub fn number(&self, example: &str) -> Result<LitInt> {
        match self.value(example)? {
            Expr::Lit(ExprLit { lit: Lit::Int(number), .. })
                if number.suffix().is_empty() && number.base10_parse::<u32>().is_ok() =>
            {
                Ok(number.clone())
            }
            other => Err(self.another(other, "a whole number of bytes", example)),
        }
    }

    pub fn path(&self, example: &str) -> Result<Path> {
        match self.value(example)? {
            Expr::Path(ExprPath { qself: None, path, .. })
                if path.segments.iter().all(|part| part.arguments.is_none()) =>
            {
                Ok(path.clone())
            }
            other => Err(self.another(other, "a path", example)),
        }
    }

    fn another(&self, value: &Expr, what: &str, example: &str) -> Error {
        Error::new_spanned(value, format!("`{}` takes {what}: write `{example}`", self.key))
    }

    /// Checks that an entry has no value.
    pub fn alone(&self) -> Result<()> {
        match &self.value {
            None => Ok(()),
            Some(value) => Err(Error::new_spanned(
                value,
                format!("`{}` has no value: leave the value out", self.key),
            )),
        }
    }
}

fn ungrouped(value: &Expr) -> &Expr {
    match value {
        Expr::Group(group) => ungrouped(&group.expr),
        value => value,
    }
}

/// Returns the entries between the parentheses of an attribute. An entry that comes twice is an
/// error.
pub fn entries(tokens: proc_macro2::TokenStream, errors: &mut Errors) -> Vec<Entry> {
    let read = Punctuated::<Entry, Token![,]>::parse_terminated.parse2(tokens);
    once(errors.keep(read).into_iter().flatten(), errors)
}

/// Returns the entries of all attributes `tiling`. `example` is an entry to show in an error.
pub fn of_tiling(attributes: &[Attribute], example: &str, errors: &mut Errors) -> Vec<Entry> {
    let mut all = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("tiling")) {
        if let Meta::List(_) = &attribute.meta {
            let read = attribute.parse_args_with(Punctuated::<Entry, Token![,]>::parse_terminated);
            all.extend(errors.keep(read).into_iter().flatten());
        } else {
            let problem =
                format!("`tiling` takes its entries in parentheses: write `#[tiling({example})]`");
            errors.add(Error::new_spanned(&attribute.meta, problem));
        }
    }
    once(all.into_iter(), errors)
}

fn once(all: impl Iterator<Item = Entry>, errors: &mut Errors) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for entry in all {
        if entries.iter().any(|earlier| earlier.key == entry.key) {
            errors.say(entry.key.span(), format!("`{}` is given twice: leave one out", entry.key));
        } else {
            entries.push(entry);
        }
    }
    entries
}
