//! Changes the code in ways that the tests must notice, one at a time, and lists the changes that
//! no test has noticed.
//!
//! It works on a copy of the repository below `target/mutations`. For each change of `list.txt` it
//! runs the tests that are nearest to the change first, and stops as soon as one has failed. A
//! change that does not compile is a mistake in the list.

mod list;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use list::Mutation;

const HELP: &str = "\
Changes the code in ways that the tests must notice, and names the changes that none has noticed.

Usage: cargo run -p hccl-mutations -- [--list] [WORD..]

  WORD     only changes whose file or name contains one of these
  --list   name them, and run nothing

It works on a copy in target/mutations. A change takes one to four minutes on two cores.";

/// Tests that are run together: a name, the arguments of cargo, and the environment.
struct Suite {
    name: &'static str,
    arguments: &'static [&'static str],
    flags: Option<&'static str>,
}

/// The packages under test. They are always built together, so that cargo chooses the same features
/// each time.
const PACKAGES: &[&str] =
    &["-p", "ascend-sync", "-p", "ascend-emulator", "-p", "hccl", "-p", "hccl-tests"];
const LOOM: &[&str] = &["-p", "ascend-sync", "-p", "ascend-emulator", "-p", "hccl"];

const SUITES: [Suite; 3] = [
    Suite { name: "unit tests", arguments: &["--lib"], flags: None },
    Suite {
        name: "tests",
        arguments: &[
            "--test",
            "all",
            "--test",
            "alone",
            "--test",
            "deadlocks",
            "--test",
            "tracing",
        ],
        flags: None,
    },
    Suite { name: "models", arguments: &["--release", "--lib", "loom"], flags: Some("--cfg loom") },
];

/// The time limit of a suite, in seconds. Without a failure no suite takes half of it.
const LIMIT: &str = "600";

enum Outcome {
    /// A test has failed, or another event has ended the suite.
    Noticed(String),
    Survived,
    Broken(String),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the mutations that the arguments choose. Returns whether the tests noticed all of them.
fn run(words: &[String]) -> Result<bool, String> {
    let all = list::read(include_str!("../list.txt"))?;
    let (options, words): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| word.starts_with("--"));
    let only_list = match options[..] {
        [] => false,
        [option] if option == "--list" => true,
        _ => return Err(format!("{options:?} is not known\n\n{HELP}")),
    };
    let is_meant = |one: &&Mutation| {
        words.is_empty()
            || words.iter().any(|word| one.name.contains(*word) || one.file.contains(*word))
    };
    let chosen: Vec<&Mutation> = all.iter().filter(is_meant).collect();
    if only_list {
        chosen.iter().for_each(|one| println!("{}: {}", one.file, one.name));
        return Ok(true);
    }
    let root = repository()?;
    let copy = root.join("target/mutations/tree");
    mirror(&root, &copy)?;
    println!("the code as it is ..");
    match test(&copy)? {
        Outcome::Survived => {}
        Outcome::Noticed(test) => return Err(format!("{test} fails without a change")),
        Outcome::Broken(error) => return Err(format!("it does not compile: {error}")),
    }
    let mut left: BTreeMap<&str, Vec<&Mutation>> = BTreeMap::new();
    for (at, one) in chosen.iter().enumerate() {
        let began = Instant::now();
        print!("{:3} of {}: {}: {} .. ", at + 1, chosen.len(), one.file, one.name);
        flush();
        let outcome = try_one(one, &copy)?;
        let (word, kind) = match &outcome {
            Outcome::Noticed(test) => (format!("noticed by {test}"), None),
            Outcome::Survived => ("SURVIVED".into(), Some("survived")),
            Outcome::Broken(error) => {
                (format!("does not compile: {error}"), Some("do not compile"))
            }
        };
        println!("{word} ({} s)", began.elapsed().as_secs());
        if let Some(kind) = kind {
            left.entry(kind).or_default().push(one);
        }
    }
    for (kind, ones) in &left {
        println!("\n{} {kind}:", ones.len());
        ones.iter().for_each(|one| println!("  {}: {}", one.file, one.name));
    }
    if left.is_empty() {
        println!("\nall {} were noticed", chosen.len());
    }
    Ok(left.is_empty())
}

fn flush() {
    use std::io::Write as _;
    drop(std::io::stdout().flush());
}

fn repository() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))
}

/// Copies the files of `root` that git does not ignore to `copy`, and removes all other files of
/// `copy`. Files that are the same already stay untouched, so that cargo does not build them again.
fn mirror(root: &Path, copy: &Path) -> Result<(), String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    let listed = listed.stdout.split(|byte| *byte == 0).filter(|file| !file.is_empty());
    let mut kept = BTreeSet::new();
    for file in listed.map(|file| String::from_utf8_lossy(file)) {
        let (from, to) = (root.join(&*file), copy.join(&*file));
        // git lists a deleted file until the deletion is committed.
        let Ok(wanted) = fs::read(&from) else { continue };
        kept.insert(to.clone());
        if fs::read(&to).is_ok_and(|there| there == wanted) {
            continue;
        }
        let made = to.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::copy(&from, &to))
            .map_err(|error| format!("{}: {error}", to.display()))?;
    }
    clear(copy, &kept).map_err(|error| format!("{}: {error}", copy.display()))
}

/// Removes the files that are not to be kept.
fn clear(directory: &Path, kept: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            clear(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn try_one(one: &Mutation, copy: &Path) -> Result<Outcome, String> {
    let path = copy.join(&one.file);
    let wrong = |error| format!("{}: {error}", path.display());
    let before = fs::read_to_string(&path).map_err(wrong)?;
    fs::write(&path, one.apply(copy)?).map_err(wrong)?;
    let outcome = test(copy);
    fs::write(&path, before).map_err(wrong)?;
    outcome
}

fn test(copy: &Path) -> Result<Outcome, String> {
    for suite in &SUITES {
        let (built, output) = cargo(copy, suite, true)?;
        if !built {
            let error = output.lines().find(|line| line.starts_with("error"));
            return Ok(Outcome::Broken(error.unwrap_or("no reason is known").to_owned()));
        }
        let (passed, output) = cargo(copy, suite, false)?;
        if !passed {
            let test = output.lines().find_map(failed);
            return Ok(Outcome::Noticed(test.map_or_else(|| suite.name.into(), str::to_owned)));
        }
    }
    Ok(Outcome::Survived)
}

/// Returns the failed test, if this line of output names one.
fn failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Builds the tests, or runs them until one has failed. Returns whether all succeeded, and the
/// output.
fn cargo(copy: &Path, suite: &Suite, only_build: bool) -> Result<(bool, String), String> {
    let Suite { arguments, flags, .. } = suite;
    let mut command = Command::new("timeout");
    command.args(["-k", "5", LIMIT, env!("CARGO"), "test"]).current_dir(copy);
    command.args(if flags.is_some() { LOOM } else { PACKAGES });
    let (before, after) = arguments.split_at(arguments.len() - usize::from(flags.is_some()));
    command.args(before);
    if only_build {
        command.arg("--no-run");
    } else {
        command.args(after);
    }
    let target = copy.with_file_name(if flags.is_some() { "models" } else { "target" });
    command.env("CARGO_TARGET_DIR", target).env("CARGO_PROFILE_DEV_DEBUG", "false");
    match flags {
        Some(flags) => command.env("RUSTFLAGS", flags),
        None => command.env_remove("RUSTFLAGS"),
    };
    // The output goes to a file, so that processes which a killed test leaves behind hold no pipe
    // of ours.
    let log = copy.with_file_name("log");
    let unread = |error| format!("{}: {error}", log.display());
    let file = fs::File::create(&log).map_err(unread)?;
    let errors = file.try_clone().map_err(unread)?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    let mut child = command.spawn().map_err(|error| format!("timeout: {error}"))?;
    let wrong = |error| format!("waiting for cargo: {error}");
    loop {
        let ended = child.try_wait().map_err(wrong)?;
        // A test may print bytes that are no text.
        let output = String::from_utf8_lossy(&fs::read(&log).map_err(unread)?).into_owned();
        if let Some(status) = ended {
            return Ok((status.success(), output));
        }
        if !only_build && output.lines().any(|line| failed(line).is_some()) {
            end(&mut child)?;
            return Ok((false, output));
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Ends `timeout`, which then ends all that it has started.
fn end(child: &mut Child) -> Result<(), String> {
    let told = Command::new("kill").arg(child.id().to_string()).status();
    told.and_then(|_| child.wait()).map(drop).map_err(|error| format!("kill: {error}"))
}
