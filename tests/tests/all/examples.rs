//! Each public type of `hccl` and `hccl-train` has an example, which the doc tests compile and run.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A source file of a package.
struct SourceFile {
    path: PathBuf,
    text: String,
    /// Whether the path of its module is public.
    is_public: bool,
}

/// Reads the file of a module and those of its submodules, without tests and hidden modules.
fn read(path: PathBuf, is_public: bool, found: &mut Vec<SourceFile>) {
    let text = fs::read_to_string(&path).expect("a module has a file");
    let directory = match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "mod") => path.parent().expect("a file has a directory").to_owned(),
        _ => path.with_extension(""),
    };
    let mut before = "";
    for line in text.lines() {
        let left_out = ["test", "#[path"].iter().any(|it| before.contains(it));
        let (is_open, rest) = match line.strip_prefix("pub ") {
            Some(rest) => (true, rest),
            None => (false, line.strip_prefix("pub(crate) ").unwrap_or(line)),
        };
        if let Some(name) = rest.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'))
            && !left_out
        {
            let file = directory.join(format!("{name}.rs"));
            let file = if file.exists() { file } else { directory.join(name).join("mod.rs") };
            read(file, is_public && is_open, found);
        }
        before = line;
    }
    found.push(SourceFile { path, text, is_public });
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Returns the names that public modules export with `pub use`.
fn shown(files: &[SourceFile]) -> HashSet<&str> {
    let public = files.iter().filter(|file| file.is_public);
    let uses = public.flat_map(|file| file.text.split("\npub use ").skip(1));
    uses.filter_map(|text| text.split_once(';')).flat_map(|(names, _)| words(names)).collect()
}

/// Returns the types that a line declares, or re-exports from another package of ours.
fn types(line: &str) -> Vec<&str> {
    // Macros indent by 8; a module within a file, `sealed`, by 4.
    let indent = line.len() - line.trim_start().len();
    let (Some(rest), true) = (line.trim_start().strip_prefix("pub "), indent != 4) else {
        return Vec::new();
    };
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let is_type =
        |name: &&str| name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
    if rest.starts_with("use ascend_") || rest.starts_with("use hccl_derive") {
        return words(rest).filter(is_type).collect();
    }
    let mut declared = words(rest);
    match declared.next() {
        Some("struct" | "enum" | "trait" | "type") => declared.take(1).filter(is_type).collect(),
        _ => Vec::new(),
    }
}

/// Panics if a public type of the package in `directory` has no example, or if there seem to be
/// fewer types than `least`.
fn check(directory: &str, least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(directory).join("src/lib.rs");
    let mut files = Vec::new();
    read(root, true, &mut files);
    let shown = shown(&files);
    let (mut seen, mut without) = (0, Vec::new());
    for file in &files {
        let lines: Vec<_> = file.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let is_use = line.contains("pub use ");
            for name in types(line) {
                let is_public = if is_use { file.is_public } else { shown.contains(name) };
                // The comment and the attributes: up to an empty line, or the item before it.
                let above = lines[..at].iter().rev();
                let above: Vec<_> = above
                    .take_while(|it| !it.trim().is_empty() && !it.contains("pub use "))
                    .collect();
                let has = |text: &str| above.iter().any(|it| it.contains(text));
                let is_hidden = has("doc(hidden)") || has("cfg(doctest)");
                if (is_public || file.is_public) && !is_hidden {
                    seen += 1;
                    if !has("/// ```") {
                        without.push(format!("{}:{}: {name}", file.path.display(), at + 1));
                    }
                }
            }
        }
    }
    assert!(seen >= least, "only {seen} types were found in {directory}");
    assert!(without.is_empty(), "{} of {seen}:\n{}", without.len(), without.join("\n"));
}

#[test]
fn each_public_type_has_an_example() {
    check("hccl", 150);
    check("hccl/train", 20);
}
