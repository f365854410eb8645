//! The examination: its results, section by section, and their consequences for a program.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ascend_sys::Library;

use crate::child::{self, End, Told};
use crate::elf::{self, FileState};
use crate::fact::Fact;
use crate::features::{BASE, FEATURES, OPTIONAL};
use crate::libraries::{self, Place};
use crate::page::{Mark, Section};
use crate::{Part, environment, machine};

/// The results of the examination.
pub(crate) struct Found {
    pub(crate) sections: Vec<Section>,
    /// Whether a program with `Runtime::cann()` would run.
    pub(crate) runs: bool,
    /// Whether the libraries are those of the emulator.
    pub(crate) is_emulator: bool,
    /// The functions that are missing, with their library and the release that has them first.
    pub(crate) missing: Vec<[String; 3]>,
}

/// The time limit for loading, which reads a few hundred MB at most.
const LOADING: Duration = Duration::from_secs(120);
/// The time limit for the backend. The first start of a device may take a minute.
const STARTING: Duration = Duration::from_secs(300);

/// Examines everything. Calls `show` with each section as soon as it is complete.
pub(crate) fn examine(show: &mut dyn FnMut(&Section)) -> Found {
    let mut sections = Vec::new();
    let mut add = |section: Section| {
        show(&section);
        sections.push(section);
    };
    add(environment::section(false));
    add(machine::section());
    let opened = open();
    add(of_libraries(&opened));
    let told = child::run(&Part::Backend.arguments(0, 1), STARTING, |_| ());
    let missing: Vec<[String; 3]> = of_kind(&told.facts, "missing")
        .map(|fact| [1, 2, 3].map(|word| fact.word(word).to_owned()))
        .collect();
    add(of_cann(&told, &missing));
    let (verdict, runs) = verdict(&told, &missing, opened.is_emulator());
    add(verdict);
    Found { sections, runs, is_emulator: opened.is_emulator(), missing }
}

fn of_kind<'a>(facts: &'a [Fact], kind: &'a str) -> impl Iterator<Item = &'a Fact> {
    facts.iter().filter(move |fact| fact.kind() == kind)
}

/// The outcome for each place where a library was tried.
struct Opened {
    places: Vec<Place>,
    /// The tries, by the number of the place.
    tried: BTreeMap<usize, Tried>,
}

enum Tried {
    Loaded {
        file: PathBuf,
        is_emulator: bool,
    },
    Failed(String),
    /// The try has ended the process, or has taken too long.
    Ended(End),
}

impl Opened {
    fn is_emulator(&self) -> bool {
        self.tried.values().any(|it| matches!(it, Tried::Loaded { is_emulator: true, .. }))
    }
}

/// Opens all libraries in a child. If a place ends the child, another child continues after it.
fn open() -> Opened {
    let places = libraries::places();
    let mut tried = BTreeMap::new();
    let mut first = 0;
    loop {
        let told = child::run(&Part::Libraries.arguments(first, 1), LOADING, |_| ());
        let mut now = None;
        for fact in &told.facts {
            let Ok(number) = fact.word(1).parse::<usize>() else { continue };
            match fact.kind() {
                "try" => now = Some(number),
                "loaded" => {
                    let is_emulator = fact.word(3) == "emulator";
                    tried.insert(number, Tried::Loaded { file: fact.word(2).into(), is_emulator });
                    now = None;
                }
                _ => {
                    tried.insert(number, Tried::Failed(fact.word(2).to_owned()));
                    now = None;
                }
            }
        }
        let Some(number) = now.filter(|_| told.end != End::Done) else { break };
        tried.insert(number, Tried::Ended(told.end));
        first = number + 1;
    }
    Opened { places, tried }
}

fn of_libraries(opened: &Opened) -> Section {
    let mut section = Section::new("CANN's libraries");
    let mut number = 0;
    while let Some(place) = opened.places.get(number) {
        let library = place.library;
        let of_library = |it: &Place| it.library == library;
        let count = opened.places[number..].iter().take_while(|it| of_library(it)).count();
        let numbers = number..number + count;
        number += count;
        let (mut lines, mut mark) = (Vec::new(), Mark::Plain);
        let mut is_loaded = false;
        for number in numbers {
            let place = &opened.places[number];
            let path = place.path.display();
            match opened.tried.get(&number) {
                Some(Tried::Loaded { file, is_emulator }) => {
                    is_loaded = true;
                    lines.push(loaded(place, file, *is_emulator));
                }
                Some(Tried::Failed(problem)) => {
                    let (text, is_bad) = failed(place, problem);
                    mark = if is_bad { Mark::Bad } else { mark };
                    lines.push(text);
                }
                Some(Tried::Ended(end)) => {
                    mark = Mark::Bad;
                    let state = match elf::state_of(&place.path) {
                        FileState::Library | FileState::Absent => String::new(),
                        state => format!("; {state}"),
                    };
                    lines.push(format!("{path}: {end} while it was loaded{state}"));
                }
                // The library was found at an earlier place.
                None if is_loaded => {}
                None => lines.push(format!("{path}: no such file")),
            }
        }
        mark = match (mark, is_loaded) {
            (Mark::Bad, true) => Mark::Note,
            (mark, false) => mark,
            (_, true) => Mark::Good,
        };
        // Places without the library do not matter once another place had it.
        if is_loaded {
            lines.retain(|line| !line.ends_with(": no such file") && !line.ends_with(NOT_ON_PATH));
        }
        if library == Library::MsProfiler && !is_loaded && mark == Mark::Plain {
            lines = vec!["not there; only functions for profiling need it".into()];
        }
        section.row(mark, title(library), lines.join("\n"));
    }
    section
}

fn title(library: Library) -> &'static str {
    match library {
        Library::AclRt => "runtime",
        Library::Hcomm => "communication (hcomm)",
        Library::Hccl => "collectives (hccl)",
        _ => "profiling",
    }
}

fn loaded(place: &Place, file: &PathBuf, is_emulator: bool) -> String {
    let real = std::fs::canonicalize(file).unwrap_or_else(|_| file.clone());
    let mut text = place.path.display().to_string();
    if real != place.path {
        text += &format!(" -> {}", real.display());
    }
    if is_emulator {
        text += "\nof the emulator (ascend-emulator-install), not of CANN: devices are virtual";
    }
    let is_stub = real.components().any(|part| part.as_os_str() == "devlib");
    if is_stub {
        text += "\nfrom devlib, whose libraries are for building only: no device will answer";
    }
    text
}

const NOT_ON_PATH: &str = "not on the loader's path (LD_LIBRARY_PATH, ldconfig)";

/// Returns the reason why a library could not be loaded, and whether this is a fault. A library
/// that is not on the loader's path is not a fault.
fn failed(place: &Place, problem: &str) -> (String, bool) {
    let path = place.path.display();
    if !place.is_bare() {
        return match elf::state_of(&place.path) {
            FileState::Library | FileState::Absent => (format!("{path}: {problem}"), true),
            state => (format!("{path}: {state}"), true),
        };
    }
    // The loader passes over files for other processors in silence.
    let directories = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let there = std::env::split_paths(&directories).map(|it| it.join(&place.path));
    let there = there.map(|file| (elf::state_of(&file), file));
    for (state, file) in there {
        if !matches!(state, FileState::Library | FileState::Absent) {
            return (format!("{}: {state}", file.display()), true);
        }
    }
    match problem.starts_with(&format!("{path}: cannot open shared object file")) {
        true => (format!("{path}: {NOT_ON_PATH}"), false),
        false => (format!("{path}: {problem}"), true),
    }
}

/// Lists the facts that the child has reported about the loaded libraries and the devices.
fn of_cann(told: &Told, missing: &[[String; 3]]) -> Section {
    let mut section = Section::new("CANN");
    let facts = &told.facts;
    let text = |kind| of_kind(facts, kind).next().map(|fact| fact.word(1).to_owned());
    match of_kind(facts, "has").next() {
        None => section.row(Mark::Plain, "functions", "no library was loaded that could have them"),
        Some(has) => {
            let mark = if missing.is_empty() { Mark::Good } else { Mark::Note };
            let mut lines =
                format!("{} of the {} that CANN's headers declare", has.word(1), has.word(2));
            let mut releases: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for [name, _, since] in missing {
                releases.entry(since).or_default().push(name);
            }
            for (since, names) in releases {
                let shown = names.iter().take(6).copied().collect::<Vec<_>>().join(", ");
                let more = if names.len() > 6 { ", .." } else { "" };
                let since = match since {
                    "8.5.0" => "there since 8.5.0 or earlier".to_owned(),
                    "unlisted" => "in no public header".to_owned(),
                    since => format!("there since {since}"),
                };
                lines += &format!("\n{} missing, {since}: {shown}{more}", names.len());
            }
            section.row(mark, "functions", lines);
        }
    }
    for version in of_kind(facts, "version") {
        let (package, text) = (version.word(1), version.word(2));
        section.row(Mark::Plain, format!("version, {package}"), text);
    }
    let homes = ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"].map(std::env::var_os);
    let mut homes: Vec<PathBuf> =
        homes.into_iter().flatten().filter(|it| !it.is_empty()).map(PathBuf::from).collect();
    homes.push("/usr/local/Ascend/driver".into());
    homes.dedup();
    for (file, text) in machine::version_files(&homes) {
        section.row(Mark::Plain, "version, a file", format!("{}: {text}", file.display()));
    }
    if let Some(soc) = text("soc") {
        let product = text("product").unwrap_or_else(|| "a product that hccl does not know".into());
        section.row(Mark::Plain, "chip", format!("{soc}: {product}"));
    }
    for device in of_kind(facts, "device") {
        let mark = if device.word(2).starts_with("cannot") { Mark::Bad } else { Mark::Good };
        section.row(mark, format!("device {}", device.word(1)), device.word(2));
    }
    if of_kind(facts, "cann").any(|fact| fact.word(1) == "0") {
        section.row(Mark::Bad, "devices", "none");
    }
    section
}

/// Describes which backend a program gets. Returns also whether `Runtime::cann()` would run.
fn verdict(told: &Told, missing: &[[String; 3]], is_emulator: bool) -> (Section, bool) {
    let mut section = Section::new("What a program gets");
    let facts = &told.facts;
    let first = |kind| of_kind(facts, kind).next();
    let lacks = |functions: &[&'static str]| -> Vec<&'static str> {
        let is_missing = |name: &&&str| missing.iter().any(|it| it[0] == **name);
        functions.iter().filter(is_missing).copied().collect()
    };
    let ended = (told.end != End::Done).then(|| {
        let step = facts.iter().rev().find(|fact| fact.kind() == "step");
        let step = step.map_or("it began", |step| step.word(1));
        // The last three lines: text for standard output may come after the error messages.
        let lines: Vec<&str> = told.last_words.lines().rev().take(3).collect();
        let words = match lines.is_empty() {
            true => String::new(),
            false => {
                format!("\nlast words: {}", lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
            }
        };
        format!("{} while {step}; a program would end in the same way{words}", told.end)
    });
    let base = lacks(BASE.functions);
    let cann =
        match (&ended, first("no-libraries"), first("no-cann"), first("cann"), first("no-copy")) {
            (_, Some(why), ..) | (_, _, Some(why), ..) => Err(why.word(1).to_owned()),
            _ if first("cann").is_some() && !base.is_empty() => {
                Err(format!("functions are missing that every program needs: {}", base.join(", ")))
            }
            (_, _, _, Some(_), Some(why)) => {
                Err(format!("device 0 does not work: {}", why.word(1)))
            }
            (Some(ended), ..) => Err(ended.clone()),
            (_, _, _, Some(cann), _) => Ok(cann.word(1).to_owned()),
            _ => Err("the child has reported nothing".to_owned()),
        };
    let mut reason = None;
    let runs = match cann {
        Ok(devices) => {
            let whose =
                if is_emulator { "virtual devices of the emulator's libraries" } else { "devices" };
            section.row(Mark::Good, "Runtime::cann()", format!("runs, on {devices} {whose}"));
            true
        }
        Err(why) => {
            // The absence of CANN is no fault.
            let is_bad = first("absent").is_none() || first("auto").is_none();
            let mark = if is_bad { Mark::Bad } else { Mark::Plain };
            section.row(mark, "Runtime::cann()", &*why);
            reason = Some(why);
            false
        }
    };
    match (first("auto"), first("no-auto")) {
        (Some(auto), _) => {
            let (backend, devices) = (auto.word(1), auto.word(2));
            let why = match backend {
                "emulator" => format!(
                    "the emulator with {devices} virtual devices, since CANN is not installed and no variable says where it \
                     would be (in a program that is built with the feature `emulator`, as by default)"
                ),
                _ => format!(
                    "CANN, with {devices} devices, since its libraries were found and a device answers"
                ),
            };
            section.row(
                if runs || backend == "emulator" { Mark::Good } else { Mark::Note },
                "Runtime::auto()",
                why,
            );
        }
        (None, Some(why)) => {
            let is_same = reason.is_some_and(|reason| why.word(1).contains(&reason));
            let why = match is_same {
                true => {
                    "the same error: it does not choose the emulator if a part of CANN is installed or a variable names it. \
                     Runtime::emulator(n) does"
                }
                false => why.word(1),
            };
            section.row(Mark::Bad, "Runtime::auto()", why);
        }
        (None, None) => {
            let why = ended.unwrap_or_else(|| "the child has reported nothing".into());
            section.row(Mark::Bad, "Runtime::auto()", why);
        }
    }
    if first("has").is_some() {
        for feature in FEATURES {
            let lacks = lacks(feature.functions);
            if !lacks.is_empty() {
                let are = if lacks.len() == 1 { "is" } else { "are" };
                let text = format!("needs {}, which {are} missing", lacks.join(", "));
                section.row(Mark::Bad, feature.what, text);
            }
        }
        let absent = |name: &str| {
            of_kind(facts, "optional").any(|it| it.word(1) == name && it.word(2) == "no")
        };
        let without: Vec<&str> = OPTIONAL
            .iter()
            .filter(|feature| feature.functions.iter().any(|name| absent(name)))
            .map(|feature| feature.what)
            .collect();
        match without.is_empty() {
            true => section.row(Mark::Good, "optional entries", "there: all of hccl works"),
            false => {
                let text = format!("not there, as in every CANN:\n{}", without.join("\n"));
                section.row(Mark::Plain, "optional entries", text);
            }
        }
    }
    (section, runs)
}
