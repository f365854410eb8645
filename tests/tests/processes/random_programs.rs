//! Random programs whose ranks are processes, or processes mixed with threads: their results equal
//! those of the interpreter.
//!
//! Each rank makes the program from its seed, so no rank sends it. The ranks of a program make the
//! root infos of its communicators in turn. A communicator that all programs of a run share sends
//! them to the other ranks. A program that fails is printed, and `HCCL_TEST_SEED=n` repeats the
//! program with that number. It is not made shorter as programs between threads are, so try whether
//! it fails there, too.

use hccl::prelude::*;
use hccl_tests::full;

use crate::programs::execute::{World, play};
use crate::programs::generate::generate;
use crate::programs::interpret::interpret;
use crate::programs::program::{Origin, Program};
use crate::programs::shrink::compare;
use crate::ranks::{Place, run};

/// Returns the programs of a run.
fn programs(most_ranks: u32) -> impl Iterator<Item = Program> {
    let (seeds, count) = match std::env::var("HCCL_TEST_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("HCCL_TEST_SEED is a number");
            (seed..seed + 1, 1)
        }
        Err(_) if full() => (0..usize::MAX, 300),
        Err(_) => (0..usize::MAX, 12),
    };
    let programs = seeds.map(move |seed| generate(seed, Product::A3, most_ranks as usize));
    // Programs of one rank involve no other process.
    programs.filter(|program| program.ranks > 1).take(count)
}

/// Returns the root info that rank `by` makes and broadcasts to all ranks.
fn shared_root(place: &Place, by: u32, all: &mut Communicator, stream: &Stream) -> RootInfo {
    let mut bytes = vec![0; RootInfo::BYTES];
    if place.rank == by {
        bytes.copy_from_slice(RootInfo::new(&place.device).unwrap().to_bytes());
    }
    let mut shared = place.device.upload(&bytes, stream).unwrap();
    all.broadcast(&mut shared, by, stream).unwrap().wait().unwrap();
    RootInfo::from_bytes(&shared.to_vec(stream).wait().unwrap()).unwrap()
}

/// Runs this rank's part of all programs.
pub fn rank(place: &Place) {
    let stream = place.device.stream().unwrap();
    let mut all = place.communicator();
    for program in programs(place.ranks) {
        let beginnings = program.beginnings();
        let mut roots = Vec::new();
        for (number, (team, at)) in program.teams.iter().zip(beginnings).enumerate() {
            let needs_root = at.is_some() && matches!(team.origin, Origin::World | Origin::Meeting);
            let by = ((program.seed + number) % place.ranks as usize) as u32;
            roots.push(needs_root.then(|| shared_root(place, by, &mut all, &stream)));
        }
        // The last ranks have no part in this program.
        let (index, ranks) = (place.rank, program.ranks as u32);
        if index >= ranks {
            continue;
        }
        let (device, root) = (place.device.clone(), roots[0].clone());
        let world: World = Box::new(move || {
            let builder = Communicator::builder().device(&device).rank(index).world_size(ranks);
            builder.root_info(root.as_ref().expect("its root info")).build().wait()
        });
        let found = play(&program, index as usize, place.device.clone(), world, &roots);
        let found = found.unwrap_or_else(|error| panic!("rank {index}: {error}\n{program}"));
        let expected = interpret(&program);
        if let Err(failure) = compare(index as usize, &found, &expected[index as usize]) {
            panic!("{failure}\n{program}");
        }
    }
    // A root info can be used only while the process that has made it lives.
    all.barrier(&stream).unwrap().wait().unwrap();
}

#[test]
fn programs_do_what_the_interpreter_does() {
    let spreads: &[&[u32]] = if full() {
        &[&[1, 1], &[1; 3], &[2, 1], &[2, 3], &[1; 8], &[4, 1, 3]]
    } else {
        &[&[1, 1, 1], &[2, 3]]
    };
    for each in spreads {
        let name = "random_programs::programs_do_what_the_interpreter_does";
        run(name, each, |place| rank(&place));
    }
}
