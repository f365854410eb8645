//! Tests recorded runs, and `hccl-compare-runs`, which finds their first difference.

mod kinds;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use hccl::Error;
use hccl::prelude::*;
use hccl::record::RunRecord;

const RANKS: u32 = 3;

/// The differences between a run and the plain one.
#[derive(Clone, Copy, Default)]
struct Change {
    /// A rank, and the element of its input to the second all-reduce whose last bit is changed.
    bit: Option<(u32, usize)>,
    /// The value of elements that no operation reads: the rest of a buffer before an all-gather in
    /// place, and elements that a broadcast overwrites.
    unread: i32,
}

/// Returns the path of a new directory for one test. The directory does not exist yet.
fn directory(name: &str) -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{name}-{number}"));
    let _ = std::fs::remove_dir_all(&directory);
    directory
}

/// Runs some operations of each kind, with this change.
fn run(rank: &Rank, change: Change) -> hccl::Result<()> {
    let device = rank.device();
    let stream = device.stream()?;
    let mut comm = rank.communicator()?;
    let (me, n) = (rank.index(), rank.world_size());
    let x = device.upload(&[me as f32 + 0.5; 1000], &stream)?;
    let (_, _) = comm.all_reduce(&x, device.alloc(1000)?, Sum, &stream)?;

    let mut parts = vec![change.unread; 4 * n as usize];
    parts[4 * me as usize..][..4].fill(me as i32);
    let mut gathered = device.upload(&parts, &stream)?;
    comm.all_gather_in_place(&mut gathered, &stream)?;

    let mut word = device.upload(&[if me == 1 { 7 } else { change.unread }; 5], &stream)?;
    comm.broadcast(&mut word, 1, &stream)?;

    let mut numbers: Vec<i32> = (0..900).map(|at| at * (me as i32 + 1)).collect();
    if let Some((rank, element)) = change.bit
        && rank == me
    {
        numbers[element] ^= 1;
    }
    let mut numbers = device.upload(&numbers, &stream)?;
    comm.all_reduce_in_place(&mut numbers, Sum, &stream)?;
    comm.reduce_scatter_in_place(&mut numbers, Max, &stream)?;
    if me == 0 {
        comm.send(&word, 1, &stream)?;
    } else if me == 1 {
        comm.recv(&mut word, 0, &stream)?;
    }
    if let Some(mut part) = comm.split(Some(0), 0).wait()? {
        part.barrier(&stream)?;
    }
    // The following operation is not recorded.
    comm.set_recorded(false);
    let mut unread = device.upload(&[change.unread; 3], &stream)?;
    comm.all_reduce_in_place(&mut unread, Sum, &stream)?;
    comm.batch().submit(&stream)?;
    comm.set_recorded(true);
    stream.synchronize()
}

fn recorded(name: &str, change: Change, whole: Option<&str>) -> PathBuf {
    let directory = directory(name);
    let runtime = Runtime::emulator(RANKS as usize).unwrap();
    let record = RunRecord::new(&directory);
    let record = whole.into_iter().fold(record, |record, whole| record.whole(whole));
    let recording = runtime.record_run(record).unwrap();
    runtime.run_ranks(RANKS, |rank| run(&rank, change)).unwrap();
    recording.finish().unwrap();
    directory
}

/// Runs `hccl-compare-runs`. Returns its status and output.
fn compare(a: &Path, b: &Path) -> (i32, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_hccl-compare-runs")).args([a, b]).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), text)
}

#[track_caller]
fn says(said: (i32, String), status: i32, pieces: &[&str]) {
    assert_eq!(said.0, status, "{}", said.1);
    for piece in pieces {
        assert!(said.1.contains(piece), "\"{piece}\" is not in\n{}", said.1);
    }
}

#[test]
fn two_runs_of_one_program_are_the_same_whatever_nobody_reads() {
    let a = recorded("same", Change::default(), None);
    let b = recorded("same", Change { unread: -5, ..Change::default() }, None);
    // Each of the three ranks has five collectives, one with which `split` agrees on its parts, and
    // a barrier of its part. Two messages are added.
    says(compare(&a, &b), 0, &["the same: 23 operations of 6 ranks of communicators"]);
}

#[test]
fn the_operation_the_rank_and_the_element_of_a_disturbance_are_named() {
    let changed = Change { bit: Some((2, 617)), ..Change::default() };
    let (a, b) = (recorded("plain", Change::default(), None), recorded("disturbed", changed, None));
    let first = "the first difference: `world all_reduce 4`, in its input, on rank 2\n";
    says(compare(&a, &b), 1, &[first, "to see the element", "whole", ": world all_reduce 4"]);
    let whole = Some("world all_reduce 4");
    let (a, b) = (recorded("whole", Change::default(), whole), recorded("whole", changed, whole));
    let element = "element 617: 1851 (0x0000073b) in the first run, 1850 (0x0000073a) in the second; 1 of 900 \
                   elements differ (i32)";
    says(compare(&a, &b), 1, &[first, element]);
    // The order of the two runs does not matter.
    says(compare(&b, &a), 1, &["on rank 2", "element 617: 1850 (0x0000073a) in the first run"]);
    let only = "record both runs again";
    says(compare(&a, &recorded("half", changed, None)), 1, &[first, only]);
}

/// Makes a copy of a record in which `change` has edited the lines of a file.
fn edited(record: &Path, rank: u32, change: impl Fn(String) -> String) -> PathBuf {
    let copy = directory("edited");
    std::fs::create_dir_all(&copy).unwrap();
    for entry in std::fs::read_dir(record).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let is_it = name.starts_with(&format!("world.1.rank-{rank}."));
        std::fs::write(copy.join(name), if is_it { change(text) } else { text }).unwrap();
    }
    copy
}

#[test]
fn an_operation_that_computes_something_else_is_told_from_what_went_in() {
    let a = recorded("computed", Change::default(), None);
    // The last word of the line is the checksum of the result.
    let wrong = |text: String| {
        let line = |line: &str| match line.contains("world all_reduce 1\t") {
            true => format!("{}0\n", line),
            false => format!("{line}\n"),
        };
        text.lines().map(line).collect()
    };
    let said = "`world all_reduce 1`, in its result, although its input is the same, on rank 1";
    says(compare(&a, &edited(&a, 1, wrong)), 1, &[said]);
    let failed = |text: String| {
        let line = |line: &str| match line.contains("broadcast") {
            true => format!("{}failed\n", &line[..line.rfind('\t').unwrap() + 1]),
            false => format!("{line}\n"),
        };
        text.lines().map(line).collect()
    };
    says(
        compare(&a, &edited(&a, 0, failed)),
        1,
        &["world broadcast 3", "has failed in the second run"],
    );
}

/// Writes a record of three ranks of `world` by hand.
fn written(ranks: [&str; 3]) -> PathBuf {
    let directory = directory("written");
    std::fs::create_dir_all(&directory).unwrap();
    for (rank, lines) in ranks.iter().enumerate() {
        let lines: String =
            lines.lines().map(|line| line.trim().replace(", ", "\t") + "\n").collect();
        let text = format!("hccl run record 1\tworld\t1\t{rank}\t3\n{lines}");
        let name = format!("world.1.rank-{rank}.device-{rank}.run");
        std::fs::write(directory.join(name), text).unwrap();
    }
    directory
}

#[test]
fn a_rank_that_receives_before_the_sender_sends_is_not_the_first() {
    let record = |sent: &str, got: &str, sum: &str| {
        // Rank 2 receives its first message as a single one and the second one from a batch of rank
        // 1.
        let zero = format!("0, world all_reduce 1, f32, 4:a, 4:{sum}");
        let one = format!(
            "5, world send to 2 1, f32, 4:a, -
             6, world batch send to 0 1, f32, 4:b, -
             7, world batch send to 2 1, f32, 4:{sent}, -
             8, world all_reduce 1, f32, 4:{sent}, 4:{sum}"
        );
        let two = format!(
            "1, world recv from 1 1, f32, -, 4:a
             2, world recv from 1 2, f32, -, 4:{got}
             9, world all_reduce 1, f32, 4:{got}, 4:{sum}"
        );
        written([&zero, &one, &two])
    };
    let plain = record("c", "c", "d");
    let sent = "`world batch send to 2 1`, in its input, on rank 1\n";
    says(compare(&plain, &record("x", "x", "y")), 1, &[sent]);
    // The received message differs, although its sender gave the same data.
    let got = "`world recv from 1 2`, in its result, although its input is the same, on rank 2\n";
    says(compare(&plain, &record("c", "x", "y")), 1, &[got]);
    // The sum differs on all ranks, although they gave the same data.
    let sum = "`world all_reduce 1`, in its result, although its input is the same, on rank 0 (and on \
               ranks 0, 1, 2)";
    says(compare(&plain, &record("c", "c", "y")), 1, &[sum]);
}

#[test]
fn another_operation_and_an_end_are_differences() {
    let a = recorded("other", Change::default(), None);
    let other = |text: String| text.replace("all_gather", "all_to_all");
    says(
        compare(&a, &edited(&a, 2, other)),
        1,
        &[
            "rank 2 calls another operation: `world all_gather 2` of i32 in the first run, `world all_to_all 2`",
        ],
    );
    let short = |text: String| text.lines().take(3).map(|line| format!("{line}\n")).collect();
    says(
        compare(&a, &edited(&a, 0, short)),
        1,
        &["the second run ends on rank 0", "before `world broadcast 3`"],
    );
    says(compare(&edited(&a, 0, short), &a), 1, &["the first run ends on rank 0"]);
}

#[test]
fn what_cannot_be_compared_is_an_error_that_says_why() {
    let a = recorded("ranks", Change::default(), None);
    let fewer = edited(&a, 0, |text| text);
    for entry in std::fs::read_dir(&fewer).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().contains("rank-2") {
            std::fs::remove_file(path).unwrap();
        }
    }
    says(
        compare(&a, &fewer),
        2,
        &["different communicators or ranks", "communicator world, rank 2 of 3"],
    );
    says(compare(&a, Path::new("/there is/no record")), 2, &["/there is/no record:"]);
    let empty = directory("empty");
    std::fs::create_dir_all(&empty).unwrap();
    says(compare(&a, &empty), 2, &["no run is recorded there"]);
    let cut = edited(&a, 1, |text| text[..text.len() - 30].to_owned());
    says(compare(&a, &cut), 2, &["is not an operation"]);
}

#[test]
fn a_record_is_left_alone_and_two_at_a_time_are_refused() {
    let runtime = Runtime::emulator(1).unwrap();
    let one = |directory: &Path| -> hccl::Result<()> {
        let recording = runtime.record_run(RunRecord::new(directory))?;
        runtime.run_ranks(1, |rank| {
            let stream = rank.device().stream()?;
            rank.communicator()?.barrier(&stream)?.wait()
        })?;
        recording.finish()
    };
    let first = directory("twice");
    one(&first).unwrap();
    let before = std::fs::read_dir(&first).unwrap().count();
    let error = one(&first).unwrap_err();
    assert!(matches!(error, Error::Invalid { operation: "record_run", .. }), "{error}");
    assert!(error.to_string().contains("world.1.rank-0"), "{error}");
    assert_eq!(std::fs::read_dir(&first).unwrap().count(), before);

    let recording = runtime.record_run(RunRecord::new(directory("open"))).unwrap();
    let error = runtime.record_run(RunRecord::new(directory("second"))).unwrap_err();
    assert!(error.to_string().contains("records a run"), "{error}");
    recording.finish().unwrap();
    one(&directory("third")).unwrap();
    let file = directory("file");
    std::fs::write(&file, "").unwrap();
    assert!(runtime.record_run(RunRecord::new(&file)).is_err());
}

#[test]
fn an_operation_that_is_refused_leaves_no_line_and_the_next_one_has_its_number() {
    let directory = directory("refused");
    let runtime = Runtime::emulator(1).unwrap();
    let recording = runtime.record_run(RunRecord::new(&directory)).unwrap();
    let outcome = runtime.run_ranks(1, |rank| -> hccl::Result<()> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let x = rank.device().upload(&[1f32; 4], &stream)?;
        let mut short = rank.device().zeros::<f32>(3, &stream)?;
        assert!(comm.all_reduce(&x, &mut short, Sum, &stream).is_err());
        comm.barrier(&stream)?.wait()
    });
    assert!(outcome.is_ok(), "{:?}", outcome.err().map(|error: Error| error.to_string()));
    recording.finish().unwrap();
    let path = std::fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("\tworld barrier 1\t") && text.ends_with("\t-\t-\n"), "{text}");
}
