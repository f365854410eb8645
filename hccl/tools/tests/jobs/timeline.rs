//! Tests `hcclrun --timeline`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{Job, hcclrun};

/// Returns the path of a file that no other process uses.
fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("hcclrun-{}-{name}", std::process::id()))
}

#[test]
fn the_ranks_of_all_processes_are_in_one_timeline() {
    let trace = file("all.json");
    let mut job = hcclrun(&["-n", "3", "--timeline", trace.to_str().unwrap()], "hands over");
    let said =
        format!("{}: processes 3, launches of kernels 0, turns of servers 0", trace.display());
    Job::of(&mut job).succeeds().says(&[&said]);
    let text = fs::read_to_string(&trace).unwrap();
    fs::remove_file(&trace).unwrap();
    let events: Value = serde_json::from_str(&text).unwrap();
    let events = events["traceEvents"].as_array().unwrap();
    let named = events.iter().filter(|event| event["name"] == "process_name");
    let ranks: BTreeSet<&str> =
        named.map(|event| event["args"]["name"].as_str().unwrap()).collect();
    assert_eq!(ranks, BTreeSet::from(["rank 0", "rank 2"]));
    // An arrow leads from each record of a notify to the wait that took it, which is in another
    // process.
    let ends = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!((ends("s"), ends("f")), (2, 2));
    let across = events.iter().filter(|event| event["cat"] == "between ranks");
    assert_eq!(across.count(), 4);
}

/// Runs a job with a timeline. The ranks of the job run a script.
fn shell(picture: &Path, script: &str) -> Job {
    let option = ["-n", "2", "--timeline", picture.to_str().unwrap(), "--grace", "60"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_hcclrun"));
    Job::of(command.args(option).args(["sh", "-c", script]))
}

#[test]
fn a_picture_is_drawn_and_ranks_without_a_timeline_are_named() {
    let picture = file("none.svg");
    let job = shell(&picture, "exit 0").succeeds();
    job.says(&[
        "no timeline of rank 0 (process ",
        "no timeline of rank 1 (process ",
        "or used no emulated device",
        "processes 0",
    ]);
    let svg = fs::read_to_string(&picture).unwrap();
    fs::remove_file(&picture).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("no kernel"), "{svg}");
}

/// The picture has the other ranks, and the status is that of the rank that failed.
#[test]
fn a_damaged_or_killed_rank_takes_nothing_from_the_others() {
    let own = std::env::current_exe().unwrap();
    let run = format!("{} --exact part --nocapture --quiet", own.display());
    for (broken, status, said) in [
        ("echo { > $ASCEND_EMULATOR_TIMELINE; exit 3", 3, "this is not a recorded timeline"),
        ("kill -9 $$", 137, "it was killed"),
    ] {
        let picture = file("some.svg");
        let script =
            format!("export HCCL_TEST_PART=alone; {run}; [ $RANK = 0 ] || {{ {broken}; }}");
        let job = shell(&picture, &script);
        // The script of rank 1 fails after its program has written its line.
        let svg = fs::read_to_string(&picture).unwrap();
        fs::remove_file(&picture).unwrap();
        assert_eq!(job.status, Some(status), "{}", job.err);
        let lost = match said {
            "it was killed" => vec!["processes 2, launches of kernels 2"],
            _ => vec!["no timeline of rank 1", said, "processes 1, launches of kernels 1"],
        };
        job.says(&lost);
        assert!(svg.contains(">device 0"), "{svg}");
    }
}

/// Without the option, the variable in the user's environment has the same effect.
#[test]
fn the_variable_of_one_process_is_the_timeline_of_a_job() {
    let trace = file("variable.json");
    let mut job = hcclrun(&["-n", "2"], "alone");
    Job::of(job.env("ASCEND_EMULATOR_TIMELINE", &trace))
        .succeeds()
        .says(&["launches of kernels 2"]);
    let text = fs::read_to_string(&trace).unwrap();
    fs::remove_file(&trace).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    // Each process has a device 0 of its own.
    let events = trace["traceEvents"].as_array().unwrap();
    let named = events.iter().filter(|event| event["name"] == "process_name");
    let name = |event: &Value| event["args"]["name"].as_str().unwrap().to_owned();
    let names: BTreeSet<String> = named.map(name).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let apart = |name: &String| name.starts_with("device 0 of block 1 in process ");
    assert!(names.iter().all(apart), "{names:?}");
    let mut job = hcclrun(&["-n", "2"], "alone");
    let job = Job::of(job.env("ASCEND_EMULATOR_TIMELINE", "job.png"));
    assert_eq!(job.status, Some(125));
    job.says(&["ASCEND_EMULATOR_TIMELINE=job.png: give a name that ends with .svg or .json"]);
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_starts() {
    for (name, said) in [
        ("job.png", "give a name that ends with .svg or .json"),
        ("/there/is/none.svg", "/there/is/none.svg: No such file or directory"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hcclrun"));
        let job = Job::of(command.args(["-n", "1", "--timeline", name, "echo", "started"]));
        assert_eq!((job.status, job.out.as_str()), (Some(125), ""));
        job.says(&[said]);
    }
}
