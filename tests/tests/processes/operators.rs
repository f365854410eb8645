//! Custom operators on ranks in several processes.

use hccl::operator::Operator;
use hccl::prelude::*;
use hccl::{Error, Result};

use crate::algorithms::{
    chain_broadcast, hand_over, mesh_all_gather, mesh_all_reduce, mesh_all_to_all, ring_all_reduce,
};
use crate::ranks::{Place, Processes, is_rank, names_the_dead, run, until_says};

/// The numbers of ranks in each process: one process for each rank, or mixed with threads.
const MIXES: [&[u32]; 4] = [&[1, 1], &[1, 1, 1], &[2, 1], &[1, 3]];

/// Returns the value of a rank at a place.
fn value(rank: u32, at: u32) -> f32 {
    (rank + 1) as f32 * 1000.0 + (at % 97) as f32
}

fn own(rank: u32, count: u32) -> Vec<f32> {
    (0..count).map(|at| value(rank, at)).collect()
}

fn sums(ranks: u32, count: u32) -> Vec<f32> {
    (0..count).map(|at| (0..ranks).map(|rank| value(rank, at)).sum()).collect()
}

struct Ran<'a> {
    place: &'a Place,
    comm: Communicator,
    stream: Stream,
}

impl<'a> Ran<'a> {
    fn new(place: &'a Place) -> Self {
        let stream = place.device.stream().unwrap();
        Self { place, comm: place.communicator(), stream }
    }

    fn in_place(&mut self, operator: &Operator, x: &[f32]) -> Result<Vec<f32>> {
        let mut x = self.place.device.upload(x, &self.stream)?;
        self.comm.run(operator).in_place(&mut x).submit(&self.stream)?.wait()?;
        x.to_vec(&self.stream).wait()
    }

    fn out_of_place(&mut self, operator: &Operator, x: &[f32], count: usize) -> Result<Vec<f32>> {
        let x = self.place.device.upload(x, &self.stream)?;
        let mut y = self.place.device.zeros::<f32>(count, &self.stream)?;
        self.comm.run(operator).input(&x).output(&mut y).submit(&self.stream)?.wait()?;
        y.to_vec(&self.stream).wait()
    }
}

/// Runs several operators of all ranks, and compares their results.
pub fn all_of(place: &Place) {
    let (me, ranks) = (place.rank, place.ranks);
    let mut ran = Ran::new(place);
    let sum = ring_all_reduce(Sum, 1000);
    let gather = mesh_all_gather();
    let exchange = mesh_all_to_all();
    let broadcast = chain_broadcast(ranks - 1);
    let send = hand_over(0, ranks - 1);
    // The channels exist from the second turn on.
    for count in [1, 1000, 1000, 40_001] {
        let x = own(me, count);
        assert_eq!(ran.in_place(&sum, &x).unwrap(), sums(ranks, count));
        let all: Vec<f32> = (0..ranks).flat_map(|rank| own(rank, count)).collect();
        assert_eq!(ran.out_of_place(&gather, &x, all.len()).unwrap(), all);
        let to_all: Vec<f32> = (0..ranks)
            .flat_map(|to| own(me, count).into_iter().map(move |x| x + to as f32))
            .collect();
        let from_all: Vec<f32> = (0..ranks)
            .flat_map(|from| own(from, count).into_iter().map(move |x| x + me as f32))
            .collect();
        assert_eq!(ran.out_of_place(&exchange, &to_all, to_all.len()).unwrap(), from_all);
        assert_eq!(ran.in_place(&broadcast, &x).unwrap(), own(ranks - 1, count));
        if me == 0 {
            let x = place.device.upload(&x, &ran.stream).unwrap();
            let run = ran.comm.run(&send).input(&x);
            run.submit(&ran.stream).unwrap().wait().unwrap();
        } else if me == ranks - 1 {
            let mut y = place.device.zeros::<f32>(count as usize, &ran.stream).unwrap();
            let run = ran.comm.run(&send).output(&mut y);
            run.submit(&ran.stream).unwrap().wait().unwrap();
            assert_eq!(y.to_vec(&ran.stream).wait().unwrap(), own(0, count));
        }
    }
    // The operators work between other operations of the program.
    ran.comm.barrier(&ran.stream).unwrap().wait().unwrap();
}

#[test]
fn operators_give_between_processes_what_they_give_between_threads() {
    for each in MIXES {
        const NAME: &str =
            "operators::operators_give_between_processes_what_they_give_between_threads";
        run(NAME, each, |place| all_of(&place));
    }
}

/// Ends the process of a rank that takes no part in the operator. The ranks of the operator may
/// wait for each other at that time.
#[test]
fn an_operator_of_some_ranks_goes_on_when_the_process_of_another_one_ends() {
    const NAME: &str =
        "operators::an_operator_of_some_ranks_goes_on_when_the_process_of_another_one_ends";
    run(NAME, &[1, 1, 1], |place| {
        let mut ran = Ran::new(&place);
        let gather = mesh_all_gather();
        ran.out_of_place(&gather, &own(place.rank, 10), 30).unwrap();
        let send = hand_over(0, 1);
        for round in 0..3 {
            let mut x = place.device.upload(&own(0, 100), &ran.stream).unwrap();
            match place.rank {
                0 => {
                    // By then rank 1 waits, and the process of rank 2 has ended.
                    std::thread::sleep(std::time::Duration::from_millis(150));
                    ran.comm.run(&send).input(&x).submit(&ran.stream).unwrap().wait().unwrap();
                }
                1 => {
                    ran.comm.run(&send).output(&mut x).submit(&ran.stream).unwrap().wait().unwrap();
                }
                _ if round == 0 => {}
                _ => return,
            }
        }
    });
}

#[test]
fn reductions_of_all_processes_into_one_memory_lose_nothing() {
    for each in MIXES {
        run("operators::reductions_of_all_processes_into_one_memory_lose_nothing", each, |place| {
            let mut ran = Ran::new(&place);
            let sum = mesh_all_reduce(Sum);
            for count in [3, 70_000] {
                for _ in 0..10 {
                    let found = ran.in_place(&sum, &own(place.rank, count)).unwrap();
                    let expected = sums(place.ranks, count);
                    let wrong = (0..found.len()).filter(|at| found[*at] != expected[*at]);
                    let wrong: Vec<usize> = wrong.collect();
                    let show = |at: &usize| (*at, found[*at], expected[*at]);
                    let first: Vec<_> = wrong.iter().take(3).map(show).collect();
                    assert!(
                        wrong.is_empty(),
                        "{} of {count} differ, first {first:?}, last {:?}",
                        wrong.len(),
                        wrong.last()
                    );
                }
            }
        });
    }
}

#[test]
fn a_process_that_is_killed_in_an_operator_is_named() {
    const NAME: &str = "operators::a_process_that_is_killed_in_an_operator_is_named";
    const DEAD: u32 = 1;
    let body = |place: Place| {
        let mut ran = Ran::new(&place);
        let sum = ring_all_reduce(Sum, 1000);
        let x = own(place.rank, 5000);
        ran.in_place(&sum, &x).unwrap();
        println!("joined");
        let error: Error =
            std::iter::repeat_with(|| ran.in_place(&sum, &x)).find_map(Result::err).unwrap();
        names_the_dead(&error, DEAD);
        // The end of this process must not be the first death that the other rank sees.
        std::thread::sleep(std::time::Duration::from_secs(2));
    };
    if is_rank(body) {
        std::process::exit(0);
    }
    let mut ranks = Processes::start(NAME, &[1, 1, 1]);
    until_says(&mut ranks.children[DEAD as usize], "joined");
    ranks.children[DEAD as usize].kill().unwrap();
    for (rank, output) in ranks.outputs().iter().enumerate() {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(rank == DEAD as usize || output.status.success(), "rank {rank}: {text}");
    }
}

#[test]
fn a_rank_that_makes_no_channel_is_named() {
    run("operators::a_rank_that_makes_no_channel_is_named", &[1, 1], |place| {
        place.meet();
        let limit = std::time::Duration::from_secs(2);
        let builder = Runtime::emulator_builder().devices(2).connect_timeout(limit);
        let device = builder.build().unwrap().device(place.rank as usize).unwrap();
        let place = place.on(device);
        for dead in [0, 1] {
            let mut ran = Ran::new(&place);
            ran.comm.barrier(&ran.stream).unwrap().wait().unwrap();
            if place.rank != dead {
                let error = ran.in_place(&mesh_all_reduce(Sum), &[1.0]).unwrap_err();
                let text = error.to_string();
                assert!(text.contains(&format!("rank {dead} made no channel")), "{text}");
            }
            ran.comm.barrier(&ran.stream).unwrap().wait().unwrap();
        }
        // Another communicator is not affected.
        let found = Ran::new(&place).in_place(&mesh_all_reduce(Sum), &own(place.rank, 1));
        assert_eq!(found.unwrap(), sums(2, 1));
    });
}

#[test]
fn buffers_that_were_reached_from_other_processes_are_freed_with_their_communicators() {
    const NAME: &str = "operators::buffers_that_were_reached_from_other_processes_are_freed_with_their_communicators";
    run(NAME, &[1, 1, 1], |place| {
        let mut parent = place.communicator();
        let stream = place.device.stream().unwrap();
        let free = || place.device.memory_info().unwrap().free;
        parent.barrier(&stream).unwrap().wait().unwrap();
        let before = free();
        for _ in 0..20 {
            let comm = parent.split(Some(0), place.rank).wait().unwrap().unwrap();
            let mut ran = Ran { place: &place, comm, stream: place.device.stream().unwrap() };
            assert_eq!(ran.in_place(&mesh_all_reduce(Sum), &[1.0]).unwrap(), [3.0]);
            assert!(free() < before);
        }
        parent.barrier(&stream).unwrap().wait().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while free() < before && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(free(), before);
        parent.barrier(&stream).unwrap().wait().unwrap();
    });
}
