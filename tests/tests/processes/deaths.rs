//! Processes that are killed or stopped at any moment: the other processes end with an error that
//! names the dead rank, and no memory is damaged.
//!
//! `cargo test` makes a few rounds; `HCCL_TEST_ROUNDS=1000` makes that many.

use std::time::{Duration, Instant};

use hccl::prelude::*;
use hccl::{Error, Result};

use crate::ranks::{Place, Processes, is_rank, signal};

/// The rank that is killed or stopped.
const DEAD: u32 = 1;

/// Returns the number of rounds that the environment requests, or `few`.
pub fn rounds(few: u64) -> u64 {
    std::env::var("HCCL_TEST_ROUNDS").map_or(few, |rounds| rounds.parse().unwrap())
}

/// Runs operations of every kind and size, until one fails.
fn work(comm: &mut Communicator, device: &Device) -> Error {
    let stream = device.stream().unwrap();
    let (me, ranks) = (comm.rank(), comm.world_size());
    let mut large = device.upload(&vec![1.0f32; 1 << 20], &stream).unwrap();
    let mut small = device.upload(&[1.0f32; 8], &stream).unwrap();
    let mut theirs = device.zeros::<f32>(1 << 20, &stream).unwrap();
    let mut round = || -> Result<()> {
        comm.barrier(&stream)?.wait()?;
        comm.all_reduce_in_place(&mut small, Max, &stream)?.wait()?;
        comm.all_reduce_in_place(&mut large, Max, &stream)?.wait()?;
        let (next, previous) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
        comm.batch().send(&large, next).recv(&mut theirs, previous).submit(&stream)?.wait()?;
        let part = theirs.len() / ranks as usize;
        let (mut piece, whole) = (device.zeros::<f32>(part, &stream)?, part * ranks as usize);
        comm.reduce_scatter(&large.slice(..whole)?, &mut piece, Max, &stream)?.wait()?;
        comm.all_gather(&piece, &mut theirs.slice_mut(..whole)?, &stream)?.wait()?;
        Ok(())
    };
    std::iter::repeat_with(&mut round).find_map(Result::err).unwrap()
}

#[test]
fn whoever_is_killed_whenever_the_others_end_and_name_it() {
    const NAME: &str = "deaths::whoever_is_killed_whenever_the_others_end_and_name_it";
    let body = |place: Place| {
        let error = match place.joined() {
            Ok(mut comm) => work(&mut comm, &place.device),
            Err(error) => error,
        };
        let text = error.to_string();
        // A rank that was killed before it reached the other ranks is only missing.
        if error.missing_ranks() == [DEAD] {
            println!("it had not come");
            return;
        }
        assert!(text.contains("(process ") && text.contains("has ended)"), "{text}");
        assert!(error.gone_ranks().contains(&DEAD), "{text}");
    };
    if is_rank(body) {
        std::process::exit(0);
    }
    let mut random = fastrand::Rng::with_seed(17);
    let (mut delays, mut unknown, mut stretch) = (Vec::new(), 0, 1);
    let wanted = rounds(8) as usize;
    while delays.len() < wanted {
        let round = delays.len() + unknown;
        let mut processes = Processes::start(NAME, &[1, 1, 1]);
        let after = random.u64(20..200) * stretch;
        std::thread::sleep(Duration::from_millis(after));
        processes.children[DEAD as usize].kill().unwrap();
        let began = Instant::now();
        let mut had_come = true;
        for (rank, output) in processes.outputs().iter().enumerate() {
            if rank as u32 != DEAD {
                let err = String::from_utf8_lossy(&output.stderr);
                assert!(
                    output.status.success(),
                    "round {round}, killed after {after} ms, rank {rank}:\n{err}"
                );
                let out = String::from_utf8_lossy(&output.stdout);
                had_come &= !out.contains("it had not come");
            }
        }
        match had_come {
            true => delays.push(began.elapsed().as_millis()),
            false => unknown += 1,
        }
        // On a busy machine the ranks take longer to arrive.
        if unknown > delays.len() {
            stretch *= 2;
            assert!(stretch <= 256, "{unknown} rounds say nothing");
        }
    }
    delays.sort_unstable();
    let (median, worst) = (delays[delays.len() / 2], delays[delays.len() - 1]);
    println!(
        "until the others had ended: median {median} ms, worst {worst} ms, of {}; {unknown} were killed before they had come",
        delays.len()
    );
}

#[test]
fn memory_of_an_operation_with_a_stopped_rank_is_touched_by_nobody_later() {
    const NAME: &str =
        "deaths::memory_of_an_operation_with_a_stopped_rank_is_touched_by_nobody_later";
    let body = |place: Place| {
        // The emulator gives up operations after a second, if it can.
        let config = hccl::CommConfig::builder().exec_timeout(Duration::from_secs(1)).build();
        let mut comm = place.joined_with(config).unwrap();
        let stream = place.device.stream().unwrap();
        if place.rank == DEAD {
            work(&mut comm, &place.device);
            return;
        }
        // The other rank is stopped after a while, at any wait of this rank.
        let count = 1 << 20;
        let mut x = place.device.upload(&vec![1.0f32; count], &stream).unwrap();
        let mut small = place.device.upload(&[1.0f32; 8], &stream).unwrap();
        let mut theirs = place.device.zeros::<f32>(count, &stream).unwrap();
        let mut step = |limit| -> Result<()> {
            comm.barrier(&stream)?.wait_timeout(limit)?;
            comm.all_reduce_in_place(&mut small, Max, &stream)?.wait_timeout(limit)?;
            comm.all_reduce_in_place(&mut x, Max, &stream)?.wait_timeout(limit)?;
            comm.batch()
                .send(&x, DEAD)
                .recv(&mut theirs, DEAD)
                .submit(&stream)?
                .wait_timeout(limit)?;
            let mut piece = place.device.zeros::<f32>(count / 2, &stream)?;
            comm.reduce_scatter(&x, &mut piece, Max, &stream)?.wait_timeout(limit)?;
            comm.all_gather(&piece, &mut theirs, &stream)?.wait_timeout(limit)?;
            Ok(())
        };
        // The step runs once to its end, so that there are links and no call waits for the stopped
        // rank.
        step(Duration::from_secs(60)).unwrap();
        println!("all are there");
        let limit = Duration::from_millis(400);
        let error = std::iter::repeat_with(|| step(limit)).find_map(Result::err).unwrap();
        assert!(error.is_timeout(), "{error}");
        std::thread::sleep(Duration::from_millis(1200));
        drop((x, small, theirs));
        // This fills the memory that is free now, which must keep its contents.
        let other = place.device.stream().unwrap();
        let fresh: Vec<_> =
            (0..6).map(|_| place.device.upload(&vec![7u32; count], &other).unwrap()).collect();
        println!("go on");
        std::thread::sleep(Duration::from_millis(500));
        for buffer in fresh {
            let found = buffer.to_vec(&other).wait().unwrap();
            assert!(found.iter().all(|value| *value == 7), "somebody has written");
        }
        comm.abort().unwrap();
    };
    if is_rank(body) {
        std::process::exit(0);
    }
    use std::io::{BufRead, BufReader};
    let mut random = fastrand::Rng::with_seed(18);
    for round in 0..rounds(4) {
        let mut processes = Processes::start(NAME, &[1, 1]);
        let out = processes.children[0].stdout.take().unwrap();
        let mut lines = BufReader::new(out).lines().map(Result::unwrap);
        let mut says = |words| lines.by_ref().any(|line| line.contains(words));
        let mut goes_on = false;
        if says("all are there") {
            std::thread::sleep(Duration::from_millis(random.u64(0..150)));
            signal(&processes.children[DEAD as usize], libc::SIGSTOP);
            goes_on = says("go on");
            signal(&processes.children[DEAD as usize], libc::SIGCONT);
        }
        let outputs = processes.outputs();
        for (rank, output) in outputs.iter().enumerate() {
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(goes_on && output.status.success(), "round {round}, rank {rank}:\n{err}");
        }
    }
}
