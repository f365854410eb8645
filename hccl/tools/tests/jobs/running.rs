//! Jobs that go well, and how `hcclrun` handles outputs, signals and its own end.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Job, hcclrun, start};

fn shell(options: &[&str], script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hcclrun"));
    command.args(options).args(["sh", "-c", script]);
    command
}

#[test]
fn ranks_find_their_communicator() {
    for ranks in 1..=4 {
        let job = Job::of(&mut hcclrun(&["-n", &ranks.to_string()], "sum")).succeeds();
        let sum = ranks * (ranks + 1) / 2;
        for rank in 0..ranks {
            let line = format!("[{rank}] rank {rank} on device {rank} by hcclrun: {sum}\n");
            assert!(job.out.contains(&line), "{line}\n{}", job.out);
        }
        let each = Job::of(&mut hcclrun(&["-n", &ranks.to_string()], "communicator")).succeeds();
        each.says(&[&format!("rank 0 of {ranks}: world")]);
    }
}

#[test]
fn there_are_as_many_emulated_devices_as_ranks_unless_the_user_has_said_which() {
    let mut command = shell(&["-n", "2"], "echo ${ASCEND_EMULATOR_DEVICES-as without a launcher}");
    Job::of(&mut command).succeeds().says(&["[0] 2\n", "[1] 2\n"]);
    let job = Job::of(command.env("ASCEND_RT_VISIBLE_DEVICES", "3,5")).succeeds();
    job.says(&["[1] as without a launcher"]);
    let job = Job::of(command.env("ASCEND_EMULATOR_DEVICES", "7")).succeeds();
    job.says(&["[1] 7"]);
}

#[test]
fn without_a_launcher_the_ranks_are_threads() {
    let job = Job::of(&mut super::process("sum", &[])).succeeds();
    job.says(&["rank 2 on device 2 by nobody: 6"]);
}

#[test]
fn each_call_makes_another_communicator() {
    Job::of(&mut hcclrun(&["-n", "3"], "two communicators")).succeeds();
}

#[test]
fn values_of_the_store_go_from_each_rank_to_each() {
    let job = Job::of(&mut hcclrun(&["-n", "4"], "values")).succeeds();
    job.says(&["[3] rank 3 is done"]);
}

#[test]
fn output_that_cannot_be_written_is_told_once() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = shell(&["-n", "2"], "echo one; echo two");
    let child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.matches("hcclrun: output of the ranks is lost: ").count(), 1, "{text}");
    assert!(output.status.success());
}

#[test]
fn lines_are_whole_and_say_whose_they_are() {
    let script = "for i in $(seq 200); do echo $RANK.$i; echo $RANK.$i.error >&2; done; printf end";
    let job = Job::of(&mut shell(&["-n", "11"], script)).succeeds();
    for (text, end) in [(&job.out, ""), (&job.err, ".error")] {
        for rank in 0..11 {
            let own = text.lines().filter_map(|line| line.strip_prefix(&format!("[{rank:>2}] ")));
            let mut own: Vec<&str> = own.collect();
            if end.is_empty() {
                assert_eq!(own.pop(), Some("end"));
            }
            let expected: Vec<String> = (1..=200).map(|i| format!("{rank}.{i}{end}")).collect();
            assert_eq!(own, expected);
        }
    }
    let plain = Job::of(&mut shell(&["-n", "2", "--no-label"], "echo x")).succeeds();
    assert_eq!(plain.out, "x\nx\n");
    let coloured = Job::of(&mut shell(&["-n", "1", "--color", "always"], "echo x")).succeeds();
    assert_eq!(coloured.out, "\u{1b}[36m[0] \u{1b}[0mx\n");
}

#[test]
fn each_rank_has_the_variables_of_torchrun() {
    let script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR";
    let job = Job::of(&mut shell(&["-n", "2", "--no-label"], script)).succeeds();
    let mut lines: Vec<&str> = job.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 2 0 2 127.0.0.1", "1 2 1 2 127.0.0.1"]);
}

#[test]
fn a_signal_reaches_all_ranks_and_what_they_have_started() {
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let script = "trap 'echo asked; exit 9' INT TERM HUP; echo ready; sleep 60 & wait";
        let command = shell(&["-n", "2", "--grace", "20"], script);
        let child = start(command);
        let process = child.id();
        signal_when_ready(process, signal);
        let jobs = super::all_end(vec![child]);
        let job = jobs.into_iter().next().unwrap();
        assert_eq!(job.status, Some(status), "{}", job.err);
        assert_eq!(job.out.matches("asked").count(), 2, "{}", job.out);
    }
}

/// Sends a signal when the processes of a job have had time to install their handlers.
fn signal_when_ready(process: u32, signal: &str) {
    let limit = Instant::now() + Duration::from_secs(20);
    // The loop waits until each shell has started its `sleep`.
    while children_of(process).iter().filter(|rank| !children_of(**rank).is_empty()).count() < 2 {
        assert!(Instant::now() < limit, "the ranks do not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    send(process, signal);
}

fn send(process: u32, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &process.to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Returns the processes that `process` has started and that still run.
fn children_of(process: u32) -> Vec<u32> {
    let is_child = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse::<u32>().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut behind = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, parent) = (behind.next()?, behind.next()?);
        (parent == process.to_string() && state != "Z").then_some(number)
    };
    fs::read_dir("/proc").unwrap().filter_map(|entry| is_child(entry.ok()?)).collect()
}

#[test]
fn ranks_do_not_outlive_hcclrun() {
    let mut child = start(shell(&["-n", "3"], "exec sleep 60"));
    let limit = Instant::now() + Duration::from_secs(20);
    while children_of(child.id()).len() < 3 {
        assert!(Instant::now() < limit, "the ranks do not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    let ranks = children_of(child.id());
    send(child.id(), "KILL");
    child.wait().unwrap();
    let is_there = |process: &u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, behind)| !behind.trim_start().starts_with('Z'))
    };
    while ranks.iter().any(is_there) {
        assert!(Instant::now() < limit, "a rank goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_reader_that_goes_away_does_not_stop_the_ranks() {
    let mut command = shell(&["-n", "2"], "seq 20000; echo $RANK > /dev/null; exit 0");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_started_is_said() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hcclrun"));
    let job = Job::of(command.args(["-n", "2", "no-such-program"]));
    assert_eq!(job.status, Some(125));
    job.says(&["rank 0 cannot be started: no-such-program: No such file"]);
    let job = Job::of(Command::new(env!("CARGO_BIN_EXE_hcclrun")).args(["-n", "0", "true"]));
    assert_eq!(job.status, Some(125));
    let job = Job::of(Command::new(env!("CARGO_BIN_EXE_hcclrun")).args(["--help"])).succeeds();
    job.says(&[
        "hcclrun -n 4 target/release/examples/train",
        "The status is 0 when all ranks succeeded",
    ]);
}
