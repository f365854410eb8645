//! The suite once more over loaded libraries: `Runtime::cann` opens the emulator under CANN's
//! names, without the entries that CANN does not have. The tests of `hccl` and of this package take
//! their devices from it. `docs/src/design/loaded-suite.md` lists the tests that cannot run in this
//! way.
//!
//! `cargo test -p hccl-tests --test loaded -- --include-ignored --nocapture` runs it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use hccl_tests::{Built, RUNTIME, built, cann_home, output, repository};

const PAGE: &str = "docs/src/design/loaded-suite.md";

/// The programs whose tests run: the name in the table, the package below the root, the target.
const PROGRAMS: [(&str, &str, &str); 2] = [("hccl", "hccl", "hccl"), ("all", "tests", "all")];

/// A row of the table: the program, and a test of it, or a module and `::` for all of its tests.
struct Row {
    program: String,
    path: String,
}

impl Row {
    fn covers(&self, program: &str, test: &str) -> bool {
        let whole = self.path.ends_with("::") && test.starts_with(&self.path);
        self.program == program && (whole || test == self.path)
    }
}

fn rows() -> Vec<Row> {
    let page = std::fs::read_to_string(repository().join(PAGE)).expect("the page is there");
    let lines = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = lines.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, needs, why, ""] = cells[..] else { panic!("a row of three cells: {line}") };
        let (program, path) = name.trim_end_matches('`').split_once(' ').expect("two words");
        assert!(!needs.is_empty() && !why.is_empty(), "{line}");
        Row { program: program.to_owned(), path: path.to_owned() }
    });
    rows.collect()
}

/// Returns the tests of a program, or only those that run on request if `ignored` is set.
fn tests(executable: &Path, ignored: bool) -> BTreeSet<String> {
    let mut list = Command::new(executable);
    list.arg("--list").args(ignored.then_some("--ignored"));
    let listed = output(&mut list);
    listed.lines().filter_map(|line| line.strip_suffix(": test")).map(String::from).collect()
}

fn run(name: &str, package: &str, program: &Built, rows: &[Row]) {
    let executable = &program.executable;
    let tests = &tests(executable, false) - &tests(executable, true);
    for row in rows.iter().filter(|row| row.program == name) {
        assert!(tests.iter().any(|test| row.covers(name, test)), "no test is {}", row.path);
    }
    let skipped = tests.iter().filter(|test| rows.iter().any(|row| row.covers(name, test)));
    let skipped: Vec<&String> = skipped.collect();
    let mut command = Command::new(executable);
    command.current_dir(repository().join(package)).arg("--exact");
    command.args(skipped.iter().flat_map(|test| ["--skip", test]));
    command.env(RUNTIME, "cann").env("ASCEND_HOME_PATH", cann_home());
    for other in ["ASCEND_TOOLKIT_HOME", "LD_LIBRARY_PATH"] {
        command.env_remove(other);
    }
    // The largest of the tests needs this many devices.
    let status = command.env("ASCEND_EMULATOR_DEVICES", "17").status().expect("it starts");
    let run = tests.len() - skipped.len();
    assert!(status.success(), "{name}: {status}");
    println!("{name}: {run} tests over loaded libraries, {} in the table", skipped.len());
}

#[test]
#[ignore = "runs the suite a second time: a step of CI does"]
fn the_suite_passes_over_loaded_libraries_but_for_the_tests_in_the_table() {
    let rows = rows();
    let known = |row: &Row| PROGRAMS.iter().any(|(name, ..)| *name == row.program);
    assert!(rows.iter().all(known), "a row of a program that there is not");
    let programs = built(&["test", "--no-run", "--lib", "--test", "all"]);
    for (name, package, target) in PROGRAMS {
        let manifest = repository().join(package).join("Cargo.toml");
        let manifest = manifest.canonicalize().expect("the package is there");
        let program = programs.iter().find(|it| it.target == target && it.manifest == manifest);
        run(name, package, program.expect("cargo has built it"), &rows);
    }
}

/// Checks that no test makes emulated devices itself. Such a test would pass here with any
/// libraries.
#[test]
fn tests_ask_for_the_runtime_of_the_run() {
    let mut files = Vec::new();
    for directory in ["tests/tests/all", "hccl/src/tests"] {
        collect(&repository().join(directory), &mut files);
    }
    // One of these files compares texts, and the other lists public items.
    let exempt =
        |path: &Path| path.ends_with("all/cann_path.rs") || path.ends_with("all/support.rs");
    assert!(files.len() > 100);
    for path in files.iter().filter(|path| !exempt(path)) {
        let text = std::fs::read_to_string(path).expect("it is text");
        for own in ["Runtime::emulator", "EmulatorOptions::"] {
            assert!(!text.contains(own), "{}: {own}", path.display());
        }
    }
}

fn collect(directory: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("the directory is there") {
        let path = entry.expect("it can be listed").path();
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path),
        }
    }
}
