//! Tests the example `train`: the results on which any number of ranks must agree, the accuracy
//! that it reaches, and its refusals.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use hccl::prelude::*;
use hccl_examples::train::command::run;
use hccl_examples::train::data::Digits;
use hccl_examples::train::parallel::{Outcome, Recipe, train};

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/digits.csv");

/// Returns the first rows to learn from.
fn digits(rows: usize) -> Digits {
    let training = Digits::read(Path::new(DIGITS)).unwrap().split(1).training;
    training.select(&(0..rows).collect::<Vec<_>>())
}

fn outcomes(digits: &Digits, recipe: &Recipe) -> Vec<Outcome> {
    let runtime = Runtime::emulator(recipe.ranks).unwrap();
    train(&runtime, digits, recipe, |_| ()).unwrap()
}

fn losses(digits: &Digits, recipe: &Recipe) -> Vec<f32> {
    outcomes(digits, recipe).swap_remove(0).losses
}

fn bits(values: impl IntoIterator<Item = f32>) -> Vec<u32> {
    values.into_iter().map(f32::to_bits).collect()
}

/// Compares two curves of losses. Sums of floating-point numbers depend on their order, and each
/// training step passes the differences on. So the first step is exact to rounding, and each later
/// step is a little less exact.
fn assert_same_curve(many: &[f32], one: &[f32], ranks: usize) {
    assert_eq!(many.len(), one.len());
    for (step, (many, one)) in many.iter().zip(one).enumerate() {
        let bound = if step == 0 { 1e-6 } else { 1e-4 };
        let off = (many - one).abs() / one;
        assert!(
            off <= bound,
            "{ranks} ranks, step {step}: {many}, one rank: {one}, off by {off:e}"
        );
    }
}

#[test]
fn any_number_of_ranks_gives_the_loss_curve_of_one() {
    let digits = digits(1438);
    let recipe = |ranks| Recipe { epochs: 4, ..Recipe::new(ranks) };
    let one = losses(&digits, &recipe(1));
    assert_eq!(one.len(), 48);
    assert!(one[47] < one[0] / 10.0, "the curve falls: {one:?}");
    for ranks in [2, 3, 4, 8] {
        assert_same_curve(&losses(&digits, &recipe(ranks)), &one, ranks);
    }
}

#[test]
fn a_rank_may_have_no_row_of_a_small_batch() {
    // The second batch of each epoch has three rows.
    let digits = digits(103);
    let recipe = |ranks| Recipe { epochs: 3, batch: 100, rate: 0.05, ..Recipe::new(ranks) };
    let one = losses(&digits, &recipe(1));
    assert_eq!(one.len(), 6);
    assert_same_curve(&losses(&digits, &recipe(5)), &one, 5);
}

#[test]
fn the_same_number_of_ranks_gives_the_same_bits() {
    let digits = digits(600);
    for ranks in 1..=4 {
        let recipe = Recipe { epochs: 2, ..Recipe::new(ranks) };
        let first = outcomes(&digits, &recipe);
        let second = outcomes(&digits, &recipe);
        let parameters = |outcome: &Outcome| {
            let layers = outcome.network.layers.iter();
            bits(layers.flat_map(|layer| layer.weights.iter().chain(&layer.bias)).copied())
        };
        let expected = (bits(first[0].losses.iter().copied()), parameters(&first[0]));
        assert_eq!(first.len(), ranks);
        for outcome in first.iter().chain(&second) {
            let found = (bits(outcome.losses.iter().copied()), parameters(outcome));
            assert!(found == expected, "{ranks} ranks: not the same bits in every run and rank");
        }
    }
}

#[test]
fn logical_shards_give_the_same_bits_on_any_number_of_ranks() {
    // In the last batch only some of the shards have rows.
    let digits = digits(133);
    let of = |ranks, logical_shards| {
        let recipe = Recipe { epochs: 2, logical_shards, ..Recipe::new(ranks) };
        outcomes(&digits, &recipe)
    };
    let one = of(1, Some(8)).swap_remove(0);
    for ranks in [2, 4, 8] {
        for outcome in of(ranks, Some(8)) {
            assert_eq!(outcome.network.hash(), one.network.hash(), "{ranks} ranks");
            assert_eq!(bits(outcome.losses), bits(one.losses.clone()), "{ranks} ranks");
        }
    }
    assert_same_curve(&one.losses, &of(1, None)[0].losses, 1);
    // This is the effect of the shards: with a sum for each rank the bits differ.
    let hashes = [1, 2, 4].map(|ranks| of(ranks, None)[0].network.hash());
    assert!(hashes.windows(2).any(|pair| pair[0] != pair[1]), "{hashes:x?}");
}

#[test]
fn a_reproducible_training_prints_the_hash_of_its_weights() {
    let folder = folder("reproducible");
    let out = folder.to_str().unwrap();
    let hash = |ranks: &str| {
        let arguments = ["--reproducible", "--epochs", "1", "--out", out, "--ranks", ranks];
        let (status, told, complaints) = command(&arguments);
        assert_eq!((status, complaints.as_str()), (0, ""));
        assert!(told.contains("of 8 shards of each batch"), "{told}");
        let line = told.lines().find(|line| line.starts_with("weights")).expect("a hash");
        line.to_owned()
    };
    assert_eq!(hash("1"), hash("4"));
}

#[test]
fn a_recorded_training_leaves_the_same_lines_every_time() {
    let folder = folder("recorded");
    let lines = |name: &str, seed: &str| {
        let (out, record) = (folder.join("out"), folder.join(name));
        let (out, record) = (out.to_str().unwrap(), record.to_str().unwrap());
        let arguments = ["--epochs", "1", "--ranks", "2", "--seed", seed, "--reproducible"];
        let of_files = ["--out", out, "--record", record, "--record-whole", "world all_gather 4"];
        let (status, _, complaints) = command(&[&arguments[..], &of_files].concat());
        assert_eq!((status, complaints.as_str()), (0, ""));
        let whole = |name: &str| folder.join(record).join(name).exists();
        assert!(whole("world.1.rank-1.device-1.world-all-gather-4.given"));
        let text = std::fs::read_to_string(folder.join(record).join("world.1.rank-1.device-1.run"));
        // The first word is the place among the operations of all ranks, which run at the same
        // time.
        let text = text.expect("rank 1 has a record");
        let lines = text.lines().map(|line| line.split_once('\t').unwrap().1.to_owned());
        lines.collect::<Vec<String>>()
    };
    let (one, again, other) = (lines("one", "1"), lines("again", "1"), lines("other", "2"));
    assert!(one.len() > 20 && one.iter().any(|line| line.starts_with("world all_to_all 3\tf32\t")));
    assert_eq!(one, again);
    assert_ne!(one, other);
    // `--record-whole` needs `--record`.
    let (status, _, complaints) = command(&["--record-whole", "world all_gather 4"]);
    assert!(status == 1 && complaints.contains("--record"), "{complaints}");
}

#[test]
fn the_seed_decides_the_curve() {
    let digits = digits(300);
    let recipe = |seed| Recipe { epochs: 1, seed, ..Recipe::new(2) };
    assert_ne!(losses(&digits, &recipe(1)), losses(&digits, &recipe(2)));
}

/// Makes an empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("train-{name}"));
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs the command. Returns its status, its standard output and its standard error.
fn command(arguments: &[&str]) -> (u8, String, String) {
    let arguments = ["train"].iter().chain(arguments).map(OsString::from);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = run(arguments, &mut out, &mut err);
    (status, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[test]
fn four_ranks_learn_to_read() {
    let folder = folder("learn").join("made").join("for it");
    let out = folder.to_str().unwrap();
    let (status, told, complaints) = command(&["--backend", "emulator", "--out", out]);
    assert_eq!((status, complaints.as_str()), (0, ""), "{told}");
    assert!(
        told.contains("1438 rows to learn from, 359 held out by a shuffle with seed 1"),
        "{told}"
    );

    let line = |topic: &str| {
        told.lines()
            .find(|line| line.starts_with(topic))
            .unwrap_or_else(|| panic!("{topic}: {told}"))
    };
    assert!(line("network ").contains(" 64-512-512-10, "), "{told}");
    let gradients = line("gradients ");
    assert!(gradients.contains("a rank moving") && gradients.contains("hidden behind"), "{told}");
    assert!(told.contains("a rank waiting for the last rank"), "{told}");

    let last = told.lines().last().unwrap();
    let fields: Vec<(&str, &str)> =
        last.split(' ').map(|field| field.split_once('=').unwrap()).collect();
    let [accuracy, epochs, ranks, backend, seconds] = fields[..] else { panic!("{last}") };
    assert_eq!(accuracy.0, "accuracy");
    assert!(accuracy.1.parse::<f64>().unwrap() >= 0.96, "{last}");
    assert_eq!(
        (epochs, ranks, backend),
        (("epochs", "30"), ("ranks", "4"), ("backend", "emulator"))
    );
    assert_eq!(seconds.0, "seconds");
    assert!(seconds.1.parse::<f64>().unwrap() > 0.0);

    let read = |file| fs::read_to_string(folder.join(file)).unwrap();
    assert!(read("loss.svg").contains("Training loss"));
    let timeline = read("timeline.svg");
    assert!(timeline.contains("What each rank did in two steps") && timeline.contains("rank 3"));
    for file in ["loss.svg", "timeline.svg", "trace.json"] {
        assert!(told.contains(&folder.join(file).display().to_string()), "{file} in {told}");
    }

    let trace: serde_json::Value = serde_json::from_str(&read("trace.json")).unwrap();
    check_trace(trace["traceEvents"].as_array().unwrap());
}

/// Asserts the form that <https://ui.perfetto.dev> needs: a process for every rank, named threads,
/// and events of one thread that do not overlap unless one is within the other.
fn check_trace(events: &[serde_json::Value]) {
    let number = |event: &serde_json::Value, key: &str| event[key].as_f64().unwrap();
    for rank in 0..4 {
        let process: Vec<_> = events.iter().filter(|event| event["pid"] == rank + 1).collect();
        let count = |name: &str| process.iter().filter(|event| event["name"] == name).count();
        for name in ["forward", "update 2", "wait for bucket 1", "all-reduce bucket 3"] {
            assert_eq!(count(name), 30 * 12, "{name} of rank {rank}");
        }
        let metadata = |name: &str| {
            let found = process.iter().filter(|event| event["ph"] == "M" && event["name"] == name);
            found.map(|event| event["args"]["name"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(metadata("process_name"), [format!("rank {rank}")]);
        assert_eq!(metadata("thread_name"), ["compute", "stream"]);
        assert_eq!(count(&format!("wait for rank {rank}")), 0, "nobody waits for itself");

        for thread in [1, 2].map(|thread| 10 * (rank + 1) + thread) {
            let of_thread = process.iter().filter(|e| e["ph"] == "X" && e["tid"] == thread);
            let mut spans: Vec<(i64, i64)> = of_thread
                .map(|event| {
                    let nanoseconds = |key| (number(event, key) * 1e3).round() as i64;
                    (nanoseconds("ts"), nanoseconds("ts") + nanoseconds("dur"))
                })
                .collect();
            assert!(spans.iter().all(|&(from, to)| 0 <= from && from <= to));
            spans.sort_by_key(|&(from, to)| (from, -to));
            let mut open: Vec<i64> = Vec::new();
            for (from, to) in spans {
                while open.last().is_some_and(|&end| end <= from) {
                    open.pop();
                }
                assert!(open.last().is_none_or(|&end| to <= end), "{from} to {to} of {thread}");
                open.push(to);
            }
        }
    }
}

#[test]
fn one_rank_and_one_epoch_are_spoken_of_in_the_singular() {
    let folder = folder("alone");
    let out = folder.to_str().unwrap();
    let (status, told, complaints) =
        command(&["--backend", "emulator", "--ranks", "1", "--epochs", "1", "--out", out]);
    assert_eq!((status, complaints.as_str()), (0, ""), "{told}");
    assert!(told.contains("1 rank on the emulator") && told.contains("1 epoch of 12 steps"));
    assert!(told.contains("a single rank has nothing to add"), "{told}");
    for picture in ["loss.svg", "timeline.svg"] {
        let text = fs::read_to_string(folder.join(picture)).unwrap();
        assert!(text.contains("1 rank on the emulator"), "{text}");
        assert!(!text.contains("waiting for the last rank"), "there is no other");
    }
}

#[test]
fn more_ranks_than_devices_are_refused_with_both_numbers() {
    // On the emulator the command makes a device for each rank, so this can happen only on a
    // server.
    let runtime = Runtime::emulator(2).unwrap();
    let refused = train(&runtime, &digits(100), &Recipe::new(3), |_| ()).unwrap_err().to_string();
    assert!(refused.starts_with("3 ranks need a device each, but this runtime has 2 devices"));
}

#[test]
fn a_backend_is_found_without_being_named() {
    if Runtime::cann().is_ok() {
        return;
    }
    let folder = folder("auto");
    let out = folder.to_str().unwrap();
    let (status, told, complaints) =
        command(&["--backend", "auto", "--ranks", "2", "--epochs", "1", "--out", out]);
    assert_eq!((status, complaints.as_str()), (0, ""), "{told}");
    assert!(told.lines().last().unwrap().contains(" ranks=2 backend=emulator "), "{told}");
}

#[test]
fn without_cann_every_place_that_was_tried_has_a_line() {
    if Runtime::cann().is_ok() {
        return;
    }
    let out = folder("no-cann");
    let (status, told, complaints) =
        command(&["--backend", "cann", "--out", out.to_str().unwrap()]);
    assert_eq!((status, told.as_str()), (1, ""));
    assert!(complaints.starts_with("error: no backend: "), "{complaints}");
    let places = complaints.lines().filter(|line| line.starts_with("  lib")).count();
    assert!(places >= 2, "{complaints}");
}

#[test]
fn every_refusal_is_one_clear_line_and_status_1() {
    let folder = folder("refusals");
    let broken = folder.join("broken.csv");
    let digits = fs::read_to_string(DIGITS).unwrap();
    fs::write(&broken, digits.replacen("\n0,", "\n0,ink,", 1)).unwrap();
    let missing = folder.join("missing.csv");
    // There is a file where the folder should be.
    let blocked = broken.join("out");
    let (broken, missing, blocked) =
        (broken.to_str().unwrap(), missing.to_str().unwrap(), blocked.to_str().unwrap());
    for (arguments, complaint) in [
        (["--data", missing], format!("cannot read the digits from {missing}: ")),
        (["--data", broken], format!("{broken} line 2: 66 values where 65 belong")),
        (["--data", folder.to_str().unwrap()], "cannot read the digits from ".to_owned()),
        (["--ranks", "9"], "--ranks 9: must be from 1 to 8".to_owned()),
        (["--ranks", "0"], "--ranks 0: must be from 1 to 8".to_owned()),
        (["--ranks", "four"], "invalid value 'four' for '--ranks".to_owned()),
        (["--epochs", "0"], "--epochs 0: must be at least 1".to_owned()),
        (["--out", broken], format!("--out: cannot write {broken}: it is not a folder")),
        (["--out", blocked], format!("--out: cannot write {blocked}: ")),
        (["--backend", "gpu"], "invalid value 'gpu' for '--backend".to_owned()),
        (["--rank", "2"], "unexpected argument '--rank' found (try --ranks or --help)".to_owned()),
        (["--reproducible", "--ranks=3"], "--reproducible --ranks 3: must be 1, 2, 4 or 8".into()),
    ] {
        let (status, told, complaints) = command(&arguments);
        assert_eq!((status, told.as_str()), (1, ""), "{arguments:?}: {complaints}");
        assert!(complaints.starts_with(&format!("error: {complaint}")), "{complaints}");
        assert_eq!(complaints.lines().count(), 1, "{complaints}");
    }
}

#[test]
fn help_is_no_error() {
    let (status, told, complaints) = command(&["--help"]);
    assert_eq!((status, complaints.as_str()), (0, ""));
    for option in ["--ranks", "--epochs", "--backend", "--out", "--seed", "timeline.svg"] {
        assert!(told.contains(option), "{told}");
    }
}
