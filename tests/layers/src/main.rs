//! Finds circles in the import graph of the workspace's files, and type names that stand for two
//! things in one crate.
//!
//! Every path in a file is an arrow to the file that defines the item, and re-exports are followed.
//! Tests are left out, and so are paths to other crates, and methods, which no path names.

mod cfg;
mod circles;
mod names;
mod read;
mod resolve;
mod tree;
mod workspace;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use circles::Graph;
use resolve::Arrows;
use tree::Crate;

/// The number of files that a circle may have.
const MOST: usize = 5;

const HELP: &str = "\
Finds circles of more than five files in the import graph, and type names that stand for two things
in one crate.

cargo run -q -p hccl-layers                           check all crates of the workspace
cargo run -q -p hccl-layers -- --crate NAME           check one crate
cargo run -q -p hccl-layers -- --crate NAME --circle  list the files and arrows of its circles
cargo run -q -p hccl-layers -- --root DIR             read the workspace in DIR, not the current one

A path is an arrow to the file that defines its item, re-exports followed. An arrow is printed with
the names of the items and the lines where they first stand. An arrow to cut is printed with the
size of the largest circle that it and those above it leave.";

#[derive(Default)]
struct Options {
    crate_name: Option<String>,
    circle: bool,
    root: Option<PathBuf>,
}

fn options() -> Result<Option<Options>, String> {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--circle" => options.circle = true,
            "--crate" => options.crate_name = Some(value()?),
            "--root" => options.root = Some(value()?.into()),
            other => return Err(format!("no option is called {other}; --help lists them")),
        }
    }
    Ok(Some(options))
}

fn main() -> ExitCode {
    match options().and_then(|options| options.map_or(Ok(HELP.to_owned()), run)) {
        Ok(text) => {
            // A reader that stops early, such as `head`, is no fault.
            let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("{}", text.trim_end());
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<String, String> {
    let root = match options.root {
        Some(root) => root,
        None => workspace::root()?,
    };
    let mut members = workspace::members(&root)?;
    if let Some(wanted) = &options.crate_name {
        members.retain(|member| member.name == *wanted);
        if members.is_empty() {
            return Err(format!("no crate of the workspace is called {wanted}"));
        }
    }
    let crates = workspace::read(&root, members)?;
    if options.circle {
        return Ok(crates
            .iter()
            .map(|(name, all)| inside(name, all, &resolve::arrows(all)))
            .collect());
    }
    let (text, faults) = check(&crates);
    if faults.is_empty() { Ok(text) } else { Err(format!("{text}\n{faults}")) }
}

fn graph(arrows: &Arrows) -> Graph {
    arrows.iter().map(|(arrow, items)| (*arrow, items.len())).collect()
}

/// Returns a table of all crates, and the violations.
fn check(crates: &[(String, Crate)]) -> (String, String) {
    let wide = crates.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(5);
    let mut table = format!("{:<wide$}  {:>5}  {:>14}\n", "crate", "files", "largest circle");
    let mut faults = String::new();
    for (name, all) in crates {
        let arrows = resolve::arrows(all);
        let graph = graph(&arrows);
        let largest = circles::largest(&graph);
        let _ = writeln!(table, "{name:<wide$}  {:>5}  {largest:>14}", all.files.len());
        for circle in circles::circles(&graph) {
            if circle.len() > MOST {
                faults += &too_large(name, all, &arrows, &circle);
            }
        }
        faults += &doubled(name, all);
    }
    (table, faults)
}

fn file(all: &Crate, id: usize) -> std::path::Display<'_> {
    all.files[id].display()
}

/// Returns one arrow as text: the files, then the items with their lines.
fn arrow(all: &Crate, arrows: &Arrows, (from, to): (usize, usize)) -> String {
    let items = &arrows[&(from, to)];
    let items: Vec<_> = items.iter().map(|(name, line)| format!("{name} (line {line})")).collect();
    format!("{} -> {}: {}", file(all, from), file(all, to), items.join(", "))
}

fn members(all: &Crate, circle: &BTreeSet<usize>) -> String {
    let mut files: Vec<_> = circle.iter().map(|id| &all.files[*id]).collect();
    files.sort();
    files.iter().fold(String::new(), |text, file| format!("{text}  {}\n", file.display()))
}

fn too_large(name: &str, all: &Crate, arrows: &Arrows, circle: &BTreeSet<usize>) -> String {
    let mut text = format!("{name}: a circle of {} files (at most {MOST})\n", circle.len());
    text += &members(all, circle);
    text += "arrows to cut, with the largest circle that is left\n";
    for (cut, left) in circles::cuts(&circles::inner(&graph(arrows), circle), MOST) {
        let _ = writeln!(text, "  {left:>3}  {}", arrow(all, arrows, cut));
    }
    text + "\n"
}

/// Returns the circles of one crate as text, with all their arrows.
fn inside(name: &str, all: &Crate, arrows: &Arrows) -> String {
    let graph = graph(arrows);
    let mut text = String::new();
    for circle in circles::circles(&graph) {
        let inner = circles::inner(&graph, &circle);
        let _ =
            writeln!(text, "{name}: a circle of {} files, {} arrows", circle.len(), inner.len());
        text += &members(all, &circle);
        text += "arrows\n";
        let mut lines: Vec<_> =
            inner.keys().map(|found| format!("  {}\n", arrow(all, arrows, *found))).collect();
        lines.sort();
        text += &lines.concat();
        text.push('\n');
    }
    if text.is_empty() { format!("{name}: no circle\n") } else { text }
}

fn doubled(name: &str, all: &Crate) -> String {
    let mut text = String::new();
    for (doubled, places) in names::doubled(all) {
        let allowed =
            names::ALLOWED.iter().find(|(of, allowed, ..)| *of == name && *allowed == doubled);
        if allowed.is_some_and(|(_, _, most, _)| places.len() <= *most) {
            continue;
        }
        let places: Vec<_> = places
            .iter()
            .map(|place| format!("{}:{}", file(all, all.scopes[place.scope].file), place.line))
            .collect();
        let (count, places) = (places.len(), places.join(", "));
        let _ = writeln!(text, "{name}: type {doubled} stands for {count} things: {places}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a crate whose files a0, a1, .. each use the next one. The last one uses the first.
    fn ring(files: usize) -> (String, Crate) {
        let name = |at: usize| format!("a{}.rs", at % files);
        let modules: String = (0..files).map(|at| format!("mod a{at};\n")).collect();
        let texts = (0..files).map(|at| {
            let next = (at + 1) % files;
            (name(at), format!("pub struct S{at};\nuse crate::a{next}::S{next};"))
        });
        let texts: Vec<_> = texts.chain([("lib.rs".to_owned(), modules)]).collect();
        let texts: Vec<_> = texts.iter().map(|(name, text)| (&**name, &**text)).collect();
        ("ring".to_owned(), tree::tests::read(&texts))
    }

    #[test]
    fn a_circle_of_five_passes() {
        let (table, faults) = check(&[ring(5)]);
        assert_eq!(faults, "");
        assert_eq!(table, "crate  files  largest circle\nring       6               5\n");
    }

    #[test]
    fn a_circle_of_six_fails_and_names_an_arrow_to_cut() {
        let (_, faults) = check(&[ring(6)]);
        assert!(faults.starts_with("ring: a circle of 6 files (at most 5)\n  src/a0.rs\n"));
        let (_, cuts) = faults.split_once("largest circle that is left\n").unwrap();
        assert_eq!(cuts.trim().lines().count(), 1);
        assert!(cuts.contains("    0  src/a") && cuts.contains(" (line 2)"), "{cuts}");
    }

    #[test]
    fn the_list_of_a_circle_has_all_its_files_and_arrows() {
        let (name, all) = ring(3);
        let text = inside(&name, &all, &resolve::arrows(&all));
        assert!(text.starts_with("ring: a circle of 3 files, 3 arrows\n"));
        assert!(text.contains("  src/a0.rs -> src/a1.rs: S1 (line 2)\n"), "{text}");
    }

    #[test]
    fn a_doubled_type_name_fails_and_both_places_are_printed() {
        let all = tree::tests::read(&[("lib.rs", "mod a;\nstruct P;"), ("a.rs", "enum P {}")]);
        let (_, faults) = check(&[("two".to_owned(), all)]);
        assert_eq!(faults, "two: type P stands for 2 things: src/lib.rs:2, src/a.rs:1\n");
    }

    #[test]
    fn the_crates_of_this_workspace_can_be_read() {
        let root = workspace::root().unwrap();
        let crates = workspace::read(&root, workspace::members(&root).unwrap()).unwrap();
        let (_, own) = crates.iter().find(|(name, _)| name == "hccl-layers").unwrap();
        assert!(own.files.contains(&"tests/layers/src/main.rs".into()));
    }
}
