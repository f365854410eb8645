//! Reads one source file into scopes: its definitions, its imports and the names that it mentions.

use std::collections::{HashMap, HashSet};

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Item, Pat, UseTree};

use crate::cfg::{self, Cfg};

/// The index of a scope: in its file while the file is read, later in its crate.
pub type ScopeId = usize;
/// The index of a file in its crate.
pub type FileId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Type,
    Value,
    Macro,
}

/// An item that is defined in a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    pub kind: Kind,
    pub file: FileId,
    pub line: usize,
    /// The scope of the variants, if the item is an enum.
    pub inside: Option<ScopeId>,
}

/// A path of a `use`, or of a `use .. ::*`.
#[derive(Clone, Debug)]
pub struct Import {
    pub path: Vec<String>,
    pub line: usize,
}

/// A path in the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mention {
    pub scope: ScopeId,
    pub path: Vec<String>,
    pub is_macro: bool,
    pub line: usize,
}

#[derive(Clone, Debug)]
pub enum Name {
    Module(ScopeId),
    Item(Definition),
    Import(Import),
}

/// A module, a block with items of its own, or the variants of an enum.
#[derive(Debug, Default)]
pub struct Scope {
    pub is_module: bool,
    pub parent: Option<ScopeId>,
    pub file: FileId,
    pub names: HashMap<String, Vec<Name>>,
    pub globs: Vec<Import>,
    /// The conditions under which the scope exists.
    pub cfgs: Vec<Cfg>,
}

/// A type that is defined at item level.
#[derive(Clone, Debug)]
pub struct TypeName {
    pub name: String,
    pub scope: ScopeId,
    pub line: usize,
    pub cfgs: Vec<Cfg>,
}

/// A module in a file of its own.
#[derive(Debug)]
pub struct Child {
    pub scope: ScopeId,
    pub name: String,
    /// The inline modules around the declaration.
    pub around: Vec<String>,
    /// The value of `#[path = ".."]`.
    pub path: Option<String>,
    pub cfgs: Vec<Cfg>,
}

/// The contents of one file. Its first scope is the file's module.
#[derive(Debug, Default)]
pub struct Source {
    pub scopes: Vec<Scope>,
    pub mentions: Vec<Mention>,
    pub types: Vec<TypeName>,
    pub children: Vec<Child>,
    /// Macros with `#[macro_export]`, which the crate's root names.
    pub exported: Vec<(String, Definition)>,
}

/// Reads the text of a file.
pub fn read(text: &str) -> syn::Result<Source> {
    let file = syn::parse_file(text)?;
    let mut reader = Reader::default();
    reader.source.scopes.push(Scope { is_module: true, ..Scope::default() });
    if exists(&file.attrs) {
        reader.visit_file(&file);
    }
    Ok(reader.source)
}

fn exists(attributes: &[Attribute]) -> bool {
    if !attributes.iter().any(|attribute| attribute.path().is_ident("cfg")) {
        return !attributes.iter().any(|attribute| attribute.path().is_ident("test"));
    }
    cfg::possible(Cfg::of(attributes).iter())
}

#[derive(Default)]
struct Reader {
    source: Source,
    now: ScopeId,
    around: Vec<String>,
    /// Names that patterns and generics bind in the function that is being read.
    bound: HashSet<String>,
    seen: HashSet<(ScopeId, Vec<String>, bool)>,
}

impl Reader {
    fn define(&mut self, name: String, kind: Kind, span: Span) -> Definition {
        let definition = Definition { kind, file: 0, line: span.start().line, inside: None };
        self.add(name, Name::Item(definition));
        definition
    }

    fn add(&mut self, name: String, what: Name) {
        self.source.scopes[self.now].names.entry(name).or_default().push(what);
    }

    fn define_type(&mut self, name: &syn::Ident, attributes: &[Attribute]) {
        self.define(name.to_string(), Kind::Type, name.span());
        // The private trait that seals a public one has its name by convention.
        let seals = self.around.last().is_some_and(|module| module == "sealed");
        if self.source.scopes[self.now].is_module && !seals {
            self.source.types.push(TypeName {
                name: name.to_string(),
                scope: self.now,
                line: name.span().start().line,
                cfgs: Cfg::of(attributes),
            });
        }
    }

    fn mention(&mut self, path: Vec<String>, is_macro: bool, span: Span) {
        if path[0] == "Self"
            || path.len() == 1 && (self.bound.contains(&path[0]) || path[0] == "self")
        {
            return;
        }
        if self.seen.insert((self.now, path.clone(), is_macro)) {
            let line = span.start().line;
            self.source.mentions.push(Mention { scope: self.now, path, is_macro, line });
        }
    }

    /// Reads `inner` in a scope of its own, and returns the scope.
    fn within(&mut self, is_module: bool, inner: impl FnOnce(&mut Self)) -> ScopeId {
        let scope = self.source.scopes.len();
        let cfgs = self.source.scopes[self.now].cfgs.clone();
        let parent = Some(self.now);
        self.source.scopes.push(Scope { is_module, parent, cfgs, ..Scope::default() });
        let outer = std::mem::replace(&mut self.now, scope);
        inner(self);
        self.now = outer;
        scope
    }

    /// Reads a function or an item. The names that its patterns and generics bind are bound only
    /// inside it.
    fn function(&mut self, inner: impl FnOnce(&mut Self)) {
        let outer = self.bound.clone();
        inner(self);
        self.bound = outer;
    }

    fn import(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.import(&part.tree, path);
                path.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.import(item, path));
            }
            UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                self.source.scopes[self.now].globs.push(Import { path: path.clone(), line });
            }
            UseTree::Name(name) => {
                self.import_name(&name.ident, &name.ident, path);
            }
            UseTree::Rename(rename) => {
                self.import_name(&rename.ident, &rename.rename, path);
            }
        }
    }

    fn import_name(&mut self, item: &syn::Ident, name: &syn::Ident, path: &[String]) {
        let mut path = path.to_vec();
        let mut name = name.to_string();
        if item != "self" {
            path.push(item.to_string());
        } else if name == "self" {
            name = path.last().cloned().unwrap_or_default();
        }
        let import = Import { path, line: item.span().start().line };
        self.add(name, Name::Import(import));
    }

    /// Reads the paths in the tokens of a macro. A single name counts if it looks like a type, a
    /// call or a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let is = |at: usize, sign: char| match tokens.get(at) {
            Some(TokenTree::Punct(punct)) => punct.as_char() == sign,
            _ => false,
        };
        let colons = |at: usize| is(at, ':') && is(at + 1, ':');
        let mut at = 0;
        while at < tokens.len() {
            let TokenTree::Ident(first) = &tokens[at] else {
                if let TokenTree::Group(group) = &tokens[at] {
                    self.tokens(group.stream());
                }
                at += 1;
                continue;
            };
            // A field, a method, an associated item, a global path or a variable of the macro.
            let dollar = at > 0 && is(at - 1, '$');
            let skipped = at > 0 && (is(at - 1, '.') && !(at > 1 && is(at - 2, '.')))
                || at > 1 && colons(at - 2)
                || dollar && first != "crate";
            let mut path = vec![first.to_string()];
            while colons(at + 1) {
                let Some(TokenTree::Ident(next)) = tokens.get(at + 3) else { break };
                path.push(next.to_string());
                at += 3;
            }
            let is_macro = is(at + 1, '!') && !is(at + 2, '=');
            let called = match tokens.get(at + 1) {
                Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Parenthesis,
                _ => false,
            };
            at += 1;
            let typed = path[0].starts_with(|first: char| first.is_ascii_uppercase());
            if !skipped && (path.len() > 1 || is_macro || called || typed) {
                self.mention(path, is_macro, first.span());
            }
        }
    }

    /// Defines the items in the tokens of a macro, as those of `thread_local!` do.
    fn items_of_tokens(&mut self, tokens: TokenStream) {
        let mut before = [const { None }; 2];
        for token in tokens {
            let ident = match &token {
                TokenTree::Ident(ident) => Some(ident.clone()),
                TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
            };
            if let (Some(name), Some(TokenTree::Ident(word))) = (ident, &before[1]) {
                let pointer = matches!(&before[0], Some(TokenTree::Punct(p)) if p.as_char() == '*');
                match word.to_string().as_str() {
                    "struct" | "enum" | "union" | "trait" | "type" => {
                        self.define(name.to_string(), Kind::Type, name.span());
                    }
                    "fn" | "static" | "const" if !pointer => {
                        self.define(name.to_string(), Kind::Value, name.span());
                    }
                    _ => {}
                }
            }
            before.swap(0, 1);
            before[1] = Some(token);
        }
    }

    fn module(&mut self, item: &syn::ItemMod) {
        let name = item.ident.to_string();
        let cfgs = Cfg::of(&item.attrs);
        let Some((_, items)) = &item.content else {
            let path = item.attrs.iter().find(|a| a.path().is_ident("path")).and_then(|a| {
                let syn::Meta::NameValue(pair) = &a.meta else { return None };
                let Expr::Lit(literal) = &pair.value else { return None };
                let syn::Lit::Str(text) = &literal.lit else { return None };
                Some(text.value())
            });
            let around = self.around.clone();
            self.source.children.push(Child { scope: self.now, name, around, path, cfgs });
            return;
        };
        self.around.push(name.clone());
        let scope = self.within(true, |inner| {
            inner.source.scopes[inner.now].cfgs.extend(cfgs);
            items.iter().for_each(|item| inner.visit_item(item));
        });
        self.around.pop();
        self.add(name, Name::Module(scope));
    }

    fn variants(&mut self, item: &syn::ItemEnum) {
        let scope = self.within(false, |inner| {
            for variant in item.variants.iter().filter(|variant| exists(&variant.attrs)) {
                inner.define(variant.ident.to_string(), Kind::Value, variant.ident.span());
            }
        });
        let defined = self.source.scopes[self.now].names.get_mut(&item.ident.to_string());
        if let Some(Name::Item(definition)) = defined.and_then(|names| names.last_mut()) {
            definition.inside = Some(scope);
        }
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Const(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::ExternCrate(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::ForeignMod(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::TraitAlias(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::Union(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Verbatim(tokens) => return self.tokens(tokens.clone()),
            _ => return,
        };
        if !exists(attributes) {
            return;
        }
        match item {
            Item::Use(item) if item.leading_colon.is_none() => {
                return self.import(&item.tree, &mut Vec::new());
            }
            Item::Use(_) | Item::ExternCrate(_) => return,
            Item::Mod(item) => return self.module(item),
            Item::Macro(item) => {
                if let Some(name) = &item.ident {
                    let definition = self.define(name.to_string(), Kind::Macro, name.span());
                    if attributes.iter().any(|a| a.path().is_ident("macro_export")) {
                        self.source.exported.push((name.to_string(), definition));
                    }
                    return self.tokens(item.mac.tokens.clone());
                }
                self.items_of_tokens(item.mac.tokens.clone());
            }
            Item::Const(item) => {
                self.define(item.ident.to_string(), Kind::Value, item.ident.span());
            }
            Item::Static(item) => {
                self.define(item.ident.to_string(), Kind::Value, item.ident.span());
            }
            Item::Fn(item) => {
                self.define(item.sig.ident.to_string(), Kind::Value, item.sig.ident.span());
                return self.function(|inner| visit::visit_item_fn(inner, item));
            }
            Item::Enum(item) => {
                self.define_type(&item.ident, attributes);
                self.variants(item);
            }
            Item::Struct(item) => self.define_type(&item.ident, attributes),
            Item::Union(item) => self.define_type(&item.ident, attributes),
            Item::Trait(item) => self.define_type(&item.ident, attributes),
            Item::TraitAlias(item) => self.define_type(&item.ident, attributes),
            Item::Type(item) => self.define_type(&item.ident, attributes),
            _ => {}
        }
        // Its generics bind names, too.
        self.function(|inner| visit::visit_item(inner, item));
    }

    fn visit_foreign_item_fn(&mut self, item: &'a syn::ForeignItemFn) {
        self.define(item.sig.ident.to_string(), Kind::Value, item.sig.ident.span());
        self.function(|inner| visit::visit_foreign_item_fn(inner, item));
    }

    fn visit_impl_item(&mut self, item: &'a syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            syn::ImplItem::Macro(item) => &item.attrs,
            _ => return,
        };
        if exists(attributes) {
            self.function(|inner| visit::visit_impl_item(inner, item));
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        self.function(|inner| visit::visit_trait_item_fn(inner, item));
    }

    fn visit_block(&mut self, block: &'a syn::Block) {
        if block.stmts.iter().any(|statement| matches!(statement, syn::Stmt::Item(_))) {
            self.within(false, |inner| visit::visit_block(inner, block));
        } else {
            visit::visit_block(self, block);
        }
    }

    fn visit_stmt(&mut self, statement: &'a syn::Stmt) {
        let kept = match statement {
            syn::Stmt::Local(local) => exists(&local.attrs),
            syn::Stmt::Macro(call) => exists(&call.attrs),
            syn::Stmt::Expr(Expr::Block(block), _) => exists(&block.attrs),
            syn::Stmt::Expr(Expr::Call(call), _) => exists(&call.attrs),
            syn::Stmt::Expr(Expr::MethodCall(call), _) => exists(&call.attrs),
            syn::Stmt::Expr(Expr::If(test), _) => exists(&test.attrs),
            syn::Stmt::Expr(..) | syn::Stmt::Item(_) => true,
        };
        if kept {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_field(&mut self, field: &'a syn::Field) {
        if exists(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'a syn::FieldValue) {
        if exists(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'a syn::Variant) {
        if exists(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if exists(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_type_param(&mut self, parameter: &'a syn::TypeParam) {
        self.bound.insert(parameter.ident.to_string());
        visit::visit_type_param(self, parameter);
    }

    fn visit_pat(&mut self, pattern: &'a Pat) {
        if let Pat::Ident(bound) = pattern {
            let name = bound.ident.to_string();
            if name.starts_with(|first: char| first.is_ascii_uppercase()) {
                self.mention(vec![name], false, bound.ident.span());
            } else {
                self.bound.insert(name);
            }
        }
        visit::visit_pat(self, pattern);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none()
            && let Some(first) = path.segments.first()
        {
            let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.mention(names, false, first.ident.span());
        }
        // Types in angle brackets.
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        if call.path.leading_colon.is_none()
            && let Some(first) = call.path.segments.first()
        {
            let names =
                call.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.mention(names, true, first.ident.span());
        }
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        // Attributes and derives come from other crates, but their arguments may hold paths.
        if let syn::Meta::List(list) = &attribute.meta
            && !attribute.path().is_ident("derive")
            && !attribute.path().is_ident("cfg")
        {
            self.tokens(list.tokens.clone());
        }
    }
}
