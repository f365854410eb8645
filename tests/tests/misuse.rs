//! Misuse does not compile, and for the expected reason.
//!
//! Each file of `tests/ui` is a program that must not compile. It begins with the expected errors
//! of the compiler, a line for each mistake:
//!
//!     //~ E0277: no Ascend product reduces `u8` with
//!
//! A line has the code of the error, or `macro` for an error of one of our macros, and a phrase of
//! its text. The rest of the compiler's message may change. A program has as many errors as it has
//! such lines. If `there` follows the code, the error must point to a line that is a mistake. Lines
//! that end in `// misuse` are the mistakes, and comments that begin with `// correct: ` are the
//! correct lines. With the correct lines in place of the mistakes the program must compile, so that
//! only the mistake is refused.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

/// An error of the compiler: its code and the text with all notes.
#[derive(Debug)]
struct Diagnostic {
    code: String,
    text: String,
}

impl Diagnostic {
    /// Returns the first line of the program to which the error points, from 1, as a reader sees
    /// it. Returns `None` if the error points to no line of the program.
    fn line(&self) -> Option<usize> {
        let (_, place) = self.text.split_once("--> src/bin/")?;
        place.split(':').nth(1)?.parse().ok()
    }
}

/// An error that a case must have.
#[derive(Debug)]
struct Expected {
    code: String,
    /// Whether the error points to a line that is marked.
    there: bool,
    phrase: String,
}

/// A case before it is compiled.
struct Case {
    name: String,
    expected: Vec<Expected>,
    misuse: String,
    correct: String,
}

impl Case {
    fn read(path: &Path) -> Case {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let misuse = fs::read_to_string(path).unwrap();
        let expected = |line: &str| {
            let (code, phrase) = line
                .split_once(": ")
                .unwrap_or_else(|| panic!("{name}: `//~ {line}` is not `//~ CODE: phrase`"));
            let (code, there) =
                code.strip_suffix(" there").map_or((code, false), |code| (code, true));
            // The compiler has numbers only for its own errors.
            let code = if code == "macro" { "" } else { code };
            Expected { code: code.to_owned(), there, phrase: phrase.to_owned() }
        };
        let expected: Vec<_> =
            misuse.lines().map_while(|line| line.strip_prefix("//~ ")).map(expected).collect();
        assert!(!expected.is_empty(), "{name} does not begin with `//~ CODE: phrase`");
        let correct: String = misuse
            .lines()
            .filter(|line| !line.trim_end().ends_with("// misuse"))
            .map(|line| line.replacen("// correct: ", "", 1) + "\n")
            .collect();
        assert_ne!(correct, misuse, "{name} has no line that ends in `// misuse`");
        Case { name, expected, misuse, correct }
    }

    /// Returns whether each expected error was found, and no other error.
    fn is_met(&self, found: &[Diagnostic]) -> bool {
        let is = |expected: &Expected, found: &Diagnostic| {
            found.code == expected.code
                && found.text.contains(expected.phrase.as_str())
                && (!expected.there || found.line().is_some_and(|line| self.is_mistake(line)))
        };
        let mut rest: Vec<&Diagnostic> = found.iter().collect();
        for expected in &self.expected {
            let Some(at) = rest.iter().position(|found| is(expected, found)) else { return false };
            rest.remove(at);
        }
        rest.is_empty()
    }

    /// Returns whether a line of the program, from 1, is marked.
    fn is_mistake(&self, line: usize) -> bool {
        self.misuse.lines().nth(line - 1).is_some_and(|line| line.trim_end().ends_with("// misuse"))
    }
}

#[test]
fn misuse_does_not_compile_for_our_reason() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<PathBuf> =
        fs::read_dir(here.join("tests/ui")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let cases: Vec<Case> = paths.iter().map(|path| Case::read(path)).collect();
    assert!(cases.len() >= 10, "the cases have gone missing: {paths:?}");
    let package = write_package(here, &cases);
    let errors = check(&package);

    let mut wrong = String::new();
    for case in &cases {
        let found = errors.get(&format!("{}_misuse", case.name)).map_or(&[][..], Vec::as_slice);
        if !case.is_met(found) {
            let Case { name, expected, .. } = case;
            writeln!(wrong, "{name}: expected {expected:#?}, found {found:#?}").unwrap();
        }
        if let Some(found) = errors.get(&format!("{}_correct", case.name)) {
            writeln!(wrong, "{}: the correct twin does not compile: {found:#?}", case.name)
                .unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Writes a package with two programs for each case, next to the build products of this workspace.
fn write_package(here: &Path, cases: &[Case]) -> PathBuf {
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui");
    let sources = package.join("src/bin");
    // Removes sources of cases that no longer exist.
    let _ = fs::remove_dir_all(&sources);
    fs::create_dir_all(&sources).unwrap();
    let root = here.parent().unwrap();
    let hccl = root.join("hccl");
    let manifest = format!(
        "[package]\nname = \"ui\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nhccl = {{ path = {hccl:?}, default-features = false }}\n\n[workspace]\n"
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    // The lock file has the same versions as here, so that no registry is contacted.
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    for case in cases {
        let write = |kind: &str, text: &str| {
            let text = format!("{text}\nfn main() {{}}\n");
            fs::write(sources.join(format!("{}_{kind}.rs", case.name)), text).unwrap();
        };
        write("misuse", &case.misuse);
        write("correct", &case.correct);
    }
    package
}

/// Checks all programs of the package. Returns the errors of each program that has any.
fn check(package: &Path) -> BTreeMap<String, Vec<Diagnostic>> {
    let output = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--bins", "--keep-going", "--message-format=json"])
        .current_dir(package)
        .env("CARGO_TARGET_DIR", package.join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let mut errors: BTreeMap<String, Vec<Diagnostic>> = BTreeMap::new();
    let mut programs = 0;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        if line["target"]["kind"][0] != "bin" {
            continue;
        }
        programs += 1;
        let message = &line["message"];
        if message["level"] != "error" {
            continue;
        }
        let code = message["code"]["code"].as_str().unwrap_or_default();
        let text = message["rendered"].as_str().unwrap_or_default().to_owned();
        // This is the compiler's summary at the end.
        if text.starts_with("error: aborting due to") {
            continue;
        }
        let name = line["target"]["name"].as_str().unwrap_or_default().to_owned();
        errors.entry(name).or_default().push(Diagnostic { code: code.to_owned(), text });
    }
    assert!(programs > 0, "nothing was checked:\n{stderr}");
    errors
}
