//! Resolves paths to the files that define their items.

use std::collections::{BTreeMap, HashMap};

use crate::read::{Definition, FileId, Kind, Name, ScopeId};
use crate::tree::Crate;

/// The items that one file uses of another: each name with the line of its first use.
pub type Items = BTreeMap<String, usize>;
/// The arrows from files to the files that define what they use.
pub type Arrows = BTreeMap<(FileId, FileId), Items>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Module(ScopeId),
    Item(String, Definition),
    /// An item that another crate defines.
    Elsewhere,
}

/// Returns the arrows of a crate.
pub fn arrows(all: &Crate) -> Arrows {
    let mut resolver = Resolver { all, known: HashMap::new() };
    let mut arrows = Arrows::new();
    let mut add = |from: FileId, to: FileId, name: &str, line: usize| {
        if from != to {
            let first =
                arrows.entry((from, to)).or_default().entry(name.to_owned()).or_insert(line);
            *first = line.min(*first);
        }
    };
    for (id, scope) in all.scopes.iter().enumerate() {
        for import in scope.names.values().flatten() {
            let Name::Import(import) = import else { continue };
            let found = resolver.path(id, &import.path, &mut Vec::new());
            // The import of a module is no arrow. The paths that begin with the module are.
            if found.iter().any(|target| matches!(target, Target::Module(_))) {
                continue;
            }
            for target in found {
                if let Target::Item(name, definition) = target {
                    add(scope.file, definition.file, &name, import.line);
                }
            }
        }
    }
    for (id, scope) in all.scopes.iter().enumerate() {
        for glob in &scope.globs {
            // For a glob of a module only the used names count, for a glob of an enum the enum.
            for target in resolver.path(id, &glob.path, &mut Vec::new()) {
                if let Target::Item(name, definition) = target {
                    add(scope.file, definition.file, &name, glob.line);
                }
            }
        }
    }
    for mention in &all.mentions {
        let found = if mention.is_macro && mention.path.len() == 1 {
            resolver.macro_in_sight(mention.scope, &mention.path[0])
        } else {
            resolver.path(mention.scope, &mention.path, &mut Vec::new())
        };
        let from = all.scopes[mention.scope].file;
        for target in found {
            if let Target::Item(name, definition) = target
                && (definition.kind == Kind::Macro) == mention.is_macro
            {
                add(from, definition.file, &name, mention.line);
            }
        }
    }
    arrows
}

/// The names that are being looked up. A name that depends on itself finds nothing.
type Asked = Vec<(ScopeId, String)>;

struct Resolver<'a> {
    all: &'a Crate,
    known: HashMap<(ScopeId, String), Vec<Target>>,
}

impl Resolver<'_> {
    fn module_of(&self, mut scope: ScopeId) -> ScopeId {
        while !self.all.scopes[scope].is_module {
            scope = self.all.scopes[scope].parent.unwrap_or(0);
        }
        scope
    }

    /// Resolves a path in `scope`. A path that begins with an unknown name belongs to another
    /// crate.
    fn path(&mut self, scope: ScopeId, path: &[String], asked: &mut Asked) -> Vec<Target> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        let mut found = match first.as_str() {
            "crate" => vec![Target::Module(0)],
            "self" => vec![Target::Module(self.module_of(scope))],
            "super" => {
                let module = self.module_of(scope);
                let parent = self.all.scopes[module].parent.unwrap_or(0);
                vec![Target::Module(self.module_of(parent))]
            }
            name => self.in_sight(scope, name, asked),
        };
        if found.is_empty() {
            found.push(Target::Elsewhere);
        }
        for name in rest {
            let mut next: Vec<Target> = Vec::new();
            for target in found {
                let targets = match target {
                    Target::Module(module) if name == "super" => {
                        let parent = self.all.scopes[module].parent.unwrap_or(0);
                        vec![Target::Module(self.module_of(parent))]
                    }
                    Target::Module(module) if name == "self" => vec![Target::Module(module)],
                    Target::Module(module) => {
                        let inner = self.inside(module, name, asked);
                        if inner.is_empty() { self.unknown(module, name, asked) } else { inner }
                    }
                    // The rest of the path is a variant of an enum, or an associated item of
                    // another type.
                    Target::Item(_, definition) if definition.kind == Kind::Type => vec![target],
                    Target::Item(..) => Vec::new(),
                    Target::Elsewhere => vec![target],
                };
                for target in targets {
                    if !next.contains(&target) {
                        next.push(target);
                    }
                }
            }
            found = next;
        }
        found
    }

    /// Resolves a name that a module does not define: it comes from another crate by a glob, or a
    /// macro defines it there.
    fn unknown(&mut self, module: ScopeId, name: &str, asked: &mut Asked) -> Vec<Target> {
        let all = self.all;
        let key = (module, "*".to_owned());
        if !asked.contains(&key) {
            asked.push(key);
            let elsewhere = all.scopes[module]
                .globs
                .iter()
                .any(|glob| self.path(module, &glob.path, asked).contains(&Target::Elsewhere));
            asked.pop();
            if elsewhere {
                return vec![Target::Elsewhere];
            }
        }
        let file = self.all.scopes[module].file;
        let definition = Definition { kind: Kind::Type, file, line: 0, inside: None };
        vec![Target::Item(name.to_owned(), definition)]
    }

    /// Finds a name in a scope or in those around it, up to the module.
    fn in_sight(&mut self, mut scope: ScopeId, name: &str, asked: &mut Asked) -> Vec<Target> {
        loop {
            let found = self.inside(scope, name, asked);
            if !found.is_empty() || self.all.scopes[scope].is_module {
                return found;
            }
            scope = self.all.scopes[scope].parent.unwrap_or(0);
        }
    }

    /// Finds a macro, which is also visible in all modules within that of its definition.
    fn macro_in_sight(&mut self, scope: ScopeId, name: &str) -> Vec<Target> {
        let mut at = Some(scope);
        while let Some(scope) = at {
            let mut found = self.inside(scope, name, &mut Vec::new());
            found.retain(|t| matches!(t, Target::Item(_, d) if d.kind == Kind::Macro));
            if !found.is_empty() {
                return found;
            }
            at = self.all.scopes[scope].parent;
        }
        Vec::new()
    }

    /// Finds a name in one scope: items and imports, then globs.
    fn inside(&mut self, scope: ScopeId, name: &str, asked: &mut Asked) -> Vec<Target> {
        let key = (scope, name.to_owned());
        if let Some(found) = self.known.get(&key) {
            return found.clone();
        }
        let all = self.all;
        let names = || all.scopes[scope].names.get(name).into_iter().flatten();
        let mut found = Vec::new();
        for known in names() {
            match known {
                Name::Module(module) => found.push(Target::Module(*module)),
                Name::Item(definition) => found.push(Target::Item(name.to_owned(), *definition)),
                Name::Import(_) => {}
            }
        }
        if asked.contains(&key) {
            return found;
        }
        asked.push(key);
        for known in names() {
            if let Name::Import(import) = known {
                found.extend(self.path(scope, &import.path, asked));
            }
        }
        if found.is_empty() {
            for glob in &all.scopes[scope].globs {
                for target in self.path(scope, &glob.path, asked) {
                    let inner = match target {
                        Target::Module(module) => Some(module),
                        Target::Item(_, definition) => definition.inside,
                        Target::Elsewhere => None,
                    };
                    if let Some(inner) = inner {
                        found.extend(self.inside(inner, name, asked));
                    }
                }
            }
        }
        let mut once: Vec<Target> = Vec::new();
        found.into_iter().for_each(|target| {
            if !once.contains(&target) {
                once.push(target);
            }
        });
        let key = asked.pop().unwrap_or_default();
        // A result that was found while other names are being looked up may lack the items that
        // depend on those names.
        if asked.is_empty() {
            self.known.insert(key, once.clone());
        }
        once
    }
}

#[cfg(test)]
mod tests {
    use crate::tree::tests::read;

    /// Returns the arrows as texts: `from to: items`, without `src/` and `.rs`.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let all = read(files);
        let short = |id: usize| {
            let file = all.files[id].strip_prefix("src").unwrap().with_extension("");
            file.display().to_string()
        };
        let found = super::arrows(&all);
        let text = |((from, to), items): (&(usize, usize), &super::Items)| {
            let items: Vec<_> = items.keys().map(String::as_str).collect();
            format!("{} {}: {}", short(*from), short(*to), items.join(" "))
        };
        let mut texts: Vec<_> = found.iter().map(text).collect();
        texts.sort();
        texts
    }

    #[test]
    fn declarations_of_modules_are_no_arrows() {
        assert!(arrows(&[("lib.rs", "mod a; pub mod b;"), ("a.rs", ""), ("b.rs", "")]).is_empty());
    }

    #[test]
    fn a_re_export_is_followed_to_the_file_that_defines_the_item() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; mod user;"),
            ("a.rs", "pub use crate::b::{Thing as Renamed, make};"),
            ("b.rs", "pub struct Thing; pub fn make() {}"),
            ("user.rs", "use crate::a::Renamed; fn f() { crate::a::make(); }"),
        ]);
        assert_eq!(found, ["a b: Thing make", "user b: Thing make"]);
    }

    #[test]
    fn globs_bring_the_names_that_are_used_and_no_others() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; mod user;"),
            ("a.rs", "pub use crate::b::*; pub fn unused() {} pub enum Kind { One, Two }"),
            ("b.rs", "pub struct Thing; pub fn other() {}"),
            ("user.rs", "use crate::a::*; fn f(t: Thing) { use Kind::*; let other = One; other; }"),
        ]);
        assert_eq!(found, ["user a: Kind One", "user b: Thing"]);
    }

    #[test]
    fn super_and_self_paths_are_relative_to_the_module() {
        let found = arrows(&[
            ("lib.rs", "mod a; fn root() {}"),
            ("a/mod.rs", "mod b; mod c; pub struct Own; mod inline { use super::Own; }"),
            ("a/b.rs", "use super::*; use super::super::root; fn f(_: Own) { super::c::call(); }"),
            (
                "a/c.rs",
                "pub fn call() { self::inner::g() } \
                 mod inner { pub fn g() { super::super::b::f(); } }",
            ),
        ]);
        assert_eq!(found, ["a/b a/c: call", "a/b a/mod: Own", "a/b lib: root", "a/c a/b: f"]);
    }

    #[test]
    fn a_module_that_is_imported_is_no_arrow_but_the_paths_through_it_are() {
        let found = arrows(&[
            ("lib.rs", "mod check; mod user; mod idle;"),
            ("check/mod.rs", "mod deep; pub use deep::note; pub fn own() {}"),
            ("check/deep.rs", "pub fn note() {}"),
            ("user.rs", "use crate::check; fn f() { check::note(); }"),
            ("idle.rs", "use crate::check;"),
        ]);
        assert_eq!(found, ["check/mod check/deep: note", "user check/deep: note"]);
    }

    #[test]
    fn a_module_and_an_item_of_one_name_are_told_apart() {
        let found = arrows(&[
            ("lib.rs", "mod group; mod user; pub use group::group;"),
            ("group.rs", "pub fn group() {} pub fn is_open() {}"),
            ("user.rs", "use crate::group; fn f() { group::is_open(); }"),
        ]);
        assert_eq!(found, ["lib group: group", "user group: is_open"]);
    }

    #[test]
    fn macros_are_followed_by_path_and_by_place_and_their_paths_belong_to_their_file() {
        let found = arrows(&[
            ("lib.rs", "#[macro_use] mod a; mod b; mod user;"),
            (
                "a.rs",
                "macro_rules! call { () => { $crate::b::run($crate::b::Thing) } } \
                 pub(crate) use call;",
            ),
            ("b.rs", "pub struct Thing; pub fn run(_: Thing) { vec![crate::user::COUNT]; }"),
            ("user.rs", "pub const COUNT: u8 = 0; fn f() { crate::a::call!(); } mod c;"),
            ("user/c.rs", "use crate::a::call; fn f() { call!(); crate::b::run }"),
        ]);
        let expected =
            ["a b: Thing run", "b user: COUNT", "user a: call", "user/c a: call", "user/c b: run"];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_macro_without_a_path_is_in_sight_below_its_definition() {
        let found = arrows(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "macro_rules! call { () => {} } mod b;"),
            ("a/b.rs", "fn f() { call!(); }"),
        ]);
        assert_eq!(found, ["a/b a: call"]);
    }

    #[test]
    fn types_patterns_and_associated_items_are_arrows() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub enum Kind { One } pub trait Has { const N: u8; } pub struct S;"),
            (
                "b.rs",
                "fn f(k: crate::a::Kind) -> Vec<crate::a::S> \
                 { match k { crate::a::Kind::One => <u8 as crate::a::Has>::N } }",
            ),
        ]);
        assert_eq!(found, ["b a: Has Kind S"]);
    }

    #[test]
    fn names_that_macros_make_belong_to_the_module_and_items_of_other_crates_to_no_file() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; mod c; mod d; pub use other_crate as reduce;"),
            ("d.rs", "pub use std::fmt::*;"),
            ("a.rs", "make!(Thing);"),
            ("b.rs", "pub use std::sync::atomic::AtomicU64;"),
            (
                "c.rs",
                "use crate::a::Thing; use crate::b::AtomicU64; use std::fmt; use self::lost::*; \
                 fn f(_: crate::reduce::R) { fmt::x(); crate::d::Debug; }",
            ),
        ]);
        assert_eq!(found, ["c a: Thing"]);
    }

    #[test]
    fn what_only_tests_use_is_no_arrow() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub struct S; pub fn f() {}"),
            (
                "b.rs",
                "#[cfg(test)] use crate::a::S; fn g() { #[cfg(test)] crate::a::f(); } \
                 #[cfg(test)] mod tests { use crate::a::f; } \
                 impl u8 { #[cfg(test)] fn h() { crate::a::f() } }",
            ),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn imports_in_a_circle_come_to_an_end() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "pub use crate::b::*; pub use crate::b::Lost;"),
            ("b.rs", "pub use crate::a::*; pub use crate::a::Lost; pub struct Real;"),
            ("c.rs", "use crate::a::Real; use crate::a::*; fn f(_: Nowhere) {}"),
        ]);
        assert!(found.contains(&"c b: Real".to_owned()), "{found:?}");
    }
}
