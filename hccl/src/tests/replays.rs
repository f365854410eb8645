//! Replays of a graph in a recorded run: each replay writes the lines of its operations.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::device::StreamState;
use crate::dtype::{Max, Sum};
use crate::record::RunRecord;

/// The memory of a step.
struct Memory {
    /// The input of an all-reduce, which is overwritten afterwards.
    x: DeviceBuffer<i32>,
    sum: DeviceBuffer<i32>,
    /// The input of an all-gather after the all-reduce.
    y: DeviceBuffer<i32>,
    all: DeviceBuffer<i32>,
    /// The data that is sent in messages. `got` is the data that is received.
    sent: DeviceBuffer<i32>,
    got: DeviceBuffer<i32>,
}

/// Issues a step whose operations overwrite memory that earlier operations have read and written.
fn step<S: StreamState>(
    memory: &mut Memory,
    comm: &mut Communicator,
    stream: &Stream<S>,
) -> Result<()> {
    let (me, n) = (comm.rank(), comm.world_size());
    let Memory { x, sum, y, all, sent, got } = memory;
    comm.all_reduce(&*x, &mut *sum, Sum, stream)?;
    x.fill_zero(stream)?;
    comm.all_gather(&*y, &mut *all, stream)?;
    comm.all_reduce_in_place(&mut *sum, Max, stream)?;
    let (next, before) = ((me + 1) % n, (me + n - 1) % n);
    comm.batch().send(&*sent, next).recv(&mut *got, before).submit(stream)?;
    match me {
        0 => drop(comm.send(&*sent, 1, stream)?),
        1 => drop(comm.recv(&mut *got, 0, stream)?),
        _ => {}
    }
    comm.barrier(stream)?;
    sum.fill_zero(stream)?;
    Ok(())
}

/// A variant of the steps: whether they are captured, and the data that differs.
#[derive(Clone, Copy, Default)]
struct Steps {
    are_captured: bool,
    /// The last element that rank 2 gives to the all-gather of the second step.
    gathered: i32,
    /// The value of the elements in the step that is left out of the record.
    unread: i32,
}

fn steps(rank: &Rank, changed: Steps) -> Result<()> {
    let device = rank.device();
    let stream = device.stream()?;
    let mut comm = rank.communicator()?;
    let (me, n) = (rank.index() as i32, rank.world_size() as usize);
    let memory = &mut Memory {
        x: device.upload(&[me; 40], &stream)?,
        sum: device.zeros(40, &stream)?,
        y: device.upload(&[me + 1; 8], &stream)?,
        all: device.zeros(8 * n, &stream)?,
        sent: device.upload(&[me + 2; 3], &stream)?,
        got: device.zeros(3, &stream)?,
    };
    comm.connect().wait()?;
    let others: Vec<u32> = (0..rank.world_size()).filter(|other| *other != rank.index()).collect();
    comm.connect_to(&others).wait()?;
    let mut graph = match changed.are_captured {
        true => {
            let capture = device.begin_capture()?;
            step(memory, &mut comm, &capture)?;
            let graph = capture.end()?;
            // The graph counts the operations of the step, but not the copies for the record.
            assert_eq!(graph.len(), if me < 2 { 8 } else { 7 });
            Some(graph)
        }
        false => None,
    };
    for number in 0..4 {
        // The third step is left out of the record.
        let is_left_out = number == 2;
        comm.set_recorded(!is_left_out);
        let mut y = vec![if is_left_out { changed.unread } else { me + number }; 8];
        if number == 1 && me == 2 {
            y[7] = changed.gathered;
        }
        memory.x.upload(&[me + number; 40], &stream)?;
        memory.y.upload(&y, &stream)?;
        match &mut graph {
            Some(graph) => drop(graph.replay(&stream)?),
            None => step(memory, &mut comm, &stream)?,
        }
        // Operations between two replays take numbers too.
        let Memory { sent, got, .. } = &mut *memory;
        let (next, before) = ((rank.index() + 1) % 3, (rank.index() + 2) % 3);
        comm.batch().send(&*sent, next).recv(&mut *got, before).submit(&stream)?;
        comm.all_reduce_in_place(&mut *got, Max, &stream)?;
    }
    stream.synchronize()
}

/// The contents of the files of a recorded run, by their names.
type Files = BTreeMap<String, Vec<u8>>;

/// Records a run of three ranks, with all bytes of one operation.
fn recorded_steps(name: &str, changed: Steps) -> Files {
    let runtime = runtime_with(3);
    let name = format!("hccl-replays-{name}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let record = RunRecord::new(&directory).whole(LOCATED);
    let recording = runtime.record_run(record).unwrap();
    runtime.run_ranks(3, |rank| steps(&rank, changed)).unwrap();
    recording.finish().unwrap();
    let read = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        // Without the device, which depends on other tests.
        let name = name.split_once(".device-").map_or(name, |(rank, _)| rank);
        let end = path.extension().unwrap().to_str().unwrap();
        (format!("{name}.{end}"), std::fs::read(path).unwrap())
    };
    let entries = std::fs::read_dir(&directory).unwrap();
    let files = entries.map(|entry| read(&entry.unwrap().path())).collect();
    std::fs::remove_dir_all(&directory).unwrap();
    files
}

/// The operation whose input differs in one element.
const LOCATED: &str = "world all_gather 8";

/// Returns the lines of a rank's operations, without their position in the process.
fn lines(files: &Files, rank: u32) -> Vec<String> {
    let text = std::str::from_utf8(&files[&format!("world.1.rank-{rank}.run")]).unwrap();
    let line = |line: &str| line.split_once('\t').unwrap().1.to_owned();
    text.lines().skip(1).map(line).collect()
}

#[test]
fn a_run_with_replays_leaves_the_lines_of_the_run_that_issues_its_steps_again() {
    let plain = Steps { gathered: 5, ..Steps::default() };
    let eager = recorded_steps("eager", plain);
    let captured = Steps { are_captured: true, unread: -7, ..plain };
    let captured = recorded_steps("captured", captured);
    for rank in 0..3 {
        let (eager, captured) = (lines(&eager, rank), lines(&captured, rank));
        // A barrier and four messages for the links. Then three steps: four collectives and two
        // messages, one more message on two ranks, and after the step two messages and one
        // collective. The step that is left out writes no line, and the operations after it write
        // none either.
        let message = if rank < 2 { 1 } else { 0 };
        assert_eq!(eager.len(), 1 + 4 + 3 * (4 + 2 + message + 2 + 1), "{eager:?}");
        assert_eq!(eager, captured, "rank {rank}");
    }
    let first = lines(&captured, 0);
    let has = |operation: &str| {
        first.iter().any(|line| line.split_once('\t').is_some_and(|(name, _)| name == operation))
    };
    for operation in [
        "world all_gather 18",
        "world send to 1 12",
        "world batch recv from 2 8",
        "world barrier 20",
    ] {
        assert!(has(operation), "{operation} is not in {first:?}");
    }
    for operation in ["world all_gather 13", "world send to 1 9", "world batch recv from 2 6"] {
        assert!(!has(operation), "{operation} is in {first:?}");
    }
}

#[test]
fn two_runs_that_differ_within_a_replay_differ_in_the_line_of_the_operation() {
    let plain = Steps { are_captured: true, gathered: 5, unread: 0 };
    let a = recorded_steps("one", plain);
    let b = recorded_steps("other", Steps { gathered: 6, ..plain });
    let again = recorded_steps("again", plain);
    for rank in 0..3 {
        assert_eq!(lines(&again, rank), lines(&a, rank));
        let (a, b) = (lines(&a, rank), lines(&b, rank));
        let differ = a.iter().zip(&b).filter(|(a, b)| a != b).collect::<Vec<_>>();
        // The other operations of the replay, before and after it, are the same.
        let [(a, b)] = differ[..] else { panic!("{differ:?}") };
        let [a, b] = [a, b].map(|line| line.split('\t').collect::<Vec<_>>());
        let ([name, _, given, got], [_, _, other_given, other_got]) = (&a[..], &b[..]) else {
            panic!("{a:?} {b:?}")
        };
        assert_eq!(*name, LOCATED);
        assert_eq!(given != other_given, rank == 2, "the input of rank {rank}");
        assert!(got != other_got, "the output of rank {rank}");
    }
    // The record has all bytes of the operation at that replay.
    let given = |files: &Files| files["world.1.rank-2.given"].clone();
    let (a, b) = (given(&a), given(&b));
    assert_eq!((a.len(), &a[..28]), (32, &b[..28]));
    assert_eq!((&a[28..], &b[28..]), (&5_i32.to_le_bytes()[..], &6_i32.to_le_bytes()[..]));
}

#[test]
fn an_operation_that_is_captured_while_the_record_is_paused_is_left_out_of_its_replays() {
    let runtime = runtime_with(1);
    let directory = std::env::temp_dir().join(format!("hccl-paused-{}", std::process::id()));
    let recording = runtime.record_run(RunRecord::new(&directory)).unwrap();
    let outcome = runtime.run_ranks(1, |rank| {
        let (device, mut comm) = (rank.device(), rank.communicator()?);
        let stream = device.stream()?;
        let mut x = device.upload(&[1.0f32; 4], &stream)?;
        let capture = device.begin_capture()?;
        comm.set_recorded(false);
        comm.all_reduce_in_place(&mut x, Sum, &capture)?;
        comm.set_recorded(true);
        comm.all_gather_in_place(&mut x, &capture)?;
        let mut graph = capture.end()?;
        assert_eq!(graph.len(), 2);
        // A graph keeps working after its communicator is dropped.
        drop(comm);
        graph.replay(&stream)?;
        graph.replay(&stream)?.wait()
    });
    outcome.unwrap();
    recording.finish().unwrap();
    let path = std::fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let names: Vec<_> = text.lines().skip(1).filter_map(|line| line.split('\t').nth(1)).collect();
    assert_eq!(names, ["world all_gather 2", "world all_gather 4"], "{text}");
}
