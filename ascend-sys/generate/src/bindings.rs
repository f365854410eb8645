//! Makes `bindings.rs` from the headers with bindgen, and moves the functions into a module.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bindgen::callbacks::{
    DeriveTrait, DiscoveredItem, DiscoveredItemId, ImplementsTrait, IntKind, ParseCallbacks,
    SourceLocation, Token,
};
use syn::{ForeignItem, ForeignItemFn, Item};

use crate::Result;

/// The bindings, and the facts about them from which the function table is made.
pub struct Bindings {
    pub file: syn::File,
    pub functions: Vec<ForeignItemFn>,
    /// The place where each function is declared, by its name.
    pub places: HashMap<String, Place>,
}

/// The place where a function is declared.
#[derive(Debug)]
pub struct Place {
    /// The header, relative to the include directory.
    pub header: String,
    line: usize,
}

impl Place {
    /// Returns the title of the section of the header in which the declaration is. The title is the
    /// last comment above the declaration that has one line, begins its line, and does not end with
    /// a period.
    pub fn area(&self, include: &Path) -> Result<String> {
        let text = std::fs::read_to_string(include.join(&self.header))?;
        let above: Vec<&str> = text.lines().take(self.line).collect();
        let title = |line: &&str| {
            let title = line.strip_prefix("/* ")?.strip_suffix(" */")?;
            (!title.ends_with('.')).then(|| title.to_owned())
        };
        above.iter().rev().find_map(title).ok_or_else(|| {
            let Place { header, line } = self;
            format!("{header}:{line}: no section above it, such as /* Device */").into()
        })
    }
}

pub fn generate(include: &Path) -> Result<Bindings> {
    let facts = Rc::new(RefCell::new(Facts::default()));
    let text = bindgen::builder()
        .header(include.join("ascend_sys.h").display().to_string())
        .clang_args(["-xc", "-std=c11", "-I"])
        .clang_arg(include.display().to_string())
        .allowlist_file(format!("{}/.*", escaped(include)))
        // These are the only types of the system. `system.rs` declares them, so that the output
        // does not depend on the spelling of a C library.
        .blocklist_type("in6?_addr.*")
        .anon_fields_prefix("anon_")
        .raw_line("use crate::system::{in6_addr, in_addr};")
        .default_enum_style(bindgen::EnumVariation::NewType {
            is_bitfield: false,
            is_global: false,
        })
        .derive_default(true)
        .use_core()
        .rust_target(bindgen::RustTarget::stable(89, 0).map_err(|error| error.to_string())?)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .disable_header_comment()
        .merge_extern_blocks(true)
        .formatter(bindgen::Formatter::None)
        .parse_callbacks(Box::new(Callbacks { include: include.to_owned(), facts: facts.clone() }))
        .generate()?
        .to_string();

    let mut file = syn::parse_file(&text)?;
    let mut functions = Vec::new();
    let mut blocks = Vec::new();
    file.items.retain(|item| {
        let Item::ForeignMod(block) = item else { return true };
        functions.extend(block.items.iter().filter_map(|item| match item {
            ForeignItem::Fn(function) => Some(function.clone()),
            _ => None,
        }));
        blocks.push(block.clone());
        false
    });
    file.items.push(syn::parse_quote! {
        /// The functions, declared for programs that link against CANN's libraries.
        ///
        /// A program that calls one of them depends on these libraries. The fields of
        /// [`Functions`](crate::Functions) have the same signatures without that dependency.
        pub mod imports {
            use super::*;
            #(#blocks)*
        }
    });
    let places = facts.take().places;
    Ok(Bindings { file, functions, places })
}

/// Returns a regular expression that matches this path and nothing else.
fn escaped(path: &Path) -> String {
    let mut pattern = String::new();
    for letter in path.display().to_string().chars() {
        if letter.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

#[derive(Debug, Default)]
struct Facts {
    places: HashMap<String, Place>,
    /// The suffix of each macro's number, by the name of the macro.
    suffixes: HashMap<String, String>,
}

#[derive(Debug)]
struct Callbacks {
    include: PathBuf,
    facts: Rc<RefCell<Facts>>,
}

impl ParseCallbacks for Callbacks {
    fn modify_macro(&self, name: &str, tokens: &mut Vec<Token>) {
        let number = tokens.last().map(|token| String::from_utf8_lossy(&token.raw).to_uppercase());
        let suffix = match number {
            Some(number) if number.ends_with("UL") || number.ends_with("ULL") => "UL",
            Some(number) if number.ends_with('U') => "U",
            _ => "",
        };
        self.facts.borrow_mut().suffixes.insert(name.into(), suffix.into());
    }

    /// Gives a macro the type of its number in C, instead of the smallest type that holds its
    /// value.
    fn int_macro(&self, name: &str, _value: i64) -> Option<IntKind> {
        match self.facts.borrow().suffixes.get(name)?.as_str() {
            "UL" => Some(IntKind::U64),
            "U" => Some(IntKind::U32),
            _ => Some(IntKind::Int),
        }
    }

    fn blocklisted_type_implements_trait(
        &self,
        _name: &str,
        _trait: DeriveTrait,
    ) -> Option<ImplementsTrait> {
        Some(ImplementsTrait::Yes)
    }

    fn new_item_found(
        &self,
        _id: DiscoveredItemId,
        item: DiscoveredItem,
        location: Option<&SourceLocation>,
    ) {
        if let (DiscoveredItem::Function { final_name }, Some(location)) = (item, location) {
            let path = location.file_name.as_deref().map(Path::new);
            let header = path.and_then(|path| path.strip_prefix(&self.include).ok());
            if let Some(header) = header {
                let place = Place { header: header.display().to_string(), line: location.line };
                self.facts.borrow_mut().places.insert(final_name, place);
            }
        }
    }
}
