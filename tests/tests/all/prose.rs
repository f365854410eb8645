//! Checks the style of comments and Markdown, as far as a program can.

use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS: usize = 100;

/// Paths that are not checked: sources of kernels, because tests compare their lines and comments
/// with printed texts, and programs that must not compile, because they begin with the messages of
/// the compiler.
const LEFT_OUT: [&str; 4] = [
    "program/testing/src/kernels",
    "program/testing/src/kernels.rs",
    "examples/src/kernels",
    "tests/ui",
];

/// A line of prose, and its place.
struct ProseLine {
    file: PathBuf,
    number: usize,
    /// The number of its characters, with indentation and the marker of the comment.
    length: usize,
    text: String,
}

/// Finds the sources and the pages of the repository that are not generated.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the directory is there") {
        let path = entry.expect("the entry can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let extension = path.extension().and_then(|it| it.to_str());
        if path.is_dir() {
            let is_ours = !name.starts_with('.')
                && !["target", "book"].contains(&name)
                && !LEFT_OUT.iter().any(|it| path.ends_with(it));
            if is_ours && !path.is_symlink() {
                files(&path, found);
            }
        } else if matches!(extension, Some("rs" | "md")) {
            let is_generated = path.ends_with("ascend-sys/src/bindings.rs")
                || path.ends_with("ascend-sys/src/functions.rs")
                || path.ends_with("reference/functions.md")
                || LEFT_OUT.iter().any(|it| path.ends_with(it));
            if !is_generated {
                found.push(path);
            }
        }
    }
}

/// Returns the lines of prose of all files, without code and tables.
fn prose() -> Vec<ProseLine> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    files(&root, &mut found);
    assert!(found.len() > 1000, "only {} files were found", found.len());
    let mut lines = Vec::new();
    for file in found {
        let source = fs::read_to_string(&file).expect("the file can be read");
        let is_rust = file.extension().is_some_and(|it| it == "rs");
        let mut is_code = false;
        for (at, line) in source.lines().enumerate() {
            let text = match line.trim_start().strip_prefix("//") {
                Some(comment) if is_rust => comment.trim_start_matches(['/', '!']),
                None if is_rust => {
                    is_code = false;
                    continue;
                }
                _ => line,
            };
            // This is indented code.
            let is_indented = is_rust && text.starts_with("     ");
            let text = text.trim();
            if text.starts_with("```") {
                is_code = !is_code;
            } else if !is_code && !is_indented && !text.starts_with('|') {
                let (file, length) = (file.clone(), line.chars().count());
                lines.push(ProseLine { file, number: at + 1, length, text: text.to_owned() });
            }
        }
    }
    lines
}

fn list<'a>(lines: impl Iterator<Item = &'a ProseLine>) -> String {
    let line = |it: &ProseLine| format!("{}:{}: {}\n", it.file.display(), it.number, it.text);
    lines.take(40).map(line).collect()
}

#[test]
fn comments_and_pages_wrap_at_100_columns() {
    let lines = prose();
    // A link cannot be wrapped, and neither can a line that is one command.
    let is_link = |it: &ProseLine| it.text.contains("](") || it.text.contains("://");
    let is_command = |it: &ProseLine| {
        let text = it.text.trim_end_matches(['.', ':', ';', ',']);
        text.matches('`').count() == 2 && text.starts_with('`') && text.ends_with('`')
    };
    let is_long = |it: &&ProseLine| it.length > COLUMNS && !is_link(it) && !is_command(it);
    let long: Vec<_> = lines.iter().filter(is_long).collect();
    assert!(long.is_empty(), "{} lines are longer:\n{}", long.len(), list(long.into_iter()));
}

#[test]
fn sentences_that_open_with_who_or_what_are_questions() {
    let lines = prose();
    let opens = |text: &str| text.starts_with("Who ") || text.starts_with("What ");
    let mut headless = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        // The end of a paragraph ends a sentence, too.
        let before = at.checked_sub(1).map_or("", |at| lines[at].text.as_str());
        let is_new = before.is_empty() || before.ends_with(['.', ':', '?', '!', '*', '`']);
        let inner = line.text.split(". ").skip(1).any(opens);
        let begins = is_new && opens(line.text.trim_start_matches(['-', '*', ' ']));
        let rest = lines.get(at + 1).map_or("", |next| next.text.as_str());
        if (begins || inner) && !line.text.contains('?') && !rest.contains('?') {
            headless.push(line);
        }
    }
    let found = headless.len();
    assert!(headless.is_empty(), "{found} sentences ask nothing:\n{}", list(headless.into_iter()));
}
