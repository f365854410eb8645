//! The module tree of a crate, read from its files.

use std::path::{Path, PathBuf};

use crate::read::{self, Child, Mention, Name, Scope, Source, TypeName};

/// All files of a crate, with their scopes in one list. The first scope is the root.
#[derive(Default)]
pub struct Crate {
    pub files: Vec<PathBuf>,
    pub scopes: Vec<Scope>,
    pub mentions: Vec<Mention>,
    pub types: Vec<TypeName>,
}

/// The source of a file's text: the disk, or the memory of a test.
pub trait Files {
    /// Returns the text of a file, if there is such a file.
    fn text(&self, file: &Path) -> Option<String>;
}

/// The files on the disk.
pub struct Disk;

impl Files for Disk {
    fn text(&self, file: &Path) -> Option<String> {
        std::fs::read_to_string(file).ok()
    }
}

/// A file to be read: its text, the directory of its modules' files, and its own declaration.
struct Found {
    file: PathBuf,
    text: String,
    directory: PathBuf,
    declared: Option<Child>,
}

impl Crate {
    /// Reads a crate from its root file, such as `src/lib.rs`.
    pub fn read(root: &Path, files: &dyn Files) -> Result<Crate, String> {
        let mut all = Crate::default();
        let text = files.text(root).ok_or_else(|| format!("{} is missing", root.display()))?;
        let directory = root.parent().unwrap_or(Path::new("")).to_owned();
        let mut found = vec![Found { file: root.to_owned(), text, directory, declared: None }];
        while let Some(Found { file, text, directory, declared }) = found.pop() {
            let source = read::read(&text).map_err(|error| {
                format!("{}:{}: {error}", file.display(), error.span().start().line)
            })?;
            for child in all.link(declared, source) {
                found.push(locate(&file, &directory, child, files)?);
            }
            all.files.push(file);
        }
        Ok(all)
    }

    /// Adds the contents of a file. Returns the modules that it declares, with scopes of the crate.
    fn link(&mut self, declared: Option<Child>, source: Source) -> Vec<Child> {
        let (first, file) = (self.scopes.len(), self.files.len());
        let mut outer = Vec::new();
        let mut parent = None;
        if let Some(child) = declared {
            outer = self.scopes[child.scope].cfgs.clone();
            outer.extend(child.cfgs);
            parent = Some(child.scope);
            let names = self.scopes[child.scope].names.entry(child.name).or_default();
            names.push(Name::Module(first));
        }
        for mut scope in source.scopes {
            scope.parent = scope.parent.map(|local| local + first).or(parent);
            scope.file = file;
            scope.cfgs.extend(outer.iter().cloned());
            for name in scope.names.values_mut().flatten() {
                match name {
                    Name::Module(local) => *local += first,
                    Name::Item(definition) => {
                        definition.file = file;
                        definition.inside = definition.inside.map(|local| local + first);
                    }
                    Name::Import(_) => {}
                }
            }
            self.scopes.push(scope);
        }
        for (name, mut definition) in source.exported {
            definition.file = file;
            self.scopes[0].names.entry(name).or_default().push(Name::Item(definition));
        }
        let mentions = source.mentions.into_iter();
        self.mentions.extend(mentions.map(|m| Mention { scope: m.scope + first, ..m }));
        let types = source.types.into_iter();
        self.types.extend(types.map(|t| TypeName { scope: t.scope + first, ..t }));
        source.children.into_iter().map(|c| Child { scope: c.scope + first, ..c }).collect()
    }
}

/// Finds the file of a module that `file` declares.
fn locate(file: &Path, directory: &Path, child: Child, files: &dyn Files) -> Result<Found, String> {
    let mut inner = directory.to_owned();
    inner.extend(&child.around);
    let candidates = match &child.path {
        // Beside the file, unless inline modules are around the declaration.
        Some(path) if child.around.is_empty() => {
            vec![(file.parent().unwrap_or(Path::new("")).join(path), None)]
        }
        Some(path) => vec![(inner.join(path), None)],
        None => vec![
            (inner.join(format!("{}.rs", child.name)), Some(inner.join(&child.name))),
            (inner.join(&child.name).join("mod.rs"), Some(inner.join(&child.name))),
        ],
    };
    for (candidate, own) in candidates {
        if let Some(text) = files.text(&candidate) {
            let beside = candidate.parent().unwrap_or(Path::new("")).to_owned();
            let directory = own.unwrap_or(beside);
            return Ok(Found { file: candidate, text, directory, declared: Some(child) });
        }
    }
    Err(format!("{}: the file of `mod {}` is missing", file.display(), child.name))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Files in memory: paths below `src`, with their texts.
    pub struct Memory<'a>(pub &'a [(&'a str, &'a str)]);

    impl Files for Memory<'_> {
        fn text(&self, file: &Path) -> Option<String> {
            let found = self.0.iter().find(|(path, _)| Path::new("src").join(path) == file);
            found.map(|(_, text)| (*text).to_owned())
        }
    }

    /// Reads the crate whose root is `lib.rs`.
    pub fn read(files: &[(&str, &str)]) -> Crate {
        Crate::read(Path::new("src/lib.rs"), &Memory(files)).unwrap()
    }

    fn files(all: &Crate) -> Vec<String> {
        let mut files: Vec<_> = all.files.iter().map(|file| file.display().to_string()).collect();
        files.sort();
        files
    }

    #[test]
    fn files_of_modules_are_found_where_rust_looks() {
        let all = read(&[
            ("lib.rs", "mod a; mod b; mod inline { mod c; } #[path = \"other/d.rs\"] mod d;"),
            ("a.rs", "mod inner;"),
            ("a/inner.rs", ""),
            ("b/mod.rs", "mod inner;"),
            ("b/inner.rs", ""),
            ("inline/c.rs", ""),
            ("other/d.rs", "mod inner;"),
            ("other/inner.rs", ""),
        ]);
        let expected = [
            "src/a.rs",
            "src/a/inner.rs",
            "src/b/inner.rs",
            "src/b/mod.rs",
            "src/inline/c.rs",
            "src/lib.rs",
            "src/other/d.rs",
            "src/other/inner.rs",
        ];
        assert_eq!(files(&all), expected);
    }

    #[test]
    fn test_modules_are_left_out() {
        let all = read(&[(
            "lib.rs",
            "#[cfg(test)] mod tests; #[cfg(all(test, loom))] mod models; \
             #[cfg(test)] mod t { mod u; }",
        )]);
        assert_eq!(files(&all), ["src/lib.rs"]);
    }

    #[test]
    fn a_file_that_is_missing_is_an_error() {
        let files = Memory(&[("lib.rs", "mod a;")]);
        let error = Crate::read(Path::new("src/lib.rs"), &files).err().unwrap();
        assert_eq!(error, "src/lib.rs: the file of `mod a` is missing");
    }
}
