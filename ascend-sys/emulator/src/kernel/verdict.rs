//! The checker's verdicts on launches, which are kept for later launches of the same form.
//!
//! A kernel is checked before its first block runs. The environment variable
//! `ASCEND_EMULATOR_KERNELS` selects the rules: those of CANN's documents (the default), those that
//! the hardware enforces (`tolerant`), or none (`unchecked`). If there is an error, the kernel does
//! not begin. Notes, including those on parts that were not checked, are printed on standard error.
//! Each note of a kernel is printed once.

use super::global::Region;
use crate::machine::variable;
use crate::profile;
use ascend_program::Program;
use ascend_program::check::{Finding, Setting, Severity, check};
use ascend_program::flow::Launch;
use ascend_sync::lock_std as lock;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock};

/// A loaded program with its verdicts.
pub(crate) struct Recorded {
    pub(crate) program: Arc<Program>,
    /// The verdicts, the latest last.
    verdicts: Mutex<Vec<Verdict>>,
    /// The notes that have been printed.
    told: Mutex<BTreeSet<String>>,
    /// The hashes of launches that were checked again after their end, the latest last.
    looked_again: Mutex<VecDeque<u64>>,
}

/// The largest number of verdicts that are kept for each program.
const MOST: usize = 8;
/// The largest number of notes of a program that are printed, and of its launches that are
/// remembered as checked again.
const MOST_TOLD: usize = 64;
/// The largest number of findings that an error text lists.
const LISTED: usize = 8;

struct Verdict {
    launch: Arc<Launch>,
    product: profile::Product,
    memory: Vec<Option<ArgumentMemory>>,
    judgement: Judgement,
}

/// The judgement on a launch.
#[derive(Clone)]
enum Judgement {
    /// The errors of the launch.
    Errors(String),
    /// There are no errors. If the check left out a part of the kernel, the value is the setting of
    /// the check, for a second check after the launch.
    NoErrors(Option<Arc<Setting>>),
}

/// The memory of an argument, as far as the check depends on it. Two launches have the same form if
/// their buffers have the same positions relative to each other.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ArgumentMemory {
    /// A value that replaces the address. Its distances from the starts of arguments that share
    /// memory with this argument are those of the address.
    start: u64,
    bytes: u64,
}

/// The distance between the values of arguments that share no memory.
const APART: u64 = 1 << 48;

/// The size of a cache line in bytes. Addresses that differ by a multiple of it are equivalent for
/// the check.
const ALIGNED: u64 = 64;

fn memory(regions: &[Result<Region, String>]) -> Vec<Option<ArgumentMemory>> {
    let mut order: Vec<(u64, u64, usize)> = Vec::new();
    for (at, region) in regions.iter().enumerate() {
        if let Ok(region) = region {
            let (start, bytes) = region.extent();
            order.push((start as u64, bytes as u64, at));
        }
    }
    order.sort_unstable();
    let mut found = vec![None; regions.len()];
    // The start and the end of the current group of arguments that share memory. `apart` is the
    // value for the start of the group.
    let (mut first, mut last, mut apart) = (0, 0, 0);
    for (start, bytes, at) in order {
        if start >= last {
            (first, apart) = (start, apart + APART);
        }
        last = last.max(start.saturating_add(bytes));
        found[at] =
            Some(ArgumentMemory { start: apart + first % ALIGNED + (start - first), bytes });
    }
    found
}

/// The rules that kernels are checked against.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Strict,
    Tolerant,
    Unchecked,
}

fn strictness() -> Result<Strictness, String> {
    static ASKED: OnceLock<Result<Strictness, String>> = OnceLock::new();
    let ask = || match variable("ASCEND_EMULATOR_KERNELS").as_deref() {
        None | Some("" | "strict") => Ok(Strictness::Strict),
        Some("tolerant") => Ok(Strictness::Tolerant),
        Some("unchecked") => Ok(Strictness::Unchecked),
        Some(other) => {
            let text = "set it to strict, tolerant or unchecked";
            Err(format!("ASCEND_EMULATOR_KERNELS={other}: {text}"))
        }
    };
    ASKED.get_or_init(ask).clone()
}

impl Recorded {
    pub(super) fn new(program: Program) -> Recorded {
        Recorded {
            program: Arc::new(program),
            verdicts: Mutex::default(),
            told: Mutex::default(),
            looked_again: Mutex::default(),
        }
    }

    /// Checks a launch. The error lists the findings. If a part was left out because it depends on
    /// data or takes too long, returns the setting of the check, for a second check.
    pub(super) fn check(
        &self,
        launch: &Arc<Launch>,
        product: profile::Product,
        regions: &[Result<Region, String>],
    ) -> Result<Option<Arc<Setting>>, String> {
        let strictness = strictness()?;
        if strictness == Strictness::Unchecked {
            return Ok(None);
        }
        let memory = memory(regions);
        let mut verdicts = lock(&self.verdicts);
        let known = verdicts.iter().find(|verdict| {
            verdict.product == product
                && verdict.memory == memory
                && verdict.launch.blocks == launch.blocks
                && verdict.launch.groups == launch.groups
                && verdict.launch.tiling == launch.tiling
        });
        let judgement = match known {
            Some(verdict) => verdict.judgement.clone(),
            None => {
                let judgement = self.look(launch, product, &memory, strictness);
                if verdicts.len() == MOST {
                    verdicts.remove(0);
                }
                let launch = Arc::clone(launch);
                verdicts.push(Verdict { launch, product, memory, judgement: judgement.clone() });
                judgement
            }
        };
        match judgement {
            Judgement::Errors(text) => Err(text),
            Judgement::NoErrors(left_out) => Ok(left_out),
        }
    }

    /// Checks a launch after its end and returns its errors. Returns none if an equal launch was
    /// checked recently.
    pub(super) fn look_again(&self, launch: &Launch, setting: &Setting) -> Vec<Finding> {
        let mut hash = DefaultHasher::new();
        (launch.blocks, &launch.tiling, &launch.groups).hash(&mut hash);
        (&setting.parameters, &setting.addresses, setting.workspace).hash(&mut hash);
        setting.reads.iter().for_each(|of| (of.kind, of.index, &of.bits).hash(&mut hash));
        {
            let (mut looked, hash) = (lock(&self.looked_again), hash.finish());
            if looked.contains(&hash) {
                return Vec::new();
            }
            if looked.len() == MOST_TOLD {
                looked.pop_front();
            }
            looked.push_back(hash);
        }
        let findings = check(&self.program, launch, setting).unwrap_or_else(|errors| errors);
        let (errors, notes): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| finding.severity == Severity::Error);
        self.tell(&notes, "after its launch, ");
        errors
    }

    /// Prints the notes that were not printed before. A note on a part that is left out even after
    /// the launch begins with `when`, so it is printed again.
    fn tell(&self, notes: &[Finding], when: &str) {
        for note in notes {
            let when = if is_left_out(note) { when } else { "" };
            let note = format!("ascend-emulator: {when}kernel {}: {note}", self.program.name);
            let mut told = lock(&self.told);
            if told.len() < MOST_TOLD && !told.contains(&note) {
                eprintln!("{note}");
                told.insert(note);
            }
        }
    }

    fn look(
        &self,
        launch: &Launch,
        product: profile::Product,
        memory: &[Option<ArgumentMemory>],
        strictness: Strictness,
    ) -> Judgement {
        let bytes = |of: &Option<ArgumentMemory>| of.map(|memory| memory.bytes);
        let Some((workspace, parameters)) = memory.split_last() else {
            return Judgement::NoErrors(None);
        };
        let setting = Setting {
            tolerant: strictness == Strictness::Tolerant,
            parameters: parameters.iter().map(bytes).collect(),
            addresses: memory.iter().map(|of| of.map(|memory| memory.start)).collect(),
            workspace: bytes(workspace),
            ..Setting::strict(product.of_kernels())
        };
        let findings = check(&self.program, launch, &setting).unwrap_or_else(|errors| errors);
        let (errors, notes): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| finding.severity == Severity::Error);
        self.tell(&notes, "");
        if errors.is_empty() {
            return Judgement::NoErrors(notes.iter().any(is_left_out).then(|| Arc::new(setting)));
        }
        let mut text = String::from("the kernel breaks rules of the product, so it was not begun");
        for finding in errors.iter().take(LISTED) {
            let _ = write!(text, "\n{finding}");
        }
        if errors.len() > LISTED {
            let _ = write!(text, "\nand {} more", errors.len() - LISTED);
        }
        Judgement::Errors(text)
    }
}

/// Returns whether a note reports that a part was not checked.
fn is_left_out(note: &Finding) -> bool {
    matches!(note.rule, "data" | "long")
}
