//! Inputs for code that reads bytes of other programs.
//!
//! A *target* is a function that takes bytes and panics when the code does something wrong. The
//! directory `fuzz/seeds` has *seeds* for each target: inputs that come far into the code, and each
//! input that has found a defect. [`check`] tries the seeds and changed seeds. They are the same
//! every time, so `check` is for an ordinary test. The programs in `fuzz` try other inputs, guided
//! by coverage.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use fastrand::Rng;

/// The time limit of one input, which is far more than any input takes, also on a slow machine.
const LIMIT: Duration = Duration::from_secs(120);
/// The longest input, in bytes.
const LONGEST: usize = 16 << 10;

/// Tries all seeds of a target, and a number of changed ones; twenty times as many with
/// `HCCL_TEST_FULL=1`. `HCCL_TEST_INPUT=file` tries that input alone.
///
/// # Panics
///
/// If the target panics, or if there are no seeds. Before a panic of the target its input is
/// written to a file, whose name is printed to standard error. The process aborts if an input takes
/// two minutes.
pub fn check(target: &str, changed: usize, run: impl Fn(&[u8])) {
    if let Ok(file) = std::env::var("HCCL_TEST_INPUT") {
        let input = fs::read(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        return Tried::new(target).run(&input, &run);
    }
    let seeds = seeds_of(target);
    let mut tried = Tried::new(target);
    seeds.iter().for_each(|seed| tried.run(seed, &run));
    let full = std::env::var("HCCL_TEST_FULL").is_ok_and(|value| value == "1");
    let mut random = Rng::with_seed(1);
    for _ in 0..if full { 20 * changed } else { changed } {
        let mut input = seeds[random.usize(..seeds.len())].clone();
        for _ in 0..random.usize(1..=4) {
            change(&mut input, &seeds, &mut random);
        }
        input.truncate(LONGEST);
        tried.run(&input, &run);
    }
}

/// Returns the seeds of a target, in the order of their names.
fn seeds_of(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = fs::read_dir(&directory);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no seeds in {}", directory.display());
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// The trial of a target's inputs. A thread aborts the process if an input takes too long.
struct Tried {
    target: String,
    /// The sender to that thread. It sends each input, and `None` when the input is done.
    now: mpsc::Sender<Option<Vec<u8>>>,
}

impl Tried {
    fn new(target: &str) -> Tried {
        let (now, heard) = mpsc::channel::<Option<Vec<u8>>>();
        let target = target.to_owned();
        let name = target.clone();
        thread::spawn(move || {
            let mut last = None;
            loop {
                match heard.recv_timeout(LIMIT) {
                    Ok(input) => last = input,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        let Some(input) = &last else { continue };
                        keep(&name, input, "takes too long");
                        std::process::abort();
                    }
                }
            }
        });
        Tried { target, now }
    }

    fn run(&mut self, input: &[u8], run: &impl Fn(&[u8])) {
        struct OnPanic<'a>(&'a str, &'a [u8]);
        impl Drop for OnPanic<'_> {
            fn drop(&mut self) {
                if thread::panicking() {
                    keep(self.0, self.1, "fails");
                }
            }
        }
        let _on_panic = OnPanic(&self.target, input);
        let _ = self.now.send(Some(input.to_vec()));
        run(input);
        let _ = self.now.send(None);
    }
}

/// Writes an input to a file, from which it can be copied to the seeds. Prints the path and the
/// input.
fn keep(target: &str, input: &[u8], why: &str) {
    let file = std::env::temp_dir().join(format!("hccl-{target}-{}", std::process::id()));
    let written =
        fs::write(&file, input).map_or_else(|error| error.to_string(), |()| String::new());
    eprintln!("target {target} {why} with the input in {} {written}", file.display());
    eprintln!("{}", input.escape_ascii());
}

/// Numbers at the limits of types.
const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x1_0000,
    0x7fff_ffff,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 53,
    i64::MAX as u64,
    u64::MAX,
];

/// Changes an input in one of many ways.
pub fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Rng) {
    let place = |random: &mut Rng, input: &[u8]| random.usize(..=input.len());
    match random.u8(..11) {
        0 if !input.is_empty() => {
            let at = random.usize(..input.len());
            input[at] ^= 1 << random.u8(..8);
        }
        1 if !input.is_empty() => {
            let at = random.usize(..input.len());
            input[at] = random.u8(..);
        }
        2 => {
            let at = place(random, input);
            let new: Vec<u8> = (0..random.usize(1..9)).map(|_| random.u8(..)).collect();
            input.splice(at..at, new);
        }
        3 => {
            let from = place(random, input);
            let to = (from + random.usize(1..32)).min(input.len());
            input.drain(from..to);
        }
        4 => input.truncate(place(random, input)),
        // Overwrites bytes with a number.
        5 => {
            let at = place(random, input);
            let number = NUMBERS[random.usize(..NUMBERS.len())].to_le_bytes();
            let end = (at + [1, 2, 4, 8][random.usize(..4)]).min(input.len());
            let number = number[..end - at].to_vec();
            input.splice(at..end, number);
        }
        // Replaces a number in a text.
        6 => {
            let mut runs = Vec::new();
            let mut at = 0;
            for run in input.split(|byte| !byte.is_ascii_digit()) {
                if !run.is_empty() {
                    runs.push(at..at + run.len());
                }
                at += run.len() + 1;
            }
            if !runs.is_empty() {
                let run = runs.swap_remove(random.usize(..runs.len()));
                let number = NUMBERS[random.usize(..NUMBERS.len())].to_string();
                input.splice(run, number.into_bytes());
            }
        }
        // Joins the beginning of one seed and the end of another.
        7 => {
            let other = &seeds[random.usize(..seeds.len())];
            input.truncate(place(random, input));
            input.extend_from_slice(&other[place(random, other)..]);
        }
        // Repeats a part of the input.
        8 => {
            let from = place(random, input);
            let to = (from + random.usize(1..64)).min(input.len());
            let again = input[from..to].to_vec();
            let at = place(random, input);
            input.splice(at..at, again);
        }
        // Exchanges, removes or repeats lines.
        _ => {
            let mut lines: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').collect();
            if lines.len() > 1 {
                let (one, other) = (random.usize(..lines.len()), random.usize(..lines.len()));
                match random.u8(..3) {
                    0 => lines.swap(one, other),
                    1 => drop(lines.remove(one)),
                    _ => lines.insert(one, lines[other]),
                }
                *input = lines.concat();
            }
        }
    }
}
